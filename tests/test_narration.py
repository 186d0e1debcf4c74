"""One plain sentence for each tick."""

import time
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import BaseModel, Field, SecretStr

from flownb.core import ticks as t
from flownb.core.commands import AnyCommand
from flownb.core.reduce import advance
from flownb.core.spec import Spec
from flownb.core.state import RunState
from flownb.core.values import Failure, Limit, Out
from flownb.events import Event
from flownb.narration import LENGTH, WORDS, told
from flownb.store.marks import UnknownEvent
from flownb.testing.drive import drive
from flownb.testing.feed import event, key, out, says, spec, started, step
from flownb.testing.plan import OPS, Plan
from tests.store.samples import EXAMPLES, MORE

ODD = Failure("builtins:ValueError", "x\nand more")
PLAIN = spec(step("work", "Start", "Stop"))
FAN = spec(
    step("load", "Start", fans="Row"),
    step("score", "Row", "Done", num_workers=2),
    step("sum", gathers="Done", returns="Stop"),
)


class Row(Event):
    no: int


def row(no: int) -> Out:
    return out("Row", Row(no=no))


class Play:
    """Feeds ticks and keeps the sentence of each."""

    def __init__(self, flow: Spec = PLAIN, **fields: Any) -> None:
        self.state: RunState = None  # type: ignore[assignment]
        self.said: list[str] = []
        self.feed(started(flow, at=100.0, **fields))

    def feed(self, *ticks: t.AnyTick) -> str:
        for tick in ticks:
            before = self.state
            self.state, commands = advance(before, tick)
            self.said.append(told(before, tick, self.state, commands))
        return self.said[-1]

    def says(self, step: str, kind: Any, n: int = 0, **fields: Any) -> str:
        return self.feed(says(self.state, step, kind, n=n, **fields))

    def finish(self, step: str, *outs: Out, fan: bool = False) -> str:
        return self.says(step, t.StepFinished, outs=outs, fan=fan)


def test_every_kind_of_tick_has_words():
    """A new tick without words fails here, not in somebody's panel."""
    assert set(WORDS) == {*t.CONTROL, *t.WORK}


def test_every_tick_is_told_also_where_it_makes_no_sense():
    """Of each kind one with all its fields, in a run that knows nothing of what it speaks of."""
    state, _ = advance(None, EXAMPLES[0])
    for tick in (*EXAMPLES, *MORE):
        said = told(state, tick, state, [])
        assert said and said.isprintable() and len(said) <= LENGTH, tick
        assert type(tick).__name__ not in said


def test_the_way_of_an_event_through_a_fan_out():
    """Who gets it, who starts, who waits for a worker, what the join still lacks."""
    play = Play(FAN)
    assert play.said == ["the run begins with Start: load gets it and starts"]
    play.finish("load", *map(row, range(3)), fan=True)
    assert play.said[-1] == (
        "load finished with a list of 3, Row(no=0), Row(no=1) and Row(no=2): "
        "score gets 3, starts 2 and queues 1; sum has 0 of 3"
    )
    assert play.finish("score", out("Done", 1)) == (
        "score finished with Done(1): score starts the next, Row(no=2); sum has 1 of 3"
    )
    assert play.finish("score", out("Done", 2)) == "score finished with Done(2): sum has 2 of 3"
    assert play.finish("score") == "score finished with no event: sum gets all that came, 2 events, and starts"
    assert play.finish("sum", out("Stop", 9)) == "sum finished with Stop(9): the run is completed"


