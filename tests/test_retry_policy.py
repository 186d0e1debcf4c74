"""Retry policies: what composes, how long a wait gets, and what a policy of anybody's makes of a failure."""

import copy
import dataclasses
import datetime as dt
import gc
import inspect
import math
import pickle
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flownb import retry_policy as rp
from flownb.retry_policy import (
    RetryInfo,
    RetryPolicy,
    call_policy,
    retry_all,
    retry_always,
    retry_any,
    retry_if_exception,
    retry_if_exception_cause_type,
    retry_if_exception_message,
    retry_if_exception_type,
    retry_if_not_exception_message,
    retry_if_not_exception_type,
    retry_never,
    retry_policy,
    retry_unless_exception_type,
    stop_after_attempt,
    stop_after_delay,
    stop_all,
    stop_any,
    stop_before_delay,
    stop_never,
    wait_chain,
    wait_combine,
    wait_exponential,
    wait_exponential_jitter,
    wait_fixed,
    wait_from,
    wait_full_jitter,
    wait_incrementing,
    wait_none,
    wait_random,
    wait_random_exponential,
)

BUSY = OSError("busy")


class TooMany(Exception):
    """An HTTP answer that says when to come back."""

    def __init__(self, retry_after: Any) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


def is_busy(error: BaseException) -> bool:
    return "busy" in str(error)


def told(error: TooMany) -> Any:
    return error.retry_after


def delays(policy: RetryPolicy, failures: int, error: BaseException = BUSY, seed: int | None = None) -> list[Any]:
    """What the policy says to failure 1, 2, ... of a step that fails at once."""
    return [policy.next(0.0, n, error, seed=seed) for n in range(1, failures + 1)]


# ---------------------------------------------------------------------------------------------------------- a policy


def test_a_bare_policy_tries_three_times_five_seconds_apart():
    """R3.24, R3.25: asked for without words, it retries every error; failures count from 1."""
    assert delays(retry_policy(), 4) == [5.0, 5.0, None, None]


def test_r3_25_conditions_waits_and_stops_compose():
    """R3.25: each part decides for itself, and the policy retries while all of them agree."""
    policy = retry_policy(
        retry=retry_if_exception_type(OSError) & retry_if_exception_message(match="busy"),
        wait=wait_exponential(0.5) + wait_fixed(1),
        stop=stop_after_attempt(5) | stop_after_delay(60),
    )

    assert delays(policy, 5) == [1.5, 2.0, 3.0, 5.0, None]
    assert policy.next(0.0, 1, KeyError("busy")) is None
    assert policy.next(0.0, 1, OSError("gone")) is None
    assert policy.next(60.0, 1, BUSY) is None


