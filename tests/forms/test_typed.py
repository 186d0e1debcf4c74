"""What is typed into a whole form: where it begins, what it stands for, and what of it is a draft."""

import datetime
import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, SecretStr, field_validator, model_validator

from flownb.forms.answers import AnswerType
from flownb.forms.fields import BRANCH, MISSING, REQUIRED, SOLE
from flownb.forms.typed import Given, draft_of

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\n\u202eabc.0.x"


class Point(BaseModel):
    name: str
    score: float = Field(0.5, ge=0, le=1)

    @model_validator(mode="after")
    def is_somewhere(self) -> "Point":
        if self.name == "nowhere":
            raise ValueError("This is nowhere.")
        return self


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str
    born: datetime.date | None = None


class Login(BaseModel):
    user: str
    key: SecretStr


class Answer(BaseModel):
    text: str
    note: str | None = None
    n: int = 3
    day: datetime.date = datetime.date(2026, 12, 24)
    level: Literal["low", "high"] = "low"
    tags: list[str] = ["a"]
    ages: set[int] = set()
    points: list[Point] = []
    centre: Point = Point(name="hut", score=0.25)
    other: Point | None = None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    either: Cat | Point = Point(name="x")
    more: dict[str, Any] = {"a": [1]}


ASKED = AnswerType(Answer)
FIRST = {
    "text": "",
    "note": None,
    "n": "3",
    "day": "2026-12-24",
    "level": "low",
    "tags": ["a"],
    "ages": [],
    "points": [],
    "centre": {"name": "hut", "score": "0.25"},
    "other": None,
    "pet": {BRANCH: "cat", "lives": "9"},
    "either": {BRANCH: "Point", "name": "x", "score": "0.5"},
    "more": '{\n  "a": [\n    1\n  ]\n}',
}


def test_a_form_begins_with_its_defaults_as_texts() -> None:
    """Those of an instance inside too; the tab of a default is open."""
    assert ASKED.begin() == FIRST


def test_what_is_typed_is_the_answer() -> None:
    """Each kind, nested."""
    typed = {
        **FIRST,
        "text": "x",
        "note": "",
        "n": " 7 ",
        "level": "high",
        "tags": [],
        "ages": ["3", "5", "3"],
        "points": [{"name": "p", "score": "1"}],
        "other": {"name": "o", "score": ".5"},
        "pet": {BRANCH: "dog", "name": "Rex", "born": "2020-02-29", "lives": "of the other tab"},
        "either": {BRANCH: "Cat", "kind": "cat", "lives": "1"},
    }
    assert ASKED.read(typed).answer == Answer(
        text="x",
        note="",
        n=7,
        level="high",
        tags=[],
        ages={3, 5},
        points=[Point(name="p", score=1)],
        other=Point(name="o"),
        pet=Dog(kind="dog", name="Rex", born=datetime.date(2020, 2, 29)),
        either=Cat(kind="cat", lives=1),
    )


def test_problems_are_at_their_dotted_paths() -> None:
    """Of rows, groups, chips and tabs; a model's own check is at the model, the form's own at ""."""
    typed = {
        **FIRST,
        "n": "",
        "day": "soon",
        "ages": ["3", "old"],
        "points": [{"name": "p", "score": "2"}, {"name": "nowhere", "score": ""}, {"name": "nowhere", "score": "0"}],
        "centre": {"name": "", "score": "x"},
        "pet": {BRANCH: "dog", "name": "", "born": "never"},
        "either": {BRANCH: "Point", "name": "nowhere", "score": "1"},
        "more": "[",
    }
    problems = ASKED.read(typed).problems
    assert {path: text for path, text in problems.items() if text == REQUIRED} == dict.fromkeys(
        ("text", "n", "points.1.score", "centre.name", "pet.name"), REQUIRED
    )
    assert problems["points.2"] == problems["either"] == "This is nowhere."
    assert problems["more"] == "This is not JSON (line 1, column 2)."
    refused = ("day", "ages.1", "points.0.score", "centre.score", "pet.born")
    assert set(problems) == {*refused, "text", "n", "points.1.score", "points.2", "centre.name", "pet.name", "either",
                             "more"}  # fmt: skip
    assert all(problems[path].startswith("Input should be") for path in refused)


