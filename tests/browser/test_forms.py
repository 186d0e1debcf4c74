"""Forms in a real JupyterLab: filled by keyboard alone, refused and mended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lab_harness import Lab, Opener
from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

MODELS = """
import datetime, enum
from typing import Annotated, Literal
from pydantic import AwareDatetime, BaseModel, Field, SecretStr, model_validator
from flownb import Context, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, options
options.user = "ann"

class Species(enum.Enum):
    ADELIE = "Adelie"
    CHINSTRAP = "Chinstrap"
    EMPEROR = "Emperor"
    GENTOO = "Gentoo"
    KING = "King"

class Point(BaseModel):
    name: str
    score: float = Field(ge=0, le=1)

class Car(BaseModel):
    kind: Literal["car"]
    seats: int = 4

class Boat(BaseModel):
    kind: Literal["boat"]
    name: str

class Survey(HumanResponseEvent):
    name: str = Field(description="Who leads the survey", examples=["Ann Gorman"])
    remark: str = Field("", json_schema_extra={"widget": "textarea"}, description="For the record")
    key: SecretStr = Field(description="Of the station")
    count: int = Field(ge=1, le=500)
    share: float = Field(0.5, ge=0, le=1, description="Of the colony")
    sure: bool = False
    decision: Literal["approve", "reject", "edit"]
    species: Species
    day: datetime.date
    at: datetime.time
    start: AwareDatetime
    tags: list[str] = Field([], max_length=5)
    ages: set[int] = set()
    points: list[Point] = Field(min_length=1)
    centre: Point
    travel: Annotated[Car | Boat, Field(discriminator="kind")]
    note: str | None = Field(None, description="None is not an empty text")
    limits: dict[str, int] = {}

class Ask(InputRequiredEvent[Survey]):
    prefix: str = "How shall the colony be counted this year?"
    rows: int = 344
    plan: str = "Walk the ridge from north to south.\\nCount pairs, not birds; leave out what is on the ice.\\n" * 3
"""

FLOW = """
flow = Workflow("surveys")

@flow.step
def ask(ev: StartEvent) -> Ask:
    return Ask()

@flow.step
def done(ev: Survey) -> StopEvent:
    return StopEvent(result=ev)
