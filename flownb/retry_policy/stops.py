"""When to give up."""

from __future__ import annotations

from abc import ABC, abstractmethod

from flownb.retry_policy.checks import count_of, seconds_of
from flownb.retry_policy.protocols import Seconds, StopCondition
from flownb.retry_policy.values import Value, checked, flat


class Stop(Value, ABC):
    noun = "a stop"
    of_number = "stop_after_attempt"

    @abstractmethod
    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        """Whether it is over.

        Args:
            attempts: Failures so far, from 1.
            elapsed_time: Seconds since the first attempt began.
            upcoming_sleep: Seconds until the next attempt, if there is one.
        """

    def __or__(self, other: StopCondition) -> stop_any:
        return stop_any(*flat(stop_any, self), other)

    def __ror__(self, other: StopCondition) -> stop_any:
        return stop_any(other, self)

    def __and__(self, other: StopCondition) -> stop_all:
        return stop_all(*flat(stop_all, self), other)

    def __rand__(self, other: StopCondition) -> stop_all:
        return stop_all(other, self)


class stop_after_attempt(Stop):
    """Gives up with failure number `max_attempt_number`: 3 are one attempt and two retries.

    >>> [stop_after_attempt(3)(n, 0.0) for n in (1, 2, 3)]
    [False, False, True]
    """

    max_attempt_number: int

    def __init__(self, max_attempt_number: int) -> None:
        self._set(max_attempt_number=count_of("stop_after_attempt: max_attempt_number", max_attempt_number))

    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        return attempts >= self.max_attempt_number


class _ByDelay(Stop):
    max_delay: float

    def __init__(self, max_delay: Seconds) -> None:
        self._set(max_delay=seconds_of(f"{type(self).__name__}: max_delay", max_delay, endless=True))


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


class _Stops(Stop):
    stops: tuple[StopCondition, ...]

    @property
    def parts(self) -> tuple[StopCondition, ...]:
        return self.stops

    def __init__(self, *stops: StopCondition) -> None:
        self._set(stops=tuple(checked(Stop, each) for each in stops))


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


class stop_never(Stop):
    """Never gives up."""

    def __call__(self, attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        return False
