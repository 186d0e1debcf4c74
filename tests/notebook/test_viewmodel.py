"""What the panel shows, computed from ticks alone."""

import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flownb.core import ticks as t
from flownb.core.persist import Table
from flownb.core.reduce import begin, reduce
from flownb.core.spec import Spec, link
from flownb.core.state import RunState
from flownb.core.values import Failure, Limit
from flownb.notebook import shapes, svg, viewmodel
from flownb.notebook.viewmodel import COLUMNS, STATES, Projection, caption, causes, counts_line, queue_lines, step_node
from flownb.testing.feed import event, out, says, spec, started, step

FAN = spec(
    step("load", "Start", fans="Row"),
    step("score", "Row", "Done", num_workers=2),
    step("total", gathers="Done", returns="Stop"),
)
OTHER = step("other", "Start", "Stop")
ASKS = spec(step("ask", "Start", "Stop", asks=True), OTHER)
PLAIN = spec(step("work", "Start", "Stop"))


class Play:
    """A run fed tick by tick, with the states before and after each."""

    def __init__(self, flow: Spec) -> None:
        first = started(flow, at=100.0)
        self.state, commands = begin(first)
        self.shown = Projection(self.state)
        self.shown.apply(None, first, self.state, commands)
        self.before: RunState | None = None
        self.tick: t.Tick = first

    def feed(self, tick: Any) -> "Play":
        self.before, self.tick = self.state, tick
        self.state, commands = reduce(self.state, tick)
        self.shown.apply(self.before, tick, self.state, commands)
        return self

    def says(self, name: str, tick: Callable[..., Any], *, n: int = 0, after: float = 0.0, **fields: Any) -> "Play":
        return self.feed(says(self.state, name, tick, n=n, at=self.state.at + after, **fields))

    def finish(self, name: str, *outs: Any, fan: bool = False, after: float = 0.0) -> "Play":
        return self.says(name, t.StepFinished, outs=outs, fan=fan, after=after)

    def node(self, name: str) -> list[Any]:
        names = [node.id for node in self.shown.graph.nodes]
        return self.shown.nodes[names.index(name)]


def fanned(items: int = 8) -> Play:
    return Play(FAN).finish("load", *(out("Row", i) for i in range(items)), fan=True)


def test_the_states_are_defined_once_and_the_page_has_the_same():
    """A tick carries the index of a state."""
    assert svg.STATES is viewmodel.STATES is shapes.STATES
    common = Path(viewmodel.__file__).with_name("static") / "common.mjs"
    listed = re.search(r"export const STATES = \[(.*?)\]", common.read_text(encoding="utf-8"), re.DOTALL)
    assert listed is not None
    assert tuple(re.findall(r'"(\w+)"', listed[1])) == STATES
    assert set(shapes.WORDS) == set(shapes.GLYPHS) == set(STATES)


def test_a_run_begins_with_its_first_step_running_and_the_others_idle():
    play = Play(FAN)
    assert play.shown.nodes == [
        ["done", "", None],
        ["running", "", None],
        ["idle", "", None],
        ["idle", "", None],
        ["idle", "", None],
    ]


def test_a_fan_out_of_eight_with_two_workers_shows_words_and_a_bar_at_each_item():
    """Two run, six are queued; the join counts what came; at the end all are done."""
    play = fanned()
    seen = [play.node("score")]
    waits = [play.node("total")]
    for i in range(8):
        play.finish("score", out("Done", i), after=1.0)
        seen.append(play.node("score"))
        waits.append(play.node("total"))

    assert seen == [
        ["running", "0 of 8", [0, 2, 6, 0]],
        ["running", "1 of 8", [1, 2, 5, 0]],
        ["running", "2 of 8", [2, 2, 4, 0]],
        ["running", "3 of 8", [3, 2, 3, 0]],
        ["running", "4 of 8", [4, 2, 2, 0]],
        ["running", "5 of 8", [5, 2, 1, 0]],
        ["running", "6 of 8", [6, 2, 0, 0]],
        ["running", "7 of 8", [7, 1, 0, 0]],
        ["done", "done ×8", [8, 0, 0, 0]],
    ]
    assert waits[3] == ["waiting", "3 of 8", None]
    assert waits[-1] == ["running", "", None]
    assert play.finish("total", out("Stop")).node("total") == ["done", "done", None]
    assert play.node("stop") == ["done", "", None]


