"""What a step's code tells without being run."""

import functools
from collections.abc import Callable
from typing import Any

from flownb import Context, Event, StartEvent, StopEvent
from flownb.definition.code import attributes_of, collected_by, mentions, source_hash
from tests.definition.checks import fine


class Begin(StartEvent):
    pass


def plain(ev: Begin, ctx: Context) -> StopEvent:
    return StopEvent(result=ctx.run_id)


def inside(ev: Begin, ctx: Context) -> StopEvent:
    async def ask() -> None:
        await ctx.ask("Go on?", bool)
        await ctx.wait_for_event(Event)  # type: ignore[attr-defined]

    ev.ctx = ctx  # type: ignore[attr-defined]
    both = (ev, ctx.state)
    return StopEvent(result=(ask, both, [ctx.progress(n) for n in range(3)]))


def test_questions_and_waits_are_seen_in_inner_functions_too():
    """R2.14: a step that can wait may be sent to by name; not one that has no context."""

    def without(ev: Begin) -> StopEvent:
        return StopEvent(result=ev.ask or ev.wait_for_event)  # type: ignore[attr-defined]

    steps = fine(plain, inside, without).definition.spec.steps
    assert [(step.asks, step.waits) for step in steps] == [(False, False), (True, True), (False, False)]


def test_attributes_of_a_parameter_are_those_read_off_it():
    assert attributes_of(plain, "ctx") == {"run_id"}
    assert attributes_of(inside, "ctx") == {"ask", "wait_for_event", "state", "progress"}
    assert attributes_of(inside, "nothing") == set()


def test_code_is_looked_for_below_decorators():
    @functools.wraps(inside)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return inside(*args, **kwargs)

    assert mentions(wrapped, "ask")
    assert not mentions(plain, "ask")
    assert not mentions(len, "ask")


def test_a_collect_is_read_from_the_source_if_there_is_one():
    def gather(ev: Event, ctx: Any) -> None:
        ctx.collect_events(ev, [Begin, unknown.Thing, StopEvent, type(ev)])  # type: ignore[name-defined] # noqa: F821

    assert collected_by(gather, "ev", {}) == [Begin, None, StopEvent, None]
    assert collected_by(gather, "other", {}) == []
    space: dict[str, Any] = {}
    exec("def unseen(ev, ctx): ctx.collect_events(ev, [int])", space)
    assert collected_by(space["unseen"], "ev", {}) == []


def test_code_without_source_is_hashed_by_its_bytes_and_constants():
    """R1.43."""

    def made(source: str) -> Callable[..., Any]:
        space: dict[str, Any] = {}
        exec(source, space)
        fn: Callable[..., Any] = space["f"]
        return fn

    one = source_hash(made("def f(): return [1 for _ in range(3)]"))
    assert one == source_hash(made("def f():\n\n    return [1 for _ in range(3)]"))
    assert one != source_hash(made("def f(): return [2 for _ in range(3)]"))
    assert source_hash(len) == source_hash(len)
