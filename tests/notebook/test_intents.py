"""The debugger's wishes from the panel, without a browser: what a click sends, and what the run does."""

import asyncio
from typing import Any

import pytest

from flownb import Context, Event, StartEvent, StopEvent, Workflow
from flownb.notebook import kernel
from flownb.notebook.panel import MOST_BELOW, RunPanel
from tests.notebook.panels import Begin, Count, Done, Hangs, Page, YesNo, on_engine, panel_of
from tests.polling import wait_until


class Letter(Event):
    to: str


def failing() -> Any:
    """A run that failed since its letter has no address."""
    flow = Workflow("letters")

    @flow.step
    def write(ev: Begin) -> Letter:
        return Letter(to="ann")

    @flow.step
    def send(ev: Letter) -> StopEvent:
        if "@" not in ev.to:
            raise ValueError(f"{ev.to} is no address")
        return StopEvent(result=ev.to)

    run = flow.run()
    wait_until(run.is_done)
    return run


def paused(n: int = 3) -> Any:
    """A run that stands before its first work tick."""
    run = Count().debug(n=n)
    wait_until(lambda: run.now.seq == 1 and run.debug.inbox)
    return run


def below(panel: RunPanel) -> list[RunPanel]:
    return [child for child in panel.children if isinstance(child, RunPanel)]


# -- going on


def test_step_over_and_out_stop_where_they_say():
    """Over: the delivery that the next tick continues is done. Out: its fan-out was gathered."""
    run = paused()
    with panel_of(run) as (_, page):
        page.ask("step", n=1)  # split finished: three items
        wait_until(lambda: run.now.seq == 3)
        assert page.ask("over")["kind"] == "done"
        wait_until(
            lambda: run.status == "paused" and any(t.__class__.__name__ == "GateOpened" for t in run.debug.ticks)
        )
        wait_until(lambda: run._runner.state.steps[1].done == 1)
        assert page.ask("out")["kind"] == "done"
        wait_until(lambda: run.status == "paused" and run._runner.state.steps[1].done == 3)
        assert len(run._runner.state.joins) == 0


@pytest.mark.parametrize(
    ("goal", "kind"),
    [
        ({"step": "join"}, "StepFinished"),
        ({"event": "Done"}, "StepFinished"),
        ({"when": "state.get('last') == 1"}, "StateWritten"),
    ],
)
def test_run_to_stops_at_a_step_an_event_or_a_condition(goal: dict[str, Any], kind: str):
    run = paused()
    with panel_of(run) as (_, page):
        assert page.ask("run_to", **goal)["kind"] == "done"
        wait_until(lambda: run.status == "paused" and run.now.seq > 3)
        names = [type(t).__name__ for t in run.debug.ticks]
        assert names[-2:] == [kind, "GateClosed"]


def test_run_to_a_tick_and_to_the_next_question():
    run = paused()
    with panel_of(run) as (_, page):
        page.ask("run_to", tick=6)
        wait_until(lambda: run.status == "paused" and run.now.seq >= 6)
        assert run.now.seq == 7  # the sixth, and the closing of the gate
    run = YesNo().debug()
    with panel_of(run) as (_, page):
        wait_until(lambda: run.now.seq == 1)
        page.ask("run_to", request=True)
        wait_until(lambda: run.requests and run.status == "paused")


def test_a_condition_sees_the_names_of_the_cells_and_its_error_is_told(monkeypatch: pytest.MonkeyPatch):
    """It is asked on the engine's thread, where nobody's names are; what it raises later is told in the panel."""
    monkeypatch.setattr(kernel, "user_names", lambda: {"limit": 1})
    run = paused()
    with panel_of(run) as (_, page):
        page.ask("run_to", when="state.get('last') == limit")
        wait_until(lambda: run.status == "paused" and run.now.state.get("last") == 1)
        number = page.post("run_to", when="state.last / 0")
        wait_until(lambda: any(m["kind"] == "error" and m["of"] == number for m in list(page.got)))
        error = next(m for m in page.of_kind("error") if m["of"] == number)
        assert error["text"].startswith("ZeroDivisionError")
        assert page.ask("run_to", when="state.")["text"].startswith("when='state.' is no expression")


# -- forks


