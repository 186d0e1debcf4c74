"""Keys that are meant for the panel never reach the notebook, where a letter makes a cell and two delete one."""

import json

import pytest
from lab_harness import Lab, Opener
from panel_page import DEFINITION, Panel
from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

RUN = len(DEFINITION)
#: Two panels: one that runs on to its form, one in the debugger.
CELLS = [
    *DEFINITION,
    'run = flow.with_options(panel="full").run(takes=0.01)',
    "slow = flow.debug(takes=0.01)",
    "print('ran')",
]

#: Every kind of thing in the panel that can have the focus, outside and inside the form.
CONTROLS = {
    "panel": ".flownb",
    "fold": "button[aria-label='fold to one line']",
    "step button": ".fl-ctrl button:has-text('Step')",
    "slider": ".fl-range",
    "graph node": ".fl-node[tabindex='0']",
    "zoom": "button[aria-label='zoom in']",
    "tab": "[role=tab][aria-selected=true]",
    "pane": "[role=tabpanel]",
    "filter": ".fl-filter",
    "errors only": ".fl-check input",
    "tick table": ".fl-scroll",
    "radio": ".flownb-form input[type=radio]",
    "number": ".flownb-form input[type=number]",
    "date": ".flownb-form input[type=date]",
    "select": ".flownb-form select",
    "text": ".flownb-form input[type=text]",
    "toggle": ".flownb-form .fl-toggle",
    "checkbox": ".flownb-form input[type=checkbox]",
    "later": ".flownb-form .flownb-later",
    "send": ".flownb-form .flownb-send",
}


def start(lab: Lab, *cells: int) -> None:
    for cell in (*range(len(DEFINITION)), *cells):
        lab.run(cell)


def focus(panel: Panel, selector: str) -> Locator:
    """Give the focus to the first such element of the panel."""
    where = panel.box.locator(selector).first
    where.focus()
    assert where.evaluate("el => el === document.activeElement")
    return where


def focused_in(panel: Panel) -> bool:
    """Whether the focus is inside this panel or its form."""
    inside: bool = panel.box.evaluate("box => box.contains(document.activeElement)")
    return inside


def test_letters_stay_in_the_panel_and_ctrl_s_saves(notebook: Opener):
    """From every control: a, b, d, d make and lose no cell, and Ctrl-S writes the file."""
    lab = notebook(CELLS)
    start(lab, RUN)
    panel = Panel(lab, RUN)
    panel.box.locator(".flownb-form").wait_for()

    for mark, (name, selector) in enumerate(CONTROLS.items()):
        lab.set_source(RUN + 2, f"mark = {mark}")  # else there would be nothing to save
        sources = lab.page.evaluate(_SOURCES)
        focus(panel, selector)
        for key in "abdd":
            lab.page.keyboard.press(key)
        assert lab.page.evaluate(_SOURCES) == sources, f"a cell was made or lost with the focus on {name}"
        # The command ignores a save while the one before is not through with its checkpoint: wait for that.
        with lab.page.expect_response(lambda r: r.request.method == "POST" and "/checkpoints?" in r.url):
            lab.page.keyboard.press("Control+s")
        assert f"mark = {mark}" in saved_sources(lab), f"Ctrl-S does not save with the focus on {name}"
        assert focused_in(panel), f"the focus was lost from {name}"


def test_keys_step_and_look_back(notebook: Opener):
    """F10 and n step, b and arrows look back without a tick, End is live, F9 and c go on, p pauses, Shift-F9 stops."""
    lab = notebook(CELLS)
    start(lab, RUN + 1)
    panel = Panel(lab, RUN + 1)
    panel.wait_drawn()
    panel.wait_status("paused")
    press = lab.page.keyboard.press
    place = panel.view.locator(".fl-tick")

    panel.view.focus()
    for key in ("F10", "n", "F10"):
        before = panel.ticks()
        press(key)
        panel.wait_ticks(before + 2)
    last = panel.ticks()
    for key, seq in (("b", last - 1), ("ArrowLeft", last - 2), ("ArrowRight", last - 1), ("Home", 0), ("End", last)):
        press(key)
        place.and_(lab.page.locator(f":text-is('{seq} / {last}')")).wait_for()

    press("F9")
    panel.wait_status("waiting")
    press("p")
    panel.wait_status("paused")
    press("c")
    panel.wait_status("waiting")
    press("?")
    panel.view.locator(".fl-help-box").wait_for()
    press("Escape")
    panel.view.locator(".fl-help-box").wait_for(state="hidden")
    press("/")
    assert panel.view.locator(".fl-filter").evaluate("el => el === document.activeElement")
    focus(panel, ".flownb-form input[type=text]")
    press("Shift+F9")  # a form's keys are its own
    press("n")
    assert panel.status() == "waiting"
    panel.view.focus()
    press("Shift+F9")
    panel.wait_status("cancelled")


def test_escape_gives_the_focus_to_the_cell(notebook: Opener):
    """From the panel, its graph and its form: the next letter is the notebook's again."""
    lab = notebook(CELLS)
    start(lab, RUN)
    panel = Panel(lab, RUN)
    panel.box.locator(".flownb-form").wait_for()
    cells = lab.n_cells()

    for n, selector in enumerate((".flownb", ".fl-node[tabindex='0']", ".fl-filter", ".flownb-form input[type=text]")):
        focus(panel, selector)
        lab.page.keyboard.press("Escape")
        assert lab.cell(RUN + n).evaluate("cell => cell === document.activeElement"), selector
        lab.page.keyboard.press("a")  # a cell above: the notebook is in command mode
        lab.page.wait_for_function(_COUNT, arg=cells + n + 1)
        panel = Panel(lab, RUN + n + 1)


def saved_sources(lab: Lab) -> str:
    """The sources of the notebook's file."""
    file = lab.server.root / f"{lab.page.evaluate(_PATH)}"
    return "\n".join("".join(cell["source"]) for cell in json.loads(file.read_text(encoding="utf-8"))["cells"])


_NOTEBOOK = "const notebook = window.jupyterapp.shell.currentWidget;"
_SOURCES = f"() => {{ {_NOTEBOOK} return notebook.content.widgets.map(c => c.model.sharedModel.getSource()); }}"
_COUNT = f"n => {{ {_NOTEBOOK} return notebook.content.widgets.length === n; }}"
_PATH = f"() => {{ {_NOTEBOOK} return notebook.context.localPath; }}"
