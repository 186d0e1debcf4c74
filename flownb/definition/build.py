"""From the steps of a workflow to its `Definition`: the spec, the functions, and the classes behind the keys."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from flownb.core.spec import Spec, StepSpec, TypeSpec, link
from flownb.definition.faults import graph_faults
from flownb.definition.hints import meaning
from flownb.definition.options import StepOptions
from flownb.definition.recovery import on_error_of, recovery_faults
from flownb.definition.steps import Step, answers_of, asks_people, waits_for_events
from flownb.errors import WorkflowValidationError, caller_level
from flownb.events import (
    Event,
    InputRequiredEvent,
    RequestClosedEvent,
    StartEvent,
    StopEvent,
    WorkflowCancelledEvent,
    answer_of,
    bases_of,
    key_of,
    newest,
    role_of,
)


class Policies(Struct, frozen=True):
    """What a workflow says for all its steps and runs; a step's own option wins (R3.5)."""

    retry_policy: Any = None
    #: Seconds for one attempt of a step; None: no limit.
    step_timeout: float | None = None
    #: Seconds for a run; None: no limit.
    timeout: float | None = None
    #: What counts: active time alone, or all.
    timeout_clock: Literal["active", "wall"] = "active"
    #: Step starts along one chain of causes; None: no guard.
    max_starts: int | None = 100_000


DEFAULTS = Policies()


def inherited(own: Policies, above: Policies) -> Policies:
    """A child's own retry policy and step time limit win over those of its parent (R3.5)."""
    return replace(
        own,
        retry_policy=above.retry_policy if own.retry_policy is None else own.retry_policy,
        step_timeout=above.step_timeout if own.step_timeout is None else own.step_timeout,
    )


class Definition(Struct, frozen=True):
    """A checked workflow, ready to run. A live run keeps the one it was started with."""

    spec: Spec
    #: In the order of `spec.steps`.
    steps: tuple[Step, ...]
    #: Key -> class, of every type that a hint names.
    classes: dict[str, type[Event]]
    start: type[StartEvent]
    policies: Policies = DEFAULTS

    def class_of(self, key: str) -> type[Event] | None:
        """The class that a key means now: the newest of the process, else the one that a hint named."""
        found = newest(key)
        return found if found is not None else self.classes.get(key)


def define(
    name: str,
    key: str,
    steps: Sequence[Step],
    *,
    accepts: Iterable[type[Event]] = (),
    unhandled: Literal["warn", "error", "ignore"] = "warn",
    stalled: Literal["error", "wait"] = "error",
    policies: Policies = DEFAULTS,
    result: Any = None,
    check: bool = True,
    skip: Iterable[str] = (),
    notes: Callable[[], list[str]] = list,
) -> Definition:
    """Build and check a workflow.

    Args:
        name: Shown to people.
        key: `module:qualname`, what a stored run is found by.
        steps: In the order of their definition.
        accepts: Event types that come from outside.
        unhandled: What an event that no step takes does.
        stalled: What a run that nobody can move does.
        policies: What it says for all its steps and runs.
        result: `Report` of `Workflow[Report]`, None if it says nothing.
        check: False leaves the checks of the graph out.
        skip: Names of single checks to leave out.
        notes: Asked only if there are faults: more for the reader (steps left on an older object).

    Raises:
        WorkflowValidationError: With every fault.
    """
    faults = [fault for step in steps for fault in step.faults]
    starts = _starts(steps)
    if not steps:
        faults.append("it has no steps. Define one: `@flow.step` above a function that takes a StartEvent.")
    elif not starts and not faults:
        faults.append("no step takes a StartEvent, so no run could begin. Hint one: `ev: StartEvent`.")
    if len(starts) > 1:
        named = ", ".join(f"{cls.__name__} (step {step.name!r})" for cls, step in starts.items())
        faults.append(f"several start events: {named}. Take one class everywhere.")
    for step in steps:
        if any(role_of(cls) == "stop" for cls in (*step.takes.events, *step.takes.lists)):
            faults.append(
                f"step {step.name!r} takes a StopEvent, but an end reaches no step. "
                "Do its work before returning the stop."
            )
    faults += recovery_faults(steps)
    faults += _result_faults(steps, result)
    faults += _state_faults(steps)
    start = next(iter(starts), StartEvent)
    spec, classes = _spec(name, key, steps, start, tuple(accepts), unhandled, stalled, policies)
    if check and not faults:
        faults, said = graph_faults(spec, skip, [step.options.skip_graph_checks for step in steps])
        for text in said if not faults else ():
            warnings.warn(f"Workflow {name!r}: {text}", stacklevel=caller_level())
    if faults:
        raise WorkflowValidationError(name, [*faults, *notes()])
    return Definition(spec, tuple(steps), classes, start, policies)


def _state_faults(steps: Sequence[Step]) -> list[str]:
    """Models of the state that are no kin: one state cannot be both. A base of a model is a part of it."""
    typed = [(step.name, step.state_model) for step in steps if step.state_model is not None]
    most = max((model for _, model in typed), key=lambda model: len(model.__mro__), default=None)
    if most is None:
        return []
    of_most = next(name for name, model in typed if model is most)
    kin = {key_of(base) for base in most.__mro__}
    return [
        f"step {name!r} takes Context[{model.__name__}] and step {of_most!r} Context[{most.__name__}], no kin. "
        "Name one model everywhere, or a base of it."
        for name, model in typed
        if key_of(model) not in kin
    ]


