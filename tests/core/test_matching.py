"""Which waiter takes an event: the oldest that it fits, one a step."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flownb.core.commands import WakeStep
from flownb.core.matching import fits, takers
from flownb.core.persist import Names
from flownb.core.reduce import reduce
from flownb.core.spec import EVENT
from flownb.core.ticks import Await, EventArrived, WaitOpened, WaitWithdrawn
from flownb.events import Event
from flownb.testing import event, feed, finish, out, says, spec, started, step
from flownb.testing.feed import key, started_of


class Row(Event):
    n: object = None


ONE = spec(
    step("begin", "Start", fans="X"),
    step("work", "X", waits=True, num_workers=None),
    step("also", "Y", waits=True, num_workers=None),
    types=(event("Base"), event("Sub", bases="Base"), event("Subsub", bases=("Sub", "Base"))),
)


def waiting(*waits, step_of=lambda n: "X"):
    """One delivery for each wait, in the order of opening."""
    state, _ = feed(started(ONE))
    state, _ = finish(state, "begin", *(out(step_of(n), n) for n in range(len(waits))), fan=True)
    opened = {"X": 0, "Y": 0}
    for n, wait in enumerate(waits):
        name = step_of(n)
        tick = says(state, "work" if name == "X" else "also", WaitOpened, n=opened[name], mark=1, wait=wait)
        state, _ = feed(state, tick)
        opened[name] += 1
    return state


def await_(name="Row", **requires):
    return Await(key(name), {field: out("Value", value) for field, value in requires.items()})


def row(n=None, name="Row", bases=(), **extra):
    return out(name, Row(n=n, **extra), bases=bases)


def takes(state, what, only=None):
    """Ids of the waiters that take an event, in the order of their steps."""
    return [waiter.id for waiter in takers(state, what, only)]


def test_the_oldest_waiter_of_a_step_takes_an_event():
    """R4.31: one in each step."""
    state = waiting(await_(), await_(), await_(), step_of=lambda n: "YXX"[n])
    assert takes(state, row()) == [2, 1]
    assert takes(state, row(), only=2) == [1]
    assert takes(state, row(), only=0) == []
    assert takes(state, row(name="Other")) == []


def test_a_waiter_takes_subclasses_of_its_type():
    """R4.31, R2.8: known to the spec by their bases, or not."""
    state = waiting(await_("Base"))
    assert takes(state, row(name="Subsub")) == [1]
    assert takes(state, row(name="Unknown", bases=("Base",))) == [1]
    assert takes(state, row(name="Unknown", bases=("Other",))) == []


def test_a_wait_for_the_exact_type_comes_before_one_for_a_base():
    """R4.32: whichever is older; then the nearest base."""
    state = waiting(await_("Base"), await_("Sub"), await_("Subsub"))
    assert takes(state, row(name="Subsub")) == [3]
    assert takes(state, row(name="Sub")) == [2]
    assert takes(state, row(name="Base")) == [1]
    state, _ = feed(state, EventArrived(1.0, row(name="Subsub")))
    assert takes(state, row(name="Subsub")) == [2]


def test_a_wait_for_any_event_takes_ordinary_events_only():
    """R2.9: as a step's hint does."""
    state = waiting(Await(EVENT))
    waiter = state.side.waiters[1]
    assert takes(state, row(name="Unknown", bases=(EVENT,))) == [1]
    assert takes(state, row(name="Start", bases=(EVENT,))) == []
    assert fits(waiter, row(name="Unknown"), (EVENT,))
    assert not fits(waiter, row(name="Failed"), (EVENT,))


@pytest.mark.parametrize(
    ("required", "given", "fit"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (1, True, True),
        (1, 2, False),
        ("a", "a", True),
        ("a", b"a", False),
        (None, None, True),
        (0, None, False),
        ([1], [1], True),
        ([1], [2], False),
        (1, [1], False),
        ([1], 1, False),
        (dt.date(2026, 1, 1), dt.date(2026, 1, 1), True),
        (dt.date(2026, 1, 1), dt.date(2026, 1, 2), False),
        (float("nan"), float("nan"), False),
    ],
)
def test_a_field_must_equal_what_is_required(required, given, fit):
    """R4.31: plain values by `==`, others by content; the index and the direct look agree."""
    state = waiting(await_(n=required))
    assert takes(state, row(given)) == ([1] if fit else [])
    assert fits(state.side.waiters[1], row(given), ()) is fit


def test_every_requirement_must_be_met():
    """R4.31: fields that the class does not declare count too; an absent one never matches, not even None."""
    state = waiting(await_(n=1, site="x"), await_(site=None), await_(n=1))
    assert takes(state, row(1, site="x")) == [1]
    assert takes(state, row(1, site="y")) == [3]
    assert takes(state, row(2, site="x")) == []
    assert takes(state, row(2)) == []
    assert takes(state, row(2, site=None)) == [2]
    assert takes(state, out("Row", {"n": 1})) == []


def test_among_several_shapes_the_oldest_waiter_wins():
    """R4.31: whatever fields each requires."""
    state = waiting(await_(n=[1]), await_(n=1), await_(site="x"), await_())
    assert takes(state, row(1, site="x")) == [2]
    assert takes(state, row([1], site="x")) == [1]
    assert takes(state, row(2, site="x")) == [3]
    assert takes(state, row(2)) == [4]


def test_five_equal_waits_take_five_events():
    """R4.34, R4.35, R4.27: one each, in the order in which they were opened; the sixth event finds none."""
    state = waiting(*[await_(n=1)] * 5)
    woken = []
    for _ in range(6):
        state, commands = feed(state, EventArrived(1.0, row(1)))
        woken += [c.delivery.id for c in commands if isinstance(c, WakeStep)]
    assert woken == [2, 3, 4, 5, 6]
    assert [kept.key for kept in state.mailbox] == [key("Row")]


def test_the_index_forgets_what_is_gone():
    """R1.6: waits that ended or were given up leave nothing behind, whatever they required."""
    state = waiting(await_(n=1), await_(n=2), await_(n=[1]), await_("Base"))
    assert len(state.side.wanted) == 4
    assert {event: sum(shapes.values()) for event, shapes in state.side.shapes.items()} == {
        key("Row"): 3,
        key("Base"): 1,
    }
    for d in started_of(state, "work"):
        state, _ = feed(state, WaitWithdrawn(1.0, "work", d.id, d.start, 1))
    assert (state.side.wanted, state.side.shapes, len(state.side.waiters)) == (Names(), {}, 0)


values = st.sampled_from([0, 1, True, 1.0, "1", b"1", None, (1,), [1], dt.date(2026, 1, 1)])
fields = st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2)


@given(
    st.lists(st.tuples(st.sampled_from(["Base", "Sub", "Row"]), fields), max_size=6),
    st.sampled_from(["Base", "Sub", "Subsub", "Row"]),
    fields,
)
def test_the_index_finds_what_a_look_at_each_waiter_finds(waits, name, given_fields):
    """R4.31, R4.32: against the plain rule, waiter by waiter."""
    state = waiting(*(await_(wanted, **required) for wanted, required in waits))
    what = row(name=name, **given_fields)
    bases = (*state.spec.bases[key(name)],) if key(name) in state.spec.bases else ()
    fitting = [w for w in state.side.waiters.values() if fits(w, what, bases)]
    order = (what.key, *bases)
    fitting.sort(key=lambda w: (order.index(w.event), w.id))
    assert takes(state, what) == [w.id for w in fitting[:1]]
    after, _ = reduce(state, EventArrived(1.0, what))
    assert after.side.waiters.n == state.side.waiters.n - len(fitting[:1])
