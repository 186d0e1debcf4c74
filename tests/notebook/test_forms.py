"""A form asks once, says what is wrong at the field, keeps what was typed, and leaves nothing behind.

No kernel is needed: outside one, the `comm` package hands out comms that go nowhere.
"""

import datetime
import enum
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import ipywidgets
import pytest
from ipywidgets.widgets.widget import _instances as live
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, SecretStr, field_validator

from flownb.notebook.controls.inputs import ChipsInput, SecretInput
from flownb.notebook.forms import BUDGET, AnswerForm

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\n🐧\u202eabc"


class Species(enum.Enum):
    ADELIE = "Adelie"
    CHINSTRAP = "Chinstrap"
    GENTOO = "Gentoo"
    EMPEROR = "Emperor"
    KING = "King"


class Small(BaseModel):
    name: str
    rows: int = Field(3, ge=1, le=5, description="How many rows to keep")


class Verdict(BaseModel):
    model_config = ConfigDict(extra="allow")
    decision: Literal["approve", "reject", "edit"]
    amount: float = Field(120, ge=0, le=10_000, description="EUR")
    note: str | None = Field(None, description="For the record")
    due: datetime.date = datetime.date(2026, 12, 24)
    species: Species
    sure: bool = False
    remark: str = Field("", json_schema_extra={"widget": "textarea"})
    key: SecretStr | None = None
    tags: list[str] = []
    more: dict[str, int] = {}


class Point(BaseModel):
    name: str
    score: float = Field(0.5, ge=0, le=1)


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Everything(BaseModel):
    text: str = Field(description="A name", examples=["Ann"])
    long: str = Field("", json_schema_extra={"widget": "textarea"})
    key: SecretStr
    count: int = Field(ge=1, le=5)
    share: float = 0.5
    sure: bool = False
    decision: Literal["approve", "reject"]
    species: Species
    day: datetime.date
    at: datetime.time
    when: AwareDatetime
    tags: list[str] = []
    ages: Annotated[set[int], Field(max_length=3)] = set()
    points: list[Point] = Field(min_length=1)
    centre: Point
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    other: Point | None = None
    note: str | None = None
    more: dict[str, int] = {}


forms: list[AnswerForm] = []


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every test closes its forms, and then no widget, Layout or Style of theirs is registered any more."""
    before = set(live)
    yield
    for form in forms:
        form.close()
    forms.clear()
    assert set(live) == before


def form(answer: Any, **more: Any) -> tuple[AnswerForm, list[Any]]:
    """An open form, and the list of what it sent."""
    sent: list[Any] = []
    made = AnswerForm(answer, **{"title": "review", "on_send": sent.append, **more})
    forms.append(made)
    return made, sent


def inside(widget: Any) -> Iterator[Any]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from inside(child)


def control(asked: AnswerForm, label: str) -> Any:
    return next(w for w in inside(asked.box) if getattr(w, "description", None) in (label, f"{label} *"))


def toggle(asked: AnswerForm, label: str) -> Any:
    pairs = (w.children for w in inside(asked.box) if "fl-optional" in w._dom_classes)
    return next(pair[1] for pair in pairs if pair[0].description == label)


def button(asked: AnswerForm, name: str) -> Any:
    return next(w for w in inside(asked.box) if f"flownb-{name}" in w._dom_classes)


def words(asked: AnswerForm) -> str:
    """All HTML that the form shows."""
    return "\n".join(w.value for w in inside(asked.box) if isinstance(w, ipywidgets.HTML))


def error_of(asked: AnswerForm, label: str) -> str:
    """The HTML that stands in the field's own box."""
    for box in inside(asked.box):
        if "fl-field" in box._dom_classes and any(w is control(asked, label) for w in inside(box)):
            return "\n".join(w.value for w in inside(box) if isinstance(w, ipywidgets.HTML) and "alert" in w.value)
    raise LookupError(label)


def note(asked: AnswerForm) -> str:
    return next(w.value for w in inside(asked.box) if "fl-form-note" in w._dom_classes)


