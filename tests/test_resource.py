"""What `Annotated[T, Resource(factory)]` declares (R6.17); the values are made by runs."""

import functools
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from flownb import Context, Resource, StartEvent, StopEvent, Workflow
from flownb.errors import WorkflowConfigurationError
from flownb.resource import needs, parameters_of, resource_faults
from tests.definition.checks import faults_in


class Db:
    def __init__(self, place: str = "here") -> None:
        self.place = place


class Cache:
    pass


def open_db() -> Db:
    return Db()


def open_cache(db: Annotated[Db, Resource(open_db)], ctx: Context, size: int = 3) -> Cache:
    return Cache()


def with_step(fn: Callable[..., Any]) -> Workflow[Any]:
    flow = Workflow[Any]("resources")
    flow.step(fn)
    return flow


def test_a_step_knows_its_resources():
    """R6.17."""

    def only(
        ev: StartEvent,
        db: Annotated[Db, "a note", Resource(open_db)],
        ctx: Context,
        *,
        cache: Annotated[Cache, Resource(open_cache, False, scope="run")],
    ) -> StopEvent:
        return StopEvent()

    made = with_step(only).steps["only"]
    assert made.faults == []
    assert made.resources == (("db", Resource(open_db)), ("cache", Resource(open_cache, cache=False, scope="run")))
    assert (made.plan, made.keywords) == (("event",), (("ctx", "context"),))
    assert with_step(only).validate() is False


def test_a_resource_is_a_value():
    assert Resource(open_db) == Resource(open_db, True, scope="workflow")
    assert Resource(open_db) != Resource(open_db, scope="run")
    assert len({Resource(open_db), Resource(open_db)}) == 1
    assert Resource(open_db).name == "open_db"


def test_what_a_factory_needs():
    """R6.17: factories may take resources and the context."""
    resource = Resource(open_cache)
    assert needs(resource) == (("db", Resource(open_db)),)
    assert parameters_of(resource).context == "ctx"
    assert needs(Resource(open_db)) == ()
    assert parameters_of(resource) is parameters_of(Resource(open_cache, cache=False))


class Maker:
    def __call__(self, db: Annotated[Db, Resource(open_db)]) -> Cache:
        return Cache()

    def method(self, db: Annotated[Db, Resource(open_db)]) -> Cache:
        return Cache()


class Built:
    def __init__(self, db: Annotated[Db, Resource(open_db)]) -> None:
        self.db = db


async def open_later(db: Annotated[Db, Resource(open_db)]) -> Cache:
    return Cache()


class Slotted:
    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, db: Annotated[Db, Resource(open_db)]) -> Cache:
        return Cache()


@pytest.mark.parametrize(
    "factory",
    [Maker(), Maker().method, Built, open_later, Slotted(), functools.partial(open_cache, size=4), lambda: 3, Db, dict],
    ids=repr,
)
def test_all_kinds_of_factories(factory: Any):
    resource = Resource(factory)
    assert resource_faults(resource) == []
    plain = factory in (Db, dict) or getattr(factory, "__name__", "") == "<lambda>"
    assert needs(resource) == (() if plain else (("db", Resource(open_db)),))


def test_hints_that_are_text_find_what_stands_around_them():
    """R8.6: a factory and a class that are defined inside the function where the workflow is."""

    class Local:
        pass

    def inner() -> Local:
        return Local()

    def outer(inner_: "Annotated[Local, Resource(inner)]") -> int:
        return 3

    flow = Workflow[Any]("local")

    @flow.step
    def only(ev: StartEvent, n: "Annotated[int, Resource(outer)]") -> StopEvent:
        return StopEvent()

    flow.validate()
    assert flow.steps["only"].resources == (("n", Resource(outer)),)
    assert needs(Resource(outer)) == (("inner_", Resource(inner)),)


def circle_a(b: "Annotated[int, Resource(circle_b)]") -> int:
    return 1


def circle_b(c: "Annotated[int, Resource(circle_c)]", db: Annotated[Db, Resource(open_db)]) -> int:
    return 1


