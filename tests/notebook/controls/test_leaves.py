"""Times and moments, chips, secrets, and controls of a user's own."""

import datetime
from collections.abc import Iterator
from typing import Any, Literal
from zoneinfo import ZoneInfo

import ipywidgets
import pytest
from pydantic import AwareDatetime, BaseModel, NaiveDatetime, SecretStr

from flownb import register_field
from flownb.forms import registry
from flownb.notebook.controls.inputs import ChipsInput, SecretInput
from tests.notebook.controls.formed import formed, model_of

UTC = datetime.UTC


class Colour(str):
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler(str)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(registry._builders)
    yield
    registry._builders.clear()
    registry._builders.update(before)


def moment(hour: int, zone: Any = None) -> datetime.datetime:
    return datetime.datetime(2026, 7, 1, hour, 30, tzinfo=zone)


def test_a_moment_asks_for_its_zone_where_it_must_have_one() -> None:
    """And nowhere else; without it the person is told how zones are written."""
    with formed(model_of(when=AwareDatetime, plain=datetime.datetime, naive=NaiveDatetime)) as on:
        zones = [w for w in on.all() if isinstance(w, ipywidgets.Combobox)]
        assert len(zones) == 1
        for label in ("When", "Plain", "Naive"):
            on.control(label).value = moment(18)
        on.form.submit()
        assert on.errors(on.field("when").box) == ["Please give the time zone, such as +01:00 or Europe/Berlin."]
        zones[0].value = "Middle/Earth"
        on.form.submit()
        assert on.errors(on.field("when").box)[0].startswith("There is no time zone")
        zones[0].value = "Europe/Berlin"
        on.form.submit()
        (answer,) = on.sent
        assert (answer.when, answer.when.utcoffset()) == (moment(16, UTC), datetime.timedelta(hours=2))
        assert (answer.plain, answer.naive) == (moment(18), moment(18))


@pytest.mark.parametrize(
    ("default", "control"),
    [
        (moment(18), ipywidgets.NaiveDatetimePicker),
        (moment(18, UTC), ipywidgets.NaiveDatetimePicker),
        (moment(18, ZoneInfo("Europe/Berlin")), ipywidgets.NaiveDatetimePicker),
        (moment(18).replace(second=5), ipywidgets.NaiveDatetimePicker),
        (moment(18, UTC).replace(microsecond=5), ipywidgets.Text),
        (datetime.time(18, 30), ipywidgets.TimePicker),
        (datetime.time(18, 30, 5), ipywidgets.TimePicker),
        (datetime.time(18, 30, 5, 7), ipywidgets.Text),
        (datetime.time(18, 30, tzinfo=UTC), ipywidgets.Text),
        (datetime.date(2026, 7, 1), ipywidgets.DatePicker),
    ],
    ids=str,
)
def test_a_default_is_kept_exactly(default: Any, control: type) -> None:
    """Its zone and its fractions too: what the browser's own control cannot hold is a text."""
    model: Any = type("Answer", (BaseModel,), {"__annotations__": {"x": type(default)}, "x": default})
    with formed(model) as on:
        assert type(on.control("X")) is control
        on.form.submit()
        assert (on.sent[0].x, on.sent[0].x.isoformat()) == (default, default.isoformat())


def test_chips_are_read_one_by_one() -> None:
    """Numbers and choices too; what is wrong names its item."""
    with formed(model_of(ages=set[int], levels=list[Literal["low", "high"]])) as on:
        ages, levels = on.control("Ages"), on.control("Levels")
        assert isinstance(ages, ChipsInput) and levels.choices == ["low", "high"]
        ages.value, levels.value = ["3", "old"], ["high", "middle"]
        on.form.submit()
        assert on.errors(on.field("ages").box)[0].startswith("Item 2: Input should be a valid integer")
        assert on.errors(on.field("levels").box) == ["Item 2: Please choose one of those that are offered."]
        ages.value, levels.value = ["3", "5"], ["high"]
        on.form.submit()
        assert (on.sent[0].ages, on.sent[0].levels) == ({3, 5}, ["high"])


