"""The frozen description of a workflow: names and tables, no functions, no classes.

A spec is made by `flownb.definition` from type hints and stands in the first tick of every run, so that a journal
can be read, drawn and folded where the code is not there. `link` adds the tables that the reducer looks things up
in; keys of routes are `module:qualname`, never classes: a notebook cell that is run again makes a new class with
the old name.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from flownb.core.values import Role

EVENT = "flownb.events:Event"
#: A hint of plain `Event` means events of these roles only (R2.9).
ORDINARY: tuple[Role, ...] = ("event", "answer")


class TypeSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """One event type that a workflow's hints name."""

    key: str
    role: Role = "event"
    #: Keys of its bases up to `Event`, nearest first.
    bases: tuple[str, ...] = ()
    #: Of a request: the key of the event that answers it, "" if none is named.
    answer: str = ""


class StepSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """One step, as far as the engine and the drawing need to know it."""

    name: str
    #: Keys of the event types that it takes one at a time.
    accepts: tuple[str, ...] = ()
    #: Keys of the types that its `list[...]` parameter gathers; empty for a plain step.
    gathers: tuple[str, ...] = ()
    #: Keys that it may return as one event.
    returns: tuple[str, ...] = ()
    #: Keys that it may return inside a list.
    fans: tuple[str, ...] = ()
    #: At most so many deliveries are active at once; None is no limit.
    num_workers: int | None = 4
    #: It may ask a person (by a returned request or by `ctx.ask`).
    asks: bool = False
    #: Hash of its source (R1.43).
    source: str = ""
    #: Per event parameter the keys that it takes, for a step with several of them; `accepts` is their union.
    slots: tuple[tuple[str, ...], ...] = ()
    #: A gathering step fires with the n-th arrival (0: when every branch is finished), and may end the other branches.
    take: int = 0
    cancel_rest: bool = False
    #: What a failure for good does: it fails the run, or is routed as a `StepFailedEvent`.
    on_error: Literal["fail", "continue"] = "fail"
    #: Of a `@catch_error` step: names of the steps whose failures it takes, () for all; None for any other step.
    catches: tuple[str, ...] | None = None
    #: How often a chain of causes may pass through it as a handler of failures; None is no limit.
    max_recoveries: int | None = None
    #: At most so many starts a second.
    rate: float | None = None
    #: False: after a crash somebody has to say what became of it (R3.62).
    idempotent: bool = True
    #: It runs when the run is cancelled, and only then.
    on_cancel: bool = False
    #: It may wait for events (`ctx.wait_for_event`), so they can be sent to it by name.
    waits: bool = False
    #: Keys of the workflows that it runs as children, for the drawing.
    runs: tuple[str, ...] = ()
    #: It takes only what is exactly of a type that it names, no subclasses.
    exact: bool = False


class Spec(Struct, frozen=True, gc=False, omit_defaults=True):
    """One workflow. Steps stand in the order of their definition."""

    name: str
    #: `module:qualname` of the class, `module:name` of a workflow built in cells.
    key: str
    steps: tuple[StepSpec, ...]
    types: tuple[TypeSpec, ...]
    #: Key of the start event.
    start: str
    #: Keys of the types that come from outside (R5.35).
    outside: tuple[str, ...] = ()
    unhandled: Literal["warn", "error", "ignore"] = "warn"
    stalled: Literal["error", "wait"] = "error"
    #: Hash of names, hints, options and sources (R1.44).
    hash: str = ""

    def __repr__(self) -> str:
        return f"<Spec of {self.name}: {', '.join(step.name for step in self.steps)}>"

    # Tables made by `link`.
    index: dict[str, int] = {}
    #: Type key -> the steps that take such an event, in order.
    routes: dict[str, tuple[int, ...]] = {}
    #: Type key -> the steps that gather such events in a `list[...]`.
    lists: dict[str, tuple[int, ...]] = {}
    #: Type key -> keys of its bases, nearest first.
    bases: dict[str, tuple[str, ...]] = {}
    #: Per step: the `list[...]` steps that join its fan-out.
    joins: tuple[tuple[int, ...], ...] = ()
    #: Steps with several event parameters.
    slotted: frozenset[int] = frozenset()
    #: Per step: the steps that take its failures, in order; () if none does.
    catchers: tuple[tuple[int, ...], ...] = ()
    #: Steps that run when the run is cancelled.
    on_cancel: tuple[int, ...] = ()
    #: Steps that must not run twice (`idempotent=False`).
    once: frozenset[int] = frozenset()


