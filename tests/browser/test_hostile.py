"""Names, values, questions, answers and errors are text, whatever they look like: in page, file and export."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest
from lab_harness import Lab, Opener
from panel_page import Panel
from playwright.sync_api import Dialog, Locator

pytestmark = pytest.mark.browser

#: Ends a script, loads a picture with a handler, holds quotes, a backslash, a template, a newline, emoji and RTL marks.
HOSTILE = '</script><img src=x onerror="window.__hacked=1;alert(1)">\'`${1}\\N\n🐧<b>&amp; \u202eabc\u202c مرحبا'
#: What must be read wherever it is shown, before anything that is cut or joined to one line.
SEEN = "</script><img src=x"

CELL = f"""
from pydantic import Field
from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, options

HOSTILE = {HOSTILE!r}
options.user = HOSTILE

class Thing(Event):
    value: str = HOSTILE

class Reply(HumanResponseEvent):
    text: str = Field(description=HOSTILE, title=HOSTILE)
    note: str = HOSTILE

class Ask(InputRequiredEvent[Reply]):
    prefix: str = HOSTILE
    about: str = HOSTILE

flow = Workflow(HOSTILE)

async def one(ev: StartEvent, ctx: Context) -> Thing:
    print(HOSTILE)
    ctx.state.set("said", HOSTILE)
    await ctx.ask(HOSTILE, bool)
    return Thing()

def two(ev: Thing) -> Ask:
    return Ask()

def three(ev: Reply) -> StopEvent:
    raise ValueError(HOSTILE + ev.text)

for fn in (one, two, three):
    fn.__name__ = f"{{HOSTILE}} {{fn.__name__}}"
    flow.step(fn)
"""


def test_hostile_text_is_text_everywhere(lab_notebook: Opener, shots: Path):
    """As workflow, step, field, label, help, prompt, answer, person and exception: shown, and nothing of it acts."""
    lab = lab_notebook([CELL, 'run = flow.with_options(panel="full").run()', "flow.view.graph()", "await run"])
    with watched_dialogs(lab) as dialogs:
        look_at_everything(lab, shots)
    assert dialogs == []
    page = exported(lab.server.root / "test_hostile_text_is_text_everywhere.ipynb")
    assert page.handlers == []
    assert all(source.startswith("data:image/") for source in page.images)
    assert page.text.count(SEEN) >= 3
    assert "VBox(" not in page.text
    assert lab.external == []


@contextmanager
def watched_dialogs(lab: Lab) -> Iterator[list[str]]:
    """Messages of the dialogs that scripts open meanwhile; the page's own "leave without saving?" is agreed to."""
    messages: list[str] = []

    def note(dialog: Dialog) -> None:
        if dialog.type != "beforeunload":
            messages.append(dialog.message)
        dialog.accept()

    lab.page.on("dialog", note)
    try:
        yield messages
    finally:
        lab.page.remove_listener("dialog", note)


def look_at_everything(lab: Lab, shots: Path) -> None:
    """Run, answer, fail, restart, reload."""
    lab.page.set_viewport_size({"width": 1300, "height": 1400})
    lab.run(0)
    lab.run(1)
    lab.run(2)
    panel = Panel(lab, 1)
    panel.wait_drawn()

    question = panel.view.locator(".fl-q")
    question.wait_for()
    reads(question.locator(".fl-qtitle"), question.locator(".fl-qstep"))
    question.locator("button:has-text('Approve')").click()
    form = panel.box.locator(".flownb-form")
    form.wait_for()
    reads(form.locator(".fl-prompt"), form.locator(".fl-title"), form.locator(".fl-payload"), form.locator(".fl-help"))
    reads(form.locator(".fl-field .widget-label"))
    form.locator("input[type=text]").first.fill(HOSTILE.replace("\n", " "))
    lab.page.mouse.move(5, 5)
    lab.screenshot(shots / "hostile-form.png", cell=1)
    panel.send()
    panel.wait_status("failed")
    assert panel.box.locator("mjx-container, .MathJax").count() == 0, "dollars are no formula"
    reads(
        form.locator(".fl-ended b"),
        form.locator(".fl-ended span"),
        panel.view.locator(".fl-failure .fl-ftext"),
        panel.view.locator(".fl-head .fl-name"),
    )
    assert panel.view.locator(f"svg .fl-node .name:has-text('{SEEN}')").count() == 3
    reads(panel.view.locator(".fl-ticks .fl-rows"))
    for tab, row in (("Event", "two finished"), ("State", "one wrote"), ("Log", "one finished")):
        panel.tab(tab)
        panel.view.locator(f".fl-ticks .fl-rows .fl-tr:has-text('{row}')").click()
        panel.view.locator(f".fl-pane:has-text('{SEEN}')").wait_for()
    harmless(lab, panel.box, images=0)

    lab.run(3)
    assert SEEN in lab.text(3), "the traceback"
    harmless(lab, lab.output(3), images=0)
    harmless(lab, lab.output(2), images=1)
    lab.screenshot(shots / "hostile.png", cell=1)

    lab.save()
    lab.restart()
    lab.reload()
    twin = lab.output(1).locator("[class^=flownb-twin-]")
    twin.wait_for()
    assert twin.inner_text().count(SEEN) >= 3, "name, error and answer"
    assert SEEN in (twin.locator("img").get_attribute("alt") or "")
    assert twin.locator("mjx-container, .MathJax").count() == 0, "dollars are no formula"
    assert "${1}" in twin.inner_text()
    twin.locator("summary").click()
    reads(twin.locator("table"))
    harmless(lab, twin, images=1)
    lab.screenshot(shots / "hostile-twin.png", cell=1)


def reads(*places: Locator) -> None:
    """Each of these shows the hostile text."""
    for place in places:
        place.first.wait_for()
        assert SEEN in place.first.inner_text()


def harmless(lab: Lab, place: Locator, *, images: int) -> None:
    """No element and no script has come out of the text."""
    assert lab.page.evaluate("() => window.__hacked") is None
    assert place.locator("img").count() == images
    assert place.locator("img:not([src^='data:image/svg+xml;base64,'])").count() == 0
    assert place.locator("script, iframe, [onerror], [onload]").count() == 0


class Page(HTMLParser):
    """Attributes that run code, sources of images and the text of an HTML page."""

    def __init__(self) -> None:
        super().__init__()
        self.handlers: list[str] = []
        self.images: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handlers += [f"{tag} {name}" for name, _ in attrs if name.startswith("on")]
        if tag == "img":
            self.images.append(dict(attrs).get("src") or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def exported(notebook: Path) -> Page:
    """What nbconvert makes of a notebook."""
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--stdout", "--log-level", "ERROR", str(notebook)]
    page = Page()
    page.feed(subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout)
    return page
