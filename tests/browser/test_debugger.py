"""The debugger in the panel, in a real JupyterLab: every verb of the controls is clicked, every key is pressed."""

import json

import pytest
from debugged import ASK, RUN, begin, facts, row, step, wait_place, wait_told
from lab_harness import Lab, Opener
from panel_page import Panel

pytestmark = pytest.mark.browser


def test_every_verb_of_the_controls_does_what_it_says(debugged: tuple[Lab, Panel]):
    """Step, Step over, Step out, Run to, Continue, Pause, Stop; each is enabled exactly when it makes sense."""
    lab, panel = debugged
    verbs = ("Continue", "Pause", "Step", "Step over", "Step out", "Run to…", "Stop", "Fork here", "Replay")
    enabled = {name: panel.verb(name).is_enabled() for name in verbs}
    assert enabled == {**dict.fromkeys(verbs, True), "Pause": False}
    assert panel.verb("Edit & retry").is_hidden()

    step(panel)
    assert facts(lab, "work(run)") == ["StateWritten"]
    step(panel)
    assert facts(lab, "work(run)") == ["StateWritten", "StepFinished"]

    panel.verb("Step over").click()  # the first document is through `score`
    panel.wait_node("score", "running")
    panel.wait_status("paused")
    panel.view.locator(".fl-sentence", has_text="pauses where it was to run to").wait_for()
    assert facts(lab, "run._runner.state.steps[1].done") == 1

    panel.verb("Run to…").click()
    box = panel.view.locator(".fl-runto")
    box.get_by_label("event type").select_option(label="Scored")
    box.get_by_role("button", name="Run").click()
    box.wait_for(state="hidden")
    wait_told(panel, "pauses where it was to run to")
    lab.page.wait_for_timeout(200)
    assert facts(lab, "run._runner.state.steps[1].done") == 2

    panel.verb("Step out").click()  # of the fan-out
    panel.wait_node("gather", "running")
    panel.wait_status("paused")
    assert facts(lab, "[len(run._runner.state.joins), run._runner.state.steps[1].done]") == [0, 4]

    panel.verb("Continue").click()
    panel.wait_node("rest", "waiting")
    panel.wait_status("running")
    assert panel.verb("Continue").is_disabled()
    panel.verb("Pause").click()
    panel.wait_status("paused")
    panel.verb("Stop").click()
    panel.wait_status("cancelled")
    enabled = {name: panel.verb(name).is_enabled() for name in verbs}
    assert enabled == {**dict.fromkeys(verbs, False), "Fork here": True, "Replay": True}
    assert facts(lab, "run.status") == "cancelled"


@pytest.mark.parametrize(
    ("label", "value", "stops"),
    [
        ("step", "gather", "run._runner.state.steps[2].active.n"),
        ("tick number", "7", "run.now.seq == 8"),
        ("condition", "state.get('last') == LIMIT", "run.state.last == 2"),
        ("next person", "", "len(run.requests)"),
    ],
)
def test_run_to_stops_where_the_form_says(lab_notebook: Opener, label: str, value: str, stops: str):
    """A condition sees the names of the cells."""
    lab, panel = begin(lab_notebook, "LIMIT = 2; run = flow.debug()")
    panel.verb("Run to…").click()
    box = panel.view.locator(".fl-runto")
    role = {"step": "combobox", "tick number": "spinbutton", "condition": "textbox", "next person": "radio"}[label]
    control = box.get_by_role(role, name=label, exact=True)
    if label == "step":
        control.select_option(label=value)
    elif label == "next person":
        control.check()
    else:
        control.fill(value)
    box.get_by_role("button", name="Run").click()
    if label == "next person":  # the letter sleeps on the way
        panel.wait_node("rest", "waiting")
        facts(lab, "run.debug.fire(1).result(timeout=10) is None")
    panel._wait("panel => panel.dataset.status === 'paused'", 20)
    lab.page.wait_for_timeout(300)
    assert facts(lab, stops)


def test_a_condition_that_is_none_is_refused_in_words(debugged: tuple[Lab, Panel]):
    _, panel = debugged
    panel.verb("Run to…").click()
    box = panel.view.locator(".fl-runto")
    box.get_by_label("condition", exact=True).first.check()
    box.get_by_role("button", name="Run").click()
    box.locator(".fl-wrong", has_text="Give an expression").wait_for()
    box.locator("input[type=text]").fill("event.")
    box.get_by_role("button", name="Run").click()
    panel.view.locator(".fl-refusal", has_text="is no expression").wait_for()


