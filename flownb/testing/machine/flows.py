"""What a run of the machine can be made of: types of events, workflows, and the terms of a start."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from flownb.core import ticks as t
from flownb.core.spec import EVENT, Spec, StepSpec
from flownb.core.values import Failure, Limit, Out
from flownb.testing.feed import event, key, out, spec, step

#: Names of types that specs and ticks of the machine use; `Other*` are known to no spec.
ORDINARY = ("A", "B", "C", "SubA")
NAMES = (*ORDINARY, "Start", "Ask", "AskMore", "Reply", "OtherA", "OtherAsk")
#: A base of each that has one beside `Event`.
BASES = {"SubA": "A", "AskMore": "Ask", "OtherA": "A", "OtherAsk": "Ask"}
TYPES = tuple(event(n, bases=BASES.get(n, ()), answer="Reply" if "Ask" in n else "") for n in NAMES if "Other" not in n)

FAILED = out("Failed")
CLOSED = out("Closed")
NO = Failure("builtins:ValueError", "no")

index = st.integers(0, 1_000)
few = st.integers(0, 3)
delays = st.sampled_from((0.0, 0.5, 3.0))
rarely = st.sampled_from((False,) * 29 + (True,))
sometimes = st.sampled_from((False,) * 5 + (True,))
names = st.lists(st.sampled_from(ORDINARY), max_size=2, unique=True)


class Fields:
    """A user's event with one field, for waits that require a value of it."""

    model_fields = ("n",)

    def __init__(self, n: Any) -> None:
        self.n = n

    def __repr__(self) -> str:
        return f"Fields({self.n!r})"


#: What a field may hold; the last one has no fingerprint.
VALUES: tuple[Any, ...] = (0, 1, True, "1", [1])


def named(name: str, n: int) -> Out:
    """One event of a type, by its name; `n` picks its field or, of a question, its deadline and default."""
    bases = (key(BASES[name]), EVENT) if "Other" in name else ()
    if "Ask" not in name:
        return out(name, Fields(VALUES[n % len(VALUES)]), bases=bases)
    limit = (None, Limit(1_030.0), Limit(1_010.0, out("Reply", "default")))[n % 3]
    return out(name, n, bases=bases, limit=limit)


outs = st.builds(named, st.sampled_from((*"AABBCC", *NAMES)), st.integers(0, 9))
many = st.lists(outs, max_size=4).map(tuple)


#: It takes failures; it tidies up when the run is cancelled; both may follow any workflow.
CATCHES_ALL = step("catches", "Failed", ("A", "B"), catches=(), max_recoveries=1)
CATCHES_SOME = step("rescues", "Failed", "C", catches=("s0", "work"))
TIDIES = step("tidies", "Cancelled", on_cancel=True)
IS_TOLD = step("is told", "Closed", num_workers=1)

ODD_STEPS = (CATCHES_ALL, CATCHES_SOME, TIDIES, IS_TOLD)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Any workflow: joins, broadcasts and loops as they fall."""
    steps = [_any_step(draw, i) for i in range(draw(st.integers(1, 5)))]
    first = step("first", "Start", draw(names), fans=draw(names), num_workers=draw(st.sampled_from((1, 4))))
    return spec(
        first,
        *steps,
        *draw(st.lists(st.sampled_from(ODD_STEPS), max_size=3, unique=True)),
        types=TYPES,
        outside=draw(st.sampled_from(((), ("C",)))),
        unhandled=draw(st.sampled_from(("warn", "warn", "warn", "ignore", "error"))),
        stalled=draw(st.sampled_from(("wait", "wait", "wait", "error"))),
    )


def _any_step(draw: st.DrawFn, i: int) -> StepSpec:
    kind = draw(st.sampled_from(("takes", "takes", "gathers", "slots")))
    workers = draw(st.sampled_from((1, 1, 2, None)))
    returns, fans = draw(names), draw(names)
    name = f"s{i}"
    if kind == "gathers" and i:
        gathers = [*draw(names), *draw(st.sampled_from(((), ("Failed",))))]
        take = draw(st.sampled_from((0, 0, 1, 2)))
        ends = bool(take) and draw(st.booleans())
        return step(name, (), returns, fans=fans, gathers=gathers, num_workers=workers, take=take, cancel_rest=ends)
    if kind == "slots" and i:
        slots = draw(st.sampled_from(((("A",), ("B",)), (("A", "B"), ("A", "B")), (("SubA",), ("Reply", "C"), ("A",)))))
        return step(name, (), returns, slots=slots, num_workers=workers)
    takes = draw(st.lists(st.sampled_from((*NAMES[:8], EVENT)), max_size=3, unique=True))
    return step(
        name,
        takes,
        returns,
        fans=fans,
        num_workers=workers,
        rate=draw(st.sampled_from((None, None, None, 0.5))),
        idempotent=draw(st.sampled_from((True, True, False))),
    )


#: Fan-outs inside fan-outs, three steps deep, with a question on the way.
NESTED = spec(
    step("first", "Start", fans="A"),
    step("outer", "A", ("B", "Ask"), fans="B", num_workers=1),
    step("inner", "B", "C", fans="C", num_workers=1),
    step("hears", "Reply", "C", num_workers=None),
    step("is told", "Closed", "C"),
    step("join", gathers="C", returns="C", num_workers=1),
    step("both", gathers=("C", "B"), returns="C"),
    types=TYPES,
    stalled="wait",
)

#: A race, a pairing of two, handlers of failures and a slow step below one fan-out.
RACE = spec(
    step("first", "Start", fans="A"),
    step("work", "A", ("B", "C", "Ask"), fans="C", num_workers=2, on_error="continue"),
    step("pairs", (), "A", slots=("B", "C"), num_workers=1),
    step("slow", ("C", "Reply"), "B", num_workers=2, rate=0.5, idempotent=False),
    step("winners", gathers=("B", "Failed"), returns="A", take=2, cancel_rest=True),
    step("two", gathers="C", returns="C", take=2),
    step("all", gathers=("B", "C", "Failed"), returns="C"),
    CATCHES_SOME,
    TIDIES,
    IS_TOLD,
    types=TYPES,
    outside="C",
    stalled="wait",
)

flows = st.one_of(st.just(NESTED), st.just(RACE), specs())

#: Mostly none; a time limit of the run by either clock; few starts along a chain of causes.
terms = st.sampled_from(
    (
        *(t.Terms(),) * 4,
        t.Terms(timeout_s=40.0, grace_s=2.0),
        t.Terms(timeout_s=60.0, timeout_clock="wall"),
        t.Terms(max_starts=5, livelock="pause"),
        t.Terms(max_starts=7, livelock="fail"),
    )
)
