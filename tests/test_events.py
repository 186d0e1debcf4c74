"""Events: pydantic models with undeclared fields, keys, roles and newest classes."""

import copy
import datetime as dt
import pickle
from typing import Any, Generic, TypeVar

import pytest
from pydantic import ValidationError

import flownb
from flownb import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow
from flownb import events as ev
from flownb.events import answer_of, bases_of, deadline_at, fields_of, key_of, newest, role_of


class Row(Event):
    no: int


class Wide(Row):
    more: str = "x"


class Named(Event):
    """Fields with the names of what pydantic models, dicts and our engine have."""

    copy: str
    json: int
    status: str
    id: str
    type: str
    items: list[str]
    values: int
    keys: int
    get: int
    dict: int = 0
    name: str = ""
    to_dict: str = ""


NAMES = {
    "copy": "c",
    "json": 1,
    "status": "open",
    "id": "7",
    "type": "t",
    "items": ["a"],
    "values": 2,
    "keys": 3,
    "get": 4,
}


class Verdict(HumanResponseEvent):
    ok: bool


A = TypeVar("A", bound=HumanResponseEvent)


class Ask(InputRequiredEvent[A], Generic[A]):
    pass


class AskVerdict(Ask[Verdict]):
    pass


def test_undeclared_fields_are_kept_and_read_as_attributes_and_items():
    """R2.2."""
    event = Row(no=1, colour="red", items=[2])
    assert (event.colour, event["colour"], event["no"], event["items"]) == ("red", "red", 1, [2])
    assert event.keys() == ["colour", "items"]
    assert event.values() == ["red", [2]]
    assert event.get("colour") == "red"
    assert event.get("size", "big") == "big"
    assert "colour" in event
    assert "no" in event
    assert "size" not in event
    assert event.to_dict() == {"no": 1, "colour": "red", "items": [2]}
    with pytest.raises(KeyError, match="size"):
        event["size"]
    with pytest.raises(AttributeError):
        event.size


def test_undeclared_fields_survive_copies_pickles_and_json():
    event = Row(no=1, colour="red")
    for back in (
        copy.deepcopy(event),
        pickle.loads(pickle.dumps(event)),
        Row.model_validate_json(event.model_dump_json()),
        Row.model_validate(event.model_dump()),
    ):
        assert back == event
        assert back.colour == "red"


def test_declared_fields_may_have_any_name(recwarn: pytest.WarningsRecorder):
    """C015: the user's field wins, without a warning."""
    event = Named(**NAMES)
    assert {name: getattr(event, name) for name in NAMES} == NAMES
    assert {name: event[name] for name in NAMES} == NAMES
    assert len(recwarn) == 0


def test_events_with_such_names_run_through_a_workflow():
    flow = Workflow[Any]("names")

    class End(StopEvent):
        copy: str
        json: int

    @flow.step
    async def make(event: StartEvent) -> Named:
        return Named(**NAMES)

    @flow.step
    def end(event: Named) -> End:
        event.items.append("b")
        return End(copy=event.copy, json=event.json)

    run = flow.run()
    assert (run.result(20).copy, run.result(20).json) == ("c", 1)
    made = run.debug.ticks[1].outs[0].value
    assert {name: getattr(made, name) for name in NAMES} == NAMES


def test_validation_is_pydantics():
    with pytest.raises(ValidationError):
        Row(no="x")
    assert Row(no="3").no == 3


@pytest.mark.parametrize(
    ("cls", "role"),
    [
        (Event, "event"),
        (Row, "event"),
        (StartEvent, "start"),
        (StopEvent, "stop"),
        (Verdict, "answer"),
        (AskVerdict, "request"),
        (Ask[Verdict], "request"),
        (ev.StepFailedEvent, "failure"),
        (ev.RequestClosedEvent, "closed"),
        (ev.UnhandledEvent, "engine"),
        (ev.ProgressEvent, "engine"),
    ],
)
def test_roles(cls: type[Event], role: str):
    assert role_of(cls) == role
    assert cls.__flownb_kind__.role == role


def test_a_users_class_with_the_name_of_one_of_ours_is_an_ordinary_event():
    local: dict[str, Any] = {"Event": Event, "__name__": __name__}
    exec("class StopEvent(Event): pass", local)
    assert role_of(local["StopEvent"]) == "event"


def test_keys_are_module_and_qualname():
    """R1.37."""
    assert key_of(Row) == f"{__name__}:Row"
    assert key_of(Ask[Verdict]) == f"{__name__}:Ask"
    assert bases_of(Wide) == (f"{__name__}:Row", "flownb.events:Event")
    assert bases_of(AskVerdict) == (f"{__name__}:Ask", "flownb.events:InputRequiredEvent", "flownb.events:Event")


def test_the_newest_class_of_a_key_counts_but_not_a_local_one():
    """R1.38."""
    space: dict[str, Any] = {"Event": Event, "__name__": "some_notebook"}
    exec("class Ping(Event): a: int", space)
    first = space["Ping"]
    exec("class Ping(Event): b: int", space)
    assert newest("some_notebook:Ping") is space["Ping"] is not first

    class Local(Event):
        pass

    assert newest(key_of(Local)) is None


@pytest.mark.parametrize(
    ("cls", "answer"),
    [
        (InputRequiredEvent, None),
        (AskVerdict, Verdict),
        (Ask, None),
        (Ask[Verdict], Verdict),
        (InputRequiredEvent[bool], bool),
        (ev.Question, None),
    ],
)
def test_the_answers_type_is_found_by_walking_the_bases(cls: Any, answer: Any):
    assert answer_of(cls) is answer


def test_a_deadline_is_seconds_a_timedelta_or_an_aware_moment():
    assert deadline_at(5, 100.0) == 105.0
    assert deadline_at(dt.timedelta(minutes=2), 100.0) == 220.0
    moment = dt.datetime(2026, 12, 24, 18, 0, tzinfo=dt.UTC)
    assert deadline_at(moment, 100.0) == moment.timestamp()
    with pytest.raises(ValueError, match="has no time zone"):
        AskVerdict().with_deadline(dt.datetime(2030, 1, 1))


def test_a_question_with_a_deadline_is_another_object_of_the_same_fields():
    question = AskVerdict(note="x")
    limited = question.with_deadline(60, default=Verdict(ok=False))
    assert limited.model_dump() == question.model_dump()
    assert type(limited) is AskVerdict
    assert (question._deadline, limited._deadline) == (None, (60.0, Verdict(ok=False)))


def test_fields_of_an_event():
    assert list(fields_of(Wide(no=1, colour="red"))) == [("no", 1), ("more", "x"), ("colour", "red")]


def test_everything_is_importable_flat_and_star_gives_the_short_list():
    """API §1, §2."""
    names = {name for name in vars(ev) if isinstance(vars(ev)[name], type) and issubclass(vars(ev)[name], Event)}
    assert {"StepFailedEvent", "RequestClosedEvent", "WorkflowIdleEvent", "Question"} <= names
    for name in names:
        assert getattr(flownb, name) is getattr(ev, name)
    space: dict[str, Any] = {}
    exec("from flownb import *", space)
    short = {
        *("Workflow", "step", "Context", "Event", "StartEvent", "StopEvent", "InputRequiredEvent"),
        *("HumanResponseEvent", "Run", "Request", "Store", "options"),
    }
    assert short <= set(space)
    assert set(dir(flownb)) == set(flownb.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        flownb.Nonsense
