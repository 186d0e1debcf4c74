"""How far a run is."""

from flownb.core import ticks as t
from flownb.core.progress import Progress, completed, progress, reach_of
from flownb.core.reduce import begin, reduce
from flownb.core.values import Failure
from flownb.testing.feed import event, finish, out, says, spec, started, step

FAN = spec(
    step("load", "Start", fans="Row"),
    step("score", "Row", "Done", num_workers=2),
    step("total", gathers="Done", returns="Sum"),
    step("end", "Sum", "Stop"),
)


def test_progress_counts_what_is_over_what_lives_and_each_step_ahead_once():
    """R5.66: the fan-out makes the total grow when it is there."""
    state, _ = begin(started(FAN))
    assert progress(state) == Progress(0, 4)
    state, _ = finish(state, "load", *(out("Row", i) for i in range(5)), fan=True)
    seen = [progress(state, "load")]
    for i in range(5):
        state, _ = finish(state, "score", out("Done", i))
        seen.append(progress(state, "score"))
    assert seen == [Progress(1, 8, "load"), *(Progress(i, 8, "score") for i in range(2, 7))]
    state, _ = finish(state, "total", out("Sum"))
    state, _ = finish(state, "end", out("Stop"))
    assert progress(state, "end", reach_of(FAN)) == Progress(8, 8, "end")


def test_a_run_that_ended_is_at_its_end_whatever_was_cut_off():
    state, _ = begin(started(FAN))
    state, _ = finish(state, "load", *(out("Row", i) for i in range(5)), fan=True)
    state, _ = reduce(state, t.CancelRequested(1.0))
    assert progress(state) == Progress(1, 1)


def test_a_workflow_with_a_loop_has_no_total():
    """R5.66: totals only where the graph is acyclic."""
    loop = spec(step("ask", ("Start", "Row"), "Row", num_workers=1), step("more", "Row", "Stop"))
    assert reach_of(loop) == ()
    state, _ = begin(started(loop))
    assert progress(state) == Progress(0, None)
    state, _ = finish(state, "ask", out("Row"))
    assert progress(state, "ask") == Progress(1, None, "ask")


def test_an_open_question_leads_on_to_the_steps_that_take_its_answer():
    """A question that was returned: nothing of it is a delivery."""
    flow = spec(
        step("ask", "Start", "Ask", asks=True),
        step("hear", "Reply", "Stop"),
        step("never", "Other"),
        types=[event("Ask", answer="Reply")],
    )
    state, _ = begin(started(flow))
    state, _ = finish(state, "ask", out("Ask"))
    assert progress(state) == Progress(1, 2)


def test_the_steps_behind_each_step_are_known_by_their_bits():
    assert reach_of(FAN) == (0b1110, 0b1100, 0b1000, 0)
    diamond = spec(step("a", "Start", ("B", "C")), step("b", "B", "D"), step("c", "C", "D"), step("d", "D", "Stop"))
    assert reach_of(diamond) == (0b1110, 0b1000, 0b1000, 0)


def test_a_tick_that_completes_a_delivery_is_known_by_its_step():
    """R5.66: a failure counts when nobody tries again; a late tick and any other complete nothing."""
    flow = spec(step("work", "Start", fans="Row"), step("score", "Row"))
    state, _ = begin(started(flow))

    def label(tick: t.AnyTick) -> str:
        return completed(tick, state, reduce(state, tick)[0])

    odd = Failure("m:Odd", "no")
    assert label(says(state, "work", t.StepFinished)) == "work"
    assert label(says(state, "work", t.StepFailed, failure=odd)) == "work"
    assert label(says(state, "work", t.StepFailed, failure=odd, retry_at=9.0)) == ""
    assert label(t.StepFinished(0.0, "work", 1, 7)) == ""
    assert label(t.StepFinished(0.0, "nobody", 1, 1)) == ""
    assert label(t.QuietNoticed(0.0)) == ""
