"""For tests of workflows, and of flownb itself: a clock that you turn, and ticks to feed to the pure core.

`flownb.testing.machine` needs Hypothesis, so it is not imported here.
"""

from flownb.testing.clock import ManualClock
from flownb.testing.feed import event, feed, finish, out, says, spec, started, step

__all__ = ["ManualClock", "event", "feed", "finish", "out", "says", "spec", "started", "step"]
