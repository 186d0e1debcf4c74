"""The open questions of a store in a cell: a table to go through with few keys, and below it the form of one."""

from __future__ import annotations

import html
import logging
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final

import anywidget
import ipywidgets
import traitlets
from IPython import display as ipython

from flownb.errors import WorkflowError
from flownb.forms.endings import ending, time_left
from flownb.forms.payload import rows as payload_rows
from flownb.notebook import assets, kernel
from flownb.notebook.forms import AnswerForm
from flownb.notebook.listing import LISTED, Listing, Row
from flownb.notebook.questions import form_for
from flownb.openings import StoreRequests
from flownb.requests import Request
from flownb.store.marks import UnknownEvent

_display: Any = ipython.display
_log = logging.getLogger("flownb")

#: Seconds between two looks into the store, and between two looks at the form that is open, which cost nothing.
LOOK_S: Final = 1.0
FORM_S: Final = 0.1
#: Seconds from an answer to the next look.
SOON_S: Final = 0.25
#: A page that is looked at says so more often than this; after it nobody looks.
UNSEEN_S: Final = 25.0
#: So many forms that were left are kept, with what was typed into them.
KEPT: Final = 3
#: Seconds between two messages while many questions are answered.
_BETWEEN_S: Final = 0.1


class ReviewView(anywidget.AnyWidget):
    """The table. It holds no logic: who owns it writes the trait and listens."""

    _esm = assets.review_script()
    _css = assets.review_style()

    #: What `Listing.shown` gives, with `now` (Unix seconds) and `editing` (`{"id": str, "n": int}`: the question whose
    #: form is open, and which form that is; {} for none).
    table = traitlets.Dict().tag(sync=True)