def test_functions_of_ones_own_take_part():
    """Whatever has the call of a condition, a wait or a stop is one, and composes with ours from either side."""

    def pause(attempts: int, *, seed: int | None = None) -> float:
        return attempts + 0.5

    def enough(attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        return elapsed_time + upcoming_sleep > 10

    policy = retry_policy(
        retry=is_busy & retry_always(), wait=pause + wait_fixed(1), stop=enough | stop_after_attempt(3)
    )

    assert delays(policy, 3) == [1.5, 2.5, None]
    assert policy.next(9.0, 1, BUSY) is None
    assert policy.next(0.0, 1, OSError("gone")) is None
    assert delays(retry_policy(retry=is_busy, wait=wait_none() + pause, stop=stop_never() & enough), 2) == [0.5, 1.5]


def test_attempts_count_from_1():
    with pytest.raises(ValueError, match="counts failures from 1, got 0"):
        retry_policy().next(0.0, 0, BUSY)


def test_a_policy_is_one_of_the_protocol():
    assert isinstance(retry_policy(), RetryPolicy)
    assert not isinstance(stop_after_attempt(3), RetryPolicy)


def test_retry_info_of_a_first_attempt_says_nothing_of_others():
    """L: `retry_number` counts from 0; the value is frozen."""
    info = RetryInfo()

    assert info == RetryInfo(retry_number=0, elapsed_seconds=0.0, last_exception=None, last_failed_at=None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.retry_number = 1  # type: ignore[misc]
    later = RetryInfo(1, 2.5, BUSY, dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
    assert (later.retry_number, later.elapsed_seconds, later.last_exception) == (1, 2.5, BUSY)


# -------------------------------------------------------------------------------------------------------- conditions


def caused(error: BaseException, by: BaseException | None) -> BaseException:
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    ("condition", "error", "retried"),
    [
        (retry_if_exception(is_busy), BUSY, True),
        (retry_if_exception(is_busy), OSError("gone"), False),
        (retry_if_exception(lambda error: error.args), BUSY, True),
        (retry_if_exception_type(), BUSY, True),
        (retry_if_exception_type(), KeyboardInterrupt(), False),
        (retry_if_exception_type(OSError), ConnectionError(), True),
        (retry_if_exception_type((KeyError, OSError)), BUSY, True),
        (retry_if_exception_type((KeyError, OSError)), ValueError(), False),
        (retry_if_not_exception_type(OSError), ConnectionError(), False),
        (retry_if_not_exception_type((KeyError, OSError)), ValueError(), True),
        (retry_unless_exception_type(OSError), BUSY, False),
        (retry_unless_exception_type(OSError), ValueError(), True),
        (retry_if_exception_message("busy"), BUSY, True),
        (retry_if_exception_message("bus"), BUSY, False),
        (retry_if_exception_message(""), OSError(), True),
        (retry_if_exception_message(match="us"), BUSY, True),
        (retry_if_exception_message(match="^us"), BUSY, False),
        (retry_if_exception_message(match=re.compile("BUSY", re.IGNORECASE)), BUSY, True),
        (retry_if_not_exception_message("busy"), BUSY, False),
        (retry_if_not_exception_message(match="gone"), BUSY, True),
        (retry_if_exception_cause_type(KeyError), KeyError(), False),
        (retry_if_exception_cause_type(KeyError), caused(OSError(), KeyError()), True),
        (retry_if_exception_cause_type(KeyError), caused(OSError(), caused(ValueError(), KeyError())), True),
        (retry_if_exception_cause_type((KeyError, OSError)), caused(ValueError(), ValueError()), False),
        (retry_any(retry_never(), retry_always()), BUSY, True),
        (retry_any(retry_never(), retry_never()), BUSY, False),
        (retry_any(), BUSY, False),
        (retry_all(retry_always(), retry_always()), BUSY, True),
        (retry_all(retry_never(), retry_always()), BUSY, False),
        (retry_all(), BUSY, True),
        (retry_always(), KeyboardInterrupt(), True),
        (retry_never(), BUSY, False),
    ],
    ids=repr,
)
def test_a_condition_chooses_errors(condition: Any, error: BaseException, retried: bool):
    assert condition(error) is retried
    assert (retry_policy(retry=condition).next(0.0, 1, error) is not None) is retried


def test_a_context_is_no_cause_and_a_ring_of_causes_ends():
    """`retry_if_exception_cause_type` follows `raise ... from` alone."""
    try:
        try:
            raise KeyError
        except KeyError:
            raise OSError  # noqa: B904
    except OSError as error:
        assert not retry_if_exception_cause_type(KeyError)(error)

    first, second = OSError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert not retry_if_exception_cause_type(KeyError)(first)
    assert not retry_if_exception_cause_type(OSError)(first)


def cell(name: str, module: str = "__main__", base: type = Exception) -> type[Exception]:
    """An exception class as one that a cell of a notebook makes."""
    return type(name, (base,), {"__module__": module})


def test_a_class_that_a_cell_made_anew_is_still_that_class():
    """A notebook's cell that is run again makes a new class of the old name; a policy of before goes on to know it."""
    before, after = cell("Flaky"), cell("Flaky")
    child = cell("Worse", base=after)

    assert retry_if_exception_type(before)(after())
    assert retry_if_exception_type(before)(child())
    assert not retry_if_not_exception_type(before)(after())
    assert retry_if_exception_cause_type(before)(caused(OSError(), after()))
    assert not retry_if_exception_type(before)(cell("Other")())


def test_two_classes_of_one_name_stay_two_outside_of_cells():
    """Only `__main__` makes classes anew: two modules, or two calls of a function, mean two classes."""
    assert not retry_if_exception_type(cell("Flaky", "a"))(cell("Flaky", "b")())
    assert not retry_if_exception_type(cell("Flaky", "a"))(cell("Flaky", "a")())
    local, other = cell("Flaky"), cell("Flaky")
    local.__qualname__ = other.__qualname__ = "make.<locals>.Flaky"
    assert not retry_if_exception_type(local)(other())


def test_conditions_join_from_the_left():
    """`a | b | c` is one of three; `&` binds closer than `|`."""
    a, b, c = retry_if_exception_type(KeyError), retry_if_exception_type(OSError), retry_if_exception(is_busy)

    assert (a | b) | c == retry_any(a, b, c)
    assert (a & b) & c == retry_all(a, b, c)
    assert a | b & c == retry_any(a, retry_all(b, c))
    assert (a | b) & c == retry_all(retry_any(a, b), c)
    assert is_busy | a == retry_any(is_busy, a)
    assert is_busy & a == retry_all(is_busy, a)


# ------------------------------------------------------------------------------------------------------------- waits


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (wait_none(), [0.0, 0.0, 0.0, 0.0]),
        (wait_fixed(2), [2.0, 2.0, 2.0, 2.0]),
        (wait_fixed(timedelta(minutes=1)), [60.0, 60.0, 60.0, 60.0]),
        (wait_exponential(), [1.0, 2.0, 4.0, 8.0]),
        (wait_exponential(0.2), [0.2, 0.4, 0.8, 1.6]),
        (wait_exponential(2, exp_base=3, max=20, min=3), [3.0, 6.0, 18.0, 20.0]),
        (wait_exponential(0), [0.0, 0.0, 0.0, 0.0]),
        (wait_incrementing(1, 2), [1.0, 3.0, 5.0, 7.0]),
        (wait_incrementing(), [0.0, 100.0, 200.0, 300.0]),
        (wait_incrementing(5, -2), [5.0, 3.0, 1.0, 0.0]),
        (wait_incrementing(1, timedelta(seconds=4), max=6), [1.0, 5.0, 6.0, 6.0]),
        (wait_exponential_jitter(jitter=0, max=5), [1.0, 2.0, 4.0, 5.0]),
        (wait_random(2, 2), [2.0, 2.0, 2.0, 2.0]),
        (wait_chain(wait_fixed(1), wait_fixed(9)), [1.0, 9.0, 9.0, 9.0]),
        (wait_chain(wait_fixed(7), wait_exponential()), [7.0, 2.0, 4.0, 8.0]),
        (wait_combine(), [0.0, 0.0, 0.0, 0.0]),
        (wait_fixed(3) + wait_exponential(), [4.0, 5.0, 7.0, 11.0]),
        (wait_combine(wait_fixed(3), wait_exponential(), max=6), [4.0, 5.0, 6.0, 6.0]),
        (sum([wait_fixed(1), wait_fixed(2), wait_fixed(3)]), [6.0, 6.0, 6.0, 6.0]),
    ],
    ids=repr,
)
def test_a_wait_without_chance(wait: Any, expected: list[float]):
    """R3.25: the first wait is the one after the first failure."""
    assert delays(retry_policy(wait=wait, stop=stop_never()), 4) == expected
    assert all(type(delay) is float for delay in delays(retry_policy(wait=wait, stop=stop_never()), 4))


