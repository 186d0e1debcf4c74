"""Defining workflows in classes and cells, running cells again, and starting runs."""

import asyncio
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from flownb import Event, StartEvent, StopEvent, Workflow, options, step
from flownb.errors import EventOutdated, WorkflowConfigurationError, WorkflowValidationError
from tests.polling import until, wait_until


class Begin(StartEvent):
    n: int = 3
    label: str = ""


class Needs(StartEvent):
    rows: list[int]
    path: str


class Row(Event):
    no: int


class Done(Event):
    no: int


def begins(ev: Begin) -> Row:
    return Row(no=ev.n)


def ends(ev: Row) -> StopEvent:
    return StopEvent(result=ev.no)


def flow_of(*steps: Any, name: str = "made") -> Workflow[Any]:
    flow = Workflow[Any](name)
    for fn in steps:
        flow.step(fn)
    return flow


# -- notebooks: cells that are run again


class Notebook:
    """Cells run in a `__main__` of their own, as a kernel runs them: `nb.run(source)`, again with `nb.run(source)`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.module = types.ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", self.module)
        self.count = 0
        self.cell_id = ""
        monkeypatch.setattr(
            "flownb.workflow.cell", lambda: (self.cell_id, f"{self.count:04}") if self.cell_id else ("", "")
        )

    def run(self, source: str, cell: str = "") -> None:
        self.cell_id, self.count = cell, self.count + 1
        exec(compile(source, f"<cell {self.count}>", "exec"), self.module.__dict__)

    def __getitem__(self, name: str) -> Any:
        return self.module.__dict__[name]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    yield Notebook(monkeypatch)
    from flownb.events import _newest

    for key in [key for key in _newest if key.startswith("__main__:")]:
        del _newest[key]


EVENTS = """
from __future__ import annotations
from typing import Any
from flownb import *
class Start(StartEvent):
    n: int = 2
class Ping(Event):
    no: int
    other: Pong | None = None
class Pong(Event):
    pass
"""
FLOW = """
flow = Workflow[Any]("cells")
@flow.step
async def split(ev: Start) -> list[Ping]: return [Ping(no=i) for i in range(ev.n)]
@flow.step
def work(ev: Ping) -> Pong:
    assert isinstance(ev, Ping)
    return Pong()
@flow.step
def total(ev: list[Pong]) -> StopEvent: return StopEvent(result=len(ev))
"""


def test_a_notebooks_main_is_found_by_hints_and_fields(notebook: Notebook):
    """C003: quoted and future hints of another event of the same cell."""
    notebook.run(EVENTS)
    notebook.run(FLOW)
    assert notebook["flow"].run(n=3).result(20) == 3
    assert notebook["flow"].definition.spec.key == "__main__:cells"
    assert notebook["flow"].definition.spec.start == "__main__:Start"


def test_running_the_cell_of_the_events_again_routes_by_name(notebook: Notebook):
    """C083, R2.20, R2.21: a new class, the old workflow object, and the other way round."""
    notebook.run(EVENTS)
    notebook.run(FLOW)
    flow, old = notebook["flow"], notebook["Ping"]
    notebook.run(EVENTS)
    assert notebook["Ping"] is not old
    assert flow.run(n=3).result(20) == 3
    assert flow.run(notebook["Start"](n=1)).result(20) == 1


def test_an_old_instance_reaches_the_new_class_revalidated(notebook: Notebook):
    """R2.24: with a default for the new field it fits."""
    notebook.run(EVENTS)
    notebook.run("flow = Workflow[Any]('wait', accepts=[Ping])")
    notebook.run(
        """