def test_edges_count_how_often_they_were_taken():
    play = fanned()
    for i in range(8):
        play.finish("score", out("Done", i))
    play.finish("total", out("Stop"))
    taken = {
        (play.shown.graph.nodes[e.source].id, play.shown.graph.nodes[e.target].id): n
        for e, n in zip(play.shown.graph.edges, play.shown.edges, strict=True)
    }
    assert taken == {("start", "load"): 1, ("load", "score"): 8, ("score", "total"): 8, ("total", "stop"): 1}
    assert len(play.shown.rows[1][COLUMNS.index("e")]) == 8


def test_deltas_folded_from_the_first_tick_give_the_nodes():
    """The page computes the state at any tick from them alone."""
    play = fanned()
    for i in range(8):
        play.finish("score", out("Done", i))
    nodes = [["idle", "", None] for _ in play.shown.graph.nodes]
    for deltas in play.shown.columns(0, len(play.shown.rows))["d"]:
        for node, state, sub, bar in deltas:
            nodes[node] = [STATES[state], sub, bar]
    assert nodes == play.shown.nodes


def test_a_step_whose_deliveries_all_wait_for_a_worker_is_queued():
    """A moment that no tick ends in, since a free worker takes the next at once; the words are there all the same."""
    state = fanned(4).state
    nobody = replace(state.steps[1], active=Table())
    assert step_node(replace(state, steps=(state.steps[0], nobody, state.steps[2])), 1, 0, True) == [
        "queued",
        "2 queued",
        [0, 0, 2, 0],
    ]


def test_a_question_makes_its_step_wait_for_a_person_until_it_is_answered():
    play = Play(ASKS).says("ask", t.WaitOpened, mark=1, wait=t.Ask(out("Ask", "sure?")))
    assert play.node("ask") == ["person", "asks you", None]
    play.feed(t.RequestAnswered(play.state.at, 1, out("Reply", True), "ann"))
    assert play.node("ask") == ["running", "", None]


def test_two_questions_of_a_step_are_counted():
    play = fanned()
    for n in range(2):
        play.says("score", t.WaitOpened, n=n, mark=1, wait=t.Ask(out("Ask", n)))
    assert play.node("score")[:2] == ["person", "2 questions"]


def test_a_sleeping_step_waits():
    play = Play(PLAIN).says("work", t.WaitOpened, mark=1, wait=t.Sleep(130.0))
    assert play.node("work") == ["waiting", "sleeps", None]


def test_a_failed_step_names_its_exception():
    play = Play(PLAIN).says("work", t.StepFailed, failure=Failure("builtins:ValueError", "no"))
    assert play.state.status == "failed"
    assert play.node("work") == ["failed", "ValueError", None]
    assert play.node("stop") == ["skipped", "", None]


def test_after_a_cancel_what_ran_is_skipped_and_what_was_done_stays_done():
    play = fanned().feed(t.CancelRequested(101.0, "enough"))
    assert play.node("load") == ["done", "done", None]
    assert play.node("score")[:2] == ["skipped", "cut off"]
    assert play.node("stop") == ["skipped", "", None]


def opened(flow: Spec = PLAIN, **fields: Any) -> Play:
    return Play(flow).says(flow.steps[0].name, t.WaitOpened, mark=1, **fields)


def failing(retry_at: float | None = 110.0) -> Play:
    """A failed attempt; the next one is due at 110."""
    return Play(PLAIN).says("work", t.StepFailed, failure=Failure("a.b:Odd", "no"), retry_at=retry_at)


