"""Breakpoints by click: on steps, edges and ticks, and in their list."""

from typing import Any

import pytest
from debugged import facts, step, wait_told
from lab_harness import Lab
from panel_page import Panel

pytestmark = pytest.mark.browser


def stops(lab: Lab) -> list[Any]:
    found: list[Any] = facts(lab, "[[p.what, p.enabled] for p in flow.breakpoints]")
    return found


def test_a_breakpoint_by_click_on_a_step(debugged: tuple[Lab, Panel]):
    """The dot outside top left: filled, gone; half for a condition, hollow while disabled; code is seen too."""
    lab, panel = debugged
    dot = panel.node("gather").locator(".fl-bp")
    dot.locator(".hit").click()
    panel.view.locator(".fl-bp.on").wait_for()
    assert stops(lab) == [["before step gather", True]]
    panel.verb("Continue").click()
    wait_told(panel, "breakpoint 1 (before step gather) pauses the run")
    panel.view.locator(".fl-strip .m-stop").wait_for(state="attached")
    assert facts(lab, "run._runner.state.steps[1].done") == 3, "it stands before the tick that starts it"
    dot.locator(".hit").click()
    panel.view.locator(".fl-bp.on").wait_for(state="detached")
    assert stops(lab) == []

    facts(lab, "flow.breakpoints.add(step='gather', when='len(event) > 3').number")
    panel.view.locator(".fl-bp.half").wait_for()
    dot.locator(".hit").click()
    panel.view.locator(".fl-bp.off").wait_for()
    assert stops(lab) == [["before step gather, when len(event) > 3", False]], "a condition is not lost by a click"
    facts(lab, "flow.breakpoints.clear()")
    panel.view.locator(".fl-bp.off").wait_for(state="detached")


def test_a_breakpoint_by_click_on_an_edge_and_on_a_tick(debugged: tuple[Lab, Panel]):
    lab, panel = debugged
    edge = panel.view.locator(".fl-edge", has=lab.page.locator("text:text-matches('^Report')"))
    edge.locator("text").click()
    panel.view.locator(".fl-edge .fl-bp.on").wait_for()
    assert stops(lab) == [["before event Report", True]]
    edge.locator(".fl-bp .dot").click()
    panel.view.locator(".fl-edge .fl-bp.on").wait_for(state="detached")

    step(panel, 4)
    wait_told(panel, "score finished")
    last = panel.view.locator(".fl-tr.at")
    last.hover()
    last.locator(".fl-dot").click()
    last.locator(".fl-dot.on").wait_for()
    assert stops(lab) == [["after step score, event Doc", True]]
    panel.verb("Continue").click()
    wait_told(panel, "pauses the run")
    assert facts(lab, "run._runner.state.steps[1].done") == 2


def test_the_list_of_breakpoints(debugged: tuple[Lab, Panel]):
    """Added by a form, enabled, disabled, removed; a condition that raises stops the run and says why."""
    lab, panel = debugged
    button = panel.view.locator(".fl-stops")
    button.click()
    box = panel.view.locator(".fl-breaks")
    box.get_by_label("step", exact=True).select_option(label="score")
    box.get_by_label("condition").fill("event.nope")
    box.get_by_role("button", name="Add").click()
    line = box.locator("[data-stop]")
    line.wait_for()
    assert "before step score, when event.nope" in line.inner_text()
    line.get_by_role("checkbox").uncheck()
    box.locator(".fl-dot.off").wait_for()
    assert stops(lab) == [["before step score, when event.nope", False]]
    line.get_by_role("checkbox").check()
    box.locator(".fl-dot.half").wait_for()
    lab.page.keyboard.press("Escape")
    box.wait_for(state="hidden")
    panel.verb("Continue").click()
    wait_told(panel, "its condition failed")
    button.click()
    line.locator(".fl-wrong", has_text="AttributeError").wait_for()
    assert "hit 1×" in line.inner_text()
    line.get_by_role("button", name="remove").click()
    line.wait_for(state="detached")
    assert stops(lab) == []
    box.get_by_label("condition").fill("event.")
    box.get_by_role("button", name="Add").click()
    box.locator(".fl-wrong", has_text="is no expression").wait_for()