def test_a_fork_is_shown_below_and_its_run_goes_on():
    """In the same output, at once; the panel above is as it was."""
    run = paused()
    with panel_of(run) as (panel, page):
        page.ask("cont")
        run.result(timeout=10)
        reply = page.ask("fork", at=3)
        assert reply["kind"] == "done"
        (made,) = below(panel)
        assert made.run.run_id == reply["shows"] != run.run_id
        assert made.run.forked_from == (run.run_id, 3)
        assert made.view.graph["from"] == f"fork of {run.run_id} at #3"
        assert made.view.graph["below"] == run.run_id
        assert made.run.result(timeout=10) == 3
        assert panel.children[0] is panel.view


def test_a_fork_with_another_event_is_checked_in_python():
    """The text is JSON of the event's fields; what does not fit is refused with the field's name."""
    run = Count().run(n=2)
    run.result(timeout=10)
    with panel_of(run) as (panel, page):
        draft = page.ask("draft", seq=1)
        assert (draft["kind"], draft["text"], draft["title"], draft["kept"]) == ("draft", '{"n": 2}', "Begin", [])
        refused = page.ask("fork", at=1, text='{"n": "many"}')
        assert refused["kind"] == "error"
        assert "Begin cannot be that. n: Input should be a valid integer" in refused["text"]
        assert below(panel) == []
        page.ask("fork", at=1, text='{"n": 5}')
        assert below(panel)[0].run.result(timeout=10) == 5


def test_a_fork_of_a_run_that_is_over_begins_before_its_end():
    run = Count().run(n=2)
    run.result(timeout=10)
    with panel_of(run) as (panel, page):
        page.ask("fork", at=None)
        assert below(panel)[0].run.result(timeout=10) == 2
        assert "was completed after tick" in page.ask("fork", at=run.now.seq)["text"]


def test_edit_and_retry_runs_on_with_another_event():
    """The failed delivery's event is the draft; what was done before is not done again (R6.41)."""
    run = failing()
    with panel_of(run) as (panel, page):
        wait_until(lambda: panel.view.live)
        assert panel.view.live["retry"] == {"step": "", "what": "send"}
        assert page.ask("draft", step="")["text"] == '{"to": "ann"}'
        assert (
            "no field 'too'. Did you mean 'to'?" in page.ask("retry", step="", text='{"too": "x"}')["text"]
        )  # not: a new field
        assert page.ask("retry", step="", text='{"to": "ann@home"}')["kind"] == "done"
        made = below(panel)[0].run
        assert made.result(timeout=10) == "ann@home"
        assert made.forked_from is not None


def test_a_retry_of_what_no_single_event_ended_has_no_draft():
    run = Hangs().run()
    run.cancel().result(timeout=10)
    with panel_of(run) as (panel, page):
        wait_until(lambda: panel.view.live)
        assert panel.view.live["retry"] == {"step": "", "what": "cancelled"}
        assert page.ask("draft", step="")["text"] is None
        assert page.ask("retry", step="")["kind"] == "done"
        made = below(panel)[0].run
        wait_until(lambda: made.status == "running")
        made.cancel()


def test_a_replay_is_shown_with_its_first_difference():
    """R6.43: steps that did not change come from the recording; what a changed one does otherwise is said."""
    flow = Workflow("replayed")

    @flow.step
    def write(ev: Begin) -> Letter:
        return Letter(to="ann")

    @flow.step
    def send(ev: Letter) -> StopEvent:
        return StopEvent(result=ev.to)

    run = flow.run()
    run.result(timeout=10)
    with panel_of(run) as (panel, page):
        reply = page.ask("replay")
        (same,) = below(panel)
        assert same.run.run_id == reply["shows"]
        assert same.view.graph["from"] == f"replay of {run.run_id}"
        same.run.result(timeout=10)
        wait_until(lambda: same.view.live.get("replay", {}).get("text"))
        assert same.view.live["replay"] == {
            "run": run.run_id,
            "text": "the same; 2 starts of steps came from the recording, 0 ran",
            "step": "",
            "seq": 0,
        }

        @flow.step
        def send(ev: Letter) -> StopEvent:
            return StopEvent(result=f"to {ev.to}")

        page.ask("replay")
        other = below(panel)[1]
        assert other.run.result(timeout=10) == "to ann"
        wait_until(lambda: other.view.live.get("replay", {}).get("seq"))
        line = other.view.live["replay"]
        assert (line["step"], line["seq"]) == ("send", other.run.debug.divergence.seq)


