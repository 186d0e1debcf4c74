"""What ran when, computed from ticks alone."""

from collections.abc import Callable
from typing import Any

import pytest

from flownb.core import ticks as t
from flownb.core.reduce import begin, reduce
from flownb.core.spec import Spec
from flownb.core.state import RunState
from flownb.core.values import Failure
from flownb.notebook.periods import covered, joined, lasted
from flownb.notebook.timeline import ROWS, Lane, Span, Timeline, timeline
from flownb.testing.feed import event, key, out, says, spec, started, step

PLAIN = spec(step("work", "Start", "Stop"))
FAN = spec(
    step("load", "Start", fans="Row"),
    step("score", "Row", "Done", num_workers=2),
    step("total", gathers="Done", returns="Stop"),
)
RETURNS = spec(
    step("check", "Start", "AskCheck"),
    step("store", "ReplyCheck", "Stop"),
    types=[event("AskCheck", answer="ReplyCheck")],
)
PARENT = spec(step("work", "Start", "Stop", runs="Enrich"))
ODD = Failure("m:Odd", "no")


class Film:
    """A journal that is written tick by tick; it begins at 100 s."""

    def __init__(self, flow: Spec, **fields: Any) -> None:
        first = started(flow, at=100.0, **fields)
        self.ticks: list[t.AnyTick] = [first]
        self.state: RunState = begin(first)[0]

    def feed(self, tick: Any) -> "Film":
        self.ticks.append(tick)
        self.state = reduce(self.state, tick)[0]
        return self

    def says(self, name: str, tick: Callable[..., Any], *, at: float, n: int = 0, **fields: Any) -> "Film":
        return self.feed(says(self.state, name, tick, at=100 + at, n=n, **fields))

    def finish(self, name: str, *outs: Any, at: float, n: int = 0, fan: bool = False) -> "Film":
        return self.says(name, t.StepFinished, at=at, n=n, outs=outs, fan=fan)

    def fires(self, at: float) -> "Film":
        return self.feed(t.TimerFired(100 + at, min(timer.id for timer in self.state.timers.values())))

    def shown(self, **fields: Any) -> Timeline:
        return timeline(self.ticks, **fields)

    def lane(self, name: str, **fields: Any) -> Lane:
        return next(lane for lane in self.shown(**fields).lanes if lane.name == name)


def bars(lane: Lane) -> list[tuple[Any, ...]]:
    """(state, row, seconds since the start, until, label)."""
    return [(s.state, s.row, round(s.start - 100, 6), round(s.end - 100, 6), s.label) for s in lane.spans]


def marks(lane: Lane) -> list[tuple[str, int, float]]:
    return [(mark.what, mark.row, round(mark.at - 100, 6)) for mark in lane.marks]


# -- attempts


def test_an_attempt_is_a_bar_from_its_start_to_its_end():
    shown = Film(PLAIN).finish("work", out("Stop"), at=3).shown()
    assert shown == Timeline(
        "run", "flow", "completed", 2, 100.0, 103.0,
        (Lane("work", [Span("done", 0, 100.0, 103.0)], rows=1, done=1, most_running=1),), (), (),
    )  # fmt: skip


def test_what_runs_beside_each_other_is_stacked_and_rows_are_used_again():
    """The third starts on the worker that the second, which ends first, gives back."""
    film = Film(FAN).finish("load", *(out("Row", i) for i in range(3)), at=1, fan=True)
    film.finish("score", out("Done"), at=2, n=1).finish("score", out("Done"), at=4, n=0)
    lane = film.finish("score", out("Done"), at=5).lane("score")
    assert bars(lane) == [("done", 0, 1, 4, ""), ("done", 1, 1, 2, ""), ("done", 1, 2, 5, "")]
    assert (lane.rows, lane.done, lane.most_running, lane.most_queued) == (2, 3, 2, 1)
    assert lane.queue == [(101.0, 102.0)]


def test_what_is_under_way_beyond_the_last_row_shares_it():
    flow = spec(step("load", "Start", fans="Row"), step("score", "Row", "Done", num_workers=None), step("end", "Done"))
    film = Film(flow).finish("load", *(out("Row", i) for i in range(ROWS + 3)), at=1, fan=True)
    for i in range(ROWS + 3):
        film.finish("score", out("Done"), at=2 + i)
    lane = film.lane("score")
    assert (lane.rows, lane.most_running, len(lane.spans)) == (ROWS, ROWS + 3, ROWS + 3)
    assert [span.row for span in lane.spans] == [*range(ROWS - 1), *[ROWS - 1] * 4]


