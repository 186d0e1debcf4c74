"""Steps elsewhere: slots, calls in other processes, and what comes back from them."""

import contextvars
import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import pytest

from flownb import Context, Event, Resource, StartEvent, StopEvent, Workflow, step
from flownb.definition.parameters import ELSEWHERE
from flownb.errors import (
    AttemptOver,
    StepFailure,
    StepLost,
    WorkflowConfigurationError,
    WorkflowError,
    WorkflowRuntimeError,
)
from flownb.events import newest
from flownb.retry_policy import RetryInfo, retry_policy, stop_after_attempt, wait_fixed
from flownb.runtime.channel import Hearing
from flownb.runtime.executors import (
    Cancel,
    ContextElsewhere,
    Processes,
    RemoteCall,
    executor_for,
    processes,
    runs_here,
    submit,
    submit_here,
)
from flownb.runtime.remote import Home, Printed, Progressed, Said, run
from flownb.runtime.shipping import of_here, packed_call
from tests.polling import wait_until


class Row(Event):
    no: int
    held: Any = None


class Begin(StartEvent):
    pass


class TwoWords(Exception):
    """Cannot be made again from what it keeps."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


class Call:
    """A call that was sent, and what came back of it."""

    def __init__(
        self, executor: Executor, fn: Callable[..., Any], *args: Any, owner: Any = None, **kwargs: Any
    ) -> None:
        self.printed: list[str] = []
        self.progressed: list[tuple[float, float | None, str]] = []
        self.ends: list[tuple[Any, BaseException | None]] = []
        call = RemoteCall(
            "fit",
            fn,
            args,
            kwargs,
            take_output=self._take,
            progress=lambda *said: self.progressed.append(said),
            owner=owner,
        )
        self.cancel: Cancel = submit(executor, call, lambda *end: self.ends.append(end))

    def _take(self, text: str) -> bool:
        self.printed.append(text)
        return True

    def end(self) -> tuple[Any, BaseException | None]:
        wait_until(lambda: self.ends, 60)
        return self.ends[0]

    def value(self) -> Any:
        value, error = self.end()
        assert error is None, error
        return value

    def error(self) -> BaseException:
        value, error = self.end()
        assert error is not None
        assert value is None
        return error


@pytest.fixture(scope="module")
def workers() -> Iterator[Processes]:
    made = Processes(1)
    yield made
    made.shutdown()


def context() -> ContextElsewhere:
    info = RetryInfo(1, 2.5)
    return ContextElsewhere(run_id="r1", step_name="fit", attempt=2, task_key="r1/7", retry_info=info)


def cell(source: str, names: dict[str, Any]) -> None:
    """Run a notebook's cell."""
    exec(textwrap.dedent(source), names)


# -- slots


def test_the_engines_own_threads_fill_the_slot_thread():
    """R3.11: a plain step runs in a thread, unless it is told otherwise."""
    assert executor_for(None, {}) is None
    assert executor_for("thread", {}) is None
    assert executor_for("gpu", {"gpu": "thread"}) is None


def test_all_runs_share_the_processes():
    assert executor_for("processes", {}) is processes()
    assert executor_for("gpu", {"gpu": "processes"}) is processes()


def test_an_executor_that_was_given_fills_its_slot_also_a_built_in_one():
    with ThreadPoolExecutor(1) as mine:
        assert executor_for("gpu", {"gpu": mine}) is mine
        assert executor_for("processes", {"processes": mine}) is mine


@pytest.mark.parametrize(
    ("slot", "bound", "said"),
    [
        ("gpu", {}, r"Step 'fit' runs in the slot 'gpu', which nobody filled.*with_options\(executors=\{'gpu': "),
        ("proceses", {}, "Did you mean 'processes'"),
        ("gpu", {"gpu": "threads"}, "was filled with the word 'threads'"),
        ("gpu", {"gpu": ThreadPoolExecutor}, r"Make one: ThreadPoolExecutor\(\.\.\.\)"),
        ("gpu", {"gpu": object()}, "it is no executor.*an object with `submit`"),
        ("gpu", {"gpu": type("Client", (), {"submit": print, "get_executor": print})()}, r"its get_executor\(\) gives"),
    ],
)
def test_a_slot_without_an_executor_is_an_error_that_names_it(slot: str, bound: dict[str, Any], said: str):
    """R8.13: an executor setting that cannot be honoured."""
    with pytest.raises(WorkflowConfigurationError, match=said) as caught:
        executor_for(slot, bound, step="fit")
    assert caught.value.slot == slot  # type: ignore[attr-defined]


