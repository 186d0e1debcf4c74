"""What can be asked of a store, across its runs, and what can be done from there (section 7 of the rules)."""

import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flownb import Store
from flownb.agenda import Suspension
from flownb.errors import RequestDisposed, RunNotFound, WorkflowConfigurationError
from flownb.store.journal import Append, Wakeup
from tests.polling import wait_for_questions, wait_until
from tests.stored.flows import Chain, Returns, notes
from tests.stored.other import Other

Open = Callable[..., Store]
Start = Callable[..., Other]


class Mixed:
    """A store with a run of each kind, all left by a process that is gone: `a` and `b` ask, `c` sleeps, `d` tries
    again, `e` is over, `f` failed."""

    def __init__(self, place: str, other: Start, log: Path) -> None:
        self.log = log
        process = other(place)
        process.do(
            "from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed\n"
            "again = Workflow('again')\n"
            "async def work(ev: Begin) -> StopEvent:\n"
            "    if ev.n:\n        raise ValueError('no')\n"
            "    return StopEvent()\n"
            "again.step(retry_policy=retry_policy(stop=stop_after_attempt(2), wait=wait_fixed(400)))(work)\n"
            "broken = Workflow('broken')\n"
            "async def work(ev: Begin) -> StopEvent:\n    raise ValueError('broken')\n"
            "broken.step(work)\n"
            "timed = Workflow('timed')\n"
            "async def ask(ev: Begin, ctx: Context) -> StopEvent:\n"
            "    return StopEvent(result=await ctx.ask('Well?', bool, timeout=500, default=True))\n"
            "timed.step(ask)\n"
            f"log = {str(log)!r}\n"
            "runs = {\n"
            "    'a': timed.with_options(store=store).run(run_id='a'),\n"
            "    'b': Returns().with_options(store=store).run(run_id='b', log=log),\n"
            "    'c': Sleeps().with_options(store=store).run(run_id='c', n=6000),\n"
            "    'd': again.with_options(store=store).run(run_id='d'),\n"
            "    'e': Chain().with_options(store=store).run(run_id='e'),\n"
            "    'f': broken.with_options(store=store).run(run_id='f'),\n"
            "}"
        )
        process.wait("runs['a'].status == 'waiting' == runs['b'].status and runs['e'].is_done()")
        process.wait("runs['f'].is_done() and store.summary()['retries'] == 1 and store.summary()['timers'] == 1")
        process.kill()


@pytest.fixture
def mixed(any_place: str, other: Start, tmp_path: Path) -> Mixed:
    return Mixed(any_place, other, tmp_path / "log")


def test_r7_1_runs_are_listed_by_status_and_workflow(mixed: Mixed, any_place: str, open_store: Open):
    """R7.1: the newest first, by name or key of the workflow; without their code."""
    store = open_store(any_place)
    assert {row.run_id: (row.workflow, row.status) for row in store.runs()} == {
        "a": ("timed", "waiting"),
        "b": ("Returns", "waiting"),
        "c": ("Sleeps", "running"),
        "d": ("again", "running"),
        "e": ("Chain", "completed"),
        "f": ("broken", "failed"),
    }
    assert [row.run_id for row in store.runs()] == sorted("abcdef", reverse=True)
    assert [row.run_id for row in store.runs(status="running")] == ["d", "c"]
    assert [row.run_id for row in store.runs(workflow="Returns")] == ["b"]
    assert [row.run_id for row in store.runs(workflow="tests.stored.flows:Returns", status="waiting")] == ["b"]
    assert store.runs(workflow="Returns", status="running") == []
    assert [row.run_id for row in store.runs(limit=2)] == ["f", "e"]


def test_r7_2_a_summary_counts(mixed: Mixed, any_place: str, open_store: Open):
    """R7.2: of live runs only: a cancelled one asks nothing any more."""
    store = open_store(any_place)
    statuses = {"waiting": 2, "running": 2, "completed": 1, "failed": 1}
    assert store.summary() == {"runs": statuses, "requests": 2, "timers": 1, "retries": 1}
    for run_id in "abcd":
        store.run(run_id).cancel().result(20)
    ended = {"cancelled": 4, "completed": 1, "failed": 1}
    assert store.summary() == {"runs": ended, "requests": 0, "timers": 0, "retries": 0}


