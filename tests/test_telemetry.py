"""Runs as OpenTelemetry spans."""

import asyncio
import builtins
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from flownb.core import ticks as t
from flownb.core.values import Failure
from flownb.errors import WorkflowConfigurationError
from flownb.observers import observe
from flownb.telemetry import Spans
from flownb.testing.feed import feed, out, spec, started, step
from tests.polling import wait_until
from tests.runtime.flows import Asks, Count, Verdict

ODD = Failure("m:Odd", "no", "Traceback: no")
PLAIN = spec(step("work", "Start", "Stop"))


class Recorded:
    """The spans of a journal."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = Spans(provider.get_tracer("test"))

    def play(self, *journal: t.AnyTick) -> "Recorded":
        for seq, tick in enumerate(journal, 1):
            self.spans(seq, tick)
        return self

    def ended(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.ended() if span.name == name]


def seconds(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9, span.end_time / 1e9


def is_error(span: ReadableSpan) -> bool:
    return span.status.status_code is StatusCode.ERROR


def begin() -> t.RunStarted:
    return started(PLAIN, at=100.0)


def test_a_run_and_each_start_of_a_step_are_spans_with_the_times_of_their_ticks():
    """R5.69."""
    seen = Recorded().play(begin(), t.StepFinished(103.0, "work", 1, 1, (out("Stop"),)))
    work, run = seen.ended()
    assert (run.name, work.name) == ("run flow", "work")
    assert seconds(run) == seconds(work) == (100.0, 103.0)
    assert run.parent is None
    assert work.parent is not None
    assert work.parent.span_id == run.context.span_id
    assert dict(run.attributes or {}) == {
        "flownb.run_id": "run",
        "flownb.workflow": "test:flow",
        "flownb.status": "completed",
    }
    assert dict(work.attributes or {}) == {
        "flownb.step": "work",
        "flownb.delivery": 1,
        "flownb.attempt": 1,
        "flownb.start": 1,
        "flownb.event": "test:Start",
        "flownb.state": "done",
    }
    assert not is_error(run)
    assert not is_error(work)


def test_each_attempt_is_a_span_of_its_own_and_a_failed_one_is_an_error():
    seen = Recorded().play(
        begin(),
        t.StepFailed(104.0, "work", 1, 1, ODD, 110.0),
        t.TimerFired(110.0, 1),
        t.StepFinished(112.0, "work", 1, 2, (out("Stop"),)),
    )
    first, second = seen.named("work")
    assert (seconds(first), seconds(second)) == ((100.0, 104.0), (110.0, 112.0))
    assert (is_error(first), is_error(second)) == (True, False)
    (event,) = first.events
    assert (event.name, dict(event.attributes or {})) == (
        "exception",
        {"exception.type": "m.Odd", "exception.message": "no", "exception.stacktrace": "Traceback: no"},
    )
    assert not is_error(seen.named("run flow")[0])


def test_waiting_is_no_error_and_no_end():
    """R5.69."""
    seen = Recorded().play(
        begin(),
        t.WaitOpened(101.0, "work", 1, 1, 1, t.Ask(out("Ask"))),
        t.QuietNoticed(101.0),
        t.RequestAnswered(150.0, 1, out("Reply")),
        t.StepFinished(151.0, "work", 1, 1, (out("Stop"),)),
    )
    (work,) = seen.named("work")
    assert seconds(work) == (100.0, 151.0)
    assert [(e.name, e.timestamp / 1e9, dict(e.attributes or {})) for e in work.events] == [
        ("waits", 101.0, {"flownb.for": "person"}),
        ("goes on", 150.0, {}),
    ]
    assert not any(map(is_error, seen.ended()))


@pytest.mark.parametrize(
    ("last", "status", "error"),
    [
        (t.StepFailed(105.0, "work", 1, 1, ODD), "failed", True),
        (t.CancelRequested(105.0, "off"), "cancelled", False),
        (t.TimerFired(105.0, 0), "timed_out", True),
    ],
)
def test_failures_and_time_limits_are_errors_and_a_cancel_is_none(last: t.AnyTick, status: str, error: bool):
    """R5.69."""
    first = started(PLAIN, at=100.0, terms=t.Terms(timeout_s=5.0))
    seen = Recorded().play(first, last)
    (run,) = seen.named("run flow")
    (work,) = seen.named("work")
    assert ((run.attributes or {})["flownb.status"], is_error(run)) == (status, error)
    assert is_error(work) == (status == "failed")
    assert seconds(work) == seconds(run) == (100.0, 105.0)


@pytest.mark.parametrize(("status", "error"), [("completed", False), ("cancelled", False), ("failed", True)])
def test_a_child_is_a_span_inside_its_step(status: Any, error: bool):
    seen = Recorded().play(
        begin(),
        t.WaitOpened(101.0, "work", 1, 1, 1, t.RunChild("m:Kid", out("Start"))),
        t.ChildChanged(102.0, 1, False),
        t.ChildFinished(104.0, 1, status, failure=ODD if error else None),
        t.StepFinished(105.0, "work", 1, 1, (out("Stop"),)),
    )
    (child,), (work,) = seen.named("child Kid"), seen.named("work")
    assert child.parent is not None
    assert child.parent.span_id == work.context.span_id
    assert (seconds(child), is_error(child)) == ((101.0, 104.0), error)
    assert dict(child.attributes or {}) == {
        "flownb.run_id": "run/1/1",
        "flownb.workflow": "m:Kid",
        "flownb.status": status,
    }


def test_what_the_end_of_a_run_cuts_off_ends_with_it():
    seen = Recorded().play(
        begin(),
        t.WaitOpened(101.0, "work", 1, 1, 1, t.RunChild("m:Kid", out("Start"))),
        t.CancelRequested(104.0),
    )
    assert [span.name for span in seen.ended()] == ["work", "child Kid", "run flow"]
    assert not any(map(is_error, seen.ended()))


def test_a_start_that_was_lost_with_its_driver_ends_when_the_next_one_begins():
    seen = Recorded().play(begin(), t.RunOpened(110.0, "d"), t.StepFinished(111.0, "work", 1, 2, (out("Stop"),)))
    lost, again = seen.named("work")
    assert (seconds(lost), seconds(again)) == ((100.0, 110.0), (110.0, 111.0))
    assert (lost.attributes or {})["flownb.state"] == "started again"
    assert not is_error(lost)


def test_a_child_names_its_parent_and_a_fork_begins_with_what_lives():
    first = started(PLAIN, at=100.0, parent=t.Parent("up", 1))
    seen = Recorded().play(first, t.CancelRequested(101.0))
    assert (seen.named("run flow")[0].attributes or {})["flownb.parent"] == "up"
    state, _ = feed(begin())
    fork = t.RunForked(200.0, "fork", "run", 1, snapshot=state)
    seen = Recorded().play(fork, t.StepFinished(201.0, "work", 1, 2, (out("Stop"),)))
    assert next((span.name, seconds(span)) for span in seen.ended()) == ("work", (200.0, 201.0))


def test_spans_want_every_tick_from_the_first_one_on():
    with pytest.raises(ValueError, match="tick 2 came out of order"):
        Recorded().spans(2, t.QuietNoticed(1.0))


def test_a_live_run_is_observed():
    """R5.67, R5.69: a span for each of the seven deliveries and one for the run."""
    seen = Recorded()
    run = Count().run(n=5)
    assert observe(run._runner, seen.spans).wait(20)
    assert sorted(span.name for span in seen.ended()) == ["join", "run Count", "split", *["work"] * 5]


def test_a_live_run_that_asks_has_no_error():
    seen = Recorded()
    run = Asks().run()
    watcher = observe(run._runner, seen.spans)
    wait_until(lambda: run.status == "waiting")
    run.answer(Verdict(ok=True))
    run.result(20)
    assert watcher.wait(20)
    assert [span.name for span in seen.ended()] == ["ask", "run Asks"]
    assert not any(map(is_error, seen.ended()))


def test_without_opentelemetry_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def no_telemetry(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", no_telemetry)
    with pytest.raises(WorkflowConfigurationError, match=r"pip install 'flownb\[otel\]'"):
        Spans()


def test_the_tracer_of_the_process_is_the_default():
    spans = Spans()
    asyncio.run(asyncio.sleep(0))  # no provider was set: its spans go nowhere, and nothing fails
    spans(1, begin())
    spans(2, t.StepFinished(103.0, "work", 1, 1, (out("Stop"),)))
