"""The router of stdout and stderr."""

import io
import sys
import threading

import pytest

from flownb import StopEvent, Workflow
from flownb.runtime import capture
from tests.polling import wait_until
from tests.restarting import end_all_runs
from tests.runtime.flows import Begin, Count, Forever


@pytest.fixture(autouse=True)
def no_other_run() -> None:
    """The streams are the process's: runs that other tests left open would keep them routed."""
    end_all_runs()


def test_the_streams_are_routed_while_a_run_lives_and_put_back_after(monkeypatch: pytest.MonkeyPatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    one, two = Forever().run(), Forever().run()
    wait_until(lambda: isinstance(sys.stdout, capture.Router))
    print("mine")
    one.cancel().result(20)
    assert isinstance(sys.stdout, capture.Router)
    two.cancel().result(20)
    wait_until(lambda: sys.stdout is out)
    assert out.getvalue() == "mine\n"


def test_a_stream_that_somebody_replaced_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    run = Forever().run()
    wait_until(lambda: isinstance(sys.stdout, capture.Router))
    other = io.StringIO()
    monkeypatch.setattr(sys, "stdout", other)
    run.cancel().result(20)
    wait_until(run.is_done)
    Count().run().result(20)
    wait_until(lambda: sys.stdout is other)


def test_a_process_without_streams_runs_too(monkeypatch: pytest.MonkeyPatch):
    """`pythonw` has none."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert Count().run().result(20) == [0, 1, 2]


def test_a_log_is_cut_and_says_so():
    log = capture.StepLog()
    log.write(1, "a" * (capture.LIMIT - 1))
    log.write(2, "bc")
    log.write(2, "d")
    assert log.text().endswith("ad\n… and 2 characters more")
    assert log.text(2) == "d\n… and 2 characters more"


def test_a_router_looks_like_its_stream():
    below = io.StringIO()
    router = capture.Router(below)
    router.write("x")
    router.flush()
    assert (below.getvalue(), router.isatty(), router.writable(), router.getvalue()) == ("x", False, True, "x")
    with pytest.raises(io.UnsupportedOperation):
        router.fileno()


def test_a_thread_of_the_users_own_is_nobodys_step(capsys: pytest.CaptureFixture[str]):
    flow = Workflow[None]("own")

    @flow.step
    def work(ev: Begin) -> StopEvent:
        thread = threading.Thread(target=print, args=("from a bare thread",))
        thread.start()
        thread.join()
        return StopEvent()

    run = flow.run()
    run.result(20)
    assert run.logs() == ""
    assert "from a bare thread" in capsys.readouterr().out
