"""A run and a kernel: what blocks, interrupts, restarts and redefines, and where output lands."""

import re

import pytest
from lab_harness import Lab, Opener
from panel_page import Panel

pytestmark = pytest.mark.browser

BEATS = """
import asyncio, time, threading
from flownb import Context, Event, StartEvent, StopEvent, Workflow

class Begin(StartEvent):
    beats: int = 3
    takes: float = 0.0

class Beat(Event):
    left: int
    takes: float

flow = Workflow("beats")
done = []

@flow.step
async def begin(ev: Begin) -> Beat:
    return Beat(left=ev.beats, takes=ev.takes)

@flow.step
async def beat(ev: Beat) -> Beat | StopEvent:
    done.append("beat")
    await asyncio.sleep(ev.takes)
    return Beat(left=ev.left - 1, takes=ev.takes) if ev.left > 1 else StopEvent(result="all beats")
"""


def test_a_run_goes_on_while_a_cell_sleeps_and_while_it_computes(lab_notebook: Opener):
    """The engine has a thread of its own, and its news reach the page while the kernel is busy."""
    lab = lab_notebook(
        [
            BEATS,
            "run = flow.run(beats=200, takes=0.1)",
            "time.sleep(3)",
            "end = time.monotonic() + 2\nwhile time.monotonic() < end:\n    sum(range(1000))",
        ]
    )
    lab.run(0)
    lab.run(1)
    panel = Panel(lab, 1)
    panel.wait_drawn()
    panel.record()
    for cell, seconds in ((2, 3), (3, 2)):
        since = lab.page.evaluate("() => performance.now()")
        lab.run(cell)
        until = lab.page.evaluate("() => performance.now()")
        seen = [at for at, _ in panel.recorded()["ticks"] if since < at < until]
        assert until - since >= 1000 * seconds
        assert len(seen) >= 3 * seconds, f"the panel moved {len(seen)} times in {until - since:.0f} ms"
        pauses = [b - a for a, b in zip([since, *seen], [*seen, until], strict=True)]
        assert max(pauses) < 1500, f"the panel stood still for {max(pauses):.0f} ms"
    assert panel.status() == "running"


INTERRUPTED = """
class Work(Event):
    n: int

class Also(Event):
    n: int

busy = Workflow("busy")
count = {"async": 0, "plain": 0}

@busy.step
async def both(ev: StartEvent, ctx: Context) -> Work | Also | None:
    ctx.send_event(Work(n=0))
    ctx.send_event(Also(n=0))

@busy.step
async def waits(ev: Work) -> Work | StopEvent:
    count["async"] += 1
    await asyncio.sleep(0.05)
    return Work(n=ev.n + 1) if ev.n < 10_000 else StopEvent()

@busy.step
def blocks(ev: Also) -> Also | StopEvent:
    count["plain"] += 1
    time.sleep(0.05)
    return Also(n=ev.n + 1) if ev.n < 10_000 else StopEvent()
"""
AWAITS = """
import signal
def heard(*args):
    global pressed_at
    pressed_at = time.time()
    below(*args)
below = signal.signal(signal.SIGINT, heard)
run = busy.run()
try:
    await run
finally:
    ended_at = time.time()
"""
AFTERWARDS = """
before = dict(count); await asyncio.sleep(0.5); after = dict(count)
print("stopped" if before == after else (before, after), run.status, min(after.values()) > 1, ended_at - pressed_at)
"""


def test_an_interrupt_ends_the_awaiting_cell_within_a_second_and_the_run(lab_notebook: Opener):
    """C049: KeyboardInterrupt, the run is cancelled and its steps stop; the next cell starts a new run."""
    lab = lab_notebook([BEATS, INTERRUPTED, AWAITS, AFTERWARDS, "print(await flow.run())"])
    lab.run(0)
    lab.run(1)
    lab.run(2, wait=False)
    Panel(lab, 2).wait_ticks(12)

    lab.interrupt()
    lab.wait_done(2, timeout=10)

    assert "KeyboardInterrupt" in lab.text(2)
    Panel(lab, 2).wait_status("cancelled")
    lab.run(3)
    said = lab.text(3)
    assert "stopped cancelled True" in said
    assert 0 <= float(said.split()[-1]) < 1.0
    lab.run(4)
    assert "all beats" in lab.text(4)