def test_the_whole_model_speaks_at_the_top_and_other_exceptions_too() -> None:
    """A form does not die of a validator that raises something else."""

    class Strange(BaseModel):
        x: int = 1

        @model_validator(mode="after")
        def refuse(self) -> "Strange":
            raise TypeError("strange") if self.x > 1 else ValueError("Not that.")

    class Both(BaseModel):
        inner: Strange | Point = Point(name="p")

    assert AnswerType(Strange).read({"x": "1"}).problems == {"": "Not that."}
    assert AnswerType(Strange).read({"x": "2"}).problems == {"": "TypeError: strange"}
    assert AnswerType(Both).read({"inner": {BRANCH: "Strange", "x": "2"}}).problems == {"inner": "TypeError: strange"}


def test_nothing_is_filled_in_for_what_was_deleted() -> None:
    """A default that could be seen and was taken away is missing; one that is left out of the form stands."""
    typed = {**FIRST, "text": "x"}
    assert ASKED.read({**typed, "n": ""}).problems == {"n": REQUIRED}
    assert ASKED.read({**typed, "day": " "}).problems == {"day": REQUIRED}
    del typed["n"], typed["centre"]
    answer = ASKED.read(typed).answer
    assert (answer.n, answer.centre) == (3, Point(name="hut", score=0.25))


def test_not_set_is_none_and_set_but_empty_is_asked_for() -> None:
    """None is not ""; a day that is set has to be some day."""
    typed = {**FIRST, "text": "x", "pet": {BRANCH: "dog", "name": "Rex", "born": None}}
    assert ASKED.read(typed).answer.pet.born is None
    typed["pet"] = {BRANCH: "dog", "name": "Rex", "born": ""}
    assert "not set" in ASKED.read(typed).problems["pet.born"]


def test_a_choice_of_one_is_chosen() -> None:
    """A plain union of models that each name themselves needs no click."""
    asked = AnswerType(type("Answer", (BaseModel,), {"__annotations__": {"pet": Cat | Dog}}))
    assert asked.begin() == {"pet": {BRANCH: "Cat", "kind": "cat", "lives": "9"}}
    assert asked.read(asked.begin()).answer.pet == Cat(kind="cat")


def test_hostile_names_and_values_are_only_data() -> None:
    """Names with dots, digits and markup; values that look like paths."""
    model: Any = type("Answer", (BaseModel,), {"__annotations__": {"a.0": str, "0": int, HOSTILE: list[str]}})
    asked = AnswerType(model)
    assert asked.read({"a.0": HOSTILE, "0": "1", HOSTILE: [HOSTILE]}).answer.__dict__ == {
        "a.0": HOSTILE,
        "0": 1,
        HOSTILE: [HOSTILE],
    }
    assert set(asked.read({"a.0": "", "0": "x", HOSTILE: []}).problems) == {"a.0", "0"}


@pytest.mark.parametrize(
    "typed",
    [None, 5, [], "text", {}, {BRANCH: HOSTILE}, {BRANCH: None}, [None, 5, "x"], {"name": {"name": 1}}],
    ids=repr,
)
@pytest.mark.parametrize("name", list(FIRST))
def test_no_shape_that_a_request_may_have_breaks_the_reading(name: str, typed: Any) -> None:
    """A page of HTML sends what it likes: an answer or problems come of it, no exception."""
    checked = ASKED.read({**FIRST, "text": "x", name: typed})
    assert (checked.answer is MISSING) == bool(checked.problems)


