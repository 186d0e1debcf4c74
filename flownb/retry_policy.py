"""When a failed step is tried again: conditions, waits and stops that compose, in tenacity's words.

    @flow.step(retry_policy=retry_policy(wait=wait_exponential(0.2), stop=stop_after_attempt(3)))

A policy is asked once per failure, by the runner, and its answer is written in the tick (R3.26): nothing in here is
called by a replay. So it may draw at random and call a user's functions. Three things hold for every part:

* Values: frozen, compared by what they hold, picklable as far as the functions given to them are.
* `attempts` counts failures from 1 in policies and stops. A wait counts from 0, as the exponent of its first delay.
* Seconds are numbers or `timedelta`s when given, and `float`s when kept.

The words are tenacity's, the order of arguments and the defaults those of LlamaIndex Workflows.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from numbers import Integral, Real
from random import Random
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeGuard, cast, runtime_checkable
from weakref import WeakKeyDictionary

Seconds: TypeAlias = float | timedelta
ExceptionTypes: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]


# What a user may write himself: any object with these signatures takes part.


@runtime_checkable
class RetryPolicy(Protocol):
    """Decides, once per failure, whether and when a step is tried again."""

    def next(
        self, elapsed_time: float, attempts: int, error: BaseException, *, seed: int | None = None
    ) -> float | None:
        """Seconds until the next attempt, or None to give up.

        Args:
            elapsed_time: Seconds since the first attempt began, without the time people took (R3.31).
            attempts: Failures so far, this one included: from 1.
            error: What the step raised.
            seed: For everything random, so that a question asked again gets the same answer.
        """
        ...


class UnseededRetryPolicy(Protocol):
    """A policy that draws nothing, or that takes narrower errors than `RetryPolicy`; as good as one."""

    def next(self, elapsed_time: float, attempts: int, error: Any, /) -> float | None: ...


AnyRetryPolicy: TypeAlias = RetryPolicy | UnseededRetryPolicy


class RetryCondition(Protocol):
    """Whether an error is worth another attempt."""

    def __call__(self, error: Any, /) -> bool: ...


class WaitStrategy(Protocol):
    """Seconds before the next attempt; `attempts` is 0 after the first failure."""

    def __call__(self, attempts: int, *, seed: int | None = None) -> float: ...


class StopCondition(Protocol):
    """Whether it is over after `attempts` failures (from 1), `elapsed_time` seconds, and with that wait ahead."""

    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool: ...


@dataclass(frozen=True)
class RetryInfo:
    """What an attempt knows of those before it: `ctx.retry_info()`.

    >>> RetryInfo().retry_number
    0
    """

    #: 0 in the first attempt; one less than the attempt's number.
    retry_number: int = 0
    #: Since the first attempt began; 0.0 in it.
    elapsed_seconds: float = 0.0
    #: Why the attempt before failed; None in the first.
    last_exception: BaseException | None = None
    #: When the attempt before failed; None in the first.
    last_failed_at: datetime | None = None


class _Value:
    """What conditions, waits, stops and policies share: frozen, equal by fields, shown as they are written."""

    #: "a wait": what errors call it.
    noun: ClassVar[str]
    #: How many arguments are shown without their names.
    bare: ClassVar[int] = 1

    def _set(self, **fields: object) -> None:
        vars(self).update(fields)  # past __setattr__, which is for all others

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self!r} is a value: its {name!r} cannot be set. Make another one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self!r} is a value: its {name!r} cannot be deleted.")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._arguments())})"

    def _arguments(self) -> Iterator[str]:
        in_order = True
        for position, parameter in enumerate(inspect.signature(type(self)).parameters.values()):
            value = getattr(self, parameter.name)
            if parameter.kind is parameter.VAR_POSITIONAL:
                yield from map(_shown, value)
            elif value == parameter.default:
                in_order = False
            else:
                bare = in_order and position < self.bare
                yield _shown(value) if bare else f"{parameter.name}={_shown(value)}"


# ------------------------------------------------------------------------------------------------------ conditions


class _Condition(_Value, ABC):
    noun = "a retry condition"

    @abstractmethod
    def __call__(self, error: BaseException, /) -> bool:
        """Whether `error` is worth another attempt."""

    def __or__(self, other: RetryCondition) -> retry_any:
        return retry_any(*_parts(retry_any, self), other)

    def __ror__(self, other: RetryCondition) -> retry_any:
        return retry_any(other, self)

    def __and__(self, other: RetryCondition) -> retry_all:
        return retry_all(*_parts(retry_all, self), other)

    def __rand__(self, other: RetryCondition) -> retry_all:
        return retry_all(other, self)


class retry_if_exception(_Condition):
    """Retries when `predicate(error)` is true.

    >>> retry_if_exception(lambda error: "busy" in str(error))(OSError("busy"))
    True
    """

    predicate: Callable[[Any], bool]

    def __init__(self, predicate: Callable[[Any], bool]) -> None:
        self._set(predicate=_function("retry_if_exception: predicate", predicate))

    def __call__(self, error: BaseException, /) -> bool:
        return bool(self.predicate(error))


class _ByType(_Condition):
    exception_types: tuple[type[BaseException], ...]

    def __init__(self, exception_types: ExceptionTypes = Exception) -> None:
        self._set(exception_types=_exception_types(type(self).__name__, exception_types))

    def __call__(self, error: BaseException, /) -> bool:
        return _is_a(error, self.exception_types)


class retry_if_exception_type(_ByType):
    """Retries errors of one of these types: a class or a tuple of them.

    >>> retry_if_exception_type((TimeoutError, ConnectionError))(ConnectionResetError())
    True
    """


class retry_if_not_exception_type(_ByType):
    """Retries errors of none of these types.

    >>> retry_if_not_exception_type(ValueError)(ValueError())
    False
    """

    def __call__(self, error: BaseException, /) -> bool:
        return not _is_a(error, self.exception_types)


class retry_unless_exception_type(retry_if_not_exception_type):
    """Retries until an error of one of these types comes: the same, as a success needs no retry either.

    >>> retry_unless_exception_type(ValueError)(KeyError())
    True
    """


class retry_if_exception_cause_type(_ByType):
    """Retries errors that were raised `from` one of these types, at any depth; the error itself does not count.

    >>> error = RuntimeError()
    >>> error.__cause__ = TimeoutError()
    >>> retry_if_exception_cause_type(TimeoutError)(error)
    True
    """

    def __call__(self, error: BaseException, /) -> bool:
        return any(_is_a(cause, self.exception_types) for cause in _causes(error))


class retry_if_exception_message(_Condition):
    """Retries errors whose text is `message`, or holds the pattern `match`; exactly one of both.

    `match` is found anywhere in the text: begin it with `^` where it has to stand in front.

    >>> retry_if_exception_message(match="50[23]")(OSError("HTTP 503"))
    True
    """

    bare = 0
    message: str | None
    match: re.Pattern[str] | None

    def __init__(self, message: str | None = None, match: str | re.Pattern[str] | None = None) -> None:
        name = type(self).__name__
        if (message is None) == (match is None):
            raise TypeError(f"{name} takes either message= (the whole text) or match= (a pattern in it), exactly one.")
        self._set(message=_text(name, message), match=_pattern(name, match))

    def __call__(self, error: BaseException, /) -> bool:
        return str(error) == self.message if self.match is None else self.match.search(str(error)) is not None


class retry_if_not_exception_message(retry_if_exception_message):
    """Retries errors whose text is not `message`, or does not hold the pattern `match`; exactly one of both.

    >>> retry_if_not_exception_message("out of credit")(OSError("out of credit"))
    False
    """

    def __call__(self, error: BaseException, /) -> bool:
        return not super().__call__(error)


class _Conditions(_Condition):
    retries: tuple[RetryCondition, ...]

    def __init__(self, *retries: RetryCondition) -> None:
        self._set(retries=tuple(_checked(_Condition, each) for each in retries))


class retry_any(_Conditions):
    """Retries when one of these conditions does; `a | b`. Without any: never.

    >>> retry_if_exception_type(OSError) | retry_if_exception_message("busy")
    retry_any(retry_if_exception_type(OSError), retry_if_exception_message(message='busy'))
    """

    def __call__(self, error: BaseException, /) -> bool:
        return any(retry(error) for retry in self.retries)


class retry_all(_Conditions):
    """Retries when all of these conditions do; `a & b`. Without any: always.

    >>> (retry_if_exception_type(OSError) & retry_if_exception_message("busy"))(OSError("gone"))
    False
    """

    def __call__(self, error: BaseException, /) -> bool:
        return all(retry(error) for retry in self.retries)


class retry_always(_Condition):
    """Retries every error."""

    def __call__(self, error: BaseException, /) -> bool:
        return True


class retry_never(_Condition):
    """Retries no error."""

    def __call__(self, error: BaseException, /) -> bool:
        return False


# ----------------------------------------------------------------------------------------------------------- waits


class _Wait(_Value, ABC):
    noun = "a wait"
    #: No wait is longer, in seconds, jitter included (R3.30); `inf` where nothing limits it.
    limit_s: float

    @abstractmethod
    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        """Seconds, finite and in [0, limit_s].

        Args:
            attempts: 0 after the first failure.
            seed: What is random is drawn from `Random(seed)`; without a seed, from the system.
            error: What failed; only `wait_from` looks at it.
        """

    def __add__(self, other: WaitStrategy) -> wait_combine:
        left = self.strategies if isinstance(self, wait_combine) and self.max == math.inf else (self,)
        return wait_combine(*left, other)

    def __radd__(self, other: int | WaitStrategy) -> Self | wait_combine:
        if isinstance(other, int) and other == 0:  # where sum() begins
            return self
        return wait_combine(other, self)  # type: ignore[arg-type]  # it says in words what else cannot be added


class wait_none(_Wait):
    """No wait: tries again at once.

    >>> wait_none()(0)
    0.0
    """

    limit_s = 0.0

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return 0.0


class wait_fixed(_Wait):
    """The same wait each time, in seconds.

    >>> wait_fixed(timedelta(minutes=1))
    wait_fixed(60)
    """

    wait: float

    def __init__(self, wait: Seconds) -> None:
        seconds = _seconds("wait_fixed: wait", wait)
        self._set(wait=seconds, limit_s=seconds)

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return self.wait


class _Exponential(_Wait):
    multiplier: float
    exp_base: float
    max: float
    min: float

    def __init__(self, multiplier: float = 1.0, exp_base: float = 2.0, max: Seconds = 60.0, min: Seconds = 0.0) -> None:
        name = type(self).__name__
        least, most = _range(name, min, max, endless=True)
        self._set(
            multiplier=_number(f"{name}: multiplier", multiplier),
            exp_base=_number(f"{name}: exp_base", exp_base),
            max=most,
            min=least,
            limit_s=most,
        )

    def _ceiling(self, attempts: int) -> float:
        return max(self.min, _grown(self.multiplier, self.exp_base, attempts, self.max))


class wait_exponential(_Exponential):
    """`multiplier * exp_base ** n` seconds after failure n + 1, in [`min`, `max`].

    >>> [wait_exponential(0.2)(n) for n in range(4)]
    [0.2, 0.4, 0.8, 1.6]
    """

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return self._ceiling(attempts)


class wait_random_exponential(_Exponential):
    """Anything from `min` to what `wait_exponential` would wait, evenly: also called full jitter.

    >>> wait_random_exponential(10)(0, seed=5) <= 10
    True

    Source: M. Brooker, Exponential Backoff and Jitter, AWS Architecture Blog (2015).
    """

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return _drawn(self.min, self._ceiling(attempts), seed)


wait_full_jitter = wait_random_exponential


class wait_exponential_jitter(_Wait):
    """`initial * exp_base ** n` seconds plus up to `jitter` seconds, no longer than `max` together.

    >>> wait_exponential_jitter(max=3)(8, seed=5)
    3.0
    """

    initial: float
    exp_base: float
    max: float
    jitter: float

    def __init__(
        self, initial: Seconds = 1.0, exp_base: float = 2.0, max: Seconds = 60.0, jitter: Seconds = 1.0
    ) -> None:
        most = _seconds("wait_exponential_jitter: max", max, endless=True)
        self._set(
            initial=_seconds("wait_exponential_jitter: initial", initial),
            exp_base=_number("wait_exponential_jitter: exp_base", exp_base),
            max=most,
            limit_s=most,
            jitter=_seconds("wait_exponential_jitter: jitter", jitter),
        )

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        grown = _grown(self.initial, self.exp_base, attempts, self.max)
        return _limited(grown + _drawn(0.0, self.jitter, seed), self.max)


class wait_incrementing(_Wait):
    """`start + n * increment` seconds after failure n + 1, in [0, `max`]; `increment` may be negative.

    >>> [wait_incrementing(1, 5, max=10)(n) for n in range(4)]
    [1.0, 6.0, 10.0, 10.0]
    """

    start: float
    increment: float
    max: float

    def __init__(self, start: Seconds = 0.0, increment: Seconds = 100.0, max: Seconds = math.inf) -> None:
        first = _seconds("wait_incrementing: start", start)
        more = _seconds("wait_incrementing: increment", increment, signed=True)
        most = _seconds("wait_incrementing: max", max, endless=True)
        self._set(start=first, increment=more, max=most, limit_s=most if more > 0 or first > most else first)

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return max(0.0, _limited(self.start + attempts * self.increment, self.max))


class wait_random(_Wait):
    """Anything from `min` to `max` seconds, evenly.

    >>> 1 <= wait_random(1, 3)(0) <= 3
    True
    """

    bare = 2
    min: float
    max: float

    def __init__(self, min: Seconds = 0.0, max: Seconds = 1.0) -> None:
        least, most = _range("wait_random", min, max)
        self._set(min=least, max=most, limit_s=most)

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return _drawn(self.min, self.max, seed)


class wait_chain(_Wait):
    """One wait after the other; the last repeats. Each counts the failures of the whole chain.

    >>> [wait_chain(wait_fixed(1), wait_fixed(9))(n) for n in range(3)]
    [1.0, 9.0, 9.0]
    """

    strategies: tuple[WaitStrategy, ...]

    def __init__(self, *strategies: WaitStrategy) -> None:
        if not strategies:
            raise ValueError("wait_chain needs at least one wait; wait_none() is one.")
        waits = tuple(_checked(_Wait, each) for each in strategies)
        self._set(strategies=waits, limit_s=max(map(_limit_of, waits)))

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return _waited(self.strategies[min(attempts, len(self.strategies) - 1)], attempts, seed, error)


class wait_combine(_Wait):
    """The sum of these waits, no longer than `max` seconds; `a + b`, `sum([a, b, c])`.

    Without `max` the limit of a sum is the sum of its limits: `wait_exponential(max=60) + wait_random(0, 5)` may take
    65 seconds.

    >>> wait_fixed(3) + wait_random(0, 2)
    wait_combine(wait_fixed(3), wait_random(max=2))
    """

    strategies: tuple[WaitStrategy, ...]
    max: float

    def __init__(self, *strategies: WaitStrategy, max: Seconds = math.inf) -> None:
        most = _seconds("wait_combine: max", max, endless=True)
        waits = tuple(_checked(_Wait, each) for each in strategies)
        self._set(strategies=waits, max=most, limit_s=min(sum(map(_limit_of, waits), 0.0), most))

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return _limited(sum((_waited(each, attempts, seed, error) for each in self.strategies), 0.0), self.max)


class wait_from(_Wait):
    """As long as the error says, such as an HTTP answer's Retry-After, but no longer than `max` seconds.

    `fn(error)` gives seconds or a `timedelta`, or None where the error says nothing: then `otherwise` decides. A moment
    that is past (a negative wait) is now. To give up when it is asked to wait too long, add `stop_before_delay`.

    >>> polite = wait_from(lambda error: getattr(error, "retry_after", None), otherwise=wait_fixed(2))
    >>> polite(0, error=OSError())
    2.0
    """

    fn: Callable[[Any], Seconds | None]
    otherwise: WaitStrategy
    max: float

    def __init__(
        self,
        fn: Callable[[Any], Seconds | None],
        otherwise: WaitStrategy | None = None,
        *,
        max: Seconds = math.inf,
    ) -> None:
        most = _seconds("wait_from: max", max, endless=True)
        fallback = wait_fixed(5) if otherwise is None else _checked(_Wait, otherwise)
        self._set(fn=_function("wait_from: fn", fn), otherwise=fallback, max=most, limit_s=most)

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        told = None if error is None else self.fn(error)
        if told is None:
            return _limited(_waited(self.otherwise, attempts, seed, error), self.max)
        return _limited(max(0.0, _seconds("wait_from: what fn gave", told, signed=True)), self.max)


# ----------------------------------------------------------------------------------------------------------- stops


class _Stop(_Value, ABC):
    noun = "a stop"

    @abstractmethod
    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        """Whether it is over.

        Args:
            attempts: Failures so far, from 1.
            elapsed_time: Seconds since the first attempt began.
            upcoming_sleep: Seconds until the next attempt, if there is one.
        """

    def __or__(self, other: StopCondition) -> stop_any:
        return stop_any(*_parts(stop_any, self), other)

    def __ror__(self, other: StopCondition) -> stop_any:
        return stop_any(other, self)

    def __and__(self, other: StopCondition) -> stop_all:
        return stop_all(*_parts(stop_all, self), other)

    def __rand__(self, other: StopCondition) -> stop_all:
        return stop_all(other, self)


class stop_after_attempt(_Stop):
    """Gives up with failure number `max_attempt_number`: 3 are one attempt and two retries.

    >>> [stop_after_attempt(3)(n, 0.0) for n in (1, 2, 3)]
    [False, False, True]
    """

    max_attempt_number: int

    def __init__(self, max_attempt_number: int) -> None:
        self._set(max_attempt_number=_count("stop_after_attempt: max_attempt_number", max_attempt_number))

    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        return attempts >= self.max_attempt_number


class _ByDelay(_Stop):
    max_delay: float

    def __init__(self, max_delay: Seconds) -> None:
        self._set(max_delay=_seconds(f"{type(self).__name__}: max_delay", max_delay, endless=True))


class stop_after_delay(_ByDelay):
    """Gives up with the first failure `max_delay` seconds or more after the first attempt began.

    The wait before the last attempt may still begin just before, so that it ends later: see `stop_before_delay`.

    >>> stop_after_delay(60)(1, 60.0)
    True
    """

    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        return elapsed_time >= self.max_delay


class stop_before_delay(_ByDelay):
    """Gives up when the next attempt would begin `max_delay` seconds or more after the first.

    >>> stop_before_delay(60)(1, 50.0, upcoming_sleep=20.0)
    True
    """

    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        return elapsed_time + upcoming_sleep >= self.max_delay


class _Stops(_Stop):
    stops: tuple[StopCondition, ...]

    def __init__(self, *stops: StopCondition) -> None:
        self._set(stops=tuple(_checked(_Stop, each) for each in stops))


class stop_any(_Stops):
    """Gives up when one of these stops does; `a | b`. Without any: never.

    >>> stop_after_attempt(3) | stop_after_delay(60)
    stop_any(stop_after_attempt(3), stop_after_delay(60))
    """

    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        return any(stop(attempts, elapsed_time, upcoming_sleep=upcoming_sleep) for stop in self.stops)


class stop_all(_Stops):
    """Gives up when all of these stops do; `a & b`. Without any: at once.

    >>> (stop_after_attempt(3) & stop_after_delay(60))(3, 10.0)
    False
    """

    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        return all(stop(attempts, elapsed_time, upcoming_sleep=upcoming_sleep) for stop in self.stops)


class stop_never(_Stop):
    """Never gives up."""

    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        return False


# -------------------------------------------------------------------------------------------------------- policies


class retry_policy(_Value):
    """A policy of three parts; each may also be a function or object of one's own with the same call.

    Args:
        retry: Which errors are worth another attempt; all of them, if not given.
        wait: How long to wait before it; 5 seconds, if not given.
        stop: When to give up; with the third failure, if not given.

    Raises:
        TypeError: A part is none, or stands in another's place.

    >>> retry_policy()
    retry_policy(wait=wait_fixed(5), stop=stop_after_attempt(3))
    >>> retry_policy(wait=wait_exponential(0.2)).next(0.0, 2, TimeoutError())
    0.4
    """

    noun = "a retry policy"
    bare = 0
    #: No wait is longer, in seconds, jitter included (R3.30); `inf` where nothing limits it.
    limit_s: float
    retry: RetryCondition | None
    wait: WaitStrategy
    stop: StopCondition

    def __init__(
        self,
        retry: RetryCondition | None = None,
        wait: WaitStrategy | None = None,
        stop: StopCondition | None = None,
    ) -> None:
        between = wait_fixed(5) if wait is None else _checked(_Wait, wait)
        self._set(
            retry=None if retry is None else _checked(_Condition, retry),
            wait=between,
            stop=stop_after_attempt(3) if stop is None else _checked(_Stop, stop),
            limit_s=_limit_of(between),
        )

    def next(
        self, elapsed_time: float, attempts: int, error: BaseException, *, seed: int | None = None
    ) -> float | None:
        """Seconds until the next attempt, or None to give up; see `RetryPolicy.next`.

        Raises:
            ValueError: `attempts` is below 1.
        """
        if attempts < 1:
            raise ValueError(f"attempts counts failures from 1, got {attempts!r}.")
        if self.retry is not None and not self.retry(error):
            return None
        wait_s = _waited(self.wait, attempts - 1, seed, error)
        return None if self.stop(attempts, elapsed_time, upcoming_sleep=wait_s) else wait_s


#: A person's interrupt and a wish to exit are failures of the step, but none that another attempt could mend (R3.44).
_NEVER_RETRIED: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit)

#: Whether `next` of a policy class takes a seed. Weak: a notebook cell that is run again makes the class anew.
_seeded: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def call_policy(
    policy: AnyRetryPolicy, elapsed: float, attempts: int, error: BaseException, seed: int | None
) -> tuple[float | None, BaseException | None]:
    """What a policy says of a failure, whatever it does; raises nothing.

    Args:
        policy: Ours, or any object with `next`; `seed` is left out where its `next` does not take it.
        elapsed: Seconds since the first attempt began, without the time people took (R3.31).
        attempts: Failures so far, from 1.
        error: What the step raised. `KeyboardInterrupt` and `SystemExit` are never retried: the policy is not asked.
        seed: For everything random in the policy (R3.27).

    Returns:
        `(seconds, None)`: try again after them, finite and not negative. `(None, None)`: give up. `(None, error)`: give
        up, since the policy raised this (R3.32) or gave something that is no number of seconds.

    >>> call_policy(retry_policy(), 0.0, 1, TimeoutError(), None)
    (5.0, None)
    """
    if isinstance(error, _NEVER_RETRIED):
        return None, None
    try:
        if _takes_seed(policy):
            answer = policy.next(elapsed, attempts, error, seed=seed)
        else:
            answer = policy.next(elapsed, attempts, error)
        return None if answer is None else _delay_s(policy, answer), None
    except BaseException as raised:  # a condition may raise the step's own error again, and that may be any
        return None, raised


def _takes_seed(policy: AnyRetryPolicy) -> TypeGuard[RetryPolicy]:
    kind = type(policy)
    if "next" in getattr(policy, "__dict__", ()) or not any("next" in vars(base) for base in kind.__mro__):
        return _has_seed(policy.next)  # the object's own, a class's, or a proxy's: its type says nothing
    known = _seeded.get(kind)
    if known is None:
        known = _seeded[kind] = _has_seed(policy.next)
    return known


def _has_seed(function: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # compiled code that does not tell: it is asked in the plainest way
        return False
    named = parameters.get("seed")
    if named is not None and named.kind in (named.POSITIONAL_OR_KEYWORD, named.KEYWORD_ONLY):
        return True
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _delay_s(policy: object, answer: object) -> float:
    where = f"{type(policy).__name__}.next: what it gave"
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError(f"{where} is a coroutine; a policy is asked while nothing can be awaited: write it with `def`.")
    return max(0.0, _number(where, answer, signed=True))  # a moment that is past is now


# ------------------------------------------------------------------------------------------------ arithmetic, checks


def _grown(first: float, base: float, exponent: int, limit: float) -> float:
    """`first * base ** exponent`, no more than `limit`, finite however often something failed."""
    try:
        return _limited(first * base**exponent, limit)
    except OverflowError:  # Python's floats raise it from ** (not from *)
        return _limited(math.inf if first else 0.0, limit)


def _limited(value: float, limit: float) -> float:
    """A wait without a limit stays finite all the same: no timer fires at infinity."""
    return min(value, limit, sys.float_info.max)


def _drawn(low: float, high: float, seed: int | None) -> float:
    return Random(seed).uniform(low, high)  # never past `high`: what rounding adds is less than random() lacks to 1


def _waited(wait: WaitStrategy, attempts: int, seed: int | None, error: BaseException | None) -> float:
    # All random parts of a sum draw from the same seed, so they rise and fall together; the bounds are the same.
    if isinstance(wait, _Wait):
        return wait(attempts, seed=seed, error=error)
    return _number(f"{_shown(wait)}: what it gave", wait(attempts, seed=seed))


def _limit_of(wait: WaitStrategy) -> float:
    return wait.limit_s if isinstance(wait, _Wait) else math.inf


def _is_a(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Like `isinstance`, also for a class of a notebook's that was made anew: by running its cell again, or by
    carrying it to another process. Such a class lives in `__main__` and is known by its name."""
    if isinstance(error, kinds):
        return True
    names = {kind.__qualname__ for kind in kinds if _is_of_a_cell(kind)}
    return bool(names) and any(base.__qualname__ in names and _is_of_a_cell(base) for base in type(error).__mro__)