PING = """
class Ping(Event):
    n: int

class Pong(Event):
    n: int
"""
PINGS = """
pings = Workflow("pings", accepts=[Ping], stalled="wait")

@pings.step
async def serve(ev: StartEvent) -> Pong:
    return Pong(n=1)

@pings.step
async def take(ev: Pong) -> None:
    pass

@pings.step
async def hit(ev: Ping) -> StopEvent:
    return StopEvent(result=("hit", ev.n, isinstance(ev, Ping)))
"""


def test_an_event_class_may_be_defined_again(lab_notebook: Opener):
    """C083: the cell of the events is run again alone; the old workflow takes the new class, in old and new runs."""
    lab = lab_notebook(
        [
            "from flownb import *",
            PING,
            PINGS,
            "waiting = pings.run()",
            "waiting.send_event(Ping(n=1)); print(await waiting)",
            "fresh = pings.run(); fresh.send_event(Ping(n=2)); print(await fresh)",
        ]
    )
    for cell in range(4):
        lab.run(cell)
    Panel(lab, 3).wait_status("waiting")

    lab.run(1)

    lab.run(4)
    assert "('hit', 1, True)" in lab.text(4)
    lab.run(5)
    assert "('hit', 2, True)" in lab.text(5)


ASKS = """
import asyncio
from flownb import Context, StartEvent, StopEvent, Workflow

asks = Workflow("asks")

@asks.step
async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
    return StopEvent(result=await ctx.ask("Which penguin?"))
"""
LIVE = """
from comm import get_comm_manager
from ipywidgets.widgets import widget
print("widgets", len(widget._instances), "comms", len(get_comm_manager().comms))
"""


def test_a_cell_that_is_run_twenty_times_keeps_as_many_widgets(lab_notebook: Opener):
    """C093: the panel of the run before is closed with all its widgets and comms."""
    lab = lab_notebook(
        [
            ASKS,
            "run = asks.run()\nwhile not run.requests: await asyncio.sleep(0.01)",
            "run.answer(None, 'Gentoo'); print(await run)",
            LIVE,
        ]
    )
    lab.run(0)
    counts = []
    for again in range(20):
        lab.run(1)
        lab.output(1).locator(".flownb-form .flownb-send:enabled").wait_for()
        lab.run(2)
        assert "Gentoo" in lab.text(2)
        Panel(lab, 1).wait_status("completed")
        if again in (2, 19):
            lab.run(3)
            counts.append(lab.text(3))

    assert re.match(r"widgets \d+ comms \d+", counts[0])
    assert counts[0] == counts[1]
    assert lab.output(1).locator(".flownb").count() == 1


def test_reload_second_tab_and_death(lab_notebook: Opener):
    """The panel works after a reload and in a second tab; when the kernel is gone it says so and still looks back."""
    lab = lab_notebook([BEATS, "run = flow.debug(beats=20)"])
    lab.run(0)
    lab.run(1)
    panel = Panel(lab, 1)
    panel.wait_status("paused")
    panel.step()
    panel.wait_ticks(3)
    lab.save()

    lab.reload()
    panel.wait_status("paused")
    panel.wait_ticks(3)
    panel.step()
    panel.wait_ticks(5)

    other = lab.second_tab()
    twin = Panel(other, 1)
    twin.wait_status("paused")
    twin.wait_ticks(5)
    twin.step()
    twin.wait_ticks(7)
    other.close()
    lab.page.bring_to_front()
    panel.wait_ticks(7)
    assert panel.ticks() == 7

    lab.restart()
    panel.view.locator(".fl-head .fl-gone").wait_for()
    assert "kernel gone" in panel.view.locator(".fl-head .fl-gone").inner_text()
    panel.view.focus()
    lab.page.keyboard.press("F10")
    panel.view.locator(".fl-refusal").wait_for()
    panel.view.locator("button[aria-label='one tick back']").click()
    panel.view.locator(".fl-tick:text-is('6 / 7')").wait_for()


