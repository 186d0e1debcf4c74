"""States as plain JSON: all of them, exactly, quickly."""

import json
import math
import time
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from pydantic import SecretStr

from flownb.core.history import History
from flownb.core.persist import Fifo, Names
from flownb.core.state import Buffer, Entry, RunState, Side
from flownb.core.ticks import GateClosed, RequestAnswered, RunForked, StepFinished
from flownb.core.values import Out
from flownb.errors import ContextSerdeError
from flownb.events import Event, newest
from flownb.store.codec import Codec
from flownb.store.snapshots import FORMAT, Answered, SnapshotCodec, Taken
from flownb.testing import feed, out, spec, started, step
from flownb.testing.drive import drive
from flownb.testing.machine import RunMachine
from tests.core.test_machine import EVERYTHING
from tests.store.samples import Anything, Row

FLOW = spec(step("begin", "Start", "A"), step("work", "A", "Stop"))


class Collected(Event):
    no: int
    amount: float = 0.0
    name: str = ""


def snapshots() -> SnapshotCodec:
    return SnapshotCodec(Codec(newest, "live"))


def through_json(taken: Taken) -> Taken:
    """As it comes back from text; what is live in it is found again."""
    codec = snapshots()
    plain = codec.dump(taken)
    again = json.loads(json.dumps(plain))
    assert again == plain
    return codec.load(again)


def holding(*values: Any) -> Taken:
    """A state that collected events with these values."""
    outs = [Out(f"{Anything.__module__}:Anything", Anything(value=value)) for value in values]
    state, _ = feed(started(FLOW))
    queue = Fifo.of([Entry(i, i, each) for i, each in enumerate(outs, 1)])
    return Taken(msgspec.structs.replace(state, side=Side(buffers=Names.of([("work ", Buffer({"A": queue}))]))))


def values_of(taken: Taken) -> list[Any]:
    assert taken.state is not None
    return [entry.out.value for entry in taken.state.side.buffers["work "].queues["A"]]


def test_every_state_of_a_rich_run_comes_back():
    """R6.31: waits, questions, children, joins, retries, buffers, user's state; the spec with its tables."""
    run = drive(EVERYTHING, Random(3).randrange, num_workers=2)
    history, codec = History(run.ticks), snapshots()
    for seq in range(1, len(run.ticks) + 1):
        plain = codec.dump(Taken(history.at(seq)))
        again = codec.load(json.loads(json.dumps(plain)))
        assert again.state is not None
        assert codec.dump(again) == plain
        assert again.state.spec == history.at(seq).spec


class Restored(RunMachine):
    """Runs with anything that may happen to them, whose states are written and read."""

    def teardown(self) -> None:
        super().teardown()
        for state in getattr(self, "states", ())[::7]:
            assert through_json(Taken(state)).state == state


