"""Every past tick in the panel: graph, table, inspector and queue tell the same one, of a run of any length."""

from pathlib import Path

import pytest
from debugged import facts, row, step, wait_place, wait_told
from lab_harness import Lab, Opener
from panel_page import Panel

pytestmark = pytest.mark.browser


def test_graph_table_inspector_and_queue_tell_the_same_tick(debugged: tuple[Lab, Panel]):
    """At every tick, however one goes there, what is drawn is what the reducer says of that tick."""
    lab, panel = debugged
    panel.verb("Continue").click()
    panel.wait_node("rest", "waiting")
    panel.tab("Queue")
    last = panel.ticks()
    truth = facts(
        lab,
        """[[{k: len(v) for k, v in m.running.items()}, {k: len(v) for k, v in m.queued.items()}]
            for m in map(run.debug.at, range(1, run.now.seq + 1))]""",
    )
    goes = {
        "slider": lambda seq: panel.view.locator(".fl-range").evaluate(
            "(el, seq) => { el.value = seq; el.dispatchEvent(new Event('input', {bubbles: true})); }", seq
        ),
        "table": lambda seq: row(panel, seq).click(),
    }
    for place, seq in enumerate((3, 5, last - 4, 8, 6, last - 1)):
        list(goes.values())[place % 2](seq)
        wait_place(panel, seq)
        running, queued = truth[seq - 1]
        assert panel.view.locator(".fl-tr.at").get_attribute("data-seq") == str(seq)
        for step_name in ("load", "score", "gather", "rest"):
            state = panel.node(step_name).get_attribute("class") or ""
            assert ("s-running" in state) == (step_name in running), (seq, step_name, state)
        panel.view.locator(".fl-queuepane .fl-hint", has_text=f"after tick {seq}.").wait_for()
        lines = panel.view.locator(".fl-queue li")
        shown = [" ".join(text.split()) for text in lines.all_inner_texts()]
        for word, truth_of in (("running", running), ("queued", queued)):
            count = sum(line.startswith(word) for line in shown)
            assert count == sum(truth_of.values()), (seq, word, shown)
        panel.tab("Event")
        panel.view.locator(".fl-what", has_text=f"tick {seq}").wait_for()
        panel.tab("Queue")
        assert panel.view.locator(".fl-lookback").is_visible()
        assert "nothing is undone" in panel.view.locator(".fl-note").inner_text()
    assert panel.ticks() == last, "looking back is no tick"
    panel.view.locator(".fl-btn.live").click()
    wait_place(panel, last)
    assert panel.view.locator(".fl-lookback").is_hidden()


def test_causes_and_effects_are_links(debugged: tuple[Lab, Panel]):
    _, panel = debugged
    step(panel, 4)  # the first document is scored
    wait_told(panel, "score finished with Scored")
    seq = panel.ticks()
    link = panel.view.locator(".fl-cause .fl-link").first
    target = int((link.text_content() or "").removeprefix("#"))
    link.click()
    wait_place(panel, target)
    panel.view.locator(".fl-what", has_text=f"tick {target}").wait_for()
    assert panel.view.locator(".fl-tr.at").get_attribute("data-seq") == str(target)
    panel.view.get_by_role("button", name=f"go to tick {seq}").click()
    wait_place(panel, seq)


def test_the_state_is_compared_with_any_tick(debugged: tuple[Lab, Panel]):
    lab, panel = debugged
    step(panel, 4)
    panel.tab("State")
    other = panel.view.locator(".fl-against")
    other.fill("1")
    other.press("Enter")
    delta = panel.view.locator(".fl-delta")
    delta.locator("dt", has_text="last").wait_for()
    assert [" ".join(text.split()) for text in delta.locator("dd").all_inner_texts()] == [
        "not set → {'docs': 4, 'to': 'ann@home'}",
        "not set → 0",
    ]
    panel.view.get_by_role("button", name="compare with the tick before").click()
    panel.view.locator(".fl-pane", has_text="This tick changed no state.").wait_for()
    lab.page.keyboard.press("ArrowLeft")


def test_a_sentence_tells_each_tick_and_is_read_aloud_for_none(debugged: tuple[Lab, Panel]):
    """PANEL §4: the live region announces pause, needs-you and failure only."""
    _, panel = debugged
    step(panel, 2)
    wait_told(panel, "load finished with a list of 4")
    wait_told(panel, "score gets 4")
    assert "load finished" not in (panel.view.locator("[role=status]").text_content() or "")
    assert panel.view.locator(".fl-told").evaluate("el => !el.closest('[aria-live]')")
    panel.view.get_by_role("button", name="one tick back").click()
    wait_told(panel, "1 tick may pass")