@pytest.mark.parametrize("missing", ["loky", "cloudpickle"])
def test_processes_without_their_packages_say_what_to_install(monkeypatch: pytest.MonkeyPatch, missing: str):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    with pytest.raises(WorkflowConfigurationError, match=r"pip install 'flownb\[processes\]'"):
        executor_for("processes", {})


# -- threads


def test_a_job_runs_as_it_is_on_a_pool_of_threads():
    """R3.11: in the context that was copied for it; nothing is pickled."""
    mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="")
    mark.set("mine")
    here = contextvars.copy_context()
    seen: list[tuple[str, str]] = []
    with ThreadPoolExecutor(1, thread_name_prefix="user") as pool:
        assert runs_here(pool)
        submit_here(
            pool,
            "fit",
            lambda: here.run(lambda: seen.append((mark.get(), threading.current_thread().name))),
            pytest.fail,
        )
    assert seen == [("mine", "user_0")]


def test_a_job_that_is_given_up_before_it_begins_never_runs():
    go, ran = threading.Event(), []
    with ThreadPoolExecutor(1) as pool:
        pool.submit(go.wait, 20)
        cancel = submit_here(pool, "fit", lambda: ran.append(1), pytest.fail)
        cancel()
        go.set()
    assert ran == []


def test_a_pool_of_threads_that_is_shut_down_loses_its_jobs():
    """What it had in its queue, and what comes after."""
    go, lost = threading.Event(), []
    pool = ThreadPoolExecutor(1)
    pool.submit(go.wait, 20)
    submit_here(pool, "fit", lambda: pytest.fail("it ran"), lost.append)
    pool.shutdown(wait=False, cancel_futures=True)
    assert [str(error) for error in lost] == [str(lost[0])]
    assert isinstance(lost[0], StepLost)
    assert "its queue was emptied" in str(lost[0])
    with pytest.raises(StepLost, match=r"'fit' could not be started.*after shutdown"):
        submit_here(pool, "fit", lambda: pytest.fail("it ran"), lost.append)
    go.set()
    pool.shutdown()


# -- processes


def test_a_function_runs_in_another_process_and_its_events_come_back(workers: Processes):
    def fit(ev: Row, *, scale: int) -> tuple[int, list[Row]]:
        return os.getpid(), [Row(no=ev.no * scale), Row(no=0, extra="kept")]

    pid, rows = Call(workers, fit, Row(no=4), scale=10).value()

    assert pid != os.getpid()
    assert rows == [Row(no=40), Row(no=0, extra="kept")]
    assert [type(row) for row in rows] == [Row, Row]


def test_the_context_there_has_what_makes_sense_there(workers: Processes):
    """API.md §4; R3.59: attempt and task key are for systems outside."""

    def fit(ctx: Any) -> list[Any]:
        return [ctx.run_id, ctx.step_name, ctx.attempt, ctx.task_key, ctx.retry_info()]

    assert Call(workers, fit, context()).value() == ["r1", "fit", 2, "r1/7", RetryInfo(1, 2.5)]
    assert [name for name in ELSEWHERE if not hasattr(context(), name)] == []


@pytest.mark.parametrize(
    ("last", "there"),
    [
        (KeyError("a"), "KeyError('a')"),
        (TwoWords("no", "way"), "StepFailure('TwoWords: no way')"),
        (ValueError(threading.Lock()), "StepFailure('ValueError: <unlocked"),
    ],
)
def test_the_exception_of_the_attempt_before_is_there_too(workers: Processes, last: BaseException, there: str):
    """In words, where it cannot be read again: it must not keep the attempt from starting."""

    def fit(ctx: Any) -> str:
        return repr(ctx.retry_info().last_exception)

    info = RetryInfo(1, 2.5, last)
    here = ContextElsewhere(run_id="r1", step_name="fit", attempt=2, task_key="r1/7", retry_info=info)
    assert Call(workers, fit, here).value().startswith(there)
    assert here.retry_info().last_exception is last


def test_anything_else_of_the_context_is_refused_there_in_words(workers: Processes):
    def fit(ev: Row, ctx: Any) -> None:
        ctx.state.set("n", ev.no)

    error = Call(workers, fit, Row(no=1), context()).error()

    assert isinstance(error, AttributeError)
    assert str(error).startswith("ctx.state is not there in another process: step 'fit' runs in one")