def test_a_seeded_wait_is_drawn_from_its_seed():
    """R3.27: `Random(seed)` decides, nothing else does."""
    draw = Random(5).random()

    assert wait_random(1, 3)(0, seed=5) == 1 + 2 * draw
    assert wait_random_exponential(2)(2, seed=5) == 8 * draw
    assert wait_random_exponential(2, min=4)(2, seed=5) == 4 + 4 * draw
    assert wait_exponential_jitter(2, jitter=3)(1, seed=5) == 4 + 3 * draw
    assert wait_random()(0, seed=5) != wait_random()(0, seed=6)


def test_c019_items_that_fail_together_do_not_retry_in_lockstep():
    """C019: twenty seeds, twenty waits, all of them within bounds and the same when asked again."""
    policy = retry_policy(wait=wait_exponential_jitter(1, max=10))

    waits = [policy.next(0.0, 1, BUSY, seed=seed) for seed in range(20)]

    assert len(set(waits)) == 20
    assert all(wait is not None and 1 <= wait <= 2 for wait in waits)
    assert waits == [policy.next(0.0, 1, BUSY, seed=seed) for seed in range(20)]


def test_without_a_seed_a_wait_differs_each_time():
    assert len({wait_random()(0) for _ in range(20)}) > 1


def test_full_jitter_has_two_names():
    assert wait_full_jitter is wait_random_exponential


some_s = st.one_of(st.floats(0, 1e6), st.integers(0, 10**6), st.timedeltas(timedelta(0), timedelta(days=1)))
factors = st.floats(0, 100)
#: Limits far below what their waits would grow to, and some that are none.
limits = st.one_of(st.floats(0, 100), st.just(math.inf))
single_waits = st.one_of(
    st.just(wait_none()),
    st.builds(wait_fixed, some_s),
    st.builds(lambda m, b, least, more: wait_exponential(m, b, least + more, least), factors, factors, factors, limits),
    st.builds(
        lambda m, b, least, more: wait_random_exponential(m, b, least + more, least), factors, factors, factors, limits
    ),
    st.builds(wait_exponential_jitter, some_s, factors, limits, some_s),
    st.builds(wait_incrementing, some_s, st.floats(-1e6, 1e6), limits),
    st.builds(lambda least, more: wait_random(least, least + more), st.floats(0, 1e6), st.floats(0, 1e6)),
)
waits = st.recursive(
    single_waits,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(lambda parts: wait_chain(*parts)),
        st.builds(lambda parts, limit: wait_combine(*parts, max=limit), st.lists(inner, max_size=4), limits),
        st.builds(
            lambda otherwise, limit: wait_from(told, otherwise, max=limit),
            inner,
            limits,
        ),
    ),
    max_leaves=6,
)
seeds = st.one_of(st.integers(0, 2**256 - 1), st.none())
asked_for = st.one_of(st.none(), st.floats(-1e9, 1e9), st.timedeltas(timedelta(-9), timedelta(9)))


@given(wait=waits, attempts=st.integers(1, 10_000), seed=seeds, retry_after=asked_for)
def test_r3_30_no_wait_is_longer_than_its_limit(wait: Any, attempts: int, seed: int | None, retry_after: Any):
    """R3.30: jitter, sums and what an error asks for included; never negative, never infinite, however late."""
    policy = retry_policy(wait=wait, stop=stop_never())

    delay, raised = call_policy(policy, 0.0, attempts, TooMany(retry_after), seed)

    assert raised is None and delay is not None
    assert 0.0 <= delay <= policy.limit_s
    assert math.isfinite(delay)


@given(wait=waits, attempts=st.integers(1, 1000), seed=st.integers(0, 2**256 - 1), retry_after=asked_for)
def test_r3_27_the_same_seed_gives_the_same_wait(wait: Any, attempts: int, seed: int, retry_after: Any):
    """R3.27: also in a copy that went through a pickle, as to another process."""
    policy = retry_policy(wait=wait, stop=stop_never())
    there = pickle.loads(pickle.dumps(policy))

    assert there == policy and hash(there) == hash(policy) and repr(there) == repr(policy)
    assert policy.next(0.0, attempts, TooMany(retry_after), seed=seed) == there.next(
        0.0, attempts, TooMany(retry_after), seed=seed
    )


@given(least=st.floats(0, 1e300), more=st.floats(0, 1e300), seed=seeds)
def test_r3_30_rounding_carries_no_draw_over_its_end(least: float, more: float, seed: int | None):
    """R3.30, to the last bit."""
    wait = wait_random(least, least + more)

    assert least <= wait(0, seed=seed) <= wait.max


