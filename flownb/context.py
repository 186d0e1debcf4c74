"""What a step can do besides returning events."""

from __future__ import annotations

import asyncio
import contextvars
import datetime as dt
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, get_origin, overload

from pydantic import BaseModel
from typing_extensions import TypeVar

from flownb import events
from flownb.core.collecting import buffer_of, heads_of, is_complete
from flownb.core.persist import Fifo
from flownb.core.state import Buffer, Entry
from flownb.core.ticks import Ask as AskWait
from flownb.core.ticks import Collect, EventArrived, HoldChanged, StreamWritten
from flownb.core.values import Out
from flownb.defaults import check_choice
from flownb.errors import RequestError, WorkflowConfigurationError, WorkflowRuntimeError
from flownb.events import Event, InputRequiredEvent, Question, StartEvent, bases_of, key_of, role_of
from flownb.requests import Request
from flownb.runtime.copying import copied
from flownb.runtime.ledger import token
from flownb.runtime.pending import Pending
from flownb.runtime.questions import secret_of
from flownb.runtime.results import current, out_of, value_out
from flownb.runtime.retries import elapsed_s, last_error
from flownb.runtime.threads import pool
from flownb.runtime.worker import Worker
from flownb.schemas import WORDS, schema_of
from flownb.sending import check_target, name_of
from flownb.state import State, StateStore, refuse_inside_edit
from flownb.waits import Ask, ask, event, sleep

if TYPE_CHECKING:
    import random
    from uuid import UUID

    from flownb.retry_policy import RetryInfo
    from flownb.run import Run
    from flownb.workflow import Workflow

S = TypeVar("S", default=Any)
T = TypeVar("T")
A = TypeVar("A")
E = TypeVar("E", bound=Event)
R = TypeVar("R")
Q = TypeVar("Q", bound=InputRequiredEvent[Any])
OnChanged = Literal["supersede", "fail", "keep"]