"""

RUN = "run = flow.run()"
SHOW = """
ev = await run
print(ev.key.get_secret_value())
print(ev.start.tzinfo)
print(ev.model_dump_json(exclude={"key"}))
"""


def open_form(lab: Lab, cell: int) -> Locator:
    form = lab.output(cell).locator(".flownb-form:not(.fl-answered)").first
    form.wait_for(timeout=20_000)
    form.locator("[role=radiogroup]").first.wait_for()
    return form


def shoot(lab: Lab, form: Locator, shots: Path, name: str) -> None:
    """The form at two widths, in both themes."""
    size = dict(lab.page.viewport_size or {})
    for width in (1200, 800):
        wide = form.bounding_box()
        assert wide is not None
        now = lab.page.viewport_size
        assert now is not None
        lab.page.set_viewport_size({"width": round(now["width"] + width - wide["width"]), "height": 2000})
        for theme in ("dark", "light"):
            lab.set_theme(theme)  # type: ignore[arg-type]
            form.screenshot(path=shots / f"form-{name}-{width}-{theme}.png")
    lab.page.set_viewport_size(size)  # type: ignore[arg-type]


def type_into_form(lab: Lab, form: Locator) -> None:
    """Fills every field from the first on: Tab, letters, arrows, Space and Enter, no pointer."""
    keys = lab.page.keyboard

    def typed(text: str, *then: str) -> None:
        keys.type(text, delay=15)
        for key in then:
            keys.press(key)

    form.locator("input").first.focus()
    typed("Ann", "Tab")
    typed("two\nlines", "Tab")
    typed("hunter2", "Tab")
    typed("12", "Tab", "Control+a")
    typed("0.25", "Tab")
    typed("", "Space", "Tab")  # sure
    typed("", "Space", "ArrowRight", "Tab")  # the second decision: one stop for all three
    typed("Gen", "Tab")
    typed("12242026")
    tab_to(lab, "At")  # past the button of the calendar
    typed("0630PM")
    tab_to(lab, "Start")
    typed("12252026", "Tab")  # from the year to the hour
    typed("0915AM")
    tab_to(lab, "Time zone")
    typed("Europe/Berlin", "Tab")
    typed("north", "Enter")
    typed("ice", "Enter")
    typed("wrong", "Enter", "Backspace", "Control+a", "Backspace", "Tab")
    tab_to(lab, "Ages")
    typed("3", "Enter")
    typed("5", "Tab")  # what is typed when the box is left is taken, too
    tab_to(lab, "Name", inside="Points")
    typed("ridge", "Tab")
    typed("0.5", "Tab")
    assert active(lab)["title"] == "Remove row 1"
    typed("", "Tab", "Space")  # Add, and the focus goes to the new row
    lab.page.wait_for_function("() => document.activeElement.closest('.fl-row')?.textContent.startsWith('2')")
    typed("shore", "Tab")
    typed("1", "Tab")
    typed("", "Tab", "Tab")
    focus_of(lab, "Name", inside="Centre")
    typed("hut", "Tab")
    typed("0", "Tab")
    typed("", "ArrowRight")  # the second tab
    form.locator(".fl-tab-body").get_by_label("Name").wait_for()
    typed("", "Tab")
    typed("Aurora", "Tab")
    focus_of(lab, "Note")
    typed("windy", "Tab", "Tab")
    focus_of(lab, "Limits")
    typed("", "Control+a")
    typed('{"eggs": 2}')


def active(lab: Lab) -> dict[str, str]:
    """The element that has the focus: its label, its title, the legend round it."""
    found: dict[str, str] = lab.page.evaluate("""() => {
        const el = document.activeElement;
        const label = el.labels?.[0] ?? el.closest(".widget-radio")?.querySelector(".widget-label");
        const legend = el.closest(".fl-set")?.querySelector(".fl-legend");
        return { label: label?.textContent ?? "", title: el.title, inside: legend?.textContent ?? "" };
    }""")
    return found


def focus_of(lab: Lab, label: str, inside: str = "") -> None:
    """The focus is where it should be: at a control with this label."""
    now = active(lab)
    assert (now["label"].removesuffix(" *"), now["inside"].removesuffix(" *")) == (label, inside), now


def tab_to(lab: Lab, label: str, inside: str = "") -> None:
    """Press Tab, past buttons of chips, until a control has the focus."""
    for _ in range(8):
        if active(lab)["label"].removesuffix(" *") == label:
            break
        lab.page.keyboard.press("Tab")
    focus_of(lab, label, inside)


def test_every_kind_of_field_is_filled_by_keyboard_alone(lab: Lab, lab_notebook: Opener, shots: Path) -> None:
    """PANEL §5: Tab, letters, arrows, Space and Ctrl-Enter; the step gets exactly what was typed, and the secret is
    nowhere in the page's models or in the notebook's file."""
    lab_notebook([MODELS, FLOW, RUN, SHOW])
    lab.page.set_viewport_size({"width": 1500, "height": 2000})
    for cell in range(3):
        lab.run(cell)
    lab.run(3, wait=False)
    form = open_form(lab, 2)
    shoot(lab, form, shots, "empty")

    type_into_form(lab, form)
    shoot(lab, form, shots, "filled")
    assert form.evaluate(_UNNAMED) == [], "each control says what it is"
    keep_state(lab, True)
    lab.save()
    state = json.dumps(saved(lab)["metadata"]["widgets"])
    keep_state(lab, False)
    assert "Europe/Berlin" in state and "ridge" in state, "the state of the widgets is saved"
    assert "hunter2" not in state

    lab.page.keyboard.press("Control+Enter")
    lab.wait_done(3, timeout=20)
    secret, zone, answer = lab.text(3).strip().splitlines()
    assert (secret, zone) == ("hunter2", "Europe/Berlin")
    assert json.loads(answer) == EXPECTED
    assert lab.n_cells() == 4
    answered = lab.output(2).locator(".flownb-form.fl-answered")
    answered.locator(".fl-ended").wait_for()
    assert answered.locator("input").count() == 0
    assert "hunter2" not in lab.output(2).inner_html()
    shoot(lab, answered, shots, "answered")


#: Controls without a label, in a form.
_UNNAMED = """form => [...form.querySelectorAll("input, select, textarea, button")]
    .filter((el) => !el.labels?.length && !el.getAttribute("aria-label") && !el.textContent.trim())
    .map((el) => el.outerHTML)"""


def saved(lab: Lab) -> dict[str, Any]:
    """The notebook's file."""
    path = lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.localPath")
    notebook: dict[str, Any] = json.loads((lab.server.root / path).read_text(encoding="utf-8"))
    return notebook