@pytest.mark.parametrize(
    ("wait", "limit_s"),
    [
        (wait_none(), 0.0),
        (wait_fixed(5), 5.0),
        (wait_exponential(max=9), 9.0),
        (wait_full_jitter(max=9), 9.0),
        (wait_exponential_jitter(max=9, jitter=100), 9.0),
        (wait_incrementing(1, 2, max=9), 9.0),
        (wait_incrementing(5, -2, max=9), 5.0),
        (wait_incrementing(50, -2, max=9), 9.0),
        (wait_random(1, 9), 9.0),
        (wait_chain(wait_fixed(9), wait_fixed(5)), 9.0),
        (wait_exponential(max=9) + wait_random(0, 5), 14.0),
        (wait_combine(wait_exponential(max=9), wait_random(0, 5), max=9), 9.0),
        (wait_from(told), math.inf),
        (wait_from(told, max=9), 9.0),
        (lambda attempts, *, seed=None: 1.0, math.inf),
    ],
    ids=repr,
)
def test_r3_30_a_policy_knows_its_limit(wait: Any, limit_s: float):
    """R3.30: the limit of a sum is the sum of limits, unless it has one of its own."""
    assert retry_policy(wait=wait).limit_s == limit_s


def test_r3_30_jitter_is_inside_of_the_limit():
    """R3.30: where growth alone is at the limit already, jitter adds nothing; below it, it adds up to the limit."""
    assert {wait_exponential_jitter(max=60, jitter=5)(10, seed=seed) for seed in range(20)} == {60.0}
    drawn = [wait_exponential_jitter(4, max=5, jitter=3)(0, seed=seed) for seed in range(20)]
    assert max(drawn) == 5.0 and 4.0 <= min(drawn) < 5.0
    assert max(wait_full_jitter(4, max=5)(9, seed=seed) for seed in range(20)) <= 5.0


def test_waits_stay_finite_where_floats_end():
    """However often something failed: no OverflowError, no nan, no timer at infinity."""
    for wait in (
        wait_exponential(max=math.inf),
        wait_full_jitter(max=math.inf),
        wait_exponential_jitter(max=math.inf),
        wait_incrementing(0, 1e308),
        wait_exponential(max=math.inf) + wait_exponential(max=math.inf),
    ):
        assert math.isfinite(wait(5000, seed=1)), wait
        assert wait(5000, seed=1) > 1e300, wait
    assert wait_exponential()(5000) == 60.0
    assert wait_exponential(0, max=math.inf)(5000) == 0.0
    assert wait_exponential(exp_base=0.5)(5000) == 0.0
    assert wait_incrementing(0, -1e308)(5000) == 0.0


def test_waits_add_up_flat():
    """`a + b + c` is one sum of three; a sum with a limit of its own keeps it."""
    a, b, c = wait_fixed(1), wait_random(), wait_exponential()

    assert a + b + c == wait_combine(a, b, c)
    assert sum([a, b, c]) == wait_combine(a, b, c)
    assert sum([a]) is a
    capped = wait_combine(a, b, max=1)
    assert capped + c == wait_combine(capped, c)


# ----------------------------------------------------------------------------------------------- what an error asks for


@pytest.mark.parametrize(
    ("retry_after", "delay"),
    [(30, 30.0), (0.5, 0.5), (timedelta(minutes=2), 120.0), (-3, 0.0), (0, 0.0), (None, 2.0)],
    ids=repr,
)
def test_a_wait_from_the_error(retry_after: Any, delay: float):
    """Retry-After: what the error says, else what `otherwise` says; a moment that is past is now."""
    policy = retry_policy(wait=wait_from(told, otherwise=wait_fixed(2)))

    assert policy.next(0.0, 1, TooMany(retry_after)) == delay


def test_a_wait_from_the_error_works_inside_of_others():
    """Chains and sums hand the error on."""
    asked = wait_from(told, otherwise=wait_exponential())

    assert delays(retry_policy(wait=asked + wait_fixed(1)), 2, TooMany(7)) == [8.0, 8.0]
    assert delays(retry_policy(wait=wait_chain(wait_fixed(1), asked)), 2, TooMany(7)) == [1.0, 7.0]
    assert delays(retry_policy(wait=wait_from(lambda error: None, otherwise=asked)), 2, TooMany(7)) == [7.0, 7.0]
    assert delays(retry_policy(wait=asked), 2, TooMany(None)) == [1.0, 2.0]


def test_a_wait_from_the_error_has_defaults_and_a_limit():
    assert wait_from(told) == wait_from(told, otherwise=wait_fixed(5))
    assert retry_policy(wait=wait_from(told, max=60)).next(0.0, 1, TooMany(86_400)) == 60.0
    assert wait_from(told, otherwise=wait_fixed(9), max=6)(0, error=TooMany(None)) == 6.0
    assert wait_from(told, otherwise=wait_fixed(9))(0) == 9.0  # asked without an error, as L's own waits are


def test_a_server_that_asks_for_too_much_can_be_given_up():
    """`stop_before_delay` sees the wait that the error asks for."""
    policy = retry_policy(wait=wait_from(told), stop=stop_before_delay(600))

    assert policy.next(10.0, 1, TooMany(500)) == 500.0
    assert policy.next(10.0, 1, TooMany(86_400)) is None


