"""A person's hand in what comes next: `run.debug.edit`, `drop`, `admit` and `fire` (R5.28 to R5.31, R5.73).

What waits before the gate is no tick yet: it is changed where it stands, in the durable inbox too, and says so itself
once it is one (`Tick.hand`). So a kill between a click and the next tick loses neither the event nor what somebody made
of it. What has passed the gate and waits for a worker stands in the state: a tick of its own changes that.

What is looked at and what is done about it happen between two turns: nothing is admitted meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pydantic import BaseModel

from flownb.answering import answer_type, validated
from flownb.core.ticks import (
    AnyTick,
    EventArrived,
    EventDropped,
    EventEdited,
    EventsSent,
    Hand,
    RequestAnswered,
    TimerFired,
    ValueRecorded,
)
from flownb.debug.editing import edited, in_place_of, maker, original_of, with_fields
from flownb.debug.inbox import Work, work_of
from flownb.debug.meant import (
    before_it,
    droppable,
    place_of,
    refuse_drop,
    refuse_end,
    refuse_open,
    refuse_order,
    refuse_viewer,
    timer_of,
    unbegun,
)
from flownb.debug.subjects import outs_of
from flownb.defaults import options
from flownb.errors import WorkflowConfigurationError
from flownb.events import OutcomeUnknown
from flownb.forking import refuse_stranger
from flownb.outside import runs, step_ticks
from flownb.run import Run
from flownb.runtime.acting import closed_at_deadline
from flownb.runtime.pending import Pending
from flownb.runtime.questions import accepted_of
from flownb.runtime.results import value_out
from flownb.runtime.runner import Runner
from flownb.runtime.stored import pass_on
from flownb.snapshot import between_turns
from flownb.store.marks import UnknownEvent

if TYPE_CHECKING:
    from flownb.moment import Moment


def edit(run: Run[Any], what: Any, event: Any) -> Pending[Moment]:
    """As `Debugger.edit` says."""
    runner = run._runner

    def act() -> Pending[Moment]:
        refuse_end(runner)
        if not isinstance(what, Work):
            i = place_of(runner, what)
            _stands(runner, i, _edited(runner, runner.inbox[i], event))
            return _told(run, lambda: True)
        d = unbegun(runner, what)
        old = outs_of(d)
        outs = in_place_of(old, event, maker(runner, runner.definition, runner.state.at), f"step {what.step!r}")
        for out in outs:
            if out.key not in {was.key for was in old}:
                refuse_stranger(runner.state.spec, what.step, out)
        pass_on(runner, EventEdited(_now(runner), what.step, d.id, outs, old, options.user))
        return _told(run, lambda: not any(isinstance(tick, EventEdited) for tick in runner.control))

    return between_turns(runner, act)


def drop(run: Run[Any], what: Any) -> Pending[Moment]:
    """As `Debugger.drop` says."""
    runner = run._runner

    def act() -> Pending[Moment]:
        refuse_end(runner)
        gone = droppable(runner, what)
        if gone is None:
            i = place_of(runner, what)
            tick = runner.inbox[i]
            refuse_drop(tick)
            refuse_open(runner)
            is_in_order = not before_it(tick, islice(runner.inbox, i))
            made = replace(tick, outs=()) if isinstance(tick, EventsSent) else tick
            _stands(runner, i, replace(made, hand=replace(_hand(tick), is_dropped=True, original=original_of(tick))))
            return _admit(run, i) if is_in_order else _told(run, lambda: True)  # it passes in its turn
        for d in gone:
            step = runner.state.spec.steps[d.step].name
            pass_on(runner, EventDropped(_now(runner), step, d.id, outs_of(d), options.user))
        ids = {d.id for d in gone}
        return _told(run, lambda: not any(d.id in ids for d in work_of(runner.state)))

    return between_turns(runner, act)


def admit(run: Run[Any], what: Any) -> Pending[Moment]:
    """As `Debugger.admit` says."""
    runner = run._runner

    def act() -> Pending[Moment]:
        refuse_end(runner)
        i = place_of(runner, what)
        refuse_open(runner)
        refuse_order(runner.inbox[i], islice(runner.inbox, i))
        return _admit(run, i)

    return between_turns(runner, act)


def fire(run: Run[Any], what: Any) -> Pending[Moment]:
    """As `Debugger.fire` says."""
    runner = run._runner

    def act() -> Pending[Moment]:
        refuse_end(runner)
        refuse_viewer(runner)
        state, now = runner.state, _now(runner)
        timer = state.timers[timer_of(runner, what)]
        due = [i for i, tick in enumerate(runner.inbox) if isinstance(tick, TimerFired) and tick.timer == timer.id]
        if not due:
            handle = runner.timers.pop(timer.id, None)
            if handle is not None:
                handle.cancel()
            early = Hand(options.user, early_s=max(0.0, timer.due_at - now))
            runner.put(TimerFired(now, timer.id, closed_at_deadline(runner, timer), hand=early))
            due = [i for i, tick in enumerate(runner.inbox) if isinstance(tick, TimerFired) and tick.timer == timer.id]
        if runner.gate():
            return _admit(run, due[0])
        return _told(run, lambda: runner.state.timers.get(timer.id) is not timer)

    return between_turns(runner, act)


def settle(run: Run[Any]) -> Pending[Moment]:
    """As `Debugger.settle` says."""
    runner = run._runner

    def act() -> Pending[Moment]:
        if not runner.end.done():
            refuse_open(runner)  # a pause that was asked for just now counts
        return _told(run, lambda: not runner.control and not runs(runner))

    return between_turns(runner, act)


# -- doing it


def _edited(runner: Runner, tick: AnyTick, event: Any) -> AnyTick:
    where = type(tick).__name__
    made: AnyTick | None = None if isinstance(tick, ValueRecorded) else _answer(runner, tick, event)
    if made is None and not isinstance(tick, ValueRecorded):
        made = edited(tick, event, maker(runner, runner.definition, runner.state.at), where)
    if made is None:
        raise WorkflowConfigurationError(
            f"{where} brings no event that could be another one. Those that do: a step's end, what it sends, an event "
            "from outside, an answer, a child's end."
        )
    return replace(made, hand=replace(_hand(tick), original=original_of(tick)))


def _answer(runner: Runner, tick: AnyTick, answer: Any) -> RequestAnswered | None:
    """An accepted answer as another one, checked as each is; None for any other tick."""
    opened = runner.state.requests.get(tick.request) if isinstance(tick, RequestAnswered) else None
    if opened is None or isinstance(opened.question.value, OutcomeUnknown):
        return None
    assert isinstance(tick, RequestAnswered)
    if isinstance(answer, Mapping) and isinstance(tick.answer.value, (BaseModel, UnknownEvent)):
        answer = with_fields(tick.answer.value, answer)
    made = replace(tick, answer=runner.checked(value_out(validated(answer_type(runner, opened), answer, {}))))
    with runner.questions.door:
        runner.questions.accepted[tick.request] = accepted_of(made)
    return made


def _stands(runner: Runner, i: int, tick: AnyTick, *, is_stored: bool = True) -> None:
    """Let a tick stand in place of the one that waits there."""
    old = runner.inbox[i]
    if tick.entry and is_stored and runner.committer is not None:
        runner.committer.edit(runner, tick)
    if isinstance(old, EventArrived) and isinstance(tick, EventArrived) and tick.out is not old.out:
        handle = runner.arriving.pop(id(old.out), None)
        if handle is not None:
            runner.arriving[id(tick.out)] = handle
    runner.inbox[i] = tick
    if runner.gatekeeper is not None:
        runner.gatekeeper.replaced(old, tick)
    runner.tell()


def _admit(run: Run[Any], i: int) -> Pending[Moment]:
    """Let the tick at a place pass, and no other; it is marked if others stood before it (R5.73)."""
    runner = run._runner
    if i:
        behind = runner.inbox[i]
        _stands(runner, i, replace(behind, hand=replace(_hand(behind), ahead=i)), is_stored=False)
    tick = runner.inbox[i]
    del runner.inbox[i]
    runner.inbox.appendleft(tick)
    for control in step_ticks(runner, 1):
        runner.put(control)
    return _told(run, lambda: not runner.control and runner.state.budget == 0)


def _told(run: Run[Any], is_there: Callable[[], bool]) -> Pending[Moment]:
    """A handle of the moment in which something is so."""
    handle: Pending[Moment] = Pending("what was changed", run._runner.host.loop)
    run._runner.until("what was changed", is_there).on_end(lambda: handle.resolve_with(lambda: run.now))
    return handle


def _hand(tick: AnyTick) -> Hand:
    return replace(tick.hand, by=options.user) if tick.hand is not None else Hand(options.user)


def _now(runner: Runner) -> float:
    return max(runner.clock.now(), runner.state.at)
