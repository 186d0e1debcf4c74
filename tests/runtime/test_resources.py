"""Resources: made once for as long as they live, whoever asks first."""

import asyncio
import contextvars
import functools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest

from flownb import Context
from flownb.errors import EngineLost, WorkflowConfigurationError
from flownb.resource import Resource
from flownb.runtime.host import Host, engine
from flownb.runtime.resources import Resources, Shelf
from tests.polling import until, wait_until


class Db:
    """Something dear."""

    made = 0

    def __init__(self) -> None:
        Db.made += 1


@pytest.fixture(autouse=True)
def _count_anew() -> None:
    Db.made = 0


@pytest.fixture
def resources() -> Resources:
    """Of a run on the engine's thread."""
    return Resources(engine(), Shelf())


@pytest.fixture
def other_loop() -> Iterator[Host]:
    """A second loop with a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield Host(loop, thread=thread)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    loop.close()


def no_context() -> Any:
    pytest.fail("nobody takes the context")


def get(resources: Resources, resource: Resource) -> Any:
    return resources.get_sync(resource, no_context)


def on_threads(n: int, ask: Callable[[], Any]) -> list[Any]:
    """What n threads get that ask at the same moment; errors are values here."""
    ready = threading.Barrier(n)

    def job(_: int) -> Any:
        ready.wait(20)
        try:
            return ask()
        except Exception as error:
            return error

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(job, range(n)))


# -- factories


def slow_db() -> Db:
    time.sleep(0.05)
    return Db()


async def async_db() -> Db:
    await asyncio.sleep(0.02)
    return Db()


# -- once


@pytest.mark.parametrize("factory", [Db, slow_db, async_db, functools.partial(slow_db)])
def test_r6_17_a_factory_of_whatever_kind_is_called_once_for_plain_steps(resources: Resources, factory: Any):
    """Also an asynchronous one: it runs on the run's loop."""
    first = get(resources, Resource(factory))
    assert isinstance(first, Db)
    assert get(resources, Resource(factory)) is first
    assert Db.made == 1


@pytest.mark.parametrize("factory", [Db, slow_db, async_db])
def test_r6_17_a_factory_of_whatever_kind_is_called_once_for_async_steps(factory: Any):
    async def main() -> None:
        resources = Resources(Host(asyncio.get_running_loop()), Shelf())
        got = await asyncio.gather(*[resources.get(Resource(factory), no_context) for _ in range(5)])
        assert len({id(value) for value in got}) == 1
        assert isinstance(got[0], Db)
        assert Db.made == 1

    asyncio.run(main())


@pytest.mark.parametrize("factory", [slow_db, async_db])
def test_r6_17_threads_that_ask_at_the_same_moment_get_the_same_value(resources: Resources, factory: Any):
    got = on_threads(8, lambda: get(resources, Resource(factory)))
    assert [type(value) for value in got] == [Db] * 8
    assert len(set(map(id, got))) == 1
    assert Db.made == 1


@pytest.mark.parametrize("factory", [slow_db, async_db])
def test_r6_17_two_loops_that_ask_at_the_same_moment_get_the_same_value(factory: Any, other_loop: Host):
    """Two runs of one workflow object, each on a loop of its own."""
    shelf = Shelf()
    hosts = [engine(), other_loop]
    runs = [Resources(host, shelf) for host in hosts]
    futures = [
        asyncio.run_coroutine_threadsafe(run.get(Resource(factory), no_context), host.loop)
        for run, host in zip(runs, hosts, strict=True)
        for _ in range(3)
    ]
    got = [future.result(20) for future in futures]
    assert len(set(map(id, got))) == 1
    assert Db.made == 1


def test_r6_17_without_cache_each_use_gets_its_own(resources: Resources):
    fresh = Resource(Db, cache=False)
    assert get(resources, fresh) is not get(resources, fresh)

    def pair(a: Annotated[Db, fresh], b: Annotated[Db, fresh]) -> tuple[Db, Db]:
        return a, b

    one, other = get(resources, Resource(pair))
    assert one is not other
    assert Db.made == 4


def test_r6_17_scope_says_how_long_a_value_lives():
    """Two runs of a workflow object share `scope="workflow"`, and each has its own of `scope="run"`."""
    shelf = Shelf()
    one, other = Resources(engine(), shelf), Resources(engine(), shelf)
    assert get(one, Resource(Db)) is get(other, Resource(Db))
    of_one, of_other = (get(run, Resource(slow_db, scope="run")) for run in (one, other))
    assert of_one is not of_other
    assert get(one, Resource(slow_db, scope="run")) is of_one


