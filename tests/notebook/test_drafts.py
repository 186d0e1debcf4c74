"""Events as JSON text that a person edits, and back."""

import datetime
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from flownb import Event
from flownb.core.ticks import EventArrived, StepFinished
from flownb.core.values import Out
from flownb.errors import AnswerInvalid
from flownb.notebook.drafts import Draft, draft_of


class Address(BaseModel):
    city: str
    zip: int


class Parcel(Event):
    to: Address
    day: datetime.date = datetime.date(2026, 12, 24)
    weight: float = 1.5


class Table(Event):
    rows: Any
    key: SecretStr = SecretStr("s3cret")
    n: int = 1


def draft(*events: Any, is_list: bool = False) -> Draft:
    return Draft([Out("", event) for event in events], is_list=is_list)


def test_a_draft_is_read_back_as_the_same_event():
    parcel = Parcel(to=Address(city="Palmer", zip=7))
    one = draft(parcel)
    assert one.title == "Parcel"
    assert '"day": "2026-12-24"' in one.text()
    assert one.read(one.text()) == parcel


def test_a_changed_field_is_validated_by_the_model():
    one = draft(Parcel(to=Address(city="Palmer", zip=7)))
    text = one.text().replace("2026-12-24", "2027-01-02").replace('"zip": 7', '"zip": "8"')
    read = one.read(text)
    assert (read.day, read.to.zip, type(read)) == (datetime.date(2027, 1, 2), 8, Parcel)
    with pytest.raises(AnswerInvalid, match=r"Parcel cannot be that\. day: Input should be a valid date"):
        one.read(one.text().replace("2026-12-24", "soon"))


def test_what_json_cannot_say_is_not_shown_and_stays():
    """A frame, a secret: neither is in the text, neither is lost."""
    rows = object()
    one = draft(Table(rows=rows))
    assert one.text() == '{"n": 1}'
    assert one.kept == ["rows", "key"]
    read = one.read('{"n": 2}')
    assert (read.n, read.rows, read.key.get_secret_value()) == (2, rows, "s3cret")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"n": 1,}', "no JSON: .* line 1, column 9"),
        ("[1]", "Table has fields: give an object"),
        ('{"nn": 1}', "no field 'nn'. Did you mean 'n'"),
    ],
)
def test_what_does_not_fit_is_said_in_words(text: str, said: str):
    with pytest.raises(AnswerInvalid, match=said):
        draft(Table(rows=1)).read(text)


def test_the_events_of_a_fan_out_are_edited_as_a_list_of_as_many():
    one = draft(Parcel(to=Address(city="a", zip=1)), Parcel(to=Address(city="b", zip=2)), is_list=True)
    assert one.title == "2 × Parcel"
    read = one.read(one.text().replace('"b"', '"c"'))
    assert [each.to.city for each in read] == ["a", "c"]
    with pytest.raises(AnswerInvalid, match="These were 2 events"):
        one.read("[]")
    with pytest.raises(AnswerInvalid, match=r"Parcel\[1\] cannot be that"):
        one.read(one.text().replace('"zip": 2', '"zip": "x"'))


def test_ticks_that_bring_something_have_a_draft():
    out = Out("m:Table", Table(rows=[1]), "event")
    found = draft_of(EventArrived(0.0, out))
    assert found is not None
    assert '"rows": [1]' in found.text()
    assert draft_of(StepFinished(0.0, "work", 1, 1)) is None
    answer = draft(True)
    assert (answer.text(), answer.read("false")) == ("true", False)