def with_child() -> Play:
    return opened(wait=t.RunChild("m:Kid", out("Start")))


def forked() -> Play:
    """A run whose first ticks are another run's."""
    return Play(PLAIN).feed(t.RunForked(101.0, "fork", "run", 1))


def returned_question(*, due_at: float | None = None, default: bool = False) -> Play:
    """A question that was returned; its answer goes along an edge."""
    flow = spec(
        step("ask", "Start", "Ask"),
        step("hear", "Reply", "Stop"),
        types=[event("Ask", answer="Reply")],
    )
    limit = Limit(due_at, out("Reply") if default else None) if due_at is not None else None
    return Play(flow).finish("ask", out("Ask", limit=limit))


def limited(**terms: Any) -> Play:
    play = Play(PLAIN)
    first = replace(started(PLAIN, at=100.0), terms=t.Terms(**terms))
    play.state, commands = begin(first)
    play.tick, play.shown = first, Projection(play.state)
    play.shown.apply(None, first, play.state, commands)
    return play


def cancelling() -> Play:
    """Its `@on_cancel` step runs, until its time is over."""
    flow = spec(step("work", "Start", "Stop"), step("tidy", "Engine"))
    flow = link(replace(flow, steps=(flow.steps[0], replace(flow.steps[1], on_cancel=True))))
    return Play(flow).feed(t.CancelRequested(101.0, "off", "", out("Engine")))


def rated() -> Play:
    """The second of two elements may start a second later."""
    flow = spec(step("load", "Start", fans="Row"), step("score", "Row"))
    flow = link(replace(flow, steps=(flow.steps[0], replace(flow.steps[1], rate=1.0))))
    return Play(flow).finish("load", out("Row", 1), out("Row", 2), fan=True)


