"""For tests of workflows, and of flownb itself: a clock that you turn, and ticks to feed to the pure core.

`flownb.testing.machine` needs Hypothesis, so it is not imported here.
"""

from flownb.testing.clock import ManualClock
from flownb.testing.feed import event, feed, finish, out, says, spec, started, step
from flownb.testing.replaying import assert_replayed, replay_file, titles
from flownb.testing.runner import WorkflowTestResult, WorkflowTestRunner

__all__ = [
    "ManualClock",
    "WorkflowTestResult",
    "WorkflowTestRunner",
    "assert_replayed",
    "event",
    "feed",
    "finish",
    "out",
    "replay_file",
    "says",
    "spec",
    "started",
    "step",
    "titles",
]
