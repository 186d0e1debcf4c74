"""Deterministic work for the core: what each element does, and what its run must result in.

A `Plan` is one element of a fan-out: after some sends, waits, questions, children and failures it yields itself, drops
out, asks, or fans out in its turn. `expected` says the result of its run without the engine; `flownb.testing.drive`
runs it with the engine, in any order, with the driver lost anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from flownb.core.spec import Spec
from flownb.core.state import Delivery
from flownb.core.values import Out
from flownb.testing.feed import event, out, spec, step

Op = Literal[
    "send", "write", "once", "sleep", "ask", "two sleeps", "first of two", "event", "event in time", "child",
    "collect", "fail", "fail later", "fail while it waits",
]  # fmt: skip
OPS: tuple[Op, ...] = (
    "send", "write", "once", "sleep", "ask", "two sleeps", "first of two", "event", "event in time", "child",
    "collect", "fail", "fail later", "fail while it waits",
)  # fmt: skip
#: Ops whose first try ends the attempt.
FAILS = ("fail", "fail later", "fail while it waits")


@dataclass(frozen=True)
class Plan:
    """What one element does: its `ops` first; then it returns."""

    name: int
    ops: tuple[Op, ...] = ()
    #: It returns a list of these; None: it does not.
    many: tuple[Plan, ...] | None = None
    #: It returns a question; its answer goes on in the branch.
    asks: bool = False
    #: It returns itself, else None: it drops out.
    keeps: bool = True


def expected(plan: Plan) -> tuple[Any, ...]:
    """The result of a run of this plan: a tuple for each join, in the order of branches and of sending (R4.9)."""
    return arranged(_made(plan))


def _made(plan: Plan) -> tuple[Any, ...]:
    """What comes out of the branch of one plan."""
    made: list[Any] = [("pair", plan.name, n) for n, op in enumerate(plan.ops) if op == "collect"]
    made += [("sent", plan.name, n) for n, op in enumerate(plan.ops) if op == "send"]
    if plan.many is not None:
        return (*made, arranged(value for each in plan.many for value in _made(each)))
    if plan.asks:
        return (*made, ("answered", plan.name))
    return (*made, plan.name) if plan.keeps else tuple(made)


def arranged(values: Iterable[Any]) -> tuple[Any, ...]:
    """What a join makes of what came: pairs in front, since when their second half is collected is anybody's guess."""
    found = list(values)
    pairs: list[Any] = [value for value in found if isinstance(value, tuple) and "pair" in value]
    return (*sorted(pairs), *(value for value in found if value not in pairs))


def plan_spec(num_workers: int | None = 2) -> Spec:
    """The workflow that runs plans: `work` fans out into `work`, `gather` joins each level, the topmost ends it."""
    return spec(
        step("begin", "Start", fans="Work", num_workers=num_workers),
        step("work", "Work", ("Done", "Half", "Ask"), fans="Work", num_workers=num_workers),
        step("pair", "Half", "Done", num_workers=num_workers),
        step("listen", "Reply", "Done", num_workers=num_workers),
        step("gather", (), ("Done", "Stop"), gathers="Done", num_workers=num_workers),
        types=(event("Ask", answer="Reply"), event("Note")),
    )


def plan_of(delivery: Delivery) -> Plan | None:
    """The plan that a delivery of `work` carries; None for other steps."""
    value = delivery.out.value if isinstance(delivery.out, Out) else None
    return value if isinstance(value, Plan) and delivery.path is not None else None


def returned(delivery: Delivery) -> tuple[tuple[Out, ...], bool]:
    """What the code of a delivery returns: events, and whether as a list."""
    if isinstance(delivery.out, tuple):
        name = "Stop" if delivery.path is None else "Done"
        return (out(name, arranged(each.value for each in delivery.out)),), False
    plan = plan_of(delivery)
    if plan is None:  # `begin` fans its plan out as the only element; the others pass on what came
        fans = delivery.out.role == "start"
        return (out("Work" if fans else "Done", delivery.out.value),), fans
    if plan.many is not None:
        return tuple(out("Work", each) for each in plan.many), True
    if plan.asks:
        return (out("Ask", plan.name),), False
    return ((out("Done", plan.name),) if plan.keeps else ()), False
