"""When a failed step is tried again: conditions, waits and stops that compose, in tenacity's words.

    @flow.step(retry_policy=retry_policy(wait=wait_exponential(0.2), stop=stop_after_attempt(3)))

A policy is asked once per failure, by the runner, and its answer is written in the tick (R3.26): nothing in here is
called by a replay. So it may draw at random and call a user's functions. Three things hold for every part:

* Values: frozen, compared by what they hold, picklable as far as the functions given to them are.
* `attempts` counts failures from 1 in policies and stops. A wait counts from 0, as the exponent of its first delay.
* Seconds are numbers or `timedelta`s when given, and `float`s when kept.

The words are tenacity's, the order of arguments and the defaults those of LlamaIndex Workflows.
"""

from flownb.retry_policy.conditions import (
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
    retry_unless_exception_type,
)
from flownb.retry_policy.policies import call_policy, retry_policy
from flownb.retry_policy.protocols import (
    AnyRetryPolicy,
    ExceptionTypes,
    RetryCondition,
    RetryInfo,
    RetryPolicy,
    Seconds,
    StopCondition,
    UnseededRetryPolicy,
    WaitStrategy,
)
from flownb.retry_policy.stops import (
    stop_after_attempt,
    stop_after_delay,
    stop_all,
    stop_any,
    stop_before_delay,
    stop_never,
)
from flownb.retry_policy.waits import (
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

__all__ = [
    "AnyRetryPolicy",
    "ExceptionTypes",
    "RetryCondition",
    "RetryInfo",
    "RetryPolicy",
    "Seconds",
    "StopCondition",
    "UnseededRetryPolicy",
    "WaitStrategy",
    "call_policy",
    "retry_all",
    "retry_always",
    "retry_any",
    "retry_if_exception",
    "retry_if_exception_cause_type",
    "retry_if_exception_message",
    "retry_if_exception_type",
    "retry_if_not_exception_message",
    "retry_if_not_exception_type",
    "retry_never",
    "retry_policy",
    "retry_unless_exception_type",
    "stop_after_attempt",
    "stop_after_delay",
    "stop_all",
    "stop_any",
    "stop_before_delay",
    "stop_never",
    "wait_chain",
    "wait_combine",
    "wait_exponential",
    "wait_exponential_jitter",
    "wait_fixed",
    "wait_from",
    "wait_full_jitter",
    "wait_incrementing",
    "wait_none",
    "wait_random",
    "wait_random_exponential",
]
