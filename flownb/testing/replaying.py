"""Replays of recorded runs in tests, as those that `run.debug.to_test` writes."""

from __future__ import annotations

from typing import Any

from flownb.debug.archived import replay_file
from flownb.debug.totest import titles
from flownb.run import Run


def assert_replayed(run: Run[Any]) -> None:
    """Fail with the first difference from the recording, in words, or with what keeps the replay from its end.

    Raises:
        AssertionError: The replay is not as it was recorded.
    """
    report = run.debug.replayed
    assert report.divergence is None, str(report.divergence)
    asked = "; ".join(str(getattr(request.question, "prefix", request.question)) for request in run.requests)
    assert report.is_over, f"The replay waits for an answer that is not recorded: {asked}"


__all__ = ["assert_replayed", "replay_file", "titles"]
