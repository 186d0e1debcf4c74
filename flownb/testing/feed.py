"""Ticks for the pure core: feed them, compare what comes out as whole values.

Types are named in short: "Row" stands for the key "test:Row". A name that begins with Start, Stop, Ask, Reply,
Failed, Closed or Value has that role, every other one is an ordinary event; `event(...)` says it otherwise.

    flow = spec(step("load", "Start", fans="Row"), step("work", "Row", "Done"), step("sum", gathers="Done"))
    state, commands = feed(started(flow))
    state, commands = finish(state, "load", out("Row", 1), out("Row", 2), fan=True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

from flownb.core.commands import AnyCommand
from flownb.core.invariants import broken
from flownb.core.reduce import begin, reduce
from flownb.core.spec import EVENT, Spec, StepSpec, TypeSpec, link
from flownb.core.state import Delivery, RunState, StepState
from flownb.core.ticks import GateReason, RunForked, RunStarted, StepFinished, Terms, Tick
from flownb.core.values import Limit, Out, Role

Fed = tuple[RunState, tuple[AnyCommand, ...]]
Names = str | Iterable[str]
T = TypeVar("T", bound=Tick)

#: How the name of a type begins -> its role.
ROLES: dict[str, Role] = {
    "Start": "start",
    "Stop": "stop",
    "Ask": "request",
    "Reply": "answer",
    "Failed": "failure",
    "Closed": "closed",
    "Value": "value",
}


def feed(state_or_ticks: RunState | Tick | Iterable[Tick], *ticks: Tick) -> Fed:
    """The state after these ticks, and the commands of the last of them.

    Args:
        state_or_ticks: A state to go on from, or a journal from its beginning, or its first tick.
        ticks: More ticks.

    Raises:
        AssertionError: After one of them a rule of `invariants` is broken.
        ValueError: The core refuses one of them.
    """
    state: RunState | None = None
    if isinstance(state_or_ticks, RunState):
        state, todo = state_or_ticks, list(ticks)
    elif isinstance(state_or_ticks, Tick):
        todo = [state_or_ticks, *ticks]
    else:
        todo = [*state_or_ticks, *ticks]
    commands: list[AnyCommand] = []
    for tick in todo:
        if state is None:
            assert isinstance(tick, (RunStarted, RunForked)), f"a journal begins with RunStarted, not with {tick!r}"
            state, commands = begin(tick)
        else:
            state, commands = reduce(state, tick)
        assert broken(state) == [], f"after {tick!r}: {broken(state)}"
    assert state is not None, "no tick and no state"
    return state, tuple(commands)


def finish(state: RunState, step: str, *outs: Out, fan: bool = False, n: int = 0, at: float | None = None) -> Fed:
    """Feed the end of the n-th oldest started delivery of a step, with what it returned."""
    return feed(state, says(state, step, StepFinished, n=n, at=at, outs=outs, fan=fan))


def says(
    state: RunState, step: str, tick: Callable[..., T], *, n: int = 0, at: float | None = None, **fields: Any
) -> T:
    """A tick of the n-th oldest started delivery of a step, running or waiting, as its code would put it."""
    d = started_of(state, step)[n]
    return tick(at=state.at if at is None else at, step=step, delivery=d.id, start=d.start, **fields)


def started_of(state: RunState, step: str) -> list[Delivery]:
    """Deliveries of a step whose code runs or waits, oldest first."""
    work = work_of(state, step)
    return sorted((*work.active.values(), *work.waiting.values()), key=lambda d: d.id)


def work_of(state: RunState, step: str) -> StepState:
    """What a step has to do, by its name."""
    return state.steps[state.spec.index[step]]


def key(name: str) -> str:
    """The key of a short name; a whole key stays as it is."""
    return name if ":" in name else f"test:{name}"


def role_of(name: str) -> Role:
    """The role that a name stands for."""
    short = name.rpartition(":")[2]
    return next((role for begins, role in ROLES.items() if short.startswith(begins)), "event")


def out(name: str, value: Any = None, *, bases: Names = (), limit: Limit | None = None) -> Out:
    """An event of a type, by its name."""
    return Out(key(name), value, role_of(name), keys(bases), limit)


def event(name: str, *, bases: Names = (), answer: str = "", role: Role | None = None) -> TypeSpec:
    """A type that needs more said than its name."""
    return TypeSpec(key(name), role or role_of(name), (*keys(bases), EVENT), answer and key(answer))


def step(
    name: str,
    takes: Names = (),
    returns: Names = (),
    *,
    fans: Names = (),
    gathers: Names = (),
    slots: Iterable[Names] = (),
    catches: Names | None = None,
    num_workers: int | None = 4,
    runs: Names = (),
    **options: Any,
) -> StepSpec:
    """One step: what it takes, returns, returns in lists and gathers from lists, by names of types.

    Args:
        name: Its name.
        takes: What it takes one at a time.
        returns: What it may return.
        fans: What it may return in a list.
        gathers: What its `list[...]` parameter gathers.
        slots: Instead of `takes`, for each of several event parameters what it takes.
        catches: Of a handler of failures: names of the steps that it is for, () for all.
        num_workers: How many deliveries are active at once, None for any number.
        runs: Names of the workflows that it runs as children.
        options: Any other field of `StepSpec`: `take`, `cancel_rest`, `rate`, `on_error`, `waits`, ...
    """
    parameters = tuple([keys(slot) for slot in slots])
    return StepSpec(
        name,
        tuple(dict.fromkeys(taken for slot in parameters for taken in slot)) if parameters else keys(takes),
        keys(gathers),
        keys(returns),
        keys(fans),
        num_workers,
        slots=parameters,
        catches=(catches,) if isinstance(catches, str) else catches if catches is None else tuple(catches),
        runs=keys(runs),
        **options,
    )


def spec(
    *steps: StepSpec,
    types: Iterable[TypeSpec] = (),
    start: str = "Start",
    outside: Names = (),
    unhandled: Literal["warn", "error", "ignore"] = "warn",
    stalled: Literal["error", "wait"] = "error",
) -> Spec:
    """A linked spec of these steps; types that are only named are made up from their names."""
    known = {t.key: t for t in types}
    named = [key(start), *keys(outside)]
    for s in steps:
        named += [*s.accepts, *s.gathers, *s.returns, *s.fans]
    for t in list(known.values()):
        named += [t.answer] if t.answer else []
    for name in named:
        if name not in known:
            known[name] = TypeSpec(name, role_of(name), (EVENT,) if name != EVENT else ())
    return link(
        Spec("flow", "test:flow", steps, tuple(known.values()), key(start), keys(outside), unhandled, stalled, "hash")
    )


def started(
    spec: Spec,
    value: Any = None,
    *,
    at: float = 0.0,
    gate: tuple[GateReason, ...] = (),
    run_id: str = "run",
    terms: Terms | None = None,
    **fields: Any,
) -> RunStarted:
    """The first tick of a run; `fields` are more of `RunStarted`."""
    return RunStarted(
        at, run_id, spec, Out(spec.start, value, "start"), gate, terms=Terms() if terms is None else terms, **fields
    )


def keys(names: Names) -> tuple[str, ...]:
    """Keys of one name or many."""
    return tuple(map(key, [names] if isinstance(names, str) else names))
