"""Defining workflows in classes and cells, running cells again, and starting runs."""

import asyncio
import sys
import types
from collections.abc import Iterator
from typing import Any, TypeVar, Union

import pytest

from flownb import Event, StartEvent, StopEvent, Workflow, options, step
from flownb.definition import Policies
from flownb.errors import EventOutdated, WorkflowConfigurationError, WorkflowValidationError
from flownb.retry_policy import retry_policy
from tests.polling import until, wait_for_questions


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
            "flownb.marking.cell", lambda: (self.cell_id, f"{self.count:04}") if self.cell_id else ("", "")
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
    wait_for_questions(run)
    notebook.run(waits.replace("asked", "changed"), "total")
    assert list(flow.steps) == ["split", "work", "total"]
    newer = flow.run()
    wait_for_questions(newer)
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
        "Needs needs: rows, path; given: rows.",
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


def test_a_misspelt_setting_of_a_workflow_names_the_near_one():
    with pytest.raises(WorkflowConfigurationError, match=r"no setting 'timeoutt'\. Did you mean 'timeout'"):
        Workflow("hasty", timeoutt=3)  # type: ignore[arg-type]


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


# -- settings of a workflow


def test_every_setting_of_a_workflow_is_kept_and_its_policies_reach_the_definition():
    """API §4, R3.5, R5.44, R5.47, R5.70."""
    policy = retry_policy()
    flow = Workflow[Any](
        workflow_name="set",
        timeout=5,
        timeout_clock="wall",
        unhandled="error",
        unserializable="live",
        retry_policy=policy,
        step_timeout=2,
        stalled="wait",
        accepts=[Row],
        max_starts=10,
        store=":memory:",
        num_concurrent_runs=3,
        verbose=True,
        skip_graph_checks=None,
    )
    flow.step(begins)
    flow.step(ends)
    assert flow.name == "set"
    assert (flow._unserializable, flow._num_concurrent_runs, flow._verbose, flow._store) == (
        "live",
        3,
        True,
        ":memory:",
    )
    definition = flow.definition
    assert definition.policies == Policies(policy, 2, 5, "wall", 10)
    spec = definition.spec
    assert (spec.unhandled, spec.stalled, spec.outside) == ("error", "wait", (f"{__name__}:Row",))


def test_a_workflow_says_nothing_of_itself():
    """R3.24, R5.44: no retry, no time limit."""
    assert flow_of(begins, ends).definition.policies == Policies(None, None, None, "active", 100_000)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"timeout": 0}, "timeout is 0; give seconds, a number above 0"),
        ({"step_timeout": -1}, "step_timeout is -1; give seconds"),
        ({"retry_policy": 3}, "retry_policy is 3, which has no `next`"),
        ({"max_starts": 0}, "max_starts is 0; give at least 1"),
        ({"num_concurrent_runs": 0}, "num_concurrent_runs is 0; give at least 1"),
        ({"verbose": 1}, "verbose is 1; give True or False"),
        ({"disable_validation": "no"}, "disable_validation is 'no'; give True or False"),
        ({"timeout_clock": "real"}, "timeout_clock='real' is not one of active, wall"),
        ({"unserializable": "drop"}, "unserializable='drop' is not one of error, live"),
        ({"accepts": [int]}, "accepts names <class 'int'>, which is no event type"),
        ({"accepts": "Row"}, "accepts names 'Row', which is no event type"),
        ({"name": 10}, "its name is 10; give text"),
        ({"name": "a", "workflow_name": "b"}, "give name or workflow_name, not both"),
        ({"timeout": 0, "max_starts": 0}, "timeout is 0; .* max_starts is 0;"),
    ],
)
def test_a_setting_that_cannot_be_honoured_is_refused(settings: dict[str, Any], said: str):
    """R8.13."""
    with pytest.raises(WorkflowConfigurationError, match=said):
        Workflow(**settings)


def test_one_accepted_type_needs_no_list():
    assert Workflow(accepts=Row)._accepts == (Row,)  # type: ignore[arg-type]