def test_a_fork_is_looked_at_at_once_and_put_away(debugged: tuple[Lab, Panel]):
    """It is below, in the same output, in sight and with the focus; the run above is as it was."""
    lab, panel = debugged
    step(panel, 2)
    panel.verb("Continue").click()
    panel.wait_node("rest", "waiting")
    row(panel, 5).click()
    wait_place(panel, 5)
    ticks = panel.ticks()
    panel.verb("Fork here").click()
    fork = Panel(lab, RUN, 1)
    fork.wait_drawn()
    fork.wait_node("rest", "waiting")
    assert "at #5" in fork.view.locator(".fl-from").inner_text()
    assert fork.view.evaluate("el => el === document.activeElement")
    assert panel.ticks() == ticks
    lab.page.keyboard.press("p")  # the keys are the fork's now
    fork.wait_status("paused")
    assert panel.status() == "running"
    fork.view.get_by_role("button", name="close this panel").click()
    fork.box.wait_for(state="detached")


def test_a_fork_with_another_event(debugged: tuple[Lab, Panel]):
    """The event of the tick shown is edited in its pane; a mistake is said there, and the text stays."""
    lab, panel = debugged
    step(panel, 2)
    wait_told(panel, "load finished")
    panel.view.get_by_role("button", name="Fork with another event…").click()
    text = panel.view.locator(".fl-pane textarea")
    lab.page.wait_for_function("el => el.value.includes('no')", arg=text.element_handle())
    text.fill('[{"no": 7}]')
    panel.view.locator(".fl-editor").get_by_role("button", name="Fork", exact=True).click()
    panel.view.locator(".fl-editor .fl-wrong", has_text="These were 4 events").wait_for()
    assert text.input_value() == '[{"no": 7}]'
    text.fill('[{"no": 7}, {"no": 1}, {"no": 2}, {"no": 3}]')
    text.press("Control+Enter")
    fork = Panel(lab, RUN, 1)
    fork.wait_drawn()
    fork.wait_node("rest", "waiting")
    fork.view.locator(".fl-tr").first.wait_for()
    fork.tab("Log")
    fork.view.locator(".fl-pane pre", has_text="scoring 7").wait_for()


def test_edit_and_retry_of_a_failed_run(lab_notebook: Opener):
    """The failed event is edited as JSON, checked in Python, and the new run is shown below (R6.41)."""
    lab, panel = begin(lab_notebook, 'run = flow.debug(to="ann")')
    panel.verb("Continue").click()
    panel.wait_node("rest", "waiting")
    panel.verb("Pause").click()
    panel.wait_status("paused")
    panel.tab("Queue")
    panel.view.get_by_role("button", name="Fire now").click()
    panel.view.locator(".fl-sentence", has_text="fired").wait_for()
    panel.verb("Continue").click()
    panel.wait_status("failed")

    panel.verb("Edit & retry").click()
    box = panel.view.locator(".fl-retry")
    text = box.locator("textarea")
    lab.page.wait_for_function("el => el.value !== ''", arg=text.element_handle())
    assert json.loads(text.input_value()) == {"to": "ann"}
    text.fill('{"to": 3}')
    box.get_by_role("button", name="Retry").click()
    box.locator(".fl-wrong", has_text="to: Input should be a valid string").wait_for()
    lab.page.keyboard.press("Escape")
    box.wait_for(state="hidden")
    panel.verb("Edit & retry").click()
    assert text.input_value() == '{"to": 3}', "the draft survives"
    text.fill('{"to": "ann@home"}')
    box.get_by_role("button", name="Retry").click()
    fork = Panel(lab, RUN, 1)
    fork.wait_drawn()
    fork.view.locator(".fl-q .yes").click()
    fork.wait_status("completed")
    assert panel.status() == "failed"
    assert "fork of" in fork.view.locator(".fl-from").inner_text()


