"""What a step can do besides returning events."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Generic, get_origin, overload

from pydantic import BaseModel
from typing_extensions import TypeVar

from flownb.core.state import Outcome
from flownb.core.ticks import Ask as AskWait
from flownb.core.ticks import EventArrived, EventsSent, Sleep, StateWritten, StreamWritten
from flownb.core.values import Out, alike
from flownb.errors import (
    AnswerTimeout,
    ContextStateError,
    RequestDisposed,
    RequestError,
    WorkflowRuntimeError,
    WorkflowStepDoesNotExistError,
)
from flownb.events import Event, InputRequiredEvent, ProgressEvent, Question, bases_of, key_of
from flownb.requests import Request
from flownb.runtime.copying import copied
from flownb.runtime.pending import Pending
from flownb.runtime.results import out_of, value_out
from flownb.runtime.runner import Runner
from flownb.runtime.threads import pool
from flownb.runtime.worker import Worker

S = TypeVar("S", default=Any)
T = TypeVar("T")
A = TypeVar("A")
Q = TypeVar("Q", bound=InputRequiredEvent[Any])
_MISSING: Any = object()


class Context(Generic[S]):
    """The hands of one delivery: everything here carries its number, and counts only while its attempt lives.

    Typed with `Context[Model]`, `ctx.state.get()` gives that model.
    """

    def __init__(self, worker: Worker, model: type[BaseModel] | None = None) -> None:
        self._worker = worker
        self._model = model

    def __repr__(self) -> str:
        return f"<Context of step {self.step_name!r}, run {self.run_id!r}, delivery {self._worker.delivery.id}>"

    @property
    def run_id(self) -> str:
        return self._worker.runner.run_id

    @property
    def step_name(self) -> str:
        return self._worker.step.name

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self._worker.delivery.attempt

    @property
    def task_key(self) -> str:
        """The same for every try of this delivery: an idempotency key for systems outside."""
        return f"{self.run_id}/{self._worker.delivery.id}"

    @property
    def state(self) -> State[S]:
        """The run's state, shared by all its steps."""
        return State(self._worker, self._model)

    def send_event(self, ev: Event, step: str | None = None) -> None:
        """Send an event now, without returning it.

        Args:
            ev: The event.
            step: Name of the one step that it is for; None sends it to all that take it.

        Raises:
            WorkflowStepDoesNotExistError: There is no such step. Nothing was sent.
            WorkflowRuntimeError: That step does not take this type. Nothing was sent.
        """
        worker = self._worker
        if not worker.returned:
            worker.check()
        runner = worker.runner
        check_target(runner, ev, step)
        now = runner.clock.now()
        out = runner.checked(out_of(copied(ev), runner.definition, now))
        d = worker.delivery
        if worker.returned:
            runner.post(EventArrived(now, out, step))
        else:
            runner.post(EventsSent(now, worker.step.name, d.id, d.start, (out,), step))

    def write_event_to_stream(self, ev: Event) -> None:
        """Show an event to the readers of the run's stream; no step gets it."""
        worker = self._worker
        worker.check()
        runner, d = worker.runner, worker.delivery
        now = runner.clock.now()
        out = runner.checked(out_of(copied(ev), runner.definition, now))
        runner.post(StreamWritten(now, worker.step.name, d.id, d.start, out))

    def progress(self, done: float, total: float | None = None, label: str = "") -> None:
        """Say how far this delivery is; the step's bar is the sum over its deliveries."""
        d = self._worker.delivery
        self.write_event_to_stream(
            ProgressEvent(done=done, total=total, label=label, step=self._worker.step.name, delivery=d.id)
        )

    def sleep(self, s: float) -> Pending[None]:
        """Wait `s` seconds without holding a worker. The moment is in the run's state, so a restart keeps it."""
        return self.sleep_until(self._worker.runner.clock.now() + max(0.0, s))

    def sleep_until(self, t: float) -> Pending[None]:
        """Wait until the Unix time `t` without holding a worker."""
        refuse_inside_edit("A sleep")
        _, waited = self._worker.wait("a sleep", Sleep(t))
        return _then(waited, self._worker, "a sleep", lambda outcome: None)

    @overload
    def ask(
        self, question: InputRequiredEvent[A], *, timeout: float | None = None, default: A | None = None
    ) -> Ask[A]: ...
    @overload
    def ask(
        self, question: str, answer: type[T] = ..., *, timeout: float | None = None, default: T | None = None
    ) -> Ask[T]: ...
    def ask(
        self,
        question: Any,
        answer: Any = str,
        *,
        timeout: float | None = None,
        default: Any = None,
    ) -> Ask[Any]:
        """Ask a person and wait for the answer, without holding a worker.

        Args:
            question: An event whose class names its answer (`InputRequiredEvent[Verdict]`), or words.
            answer: With words: the type of the answer, anything that pydantic takes.
            timeout: Seconds until the default is taken, or `AnswerTimeout` raised; None waits for ever.
            default: Taken at the deadline, recorded as such, never as a person's answer.

        Returns:
            A handle: `await` it, or `.result()` in a plain step. It has `.request`.
        """
        worker = self._worker
        worker.check()
        refuse_inside_edit("A question")
        runner = worker.runner
        asked: InputRequiredEvent[Any]
        asked = Question(prefix=question, answer=_name(answer)) if isinstance(question, str) else question
        now = runner.clock.now()
        due_at = None if timeout is None else now + timeout
        out = runner.checked(out_of(copied(asked), runner.definition, now))
        wait = AskWait(out, due_at, None if default is None else value_out(default))
        what = f"the answer to {type(asked).__name__}"
        mark, waited = worker.wait(what, wait, answer if isinstance(question, str) else None)
        handle: Ask[Any] = Ask(what, runner.host.loop, waited.abandon)
        handle._find = lambda: _request_of(runner, worker, mark)
        _pass_on(waited, handle, worker, _answer_of)
        return handle

    def request(self, kind: type[Q]) -> Request[Q]:
        """In a step that takes an answer: the question that it answers.

        Raises:
            RequestError: This step's event answers no question of that type.
        """
        runner = self._worker.runner
        opened = runner.questions.answered_by.get(self._worker.delivery.cause)
        if opened is None or opened.question.key != key_of(kind):
            raise RequestError(f"Step {self.step_name!r} was not started by an answer to {kind.__name__}.")
        return Request(runner, opened)


