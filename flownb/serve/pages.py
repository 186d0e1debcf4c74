"""The pages: what each says. Nothing here looks anything up."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from flownb.serve.look import STYLE
from flownb.serve.markup import Html, Part, element, joined

#: (title, words) of what HTTP calls a status.
WORDS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("This request cannot be read", "The address or what was sent with it is broken."),
    403: ("Not from here", "This came from another page. Open the link itself, and send the form that it shows."),
    404: (
        "There is nothing here",
        "No question has this address. Is the link complete? Links work only as they were given, and only where the "
        "store of their run is served.",
    ),
    405: ("That cannot be done here", "Pages are read, and forms are sent. Nothing else is possible."),
    408: ("That took too long", "The answer did not arrive in time. Go back and send it again."),
    410: ("This question is closed", "It can no longer be answered."),
    413: ("That is too long", "Go back, shorten the answer, and send it again."),
    415: ("That is no form", "This address takes only what its own form sends."),
    429: ("Too many requests", "Please wait a moment, then try again."),
    500: ("Something went wrong", "It was not the answer's fault, and nothing was recorded. Please try again later."),
    503: ("Not just now", "The store of this run cannot be read or written just now. Please try again in a moment."),
}

#: (title, words) for a question that was closed otherwise than by an answer.
CLOSED: Final[Mapping[str, tuple[str, str]]] = {
    "expired": ("Too late", "The deadline of this question is over, and nobody had answered. It is closed."),
    "default": ("Too late", "The deadline of this question is over, so its default answer was taken."),
    "disposed": ("No answer is needed", "This question was ended without an answer."),
    "superseded": (
        "This question was replaced",
        "What it asked about has changed, so another question took its place. Whoever is to answer that one is sent "
        "a link of its own.",
    ),
    "withdrawn": ("No answer is needed", "This question was withdrawn: whoever asked it does not wait any more."),
    "closed": ("No answer is needed", "The run that asked this question is over."),
    "damaged": (
        "This question cannot be answered",
        "The record of its run is damaged, so the run cannot go on. Nothing that is answered here would be used.",
    ),
}


def page(title: str, *parts: Part) -> Html:
    """A whole page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("style", Html(STYLE)),
    )
    return joined(Html("<!doctype html>\n"), element("html", head, element("body", element("main", *parts)), lang="en"))


def box(kind: str, *parts: Part, role: str | None = None) -> Html:
    """A framed word: "person" for what is asked for, "good" and "bad"."""
    return element("div", *parts, class_=f"box {kind}", role=role)


def status_page(status: int, more: str = "") -> Html:
    """What went wrong with a request, and nothing of the request."""
    title, words = WORDS[status]
    return page(title, element("h1", title), element("p", more or words))


def closed_page(how: str, deadline: float | None = None) -> Html:
    """A question that was closed without the answer of a person."""
    title, words = CLOSED.get(how, WORDS[410])
    over = f"The deadline was {moment(deadline)}." if deadline is not None and how in ("expired", "default") else None
    return page(title, element("h1", title), box("person", element("p", words), element("p", over) if over else None))


def answered_page(by: str, at: float, *, is_late: bool = False) -> Html:
    """A question that was answered: by whom and when, not what.

    Args:
        by: Who.
        at: When, in Unix seconds.
        is_late: Another answer was just sent, and is not taken.
    """
    title = "Somebody was first" if is_late else "This question was answered"
    who = f"It was answered by {by or 'somebody'} on {moment(at)}."
    rest = "That answer stands; yours was not taken." if is_late else "Nothing more is needed."
    return page(title, element("h1", title), box("bad" if is_late else "good", element("p", f"{who} {rest}")))


def thanks_page(
    asks: str, said: Sequence[tuple[str, str]], by: str, at: float, *, was_taken: bool, is_again: bool
) -> Html:
    """An answer is recorded.

    Args:
        asks: The question.
        said: What was answered, as (label, text); without secrets.
        by: Who answered.
        at: When.
        was_taken: The run has it.
        is_again: It was there already, the same.
    """
    title = "Answered already, the same" if is_again else "Thank you"
    words = "This very answer was there already. Nothing changed." if is_again else "Your answer is recorded."
    if not is_again:
        words += " The run goes on with it." if was_taken else " The run takes it as soon as a process drives it."
    return page(
        title,
        element("p", asks, class_="from"),
        element("h1", title),
        box("good", element("p", words), role="status"),
        element("h2", "What was answered"),
        table([*said, ("answered by", by), ("at", moment(at))]),
        element("p", "You can close this page.", class_="foot"),
    )


def table(rows: Iterable[tuple[str, str]]) -> Html:
    """Names and what they stand for."""
    lines = [element("tr", element("th", name, scope="row"), element("td", text)) for name, text in rows]
    return element("div", element("table", *lines, class_="payload"), class_="wide")


def index_page(place: str, lines: Sequence[Html], count: int) -> Html:
    """The open questions of a store.

    Args:
        place: Of the store, in words.
        lines: An item for each that is listed.
        count: How many there are.
    """
    title = f"{count:,} open question{'' if count == 1 else 's'}" if count else "Nobody is asked anything"
    return page(
        title,
        element("p", place, class_="from"),
        element("h1", title),
        element("ul", *lines, class_="asked") if lines else element("p", "Reload this page to look again."),
        element(
            "p",
            "Each link is for whoever is to answer: it can be sent to them, if this address can be reached from there. "
            "Keep the address of this page to yourself.",
            class_="foot",
        ),
    )


def moment(at: float) -> str:
    """A moment as people read it, in the zone of this machine."""
    try:
        local = datetime.datetime.fromtimestamp(at, datetime.UTC).astimezone()
    except (OverflowError, ValueError, OSError):  # a moment that no calendar has
        return f"{at:g}"
    return f"{local.day} {local:%B %Y} at {local:%H:%M:%S} {local.tzname() or local.strftime('%z')}"


def span(seconds: float) -> str:
    """A span of time as people say it."""
    for limit, unit, word in ((120, 1, "seconds"), (7200, 60, "minutes"), (172_800, 3600, "hours")):
        if seconds < limit:
            return f"{max(0.0, seconds) / unit:.0f} {word}"
    return f"{seconds / 86_400:.0f} days"


def deadline_words(deadline: float | None, default: str | None) -> str:
    """When a question closes by itself, "" if it does not.

    Args:
        deadline: Unix seconds.
        default: What is taken then, in words; None: nothing.
    """
    if deadline is None:
        return ""
    left = deadline - time.time()
    when = f"until {moment(deadline)} ({f'{span(left)} are left' if left > 0 else 'that is over'})"
    return f"It can be answered {when}; then {f'the answer is {default}' if default is not None else 'it closes'}."


__all__ = [
    "answered_page", "box", "closed_page", "deadline_words", "index_page", "moment", "page", "span", "status_page",
    "table", "thanks_page",
]  # fmt: skip
