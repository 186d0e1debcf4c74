"""The open questions of all runs in a cell: keys, filter, many at once, and answers from elsewhere meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lab_harness import Lab, Opener
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

FLOW = """
import json, tempfile
from typing import Literal
from flownb import Context, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Store, Workflow, options
from pydantic import Field
options.user = "ann"

class Begin(StartEvent):
    no: int
    kind: str = "check"

class Verdict(HumanResponseEvent):
    decision: Literal["approve", "reject", "later"]
    note: str = ""

class Check(InputRequiredEvent[Verdict]):
    no: int
    island: str = "Biscoe"
    mass_g: int = 3750

class Weight(HumanResponseEvent):
    grams: int = Field(gt=0, description="On the scales.")

class Weigh(InputRequiredEvent[Weight]):
    prefix: str = "How heavy is it?"
    no: int

flow = Workflow("penguins")

@flow.step
async def look(ev: Begin, ctx: Context) -> StopEvent:
    if ev.kind == "check":
        answer = await ctx.ask(Check(no=ev.no))
        return StopEvent(result=[answer.decision, answer.note])
    if ev.kind == "weigh":
        return StopEvent(result=(await ctx.ask(Weigh(no=ev.no))).grams)
    limit = {"timeout": 900, "default": False} if ev.kind == "soon" else {}
    return StopEvent(result=await ctx.ask(f"Publish row {ev.no}?", bool, **limit))

store = Store(tempfile.mkdtemp() + "/runs.db")
runs = {}
def begin(kind, *numbers):
    for no in numbers:
        runs[no] = flow.with_options(store=store).run(run_id=f"r{no:02}", no=no, kind=kind, background=True)
"""
BEGIN = """
begin("check", 1, 2, 3, 4, 5, 6)
begin("weigh", 7, 8)
begin("ask", 9, 10, 11)
begin("soon", 12)
import time
while len(store.requests()) < 12:
    time.sleep(0.02)
