"""`python -m flownb`: looking at a store and acting on it from a terminal (issue 4, R7.1 to R7.12)."""

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from flownb import Store, Workflow
from flownb.cli import answers, resuming, words
from flownb.cli.main import COMMANDS, STATUSES, main
from flownb.core.state import Status
from flownb.errors import AnswerInvalid, WorkflowConfigurationError
from flownb.store.archive import read_archive, write_archive
from flownb.store.marks import UnknownEvent
from tests.polling import wait_for_questions, wait_until
from tests.runtime.flows import Asks

ROOT = Path(__file__).resolve().parents[1]

FLOWS = """
import asyncio, os
from typing import Literal
from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb import on_cancel, step

class Begin(StartEvent):
    n: int = 2
class Verdict(HumanResponseEvent):
    decision: Literal["approve", "reject"]
    note: str = ""
class Approve(InputRequiredEvent[Verdict]):
    no: int
class Item(Event):
    no: int
class Done(Event):
    no: int
    decision: str = ""

approvals = Workflow("approvals")

@approvals.step
async def split(ev: Begin) -> list[Item]:
    return [Item(no=i) for i in range(ev.n)]
@approvals.step
async def check(ev: Item) -> Approve | Done:
    return Approve(no=ev.no) if ev.no else Done(no=0)
@approvals.step
async def note(ev: Verdict, ctx: Context) -> Done:
    return Done(no=ctx.request(Approve).question.no, decision=f"{ev.decision} {ev.note}")
@approvals.step
async def total(ev: list[Done]) -> StopEvent:
    return StopEvent(result={d.no: d.decision for d in ev})

class Plain(Workflow):
    @step
    async def only(self, ev: Begin, ctx: Context) -> StopEvent:
        if await ctx.ask("Shall it fail?", bool, token="given-by-the-caller"):
            raise ValueError("as you wish\\nso be it")
        return StopEvent(result="all well")

class Slow(Workflow):
    @step
    async def sleep(self, ev: Begin) -> StopEvent:
        await asyncio.sleep(float(os.environ.get("SLOW_S", "60")))
        return StopEvent(result="slept")
    @on_cancel
    async def tidy(self) -> None: ...

class Parent(Workflow):
    @step(runs=Plain)
    async def hand_on(self, ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(Slow()))

class Quick(Workflow):
    @step
    async def only(self, ev: Begin) -> StopEvent:
        return StopEvent(result="quick")

class Tidies(Workflow):
    @step
    async def ask(self, ev: Begin) -> Approve:
        return Approve(no=1)
    @step
    async def end(self, ev: Verdict) -> StopEvent:
        return StopEvent()
    @on_cancel
    async def tidy(self) -> None:
        open("tidied", "w").close()
"""
# Its process is killed: nobody drives what is not over.
MAKE = """
import os, time
from flownb import Store
import flows
store = Store(".flownb/runs.db")
begun = {
    "quick": flows.Quick(), "asks-1": flows.approvals, "plain": flows.Plain(), "slow": flows.Slow(),
    "family": flows.Parent(),
}
runs = {run_id: flow.with_options(store=store).run(run_id=run_id) for run_id, flow in begun.items()}
runs["quick"].result(20)
while not (runs["asks-1"].status == runs["plain"].status == "waiting" and store.journal.last_seq("family/1/1")):
    time.sleep(0.02)
while store.journal.holder("asks-1").driver:  # it waits, and gives its lease back
    time.sleep(0.02)
print(runs["asks-1"].requests[0].token)
"""
SCRIPT = """
import time
run = approvals.with_options(store=".flownb/runs.db").run(run_id="nb")
while run.status != "waiting":
    time.sleep(0.02)
"""
KILLED = "import os, sys; sys.stdout.flush(); os._exit(0)\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store whose runs lost their driver, and the module of their workflows."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "flows.py").write_text(FLOWS, "utf-8")
    (folder / "token").write_text(in_process(folder, "-c", MAKE + KILLED).strip(), "utf-8")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it as the working folder. This process has not its classes."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def flownb(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command: what it exits with, prints, and says of errors."""

    def run(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(argv)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


Cli = Callable[..., tuple[int, str, str]]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@contextmanager
def begun(folder: Path, *argv: str, **more: str) -> Iterator["subprocess.Popen[str]"]:
    """A process of its own, which is gone at the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, *argv], cwd=folder, env=environment() | more, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ran(folder: Path, *argv: str, **more: str) -> tuple[int, str, str]:
    """What a process exits with, prints, and says of errors."""
    with begun(folder, *argv, **more) as process:
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err


def in_process(folder: Path, *argv: str) -> str:
    """What a process prints that ends well."""
    code, out, err = ran(folder, *argv)
    assert code == 0, err
    return out


# Looking.


def test_runs_are_listed_with_who_drives_them(folder: Path, flownb: Cli):
    """R7.1: the newest first, without children; a run whose driver is gone says so."""
    code, out, err = flownb("runs")
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == ["RUN", "WORKFLOW", "STATUS", "DRIVEN", "BY", "TICKS", "STARTED", "LAST", "TICK"]
    rows = {line.split()[0]: line for line in lines}
    assert set(rows) == {"quick", "asks-1", "plain", "slow", "family"}
    assert "running    nobody, process gone  1 " in rows["slow"]
    assert "waiting    nobody                " in rows["asks-1"]
    assert "completed" in rows["quick"] and "nobody" not in rows["quick"]
    assert "waiting" in rows["asks-1"] and rows["asks-1"].endswith("1 question")
    assert "family/1/1" in flownb("runs", "--children")[1]


def test_runs_are_narrowed(folder: Path, flownb: Cli):
    """R7.1: by status and workflow; more than the limit are counted."""

    def ids(*argv: str) -> set[str]:
        return {row["run"] for row in json.loads(flownb("runs", "--json", *argv)[1])}

    assert ids("--status", "completed") == {"quick"}
    assert ids("--workflow", "approvals") == ids("--workflow", "flows:approvals") == {"asks-1"}
    assert ids("--status", "completed", "--workflow", "approvals") == set()
    assert ids("--workflow", "Slow", "--children") == {"slow", "family/1/1"}
    out = flownb("runs", "--limit", "2")[1]
    assert len(out.splitlines()) == 4
    assert "and 3 more" in out
    assert flownb("runs", "--status", "failed")[1] == "No such runs.\n"
    code, out, err = flownb("runs", "--status", "foo")
    assert (code, out) == (2, "")
    assert "'foo'" in err and all(status in err for status in STATUSES)
    assert set(STATUSES) == {*get_args(Status), "paused", "definition_changed"}


def test_runs_are_listed_for_programs(folder: Path, flownb: Cli):
    rows = {row["run"]: row for row in json.loads(flownb("--json", "runs")[1])}
    slow = rows["slow"]
    assert (slow["workflow"], slow["key"], slow["status"], slow["ticks"]) == ("Slow", "flows:Slow", "running", 1)
    assert (slow["is_driven"], slow["is_imported"], slow["parent"]) == (False, False, None)
    assert slow["driver"].startswith("process ")


def test_a_run_is_shown_without_its_code(folder: Path, flownb: Cli):
    """Why, who drives it, what it asks and how to answer, the last ticks, and how to go on."""
    code, out, err = flownb("show", "asks", "--ticks", "2")
    assert (code, err) == (0, "")
    assert out.startswith("Run asks-1 of approvals: waiting\n")
    assert "driven by  nobody while it waits\n" in out
    assert "why        It waits for the outside: check asks Approve (request 1)." in out
    assert "asks-1:1  approvals, step check  open for " in out
    assert "Approve(no=1)\n" in out
    assert "python -m flownb answer asks-1:1 decision=approve\n" in out
    assert "decision: approve | reject\n" in out and 'note: text (if left out: "")\n' in out
    ticks = [line.split() for line in out.partition("Last ticks:\n")[2].splitlines()[:2]]
    assert [(line[0], *line[2:]) for line in ticks] == [
        ("4", "finished", "check", "Approve"),
        ("5", "waiting", "run", "nothing", "moves", "by", "itself"),
    ]
    assert "python -m flownb resume flows:approvals asks-1\n" in out


def test_ends_and_children_are_shown(folder: Path, flownb: Cli):
    out = flownb("show", "slow")[1]
    assert "driven by  nobody: process " in out and "is gone" in out
    assert "result     'quick'" in flownb("show", "quick")[1]
    out = flownb("show", "family")[1]
    assert "Children:\n  family/1/1  Slow  running (nobody drives it)  1 ticks\n" in out
    assert "child of   family\n" in flownb("show", "family/1/1")[1]


def test_a_run_is_shown_for_programs(folder: Path, flownb: Cli):
    found = json.loads(flownb("show", "asks-1", "--json")[1])
    (asked,) = found["requests"]
    assert (asked["id"], asked["step"], asked["class"]) == ("asks-1:1", "check", "flows:Approve")
    assert (asked["question"]["no"], asked["is_answered"], asked["deadline"]) == (1, False, None)
    assert asked["schema"]["properties"]["decision"]["enum"] == ["approve", "reject"]
    assert [tick["kind"] for tick in found["last_ticks"]] == ["started", "finished", "finished", "finished", "waiting"]
    quick = json.loads(flownb("show", "quick", "--json")[1])
    assert (quick["result"], quick["failure"], quick["damage"]) == ("quick", None, None)


def test_a_run_that_is_not_there_is_told_with_the_near_ones(folder: Path, flownb: Cli):
    assert flownb("show", "ask-1")[::2] == (1, err := flownb("show", "ask-1")[2])
    assert "There is no run 'ask-1'" in err and "Did you mean 'asks-1'?" in err
    assert flownb("show", "x")[2].count("\n") == 1
    with closing(Store(".flownb/runs.db")) as store:
        row = store.journal.row("quick")
        assert row is not None
        copied = replace(row, run_id="quicker", driver="imported:")
        store.journal.restore([(copied, store.journal.raw("quick"))])
    assert "Several runs begin with 'quic': " in flownb("show", "quic")[2]
    assert flownb("show", "quick")[0] == 0


def spoil(seq: int, run_id: str = "asks-1") -> None:
    with closing(sqlite3.connect(".flownb/runs.db", isolation_level=None)) as db:
        db.execute("UPDATE journal SET body = x'7b' WHERE run_id = ? AND seq = ?", (run_id, seq))


@pytest.mark.parametrize(("seq", "shown"), [(4, 3), (5, 4), (1, 0)])
def test_a_damaged_run_is_shown_up_to_the_damage(folder: Path, flownb: Cli, seq: int, shown: int):
    spoil(seq)
    code, out, err = flownb("show", "asks-1")
    assert (code, err) == (0, "")
    assert f"damaged    Tick {seq} of run 'asks-1' cannot be read" in out
    assert len(out.partition("Last ticks:\n")[2].splitlines()) == shown
    assert json.loads(flownb("show", "asks-1", "--json")[1])["damage"].startswith(f"Tick {seq} ")
    assert flownb("runs")[0] == flownb("requests")[0] == 0
    code, out, err = flownb("cancel", "asks-1")
    assert (code, out) == (1, "")
    assert "A damaged run is never driven again" in err and err.count("\n") == 1


def test_looking_changes_nothing(folder: Path, flownb: Cli):
    """No lease is taken, nothing is written."""

    def content() -> list[Any]:
        with closing(sqlite3.connect(".flownb/runs.db")) as db:
            return [
                db.execute(f"SELECT * FROM {table}").fetchall()
                for table in ("runs", "journal", "drivers", "inbox", "waiting", "tokens")
            ]

    before, threads = content(), threading.active_count()
    for argv in (["runs"], ["show", "asks-1"], ["show", "slow"], ["requests"], ["doctor", "--check"]):
        assert flownb(*argv)[0] == 0
    assert content() == before
    assert threading.active_count() == threads


# Answering.


def test_the_told_command_answers_and_the_run_takes_it(folder: Path, flownb: Cli):
    """R4.46, R4.62, R7.3: without the class, while nobody drives; the answer waits for the driver."""
    code, out, _ = flownb("requests")
    assert code == 0
    told = [line.strip() for line in out.splitlines() if line.strip().startswith("python -m flownb ")]
    assert told == ["python -m flownb answer asks-1:1 decision=approve", "python -m flownb answer plain:1 true"]
    code, out, err = flownb(*shlex.split(told[0])[3:], "note=as agreed = yes", "--by", "ann")
    assert (code, err) == (0, "")
    assert out == "Answered asks-1:1. The run takes it where a process waits with it, or when it is resumed.\n"
    assert "answered, waits for its driver" in flownb("requests")[1]
    assert "1 entry for its driver" in flownb("show", "asks-1")[1]
    assert flownb("answer", "asks-1:1", "decision=approve", "note=as agreed = yes")[0] == 0
    code, _, err = flownb("answer", "asks-1:1", "decision=reject")
    assert code == 1 and "was answered by ann" in err and err.count("\n") == 1

    out = in_process(folder, "-m", "flownb", "resume", "flows:approvals", "--json")
    assert json.loads(out) == {
        "run": "asks-1", "status": "completed", "result": {"0": "", "1": "approve as agreed = yes"},
    }  # fmt: skip


def test_the_record_is_listed_and_written(folder: Path, flownb: Cli):
    """What was decided, by whom and how; as a table, for programs, and as a file. What waits for its driver is not."""
    assert flownb("reviews") == (0, "Nothing was decided.\n", "")
    assert flownb("answer", "plain:1", "false", "--by", "=ann\x1b[2J")[0] == 0
    assert flownb("reviews", "--json") == (0, "[]\n", "")
    assert ran(folder, "-m", "flownb", "resume", "flows:Plain", "plain")[0] == 0
    code, out, _ = flownb("reviews")
    head, row = out.splitlines()
    assert (code, head.split()) == (0, ["AT", "REQUEST", "HOW", "BY", "QUESTION", "ANSWER"])
    assert row.split("  ")[1:] == ["plain:1", "person", "=ann\\x1b[2J", "Shall it fail?", "false"]
    (found,) = json.loads(flownb("reviews", "--json", "--workflow", "Plain", "--since", "2026-01-01")[1])
    assert (found["run"], found["answer"], found["how"], len(found["digest"])) == ("plain", False, "person", 64)
    assert flownb("reviews", "--by", "bob")[1] == flownb("reviews", "--since", "2999-01-01T10:00")[1]
    assert flownb("reviews", "--csv", "record.csv") == (0, "record.csv: 1 question.\n", "")
    assert ",'=ann" in (folder / "record.csv").read_text("utf-8")
    code, out, err = flownb("reviews", "--since", "yesterday")
    assert (code, out) == (1, "")
    assert "is no date" in err
    assert flownb("reviews", "--csv", "no/such/folder.csv")[0] == 1


def test_a_token_answers_and_is_printed_nowhere(folder: Path, flownb: Cli):
    """R4.59, R4.61."""
    token = (folder / "token").read_text("utf-8")
    assert token not in "".join(flownb(*argv)[1] for argv in (["requests"], ["requests", "--json"], ["show", "asks-1"]))
    code, out, _ = flownb("answer", token, '{"decision": "reject"}', "--json")
    assert code == 0
    assert json.loads(out) == {"run": "asks-1", "request": "asks-1:1", "driver": None}
    assert flownb("answer", "given-by-the-caller", "false")[0] == 0
    for wrong in (token[:-1] + "x", "asks-1:x", "nobody:1", "given-by"):
        code, out, err = flownb("answer", wrong, "true")
        assert (code, out) == (1, "")
        assert wrong not in err and err.startswith("flownb: That is neither the id of a question")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["decision=perhaps"], "Input should be 'approve' or 'reject'"),
        (["desicion=approve"], "Did you mean 'decision'?"),
        (["note=x"], "decision: Field required"),
        (["approve"], "The answer has fields: decision=approve."),
        (["decision=approve", "decision=reject"], "was given twice"),
        (["decision=approve", "x"], "'x' is no field"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(folder: Path, flownb: Cli, typed: list[str], said: str):
    """R4.45: nothing is accepted."""
    code, out, err = flownb("answer", "asks-1:1", *typed)
    assert (code, out) == (1, "")
    assert said in err and err.startswith("flownb: ") and err.count("\n") == 1
    assert "waits for its driver" not in flownb("requests")[1]


TEXT, FLAG, WHOLE = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}
MODEL = {
    "type": "object",
    "required": ["n", "kind"],
    "properties": {
        "n": WHOLE,
        "text": TEXT,
        "kind": {"$ref": "#/$defs/Kind"},
        "maybe": {"anyOf": [TEXT, {"type": "null"}], "default": None},
        "either": {"anyOf": [WHOLE, {"type": "null"}]},
        "many": {"type": "array", "items": WHOLE},
        "any": {},
        "level": {"enum": [1, 2]},
    },
    "$defs": {"Kind": {"enum": ["a", "b"]}},
}


@pytest.mark.parametrize(
    ("typed", "schema", "expected"),
    [
        (["12"], TEXT, "12"),
        (["a=b"], TEXT, "a=b"),
        (["null"], TEXT, "null"),
        (["true"], FLAG, True),
        (["no"], FLAG, False),
        (["12"], WHOLE, 12),
        (["1.5"], {"type": "number"}, 1.5),
        (["[1, 2]"], {"type": "array"}, [1, 2]),
        (["2"], {"enum": [1, 2]}, 2),
        (["x y"], {}, "x y"),
        (["n=1", "kind=a"], MODEL, {"n": 1, "kind": "a"}),
        (["text=12", "maybe=12"], MODEL, {"text": "12", "maybe": "12"}),
        (["maybe=null", "either=null", "either2=null"], MODEL, {"maybe": None, "either": None, "either2": None}),
        (
            ["many=[1]", 'any={"a": 1}', "level=2", "text="],
            MODEL,
            {"many": [1], "any": {"a": 1}, "level": 2, "text": ""},
        ),
        (['{"n": 1}'], MODEL, {"n": 1}),
        (["as you like"], {"type": "object", "properties": {}}, {"response": "as you like"}),
        (["response=x"], {"type": "object", "properties": {}}, {"response": "x"}),
        (["a=1", "b=x"], None, {"a": 1, "b": "x"}),
        (["[1]"], None, [1]),
    ],
)
def test_typed_answers_are_read_by_the_schema(typed: list[str], schema: Any, expected: Any):
    """A text stays a text where one may stand, whatever it looks like."""
    value, fields = answers.answer_from(typed, schema)
    assert (fields or value) == expected
    assert type(fields or value) is type(expected)


def test_one_value_is_one_word():
    with pytest.raises(AnswerInvalid, match=r"takes one value \(text\): quote it"):
        answers.answer_from(["two", "words"], TEXT)


def test_a_command_for_each_kind_of_answer():
    """Capitals stand where a value has to."""

    def told(schema: Any) -> str:
        return words.words_of(answers.command_for("r/1/1:2", schema, ["--store", "my runs.db"]))

    begin, end = "python -m flownb answer r/1/1:2", "--store 'my runs.db'"
    assert told(TEXT) == f"{begin} TEXT {end}"
    assert told(None) == f"{begin} JSON {end}"
    assert told({"enum": ["go on", "stop"]}) == f"{begin} 'go on' {end}"
    assert told(MODEL) == f"{begin} n=NUMBER kind=a {end}"
    assert told({"type": "object", "properties": {}}) == f"{begin} TEXT {end}"
    assert answers.fields_of(MODEL)[:4] == [
        "n: whole number", "text: text (may be left out)", "kind: a | b", "maybe: text | null (if left out: null)",
    ]  # fmt: skip


# Cancelling.


@pytest.mark.parametrize("run_id", ["asks-1", "slow", "family"])
def test_a_run_that_nobody_drives_is_cancelled_without_its_code(folder: Path, flownb: Cli, run_id: str):
    """R5.13: also while it has steps in flight, cancel handlers and children."""
    code, out, err = flownb("cancel", run_id, "--reason", "enough")
    assert (code, out, err) == (0, f"Run {run_id} is cancelled.\n", "")
    assert "Cancelled" in (shown := flownb("show", run_id)[1]) and "enough" in shown
    rows = json.loads(flownb("runs", "--json", "--children")[1])
    mine = [row["status"] for row in rows if row["run"].partition("/")[0] == run_id]
    assert set(mine) == {"cancelled"}
    assert flownb("cancel", run_id)[0] == 0
    assert flownb("answer", f"{run_id}:1", "decision=approve")[0] == 1


WAITS = """
import time
from flownb import Store
import flows
run = flows.Tidies().with_options(store=Store(".flownb/runs.db")).run(run_id="tidies")
while run.status != "waiting" or run._runner.stored.committer.journal.holder("tidies").driver:
    time.sleep(0.02)
print("waits", flush=True)
"""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_process_that_waits_with_a_run_runs_its_cancel_handlers(folder: Path, flownb: Cli, is_there: bool):
    """R5.51: it has their code. Where no process has it, the run is cancelled without them."""
    with begun(folder, "-c", WAITS + ("run.result(30)\n" if is_there else KILLED)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        if not is_there:
            process.wait(20)
        assert flownb("cancel", "tidies", "--reason", "enough") == (0, "Run tidies is cancelled.\n", "")
        _, err = process.communicate(timeout=30)
    assert Path("tidied").exists() is is_there
    assert ("was cancelled: enough" in err) is is_there


def test_what_is_over_is_not_cancelled(folder: Path, flownb: Cli):
    assert flownb("cancel", "quick") == (1, "Run quick is completed.\n", "")


# Resuming.


def test_a_run_goes_on_in_a_process_and_is_answered_from_another(folder: Path, flownb: Cli):
    """R4.59, R5.12: the process that waits with it takes the answer at once."""
    with begun(folder, "-m", "flownb", "resume", "flows:Plain", "plain") as process:
        wait_until(lambda: "taken over" in flownb("show", "plain")[1], 20)
        assert flownb("answer", "plain:1", "no")[1].startswith("Answered plain:1")
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "all well\n")
    assert "Run plain of Plain goes on here." in err
    assert "only asks: Shall it fail?\n  python -m flownb answer plain:1 true\n" in err


def test_another_process_that_drives_it_is_told(folder: Path, flownb: Cli):
    """R5.12: there it is looked at and cancelled, and not driven twice."""
    with begun(folder, "-m", "flownb", "resume", "flows:Slow", "slow") as process:
        wait_until(lambda: "renewed" in flownb("show", "slow")[1], 20)
        assert f"driven by  process {process.pid}, whose lease was renewed" in flownb("show", "slow")[1]
        assert json.loads(flownb("runs", "--workflow", "Slow", "--json")[1])[0]["driver"] == f"process {process.pid}"
        assert flownb("doctor")[1].count(f"process {process.pid}: 1 run, lease for") == 1
        code, _, err = ran(folder, "-m", "flownb", "resume", "flows:Slow", "slow")
        assert (code, err.count("\n")) == (1, 1)
        assert f"is driven by process {process.pid}" in err
        assert flownb("cancel", "slow", "--reason", "from outside") == (0, "Run slow is cancelled.\n", "")
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "from outside" in err and "Traceback" not in err


def test_ctrl_c_suspends_a_run_and_says_how_to_go_on(folder: Path, flownb: Cli):
    with begun(folder, "-m", "flownb", "resume", "flows:Slow", "slow") as process:
        wait_until(lambda: "renewed" in flownb("show", "slow")[1], 20)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    told = err.strip().splitlines()[-1]
    assert told.startswith("Run slow is suspended. Go on with it: python -m flownb resume flows:Slow slow")
    assert "Run slow of Slow: suspended\n" in flownb("show", "slow")[1]
    assert ran(folder, *shlex.split(told.partition(": ")[2])[1:], SLOW_S="0")[1] == "slept\n"


#: Ctrl-C when the run is driven from here already, and nobody waits for it yet.
PRESSED = """
import signal, sys
from flownb.cli import main, resuming
resume = resuming.resume
def interrupted(*args):
    run = resume(*args)
    signal.raise_signal(signal.SIGINT)
    return run
resuming.resume = interrupted
before = signal.getsignal(signal.SIGINT)
code = main.main(["resume", "flows:Slow", "slow"])
assert signal.getsignal(signal.SIGINT) is before
sys.exit(code)
"""


def test_ctrl_c_while_a_run_is_taken_over_suspends_it_too(folder: Path, flownb: Cli):
    code, _, err = ran(folder, "-c", PRESSED)
    assert (code, err.splitlines()[0]) == (130, "Run slow of Slow goes on here. Ctrl-C suspends it.")
    assert "Run slow is suspended. Go on with it: python -m flownb resume flows:Slow slow" in err
    assert "Run slow of Slow: suspended\n" in flownb("show", "slow")[1]


def test_a_second_ctrl_c_ends_the_taking_over(folder: Path, flownb: Cli, monkeypatch: pytest.MonkeyPatch):
    """A store that does not answer keeps nobody."""

    def stuck(*args: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the second one counts at once")

    monkeypatch.setattr(resuming, "resume", stuck)
    before = signal.getsignal(signal.SIGINT)
    assert flownb("resume", "flows:Slow", "slow")[0] == 130
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_that_fails_is_one_line(folder: Path, flownb: Cli):
    flownb("answer", "plain:1", "true")
    code, out, err = ran(folder, "-m", "flownb", "resume", "flows:Plain")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("flownb: Run 'plain': Failed at tick ")
    assert "ValueError: as you wish so be it" in err and "Traceback" not in err
    shown = flownb("show", "plain")[1]
    assert "Traceback:\n" in shown and "raise ValueError" in shown
    assert json.loads(flownb("show", "plain", "--json")[1])["failure"]["step"] == "only"
    _, _, err = flownb("resume", "flows:Quick", "quick", "--store", "nowhere.db")
    assert "There is no store 'nowhere.db'" in err


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nothing:flow", "There is no module 'nothing', neither in"),
        ("broken:flow", "Module 'broken' cannot be imported: ZeroDivisionError: division by zero ("),
        ("many", "Module 'many' has 2 workflows: say which, many:one"),
        ("many:ome", "Module 'many' has no 'ome'. Did you mean 'one'?"),
        ("many:number", "many:number is no workflow, but 1."),
        ("many:Needs", "many:Needs cannot be made without arguments"),
    ],
)
def test_what_cannot_be_resumed_is_told(folder: Path, flownb: Cli, place: str, said: str):
    Path("broken.py").write_text("1 / 0\n", "utf-8")
    Path("many.py").write_text(MANY, "utf-8")
    try:
        code, out, err = flownb("resume", place)
    finally:
        for name in ("many", "broken"):
            sys.modules.pop(name, None)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert said in err and "Traceback" not in err


MANY = """
from flownb import StartEvent, StopEvent, Workflow, step
number = 1
class Only(Workflow):
    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        return StopEvent()
class Needs(Only):
    def __init__(self, host: str) -> None:
        super().__init__()
one, two = Only("the first"), Only("the second")
launcher = one.with_options(timeout=5)
"""


def test_workflows_are_found_by_variable_class_and_name(folder: Path):
    Path("many.py").write_text(MANY, "utf-8")
    sys.path.insert(0, str(folder))
    try:
        many: Any = __import__("many")
        assert resuming.workflow_at("many:one") is resuming.workflow_at("many:the first") is many.one
        assert resuming.workflow_at("many:launcher") is many.launcher
        assert type(resuming.workflow_at("many:Only")) is many.Only
        with pytest.raises(WorkflowConfigurationError):
            resuming.workflow_at("many:Needs")
    finally:
        sys.modules.pop("many", None)


def test_a_run_of_a_notebook_is_resumed_there(folder: Path, flownb: Cli):
    """R1.37: its events are classes of `__main__`, which nobody can import."""
    Path("script.py").write_text(FLOWS + SCRIPT + KILLED, "utf-8")
    in_process(folder, "script.py")
    assert "in its notebook or script: flow.resume('nb')" in flownb("show", "nb")[1]
    code, _, err = ran(folder, "-m", "flownb", "resume", "flows:approvals", "nb")
    assert code == 1
    assert "was started in a notebook or by `python script.py`" in err


def asked_in_terminal(store: Store, *typed: str) -> tuple[Any, list[str]]:
    """A run of `Asks` whose question is put to somebody who types these lines, and then leaves."""
    run = Asks().with_options(store=store, on_interrupt="detach").run()
    wait_for_questions(run)
    lines, said = iter(typed), list[str]()

    def ask(prompt: str) -> str:
        said.append(prompt)
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    def answer_when_told() -> None:
        wait_until(lambda: any("flownb answer" in line for line in list(said)))
        run.answer(ok=True)

    if len(typed) == 1 and typed[0] == "":
        threading.Thread(target=answer_when_told).start()
    resuming.wait(run, said.append, ask, [])
    return run, said


@pytest.mark.parametrize("typed", [["yes"], ["perhaps", "true"]])
def test_a_terminal_is_asked(tmp_path: Path, typed: list[str]):
    """A wrong answer is asked for again."""
    with closing(Store(tmp_path / "runs.db")) as store:
        run, said = asked_in_terminal(store, *typed)
        assert run.status == "completed"
        assert said.count("  ok (true | false): ") == len(typed)
        assert sum("does not fit" in line for line in said) == len(typed) - 1


def test_a_question_may_be_left_open_in_a_terminal(tmp_path: Path):
    """Then it is told how to answer it, and the run waits."""
    with closing(Store(tmp_path / "runs.db")) as store:
        run, said = asked_in_terminal(store, "")
        assert run.status == "completed"
        assert any(line.strip() == f"python -m flownb answer {run.run_id}:1 ok=true" for line in said)


# Files, and the doctor.


def test_a_run_goes_to_another_store_as_a_file(folder: Path, flownb: Cli):
    """R7.12: shown there as imported, and never driven."""
    code, out, _ = flownb("export", "family", ".")
    assert (code, out) == (0, "family.flownb.zip: python -m flownb import family.flownb.zip reads it elsewhere.\n")
    there = ["--store", "there.db"]
    look = "python -m flownb show family --store there.db\n"
    assert flownb("import", "family.flownb.zip", *there)[1] == f"Run family is imported, to be looked at: {look}"
    assert flownb("import", "family.flownb.zip", *there)[1] == f"Run family is there already: {look}"
    assert "running (imported)" in flownb("runs", *there)[1]
    out = flownb("show", "family", *there)[1]
    assert "nobody, ever: it was imported" in out and "family/1/1  Slow  running (imported)" in out
    assert "To go on" not in out
    code, _, err = flownb("cancel", "family", *there)
    assert (code, err.count("\n")) == (1, 1) and "was imported" in err
    assert flownb("import", "nothing.zip", *there)[::2] == (1, "flownb: There is no file 'nothing.zip'.\n")
    assert flownb("import", "family.flownb.zip")[1].startswith("Run family is there already")
    assert flownb("export", "nobody", "x.zip")[0] == 1


def test_of_an_imported_question_no_command_is_told(folder: Path, flownb: Cli):
    """R7.12: nobody can answer it."""
    there = ["--store", "there.db"]
    assert flownb("export", "asks-1", "asks.zip")[0] == flownb("import", "asks.zip", *there)[0] == 0
    out = flownb("show", "asks-1", *there)[1]
    assert "asks-1:1" in out and "Nobody can answer it" in out
    assert "flownb answer" not in out
    (asked,) = json.loads(flownb("show", "asks-1", "--json", *there)[1])["requests"]
    assert asked["command"] is None
    assert "flownb answer" not in flownb("requests", *there)[1]


def test_commands_for_programs_name_the_store(folder: Path, flownb: Cli):
    store = ["--store", ".flownb/runs.db"]
    for asked in (
        *json.loads(flownb("requests", "--json", *store)[1]),
        *json.loads(flownb("show", "plain", "--json", *store)[1])["requests"],
    ):
        assert asked["command"].endswith(" --store .flownb/runs.db")


def test_the_doctor_tells_of_the_store(folder: Path, flownb: Cli):
    code, out, err = flownb("doctor", "--check")
    assert (code, err) == (0, "")
    for said in (
        *("flownb ", "SQLite ", "psycopg ", "ipykernel ", "Graphviz ", "runs          6 (1 completed, ", "1 child"),
        *("WAL (write-ahead log), format 2", "Nobody drives family, family/1/1, slow: python -m ", "all can be read"),
    ):
        assert said in out
    found = json.loads(flownb("doctor", "--json")[1])
    assert found["is_well"] and found["store"]["drivers"] == [] and not found["store"]["checked"]
    spoil(4)
    assert flownb("doctor")[0] == 0
    code, out, _ = flownb("doctor", "--check")
    assert code == 1 and "damaged       asks-1: Tick 4 of run 'asks-1' cannot be read" in out


def test_the_doctor_removes_files_that_no_run_names(folder: Path, flownb: Cli):
    """What a run, an inbox or a question names stays, and what is younger than an hour."""
    with closing(Store(".flownb/runs.db")) as store:
        assert store.artifacts is not None
        flow: Workflow[Any] = Asks()
        run = flow.with_options(store=store).run(run_id="large", text="x" * 100_000)
        wait_until(lambda: run.status == "waiting")
        names = {*store.artifacts}
        old, young = store.artifacts.put(b"old"), store.artifacts.put(b"young")
        for name in (*names, old):
            os.utime(store.artifacts.folder / name[:2] / name[2:], (1, 1))
        run.suspend(0).result(10)
        assert names
        out = flownb("doctor")[1]
        assert f"{len(names) + 2} files" in out and "2 (8 bytes) are named by no run: --collect removes them." in out
        assert "1 file removed (3 bytes)" in flownb("doctor", "--collect")[1]
        assert {*store.artifacts} == {*names, young}


def test_the_doctor_works_without_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flownb: Cli):
    monkeypatch.chdir(tmp_path)
    code, out, _ = flownb("doctor")
    assert code == 0 and "Store: There is no store in this folder" in out
    (tmp_path / "other.db").write_text("this is no database, and long enough to be looked at" * 9)
    code, out, _ = flownb("doctor", "--store", "other.db")
    assert code == 1 and "cannot be used: file is not a database" in out
    assert not (tmp_path / ".flownb").exists()


def test_a_store_in_postgresql(new_url: Callable[[], str], flownb: Cli, monkeypatch: pytest.MonkeyPatch):
    """The same commands; the place is never told with its password."""
    url = new_url()
    with closing(Store(url)) as store:
        run = Asks().with_options(store=store).run(run_id="pg")
        wait_for_questions(run)
        monkeypatch.setenv("FLOWNB_STORE", url)
        assert "waiting" in flownb("runs")[1]
        assert "PostgreSQL, format 2" in flownb("doctor", "--check")[1]
        assert "python -m flownb answer pg:1 ok=true --store 'postgresql://" in flownb("requests", "--store", url)[1]
        assert flownb("answer", "pg:1", "ok=true")[0] == 0
        run.result(20)


# The command line itself.


def test_a_missing_store_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flownb: Cli):
    """Looking makes none."""
    monkeypatch.chdir(tmp_path)
    for argv in (["runs"], ["show", "x"], ["requests"], ["answer", "x:1", "1"], ["cancel", "x"], ["export", "x", "y"]):
        code, out, err = flownb(*argv)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "There is no store in this folder (.flownb/runs.db" in err
    monkeypatch.setenv("FLOWNB_STORE", "other.db")
    assert flownb("runs")[2] == "flownb: There is no store 'other.db' (FLOWNB_STORE).\n"
    assert "gone with its process" in flownb("runs", "--store", ":memory:")[2]
    assert [*tmp_path.iterdir()] == []


def test_the_store_may_stand_before_and_behind_the_command(folder: Path, flownb: Cli):
    shutil.move(".flownb/runs.db", "mine.db")
    assert flownb("--store", "mine.db", "runs") == flownb("runs", "--store", "mine.db")
    assert flownb("runs", "--store", "mine.db")[0] == 0


# Replays.


@pytest.fixture
def exported(folder: Path, flownb: Cli) -> Path:
    """A completed run as a file; its classes are of `flows`."""
    assert flownb("export", "quick", "quick.zip")[0] == 0
    return folder


def test_replay_without_a_workflow_folds_what_is_recorded(exported: Path, flownb: Cli):
    """R6.43: no code is run, and no class of the file is looked for."""
    code, out, err = flownb("replay", "quick.zip")
    assert (code, err) == (0, "")
    assert out == "Run quick of Quick: 2 ticks folded to completed.\n"
    assert "flows" not in sys.modules
    (found,) = json.loads(flownb("replay", "quick.zip", "--json")[1])
    assert (found["run"], found["ticks"], found["status"], found["is_sound"]) == ("quick", 2, "completed", True)
    code, out, _ = flownb("export", "family", "family.zip")
    code, out, _ = flownb("replay", "family.zip")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()] == ["family", "family/1/1"]


def test_replay_of_a_file_that_says_otherwise_exits_with_1(exported: Path, flownb: Cli):
    """R6.43: whatever the file says of the run, its ticks tell."""
    archive = read_archive("quick.zip")
    run = archive.runs[0]
    write_archive("other.zip", [replace(run, about={**run.about, "status": "failed"})])
    assert flownb("replay", "other.zip") == (
        1,
        "Run quick of Quick: 2 ticks folded to completed, and the file says failed.\n",
        "",
    )
    write_archive("cut.zip", [replace(run, sound=1)])
    code, out, _ = flownb("replay", "cut.zip")
    assert code == 1
    assert "Run quick of Quick: 1 tick folded to running; tick 2 is not as it was written." in out
    code, _, err = flownb("replay", "cut.zip", "flows:Quick")
    assert code == 1
    assert "tick 2 is not as it was written" in err


def test_replay_exits_with_1_on_a_divergence(exported: Path):
    """R6.43: what came from the recording, what ran, and the first difference."""
    command = ("-m", "flownb", "replay", "quick.zip", "flows:Quick")
    code, out, err = ran(exported, *command)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "Run quick of Quick: 2 ticks recorded, 2 ticks replayed; the replay is completed.",
        "From the recording: only (1).",
        "Run live: no step.",
        "No divergence.",
    ]
    code, out, _ = ran(exported, *command, "--live", "only")
    assert code == 0
    assert "Run live: only (1).\nNo divergence." in out
    (exported / "flows.py").write_text(FLOWS.replace('result="quick"', 'result="slow"'), "utf-8")
    code, out, _ = ran(exported, *command)
    assert code == 1
    assert out.splitlines()[1:] == [
        "Changed: only.",
        "From the recording: no step.",
        "Run live: only (1).",
        "First divergence, step only: result was StopEvent(result='quick'), and is StopEvent(result='slow').",
        "  recorded: tick 2, StepFinished of only: StopEvent(result='quick')",
        "  replayed: tick 2, StepFinished of only: StopEvent(result='slow')",
    ]
    code, out, _ = ran(exported, *command, "--json")
    told = json.loads(out)
    assert (code, told["changed"], told["live"], told["divergence"]["step"]) == (1, ["only"], {"only": 1}, "only")
    assert told["divergence"]["recorded_seq"] == told["divergence"]["seq"] == 2


def test_replay_asks_before_a_step_runs_that_must_not_run_twice(exported: Path):
    """R6.43: nothing is done unless the command says what."""
    once = FLOWS.replace(
        """class Quick(Workflow):
    @step
""",
        """class Quick(Workflow):
    @step(idempotent=False)
""",
    )
    (exported / "flows.py").write_text(once, "utf-8")
    command = ("-m", "flownb", "replay", "quick.zip", "flows:Quick")
    code, out, _ = ran(exported, *command)
    assert code == 1
    assert "It asks: Step 'only' must not simply run twice (idempotent=False), and its source changed" in out
    assert out.endswith("It cannot go on: --run-again says what such a step does.\n")
    assert json.loads(ran(exported, *command, "--json")[1])["asks"]
    code, out, _ = ran(exported, *command, "--run-again", "run")
    assert (code, "Run live: only (1).\nNo divergence." in out) == (0, True)
    code, out, _ = ran(exported, *command, "--run-again", "recorded")
    assert (code, "From the recording: only (1).\nRun live: no step.\nNo divergence." in out) == (0, True)
    code, out, _ = ran(exported, *command, "--run-again", "skip")
    assert (code, "First divergence, step only" in out) == (1, True)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["nowhere.zip"], "There is no file 'nowhere.zip'."),
        (["quick.zip", "nowhere:Quick"], "There is no module 'nowhere'"),
        (["quick.zip", "flows:Quik"], "has no 'Quik'. Did you mean 'Quick'?"),
        (["quick.zip", "flows:Quick", "--live", "onl"], "has no step 'onl'. Did you mean 'only'?"),
        (["quick.zip", "flows:Quick", "--run-again", "twice"], "invalid choice: 'twice'"),
        (["made.zip"], "usage"),
    ],
)
def test_replay_of_what_is_not_there_exits_with_2(exported: Path, argv: list[str], said: str):
    """R6.43: so a divergence can be told apart from a wrong command."""
    if said == "usage":
        argv = []
    code, out, err = ran(exported, "-m", "flownb", "replay", *argv)
    assert (code, out) == (2, "")
    assert said in err


def test_replay_gives_up_on_code_that_takes_too_long(exported: Path):
    """R6.43: in CI nothing hangs."""
    slow = FLOWS.replace('return StopEvent(result="quick")', "await asyncio.sleep(60)\n        return StopEvent()")
    (exported / "flows.py").write_text(slow, "utf-8")
    code, _, err = ran(exported, "-m", "flownb", "replay", "quick.zip", "flows:Quick", "--timeout", "0.2")
    assert (code, err) == (1, "flownb: the replay was not over after 0.2 s.\n")


@pytest.mark.parametrize(
    "argv", [[], ["nonsense"], ["show"], ["answer", "x:1"], ["runs", "--limit", "many"], ["--what"]]
)
def test_a_wrong_command_exits_with_2(flownb: Cli, argv: list[str]):
    code, out, err = flownb(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("usage: python -m flownb")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_there_for_every_command(flownb: Cli, command: str):
    code, out, _ = flownb(*command.split(), "--help")
    assert code == 0
    assert "--store" in out
    if not command:
        assert all(f"    {name} " in out for name in COMMANDS)
        assert "python -m flownb answer 7f3a:1 decision=approve" in out and "130 after Ctrl-C" in out


def test_a_closed_pipe_is_no_error_in_words(folder: Path):
    """`python -m flownb runs | head`."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        shown = subprocess.run(
            [sys.executable, "-m", "flownb", "show", "asks-1"],
            cwd=folder, env=environment(), stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (shown.returncode, shown.stderr) == (1, b"")


def test_texts_of_others_cannot_steer_a_terminal():
    """Control characters are shown as such."""
    assert words.clean("a\x1b[31mred\r\nb\x07\u202e") == "a\\x1b[31mred b\\x07\\u202e"
    assert words.value_of(UnknownEvent("m:Row", 1, {"text": "\x1b]0;"}, "")) == "Row(text='\\x1b]0;')"


def test_secrets_are_hidden_whatever_form_they_have():
    stored = {"key": {"$sealed": "abc", "type": "SecretStr"}, "in": [{"$secret": "SecretStr", "text": "", "id": "1"}]}
    assert words.plain(UnknownEvent("m:Row", 1, stored, "")) == {"key": "**********", "in": ["**********"]}
    assert json.loads(words.as_json(words.plain({"key": SecretStr("abc")}))) == {"key": "**********"}


@pytest.fixture(autouse=True)
def no_store_in_options(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("FLOWNB_STORE", raising=False)
    yield


def test_spans_and_sizes_are_told_as_people_do():
    assert [words.span(s) for s in (-1, 5.4, 119, 600, 7300, 3e5)] == ["0 s", "5 s", "119 s", "10 min", "2 h", "3 days"]
    assert [words.size(n) for n in (12, 1500, 2_500_000, 7 * 10**9)] == ["12 bytes", "1.5 KB", "2.5 MB", "7.0 GB"]
    assert abs(time.mktime(time.strptime(words.clock(1e9), "%Y-%m-%d %H:%M:%S")) - 1e9) < 1
