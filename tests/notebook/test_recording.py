"""A run as data for a page without a kernel."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from flownb import Event
from flownb.core import ticks as t
from flownb.core.reduce import advance
from flownb.core.values import Failure, Out
from flownb.notebook.recording import Recording, record, safe_json
from flownb.notebook.viewmodel import COLUMNS, STATES, Projection
from flownb.runtime.capture import StepLog
from flownb.testing.feed import event, key, out, spec, step
from tests.notebook.graphs import HOSTILE
from tests.notebook.test_timeline import FAN, ODD, PLAIN, Film


def read(made: Recording) -> dict[str, Any]:
    """What the page's script reads."""
    data: dict[str, Any] = json.loads(made.json(graph={}))
    return data


def scored(n: int) -> Film:
    """A fan-out of n rows, all done: 2 + n + 1 ticks."""
    film = Film(FAN).finish("load", *(out("Row", i) for i in range(n)), at=1, fan=True)
    for i in range(n):
        film.finish("score", out("Done", i), at=2 + i)
    return film.finish("total", out("Stop"), at=3 + n)


# -- rows and pictures


def test_rows_are_those_of_the_panel():
    film = scored(3)
    state, shown = None, None
    for tick in film.ticks:
        after, commands = advance(state, tick)
        shown = shown or Projection(after)
        shown.apply(state, tick, after, commands)
        state = after
    assert shown is not None
    made = record(film.ticks)
    assert made.columns == shown.columns(0, len(film.ticks))
    assert (made.first, made.total, made.left_out) == (0, 6, [])
    assert made.end == (shown.nodes, shown.edges)


def test_of_a_long_run_the_newest_ticks_are_kept_and_the_page_says_so():
    """The picture before them is given, so that it can be gone on from."""
    film = scored(20)
    whole, made = record(film.ticks), record(film.ticks, kept=8)
    assert (made.first, made.total, len(made.told), len(made.queues)) == (15, 23, 8, 8)
    assert made.columns == {name: whole.columns[name][15:] for name in COLUMNS}
    assert sorted(made.details) == list(range(16, 24))
    assert made.left_out == ["The first 15 ticks are left out: this page has the newest 8."]
    nodes, edges = folded(whole, 15)
    assert (made.start["nodes"], made.start["edges"]) == (nodes, edges)


def folded(made: Recording, seq: int) -> tuple[list[list[Any]], list[int]]:
    """The picture after a tick, computed as the page does it."""
    nodes = [list(node) for node in made.start["nodes"]]
    edges = list(made.start["edges"])
    for i in range(seq):
        for node, state, sub, bar in made.columns["d"][i]:
            nodes[node] = [STATES[state], sub, bar]
        for edge in made.columns["e"][i]:
            edges[edge] += 1
    return nodes, edges


def test_the_status_is_kept_where_it_changes():
    film = Film(PLAIN).feed(t.GateClosed(101.0)).says("work", t.WaitOpened, at=2, mark=1, wait=t.Ask(out("AskOk")))
    film.feed(t.GateOpened(103.0)).feed(t.CancelRequested(104.0))
    assert record(film.ticks).status == [
        [1, "running", 0, False],
        [2, "paused", 0, True],
        [3, "paused", 1, True],
        [4, "running", 1, False],
        [5, "cancelled", 0, False],
    ]
    open_run = Film(PLAIN).ticks
    assert record(open_run, status="suspended").status[-1] == [1, "suspended", 0, False]


def test_a_newer_definition_renames_the_rows_of_the_older_one():
    """All rows speak of the last definition, by the names of steps and events."""
    old = spec(step("work", "Start", "Mid"), step("gone", "Mid", "Late"), step("store", "Late", "Stop"))
    new = spec(step("first", "Start", "Mid"), step("store", "Late", "Stop"), step("work", "Start", "Mid"))
    film = Film(old).finish("work", out("Mid"), at=1).finish("gone", out("Late"), at=2).feed(t.GateClosed(103.0))
    film.feed(t.DefinitionAdopted(104.0, new))
    made = record(film.ticks)
    labels = [node.label for node in made.graph.nodes]
    assert labels == ["start", "first", "store", "work", "stop"]
    nodes, _ = folded(made, 3)
    assert [node[0] for node in nodes] == ["done", "idle", "running", "done", "idle"]
    edge = next(i for i, e in enumerate(made.graph.edges) if (e.source, e.target) == (0, 3))
    assert made.columns["e"][0] == [edge]
    late = record(film.ticks, kept=1)
    assert [node[0] for node in late.start["nodes"]] == ["done", "idle", "running", "done", "idle"]


# -- details