#: Of each kind of tick: a run after one of them, and the words for it.
CAPTIONS: list[tuple[type[t.Tick], Callable[[], Play], tuple[str, str, str, str]]] = [
    (t.RunStarted, lambda: Play(PLAIN), ("started", "run", "Start", "")),
    (t.RunOpened, lambda: Play(PLAIN).feed(t.RunOpened(101.0, "d")), ("control", "run", "taken over", "")),
    (t.GateClosed, lambda: Play(PLAIN).feed(t.GateClosed(101.0)), ("paused", "run", "person", "")),
    (
        t.GateOpened,
        lambda: Play(PLAIN).feed(t.GateClosed(101.0)).feed(t.GateOpened(102.0)),
        ("continued", "run", "person", ""),
    ),
    (
        t.StepsGranted,
        lambda: Play(PLAIN).feed(t.GateClosed(101.0)).feed(t.StepsGranted(102.0, 3)),
        ("stepped", "run", "3 granted", ""),
    ),
    (t.CancelRequested, lambda: Play(PLAIN).feed(t.CancelRequested(101.0, "off")), ("cancelled", "run", "off", "")),
    (t.EventArrived, lambda: Play(PLAIN).feed(t.EventArrived(101.0, out("Mail"))), ("event", "", "Mail", "")),
    (t.StepFinished, fanned, ("finished", "load", "8 × Row", "")),
    (
        t.StepFailed,
        lambda: Play(PLAIN).says("work", t.StepFailed, failure=Failure("a.b:Odd", "")),
        ("failed", "work", "Odd", ""),
    ),
    (t.StepFailed, failing, ("failed", "work", "Odd, again in 10 s", "")),
    (
        t.EventsSent,
        lambda: Play(PLAIN).says("work", t.EventsSent, outs=(out("One"), out("Two"))),
        ("sent", "work", "One, Two", ""),
    ),
    (
        t.StreamWritten,
        lambda: Play(PLAIN).says("work", t.StreamWritten, out=out("One")),
        ("sent", "work", "One to the stream", ""),
    ),
    (
        t.StateWritten,
        lambda: Play(PLAIN).says("work", t.StateWritten, changes={"n": out("Value", 1)}, dropped=("m",)),
        ("wrote", "work", "", "n, m"),
    ),
    (t.WaitOpened, lambda: opened(wait=t.Sleep(130.0)), ("waiting", "work", "sleeps 30 s", "")),
    (t.WaitOpened, lambda: opened(wait=t.Ask(out("Ask"))), ("asked", "work", "Ask", "")),
    (t.WaitOpened, lambda: opened(wait=t.Await("m:Mail")), ("waiting", "work", "waits for Mail", "")),
    (t.WaitOpened, lambda: opened(wait=t.Await("m:Mail", question=out("Ask"))), ("asked", "work", "Ask", "")),
    (t.WaitOpened, with_child, ("waiting", "work", "runs Kid", "")),
    (
        t.StreamRewound,
        lambda: Play(PLAIN).says("work", t.StreamWritten, out=out("One")).says("work", t.StreamRewound),
        ("control", "work", "writes its stream anew", ""),
    ),
    (
        t.ValueRecorded,
        lambda: Play(PLAIN).feed(t.ValueRecorded(101.0, "work", 1, 1, "now", out("Value", 1))),
        ("wrote", "work", "now for its next start", ""),
    ),
    (
        t.WaitWithdrawn,
        lambda: opened(wait=t.Sleep(130.0)).says("work", t.WaitWithdrawn, mark=1),
        ("control", "work", "gave up a wait", ""),
    ),
    (t.TimerFired, lambda: opened(wait=t.Sleep(130.0)).feed(t.TimerFired(130.0, 1)), ("timer", "work", "slept", "")),
    (
        t.TimerFired,
        lambda: opened(wait=t.Ask(out("Ask"), 130.0, out("Reply"))).feed(t.TimerFired(130.0, 1)),
        ("timer", "work", "deadline", ""),
    ),
    (t.TimerFired, lambda: failing().feed(t.TimerFired(110.0, 1)), ("timer", "work", "tries again", "")),
    (t.TimerFired, lambda: rated().feed(t.TimerFired(101.0, 1)), ("timer", "score", "may start again", "")),
    (
        t.TimerFired,
        lambda: opened(wait=t.Await("m:Mail", due_at=130.0)).feed(t.TimerFired(130.0, 1)),
        ("timer", "work", "waited in vain", ""),
    ),
    (
        t.TimerFired,
        lambda: limited(timeout_s=5.0).feed(t.TimerFired(105.0, 0)),
        ("timer", "run", "its time is over", ""),
    ),
    (
        t.TimerFired,
        lambda: cancelling().feed(t.TimerFired(111.0, 1)),
        ("timer", "run", "the time of its @on_cancel steps is over", ""),
    ),
    (t.TimerFired, lambda: Play(PLAIN).feed(t.TimerFired(130.0, 9)), ("timer", "", "", "")),
    (
        t.RequestAnswered,
        lambda: opened(wait=t.Ask(out("Ask"))).feed(t.RequestAnswered(101.0, 1, out("Reply"))),
        ("answered", "work", "Reply", ""),
    ),
    (
        t.RequestDisposed,
        lambda: opened(wait=t.Ask(out("Ask"))).feed(t.RequestDisposed(101.0, 1)),
        ("control", "work", "question disposed of", ""),
    ),
    (
        t.RequestDisposed,
        lambda: opened(wait=t.Ask(out("Ask"))).feed(t.RequestDisposed(101.0, 1, superseded=True)),
        ("control", "work", "asks something else", ""),
    ),
    (
        t.RequestHeld,
        lambda: opened(wait=t.Ask(out("Ask"), 130.0)).feed(t.RequestHeld(101.0, 1)),
        ("control", "work", "countdown stopped", ""),
    ),
    (t.ChildChanged, lambda: with_child().feed(t.ChildChanged(101.0, 1, False)), ("waiting", "work", "Kid waits", "")),
    (
        t.ChildFinished,
        lambda: with_child().feed(t.ChildFinished(101.0, 1, "completed", out("Stop"))),
        ("event", "work", "Kid completed", ""),
    ),
    (
        t.ChildFinished,
        lambda: with_child().feed(t.ChildFinished(101.0, 1, "timed_out")),
        ("control", "work", "Kid timed out", ""),
    ),
    (
        t.ChildFinished,
        lambda: Play(PLAIN).feed(t.ChildFinished(101.0, 7, "failed")),
        ("control", "", "child failed", ""),
    ),
    (t.RunForked, forked, ("started", "run", "from tick 1 of run", "")),
    (
        t.BreakpointHit,
        lambda: Play(PLAIN).feed(t.BreakpointHit(101.0, 2, "before work")),
        ("paused", "run", "breakpoint 2: before work", ""),
    ),
    (
        t.EventEdited,
        lambda: Play(PLAIN).feed(t.EventEdited(101.0, "work", 9, (out("Item"),), (out("Item"),), "ann")),
        ("control", "work", "Item edited by ann", ""),
    ),
    (
        t.EventDropped,
        lambda: Play(PLAIN).feed(t.EventDropped(101.0, "work", 9, (out("Item"),))),
        ("control", "work", "Item dropped", ""),
    ),
    *(
        (
            t.EventArrived,
            lambda hand=hand: Play(PLAIN).feed(t.EventArrived(101.0, out("Item"), hand=hand)),
            ("event", "", f"Item ({words})", ""),
        )
        for hand, words in (
            (t.Hand("ann", (out("Item"),)), "edited by ann"),
            (t.Hand("ann", (out("Item"),), is_dropped=True), "dropped by ann"),
            (t.Hand("ann", (out("Item"),), ahead=2), "edited and admitted ahead of 2 by ann"),
            (t.Hand(early_s=3.0), "fired 3 s early by a person"),
        )
    ),
    (
        t.HoldChanged,
        lambda: Play(PLAIN).feed(t.HoldChanged(101.0, 1, "the robot")),
        ("control", "run", "held open: the robot", ""),
    ),
    (
        t.HoldChanged,
        lambda: Play(PLAIN).feed(t.HoldChanged(101.0, 1, "the robot")).feed(t.HoldChanged(102.0, 1)),
        ("control", "run", "held open no more", ""),
    ),
    (
        t.DefinitionAdopted,
        lambda: Play(PLAIN).feed(t.DefinitionAdopted(101.0, link(replace(PLAIN, hash="newer")))),
        ("control", "run", "takes newer definitions", ""),
    ),
    (
        t.RunSuspended,
        lambda: Play(PLAIN).feed(t.RunSuspended(101.0, "late")),
        ("control", "run", "suspended: late", ""),
    ),
    (
        t.QuietNoticed,
        lambda: opened(wait=t.Ask(out("Ask"))).feed(t.QuietNoticed(101.0)),
        ("waiting", "run", "nothing moves by itself", ""),
    ),
]