def link(spec: Spec) -> Spec:
    """The spec with its tables."""
    types = {t.key: t for t in spec.types}
    index = {step.name: i for i, step in enumerate(spec.steps)}
    hints = [(s.accepts, s.exact) for s in spec.steps]
    routes = {key: _takers(t, hints) for key, t in types.items()}
    lists = {key: _takers(t, [(s.gathers, s.exact) for s in spec.steps]) for key, t in types.items()}
    linked = replace(
        spec,
        index=index,
        routes=routes,
        lists=lists,
        bases={t.key: t.bases for t in spec.types},
        slotted=frozenset(i for i, step in enumerate(spec.steps) if step.slots),
        on_cancel=tuple(i for i, step in enumerate(spec.steps) if step.on_cancel),
        once=frozenset(i for i, step in enumerate(spec.steps) if not step.idempotent),
        catchers=_catchers(spec, routes),
    )
    return replace(linked, joins=_joins(linked))


def takers(spec: Spec, key: str, role: Role, bases: tuple[str, ...], *, gathering: bool = False) -> tuple[int, ...]:
    """The steps that take an event, in order; for a type that the spec does not know, by its bases."""
    table = spec.lists if gathering else spec.routes
    found = table.get(key)
    if found is not None:
        return found
    steps: set[int] = set()
    for base in bases:
        if base != EVENT or role in ORDINARY:
            steps.update(i for i in table.get(base, ()) if not spec.steps[i].exact)
    return tuple(sorted(steps))


def _catchers(spec: Spec, routes: dict[str, tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """For each step the steps that take its failures: a handler that names it, else all that take any failure."""
    takers = sorted({i for t in spec.types if t.role == "failure" for i in routes[t.key]})
    found = []
    for i, step in enumerate(spec.steps):
        scoped = tuple(h for h in takers if step.name in (spec.steps[h].catches or ()))
        others = tuple(h for h in takers if not spec.steps[h].catches)
        found.append(() if i in takers else scoped or others)
    return tuple(found)


def _takers(event: TypeSpec, hints: list[tuple[tuple[str, ...], bool]]) -> tuple[int, ...]:
    fits = {event.key, *event.bases}
    if event.role not in ORDINARY:
        fits.discard(EVENT)
    return tuple(
        i for i, (hint, exact) in enumerate(hints) if (event.key in hint if exact else fits.intersection(hint))
    )


def _joins(spec: Spec) -> tuple[tuple[int, ...], ...]:
    """For each step the gathering steps that belong to its fan-out: those that its elements can reach without
    passing through another fan-out, which would own them (R4.11).

    What a branch goes on with behind an inner fan-out depends on the joins of *that*, so the answer grows until it
    stands still, the innermost ones first. A list that nothing joins needs no word: its elements reach no join.
    """
    joins: tuple[tuple[int, ...], ...] = tuple(() for _ in spec.steps)
    while True:
        found = tuple(_reach(spec, i, joins) for i in range(len(spec.steps)))
        if found == joins:
            return joins
        joins = found


def _reach(spec: Spec, source: int, joins: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The `list[...]` steps that elements of a fan-out can reach. A question goes on as its answer, or as its end."""
    closed = [t.key for t in spec.types if t.role == "closed"]
    becomes = {t.key: [t.answer, *closed] for t in spec.types if t.role == "request"}
    targets: set[int] = set()
    seen: set[str | int] = set()
    todo: list[str] = list(spec.steps[source].fans)
    while todo:
        key = todo.pop()
        if key in seen:
            continue
        seen.add(key)
        targets.update(spec.lists.get(key, ()))
        todo += becomes.get(key, ())
        for i in spec.routes.get(key, ()):
            if i not in seen:
                seen.add(i)
                todo += _continues(spec, i, joins)
    return tuple(sorted(targets))


def _continues(spec: Spec, i: int, joins: tuple[tuple[int, ...], ...]) -> list[str]:
    """What a step sends into the branch that it runs in: itself, or through the joins of its own fan-out.

    A join may fan out in its turn, in the same branch, so the joins of joins count too.
    """
    out: list[str] = []
    seen: set[int] = set()
    todo = [i]
    while todo:
        at = todo.pop()
        if at not in seen:
            seen.add(at)
            out += spec.steps[at].returns
            todo += joins[at]
    return out