def test_panels_below_are_put_away_and_only_so_many_stand_there():
    run = Count().run(n=2)
    run.result(timeout=10)
    with panel_of(run) as (panel, page):
        made = [page.ask("fork", at=3)["shows"] for _ in range(MOST_BELOW + 1)]
        assert [each.run.run_id for each in below(panel)] == made[1:]
        first = below(panel)[0]
        child = Page(first)
        child.post("close")
        on_engine(run)
        assert first.closed
        assert [each.run.run_id for each in below(panel)] == made[2:]
        assert "belongs to its cell" in page.ask("close")["text"]
        rest = below(panel)
    assert all(each.closed for each in rest)


def test_into_shows_the_child_that_runs_and_steps_where_there_is_none():
    inner, outer = Workflow("inner"), Workflow("outer")

    @inner.step
    async def hang(ev: StartEvent) -> StopEvent:
        await asyncio.Event().wait()
        return StopEvent()

    @outer.step
    async def call(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.run(inner))

    run = outer.run()
    wait_until(lambda: len(run.children) == 1)
    with panel_of(run) as (panel, page):
        wait_until(lambda: panel.view.live)
        assert panel.view.live["children"] == 1
        reply = page.ask("into", node=1)
        assert [each.run.run_id for each in below(panel)] == [reply["shows"]] == list(run.children)
        assert below(panel)[0].view.graph["from"] == f"child of {run.run_id}"
    run = paused()
    with panel_of(run) as (panel, page):
        page.ask("into")
        wait_until(lambda: run.now.seq == 3)
        assert below(panel) == []


# -- breakpoints


def test_a_click_on_a_step_sets_and_removes_a_breakpoint_and_code_is_seen_too():
    """They live on the workflow object; a panel that stands still hears of what code does (PANEL.md §2)."""
    run = paused()
    with panel_of(run) as (panel, page):
        points = run.workflow.breakpoints
        assert page.ask("break", node=2, on=True)["kind"] == "done"
        assert [(p.step, p.at) for p in points] == [("work", "before")]
        wait_until(lambda: panel.view.live.get("stops"))
        assert panel.view.live["stops"] == [
            {
                "n": 1,
                "what": "before step work",
                "on": True,
                "half": False,
                "hits": 0,
                "failed": "",
                "step": "work",
                "narrow": False,
                "event": "",
                "seq": 0,
            }
        ]
        page.ask("break", node=2, on=False)
        assert list(points) == []
        point = points.add(step="join", when="len(event) > 3")
        wait_until(lambda: [stop["half"] for stop in panel.view.live["stops"]] == [True])
        page.ask("break", node=3, on=False)
        assert list(points) == [point], "a condition is not lost by a click"
        assert not point.enabled
        page.ask("break", node=3, on=True)
        assert point.enabled
        points.clear()


def test_a_click_on_an_edge_stops_before_its_event():
    run = paused()
    with panel_of(run) as (panel, page):
        edges = panel.view.graph["edges"]
        edge = next(i for i, e in enumerate(edges) if e["label"] == "Done")
        page.ask("break", edge=edge, on=True)
        page.ask("cont")
        wait_until(lambda: run.status == "paused" and run.workflow.breakpoints[0].hits == 1)
        assert run.workflow.breakpoints[0].event == Done.__flownb_kind__[0]
        page.ask("break", edge=edge, on=False)
        assert len(run.workflow.breakpoints) == 0


@pytest.mark.parametrize(
    ("of", "what"),
    [
        ("RunStarted", "before event Begin"),
        ("StepFinished", "after step split, event Begin"),
        ("StateWritten", "before step work, state last"),
    ],
)
def test_a_click_on_a_tick_stops_at_the_next_of_its_kind(of: str, what: str):
    run = Count().run(n=2)
    run.result(timeout=10)
    seq = next(i for i, t in enumerate(run.debug.ticks, 1) if type(t).__name__ == of)
    with panel_of(run) as (panel, page):
        page.ask("break", seq=seq, on=True)
        wait_until(lambda: panel.view.live.get("stops"))
        assert [(stop["what"], stop["seq"]) for stop in panel.view.live["stops"]] == [(what, seq)]
        page.ask("break", seq=seq, on=False)
        assert len(run.workflow.breakpoints) == 0


def test_the_list_of_breakpoints_enables_disables_removes_and_adds():
    run = paused()
    with panel_of(run) as (_, page):
        points = run.workflow.breakpoints
        assert page.ask("break_at", step="work", when="event.no == 1")["kind"] == "done"
        assert page.ask("breakpoint", n=1, to="disable")["kind"] == "done"
        assert not points[0].enabled
        page.ask("breakpoint", n=1, to="enable")
        page.ask("cont")
        wait_until(lambda: points[0].hits == 1)
        page.ask("breakpoint", n=1, to="remove")
        assert len(points) == 0
        assert "no breakpoint 1 any more" in page.ask("breakpoint", n=1, to="enable")["text"]
        assert "no step 'walk'" in page.ask("break_at", step="walk")["text"]
        assert "start and stop are none" in page.ask("break", node=0, on=True)["text"]


