"""What approve and reject answer, read from the schema of an answer."""

import enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from flownb.events import HumanResponseEvent
from flownb.forms.approving import shortcuts
from flownb.schemas import schema_of


class Verdict(HumanResponseEvent):
    decision: Literal["approve", "reject", "later"]
    note: str = ""
    mail: bool = False


class Other(HumanResponseEvent):
    decision: Literal["no", "Yes"] = "no"


class Word(enum.Enum):
    DROP = "drop"
    KEEP = "keep"


class Chooses(BaseModel):
    word: Word


class Flag(HumanResponseEvent):
    ok: bool
    words: str = ""


class Explains(HumanResponseEvent):
    ok: bool
    reason: str


class Twice(HumanResponseEvent):
    ok: bool
    sure: bool


class Rejects(HumanResponseEvent):
    is_rejected: bool


class Sizes(HumanResponseEvent):
    size: Literal["small", "large"]


class Maybe(HumanResponseEvent):
    ok: bool | None = None


@pytest.mark.parametrize(
    ("kind", "approve", "reject", "words"),
    [
        (bool, True, False, ("Approve", "Reject")),
        (Literal["reject", "approve"], "approve", "reject", ("Approve", "Reject")),
        (Word, "keep", "drop", ("Keep", "Drop")),
        (Verdict, {"decision": "approve"}, {"decision": "reject"}, ("Approve", "Reject")),
        (Other, {"decision": "Yes"}, {"decision": "no"}, ("Yes", "No")),
        (Chooses, {"word": "keep"}, {"word": "drop"}, ("Keep", "Drop")),
        (Flag, {"ok": True}, {"ok": False}, ("Approve", "Reject")),
    ],
)
def test_a_yes_and_a_no(kind: Any, approve: Any, reject: Any, words: tuple[str, str]):
    """By the word, not by its place."""
    found = shortcuts(schema_of(kind))
    assert (found.approve, found.reject, (found.yes, found.no), found.why) == (approve, reject, words, "")


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (str, "Its answer is no choice between yes and no."),
        (Literal["small", "large"], "Its answer is no choice between yes and no."),
        (Literal["yes", "ok", "no"], "Its answer is no choice between yes and no."),
        (Explains, "Its answer has to be filled in: reason."),
        (Twice, "It would not be clear which one is meant: ok, sure."),
        (Rejects, "No field of its answer is a choice between yes and no."),
        (Sizes, "No field of its answer is a choice between yes and no."),
        (Maybe, "No field of its answer is a choice between yes and no."),
        (HumanResponseEvent, "No field of its answer is a choice between yes and no."),
    ],
)
def test_where_there_is_none_it_says_why(kind: Any, why: str):
    """A key that answers something else than the person meant is worse than none."""
    found = shortcuts(schema_of(kind))
    assert (found.why, found.yes, found.no, found.approve) == (why, "", "", None)


def test_without_a_schema_there_is_none():
    assert shortcuts(None).why == "What answers it is not known here."
