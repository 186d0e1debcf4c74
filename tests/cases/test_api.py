"""Cases of the tag *api*: what users of other tools hit when they define workflows."""

import sys
import types
from typing import Annotated, Any, Optional

import pytest

from flownb import Event, StartEvent, StopEvent, Workflow, step
from flownb.errors import WorkflowValidationError

SOURCE = """
{header}
from typing import Any
from flownb import *
class Start(StartEvent): pass
class Ping(Event): no: int = 1
class Flow(Workflow[Any]):
    @step
    async def a(self, ev: Start) -> Ping | None: return Ping()
    @step
    async def b(self, ev: Ping) -> StopEvent: return StopEvent(result=ev.no)
"""


def cell(source: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Runs source as a cell of a fresh `__main__`."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(compile(source.strip(), "<cell>", "exec"), module.__dict__)
    return module.__dict__


def table(flow: Workflow[Any]) -> Any:
    spec = flow.definition.spec
    return spec.routes, spec.lists, [(s.name, s.accepts, s.returns) for s in spec.steps]


def test_c001_the_future_import_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    plain = cell(SOURCE.format(header=""), monkeypatch)["Flow"]()
    future = cell(SOURCE.format(header="from __future__ import annotations"), monkeypatch)["Flow"]()
    assert table(plain) == table(future)
    assert plain.run().result(20) == future.run().result(20) == 1


def test_c003_names_are_found_in_the_replaced_main(monkeypatch: pytest.MonkeyPatch):
    space = cell(
        """
from typing import Any, Optional
from flownb import *
class Outer(StartEvent):
    inner: Optional["Inner"] = None
class Inner(Event):
    no: int
flow = Workflow[Any]("quoted")
@flow.step
def one(ev: "Outer") -> "Inner": return ev.inner
@flow.step
def two(ev: "Inner") -> "StopEvent": return StopEvent(result=ev.no)
""",
        monkeypatch,
    )
    assert space["flow"].run(inner={"no": 4}).result(20) == 4


class Start(StartEvent):
    pass


class Done(StopEvent):
    no: int = 1


class Annotates(Workflow[Done]):
    @step
    async def a(self, ev: Annotated[Start, {"unhashable": []}]) -> Optional[Annotated[Done, "x"]]:  # noqa: UP045
        return Done()

    @step
    async def b(self, ev: Annotated[Start, "label"]) -> Annotated[Done, "label"]:
        return Done(no=2)


def test_c005_annotated_is_peeled_at_every_depth_and_drawn():
    flow = Annotates()
    assert isinstance(flow.run().result(20), Done)
    assert "Start" in flow.view.to_mermaid()
    assert flow.view.to_svg().startswith("<svg")


def test_c007_a_step_without_a_return_hint_is_refused_by_name():
    flow = Workflow[Any]("unhinted")

    @flow.step
    async def s(ev: Start):
        return Done()

    with pytest.raises(WorkflowValidationError, match="step 's' has no return hint"):
        flow.run()


def test_c011_a_step_that_takes_a_stop_is_refused():
    flow = Workflow[Any]("listens")

    @flow.step
    async def end(ev: Start) -> Done:
        return Done()

    @flow.step
    async def log(ev: StopEvent) -> None:
        raise AssertionError("half-executed is wrong")

    with pytest.raises(WorkflowValidationError, match="step 'log' takes a StopEvent, but an end reaches no step"):
        flow.run()


class Clashes(Event):
    status: str
    copy: str
    json: dict[str, int]
    type: int
    id: str


class Keeps(Workflow[Any]):
    def _clean(self, text: str) -> str:
        return text.upper()

    @step
    def make(self, ev: Start) -> Clashes:
        return Clashes(status=self._clean("s"), copy="c", json={"a": 1}, type=5, id="x.y")

    @step
    def end(self, ev: Clashes) -> StopEvent:
        return StopEvent(result=[ev.status, ev.copy, ev.json, ev.type, ev.id])


def test_c015_clashing_names_work_or_are_refused_by_name(tmp_path: Any):
    assert list(Keeps().steps) == ["make", "end"]
    run = Keeps().with_options(store=tmp_path / "runs.db").run(run_id="c015")
    assert run.result(20) == ["S", "c", {"a": 1}, 5, "x.y"]
    from flownb.runs import _open

    store = _open.pop(str(tmp_path / "runs.db"))
    stored = store.history("c015")[1].outs[0].value
    assert [stored.status, stored.copy, stored.json, stored.type, stored.id] == ["S", "c", {"a": 1}, 5, "x.y"]
    store.close()
    for name in ("run", "cancel", "validate"):
        flow = Workflow[Any]("cells")

        def fn(ev: Start) -> Done:
            return Done()

        fn.__name__ = name
        flow.step(fn)
        assert flow.run().result(20) == Done()
    with pytest.raises(WorkflowValidationError, match="step 'run' has the name of something that every workflow has"):
        type("Refused", (Workflow,), {"run": step(Keeps.end)})
