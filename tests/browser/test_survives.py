"""A run that survives its kernel: it waits for a person, the kernel is restarted, the page is loaded again."""

import re
from pathlib import Path

import pytest
from lab_harness import Opener
from panel_page import Panel

pytestmark = pytest.mark.browser

DEFINED = """
from typing import Literal
from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, options

options.user = "ann"

class Letter(StartEvent):
    to: str

class Draft(Event):
    text: str

class Verdict(HumanResponseEvent):
    decision: Literal["send", "drop"]
    note: str | None = None

class Approve(InputRequiredEvent[Verdict]):
    prefix: str = "Shall this letter go out?"
    text: str

flow = Workflow("letters")

@flow.step
async def write(ev: Letter) -> Draft:
    return Draft(text=f"Dear {ev.to}")

@flow.step
async def check(ev: Draft, ctx: Context) -> StopEvent:
    verdict = await ctx.ask(Approve(text=ev.text))
    again = await ctx.ask("Really?", bool)
    return StopEvent(result=f"{verdict.decision} {ev.text!r} ({verdict.note}, {again})")
"""

CELLS = [
    DEFINED,
    'run = flow.run(to="Palmer")',
    "again = flow.resume()",
    "print('result:', await again)",
]


def form(panel: Panel) -> str:
    """The words of the form under the panel."""
    return panel.box.locator(".fl-form-head").locator("xpath=..").first.inner_text()


def test_a_form_is_there_again_after_a_restart_and_its_answer_finishes_the_run(lab_notebook: Opener, shots: Path):
    """One cell, `flow.resume()`: the same run, the same form; nothing that was done is done again."""
    lab = lab_notebook(CELLS)
    lab.run(0)
    lab.run(1)
    panel = Panel(lab, 1)
    panel.wait_status("waiting")
    panel.field("Decision").wait_for()
    lab.screenshot(shots / "survives-before.png", cell=1)
    asked = form(panel)
    lab.save()

    lab.restart()
    lab.reload()
    lab.run(0)
    lab.run(2)
    panel = Panel(lab, 2)
    panel.wait_status("waiting")
    panel.field("Decision").wait_for()
    lab.screenshot(shots / "survives-after.png", cell=2)
    assert form(panel) == asked

    panel.field("Decision").get_by_text("send", exact=True).click()
    panel.field("Note").locator("input").fill("with stamps")
    panel.send()
    lab.run(3, wait=False)
    panel.box.get_by_text("Really?", exact=True).wait_for()

    lab.restart()  # once more, between two questions
    lab.reload()
    lab.run(0)
    lab.run(2)
    lab.run(3, wait=False)
    panel = Panel(lab, 2)
    panel.wait_status("waiting")
    panel.box.get_by_text("Really?", exact=True).wait_for()
    lab.screenshot(shots / "survives-second.png", cell=2)
    earlier = panel.view.locator(".fl-end.answered").inner_text()  # who and when, before the kernel was restarted
    assert re.search(r"Answered by ann at \d\d:\d\d:\d\d: decision send, note with stamps", " ".join(earlier.split()))
    assert "●" in lab.page.title()
    panel.box.get_by_role("button", name="Approve").click()
    lab.wait_text(3, "result: send 'Dear Palmer' (with stamps, True)")
    panel.wait_status("completed")
    panel.view.locator(".fl-end.answered", has_text="Approved by ann").wait_for()
    lab.screenshot(shots / "survives-done.png", cell=2)
