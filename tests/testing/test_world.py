"""The model of a driver's hands, which finds commands that are missing, wrong or come twice."""

import pytest

from flownb.core.commands import (
    ArmTimer,
    CloseRequest,
    FinishRun,
    OpenRequest,
    StartChild,
    StartStep,
    StopChild,
    WakeStep,
)
from flownb.core.reduce import begin, reduce
from flownb.core.ticks import Ask, CancelRequested, RunChild, RunForked, RunOpened, Sleep, StepFinished, WaitOpened
from flownb.testing import out, says, spec, started, step
from flownb.testing.world import World

FLOW = spec(step("work", "Start"), step("next", "A"))


def told(*ticks):
    """A world that heard of all these ticks, and the last state with the commands of its tick."""
    first, world = started(FLOW, at=100.0), World()
    state, commands = begin(first)
    world.act(state, first, state, commands)
    for make in ticks:
        tick = make(state)
        before = state
        state, commands = reduce(before, tick)
        world.act(before, tick, state, commands)
    return world, state, commands


def opens(mark, wait):
    return lambda state: says(state, "work", WaitOpened, mark=mark, wait=wait)


EVERYTHING = (
    opens(1, Sleep(110.0)),
    opens(2, Ask(out("Ask"), 120.0)),
    opens(3, RunChild("test:other", out("Start"))),
)


def test_a_world_has_what_the_state_owes():
    """R1.15: code, waits, timers, requests and children, by commands alone; a new driver and a fork get the same."""
    world, state, _ = told(*EVERYTHING)
    assert world.missing(state) == []
    assert (world.code, world.waits) == ({1: 1}, {1: {1, 2, 3}})
    assert (world.timers, world.requests, world.children) == ({1, 2}, {1}, {1})

    for make in (lambda _: RunOpened(130.0, "another"), lambda s: RunForked(130.0, "fork", "run", s.seq)):
        world, state, _ = told(*EVERYTHING, make)
        assert world.missing(state) == []
        assert (world.code, world.timers, world.requests, world.children) == ({}, {1, 2}, {1}, {1})


def test_a_world_says_what_is_missing():
    """In words, for each kind of thing that a driver holds."""
    _, state, _ = told(*EVERYTHING)
    said = World().missing(state)
    assert [line.split(" in hand")[0] for line in said] == ["code", "waits", "timers", "requests", "children"]


def test_a_world_says_what_an_end_left():
    """R2.41: nothing is in hand, and the end came once."""
    world, state, _ = told(*EVERYTHING, lambda state: CancelRequested(130.0))
    assert world.missing(state) == []

    world.timers, world.finished = {7}, 2
    assert world.missing(state) == ["the run is over, but timers of [7] is still there", "FinishRun came 2 times"]
    world._do(FinishRun())
    assert world.missing(state)[-1] == "FinishRun came 3 times"


def test_a_command_that_comes_twice_or_for_nothing_is_an_error():
    """A driver could not carry it out."""
    world, state, _ = told(*EVERYTHING)
    delivery = state.steps[0].waiting[1]
    wrong = {
        "started while its code runs": StartStep(delivery),
        "woken by nothing": WakeStep(delivery, ()),
        "armed twice": ArmTimer(state.timers[1]),
        "opened twice": OpenRequest(state.requests[1]),
        "closed, but is not open": CloseRequest(7, "closed"),
        "child 1 was started twice": StartChild(state.side.children[1]),
        "stopped, but does not run": StopChild(7, "closed"),
    }
    for words, command in wrong.items():
        with pytest.raises(AssertionError, match=words):
            world._do(command)
    with pytest.raises(AssertionError, match="its code is not there"):
        World()._do(WakeStep(delivery, ()))


def test_code_is_gone_once_it_has_said_its_last():
    """What it finished with starts the next."""
    world, state, commands = told(lambda state: says(state, "work", StepFinished, outs=(out("A"),)))
    assert [command.delivery.id for command in commands] == [2]
    assert (world.code, world.missing(state)) == ({2: 1}, [])
