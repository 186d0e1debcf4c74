"""People in the loop in a real JupyterLab: many questions, deadlines, double clicks, tabs, processes, calls."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lab_harness import Lab, Opener
from panel_page import Panel
from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
CLOCK = r"at \d\d:\d\d:\d\d"

DEFINED = """
from typing import Literal
from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, options

options.user = "ann"

class Batch(StartEvent):
    letters: list[str]
    deadline: float | None = None

class Letter(Event):
    no: int
    to: str
    deadline: float | None

class Verdict(HumanResponseEvent):
    decision: Literal["send", "drop"]
    note: str | None = None

class Approve(InputRequiredEvent[Verdict]):
    prefix: str = "Shall this letter go out?"
    to: str

class Done(Event):
    text: str

forms = Workflow("letters")

@forms.step
async def split(ev: Batch) -> list[Letter]:
    return [Letter(no=i, to=to, deadline=ev.deadline) for i, to in enumerate(ev.letters)]

@forms.step(num_workers=8)
async def approve(ev: Letter, ctx: Context) -> Done:
    default = Verdict(decision="drop") if ev.deadline else None
    said = await ctx.ask(Approve(to=ev.to), timeout=ev.deadline, default=default)
    return Done(text=f"{ev.to} {said.decision}")

@forms.step
async def gather(ev: list[Done]) -> StopEvent:
    return StopEvent(result=", ".join(done.text for done in ev))

rows = Workflow("rows")

@rows.step
async def split_rows(ev: Batch) -> list[Letter]:
    return [Letter(no=i, to=to, deadline=ev.deadline) for i, to in enumerate(ev.letters)]

@rows.step(num_workers=8)
async def check(ev: Letter, ctx: Context) -> Done:
    default = False if ev.deadline else None
    said = await ctx.ask(f"Send the letter to {ev.to}?", bool, timeout=ev.deadline, default=default)
    return Done(text=f"{ev.to} {said}")

@rows.step
async def gather_rows(ev: list[Done]) -> StopEvent:
    return StopEvent(result=", ".join(done.text for done in ev))