def _result_faults(steps: Sequence[Step], result: Any) -> list[str]:
    """Stop events that are not what `Workflow[Report]` promises; other type arguments promise nothing of events."""
    promised = meaning(result)
    stops = [cls for cls in promised.events if role_of(cls) == "stop" and cls is not StopEvent]
    if not stops:
        return []
    keys = {key_of(cls) for cls in stops}
    names = " | ".join(cls.__name__ for cls in stops)
    may_be_plain = bool(promised.others) or StopEvent in promised.events
    faults: list[str] = []
    for step in steps:
        for cls in (*step.gives.events, *step.gives.lists):
            if role_of(cls) != "stop" or keys.intersection((key_of(cls), *bases_of(cls))):
                continue
            if cls is not StopEvent or not may_be_plain:
                faults.append(
                    f"step {step.name!r} returns {cls.__name__}, but the workflow is a Workflow[{names}]. Return "
                    f"{names}, or write the type that `await run` gives."
                )
    return faults


def _starts(steps: Sequence[Step]) -> dict[type[StartEvent], Step]:
    found: dict[type[StartEvent], Step] = {}
    keys: set[str] = set()
    for step in steps:
        for cls in step.takes.events:
            if issubclass(cls, StartEvent) and key_of(cls) not in keys:
                keys.add(key_of(cls))
                found[cls] = step
    return found


def _spec(
    name: str,
    key: str,
    steps: Sequence[Step],
    start: type[StartEvent],
    accepts: tuple[type[Event], ...],
    unhandled: Literal["warn", "error", "ignore"],
    stalled: Literal["error", "wait"],
    policies: Policies,
) -> tuple[Spec, dict[str, type[Event]]]:
    classes: dict[str, type[Event]] = {}

    def keys(found: Iterable[type[Event]]) -> tuple[str, ...]:
        for cls in found:
            classes[key_of(cls)] = cls
        return tuple(dict.fromkeys(key_of(cls) for cls in found))

    keys((start, StopEvent, RequestClosedEvent))
    asked: set[str] = set()
    specs: list[StepSpec] = []
    for step in steps:
        asked.update(keys(answers_of(step)))
        if step.options.on_cancel:
            keys((WorkflowCancelledEvent,))
        specs.append(
            StepSpec(
                step.name,
                keys(step.takes.events),
                keys(step.takes.lists),
                keys(step.gives.events),
                keys(step.gives.lists),
                step.options.num_workers,
                asks_people(step),
                step.source,
                slots=tuple(keys(slot) for slot in step.slots),
                take=step.take,
                cancel_rest=step.cancel_rest,
                on_error=on_error_of(step, steps),
                catches=step.options.catches,
                max_recoveries=step.options.max_recoveries,
                rate=step.options.rate,
                idempotent=step.options.idempotent,
                on_cancel=step.options.on_cancel,
                waits=waits_for_events(step),
                runs=step.options.runs,
                exact=not step.options.accept_event_subclasses,
            )
        )
    only = _only_answer(steps)
    if any(role_of(cls) == "request" and answer_of(cls) is None for cls in classes.values()):  # type: ignore[arg-type]
        asked.update(only)
    outside = set(keys(accepts))
    for step_spec in specs:  # an answer that no question of the flow declares comes from outside (R5.35)
        outside.update(k for k in step_spec.accepts if role_of(classes[k]) == "answer" and k not in asked)
    types = tuple(_type(cls, only) for cls in classes.values())
    said = [_spelt(step.options) for step in steps], _spelt(policies), sorted(outside), unhandled, stalled
    text = repr((name, key, specs, types, said))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    spec = Spec(name, key, tuple(specs), types, key_of(start), tuple(sorted(outside)), unhandled, stalled, digest)
    return link(spec), classes


def _spelt(settings: StepOptions | Policies) -> str:
    """Settings as they count for the definition's hash (R1.44): the same in every process."""
    left_out = ("cell", "local", "workflow", "skip_graph_checks")
    found = {name: getattr(settings, name) for name in settings.__struct_fields__ if name not in left_out}
    return ", ".join(f"{name}={_text(value)}" for name, value in found.items())


def _text(value: Any) -> str:
    try:
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
    except Exception:  # a user's __repr__ may do anything
        return key_of(type(value))


def _only_answer(steps: Sequence[Step]) -> tuple[str, ...]:
    """The answer event that steps take, if it is one: what answers a question whose class names none (API §6)."""
    taken = {
        key_of(cls) for step in steps for cls in (*step.takes.events, *step.takes.lists) if role_of(cls) == "answer"
    }
    return tuple(taken) if len(taken) == 1 else ()


def _type(cls: type[Event], only: tuple[str, ...]) -> TypeSpec:
    role = role_of(cls)
    if not issubclass(cls, InputRequiredEvent):
        return TypeSpec(key_of(cls), role, bases_of(cls))
    answer = answer_of(cls)
    if answer is None:
        return TypeSpec(key_of(cls), role, bases_of(cls), "".join(only))
    named = key_of(answer) if isinstance(answer, type) and issubclass(answer, Event) else ""
    return TypeSpec(key_of(cls), role, bases_of(cls), named)