def test_an_empty_fan_out_a_single_list_and_several_events():
    assert Play(FAN).finish("load", fan=True) == "load finished with an empty list: sum gets [] and starts"
    assert Play(FAN).finish("load", row(7), fan=True) == (
        "load finished with a list of 1, Row(no=7): score gets it and starts; sum has 0 of 1"
    )
    flow = spec(step("load", "Start", ("Row", "Ask")), step("score", "Row", num_workers=1), step("also", "Row"))
    play = Play(flow)
    assert play.says("load", t.EventsSent, outs=(row(1), row(2))) == (
        "load sent Row(no=1) and Row(no=2): score gets 2, starts 1 and queues 1; also gets 2 and starts them"
    )
    assert play.says("load", t.EventsSent, outs=(row(3),), target="score") == (
        "load sent Row(no=3) to score: score gets it, which waits for a free worker"
    )
    assert play.says("load", t.EventsSent, outs=(out("Ask", 1), row(4)), target="also") == (
        "load sent Ask(1) and Row(no=4) to also: load asks a person: Ask(1); also gets Row(no=4) and starts"
    )


def test_a_failure_is_tried_again_taken_or_the_end():
    play = Play()
    assert play.says("work", t.StepFailed, failure=ODD, retry_at=102.0) == (
        "work failed with ValueError('x'), attempt 1, given Start: it is tried again in 2 s"
    )
    assert play.feed(t.TimerFired(102.0, 1)) == "work is tried again: work starts again, attempt 2"
    assert play.says("work", t.StepFailed, failure=ODD, retry_at=102.0) == (
        "work failed with ValueError('x'), attempt 2, given Start: work starts again, attempt 3"
    )
    assert play.says("work", t.StepFailed, failure=Failure("m.n:Odd", "")) == (
        "work failed with Odd(), attempt 3, given Start: the run fails"
    )
    taken = Play(spec(step("work", "Start"), step("rescue", "Failed", "Stop", catches=())))
    assert taken.says("work", t.StepFailed, failure=ODD, failed=out("Failed", 1)) == (
        "work failed with ValueError('x'), attempt 1, given Start: rescue gets it and starts"
    )


def test_a_retry_that_finds_no_worker_waits_for_one():
    flow = spec(step("load", "Start", fans="Row"), step("score", "Row", num_workers=1))
    play = Play(flow)
    play.finish("load", row(0), row(1), fan=True)
    play.says("score", t.WaitOpened, mark=1, wait=t.Sleep(200.0))
    assert play.says("score", t.StepFailed, n=0, failure=ODD, retry_at=100.0) == (
        "score failed with ValueError('x'), attempt 1, given Row(no=0): it is tried again by the next free worker"
    )


def test_what_nobody_takes():
    flow = spec(step("work", "Start", "Lost", waits=True))
    play = Play(flow)
    assert play.feed(t.EventArrived(101.0, out("Mail", 1), by="ann")) == (
        "Mail(1) came from ann: nobody takes it yet, so it waits in the mailbox"
    )
    assert play.feed(
        t.EventArrived(101.0, out("Mail", 1), key="a"), t.EventArrived(101.0, out("Mail", 1), key="a")
    ) == ("Mail(1) came from outside, which changes nothing")
    assert play.says("work", t.WaitOpened, mark=1, wait=t.Await(key("Mail"), due_at=130.0)) == (
        "work waits for Mail for 29 s at most: work goes on"
    )
    assert play.finish("work", out("Lost")) == "work finished with Lost: nobody takes Lost, so it is unhandled"
    assert play.feed(t.QuietNoticed(102.0)).startswith(
        "nothing moves by itself any more: the run fails with WorkflowStalled("
    )


