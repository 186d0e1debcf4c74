"""The options of steps: what is kept of them, and what cannot be honoured (R8.13)."""

from typing import Any

import pytest

from flownb import Context, Event, StartEvent, StopEvent, Workflow, step
from flownb.definition.options import StepOptions
from flownb.errors import WorkflowConfigurationError
from flownb.retry_policy import retry_policy, stop_after_attempt
from tests.definition.checks import faults_in


class Begin(StartEvent):
    pass


class Base(Event):
    pass


class Below(Base):
    pass


def only(ev: Begin) -> StopEvent:
    return StopEvent()


async def runs_on_the_loop(ev: Begin) -> StopEvent:
    return StopEvent()


class Child(Workflow[None]):
    @step
    def only(self, ev: Begin) -> StopEvent:
        return StopEvent()


def with_options(fn: Any = only, **options: Any) -> Workflow[Any]:
    flow = Workflow[Any]("options")
    flow.step(**options)(fn)
    return flow


def test_every_option_of_a_step_is_kept():
    """R3.1, R3.3, R3.4."""
    policy = retry_policy(stop=stop_after_attempt(2))
    cells = Workflow[Any]("cells")
    given = {
        "num_workers": None,
        "retry_policy": policy,
        "timeout": 2.5,
        "on_error": "fail",
        "executor": "gpu",
        "idempotent": False,
        "sends": "on_success",
        "rate": 5,
        "runs": [Child, cells],
        "skip_graph_checks": ["join"],
        "accept_event_subclasses": False,
    }
    flow = with_options(**given)
    kept = flow.steps["only"].options
    runs = (f"{__name__}:Child", f"{__name__}:cells")
    assert {name: getattr(kept, name) for name in given} == given | {"runs": runs, "skip_graph_checks": ("join",)}
    spec = flow.definition.spec.steps[0]
    assert (spec.num_workers, spec.on_error, spec.idempotent, spec.rate) == (None, "fail", False, 5)
    assert (spec.runs, spec.exact) == (runs, True)


def test_a_step_without_options_has_the_defaults():
    """R3.1, R3.24."""
    kept = with_options().steps["only"].options
    assert kept == StepOptions(cell=kept.cell, local=kept.local)
    assert (kept.num_workers, kept.retry_policy, kept.timeout, kept.on_error) == (4, None, None, None)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"num_workers": 2.5}, "num_workers is 2.5; give a whole number, or None for no limit."),
    ({"num_workers": True}, "num_workers is True; give a whole number, or None for no limit."),
    ({"timeout": 0}, "timeout is 0; give seconds, a number above 0, or None for no limit."),
    ({"timeout": -1.5}, "timeout is -1.5; give seconds, a number above 0, or None for no limit."),
    ({"timeout": "5"}, "timeout is '5'; give seconds, a number above 0, or None for no limit."),
    ({"timeout": float("inf")}, "timeout is inf; give seconds, a number above 0, or None for no limit."),
    ({"timeout": float("nan")}, "timeout is nan; give seconds, a number above 0, or None for no limit."),
    ({"rate": 0}, "rate is 0; give starts a second, a number above 0, or None for no limit."),
    ({"rate": True}, "rate is True; give starts a second, a number above 0, or None for no limit."),
    ({"idempotent": "no"}, "idempotent is 'no'; give True or False."),
    ({"accept_event_subclasses": 1}, "accept_event_subclasses is 1; give True or False."),
    (
        {"retry_policy": 3},
        "retry_policy is 3, which has no `next`; give `retry_policy(retry=..., wait=..., stop=...)`.",
    ),
    ({"retry_policy": retry_policy}, "retry_policy is the class retry_policy; make one: retry_policy(...)."),
    (
        {"retry_policy": stop_after_attempt(3)},
        "retry_policy is stop_after_attempt(3), which has no `next`; "
        "give `retry_policy(retry=..., wait=..., stop=...)`.",
    ),
    ({"executor": ""}, "executor is ''; name a slot, and fill it with `with_options(executors={name: executor})`."),
    ({"executor": 5}, "executor is 5; name a slot, and fill it with `with_options(executors={name: executor})`."),
]


@pytest.mark.parametrize(("options", "fault"), WRONG, ids=[str(options) for options, _ in WRONG])
def test_a_value_that_cannot_be_honoured_is_a_fault_in_words(options: dict[str, Any], fault: str):
    """R8.13."""
    assert faults_in(with_options(**options)) == [f"step 'only': {fault}"]


def test_an_executor_for_a_step_on_the_loop_is_a_fault():
    """R8.13, R3.11."""
    for slot in ("thread", "processes", "gpu"):
        assert faults_in(with_options(runs_on_the_loop, executor=slot)) == [
            f"step 'runs_on_the_loop': executor={slot!r} cannot be honoured: an `async def` runs on the loop. "
            "Write the step with `def`."
        ]


def test_all_settings_of_a_step_are_told_at_once():
    """R8.1, R8.13."""
    assert len(faults_in(with_options(runs_on_the_loop, timeout=0, rate=-1, num_workers=0, executor="x"))) == 4


