"""What `@step`, `@catch_error` and `@on_cancel` were told, and what of it cannot be honoured (R8.13)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

ATTRIBUTE = "__flownb_step__"


class StepOptions(Struct, frozen=True):
    """The options of a step, and where it stood."""

    #: At most so many deliveries are active at once; None: no limit.
    num_workers: int | None = 4
    #: Asked after each failure; None: the workflow's.
    retry_policy: Any = None
    #: Seconds for one attempt; None: the workflow's `step_timeout`.
    timeout: float | None = None
    #: What a failure for good does; None: "continue" where a `@catch_error` covers the step, else "fail".
    on_error: Literal["fail", "continue"] | None = None
    #: Slot that its code runs in: "thread" (as None), "processes" or one that `with_options(executors=...)` fills.
    executor: str | None = None
    #: False: after a crash a person says what became of a start that was under way.
    idempotent: bool = True
    #: When what it sends through `ctx` takes effect: now, or once its attempt succeeds or waits.
    sends: Literal["at_once", "on_success"] = "at_once"
    #: At most so many starts a second; None: no limit.
    rate: float | None = None
    #: Keys of the workflows that it runs as children, for the drawing.
    runs: tuple[str, ...] = ()
    #: The class or object that a free function was added to.
    workflow: Any = None
    #: Checks of the graph to leave out for this step.
    skip_graph_checks: tuple[str, ...] = ()
    #: False: it takes exactly the types that it names.
    accept_event_subclasses: bool = True
    #: Of `@catch_error`: names of the steps whose failures it takes, () for all; None for any other step.
    catches: tuple[str, ...] | None = None
    #: Of `@catch_error`: how often a chain of causes may pass through it; None: no limit.
    max_recoveries: int | None = None
    #: It runs when the run is cancelled, and only then.
    on_cancel: bool = False
    #: Id of the notebook cell, and of the execution of it.
    cell: tuple[str, str] = ("", "")
    #: Names around a step that is defined inside a function.
    local: dict[str, Any] | None = None


def options_of(fn: Any) -> StepOptions | None:
    """The options of a function that is a step, None for any other object."""
    found = getattr(fn, ATTRIBUTE, None)
    return found if isinstance(found, StepOptions) else None


def option_faults(options: StepOptions, is_async: bool) -> Iterator[str]:
    """Options that cannot be honoured, each as the rest of a sentence that begins with the step."""
    yield from filter(
        None,
        (
            count_fault("num_workers", options.num_workers),
            policy_fault("retry_policy", options.retry_policy),
            amount_fault("timeout", options.timeout, "seconds"),
            amount_fault("rate", options.rate, "starts a second"),
            flag_fault("idempotent", options.idempotent),
            flag_fault("accept_event_subclasses", options.accept_event_subclasses),
            count_fault("max_recoveries", options.max_recoveries) if options.catches is not None else "",
            executor_fault(options.executor, is_async),
        ),
    )


def count_fault(name: str, value: Any) -> str:
    """What is wrong with a number of things from 1 on, None for no limit; "" if it is right."""
    if value is None or (type(value) is int and value >= 1):
        return ""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{name} is {value!r}; give a whole number, or None for no limit."
    return f"{name} is {value!r}; give at least 1, or None for no limit."


def amount_fault(name: str, value: Any, unit: str) -> str:
    """What is wrong with an amount above 0, None for no limit; "" if it is right."""
    if value is None:
        return ""
    if type(value) is not bool and _is_number(value) and 0 < float(value) < math.inf:
        return ""
    return f"{name} is {value!r}; give {unit}, a number above 0, or None for no limit."


def _is_number(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return True
    from numbers import Real  # few give another one, and `import flownb` shall not pay for it

    return isinstance(value, Real)


def flag_fault(name: str, value: Any) -> str:
    """What is wrong with a yes or no; "" if it is right."""
    return "" if isinstance(value, bool) else f"{name} is {value!r}; give True or False."


def policy_fault(name: str, value: Any) -> str:
    """What is wrong with a retry policy; "" if it is one."""
    if value is None or (callable(getattr(value, "next", None)) and not isinstance(value, type)):
        return ""
    if isinstance(value, type):
        return f"{name} is the class {value.__name__}; make one: {value.__name__}(...)."
    return f"{name} is {value!r}, which has no `next`; give `retry_policy(retry=..., wait=..., stop=...)`."


def executor_fault(value: Any, is_async: bool) -> str:
    """What is wrong with the slot that a step's code shall run in; "" if it is right."""
    if value is None:
        return ""
    if not isinstance(value, str) or not value:
        return f"executor is {value!r}; name a slot, and fill it with `with_options(executors={{name: executor}})`."
    if is_async:
        return f"executor={value!r} cannot be honoured: an `async def` runs on the loop. Write the step with `def`."
    return ""