def test_a_failed_attempt_its_delay_and_the_next_attempt_share_a_row():
    film = Film(PLAIN).says("work", t.StepFailed, at=1, failure=ODD, retry_at=104.0)
    lane = film.fires(4).finish("work", out("Stop"), at=6).lane("work")
    assert bars(lane) == [("failed", 0, 0, 1, ""), ("retrying", 0, 1, 4, ""), ("done", 0, 4, 6, "try 2")]
    assert marks(lane) == [("retried", 0, 1)]
    assert (lane.done, lane.failed, lane.retried) == (1, 0, 1)


def test_an_attempt_that_follows_at_once_has_no_delay():
    film = Film(PLAIN).says("work", t.StepFailed, at=1, failure=ODD, retry_at=101.0)
    lane = film.finish("work", out("Stop"), at=2).lane("work")
    assert [bar for bar in bars(lane) if bar[2] < bar[3]] == [("failed", 0, 0, 1, ""), ("done", 0, 1, 2, "try 2")]


def test_a_failure_for_good_cuts_off_what_runs_beside_it():
    film = Film(FAN).finish("load", *(out("Row", i) for i in range(3)), at=1, fan=True)
    lane = film.says("score", t.StepFailed, at=2, failure=ODD).lane("score")
    assert bars(lane) == [("failed", 0, 1, 2, ""), ("skipped", 1, 1, 2, "")]
    assert sorted(marks(lane)) == [("cancelled", 1, 2), ("failed", 0, 2)]
    assert (lane.failed, lane.cancelled) == (1, 2), "the queued one is cut off too, and was never on a row"


def test_of_a_run_that_goes_on_what_is_open_is_drawn_up_to_now():
    film = Film(FAN).finish("load", *(out("Row", i) for i in range(3)), at=1, fan=True)
    shown = film.shown(now=107.5, status="running")
    assert (shown.end, shown.status) == (107.5, "running")
    assert bars(shown.lanes[1]) == [("running", 0, 1, 7.5, ""), ("running", 1, 1, 7.5, "")]
    assert shown.lanes[1].queue == [(101.0, 107.5)]
    assert film.shown().end == 101.0, "without a clock, up to the last tick"


# -- waits


@pytest.mark.parametrize(
    ("wait", "state", "label"),
    [
        (t.Sleep(104.0), "waiting", "sleeps"),
        (t.Ask(out("AskOk")), "person", "asks AskOk"),
        (t.Await(key("Late")), "waiting", "Late"),
        (t.Await(key("Late"), question=out("AskOk")), "person", "Late"),
        (t.RunChild(key("Enrich"), out("Start")), "waiting", "Enrich"),
    ],
    ids=["sleep", "ask", "event", "event with a question", "child"],
)
def test_a_wait_is_a_lighter_bar_that_says_what_for(wait: Any, state: str, label: str):
    """Of a child run the bar shows the name."""
    lane = Film(PARENT).says("work", t.WaitOpened, at=1, mark=1, wait=wait).lane("work", now=103.0)
    assert bars(lane) == [("done", 0, 0, 1, ""), (state, 0, 1, 3, label)]
    assert list(lane.runs) == (["Enrich"] if label == "Enrich" else [])


def test_a_question_and_its_answer_are_marked_and_the_step_goes_on_in_its_row():
    film = Film(PLAIN).says("work", t.WaitOpened, at=1, mark=1, wait=t.Ask(out("AskOk")))
    film.feed(t.RequestAnswered(104.0, 1, out("Value", True), by="ann"))
    lane = film.finish("work", out("Stop"), at=5).lane("work")
    assert bars(lane) == [("done", 0, 0, 1, ""), ("person", 0, 1, 4, "asks AskOk"), ("done", 0, 4, 5, "")]
    assert marks(lane) == [("asked", 0, 1), ("answered", 0, 4)]


def test_a_default_answers_too():
    wait = t.Ask(out("AskOk"), due_at=103.0, default=out("Value", False))
    lane = Film(PLAIN).says("work", t.WaitOpened, at=1, mark=1, wait=wait).fires(3).lane("work")
    assert marks(lane) == [("asked", 0, 1), ("answered", 0, 3)]


def test_a_returned_question_takes_a_row_of_the_step_that_returned_it():
    """No delivery waits for it; the answer goes on to another step."""
    film = Film(RETURNS).finish("check", out("AskCheck"), at=1)
    film.feed(t.RequestAnswered(105.0, 1, out("ReplyCheck")))
    lanes = film.finish("store", out("Stop"), at=6).shown().lanes
    assert bars(lanes[0]) == [("done", 0, 0, 1, ""), ("person", 0, 1, 5, "asks AskCheck")]
    assert marks(lanes[0]) == [("asked", 0, 1), ("answered", 0, 5)]
    assert bars(lanes[1]) == [("done", 0, 5, 6, "")]