@flow.step
async def begin(ev: Start) -> None: ...
@flow.step
async def end(ev: Ping) -> StopEvent: return StopEvent(result=(type(ev) is Ping, ev.no, getattr(ev, "colour", None)))
"""
    )

    async def main() -> None:
        run = notebook["flow"].run()
        await until(lambda: run.status == "waiting")
        old = notebook["Ping"](no=5)
        notebook.run("class Ping(Event):\n    no: int\n    colour: str = 'red'")
        run.send_event(old)
        assert await run == (True, 5, "red")

    asyncio.run(main())


def test_an_old_instance_that_does_not_fit_fails_its_delivery_in_words(notebook: Notebook):
    """R2.24, and what is only shown stays the old object, with a warning (R2.49)."""
    notebook.run(EVENTS)
    notebook.run("flow = Workflow[Any]('wait', accepts=[Ping])")
    notebook.run(
        """
@flow.step
async def begin(ev: Start, ctx: Context) -> None: ctx.write_event_to_stream(Ping(no=1))
@flow.step
async def end(ev: Ping) -> StopEvent: return StopEvent()
"""
    )

    async def main() -> None:
        run = notebook["flow"].run()
        await until(lambda: run.status == "waiting")
        old = notebook["Ping"](no=5)
        old_class = notebook["Ping"]
        notebook.run("class Ping(Event):\n    needed: int")
        run.send_event(old)
        with pytest.raises(
            EventOutdated, match=r"__main__:Ping was redefined.*of tick \d+.*needed: Field required"
        ) as c:
            await run
        assert (c.value.event, c.value.fields) == ("__main__:Ping", ("needed",))
        with pytest.warns(UserWarning, match=r"__main__:Ping was redefined.*It is shown as it is"):
            events = [event async for event in run.stream_events()]
        assert type(events[0]) is old_class

    asyncio.run(main())


def test_running_the_cell_of_a_step_again_replaces_it(notebook: Notebook):
    """R2.21, R3.6, R3.7; a live run keeps what it was started with (R2.22)."""
    notebook.run(EVENTS)
    notebook.run(FLOW, "flow")
    flow = notebook["flow"]
    waits = """
@flow.step
async def total(ev: list[Pong], ctx: Context) -> StopEvent:
    await ctx.ask("Go on?", bool)
    return StopEvent(result="asked")
