"""A run, as its user holds it: `await` it, answer it, pause it, look at it."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from typing_extensions import TypeVar

from flownb import outside
from flownb.answering import answer_request, find, names_a_question
from flownb.awaiting import block_until_over, until_over
from flownb.core.graph import short
from flownb.core.state import RunState, shown_status
from flownb.core.ticks import GateClosed, RunForked
from flownb.defaults import options
from flownb.errors import (
    AnswerTimeout,
    JoinIncomplete,
    Livelock,
    RequestDisposed,
    StepFailure,
    StepLost,
    WorkflowCancelledByUser,
    WorkflowConfigurationError,
    WorkflowRuntimeError,
    WorkflowStalled,
    WorkflowTimeoutError,
)
from flownb.events import Event, StopEvent
from flownb.moment import NOT_KNOWN, Moment
from flownb.requests import Request, Requests
from flownb.runtime.copying import copied
from flownb.runtime.pending import Pending
from flownb.runtime.results import shown
from flownb.runtime.runner import Runner
from flownb.runtime.stored import pass_on, waits_still
from flownb.sending import name_of
from flownb.state import DictState
from flownb.stream import StreamItem, read

if TYPE_CHECKING:
    from flownb.debug.debugger import Debugger
    from flownb.reasons import Reason

R = TypeVar("R", default=Any)

#: Rooms above this one, found by name on first use: the house's only dynamic import.
ROOMS = {
    "debug": ("flownb.debug.debugger", "Debugger"),
    "breakpoints": ("flownb.debug.breakpoints", "Breakpoints"),
    "view": ("flownb.notebook.views", "RunViews"),
    "display": ("flownb.notebook.views", "show_at_start"),
    "form": ("flownb.notebook.questions", "show_form"),
    "forms": ("flownb.notebook.questions", "show_forms"),
    "capture": ("flownb.notebook.kernel", "route_displays"),
    "context": ("flownb.resuming", "RunContext"),
    "snapshot": ("flownb.resuming", "snapshot_of"),
    "review": ("flownb.notebook.review", "show_review"),
    "observe": ("flownb.observers", "observe"),
    "why": ("flownb.reasons", "why"),
    "is_outdated": ("flownb.reasons", "is_outdated"),
}

_ENGINE_ERRORS = {
    "flownb.errors:WorkflowStalled": WorkflowStalled,
    "flownb.errors:WorkflowRuntimeError": WorkflowRuntimeError,
    "flownb.errors:AnswerTimeout": AnswerTimeout,
    "flownb.errors:RequestDisposed": RequestDisposed,
    "flownb.errors:WorkflowTimeoutError": WorkflowTimeoutError,
    "flownb.errors:Livelock": Livelock,
    "flownb.errors:JoinIncomplete": JoinIncomplete,
    "flownb.errors:StepLost": StepLost,
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
    "send": "run.send_event(event)",
    "fork": "run.debug.fork(at=seq)",
    "replay": "run.debug.replay()",
    "breakpoints": "run.debug.breakpoints, those of its workflow",
}


def room(name: str) -> Any:
    """What stands in another room, loaded on first use."""
    module, attribute = ROOMS[name]
    return getattr(importlib.import_module(module), attribute)


class Run(Awaitable[R], Generic[R]):
    """One execution of a workflow. `await run` gives its result."""

    #: Made on first need.
    _ctx: Any = None

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
        if self._runner.suspended and not waits_still(self._runner):
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
        return until_over(self)

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
        self._settle_view()
        error = self._error()
        if error is not None:
            raise error.with_traceback(self._runner.trace)
        event = self.get_stop_event()
        assert event is not None
        return copied(event.result if type(event) is StopEvent else event)  # type: ignore[no-any-return]

    def _settle_view(self) -> None:
        """The cell that waits ends now: what it shows must be what is so, since the kernel may end with it."""
        if self._view is not None:
            self._view.settle()

    def _error(self) -> BaseException | None:
        runner, state = self._runner, self._runner.state
        runner.is_heard = True
        if runner.error is not None:
            return runner.error
        if state.status == "cancelled":
            said = f": {state.reason}" if state.reason else ""
            return WorkflowCancelledByUser(
                f"Run {self.run_id!r} was cancelled{said}.", reason=state.reason, by=state.by
            )
        if state.status in ("failed", "timed_out") and state.failure is not None:
            kind = _ENGINE_ERRORS.get(state.failure.type)
            if kind is not None:
                return kind(state.failure.message)
            return StepFailure(f"{short(state.failure.type)}: {state.failure.message}\n{state.failure.traceback}")
        return None

    def cancel(self, reason: str = "") -> Pending[None]:
        """End the run now, or when its `@on_cancel` steps are done. What its other steps still do counts for nothing.
        On an ended run nothing happens."""
        return outside.over("the end") if self.is_done() else outside.cancel(self._runner, reason)

    async def cancel_run(self, *, timeout: float = 5.0) -> None:
        """LlamaIndex's name: cancel, and wait so many seconds for the end."""
        if not self.is_done():
            await outside.cancel_and_wait(self._runner, timeout)

    def suspend(self, drain: float = 5) -> Pending[None]:
        """Stop driving the run and keep all of it; `flow.resume(run_id)` goes on.

        Args:
            drain: Seconds in which running steps may still finish; what does not runs again.
        """
        return outside.over("the suspension") if self.is_done() else outside.suspend(self._runner, drain)

    def hold_open(self, reason: str) -> outside.OpenHold:
        """Say that something outside will still send: the run is not quiet until `.release()`, or the end of a `with`
        block.

        Args:
            reason: Why, for people who look.
        """
        if not reason:
            raise WorkflowConfigurationError("hold_open needs a reason: what will still send?")
        return outside.OpenHold(self._runner, reason)

    def adopt(self) -> Pending[None]:
        """Let the run take the newest definitions of its steps, while it is paused or quiet.

        Raises:
            WorkflowRuntimeError: It runs.
            DefinitionChanged: A step with work is gone.
        """
        return outside.adopt(self._runner, self._workflow.definition)

    def pause(self) -> Pending[Moment]:
        """Close the gate: running steps go on, what they bring waits in the inbox."""
        runner, since = self._runner, self._runner.state.seq
        if not self.is_done():
            pass_on(runner, GateClosed(runner.clock.now(), "person", options.user))
        return self.when("the pause", lambda: bool(runner.state.gate) and not runner.control, since)

    def cont(self) -> Pending[Moment]:
        """Open the gate. Awaiting it gives the moment of the next pause, or of the end."""
        runner, since = self._runner, self._runner.state.seq
        if not self.is_done():
            runner.host.call(outside.open_gate, runner)
        return self.when("the next pause or the end", lambda: bool(runner.state.gate) and not runner.control, since)

    def when(self, what: str, is_there: Callable[[], bool], since: int) -> Pending[Moment]:
        """A handle of the moment in which something is so, or in which the run is over or not driven any more; it tells
        of the ticks that passed `since`."""
        runner = self._runner
        handle: Pending[Moment] = Pending(what, runner.host.loop)
        if self.is_done():
            handle.resolve(self._now(since))
        else:
            runner.until(what, is_there).on_end(lambda: handle.resolve_with(lambda: self._now(since)))
        return handle

    # -- people

    @property
    def requests(self) -> Requests[Any]:
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
        owner, opened = find(self._runner, request)
        answer_request(owner, opened, answer, by, fields)

    def send_event(
        self, ev: Event, step: str | Callable[..., Any] | None = None, *, key: str | None = None
    ) -> Pending[None]:
        """Send an event from outside. An answer closes the question that it answers.

        Args:
            ev: The event. Of an answer, the field `request_id` may name the question.
            step: The one step that it is for, as its function or name.
            key: The sender's own name for it: the same once more changes nothing.

        Returns:
            A handle that ends when the event is admitted.

        Raises:
            WorkflowDone: The run is over.
            WorkflowStepDoesNotExistError: There is no such step.
            MailboxFull: Nobody takes it, and the run keeps as many such events as it can.
        """
        return outside.send(self._runner, ev, name_of(step), key)

    # -- looking

    @property
    def state(self) -> Any:
        """The user's state now, a copy: `{name: value}`, readable by attribute too."""
        return DictState({name: copied(out.value) for name, out in self._runner.state.user.items()})

    @property
    def children(self) -> Mapping[str, Run[Any]]:
        """The runs that its steps run and ran, by id."""
        found = (self._runner.children or {}).values()
        return {child.run_id: Run(child, child.owner, self._settings) for child in found}

    @property
    def ctx(self) -> Any:
        """LlamaIndex's handle of the run's context: `ctx.send_event`, `ctx.store`, `ctx.to_dict()`."""
        if self._ctx is None:
            self._ctx = room("context")(self)
        return self._ctx

    @property
    def forked_from(self) -> tuple[str, int] | None:
        """Run and tick that it comes from, as `(run id, seq)`; None for a run that began with its input."""
        runner = self._runner
        forked: Any = runner.first
        if not isinstance(forked, RunForked) and forked.run_id != self.run_id:  # read from its journal, a shared past
            forked = next((t for t in runner.ticks if isinstance(t, RunForked) and t.run_id == self.run_id), None)
        return (forked.base, forked.base_seq) if isinstance(forked, RunForked) else None

    @property
    def replay_of(self) -> str:
        """Id of the run whose recording it plays back; "" for none."""
        first: Any = self._runner.ticks[0] if self._runner.ticks else self._runner.first
        return first.replays if getattr(first, "run_id", "") == self.run_id else ""  # else: of a fork's shared ticks

    def snapshot(self) -> Any:
        """All of the run as it is now, as plain JSON can hold it; `flow.resume(snapshot)` goes on from it."""
        return room("snapshot")(self)

    def observe(self, call: Callable[..., Any], start: int = 1) -> Any:
        """Hear of every tick, also of past ones, on a thread of its own.

        Args:
            call: Called with seq and tick, once the tick is committed.
            start: seq of the first tick to hear of.

        Returns:
            The observer: `.close()` ends it.
        """
        return room("observe")(self._runner, call, start)

    @property
    def now(self) -> Moment:
        """The present moment."""
        return self._now()

    def _now(self, since: int | None = None) -> Moment:
        return self._moment(self._runner.state, since)

    def _moment(self, state: RunState, since: int | None = None) -> Moment:
        runner = self._runner
        tick = runner.ticks[state.seq - 1] if 0 < state.seq <= len(runner.ticks) else None
        inbox = (*runner.control, *runner.inbox) if state.seq == runner.state.seq else NOT_KNOWN
        return Moment(state, None, tick, inbox, runner.history if tick is not None else None, since)

    def why(self) -> Reason:
        """Why the run does what it does, in words."""
        reason: Reason = room("why")(self._runner)
        return reason

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

    async def stream(
        self, start: int = 0, *, expose_internal: bool = False, children: bool = False
    ) -> AsyncIterator[StreamItem]:
        """The same, numbered.

        Args:
            start: seq of the first tick to show what it published.
            expose_internal: Also what the engine says of itself: states of steps, progress, idle.
            children: Also what the runs publish that its steps run.
        """
        async for item in read(self._runner, start, internal=expose_internal, children=children):
            yield item

    # -- other rooms

    @property
    def debug(self) -> Debugger:
        """Stepping and history."""
        if self._debug is None:
            self._debug = room("debug")(self)
        return self._debug  # type: ignore[no-any-return]

    @property
    def view(self) -> Any:
        """Pictures: `run.view()` is the panel."""
        if self._view is None:
            self._view = room("view")(self)
        return self._view

    def _ipython_display_(self) -> None:
        self.view.show()

    if not TYPE_CHECKING:  # a checker would take every misspelt name for one that there is

        def __getattr__(self, name: str) -> NoReturn:
            if name in _ELSEWHERE:
                raise AttributeError(f"A run has no {name!r}: use {_ELSEWHERE[name]}.")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        state = self._runner.state
        asks = len(self.requests)
        older = ", older definition" if room("is_outdated")(self._runner) else ""
        return f"<Run {self.run_id} of {state.spec.name}{older}: {self.status}, {state.seq} ticks, {asks} questions>"


__all__ = ["Request", "Run", "StreamItem", "room"]