def test_the_past_is_played_at_a_speed(debugged: tuple[Lab, Panel]):
    """From the beginning, tick by tick; played to the end the run is followed again."""
    lab, panel = debugged
    step(panel, 4)
    last = panel.ticks()
    panel.view.get_by_label("speed").select_option(label="×10")
    panel.record()
    panel.view.get_by_role("button", name="play", exact=True).click()
    panel.view.locator(".fl-btn.live[aria-pressed=true]").wait_for()
    wait_place(panel, last)
    assert panel.recorded()["nodes"]["load"][0] in ("idle", "done")
    assert "running" in panel.recorded()["nodes"]["load"]
    panel.view.get_by_label("speed").select_option(label="×½")
    panel.view.focus()
    lab.page.keyboard.press("Space")
    panel.view.get_by_role("button", name="stop playing").click()
    assert panel.view.locator(".fl-lookback").is_visible()


LONG = """
from flownb import Event, StartEvent, StopEvent, Workflow

class Turn(Event):
    n: int

long = Workflow("long")

@long.step
async def begin(ev: StartEvent) -> Turn:
    return Turn(n=0)

@long.step
async def even(ev: Turn) -> Turn | StopEvent:
    return Turn(n=ev.n + 1) if ev.n < 9_997 else StopEvent(result=ev.n)

tiny = Workflow("tiny")

@tiny.step
async def only(ev: StartEvent) -> StopEvent:
    return StopEvent()

run = long.with_options(panel="off").run()
print(run.result(timeout=120), run.now.seq)
"""

#: Notes when the panel was there, and when all its ticks were.
WATCH = """cell => {
    window.flownbOpened = null;
    const since = performance.now();
    const clock = setInterval(() => {
        const panel = document.querySelectorAll(".jp-Notebook .jp-Cell")[cell]?.querySelector(".flownb");
        const rows = panel?.querySelectorAll(".fl-rows .fl-tr").length ?? 0;
        if (!rows || panel.dataset.opened) return;
        if (panel.querySelector(".fl-total").textContent !== "10,000 ticks") return;
        clearInterval(clock);
        panel.dataset.opened = true;
        window.flownbOpened = performance.now() - since;
    }, 5);
}"""

#: Drags the slider over the run; each move is timed with what it draws, to the next frame and without.
DRAG = """async panel => {
    const range = panel.querySelector(".fl-range");
    const label = panel.querySelector(".fl-tick");
    const moves = [], frames = [];
    for (let i = 0; i < 60; i++) {
        const seq = 1 + (i * 7919) % 10000;
        const before = performance.now();
        range.value = String(seq);
        range.dispatchEvent(new Event("input", { bubbles: true }));
        panel.offsetHeight;
        moves.push(performance.now() - before);
        await new Promise(requestAnimationFrame);
        await new Promise((done) => setTimeout(done));
        frames.push(performance.now() - before);
        if (!label.textContent.startsWith(seq.toLocaleString("en") + " /")) throw new Error(label.textContent);
    }
    const middle = (all) => [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)];
    return { move: middle(moves), worst: Math.max(...moves), frame: middle(frames) };
}"""


#: A handle of its own each time, so that nothing is known from before; and how much of a core the kernel gets just now.
OPEN = """
import time
from flownb.run import Run
wall, own = time.perf_counter(), time.thread_time()
sum(range(2_000_000))
print("share", (time.thread_time() - own) / (time.perf_counter() - wall))
Run(run._runner, long, run._settings).view()
"""


def test_ten_thousand_ticks_open_in_a_second_and_the_slider_stays_fluent(lab_notebook: Opener, shots: Path):
    """At most 1 s of a core until the panel and all its ticks are there, 50 ms a move; only rows in sight are drawn."""
    lab = lab_notebook([LONG, "first = tiny.run()", OPEN])
    lab.page.set_viewport_size({"width": 1500, "height": 1000})
    lab.run(0, timeout=150)
    assert lab.text(0).split() == ["9997", "10000"]
    lab.run(1)  # the kernel has ipywidgets from here on
    Panel(lab, 1).wait_drawn()

    opened = []
    for _ in range(5):
        lab.page.evaluate(WATCH, 2)
        lab.run(2)
        lab.page.wait_for_function("() => window.flownbOpened !== null")
        share = float(lab.text(2).split("share")[1].split()[0])
        opened.append((round(lab.page.evaluate("() => window.flownbOpened")), share))
    panel = Panel(lab, 2)
    panel.wait_drawn()
    times = panel.view.evaluate(DRAG)
    print(f"opened in ms, with a share of a core: {opened}; slider {times}")
    assert panel.view.locator(".fl-rows .fl-tr").count() < 40
    assert times["move"] <= 50
    assert min(ms * min(1.0, share) for ms, share in opened) <= 1000
    lab.screenshot(shots / "long-lab-light.png", cell=2)