"""
    notebook.run(waits, "total")
    run = flow.run()
    wait_until(lambda: len(run.requests) == 1)
    notebook.run(waits.replace("asked", "changed"), "total")
    assert list(flow.steps) == ["split", "work", "total"]
    newer = flow.run()
    wait_until(lambda: len(newer.requests) == 1)
    run.answer(None, True)
    newer.answer(None, True)
    assert (run.result(20), newer.result(20)) == ("asked", "changed")


def test_a_renamed_step_goes_when_its_cell_is_run_again(notebook: Notebook, capsys: pytest.CaptureFixture[str]):
    """API §4: the step table remembers the cell of each definition."""
    notebook.run(EVENTS, "a")
    notebook.run("flow = Workflow[Any]('renamed')", "b")
    notebook.run("@flow.step\ndef find(ev: Start) -> StopEvent: return StopEvent(result='old')", "c")
    assert notebook["flow"].run().result(20) == "old"
    notebook.run("@flow.step\ndef seek(ev: Start) -> StopEvent: return StopEvent(result='new')", "c")
    assert notebook["flow"].run().result(20) == "new"
    assert list(notebook["flow"].steps) == ["seek"]
    assert "step 'find' is gone" in capsys.readouterr().err


def test_two_steps_of_one_cell_both_stay(notebook: Notebook):
    notebook.run(EVENTS, "a")
    for _ in range(2):
        notebook.run(FLOW, "b")
        assert notebook["flow"].run().result(20) == 2


def test_a_workflow_that_is_made_again_is_empty_and_says_what_is_left_behind(notebook: Notebook):
    """API §4."""
    notebook.run(EVENTS)
    notebook.run(FLOW)
    notebook.run("flow = Workflow[Any]('cells')")
    with pytest.raises(WorkflowValidationError, match="made again and is empty; split, work, total are on the older"):
        notebook["flow"].run()


def test_a_free_step_of_a_class_is_replaced_too(notebook: Notebook):
    """R3.6, R3.7: `@step(workflow=Flow)`, also for objects that were made before."""
    notebook.run(EVENTS)
    notebook.run("class Flow(Workflow[Any]): pass\nflow = Flow()")
    cell = "@step(workflow=Flow)\ndef only(ev: Start) -> StopEvent: return StopEvent(result='{said}')"
    notebook.run(cell.format(said="one"))
    assert notebook["flow"].run().result(20) == "one"
    notebook.run(cell.format(said="two"))
    assert notebook["flow"].run().result(20) == "two"
    assert notebook["Flow"]().run().result(20) == "two"
    notebook.run("@step(workflow=flow, num_workers=1)\ndef only(ev: Start) -> StopEvent: return StopEvent(result=3)")
    assert notebook["flow"].run().result(20) == 3


# -- classes


class Base(Workflow[int]):
    def __init__(self, factor: int = 1) -> None:
        super().__init__()
        self.factor = factor

    @step
    async def begin(self, ev: Begin) -> Row:
        return Row(no=ev.n * self.factor)

    @step
    async def end(self, ev: Row) -> StopEvent:
        return StopEvent(result=ev.no)


class Overrides(Base):
    @step
    async def end(self, ev: Row) -> StopEvent:
        return StopEvent(result=-ev.no)


class Reuses(Workflow[int]):
    begin = Base.begin
    end = Base.end
    factor = 10


class Removes(Base):
    end = None  # type: ignore[assignment]

    @step
    async def other(self, ev: Row) -> StopEvent:
        return StopEvent(result=0)


def test_steps_are_inherited_overridden_reused_and_removed():
    assert Base(2).run(n=4).result(20) == 8
    assert Overrides(2).run(n=4).result(20) == -8
    assert Reuses().run(n=4).result(20) == 40
    assert Removes().run(n=4).result(20) == 0
    assert list(Removes().steps) == ["begin", "other"]


def test_names_and_keys():
    """R1.37."""
    assert Base().name == "Base"
    assert Base().definition.spec.key == f"{__name__}:Base"
    assert flow_of(begins, ends).definition.spec.key == f"{__name__}:made"
    assert Workflow("plain").definition.spec if False else Workflow("plain")._key == f"{__name__}:plain"
    assert Workflow[int]().name == "workflow"


def test_a_decorated_step_is_still_the_function():
    """API §4: it can be called in a test."""
    assert flow_of(begins, ends)
    assert ends(Row(no=3)).result == 3
    assert asyncio.run(Base.end(Base(), Row(no=3))).result == 3


def test_steps_can_be_looked_at_and_taken_out():
    flow = flow_of(begins, ends)
    assert repr(flow) == "<Workflow made: begins, ends>"
    assert repr(flow.steps["ends"]) == "<step ends(Row)>"
    assert repr(flow.steps) == "<steps begins, ends>"
    with pytest.raises(KeyError, match=r"There is no step 'end'. Did you mean 'ends'"):
        flow.steps["end"]
    del flow.steps["ends"]
    assert len(flow.steps) == 1
    with pytest.raises(WorkflowValidationError):
        flow.run()
    flow.step(ends)
    assert flow.run().result(20) == 3


def test_a_definition_is_built_once_and_anew_after_a_change():
    flow = flow_of(begins, ends)
    assert flow.definition is flow.definition
    before = flow.definition
    flow.step(ends)
    assert flow.definition is not before


# -- starting


def test_start_fields_make_the_start_event():
    """R2.34."""
    flow = flow_of(begins, ends)
    assert flow.run(n=5).result(20) == 5
    assert flow.run(Begin(n=6)).result(20) == 6
    assert flow.run(start_event=Begin(n=7)).result(20) == 7


def test_wrong_start_fields_are_told_with_what_is_needed():
    def only(ev: Needs) -> StopEvent:
        return StopEvent()

    with pytest.raises(WorkflowValidationError) as caught:
        flow_of(only).run(rows=["x"])
    assert caught.value.faults == (
        "start field rows.0: Input should be a valid integer, unable to parse string as an integer",
        "start field path: Field required",
        "Needs needs: rows, path.",
    )


def test_a_wrong_start_event_is_refused_at_the_call():
    flow = flow_of(begins, ends)
    with pytest.raises(WorkflowConfigurationError, match=r"Row\(no=1\) is no StartEvent; run takes Begin"):
        flow.run(Row(no=1))  # type: ignore[arg-type]
    with pytest.raises(WorkflowConfigurationError, match=r"No step .* takes .*:Needs; run takes Begin"):
        flow.run(Needs(rows=[], path=""))
    with pytest.raises(WorkflowConfigurationError, match="not both"):
        flow.run(Begin(), n=3)


def test_the_start_event_is_copied_at_the_call():
    def only(ev: Needs) -> StopEvent:
        return StopEvent(result=ev.rows)

    rows = [1]
    event = Needs(rows=rows, path="")

    async def main() -> Any:
        run = flow_of(only).run(event)
        event.rows.append(2)
        return await run

    assert asyncio.run(main()) == [1]


def test_options_are_laid_one_over_the_other():
    flow = flow_of(begins, ends)
    launcher = flow.with_options(state={"a": 1}).with_options(panel="off")
    run = launcher.run()
    run.result(20)
    assert run.state == {"a": 1}
    assert (run._settings.panel, run._settings.state) == ("off", {"a": 1})
    debugged = launcher.debug()
    assert debugged.pause().result(20).paused_by == ("person",)
    debugged.cancel().result(20)


def test_process_wide_options_are_checked():
    with pytest.raises(AttributeError, match=r"flownb.options has no 'stor'. Did you mean 'store'"):
        options.stor = ":memory:"
    assert "panel='auto'" in repr(options)


def test_options_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    from flownb.defaults import Options

    monkeypatch.setenv("FLOWNB_PANEL", "full")
    monkeypatch.setenv("FLOWNB_STORE", "x.db")
    monkeypatch.setenv("FLOWNB_USER", "ann")
    made = Options()
    assert (made.panel, made.store, made.user, made.host) == ("full", "x.db", "ann", "auto")
    monkeypatch.setenv("FLOWNB_PANEL", "huge")
    with pytest.raises(WorkflowConfigurationError, match="FLOWNB_PANEL='huge' is not one of auto, full, off"):
        Options()


@pytest.mark.parametrize("name", ["host", "on_interrupt", "panel", "answers_if"])
def test_a_setting_that_is_none_of_its_words_is_refused(name: str):
    with pytest.raises(WorkflowConfigurationError, match=f"{name}='sometimes' is not one of"):
        Workflow("choosy").with_options(**{name: "sometimes"})


def test_a_policy_that_is_none_of_its_words_is_refused():
    with pytest.raises(WorkflowConfigurationError, match="unhandled='warning' is not one of warn, error, ignore"):
        Workflow("choosy", unhandled="warning")  # type: ignore[arg-type]
    with pytest.raises(WorkflowConfigurationError, match="panel='of' is not one of"):
        options.panel = "of"  # type: ignore[assignment]


def test_a_misspelt_start_field_is_refused_and_an_unlike_one_is_kept():
    """R2.2: undeclared fields are kept; one that looks like a declared field that was not given is a typo."""
    flow = Workflow("spelling")

    class Numbers(StartEvent):
        amount: int = 1

    @flow.step
    async def give(ev: Numbers) -> StopEvent:
        return StopEvent(result=(ev.amount, ev.get("note")))

    with pytest.raises(WorkflowValidationError, match=r"no start field 'amuont'\. Did you mean 'amount'"):
        flow.run(amuont=5)
    assert flow.run(note="x").result(20) == (1, "x")


def test_a_workflow_shows_its_graph_or_its_faults():
    flow = Workflow("shown")
    assert "it has no steps" in flow._repr_mimebundle_()["text/plain"]

    @flow.step
    async def only(ev: StartEvent) -> StopEvent:
        return StopEvent()

    assert flow._repr_mimebundle_()["text/plain"] == "workflow shown: only"
    assert "<img" in flow._repr_mimebundle_()["text/html"]
