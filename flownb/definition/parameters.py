"""The signature of a step: what it takes, what it returns, and what else it is handed.

All that is wrong is collected in the step's `faults`, never raised.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from flownb.collect import All, Collect, Take
from flownb.definition.code import attributes_of, collected_by, mentions
from flownb.definition.hints import NOTHING, Meaning, meaning
from flownb.events import Event, WorkflowCancelledEvent, bases_of, key_of, role_of
from flownb.resource import Resource, resource_faults, resource_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from flownb.definition.steps import Step

#: What the context of a step in another process still has.
ELSEWHERE = ("attempt", "progress", "retry_info", "run_id", "step_name", "task_key")


def read_parameters(step: Step, hints: dict[str, Any], is_context: Callable[[Any], bool], where: str) -> None:
    """Fill in what a step takes, and how it is called.

    Args:
        step: The step.
        hints: Its hints, resolved.
        is_context: Whether a hint is the `Context`, which this room does not know.
        where: The step in words, for faults.
    """
    # Positional ones in order, then those that are passed by name: all behind the first that is not positional.
    plan: list[str | int] = []
    keywords: list[tuple[str, str | int]] = []
    resources: list[tuple[str, Resource]] = []
    taken: list[tuple[str, Meaning]] = []
    by_name = False
    parameters = list(inspect.signature(step.fn).parameters.values())
    for parameter in parameters[1:] if step.owner is not None else parameters:
        hint = hints.get(parameter.name, inspect.Parameter.empty)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            step.faults.append(f"{where}: {parameter} cannot be filled; name the event that the step takes.")
            continue
        resource = resource_in(hint)
        if resource is not None:
            by_name = True
            _take_resource(step, parameter, resource, resources, where)
            continue
        if is_context(hint):
            kind: str | int = "context"
            step.state_model = _model_of(hint)
            _check_context_elsewhere(step, parameter.name, where)
        else:
            found = meaning(hint) if hint is not parameter.empty else NOTHING
            if not found.events and not found.is_list:
                by_name = True
                if parameter.default is parameter.empty:
                    said = "no type hint" if hint is parameter.empty else f"the hint {_spell(hint)}, which is no event"
                    step.faults.append(
                        f"{where}: parameter {parameter.name!r} has {said}. Hint the event type that the step takes."
                    )
                continue
            kind = len(taken)
            taken.append((parameter.name, found))
            if found.events and found.is_list:
                step.faults.append(f"{where}: {parameter.name!r} mixes single events and a list; take one of them.")
        if parameter.kind is parameter.KEYWORD_ONLY or by_name:
            keywords.append((parameter.name, kind))
        else:
            plan.append(kind)
    if len(taken) == 1:
        word = "list" if taken[0][1].is_list else "event"
        plan = [word if kind == 0 else kind for kind in plan]
        keywords = [(name, word if kind == 0 else kind) for name, kind in keywords]
    step.plan, step.keywords, step.resources = tuple(plan), tuple(keywords), tuple(resources)
    step.is_plain = plan == ["event"] and not keywords and not resources and step.options.executor in (None, "thread")
    if step.options.on_cancel:
        _check_cancelled(step, taken, where)
    else:
        _take_events(step, taken, where)


def _take_resource(
    step: Step,
    parameter: inspect.Parameter,
    resource: Resource | str,
    resources: list[tuple[str, Resource]],
    where: str,
) -> None:
    if isinstance(resource, str):
        step.faults.append(f"{where}: {parameter.name!r} {resource}")
    elif parameter.kind is parameter.POSITIONAL_ONLY:
        step.faults.append(f"{where}: the resource {parameter.name!r} is positional only. Leave the `/` out.")
    else:
        resources.append((parameter.name, resource))
        step.faults += [f"{where}: {said}" for said in resource_faults(resource, step.options.local)]


def _check_context_elsewhere(step: Step, name: str, where: str) -> None:
    if step.options.executor != "processes":
        return
    used = sorted(attributes_of(step.fn, name) - set(ELSEWHERE))
    if used:
        spelt = ", ".join(f"{name}.{each}" for each in used)
        step.faults.append(
            f"{where} runs in another process, where {spelt} cannot be honoured: its context has only "
            f"{', '.join(ELSEWHERE)}. Do the rest in a step of this process."
        )


def _take_events(step: Step, taken: list[tuple[str, Meaning]], where: str) -> None:
    if not taken:
        if not step.faults:
            step.faults.append(
                f"{where} takes no event. Give it a parameter with an event type, as in `ev: StartEvent`."
            )
        return
    found = [each for _, each in taken]
    lists = [name for name, each in taken if each.is_list]
    if len(taken) > 1 and lists:
        step.faults.append(
            f"{where}: {lists[0]!r} is a list beside other event parameters. A step gathers one list, or takes one "
            "event of each parameter."
        )
    for name, each in taken:
        _read_selection(step, name, each, where)
    for other in dict.fromkeys(other for each in found for other in each.others):
        step.faults.append(f"{where} takes {_spell(other)}, which is no event type.")
    step.takes = found[0]
    if len(found) == 1 and found[0].events:
        _check_collects(step, taken[0][0], where)
    if len(found) > 1:
        events = tuple(dict.fromkeys(cls for each in found for cls in each.events))
        step.takes, step.slots = Meaning(events, lists=found[0].lists), tuple(each.events for each in found)
    if step.options.catches is not None and (
        step.slots or step.takes.is_list or any(role_of(cls) != "failure" for cls in step.takes.events)
    ):
        step.faults.append(f"{where} is a handler of failures: give it one event parameter, `ev: StepFailedEvent`.")


def _check_collects(step: Step, name: str, where: str) -> None:
    """A collect of what the step is never handed is never complete (R8.11)."""
    if not mentions(step.fn, "collect_events"):
        return
    taken = step.takes.events
    for cls in dict.fromkeys(collected_by(step.fn, name, step.options.local or {})):
        if not (isinstance(cls, type) and issubclass(cls, Event)):
            continue
        # By names, since the cell of a class may have been run again.
        below = {key_of(cls), *bases_of(cls)}
        if not any(key_of(each) in below or key_of(cls) in bases_of(each) for each in taken):
            names = " | ".join(each.__name__ for each in taken)
            step.faults.append(
                f"{where} collects {cls.__name__}, which it does not take, so the collect is never complete. Take it "
                f"too: `{name}: {names} | {cls.__name__}`."
            )


def _read_selection(step: Step, name: str, found: Meaning, where: str) -> None:
    """`Take(n)` beside a `list[...]`."""
    words = [word.cardinality if isinstance(word, Collect) else word for word in found.metadata]
    words = [word() if word in (All, Collect) else word for word in words]
    said = [word for word in words if isinstance(word, (All, Take)) or word is Take]
    if not said:
        return
    word = said[0]
    if len(said) > 1:
        step.faults.append(f"{where}: {name!r} says {len(said)} times when it fires. Leave one.")
    elif word is Take:
        step.faults.append(f"{where}: {name!r} does not say how many it takes. Write Take(1).")
    elif not found.is_list:
        step.faults.append(f"{where}: {name!r} is no list, so {word!r} cannot be honoured. Hint `list[...]`.")
    elif isinstance(word, Take):
        step.take, step.cancel_rest = word.n, word.cancel_rest


def _check_cancelled(step: Step, taken: list[tuple[str, Meaning]], where: str) -> None:
    """A step for cancelled runs takes the event that says so, or nothing."""
    if any(each.events != (WorkflowCancelledEvent,) for _, each in taken) or len(taken) > 1:
        step.faults.append(
            f"{where} runs when the run is cancelled: it takes `ev: WorkflowCancelledEvent` or no event, and may take "
            "the context."
        )


def read_return(step: Step, hints: dict[str, Any], where: str) -> None:
    """Fill in what a step returns."""
    if "return" not in hints:
        if not step.options.on_cancel:
            step.faults.append(
                f"{where} has no return hint. Write what it returns, as in `-> StopEvent`, or `-> None` for nothing."
            )
        return
    gives = meaning(hints["return"])
    if step.options.on_cancel:
        if gives.events or gives.lists or gives.others:
            step.faults.append(
                f"{where} runs when the run is cancelled, where nothing is routed any more. Write `-> None`."
            )
        return
    step.gives = gives
    for other in gives.others:
        step.faults.append(f"{where} returns {_spell(other)}, which is no event type. Wrap it into an event.")


def _model_of(hint: Any) -> type[BaseModel] | None:
    found = next(iter(get_args(hint)), None)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _spell(hint: Any) -> str:
    return f"{hint.__module__}.{hint.__qualname__}" if isinstance(hint, type) else repr(hint)