def _is_of_a_cell(kind: type) -> bool:
    # Two calls of one function make two classes of one name that are meant to differ.
    return kind.__module__ == "__main__" and "<locals>" not in kind.__qualname__


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}  # a chain may be tied to a ring by hand
    cause = error.__cause__
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__


def _parts(kind: type[Any], left: Any) -> tuple[Any, ...]:
    """So that `a | b | c` is one `any` of three, not two of two."""
    if type(left) is not kind:
        return (left,)
    parts: tuple[Any, ...] = left.retries if isinstance(left, _Conditions) else left.stops
    return parts


def _checked(family: type[_Value], given: Any) -> Any:
    """`given` itself, if it can be one of `family`: one of ours, or any function or object that can be called."""
    noun = family.noun
    if isinstance(given, family):
        return given
    if isinstance(given, _Value):
        raise TypeError(f"{given!r} is {given.noun}, not {noun}.")
    if isinstance(given, type):
        name = given.__name__
        mend = f"retry_if_exception_type({name})" if issubclass(given, BaseException) else f"{name}(...)"
        raise TypeError(f"{name} is a class, not {noun}. Write {mend}.")
    if not callable(given):
        mends = {_Wait: "wait_fixed({})", _Stop: "stop_after_attempt({})"}
        mend = f" Write {mends[family].format(repr(given))}." if isinstance(given, Real) and family in mends else ""
        raise TypeError(f"{given!r} is not {noun}.{mend}")
    return _function(noun, given)