def test_a_step_in_another_process_has_little_of_its_context():
    """R8.13: what it has there is no fault."""

    def far(ev: Begin, ctx: Context) -> StopEvent:
        ctx.progress(1, 2)
        print(ctx.run_id, ctx.step_name, ctx.attempt, ctx.task_key, ctx.retry_info())  # type: ignore[attr-defined]
        ev.state = ev.get("ask")  # type: ignore[attr-defined]
        return StopEvent()

    with_options(far, executor="processes").validate()

    def farther(ev: Begin, ctx: Context) -> StopEvent:
        def inner() -> None:
            ctx.send_event(ev)

        inner()
        ctx.state.set("a", ctx.run_id)
        return StopEvent()

    assert faults_in(with_options(farther, executor="processes")) == [
        "step 'farther' runs in another process, where ctx.send_event, ctx.state cannot be honoured: its context has "
        "only attempt, progress, retry_info, run_id, step_name, task_key. Do the rest in a step of this process."
    ]
    with_options(farther, executor="gpu").validate()
    with_options(farther).validate()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on_error": "contine"}, "@step: on_error='contine' is not one of fail, continue"),
        ({"sends": "later"}, "@step: sends='later' is not one of at_once, on_success"),
        ({"retries": 3}, "@step has no option 'retries'. It has num_workers, retry_policy"),
        ({"retry": 3}, "@step has no option 'retry'"),
        ({"runs": "Child"}, "@step: runs names 'Child', which is neither a workflow nor its class"),
        ({"runs": [Child, Workflow]}, r"runs names <class 'flownb\.workflow\.Workflow'>, which is neither"),
    ],
)
def test_words_that_there_are_not_are_refused_where_they_stand(options: dict[str, Any], said: str):
    with pytest.raises(WorkflowConfigurationError, match=said):
        with_options(**options)
    with pytest.raises(WorkflowConfigurationError, match=said):
        step(**options)(only)


def test_a_step_may_take_exactly_the_types_that_it_names():
    """R2.8; API §4: `accept_event_subclasses=False`, also for a class that no hint names."""
    from flownb.core.spec import takers

    class Unknown(Base):
        pass

    flow = Workflow[Any]("exact")

    @flow.step
    def begin(ev: Begin) -> Base | Below: ...  # type: ignore[empty-body]

    @flow.step(accept_event_subclasses=False)
    def exact(ev: Base) -> StopEvent: ...  # type: ignore[empty-body]

    @flow.step
    def wide(ev: Base) -> None: ...

    @flow.step
    def below(ev: Below) -> None: ...

    with pytest.warns(UserWarning, match="step 'wide' takes Base and step 'below' its subclass Below"):
        spec = flow.definition.spec
    names = [step.name for step in spec.steps]

    def taking(cls: type[Event]) -> list[str]:
        key, role, bases = cls.__flownb_kind__
        return [names[i] for i in takers(spec, key, role, bases)]

    assert (taking(Base), taking(Below), taking(Unknown)) == (["exact", "wide"], ["wide", "below"], ["wide"])


def test_a_base_and_a_subclass_step_warn_that_both_run():
    """R2.8, API §3; not for a step that takes every event, nor where one check is left out."""

    def made(hint: type[Event], **options: Any) -> Workflow[Any]:
        flow = Workflow[Any]("both")

        @flow.step
        def begin(ev: Begin) -> Below: ...  # type: ignore[empty-body]

        def base(ev: Any) -> None: ...

        base.__annotations__["ev"] = hint
        flow.step(**options)(base)

        @flow.step
        def below(ev: Below) -> StopEvent: ...  # type: ignore[empty-body]

        return flow

    with pytest.warns(
        UserWarning,
        match=r"Workflow 'both': step 'base' takes Base and step 'below' its subclass Below: each Below goes to both\. "
        r"If that is not meant, give 'base' accept_event_subclasses=False\.",
    ):
        made(Base).validate()
    made(Base, skip_graph_checks=["subclasses"]).validate()
    made(Event).validate()


def test_the_definitions_hash_covers_the_options():
    """R1.44: the same in every process; neither the cell nor an address counts."""

    class Own:
        def next(self, elapsed: float, attempts: int, error: BaseException) -> None: ...

    class Rude(Own):
        def __repr__(self) -> str:
            raise RuntimeError("no")

    options: list[dict[str, Any]] = [
        {},
        {"num_workers": 2},
        {"retry_policy": retry_policy()},
        {"retry_policy": retry_policy(stop=stop_after_attempt(5))},
        {"retry_policy": Own()},
        {"retry_policy": Rude()},
        {"timeout": 3},
        {"on_error": "fail"},
        {"executor": "gpu"},
        {"idempotent": False},
        {"sends": "on_success"},
        {"rate": 2},
        {"runs": Child},
        {"accept_event_subclasses": False},
    ]
    hashes = [with_options(**each).definition.spec.hash for each in options]
    assert len(set(hashes)) == len(options)
    assert hashes == [with_options(**each).definition.spec.hash for each in options]
    assert with_options(retry_policy=Own()).definition.spec.hash == hashes[4]
