"""A value over every past tick."""

import asyncio
import math
import signal
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flownb import Context, Event, StartEvent, StopEvent, Workflow
from flownb.debug.probe import BARS, SHOWN, Probe, Row
from flownb.errors import WorkflowConfigurationError
from flownb.moment import Moment
from tests.polling import wait_until
from tests.runtime.flows import Asks, Begin, Count, Done, Item


class Go(StartEvent):
    pass


def writes(n: int) -> Workflow[Any]:
    """Items one after the other; each is put into a list of the state."""
    flow = Workflow[Any]("writes")

    @flow.step
    async def loop(ev: Go | Item, ctx: Context) -> Item | StopEvent:
        no = ev.no if isinstance(ev, Item) else 0
        ctx.state.set("docs", [*ctx.state.get("docs", []), no])
        return Item(no=no + 1) if no < n else StopEvent(result=no)

    return flow


def ran(flow: Workflow[Any], **fields: Any) -> Any:
    run = flow.run(**fields)
    run.result(20)
    return run


def test_an_expression_over_every_past_tick():
    """PANEL §4: a row for each, what it raises at a tick stands there and is not raised."""
    run = ran(writes(3))
    probe = run.debug.probe("len(state.docs)")
    assert len(probe) == len(run.debug.ticks) == run.now.seq
    assert [row.seq for row in probe] == list(range(1, run.now.seq + 1))
    assert probe[0] == Row(1, None, "AttributeError: The state has no 'docs'. It has nothing.")
    assert probe.errors == {1: probe[0].error}
    assert [row.value for row in probe[1:]] == [len(run.debug.at(row.seq).state["docs"]) for row in probe[1:]]
    assert probe.values[-1] == 4


def test_a_function_gets_the_moment_of_each_tick():
    run = ran(Count(), n=3)
    seen: list[Moment] = []
    probe = run.debug.probe(lambda moment: seen.append(moment) or len(moment.running.get("work", ())))
    assert [moment.seq for moment in seen] == list(range(1, run.now.seq + 1))
    assert all(moment.is_past for moment in seen)
    assert [row.value for row in probe] == [
        len(run.debug.at(k).running.get("work", ())) for k in range(1, len(probe) + 1)
    ]
    assert run.debug.probe(lambda moment: moment.told).values == [
        run.debug.at(k).told for k in range(1, len(probe) + 1)
    ]
    assert run.debug.probe(lambda moment: moment.effects).values[0] == (2,)


def test_what_speaks_of_the_event_is_asked_for_each_event_and_of_nothing_else():
    """As `when=` is; `tick` is the tick, and names are those of the caller."""
    run = ran(Count(), n=3)
    least = 1
    probe = run.debug.probe("event.no >= least", start=2, stop=5)
    brought = [(k, out.value.no) for k in range(2, 6) for out in run.debug.ticks[k - 1].outs]
    assert [(row.seq, row.value) for row in probe] == [(k, no >= least) for k, no in brought]
    assert [seq for seq, _ in brought] == [2, 2, 2, 3, 4, 5]
    run = ran(writes(3))  # a written state brings no event
    assert {type(run.debug.ticks[row.seq - 1]).__name__ for row in run.debug.probe("event")} == {
        "RunStarted", "StepFinished",
    }  # fmt: skip
    assert {row.seq for row in run.debug.probe("type(tick).__name__")} == set(range(1, run.now.seq + 1))


def test_only_some_ticks():
    run = ran(writes(6))
    probe = run.debug.probe("state.docs[-1]", start=4, stop=9)
    assert [row.seq for row in probe] == [4, 5, 6, 7, 8, 9] and (probe.start, probe.stop) == (4, 9)
    assert "over ticks 4 to 9: 6 rows" in repr(probe)
    assert list(run.debug.probe("1", start=run.now.seq)) == [Row(run.now.seq, 1)]
    assert list(run.debug.probe("1", start=3, stop=2)) == []
    for start, stop in ((0, None), (1, run.now.seq + 1), (5, 3)):
        with pytest.raises(IndexError, match=f"ticks 1 to {run.now.seq}, not {start} to "):
            run.debug.probe("1", start, stop)


def test_what_is_no_expression_and_no_function_is_told_before_anything_is_folded():
    run = ran(Count())
    with pytest.raises(WorkflowConfigurationError, match="probe='len\\(' is no expression"):
        run.debug.probe("len(")
    with pytest.raises(WorkflowConfigurationError, match="probe takes a function of a Moment or an expression, not 3"):
        run.debug.probe(3)


def test_the_rows_are_a_table():
    """pandas takes them as they are."""
    run = ran(writes(3))
    probe = run.debug.probe("len(state.docs)")
    frame = pd.DataFrame(probe)
    assert list(frame.columns) == ["seq", "value", "error"] and len(frame) == len(probe)
    assert frame.value.max() == 4 and frame.seq.tolist() == [row.seq for row in probe]
    assert pd.DataFrame(probe.to_dicts()).equals(frame)
    assert probe.to_dicts()[1] == {"seq": 2, "value": 1, "error": ""}
    assert (Row(2, 1) in probe, probe.index(Row(2, 1)), next(reversed(probe))) == (True, 1, probe[-1])


def probe_of(*values: Any) -> Probe:
    rows = [
        value._replace(seq=seq) if isinstance(value, Row) else Row(seq, value) for seq, value in enumerate(values, 1)
    ]
    return Probe("x", rows, 1, len(rows))