def test_replay_with_changed_code_tells_the_first_difference(lab_notebook: Opener):
    """The recording of what did not change, the cell's new code for what did (R6.43)."""
    source = """
class Half(Event):
    n: float

small = Workflow("small")

@small.step
async def halve(ev: StartEvent) -> Half:
    return Half(n=21)

@small.step
async def double(ev: Half) -> StopEvent:
    return StopEvent(result=ev.n * 2)

run = small.debug()
"""
    lab, panel = begin(lab_notebook, source)
    panel.verb("Continue").click()
    panel.wait_status("completed")
    changed = "@small.step\nasync def double(ev: Half) -> StopEvent:\n    return StopEvent(result=ev.n * 3)"
    lab.set_source(ASK, changed)
    lab.run(ASK)
    panel.verb("Replay").click()
    again = Panel(lab, RUN, 1)
    again.wait_drawn()
    again.wait_status("completed")
    assert "replay of" in again.view.locator(".fl-from").inner_text()
    line = again.view.locator(".fl-replay.differs")
    line.wait_for()
    assert "First difference" in line.inner_text()
    assert "double" in line.inner_text()
    line.locator(".fl-link").click()
    again.view.locator(".fl-tr.at", has_text="double").wait_for()


def test_into_a_sub_workflow(lab_notebook: Opener):
    """F11 and the button show the panel of the child that runs; where there is none, F11 steps."""
    source = """
inner, outer = Workflow("inner"), Workflow("outer")

@inner.step
async def hang(ev: StartEvent, ctx: Context) -> StopEvent:
    return StopEvent(result=await ctx.ask("Go on?", bool))

@outer.step
async def call(ev: StartEvent, ctx: Context) -> StopEvent:
    return StopEvent(result=await ctx.run(inner))

run = outer.debug()
"""
    lab, panel = begin(lab_notebook, source)
    panel.view.focus()
    lab.page.keyboard.press("F11")
    panel.wait_ticks(3)
    lab.page.keyboard.press("c")
    panel.wait_node("call", "waiting")
    panel.verb("Into").wait_for()
    lab.page.keyboard.press("F11")
    child = Panel(lab, RUN, 1)
    child.wait_drawn()
    assert "child of" in child.view.locator(".fl-from").inner_text()
    child.view.locator(".fl-q .yes").click()
    panel.wait_status("completed")


def test_every_key(debugged: tuple[Lab, Panel]):
    """PANEL §4, with the focus in the panel; the help lists all of them."""
    lab, panel = debugged
    press = lab.page.keyboard.press
    panel.view.focus()
    for key in ("F10", "n", "F11"):
        before = panel.ticks()
        press(key)
        panel.wait_ticks(before + 2)
    last = panel.ticks()
    for key, seq in (("b", last - 1), ("ArrowLeft", last - 2), ("ArrowRight", last - 1), ("Home", 0), ("End", last)):
        press(key)
        wait_place(panel, seq)
    press("r")
    panel.view.locator(".fl-runto").wait_for()
    press("Escape")
    panel.view.locator(".fl-runto").wait_for(state="hidden")
    panel.view.focus()
    press("?")
    keys = panel.view.locator(".fl-help-box kbd").all_inner_texts()
    assert {"F9 or c", "F10 or n", "F11", "Shift-F11", "Shift-F9", "p", "o", "r", "f", "t", "/", "Esc"} <= set(keys)
    press("Escape")
    press("/")
    assert panel.view.locator(".fl-filter").evaluate("el => el === document.activeElement")
    panel.view.focus()

    press("t")  # at the tick shown
    panel.view.locator(".fl-tr .fl-dot.on").wait_for()
    press("t")
    panel.view.locator(".fl-tr .fl-dot.on").wait_for(state="detached")
    node = panel.node("gather")
    node.focus()
    press("t")  # at the step with the focus
    node.locator(".fl-bp.on").wait_for()
    press("t")
    node.locator(".fl-bp.on").wait_for(state="detached")

    panel.view.focus()
    done = facts(lab, "run._runner.state.steps[1].done")
    panel.view.focus()
    press("o")
    panel.wait_status("paused")
    wait_told(panel, "was to run to")
    assert facts(lab, "run._runner.state.steps[1].done") == done + 2, "the next tick ended one and began another"
    panel.view.focus()
    press("Shift+F11")
    panel.wait_node("gather", "running")
    panel.wait_status("paused")
    press("F9")
    panel.wait_status("running")
    press("p")
    panel.wait_status("paused")
    press("c")
    panel.wait_status("running")
    press("f")
    fork = Panel(lab, RUN, 1)
    fork.wait_drawn()
    press("Shift+F9")  # of the fork, which has the focus
    fork.wait_status("cancelled")
    assert panel.status() == "running"
    panel.view.focus()
    press("Shift+F9")
    panel.wait_status("cancelled")
    press("Escape")
    assert lab.cell(RUN).evaluate("cell => cell === document.activeElement")