def test_a_value_of_none_is_a_value(resources: Resources):
    calls: list[int] = []
    assert [get(resources, Resource(lambda: calls.append(1))) for _ in range(1)] == [None]
    nothing = Resource(lambda: calls.append(1))
    assert [get(resources, nothing), get(resources, nothing)] == [None, None]
    assert len(calls) == 2


def test_a_factory_that_cannot_be_hashed_has_one_value_too(resources: Resources):
    class Maker:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self) -> Db:
            return Db()

    maker = Maker()
    assert get(resources, Resource(maker)) is get(resources, Resource(maker))
    assert get(resources, Resource(maker)) is not get(resources, Resource(Maker()))


# -- what factories need


def url() -> str:
    return "db://here"


async def engine_of(at: Annotated[str, Resource(url)]) -> list[str]:
    return [at]


def session(made: Annotated[list[str], Resource(engine_of)], again: Annotated[str, Resource(url)], n: int = 3) -> Any:
    return made, again, n


def test_r6_17_what_a_factory_needs_is_made_first(resources: Resources):
    """Through any number of factories, plain and async; defaults stay."""
    made, again, n = get(resources, Resource(session))
    assert (made, again, n) == (["db://here"], "db://here", 3)
    assert get(resources, Resource(engine_of)) is made


def who_asks(ctx: Context) -> Any:
    return ctx


def test_r6_17_a_factory_may_take_the_context_of_who_asks_first(resources: Resources):
    here = Resource(who_asks, scope="run")
    assert resources.get_sync(here, lambda: "first") == "first"
    assert resources.get_sync(here, lambda: "second") == "first"


def of_a_circle_a(b: "Annotated[Any, Resource(of_a_circle_b)]") -> Any:
    return b


def of_a_circle_b(a: "Annotated[Any, Resource(of_a_circle_a)]") -> Any:
    return a


def test_r6_17_a_circle_is_named_and_nobody_waits(resources: Resources):
    """Also where two begin at both ends of it at the same moment."""
    ends = iter([Resource(of_a_circle_a), Resource(of_a_circle_b)])
    errors = on_threads(2, lambda: get(resources, next(ends)))
    assert [type(error) for error in errors] == [WorkflowConfigurationError] * 2
    assert any("of_a_circle_a -> of_a_circle_b -> of_a_circle_a" in str(error) for error in errors)


def needs_it_twice(
    a: Annotated[Db, Resource(slow_db)], b: Annotated[Any, Resource(who_needs_a_db := lambda: 1)]
) -> Any:
    return a, b


def beside(a: Annotated[Db, Resource(slow_db)], b: Annotated[Any, Resource(needs_it_twice)]) -> Any:
    return a, b


def test_r6_17_what_two_need_at_the_same_time_is_no_circle(resources: Resources):
    """Neither inside one tree nor between steps that ask for trees with common parts at the same moment."""
    trees = iter([Resource(beside), Resource(needs_it_twice)] * 3)
    got = on_threads(6, lambda: get(resources, next(trees)))
    assert [type(value) for value in got] == [tuple] * 6
    assert {id(value[0]) for value in got} == {id(get(resources, Resource(slow_db)))}
    assert Db.made == 1


def of_one_run(db: Annotated[Db, Resource(slow_db, scope="run")]) -> Any:
    return db


def hides_one_run(db: Annotated[Db, Resource(of_one_run, cache=False)]) -> Any:
    return db


@pytest.mark.parametrize("factory", [of_one_run, hides_one_run])
def test_r6_17_what_lives_longer_cannot_hold_what_lives_shorter(resources: Resources, factory: Any):
    """The next run would get the value of the first."""
    with pytest.raises(WorkflowConfigurationError, match=r"needs slow_db, which lives for one run.*scope=\"run\""):
        get(resources, Resource(factory))
    assert isinstance(get(resources, Resource(factory, scope="run")), Db)


def wants(what: int) -> Any:
    return what


def test_a_parameter_that_nobody_fills_is_named(resources: Resources):
    with pytest.raises(WorkflowConfigurationError, match="nobody fills its parameter 'what'"):
        get(resources, Resource(wants))


# -- what goes wrong