def test_a_secret_is_in_no_state_and_no_text() -> None:
    """It comes as a message; wrong messages are nothing; after the answer it is gone."""
    with formed(model_of(key=SecretStr)) as on:
        key = on.control("Key")
        assert isinstance(key, SecretInput)
        for content in ({"kind": "typed", "text": "hunter2"}, {"kind": "typed", "text": 5}, "x", {}):
            key._handle_custom_msg(content, [])
        assert (key.value, key.kept) == ("hunter2", True)
        assert "hunter2" not in repr(key.get_state()) + repr(key) + str(key)
        assert "hunter2" not in repr(on.form.values)
        on.form.submit()
        assert on.sent[0].key.get_secret_value() == "hunter2"
        on.form.answered("answered by ann")
        key._handle_custom_msg({"kind": "typed", "text": "late"}, [])
        assert (key.value, key.kept) == ("", False)


def test_json_that_holds_a_secret_is_masked_as_one() -> None:
    """It is in no state either, and the person is told what to write."""
    with formed(model_of(keys=dict[str, SecretStr])) as on:
        keys = on.control("Keys")
        assert isinstance(keys, SecretInput)
        keys._handle_custom_msg({"kind": "typed", "text": '{"a": "hunter2"}'}, [])
        assert "hunter2" not in repr([w.get_state() for w in on.all()]) + repr(on.form.values)
        assert 'JSON: {"…": string}'.replace('"', "&quot;") in on.field("keys")._words.value
        on.form.submit()
        assert on.sent[0].keys["a"].get_secret_value() == "hunter2"


def test_a_type_brings_its_own_control() -> None:
    """Its value is taken as it is; None is nothing chosen; the toggle of an optional works as ever."""

    def picker(field: Any, value: Any) -> Any:
        box = ipywidgets.Dropdown(options=["red", "blue"], value=value, description=field.label)
        box.tooltip = field.help
        return box

    register_field(Colour, picker)
    with formed(model_of(paint=Colour, line=Colour | None), draft={"line": "blue"}) as on:
        assert isinstance(on.control("Paint"), ipywidgets.Dropdown)
        assert (on.control("Line").value, on.toggle("line").value) == ("blue", True)
        on.form.submit()
        assert on.errors(on.field("paint").box) == ["Please fill this in."]
        on.control("Paint").value = "red"
        on.toggle("line").value = False
        assert on.form.values == {"paint": "red", "line": None}
        on.form.submit()
        assert (on.sent[0].paint, on.sent[0].line) == ("red", None)
        paint = on.control("Paint")
        on.form.answered("answered")
        assert (paint.disabled, paint.comm) == (True, None)


def test_a_control_of_several_widgets_for_a_model() -> None:
    """A model that would be a group can be one control; what is wrong inside it stands below it."""

    class Range(BaseModel):
        low: int
        high: int

    class Slider(ipywidgets.VBox):  # type: ignore[misc]
        def __init__(self, **kwargs: Any) -> None:
            self.slider = ipywidgets.IntRangeSlider(value=(1, 3))
            super().__init__([self.slider], **kwargs)
            self.add_traits(value=ipywidgets.widgets.trait_types.traitlets.Any())
            self.value = {"low": 1, "high": "x"}

    register_field(Range, lambda field, value: Slider())
    with formed(model_of(range=Range)) as on:
        on.form.submit()
        assert on.errors(on.field("range").box)[0].startswith("high: Input should be a valid integer")
        on.field("range")._control.widget.value = Range(low=2, high=4)
        on.form.submit()
        assert on.sent[0].range == Range(low=2, high=4)


def nothing(field: Any, value: Any) -> Any:
    raise RuntimeError("<b>no")


@pytest.mark.parametrize(
    ("builder", "reason"),
    [
        (nothing, "RuntimeError: &lt;b&gt;no"),
        (lambda field, value: 1.5, "it must give a widget with a value, got float."),
        (lambda field, value: ipywidgets.VBox(), "it must give a widget with a value, got VBox."),
    ],
    ids=["raises", "no widget", "no value"],
)
def test_a_builder_that_fails_leaves_the_question_answerable(builder: Any, reason: str) -> None:
    """The field is drawn as without it, and says why."""
    register_field(Colour, builder)
    with formed(model_of(paint=Colour)) as on:
        assert reason in on.field("paint")._words.value
        on.control("Paint").value = "red"
        on.form.submit()
        assert on.sent[0].paint == "red"