@pytest.mark.parametrize(("kind", "play", "words"), CAPTIONS, ids=[f"{c[0].__name__}-{c[2][2]}" for c in CAPTIONS])
def test_each_kind_of_tick_has_its_words(
    kind: type[t.Tick], play: Callable[[], Play], words: tuple[str, str, str, str]
):
    made = play()
    assert type(made.tick) is kind
    assert caption(made.tick, made.before) == words
    assert made.shown.rows[-1][:3] == words[:3]
    assert made.shown.rows[-1][COLUMNS.index("keys")] == words[3]


def test_no_kind_of_tick_is_without_words():
    """The closed union: a new kind needs a caption, and a line above."""
    assert {kind for kind, _, _ in CAPTIONS} == set(typing.get_args(t.AnyTick))


def test_a_step_that_is_tried_again_says_so_until_it_starts():
    """R3.34: more urgent than what runs; the next attempt is due at 110."""
    play = failing()
    assert play.node("work") == ["retrying", "tries again", None]
    assert queue_lines(play.state, []) == [["timer", "work tries again"]]
    play.feed(t.TimerFired(110.0, 1))
    assert play.node("work") == ["running", "", None]


def test_of_many_deliveries_those_that_are_tried_again_are_counted():
    play = fanned(4)
    for n, retry_at in enumerate((110.0, 120.0)):
        play.says("score", t.StepFailed, n=n, failure=Failure("a.b:Odd", "no"), retry_at=retry_at)
    assert play.node("score") == ["retrying", "2 of 4 again", [0, 4, 0, 0]]
    assert counts_line(play.shown, play.state) == "score 2 of 4 again"
    play.feed(t.TimerFired(110.0, 1))
    assert play.node("score")[:2] == ["retrying", "1 of 4 again"]


