"""What each tick led to."""

from random import Random

import pytest

from flownb.core import lineage as module
from flownb.core.causes import causes
from flownb.core.history import History
from flownb.core.lineage import Lineage
from flownb.testing.drive import drive
from flownb.testing.plan import OPS, Plan


def test_effects_are_the_causes_the_other_way_round():
    """PANEL §4: also of a journal that grows between two questions."""
    run = drive(Plan(1, OPS, many=(Plan(2, OPS), Plan(3, asks=True))), Random(4).randrange)
    led = {
        (cause, passed.after.seq)
        for passed in History(run.ticks).walk()
        for cause in causes(passed.tick, passed.before)
    }
    journal = run.ticks[:1]
    lineage = Lineage(journal)
    assert lineage.effects(1) == ()
    for tick in run.ticks[1:]:
        journal.append(tick)
        lineage.effects(len(journal))
    assert {(seq, effect) for seq in range(1, len(journal) + 1) for effect in lineage.effects(seq)} == led
    assert led and all(cause < effect for cause, effect in led)
    assert Lineage(run.ticks).effects(1) == lineage.effects(1)


def test_a_question_that_was_interrupted_is_answered_by_the_next_one(monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C in the middle of a long fold: nothing is lost, nothing stands twice."""
    run = drive(Plan(1, ("sleep",), many=(Plan(2, ("send",)), Plan(3))), Random(1).randrange)
    whole = Lineage(run.ticks)
    advance, calls = module.advance, []

    def interrupted(state, tick):
        calls.append(tick)
        if len(calls) in (3, 6):
            raise KeyboardInterrupt
        return advance(state, tick)

    wanted = [whole.effects(seq) for seq in range(1, len(run.ticks) + 1)]
    lineage = Lineage(run.ticks)
    monkeypatch.setattr(module, "advance", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            lineage.effects(1)
    assert [lineage.effects(seq) for seq in range(1, len(run.ticks) + 1)] == wanted
