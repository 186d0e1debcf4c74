"""A stored run under code that changed: new steps count, records stay, what is gone is told."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Store, Workflow
from flownb.core.ticks import DefinitionAdopted, RunOpened
from flownb.errors import DefinitionChanged, EventOutdated, RunOwnedElsewhere, WorkflowNotDefined
from flownb.events import newest
from flownb.store.marks import UnknownEvent
from tests.polling import wait_until
from tests.stored.other import Other

Open = Callable[..., Store]
Start = Callable[..., Other]


class Item(Event):
    no: int


class Half(Event):
    no: int


class Reply(HumanResponseEvent):
    word: str


class Question(InputRequiredEvent[Reply]):
    no: int = 0


def flow_of(*, word: str = "old", work: str | None = "work", number: float = 1.0) -> Workflow[Any]:
    """begin -> work, which asks -> end; `work` is what the second step is called, None leaves it out."""
    flow = Workflow[Any]("changes")

    @flow.step
    async def begin(ev: StartEvent, ctx: Context) -> Item:
        ctx.state.set("begun", [*ctx.state.get("begun", ()), word])
        return Item(no=1)

    async def asks(ev: Item, ctx: Context) -> Half:
        drawn = await ctx.once(lambda: number)
        reply = await ctx.ask(Question(no=ev.no))
        ctx.state.set("drawn", drawn)
        return Half(no=len(reply.word))

    if work is not None:
        asks.__name__ = asks.__qualname__ = work
        flow.step(asks)

    async def end(ev: Any, ctx: Context) -> StopEvent:
        return StopEvent(result=f"{word} {ev.no} {ctx.state.get('drawn', None)}")

    end.__annotations__["ev"] = Half if work is not None else Item
    flow.step(num_workers=1 if word == "old" else 2)(end)  # part of the definition, as its source is
    return flow


def left(store: Store, run_id: str = "r") -> None:
    """A run of the old definition that asks, and that nobody drives any more."""
    run = flow_of().with_options(store=store).run(run_id=run_id)
    wait_until(lambda: run.status == "waiting" and len(run.requests) == 1)
    run.suspend(drain=0).result(20)


def test_new_code_is_used_and_recorded_results_are_kept(any_place: str, open_store: Open):
    """R2.21, R6.44: a step that was done is not done again, a value that was recorded is given again."""
    left(open_store(any_place))
    store = open_store(any_place)
    run = flow_of(word="new", number=2.0).with_options(store=store).resume("r")
    wait_until(lambda: run.status == "waiting")
    run.answer(word="four")

    assert run.result(20) == "new 4 1.0"
    assert run.state["begun"] == ["old"]
    kinds = [type(tick) for tick in store.history("r")]
    assert kinds.index(DefinitionAdopted) == kinds.index(RunOpened) + 1
    (row,) = store.runs()
    assert row.hash == flow_of(word="new", number=2.0).definition.spec.hash


@pytest.mark.parametrize("way", ["define it again", "cancel", "cancel without the code"])
def test_r6_44_a_step_with_work_that_is_gone_is_named(any_place: str, open_store: Open, other: Start, way: str):
    """R6.44, R6.46, R1.47: the run is not touched and is listed as definition_changed, never as completed; a right
    definition, or a cancel, is the way out."""
    left(open_store(any_place))
    store = open_store(any_place)
    before = store.history("r")
    changed = flow_of(work=None).with_options(store=store)
    for _ in range(2):
        with pytest.raises(DefinitionChanged, match="Step work is gone and has work in run 'r'") as caught:
            changed.resume("r")
        assert caught.value.steps == ("work",)
    assert [row.status for row in store.runs()] == ["definition_changed"]
    assert [row.run_id for row in store.runs(status="definition_changed")] == ["r"]
    assert store.summary()["runs"] == {"definition_changed": 1}
    assert [repr(tick) for tick in store.history("r")] == [repr(tick) for tick in before]
    assert store.journal.holder("r").driver == ""
    assert [request.id for request in store.requests()] == ["r:1"]
    if way == "define it again":
        run = flow_of(word="mended").with_options(store=store).resume()  # the newest unfinished one
        wait_until(lambda: [row.status for row in store.runs()] == ["waiting"])
        run.answer(word="three")
        assert run.result(20) == "mended 5 1.0"
    elif way == "cancel":
        store.run("r").cancel("of no use").result(20)
    else:
        other(any_place, knows=False).do("store.run('r').cancel('of no use').result(20)")
    assert [row.status for row in store.runs()] == ["completed" if way == "define it again" else "cancelled"]


def test_r6_44_a_run_that_is_driven_elsewhere_is_not_marked(place: str, open_store: Open, other: Start):
    """R6.44, R5.7: this process only has a wrong definition; who drives it has the right one."""
    process, store = other(place), open_store(place)
    process.do("run = Asks().with_options(store=store).run(run_id='r')")
    process.wait("run.status == 'waiting'")
    wrong = Workflow[Any]("Asks")
    wrong._key = "tests.stored.flows:Asks"  # of the same module

    @wrong.step
    async def something_else(ev: StartEvent) -> StopEvent:
        return StopEvent()

    with pytest.raises((DefinitionChanged, RunOwnedElsewhere)):
        wrong.with_options(store=store).resume("r")
    assert [row.status for row in store.runs()] == ["waiting"]
    process.do("run.answer(ok=True)")
    assert process.give("run.result(20)") is True


def test_a_step_that_moved_gets_its_own_work(place: str, open_store: Open):
    """R2.23, R6.44: steps are known by name; also a run that is only opened to be cancelled starts no wrong one."""
    left(open_store(place))
    store = open_store(place)
    flow = Workflow[Any]("changes")

    @flow.step
    async def first(ev: Reply) -> StopEvent:
        return StopEvent(result=f"first {ev.word}")

    @flow.step
    async def begin(ev: StartEvent) -> Item:
        return Item(no=1)

    @flow.step
    async def work(ev: Item, ctx: Context) -> StopEvent:
        return StopEvent(result=f"moved {(await ctx.ask(Question(no=ev.no))).word}")

    run = flow.with_options(store=store).resume("r")
    wait_until(lambda: run.status == "waiting")
    run.answer(word="on")
    assert run.result(20) == "moved on"


def test_a_run_is_not_driven_by_another_workflow(place: str, open_store: Open, other: Start):
    """R5.2: nor by a process that has none of its name; it can be looked at there."""
    left(open_store(place))
    process = other(place)
    assert process.give("store.run('r').status") == "suspended"
    with pytest.raises(Exception, match=r"WorkflowNotDefined: .*'changes'"):
        process.do("resume('r', store=store)")
    with pytest.raises(Exception, match="WorkflowNotDefined"):
        process.do("store.drive('r')")
    assert issubclass(WorkflowNotDefined, LookupError)


class Gone(Event):
    x: int = 1


def test_r6_14_an_event_without_its_class_is_shown_raw_and_refused_on_delivery(
    any_place: str, open_store: Open, other: Start
):
    """R6.14, R2.24: never guessed; where the class is, it is itself again."""
    process, store = other(any_place), open_store(any_place)
    code = """