def answer_it(asked: AnswerForm) -> None:
    control(asked, "Decision").value = 0
    control(asked, "Species").value = 2


# ---- what is there


def test_a_form_keeps_the_budget_of_comms() -> None:
    """Layouts and Styles are shared: about 26 for two fields, below 60 for nine, whatever is asked never above 120."""
    before = len(live)
    form(Small, on_later=lambda: None)
    assert len(live) - before <= 26
    before = len(live)
    form(Verdict, on_later=lambda: None, payload=[("rows", "DataFrame 1 204 × 6")])
    assert len(live) - before <= 60
    before = len(live)
    form(Everything, on_later=lambda: None, prompt="long\nprompt")
    assert len(live) - before <= BUDGET


@pytest.mark.parametrize("count", [5, 12, 18, 28, 29, 43, 44, 60, 300])
@pytest.mark.parametrize("annotation", [int, str | None, Literal["a", "b"]])
def test_a_model_of_any_size_keeps_the_budget(count: int, annotation: Any) -> None:
    """Help becomes a tooltip first, then the whole answer is one JSON text."""
    names = {f"f{n}": annotation for n in range(count)}
    fields = {name: Field(description="help") for name in names}
    before = len(live)
    form(type("Many", (BaseModel,), {"__annotations__": names, **fields}), on_later=lambda: None)
    assert len(live) - before <= BUDGET


def test_help_that_has_no_room_is_a_tooltip() -> None:
    """A model of thirty fields has no place for thirty more widgets."""
    names = {f"f{n}": str for n in range(30)}
    asked, _ = form(type("Many", (BaseModel,), {"__annotations__": names, "f3": Field(description="the third")}))
    assert "the third" in words(asked)  # one help fits
    fields = {name: Field(description=f"help of {name}") for name in names}
    asked, _ = form(type("Many", (BaseModel,), {"__annotations__": names, **fields}))
    assert "help of" not in words(asked)
    assert control(asked, "F3").tooltip == "help of f3"


def test_a_model_with_too_many_fields_is_one_json_text() -> None:
    """It begins with the defaults, or with the draft of such a form or of the model."""
    names = {f"f{n}": int for n in range(50)}
    many = type("Many", (BaseModel,), {"__annotations__": names, **{name: n for n, name in enumerate(names)}})
    asked, sent = form(many, draft={"f0": 7})
    assert control(asked, "Answer").value == '{\n  "f0": 7\n}'
    again, _ = form(many, draft=asked.values)
    assert again.values == asked.values
    asked.submit()
    assert sent == [many(f0=7)]


def test_each_kind_has_its_control() -> None:
    """Up to four choices are radios, more a dropdown; a required choice begins empty."""
    asked, _ = form(Verdict)
    kinds = {label: type(control(asked, label)) for label in ("Decision", "Amount", "Note", "Due", "Species", "Sure")}
    assert kinds == {
        "Decision": ipywidgets.RadioButtons,
        "Amount": ipywidgets.FloatText,
        "Note": ipywidgets.Text,
        "Due": ipywidgets.DatePicker,
        "Species": ipywidgets.Dropdown,
        "Sure": ipywidgets.Checkbox,
    }
    assert type(control(asked, "Remark")) is ipywidgets.Textarea
    assert isinstance(control(asked, "Key"), SecretInput)
    assert isinstance(control(asked, "Tags"), ChipsInput)
    assert control(asked, "Decision").value is None
    assert control(asked, "Decision").description == "Decision *"
    assert control(asked, "Species").value is None
    assert "EUR · 0 to 10 000" in words(asked)


def test_the_head_says_who_asks_what_about_what_and_until_when() -> None:
    """Title, prompt, payload and note; a short prompt of a plain answer is its label instead."""
    asked, _ = form(Small, title="review (1 of 2)", prompt="Keep it?", payload=[("rows", "9")], note="in 0:52")
    for text in ("Needs you: review (1 of 2)", "Keep it?", '<th scope="row">rows</th><td>9</td>', "in 0:52"):
        assert text in words(asked)
    asked.set_note("in 0:51")
    assert "in 0:51" in words(asked)
    assert "in 0:52" not in words(asked)
    asked, _ = form(int, prompt="How many?")
    assert control(asked, "How many?").description == "How many? *"
    assert "How many?" not in words(asked)


