"""Cases of the tag *security*: what somebody else wrote is looked at, and never run."""

import json
import pickle
import sqlite3
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flownb import Context, Event, StartEvent, StopEvent, Store, Workflow
from flownb.cli.main import main
from flownb.errors import JournalDamaged, WorkflowError
from tests.polling import wait_until
from tests.store.traps import set_traps

Open = Callable[..., Store]

#: What was run though nothing should be.
RAN: list[str] = []


class Seen(Event):
    value: Any


class Bomb:
    """A class with a side effect in its constructor, and in every other way to make one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        RAN.append("Bomb")

    __setstate__ = __init__  # type: ignore[assignment]

    def __new__(cls, *args: Any, **kwargs: Any) -> "Bomb":
        RAN.append("new Bomb")
        return super().__new__(cls)


class Boom:
    """Whose pickle runs something when it is read."""

    def __reduce__(self) -> Any:
        return RAN.append, ("Boom",)


PICKLE = pickle.dumps(Boom())
EVIL: list[tuple[str, Any]] = [
    ("os:system", {"command": "touch hacked"}),
    ("builtins:eval", {"source": "RAN.append('eval')"}),
    ("subprocess:Popen", {"args": ["touch", "hacked"]}),
    ("this:anything", {}),
    (f"{__name__}:Bomb", {"x": 1}),
    (f"{__name__}:Seen", {"value": {"$object": f"{__name__}:Bomb", "d": {"x": 1}}}),
    (f"{__name__}:Seen", {"value": {"$object": "os:system", "d": ["touch hacked"]}}),
    (f"{__name__}:Seen", {"value": {"$object": "antigravity:fly"}}),
    (
        f"{__name__}:Seen",
        {"value": {"$small": "pickle", "type": "x", "b": b64encode(PICKLE).decode()}},
    ),
    (f"{__name__}:Seen", {"value": {"$artifact": "{pickle}", "codec": "pickle", "type": "x", "size": len(PICKLE)}}),
    (f"{__name__}:Seen", {"value": {"$artifact": "../../../../etc/passwd", "codec": "text", "type": "str"}}),
]


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing is called that a journal could name, and nothing is imported."""
    monkeypatch.chdir(tmp_path)
    called = set_traps(monkeypatch)
    RAN.clear()
    yield
    assert called == []
    assert RAN == []
    assert not (tmp_path / "hacked").exists()
    assert not {"this", "antigravity"} & sys.modules.keys()


def flow_of() -> Workflow[Any]:
    flow = Workflow[Any]("reads")

    @flow.step
    async def begin(ev: StartEvent) -> Seen:
        return Seen(value=1)

    @flow.step
    async def take(ev: Seen, ctx: Context) -> StopEvent:
        await ctx.ask("Well?", str)
        return StopEvent(result=ev.value.anything if ev.value != 1 else 1)

    return flow


@pytest.mark.parametrize("n", range(len(EVIL)))
def test_c133_a_journal_of_somebody_else_runs_nothing(
    tmp_path: Path, open_store: Open, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], n: int
):
    """Its sums fit, as those of whoever made it would. It is listed, looked at in a notebook and a terminal, exported
    and resumed: only events of the workflow are built, and what they hold is a mark of what is missing."""
    key, fields = EVIL[n]
    flow, here = flow_of(), open_store(str(tmp_path / "here.db"))
    run = flow.with_options(store=here).run(run_id="r")
    wait_until(lambda: run.status == "waiting")
    run.suspend(drain=0).result(20)
    there = open_store(str(tmp_path / "there.db"))
    assert there.artifacts is not None
    text = json.dumps(fields).replace("{pickle}", there.artifacts.put(PICKLE))
    made = []
    for seq, at, kind, body in here.journal.raw("r"):
        tree = json.loads(body)
        if kind == "StepFinished":
            tree["outs"][0] |= {"t": key, "d": json.loads(text)}
        made.append((seq, at, kind, json.dumps(tree).encode()))
    row = here.journal.row("r")
    assert row is not None
    there.journal.restore([(replace(row, driver=""), made)])
    there.close()
    there = open_store(str(tmp_path / "there.db"))
    request.getfixturevalue("nothing_runs")

    assert [row.run_id for row in there.runs()] == ["r"]
    seen = there.run("r")
    assert repr(seen) and seen.why() and repr(seen.debug.ticks)
    repr(seen.debug.at(len(seen.debug.ticks)))
    for command in (["runs"], ["show", "r"], ["requests"], ["show", "r", "--json"], ["export", "r", "out.zip"]):
        assert main([*command, "--store", str(tmp_path / "there.db")]) == 0
    capsys.readouterr()
    if not key.endswith(":Seen"):  # no step takes such an event, so the run ends with it, and nothing follows
        assert "does not follow from those before it" in there.run("r").why()
        with pytest.raises(WorkflowError, match="is failed"):
            flow.with_options(store=there).resume("r")
        return
    resumed = flow.with_options(store=there).resume("r")
    wait_until(lambda: resumed.status == "waiting")
    resumed.answer("on")
    with pytest.raises(WorkflowError):
        resumed.result(20)
    assert (there.runs()[0].status, resumed.status) == ("failed", "failed")


def test_c133_a_file_whose_schema_is_a_trap_is_harmless(tmp_path: Path, open_store: Open):
    """Somebody's SQLite file may hold triggers and views: they cannot call what this process brings along."""
    path = tmp_path / "trap.db"
    store = open_store(str(path))
    flow_of().with_options(store=store).run(run_id="r").suspend().result(20)
    store.close()
    db = sqlite3.connect(path)
    db.execute("CREATE TRIGGER trap AFTER UPDATE ON runs BEGIN SELECT flownb_now(); END")
    db.commit()
    db.close()
    store = open_store(str(path))
    assert store.run("r").status == "suspended"
    with pytest.raises(WorkflowError, match="unsafe use of flownb_now"):
        store.journal.claim("r", "me", 5.0)


def test_c133_an_edited_journal_is_not_resumed(tmp_path: Path, open_store: Open):
    """Of a file that was written here and then changed not even a well-formed row is believed."""
    store = open_store(str(tmp_path / "r.db"))
    run = flow_of().with_options(store=store).run(run_id="r")
    wait_until(lambda: run.status == "waiting")
    run.suspend(drain=0).result(20)
    store.close()
    db = sqlite3.connect(tmp_path / "r.db")
    ((body,),) = db.execute("SELECT body FROM journal WHERE kind = 'StepFinished'").fetchall()
    edited = body.replace(b'"value":1', b'"value":2')
    assert edited != body
    db.execute("UPDATE journal SET body = ? WHERE kind = 'StepFinished'", (edited,))
    db.commit()
    db.close()
    with pytest.raises(JournalDamaged, match="StepFinished was changed after it was written"):
        flow_of().with_options(store=open_store(str(tmp_path / "r.db"))).resume("r")