@pytest.mark.parametrize(
    ("wait", "words", "line"),
    [
        (t.Await("m:Mail"), "waits", ["waiting", "work waits for Mail"]),
        (t.RunChild("m:Kid", out("Start")), "runs a child", ["waiting", "work runs Kid"]),
    ],
)
def test_a_step_that_waits_for_an_event_or_a_child_says_so(wait: Any, words: str, line: list[str]):
    play = opened(wait=wait)
    assert play.node("work") == ["waiting", words, None]
    assert queue_lines(play.state, []) == [line]


def test_a_wait_for_an_event_that_asks_is_a_question():
    play = opened(wait=t.Await("m:Mail", question=out("Ask")))
    assert play.node("work") == ["person", "asks you", None]
    assert queue_lines(play.state, []) == [["person", "work asks Ask"]]


def test_a_start_that_a_breakpoint_holds_back_is_shown_as_queued():
    """R5.25: it stays queued, marked."""
    flow = spec(step("load", "Start", "Row"), step("work", "Row", "Stop"))
    play = Play(flow).feed(says(Play(flow).state, "load", t.StepFinished, outs=(out("Row"),), held=(2,), at=101.0))
    assert play.node("work") == ["waiting", "held back", None]
    assert queue_lines(play.state, []) == [["queued", "work · Row, held back by a breakpoint"]]


def test_what_was_woken_and_has_no_worker_yet_stands_ahead_of_the_queue():
    flow = spec(step("load", "Start", fans="Row"), step("work", "Row", num_workers=1))
    play = Play(flow).finish("load", *(out("Row", i) for i in range(3)), fan=True)
    play.says("work", t.WaitOpened, mark=1, wait=t.Sleep(110.0)).feed(t.TimerFired(110.0, 1))
    assert queue_lines(play.state, []) == [
        ["running", "work · Row"],
        ["queued", "work · Row"],
        ["queued", "work · Row"],
    ]


def test_failures_that_others_take_are_counted_on_their_step():
    """R3.36."""
    flow = spec(
        step("load", "Start", fans="Row"),
        step("score", "Row", "Done"),
        step("mend", "Failed", "Done"),
        step("total", gathers="Done", returns="Stop"),
        types=[event("Failed")],
    )
    play = Play(flow).finish("load", *(out("Row", i) for i in range(3)), fan=True)
    for _ in range(2):  # the oldest one, each time
        play.says("score", t.StepFailed, failure=Failure("a.b:Odd", "no"), failed=out("Failed"))
    assert play.node("score")[:2] == ["failed", "2 failed"]


@pytest.mark.parametrize(
    ("play", "tick"),
    [
        (returned_question(), t.RequestAnswered(101.0, 1, out("Reply"))),
        (returned_question(due_at=130.0, default=True), t.TimerFired(130.0, 1)),
    ],
)
def test_the_answer_of_a_returned_question_goes_along_its_edge(play: Play, tick: t.Tick):
    """The answer of a person, or the default at the deadline."""
    play.feed(tick)
    (edge,) = play.shown.rows[-1][COLUMNS.index("e")]
    assert play.shown.graph.edges[edge].key == "test:Reply"


def test_a_returned_question_that_ends_without_an_answer_goes_nowhere():
    play = returned_question(due_at=130.0).feed(t.TimerFired(130.0, 1))
    assert play.shown.rows[-1][COLUMNS.index("e")] == []