def test_a_question_that_the_end_closes_was_not_answered():
    film = Film(RETURNS).finish("check", out("AskCheck"), at=1)
    lane = film.feed(t.CancelRequested(103.0)).lane("check")
    assert bars(lane)[-1] == ("person", 0, 1, 3, "asks AskCheck")
    assert marks(lane) == [("asked", 0, 1)]


# -- the whole run


def test_the_time_of_a_closed_gate_is_a_pause():
    film = Film(PLAIN).feed(t.GateClosed(102.0)).feed(t.GateOpened(105.0)).feed(t.GateClosed(106.0))
    assert film.shown(now=109.0).pauses == ((102.0, 105.0), (106.0, 109.0))
    assert film.finish("work", at=7).shown().pauses == ((102.0, 105.0), (106.0, 107.0))


def test_what_a_lost_driver_ran_ends_with_its_last_tick():
    """Nobody knows when it died, but nobody drove the run until the next one came."""
    film = Film(FAN).finish("load", out("Row"), at=1, fan=True)
    shown = film.feed(t.RunOpened(190.0, "other", 1)).finish("score", out("Done"), at=91).shown()
    assert shown.away == ((101.0, 190.0),)
    assert [bar for bar in bars(shown.lanes[1]) if bar[2] < bar[3]] == [("done", 0, 90, 91, "")]


def test_the_time_without_a_driver_is_no_pause():
    """A run that is suspended has its gate closed meanwhile."""
    film = Film(PLAIN).feed(t.GateClosed(101.0)).feed(t.RunSuspended(102.0)).feed(t.RunOpened(190.0, "other", 1))
    shown = film.feed(t.GateOpened(193.0)).shown()
    assert (shown.pauses, shown.away) == (((101.0, 102.0), (190.0, 193.0)), ((102.0, 190.0),))


def test_a_gate_that_is_closed_for_no_time_is_no_pause():
    assert Film(PLAIN).feed(t.GateClosed(101.0)).feed(t.GateOpened(101.0)).shown().pauses == ()


def test_steps_are_lanes_in_their_order_reached_or_not():
    lanes = Film(FAN).shown().lanes
    assert [(lane.name, len(lane.spans)) for lane in lanes] == [("load", 1), ("score", 0), ("total", 0)]


def test_a_step_that_a_newer_definition_dropped_keeps_its_lane():
    film = Film(PLAIN).feed(t.GateClosed(101.0)).finish("work", at=2)
    newer = spec(step("other", "Start", "Stop"))
    lanes = film.feed(t.DefinitionAdopted(103.0, newer)).shown().lanes
    assert [lane.name for lane in lanes] == ["other", "work"]


def test_a_fork_of_a_snapshot_begins_with_what_lives():
    film = Film(RETURNS).finish("check", out("AskCheck"), at=1)
    fork = t.RunForked(200.0, "new", "run", 2, snapshot=film.state)
    lanes = timeline([fork], now=205.0).lanes
    assert bars(lanes[0]) == [("person", 0, 100, 105, "asks AskCheck")]


def test_the_picture_in_words():
    film = Film(FAN).finish("load", *(out("Row", i) for i in range(3)), at=1, fan=True)
    film.says("score", t.StepFailed, at=2, failure=ODD, retry_at=103.0).feed(t.GateClosed(102.5))
    assert film.shown(now=104.5).words().splitlines() == [
        "run run of flow: paused, 4 ticks in 4.5 s, paused for 2.0 s",
        "load: 1 done, from 0 s to 1.0 s",
        "score: 1 tried again, at most 2 at once, at most 1 queued, from 1.0 s to 4.5 s",
        "total: not reached",
    ]


def test_words_tell_how_long_people_and_children_were_waited_for():
    film = Film(PLAIN).says("work", t.WaitOpened, at=1, mark=1, wait=t.Ask(out("AskOk")))
    assert film.lane("work", now=165.0).words(100.0) == "work: waited for a person 1 min 4 s, from 0 s to 1 min 5 s"
    film = Film(PARENT).says("work", t.WaitOpened, at=1, mark=1, wait=t.RunChild(key("Enrich"), out("Start")))
    assert "waited 1.0 s, ran Enrich" in film.lane("work", now=102.0).words(100.0)


# -- time


def test_periods_that_overlap_or_touch_are_counted_once():
    assert joined([(5, 6), (1, 3), (2, 4), (4, 4.5)]) == [(1, 4.5), (5, 6)]
    assert covered([(5, 6), (1, 3), (2, 4)]) == 4


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.000_001, "0 ms"),
        (0.0004, "0.4 ms"),
        (0.052, "52 ms"),
        (0.1, "0.1 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3600, "1 h"),
        (86_399.9, "1 d"),
        (90_000, "1 d 1 h"),
        (86_460, "1 d"),
    ],
)
def test_how_long_in_the_two_largest_units(seconds: float, words: str):
    assert lasted(seconds) == words
