"""Answers typed key by key while another cell awaits the run: what the field shows is what the step gets."""

import pytest
from lab_harness import Lab, Opener

pytestmark = pytest.mark.browser

CELLS = [
    """
from datetime import date
from flownb import Context, StartEvent, StopEvent, Workflow

flow = Workflow("typing")

@flow.step
async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
    name = await ctx.ask("Your name?")
    rows = await ctx.ask("How many rows?", int)
    day = await ctx.ask("Which day?", date)
    return StopEvent(result=[name, rows, str(day), await ctx.ask("Sure?", bool)])
""",
    "run = flow.run()",
    "print(await run)",
]


def type_into(lab: Lab, kind: str, text: str) -> None:
    """Types into the only open field of a kind, as a person does: a key at a time."""
    field = lab.output(1).locator(f".flownb-form:not(.fl-answered) input[type={kind}]:visible").last
    field.wait_for(timeout=15_000)
    field.click()
    field.press("Control+a")
    lab.page.keyboard.type(text, delay=60)


def send(lab: Lab, said: str) -> None:
    lab.output(1).locator(".flownb-form:not(.fl-answered) .flownb-send:visible").last.click()
    lab.output(1).locator(".flownb-form", has_text=said).last.wait_for(timeout=10_000)


def test_what_is_typed_while_a_cell_awaits_is_what_the_step_gets(lab: Lab, lab_notebook: Opener) -> None:
    """PANEL §5: every key arrives, and so does what is typed after an error."""
    lab_notebook(CELLS)
    lab.run(0)
    lab.run(1)
    lab.run(2, wait=False)

    type_into(lab, "text", "Anne of Green Gables")
    send(lab, "Anne of Green Gables")

    type_into(lab, "text", "abc")
    send(lab, "valid integer")
    type_into(lab, "text", "1204")
    send(lab, "1204")

    field = lab.output(1).locator(".flownb-form:not(.fl-answered) input[type=date]:visible").last
    field.wait_for(timeout=15_000)
    field.focus()  # a click would land in the year
    lab.page.keyboard.type("12242026", delay=60)
    send(lab, "2026-12-24")

    lab.click(1, ".fl-q .yes")
    lab.wait_done(2, timeout=15)
    assert lab.text(2).strip() == "['Anne of Green Gables', 1204, '2026-12-24', True]"
