"""What a tick changed in the user's state."""

from flownb.core.diff import user_changes
from flownb.core.ticks import StateWritten
from flownb.testing import feed, out, says, spec, started, step

FLOW = spec(step("work", "Start", "Stop"))


def written(state, *, dropped=(), **values):
    changes = {name: out("Value", value) for name, value in values.items()}
    return feed(state, says(state, "work", StateWritten, changes=changes, dropped=dropped))[0]


def test_the_difference_names_what_changed():
    """R6.5: name, before, after; an equal value written again is no change."""
    before = written(feed(started(FLOW))[0], a=1, b=2, c=3)
    after = written(before, a=1, b=20, d=4, dropped=("c", "never there"))

    assert user_changes(before, after) == [
        ("b", out("Value", 2), out("Value", 20)),
        ("c", out("Value", 3), None),
        ("d", None, out("Value", 4)),
    ]


def test_without_a_before_everything_is_new():
    """The first tick of a run has none before it."""
    after = written(feed(started(FLOW))[0], a=1)

    assert user_changes(None, after) == [("a", None, out("Value", 1))]


def test_a_state_that_nobody_wrote_has_no_difference():
    """Not even a look at its values."""
    before, _ = feed(started(FLOW))
    assert user_changes(before, before) == []