@pytest.mark.parametrize(
    ("retry_after", "kind", "text"),
    [
        ("120", TypeError, "wait_from: what fn gave is '120'; give a number of seconds or a timedelta."),
        (math.nan, ValueError, "wait_from: what fn gave is nan; give a finite number."),
        (math.inf, ValueError, "wait_from: what fn gave is inf; give a finite number."),
        (True, TypeError, "wait_from: what fn gave is True; give a number of seconds or a timedelta."),
    ],
)
def test_r3_32_what_is_no_wait_gives_up_in_words(retry_after: Any, kind: type[Exception], text: str):
    """R3.32: an error whose answer cannot be read is the policy's error, not a wait of any length."""
    delay, raised = call_policy(retry_policy(wait=wait_from(told)), 0.0, 1, TooMany(retry_after), None)

    assert delay is None
    assert (type(raised), str(raised)) == (kind, text)


# ------------------------------------------------------------------------------------------------------------- stops


@pytest.mark.parametrize(
    ("stop", "attempts", "elapsed", "upcoming", "over"),
    [
        (stop_after_attempt(3), 2, 1e9, 0.0, False),
        (stop_after_attempt(3), 3, 0.0, 0.0, True),
        (stop_after_attempt(1), 1, 0.0, 0.0, True),
        (stop_after_delay(60), 99, 59.9, 10.0, False),
        (stop_after_delay(60), 1, 60.0, 0.0, True),
        (stop_after_delay(timedelta(minutes=1)), 1, 60.0, 0.0, True),
        (stop_before_delay(60), 1, 49.9, 10.0, False),
        (stop_before_delay(60), 1, 50.0, 10.0, True),
        (stop_after_delay(math.inf), 1, 1e300, 0.0, False),
        (stop_any(stop_never(), stop_after_attempt(2)), 2, 0.0, 0.0, True),
        (stop_any(stop_never(), stop_after_attempt(2)), 1, 0.0, 0.0, False),
        (stop_any(), 99, 0.0, 0.0, False),
        (stop_all(stop_after_delay(60), stop_after_attempt(2)), 2, 0.0, 0.0, False),
        (stop_all(stop_after_delay(60), stop_after_attempt(2)), 2, 60.0, 0.0, True),
        (stop_all(stop_before_delay(60), stop_after_attempt(2)), 2, 50.0, 10.0, True),
        (stop_any(stop_before_delay(60)), 1, 50.0, 10.0, True),
        (stop_all(), 1, 0.0, 0.0, True),
        (stop_never(), 10**9, 1e9, 1e9, False),
    ],
    ids=repr,
)
def test_a_stop_ends_it(stop: Any, attempts: int, elapsed: float, upcoming: float, over: bool):
    """R3.25: attempts are failures from 1; elapsed and coming seconds count up to the very second."""
    assert stop(attempts, elapsed, upcoming_sleep=upcoming) is over
    policy = retry_policy(wait=wait_fixed(upcoming), stop=stop)
    assert policy.next(elapsed, attempts, BUSY) == (None if over else upcoming)


def test_stops_join_from_the_left():
    a, b, c = stop_after_attempt(3), stop_after_delay(60), stop_before_delay(90)

    assert a | b | c == stop_any(a, b, c)
    assert a & b & c == stop_all(a, b, c)
    assert a | b & c == stop_any(a, stop_all(b, c))
    assert (a | b) & c == stop_all(stop_any(a, b), c)

    def enough(attempts: int, elapsed_time: float, *, upcoming_sleep: float = 0.0) -> bool:
        return True

    assert enough | a == stop_any(enough, a)
    assert enough & a == stop_all(enough, a)


# ------------------------------------------------------------------------------------------------------------ values


SHOWN = [
    "retry_policy(wait=wait_fixed(5), stop=stop_after_attempt(3))",
    "retry_policy(retry=retry_always(), wait=wait_none(), stop=stop_never())",
    "retry_if_exception_type(OSError)",
    "retry_if_exception_type((KeyError, OSError))",
    "retry_unless_exception_type(ValueError)",
    "retry_if_not_exception_type(ValueError)",
    "retry_if_exception_cause_type(TimeoutError)",
    "retry_if_exception_message(message='busy')",
    "retry_if_not_exception_message(match='^busy')",
    "retry_if_exception_message(match=re.compile('busy', re.IGNORECASE))",
    "retry_if_exception(is_busy)",
    "retry_any(retry_never(), retry_all(retry_always(), is_busy))",
    "wait_fixed(0.25)",
    "wait_exponential()",
    "wait_exponential(0.2)",
    "wait_exponential(2, exp_base=3, max=20, min=1)",
    "wait_exponential(max=10)",
    "wait_random_exponential(max=10)",
    "wait_exponential_jitter(2, jitter=0.5)",
    "wait_incrementing(1, increment=2.5, max=9)",
    "wait_random(1, 3)",
    "wait_random(max=3)",
    "wait_chain(wait_fixed(1), wait_random())",
    "wait_combine(wait_fixed(1), wait_random(), max=2)",
    "wait_from(told, otherwise=wait_fixed(1), max=60)",
    "stop_before_delay(60)",
    "stop_all(stop_after_attempt(3), stop_any(stop_after_delay(1.5), stop_never()))",
]


@pytest.mark.parametrize("text", SHOWN)
def test_a_value_is_shown_as_it_is_written(text: str):
    """The repr makes an equal value; both are one key; pickles and copies are equal too."""
    scope = {**vars(rp), "re": re, "is_busy": is_busy, "told": told}
    value = eval(text, scope)

    assert repr(value) == text
    again = eval(text, scope)
    assert again == value and {again, value} == {value}
    for twin in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert twin == value and hash(twin) == hash(value) and repr(twin) == text