class Context(Generic[S]):
    """The hands of one delivery: everything here carries its number, and counts only while its attempt lives.

    What a delivery does here is done once: when its code runs again (a retry, a restart), what it did before is not
    repeated, and what it waited for is given to it again.

    Typed with `Context[Model]`, `ctx.state.get()` gives that model.
    """

    def __new__(cls, worker: Any, *args: Any, **kwargs: Any) -> Any:
        """`Context(workflow)` is one outside of steps, as LlamaIndex has it."""
        if cls is Context and not isinstance(worker, Worker):
            from flownb.contexts import OuterContext  # it builds on this module

            return object.__new__(OuterContext)
        return object.__new__(cls)

    def __init__(self, worker: Worker | Workflow[Any], model: type[BaseModel] | None = None) -> None:
        self._worker = cast(Worker, worker)
        self._model = model

    @classmethod
    def from_dict(cls, workflow: Workflow[Any], data: Any, serializer: Any = None) -> Context[Any]:
        """The context that `to_dict` wrote; `flow.run(ctx=...)` goes on with it.

        Args:
            workflow: Its workflow.
            data: What `to_dict` or `run.snapshot()` gave, also read back from JSON.
            serializer: Accepted, not needed.

        Raises:
            ContextSerdeError: It is no such dict, or values in it cannot be rebuilt here; names all of them.
        """
        from flownb.contexts import read_context  # it builds on this module

        return read_context(workflow, data)

    def to_dict(self, serializer: Any = None, include_state: bool = True) -> dict[str, Any]:
        """The whole run as plain JSON can hold it; of a cancelled run, as it was before that.

        Args:
            serializer: Accepted, not needed.
            include_state: Whether the user's state is in it.
        """
        from flownb.snapshot import dump, take, user_of, with_values  # they build on this module

        taken = take(self._worker.runner)
        return dump(taken if include_state else with_values(taken, dict.fromkeys(user_of(taken))))

    def __repr__(self) -> str:
        return f"<Context of step {self.step_name!r}, run {self.run_id!r}, delivery {self._worker.delivery.id}>"

    # -- who

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
        return self._worker.key or f"{self.run_id}/{self._worker.delivery.id}"

    def retry_info(self) -> RetryInfo:
        """What this attempt knows of those before it."""
        from flownb.retry_policy import RetryInfo  # few steps ask

        worker = self._worker
        d, runner = worker.delivery, worker.runner
        if d.attempt == 1:
            return RetryInfo()
        failed_at = next((t.at for t in reversed(runner.ticks) if _failed(t, d.id)), None)
        return RetryInfo(
            d.attempt - 1,
            elapsed_s(runner, d, runner.clock.now()),
            last_error(runner, d),
            None if failed_at is None else dt.datetime.fromtimestamp(failed_at, dt.UTC),
        )

    @property
    def is_running(self) -> bool:
        """Whether the run goes on."""
        runner = self._worker.runner
        return not runner.ended and not runner.suspended

    def running_steps(self) -> list[str]:
        """Names of the steps that run now."""
        state = self._worker.runner.state
        return [spec.name for spec, step in zip(state.spec.steps, state.steps, strict=True) if step.active.n]

    # -- state

    @property
    def state(self) -> State[S]:
        """The run's state, shared by all its steps."""
        return State(self._worker, self._model)

    @property
    def store(self) -> StateStore[S]:
        """The same data behind LlamaIndex's awaitable calls."""
        return StateStore(State(self._worker, self._model))

    # -- sending

    def send_event(self, ev: Event, step: str | Callable[..., Any] | None = None) -> None:
        """Send an event now, without returning it.

        Args:
            ev: The event.
            step: The one step that it is for, as its function or name; None sends it to all that take it.

        Raises:
            WorkflowStepDoesNotExistError: There is no such step. Nothing was sent.
            WorkflowRuntimeError: That step does not take this type. Nothing was sent.
        """
        worker = self._worker
        if not worker.returned:
            worker.check()
        runner, target = worker.runner, name_of(step)
        check_target(runner, ev, target)
        now = runner.clock.now()
        out = runner.checked(out_of(copied(ev), runner.definition, now))
        if worker.returned:
            runner.post(EventArrived(now, out, target))
        else:
            worker.send(out, target)

    def write_event_to_stream(self, ev: Event) -> None:
        """Show an event to the readers of the run's stream; no step gets it."""
        worker = self._worker
        worker.check()
        runner, d = worker.runner, worker.delivery
        now = runner.clock.now()
        out = runner.checked(out_of(copied(ev), runner.definition, now))
        if out.role == "request":
            worker.shown = out
        worker.post(StreamWritten(now, worker.step.name, d.id, d.start, out))

    def progress(self, done: float, total: float | None = None, label: str = "") -> None:
        """Say how far this delivery is; the step's bar is the sum over its deliveries."""
        d = self._worker.delivery
        self.write_event_to_stream(
            events.ProgressEvent(done=done, total=total, label=label, step=self._worker.step.name, delivery=d.id)
        )

    # -- collecting

    def collect_events(
        self, ev: Event, expected: Sequence[type[E]], buffer_id: str | None = None, *, ordered: bool = False
    ) -> list[E] | None:
        """Keep an event until all that are expected are there; then all of them, else None.

        Args:
            ev: The event that this step was given.
            expected: The types that are wanted, one entry for each event.
            buffer_id: Events are kept per step and id.
            ordered: Events of one type in the order in which they were sent, not in that in which they arrived.

        Returns:
            The events in the order of `expected`, or None while some are missing. The buffer is emptied, of what was
            taken, when the step completes; what is over stays for the next round.
        """
        worker = self._worker
        worker.check()
        wants = _wants(expected)
        if not wants:
            return []
        runner = worker.runner
        out = runner.checked(out_of(copied(ev), runner.definition, runner.clock.now()))
        keys = dict(wants)
        slot = next((key for key in (out.key, *bases_of(type(ev))) if key in keys), "")
        name = buffer_id or ""
        buffer = buffer_of(runner.state, worker.step.name, name)
        took = is_complete(buffer, wants, slot)
        heads = heads_of(buffer, wants) if took else ()
        worker.collects = (*worker.collects, Collect(name, wants, out, slot, heads, took))
        return self._collected(buffer, wants, expected, slot, ev, ordered) if took else None

    def _collected(
        self,
        buffer: Buffer,
        wants: tuple[tuple[str, int], ...],
        expected: Sequence[type[E]],
        slot: str,
        ev: Event,
        ordered: bool,
    ) -> list[E]:
        definition, rank = self._worker.runner.definition, self._worker.delivery.rank
        found: dict[str, Iterator[Any]] = {}
        for key, n in wants:
            queue = buffer.queues.get(key)
            held = [] if queue is None else _first(queue, n)
            taken = [(entry.rank, copied(current(entry.out, definition))) for entry in held]
            if key == slot and len(taken) < n:
                taken.append((rank, ev))
            if ordered:
                taken.sort(key=lambda pair: pair[0])
            found[key] = iter([value for _, value in taken])
        return [next(found[key_of(kind)]) for kind in expected]

    # -- waiting

    def wait_for_event(
        self,
        event_type: type[E],
        waiter_event: Event | None = None,
        waiter_id: str | None = None,
        requirements: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Pending[E]:
        """Wait for an event without holding a worker; nothing before the wait runs twice.

        Args:
            event_type: Its type; a subclass fits too.
            waiter_event: Shown on the stream, once, when the wait begins. A question is open until the event comes,
                and its answer is the event.
            waiter_id: A name of its own for this wait, for code that runs again after a restart.
            requirements: Fields that the event must have, with their values.
            timeout: Seconds until `TimeoutError`; None waits for ever.

        Returns:
            A handle: `await` it, or `.result()` in a plain step.
        """
        worker = self._worker
        worker.check()
        refuse_inside_edit("A wait")
        runner = worker.runner
        requires = {name: runner.checked(value_out(copied(value))) for name, value in (requirements or {}).items()}
        now = runner.clock.now()
        question: Out | None = None
        shown: Out | None = None
        if waiter_event is not None:
            shown = runner.checked(out_of(copied(waiter_event), runner.definition, now))
            if shown.role == "request":
                question = shown
        elif worker.shown is not None and role_of(event_type) == "answer":
            question, worker.shown = worker.shown, None
        due_at = None if timeout is None else now + max(0.0, timeout)
        is_new, handle = event(worker, event_type, waiter_id or "", requires, due_at, question)
        if is_new and shown is not None and question is None:
            d = worker.delivery
            worker.post(StreamWritten(now, worker.step.name, d.id, d.start, shown))
        return handle

    def sleep(self, s: float) -> Pending[None]:
        """Wait `s` seconds without holding a worker. The moment is in the run's state, so a restart keeps it."""
        self._worker.check()
        refuse_inside_edit("A sleep")
        return sleep(self._worker, self._worker.runner.clock.now() + max(0.0, s), f"{float(s)!r} s")

    def sleep_until(self, t: float | dt.datetime) -> Pending[None]:
        """Wait until a moment (Unix seconds, or an aware datetime) without holding a worker."""
        self._worker.check()
        refuse_inside_edit("A sleep")
        if isinstance(t, dt.datetime):
            if t.tzinfo is None:
                raise ValueError(f"{t!r} has no time zone: give an aware datetime, or Unix seconds.")
            t = t.timestamp()
        return sleep(self._worker, float(t), f"until {float(t)!r}")

    @overload
    def ask(
        self,
        question: InputRequiredEvent[A],
        *,
        timeout: float | None = None,
        default: A | None = None,
        key: str | None = None,
        token: str | None = None,
        on_changed: OnChanged = "supersede",
    ) -> Ask[A]: ...
    @overload
    def ask(
        self,
        question: str,
        answer: type[T] = ...,
        *,
        timeout: float | None = None,
        default: T | None = None,
        key: str | None = None,
        token: str | None = None,
        on_changed: OnChanged = "supersede",
    ) -> Ask[T]: ...
    def ask(
        self,
        question: Any,
        answer: Any = str,
        *,
        timeout: float | None = None,
        default: Any = None,
        key: str | None = None,
        token: str | None = None,
        on_changed: OnChanged = "supersede",
    ) -> Ask[Any]:
        """Ask a person and wait for the answer, without holding a worker.

        Args:
            question: An event whose class names its answer (`InputRequiredEvent[Verdict]`), or words.
            answer: With words: the type of the answer, anything that pydantic takes.
            timeout: Seconds until the default is taken, or `AnswerTimeout` raised; None waits for ever.
            default: Taken at the deadline, recorded as such, never as a person's answer.
            key: A name of its own for this question, for code that runs again: else it is the n-th of its type.
            token: Lets somebody outside answer by it; unguessable, and free among open questions.
            on_changed: When the code runs again and asks something else here: "supersede" closes the old question and
                asks anew, "fail" raises `NonDeterministic`, "keep" lets the old question and answer stand.

        Returns:
            A handle: `await` it, or `.result()` in a plain step. It has `.request`.
        """
        worker = self._worker
        worker.check()
        refuse_inside_edit("A question")
        check_choice("on_changed", on_changed)
        runner = worker.runner
        is_text = isinstance(question, str)
        asked: InputRequiredEvent[Any] = _in_words(question, answer) if is_text else question
        now = runner.clock.now()
        out = runner.checked(out_of(copied(asked), runner.definition, now))
        due_at = None if timeout is None else now + max(0.0, timeout)
        if out.limit is not None and timeout is None:  # of `with_deadline`
            due_at, default = out.limit.due_at, out.limit.default.value if out.limit.default is not None else default
        given = None if default is None else runner.checked(value_out(copied(default)))
        secret = "" if token is None else secret_of(token)
        wait = AskWait(out, due_at, given, key or "", 0, secret)
        return ask(worker, out, wait, answer if is_text else None, on_changed)

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

    def hold(self, reason: str) -> Hold:
        """Say that something outside will still send: the run is not quiet inside the block.

        Args:
            reason: Why, for people who look.
        """
        if not reason:
            raise WorkflowConfigurationError("ctx.hold needs a reason: what will still send?")
        self._worker.check()
        return Hold(self._worker, reason)

    # -- children

    def run(self, workflow: Workflow[R], start_event: StartEvent | None = None, **fields: Any) -> Run[R]:
        """Run another workflow as a child of this step; `await` it for its result.

        Args:
            workflow: The workflow. Its time limit is its own `timeout`.
            start_event: Its input as an object.
            fields: The fields of its start event, in place of that.
        """
        from flownb.childrun import run_child  # runs are built on this module
        from flownb.launch import Settings
        from flownb.starting import start_event as first_event

        worker = self._worker
        worker.check()
        refuse_inside_edit("A child")
        definition = workflow.definition
        runner = worker.runner
        first = first_event(definition, start_event, fields)
        out = runner.checked(out_of(copied(first), definition, runner.clock.now()))
        return run_child(worker, workflow, Settings(), out)

    def first(self, runs: Sequence[Run[R]]) -> Pending[R]:
        """The result of the first of several children that succeeds; the others are cancelled.

        Raises:
            ValueError: `runs` is empty.
            ExceptionGroup: When awaited: every child failed; with all their errors.
        """
        from flownb.childrun import ChildRun, first  # runs are built on this module

        children = [run for run in runs if isinstance(run, ChildRun)]
        if len(children) < len(runs):
            raise WorkflowRuntimeError("ctx.first takes what ctx.run(...) gave.")
        return first(self._worker, children)

    # -- values that are the same when the code runs again

    @overload
    def once(self, fn: Callable[..., Awaitable[T]], *args: Any, key: str | None = None) -> Pending[T]: ...
    @overload
    def once(self, fn: Callable[..., T], *args: Any, key: str | None = None) -> Pending[T]: ...
    def once(self, fn: Callable[..., Any], *args: Any, key: str | None = None) -> Pending[Any]:
        """Run a function once for this delivery, and give the same value when the code runs again.

        A crash between the function and its record runs it again. What it raises is not recorded.

        Args:
            fn: A function or coroutine function; in async steps a plain one runs in a thread.
            args: Its arguments.
            key: A name of its own; else it is known by function and arguments.
        """
        worker = self._worker
        worker.check()
        name = f"once {key or _call_name(fn, args)}"
        found = worker.replay.value(name) if worker.replay is not None else None
        handle: Pending[Any] = Pending(f"what {getattr(fn, '__name__', fn)!s} gives", worker.runner.host.loop)
        if not worker.step.is_async:
            handle.blocking = pool.waiting
        if found is not None:
            handle.resolve(copied(current(found, worker.runner.definition)))
            return handle
        worker.guard(handle)

        def keep(value: Any) -> None:
            recorded = worker.record(name, worker.runner.checked(value_out(copied(value))))
            recorded.on_end(lambda: handle.resolve(value))

        _run_once(worker, fn, args, keep, handle)
        return handle

    def now(self) -> float:
        """The time in Unix seconds; the same when the code runs again."""
        worker = self._worker
        worker.check()
        found = worker.replay.value("now") if worker.replay is not None else None
        if found is not None:
            return float(found.value)
        now = worker.runner.clock.now()
        worker.record("now", value_out(now))
        return now

    def uuid(self) -> UUID:
        """A new UUID; the n-th call of this delivery gives the same when the code runs again."""
        from uuid import UUID  # few steps ask

        worker = self._worker
        worker.check()
        worker.uuids += 1
        seed = hashlib.sha256(f"{self.task_key}/uuid/{worker.uuids}".encode()).digest()
        return UUID(bytes=seed[:16], version=4)

    @property
    def random(self) -> random.Random:
        """Random numbers that are the same when the code runs again."""
        import random  # few steps ask

        worker = self._worker
        worker.check()
        if worker.random is None:
            worker.random = random.Random(hashlib.sha256(f"{self.task_key}/random".encode()).digest())
        return worker.random


class Hold(AbstractAsyncContextManager[None], AbstractContextManager[None]):
    """Keeps a run from being quiet; `async with` or `with`."""

    def __init__(self, worker: Worker, reason: str) -> None:
        self._worker = worker
        self._reason = reason
        self._number = 0

    def __enter__(self) -> None:
        self._worker.check()
        runner = self._worker.runner
        self._number = runner.new_hold()
        runner.post(HoldChanged(runner.clock.now(), self._number, self._reason, self._worker.delivery.id))

    def __exit__(self, *exc: object) -> None:
        runner = self._worker.runner
        runner.post(HoldChanged(runner.clock.now(), self._number))

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        self.__exit__()


def _run_once(
    worker: Worker, fn: Callable[..., Any], args: tuple[Any, ...], keep: Callable[[Any], None], handle: Pending[Any]
) -> None:
    """Call the function where it belongs: a coroutine on the loop, a plain one in a thread, or here in a plain step."""

    async def on_loop() -> None:
        try:
            keep(await fn(*args))
        except BaseException as error:
            handle.reject(error)
            if isinstance(error, asyncio.CancelledError):
                raise

    def here() -> None:
        try:
            keep(fn(*args))
        except BaseException as error:
            handle.reject(error)

    if inspect.iscoroutinefunction(fn):
        if worker.step.is_async:
            task: asyncio.Future[Any] = asyncio.get_running_loop().create_task(on_loop())
            worker.tasks = (worker.tasks or set()) | {task}
        else:
            asyncio.run_coroutine_threadsafe(on_loop(), worker.runner.host.loop)
    elif worker.step.is_async:
        context = contextvars.copy_context()
        pool.submit(lambda: context.run(here))
    else:
        here()


def _failed(tick: Any, delivery: int) -> bool:
    return type(tick).__name__ == "StepFailed" and tick.delivery == delivery


def _wants(expected: Sequence[type[Any]]) -> tuple[tuple[str, int], ...]:
    """The wanted types with how many of each, in the order in which they are first named."""
    if not expected:
        return ()
    first = expected[0]
    if expected.count(first) == len(expected):  # the usual case, at the speed of C
        return ((key_of(first), len(expected)),)
    counts: dict[str, int] = {}
    for kind in expected:
        key = key_of(kind)
        counts[key] = counts.get(key, 0) + 1
    return tuple(counts.items())


def _first(queue: Fifo[Entry], n: int) -> list[Entry]:
    found: list[Entry] = []
    for entry in queue:
        if len(found) == n:
            break
        found.append(entry)
    return found


def _call_name(fn: Callable[..., Any], args: tuple[Any, ...]) -> str:
    digest = hashlib.sha256(repr(token(args)).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{getattr(fn, '__module__', '')}:{getattr(fn, '__qualname__', repr(type(fn)))} {digest}"


def _in_words(text: str, answer: Any) -> Question:
    schema = None if answer in WORDS.values() else schema_of(answer)
    return Question(prefix=text, answer=_name(answer), answer_schema=schema)


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def is_context(hint: Any) -> bool:
    """Whether a hint is `Context` or `Context[...]`."""
    found = get_origin(hint) or hint
    return isinstance(found, type) and issubclass(found, Context)


def __getattr__(name: str) -> Any:
    """LlamaIndex's import line: `from flownb.context import JsonSerializer`."""
    if name == "JsonSerializer":
        from flownb.contexts import JsonSerializer  # it builds on this module

        return JsonSerializer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
