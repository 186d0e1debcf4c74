"""One thing that a form asks for, as data; `tree.py` makes it from a type. Nothing here knows where it is drawn.

kind            its value                                     it has
text area       a text, or what JSON writes as one            takes_empty
secret          what a person must not see again              hides
int float       a number                                      low, high
bool            yes or no                                     -
choice          one of a few values                           choices, few
date time       a day, a time of day                          -
datetime        both, with a zone or without                  zone
chips           several scalars in a list, set or tuple       item, least, most
rows            a list of models                              item (a group or tabs), least, most
group           one model inside another                      fields
tabs            one of several models                         branches, discriminator
json            anything else, as JSON text                   takes_text
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel

Kind = Literal[
    "text", "area", "secret", "int", "float", "bool", "choice", "date", "time", "datetime", "chips", "rows", "group",
    "tabs", "json",
]  # fmt: skip
#: Kinds that hold other fields; all others are typed as one text, or are a yes or no.
TREES: Final = frozenset[Kind](("rows", "group", "tabs"))
#: Whether a datetime has a time zone: it may, it must, it must not.
Zone = Literal["allowed", "needed", "refused"]


class Missing(enum.Enum):
    """Nothing there: no default, or nothing typed. Not the same as None, which is an answer."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
#: The name of the one field of a form whose answer is not a model.
SOLE: Final = "answer"
REQUIRED: Final = "Please fill this in."
#: Where what is typed into tabs says which of them is open; no field of a model has this name.
BRANCH: Final = ""
#: A longer prompt stands above its field, not in the label.
_LONG_PROMPT: Final = 80


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the values a person may choose. Labels of one field are all different."""

    label: str
    value: Any


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the models of tabs. Labels of one field are all different."""

    label: str
    #: What the discriminator is in this model; MISSING: it is no single value, or there is no discriminator.
    value: Any
    #: Without the discriminator, where that is one value: the tab says it.
    fields: tuple[FieldSpec, ...]
    model: type[BaseModel]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One thing to ask for."""

    name: str
    label: str
    kind: Kind
    #: The model has no default for it. It may still be optional: then None must be chosen, not left out.
    required: bool = True
    #: None is a possible answer, told apart from an empty text by a toggle.
    optional: bool = False
    #: The description and the bounds, in words.
    help: str = ""
    placeholder: str = ""
    #: Empty unless kind is "choice".
    choices: tuple[Choice, ...] = ()
    #: So few choices that all can be seen at once (radio buttons), else they hide in a list.
    few: bool = False
    #: The value to begin with; MISSING: begin empty. `typed.begin` makes what is shown of it.
    default: Any = MISSING
    #: Both inclusive, in the field's unit; None: open. For kind "int" and "float" only.
    low: float | None = None
    high: float | None = None
    #: How many items, both inclusive; None: any number. For kind "chips" and "rows" only.
    least: int = 0
    most: int | None = None
    #: Characters that a text may have at most; None: any number.
    longest: int | None = None
    #: An empty text is a value of this field (a plain str), not "nothing typed".
    takes_empty: bool = False
    #: Text that is no JSON is taken as a str. For kind "json" only.
    takes_text: bool = False
    #: For kind "datetime" only.
    zone: Zone = "allowed"
    #: Of a group, in the order of the model.
    fields: tuple[FieldSpec, ...] = ()
    #: What chips and rows are made of: a scalar without a name, a group or tabs.
    item: FieldSpec | None = None
    #: Of tabs: one for each model.
    branches: tuple[Branch, ...] = ()
    #: The field that tells the models of tabs apart; "": there is none.
    discriminator: str = ""
    #: Somewhere in it is a secret: what is typed is put into no draft, and taken away after the answer.
    hides: bool = False
    #: The type without `Optional` and `Annotated`, for `register_field`.
    type: Any = field(default=None, compare=False, repr=False)


def at(path: str, part: str | int) -> str:
    """The dotted path of what is inside: `at("rows.2", "score")` is "rows.2.score"; "" is the whole answer."""
    return f"{path}.{part}" if path else str(part)


def held(value: Any) -> Mapping[str, Any]:
    """{field name: value} of a model or a mapping; {} of anything else. Past any attribute that a user wrote."""
    if isinstance(value, BaseModel):
        return object.__getattribute__(value, "__dict__")  # type: ignore[no-any-return]
    return value if isinstance(value, Mapping) else {}


def clean(text: object) -> str:
    """Text that a message to the browser can hold: half a surrogate pair would make the whole message fail."""
    return str(text).encode("utf-8", "replace").decode()


def is_label(prompt: str) -> bool:
    """Whether the prompt is short enough to be the label of its field."""
    return bool(prompt.strip()) and len(prompt) <= _LONG_PROMPT and "\n" not in prompt
