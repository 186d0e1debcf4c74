"""What runs in the other process: a step's function, and what stands there for its context.

Everything the step says (prints, progress) is kept and goes home with its result. Where the process can reach the
engine it is also told at once, numbered, so that the engine takes each piece once and in order: the line may break at
any moment, or never be there (another machine), and nothing is lost.
"""

from __future__ import annotations

import contextvars
import dataclasses
import os
import pickle
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Client, Connection
from typing import Any, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flownb.core.values import Failure
from flownb.definition.parameters import ELSEWHERE
from flownb.errors import StepFailure
from flownb.retry_policy import RetryInfo
from flownb.runtime import capture
from flownb.runtime.results import failure_of
from flownb.runtime.shipping import NotShipped, packed, unpacked_call

RawCall = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]


class Home(Struct, frozen=True):
    """Where a call came from."""

    #: Of the call, in its process.
    call: str
    #: Of the engine's listener; None: there is none, all is told with the result.
    address: str | None = None
    key: bytes = b""


class Printed(Struct, frozen=True, tag=True, array_like=True):
    """Text that the step wrote."""

    text: str


class Progressed(Struct, frozen=True, tag=True, array_like=True):
    """How far the step is."""

    done: float
    total: float | None = None
    label: str = ""


Said = Printed | Progressed


class Told(Struct, frozen=True, array_like=True):
    """The n-th thing that a call says, from 0."""

    call: str
    n: int
    said: Said


class Back(Struct, frozen=True):
    """What a call brings home: a result, an error, or neither with the reason."""

    #: All that it said, in order.
    said: list[Said]
    #: What the function returned, pickled.
    result: bytes | None = None
    #: What it returned or raised, as it is: it ran in the very process that it came from.
    value: Any = None
    #: Classes that were made there come along.
    has_classes: bool = False
    #: What it raised, in words.
    failure: Failure | None = None
    #: The same, pickled; None if it cannot be.
    error: bytes | None = None
    #: Why the result cannot come home.
    unfit: str = ""


class ContextElsewhere:
    """Stands for the `Context` of a step in another process: what it is, how far it is, and nothing of the run."""

    _teller: Teller | None = None

    def __init__(
        self, *, run_id: str, step_name: str, attempt: int, task_key: str, retry_info: RetryInfo | None = None
    ) -> None:
        self.run_id = run_id
        self.step_name = step_name
        self.attempt = attempt
        self.task_key = task_key
        self._retry_info = retry_info or RetryInfo()

    def __getstate__(self) -> dict[str, Any]:
        info = self._retry_info
        return {**self.__dict__, "_retry_info": dataclasses.replace(info, last_exception=_fit(info.last_exception))}

    def progress(self, done: float, total: float | None = None, label: str = "") -> None:
        """Say how far this delivery is; the step's bar is the sum over its deliveries."""
        if self._teller is not None:
            self._teller.say(Progressed(float(done), None if total is None else float(total), str(label)))

    def retry_info(self) -> RetryInfo:
        """What this attempt knows of those before it; the last exception may be there in words only."""
        return self._retry_info

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"ctx.{name} is not there in another process: step {self.__dict__.get('step_name')!r} runs in one, where "
            f"its context has {', '.join(ELSEWHERE)}. Do the rest in a step that runs in this process."
        )


def _fit(error: BaseException | None) -> BaseException | None:
    """An exception that can be read over there; in words, if it cannot be read even here."""
    if error is None or _is_readable(error):
        return error
    failure = failure_of(error)
    return StepFailure(f"{failure.type.rpartition(':')[2]}: {failure.message}", type=failure.type)


def _is_readable(error: BaseException) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # any: it is a user's class
        return False


class Teller:
    """Takes what one call says."""

    def __init__(self, home: Home) -> None:
        self.said: list[Said] = []
        self._home = home
        self._room = capture.LIMIT
        self._dropped = 0
        self._lock = threading.Lock()

    def take_output(self, text: str) -> bool:
        """What the step prints; the log at home takes no more than `capture.LIMIT` characters either."""
        with self._lock:
            if len(text) > self._room:
                self._dropped += len(text)
                return True
            self._room -= len(text)
        self.say(Printed(text))
        return True

    def say(self, said: Said) -> None:
        with self._lock:
            self.said.append(said)
            _tell(self._home, Told(self._home.call, len(self.said) - 1, said))

    def all(self) -> list[Said]:
        """What was said, and how much is left out."""
        with self._lock:
            left_out = [Printed(f"\n… and {self._dropped:,} characters more\n")] if self._dropped else []
            return [*self.said, *left_out]


#: To the engine, by process and address; None: it cannot be reached, or not any more. A child that was forked must
#: not write to its parent's line.
_lines: dict[tuple[int, str], Connection[Any, Any] | None] = {}
_lines_lock = threading.Lock()
_encode = msgspec.msgpack.Encoder().encode


def _tell(home: Home, told: Told) -> None:
    if home.address is None:
        return
    key = os.getpid(), home.address
    with _lines_lock:
        try:
            if key not in _lines:
                _lines[key] = None
                _lines[key] = Client(home.address, authkey=home.key)
            line = _lines[key]
            if line is not None:
                line.send_bytes(_encode(told))
        except Exception:  # no such address on this machine, a line that broke: all goes home with the result
            _lines[key] = None


#: Calls that began in this process, as they are, by process and name. An executor may bring them back to it: then
#: nothing of them is read from a pickle, which would write over the classes that are here. A child that was forked has
#: its parent's.
begun_here: dict[tuple[int, str], RawCall] = {}


def run(payload: bytes, home: Home) -> Back:
    """Call what `shipping.packed` made of a function and its arguments. Never raises.

    Args:
        payload: Pickled `(function, args, kwargs)`.
        home: Where it came from.
    """
    teller = Teller(home)
    capture.begin()
    try:
        back = contextvars.copy_context().run(_run, payload, teller, begun_here.get((os.getpid(), home.call)))
    finally:
        capture.end()
    return replace(back, said=teller.all())


def _run(payload: bytes, teller: Teller, here: RawCall | None) -> Back:
    capture.sink.set(teller)
    try:
        fn, args, kwargs = here or unpacked_call(payload)
        for value in (*args, *kwargs.values()):
            if isinstance(value, ContextElsewhere):
                value._teller = teller
        result = fn(*args, **kwargs)
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: it is the step's failure (R3.44)
        return _failed(error, here)
    if here is not None:
        return Back([], value=result)
    try:
        parcel = packed(result, "what it returned")
    except NotShipped as error:
        return Back([], unfit=str(error))
    return Back([], result=parcel.data, has_classes=bool(parcel.classes))


def _failed(error: BaseException, here: RawCall | None) -> Back:
    failure = failure_of(error)
    if here is not None:
        return Back([], failure=failure, value=error)
    try:
        parcel = packed(error, "what it raised")
    except NotShipped:
        return Back([], failure=failure)
    return Back([], failure=failure, error=parcel.data, has_classes=bool(parcel.classes))


def ignore_interrupts() -> None:
    """A kernel's interrupt goes to all of its processes; what it does to a run is for the engine to say."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
