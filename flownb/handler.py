"""The handle of a run, under its older name."""

from __future__ import annotations

from flownb.run import Run

WorkflowHandler = Run

__all__ = ["WorkflowHandler"]