def test_a_newer_definition_gets_a_drawing_of_its_own():
    """R2.23: the steps stand where the new definition has them, and open questions stay with their step."""
    play = opened(ASKS, wait=t.Ask(out("Ask")))
    newer = spec(
        step("first", "Start", "Stop"), step("other", "Start", "Stop"), step("ask", "Start", "Stop", asks=True)
    )
    play.feed(t.DefinitionAdopted(101.0, newer))
    assert [node.id for node in play.shown.graph.nodes] == ["start", "first", "other", "ask", "stop"]
    assert play.node("ask") == ["person", "asks you", None]
    assert play.node("other") == ["running", "", None]
    play.feed(t.RequestAnswered(102.0, 1, out("Reply"), "ann"))
    assert play.node("ask") == ["running", "", None]


def test_a_fork_is_shown_from_the_state_that_it_begins_with():
    play = returned_question()
    first = t.RunForked(200.0, "fork", "run", 2, snapshot=play.state)
    state, commands = begin(first)
    shown = Projection(state)
    shown.apply(None, first, state, commands)
    assert shown.nodes[1] == ["person", "asks you", None]
    assert shown.rows[0][:3] == ("started", "run", "from tick 2 of run")


def test_causes_and_effects_lead_from_an_event_to_who_took_it_and_back():
    play = fanned(2)  # ticks 1 start, 2 load
    play.finish("score", out("Done", 0)).finish("score", out("Done", 1))  # 3, 4
    assert causes(play.tick, play.before) == [2]
    assert play.shown.effects == {1: [2], 2: [3, 4]}


def test_an_answer_is_caused_by_its_question():
    play = opened(wait=t.Ask(out("Ask"))).feed(t.RequestAnswered(101.0, 1, out("Reply")))
    assert causes(play.tick, play.before) == [2]


def test_the_end_of_a_sleep_is_caused_by_its_beginning():
    play = opened(wait=t.Sleep(130.0)).feed(t.TimerFired(130.0, 1))
    assert causes(play.tick, play.before) == [2]


def test_columns_are_the_rows_turned_with_times_in_seconds_and_milliseconds():
    play = Play(PLAIN).finish("work", out("Stop"), after=0.25)
    assert play.shown.columns(1, 2) == {
        "kind": ["finished"],
        "step": ["work"],
        "event": ["Stop"],
        "t": [0.25],
        "ms": [250],
        "keys": [""],
        "d": [[[1, STATES.index("done"), "done", None], [2, STATES.index("done"), "", None]]],
        "e": [[1]],
    }
    assert play.shown.columns(5, 9) == {name: [] for name in COLUMNS}


def test_the_queue_says_what_is_next_what_runs_and_who_waits():
    play = fanned(3)
    assert queue_lines(play.state, [t.EventArrived(101.0, out("Mail"))]) == [
        ["next", "event Mail"],
        ["running", "score · Row"],
        ["running", "score · Row"],
        ["queued", "score · Row"],
    ]
    asked = opened(wait=t.Ask(out("Ask")))
    assert queue_lines(asked.state, []) == [["person", "work asks Ask"]]
    asleep = opened(wait=t.Sleep(130.0))
    assert queue_lines(asleep.state, []) == [["timer", "work sleeps"]]


def test_the_queue_reads_no_more_of_a_long_inbox_than_it_shows():
    """It is asked for 20 times a second."""
    taken = 0

    def inbox() -> Any:
        nonlocal taken
        for i in range(100_000):
            taken += 1
            yield t.EventArrived(101.0, out("Mail", i))

    lines = queue_lines(fanned(2_000).state, inbox(), limit=20)
    assert len(lines) <= 20
    assert taken <= 20


def test_the_compact_line_names_the_most_telling_step():
    play = fanned()
    assert counts_line(play.shown, play.state) == "score 0 of 8"
    assert counts_line(Play(PLAIN).shown, play.state) == ""
