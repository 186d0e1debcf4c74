"""The list of open questions, for whoever runs the server."""

from __future__ import annotations

from flownb.errors import JournalDamaged
from flownb.openings import StoreRequest, token_of
from flownb.runs import Store
from flownb.serve.links import path_of
from flownb.serve.markup import Html, element
from flownb.serve.pages import deadline_words, index_page
from flownb.serve.questions import title_of

#: So many questions are listed at most.
MOST = 500


def index_of(store: Store) -> Html:
    """The open questions of all runs, without reading a journal."""
    asked = list(store.requests())
    lines = [_line(store, request) for request in asked[:MOST]]
    if len(asked) > MOST:
        lines.append(element("li", f"and {len(asked) - MOST:,} more"))
    return index_page(store.place, lines, len(asked))


def _line(store: Store, request: StoreRequest) -> Html:
    row = store.journal.row(request.run_id)
    workflow = row.workflow if row is not None else ""
    try:
        title = title_of(request.question)
    except JournalDamaged as error:
        title = str(error)
    when = deadline_words(request.deadline, None).partition(";")[0]
    return element(
        "li",
        element("p", _linked(request, title)),
        element("p", f"{request.id} of {workflow}, step {request.step}", class_="from"),
        element("p", f"{when}.", class_="from") if when else None,
    )


def _linked(request: StoreRequest, title: str) -> Html | str:
    token = token_of(request)
    if token:
        return element("a", title, href=path_of(token))
    return f"{title} (no link: its step gave it a token of its own, or its run was imported)"


__all__ = ["index_of"]