class Ask(Pending[T]):
    """The handle of a question that a step asked."""

    __slots__ = ("_find",)
    _find: Any

    @property
    def request(self) -> Request[Any]:
        """The question itself: status, who answered, when.

        Raises:
            RequestError: The run has not opened it yet (its gate is closed, or this is the same instant).
        """
        found: Request[Any] = self._find()
        return found


class State(Generic[S]):
    """The run's state: plain calls, in `def` and `async def` steps alike.

    `get` then `set` is not atomic: between them another step may write, and one of the two writes is lost.

        n = ctx.state.get("n", 0)
        ctx.state.set("n", n + 1)            # two steps at once: one addition is lost

        async with ctx.state.edit() as s:    # one at a time: none is lost
            s["n"] = s.get("n", 0) + 1
    """

    def __init__(self, worker: Worker, model: type[BaseModel] | None) -> None:
        self._worker = worker
        self._model = model

    def get(self, path: str | None = None, default: Any = _MISSING) -> Any:
        """The whole state (a copy; the model of `Context[Model]`, else a dict), or what stands at a dotted path.

        Raises:
            KeyError: Nothing stands there and no default was given.
        """
        values = self._worker.runner.user_view()
        if path is None:
            return self._whole(values)
        name, *rest = path.split(".")
        if name not in values and self._model is not None:
            return copied(_at(getattr(self._model(), name), rest, path, default))
        if name not in values:
            if default is _MISSING:
                raise KeyError(f"The state has no {name!r}. It has {', '.join(values) or 'nothing'}.")
            return default
        return copied(_at(values[name].value, rest, path, default))

    def _whole(self, values: dict[str, Out]) -> Any:
        whole = {name: copied(out.value) for name, out in values.items()}
        return self._model.model_validate(whole) if self._model is not None else whole

    def set(self, path: str, value: Any) -> None:
        """Write what stands at a dotted path; missing dicts on the way are made."""
        name, *rest = path.split(".")
        if rest:
            held = self._worker.runner.user_view().get(name)
            whole = copied(held.value) if held is not None else {}
            _put(whole, rest, copied(value), path)
        else:
            whole = copied(value)
        self._write({name: whole})

    def clear(self) -> None:
        """Remove everything."""
        self._write({}, tuple(self._worker.runner.user_view()))

    def edit(self) -> Edit[S]:
        """The state to change, alone: `async with` in async steps, `with` in plain ones. Nothing is written if the
        block raises."""
        return Edit(self)

    def _write(self, changes: dict[str, Any], dropped: tuple[str, ...] = ()) -> None:
        worker = self._worker
        worker.check()
        runner, d = worker.runner, worker.delivery
        outs: dict[str, Out] = {name: runner.checked(value_out(value)) for name, value in changes.items()}
        runner.write_state(StateWritten(runner.clock.now(), worker.step.name, d.id, d.start, outs, dropped))


#: The edit whose block the present code is in; tasks and threads begun inside it inherit that.
_editing: ContextVar[Edit[Any] | None] = ContextVar("flownb_editing", default=None)


def refuse_inside_edit(what: str) -> None:
    """Raises in an open `edit` block: all edits of the run stand in line behind it, so a wait could last for ever."""
    edit = _editing.get()
    if edit is not None and edit.is_open:
        raise ContextStateError(f"{what} cannot begin inside an edit of the state (R6.4). Leave the block first.")