NAMES = ["Palmer", "Biscoe", "Dream", "Torgersen", "Gorman"]
"""
RUN, ASKED = 1, 2


def opened(opener: Opener, source: str, *more: str) -> tuple[Lab, Panel]:
    """A notebook whose second cell begins a run that asks."""
    lab = opener([DEFINED, source, *more])
    lab.page.set_viewport_size({"width": 1500, "height": 1300})
    lab.run(0)
    lab.run(RUN)
    panel = Panel(lab, RUN)
    panel.wait_drawn()
    return lab, panel


def open_forms(panel: Panel) -> Locator:
    return panel.box.locator(".flownb-form:not(.fl-answered, .fl-unanswered)")


def form_of(panel: Panel, name: str) -> Locator:
    """The open form whose letter goes to somebody."""
    return open_forms(panel).filter(has_text=name)


def titles(panel: Panel) -> list[str]:
    """ "approve (1 of 5)" of each open form."""
    return [
        text.strip().removeprefix("Needs you: ") for text in open_forms(panel).locator(".fl-title").all_inner_texts()
    ]


def wait_titles(panel: Panel, titles_: list[str]) -> None:
    panel.lab.page.wait_for_timeout(50)
    for _ in range(100):
        if titles(panel) == titles_:
            return
        panel.lab.page.wait_for_timeout(100)
    assert titles(panel) == titles_


def decide(form: Locator, decision: str) -> None:
    form.get_by_text(decision, exact=True).click()
    form.locator(".flownb-send").click()


def ended(panel: Panel, words: str) -> Locator:
    """The line of a question that is over, of a form or of a row."""
    return panel.box.locator(".fl-ended, .fl-end").filter(has_text=re.compile(words))


def shoot(lab: Lab, panel: Panel, shots: Path, name: str) -> None:
    """At 1200 and 800 px, light and dark."""
    lab.page.mouse.move(5, 5)
    for width in (1200, 800):
        box = panel.box.bounding_box()
        assert box is not None
        size = lab.page.viewport_size
        assert size is not None
        lab.page.set_viewport_size({"width": round(size["width"] + width - box["width"]), "height": size["height"]})
        lab.page.wait_for_timeout(300)
        for theme in ("dark", "light"):
            lab.set_theme(theme)
            panel.box.screenshot(path=shots / f"{name}-{width}-{theme}.png")
    lab.page.set_viewport_size({"width": 1500, "height": 1300})


def test_five_questions_at_once_are_answered_out_of_order(lab_notebook: Opener, shots: Path):
    """C065: five forms or lines, a count that is right, the oldest first; every answer reaches its own asker."""
    lab, panel = opened(lab_notebook, "run = forms.run(letters=NAMES)", "print(await run)")
    wait_titles(panel, [f"approve ({n} of 5)" for n in (1, 2, 3)])
    lines = panel.view.locator(".fl-qline")
    assert [" ".join(t.split()) for t in lines.locator(".fl-nth").all_inner_texts()] == ["4 of 5", "5 of 5"]
    shoot(lab, panel, shots, "people-five")

    decide(form_of(panel, "Dream"), "drop")
    wait_titles(panel, [f"approve ({n} of 4)" for n in (1, 2, 3)])  # the next one opened
    ended(panel, rf"Answered by ann {CLOCK}: drop").wait_for()
    lines.get_by_role("button", name="Open form").click()  # the fifth, out of its turn
    wait_titles(panel, [f"approve ({n} of 4)" for n in (1, 2, 3, 4)])
    decide(form_of(panel, "Gorman"), "send")
    form_of(panel, "Palmer").locator(".flownb-later").click()
    wait_titles(panel, ["approve (2 of 3)", "approve (3 of 3)"])
    shoot(lab, panel, shots, "people-answered")
    decide(form_of(panel, "Torgersen"), "send")
    decide(form_of(panel, "Biscoe"), "drop")
    lines.get_by_role("button", name="Open form").click()
    wait_titles(panel, ["approve"])
    decide(form_of(panel, "Palmer"), "send")
    panel.wait_status("completed")
    lab.run(ASKED)
    assert lab.text(ASKED).strip() == "Palmer send, Biscoe drop, Dream drop, Torgersen send, Gorman send"
    assert panel.view.locator(".fl-end").filter(has_text="2 earlier").count() == 1


def test_the_deadline_takes_the_default_while_a_person_looks_and_hold_stops_it(lab_notebook: Opener, shots: Path):
    """R4.54, R4.56: it counts down, is marked near its end, and is never said to be a person's answer."""
    lab, panel = opened(lab_notebook, "run = forms.run(letters=NAMES[:2], deadline=14)", "print(await run)")
    held, left = form_of(panel, "Palmer"), form_of(panel, "Biscoe")
    left.locator(".fl-when", has_text=re.compile(r"^default drop in 0:1\d$")).wait_for()
    held.locator(".flownb-hold").click()
    held.locator(".fl-when", has_text="held: no deadline").wait_for()
    left.locator(".fl-when.soon", has_text=re.compile(r"^default drop in 0:0\d$")).wait_for(timeout=10_000)
    panel.box.screenshot(path=shots / "people-deadline.png")
    left.get_by_text("send", exact=True).click()  # chosen, and not sent
    ended(panel, rf"The deadline passed {CLOCK}: the default drop was taken").wait_for(timeout=20_000)
    assert held.locator(".flownb-hold").is_disabled()
    decide(held, "send")
    panel.wait_status("completed")
    lab.run(ASKED)
    assert lab.text(ASKED).strip() == "Palmer send, Biscoe drop"


def test_rows_count_down_are_held_put_off_and_answered_by_a_double_click(lab_notebook: Opener, shots: Path):
    """R4.56, C071: the second click of a double click does nothing, also if a deadline is near."""
    lab, panel = opened(lab_notebook, "run = rows.run(letters=NAMES, deadline=30)", "print(await run)")
    asked = panel.view.locator(".fl-q")
    asked.nth(2).wait_for()
    assert asked.count() == 3 and panel.view.locator(".fl-qline").count() == 2
    asked.first.locator(".fl-due", has_text=re.compile(r"^default reject in 0:[12]\d$")).wait_for()
    shoot(lab, panel, shots, "people-rows")
    palmer, dream = asked.filter(has_text="Palmer"), asked.filter(has_text="Dream")
    palmer.get_by_role("button", name="Hold").click()
    palmer.locator(".fl-due", has_text="held: no deadline").wait_for()
    dream.get_by_role("button", name="Later").click()
    panel.view.locator(".fl-qline", has_text="Dream").wait_for()
    asked.filter(has_text="Torgersen").wait_for()
    palmer.get_by_role("button", name="Approve").dblclick()
    ended(panel, rf"Send the letter to Palmer\? · Approved by ann {CLOCK}").wait_for()
    asked.filter(has_text="Biscoe").get_by_role("button", name="Reject").dblclick()
    ended(panel, rf"to Biscoe\? · Rejected by ann {CLOCK}").wait_for()
    assert panel.view.locator(".fl-refusal").count() == 0
    panel.wait_status("completed", timeout=40)  # the others' deadline
    assert ended(panel, f"The deadline passed {CLOCK}: the default reject was taken").count() == 3
    lab.run(ASKED)
    assert lab.text(ASKED).strip() == "Palmer True, Biscoe False, Dream False, Torgersen False, Gorman False"


