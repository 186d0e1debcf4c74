"""Who caused a tick, and where it came from."""

from typing import Any, get_args

import pytest

from flownb.core import ticks as t
from flownb.core.causes import Source, causes, delivery_of, source_of
from flownb.core.reduce import begin, reduce
from flownb.core.state import RunState
from flownb.core.values import Failure, Out
from flownb.testing.feed import finish, key, out, spec, started, step
from tests.store.samples import EXAMPLES

PLAIN = spec(step("work", "Start", "Ask"))


def play(*ticks: t.AnyTick) -> RunState:
    state, _ = begin(started(PLAIN, at=100.0))
    for tick in ticks:
        state, _ = reduce(state, tick)
    return state


def waits(wait: Any) -> tuple[t.AnyTick, ...]:
    """Tick 2 writes, so that tick 3 opens the wait."""
    return t.StreamWritten(101.0, "work", 1, 1, out("One")), t.WaitOpened(102.0, "work", 1, 1, 1, wait)


def test_every_kind_of_tick_has_a_source():
    """R2.47: step, outside, answer, timer, child; what nobody of these did is the engine's."""
    found = {type(tick).__name__: source_of(tick) for tick in EXAMPLES}
    assert set(found.values()) == set(get_args(Source))
    assert {name for name, source in found.items() if source == "engine"} == {
        "RunForked",
        "RunOpened",
        "GateClosed",
        "GateOpened",
        "StepsGranted",
        "BreakpointHit",
        "HoldChanged",
        "RequestHeld",
        "DefinitionAdopted",
        "RunSuspended",
        "QuietNoticed",
    }


def test_what_a_step_does_is_caused_by_who_sent_its_event():
    flow = spec(step("load", "Start", "Row"), step("work", "Row"))
    state, _ = finish(begin(started(flow))[0], "load", out("Row"))
    tick = t.StepFinished(1.0, "work", 2, 1)
    assert causes(tick, state) == [2]
    assert delivery_of(tick, state) == state.steps[1].active[2]


@pytest.mark.parametrize(
    ("wait", "tick"),
    [
        (t.Sleep(130.0), t.TimerFired(130.0, 1)),
        (t.Await(key("Mail"), due_at=130.0), t.TimerFired(130.0, 1)),
        (t.Ask(out("Ask"), 130.0), t.TimerFired(130.0, 1)),
        (t.Ask(out("Ask")), t.RequestAnswered(110.0, 1, out("Reply"))),
        (t.Ask(out("Ask")), t.RequestDisposed(110.0, 1)),
        (t.Ask(out("Ask"), 130.0), t.RequestHeld(110.0, 1)),
        (t.RunChild("m:Kid", out("Start")), t.ChildFinished(110.0, 1, "completed")),
        (t.RunChild("m:Kid", out("Start")), t.ChildChanged(110.0, 1, False)),
    ],
)
def test_the_end_of_a_wait_is_caused_by_its_beginning(wait: Any, tick: t.AnyTick):
    """R2.47."""
    assert causes(tick, play(*waits(wait))) == [3]


def test_another_attempt_is_caused_by_who_sent_the_event():
    failed = t.StepFailed(101.0, "work", 1, 1, Failure("m:Odd", "no"), 110.0)
    assert causes(t.TimerFired(110.0, 1), play(failed)) == [1]


def test_nothing_in_the_run_caused_a_time_limit():
    first = started(PLAIN, at=100.0)
    limited = t.RunStarted(100.0, "run", first.spec, first.out, terms=t.Terms(timeout_s=5.0))
    state, _ = begin(limited)
    assert causes(t.TimerFired(105.0, 0), state) == []


@pytest.mark.parametrize(
    "tick",
    [
        t.TimerFired(130.0, 9),
        t.RequestAnswered(130.0, 9, Out("m:R", None)),
        t.ChildFinished(130.0, 9, "failed"),
        t.StepFinished(130.0, "work", 9, 1),
        t.StepFinished(130.0, "nobody", 1, 1),
        t.EventArrived(130.0, out("Mail")),
        t.QuietNoticed(130.0),
    ],
)
def test_what_nothing_led_to_has_no_cause(tick: t.AnyTick):
    """Nor has a tick that is late, or the first one."""
    assert causes(tick, play()) == []
    assert causes(tick, None) == []
    assert delivery_of(tick, None) is None