def test_repeated_values_are_folded_where_they_are_shown():
    probe = probe_of(1, 1, 1, 2, Row(0, None, "E: no"), Row(0, None, "E: no"), None, 2)
    assert [(stretch.ticks(), stretch.words()) for stretch in probe.stretches] == [
        ("1–3", "1"), ("4", "2"), ("5–6", "E: no"), ("7", "None"), ("8", "2"),
    ]  # fmt: skip
    assert repr(probe).splitlines() == [
        "<Probe of x over ticks 1 to 8: 8 rows, 2 of them errors>",
        "  ▁▁▁█   █  1 to 2",
        "  1–3  1",
        "    4  2",
        "  5–6  E: no",
        "    7  None",
        "    8  2",
    ]
    assert len(probe) == 8
    frame = pd.DataFrame({"a": [1]})
    assert len(probe_of(frame, frame, pd.DataFrame({"a": [1]})).stretches) == 2  # no `==` of the user's is called
    assert repr(probe_of()) == "<Probe of x over ticks 1 to 0: 0 rows>"


def test_of_many_changes_the_first_and_the_last_are_shown():
    lines = repr(probe_of(*range(1000))).splitlines()
    assert len(lines) == 2 + SHOWN + 1
    assert lines[2 + SHOWN // 2].split() == ["…", f"{1000 - SHOWN}", "more", "changes"]
    assert lines[-1].split() == ["1000", "999"]


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ((0, 1, 2, 3, 4, 5, 6, 7), "▁▂▃▄▅▆▇█"),
        ((False, True), "▁█"),
        ((5, 5, 5), "▁▁▁"),
        ((np.float64(1), np.int64(2), 3.0), "▁▅█"),
        ((1, float("nan"), 2), ""),
        ((1, "a"), ""),
        ((1,), ""),
        ((None, None), ""),
        ((1, None, 3), "▁ █"),
        ((-1e308, 1e308), "▁█"),
        ((10**400, 1, 2), ""),
    ],
)
def test_numbers_have_a_line_of_bars(values: tuple[Any, ...], bars: str):
    assert probe_of(*values).sparkline == bars


def test_a_peak_is_seen_in_a_long_line_too():
    values = [0.0] * 5000
    values[2500] = 9.0
    values[100] = -9.0
    bars = probe_of(*values).sparkline
    assert len(bars) == BARS and bars.count("█") == 1 and bars.count("▁") == 1
    assert probe_of(*(math.sin(n / 100) for n in range(5000))).sparkline.count("█") > 3


def test_what_it_shows_is_escaped_and_no_secret():
    """Values, errors and the question itself are people's own text."""

    class Login(Event):
        password: Any

    from pydantic import SecretStr

    hostile = "<script>alert('x')</script>"
    probe = Probe(
        hostile, [Row(1, hostile), Row(2, None, f"E: {hostile}"), Row(3, Login(password=SecretStr("hunter2")))], 1, 3
    )
    html = probe._repr_html_()
    assert "<script" not in html and html.count("&lt;script&gt;") == 3 and "mathjax_ignore" in html
    assert "hunter2" not in html + repr(probe)
    assert "<code>▁█</code> 1 to 2" in probe_of(1, 2)._repr_html_()
    for line in repr(Probe("a\nb", [Row(1, "c\nd\x1b[31m")], 1, 1)).splitlines():
        assert line.isprintable()


def test_an_interrupt_ends_it():
    """Ctrl-C is no error of a tick."""
    run = ran(Count(), n=50)
    asked: list[int] = []

    def slow(moment: Moment) -> int:
        asked.append(moment.seq)
        if len(asked) == 5:
            signal.raise_signal(signal.SIGINT)
        return 1

    with pytest.raises(KeyboardInterrupt):
        run.debug.probe(slow)
    assert len(asked) == 5
    assert len(run.debug.probe("1")) == run.now.seq


def test_a_value_that_breaks_where_it_is_shown_breaks_nothing():
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    class Worse(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    run = ran(Count())
    assert "Bad (its text raised RuntimeError)" in repr(run.debug.probe(lambda moment: Bad(), stop=1))

    def raises(moment: Moment) -> None:
        raise Worse

    (row,) = run.debug.probe(raises, stop=1)
    assert row.error.startswith("Worse: ")


def test_a_run_that_goes_on_is_probed_up_to_now():
    """Of the run's own thread nothing is asked."""

    async def main() -> None:
        run = Count().run(n=100)
        lengths = []
        while not run.is_done():
            lengths.append(len(run.debug.probe("tick.at")) if run.debug.ticks else 0)
            await asyncio.sleep(0)
        assert lengths == sorted(lengths) and len(run.debug.probe("tick.at")) == run.now.seq

    asyncio.run(main())


def test_a_run_that_asks_is_probed_too():
    run = Asks().run(n=5)
    wait_until(lambda: run.status == "waiting")
    assert run.debug.probe("event.no if type(event).__name__ == 'Approve' else 0").values[-1] == 5
    assert run.debug.probe(lambda moment: moment.steps["ask"]).values[-1] == "person"
    run.cancel().result(20)


def test_it_takes_one_fold_of_the_journal():
    """O(ticks): ten times the ticks take ten times as long, not a hundred times."""
    flow = Workflow[Any]("long")

    @flow.step
    async def loop(ev: Begin | Done, ctx: Context) -> Done | StopEvent:
        no = ev.no if isinstance(ev, Done) else ev.n
        ctx.state.set("no", no)
        return Done(no=no - 1) if no else StopEvent()

    few, many = ran(flow, n=150), ran(flow, n=1500)

    def whole(run: Any) -> float:
        begun = time.process_time()
        assert len(run.debug.probe("state.no")) == len(run.debug.ticks)
        return time.process_time() - begun

    growth = min(whole(many) / whole(few) for _ in range(5))
    assert growth < 16, growth