@pytest.mark.parametrize("is_async", [False, True])
def test_r6_17_an_error_reaches_all_who_wait_and_the_next_one_tries_anew(
    resources: Resources, is_async: bool, monkeypatch: pytest.MonkeyPatch
):
    go, calls = threading.Event(), []

    def plain() -> Db:
        calls.append(1)
        if len(calls) == 1:
            go.wait(20)
            raise ConnectionError("not yet")
        return Db()

    async def on_the_loop() -> Db:
        return await asyncio.to_thread(plain)

    resource = Resource(on_the_loop if is_async else plain)
    handed_out: list[Any] = []
    pending = resources._pending

    def counted(*args: Any) -> Any:
        found = pending(*args)
        handed_out.append(found)
        return found

    monkeypatch.setattr(resources, "_pending", counted)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(get, resources, resource) for _ in range(4)]
        wait_until(lambda: calls and len(handed_out) == 4)
        go.set()
        errors = [future.exception(20) for future in asked]
    assert [str(error) for error in errors] == ["not yet"] * 4
    assert len(calls) == 1
    assert isinstance(get(resources, resource), Db)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_factory_raises_reaches_who_asks_and_spares_the_loop(
    resources: Resources, kind: type[BaseException], is_async: bool
):
    def plain() -> Db:
        raise kind("enough")

    async def on_the_loop() -> Db:
        raise kind("enough")

    with pytest.raises(kind, match="enough"):
        get(resources, Resource(on_the_loop if is_async else plain))
    assert isinstance(get(resources, Resource(Db)), Db)


def test_a_slow_plain_factory_does_not_block_the_loop():
    """R3.15: it runs on a thread, also for an async step."""

    async def main() -> None:
        go = threading.Event()
        resources = Resources(Host(asyncio.get_running_loop()), Shelf())

        def slow() -> str:
            assert go.wait(20), "the loop was blocked"
            return threading.current_thread().name

        asked = asyncio.ensure_future(resources.get(Resource(slow), no_context))
        await asyncio.sleep(0.01)
        go.set()
        assert (await asked).startswith("flownb-step")

    asyncio.run(main())


def test_who_is_cancelled_while_he_waits_does_not_take_it_from_the_others():
    """The attempt that asked first may be the one that times out."""

    async def main() -> None:
        resources = Resources(Host(asyncio.get_running_loop()), Shelf())
        go, calls = asyncio.Event(), []

        async def slow() -> Db:
            calls.append(1)
            await go.wait()
            return Db()

        first, second = (asyncio.ensure_future(resources.get(Resource(slow), no_context)) for _ in range(2))
        await until(lambda: calls)
        first.cancel()
        await asyncio.wait([first])
        go.set()
        assert isinstance(await second, Db)
        assert first.cancelled()
        assert calls == [1]

    asyncio.run(main())


def test_where_the_loop_of_the_maker_ends_another_run_makes_it(other_loop: Host):
    """Two runs of one workflow object; the first is on a loop that is closed while it makes the value."""
    shelf = Shelf()
    calls: list[str] = []

    async def slow() -> Db:
        calls.append(threading.current_thread().name)
        if len(calls) == 1:
            await asyncio.sleep(600)
        return Db()

    other = Resources(other_loop, shelf)
    left_behind: list[Any] = []
    waiting: list[Any] = []

    async def first() -> None:
        here = Resources(Host(asyncio.get_running_loop()), shelf)
        left_behind.append(asyncio.ensure_future(here.get(Resource(slow), no_context)))
        await until(lambda: calls)
        waiting.append(asyncio.run_coroutine_threadsafe(other.get(Resource(slow), no_context), other_loop.loop))
        await asyncio.sleep(0.05)

    asyncio.run(first())
    assert isinstance(waiting[0].result(20), Db)
    assert len(calls) == 2


def test_a_value_that_a_closed_loop_left_half_made_is_made_anew(resources: Resources):
    """A loop that is closed without ending its tasks tells nobody."""
    shelf = Shelf()
    loop = asyncio.new_event_loop()
    calls: list[int] = []

    async def slow() -> Db:
        calls.append(1)
        if len(calls) == 1:
            await asyncio.sleep(600)
        return Db()

    made_there = Resources(Host(loop), shelf)
    task = loop.create_task(made_there.get(Resource(slow), no_context))
    loop.run_until_complete(_until_called(calls))
    loop.close()

    assert isinstance(Resources(engine(), shelf).get_sync(Resource(slow), no_context), Db)
    with pytest.raises(EngineLost, match="loop that drove this run is closed"):
        made_there.get_sync(Resource(Db, scope="run"), no_context)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is left behind on purpose


async def _until_called(calls: list[int]) -> None:
    await until(lambda: calls)


mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_factory_sees_the_context_variables_of_who_asks_first(resources: Resources, is_async: bool):
    """Also the one that sends what it prints to that step's log."""

    async def on_the_loop() -> str:
        return mark.get()

    token = mark.set("mine")
    try:
        assert get(resources, Resource(on_the_loop if is_async else mark.get)) == "mine"
    finally:
        mark.reset(token)