def test_r7_3_open_questions_across_runs(mixed: Mixed, any_place: str, open_store: Open):
    """R7.3: by run and id, without tokens; each can be answered from there."""
    store = open_store(any_place)
    requests = store.requests()
    assert [request.id for request in requests] == ["a:1", "b:1"]
    assert [request.step for request in requests] == ["ask", "ask"]
    assert requests["b:1"].question.no == 3
    assert requests[0].deadline is not None
    assert requests[1].deadline is None
    assert [name for name in dir(requests[0]) if "token" in name] == []
    assert {waits.token for _, waits in store.journal.waiting()} == {""}
    requests["b:1"].answer(ok=True, words="from the list")
    assert Returns().with_options(store=store).resume("b").result(20) == [3, "from the list"]
    assert [request.id for request in store.requests()] == ["a:1"]


def test_r7_4_and_r7_5_history_and_tail(mixed: Mixed, any_place: str, open_store: Open):
    """R7.4, R7.5."""
    store = open_store(any_place)
    ticks = store.history("e")
    kinds = [type(tick).__name__ for tick in ticks]
    assert kinds[0] == "RunStarted"
    assert len(ticks) == store.runs(workflow="Chain")[0].seq
    assert [repr(tick) for tick in store.history("e", 2, 3)] == [repr(tick) for tick in ticks[1:3]]
    assert [repr(tick) for tick in store.history("e", from_=4)] == [repr(tick) for tick in ticks[3:]]
    assert [repr(tick) for tick in store.tail("e", 2)] == [repr(tick) for tick in ticks[-2:]]
    assert len(store.tail("e", 1000)) == len(ticks)
    for look in (store.history, store.tail):
        with pytest.raises(RunNotFound, match="'nobody'"):
            look("nobody")


def test_r7_6_suspensions_are_sorted_and_say_what_is_due(mixed: Mixed, any_place: str, open_store: Open):
    """R7.6: by run, kind and id."""
    store = open_store(any_place)
    found = store.suspensions()
    assert [(s.run_id, s.kind, s.step, s.is_due) for s in found] == [
        ("a", "request", "ask", False),
        ("b", "request", "ask", False),
        ("c", "timer", "sleep", False),
        ("d", "retry", "work", False),
    ]
    later = store.suspensions(time.time() + 550)
    assert [s.run_id for s in later if s.is_due] == ["a", "d"]
    assert later[0] == Suspension("a", "request", 1, "ask", found[0].due, True)
    assert found[1].due is None


def test_r7_7_the_next_wakeup_is_the_earliest_of_all(mixed: Mixed, any_place: str, open_store: Open):
    """R7.7: of a timer, a retry or a question's deadline."""
    store = open_store(any_place)
    due = {s.run_id: s.due for s in store.suspensions()}
    order = []
    for _ in range(3):
        wakeup = store.next_wakeup()
        assert wakeup is not None
        order.append(wakeup)
        store.run(wakeup.run_id).cancel().result(20)
    assert order == [
        Wakeup(due["d"], "d", "retry", order[0].id),  # type: ignore[arg-type]
        Wakeup(due["a"], "a", "request", 1),  # type: ignore[arg-type]
        Wakeup(due["c"], "c", "timer", order[2].id),  # type: ignore[arg-type]
    ]
    assert store.next_wakeup() is None


