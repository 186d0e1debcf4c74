"""From the steps of a workflow to its `Definition`: the spec, the functions, and the classes behind the keys."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from flownb.core.spec import Spec, StepSpec, TypeSpec, link
from flownb.definition.faults import graph_faults
from flownb.definition.steps import Step, answers_of, asks_people
from flownb.errors import WorkflowValidationError
from flownb.events import (
    Event,
    InputRequiredEvent,
    RequestClosedEvent,
    StartEvent,
    StopEvent,
    answer_of,
    bases_of,
    key_of,
    newest,
    role_of,
)


class Definition(Struct, frozen=True):
    """A checked workflow, ready to run. A live run keeps the one it was started with."""

    spec: Spec
    #: In the order of `spec.steps`.
    steps: tuple[Step, ...]
    #: Key -> class, of every type that a hint names.
    classes: dict[str, type[Event]]
    start: type[StartEvent]

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
    start = next(iter(starts), StartEvent)
    spec, classes = _spec(name, key, steps, start, tuple(accepts), unhandled, stalled)
    if check and not faults:
        faults, said = graph_faults(spec, skip, [step.options.skip_graph_checks for step in steps])
        for text in said if not faults else ():
            warnings.warn(f"Workflow {name!r}: {text}", stacklevel=4)
    if faults:
        raise WorkflowValidationError(name, [*faults, *notes()])
    return Definition(spec, tuple(steps), classes, start)


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
) -> tuple[Spec, dict[str, type[Event]]]:
    classes: dict[str, type[Event]] = {}

    def keys(found: Iterable[type[Event]]) -> tuple[str, ...]:
        for cls in found:
            classes[key_of(cls)] = cls
        return tuple(dict.fromkeys(key_of(cls) for cls in found))

    keys((start, StopEvent, RequestClosedEvent))
    asked: set[str] = set()
    specs = []
    for step in steps:
        asked.update(keys(answers_of(step)))
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
            )
        )
    only = _only_answer(steps)
    if any(role_of(cls) == "request" and answer_of(cls) is None for cls in classes.values()):  # type: ignore[arg-type]
        asked.update(only)
    outside = set(keys(accepts))
    for step_spec in specs:  # an answer that no question of the flow declares comes from outside (R5.35)
        outside.update(k for k in step_spec.accepts if role_of(classes[k]) == "answer" and k not in asked)
    types = tuple(_type(cls, only) for cls in classes.values())
    digest = hashlib.sha256(repr((name, key, specs, types)).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    spec = Spec(name, key, tuple(specs), types, key_of(start), tuple(sorted(outside)), unhandled, stalled, digest)
    return link(spec), classes


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
