"""A run, as its user holds it: `await` it, answer it, pause it, look at it."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Generator
from typing import Any, Generic, NoReturn

from typing_extensions import TypeVar

from flownb.awaiting import block_until_over, until_over
from flownb.context import check_target
from flownb.core.life import MAILBOX_LIMIT
from flownb.core.spec import takers
from flownb.core.state import RunState, is_ended, shown_status
from flownb.core.ticks import CancelRequested, EventArrived, GateClosed, GateOpened, StepsGranted
from flownb.defaults import options
from flownb.errors import (
    AnswerTimeout,
    MailboxFull,
    RequestDisposed,
    StepFailure,
    WorkflowCancelledByUser,
    WorkflowDone,
    WorkflowRuntimeError,
    WorkflowStalled,
)
from flownb.events import Event, StopEvent
from flownb.moment import Moment
from flownb.reasons import Reason, why
from flownb.requests import Request, Requests, answer_request, answered_by, find, names_a_question
from flownb.runtime.copying import copied
from flownb.runtime.pending import Pending
from flownb.runtime.results import out_of, shown
from flownb.runtime.runner import Runner
from flownb.stream import StreamItem, read

R = TypeVar("R", default=Any)

#: Rooms above this one, found by name on first use: the house's only dynamic import.
ROOMS = {
    "debug": ("flownb.debug.debugger", "Debugger"),
    "view": ("flownb.notebook.views", "RunViews"),
    "display": ("flownb.notebook.views", "show_at_start"),
    "form": ("flownb.notebook.questions", "show_form"),
    "forms": ("flownb.notebook.questions", "show_forms"),
    "capture": ("flownb.notebook.kernel", "route_displays"),
}

_ENGINE_ERRORS = {
    "flownb.errors:WorkflowStalled": WorkflowStalled,
    "flownb.errors:WorkflowRuntimeError": WorkflowRuntimeError,
    "flownb.errors:AnswerTimeout": AnswerTimeout,
    "flownb.errors:RequestDisposed": RequestDisposed,
}

#: Words that people try on a run, and where they are.
_ELSEWHERE = {
    "step": "run.debug.step()",
    "resume": "run.cont(), or flow.resume(run_id) for a stored run",
    "state_at": "run.debug.at(seq).state",
    "inbox": "run.debug.inbox",
    "ticks": "run.debug.ticks",
    "at": "run.debug.at(seq)",
    "stop": "run.cancel()",
    "graph": "run.view.graph()",
}


def room(name: str) -> Any:
    """What stands in another room, loaded on first use."""
    module, attribute = ROOMS[name]
    return getattr(importlib.import_module(module), attribute)


class Run(Generic[R]):
    """One execution of a workflow. `await run` gives its result."""

    def __init__(self, runner: Runner, workflow: Any, settings: Any) -> None:
        self._runner = runner
        self._workflow = workflow
        self._settings = settings
        self._told_waiting = False
        self._debug: Any = None
        self._view: Any = None

    # -- life

    @property
    def run_id(self) -> str:
        return self._runner.run_id

    @property
    def workflow(self) -> Any:
        return self._workflow

    @property
    def status(self) -> str:
        """running, waiting, paused, blocked, suspended, completed, failed or cancelled."""
        self._runner.notice_loss()
        if self._runner.suspended:
            return "suspended"
        if self._runner.blocked:
            return "blocked"
        return shown_status(self._runner.state)

    @property
    def error(self) -> BaseException | None:
        """What `await run` raises, None for a run that is well."""
        return self._error() if self.is_done() else None

    def is_done(self) -> bool:
        self._runner.notice_loss()
        return self._runner.end.done()

    def __await__(self) -> Generator[Any, None, R]:
        return self._wait().__await__()

    async def _wait(self) -> R:
        if not self.is_done():
            await until_over(self)
        return self._outcome()

    def result(self, timeout: float | None = None) -> R:
        """Wait, blocking this thread, and give the result.

        Args:
            timeout: Seconds; None waits for ever.

        Raises:
            TimeoutError: It was not over in time; the run goes on.
            WrongLoop: This thread drives the run; use `await`.
            NobodyToAnswer: The run asks a person, and while this call blocks nobody could answer.
        """
        block_until_over(self, timeout)
        return self._outcome()

    def get_stop_event(self) -> StopEvent | None:
        """The stop event of a completed run, None of any other."""
        out = self._runner.state.result
        return shown(out, self._runner.definition) if out is not None else None

    def _outcome(self) -> R:
        if self._view is not None:
            self._view.settle()
        error = self._error()
        if error is not None:
            raise error.with_traceback(self._runner.trace)
        event = self.get_stop_event()
        assert event is not None
        return copied(event.result if type(event) is StopEvent else event)  # type: ignore[no-any-return]

    def _error(self) -> BaseException | None:
        runner, state = self._runner, self._runner.state
        if runner.error is not None:
            return runner.error
        if state.status == "cancelled":
            said = f": {state.reason}" if state.reason else ""
            return WorkflowCancelledByUser(f"Run {self.run_id!r} was cancelled{said}.", reason=state.reason)
        if state.status == "failed" and state.failure is not None:
            kind = _ENGINE_ERRORS.get(state.failure.type)
            if kind is not None:
                return kind(state.failure.message)
            return StepFailure(f"{state.failure.type}: {state.failure.message}\n{state.failure.traceback}")
        return None

    def cancel(self, reason: str = "") -> Pending[None]:
        """End the run now. What its steps still do counts for nothing. On an ended run nothing happens."""
        runner = self._runner
        if not self.is_done():
            runner.post(CancelRequested(runner.clock.now(), reason, options.user))
            return runner.end
        over: Pending[None] = Pending("the end")
        over.resolve(None)
        return over

    def pause(self) -> Pending[Moment]:
        """Close the gate: running steps go on, what they bring waits in the inbox."""
        runner = self._runner
        handle: Pending[Moment] = Pending("the pause", runner.host.loop)

        def stop() -> None:
            self._after_next(handle)
            runner.put(GateClosed(runner.clock.now(), "person", options.user))

        if self.is_done():
            handle.resolve(self.now)
        else:
            runner.host.call(stop)
        return handle

    def cont(self) -> Pending[Moment]:
        """Open the gate. Awaiting it gives the moment of the next pause, or of the end."""
        runner = self._runner
        handle: Pending[Moment] = Pending("the next pause or the end", runner.host.loop)

        def go() -> None:
            for reason in runner.gate():
                if reason in ("person", "breakpoint"):
                    runner.put(GateOpened(runner.clock.now(), reason, options.user))
            self._until_closed(handle)

        if self.is_done():
            handle.resolve(self.now)
        else:
            runner.host.call(go)
        return handle

    def _after_next(self, handle: Pending[Moment]) -> None:
        """Resolve a handle once the next turn has acted."""
        runner = self._runner

        def told() -> None:
            if runner.control and not (runner.blocked or runner.suspended):
                return  # of something else
            runner.listeners.remove(told)
            handle.resolve(self.now)

        if runner.end.done() or runner.suspended:
            handle.resolve(self.now)
        else:
            runner.listeners.append(told)

    def _until_closed(self, handle: Pending[Moment]) -> None:
        runner = self._runner

        def told() -> None:
            state = runner.state
            if not runner.suspended and (not (is_ended(state) or state.gate) or runner.control):
                return
            runner.listeners.remove(told)
            handle.resolve(self.now)

        if runner.end.done() or runner.suspended:
            handle.resolve(self.now)
        else:
            runner.listeners.append(told)

    # -- people

    @property
    def requests(self) -> Requests:
        """The open questions, oldest first."""
        return Requests(self._runner)

    def answer(self, request: Any = None, answer: Any = None, /, *, by: str | None = None, **fields: Any) -> None:
        """Answer an open question.

        Args:
            request: Its number, its id, or a `Request`; None, or left out, if only one is open.
            answer: The answer: an instance of its model, a dict of its fields, or the plain value.
            by: Who answers; None is `flownb.options.user`.
            fields: The fields of the answer's model, in place of `answer`.

        Raises:
            AmbiguousAnswer: Several are open and none was named.
            AnswerInvalid: It does not fit; nothing was appended.
            AlreadyAnswered: Another answer was given before; the same one again is harmless.
            RequestClosed: The question is no longer open.
        """
        if request is not None and answer is None and not fields and not names_a_question(request):
            request, answer = None, request
        runner = self._runner
        answer_request(runner, find(runner, request), answer, by, fields)

    def send_event(self, ev: Event, step: str | None = None) -> Pending[None]:
        """Send an event from outside. An answer closes the question that it answers.

        Args:
            ev: The event. Of an answer, the field `request_id` may name the question.
            step: Name of the one step that it is for.

        Returns:
            A handle that ends when the event is admitted.

        Raises:
            WorkflowDone: The run is over.
            WorkflowStepDoesNotExistError: There is no such step.
            MailboxFull: Nobody takes it, and the run keeps as many such events as it can.
        """
        runner = self._runner
        if runner.ended or runner.suspended:
            raise WorkflowDone(f"Run {self.run_id!r} is {self.status}; it takes no more events.")
        check_target(runner, ev, step)
        opened = answered_by(runner, ev) if step is None and type(ev).__flownb_kind__.role == "answer" else None
        if opened is not None:
            return self._send_answer(opened.id, ev)
        if step is None and self._keeps(ev) and self._kept() >= MAILBOX_LIMIT:
            raise MailboxFull(f"Run {self.run_id!r} keeps {MAILBOX_LIMIT:,} events that nobody takes, and no more.")
        now = runner.clock.now()
        handle: Pending[None] = Pending("the event's admission", runner.host.loop)
        tick = EventArrived(now, runner.checked(out_of(copied(ev), runner.definition, now)), step)

        def put() -> None:
            def told() -> None:
                if tick not in runner.inbox:
                    runner.listeners.remove(told)
                    handle.resolve(None)

            runner.listeners.append(told)
            runner.put(tick)

        runner.host.call(put)
        return handle

    def _send_answer(self, number: int, ev: Event) -> Pending[None]:
        """An event from outside that answers a question."""
        runner = self._runner
        handle: Pending[None] = Pending("the answer's admission", runner.host.loop)

        def told() -> None:
            if number not in runner.state.requests:
                runner.listeners.remove(told)
                handle.resolve(None)

        answer_request(runner, find(runner, number), copied(ev), None, {}, "event")
        runner.host.call(runner.listeners.append, told)
        runner.host.call(runner.tell)  # it may be admitted already
        return handle

    def _keeps(self, ev: Event) -> bool:
        """Whether an outside event would go to the mailbox: no step takes it now (R2.30)."""
        key, role, bases = type(ev).__flownb_kind__
        return role not in ("stop", "request") and not takers(self._runner.state.spec, key, role, bases)

    def _kept(self) -> int:
        """How many outside events wait, in the mailbox or on their way to it."""
        runner = self._runner
        return len(runner.state.mailbox) + sum(type(tick) is EventArrived for tick in tuple(runner.inbox))

    # -- looking

    @property
    def state(self) -> dict[str, Any]:
        """The user's state now, a copy: `{name: value}`."""
        return {name: copied(out.value) for name, out in self._runner.state.user.items()}

    @property
    def now(self) -> Moment:
        """The present moment."""
        return self._moment(self._runner.state)

    def _moment(self, state: RunState) -> Moment:
        runner = self._runner
        live = state.seq == runner.state.seq
        before = runner.history.at(state.seq - 1) if 1 < state.seq <= len(runner.ticks) else None
        tick = runner.ticks[state.seq - 1] if 0 < state.seq <= len(runner.ticks) else None
        inbox = (*runner.control, *runner.inbox) if live else ()
        return Moment(state, before, tick, inbox)

    def why(self) -> Reason:
        """Why the run does what it does, in words."""
        return why(self._runner, self.now)

    def logs(self, step: str | None = None) -> str:
        """What steps printed and logged; of one step, or of all, each under its name."""
        logs = self._runner.logs
        if step is not None:
            return logs[step].text() if step in logs else ""
        return "\n".join(f"[{name}]\n{log.text()}" for name, log in logs.copy().items() if log.lines)

    # -- stream

    async def stream_events(self, expose_internal: bool = False) -> AsyncIterator[Event]:
        """The events that the run publishes, from the first one; ends with the run. Any number of readers."""
        async for item in self.stream(expose_internal=expose_internal):
            yield item.event

    async def stream(self, start: int = 0, *, expose_internal: bool = False) -> AsyncIterator[StreamItem]:
        """The same, numbered.

        Args:
            start: seq of the first tick to show what it published.
            expose_internal: Also what the engine says of itself (idle).
        """
        async for item in read(self._runner, start, internal=expose_internal):
            yield item

    # -- other rooms

    @property
    def debug(self) -> Any:
        """Stepping and history."""
        if self._debug is None:
            self._debug = room("debug")(self)
        return self._debug

    @property
    def view(self) -> Any:
        """Pictures: `run.view()` is the panel."""
        if self._view is None:
            self._view = room("view")(self)
        return self._view

    def _ipython_display_(self) -> None:
        self.view.show()

    def __getattr__(self, name: str) -> NoReturn:
        if name in _ELSEWHERE:
            raise AttributeError(f"A run has no {name!r}: use {_ELSEWHERE[name]}.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        state = self._runner.state
        asks = len(self.requests)
        return f"<Run {self.run_id} of {state.spec.name}: {self.status}, {state.seq} ticks, {asks} questions>"


def step_ticks(run: Run[Any], n: int) -> list[GateClosed | StepsGranted]:
    """The control ticks of `run.debug.step(n)`: close an open gate first, then let n ticks pass, less those that may
    pass already and have not come. On the loop's thread."""
    runner = run._runner
    now = runner.clock.now()
    ticks: list[GateClosed | StepsGranted] = []
    granted = 0
    if runner.gate():
        granted = runner.granted()
    else:
        ticks.append(GateClosed(now, "person", options.user))
    if n > granted:
        ticks.append(StepsGranted(now, n - granted))
    return ticks


__all__ = ["Reason", "Request", "Run", "StreamItem", "room", "step_ticks"]