def test_r7_8_due_runs_are_listed_once_and_driven(
    any_place: str, open_store: Open, other: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """R7.8: `resume_due` gives what it woke, and wakes nothing that somebody drives."""
    process, store = other(any_place), open_store(any_place)
    process.do(
        "flow = Workflow('several')\n"
        "async def begin(ev: Begin, ctx: Context) -> StopEvent:\n"
        "    import asyncio\n"
        "    await asyncio.gather(ctx.sleep(1.5), ctx.sleep(1.6), ctx.sleep(1.7))\n"
        "    return StopEvent()\n"
        "flow.step(begin)\n"
        f"two = Sleeps().with_options(store=store).run(run_id='two', n=15, log={str(tmp_path / 'log')!r})\n"
        "three = Sleeps().with_options(store=store).run(run_id='three', n=16)\n"
        "much = flow.with_options(store=store).run(run_id='several')\n"
        "late = Sleeps().with_options(store=store).run(run_id='late', n=6000)"
    )
    process.wait("len(store.suspensions()) == 6")
    assert store.resume_due(time.time() + 10) == []  # it is driven
    process.kill()
    wait_until(lambda: store.due() == ["several", "three", "two"])
    assert "late" in store.due(time.time() + 3600)
    woken = store.resume_due()
    assert sorted(run.run_id for run in woken) == ["three", "two"]
    assert "run several could not be resumed" in caplog.text  # this process has not its workflow (R7.9)
    assert [run.result(20) > 0 for run in woken] == [True, True]
    assert store.due() == ["several"]


def test_r7_9_one_bad_run_does_not_stop_the_others(
    place: str, open_store: Open, other: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """R7.9: neither a damaged journal, nor a workflow that is not there; it is told in the log."""
    process = other(place)
    process.do("runs = [Sleeps().with_options(store=store).run(run_id=f's{i}', n=12 + i) for i in range(4)]")
    process.wait("len(store.suspensions()) == 4")
    process.kill()
    with sqlite3.connect(place) as db:
        db.execute("UPDATE journal SET body = 'nonsense' WHERE run_id = 's0' AND seq = 1")
        db.execute("UPDATE journal SET body = 'nonsense' WHERE run_id = 's2' AND seq = 2")
    db.close()
    store = open_store(place)
    wait_until(lambda: store.due() == ["s0", "s1", "s2", "s3"])
    woken = store.resume_due()

    assert sorted(run.run_id for run in woken) == ["s1", "s3"]
    assert [run.result(20) > 0 for run in woken] == [True, True]
    assert {name for name in ("s0", "s1", "s2", "s3") if f"run {name} could not be resumed" in caplog.text} == {
        "s0",
        "s2",
    }


def test_r7_10_to_drive_a_run_twice_is_to_drive_it_once(any_place: str, open_store: Open, other: Start, tmp_path: Path):
    """R7.10: until it is quiet, or over; on one that is, nothing happens."""
    log, process, store = tmp_path / "log", other(any_place), open_store(any_place)
    process.do(f"run = Returns().with_options(store=store).run(run_id='r', log={str(log)!r})")
    process.wait("run.status == 'waiting'")
    process.kill()
    before = store.journal.last_seq("r")
    for each in (store, store, open_store(any_place)):
        run = each.drive("r").result(20)
        assert (run.run_id, run.status) == ("r", "waiting")
    assert store.journal.last_seq("r") == before
    run.answer(ok=True)
    assert store.drive("r").result(20).status == "completed"  # something came for it
    over = store.drive("r", until="end").result(20)
    assert over.result(20) == [3, True]
    assert store.drive("r").result(20).status == "completed"
    assert store.drive("r", until="end").result(20).status == "completed"
    assert notes(log) == ["ask", "take"]
    assert sum(type(tick).__name__ == "RunOpened" for tick in store.history("r")) == 1
    with pytest.raises(RunNotFound):
        store.drive("nobody")
    with pytest.raises(WorkflowConfigurationError, match="until"):
        store.drive("r", until="now")  # type: ignore[arg-type]


def test_r7_11_answer_and_dispose_from_the_store(place: str, open_store: Open):
    """R7.11, R4.52: by token, or by the list; also a run that nobody drives."""
    store = open_store(place)
    runs = [Returns().with_options(store=store).run(run_id=f"r{i}") for i in range(3)]
    for run in runs:
        wait_for_questions(run)  # a commit is in the store before its run knows
    assert len(store.requests()) == 3
    assert store.answer(runs[0].requests[0].token, ok=True) == ("r0", 1)
    assert store.dispose(runs[1].requests[0].token, "not any more") == ("r1", 1)
    assert store.requests()["r2:1"].dispose("nor this") == ""
    assert runs[0].result(20) == [3, True]
    for run in runs[1:]:
        with pytest.raises(RequestDisposed):
            run.result(20)
        assert run.requests.all()[0].status == "disposed"
    assert len(store.requests()) == 0


def test_r7_12_a_run_goes_to_another_store_and_is_looked_at_there(place: str, open_store: Open, tmp_path: Path):
    """R7.12."""
    store, elsewhere = open_store(place), open_store(str(tmp_path / "elsewhere.db"))
    run = Returns().with_options(store=store).run(run_id="r")
    wait_until(lambda: run.status == "waiting")
    assert elsewhere.import_(store.export("r", tmp_path / "r.zip")) == "r"
    assert [repr(tick) for tick in elsewhere.history("r")] == [repr(tick) for tick in store.history("r")]
    assert elsewhere.run("r").status == "waiting"
    assert elsewhere.due() == []
    assert elsewhere.resume_due(time.time() + 1e9) == []


def test_ended_runs_are_thrown_away(any_place: str, open_store: Open):
    """API §8, `prune`: the old ones, with their children, but the newest of each workflow; never a live one."""
    store = open_store(any_place)
    for i in range(3):
        Chain().with_options(store=store).run(run_id=f"c{i}").result(20)
    waiting = Returns().with_options(store=store).run(run_id="live")
    wait_until(lambda: waiting.status == "waiting")
    assert store.prune(older_than=3600) == 0
    assert store.prune(older_than=0, keep=1) == 2
    assert {row.run_id for row in store.runs()} == {"c2", "live"}
    assert store.prune(older_than=0) == 1
    assert [row.run_id for row in store.runs()] == ["live"]
    waiting.cancel().result(20)


def test_r7_13_no_question_reads_the_rows_that_it_does_not_give(place: str, open_store: Open):
    """R7.13: every statement of them goes by index."""
    store = open_store(place)
    run = Returns().with_options(store=store).run(run_id="r")
    wait_until(lambda: run.status == "waiting")
    token = run.requests[0].token
    asked: list[str] = []
    store.journal._db.set_trace_callback(asked.append)  # type: ignore[attr-defined]
    for ask in (
        lambda: store.runs(status="waiting"),
        lambda: store.runs(workflow="Returns"),
        lambda: store.runs(limit=5),
        lambda: list(store.requests()),
        lambda: store.history("r", 1, 2),
        lambda: store.tail("r"),
        store.next_wakeup,
        store.run("r").requests.all,
        lambda: store.answer(token, ok=True),
        lambda: run.result(20),
    ):
        ask()
    store.journal._db.set_trace_callback(None)  # type: ignore[attr-defined]
    statements = {text for text in asked if re.match(r"\s*(SELECT|UPDATE|DELETE|INSERT)", text)}
    assert len(statements) > 15
    scans = []
    db = store.journal._db  # type: ignore[attr-defined]
    for text in statements:
        plan = store.journal._do(lambda text=text: db.execute(f"EXPLAIN QUERY PLAN {text}").fetchall())  # type: ignore[attr-defined]
        scans += [(text, step) for *_, step in plan if re.match(r"SCAN (journal|runs|inbox|tokens|waiting)$", step)]
    assert scans == []


def test_r7_13_questions_do_not_grow_with_the_runs_that_are_over(place: str, open_store: Open):
    """R7.13: with 2,000 runs as fast as with 20; what lists live things does not look at the others."""
    store = open_store(place)
    _fill(store, 0, 20)
    run = Returns().with_options(store=store).run(run_id="r")
    wait_until(lambda: run.status == "waiting")
    few = _times(store)
    _fill(store, 20, 2000)
    many = _times(store)

    for name, taken in many.items():
        assert taken < 5 * few[name] + 0.002, (name, few[name], taken)
    run.cancel().result(20)


def _fill(store: Store, first: int, last: int) -> None:
    """Runs that are over, written as their driver does it."""
    flow, kept = Chain(), Store(":memory:")
    flow.with_options(store=kept).run(run_id="sample", n=0).result(20)
    ticks = kept.history("sample")
    for i in range(first, last, 50):
        group = [f"c{k}" for k in range(i, min(i + 50, last))]
        store.journal.append(
            [Append(name, 0, _moved(ticks, name, k / 100), "completed", 1, "d") for k, name in enumerate(group, i)]
        )


def _moved(ticks: list[Any], run_id: str, by: float) -> list[Any]:
    """The ticks of another run, which began at another time."""
    first, *rest = (replace(tick, at=tick.at + by) for tick in ticks)
    return [replace(first, run_id=run_id), *rest]


def _times(store: Store) -> dict[str, float]:
    uses: dict[str, Callable[[], object]] = {
        "requests": lambda: list(store.requests()),
        "suspensions": store.suspensions,
        "due": store.due,
        "next_wakeup": store.next_wakeup,
        "runs of a status": lambda: store.runs(status="waiting"),
        "runs of a workflow": lambda: store.runs(workflow="Returns"),
        "the newest runs": lambda: store.runs(limit=5),
        "history": lambda: store.history("r"),
        "tail": lambda: store.tail("r"),
        "run": lambda: store.run("r"),
    }
    return {name: min(_time(use) for _ in range(7)) for name, use in uses.items()}


def _time(use: Callable[[], object]) -> float:
    begun = time.perf_counter()
    use()
    return time.perf_counter() - begun
