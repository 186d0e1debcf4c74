"""The main job of the package, with clicks, in a real JupyterLab and a real Notebook 7."""

import os
import shutil
from pathlib import Path

import pytest
from lab_harness import Lab, Opener
from panel_page import DEFINITION, Panel

pytestmark = pytest.mark.browser

RUN = 'run = flow.with_options(panel="full").run()'
AWAIT = 'print("result:", await run)'
DEBUG = "slow = flow.debug(takes=0.05)"
COUNT = """
from flownb.core.ticks import StepsGranted
work = [t for t in slow.debug.ticks if t.__class__.__name__ not in ("RunStarted", "GateClosed", "StepsGranted")]
print(len(work), "work ticks,", sum(isinstance(t, StepsGranted) for t in slow.debug.ticks), "grants")
"""
COMPACT = "again = flow.run(takes=1.0)"

JOB = [*DEFINITION, DEBUG, COUNT, RUN, AWAIT, COMPACT]
DEBUGGED, COUNTED, RAN, AWAITED, COMPACTED = range(len(DEFINITION), len(JOB))


def shoot(lab: Lab, shots: Path, name: str, cell: int) -> None:
    """A picture of a cell's output, in JupyterLab in both themes; the light one stays."""
    lab.page.mouse.move(5, 5)  # what lies under the pointer lights up
    for theme in ("dark", "light") if lab.server.app == "lab" else ("light",):
        lab.set_theme(theme)
        lab.screenshot(shots / f"{name}-{lab.server.app}-{theme}.png", cell=cell)


def test_the_whole_job(notebook: Opener, shots: Path):
    """Define, step, run, watch, answer, restart, look at the twin: one sitting, nothing leaves the machine."""
    lab = notebook(JOB)
    lab.page.set_viewport_size({"width": 1300, "height": 1400})  # a panel with its form is in sight as a whole
    for cell in range(len(DEFINITION)):
        lab.run(cell)

    step_four_times(lab, shots)

    panel = Panel(lab, RAN)
    panel.record()
    lab.run(RAN)
    lab.run(AWAITED, wait=False)
    panel.wait_node("score", "running")
    shoot(lab, shots, "full-running", RAN)
    panel.wait_node("gather", "done")
    seen = panel.recorded()
    assert lab.prompt(AWAITED).startswith("[*]")
    assert seen["nodes"]["split"] == ["idle", "running", "done"]
    assert seen["nodes"]["score"][-1] == "done"
    bars = seen["bars"]["score"]
    assert bars[0][2:] == [2, 6], "two workers: two items run, six are queued"
    assert all(sum(bar) == 8 and bar[1] == 0 and bar[2] <= 2 for bar in bars)
    assert [bar[0] for bar in bars] == sorted(bar[0] for bar in bars)
    assert bars[-1] == [8, 0, 0, 0]

    fill(panel)
    shoot(lab, shots, "form", RAN)
    panel.send()
    lab.wait_text(AWAITED, "result: 7 odd: mark beyond 3.5 until 2026-12-24, 2010, ask Gorman, True")
    lab.wait_done(AWAITED)
    panel.wait_status("completed")
    assert "Answered by ann at " in panel.box.locator(".fl-ended").inner_text()

    lab.run(COMPACTED)
    compact = Panel(lab, COMPACTED)
    compact.wait_node("score", "running")  # for four seconds: it is not over before somebody looks
    shoot(lab, shots, "compact", COMPACTED)

    lab.save()
    lab.restart()
    lab.output(RAN).locator(".fl-gone:visible").first.wait_for()
    lab.reload()
    twin = lab.output(RAN).locator("[class^=flownb-twin-]")
    twin.wait_for()
    assert "completed at tick" in twin.inner_text()
    assert "mark" in twin.inner_text(), "the answer is there"
    picture = twin.locator("img")
    assert picture.evaluate("img => img.complete && img.naturalWidth > 100")
    assert "done: " in (picture.get_attribute("alt") or "")
    assert "model not found" not in lab.text(RAN).replace(twin.inner_text(), "")
    shoot(lab, shots, "twin", RAN)
    assert lab.external == []


def fill(panel: Panel) -> None:
    """Radio, numbers, date, dropdown, optional text, checkbox."""
    panel.field("Decision").get_by_text("mark", exact=True).click()
    panel.field("Limit").locator("input").fill("3.5")
    panel.field("Limit").locator("input").press("Tab")
    panel.field("Until").locator("input[type=date]").fill("2026-12-24")
    panel.field("Season").locator("select").select_option("2010")
    panel.field("Note").locator("input").fill("ask Gorman")
    panel.field("Mail").locator("input[type=checkbox]").check()


def step_four_times(lab: Lab, shots: Path) -> None:
    """Each click admits exactly one tick beside the tick that grants it, and then the run stands still."""
    lab.run(DEBUGGED)
    panel = Panel(lab, DEBUGGED)
    panel.wait_drawn()
    panel.wait_status("paused")
    for clicks in range(1, 5):
        before = panel.ticks()
        panel.step()
        panel.wait_ticks(before + 2)
        lab.run(COUNTED)
        assert f"{clicks} work ticks, {clicks} grants" in lab.text(COUNTED)
        assert panel.ticks() == before + 2
    shoot(lab, shots, "stepping", DEBUGGED)


def test_the_picture_of_the_readme(lab: Lab, lab_notebook: Opener, shots: Path):
    """A run with a fan-out in progress and an open form, 1200 px wide."""
    lab_notebook([*DEFINITION, 'run = flow.with_options(panel="full").run(run_id="survey-2009", takes=2.0)'])
    lab.page.set_viewport_size({"width": 1500, "height": 1400})
    for cell in range(len(DEFINITION)):
        lab.run(cell)
    lab.run(len(DEFINITION))
    panel = Panel(lab, len(DEFINITION))
    width = panel.box.bounding_box()["width"]
    lab.page.set_viewport_size({"width": 1500 + round(1200 - width), "height": 1400})
    lab.page.mouse.move(5, 5)
    panel.wait_node("score", "running")
    panel.node("score").locator(".b-done").nth(2).wait_for(state="attached")
    picture = shots / "readme.png"
    panel.box.screenshot(path=picture)
    assert panel.node("review").and_(lab.page.locator(".s-person")).count() == 1
    if place := os.environ.get("FLOWNB_README_PNG"):
        shutil.copy(picture, place)
