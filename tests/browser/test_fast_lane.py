"""Where clicks arrive on the newest kernel; `python -m tests.kernels.matrix` tries the older ones, too."""

from collections.abc import Iterator
from typing import get_args

import pytest
from clicks import DEFINED, MODES, NEWEST, SETTINGS, Mode, Subshells, expected, try_clicks, type_answer
from lab_harness import KERNEL, Browser, Lab, LabServer, Opener
from panel_page import Panel

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=get_args(Subshells))
def subshells(request: pytest.FixtureRequest) -> Subshells:
    """JupyterLab's setting `commsOverSubshells`."""
    chosen: Subshells = request.param
    return chosen


@pytest.fixture(scope="module")
def page(subshells: Subshells, lab: Lab, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A page on a JupyterLab with that setting."""
    if subshells == "default":
        yield lab
        return
    with LabServer(tmp_path_factory.mktemp(subshells), settings=SETTINGS[subshells]) as server:
        other = Lab(server, browser)
        yield other
        other.close()


@pytest.mark.parametrize("mode", MODES)
def test_with_the_fast_lane_clicks_arrive_everywhere(page: Lab, subshells: Subshells, mode: Mode):
    """A typed answer and a button, while the cell awaits or blocks, another cell behind it, or between two cells."""
    seen = try_clicks(page, f"lane-{subshells}-{mode}", KERNEL, mode, lane=True)
    assert seen.outcome == "clicks", seen.said


@pytest.mark.parametrize("mode", ["await", "block"])
def test_without_it_they_arrive_where_a_cell_awaits_and_a_cell_that_blocks_fails_in_words(
    page: Lab, subshells: Subshells, mode: Mode
):
    """R4.66: at once, and the run stays open: answered between two cells, as the words say, it goes on."""
    seen = try_clicks(page, f"bare-{subshells}-{mode}", KERNEL, mode, lane=False)
    assert seen.outcome == expected(NEWEST, subshells, mode, lane=False), seen.said
    assert seen.after_s < 2
    if mode == "block":
        assert "Await it instead (`await run`)" in seen.said


def test_an_interrupt_ends_a_cell_that_blocks_in_the_fast_lane(lab_notebook: Opener):
    """While a person types: the run is cancelled, and the next one is answered."""
    blocks = "flownb.enable_fast_lane()\nrun = asks.run()\nprint('got', run.result())"
    lab = lab_notebook([DEFINED, blocks, blocks])
    lab.run(0)
    lab.run(1, wait=False)
    panel = Panel(lab, 1)
    panel.box.locator(".flownb-form input:enabled").click()
    lab.page.keyboard.type("Gen", delay=30)
    lab.interrupt()
    lab.page.keyboard.type("too", delay=30)
    lab.wait_done(1, timeout=20)
    assert "KeyboardInterrupt" in lab.text(1)
    panel.wait_status("cancelled")

    lab.run(2, wait=False)
    panel = Panel(lab, 2)
    type_answer(lab, panel)
    panel.send()
    panel.box.get_by_role("button", name="Approve").click()
    lab.wait_done(2, timeout=20)
    assert "got Gentoo True" in lab.text(2)
