"""The timeline as a picture: bounded, escaped, readable at any length of time."""

import re
import time
from typing import Any
from xml.etree import ElementTree

import pytest

from flownb.notebook.timeline import ROWS, Lane, Mark, Span, Timeline
from flownb.notebook.timeline_bars import SHAPES
from flownb.notebook.timeline_svg import LANES, timeline_svg
from flownb.notebook.timescale import scale_of
from tests.notebook.graphs import HOSTILE


def lane(name: str = "work", *spans: tuple[str, float, float], rows: int = 1, **fields: Any) -> Lane:
    """A lane with all its spans in row 0, as (state, start, end)."""
    return Lane(name, [Span(state, 0, start, end) for state, start, end in spans], rows=rows, **fields)


def run_of(*lanes: Lane, end: float = 10.0, name: str = "flow", **fields: Any) -> Timeline:
    fields = {"pauses": (), "away": (), **fields}
    return Timeline("7f3a", name, "completed", 12, 0.0, end, lanes, **fields)


def shapes_in(svg: str) -> int:
    """Every bar, glyph, line and text: the pieces of each path count one by one."""
    root = ElementTree.fromstring(svg)
    paths = sum(len(re.findall("[Mm]", el.get("d", ""))) for el in root.iter("{http://www.w3.org/2000/svg}path"))
    return paths + sum(el.tag.endswith(("text", "rect", "circle")) for el in root.iter())


def texts(svg: str) -> list[str]:
    return ["".join(el.itertext()) for el in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_a_run_of_any_number_of_deliveries_is_a_small_picture_that_is_made_at_once():
    """However states take turns, and in however many lanes."""
    states = ("done", "failed", "person", "retrying", "waiting", "skipped")
    lanes = []
    for k in range(30):
        made = Lane(f"step {k}", rows=ROWS)
        for i in range(4_000):
            made.spans.append(
                Span(states[(i + k) % 6], i * ROWS // 4_000, (i * 97 % 500) / 50, (i * 97 % 500 + 1) / 50)
            )
        made.spans.sort(key=lambda span: (span.row, span.start))
        made.marks = [Mark("failed", i % ROWS, i / 400) for i in range(4_000)]
        lanes.append(made)
    began = time.process_time()
    svg = timeline_svg(run_of(*lanes))
    assert time.process_time() - began < 5, "seconds of work for 120,000 bars and as many marks"
    assert shapes_in(svg) < SHAPES + 1_000, "with names, grid and what a mark is made of"
    assert len(svg) < 200_000


def test_a_picture_in_which_every_row_has_every_mark_comes_to_an_end():
    """One of each kind in each row is left however far apart they have to be: more than shapes were meant for."""
    kinds: tuple[Any, ...] = ("asked", "answered", "failed", "retried")
    lanes = [Lane(f"step {k}", [Span("failed", row, 0.0, 9.0) for row in range(ROWS)], rows=ROWS) for k in range(LANES)]
    for made in lanes:
        made.marks = [Mark(what, row, 5.0) for row in range(ROWS) for what in kinds]
    assert len(timeline_svg(run_of(*lanes))) < 600_000


def test_what_is_closer_than_a_pixel_is_one_bar_of_the_most_urgent_state():
    spans = [("done", i / 1000, i / 1000 + 0.0009) for i in range(5_000)]
    spans[2_500] = ("failed", 2.5, 2.5009)
    svg = timeline_svg(run_of(lane("work", *spans)))
    drawn = re.findall(r'<path d="(M[^"]*z)" fill="(#\w+)"', svg)
    assert {fill for _, fill in drawn} == {"#DDF3EA", "#FBE3D6"}, "the one that failed is still seen"
    assert sum(d.count("M") for d, _ in drawn) < 400


def test_bars_that_touch_stay_apart_where_there_is_room():
    svg = timeline_svg(run_of(lane("work", ("done", 0, 3), ("done", 3, 5), ("done", 5, 10))))
    assert len(re.findall(r"M[\d. ]+h[\d.]+v15h-", svg)) == 3


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str):
    """Of workflow, steps and events."""
    hostile = Lane(name, [Span("person", 0, 1.0, 9.0, name)], [Mark("asked", 0, 1.0)], rows=1, runs={name: None})
    svg = timeline_svg(run_of(hostile, name=name))
    tags = {el.tag.rpartition("}")[2] for el in ElementTree.fromstring(svg).iter()}
    assert tags <= {"svg", "rect", "path", "text", "tspan", "defs", "pattern", "circle", "g"}
    assert "<script" not in svg and "onerror=" not in re.sub(r">[^<]*<", "><", svg)


def test_lanes_tell_their_step_and_what_came_of_it():
    made = Lane("score", [Span("done", 0, 0.0, 1.0)], rows=1, done=1_204, runs={"Enrich": None})
    found = texts(timeline_svg(run_of(made, Lane("never"), Lane("cut", cancelled=3))))
    assert "1,204 done · runs Enrich" in found
    assert found[found.index("never") : found.index("never") + 4] == ["never", "not reached", "cut", "3 cut off"]


def test_the_name_of_a_child_stands_in_its_bar():
    made = Lane("enrich", [Span("waiting", 0, 1.0, 9.0, "Lookup")], rows=1)
    assert "Lookup" in texts(timeline_svg(run_of(made)))


def test_pauses_and_time_without_a_driver_are_hatched_and_told():
    svg = timeline_svg(run_of(lane("work", ("done", 0, 10)), pauses=((2.0, 4.0),), away=((5.0, 6.0),)))
    assert svg.count('fill="url(#h)"') == 2 and svg.count('fill="url(#a)"') == 2, "band and legend"
    assert {"paused", "driven by nobody"} <= set(texts(svg))


def test_the_legend_tells_what_the_picture_has_and_no_more():
    made = Lane("work", [Span("done", 0, 0.0, 5.0), Span("person", 0, 5.0, 10.0)], [Mark("asked", 0, 5.0)], rows=1)
    legend = texts(timeline_svg(run_of(made)))[-3:]
    assert legend == ["ran", "waits for a person", "asked a person"]


def test_of_many_steps_those_that_were_reached_are_drawn_and_the_others_counted():
    lanes = [Lane(f"s{i}") for i in range(LANES + 20)]
    lanes[55].spans.append(Span("done", 0, 0.0, 1.0))
    lanes[55].rows = 1
    found = texts(timeline_svg(run_of(*lanes)))
    assert "s55" in found and "and 20 more steps" in found
    assert found.index("s3") < found.index("s55")


def test_a_run_of_no_time_and_no_steps_is_drawn():
    assert "0 s" in texts(timeline_svg(run_of(end=0.0)))
    assert "work" in texts(timeline_svg(run_of(lane("work", ("running", 0, 0)), end=0.0)))


# -- the axis


def labels(shown: Timeline) -> list[str]:
    return [text for _, text in scale_of(shown, 700).labels()]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (0.004, ["0 s", "0.5 ms", "1 ms", "1.5 ms"]),
        (0.9, ["0 s", "0.1 s", "0.2 s", "0.3 s"]),
        (9, ["0 s", "1.0 s", "2.0 s", "3.0 s"]),
        (200, ["0 s", "30 s", "1 min", "1 min 30 s"]),
        (7_000, ["0 s", "15 min", "30 min", "45 min"]),
        (86_400 * 5, ["0 s", "1 d", "2 d", "3 d"]),
        (86_400 * 2_000, ["0 s", "365 d", "730 d", "1095 d"]),
    ],
)
def test_the_axis_has_the_units_that_fit_its_length(end: float, expected: list[str]):
    found = labels(run_of(lane("work", ("done", 0, end)), end=end))
    assert found[:4] == expected
    assert 4 <= len(found) <= 10