def test_hostile_text_is_only_text() -> None:
    """Title, prompt, payload, note, help, errors and labels: escaped where a widget takes HTML, plain elsewhere."""

    class Hostile(BaseModel):
        x: str = Field(description=HOSTILE, title=HOSTILE)
        y: Literal["</script><b>", "$a$"] = Field(title="$x$ \\(y\\)")

        @field_validator("x")
        @classmethod
        def refuse(cls, x: str) -> str:
            raise ValueError(HOSTILE)

    asked, sent = form(
        Hostile, title=HOSTILE, prompt=HOSTILE, note=HOSTILE, payload=[(HOSTILE, HOSTILE)], draft={"x": HOSTILE}
    )
    asked.submit()
    asked.show_error(HOSTILE)
    assert "<img" not in words(asked)
    assert "</script" not in words(asked)
    assert words(asked).count("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;\n🐧") >= 7
    texts = [w for w in inside(asked.box) if isinstance(w, (ipywidgets.Text, ipywidgets.RadioButtons))]
    assert [w.description_allow_html for w in texts] == [False, True]  # the second would else be typeset as a formula
    assert texts[0].value == HOSTILE
    assert texts[1].description == ('<span class="mathjax_ignore">&#36;x&#36; &#92;&#40;y&#92;&#41; &#42;</span>')
    asked.answered(HOSTILE)
    assert "<img" not in words(asked)
    assert sent == []


# ---- what is sent


