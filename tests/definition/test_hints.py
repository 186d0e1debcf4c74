"""All spellings of a hint mean the same (R2.7)."""

import collections.abc
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Annotated, Any, List, Optional, Tuple, Union  # noqa: UP035 - old spellings are what is tested

import pytest
from typing_extensions import TypeAliasType

from flownb import Context, Event, StartEvent, StopEvent, Workflow, step
from flownb.definition.hints import Unresolved, meaning, resolve


class A(Event):
    pass


class B(Event):
    pass


AorB = TypeAliasType("AorB", Union[A, B])  # noqa: UP007
Plain = A | B


@pytest.mark.parametrize(
    "hint",
    [
        A | B,
        Union[A, B],  # noqa: UP007
        Optional[Union[A, B]],  # noqa: UP007, UP045
        A | B | None,
        Annotated[A | B, "label"],
        Annotated[A | B, {"unhashable": []}],
        Union[Annotated[A, "x"], Annotated[Annotated[B, 1], 2]],  # noqa: UP007
        AorB,
        Annotated[AorB, "x"] | None,
        Plain,
    ],
    ids=repr,
)
def test_spellings_of_a_union(hint: Any):
    found = meaning(hint)
    assert (found.events, found.lists, found.is_list, found.others) == ((A, B), (), False, ())


@pytest.mark.parametrize(
    "hint",
    [
        list[A | B],
        List[Union[A, B]],  # noqa: UP006, UP007
        tuple[A | B, ...],
        Tuple[A, B],  # noqa: UP006
        collections.abc.Sequence[A | B],
        collections.abc.Iterable[A | B],
        list[A] | list[B],
        Annotated[list[Annotated[A, "x"] | B], "y"],
        list[AorB] | None,
        TypeAliasType("Rows", list[AorB]),
    ],
    ids=repr,
)
def test_spellings_of_a_list(hint: Any):
    found = meaning(hint)
    assert (found.events, found.lists, found.is_list, found.others) == ((), (A, B), True, ())


@pytest.mark.parametrize("hint", [None, type(None)])
def test_nothing(hint: Any):
    assert meaning(hint) == meaning(None)
    assert not meaning(hint).is_list


@pytest.mark.parametrize(
    ("hint", "others"),
    [(int, (int,)), (A | int, (int,)), (list[int], (list[int],)), (list[A | int], (int,)), (dict[str, A], None)],
)
def test_what_is_no_event(hint: Any, others: Any):
    assert meaning(hint).others == (others if others is not None else (hint,))


def test_metadata_is_kept_outermost_first():
    assert meaning(Annotated[list[Annotated[A, "inner"]], "outer"]).metadata == ("outer", "inner")


# The same small workflow in every spelling; all must give equal specs.

BODY = """
{header}
from typing import *
from typing import Annotated, Optional, Union
from flownb import Context, Event, StartEvent, StopEvent, Workflow, step
{indent}class Start(StartEvent): n: int = 2
{indent}class Row(Event): no: int
{indent}class Other(Event): pass
{indent}class Sum(StopEvent): total: int
{indent}class Flow(Workflow[Any]):
{indent}    @step
{indent}    async def split(self, ev: {start}) -> {rows}: return [Row(no=i) for i in range(ev.n)]
{indent}    @step(num_workers=2)
{indent}    def work(self, ev: {row}, ctx: {context}) -> {maybe}: return Other()
{indent}    @step
{indent}    async def total(self, ev: {others}) -> {sum}: return Sum(total=len(ev))
"""
PLAIN = {
    "header": "",
    "indent": "",
    "start": "Start",
    "rows": "list[Row]",
    "row": "Row",
    "context": "Context",
    "maybe": "Other | None",
    "others": "list[Other]",
    "sum": "Sum",
}
QUOTED = {name: repr(hint) for name, hint in PLAIN.items() if name not in ("header", "indent")}
FUTURE = {"header": "from __future__ import annotations"}
SPELLINGS = {
    "plain": {},
    "future": FUTURE,
    "quoted": QUOTED,
    "future and quoted": FUTURE | QUOTED,
    "partly quoted": {"rows": "list['Row']", "maybe": "Optional['Other']", "others": "List['Other']"},
    "typing": {"rows": "List[Row]", "maybe": "Optional[Other]", "others": "Sequence[Other]", "context": "Context[Any]"},
    "union": {"maybe": "Union[Other, None]", "rows": "Tuple[Row, ...]", "others": "Iterable[Other]"},
    "annotated": {
        "start": "Annotated[Start, {'unhashable': []}]",
        "maybe": "Optional[Annotated[Other, 'x']]",
        "sum": "Annotated[Sum, 'label']",
        "others": "Annotated[list[Annotated[Other, 1]], 2]",
    },
    "future annotated": FUTURE | {"maybe": "Annotated[Other | None, {'unhashable': []}]"},
}