def test_values_of_other_kinds_or_fields_differ():
    assert wait_fixed(1) != wait_fixed(2)
    assert retry_if_not_exception_type(OSError) != retry_unless_exception_type(OSError)
    assert stop_after_delay(1) != stop_before_delay(1)
    assert wait_fixed(1) != 1


def test_a_value_cannot_be_changed():
    policy = retry_policy()

    with pytest.raises(AttributeError, match="is a value: its 'wait' cannot be set"):
        policy.wait = wait_none()
    with pytest.raises(AttributeError, match="is a value: its 'weight' cannot be set"):
        policy.weight = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del policy.stop
    assert policy == retry_policy()


# ------------------------------------------------------------------------------------------------------ wrong arguments


async def later(error: BaseException) -> bool:
    return True


class AsyncCondition:
    async def __call__(self, error: BaseException) -> bool:
        return True


WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: wait_fixed(-1), ValueError, "wait_fixed: wait is -1; it cannot be negative."),
    (lambda: wait_fixed(math.nan), ValueError, "wait_fixed: wait is nan; give a finite number."),
    (lambda: wait_fixed(math.inf), ValueError, "wait_fixed: wait is inf; give a finite number."),
    (lambda: wait_fixed(10**400), ValueError, "give a finite number."),
    (lambda: wait_fixed(timedelta(seconds=-1)), ValueError, "it cannot be negative."),
    (lambda: wait_fixed("5"), TypeError, "wait_fixed: wait is '5'; give a number of seconds or a timedelta."),
    (lambda: wait_fixed(True), TypeError, "wait_fixed: wait is True; give a number of seconds"),
    (lambda: wait_exponential(-0.5), ValueError, "wait_exponential: multiplier is -0.5; it cannot be negative."),
    (lambda: wait_exponential("1"), TypeError, "wait_exponential: multiplier is '1'; give a number."),
    (lambda: wait_exponential(exp_base=-2), ValueError, "wait_exponential: exp_base is -2; it cannot be negative."),
    (lambda: wait_exponential(min=9, max=3), ValueError, "wait_exponential: min=9 is more than max=3."),
    (lambda: wait_full_jitter(min=61), ValueError, "wait_random_exponential: min=61 is more than max=60."),
    (lambda: wait_exponential_jitter(jitter=-1), ValueError, "wait_exponential_jitter: jitter is -1"),
    (lambda: wait_exponential_jitter(-1), ValueError, "wait_exponential_jitter: initial is -1"),
    (lambda: wait_exponential_jitter(max=-1), ValueError, "wait_exponential_jitter: max is -1"),
    (lambda: wait_incrementing(-1), ValueError, "wait_incrementing: start is -1; it cannot be negative."),
    (lambda: wait_incrementing(increment=-math.inf), ValueError, "wait_incrementing: increment is -inf"),
    (lambda: wait_incrementing(max=-1), ValueError, "wait_incrementing: max is -1"),
    (lambda: wait_random(3, 1.5), ValueError, "wait_random: min=3 is more than max=1.5."),
    (lambda: wait_random(max=math.inf), ValueError, "wait_random: max is inf; give a finite number."),
    (wait_chain, ValueError, "wait_chain needs at least one wait; wait_none() is one."),
    (lambda: wait_chain(wait_fixed(1), 5), TypeError, "5 is not a wait. Write wait_fixed(5)."),
    (lambda: wait_combine(stop_never()), TypeError, "stop_never() is a stop, not a wait."),
    (lambda: wait_combine(max=-1), ValueError, "wait_combine: max is -1"),
    (lambda: wait_fixed(1) + 5, TypeError, "5 is not a wait. Write wait_fixed(5)."),
    (lambda: 5 + wait_fixed(1), TypeError, "5 is not a wait. Write wait_fixed(5)."),
    (lambda: wait_from(5), TypeError, "wait_from: fn is 5; give a function."),
    (lambda: wait_from(later), TypeError, "wait_from: fn is later, which is async; it is called, not awaited"),
    (lambda: wait_from(told, otherwise=5), TypeError, "5 is not a wait. Write wait_fixed(5)."),
    (lambda: wait_from(told, max=-5), ValueError, "wait_from: max is -5"),
    (lambda: stop_after_attempt(0), ValueError, "stop_after_attempt: max_attempt_number counts from 1, got 0."),
    (lambda: stop_after_attempt(2.5), TypeError, "max_attempt_number is 2.5; give a whole number."),
    (lambda: stop_after_attempt(True), TypeError, "max_attempt_number is True; give a whole number."),
    (lambda: stop_after_delay(-1), ValueError, "stop_after_delay: max_delay is -1; it cannot be negative."),
    (lambda: stop_before_delay(None), TypeError, "stop_before_delay: max_delay is None; give a number of seconds"),
    (lambda: stop_never() | 3, TypeError, "3 is not a stop. Write stop_after_attempt(3)."),
    (lambda: stop_never() & wait_none(), TypeError, "wait_none() is a wait, not a stop."),
    (lambda: retry_if_exception(OSError("busy")), TypeError, "retry_if_exception: predicate is OSError('busy')"),
    (lambda: retry_if_exception(later), TypeError, "retry_if_exception: predicate is later, which is async"),
    (lambda: retry_any(AsyncCondition()), TypeError, "which is async; it is called, not awaited"),
    (lambda: retry_if_exception_type("OSError"), TypeError, "'OSError' is no exception class; give one or a tuple"),
    (lambda: retry_if_exception_type((OSError, int)), TypeError, "<class 'int'> is no exception class"),
    (lambda: retry_if_exception_type(OSError()), TypeError, "OSError() is no exception class"),
    (lambda: retry_if_not_exception_type(()), ValueError, "retry_if_not_exception_type: exception_types is empty"),
    (retry_if_exception_message, TypeError, "retry_if_exception_message takes either message="),
    (lambda: retry_if_not_exception_message("a", "b"), TypeError, "retry_if_not_exception_message takes either"),
    (lambda: retry_if_exception_message(re.compile("a")), TypeError, "message is re.compile('a'); give the text"),
    (lambda: retry_if_exception_message(match=5), TypeError, "match is 5; give a pattern of text."),
    (lambda: retry_if_exception_message(match=re.compile(b"a")), TypeError, "give a pattern of text."),
    (lambda: retry_if_exception_message(match="("), ValueError, "match='(' is no regular expression"),
    (lambda: retry_always() | OSError, TypeError, "Write retry_if_exception_type(OSError)."),
    (lambda: retry_always() & None, TypeError, "None is not a retry condition."),
    (lambda: 5 | retry_always(), TypeError, "5 is not a retry condition."),
    (lambda: retry_policy(retry=OSError), TypeError, "OSError is a class, not a retry condition. Write retry_if"),
    (lambda: retry_policy(retry=retry_always), TypeError, "retry_always is a class, not a retry condition. Write"),
    (lambda: retry_policy(retry=stop_never()), TypeError, "stop_never() is a stop, not a retry condition."),
    (lambda: retry_policy(retry=later), TypeError, "a retry condition is later, which is async"),
    (lambda: retry_policy(wait=5), TypeError, "5 is not a wait. Write wait_fixed(5)."),
    (lambda: retry_policy(wait=stop_after_attempt(3)), TypeError, "stop_after_attempt(3) is a stop, not a wait."),
    (lambda: retry_policy(stop=3), TypeError, "3 is not a stop. Write stop_after_attempt(3)."),
    (lambda: retry_policy(stop=stop_never), TypeError, "stop_never is a class, not a stop. Write stop_never(...)."),
    (lambda: retry_policy(stop=retry_policy()), TypeError, "is a retry policy, not a stop."),
]


