"""What is wrong with a workflow before it runs. All faults at once, each with step, type and a mend (R8.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flownb.core.graph import short
from flownb.core.spec import EVENT, ORDINARY, Spec, StepSpec, TypeSpec, takers
from flownb.definition.branches import TOP, Branches

#: Names of checks that `skip_graph_checks=` takes, of a workflow and of a step.
CHECKS = ("reachability", "terminal_event", "dead_end", "unproduced", "unconsumed", "join", "failure", "subclasses")

_MEND_FAILURE = 'Give the steps that may fail on_error="continue", or write `@catch_error` above the one that takes it.'


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
    failures = {key for key, event in types.items() if event.role == "failure"}
    for i, step in enumerate(spec.steps):
        if step.on_cancel:
            continue
        missing = [key for key in (*step.accepts, *step.gathers) if not _is_made(spec, key, produced)]
        names = ", ".join(short(key) for key in missing) or "what it takes"
        if i not in reached:
            if "reachability" not in left_out[i]:
                mend = "Return it somewhere, or name it in accepts=[...] if it comes from outside."
                if failures.intersection(missing):
                    mend = _MEND_FAILURE
                faults.append(
                    f"step {step.name!r} is never reached: no step that runs before it returns {names}. {mend}"
                )
        elif missing and "unproduced" not in left_out[i]:
            mend = f" {_MEND_FAILURE}" if failures.intersection(missing) else ""
            warnings.append(f"step {step.name!r} takes {names}, which no step returns.{mend}")
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
    branches = Branches(spec)
    faults += [said for i, said in _sets(spec, branches, reached) if "join" not in left_out[i]]
    faults += [said for i, said in _failures(spec, branches) if "failure" not in left_out[i]]
    warnings += [said for i, said in _subclasses(spec) if "subclasses" not in left_out[i]]
    return faults, warnings


def _produced(spec: Spec) -> set[str]:
    """Keys of all that can be sent: returned, answered, started, or from outside."""
    types = {t.key: t for t in spec.types}
    made = {spec.start, *spec.outside}
    for step in spec.steps:
        made.update((*step.returns, *step.fans))
    made.update(types[key].answer for key in list(made) if key in types and types[key].answer)
    # An answer without its own question: it comes from outside (R5.35).
    made.update(t.key for t in spec.types if t.role in ("answer", "closed", "engine"))
    if any(step.on_error == "continue" for step in spec.steps):
        made.update(t.key for t in spec.types if t.role == "failure")
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


def _sets(spec: Spec, branches: Branches, reached: set[int]) -> list[tuple[int, str]]:
    """Steps with several event parameters of which no set can be complete: a part that nobody sends, or parts that
    never meet in one branch (R8.11, R4.78)."""
    faults: list[tuple[int, str]] = []
    for i, step in enumerate(spec.steps):
        if not step.slots or i not in reached:
            continue
        sent = [_branches_of(spec, branches, step, slot) for slot in step.slots]
        never = [slot for slot, found in zip(step.slots, sent, strict=True) if not found]
        if never:
            names = ", ".join(" | ".join(map(short, slot)) for slot in never)
            said = (
                f"no step returns {names}. Return it somewhere, or name it in accepts=[...] if it comes from outside."
            )
        elif not sent[0].intersection(*sent[1:]):
            said = (
                "they are never sent in one branch of a fan-out. Gather the branches in a `list[...]` step before it."
            )
        else:
            continue
        parts = ", ".join(" | ".join(map(short, slot)) for slot in step.slots)
        faults.append((i, f"step {step.name!r} takes one each of {parts}, a set that is never complete: {said}"))
    return faults


def _branches_of(spec: Spec, branches: Branches, step: StepSpec, slot: tuple[str, ...]) -> set[int]:
    """Where events for one event parameter may be sent."""
    found: set[int] = set()
    for event in spec.types:
        fits = (event.key,) if step.exact else (event.key, *event.bases)
        if any(key in slot and (key != EVENT or event.role in ORDINARY) for key in fits):
            found |= branches.of_type[event.key]
    return found


def _failures(spec: Spec, branches: Branches) -> list[tuple[int, str]]:
    """Steps whose failure goes on, but where nobody takes it (R8.12, R8.14)."""
    failures = {t.key for t in spec.types if t.role == "failure"}
    faults: list[tuple[int, str]] = []
    for i, step in enumerate(spec.steps):
        if step.on_error != "continue" or spec.catchers[i]:
            continue
        if failures.intersection(step.accepts):
            said = f'step {step.name!r} takes failures, and its own fails the run: leave on_error="continue" out.'
            faults.append((i, said))
            continue
        holes = [b for b in sorted(branches.of_step[i] or {TOP}) if not _takes_failures(spec, b, failures)]
        above = sorted({spec.steps[j].name for b in holes if b != TOP for j in spec.joins[b]})
        if above:
            names = " and ".join(map(repr, above))
            said = (
                f'step {step.name!r} has on_error="continue", but {names}, which gathers its branch, takes no '
                "failures: hint `list[... | StepFailedEvent]`, or add a `@catch_error` step."
            )
        elif holes:
            said = (
                f'step {step.name!r} has on_error="continue", but no step takes its failure: add a `@catch_error` '
                "step, or one with the hint `ev: StepFailedEvent`."
            )
        else:
            continue
        faults.append((i, said))
    return faults


def _takes_failures(spec: Spec, branch: int, failures: set[str]) -> bool:
    """Whether a failure in that branch has its place in what is gathered."""
    return branch != TOP and any(failures.intersection(spec.steps[j].gathers) for j in spec.joins[branch])


def _subclasses(spec: Spec) -> list[tuple[int, str]]:
    """Pairs of steps of which one names a type and the other a base of it: both take such an event (R2.8).

    A step for plain `Event` is meant to take all.
    """
    said: list[tuple[int, str]] = []
    for event in spec.types:
        for i, step in enumerate(spec.steps):
            bases = [key for key in event.bases if key in step.accepts and key != EVENT]
            if not bases or step.exact or event.key in step.accepts:
                continue
            for other in spec.steps:
                if event.key in other.accepts:
                    text = (
                        f"step {step.name!r} takes {short(bases[0])} and step {other.name!r} its subclass "
                        f"{short(event.key)}: each {short(event.key)} goes to both. If that is not meant, give "
                        f"{step.name!r} accept_event_subclasses=False."
                    )
                    said.append((i, text))
    return said