def test_two_tabs_show_the_same_forms_and_an_answer_in_one_closes_the_other_s(lab_notebook: Opener, shots: Path):
    """The late one is told who answered, and when; a page that is loaded again shows what became of it."""
    lab, panel = opened(lab_notebook, "run = forms.run(letters=NAMES[:2])")
    lab.save()
    other = lab.second_tab()
    try:
        mirror = Panel(other, RUN)
        form_of(mirror, "Biscoe").wait_for(timeout=30_000)
        assert titles(mirror) == ["approve (1 of 2)", "approve (2 of 2)"]
        decide(form_of(mirror, "Biscoe"), "send")
        ended(mirror, rf"Answered by ann {CLOCK}: send").wait_for()
        lab.page.bring_to_front()
        ended(panel, rf"Answered by ann {CLOCK}: send").wait_for()
        wait_titles(panel, ["approve"])
        decide(form_of(panel, "Palmer"), "drop")
        panel.wait_status("completed")
        other.page.bring_to_front()
        mirror.wait_status("completed")
        other.reload()
        ended(mirror, rf"Answered by ann {CLOCK}: drop").wait_for(timeout=30_000)
        other.screenshot(shots / "people-second-tab.png", cell=RUN)
    finally:
        other.close()


def test_a_click_that_comes_too_late_is_explained(lab_notebook: Opener):
    """The page has not heard yet that somebody else answered: its click is told so, in words, and breaks nothing."""
    lab, panel = opened(lab_notebook, "run = rows.run(letters=NAMES[:2])", "")
    asked = panel.view.locator(".fl-q")
    asked.nth(1).wait_for()
    lab.set_source(
        ASKED,
        """
import time
from flownb.notebook.publisher import Publisher
real, Publisher.mark = Publisher.mark, lambda self, panel, now=False: None  # no news for the page
run.answer("1", True, by="bob")
run._runner.host.loop.call_soon_threadsafe(run._runner.host.loop.call_later, 2.0, setattr, Publisher, "mark", real)
""",
    )
    lab.run(ASKED)
    palmer = asked.filter(has_text="Palmer")
    palmer.get_by_role("button", name="Reject").click()
    palmer.get_by_text(re.compile(rf"^Too late\. Approved by bob {CLOCK}\.$")).wait_for()
    assert palmer.get_by_role("button", name="Reject").is_enabled()
    lab.page.wait_for_timeout(2_000)
    asked.filter(has_text="Biscoe").get_by_role("button", name="Approve").click()
    ended(panel, rf"Approved by bob {CLOCK}").wait_for()
    panel.wait_status("completed")
    assert not [line for line in lab.console if "Traceback" in line]


