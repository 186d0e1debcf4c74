"""What a user may write himself: any object with these signatures takes part. And what an attempt knows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias, runtime_checkable

Seconds: TypeAlias = float | timedelta
ExceptionTypes: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]


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
