"""What waits before the gate, by click: admitted, edited, dropped; timers fired."""

import json

import pytest
from debugged import entries, facts, step, wait_told
from lab_harness import Lab
from panel_page import Panel

pytestmark = pytest.mark.browser


def test_the_inbox_is_admitted_edited_and_dropped(debugged: tuple[Lab, Panel]):
    """R5.28 to R5.30 and R5.73 by click: what each entry will do, out of order, with another event, not at all."""
    lab, panel = debugged
    step(panel, 2)
    facts(lab, "[run.send_event(Note(text=t)) and None for t in 'abc'] and None")
    panel.tab("Queue")
    notes = entries(panel).filter(has_text="event Note")
    notes.nth(2).wait_for()
    assert "note gets it and starts" in notes.first.inner_text()
    assert "text='a'" in notes.first.inner_text()
    assert "next" in entries(panel).first.inner_text()

    notes.nth(2).get_by_role("button", name="Admit now").click()
    notes.nth(2).wait_for(state="detached")
    notes.nth(1).get_by_role("button", name="Drop").click()
    notes.nth(1).wait_for(state="detached")

    notes.first.get_by_role("button", name="Edit").click()
    text = notes.first.locator("textarea")
    lab.page.wait_for_function("el => el.value !== ''", arg=text.element_handle())
    assert json.loads(text.input_value()) == {"text": "a"}
    text.fill('{"text": 5}')
    text.press("Control+Enter")
    notes.first.locator(".fl-wrong", has_text="text: Input should be a valid string").wait_for()
    assert text.input_value() == '{"text": 5}', "the draft survives"
    text.fill('{"text": "A"}')
    notes.first.get_by_role("button", name="Save").click()
    notes.first.locator(".fl-tag", has_text="edited").wait_for()

    assert panel.status() == "paused"
    panel.verb("Continue").click()
    panel.wait_node("rest", "waiting")
    assert facts(lab, "run.state.notes") == ["c", "A"]
    assert sorted(facts(lab, "[t.hand.is_dropped for t in run.debug.ticks if t.hand]")) == [False, False, True]


def test_what_waits_for_a_worker_is_edited_and_dropped(debugged: tuple[Lab, Panel]):
    """R5.29, R5.30: it has passed the gate, but nobody has begun with it."""
    lab, panel = debugged
    step(panel, 2)
    panel.tab("Queue")
    waiting = panel.view.locator("[data-work]")
    waiting.nth(2).wait_for()
    waiting.nth(2).get_by_role("button", name="Drop").click()
    waiting.nth(2).wait_for(state="detached")
    waiting.first.get_by_role("button", name="Edit").click()
    text = waiting.first.locator("textarea")
    lab.page.wait_for_function("el => el.value !== ''", arg=text.element_handle())
    text.fill('{"no": 50}')
    text.press("Control+Enter")
    text.wait_for(state="detached")
    panel.verb("Continue").click()
    panel.wait_node("rest", "waiting")
    assert sorted(facts(lab, "[int(x.split()[-1]) for x in run.logs('score').splitlines() if 'scoring' in x]")) == [
        0,
        2,
        50,
    ]


def test_a_timer_is_fired_early(debugged: tuple[Lab, Panel]):
    """R5.31: it says when it is due, and happens now."""
    lab, panel = debugged
    panel.verb("Continue").click()
    panel.wait_node("rest", "waiting")
    panel.verb("Pause").click()
    panel.wait_status("paused")
    panel.tab("Queue")
    timer = panel.view.locator("[data-timer]")
    assert "in 9 m" in timer.inner_text()
    timer.get_by_role("button", name="Fire now").click()
    wait_told(panel, "rest has slept, fired")
    panel.verb("Continue").click()
    panel.view.locator(".fl-q .yes").click()
    panel.wait_status("completed")
    assert facts(lab, "run.result()") == ["ann@home", True]
