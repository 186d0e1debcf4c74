"""The public names: each is where it is said to be. What they do is tested where it lives."""

from __future__ import annotations

import asyncio
import importlib
from typing import Literal

import pytest

import flownb
from flownb import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    Run,
    StartEvent,
    StopEvent,
    Store,
    Workflow,
)
from flownb.debug.debugger import Debugger
from flownb.moment import Moment
from flownb.notebook.views import RunViews
from flownb.requests import Request, Requests
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_exponential
from flownb.state import State, StateStore
from flownb.testing import ManualClock

SHORT = """
    Workflow step catch_error on_cancel Context Event StartEvent StopEvent InputRequiredEvent HumanResponseEvent Run
    Request Store Resource Take resume register_field options"""
FLAT = """StepFailedEvent RequestClosedEvent WorkflowTimedOutEvent WorkflowCancelledEvent WorkflowFailedEvent
    WorkflowIdleEvent UnhandledEvent StepStateChanged ProgressEvent WorkflowError WorkflowValidationError
    WorkflowConfigurationError WorkflowRuntimeError WorkflowTimeoutError WorkflowCancelledByUser
    WorkflowStepDoesNotExistError WorkflowDone ContextSerdeError ContextStateError"""
ERRORS = """WorkflowStalled Livelock RunConflict RunNotFound NonDeterministic DefinitionChanged WorkflowNotDefined
    RequestError AlreadyAnswered RequestClosed RequestDisposed AmbiguousAnswer NobodyToAnswer TokenTaken AnswerTimeout
    EventOutdated MailboxFull JoinIncomplete StepLost NoRetry EngineLost AttemptOver"""
POLICIES = """retry_policy RetryPolicy RetryInfo retry_if_exception_type retry_if_not_exception_type
    retry_if_exception_message retry_any retry_all wait_fixed wait_exponential wait_exponential_jitter wait_random
    wait_chain wait_combine wait_from stop_after_attempt stop_after_delay stop_before_delay stop_any stop_all"""


def words(text: str) -> list[str]:
    return text.split()


def test_the_short_list_is_what_tab_shows():
    assert set(words(SHORT)) <= set(dir(flownb))
    assert set(flownb.__all__) == set(words(SHORT))
    for name in words(SHORT):
        assert getattr(flownb, name) is not None


@pytest.mark.parametrize("name", words(FLAT) + words(ERRORS))
def test_every_event_and_error_is_importable_flat(name: str):
    assert isinstance(getattr(flownb, name), type)


@pytest.mark.parametrize("name", ["enable_fast_lane", "disable_fast_lane"])
def test_what_opens_and_closes_the_fast_lane_is_importable_flat(name: str):
    assert callable(getattr(flownb, name))


@pytest.mark.parametrize("name", words(POLICIES))
def test_the_words_of_retry_policies(name: str):
    assert callable(getattr(importlib.import_module("flownb.retry_policy"), name))


def test_the_module_of_policies_is_not_shadowed():
    """`import flownb.retry_policy as rp` gives the module, whatever was imported before."""
    assert flownb.retry_policy is importlib.import_module("flownb.retry_policy")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "module",
    words("events errors retry_policy resource collect context decorators handler workflow testing"),
)
def test_ported_import_lines_find_their_module(module: str):
    assert importlib.import_module(f"flownb.{module}")


def test_handlers_and_collect_keep_their_names():
    from flownb.collect import Collect, Take
    from flownb.handler import WorkflowHandler
    from flownb.testing import ManualClock, WorkflowTestRunner

    assert WorkflowHandler is Run and Collect(Take(2)) is not None and ManualClock and WorkflowTestRunner