def test_a_condition_that_raises_is_shown_with_what_it_raised():
    run = paused()
    with panel_of(run) as (panel, page):
        page.ask("break_at", step="work", when="event.nope")
        page.ask("cont")
        wait_until(lambda: any(stop["failed"] for stop in panel.view.live.get("stops", ())))
        assert panel.view.live["stops"][0]["failed"].startswith("AttributeError")
        run.workflow.breakpoints.clear()


# -- what waits before the gate


def test_the_inbox_says_what_each_entry_will_do_and_what_may_be_done_with_it():
    """R5.28: known before it has happened, since the reducer is pure."""
    run = paused()
    with panel_of(run) as (panel, _):
        wait_until(lambda: panel.view.live.get("inbox"))
        (entry,) = panel.view.live["inbox"]
        assert entry == {
            "id": 1,
            "what": "split finished 3 × Item",
            "brings": "no=0 | no=1 | and 1 more",
            "does": "work gets 3 and starts them; join has 0 of 3",
            "admit": True,
            "edit": True,
            "drop": False,
            "edited": False,
        }
        assert panel.view.live["waits"] == 1
        run.cont().result(timeout=10)
        wait_until(lambda: panel.view.live["ended"])
        assert panel.view.live["inbox"] == []


class Told(Event):
    text: str


def sender() -> Any:
    """A paused run in whose inbox two events that a step sent wait, and then its end."""
    flow = Workflow("sender", accepts=[Told])

    @flow.step
    async def hear(ev: Told, ctx: Context) -> None:
        async with ctx.state.edit() as s:
            s["heard"] = [*s.get("heard", []), ev.text]

    @flow.step
    async def rest(ev: Begin) -> StopEvent:
        await asyncio.Event().wait()
        return StopEvent()

    run = flow.run()
    wait_until(lambda: run.now.running)
    run.pause().result(timeout=10)
    for text in ("one", "two"):
        run.send_event(Told(text=text))
    wait_until(lambda: len(run.debug.inbox) == 2)
    return run


def inbox_of(panel: RunPanel) -> list[dict[str, Any]]:
    return list(panel.view.live.get("inbox", []))


def test_an_entry_is_edited_and_says_so_and_the_journal_too():
    """R5.29: the entry is marked, and so is the tick, with the original and who edited it."""
    run = sender()
    with panel_of(run) as (panel, page):
        wait_until(lambda: len(inbox_of(panel)) == 2)
        entry = inbox_of(panel)[0]["id"]
        assert page.ask("draft", entry=entry)["text"] == '{"text": "one"}'
        assert "This is no JSON" in page.ask("edit", entry=entry, text="{")["text"]
        assert page.ask("edit", entry=entry, text='{"text": "uno"}')["kind"] == "done"
        wait_until(lambda: [line["edited"] for line in inbox_of(panel)] == [True, False])
        assert "not in the inbox any more" in page.ask("admit", entry=entry)["text"], "another tick stands there"
        page.ask("cont")
        wait_until(lambda: run.state.get("heard") == ["uno", "two"])
        assert any(tick.hand is not None and tick.hand.original for tick in run.debug.ticks)


def test_an_entry_is_dropped_and_another_admitted_out_of_order():
    """R5.30 and R5.73: an event goes nowhere; a later one passes first. Each is named by itself, not by its place."""
    run = sender()
    with panel_of(run) as (panel, page):
        wait_until(lambda: len(inbox_of(panel)) == 2)
        first, second = (line["id"] for line in inbox_of(panel))
        assert page.ask("admit", entry=second)["kind"] == "done"
        wait_until(lambda: [line["id"] for line in inbox_of(panel)] == [first])
        assert page.ask("drop", entry=first)["kind"] == "done"
        wait_until(lambda: not inbox_of(panel))
        page.ask("cont")
        wait_until(lambda: run.state.get("heard") == ["two"])
        assert next(tick.hand.ahead for tick in run.debug.ticks if tick.hand is not None) == 1