def test_a_draft_is_plain_data_and_fills_the_form_as_it_was() -> None:
    """Also half of a JSON text; a stored answer is a draft, too (R4.70)."""
    typed = {**FIRST, "more": "[half", "points": [{"name": "p", "score": "x"}], "pet": {BRANCH: "dog", "name": "R"}}
    draft = json.loads(json.dumps(typed))
    assert ASKED.begin(draft) == {**typed, "pet": {BRANCH: "dog", "name": "R", "born": None}}
    answer = Answer(text="t", pet=Dog(kind="dog", name="Rex"), points=[Point(name="p")], more={"s": "x"})
    for stored in (answer, answer.model_dump(mode="json")):
        assert ASKED.read(ASKED.begin(stored)).answer == answer


POINTS = st.builds(Point, name=st.text(min_size=1).filter(lambda s: bool(s.strip()) and s != "nowhere"))
WORDS = st.text(min_size=1).filter(str.strip)
DOGS = st.builds(Dog, kind=st.just("dog"), name=WORDS, born=st.none() | st.dates())
CATS = st.builds(Cat, kind=st.just("cat"), lives=st.integers())
ANSWERS = st.builds(
    Answer,
    text=WORDS,
    note=st.none() | st.text(),
    n=st.integers(),
    day=st.dates(),
    level=st.sampled_from(["low", "high"]),
    tags=st.lists(WORDS, max_size=3),
    ages=st.sets(st.integers(), max_size=3),
    points=st.lists(POINTS, max_size=2),
    centre=POINTS,
    other=st.none() | POINTS,
    pet=CATS | DOGS,
    either=CATS | POINTS,
    more=st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.booleans()), max_size=3),
)


@given(answer=ANSWERS)
def test_an_answer_shown_and_sent_again_is_the_answer(answer: Answer) -> None:
    """value → what is typed → value, for a whole tree, by way of JSON as a draft in a journal."""
    typed = ASKED.begin(answer)
    assert ASKED.read(json.loads(json.dumps(typed))).answer == answer


def test_a_draft_holds_no_secret() -> None:
    """Neither in a group, nor in rows or tabs; everything else stays."""

    class Secrets(BaseModel):
        key: SecretStr
        login: Login
        logins: list[Login]
        keys: list[SecretStr] = []
        who: Login | Point = Point(name="p")
        more: dict[str, SecretStr] = {}

    asked = AnswerType(Secrets)
    login = {"user": "ann", "key": "hunter2"}
    typed = {"key": "hunter2", "login": login, "logins": [login], "keys": ["hunter2"], "more": '{"a": "hunter2"}',
             "who": {BRANCH: "Login", **login}}  # fmt: skip
    assert asked.read(typed).answer.login.key.get_secret_value() == "hunter2"
    drafts = {spec.name: draft_of(spec, typed[spec.name]) for spec in asked.fields}
    assert drafts == {
        "key": MISSING,
        "login": {"user": "ann"},
        "logins": [{"user": "ann"}],
        "keys": MISSING,
        "who": {BRANCH: "Login", "user": "ann"},
        "more": MISSING,
    }
    began = asked.begin(asked.read(typed).answer)
    assert "hunter2" not in repr(began) and "***" not in repr(began)


def test_what_a_control_of_its_own_gives_is_taken_as_it_is() -> None:
    """`Given` needs no reading; None in it is nothing chosen."""
    (spec,) = AnswerType(dict[str, int]).fields
    assert AnswerType(dict[str, int]).read({SOLE: Given({"a": 1})}).answer == {"a": 1}
    assert AnswerType(dict[str, int]).read({SOLE: Given(None)}).problems == {SOLE: REQUIRED}
    assert draft_of(spec, Given({"a": 1})) == {"a": 1}


def test_problems_of_an_answer_that_is_no_model() -> None:
    """They begin with the one field's name."""

    class Checked(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def small(cls, x: int) -> int:
            if x > 9:
                raise ValueError("Too large.")
            return x

    assert AnswerType(list[Checked]).read({SOLE: [{"x": "10"}]}).problems == {f"{SOLE}.0.x": "Too large."}
    assert set(AnswerType(list[int]).read({SOLE: ["1", "x"]}).problems) == {f"{SOLE}.1"}
    assert AnswerType(RootModel[int]).read({SOLE: "x"}).problems == {SOLE: "This is not JSON (line 1, column 1)."}