MEMBERS = [
    (Workflow, "run debug with_options resume validate step catch_error on_cancel view breakpoints"),
    (
        Context,
        """run_id step_name state store ask request wait_for_event sleep sleep_until run first send_event
        write_event_to_stream collect_events progress once now uuid random hold attempt task_key retry_info to_dict
        from_dict is_running running_steps""",
    ),
    (State, "get set clear edit"),
    (StateStore, "get set get_state set_state edit_state clear"),
    (Request, "id step question answer_type status opened_at deadline value by token answer dispose hold form"),
    (Requests, "all of answer __len__ __iter__ __getitem__"),
    (
        Run,
        """run_id workflow status error __await__ result is_done get_stop_event state now requests answer pause cont
        cancel suspend hold_open cancel_run stream_events stream send_event ctx adopt children logs why snapshot debug
        view""",
    ),
    (Moment, "seq tick state queued running waiting requests inbox paused_by diff steps told admitted causes effects"),
    (
        Debugger,
        """step over out run_to settle breakpoints ticks at diff story probe inbox edit drop admit fire fork retry
        replay replayed divergence compare tree to_test""",
    ),
    (RunViews, "__call__ graph stepper timeline ticks to_html"),
    (Store, "runs history"),
]


@pytest.mark.parametrize(("kind", "names"), MEMBERS, ids=lambda value: getattr(value, "__name__", ""))
def test_what_people_hold_has_its_names(kind: type, names: str):
    made = {"name", "steps"} if kind is Workflow else set()
    missing = [name for name in words(names) if not hasattr(kind, name) and name not in made]
    assert missing == []


def test_settings_of_a_launch():
    flow = Workflow("settings")
    names = words(
        """store timeout state answers answers_if input_handler on_nobody executors host on_interrupt panel clock
        on_request"""
    )
    for name in names:
        assert flow.with_options(**{name: None}) is not None


class Rows(StartEvent):
    amounts: list[float]


class Row(Event):
    no: int
    amount: float


class Verdict(HumanResponseEvent):
    decision: Literal["approve", "reject"]


class Approve(InputRequiredEvent[Verdict]):
    no: int
    amount: float


class Done(Event):
    no: int
    decision: str


class Report(StopEvent):
    decided: dict[int, str]


def test_the_opening_example():
    """A batch of approvals: one is answered in code, one by its deadline; then a run is stepped to a step."""
    flow = Workflow[Report]("approvals")

    @flow.step
    def split(ev: Rows) -> list[Row]:
        return [Row(no=i, amount=a) for i, a in enumerate(ev.amounts)]

    @flow.step(retry_policy=retry_policy(stop=stop_after_attempt(3), wait=wait_exponential(0.2)), timeout=30)
    def check(ev: Row) -> Approve | Done:
        if ev.amount < 100:
            return Done(no=ev.no, decision="approve")
        return Approve(no=ev.no, amount=ev.amount).with_deadline(120, default=Verdict(decision="reject"))

    @flow.step
    def note(ev: Verdict, ctx: Context) -> Done:
        return Done(no=ctx.request(Approve).question.no, decision=ev.decision)

    @flow.step
    def total(ev: list[Done]) -> Report:
        return Report(decided={d.no: d.decision for d in ev})

    async def main() -> None:
        clock = ManualClock()
        run = flow.with_options(clock=clock).run(amounts=[50, 150, 900])
        while len(run.requests) < 2:
            await asyncio.sleep(0.001)
        for r in run.requests.of(Approve):
            if r.question.amount < 200:
                r.answer(decision="approve", by="ann")
        clock.advance(120)
        assert (await run).decided == {0: "approve", 1: "approve", 2: "reject"}
        assert [(r.status, r.by) for r in run.requests.all()] == [("answered", "ann"), ("default", "")]

        run = flow.debug(amounts=[150])
        await run.debug.run_to(request=True)
        run.answer(decision="reject")
        there = await run.debug.run_to(step=note)
        assert list(there.running) == ["note"] and run.status == "paused"
        assert run.debug.at(4).state == {}
        run.cont()
        assert (await run).decided == {0: "reject"}

    asyncio.run(main())