class ReviewBox(ipywidgets.VBox):  # type: ignore[misc]
    """The table and the form below it.

    All is done on a thread of its own, one thing after the other: a store that is slow holds up neither cells nor runs.
    The thread ends when nobody has looked for a while, and begins again with the next message.

    Args:
        requests: The questions to show.
    """

    def __init__(self, requests: StoreRequests) -> None:
        self.listing = Listing(requests)
        self.listing.look()
        self.view = ReviewView(table=self._table({}))
        super().__init__([self.view], layout=ipywidgets.Layout(width="auto", overflow="visible"))
        self.add_class("flownb-panel")
        self.add_class("flownb-review-box")
        self._words = repr(requests)
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._seen = self._sent = time.monotonic()
        #: When the next look into the store is due.
        self._due = self._seen + LOOK_S
        self._form: AnswerForm | None = None
        self._request: Request[Any] | None = None
        self._editing: dict[str, Any] = {}
        self._forms = 0
        #: Forms that were left, by the id of their question, the latest last.
        self._left: dict[str, tuple[AnswerForm, Request[Any]]] = {}
        self.closed = False
        self.view.on_msg(self._on_message)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle["text/plain"] = self._words
        return bundle  # type: ignore[no-any-return]

    # -- down

    def _table(self, editing: dict[str, Any]) -> dict[str, Any]:
        return {**self.listing.shown(), "now": time.time(), "editing": editing}

    def publish(self) -> None:
        """Send the table, if it says something new."""
        if self.closed:
            return
        now = self._table(self._editing)
        before = self.view.table
        if {**now, "now": 0} != {**before, "now": 0}:
            self.view.table = now
            self._sent = time.monotonic()

    def look(self) -> None:
        """Look into the store, and send what is new."""
        self._due = time.monotonic() + LOOK_S
        self.listing.look()
        for name in list(self._left):
            row = self.listing.get(name)
            if row is None or not row.is_open:
                self._left.pop(name)[0].close()
        self.publish()

    # -- up

    def _on_message(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        kind = str(message.get("kind"))
        if kind == "hello":
            kernel.said_hello()
        if kind == "bye":
            return
        self._seen = time.monotonic()
        handler = _HANDLERS.get(kind)
        self.post(self.look if handler is None else lambda: handler(self, message))

    def post(self, what: Callable[[], None]) -> None:
        """Do something on the thread, which is started if there is none."""
        with self._lock:
            if self.closed:
                return
            self._queue.put(what)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="flownb-review", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            wait_s = FORM_S if self._form is not None else max(0.0, self._due - time.monotonic())
            try:
                what = self._queue.get(timeout=wait_s)
            except Empty:
                what = self._tend
                with self._lock:
                    is_unseen = time.monotonic() > self._seen + UNSEEN_S
                    if self._queue.empty() and (is_unseen or self.closed):
                        self._thread = None
                        return
            try:
                what()
            except Exception as error:  # whatever it is, the others are not held up
                _log.warning("the table of open questions: %s: %s", type(error).__name__, error)

    def _tend(self) -> None:
        """What is due without a message."""
        self._tend_form()
        if time.monotonic() >= self._due:
            self.look()

    # -- answers

    def answer(self, names: list[str], *, approves: bool) -> None:
        """Approve or reject questions, one after the other; what came of each stands in its row."""
        marked = self.listing.sending(names)
        if self._editing.get("id") in marked:
            self.shut()
        self.publish()
        for name in marked:
            self.listing.answer(name, approves=approves)
            if time.monotonic() >= self._sent + _BETWEEN_S:
                self.publish()
        self.publish()
        self._due = time.monotonic() + SOON_S  # what a run asks next

    # -- one question

    def tell(self, name: str) -> None:
        """What a question shows, in full; with its form where approve and reject do not answer it."""
        row = self.listing.get(name)
        if row is None:
            return
        self.view.send({"kind": "content", "id": name, "rows": content(row), "digest": row.request.digest})
        if row.is_open and row.shortcuts.why:
            self.edit(name)

    def edit(self, name: str) -> None:
        """Open the form of a question, in the place of that of another one."""
        row = self.listing.get(name)
        if row is None or not row.is_open or self._editing.get("id") == name:
            return
        found = self._left.pop(name, None)
        try:
            found = found or self._made(row)
        except WorkflowError as error:
            self.refuse(name, str(error))
            return
        form, request = found
        self.leave()
        self._forms += 1
        form.box.add_class(f"fl-form-{self._forms}")
        self._form, self._request = form, request
        self._editing = {"id": name, "n": self._forms}
        self._place(self.view, form.box)
        self.publish()

    def _made(self, row: Row) -> tuple[AnswerForm, Request[Any]]:
        request = row.request.opened()
        return form_for(request, "", on_later=lambda: self.post(self.leave)), request

    def leave(self) -> None:
        """Take the form that is open away; what was typed is there when it is opened again."""
        form, request, name = self._form, self._request, str(self._editing.get("id"))
        self._form = self._request = None
        self._editing = {}
        if form is None or request is None:
            return
        self._left[name] = form, request
        while len(self._left) > KEPT:
            self._left.pop(next(iter(self._left)))[0].close()
        self._place(self.view)
        self.publish()

    def _place(self, *children: ipywidgets.Widget) -> None:
        self.children = children

    def refuse(self, name: str, text: str) -> None:
        """Why something could not be done, in words, to who asked for it."""
        self.view.send({"kind": "error", "id": name, "text": text})

    def shut(self) -> None:
        """Close the form that is open, for good."""
        form, self._form, self._request, self._editing = self._form, None, None, {}
        if form is not None:
            self._place(self.view)
            form.close()
            self.publish()

    def _tend_form(self) -> None:
        """Its countdown, and whether it was answered, here or elsewhere."""
        form, request = self._form, self._request
        if form is None or request is None:
            return
        if request.status == "open":
            form.set_note(time_left(request))
            return
        self.listing.ended(request.id, ending(request))
        self.shut()
        self.look()

    def close(self) -> None:
        """Close every widget of it; the questions stay."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._queue.put(self._end)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="flownb-review", daemon=True)
                self._thread.start()
        self.view.on_msg(self._on_message, remove=True)

    def _end(self) -> None:
        """On the thread, after what is under way: a form that opens just now is closed too."""
        for form in (*(form for form, _ in self._left.values()), *([self._form] if self._form else [])):
            form.close()
        super().close()
        for widget in (self.view.layout, self.view, self.layout):
            widget.close()

    __hash__ = object.__hash__


def _names(message: dict[str, Any]) -> list[str]:
    names = message.get("ids")
    return [str(name) for name in names[:LISTED]] if isinstance(names, list) else []


_HANDLERS: dict[str, Callable[[ReviewBox, dict[str, Any]], None]] = {
    "approve": lambda box, message: box.answer(_names(message), approves=True),
    "reject": lambda box, message: box.answer(_names(message), approves=False),
    "look": lambda box, message: box.tell(str(message.get("id"))),
    "edit": lambda box, message: box.edit(str(message.get("id"))),
    "shut": lambda box, message: box.leave(),
}


def content(row: Row) -> list[tuple[str, str]]:
    """What a question shows, as (name, preview) rows; in words, if it cannot be read."""
    try:
        question = row.request.question
    except WorkflowError as error:
        return [("", str(error))]
    shown = question.plain() if isinstance(question, UnknownEvent) else question
    return [pair for pair in payload_rows(shown, 400) if pair[0] != "prefix"]


#: The last table of each cell: run again, it makes another one.
_by_cell: dict[str, ReviewBox] = {}


def show_review(requests: StoreRequests) -> None:
    """Open questions as a cell's output; where nobody looks, in words."""
    if not kernel.has_front_end():
        _display({"text/plain": repr(requests), "text/html": still(requests)}, raw=True)
        return
    box = ReviewBox(requests)
    key = kernel.cell_key(kernel.parent())
    if key:
        before = _by_cell.pop(key, None)
        if before is not None:
            before.close()
        _by_cell[key] = box
    _display(box)


def still(requests: StoreRequests) -> str:
    """The same as a plain table of HTML."""
    found = list(requests)
    head = "".join(
        f'<th scope="col" style="text-align:left">{name}</th>' for name in ("request", "workflow", "step", "question")
    )
    body = "".join(
        f"<tr>{''.join(map(_td, (one.id, one.workflow, one.step, one.in_short())))}</tr>" for one in found[:LISTED]
    )
    more = f"<p>and {len(found) - LISTED:,} more</p>" if len(found) > LISTED else ""
    count = "1 open question" if len(found) == 1 else f"{len(found):,} open questions"
    return f"<table><caption>{count}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _td(text: str) -> str:
    safe = html.escape(text.encode("utf-8", "backslashreplace").decode())
    return f'<td style="text-align:left"><bdi>{safe}</bdi></td>'


__all__ = ["ReviewBox", "ReviewView", "show_review", "still"]