def keep_state(lab: Lab, on: bool) -> None:
    """Switch on or off that the state of all widgets is saved with a notebook."""
    command = "@jupyter-widgets/jupyterlab-manager:saveWidgetState"
    lab.command(command)
    toggled = f"on => window.jupyterapp.commands.isToggled('{command}') === on"
    lab.page.wait_for_function(toggled, arg=on)


EXPECTED: dict[str, Any] = {
    "name": "Ann",
    "remark": "two\nlines",
    "count": 12,
    "share": 0.25,
    "sure": True,
    "decision": "reject",
    "species": "Gentoo",
    "day": "2026-12-24",
    "at": "18:30:00",
    "start": "2026-12-25T09:15:00+01:00",
    "tags": ["north", "ice"],
    "ages": [3, 5],
    "points": [{"name": "ridge", "score": 0.5}, {"name": "shore", "score": 1.0}],
    "centre": {"name": "hut", "score": 0.0},
    "travel": {"kind": "boat", "name": "Aurora"},
    "note": "windy",
    "limits": {"eggs": 2},
}


RULES = """
class Range(BaseModel):
    low: float = Field(ge=0)
    high: float = 1.0

    @model_validator(mode="after")
    def rises(self):
        if self.high < self.low:
            raise ValueError("The range has to rise.")
        return self

class Bounds(HumanResponseEvent):
    species: Literal["Adelie", "Gentoo"]
    eggs: int = Field(ge=0, le=2)
    range: Range
    ranges: list[Range] = []
    remark: str = ""

    @model_validator(mode="after")
    def eggs_in_range(self):
        if self.eggs > self.range.high:
            raise ValueError("There are more eggs than the range allows.")
        return self

class Ask(InputRequiredEvent[Bounds]):
    prefix: str = "Which bounds?"
    table: object = None

flow = Workflow("bounds")

@flow.step
def ask(ev: StartEvent) -> Ask:
    import numpy as np, pandas as pd
    return Ask(table=pd.DataFrame({"island": ["Dream", "<b>Torgersen</b>"], "mass": [3750.0, np.nan]}))

@flow.step
def done(ev: Bounds) -> StopEvent:
    return StopEvent(result=ev.model_dump())
"""


def test_errors_stand_where_they_belong_until_they_are_mended(lab: Lab, lab_notebook: Opener, shots: Path) -> None:
    """PANEL §5: a nested field's error at that field, a model's own on top; the focus goes to the first bad field, what
    was typed stays, and screen readers are told."""
    lab_notebook([MODELS, RULES, "run = flow.run()", "print(await run)"])
    lab.page.set_viewport_size({"width": 1500, "height": 1600})
    for cell in range(3):
        lab.run(cell)
    lab.run(3, wait=False)
    form = open_form(lab, 2)
    low = form.get_by_role("group", name="Range *").get_by_label("Low")

    form.get_by_label("Eggs").fill("7")
    form.get_by_label("Remark").fill("first draft")
    low.fill("x")
    form.locator(".flownb-send").click()
    error(form, "Species", "Please fill this in.")
    error(form, "Eggs", "less than or equal to 2")
    error(form, "Low", "valid number")
    assert form.locator(".fl-form-top").inner_text().strip() == ""
    form.locator("input:focus[type=radio][value='0']").wait_for()
    assert low.get_attribute("aria-invalid") == "true"
    shoot(lab, form, shots, "errors")

    form.get_by_text("Gentoo", exact=True).click()
    form.get_by_label("Eggs").fill("2")
    low.fill("3")
    form.locator(".flownb-send").click()
    group = form.get_by_role("group", name="Range *")
    group.locator(".fl-about .fl-err", has_text="The range has to rise.").wait_for()
    assert low.get_attribute("aria-invalid") is None

    add = form.get_by_role("button", name="Add to Ranges")
    add.click()
    row = form.locator(".fl-row").first
    row.locator("input:focus").fill("9")  # the focus is in the new row
    form.locator(".flownb-send").click()
    row.locator(".fl-err", has_text="The range has to rise.").wait_for()
    shoot(lab, form, shots, "row-error")
    row.get_by_role("button", name="Remove row 1").click()
    lab.page.wait_for_function("() => document.activeElement.matches('.fl-add')")

    low.fill("0.5")
    form.locator(".flownb-send").click()
    top = form.locator(".fl-form-top [role=alert]", has_text="There are more eggs than the range allows.")
    top.wait_for()
    assert form.locator(".fl-field .fl-err").count() == 0
    assert top.bounding_box()["y"] < form.get_by_label("Eggs").bounding_box()["y"]  # type: ignore[index]
    assert form.get_by_label("Remark").input_value() == "first draft"
    shoot(lab, form, shots, "model-error")

    form.get_by_label("Eggs").fill("1")
    form.get_by_label("Eggs").press("Control+Enter")
    lab.wait_done(3, timeout=20)
    result = lab.text(3)
    assert "'eggs': 1" in result and "'low': 0.5" in result and "first draft" in result
    assert lab.external == []


