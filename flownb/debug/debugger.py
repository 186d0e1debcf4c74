"""`run.debug`: one tick at a time, and every past state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flownb.core import commands as c
from flownb.core.state import RunState, is_ended
from flownb.core.ticks import AnyTick, Tick
from flownb.errors import WorkflowConfigurationError, WorkflowStepDoesNotExistError
from flownb.moment import Moment
from flownb.run import Run, step_ticks
from flownb.runtime.pending import Pending
from flownb.runtime.runner import Stop

#: A step whose next tick has not arrived yet waits so long for it, then tells who is still running.
STEP_WAIT_S = 1.0


class Debugger:
    """Steps through a run and looks at its past. Back is a view, never an undo."""

    def __init__(self, run: Run[Any]) -> None:
        self._run = run
        self._runner = run._runner

    def step(self, n: int = 1) -> Pending[Moment]:
        """Close an open gate, then admit exactly `n` ticks, as they come.

        A call while an earlier one still waits for its ticks asks for the same ticks, not for more of them: clicks
        of somebody who grows impatient do not add up.

        Returns:
            A handle of the moment after the n-th; if no tick came within a second, of the present one, which says
            who is still running. The grant stays: the tick passes when it comes.

        Raises:
            ValueError: `n` is below 1.
        """
        if n < 1:
            raise ValueError(f"step(n) admits at least one tick, got {n}.")
        runner = self._runner
        handle: Pending[Moment] = Pending("the next tick", runner.host.loop)

        def grant() -> None:
            if runner.end.done() or runner.suspended:
                handle.resolve(self._run.now)
                return
            for tick in step_ticks(self._run, n):
                runner.put(tick)
            self._resolve_when(handle, lambda: not runner.control and runner.state.budget == 0)
            runner.host.later(STEP_WAIT_S, handle.resolve_with, lambda: self._run.now)

        runner.host.call(grant)
        return handle

    def run_to(
        self,
        *,
        step: Any = None,
        event: Any = None,
        tick: int | None = None,
        when: Callable[[Moment], bool] | None = None,
        request: bool = False,
    ) -> Pending[Moment]:
        """Open the gate until something happens, then close it. One of:

        Args:
            step: That step was started (its function or name).
            event: An event of that type was routed (its class or name).
            tick: Tick number `tick` was admitted.
            when: A function of the `Moment` gives true.
            request: A question to a person was opened.

        Returns:
            A handle of the moment where it stopped; of the present one if the run ends before, or waits for somebody.

        Raises:
            WorkflowConfigurationError: None or several of them were given.
            WorkflowStepDoesNotExistError: There is no such step.
        """
        hit = self._stop(step, event, tick, when, request)
        runner = self._runner
        handle: Pending[Moment] = Pending("where to run to", runner.host.loop)
        failed: list[Exception] = []

        def guarded(before: RunState, at: Tick, after: RunState, commands: list[c.AnyCommand]) -> bool:
            try:
                return hit(before, at, after, commands)
            except Exception as error:  # `when` is the user's: stop there, and tell
                failed.append(error)
                return True

        def told(stopped: bool) -> None:
            if failed:
                handle.reject(failed[0])
            else:
                handle.resolve(self._run.now)

        def go() -> None:
            if runner.end.done() or runner.suspended:
                handle.resolve(self._run.now)
                return
            if request and self._run.requests:  # one is open already
                self._run.pause()
                self._resolve_when(handle, lambda: bool(runner.state.gate))
                return
            runner.stops.append((guarded, told))
            self._resolve_when(handle, lambda: runner.state.status == "waiting" and not runner.control)
            self._run.cont()

        runner.host.call(go)
        return handle

    def _stop(
        self, step: Any, event: Any, tick: int | None, when: Callable[[Moment], bool] | None, request: bool
    ) -> Stop:
        given = [
            name
            for name, value in (("step", step), ("event", event), ("tick", tick), ("when", when))
            if value is not None
        ]
        given += ["request"] if request else []
        if len(given) != 1:
            raise WorkflowConfigurationError(
                f"run_to takes one of step, event, tick, when, request; got {given or 'none'}."
            )
        if step is not None:
            return _started(self._step_index(step))
        if event is not None:
            return _routed(event if isinstance(event, str) else event.__flownb_kind__.key)
        if tick is not None:
            return lambda before, at, after, commands: after.seq >= tick
        if when is not None:
            return lambda before, at, after, commands: bool(when(Moment(after, before, at)))  # type: ignore[arg-type]
        return lambda before, at, after, commands: any(type(command) is c.OpenRequest for command in commands)

    def _step_index(self, step: Any) -> int:
        name = step if isinstance(step, str) else step.__name__
        spec = self._runner.state.spec
        if name not in spec.index:
            raise WorkflowStepDoesNotExistError(name, workflow=spec.name, known=tuple(spec.index))
        return spec.index[name]

    def _resolve_when(self, handle: Pending[Moment], is_there: Callable[[], bool]) -> None:
        runner = self._runner

        def told() -> None:
            if is_there() or is_ended(runner.state) or handle.done():
                runner.listeners.remove(told)
                handle.resolve(self._run.now)

        runner.listeners.append(told)

    @property
    def ticks(self) -> Sequence[AnyTick]:
        """The journal so far; `ticks[k - 1]` is tick k."""
        return tuple(self._runner.ticks)

    @property
    def inbox(self) -> tuple[AnyTick, ...]:
        """What arrived and is not admitted yet, next first."""
        runner = self._runner
        return (*runner.control, *runner.inbox)

    def at(self, seq: int) -> Moment:
        """The run after tick `seq`.

        Raises:
            IndexError: The run has no such tick.
        """
        return self._run._moment(self._runner.history.at(seq))

    def diff(self, a: int, b: int) -> dict[str, tuple[Any, Any]]:
        """`{name: (value after tick a, value after tick b)}` of the user's state, where they differ."""
        return self.at(b).diff(self.at(a))

    def __repr__(self) -> str:
        return f"<Debugger of {self._run!r}: step, run_to, at, diff, ticks, inbox>"


def _started(index: int) -> Stop:
    def hit(before: RunState, tick: Tick, after: RunState, commands: list[c.AnyCommand]) -> bool:
        return any(type(command) is c.StartStep and command.delivery.step == index for command in commands)

    return hit


def _routed(key: str) -> Stop:
    def hit(before: RunState, tick: Tick, after: RunState, commands: list[c.AnyCommand]) -> bool:
        outs = [*getattr(tick, "outs", ()), getattr(tick, "out", None), getattr(tick, "answer", None)]
        return any(out is not None and key in (out.key, out.key.rpartition(":")[2]) for out in outs)

    return hit
