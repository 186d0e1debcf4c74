"""Runs as OpenTelemetry spans: an observer, so a run neither waits for it nor hears of its errors.

    run.observe(Spans())

One span for the run; in it one for each start of a step's code; in those one for each child run. A step that waits,
and a run that is cancelled, did nothing wrong: only failures and time limits are errors. Times are those of the ticks.
"""

from __future__ import annotations

from typing import Any

from flownb.core.changes import Change, changes
from flownb.core.reduce import advance
from flownb.core.state import Child, RunState, is_ended
from flownb.core.ticks import AnyTick, ChildFinished
from flownb.core.values import Failure, Out
from flownb.errors import WorkflowConfigurationError


class Spans:
    """Makes spans of the ticks of one run, from its first tick on.

    Args:
        tracer: Who makes the spans; None is the process's own tracer "flownb".
        context: The context in which the run's span stands; None is the present one.

    Raises:
        WorkflowConfigurationError: OpenTelemetry is not installed.
    """

    def __init__(self, tracer: Any = None, context: Any = None) -> None:
        try:
            from opentelemetry import context as contexts
            from opentelemetry import trace
        except ImportError as error:
            raise WorkflowConfigurationError(
                "Spans needs OpenTelemetry, which is not installed: pip install 'flownb[otel]'."
            ) from error
        self._trace = trace
        self._tracer = trace.get_tracer("flownb") if tracer is None else tracer
        self._context = contexts.get_current() if context is None else context
        self._state: RunState | None = None
        self._run: Any = None
        #: By delivery: the start number and the span.
        self._steps: dict[int, tuple[int, Any]] = {}
        self._children: dict[int, Any] = {}

    def __call__(self, seq: int, tick: AnyTick) -> None:
        """One more tick.

        Raises:
            ValueError: It is not the next one: spans need all ticks from the first one on.
        """
        before = self._state
        if seq != (before.seq + 1 if before is not None else 1):
            raise ValueError(f"Spans need every tick from the first one on; tick {seq} came out of order.")
        state, _ = advance(before, tick)
        if before is None:
            self._begin(state)
        self._state = state
        for change in changes(before, tick, state):
            self._see(change, state)
        self._see_children(before, tick, state)
        if is_ended(state):
            self._end(state)

    def _begin(self, state: RunState) -> None:
        parent = state.head.parent
        attributes = {"flownb.run_id": state.run_id, "flownb.workflow": state.spec.key}
        if parent is not None:
            attributes["flownb.parent"] = parent.run_id
        self._run = self._span(f"run {state.spec.name}", self._context, state.started_at, attributes)

    def _end(self, state: RunState) -> None:
        for child in [*self._children.values()]:
            self._finish(child, state.at)
        for _, span in self._steps.values():
            self._finish(span, state.at)
        self._run.set_attribute("flownb.status", state.status)
        if state.status in ("failed", "timed_out") and state.failure is not None:
            self._fail(self._run, state.failure, state.at)
        self._finish(self._run, state.at)

    # -- steps

    def _see(self, change: Change, state: RunState) -> None:
        started, span = self._steps.get(change.delivery, (0, None))
        if change.state == "running":
            if span is not None and started == change.start:
                span.add_event("goes on", timestamp=_ns(state.at))
                return
            if span is not None:  # its code was lost with its driver, or decided on what is old by now
                self._leave(change.delivery, "started again", state.at)
            self._start(change, state)
        elif span is not None and change.state == "waiting":
            span.add_event("waits", {"flownb.for": ", ".join(change.waits_for)}, timestamp=_ns(state.at))
        elif span is not None and change.state != "queued":
            if change.failure is not None:
                self._fail(span, change.failure, state.at)
            self._leave(change.delivery, change.state, state.at)

    def _start(self, change: Change, state: RunState) -> None:
        name = state.spec.steps[change.step].name
        first = change.out if isinstance(change.out, Out) else next(iter(change.out), None)
        attributes: dict[str, Any] = {
            "flownb.step": name,
            "flownb.delivery": change.delivery,
            "flownb.attempt": change.attempt,
            "flownb.start": change.start,
            "flownb.event": first.key if first is not None else "",
        }
        span = self._span(name, self._in(self._run), state.at, attributes)
        self._steps[change.delivery] = change.start, span

    def _leave(self, delivery: int, how: str, at: float) -> None:
        _, span = self._steps.pop(delivery)
        span.set_attribute("flownb.state", how)
        self._finish(span, at)

    # -- children

    def _see_children(self, before: RunState | None, tick: AnyTick, state: RunState) -> None:
        was = before.side.children if before is not None else None
        now = state.side.children
        if was is now:
            return
        for number, child in now.items():
            if number not in self._children and (was is None or number not in was):
                self._children[number] = self._child_span(child, state)
        for number in [number for number in self._children if number not in now]:
            span = self._children.pop(number)
            if isinstance(tick, ChildFinished) and tick.child == number:
                span.set_attribute("flownb.status", tick.status)
                if tick.status in ("failed", "timed_out") and tick.failure is not None:
                    self._fail(span, tick.failure, state.at)
            self._finish(span, state.at)

    def _child_span(self, child: Child, state: RunState) -> Any:
        _, step = self._steps.get(child.delivery, (0, self._run))
        attributes = {"flownb.run_id": child.run_id, "flownb.workflow": child.workflow}
        return self._span(f"child {child.workflow.rpartition(':')[2]}", self._in(step), state.at, attributes)

    # -- spans

    def _in(self, span: Any) -> Any:
        return self._trace.set_span_in_context(span, self._context)

    def _span(self, name: str, context: Any, at: float, attributes: dict[str, Any]) -> Any:
        return self._tracer.start_span(name, context=context, attributes=attributes, start_time=_ns(at))

    def _fail(self, span: Any, failure: Failure, at: float) -> None:
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, failure.message))
        said = {
            "exception.type": failure.type.replace(":", "."),
            "exception.message": failure.message,
            "exception.stacktrace": failure.traceback,
        }
        span.add_event("exception", said, timestamp=_ns(at))

    def _finish(self, span: Any, at: float) -> None:
        span.end(end_time=_ns(at))


def _ns(at: float) -> int:
    """Unix seconds as OpenTelemetry counts."""
    return int(at * 1_000_000_000)
