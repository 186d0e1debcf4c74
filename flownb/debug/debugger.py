"""`run.debug`: one tick at a time, and every past state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from flownb.core import commands as c
from flownb.core.state import RunState, is_ended
from flownb.core.ticks import AnyTick
from flownb.debug import goals, hands
from flownb.debug.breakpoints import Breakpoints
from flownb.debug.conditions import Condition, When
from flownb.debug.inbox import Inbox, inbox_of
from flownb.debug.meant import refuse_steps
from flownb.debug.story import story
from flownb.debug.subjects import event_name, step_name
from flownb.errors import WorkflowConfigurationError
from flownb.moment import Moment
from flownb.narration import Story
from flownb.outside import open_gate, step_ticks
from flownb.run import Run
from flownb.runtime.gatekeeper import Goal, Stop, standing_still
from flownb.runtime.pending import Pending
from flownb.runtime.runner import Runner

if TYPE_CHECKING:
    from pathlib import Path

    from flownb.debug.compare import Comparison
    from flownb.debug.divergence import Divergence, Replayed
    from flownb.debug.probe import Probe
    from flownb.debug.tree import Branch

#: A step whose next tick has not arrived yet waits so long for it, then tells who is still running.
STEP_WAIT_S = 1.0


class Debugger:
    """Steps through a run and looks at its past. Back is a view, never an undo."""

    def __init__(self, run: Run[Any]) -> None:
        self._run = run
        self._runner = run._runner

    @property
    def breakpoints(self) -> Breakpoints:
        """Where all runs of this workflow stop: `add(step=..., when=...)`, `remove()`, `disable()`."""
        found: Breakpoints = self._run.workflow.breakpoints  # of a child run, its own workflow's
        return found

    # -- going on

    def step(self, n: int = 1) -> Pending[Moment]:
        """Close an open gate, then admit exactly `n` ticks, as they come.

        A call while an earlier one still waits for its ticks asks for the same ticks, not for more of them: clicks
        of somebody who grows impatient do not add up. A breakpoint may end several steps early, but never stands
        before the first of them.

        Returns:
            A handle of the moment after the n-th, whose `.admitted` tells what they did; if no tick came within a
            second, of the present one, which says who is still running. The grant stays: the tick passes when it comes.

        Raises:
            ValueError: `n` is below 1.
            WorkflowRuntimeError: Another process drives the run, or it was imported; so for `over`, `out` and `run_to`.
        """
        if n < 1:
            raise ValueError(f"step(n) admits at least one tick, got {n}.")
        runner = self._runner
        refuse_steps(runner)
        handle: Pending[Moment] = Pending("the next tick", runner.host.loop)

        def grant() -> None:
            since = runner.state.seq
            if runner.end.done() or runner.suspended:
                handle.resolve(self._run._now(since))
                return
            for tick in step_ticks(runner, n):
                runner.put(tick)
            self._resolve_when(handle, since, lambda: not runner.control and runner.state.budget == 0)
            runner.host.later(STEP_WAIT_S, handle.resolve_with, lambda: self._run._now(since))

        runner.host.call(grant)
        return handle

    def over(self) -> Pending[Moment]:
        """Open the gate until the delivery that the next tick starts or continues is done, with all its attempts and
        waits; after the next tick if that moves none. What runs beside it goes on meanwhile.

        Returns:
            A handle of the moment where it stopped, as of `run_to`.
        """
        return self._go(Pending("the end of the delivery", self._runner.host.loop), goals.Over())

    def out(self) -> Pending[Moment]:
        """Open the gate until the fan-out around what the next tick is about has been gathered; where there is none,
        until the run is over, and the run that has it as its child knows it and stops there. The gate of that one is
        opened too.

        Returns:
            A handle of the moment where it stopped, as of `run_to`.
        """
        runner, parent = self._runner, self._parent()
        handle: Pending[Moment] = Pending("the way out", runner.host.loop)
        left: list[Runner] = []

        def leave_run() -> None:
            link = runner.state.head.parent
            if parent is not None and link is not None:
                left.append(parent)
                parent.stops.append(
                    (goals.child_over(link.child), lambda _: handle.resolve_with(lambda: self._run.now))
                )

        return self._go(handle, goals.Out(leave_run), lambda: bool(left), parent)

    def run_to(
        self,
        *,
        step: Any = None,
        event: Any = None,
        tick: int | None = None,
        when: When | None = None,
        request: bool = False,
    ) -> Pending[Moment]:
        """Open the gate until something happens, then close it. One of:

        Args:
            step: That step was started (its function or name).
            event: A tick brought an event of that type (its class or name).
            tick: Tick number `tick` was admitted.
            when: A function of the `Moment` gives true, or an expression over `event`, `state` and `tick` does, in the
                names of the caller.
            request: A question to a person was opened.

        Returns:
            A handle of the moment where it stopped, whose `.admitted` tells what passed on the way. If the gate is
            closed before by something else (a breakpoint, a person), it stops there and the goal is given up; if the
            run ends or waits for somebody, the handle tells that moment, and the goal stays.

        Raises:
            WorkflowConfigurationError: None or several of them were given.
            WorkflowStepDoesNotExistError: There is no such step.
        """
        hit = self._goal(step, event, tick, when, request)
        runner = self._runner
        if (request and self._run.requests) or (tick is not None and runner.state.seq >= tick):  # it is so already
            return self._run.pause()
        return self._go(Pending("where to run to", runner.host.loop), hit)

    def _goal(self, step: Any, event: Any, tick: int | None, when: When | None, request: bool) -> Stop:
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
            spec = self._runner.state.spec
            return goals.started_step(step_name(step, spec.name, spec.index))
        if event is not None:
            return goals.brought(event_name(event))
        if tick is not None:
            return goals.reached(tick)
        return goals.met(self._runner, Condition(when)) if when is not None else goals.asked

    def _go(
        self,
        handle: Pending[Moment],
        hit: Stop,
        outlives_run: Callable[[], bool] = lambda: False,
        parent: Runner | None = None,
    ) -> Pending[Moment]:
        """Open the gate, and that of a parent, until a goal is reached; the handle may outlive the run, if somebody
        else tells it then."""
        runner = self._runner
        refuse_steps(runner)
        since = runner.state.seq
        failed: list[Exception] = []

        def guarded(before: RunState, at: AnyTick, after: RunState, commands: list[c.AnyCommand]) -> bool:
            try:
                return hit(before, at, after, commands)
            except Exception as error:  # `when` is the user's: stop there, and tell
                failed.append(error)
                return True

        def told(stopped: bool) -> None:
            if failed:
                handle.reject(failed[0])
            elif not (is_ended(runner.state) and outlives_run()):
                handle.resolve(self._run._now(since))

        goal: Goal = guarded, told

        def is_stopped() -> bool:
            if runner.control or not runner.state.gate or (parent is not None and runner.state.gate == ("parent",)):
                return runner.state.status == "waiting" and not runner.control
            if goal in runner.stops:  # something else closed the gate
                runner.stops.remove(goal)
            return True

        def go() -> None:
            nonlocal since
            since = runner.state.seq
            if runner.end.done() or runner.suspended:
                handle.resolve(self._run._now(since))
                return
            runner.stops.append(goal)
            if parent is not None:
                open_gate(parent)
            self._run.cont()
            self._resolve_when(
                handle, since, is_stopped, outlives_run
            )()  # it may wait for somebody, or for its parent's gate

        runner.host.call(go)
        return handle

    def _resolve_when(
        self,
        handle: Pending[Moment],
        since: int,
        is_there: Callable[[], bool],
        outlives_run: Callable[[], bool] = lambda: False,
    ) -> Callable[[], None]:
        """Tell the handle after the turn after which something is so, or the run over; what looks is returned."""
        runner = self._runner

        def look() -> None:
            is_over = is_ended(runner.state)
            if handle.done() or is_over or is_there():
                runner.listeners.remove(look)
                if not (is_over and outlives_run()):
                    handle.resolve_with(lambda: self._run._now(since))

        runner.listeners.append(look)
        return look

    def _parent(self) -> Runner | None:
        """The run that runs this one as its child, if it is driven here."""
        link = self._runner.state.head.parent
        if link is None:
            return None
        here = (runner for runner in tuple(self._runner.host.runners) if isinstance(runner, Runner))
        return next((runner for runner in here if runner.run_id == link.run_id), None)

    def settle(self) -> Pending[Moment]:
        """Wait, before the closed gate, until no step runs any more: all that they did is in `inbox` then, to be looked
        at and admitted in any order.

        Returns:
            A handle of that moment. A step that waits (for a person, a timer, an event) does not run.

        Raises:
            WorkflowRuntimeError: The gate is open.
        """
        return hands.settle(self._run)

    # -- a person's hand in what comes next

    def edit(self, what: Any, event: Any) -> Pending[Moment]:
        """Put another event in the place of one that waits; the journal keeps the original, and who edited it.

        Args:
            what: A tick of `inbox`, or its place there; or one of `inbox.work` that has not begun.
            event: The event; of a fan-out a list of them, of an answer or a child's end that value. Or a mapping of
                the fields that are to be other ones.

        Raises:
            WorkflowConfigurationError: It brings no event, or `event` is none.
            AnswerInvalid: The fields do not fit, one by one.
            WorkflowRuntimeError: It does not wait any more, has begun, or another process drives the run.
            WorkflowDone: The run is over.
        """
        return hands.edit(self._run, what, event)

    def drop(self, what: Any) -> Pending[Moment]:
        """Let an event go nowhere: its branch ends as if nobody took it; the journal keeps it, and who dropped it.

        Args:
            what: A tick of `inbox` that a step sent or that came from outside, or its place; one of `inbox.work`; or a
                step, as its function or name: all of it that no worker has in hand. A step's result itself cannot be
                dropped, nor an event ahead of what the same attempt did before: that one passes in its turn.

        Raises:
            WorkflowRuntimeError: It cannot be dropped, does not wait any more, or the gate is open.
            WorkflowDone: The run is over.
        """
        return hands.drop(self._run, what)

    def admit(self, what: Any) -> Pending[Moment]:
        """Admit a tick of `inbox` ahead of those before it, on purpose: what if it had come first? The journal marks
        it. What one attempt of a step did keeps its order.

        Args:
            what: The tick, or its place in `inbox`.

        Raises:
            WorkflowRuntimeError: The gate is open, or the tick does not wait any more, or is not the first of its
                attempt.
            WorkflowDone: The run is over.
        """
        return hands.admit(self._run, what)

    def fire(self, what: Any) -> Pending[Moment]:
        """Let a timer happen now: the end of a sleep, the next attempt, a deadline. The journal says how early.

        Args:
            what: One of `inbox.timers`, its number, or the step that it is for.

        Raises:
            WorkflowRuntimeError: There is no such timer, or several of that step.
            WorkflowDone: The run is over.
        """
        return hands.fire(self._run, what)

    # -- looking

    @property
    def ticks(self) -> Sequence[AnyTick]:
        """The journal so far; `ticks[k - 1]` is tick k."""
        return tuple(self._runner.ticks)

    @property
    def inbox(self) -> Inbox:
        """What arrived and is not admitted yet, next first: control ticks, then what came and timers that are due, in
        the order of their moments. Beside it, as of the same moment: `work` (what waits for a worker, a timer, a
        person), `joins` (what they lack), `timers`, `people`, and `does`, what each tick would do."""
        return inbox_of(self._runner)

    @property
    def standing_still(self) -> list[tuple[str, str]]:
        """`[(step, what), ...]` of the calls of running steps that cannot go on while the gate is closed: the begin
        and the end of an edit, waits, children, recorded values."""
        return standing_still(self._runner)

    def at(self, seq: int) -> Moment:
        """The run after tick `seq`.

        Raises:
            IndexError: The run has no such tick.
        """
        return self._run._moment(self._runner.history.at(seq))

    def diff(self, a: int, b: int) -> dict[str, tuple[Any, Any]]:
        """`{name: (value after tick a, value after tick b)}` of the user's state, where they differ."""
        return self.at(b).diff(self.at(a))

    def story(self, of: Any) -> Story:
        """The ticks that touch something, each with those of its commands that do.

        Args:
            of: An event, its class or its name; a step, as its function or name; or the number of a tick: what led to
                it, and what it led to.

        Raises:
            WorkflowConfigurationError: It is none of these.
            IndexError: The run has no such tick.
        """
        return story(self._runner, of)

    def probe(self, of: When, start: int = 1, stop: int | None = None) -> Probe:
        """A value over every past tick, as a table: `run.debug.probe("len(state.docs)")`.

        Args:
            of: An expression over `event`, `state` and `tick` in the names of the caller, as `when=` takes; the state
                is the one after the tick. One that speaks of the event is asked for each event that a tick brings, and
                has no row where there is none. Or a function of the `Moment`.
            start: The first tick.
            stop: The last tick; None: the last one that there is now.

        Returns:
            Its rows `(seq, value, error)`: what it raises at a tick stands there, and is not raised.

        Raises:
            WorkflowConfigurationError: It is neither.
            IndexError: The run has no such ticks.
        """
        from flownb.debug.probe import probe  # few runs are probed

        return probe(self._runner, Condition(of, "probe"), start, stop)

    # -- other runs of the same past

    def fork(self, at: int | None = None, *, event: Any = None, state: Any = None) -> Run[Any]:
        """A new run that shares the ticks 1 to `at` with this one, and goes on from there at once.

        Args:
            at: The last tick that is shared; None: the last one that there is.
            event: In place of the event of tick `at`, which is then not shared.
            state: The user's state in place of what it was then.
        """
        from flownb.debug.fork import fork  # few runs are forked

        return fork(self._run, at, event, state)

    def retry(self, step: Any = None, *, event: Any = None) -> Run[Any]:
        """A fork of a failed run just before it failed: what was done is not run again.

        Args:
            step: The failed step, as its function or name; None: the one that failed the run.
            event: In place of the event that it was given.
        """
        from flownb.debug.fork import retry  # few runs are forked

        return retry(self._run, step, event)

    def replay(self, workflow: Any = None, *, live: Collection[Any] = ()) -> Run[Any]:
        """Play this run back as a new run, on the code as it is now, without waiting for recorded times.

        Steps whose source is the same are not run: what they did is recorded. Changed ones run, and those that get an
        event that was not recorded; with `idempotent=False` a question is opened first. Answers, outside events, ends
        of children and timers come from the recording. What a step calls is not its source: name it in `live` if that
        changed. Where the recording ends before the run did, the replay is paused, and `cont()` goes on live.

        Args:
            workflow: Whose code runs; None: the newest definition of this workflow.
            live: Further steps to run, though their source is the same: functions or names.

        Returns:
            The new run; `await` it. Then `.debug.divergence` is the first difference, `.debug.replayed` tells what ran.

        Raises:
            WorkflowNotDefined: This process has not its workflow.
            WorkflowConfigurationError: The workflow does not take this run's input.
        """
        from flownb.debug.replay import replay  # few runs are replayed

        return replay(self._run, workflow, live)

    @property
    def replayed(self) -> Replayed:
        """Of a replay: what came from the recording, what ran, and the first difference.

        Raises:
            WorkflowRuntimeError: This run is no replay, or one of another process.
        """
        from flownb.debug.replay import replayed  # few runs are replays

        return replayed(self._run)

    @property
    def divergence(self) -> Divergence | None:
        """Of a replay: its first difference from what was recorded, None while there is none. Await the replay first.

        Raises:
            WorkflowRuntimeError: As of `replayed`.
        """
        return self.replayed.divergence

    def compare(self, other: Run[Any] | str) -> Comparison:
        """This run and another one side by side: how far they are the same, the first difference, what followed on each
        side, and how they ended. Between forks, replays, imported runs, any two.

        Args:
            other: The other run, or its id.

        Raises:
            RunNotFound: There is no run of that id, in this process or in this run's store.
        """
        from flownb.debug.compare import compare  # few runs are compared

        return compare(self._run, other)

    def tree(self) -> Branch:
        """The runs that come from one another by forks and replays, from the first one; this run is marked."""
        from flownb.debug.tree import tree  # few runs have one

        return tree(self._run)

    def to_test(self, path: str | Path) -> Path:
        """Write a test for pytest that replays this run and asserts its ticks; beside it the recording, as a file.

        Args:
            path: `tests/test_x.py`; the recording is `tests/test_x.flownb.zip`. Of a workflow that is defined in a
                notebook, the test has a fixture to fill in: where the workflow is imported from.

        Returns:
            The test's file.

        Raises:
            WorkflowConfigurationError: There is a file of that name that `to_test` did not write, or it is no `.py`.
            NotStorable: A value of the run can be in no file.
        """
        from flownb.debug.totest import to_test  # few runs become tests

        return to_test(self._run, path)

    def __repr__(self) -> str:
        return (
            f"<Debugger of {self._run!r}: step, over, out, run_to, breakpoints; inbox, edit, drop, admit, fire; ticks, "
            "at, diff, story, probe; fork, retry, replay, compare, tree, to_test>"
        )
