"""One question as a form: what it shows first, what was typed, and the answer that it makes."""

from __future__ import annotations

import logging
from typing import Any, Final

from flownb.answering import takes_no_secret
from flownb.errors import WorkflowError
from flownb.forms.answers import AnswerType
from flownb.forms.endings import answer_in_words
from flownb.forms.fields import MISSING, TREES, FieldSpec
from flownb.forms.texts import text_of
from flownb.requests import Request
from flownb.serve import names
from flownb.serve.bodies import Raw
from flownb.serve.controls import Controls
from flownb.serve.markup import Html, element
from flownb.serve.pages import box, deadline_words, page
from flownb.serve.posted import Posted
from flownb.serve.questions import draft_of, payload_of, prompt_of, title_of, words_of

NAME_FIELD: Final = "by"
SEAL_FIELD: Final = "seal"
#: Characters of a name at most.
LONGEST_NAME: Final = 100
NO_NAME = "Please say who you are."

_log = logging.getLogger("flownb.serve")


_NO_SECRET: Final = (
    "This form asks for a secret, and none can be sent from here: neither this server nor the process that runs the "
    "workflow has a key to seal it (FLOWNB_KEY). Answer where the workflow runs."
)


class Form:
    """A question, and what was typed for it.

    Args:
        request: The question.
        raw: What a browser sent; None: the form as it is shown first.

    Attributes:
        was_changed: A row was added or taken away; nothing is to be sent.
    """

    def __init__(self, request: Request[Any], raw: Raw | None = None) -> None:
        self._request = request
        self._question = request.question
        self._type = _type_of(request, prompt_of(self._question))
        self._problems: dict[str, str] = {}
        self._answer: Any = MISSING
        self._fresh = ""
        self.was_changed = False
        if raw is None:
            self._typed = self._type.begin(draft_of(request))
        else:
            posted = Posted(raw)
            self._typed = posted.fields(self._type.fields)
            self._fresh, self.was_changed = posted.fresh, not posted.is_sent

    @property
    def title(self) -> str:
        return title_of(self._question)

    def answer(self) -> Any:
        """The answer that was typed; MISSING if something is wrong with it, which the page then shows."""
        checked = self._type.read(self._typed)
        self._answer, self._problems = checked.answer, dict(checked.problems)
        return MISSING if self._problems else self._answer

    def refuse(self, why: str) -> None:
        """The answer was not taken."""
        self._problems[""] = why

    def said(self) -> list[tuple[str, str]]:
        """What was answered, as (label, text); secrets are hidden."""
        if self._type.sole:
            return [("Answer", _words_for(self._type.fields[0], self._answer))]
        return [(spec.label, _words_for(spec, getattr(self._answer, spec.name, None))) for spec in self._type.fields]

    def page(self, *, seal: str, name: str, refused: str = "", said: str = "", needs_name: bool = False) -> Html:
        """The whole page.

        Args:
            seal: Marks the form as made here.
            name: Of the person, as far as they said it.
            refused: Why the run refused the last answer.
            said: A word on top.
            needs_name: That there is no name is told as a fault.
        """
        request, title = self._request, self.title
        controls = Controls(self._problems, self._fresh)
        fields = controls.fields(self._type.fields, self._typed)
        faults = [*controls.faults, *([(_NAME_ID, "Your name", NO_NAME)] if needs_name else [])]
        default = request.default
        deadline = deadline_words(request.deadline, answer_in_words(default) if default is not None else None)
        hides = any(spec.hides for spec in self._type.fields)
        return page(
            f"{'Error: ' if faults or self._problems else ''}{title}",
            element("p", f"{request._runner.state.spec.name} asks, in step {request.step}", class_="from"),
            element("h1", title),
            box("person", element("p", deadline)) if deadline else None,
            payload_of(self._question),
            _refused(refused) if refused and not self._problems else None,
            box("person", element("p", said), role="status") if said else None,
            box("person", element("p", _NO_SECRET)) if hides and takes_no_secret(request._runner) else None,
            self._summary(faults, hides),
            element(
                "form",
                # Enter in a field presses the first button of a form.
                element("button", "Send answer", name=names.DO, value=names.SEND, class_="first", tabindex=-1,
                        aria_hidden="true"),
                element("input", type="hidden", name=SEAL_FIELD, value=seal),
                fields,
                _name_field(name, wrong=needs_name),
                element("button", "Send answer", name=names.DO, value=names.SEND, class_="send"),
                # The same address without a `#c5` of the list of errors, which would take the focus.
                action="?",
                method="post",
                novalidate=True,
                accept_charset="utf-8",
            ),
            element("p", f"Question {request.id}. Who has this link can answer, once.", class_="foot"),
        )  # fmt: skip

    def _summary(self, faults: list[tuple[str, str, str]], hides: bool) -> Html | None:
        """All that is wrong, with links to where."""
        known = [element("li", element("a", f"{label}: {text}", href=f"#{mark}")) for mark, label, text in faults]
        rest = [text for path, text in self._problems.items() if path == ""]
        shown = {text for _, _, text in faults}
        lost = [text for path, text in self._problems.items() if path and not _is_shown(text, shown)]
        if not known and not rest and not lost:
            return None
        again = element("p", "Secrets have to be typed again.") if hides else None
        return box(
            "bad",
            element("p", "Not sent. Please mend what is marked." if known else "Not sent."),
            *(element("p", text) for text in [*rest, *lost]),
            element("ul", *known) if known else None,
            again,
            role="alert",
        )


def _words_for(spec: FieldSpec, value: Any) -> str:
    """What was answered in one field, as it was typed where that is a text."""
    if value is None:
        return "not set"
    if isinstance(value, bool) and spec.kind == "bool":
        return "yes" if value else "no"
    typed = "" if spec.hides or spec.kind in (*TREES, "chips", "json") else text_of(spec, value)
    return typed or words_of(value)


def _is_shown(text: str, shown: set[str]) -> bool:
    return any(text in one for one in shown)


def _refused(why: str) -> Html:
    return box("bad", element("p", "The run did not take the last answer. ", why), role="alert")


_NAME_ID: Final = "name"


def _name_field(name: str, *, wrong: bool) -> Html:
    return element(
        "div",
        element("label", "Your name", element("span", " (needed)", class_="must"), for_=_NAME_ID),
        element("p", "It is recorded with the answer.", class_="help", id=f"{_NAME_ID}-help"),
        element("p", NO_NAME, class_="err", id=f"{_NAME_ID}-err") if wrong else None,
        element(
            "input",
            type="text",
            name=NAME_FIELD,
            id=_NAME_ID,
            value=name,
            maxlength=LONGEST_NAME,
            autocomplete="name",
            aria_describedby=f"{_NAME_ID}-err {_NAME_ID}-help" if wrong else f"{_NAME_ID}-help",
            aria_invalid="true" if wrong else None,
        ),
        class_="field",
    )


def _type_of(request: Request[Any], prompt: str) -> AnswerType:
    """The type of the answer, by its class or by the schema that is stored; one that cannot be drawn is JSON text."""
    try:
        kind = request.answer_type
        return AnswerType(kind, prompt=prompt)
    except WorkflowError:
        raise
    except Exception as error:  # a stored schema may say anything, and so may a class of a user's
        _log.debug("the answer to %s is asked for as JSON: %s", request.id, type(error).__name__)
        return AnswerType(Any, prompt=prompt, whole=True)


__all__ = ["LONGEST_NAME", "NAME_FIELD", "SEAL_FIELD", "Form"]
