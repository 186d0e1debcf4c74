"""Past states: each one, at a cost that is bounded by work."""

import pytest

from flownb.core.history import WORK, History
from flownb.core.reduce import begin, reduce
from flownb.core.ticks import EventsSent, GateClosed, GateOpened, StepFinished
from flownb.testing import out, says, spec, started, step

FLOW = spec(step("begin", "Start", fans="A"), step("work", "A", ("A", "B"), num_workers=2), step("sum", gathers="B"))


class Counted(list):
    """A journal that counts how often a tick of it is read."""

    reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return super().__getitem__(index)


def run(elements=1_000, sends=0):
    """A journal with the state after each tick: a fan-out, then one tick per element."""
    journal = Counted([started(FLOW)])
    states = [begin(journal[0])[0]]

    def add(tick):
        journal.append(tick)
        states.append(reduce(states[-1], tick)[0])

    add(says(states[-1], "begin", StepFinished, outs=tuple(out("A", n) for n in range(elements)), fan=True))
    if sends:
        add(says(states[-1], "work", EventsSent, outs=tuple(out("A", n) for n in range(sends))))
    for _ in range(elements):
        add(says(states[-1], "work", StepFinished, outs=(out("B"),)))
    journal.reads = 0
    return journal, states


@pytest.mark.parametrize("live", [True, False])
def test_every_past_state_is_what_it_was(live):
    """R1.3, R1.4: whether the history heard of the ticks as they came, or folds a stored journal."""
    journal, states = run(400)
    history = History(journal)
    if live:
        for state, tick in zip(states, list(journal), strict=True):
            history.note(state, tick)

    for order in (range(len(states)), reversed(range(len(states)))):
        for k in order:
            assert history.at(k + 1) == states[k]


def test_a_past_state_costs_no_more_than_a_stretch_of_work():
    """Checkpoints are set by work: a live run never folds more than WORK ticks, a second look is no dearer."""
    journal, states = run()
    history = History(journal)
    for state, tick in zip(states, list(journal), strict=True):
        history.note(state, tick)
    for k in range(1, len(journal) + 1):
        journal.reads = 0
        history.at(k)
        assert journal.reads <= WORK


def test_a_stored_journal_is_folded_once():
    """The first look sets the checkpoints, the next ones use them."""
    journal, _ = run()
    history = History(journal)
    history.at(len(journal))
    assert journal.reads >= len(journal) - 1
    for k in (5, 300, 700, len(journal)):
        journal.reads = 0
        history.at(k)
        assert journal.reads <= WORK


@pytest.mark.parametrize("sends", [0, WORK])
def test_a_tick_with_many_events_is_a_checkpoint_of_its_own(sends):
    """A fan-out, or a big send, is not folded again for each tick after it."""
    journal, states = run(WORK, sends)
    history = History(journal)
    seq = 3 if sends else 2
    for state, tick in zip(states[:seq], list(journal), strict=False):
        history.note(state, tick)
    assert history.at(seq) is states[seq - 1]


def test_a_history_grows_with_its_journal():
    """While the run goes on; a look between does not disturb."""
    journal = [started(FLOW)]
    history = History(journal)
    states = [begin(journal[0])[0]]
    history.note(states[0], journal[0])
    for n in range(2 * WORK):
        journal.append((GateClosed if n % 2 else GateOpened)(float(n)))
        states.append(reduce(states[-1], journal[-1])[0])
        history.note(states[-1], journal[-1])
        if n % 50 == 0:
            assert history.at(n + 1) == states[n]
    assert history.at(1) == states[0]
    assert history.at(len(journal)) == states[-1]


@pytest.mark.parametrize("seq", [0, -1, 4])
def test_a_run_has_no_other_ticks_than_its_own(seq):
    """Seqs are counted from 1."""
    history = History([started(FLOW), GateClosed(0.0), GateOpened(0.0)])
    with pytest.raises(IndexError, match=f"This run has ticks 1 to 3, not {seq}."):
        history.at(seq)


@pytest.mark.parametrize("seq", [5, 300, 600])
def test_a_history_may_share_the_beginning_of_another(seq):
    """R6.37: of a fork; nothing that is shared is folded again, and what comes after is its own."""
    journal, states = run(700)
    before = History(journal)
    for state, tick in zip(states, list(journal), strict=True):
        before.note(state, tick)
    mine = Counted(journal[:seq])
    history = History(mine)
    history.share(before, seq)
    for k in range(1, seq + 1):
        mine.reads = 0
        assert history.at(k) == states[k - 1]
        assert mine.reads <= WORK
    mine.append(GateClosed(5.0))
    assert history.at(seq + 1).gate == ("person",)
    assert before.at(seq + 1) == states[seq]


def test_a_tick_that_is_told_again_is_kept_once():
    """A live run and a look at its past may both tell of it."""
    journal, states = run(2 * WORK)
    history = History(journal)
    history.at(len(journal))
    for state, tick in zip(states, list(journal), strict=True):
        history.note(state, tick)
    for k in (1, WORK, len(journal)):
        assert history.at(k) == states[k - 1]
