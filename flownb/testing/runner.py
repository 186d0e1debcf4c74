"""Runs a workflow and keeps what it published, for tests of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from flownb.events import Event, StartEvent
from flownb.workflow import Workflow


@dataclass(frozen=True)
class WorkflowTestResult:
    """What a run gave."""

    #: What it published, in order.
    collected: list[Event]
    #: How many of each type are in `collected`.
    event_types: dict[type[Event], int]
    result: Any
    #: For a run that goes on with its state: `run(ctx=...)`.
    ctx: Any


class WorkflowTestRunner:
    """Runs a workflow to its end: `(await WorkflowTestRunner(flow).run(Begin(n=3))).result`."""

    def __init__(self, workflow: Workflow[Any]) -> None:
        self._workflow = workflow

    async def run(
        self,
        start_event: StartEvent | None = None,
        ctx: Any = None,
        expose_internal: bool = True,
        exclude_events: Collection[type[Event]] | None = None,
    ) -> WorkflowTestResult:
        """Run it once.

        Args:
            start_event: Its input; None for a plain `StartEvent`.
            ctx: Of another run, to go on with its state.
            expose_internal: Also collect what the engine says of itself.
            exclude_events: Exactly these types are not collected.

        Raises:
            Exception: What awaiting the run raises.
        """
        run = self._workflow.run(ctx=ctx, start_event=StartEvent() if start_event is None else start_event)
        left_out = frozenset(exclude_events or ())
        collected = [ev async for ev in run.stream_events(expose_internal) if type(ev) not in left_out]
        result = await run
        return WorkflowTestResult(collected, dict(Counter(map(type, collected))), result, run.ctx)


__all__ = ["WorkflowTestResult", "WorkflowTestRunner"]