def test_the_definitions_hash_covers_the_settings():
    """R1.44."""
    settings: list[dict[str, Any]] = [
        {},
        {"timeout": 1},
        {"timeout_clock": "wall"},
        {"retry_policy": retry_policy()},
        {"step_timeout": 1},
        {"max_starts": 1},
        {"unhandled": "ignore"},
        {"stalled": "wait"},
        {"accepts": [Row]},
    ]

    def hash_of(**given: Any) -> str:
        flow = Workflow[Any]("hashed", **given)
        flow.step(begins)
        flow.step(ends)
        return flow.definition.spec.hash

    assert len({hash_of(**given) for given in settings}) == len(settings)
    assert hash_of() == hash_of()


class Counts(Workflow[int]):
    total = 0

    @step
    async def begin(self, ev: Begin) -> StopEvent:
        self.total += ev.n
        self.total += ev.n
        return StopEvent(result=self.total)


def test_assigning_to_self_in_a_step_warns_once():
    """API §4: one object serves all deliveries and is not journalled."""
    flow = Counts()
    flow.total = 0  # outside of steps it is anybody's object
    with pytest.warns(UserWarning) as caught:
        assert [flow.run(n=3).result(20) for _ in range(2)] == [6, 12]
    assert [str(each.message) for each in caught] == [
        "Step 'begin' of workflow 'Counts' sets self.total: one object serves all runs, and after a restart it is not "
        'there. Use ctx.state.set("total", ...).'
    ]
    assert caught[0].filename == __file__


class Makes(Workflow[int]):
    @step
    def begin(self, ev: Begin) -> StopEvent:
        other = flow_of(begins, ends)
        other.extra = ev.n  # type: ignore[attr-defined]
        self.steps["begin"] = self.steps["begin"]
        assert self.definition is self.definition
        return StopEvent(result=other.extra)  # type: ignore[attr-defined]


def test_another_workflow_that_a_step_makes_is_its_own():
    assert Makes().run(n=3).result(20) == 3


# -- what `await run` gives


class Report(StopEvent):
    n: int = 0


class Longer(Report):
    pass


class Other(StopEvent):
    pass


T = TypeVar("T")


class Reusable(Workflow[T]):
    """Generic itself."""


class OfReport(Workflow[Report]):
    pass


class BelowReport(OfReport):
    pass


class ReusedOfReport(Reusable[Report]):
    pass


def gives(*stops: Any) -> Any:
    def only(ev: Begin) -> StopEvent: ...  # type: ignore[empty-body]

    only.__annotations__["return"] = Union[stops]  # noqa: UP007 - made of a tuple
    return only


PROMISES: list[Any] = [
    lambda: Workflow[Report]("promise"),
    OfReport,
    BelowReport,
    ReusedOfReport,
    Reusable[Report],
]


@pytest.mark.parametrize("make", PROMISES)
def test_the_type_of_a_workflow_is_checked_against_the_steps_stops(make: Any):
    """API §4."""
    for stops in ((Report,), (Longer, None), (list[Report],)):
        flow = make()
        flow.step(gives(*stops))
        flow.validate()
    for stops in ((StopEvent,), (Report, Other)):
        flow = make()
        flow.step(gives(*stops))
        with pytest.raises(WorkflowValidationError) as caught:
            flow.validate()
        assert caught.value.faults == (
            f"step 'only' returns {stops[-1].__name__}, but the workflow is a Workflow[Report]. Return Report, or "
            "write the type that `await run` gives.",
        )


@pytest.mark.parametrize(
    ("promise", "stops"),
    [
        (Any, (StopEvent, Report)),
        (str, (StopEvent,)),
        (None, (StopEvent,)),
        (StopEvent, (StopEvent, Other)),
        (Report | str, (StopEvent, Longer)),
        (Report | Other, (Report, Other)),
        (T, (StopEvent, Report)),
    ],
)
def test_other_types_of_a_workflow_promise_nothing_of_its_stops(promise: Any, stops: Any):
    flow = Workflow[promise]("free")
    flow.step(gives(*stops))
    flow.validate()


def test_a_workflow_of_no_type_promises_nothing():
    flow = Workflow("untyped")
    flow.step(gives(StopEvent, Report))
    flow.validate()


def test_a_report_or_a_text_is_no_other_stop():
    flow = Workflow[Report | str]("mixed")
    flow.step(gives(StopEvent, Other))
    with pytest.raises(WorkflowValidationError, match="step 'only' returns Other, but the workflow is a Workflow"):
        flow.validate()