CALLBACK = """
import ipywidgets
button = ipywidgets.Button(description="Go")
started = []
button.on_click(lambda _: started.append(flow.run()))
button
"""
THREAD = """
thread = threading.Thread(target=lambda: started.append(flow.run()))
thread.start(); thread.join(); print("joined")
"""


def test_a_run_shows_itself_once_and_only_in_the_cell_that_starts_it(lab_notebook: Opener):
    """Assigned or not: once. From a widget's callback or a thread: nowhere. Five in a cell: three and two lines."""
    lab = lab_notebook(
        [
            BEATS,
            "run = flow.run()",
            "flow.run()",
            "for _ in range(5):\n    last = flow.run()\nlast",
            CALLBACK,
            THREAD,
            "print(len(started), [await r for r in started])",
            "run",
        ]
    )
    for cell in range(5):
        lab.run(cell)
    for cell in (1, 2):
        Panel(lab, cell).wait_status("completed")
        assert shown(lab, cell) == (1, 1)
    assert shown(lab, 3) == (3, 3)
    assert len(re.findall(r"run \w+ of beats: run\.view\(\) shows its panel", lab.text(3))) == 2
    before = shown(lab)

    lab.click(4, "button:has-text('Go')")
    lab.run(5)
    lab.run(6)

    assert "2 ['all beats', 'all beats']" in lab.text(6)
    assert shown(lab) == before, "neither the callback nor the thread shows anything"
    assert lab.text(5).strip() == "joined"
    lab.run(7)
    Panel(lab, 7).wait_status("completed")
    assert shown(lab, 7) == (1, 1), "asked for in another cell it is shown there too"


def shown(lab: Lab, cell: int | None = None) -> tuple[int, int]:
    """How many panels and twins a cell, or the notebook, has."""
    where = lab.page.locator(".jp-Notebook") if cell is None else lab.output(cell)
    return where.locator(".flownb-panel").count(), where.locator("[class^=flownb-twin-]").count()


TALKS = """
import logging, warnings
from IPython.display import display, HTML
talks = Workflow("talks")

@talks.step
async def first(ev: StartEvent) -> Event1:
    display(HTML("<i>shown at once</i>"))
    print("async says hello")
    await asyncio.sleep(0.3)
    logging.getLogger("mine").warning("a warning of mine")
    await asyncio.to_thread(print, "from a thread")
    return Event1()

@talks.step
def second(ev: Event1) -> StopEvent:
    print("plain says hello")
    display(HTML("<b>shown by a step</b>"))
    time.sleep(0.3)
    print("plain says goodbye")
    return StopEvent(result="talked")
"""


def test_what_steps_print_lands_in_their_log_and_in_no_cell(lab_notebook: Opener):
    """Prints, log records and displays of steps, while this and other cells run, are in the Log pane and run.logs()."""
    lab = lab_notebook(
        [
            BEATS + "\nclass Event1(Event):\n    pass\n",
            TALKS,
            'run = talks.with_options(panel="full").run()',
            "time.sleep(0.5); print('mine')",
            "print(await run)",
            "print(run.logs('second')); print(run.logs('first'))",
        ]
    )
    for cell in range(5):
        lab.run(cell)

    assert lab.text(3).strip() == "mine"
    assert lab.text(4).strip() == "talked"
    for cell in range(5):
        outputs = str([o for o in lab.model_outputs(cell) if "application/vnd.jupyter.widget-view+json" not in str(o)])
        for words in ("says", "a warning of mine", "from a thread", "shown at once", "shown by a step"):
            assert words not in outputs, f"{words!r} landed in cell {cell}"
    lab.run(5)
    for words in ("plain says hello", "plain says goodbye", "async says hello", "from a thread", "HTML object"):
        assert words in lab.text(5)
    assert "a warning of mine" in lab.text(5)

    panel = Panel(lab, 2)
    panel.wait_status("completed")
    panel.tab("Log")
    panel.view.locator(".fl-ticks .fl-tr:has-text('second finished')").click()
    log = panel.view.locator(".fl-pane pre")
    log.wait_for()
    assert "plain says hello" in log.inner_text()
    assert "async says hello" not in log.inner_text()
