"""The type of an answer: its fields, and the answer that comes of what a person typed. Pure: nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from flownb.forms import tree
from flownb.forms.fields import MISSING, REQUIRED, SOLE, FieldSpec
from flownb.forms.problems import place
from flownb.forms.shape import is_model
from flownb.forms.typed import Reader, begin_fields


@dataclass(frozen=True, slots=True)
class Checked:
    """What the answer's type says to the values of a form."""

    #: The validated answer; MISSING if there are problems.
    answer: Any
    #: {dotted path of a field, such as "rows.2.score": what is wrong}; "" is for what belongs to no field.
    problems: Mapping[str, str] = field(default_factory=dict)


class AnswerType:
    """The type of an answer, its fields, and its check.

    Args:
        answer: A pydantic model class, or any type that pydantic's `TypeAdapter` takes.
        prompt: The question, which labels the field of an answer that is no model.
        whole: Ask for the whole answer in one JSON text, whatever its type.

    Raises:
        pydantic.PydanticUserError: pydantic cannot validate this type.
    """

    def __init__(self, answer: Any, *, prompt: str = "", whole: bool = False) -> None:
        if is_model(answer):
            answer.model_rebuild(raise_errors=False)  # a forward reference may have been defined since
        self.adapter: TypeAdapter[Any] = TypeAdapter(answer)
        self.sole = whole or not is_model(answer)
        one = self.sole or (is_model(answer) and not answer.model_fields)
        self.fields: list[FieldSpec] = [tree.whole(answer)] if whole else tree.fields_of(answer, prompt=prompt)
        #: The one field says the prompt, so that nobody else has to.
        self.is_labelled = one and any(spec.label == prompt for spec in self.fields)

    @classmethod
    def of(cls, answer: Any, *, prompt: str = "") -> AnswerType:
        """The same; one that pydantic cannot validate is asked for as JSON, and the door says what is wrong with it."""
        try:
            return cls(answer, prompt=prompt)
        except Exception:  # several of pydantic's errors, and whatever a user's own schema hook raises
            return cls(Any, prompt=prompt, whole=True)

    def begin(self, draft: Mapping[str, Any] | BaseModel | None = None) -> dict[str, Any]:
        """What the form shows first: {field name: typed} (`typed.py`).

        Args:
            draft: {field name: typed, or a value} to begin with instead of the defaults, or an answer.
        """
        given = draft if draft is not None else {}
        if self.sole and given and (isinstance(given, BaseModel) or SOLE not in given):
            given = {SOLE: given}  # the draft of a model that is asked for as one text
        return begin_fields(self.fields, given, typed=True)

    def read(self, typed: Mapping[str, Any]) -> Checked:
        """The answer that a form stands for: {field name: typed} (`typed.py`); fields left out get their default."""
        reader = Reader()
        values = reader.fields(self.fields, typed)
        checked = self.check(values)
        if not reader.problems:
            return checked
        # Where the form could not be read, the type finds something missing, or a None in its place.
        more = {path: text for path, text in checked.problems.items() if not _is_known(path, reader.problems)}
        return Checked(MISSING, {**more, **reader.problems})

    def check(self, values: Mapping[str, Any]) -> Checked:
        """The answer that `values` ({field name: value}) make; fields left out get their default."""
        if self.sole and SOLE not in values:
            return Checked(MISSING, {SOLE: REQUIRED})
        try:
            # Not strict, whatever the model says: a person types text, and a date in JSON is a str.
            # By name, whatever the aliases: forms know fields by name, and so do the errors then.
            given = values[SOLE] if self.sole else dict(values)
            return Checked(self.adapter.validate_python(given, strict=False, by_name=True, by_alias=False))
        except ValidationError as error:
            return Checked(MISSING, self._problems(error))
        except Exception as error:  # a validator of the user's that raises what pydantic does not catch
            return Checked(MISSING, {"": f"{type(error).__name__}: {error}"})

    def _problems(self, error: ValidationError) -> dict[str, str]:
        return place(error, self.fields, inside=SOLE if self.sole else "")


def _is_known(path: str, problems: Mapping[str, str]) -> bool:
    """Whether a field, or something in it, is known to be wrong already."""
    return any(known == path or known.startswith(f"{path}.") for known in problems) if path else False
