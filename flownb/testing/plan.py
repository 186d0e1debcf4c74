"""Deterministic work for the core: what each element does, and what its run must result in.

A `Plan` is one element of a fan-out: after some sends, sleeps and questions it yields itself, drops out, asks, or
fans out in its turn. `expected` says the result of its run without the engine; `flownb.testing.drive` runs it with
the engine, in any order, with the driver lost anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from flownb.core.spec import Spec
from flownb.core.state import Delivery
from flownb.core.values import Out
from flownb.testing.feed import event, out, spec, step

Op = Literal["send", "write", "sleep", "ask", "two sleeps", "first of two"]
OPS: tuple[Op, ...] = ("send", "write", "sleep", "ask", "two sleeps", "first of two")


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
    sent = [("sent", plan.name, n) for n, op in enumerate(plan.ops) if op == "send"]
    if plan.many is not None:
        return (*sent, tuple(value for each in plan.many for value in expected(each)))
    if plan.asks:
        return (*sent, ("answered", plan.name))
    return (*sent, plan.name) if plan.keeps else tuple(sent)


def plan_spec(num_workers: int | None = 2) -> Spec:
    """The workflow that runs plans: `work` fans out into `work`, `gather` joins each level, the topmost ends it."""
    return spec(
        step("begin", "Start", fans="Work", num_workers=num_workers),
        step("work", "Work", ("Done", "Ask"), fans="Work", num_workers=num_workers),
        step("listen", "Reply", "Done", num_workers=num_workers),
        step("gather", (), ("Done", "Stop"), gathers="Done", num_workers=num_workers),
        types=(event("Ask", answer="Reply"),),
    )


def plan_of(delivery: Delivery) -> Plan | None:
    """The plan that a delivery of `work` carries; None for other steps."""
    value = delivery.out.value if isinstance(delivery.out, Out) else None
    return value if isinstance(value, Plan) and delivery.path is not None else None


def returned(delivery: Delivery) -> tuple[tuple[Out, ...], bool]:
    """What the code of a delivery returns: events, and whether as a list."""
    if isinstance(delivery.out, tuple):
        name = "Stop" if delivery.path is None else "Done"
        return (out(name, tuple(each.value for each in delivery.out)),), False
    plan = plan_of(delivery)
    if plan is None:  # `begin` fans its plan out as the only element; `listen` passes an answer on
        fans = delivery.out.role == "start"
        return (out("Work" if fans else "Done", delivery.out.value),), fans
    if plan.many is not None:
        return tuple(out("Work", each) for each in plan.many), True
    if plan.asks:
        return (out("Ask", plan.name),), False
    return ((out("Done", plan.name),) if plan.keeps else ()), False