class Edit(Generic[S]):
    """One isolated change of the state; edits of a run come one after the other, in the order of asking."""

    def __init__(self, state: State[S]) -> None:
        self._state = state
        self._before: dict[str, Any] = {}
        self._now: Any = None
        self.is_open = False

    async def __aenter__(self) -> Any:
        if not self._state._worker.step.is_async:
            raise ContextStateError("A plain def step edits the state with `with`, not `async with`.")
        turn = self._ask()
        try:
            await turn
        except BaseException:
            self._state._worker.runner.user.edits.give_up(turn)
            raise
        return self._open()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._close(kind)

    def __enter__(self) -> Any:
        if self._state._worker.step.is_async:
            raise ContextStateError("An async step edits the state with `async with`, not `with`.")
        self._ask().result()
        return self._open()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._close(kind)

    def _ask(self) -> Pending[None]:
        worker = self._state._worker
        worker.check()
        refuse_inside_edit("Another edit")
        return worker.runner.user.edits.ask()

    def _open(self) -> Any:
        try:
            values = self._state._worker.runner.user_view()
            self._before = {name: out.value for name, out in values.items()}
            self._now = self._state._whole(values)
        except BaseException:
            self._state._worker.runner.user.edits.next()
            raise
        self.is_open = True
        _editing.set(self)
        return self._now

    def _close(self, kind: type[BaseException] | None) -> None:
        self.is_open = False
        try:
            if kind is None:
                now = dict(self._now) if not isinstance(self._now, dict) else self._now
                changes = {k: v for k, v in now.items() if k not in self._before or not alike(self._before[k], v)}
                dropped = tuple(k for k in self._before if k not in now)
                if changes or dropped:
                    self._state._write(changes, dropped)
        finally:
            self._state._worker.runner.user.edits.next()


def check_target(runner: Runner, ev: Event, step: str | None) -> None:
    """Raises where an event cannot be sent."""
    if not isinstance(ev, Event):
        raise WorkflowRuntimeError(f"Only events can be sent, not a {type(ev).__name__}: {ev!r}.")
    if step is None:
        return
    spec = runner.definition.spec
    if step not in spec.index:
        raise WorkflowStepDoesNotExistError(step, workflow=spec.name, known=tuple(spec.index))
    accepts = spec.steps[spec.index[step]].accepts
    kind = type(ev)
    if not {key_of(kind), *bases_of(kind)}.intersection(accepts):
        raise WorkflowRuntimeError(
            f"Step {step!r} takes {', '.join(accepts) or 'no single event'}, not {key_of(kind)}. Nothing was sent."
        )


def _then(waited: Pending[Outcome], worker: Worker, what: str, read: Any) -> Pending[Any]:
    handle: Pending[Any] = Pending(what, worker.runner.host.loop, waited.abandon)
    _pass_on(waited, handle, worker, read)
    return handle


def _pass_on(waited: Pending[Outcome], handle: Pending[Any], worker: Worker, read: Any) -> None:
    if not worker.step.is_async:
        handle.blocking = pool.waiting

    def over() -> None:
        try:
            handle.resolve(read(waited.result(0)))
        except BaseException as error:
            handle.reject(error)

    waited.on_end(over)


def _answer_of(outcome: Outcome) -> Any:
    if outcome.how == "expired":
        raise AnswerTimeout("Nobody answered before the deadline, and no default was given.")
    if outcome.how == "disposed":
        raise RequestDisposed(f"The question was disposed of: {outcome.reason or 'no reason given'}.")
    assert outcome.out is not None
    return copied(outcome.out.value)


def _request_of(runner: Runner, worker: Worker, mark: int) -> Request[Any]:
    opened = runner.questions.asked.get((worker.delivery.id, mark))
    if opened is None:
        raise RequestError("The question is not open yet; await the handle, or look a moment later.")
    return Request(runner, opened)


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _at(value: Any, rest: list[str], path: str, default: Any) -> Any:
    for part in rest:
        try:
            value = value[int(part)] if isinstance(value, (list, tuple)) else _item(value, part)
        except (KeyError, IndexError, AttributeError, ValueError):
            if default is _MISSING:
                raise KeyError(f"The state has no {path!r}: there is no {part!r}.") from None
            return default
    return value


def _item(value: Any, part: str) -> Any:
    return value[part] if isinstance(value, dict) else getattr(value, part)


def _put(value: Any, rest: list[str], new: Any, path: str) -> None:
    *way, last = rest
    for part in way:
        if isinstance(value, dict):
            value = value.setdefault(part, {})
        elif isinstance(value, list):
            value = value[int(part)]
        else:
            value = getattr(value, part)
    if isinstance(value, dict):
        value[last] = new
    elif isinstance(value, list):
        value[int(last)] = new
    elif isinstance(value, BaseModel):
        setattr(value, last, new)
    else:
        raise ContextStateError(f"Nothing can be written at {path!r}: a {type(value).__name__} stands on the way.")


def is_context(hint: Any) -> bool:
    """Whether a hint is `Context` or `Context[...]`."""
    found = get_origin(hint) or hint
    return isinstance(found, type) and issubclass(found, Context)