@pytest.mark.parametrize(("make", "kind", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_a_wrong_argument_is_refused_where_it_is_written(make: Callable[[], object], kind: type[Exception], text: str):
    """In words that say how to mend it, and not at the first failure of a step."""
    with pytest.raises(kind, match=re.escape(text)):
        make()


def test_a_wait_of_ones_own_that_gives_nonsense_is_refused():
    """The function is named, since the policy only called it."""

    def pause(attempts: int, *, seed: int | None = None) -> Any:
        return -1 if attempts else "soon"

    policy = retry_policy(wait=pause)

    with pytest.raises(TypeError, match=r"pause: what it gave is 'soon'; give a number\."):
        policy.next(0.0, 1, BUSY)
    with pytest.raises(ValueError, match=r"pause: what it gave is -1; it cannot be negative\."):
        policy.next(0.0, 2, BUSY)


# ------------------------------------------------------------------------------------------------------- call_policy


class Seeded:
    def next(self, elapsed_time: float, attempts: int, error: BaseException, *, seed: int | None = None) -> Any:
        return elapsed_time + attempts + (seed or 0)


class Unseeded:
    def next(self, elapsed_time: float, attempts: int, error: Exception) -> float | None:
        return elapsed_time + attempts


class Keywords:
    def next(self, *args: Any, **options: Any) -> float | None:
        return args[0] + args[1] + options["seed"]


class OfAClass:
    @classmethod
    def next(cls, elapsed_time: float, attempts: int, error: BaseException) -> float | None:
        return 7.0


class Proxy:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class SeedOnlyByPlace:
    def next(self, elapsed_time: float, attempts: int, error: BaseException, seed: int = 0, /) -> float | None:
        return float(seed)


@pytest.mark.parametrize(
    ("policy", "delay"),
    [
        (Seeded(), 112.0),
        (Unseeded(), 12.0),
        (Keywords(), 112.0),
        (OfAClass(), 7.0),
        (OfAClass, 7.0),
        (SeedOnlyByPlace(), 0.0),
        (SimpleNamespace(next=Unseeded().next), 12.0),
        (SimpleNamespace(next=Seeded().next), 112.0),
        (Proxy(Unseeded()), 12.0),
        (Proxy(Seeded()), 112.0),
        (retry_policy(wait=wait_fixed(3)), 3.0),
    ],
    ids=lambda value: getattr(type(value), "__name__", ""),
)
def test_a_policy_is_asked_in_the_way_that_it_takes(policy: Any, delay: float):
    """A `next` without `seed` is asked without one; twice, so that what is remembered of a type is used."""
    assert call_policy(policy, 10.0, 2, BUSY, 100) == (delay, None)
    assert call_policy(policy, 10.0, 2, BUSY, 100) == (delay, None)


def test_a_policy_is_asked_without_a_seed_too():
    assert call_policy(Seeded(), 10.0, 2, BUSY, None) == (12.0, None)


def test_a_next_that_does_not_tell_its_arguments_is_asked_plainly(monkeypatch: pytest.MonkeyPatch):
    """Compiled code may have no signature."""

    class Compiled(Unseeded):
        pass

    def none(_: Any) -> Any:
        raise ValueError("no signature found")

    monkeypatch.setattr(inspect, "signature", none)
    assert call_policy(Compiled(), 10.0, 2, BUSY, 100) == (12.0, None)


def test_a_policy_class_is_looked_into_once_and_forgotten_with_the_class(monkeypatch: pytest.MonkeyPatch):
    """A notebook's cell makes a class each time it is run: none of them is kept alive."""

    class Mine(Seeded):
        pass

    looked: list[object] = []
    signature = inspect.signature
    monkeypatch.setattr(inspect, "signature", lambda function: looked.append(function) or signature(function))
    for _ in range(3):
        assert call_policy(Mine(), 0.0, 1, BUSY, 4) == (5.0, None)
    assert len(looked) == 1

    gone = weakref.ref(Mine)
    looked.clear()
    del Mine
    gc.collect()
    assert gone() is None


def test_r3_32_a_policy_that_raises_gives_up():
    """R3.32: whatever it raises, also the step's own error again, which may be no `Exception`."""

    class Fatal(BaseException):
        pass

    class Broken:
        def next(self, elapsed_time: float, attempts: int, error: BaseException) -> float | None:
            raise error if isinstance(error, Fatal) else LookupError("no such table")

    delay, raised = call_policy(Broken(), 0.0, 1, BUSY, 1)
    assert delay is None
    assert isinstance(raised, LookupError) and str(raised) == "no such table"

    fatal = Fatal()
    assert call_policy(Broken(), 0.0, 1, fatal, 1) == (None, fatal)


def test_r3_32_a_part_that_raises_gives_up():
    """R3.32: a predicate that expects another error is the policy's error too."""
    policy = retry_policy(retry=lambda error: error.status == 503)

    delay, raised = call_policy(policy, 0.0, 1, BUSY, 1)

    assert delay is None
    assert isinstance(raised, AttributeError)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_r3_44_an_interrupt_is_never_retried(error: BaseException):
    """R3.44: the policy is not even asked."""
    asked: list[BaseException] = []
    policy = retry_policy(retry=lambda error: not asked.append(error))

    assert call_policy(policy, 0.0, 1, error, 1) == (None, None)
    assert asked == []


def giving(answer: Any) -> Any:
    return SimpleNamespace(next=lambda *_: answer)


@pytest.mark.parametrize(("answer", "delay"), [(None, None), (0, 0.0), (3, 3.0), (-2.5, 0.0), (0.25, 0.25)], ids=repr)
def test_what_a_policy_gives_becomes_seconds(answer: Any, delay: float | None):
    """Whole numbers become floats; a moment that is past is now."""
    given_back = call_policy(giving(answer), 0.0, 1, BUSY, 1)

    assert given_back == (delay, None)
    assert type(given_back[0]) is type(delay)


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ("5", TypeError, "SimpleNamespace.next: what it gave is '5'; give a number."),
        (True, TypeError, "SimpleNamespace.next: what it gave is True; give a number."),
        (math.nan, ValueError, "SimpleNamespace.next: what it gave is nan; give a finite number."),
        (math.inf, ValueError, "SimpleNamespace.next: what it gave is inf; give a finite number."),
    ],
)
def test_what_is_no_number_of_seconds_gives_up(answer: Any, kind: type[Exception], text: str):
    """R3.32: no timer can be set to it, so the policy is at fault."""
    delay, raised = call_policy(giving(answer), 0.0, 1, BUSY, 1)

    assert delay is None
    assert (type(raised), str(raised)) == (kind, text)