def built(spelling: dict[str, str]) -> Workflow[Any]:
    name = "spelled_notebook"
    module = types.ModuleType(name)
    sys.modules[name] = module
    try:
        exec(compile(BODY.format(**PLAIN | spelling).strip(), f"<{name}>", "exec"), module.__dict__)
        return module.__dict__["Flow"]()
    finally:
        del sys.modules[name]


def table(flow: Workflow[Any]) -> Any:
    spec = flow.definition.spec
    return spec.routes, spec.lists, spec.joins, [(s.accepts, s.gathers, s.returns, s.fans) for s in spec.steps]


@pytest.mark.parametrize("spelling", list(SPELLINGS))
def test_every_spelling_gives_the_same_table_and_runs(spelling: str):
    """C001, C005."""
    flow = built(SPELLINGS[spelling])
    assert table(flow) == table(built({}))
    assert flow.run(n=3).result(20).total == 3


LOCAL = """
from __future__ import annotations
from typing import Any
from flownb import Context, Event, StartEvent, StopEvent, Workflow, step
def make():
    class Start(StartEvent): n: int = 2
    class Row(Event): no: int
    class Flow(Workflow[Any]):
        class End(StopEvent): total: int
        @step
        async def split(self, ev: Start) -> list[Row]: return [Row(no=i) for i in range(ev.n)]
        @step(num_workers=None)
        def total(self, ev: list[Row]) -> End: return self.End(total=len(ev))
    return Flow()
def cells():
    class Start(StartEvent): n: int = 2
    class Row(Event): no: int
    flow = Workflow[Any]("cells")
    @flow.step
    async def split(ev: Start) -> list[Row]: return [Row(no=i) for i in range(ev.n)]
    @flow.step(num_workers=None)
    def total(ev: list[Row]) -> StopEvent: return StopEvent(result=len(ev))
    return flow
def free():
    class Start(StartEvent): n: int = 2
    class Flow(Workflow[Any]): pass
    @step(workflow=Flow)
    def total(ev: Start) -> StopEvent: return StopEvent(result=ev.n)
    return Flow()
"""


def test_classes_of_a_function_are_found_for_hints_that_are_text():
    """R8.6: from the class body and the function around it."""
    space: dict[str, Any] = {"__name__": __name__}
    exec(LOCAL, space)
    assert space["make"]().run(n=3).result(20).total == 3
    assert space["cells"]().run(n=3).result(20) == 3
    assert space["free"]().run(n=3).result(20) == 3


def test_a_step_keeps_only_types_of_its_surroundings():
    """Not the frames and arrays that a function holds."""

    class Start(StartEvent):
        pass

    big = [0] * 1000
    flow = Workflow[Any]("small")

    @flow.step
    def only(ev: "Start") -> StopEvent:
        return StopEvent()

    kept = flow.steps["only"].options.local
    assert kept is not None
    assert kept["Start"] is Start
    assert "big" not in kept
    assert "flow" not in kept
    assert len(big) == 1000


def test_a_name_that_is_not_there_names_parameter_and_hint():
    def fn(ev: "Nowhere") -> None: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(Unresolved, match="'Nowhere': NameError") as caught:
        resolve(fn, None)
    assert caught.value.name == "ev"


def test_a_name_in_a_closure_is_found():
    def make() -> Callable[..., Any]:
        class Local(Event):
            pass

        def fn(ev: "Local") -> None:
            Local()

        return fn

    assert resolve(make(), None)["ev"].__name__ == "Local"


class Free(Workflow[Any]):
    @step
    def a(self, ev: StartEvent) -> StopEvent | A:
        return StopEvent()

    @step
    def b(self, ev: A, ctx: Context[Any]) -> None: ...


def test_one_step_table_for_methods_and_functions():
    """API §4: class style and cell style make the same spec."""
    flow = Workflow[Any]("Free")

    @flow.step
    def a(ev: StartEvent) -> StopEvent | A:
        return StopEvent()

    @flow.step
    def b(ev: A, ctx: Context[Any]) -> None: ...

    assert table(flow) == table(Free())


def test_source_of_a_notebook_cell(tmp_path: Any):
    """Steps without a source file are hashed too (R1.43)."""
    space: dict[str, Any] = {"__name__": __name__}
    exec(textwrap.dedent(BODY.format(**PLAIN).strip()), space)
    first = space["Flow"]().definition.spec
    exec(textwrap.dedent(BODY.format(**PLAIN).replace("Other()", "None").strip()), space)
    second = space["Flow"]().definition.spec
    assert [s.source == t.source for s, t in zip(first.steps, second.steps, strict=True)] == [True, False, True]
    assert first.hash != second.hash