def test_time_is_straight_where_something_is_done_all_the_time():
    scale = scale_of(run_of(lane("work", ("done", 0, 10))), 700)
    assert (scale.x(0), scale.x(5), scale.x(10), scale.x(-1), scale.x(11)) == (0, 350, 700, 0, 700)
    assert scale.gaps == []


def test_two_days_of_waiting_for_a_person_are_folded_and_told():
    """Else the work before and after would be one pixel."""
    day = 86_400.0
    made = lane("work", ("done", 0, 1), ("person", 1, 2 * day), ("done", 2 * day, 2 * day + 2))
    scale = scale_of(run_of(made, end=2 * day + 2), 700)
    assert [(round(left), round(right), text) for left, right, text in scale.gaps] == [(64, 589, "2 d")]
    assert [text for _, text in scale.labels()] == ["0 s", "+2.0 s"], "behind the gap, the time since its end"
    assert [round(scale.x(at)) for at in (0, 1, 2 * day, 2 * day + 2)] == [0, 64, 589, 700]


def test_waits_that_are_not_much_longer_than_the_work_are_not_folded():
    made = lane("work", ("done", 0, 1), ("person", 1, 4), ("done", 4, 5))
    assert scale_of(run_of(made, end=5.0), 700).gaps == []


def test_a_run_that_only_waits_is_drawn():
    """There is nothing to fold the wait for."""
    assert scale_of(run_of(lane("work", ("person", 0, 1_000)), end=1_000.0), 700).gaps == []