def test_an_async_policy_gives_up_in_words():
    """And leaves no coroutine behind that nobody awaited."""

    class Later:
        async def next(self, elapsed_time: float, attempts: int, error: BaseException) -> float | None:
            return 1.0

    delay, raised = call_policy(Later(), 0.0, 1, BUSY, 1)  # type: ignore[arg-type]

    assert delay is None
    assert isinstance(raised, TypeError) and "Later.next: what it gave is a coroutine" in str(raised)


def test_what_is_no_policy_gives_up():
    delay, raised = call_policy(stop_after_attempt(3), 0.0, 1, BUSY, 1)  # type: ignore[arg-type]

    assert delay is None
    assert isinstance(raised, AttributeError)


# ------------------------------------------------------------------------------------------------------------ the room


def test_the_same_seed_gives_the_same_wait_in_another_process():
    """R3.27: nothing of the process (hash seed, order of draws) takes part."""
    policy = retry_policy(wait=wait_exponential_jitter() + wait_full_jitter(3) + wait_random(1, 2))
    code = f"from flownb.retry_policy import *; print(repr({policy!r}.next(0.0, 2, OSError(), seed={2**255 + 1})))"

    shown = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert shown.strip() == repr(policy.next(0.0, 2, OSError(), seed=2**255 + 1))


def test_every_public_part_says_what_it_does():
    """Each public class of the module has a docstring: help() and the pop-up of a notebook show it."""
    own = [
        value
        for name, value in vars(rp).items()
        if inspect.isclass(value) and value.__module__.startswith(rp.__name__) and not name.startswith("_")
    ]

    assert len(own) > 30
    assert [part.__name__ for part in own if not part.__doc__] == []