def test_what_a_step_prints_there_comes_back_as_it_prints(workers: Processes, tmp_path: Path):
    """The step goes on only once its first line was heard here; nothing comes twice."""
    heard = tmp_path / "heard"

    def fit() -> None:
        print("one")
        end = time.monotonic() + 30
        while not heard.exists():
            assert time.monotonic() < end, "nobody heard the first line"
            time.sleep(0.005)
        print("two", file=sys.stderr)

    call = Call(workers, fit)
    wait_until(lambda: "one" in call.printed, 60)
    assert call.ends == []
    heard.touch()
    call.value()
    assert "".join(call.printed) == "one\ntwo\n"


def test_progress_comes_back(workers: Processes):
    """A ProgressEvent of a step in another process: `ctx.progress` of the stand-in."""

    def fit(ctx: Any) -> None:
        for n in (1, 2, 3):
            ctx.progress(n, 3, label=f"epoch {n}")

    call = Call(workers, fit, context())
    call.value()
    assert call.progressed == [(1.0, 3.0, "epoch 1"), (2.0, 3.0, "epoch 2"), (3.0, 3.0, "epoch 3")]


def test_without_a_way_home_all_that_was_said_comes_with_the_result():
    """A worker on another machine cannot reach the listener."""

    def fit(ctx: Any) -> None:
        print("one")
        ctx.progress(1)

    back = run(packed_call("fit", fit, (context(),), {}).data, Home("c", "/nowhere/at/all", b"key"))

    assert back.said == [Printed("one"), Printed("\n"), Progressed(1.0)]


def test_each_piece_is_handed_on_once_and_in_order():
    """Whatever of it came over the line, and when."""
    got: list[Said] = []
    said: list[Said] = [Printed("a"), Printed("b"), Printed("c"), Printed("d")]
    hearing = Hearing(got.append)

    hearing.take(0, said[0])
    hearing.take(2, said[2])  # the line lost the second
    assert got == said[:1]
    hearing.finish(said)
    hearing.take(3, said[3])
    assert got == said


def test_output_there_is_cut_at_the_length_of_a_log(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flownb.runtime.capture.LIMIT", 5)

    def fit() -> None:
        sys.stdout.write("1234")
        sys.stdout.write("56")
        sys.stdout.write("7")

    said = run(packed_call("fit", fit, (), {}).data, Home("c")).said
    assert said == [Printed("1234"), Printed("7"), Printed("\n… and 2 characters more\n")]


def test_a_fenced_attempt_is_not_heard_any_more():
    """R3.18, R3.20: what it still says counts for nothing, and hurts nobody."""
    got: list[Said] = []

    def hear(said: Said) -> None:
        got.append(said)
        raise AttemptOver

    hearing = Hearing(hear)
    hearing.take(0, Printed("a"))
    hearing.take(1, Printed("b"))
    hearing.finish([Printed("a"), Printed("b")])
    assert got == [Printed("a")]


# -- cells


def test_the_newest_cell_runs_there_and_its_class_comes_back(workers: Processes):
    """R2.24: a function of `__main__`, its global and its event class, before and after their cell is run again."""
    names: dict[str, Any] = {"__name__": "__main__"}
    source = """
        from flownb import Event
        class CellRow(Event):
            no: int
        FACTOR = 10
        def fit(ev):
            return CellRow(no=ev.no * FACTOR)
    """
    cell(source, names)
    first = Call(workers, names["fit"], names["CellRow"](no=2)).value()
    assert type(first) is names["CellRow"]
    assert newest("__main__:CellRow") is names["CellRow"]
    assert first.no == 20

    cell(source.replace("FACTOR = 10", "FACTOR = 100").replace("no: int", "no: int; of: str = 'new'"), names)
    again = Call(workers, names["fit"], names["CellRow"](no=2)).value()
    assert type(again) is names["CellRow"]
    assert type(again) is not type(first)
    assert (again.no, again.of) == (200, "new")


def test_a_call_that_is_under_way_while_its_cell_is_run_again_gives_the_newest_class(
    workers: Processes, tmp_path: Path
):
    """R2.24: by key, where the class changed; R2.49: one that the new class refuses is left as it is."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    names: dict[str, Any] = {"__name__": "__main__", "begun": begun, "go": go}
    source = """
        from flownb import Event
        class LateRow(Event):
            no: int
        def fit(ev):
            import time
            begun.touch()
            while not go.exists():
                time.sleep(0.005)
            return [LateRow(no=ev.no), LateRow(no=-1)]
    """
    cell(source, names)
    old = names["LateRow"]
    call = Call(workers, names["fit"], old(no=2))
    wait_until(begun.exists, 60)
    cell(source.replace("no: int", "no: int = __import__('pydantic').Field(ge=0)"), names)
    go.touch()

    fits, does_not = call.value()
    assert (type(fits), fits.no) == (names["LateRow"], 2)
    assert (type(does_not), does_not.no) == (old, -1)


def test_a_class_that_is_made_there_does_not_become_the_newest_here(workers: Processes):
    """R2.24: a key means what the cells of this process say."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cell(
        """
        from flownb import Event
        class MadeRow(Event):
            no: int
        def fit():
            class MadeRow(Event):
                other: str
            return [MadeRow(other="there")]
        """,
        names,
    )
    (row,) = Call(workers, names["fit"]).value()
    assert row.other == "there"
    assert newest("__main__:MadeRow") is names["MadeRow"]
    assert names["MadeRow"](no=1).no == 1