def circle_c(b: "Annotated[int, Resource(circle_b)]") -> int:
    return 1


def needs_more(path: str, *rest: int, mode: str = "r") -> int:
    return 1


def needs_nowhere(x: "Annotated[int, Resource(nowhere)]", y: "nowhere" = 3) -> int:  # type: ignore[name-defined] # noqa: F821
    return 1


def by_place(db: Annotated[Db, Resource(open_db)], ctx: Context, /) -> int:
    return 1


def names_no_factory(db: Annotated[Db, Resource]) -> int:
    return 1


MIND = "Give it a default, or hint `Annotated[..., Resource(factory)]`."


@pytest.mark.parametrize(
    ("factory", "faults"),
    [
        (circle_a, ["the resource circle_b needs itself: circle_b -> circle_c -> circle_b. Break the circle."]),
        (needs_more, [f"the factory needs_more of a resource: nobody fills its parameter 'path'. {MIND}"]),
        (
            needs_nowhere,
            [
                "the factory needs_nowhere of a resource: the hint of 'x' cannot be resolved ('Annotated[int, "
                "Resource(nowhere)]': NameError: name 'nowhere' is not defined). Define that name before the first run."
            ],
        ),
        (
            by_place,
            [
                f"the factory by_place of a resource: {name!r} is positional only, but is passed by name. "
                "Leave the `/` out."
                for name in ("db", "ctx")
            ],
        ),
        (
            names_no_factory,
            [
                "the factory names_no_factory of a resource: 'db' names Resource without a factory. "
                "Write Resource(factory)."
            ],
        ),
    ],
)
def test_a_factory_that_cannot_be_called_is_a_fault_of_its_step(factory: Any, faults: list[str]):
    """R6.17, R8.1: a circle is named."""

    def only(ev: StartEvent, value: Annotated[int, Resource(factory)]) -> StopEvent: ...  # type: ignore[empty-body]

    assert faults_in(with_step(only)) == [f"step 'only': {fault}" for fault in faults]


def test_a_factory_may_use_what_is_not_there_yet():
    def factory(db: Annotated[Db, Resource(open_db)]) -> Any:
        return later

    assert needs(Resource(factory)) == (("db", Resource(open_db)),)
    later = 3
    assert factory(Db()) == later


def test_a_name_that_comes_later_is_found_the_next_time():
    def factory(x: "Annotated[int, Resource(later)]") -> int:  # type: ignore[name-defined] # noqa: F821
        return 1

    assert resource_faults(Resource(factory))
    factory.__globals__["later"] = open_db
    try:
        assert needs(Resource(factory)) == (("x", Resource(open_db)),)
    finally:
        del factory.__globals__["later"]


def test_a_resource_of_a_step_is_declared_rightly():
    """R8.13."""

    def place(ev: StartEvent, db: Annotated[Db, Resource(open_db)], /) -> StopEvent: ...  # type: ignore[empty-body]
    def two(ev: StartEvent, db: Annotated[Db, Resource(open_db), Resource(Db)]) -> StopEvent: ...  # type: ignore[empty-body]
    def bare(ev: StartEvent, db: Annotated[Db, Resource]) -> StopEvent: ...  # type: ignore[empty-body]

    assert faults_in(with_step(place)) == ["step 'place': the resource 'db' is positional only. Leave the `/` out."]
    assert faults_in(with_step(two)) == ["step 'two': 'db' names 2 resources. Leave one."]
    assert faults_in(with_step(bare)) == [
        "step 'bare': 'db' names Resource without a factory. Write Resource(factory)."
    ]


def test_a_factory_is_a_function_and_a_scope_one_of_its_words():
    with pytest.raises(WorkflowConfigurationError, match=r"Resource\('db'\): give a function that makes the value"):
        Resource("db")  # type: ignore[arg-type]
    with pytest.raises(WorkflowConfigurationError, match="scope='process' is not one of workflow, run"):
        Resource(open_db, scope="process")  # type: ignore[arg-type]