class Begins(StartEvent):
    pass
class Only(Event):
    x: int
class Verdict2(HumanResponseEvent):
    ok: bool
class Asking(InputRequiredEvent[Verdict2]):
    pass
def made(knows=True):
    flow = Workflow("unknowns")
    async def begin(ev: Begins, ctx: Context) -> Asking | Only:
        ctx.send_event(Only(x=7))
        return Asking()
    flow.step(begin)
    async def hold(ev: Only, ctx: Context) -> None:
        await ctx.ask("Hold?", bool)
    flow.step(hold)
    async def end(ev: Verdict2) -> StopEvent:
        return StopEvent(result="end")
    flow.step(end)
    return flow
"""
    process.do(code)
    process.do("run = made().with_options(store=store).run(run_id='r')")
    process.wait("len(run.requests) == 2")
    process.kill()
    looked_at = store.run("r")
    finished = next(tick for tick in looked_at.debug.ticks if type(tick).__name__ == "EventsSent")
    (out,) = finished.outs
    assert isinstance(out.value, UnknownEvent)
    assert out.value.data == {"x": 7}
    assert newest("__main__:Only") is None
    words = next(r for r in looked_at.requests if r.step == "hold")
    words.answer(True)
    flow = Workflow[Any]("unknowns", accepts=[Gone, Reply])

    @flow.step
    async def begin(ev: StartEvent) -> StopEvent:
        return StopEvent()

    ran: list[Any] = []

    @flow.step
    async def hold(ev: Gone) -> None:
        ran.append(ev)

    @flow.step
    async def end(ev: Reply) -> StopEvent:
        return StopEvent()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = flow.with_options(store=store).resume("r")
        with pytest.raises(EventOutdated, match="Only"):
            run.result(20)
    assert ran == []
    assert run.status == "failed"
