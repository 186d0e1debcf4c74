"""The tool chain itself: a real click in a real page reaches the kernel, while another cell awaits it."""

from pathlib import Path

import pytest
from lab_harness import Lab, Opener

pytestmark = pytest.mark.browser

BUTTON = """
import asyncio, threading
import ipywidgets

loop = asyncio.get_running_loop()
answered = loop.create_future()

def on_click(button):
    # Which thread handles a click depends on the kernel: never resolve the future directly.
    loop.call_soon_threadsafe(lambda: answered.done() or answered.set_result("approved"))

button = ipywidgets.Button(description="Approve")
button.on_click(on_click)
button
"""
AWAIT = """
print("waiting")
print("the answer is", await answered)
"""
SLEEP = """
import asyncio
print("sleeping")
for _ in range(600):
    await asyncio.sleep(0.1)
"""


def test_a_click_resolves_a_future_that_another_cell_awaits(notebook: Opener, shots: Path):
    """Buttons, outputs and prompts work in both applications, and no request leaves the machine."""
    lab = notebook([BUTTON, AWAIT])
    lab.run(0)
    lab.run(1, wait=False)
    lab.wait_text(1, "waiting")
    assert lab.prompt(1).startswith("[*]")

    lab.click(0, "button:has-text('Approve')")

    lab.wait_text(1, "the answer is approved")
    lab.wait_done(1)
    for theme in ("light", "dark"):
        lab.set_theme(theme)
        lab.screenshot(shots / f"smoke-{lab.server.app}-{theme}.png")
    lab.set_theme("light")
    assert lab.external == []


def test_an_interrupt_ends_an_awaiting_cell(notebook: Opener):
    """The stop button reaches a cell that awaits, and the kernel lives on."""
    lab = notebook([SLEEP, "print('alive')"])
    lab.run(0, wait=False)
    lab.wait_text(0, "sleeping")

    lab.interrupt()

    lab.wait_done(0, timeout=10)
    lab.run(1)
    assert "alive" in lab.text(1)


def test_a_restart_forgets_and_a_reload_keeps_what_was_saved(notebook: Opener):
    """After a restart the kernel knows nothing; after a reload the saved outputs are there."""
    lab = notebook(["x = 41; print('x is set')", "print(x + 1 if 'x' in globals() else 'forgotten')"])
    lab.run(0)
    lab.save()

    lab.restart()
    lab.reload()

    assert "x is set" in lab.text(0)
    lab.run(1)
    assert "forgotten" in lab.text(1)


def test_a_second_tab_shares_the_kernel(notebook: Opener):
    """The same notebook in another tab talks to the same process."""
    lab = notebook(["import os; print('pid', os.getpid())"])
    lab.run(0)
    first = lab.text(0)

    other = lab.second_tab()
    other.run(0)

    assert other.text(0) == first
    other.close()


def test_a_request_that_leaves_the_machine_is_refused_and_noted(lab: Lab, lab_notebook: Opener):
    """Without this the assertion `external == []` elsewhere would prove nothing."""
    lab_notebook(["print('hello')"])

    reached = lab.page.evaluate("fetch('http://flownb.invalid/pixel.png').then(() => true, () => false)")

    assert reached is False
    assert lab.external == ["http://flownb.invalid/pixel.png"]
    lab.external.clear()