def test_an_answer_is_validated_and_sent_once() -> None:
    """A second click, also from another thread at the same moment, does nothing."""
    asked, sent = form(Verdict)
    answer_it(asked)
    threads = [threading.Thread(target=asked.submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    button(asked, "send").click()

    expected = Verdict(decision="approve", species=Species.GENTOO)
    assert sent == [expected]
    assert sent[0].model_extra == {}
    assert button(asked, "send").disabled
    assert "Sending" in note(asked)


def test_the_send_button_and_later_do_what_they_say() -> None:
    """Later sends nothing; a form that nobody can put off has no such button."""
    put_off: list[str] = []
    asked, sent = form(bool, on_later=lambda: put_off.append("later"))
    button(asked, "later").click()
    assert (put_off, sent) == (["later"], [])
    control(asked, "Answer").value = 1
    button(asked, "send").click()
    button(asked, "later").click()
    assert (put_off, sent) == (["later"], [False])
    with pytest.raises(StopIteration):
        button(form(bool)[0], "later")


@pytest.mark.parametrize(
    ("answer", "typed", "value"),
    [
        (str, "ü", "ü"),
        (int, " 12 ", 12),
        (float, "0.5", 0.5),
        (bool, 0, True),
        (Literal["drop", "keep"], 1, "keep"),
        (Species, 4, Species.KING),
        (datetime.date, datetime.date(2026, 1, 2), datetime.date(2026, 1, 2)),
        (datetime.datetime, datetime.datetime(2026, 12, 24, 18, 30), datetime.datetime(2026, 12, 24, 18, 30)),
        (datetime.time, datetime.time(18, 30), datetime.time(18, 30)),
        (Annotated[list[int], Field(min_length=1)], ["1", "2"], [1, 2]),
        (int | str, "7", 7),
        (int | str, "seven", "seven"),
        (dict[str, int], '{"a": 1}', {"a": 1}),
    ],
)
def test_a_plain_answer_is_the_plain_value(answer: Any, typed: Any, value: Any) -> None:
    """One field labelled by the prompt; nothing typed is an error at it."""
    asked, sent = form(answer, prompt="Which?")
    asked.submit()
    assert sent == []
    assert "alert" in error_of(asked, "Which?")
    control(asked, "Which?").value = typed
    asked.submit()
    assert sent == [value]
    assert type(sent[0]) is type(value)


def test_fields_named_like_attributes_of_a_model_can_be_answered() -> None:
    """Values go by name into the model, never through attributes."""
    with pytest.warns(UserWarning, match="shadows"):
        shadow = type("Shadow", (BaseModel,), {"__annotations__": {"json": str, "copy": int}, "copy": 2})
    asked, sent = form(shadow)
    control(asked, "Json").value = "x"
    asked.submit()
    assert sent[0].__dict__ == {"json": "x", "copy": 2}


# ---- None is not ""


def test_optional_is_set_by_typing_and_not_set_by_its_toggle() -> None:
    """Not set is None; set and empty is an empty text."""
    asked, _ = form(Verdict)
    assert asked.values["note"] is None
    assert toggle(asked, "Note").description == "not set"
    control(asked, "Note").value = "fine"
    assert toggle(asked, "Note").description == "set"
    assert asked.values["note"] == "fine"
    toggle(asked, "Note").value = False
    assert asked.values["note"] is None
    assert control(asked, "Note").value == "fine"  # nothing typed is lost
    toggle(asked, "Note").value = True
    control(asked, "Note").value = ""
    assert asked.values["note"] == ""


def test_an_optional_that_is_set_but_empty_is_an_error_unless_empty_is_a_value() -> None:
    """An empty box is no number and no date."""

    class Answer(BaseModel):
        n: int | None = None
        day: datetime.date | None = datetime.date(2026, 1, 2)
        text: str | None = "x"

    asked, sent = form(Answer)
    assert asked.values == {"n": None, "day": "2026-01-02", "text": "x"}
    toggle(asked, "N").value = True
    control(asked, "Day").value = None
    control(asked, "Text").value = ""
    asked.submit()
    assert "not set" in error_of(asked, "N")
    assert "not set" in error_of(asked, "Day")
    assert (error_of(asked, "Text"), sent) == ("", [])
    control(asked, "N").value = "4"
    toggle(asked, "Day").value = False
    asked.submit()
    assert sent == [Answer(n=4, day=None, text="")]


def test_a_lone_optional_may_be_answered_by_none() -> None:
    """`ask(..., answer=int | None)`: not set, sent as it is, is None."""
    asked, sent = form(int | None, prompt="How many?")
    asked.submit()
    assert sent == [None]


# ---- numbers


def test_a_number_without_a_default_begins_empty() -> None:
    """A number box would answer 0 for the person who overlooks it; a bounded one would move a number to its bounds."""

    class Answer(BaseModel):
        n: int = Field(ge=1, le=5)
        big: int = 2**60
        far: float = Field(99, ge=0, le=5)
        free: int = 7

    asked, sent = form(Answer)
    assert [type(control(asked, x)) for x in ("N", "Big")] == [ipywidgets.Text] * 2
    assert control(asked, "Big").value == str(2**60)
    control(asked, "Free").value = 1.5  # the int box of the browser would have cut it to 1
    control(asked, "N").value = "9"
    asked.submit()
    assert "less than or equal to 5" in error_of(asked, "N")
    assert "fractional" in error_of(asked, "Free")
    assert "less than or equal to 5" in error_of(asked, "Far")
    control(asked, "Free").value, control(asked, "N").value, control(asked, "Far").value = 8, "5", 4
    asked.submit()
    assert sent == [Answer(n=5, big=2**60, far=4, free=8)]


# ---- errors and drafts


def test_errors_stand_at_their_fields_and_what_was_typed_stays() -> None:
    """Each field says what is wrong, the note says that something is, and mending it sends."""
    asked, sent = form(Verdict)
    control(asked, "Remark").value = "long\ntext"
    control(asked, "More").value = "[1, "
    asked.submit()
    assert sent == []
    assert 'role="alert"' in error_of(asked, "Decision")
    assert "Please fill this in." in error_of(asked, "Species")
    assert "This is not JSON (line 1, column 5)." in error_of(asked, "More")
    assert error_of(asked, "Amount") == ""
    assert "Please mend the marked fields." in note(asked)
    assert asked.values["remark"] == "long\ntext"

    answer_it(asked)
    control(asked, "Tags").value = ["a"]
    control(asked, "More").value = '{"a": 1}'
    asked.submit()
    assert sent == [Verdict(decision="approve", species=Species.GENTOO, remark="long\ntext", tags=["a"], more={"a": 1})]
    assert 'role="alert"' not in words(asked)


def test_a_refusal_by_the_engine_keeps_the_draft_and_can_be_sent_again() -> None:
    """`show_error` opens the form again; after `answered` nothing does."""
    asked, sent = form(Small)
    control(asked, "Name").value = "ann"
    asked.submit()
    asked.show_error("Already answered.")
    assert "Already answered." in note(asked)
    assert not button(asked, "send").disabled
    assert asked.values == {"name": "ann", "rows": "3"}
    asked.submit()
    assert sent == [Small(name="ann")] * 2
    asked.answered("Answered by ann at 12:00:03")
    asked.show_error("too late")
    asked.submit()
    assert len(sent) == 2
    assert "Answered by ann at 12:00:03" in words(asked)
    assert "too late" not in words(asked)
    assert "Needs you" not in words(asked)
    assert not any(isinstance(w, ipywidgets.Button) for w in inside(asked.box))  # a line: there is nothing to click


def test_a_send_that_raises_is_shown_and_can_be_repeated() -> None:
    """The error also goes on to whoever handles errors of callbacks."""
    fails: list[Callable[[], None]] = [lambda: 1 / 0]

    def on_send(answer: Any) -> None:
        if fails:
            fails.pop()()

    asked, _ = form(str, on_send=on_send)
    control(asked, "Answer").value = "x"
    with pytest.raises(ZeroDivisionError):
        asked.submit()
    assert "Not sent. ZeroDivisionError: division by zero" in note(asked)
    asked.submit()
    assert "Sending" in note(asked)


def test_a_draft_fills_the_form_as_its_values_were() -> None:
    """`values` of one form are the draft of the next; Enum values and ISO dates of a journal are understood, too."""
    asked, _ = form(Verdict)
    answer_it(asked)
    control(asked, "Note").value = "n"
    control(asked, "Amount").value = 9.5
    control(asked, "More").value = "[half"
    control(asked, "Tags").value = ["a", "b"]
    again, _ = form(Verdict, draft=asked.values)
    assert again.values == asked.values
    stored, _ = form(Verdict, draft={"species": "King", "due": "2026-01-02", "decision": "gone", "tags": ["a"]})
    assert {name: stored.values[name] for name in ("species", "due", "decision", "tags")} == {
        "species": "King",
        "due": "2026-01-02",
        "decision": "",
        "tags": ["a"],
    }
    whole, _ = form(Verdict, draft=Verdict(decision="edit", species=Species.KING, more={"a": 1}))
    assert (whole.values["decision"], whole.values["more"]) == ("edit", '{\n  "a": 1\n}')


def test_secrets_are_sent_and_kept_nowhere() -> None:
    """Not among the values, not in a draft, not in the control after the answer."""

    class Answer(BaseModel):
        key: SecretStr

    asked, sent = form(Answer, draft={"key": "old"})
    assert control(asked, "Key").value == ""
    control(asked, "Key").value = "hunter2"
    assert asked.values == {}
    asked.submit()
    assert sent[0].key.get_secret_value() == "hunter2"
    key = control(asked, "Key")
    asked.answered("Answered by ann")
    assert (key.value, key.comm) == ("", None)


# ---- the end


def test_a_closed_form_leaves_no_widget_and_does_nothing_more() -> None:
    """Also with errors shown, twice, and when the engine's word comes late."""
    before = set(live)
    asked, sent = form(Verdict, on_later=lambda: None)
    asked.submit()
    asked.close()
    asked.close()
    assert set(live) == before
    asked.submit()
    asked.show_error("late")
    asked.answered("late")
    assert (sent, set(live)) == ([], before)
