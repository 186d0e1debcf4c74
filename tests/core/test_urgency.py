"""How a step stands, in one word."""

from flownb.core import ticks as t
from flownb.core.urgency import STATES, step_states, urgent
from flownb.core.values import Failure
from flownb.testing.feed import feed, finish, out, says, spec, started, step

FLOW = spec(step("load", "Start", fans="Row"), step("score", "Row", "Done", num_workers=1), step("sum", gathers="Done"))


def test_each_state_that_a_step_can_be_in():
    """PANEL §2: the most urgent of its deliveries, of all steps in their order."""
    seen = set()

    def words(state):
        found = step_states(state)
        assert list(found) == [spec.name for spec in state.spec.steps]
        seen.update(found.values())
        return found

    state, _ = feed(started(FLOW))
    assert words(state) == {"load": "running", "score": "idle", "sum": "idle"}
    state, _ = finish(state, "load", out("Row", 0), out("Row", 1), fan=True)
    assert words(state) == {"load": "done", "score": "running", "sum": "waiting"}
    asks, _ = feed(state, says(state, "score", t.WaitOpened, mark=1, wait=t.Ask(out("Ask"))))
    assert words(asks)["score"] == "person"
    later, _ = feed(state, says(state, "score", t.StepFailed, failure=Failure("m:Odd", "no"), retry_at=9.0))
    assert words(later)["score"] == "retrying"
    failed, _ = feed(state, says(state, "score", t.StepFailed, failure=Failure("m:Odd", "no")))
    assert words(failed) == {"load": "done", "score": "failed", "sum": "idle"}
    over, _ = feed(state, t.CancelRequested(1.0))
    assert words(over)["score"] == "skipped"
    limited, _ = feed(started(spec(step("load", "Start", "Row"), step("score", "Row", rate=1.0))))
    for _ in range(2):
        limited, _ = feed(limited, says(limited, "load", t.EventsSent, outs=(out("Row"),)))
    limited, _ = finish(limited, "score")
    assert words(limited)["score"] == "queued"
    assert seen == set(STATES)


def test_a_gathering_step_counts_in_its_own_fan_out_however_many_stand_in_front():
    """Of a fan-out in a fan-out, the inner one has the step."""
    flow = spec(
        step("load", "Start", fans="Page"),
        step("split", "Page", "Book", fans="Row"),
        step("score", "Row", "Done"),
        step("page", gathers="Done", returns="Book"),
        step("book", gathers="Book"),
    )
    state, _ = finish(feed(started(flow))[0], "load", out("Page"), fan=True)
    state, _ = finish(state, "split", out("Row"), out("Row"), fan=True)
    state, _ = finish(state, "score", out("Done"))
    assert urgent(state, 3, 0, 0) == ("waiting", "1 of 2")
    assert urgent(state, 4, 0, 0) == ("waiting", "0 of 1")