def _function(where: str, given: Any) -> Any:
    if not callable(given):
        raise TypeError(f"{where} is {given!r}; give a function.")
    if inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(getattr(given, "__call__", None)):  # noqa: B004
        raise TypeError(f"{where} is {_shown(given)}, which is async; it is called, not awaited: write it with `def`.")
    return given


def _exception_types(name: str, given: Any) -> tuple[type[BaseException], ...]:
    kinds: tuple[Any, ...] = cast(Any, given) if isinstance(given, tuple) else (given,)
    if not kinds:
        raise ValueError(f"{name}: exception_types is empty; name at least one exception class.")
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"{name}: {kind!r} is no exception class; give one or a tuple of them.")
    return kinds


def _text(name: str, given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given
    raise TypeError(f"{name}: message is {given!r}; give the text, or a pattern as match=.")


def _pattern(name: str, given: Any) -> re.Pattern[str] | None:
    if given is None:
        return None
    if not isinstance(getattr(given, "pattern", given), str):
        raise TypeError(f"{name}: match is {given!r}; give a pattern of text.")
    try:
        return re.compile(given)
    except re.error as error:
        raise ValueError(f"{name}: match={given!r} is no regular expression: {error}.") from error


def _count(where: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise TypeError(f"{where} is {given!r}; give a whole number.")
    if int(given) < 1:
        raise ValueError(f"{where} counts from 1, got {given!r}.")
    return int(given)


def _range(name: str, least: Seconds, most: Seconds, *, endless: bool = False) -> tuple[float, float]:
    low, high = _seconds(f"{name}: min", least), _seconds(f"{name}: max", most, endless=endless)
    if low > high:
        raise ValueError(f"{name}: min={_shown(low)} is more than max={_shown(high)}.")
    return low, high


def _seconds(where: str, given: Any, *, signed: bool = False, endless: bool = False) -> float:
    if isinstance(given, timedelta):
        given = given.total_seconds()
    return _number(where, given, "a number of seconds or a timedelta", signed=signed, endless=endless)


def _number(where: str, given: Any, wanted: str = "a number", *, signed: bool = False, endless: bool = False) -> float:
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"{where} is {given!r}; give {wanted}.")
    try:
        number = float(given)
    except OverflowError:
        number = math.inf
    if math.isnan(number) or (math.isinf(number) and not (endless and number > 0)):
        raise ValueError(f"{where} is {given!r}; give a finite number.")
    if number < 0 and not signed:
        raise ValueError(f"{where} is {given!r}; it cannot be negative.")
    return number


def _shown(value: Any) -> str:
    """As one would write it: whole seconds without a point, classes and functions by their names."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return repr(int(value))
    if isinstance(value, tuple):
        shown = [_shown(each) for each in cast("tuple[object, ...]", value)]
        return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
    if isinstance(value, re.Pattern):
        pattern = cast("re.Pattern[str]", value)
        return repr(pattern.pattern if pattern.flags == re.UNICODE else pattern)  # the flag all text has
    if isinstance(value, type) or inspect.isroutine(value):
        return getattr(value, "__qualname__", repr(value))
    return repr(value)