"""
SHOW = "store.requests()"


class Inbox:
    """The table in the output of a cell."""

    def __init__(self, lab: Lab, cell: int) -> None:
        self.lab = lab
        self.box = lab.output(cell).locator(".flownb-review-box")
        self.grid = self.box.locator(".fl-rgrid")
        self.grid.wait_for()

    def row(self, no: int) -> Locator:
        return self.box.locator(f"[data-request='r{no:02}:1']")

    def button(self, name: str) -> Locator:
        return self.box.locator(".fl-racts").get_by_role("button", name=name)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.lab.page.keyboard.press(key)

    def expect_at(self, no: int) -> None:
        expect(self.box.locator(".fl-rr.at")).to_have_attribute("data-request", f"r{no:02}:1")

    def answer(self, key: str, no: int) -> None:
        """Press a key on a question once it is shown."""
        self.expect_at(no)
        expect(self.box.locator(".fl-rshown")).to_contain_text("content")
        self.press(key)

    def expect_done(self, words: str) -> None:
        expect(self.box.locator(".fl-rdone")).to_have_text(words)


@pytest.fixture
def inbox(lab_notebook: Opener) -> Inbox:
    return shown(lab_notebook)


def shown(opener: Opener) -> Inbox:
    """The table with twelve questions, in the third cell of four."""
    lab = opener([FLOW, BEGIN, SHOW, "1"])
    for cell in range(3):
        lab.run(cell)
    found = Inbox(lab, 2)
    expect(found.box.locator(".fl-rbody .fl-rr")).to_have_count(12)
    return found


def value(lab: Lab, expression: str) -> Any:
    """What Python says, in the last cell."""
    lab.set_source(3, f"print(json.dumps({expression}))")
    lab.run(3)
    return json.loads(lab.text(3))


def test_rows_are_gone_through_with_keys(notebook: Opener):
    """R4.47, R4.49: a and r answer and go on to the next row; n, j and k move; nothing reaches the notebook."""
    inbox = shown(notebook)
    inbox.expect_at(1)
    inbox.expect_done("0 of 12 done")
    inbox.row(1).click()
    expect(inbox.box.locator(".fl-rshown")).to_contain_text("Biscoe")
    inbox.answer("a", 1)
    expect(inbox.row(1)).to_contain_text("Approve")
    inbox.answer("r", 2)
    inbox.expect_at(3)
    inbox.expect_done("2 of 12 done")
    inbox.press("n")
    inbox.expect_at(4)
    inbox.press("k")
    inbox.expect_at(3)
    inbox.press("j", "ArrowDown", "End")
    inbox.expect_at(12)
    expect(inbox.row(12)).to_contain_text("Reject in 1")
    inbox.answer("a", 12)
    inbox.expect_at(3)  # from the top again
    expect(inbox.row(1)).to_have_count(0, timeout=10_000)
    lab = inbox.lab
    assert lab.n_cells() == 4
    assert value(lab, "[runs[1].result(20), runs[2].result(20), runs[12].result(20)]") == [
        ["approve", ""], ["reject", ""], True,
    ]  # fmt: skip
    assert value(lab, "sorted((r.id, r.by, r.how) for r in store.reviews())") == [
        ["r01:1", "ann", "person"], ["r02:1", "ann", "person"], ["r12:1", "ann", "person"],
    ]  # fmt: skip


def test_the_form_is_opened_filled_and_left_with_the_keyboard(inbox: Inbox):
    """R4.45: e opens the form with the focus in its first field; what does not fit is said there; Esc goes back."""
    lab = inbox.lab
    inbox.row(1).click()
    inbox.press("e")
    form = inbox.box.locator(".flownb-form")
    expect(form.locator("input[type=radio]").first).to_be_focused()
    inbox.press("Escape")
    expect(form).to_have_count(0)
    expect(inbox.grid).to_be_focused()
    inbox.press("e")
    expect(form.locator("input[type=radio]").first).to_be_focused()
    inbox.press("ArrowRight", "Space")
    form.locator("input[type=text]").first.fill("too small, looks odd")
    inbox.press("Tab", "Escape")
    expect(form).to_have_count(0)
    inbox.press("e")
    expect(form.locator("input[type=text]").first).to_have_value("too small, looks odd")
    form.locator("input[type=text]").first.focus()
    inbox.press("Control+Enter")
    expect(form).to_have_count(0, timeout=10_000)
    inbox.expect_at(2)
    expect(inbox.grid).to_be_focused()
    inbox.expect_done("1 of 12 done")
    assert value(lab, "runs[1].result(20)[1]") == "too small, looks odd"

    # a question that no key answers says why, and shows its form by itself
    inbox.row(7).click()
    expect(form).to_contain_text("How heavy is it?")
    approve = inbox.button("Approve")
    expect(approve).to_have_attribute("aria-disabled", "true")
    inbox.grid.focus()
    inbox.press("a")
    expect(inbox.box.locator(".fl-rword")).to_have_text("No field of its answer is a choice between yes and no.")
    inbox.press("e")
    grams = form.locator("input").first
    expect(grams).to_be_focused()
    grams.fill("-3")
    inbox.press("Control+Enter")
    expect(form.locator(".fl-err").first).to_contain_text("greater than 0")
    grams.fill("3750")
    inbox.press("Control+Enter")
    inbox.expect_at(8)
    assert value(lab, "runs[7].result(20)") == 3750


def test_nobody_answers_what_he_has_not_seen(inbox: Inbox):
    """R4.71: a double click and a key that is held are one answer; a row that goes leaves no other one in its place."""
    inbox.row(1).click()
    expect(inbox.box.locator(".fl-rshown")).to_contain_text("content")
    inbox.button("Approve").dblclick()
    inbox.expect_done("1 of 12 done")
    inbox.expect_at(2)
    inbox.grid.focus()
    expect(inbox.box.locator(".fl-rshown")).to_contain_text("content")
    keyboard = inbox.lab.page.keyboard
    for _ in range(4):
        keyboard.down("a")  # without an up between them these are repeats
    keyboard.up("a")
    inbox.expect_done("2 of 12 done")
    inbox.expect_at(3)

    lab = inbox.lab
    lab.set_source(3, "runs[3].answer(None, decision='reject', by='bob')")
    lab.run(3)
    expect(inbox.box.locator(".fl-rword")).to_have_text("answered by bob. n goes to the next one.")
    inbox.grid.focus()
    inbox.press("a")
    expect(inbox.row(3)).to_have_count(0, timeout=10_000)
    inbox.press("a")
    expect(inbox.box.locator(".fl-rr.at")).to_have_count(0)
    inbox.expect_done("3 of 12 done")
    inbox.press("n")
    inbox.expect_at(4)
    inbox.answer("a", 4)
    inbox.expect_done("4 of 12 done")
    inbox.row(5).locator("input").check()
    inbox.row(6).locator("input").check()
    inbox.button("Approve all").dblclick()
    expect(inbox.box.locator(".fl-rsure")).to_be_visible()
    inbox.press("a")
    inbox.expect_done("4 of 12 done")
    assert value(lab, "[runs[n].result(20)[0] for n in (1, 2, 3, 4)]") == ["approve", "approve", "reject", "approve"]
    assert value(lab, "len(store.requests())") == 8


def test_many_are_answered_together(inbox: Inbox):
    """Of one kind only, and after a confirm: it cannot be undone."""
    filter_box = inbox.box.locator(".fl-filter")
    inbox.row(1).click()
    inbox.press("/")
    expect(filter_box).to_be_focused()
    filter_box.fill("step:look check")
    expect(inbox.box.locator(".fl-rbody .fl-rr")).to_have_count(6)
    inbox.press("Enter")
    expect(inbox.grid).to_be_focused()
    inbox.box.get_by_label("select all of one kind").check()
    expect(inbox.box.locator(".fl-rtitle")).to_have_text("6 selected")
    expect(inbox.button("Approve all")).to_be_visible()
    inbox.press("a")
    expect(inbox.box.locator(".fl-rsure")).to_have_text("Approve 6 questions? This cannot be undone.")
    inbox.press("Escape")
    expect(inbox.box.locator(".fl-rsure")).to_be_hidden()
    inbox.press("r")
    expect(inbox.box.locator(".fl-rsure")).to_have_text("Reject 6 questions? This cannot be undone.")
    inbox.press("Enter")
    inbox.expect_done("6 of 12 done")
    filter_box.fill("")
    inbox.row(7).locator("input").check()
    inbox.row(9).locator("input").check()
    expect(inbox.box.locator(".fl-rword")).to_contain_text("not all answered alike")
    inbox.row(7).locator("input").uncheck()
    inbox.row(10).locator("input").check()
    inbox.row(11).locator("input").check()
    inbox.button("Approve all").click()
    inbox.button("Approve 3").click()
    inbox.expect_done("9 of 12 done")
    lab = inbox.lab
    assert value(lab, "[runs[n].result(20) for n in (1, 6, 9, 11)]") == [["reject", ""], ["reject", ""], True, True]
    assert value(lab, "sorted(r.number and r.run_id for r in store.requests())") == ["r07", "r08", "r12"]


def test_what_is_answered_elsewhere_goes_with_a_word_and_what_is_new_comes(inbox: Inbox):
    """R4.47, R4.59: while the person looks; with the form open too; his own late answer is told, and harmless."""
    lab = inbox.lab
    inbox.row(3).click()
    code = (
        "import subprocess, sys; done = subprocess.run([sys.executable, '-m', 'flownb', 'answer', 'r04:1', "
        "'decision=reject', '--by', 'bob', '--store', store.place], capture_output=True, text=True)"
    )
    lab.set_source(3, code)
    lab.run(3)
    expect(inbox.row(4)).to_contain_text("answered by bob")
    inbox.expect_at(3)
    expect(inbox.row(4)).to_have_count(0, timeout=10_000)

    inbox.grid.focus()
    inbox.press("e")
    form = inbox.box.locator(".flownb-form")
    expect(form.locator("input[type=radio]").first).to_be_focused()
    lab.set_source(3, "runs[3].answer(None, decision='later', by='bob')\nbegin('ask', 13)")
    lab.run(3)
    expect(form).to_have_count(0, timeout=10_000)
    expect(inbox.row(3)).to_contain_text("Answered by bob")
    expect(inbox.row(13)).to_be_visible()
    inbox.expect_done("2 of 13 done")
    lab.set_source(3, "runs[5].cancel().result(20); runs[6].requests[0].dispose('no need') and None")
    lab.run(3)
    expect(inbox.row(5)).to_contain_text("its run is cancelled")
    expect(inbox.row(6)).to_contain_text("disposed of by ann")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 800])
def test_pictures(inbox: Inbox, shots: Path, theme: Any, width: int):
    """For people to look at."""
    lab = inbox.lab
    lab.page.set_viewport_size({"width": width, "height": 1000})
    lab.set_theme(theme)
    try:
        inbox.row(2).click()
        expect(inbox.box.locator(".fl-rshown")).to_contain_text("Biscoe")
        inbox.answer("a", 2)
        inbox.expect_done("1 of 12 done")
        expect(inbox.box.locator(".fl-rshown")).to_contain_text("Biscoe")
        lab.screenshot(shots / f"requests-{theme}-{width}.png", cell=2)
        inbox.row(7).click()
        expect(inbox.box.locator(".flownb-form")).to_contain_text("How heavy is it?")
        lab.screenshot(shots / f"requests-form-{theme}-{width}.png", cell=2)
        inbox.row(9).click()
        inbox.grid.focus()
        inbox.press("x", "j", "x", "j", "x", "a")
        expect(inbox.box.locator(".fl-rsure")).to_be_visible()
        lab.screenshot(shots / f"requests-many-{theme}-{width}.png", cell=2)
        overflows = inbox.box.evaluate("el => el.scrollWidth > el.clientWidth + 2")
        assert not overflows
    finally:
        lab.set_theme("light")
        lab.page.set_viewport_size({"width": 1300, "height": 1000})
