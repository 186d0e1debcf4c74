"""How long to wait before the next attempt."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any, Self

from flownb.retry_policy.checks import as_written, function_of, number_of, seconds_of
from flownb.retry_policy.protocols import Seconds, WaitStrategy
from flownb.retry_policy.values import Value, checked


class Wait(Value, ABC):
    noun = "a wait"
    of_number = "wait_fixed"
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


class wait_none(Wait):
    """No wait: tries again at once.

    >>> wait_none()(0)
    0.0
    """

    limit_s = 0.0

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return 0.0


class wait_fixed(Wait):
    """The same wait each time, in seconds.

    >>> from datetime import timedelta
    >>> wait_fixed(timedelta(minutes=1))
    wait_fixed(60)
    """

    wait: float

    def __init__(self, wait: Seconds) -> None:
        seconds = seconds_of("wait_fixed: wait", wait)
        self._set(wait=seconds, limit_s=seconds)

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return self.wait


class _Exponential(Wait):
    multiplier: float
    exp_base: float
    max: float
    min: float

    def __init__(self, multiplier: float = 1.0, exp_base: float = 2.0, max: Seconds = 60.0, min: Seconds = 0.0) -> None:
        name = type(self).__name__
        least, most = _range(name, min, max, endless=True)
        self._set(
            multiplier=number_of(f"{name}: multiplier", multiplier),
            exp_base=number_of(f"{name}: exp_base", exp_base),
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


class wait_exponential_jitter(Wait):
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
        most = seconds_of("wait_exponential_jitter: max", max, endless=True)
        self._set(
            initial=seconds_of("wait_exponential_jitter: initial", initial),
            exp_base=number_of("wait_exponential_jitter: exp_base", exp_base),
            max=most,
            limit_s=most,
            jitter=seconds_of("wait_exponential_jitter: jitter", jitter),
        )

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        grown = _grown(self.initial, self.exp_base, attempts, self.max)
        return _limited(grown + _drawn(0.0, self.jitter, seed), self.max)


class wait_incrementing(Wait):
    """`start + n * increment` seconds after failure n + 1, in [0, `max`]; `increment` may be negative.

    >>> [wait_incrementing(1, 5, max=10)(n) for n in range(4)]
    [1.0, 6.0, 10.0, 10.0]
    """

    start: float
    increment: float
    max: float

    def __init__(self, start: Seconds = 0.0, increment: Seconds = 100.0, max: Seconds = math.inf) -> None:
        first = seconds_of("wait_incrementing: start", start)
        more = seconds_of("wait_incrementing: increment", increment, signed=True)
        most = seconds_of("wait_incrementing: max", max, endless=True)
        self._set(start=first, increment=more, max=most, limit_s=most if more > 0 or first > most else first)

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return max(0.0, _limited(self.start + attempts * self.increment, self.max))


class wait_random(Wait):
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


class wait_chain(Wait):
    """One wait after the other; the last repeats. Each counts the failures of the whole chain.

    >>> [wait_chain(wait_fixed(1), wait_fixed(9))(n) for n in range(3)]
    [1.0, 9.0, 9.0]
    """

    strategies: tuple[WaitStrategy, ...]

    def __init__(self, *strategies: WaitStrategy) -> None:
        if not strategies:
            raise ValueError("wait_chain needs at least one wait; wait_none() is one.")
        waits = tuple(checked(Wait, each) for each in strategies)
        self._set(strategies=waits, limit_s=max(map(limit_of, waits)))

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return waited(self.strategies[min(attempts, len(self.strategies) - 1)], attempts, seed, error)


class wait_combine(Wait):
    """The sum of these waits, no longer than `max` seconds; `a + b`, `sum([a, b, c])`.

    Without `max` the limit of a sum is the sum of its limits: `wait_exponential(max=60) + wait_random(0, 5)` may take
    65 seconds.

    >>> wait_fixed(3) + wait_random(0, 2)
    wait_combine(wait_fixed(3), wait_random(max=2))
    """

    strategies: tuple[WaitStrategy, ...]
    max: float

    def __init__(self, *strategies: WaitStrategy, max: Seconds = math.inf) -> None:
        most = seconds_of("wait_combine: max", max, endless=True)
        waits = tuple(checked(Wait, each) for each in strategies)
        self._set(strategies=waits, max=most, limit_s=min(sum(map(limit_of, waits), 0.0), most))

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        return _limited(sum((waited(each, attempts, seed, error) for each in self.strategies), 0.0), self.max)


class wait_from(Wait):
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
        most = seconds_of("wait_from: max", max, endless=True)
        fallback = wait_fixed(5) if otherwise is None else checked(Wait, otherwise)
        self._set(fn=function_of("wait_from: fn", fn), otherwise=fallback, max=most, limit_s=most)

    def __call__(self, attempts: int, *, seed: int | None = None, error: BaseException | None = None) -> float:
        told = None if error is None else self.fn(error)
        if told is None:
            return _limited(waited(self.otherwise, attempts, seed, error), self.max)
        return _limited(max(0.0, seconds_of("wait_from: what fn gave", told, signed=True)), self.max)


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


def waited(wait: WaitStrategy, attempts: int, seed: int | None, error: BaseException | None) -> float:
    # All random parts of a sum draw from the same seed, so they rise and fall together; the bounds are the same.
    if isinstance(wait, Wait):
        return wait(attempts, seed=seed, error=error)
    return number_of(f"{as_written(wait)}: what it gave", wait(attempts, seed=seed))


def limit_of(wait: WaitStrategy) -> float:
    return wait.limit_s if isinstance(wait, Wait) else math.inf


def _range(name: str, least: Seconds, most: Seconds, *, endless: bool = False) -> tuple[float, float]:
    low, high = seconds_of(f"{name}: min", least), seconds_of(f"{name}: max", most, endless=endless)
    if low > high:
        raise ValueError(f"{name}: min={as_written(low)} is more than max={as_written(high)}.")
    return low, high
