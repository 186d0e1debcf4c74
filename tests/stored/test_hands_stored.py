"""A person's hand in a stored run: what was edited or dropped is that for whoever drives it next."""

from collections.abc import Callable
from typing import Any

import pytest

from flownb import Store
from flownb.core.ticks import EventDropped, EventEdited, RequestAnswered, StepFinished
from flownb.errors import DefinitionChanged, RunReadOnly, WorkflowRuntimeError, WorkflowStalled
from tests.polling import wait_until
from tests.runtime.flows import Count
from tests.stored.flows import Asks, Item, Verdict
from tests.stored.other import Other
from tests.stored.test_changed_stored import flow_of, left

Open = Callable[..., Store]
Start = Callable[..., Other]


def test_r5_29_an_edit_survives_the_kill_of_its_process(place: str, open_store: Open, other: Start):
    """R5.29, R1.29: what waited before the gate lies in the store as it was edited, with who did it."""
    process = other(place)
    process.do("options.user = 'ann'")
    process.do("run = Asks().with_options(store=store).run(run_id='r')")
    process.wait("run.status == 'waiting'")
    process.do("run.pause().result(20); run.answer(ok=True, words='old')")
    process.wait("len(run.debug.inbox) == 1")
    process.do("run.debug.edit(0, {'words': 'new'})")
    process.kill()

    store = open_store(place)
    run = Asks().with_options(store=store).resume("r")
    assert run.debug.inbox[-1].answer.value == Verdict(ok=True, words="new")
    run.cont()
    assert run.result(20) == "new"
    (answered,) = [tick for tick in store.history("r") if isinstance(tick, RequestAnswered)]
    assert answered.hand is not None
    assert (answered.hand.by, answered.hand.original[0].value.words) == ("ann", "old")


def test_r5_73_what_was_admitted_out_of_order_stays_so(any_place: str, open_store: Open):
    """R5.73, R1.28: each entry of the durable inbox is taken with its own tick."""
    store = open_store(any_place)
    run = Count().with_options(store=store).debug(n=3, run_id="r")
    run.debug.step().result(20)
    wait_until(lambda: len(run.debug.inbox) == 3)
    assert all(tick.entry for tick in run.debug.inbox), "they lie in the store"
    run.debug.admit(2).result(20)
    assert len(store.journal.inbox(["r"])) == 2
    run.cont()
    run.result(20)
    assert not store.journal.inbox(["r"])
    hands = [tick.hand for tick in store.history("r") if isinstance(tick, StepFinished) and tick.step == "work"]
    assert [hand.ahead if hand else 0 for hand in hands] == [2, 0, 0]


def test_r6_46_dropping_its_work_lets_a_run_take_the_new_definition(any_place: str, open_store: Open):
    """R6.46, R5.13: of a step that is gone; nobody drives the run meanwhile, and it is marked in its journal."""
    left(open_store(any_place))
    store = open_store(any_place)
    changed = flow_of(work=None, word="new").with_options(store=store)
    with pytest.raises(DefinitionChanged):
        changed.resume("r")
    store.run("r").debug.drop("work").result(20)

    assert [type(tick) for tick in store.history("r")][-1] is EventDropped
    assert not store.requests()
    with pytest.raises(WorkflowStalled, match="somebody dropped the last Item"):
        changed.resume("r").result(20)


def test_a_viewer_s_hand_goes_through_the_store(place: str, open_store: Open, other: Start):
    """R5.12: work in the state can be edited from elsewhere; what waits before the gate of another process cannot."""
    process = other(place)
    process.do("run = Asks().with_options(store=store).run(run_id='r')")
    process.wait("run.status == 'waiting'")
    store = open_store(place)
    viewer = store.run("r")
    with pytest.raises(WorkflowRuntimeError, match="only looked at here"):
        viewer.debug.edit(0, Item(no=1))
    for step in (viewer.debug.step, viewer.debug.over, viewer.debug.out, lambda: viewer.debug.run_to(step="ask")):
        with pytest.raises(WorkflowRuntimeError, match="only looked at here"):
            step()
    viewer.debug.drop("ask")
    process.wait("any(type(tick).__name__ == 'EventDropped' for tick in run.debug.ticks)")


def test_an_imported_run_is_not_touched(open_store: Open, tmp_path: Any):
    """R5.29: it is another's."""
    store = open_store(str(tmp_path / "a.db"))
    run = Asks().with_options(store=store).run(run_id="r")
    wait_until(lambda: run.status == "waiting")
    store.export("r", tmp_path / "r.flow")
    there = open_store(str(tmp_path / "b.db"))
    imported = there.run(there.import_(tmp_path / "r.flow"))
    with pytest.raises(RunReadOnly, match="was imported"):
        imported.debug.step()
    for verb in (imported.debug.drop, imported.debug.fire):
        with pytest.raises(RunReadOnly, match="was imported"):
            verb("ask")
    run.cancel().result(20)


def test_work_that_waits_is_edited_in_the_journal(any_place: str, open_store: Open):
    """R5.29: and folds to the same."""
    store = open_store(any_place)
    run = Count().with_options(store=store).debug(n=2, run_id="r")
    stand = run.debug.breakpoints.add(step="work", at="start")
    run.debug.step().result(20)
    wait_until(lambda: [w.where for w in run.debug.inbox.work] == ["held", "held"])
    run.debug.edit(run.debug.inbox.work[0], {"no": 7}).result(20)
    stand.remove()
    run.cont()
    run.result(20)
    (tick,) = [tick for tick in store.history("r") if isinstance(tick, EventEdited)]
    assert tick.outs[0].value.no == 7
