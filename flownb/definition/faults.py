"""What is wrong with a workflow before it runs. All faults at once, each with step, type and a mend (R8.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flownb.core.graph import short
from flownb.core.spec import EVENT, Spec, TypeSpec, takers

#: Names of checks that `skip_graph_checks=` takes, of a workflow and of a step.
CHECKS = ("reachability", "terminal_event", "dead_end", "unproduced", "unconsumed", "join")


def graph_faults(
    spec: Spec, skip: Iterable[str] = (), skips: Sequence[Iterable[str]] = ()
) -> tuple[list[str], list[str]]:
    """Faults and warnings of the graph that the hints declare.

    Args:
        spec: The workflow.
        skip: Checks to leave out.
        skips: For each step, checks to leave out for that one.
    """
    skipped = set(skip)
    left_out = [set(names) | skipped for names in skips] or [skipped] * len(spec.steps)
    faults: list[str] = []
    warnings: list[str] = []
    types = {t.key: t for t in spec.types}
    produced = _produced(spec)
    if "terminal_event" not in skipped and not any(types[key].role == "stop" for key in produced):
        faults.append("no step returns a StopEvent, so no run could end. Hint one: `-> StopEvent`.")
    reached = _reached(spec, produced)
    for i, step in enumerate(spec.steps):
        missing = [key for key in (*step.accepts, *step.gathers) if not _is_made(spec, key, produced)]
        names = ", ".join(short(key) for key in missing) or "what it takes"
        if i not in reached:
            if "reachability" not in left_out[i]:
                faults.append(
                    f"step {step.name!r} is never reached: no step that runs before it returns {names}. "
                    "Return it somewhere, or name it in accepts=[...] if it comes from outside."
                )
        elif missing and "unproduced" not in left_out[i]:
            warnings.append(f"step {step.name!r} takes {names}, which no step returns.")
    for i, step in enumerate(spec.steps):
        for key in (*step.returns, *step.fans):
            event = types[key]
            if event.role in ("stop", "request") or "unconsumed" in left_out[i]:
                continue
            args = (spec, key, event.role, event.bases)
            if not takers(*args) and not takers(*args, gathering=True):
                said = f"step {step.name!r} returns {short(key)}, which no step takes."
                (faults if spec.unhandled == "error" else warnings).append(said)
    faults += [said for i, said in _dead_ends(spec, reached) if "dead_end" not in left_out[i]]
    faults += [said for i, said in _joins(spec, reached) if "join" not in left_out[i]]
    return faults, warnings


def _produced(spec: Spec) -> set[str]:
    """Keys of all that can be sent: returned, answered, started, or from outside."""
    types = {t.key: t for t in spec.types}
    made = {spec.start, *spec.outside}
    for step in spec.steps:
        made.update((*step.returns, *step.fans))
    made.update(types[key].answer for key in list(made) if key in types and types[key].answer)
    # An answer without its own question: it comes from outside (R5.35).
    made.update(t.key for t in spec.types if t.role in ("answer", "failure", "closed", "engine"))
    return made & set(types)


def _is_made(spec: Spec, key: str, produced: set[str]) -> bool:
    types = {t.key: t for t in spec.types}
    return key == EVENT or any(key == made or key in types[made].bases for made in produced)


def _reached(spec: Spec, produced: set[str]) -> set[int]:
    """Steps that some run can reach."""
    types = {t.key: t for t in spec.types}
    todo = [key for key in produced if key == spec.start or key in spec.outside or _from_outside(types[key].role)]
    reached: set[int] = set()
    seen: set[str] = set()
    while todo:
        key = todo.pop()
        if key in seen or key not in types:
            continue
        seen.add(key)
        event = types[key]
        if event.answer:
            todo.append(event.answer)
        args = (spec, key, event.role, event.bases)
        for i in (*takers(*args), *takers(*args, gathering=True)):
            reached.add(i)
            todo += [*spec.steps[i].returns, *spec.steps[i].fans]
    return reached


def _from_outside(role: str) -> bool:
    return role in ("answer", "failure", "closed", "engine")


def _dead_ends(spec: Spec, reached: set[int]) -> list[tuple[int, str]]:
    """Steps from which no end can be reached: a stop, or a step that says by `-> None` that its branch ends there.

    One that returns events of which none leads to either is a mistake (R8.10), as is a circle without a way out.
    """
    types = {t.key: t for t in spec.types}
    ends = {i for i, s in enumerate(spec.steps) if any(types[k].role == "stop" for k in (*s.returns, *s.fans))}
    ends.update(i for i, s in enumerate(spec.steps) if not s.returns and not s.fans)
    grew = True
    while grew:
        grew = False
        for i, step in enumerate(spec.steps):
            if i in ends:
                continue
            follows: set[int] = set()
            for key in (*step.returns, *step.fans):
                for k in (key, *_answers(types, key)):
                    args = (spec, k, types[k].role, types[k].bases)
                    follows.update((*takers(*args), *takers(*args, gathering=True)))
            if follows & ends:
                ends.add(i)
                grew = True
    return [
        (
            i,
            f"step {step.name!r} leads nowhere: nothing that follows it returns a StopEvent. "
            "Return one on this way, or let it end in a step with the hint `-> None`.",
        )
        for i, step in enumerate(spec.steps)
        if i in reached and i not in ends and (step.returns or step.fans)
    ]


def _answers(types: dict[str, TypeSpec], key: str) -> list[str]:
    """The events that may answer a question; any that steps take, where its class names none."""
    asked = types[key]
    if asked.role != "request":
        return []
    return [asked.answer] if asked.answer else [t.key for t in types.values() if t.role == "answer"]


def _joins(spec: Spec, reached: set[int]) -> list[tuple[int, str]]:
    owned = {target for targets in spec.joins for target in targets}
    return [
        (
            i,
            f"step {step.name!r} gathers list[{' | '.join(map(short, step.gathers))}], but no step before it returns a "
            "list whose elements lead there, so it would never fire. Return a list where the work is split.",
        )
        for i, step in enumerate(spec.steps)
        if step.gathers and i in reached and i not in owned
    ]