ANSWERED = t.RequestAnswered(110.0, 1, out("Reply", 5), "ann")
WAITS: dict[str, tuple[Any, t.AnyTick, list[str]]] = {
    "a sleep": (t.Sleep(130.0), t.TimerFired(130.0, 1), ["work sleeps for 30 s", "work has slept: work goes on"]),
    "a long sleep": (t.Sleep(100.0 + 7200), t.GateOpened(101.0, "parent"), ["work sleeps for 2 h"]),
    "a question": (
        t.Ask(out("Ask", 1)),
        ANSWERED,
        ["work asks a person: Ask(1)", "ann answered work's question Ask(1) with Reply(5): work goes on"],
    ),
    "a question with a deadline": (
        t.Ask(out("Ask", 1), 400.0, out("Reply", 3)),
        t.TimerFired(400.0, 1),
        [
            "work asks a person: Ask(1), within 5 min, then Reply(3) is taken",
            "the time for work's question Ask(1) is over, so Reply(3) is taken: work goes on",
        ],
    ),
    "a question that nobody answers": (
        t.Ask(out("Ask", 1), 101.5),
        t.TimerFired(101.5, 1),
        [
            "work asks a person: Ask(1), within 1.5 s",
            "the time for work's question Ask(1) is over and nobody answered: work goes on",
        ],
    ),
    "a question that is looked at": (
        t.Ask(out("Ask", 1), 101.5),
        t.RequestHeld(101.0, 1, "ann"),
        ["work asks a person: Ask(1), within 1.5 s", "ann stops the countdown of work's question Ask(1)"],
    ),
    "a question that is disposed of": (
        t.Ask(out("Ask", 1)),
        t.RequestDisposed(101.0, 1, "no use", "ann"),
        ["work asks a person: Ask(1)", "ann disposed of work's question Ask(1) (no use): work goes on"],
    ),
    "an event": (
        t.Await(key("Mail")),
        t.EventArrived(101.0, out("Mail", 1)),
        ["work waits for Mail", "Mail(1) came from outside: work goes on"],
    ),
    "an event in vain": (
        t.Await(key("Mail"), due_at=105.0),
        t.TimerFired(105.0, 1),
        ["work waits for Mail for 5 s at most", "work has waited for Mail in vain: work goes on"],
    ),
    "an event that asks": (
        t.Await(key("Mail"), question=out("Ask", 1)),
        t.EventArrived(101.0, out("Mail", 1)),
        [
            "work waits for Mail and asks a person: Ask(1)",
            "Mail(1) came from outside: question 1 is answered by it; work goes on",
        ],
    ),
    "a child": (
        t.RunChild("m:Kid", out("Start", 1)),
        t.ChildFinished(101.0, 1, "completed", out("Stop", 7)),
        [
            "work runs Kid with Start(1) as a child, and waits for its end",
            "work's child run/1/1 completed with Stop(7): work goes on",
        ],
    ),
    "a child that fails": (
        t.RunChild("m:Kid", out("Start", 1)),
        t.ChildFinished(101.0, 1, "failed", failure=ODD),
        [
            "work runs Kid with Start(1) as a child, and waits for its end",
            "work's child run/1/1 failed with ValueError('x'): work goes on",
        ],
    ),
    "a child that waits": (
        t.RunChild("m:Kid", out("Start", 1)),
        t.ChildChanged(101.0, 1, False),
        ["work runs Kid with Start(1) as a child, and waits for its end", "work's child run/1/1 waits for the outside"],
    ),
    "a wait that is given up": (
        t.Ask(out("Ask", 1)),
        t.WaitWithdrawn(101.0, "work", 1, 1, 1),
        ["work asks a person: Ask(1)", "work gave up its question"],
    ),
    "a lost start": (
        t.Sleep(130.0),
        t.RunOpened(101.0, "another"),
        ["work sleeps for 30 s", "the run is taken over, and what ran starts again"],
    ),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_and_its_end(name: str):
    wait, end, sentences = WAITS[name]
    play = Play()
    play.feed(t.WaitOpened(100.0, "work", 1, 1, 1, wait), end)
    assert play.said[1 : 1 + len(sentences)] == sentences


LIFE: list[tuple[t.AnyTick, str]] = [
    (t.GateClosed(101.0, "person", "ann"), "ann pauses the run"),
    (t.GateClosed(101.0, "breakpoint"), "the run pauses where it was to run to"),
    (t.GateClosed(101.0, "budget"), "the run is about to be suspended, so nothing more passes"),
    (t.GateClosed(101.0, "parent"), "the run pauses with its parent"),
    (t.GateOpened(101.0, "person"), "a person lets the run go on"),
    (t.GateOpened(101.0, "parent"), "the run goes on with its parent"),
    (t.StepsGranted(101.0, 2), "2 ticks may pass while the run is paused"),
    (t.BreakpointHit(101.0, 3, "before step work"), "breakpoint 3 (before step work) pauses the run"),
    (
        t.BreakpointHit(101.0, 3, "before step work", "NameError: x"),
        "breakpoint 3 (before step work) pauses the run, since its condition failed with NameError: x",
    ),
    (
        t.EventEdited(101.0, "work", 9, (out("Item", 2),), (out("Item", 1),), "ann"),
        "ann puts Item(2) in the place of Item(1) before work, which changes nothing",
    ),
    (
        t.EventDropped(101.0, "work", 9, (out("Item", 1),)),
        "a person drops Item(1) before work, which changes nothing",
    ),
    (
        t.HoldChanged(101.0, 1, "the robot answers"),
        "the run is held open, since something outside will still send (the robot answers)",
    ),
    (t.DefinitionAdopted(101.0, PLAIN), "the run takes the newest definitions of its steps"),
    (
        t.CancelRequested(101.0, "no use", "ann"),
        "ann cancels the run (no use): the run is cancelled; 1 delivery is cut off",
    ),
    (t.RunSuspended(101.0, "", "ann"), "the run is suspended by ann, and nobody drives it until it is resumed"),
    (t.StreamWritten(101.0, "work", 1, 1, out("Note", 1)), "work wrote Note(1) to the stream"),
    (t.StreamRewound(101.0, "work", 1, 1), "work runs again, so what it wrote to the stream is void"),
    (
        t.StateWritten(101.0, "work", 1, 1, {"n": out("Value", 1), "m": out("Value", [1, 2])}, ("k",)),
        "work set n = 1, m = [1, 2] in the state and work removed k from the state",
    ),
    (
        t.ValueRecorded(101.0, "work", 1, 1, "now", out("Value", 5)),
        "work got 5 (now), the same whenever it runs again",
    ),
    (t.StepFinished(101.0, "work", 1, 9), "work finished with no event, too late: that start of it is over"),
    (t.TimerFired(101.0, 9), "timer 9 fired, which changes nothing"),
    (t.RunForked(101.0, "f", "run", 1), "the run begins as a fork of run at tick 1: work starts again from its top"),
    (t.RunOpened(101.0, "x"), "the run is taken over, and what ran starts again: work starts again from its top"),
]


@pytest.mark.parametrize(
    ("tick", "sentence"), LIFE, ids=[f"{i} {type(tick).__name__}" for i, (tick, _) in enumerate(LIFE)]
)
def test_the_life_of_a_run_and_its_gate(tick: t.AnyTick, sentence: str):
    assert Play().feed(tick) == sentence


def test_a_gate_that_stays_closed_says_so():
    play = Play(gate=("person", "breakpoint"))
    assert play.said == ["the run begins with Start, paused (person, breakpoint): work gets it and starts"]
    assert play.feed(t.GateOpened(101.0)) == "a person lets the run go on: it is still paused (breakpoint)"


def test_starts_that_a_breakpoint_holds_back():
    flow = spec(step("load", "Start", "Row"), step("score", "Row", "Stop"))
    play = Play(flow)
    assert play.feed(t.StepFinished(101.0, "load", 1, 1, (row(1),), held=(2,))) == (
        "load finished with Row(no=1): score gets it; a breakpoint holds back the start of score"
    )
    assert play.feed(t.GateOpened(101.0, "breakpoint", "ann")) == (
        "ann lets the run go on from where it stopped: score starts the next, Row(no=1)"
    )


def test_a_returned_question_is_asked_and_its_answer_goes_on():
    flow = spec(step("check", "Start", "Ask"), step("note", "Reply", "Stop"), types=[event("Ask", answer="Reply")])
    play = Play(flow)
    question = replace(out("Ask", 1), limit=Limit(130.0, out("Reply", 2)))
    assert play.finish("check", question) == "check finished with Ask(1): a person is asked"
    assert play.feed(t.QuietNoticed(101.0)) == (
        "nothing moves by itself any more, since check asks Ask (request 1): the run waits"
    )
    assert play.feed(t.TimerFired(130.0, 1)) == (
        "the time for check's question Ask(1) is over, so Reply(2) is taken: note gets it and starts"
    )


def test_partners_that_wait_for_each_other():
    """R4.77: steps with several event parameters."""
    flow = spec(step("load", "Start", ("A", "B")), step("pair", slots=("A", "B")))
    play = Play(flow)
    assert play.says("load", t.EventsSent, outs=(out("A", 1),)) == "load sent A(1): pair has A, and waits for B"
    assert play.says("load", t.EventsSent, outs=(out("B", 2),)) == (
        "load sent B(2): pair gets one of each, A(1) and B(2), and starts"
    )
    flow = spec(
        step("load", "Start", fans="Row"),
        step("score", "Row", ("A", "B")),
        step("pair", slots=("A", "B"), returns="Done"),
        step("sum", gathers="Done"),
    )
    play = Play(flow)
    play.finish("load", row(1), row(2), fan=True)
    assert play.says("score", t.EventsSent, outs=(out("A", 1),)) == "score sent A(1): pair has A, and waits for B"
    assert play.says("score", t.EventsSent, n=1, outs=(out("A", 2),)) == "score sent A(2): pair has A, and waits for B"
    assert play.says("score", t.EventsSent, outs=(out("B", 3),)) == (
        "score sent B(3): pair gets one of each, A(1) and B(3), and starts"
    )


def test_several_questions_at_once():
    play = Play(spec(step("load", "Start", fans="Ask")))
    assert play.finish("load", out("Ask", 1), out("Ask", 2), fan=True) == (
        "load finished with a list of 2, Ask(1) and Ask(2): a person is asked 2 questions: Ask(1) and Ask(2)"
    )


def test_a_wait_that_is_awaited_again_and_what_a_failed_attempt_leaves():
    play = Play()
    child, sleep = t.RunChild("m:Kid", out("Start", 1)), t.Sleep(130.0)
    play.feed(t.WaitOpened(100.0, "work", 1, 1, 1, child), t.WaitOpened(100.0, "work", 1, 1, 2, sleep))
    assert play.feed(t.WaitOpened(100.0, "work", 1, 1, 2, sleep)) == "work goes on waiting for what it waited for"
    assert play.says("work", t.StepFailed, failure=ODD, retry_at=140.0) == (
        "work failed with ValueError('x'), attempt 1, given Start: it is tried again in 40 s; 1 child run is stopped"
    )
    play = Play()
    play.feed(t.WaitOpened(100.0, "work", 1, 1, 1, sleep), t.TimerFired(130.0, 1))
    assert play.feed(t.WaitOpened(130.0, "work", 1, 1, 1, sleep)) == "work waits for what has come already"


def test_a_gathering_step_that_is_busy():
    flow = spec(
        step("load", "Start", fans="Page"),
        step("split", "Page", fans="Row"),
        step("page", gathers="Row", returns="Book", num_workers=1),
        step("book", gathers="Book"),
    )
    play = Play(flow)
    play.finish("load", out("Page"), out("Page"), fan=True)
    assert play.finish("split", row(1), fan=True).endswith("page gets all that came, 1 event, and starts")
    assert play.finish("split", row(2), fan=True).endswith("page gets what it gathers, which waits for a free worker")


def test_the_last_words_of_a_cancelled_run():
    """R5.51: its `@on_cancel` steps, and the end of their time."""
    flow = spec(step("work", "Start"), step("tidy", "Off", on_cancel=True), types=[event("Off", role="engine")])
    play = Play(flow)
    assert play.feed(t.CancelRequested(101.0, "late", "ann", out("Off"))) == (
        "ann cancels the run (late): tidy gets Off and starts; work is stopped"
    )
    timer = next(iter(play.state.timers))
    assert play.feed(t.TimerFired(111.0, timer)) == (
        "the time of the @on_cancel steps is over: the run is cancelled; 2 deliveries are cut off"
    )


def test_what_a_step_collects():
    """R4.1."""
    flow = spec(step("load", "Start", fans="Row"), step("gather", "Row"))
    play = Play(flow)
    play.finish("load", row(1), row(2), fan=True)
    wants = ((key("Row"), 2),)
    keeps = t.Collect("", wants, row(1), key("Row"))
    assert play.says("gather", t.StepFinished, collects=(keeps,)) == (
        "gather finished with no event: it has collected 1 of 2 Row"
    )
    assert play.says("gather", t.StepFinished, collects=(keeps,)) == (
        "gather finished with no event: gather starts again from its top"
    )
    takes = t.Collect("", wants, row(2), key("Row"), (1, 1), True)
    assert play.says("gather", t.StepFinished, collects=(takes,)) == (
        "gather finished with no event: what it collected is complete"
    )


def test_the_first_n_and_what_comes_after_them():
    """R4.16 to R4.18."""
    flow = spec(step("load", "Start", fans="Row"), step("score", "Row", "Done"), step("best", gathers="Done", take=2))
    play = Play(flow)
    play.finish("load", *map(row, range(4)), fan=True)
    assert play.finish("score", out("Done", 1)).endswith("best has 1 of 2")
    assert play.finish("score", out("Done", 2)).endswith("best gets all that came, 2 events, and starts")
    assert play.finish("score", out("Done", 3)) == (
        "score finished with Done(3): it comes after the first that were wanted, so it is not taken"
    )
    cancels = spec(*flow.steps[:2], step("best", gathers="Done", take=1, cancel_rest=True))
    play = Play(cancels)
    play.finish("load", *map(row, range(4)), fan=True)
    assert play.finish("score", out("Done", 1)).endswith(
        "best gets all that came, 1 event, and starts; score is stopped"
    )


def test_a_rate_a_circle_and_the_limit_of_a_run():
    play = Play(spec(step("load", "Start", fans="Row"), step("score", "Row", rate=2.0)))
    assert play.finish("load", row(1), row(2), fan=True).endswith(
        "score gets 2, starts 1 and queues 1; score may start the next in 0.5 s"
    )
    assert play.feed(t.TimerFired(100.5, 1)) == "score may start the next: score starts the next, Row(no=2)"
    circle = Play(spec(step("loop", ("Start", "Row"), "Row")), terms=t.Terms(max_starts=1, livelock="pause"))
    assert circle.finish("loop", row(1)).endswith("the run pauses, since more than 1 steps started one after the other")
    limited = Play(terms=t.Terms(timeout_s=5.0))
    assert limited.feed(t.TimerFired(105.0, next(iter(limited.state.timers), 0))).endswith(
        "is over: the run has timed out; 1 delivery is cut off"
    )


def test_of_very_much_a_few_are_named_and_the_rest_is_counted():
    """A fan-out of 10,000 is told as fast as one of ten, but for what its commands cost."""
    play = Play(FAN)
    before = play.state
    tick = says(before, "load", t.StepFinished, outs=tuple(map(row, range(10_000))), fan=True)
    after, commands = advance(before, tick)
    sentence = told(before, tick, after, commands)
    assert sentence == (
        "load finished with a list of 10,000, Row(no=0), Row(no=1), Row(no=2) and 9,997 more: "
        "score gets 10,000, starts 2 and queues 9,998; sum has 0 of 10,000"
    )
    begun = time.process_time()
    for _ in range(100):
        told(before, tick, after, commands)
    assert (time.process_time() - begun) / 100 < 0.002  # looking at each of them would take ten times that


def test_a_sentence_is_short_and_printable_whatever_it_speaks_of():
    """Names, texts and values are people's own: no line breaks, no exception, no end of it."""

    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    hostile = "<script>\n\x1b[31m" + "x" * 10_000
    play = Play()
    play.feed(t.CancelRequested(101.0, hostile, hostile))
    other = Play()
    other.feed(
        t.StateWritten(101.0, "work", 1, 1, {hostile: out("Value", hostile), "b": out("Value", Bad())}),
        t.BreakpointHit(101.0, 1, hostile, hostile),
        t.StepFailed(101.0, "work", 1, 1, Failure(f"m:{hostile}", hostile)),
    )
    for said in (*play.said, *other.said):
        assert said.isprintable() and len(said) <= LENGTH


def test_no_sentence_has_a_secret():
    class Login(BaseModel):
        user: str
        password: SecretStr
        hint: str = Field("hunter2", repr=False)

    said = Play().finish("work", out("Login", Login(user="ann", password=SecretStr("hunter2"))))
    assert "hunter2" not in said and "user='ann'" in said
    stored = UnknownEvent("m:Login", 1, {"user": "ann", "password": {"$sealed": "c2VhbGVk"}}, "it is not defined here")
    said = Play().finish("work", out("Login", stored))
    assert "Login(user='ann', password='*" in said and "c2VhbGVk" not in said
    stored = UnknownEvent("m:Login", 1, [1, 2], "it is not defined here")
    assert Play().finish("work", out("Login", stored)).startswith("work finished with Login([1, 2])")


@pytest.mark.parametrize("seed", range(8))
def test_every_tick_of_a_random_run_is_told(seed: int):
    """Waits, retries, children, questions, fan-outs in fan-outs, lost drivers: always one printable line, and the same
    whenever it is told."""
    plan = Plan(1, ("send",), many=(Plan(2, OPS), Plan(3, ("first of two", "collect"), many=(Plan(4, asks=True),))))
    run = drive(plan, Random(seed).randrange)
    state: RunState | None = None
    commands: list[AnyCommand]
    for tick in run.ticks:
        before = state
        state, commands = advance(before, tick)
        said = told(before, tick, state, commands)
        assert said == told(before, tick, *advance(before, tick))
        assert said and said.isprintable() and len(said) <= LENGTH
    assert run.state.status == "completed"


# A person's hand in it.


def test_what_a_person_made_of_a_tick_is_told_with_it():
    """R5.29 to R5.31, R5.73: what it was, and who it was."""
    play = Play(FAN)
    play.finish("load", row(1), row(2), row(3), fan=True)
    edited = t.Hand("ann", (row(7),), ahead=2)
    assert play.says("score", t.StepFinished, outs=(out("Done", 1),), hand=edited) == (
        "score finished with Done(1), edited and admitted ahead of 2 by ann (it was Row(no=7)): "
        "score starts the next, Row(no=3); sum has 1 of 3"
    )
    dropped = t.Hand(by="", original=(out("Done", 2),), is_dropped=True)
    assert play.says("score", t.EventsSent, outs=(), hand=dropped) == (
        "score sent Done(2), dropped by a person: it goes nowhere"
    )
    assert play.feed(t.EventDropped(101.0, "score", 3, (row(2),), "ann")).startswith(
        "ann drops Row(no=2) before score: it goes nowhere"
    )
    play = Play()
    play.says("work", t.WaitOpened, mark=1, wait=t.Sleep(160.0))
    fired = play.feed(t.TimerFired(101.0, 1, hand=t.Hand("ann", early_s=59.0)))
    assert fired == "work has slept, fired 59 s early by ann: work goes on"
