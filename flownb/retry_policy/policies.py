"""A policy of three parts, and how any policy is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeGuard
from weakref import WeakKeyDictionary

from flownb.retry_policy.checks import number_of
from flownb.retry_policy.conditions import Condition
from flownb.retry_policy.protocols import AnyRetryPolicy, RetryCondition, RetryPolicy, StopCondition, WaitStrategy
from flownb.retry_policy.stops import Stop, stop_after_attempt
from flownb.retry_policy.values import Value, checked
from flownb.retry_policy.waits import Wait, limit_of, wait_fixed, waited


class retry_policy(Value):
    """A policy of three parts; each may also be a function or object of one's own with the same call.

    Args:
        retry: Which errors are worth another attempt; all of them, if not given.
        wait: How long to wait before it; 5 seconds, if not given.
        stop: When to give up; with the third failure, if not given.

    Raises:
        TypeError: A part is none, or stands in another's place.

    >>> retry_policy()
    retry_policy(wait=wait_fixed(5), stop=stop_after_attempt(3))
    >>> from flownb.retry_policy import wait_exponential
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
        between = wait_fixed(5) if wait is None else checked(Wait, wait)
        self._set(
            retry=None if retry is None else checked(Condition, retry),
            wait=between,
            stop=stop_after_attempt(3) if stop is None else checked(Stop, stop),
            limit_s=limit_of(between),
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
        wait_s = waited(self.wait, attempts - 1, seed, error)
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
    return max(0.0, number_of(where, answer, signed=True))  # a moment that is past is now