def test_details_tell_fields_changes_causes_and_effects():
    film = Film(PLAIN).says("work", t.StateWritten, at=1, changes={"n": Out("v", 3)})
    film.says("work", t.StateWritten, at=2, changes={"n": Out("v", 4)}).finish("work", out("Stop", 7), at=3)
    details = read(record(film.ticks))["details"]
    assert details["1"]["effects"] == [2, 3, 4]
    assert details["2"]["state"] == [["n", None, "3"]]
    assert details["3"]["state"] == [["n", "3", "4"]]
    assert (details["3"]["route"], details["3"]["payload"], details["3"]["causes"]) == ("work wrote", [["n", "4"]], [1])
    assert (details["4"]["title"], details["4"]["payload"]) == ("Stop", [["value", "7"]])


def test_a_tick_shows_the_log_of_its_delivery_and_each_log_is_there_once():
    film = Film(FAN).finish("load", out("Row", 1), out("Row", 2), at=1, fan=True)
    film.finish("score", out("Done"), at=2).finish("score", out("Done"), at=3)
    log = StepLog()
    for delivery, text in ((2, "one "), (3, "two\n"), (2, "more\n")):
        log.write(delivery, text)
    data = read(record(film.ticks, logs={"score": log}))
    assert data["logs"] == ["one more\n", "two\n"]
    assert [data["details"][str(seq)]["log"] for seq in range(1, 5)] == [-1, -1, 0, 1]


def test_queues_are_places_in_a_list_of_lines():
    film = Film(FAN).finish("load", *(out("Row", i) for i in range(4)), at=1, fan=True)
    data = read(record(film.ticks))
    shown = [[data["lines"][i] for i in queue] for queue in data["queues"]]
    assert shown[0] == [["running", "load · Start"]]
    assert shown[1] == [["running", "score · Row"]] * 2 + [["queued", "score · Row"]] * 2
    assert len(data["lines"]) == 3


def test_where_there_is_no_room_the_telling_and_the_newest_ticks_keep_their_details():
    film = Film(FAN).finish("load", *(out("Row", i) for i in range(12)), at=1, fan=True)
    film.finish("score", out("Done"), at=2).says("score", t.StepFailed, at=3, failure=ODD, retry_at=104.0)
    for i in range(9):
        film.finish("score", out("Done", "x" * 200), at=4 + i)
    made = record(film.ticks, detail_bytes=1_500)
    seqs = sorted(made.details)
    assert seqs[:2] == [1, 4] and seqs[2:] == list(range(len(film.ticks) - len(seqs) + 3, len(film.ticks) + 1))
    assert sum(map(len, made.details.values())) <= 1_500
    assert made.left_out == [
        f"Fields, state changes and logs of {13 - len(seqs)} of 13 ticks are left out for their size; failures, "
        "questions, answers and the newest ticks have theirs."
    ]


def test_logs_count_too_and_those_that_nobody_shows_are_left_out():
    film = scored(6)
    log = StepLog()
    for delivery in range(2, 8):
        log.write(delivery, f"{delivery}" * 5_000)
    made = record(film.ticks, logs={"score": log}, detail_bytes=12_000)
    assert 0 < len(made.details) < len(film.ticks)
    shown = {json.loads(text)["log"] for text in made.details.values()} - {-1}
    assert {place for place, text in enumerate(made.logs) if text} == shown


def test_secrets_are_masked():
    class Login(Event):
        token: SecretStr

    hidden = Out(key("Login"), Login(token=SecretStr("hunter2")))
    film = Film(PLAIN).says("work", t.StateWritten, at=1, changes={"login": hidden})
    film.says("work", t.EventsSent, at=2, outs=(hidden,))
    text = record(film.ticks).json()
    assert "hunter2" not in text
    assert text.count("\\u2022\\u2022") >= 2


# -- escaping


@pytest.mark.parametrize("name", [*HOSTILE, "</script", "<!--", "]]>", "\u2028\u2029"])
def test_no_name_or_value_ends_the_script_element_it_stands_in(name: str):
    hostile = spec(step(name, "Start", "Stop"))
    film = Film(hostile, state={name: Out("v", name)})
    film.says(name, t.StepFailed, at=1, failure=Failure(f"m:{name}", name, name))
    log = StepLog()
    log.write(1, name)
    text = record(film.ticks, logs={name: log}).json(name=name)
    assert text.isascii() and not {"<", ">", "&"} & set(text)
    assert json.loads(text)["name"] == name
    assert json.loads(text)["cols"]["step"][1] == name


def test_safe_json_reads_back_as_it_was():
    value = {"a": ["</script><!--", "\u2028", "é", "\\u003c", None, 1.5]}
    assert json.loads(safe_json(value)) == value


def test_an_error_of_any_length_is_cut():
    film = Film(PLAIN).says("work", t.StepFailed, at=1, failure=replace(ODD, traceback="x" * 1_000_000))
    assert len(record(film.ticks).json()) < 60_000


def test_a_returned_question_is_open_after_its_tick():
    flow = spec(step("check", "Start", "AskCheck"), types=[event("AskCheck", answer="ReplyCheck")])
    made = record(Film(flow).finish("check", out("AskCheck"), at=1).ticks)
    assert made.status[-1] == [2, "running", 1, False]
