"""What may pass when."""

import pytest

from flownb.core import ticks as t
from flownb.core.gate import is_beaten, is_control, may_pass
from flownb.core.state import Timer
from flownb.testing import feed, out, spec, started, step

FLOW = spec(step("work", "Start", "Stop"))


@pytest.mark.parametrize("kind", [*t.CONTROL, *t.WORK])
def test_control_ticks_pass_a_closed_gate_and_work_waits(kind):
    """R1.24: pause, continue, grants, cancel and take-over always; all else when the gate lets it."""
    fields = dict.fromkeys(kind.__struct_fields__)
    tick = kind(**{**fields, "at": 0.0})
    opened, _ = feed(started(FLOW))
    closed, _ = feed(opened, t.GateClosed(0.0))

    assert is_control(tick) is (kind in t.CONTROL)
    assert may_pass(opened, tick)
    assert may_pass(closed, tick) is (kind in t.CONTROL)
    assert may_pass(feed(closed, t.StepsGranted(0.0, 1))[0], tick)
    assert not may_pass(feed(closed, t.CancelRequested(0.0))[0], tick)


def test_a_deadline_never_beats_an_answer_that_waits():
    """R1.27: to its own question."""
    deadline, sleep = Timer(1, 5.0, "deadline", ref=3), Timer(2, 5.0, "sleep", ref=3)
    answer = t.RequestAnswered(4.0, 3, out("Reply"))
    other = t.RequestAnswered(4.0, 4, out("Reply"))

    assert is_beaten(deadline, [other, t.QuietNoticed(1.0), answer])
    assert not is_beaten(deadline, [other, t.RequestDisposed(4.0, 3)])
    assert not is_beaten(deadline, [])
    assert not is_beaten(sleep, [answer])


def test_a_timer_that_fell_due_while_the_gate_was_closed_is_due_when_it_opens():
    """R1.26, R1.22: it waits in the state, with its old moment; nothing is lost and nothing passes."""
    state, _ = feed(started(FLOW))
    state, _ = feed(state, t.WaitOpened(0.0, "work", 1, 1, 1, t.Sleep(5.0)), t.GateClosed(1.0))
    fired = t.TimerFired(9.0, 1)
    assert not may_pass(state, fired)
    assert state.timers[1].due_at == 5.0
    state, commands = feed(state, t.GateOpened(10.0))
    assert (commands, state.timers[1].due_at) == ((), 5.0)
    assert may_pass(state, fired)
    assert feed(state, fired)[0].at == 10.0