class Inline(Executor):
    """Runs its calls in this process, on the thread that submits them."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_an_executor_that_stays_in_this_process_leaves_its_classes_alone(capsys: pytest.CaptureFixture[str]):
    """Results, errors and what is printed come as from elsewhere."""

    class Local(Event):
        no: int

    class Mine(Exception):
        pass

    def fit(ev: Local, ctx: Any) -> Local:
        print("here")
        ctx.progress(1)
        if ev.no:
            raise Mine(ev.no)
        return ev

    validator = Local.__pydantic_validator__
    call = Call(Inline(), fit, Local(no=0), context())
    assert type(call.value()) is Local
    assert ("".join(call.printed), call.progressed) == ("here\n", [(1.0, None, "")])
    error = Call(Inline(), fit, Local(no=3), context()).error()
    assert (type(error), error.args) == (Mine, (3,))
    assert Local.__pydantic_validator__ is validator
    assert capsys.readouterr().out == ""


def test_only_events_are_turned_into_the_classes_of_here():
    class Other(Event):
        no: int

    assert of_here((1, {"a": [Row(no=1)]}, None), lambda key: Other) == (1, {"a": [Row(no=1)]}, None)
    assert of_here([Row(no=1)], lambda key: None) == [Row(no=1)]
    turned = of_here((Row(no=1),), lambda key: Other)
    assert [type(event) for event in turned] == [Other]


def test_a_method_takes_along_what_its_workflow_was_given():
    """`self` there has the user's attributes; steps, store and settings stay here."""
    flow = Trains(depth=3)
    flow.steps  # it has some, which cannot be pickled

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        stop = Call(pool, Trains.train, Begin(), owner=flow).value()

    assert stop.result == [3, 6, ["depth", "name"]]


class Trains(Workflow[Any]):
    def __init__(self, depth: int) -> None:
        super().__init__(store=threading.Lock())
        self.depth = depth

    def double(self) -> int:
        return self.depth * 2

    @step
    def train(self, ev: Begin) -> StopEvent:
        return StopEvent(result=[self.depth, self.double(), sorted(vars(self))])


def test_the_options_of_a_step_stay_here(workers: Processes):
    """They name the workflow, its policies and resources, which need not be fit to travel."""
    flow = Workflow[Any]("stays")
    lock = threading.Lock()

    @flow.step(executor="processes", retry_policy=type("P", (), {"next": print, "lock": lock})())
    def fit(ev: Begin) -> StopEvent:
        return StopEvent(result=fit.__name__)

    assert Call(workers, fit, Begin()).value().result == "fit"


# -- what goes wrong


def test_a_killed_worker_is_a_lost_step_and_the_next_call_works():
    """The pool makes itself anew; R1.17 for what becomes of the step."""
    workers = Processes(1)
    try:
        error = Call(workers, lambda: os.kill(os.getpid(), signal.SIGKILL)).error()
        assert isinstance(error, StepLost)
        assert error.step == "fit"  # type: ignore[attr-defined]
        assert "The process that ran step 'fit' was lost" in str(error)
        assert error.__cause__ is not None
        assert Call(workers, lambda: "alive").value() == "alive"
    finally:
        workers.shutdown()


