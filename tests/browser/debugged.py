"""A run in the debugger, and what Python says of it: the truth that its panel is held against."""

from __future__ import annotations

import json
from typing import Any

from lab_harness import Lab, Opener
from panel_page import Panel
from playwright.sync_api import Locator

FLOW = """
import asyncio, json
from flownb import Context, Event, StartEvent, StopEvent, Workflow, options
from flownb.errors import WorkflowError
options.user = "ann"

class Begin(StartEvent):
    docs: int = 4
    to: str = "ann@home"

class Doc(Event):
    no: int

class Scored(Event):
    no: int
    score: float

class Report(Event):
    mean: float

class Letter(Event):
    to: str

class Note(Event):
    text: str

flow = Workflow("triage", accepts=[Note])

@flow.step
async def load(ev: Begin, ctx: Context) -> list[Doc]:
    ctx.state.set("survey", {"docs": ev.docs, "to": ev.to})
    return [Doc(no=i) for i in range(ev.docs)]

@flow.step(num_workers=1)
async def score(ev: Doc, ctx: Context) -> Scored:
    print("scoring", ev.no)
    ctx.state.set("last", ev.no)
    return Scored(no=ev.no, score=ev.no / 10)

@flow.step
async def gather(ev: list[Scored]) -> Report:
    return Report(mean=sum(s.score for s in ev) / len(ev))

@flow.step
async def rest(ev: Report, ctx: Context) -> Letter:
    await ctx.sleep(600)
    return Letter(to=ctx.state.get("survey")["to"])

@flow.step
async def ask(ev: Letter, ctx: Context) -> StopEvent:
    if "@" not in ev.to:
        raise ValueError(f"{ev.to!r} is no address")
    return StopEvent(result=[ev.to, await ctx.ask("Send it?", bool)])

@flow.step
async def note(ev: Note, ctx: Context) -> None:
    async with ctx.state.edit() as s:
        s["notes"] = [*s.get("notes", []), ev.text]

def work(run):
    "Ticks that are no control ticks, by name."
    from flownb.core.ticks import CONTROL
    return [type(t).__name__ for t in run.debug.ticks if not isinstance(t, CONTROL)]
"""

RUN = 1
#: Where facts about the run are asked for, as JSON.
ASK = 2


def facts(lab: Lab, expression: str) -> Any:
    """What Python says of the run: the truth that the panel is held against."""
    lab.set_source(ASK, f"print(json.dumps({expression}))")
    lab.run(ASK)
    return json.loads(lab.text(ASK).strip().splitlines()[-1])


def begin(opener: Opener, source: str, status: str = "paused") -> tuple[Lab, Panel]:
    lab = opener([FLOW, source, ""])
    lab.page.set_viewport_size({"width": 1500, "height": 1300})
    lab.run(0)
    lab.run(RUN)
    panel = Panel(lab, RUN)
    panel.wait_drawn()
    panel.wait_status(status)
    return lab, panel


def step(panel: Panel, times: int = 1) -> None:
    for _ in range(times):
        before = panel.ticks()
        panel.step()
        panel.wait_ticks(before + 2)


def wait_told(panel: Panel, text: str) -> None:
    """Wait until the sentence under the slider holds some words."""
    panel.view.locator(".fl-sentence", has_text=text).wait_for(timeout=10_000)


def wait_place(panel: Panel, seq: int) -> None:
    panel.view.locator(f".fl-tick:text-matches('^{seq:,} / ')").wait_for(timeout=10_000)


def entries(panel: Panel) -> Locator:
    return panel.view.locator("[data-entry]")


def row(panel: Panel, seq: int) -> Locator:
    """The row of a tick, scrolled into sight."""
    panel.view.locator(".fl-scroll").evaluate("(el, seq) => { el.scrollTop = (seq - 3) * 24; }", seq)
    found = panel.view.locator(f".fl-rows .fl-tr[data-seq='{seq}']")
    found.wait_for()
    return found