def test_an_answer_of_another_process_closes_the_form(lab_notebook: Opener, shots: Path):
    """R4.59, R4.62: `python -m flownb answer` with the store's file, while the panel is open."""
    lab, panel = opened(lab_notebook, 'run = forms.run(run_id="post-1", letters=NAMES[:1])', "print(await run)")
    form_of(panel, "Palmer").wait_for()
    store = lab.server.root / ".flownb" / "runs.db"
    command = [
        sys.executable,
        "-m",
        "flownb",
        "answer",
        "post-1:1",
        "decision=send",
        "--store",
        str(store),
        "--by",
        "bob",
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    ended(panel, rf"Answered by bob {CLOCK}: send").wait_for(timeout=10_000)
    assert open_forms(panel).count() == 0
    panel.wait_status("completed")
    panel.box.screenshot(path=shots / "people-elsewhere.png")
    twin = "\n".join(str(output["data"].get("text/html", "")) for output in lab.model_outputs(RUN) if "data" in output)
    assert re.search(rf"<li>approve: to Palmer · Answered by bob {CLOCK}: send</li>", twin)


TITLE = re.compile(r"^● \d+ needs? you · ")


def wait_title(lab: Lab, is_right: Callable[[str], bool]) -> str:
    for _ in range(100):
        if is_right(lab.page.title()):
            break
        lab.page.wait_for_timeout(100)
    return lab.page.title()


def test_the_title_counts_the_questions_of_the_page_and_is_put_back(lab_notebook: Opener):
    """Two panels add up, one question in two panels counts once, and what JupyterLab writes meanwhile stays."""
    lab, panel = opened(
        lab_notebook, "run = rows.run(letters=NAMES[:2])", "again = rows.run(letters=NAMES[:1])", "run.view()", ""
    )
    wait_title(lab, lambda title: title.startswith("● 2 need you · "))
    base = lab.page.title().removeprefix("● 2 need you · ")
    assert base and "●" not in base
    lab.run(2)
    assert wait_title(lab, lambda title: title.startswith("● 3 ")) == f"● 3 need you · {base}"
    lab.run(3)
    Panel(lab, 3).wait_drawn()
    lab.page.wait_for_timeout(500)
    assert lab.page.title() == f"● 3 need you · {base}"
    lab.page.evaluate("document.title = 'another.ipynb - JupyterLab'")  # as when another notebook comes to the front
    assert wait_title(lab, TITLE.match) == "● 3 need you · another.ipynb - JupyterLab"
    panel.view.locator(".fl-q .yes").first.click()
    assert wait_title(lab, lambda title: title.startswith("● 2 ")) == "● 2 need you · another.ipynb - JupyterLab"
    lab.set_source(4, "run.cancel(); again.cancel()")
    lab.run(4)
    # JupyterLab writes the notebook's own name once more when its text was changed.
    assert wait_title(lab, lambda title: not TITLE.match(title)) in (base, "another.ipynb - JupyterLab")


def test_a_page_whose_kernel_is_gone_says_how_to_go_on_and_the_title_is_put_back(lab_notebook: Opener, shots: Path):
    """The run waits in its store: `resume()` shows the question again, and its answer is taken."""
    lab, panel = opened(lab_notebook, "run = rows.run(letters=NAMES[:1])", "again = rows.resume()")
    row = panel.view.locator(".fl-q")
    row.wait_for()
    assert TITLE.match(wait_title(lab, lambda title: bool(TITLE.match(title))))
    lab.restart()
    panel.view.locator(".fl-gone:visible").wait_for()
    assert not TITLE.match(wait_title(lab, lambda title: not TITLE.match(title)))
    assert row.get_by_role("button").count() == 0  # nothing to click that would do nothing
    said = panel.view.locator(".fl-open").evaluate("el => getComputedStyle(el, '::after').content")
    assert said.startswith('"The kernel is gone.') and "flow.resume() asks this again" in said
    panel.box.screenshot(path=shots / "people-gone.png")
    lab.run(0)
    lab.run(2)
    fresh = Panel(lab, 2)
    fresh.view.locator(".fl-q").get_by_role("button", name="Approve").click()
    ended(fresh, rf"Approved by ann {CLOCK}").wait_for()
    fresh.wait_status("completed")


FAKE = """() => {
    window.called = []; window.away = false;
    window.Notification = class {
        static permission = "default";
        static asked = 0;
        static async requestPermission() { this.asked += 1; return (this.permission = "granted"); }
        constructor(title, more) { window.called.push(this); Object.assign(this, more, { title, open: true }); }
        close() { this.open = false; }
    };
    Object.defineProperty(document, "hidden", { configurable: true, get: () => window.away });
}"""


def called(lab: Lab) -> list[list[object]]:
    found: list[list[object]] = lab.page.evaluate("() => window.called.map(n => [n.title, n.body, n.open])")
    return found


def test_the_browser_tells_of_a_question_once_if_the_bell_was_rung(lab_notebook: Opener, shots: Path):
    """Permission is asked for by a click alone; a page that is looked at is not disturbed; an answer takes it away."""
    lab = lab_notebook([DEFINED, "run = forms.run(letters=NAMES[:1])", "more = rows.run(letters=NAMES[:1])", ""])
    lab.page.set_viewport_size({"width": 1500, "height": 1300})
    lab.page.evaluate(FAKE)
    lab.run(0)
    lab.run(RUN)
    panel = Panel(lab, RUN)
    form_of(panel, "Palmer").wait_for()
    assert lab.page.evaluate("() => Notification.asked") == 0
    bell = panel.view.locator(".bell:visible")
    assert bell.get_attribute("aria-pressed") == "false"
    bell.click()
    panel.view.locator(".bell[aria-pressed='true']:visible").wait_for()
    assert lab.page.evaluate("() => Notification.asked") == 1
    panel.box.screenshot(path=shots / "people-bell.png")
    assert called(lab) == []  # it was open before: the person has seen it
    lab.set_source(3, "import flownb\nflownb.options.notify = True")
    lab.run(3)
    lab.page.evaluate("() => { window.away = true; }")
    lab.run(2)
    panel = Panel(lab, 2)
    panel.view.locator(".fl-q").wait_for()
    lab.page.wait_for_function("() => window.called.length")
    assert called(lab) == [["rows needs you", "check: Send the letter to Palmer?", True]]
    lab.page.evaluate("() => window.called[0].onclick()")
    assert panel.view.evaluate("panel => panel.contains(document.activeElement)")
    panel.view.locator(".fl-q .yes").click()
    panel.wait_status("completed")
    lab.page.wait_for_timeout(600)
    assert called(lab) == [["rows needs you", "check: Send the letter to Palmer?", False]]