def test_a_pool_of_the_users_that_broke_refuses_in_words():
    """A standard pool that lost a process is broken for good; only its owner can make another."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert Call(pool, lambda: "alive").value() == "alive"
        assert isinstance(Call(pool, lambda: os._exit(1)).error(), StepLost)
        error = Call(pool, lambda: "alive").error()
    assert isinstance(error, StepLost)
    assert "could not be started" in str(error)
    assert "Fill the slot with one that is open" in str(error)


def test_an_exception_comes_back_as_it_is_with_the_traceback_from_there(workers: Processes):
    """R3.41."""

    def fit() -> None:
        numbers = {"a": 1}
        numbers["b"]

    error = Call(workers, fit).error()
    assert type(error) is KeyError
    assert error.args == ("b",)
    (note,) = error.__notes__
    assert note.startswith("In another process:\nTraceback")
    assert "in fit" in note
    assert "flownb/runtime" not in note.partition("in fit")[0].rpartition("\n  File")[0]


def test_an_exception_that_cannot_be_read_again_comes_back_in_words(workers: Processes):
    def fit() -> None:
        raise TwoWords("no", "way")

    error = Call(workers, fit).error()
    assert isinstance(error, StepFailure)
    assert str(error) == "Step 'fit' raised TwoWords in another process: no way"
    assert "TwoWords: no way" in error.__notes__[0]
    assert Call(workers, lambda: "alive").value() == "alive"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_would_end_a_process_is_the_steps_failure(workers: Processes, kind: type[BaseException]):
    """R3.44: the worker lives on."""

    def fit() -> None:
        raise kind("enough")

    error = Call(workers, fit).error()
    assert type(error) is kind
    assert Call(workers, lambda: "alive").value() == "alive"


client = threading.Lock()


def uses_a_closure() -> Callable[[], object]:
    lock = threading.Lock()
    return lambda: [lock]


CANNOT = [
    (lambda ev: None, (Row(no=1, held=threading.Lock()),), {}, "field 'held' of Row cannot be pickled.*lock"),
    (lambda ev: None, ([Row(no=1), Row(no=2, held=[client])],), {}, "field 'held' of Row"),
    (lambda db: None, (), {"db": threading.Lock()}, "db cannot be pickled"),
    (lambda db: None, ({"a": threading.Lock()},), {}, r"db\['a'\] cannot be pickled"),
    (uses_a_closure(), (), {}, "the name 'lock' that the code of <lambda> uses cannot be pickled"),
    (lambda: [client], (), {}, "the name 'client' that the code of <lambda> uses cannot be pickled"),
]


@pytest.mark.parametrize(("fn", "args", "kwargs", "said"), CANNOT)
def test_what_cannot_be_sent_is_named(fn: Any, args: Any, kwargs: Any, said: str):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as never_started:
        error = Call(never_started, fn, *args, **kwargs).error()
    assert isinstance(error, WorkflowConfigurationError)
    assert error.step == "fit"  # type: ignore[attr-defined]
    with pytest.raises(WorkflowConfigurationError, match=f"'fit' runs in another process, but .*{said}"):
        raise error


def test_what_of_self_cannot_be_sent_is_named():
    class Holds(Workflow[Any]):
        @step
        def train(self, ev: Begin) -> StopEvent:
            return StopEvent()

    flow = Holds()
    flow.client = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(WorkflowConfigurationError, match=r"but self\.client cannot be pickled"):
        packed_call("train", Holds.train, (flow, Begin()), {})


def test_a_result_that_cannot_come_back_is_named(workers: Processes):
    error = Call(workers, lambda: Row(no=1, held=threading.Lock())).error()
    assert isinstance(error, WorkflowConfigurationError)
    assert "but field 'held' of Row cannot be pickled" in str(error)
    assert Call(workers, lambda: "alive").value() == "alive"


class OnlyThere:
    """Can be read in a process that is not this one."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_in, (os.getpid(),)


def _made_in(pid: int) -> OnlyThere:
    if pid != os.getpid():
        raise LookupError("not of this process")
    return OnlyThere()


def test_a_result_that_cannot_be_read_here_is_an_error_in_words(workers: Processes):
    error = Call(workers, OnlyThere).error()
    assert isinstance(error, WorkflowRuntimeError)
    assert "What step 'fit' returned in another process cannot be read here (LookupError: not of" in str(error)


# -- giving up