def error(form: Locator, label: str, text: str) -> None:
    """Wait until an error stands in the field of a label, in words that its control refers to."""
    field = form.locator(".fl-field", has=form.page.locator(f".widget-label:text-is('{label} *')")).last
    field.locator("[role=alert]", has_text=text).wait_for(timeout=10_000)


ALONE = """
import io
from matplotlib.figure import Figure

class Pick(HumanResponseEvent):
    island: Literal["Biscoe", "Dream"] = Field(title="Island of the </b> colony, which has a long name " * 2)
    weights: list[float] = []
    login: str = Field("", title="אבג $x$ <i>", description="</div><script>alert(1)</script>")

class Look(InputRequiredEvent[Pick]):
    prefix: str = "Which island is this?\\nLook at both."
    figure: object = None
    array: object = None
    html: str = "<img src=x onerror=alert(1)>"

flow = Workflow("alone")

@flow.step
def ask(ev: StartEvent) -> Look:
    import numpy as np
    figure = Figure(figsize=(5, 2))
    figure.subplots().plot([1, 3, 2])
    return Look(figure=figure, array=np.arange(20).reshape(4, 5) / 7)

@flow.step
def done(ev: Pick) -> StopEvent:
    return StopEvent(result=f"{ev.island} {ev.weights}")

run = flow.with_options(panel="off").run()
"""
FORM = """
import time
while not run.requests:
    time.sleep(0.05)
run.requests[0].form()
"""


def test_a_form_alone_has_its_looks_and_its_keys(notebook: Opener, shots: Path) -> None:
    """Without a panel round it: letters make no cell, Esc gives the focus to the cell, Ctrl-Enter sends; the figure is
    a picture, and markup in names and values is text."""
    lab = notebook([MODELS, ALONE, FORM, "print(run.result())"])
    lab.page.set_viewport_size({"width": 1500, "height": 1600})
    for cell in range(3):
        lab.run(cell)
    form = open_form(lab, 2)
    cells = lab.n_cells()
    picture = form.locator("img.fl-picture")
    assert picture.evaluate("img => img.complete && img.naturalWidth > 100 && img.alt === 'figure of 1 axes'")
    assert form.locator("script, i:not(.fa), img:not(.fl-picture)").count() == 0
    if lab.server.app == "lab":
        shoot(lab, form, shots, "alone")

    radio = form.locator("input[type=radio]").first
    radio.focus()
    for key in ("a", "b", "d", "d"):
        lab.page.keyboard.press(key)
    assert lab.n_cells() == cells
    lab.page.keyboard.press("Escape")
    assert lab.cell(2).evaluate("cell => cell === document.activeElement")

    radio.focus()
    for key in ("Space", "ArrowRight", "Tab"):
        lab.page.keyboard.press(key)
    lab.page.keyboard.type("3.5", delay=20)
    lab.page.keyboard.press("Meta+Enter")  # what is typed is still in the box of the chips
    lab.output(2).locator(".fl-answered").wait_for(timeout=15_000)
    lab.run(3)
    assert lab.text(3).strip() == "Dream [3.5]"
    assert lab.n_cells() == cells
    assert lab.external == []