def test_what_waits_for_a_worker_is_edited_and_dropped_too():
    """R5.29 and R5.30: it has passed the gate, but no code has its event in hand."""
    flow = Workflow("queue")

    @flow.step
    async def split(ev: Begin) -> list[Told]:
        return [Told(text=text) for text in "abcd"]

    @flow.step(num_workers=1)
    async def take(ev: Told, ctx: Context) -> Done:
        async with ctx.state.edit() as s:
            s["took"] = s.get("took", "") + ev.text
        return Done(no=0)

    @flow.step
    async def gather(ev: list[Done]) -> StopEvent:
        return StopEvent(result=len(ev))

    run = flow.debug()
    wait_until(lambda: run.debug.inbox)
    run.debug.step().result(timeout=10)
    with panel_of(run) as (panel, page):
        wait_until(lambda: len(panel.view.live.get("work", ())) == 3)
        lines = panel.view.live["work"]
        assert [(line["what"], line["edit"], line["drop"]) for line in lines] == [("take · Told", True, True)] * 3
        first, second, _ = (line["id"] for line in lines)
        assert page.ask("draft", work=first)["text"] == '{"text": "b"}'
        assert page.ask("edit", work=first, text='{"text": "B"}')["kind"] == "done"
        assert page.ask("drop", work=second)["kind"] == "done"
        wait_until(lambda: len(panel.view.live["work"]) == 2)
        assert "waits no more" in page.ask("drop", work=second)["text"]
        page.ask("cont")
        assert run.result(timeout=10) == 3
        assert run.state.took == "aBd"


def test_a_result_cannot_be_dropped_and_the_panel_does_not_offer_it():
    """R5.30: what a step returned happened."""
    run = paused()
    with panel_of(run) as (panel, page):
        wait_until(lambda: inbox_of(panel))
        (entry,) = inbox_of(panel)
        assert not entry["drop"]
        assert "cannot be dropped" in page.ask("drop", entry=entry["id"])["text"]


def test_a_timer_is_listed_with_its_moment_and_fired_by_its_number():
    """R5.31: while the run is paused; the journal says how early."""
    flow = Workflow("sleeper")

    @flow.step
    async def sleep(ev: StartEvent, ctx: Context) -> StopEvent:
        await ctx.sleep(300)
        return StopEvent()

    run = flow.run()
    wait_until(lambda: run.now.waiting)
    run.pause().result(timeout=10)
    with panel_of(run) as (panel, page):
        wait_until(lambda: panel.view.live.get("timers"))
        (timer,) = panel.view.live["timers"]
        assert timer["what"] == "sleep sleeps"
        assert 290 < timer["due"] - panel.view.live["now"] <= 300
        assert page.ask("fire", timer=timer["id"])["kind"] == "done"
        wait_until(lambda: panel.view.live["timers"] == [])
        assert "no timer" in page.ask("fire", timer=timer["id"])["text"]
        page.ask("cont")
        run.result(timeout=10)


# -- looking


def test_the_state_is_compared_with_that_after_any_tick():
    run = Count().run(n=3)
    run.result(timeout=10)
    last = run.now.seq
    with panel_of(run) as (_, page):
        assert page.ask("detail", seq=last)["state"] == []
        found = page.ask("detail", seq=last, against=0)
        assert (found["against"], found["state"]) == (0, [["last", None, str(run.state.last)]])


def test_the_sentence_of_the_newest_tick_is_in_the_live_state():
    run = paused()
    with panel_of(run) as (panel, page):
        page.ask("step", n=1)
        wait_until(lambda: panel.view.live.get("tick") == 3)
        assert panel.view.live["told"].startswith("split finished with a list of 3")
        assert panel.view.live["told"].endswith(": work gets 3 and starts them; join has 0 of 3")


def test_calls_that_stand_still_before_a_closed_gate_are_shown():
    """R5.16: an edit of the state cannot begin while the run is paused."""
    flow = Workflow("still")
    go = asyncio.Event()

    @flow.step
    async def work(ev: StartEvent, ctx: Context) -> StopEvent:
        await go.wait()
        async with ctx.state.edit() as s:
            s["n"] = 1
        return StopEvent()

    run = flow.run()
    wait_until(lambda: run.now.running)
    run.pause().result(timeout=10)
    with panel_of(run) as (panel, _):
        on_engine(run, go.set)
        wait_until(lambda: run.debug.standing_still)
        on_engine(run, run.view.screen.changed)
        wait_until(lambda: panel.view.live.get("held"))
        assert panel.view.live["held"] == [["work", "an edit of the state"]]