class Held(Executor):
    """Keeps its calls."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]


def test_a_call_that_is_given_up_in_the_queue_never_begins():
    """R2.44, R3.16: what has not begun is taken out."""
    held = Held()
    call = Call(held, lambda: None)
    wait_until(lambda: held.futures)
    assert call.ends == []
    call.cancel()
    call.cancel()
    assert isinstance(call.error(), AttemptOver)
    assert held.futures[0].cancelled()


def test_a_call_that_runs_ends_in_its_own_time_and_says_so(workers: Processes, tmp_path: Path):
    """R3.16: it cannot be killed; that it ended is told once, so that it is no longer shown as abandoned."""
    begun, go = tmp_path / "begun", tmp_path / "go"

    def fit() -> str:
        begun.touch()
        while not go.exists():
            time.sleep(0.005)
        print("late")
        return "late"

    call = Call(workers, fit)
    wait_until(begun.exists, 60)
    call.cancel()
    assert call.ends == []
    go.touch()
    assert call.value() == "late"
    assert call.printed == []
    assert len(call.ends) == 1


def test_calls_whose_executor_empties_its_queue_are_lost():
    held = Held()
    call = Call(held, lambda: None)
    wait_until(lambda: held.futures)
    held.futures[0].cancel()
    held.futures[0].set_running_or_notify_cancel()
    error = call.error()
    assert isinstance(error, StepLost)
    assert "its queue was emptied" in str(error)


def test_a_step_at_work_in_another_process_does_not_hold_the_interpreter():
    """The process ends with its main thread, and takes its workers along."""
    script = """
        import os, sys, time
        from flownb.runtime.executors import RemoteCall, processes, submit

        def fit(folder):
            with open(os.path.join(folder, "pid"), "w") as file:
                file.write(str(os.getpid()))
            print("begun")
            time.sleep(600)

        if __name__ == "__main__":
            begun = []
            call = RemoteCall("fit", fit, (sys.argv[1],), {}, begun.append, print)
            submit(processes(), call, print)
            while not begun:
                time.sleep(0.01)
    """
    ran = _script(script)
    assert (ran.returncode, ran.stderr) == (0, "")


def _script(source: str) -> subprocess.CompletedProcess[str]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "script.py")
        path.write_text(textwrap.dedent(source))
        root = str(Path(__file__).parents[2])
        ran = subprocess.run(
            [sys.executable, str(path), folder],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            env={**os.environ, "PYTHONPATH": root},
        )
        worker = int(Path(folder, "pid").read_text())
        wait_until(lambda: not _lives(worker))
    return ran


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# -- whole runs


def test_a_step_whose_process_is_killed_is_tried_again_in_a_new_one(capsys: pytest.CaptureFixture[str]):
    """R3.26: a lost worker is a failure like any other; what it said before is in its log."""
    flow = Workflow[list[Any]]("killed")

    def make() -> dict[str, int]:
        return {"depth": 3}

    @flow.step(executor="processes", retry_policy=retry_policy(wait=wait_fixed(0), stop=stop_after_attempt(2)))
    def fit(ev: Begin, ctx: Context, settings: Annotated[dict[str, int], Resource(make)]) -> StopEvent:
        print(f"attempt {ctx.attempt}")
        ctx.progress(ctx.attempt, 2)
        if ctx.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return StopEvent(result=[ctx.step_name, settings, type(ctx.retry_info().last_exception).__name__])

    run_ = flow.run()
    assert run_.result(60) == ["fit", {"depth": 3}, "StepLost"]
    assert run_.logs("fit") == "attempt 1\nattempt 2\n"
    assert capsys.readouterr().out == "attempt 1\nattempt 2\n"


def test_a_step_on_the_users_threads_has_its_whole_context():
    """R3.13: nothing is sent, so `ctx` is the real one."""
    flow = Workflow[list[Any]]("threads")

    @flow.step(executor="gpu")
    def fit(ev: Begin, ctx: Context) -> StopEvent:
        ctx.state.set("n", 4)
        return StopEvent(result=[threading.current_thread().name, ctx.state.get("n")])

    with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool:
        assert flow.with_options(executors={"gpu": pool}).run().result(20) == ["mine_0", 4]


def test_a_run_whose_slot_nobody_filled_fails_in_words():
    """R8.13, where the definition alone cannot tell."""
    flow = Workflow[None]("unfilled")

    @flow.step(executor="gpu")
    def fit(ev: Begin) -> StopEvent:
        return StopEvent()

    with pytest.raises(WorkflowError, match="the slot 'gpu', which nobody filled"):
        flow.run().result(20)
