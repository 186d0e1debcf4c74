"""`@catch_error`: which handler covers which steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from flownb.definition.steps import Step
from flownb.errors import near
from flownb.events import role_of


def recovery_faults(steps: Sequence[Step]) -> list[str]:
    """What is wrong with the handlers of failures: names that are none, and two for one step."""
    faults: list[str] = []
    handlers = [step for step in steps if step.options.catches is not None]
    names = [step.name for step in steps if not step.options.on_cancel and not is_handler(step)]
    for handler in handlers:
        for name in handler.options.catches or ():
            if name not in names:
                faults.append(f"handler {handler.name!r}: {_no_such(name, steps)} {near(name, names, 'There are')}")
    for name in names:
        scoped = [h.name for h in handlers if name in (h.options.catches or ())]
        if len(scoped) > 1:
            faults.append(
                f"step {name!r} has {len(scoped)} handlers, {' and '.join(map(repr, scoped))}. Name it in the "
                "for_steps of one."
            )
    for_all = [h.name for h in handlers if not h.options.catches]
    if len(for_all) > 1:
        faults.append(
            f"{' and '.join(map(repr, for_all))} are handlers of all steps. Leave one, or name steps: "
            "`@catch_error(for_steps=[...])`."
        )
    return faults


def is_handler(step: Step) -> bool:
    """Whether a step takes failures, by `@catch_error` or by its hint; its own failure reaches no handler (R3.39)."""
    return step.options.catches is not None or any(role_of(cls) == "failure" for cls in step.takes.events)


def on_error_of(step: Step, steps: Sequence[Step]) -> Literal["fail", "continue"]:
    """What a step's failure for good does: as it says itself, else "continue" where a `@catch_error` covers it."""
    if step.options.on_error is not None:
        return step.options.on_error
    if is_handler(step) or step.options.on_cancel:
        return "fail"
    handled = [other.options.catches for other in steps if other.options.catches is not None]
    return "continue" if any(not names or step.name in names for names in handled) else "fail"


def _no_such(name: str, steps: Sequence[Step]) -> str:
    found = next((step for step in steps if step.name == name), None)
    if found is None:
        return f"for_steps names {name!r}, which is no step."
    what = "runs when the run is cancelled" if found.options.on_cancel else "takes failures itself"
    return f"for_steps names {name!r}, which {what}."