class TestStates(Restored.TestCase):  # type: ignore[name-defined]
    """R6.31: codec round trip of any state that a legal order of ticks leads to."""

    settings = settings(
        max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


def test_a_restored_run_goes_on_as_the_old_one():
    """R6.31: the same ticks lead to the same state."""
    run = drive(EVERYTHING, Random(5).randrange, num_workers=1)
    history, half = History(run.ticks), len(run.ticks) // 2
    state = through_json(Taken(history.at(half))).state
    assert state is not None
    state, _ = feed(state, *run.ticks[half:])
    assert state == run.state


def test_inbox_and_answers_come_back():
    """R6.31: with their events."""
    row = Out(f"{Row.__module__}:Row", Row(no=1))
    state, _ = feed(started(FLOW))
    request = drive(EVERYTHING, Random(1).randrange, num_workers=1)
    asked = next(r for seq in range(1, len(request.ticks)) for r in History(request.ticks).at(seq).requests.values())
    taken = Taken(
        state,
        (StepFinished(3.0, "begin", 1, 1, (row,)), RequestAnswered(4.5, 2, row, "ann"), GateClosed(5.0)),
        (Answered(7, asked, row, "ann", 4.5, "default"), Answered(8, asked)),
        {"a": row},
    )
    assert through_json(taken) == taken


@pytest.mark.parametrize(
    "value",
    [
        None,
        1.5,
        "text",
        [1, 2],
        (1, 2),
        {"a": (1,)},
        {1: 2},
        b"bytes",
        {1, 2},
        "\ud800",
        10**30,
        -(10**5000),
        Row(no=3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_come_back_exactly(value: Any):
    """R6.8: by the journal's own notation, lone surrogates and huge numbers too."""
    plain = snapshots().dump(holding(value, "beside"))
    again = snapshots()
    again.dump(holding(Row(no=1)))  # it has met the class that the value may be of
    assert values_of(again.load(json.loads(json.dumps(plain)))) == [Anything(value=value), Anything(value="beside")]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_has_not_come_back(value: float):
    """R6.8: the text is JSON that any reader takes."""
    plain = snapshots().dump(holding(value))
    text = json.dumps(plain, allow_nan=False)
    assert repr(values_of(snapshots().load(json.loads(text)))[0].value) == repr(value)


def test_which_fields_were_given_comes_back():
    """R2.2: set and undeclared fields are told apart, also on the short way."""
    values = [Collected(no=1), Collected(no=2, amount=1.0, name="x"), Collected(no=3, more=[1])]
    state, _ = feed(started(FLOW))
    queue = Fifo.of([Entry(i, i, Out(f"{__name__}:Collected", v)) for i, v in enumerate(values)])
    buffers = Names.of([("work ", Buffer({"A": queue}))])
    found = values_of(through_json(Taken(msgspec.structs.replace(state, side=Side(buffers=buffers)))))
    assert found == values
    assert [v.model_fields_set for v in found] == [v.model_fields_set for v in values]
    found[0].name = "changed"
    assert found[0].model_fields_set == {"no", "name"}


def test_a_snapshot_shares_nothing_with_the_run():
    """R6.32: who changes the dict does not change the run."""
    value = Row(no=1)
    taken = Taken(values={"a": Out(f"{Row.__module__}:Row", value)})
    plain = snapshots().dump(taken)
    plain["values"]["a"]["d"]["no"] = 99
    assert value.no == 1


def test_live_values_and_secrets_are_listed():
    """R6.33: each with where it was; they are found again as long as they live here."""

    class Thing:
        def __repr__(self) -> str:
            return "a thing"

    thing, secret = Thing(), SecretStr("hush")
    codec = snapshots()
    plain = codec.dump(holding(thing, [thing, 1], secret))
    key = f"{Anything.__module__}:Anything"
    name = f"{__name__}:{Thing.__qualname__}"
    assert [(m["event"], m["field"], m["type"], m["text"]) for m in plain["missing"]] == [
        (key, "value", name, "a thing"),
        (key, "value", name, "a thing"),
        (key, "value", "pydantic.types:SecretStr", ""),
    ]
    assert "hush" not in json.dumps(plain)
    found = values_of(codec.load(plain))
    assert found[0].value is thing
    assert found[1].value == [thing, 1]
    with pytest.raises(ContextSerdeError, match="2 values that cannot be rebuilt") as caught:
        snapshots().load(plain)
    assert "SecretStr" in str(caught.value)


def test_a_word_that_looks_like_a_mark_is_a_word():
    """R6.13: a user's dict with such a key is no lost value."""
    plain = snapshots().dump(holding({"$live": "x", "id": "y"}, "$live"))
    assert plain["missing"] == []
    assert values_of(snapshots().load(plain))[0].value == {"$live": "x", "id": "y"}


def test_values_of_unknown_classes_are_named():
    """R6.33: in the state and in the inbox."""
    row = Out(f"{Row.__module__}:Row", Row(no=1))
    state, _ = feed(started(FLOW))
    plain = snapshots().dump(Taken(state, (StepFinished(3.0, "begin", 1, 1, (row,)),), (), {"a": row}))
    text = json.dumps(plain).replace(":Row", ":Gone")
    with pytest.raises(ContextSerdeError, match="cannot be rebuilt") as caught:
        snapshots().load(json.loads(text))
    assert "Gone" in str(caught.value)
    assert not isinstance(caught.value.__cause__, ContextSerdeError)


def test_a_newer_format_is_refused():
    """R6.33: in words that say what to do."""
    with pytest.raises(ContextSerdeError, match=f"format {FORMAT + 1}"):
        snapshots().load({"flownb": FORMAT + 1})
    plain = snapshots().dump(Taken(feed(started(FLOW))[0]))
    plain["state"]["unknown"] = 1
    with pytest.raises(ContextSerdeError, match="unknown"):
        snapshots().load(plain)


def test_a_fork_of_a_snapshot_is_a_tick_like_others():
    """R1.33, R1.46: its state stands in its body."""
    run = drive(EVERYTHING, Random(2).randrange, num_workers=2)
    state: RunState = History(run.ticks).at(len(run.ticks) // 2)
    tick = RunForked(
        99.0, "other", state.run_id, state.seq, {"a": out("A", 1)}, snapshot=state, settled=(3,), over=(1,)
    )
    codec = Codec(newest, "live")
    kind, body = codec.encode(tick)
    read = codec.decode(1, 99.0, kind, body)
    assert isinstance(read, RunForked)
    assert codec.encode(read) == (kind, body)
    assert (read.at, read.state, read.settled, read.over) == (99.0, tick.state, (3,), (1,))
    assert read.snapshot.spec == state.spec
    assert b'"routes"' not in body


def test_a_thousand_collected_events_are_quick():
    """DESIGN §7: a dump and a load cost no more than a few times the JSON text of it, that is, each some 3 ms."""
    key = f"{__name__}:Collected"
    outs = [Out(key, Collected(no=i, amount=float(i), name=f"r{i}")) for i in range(1_000)]
    state, _ = feed(started(FLOW))
    queue = Fifo.of([Entry(i, i, each) for i, each in enumerate(outs, 1)])
    taken = Taken(msgspec.structs.replace(state, side=Side(buffers=Names.of([("work ", Buffer({"A": queue}))]))))
    codec = snapshots()
    plain = codec.dump(taken)
    assert codec.load(plain).state == taken.state

    def best(what: Any) -> float:
        """Seconds of processor time, of the best of some tries."""
        times = []
        for _ in range(9):
            before = time.process_time()
            what()
            times.append(time.process_time() - before)
        return min(times)

    text = best(lambda: json.loads(json.dumps(plain)))
    assert best(lambda: codec.dump(taken)) < 3 * text
    assert best(lambda: codec.load(plain)) < 3 * text
