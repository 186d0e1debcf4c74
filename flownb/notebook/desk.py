"""The questions of one panel: which of them are open, as forms below it or as rows of the page, and which are lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flownb.forms.endings import due_in_words
from flownb.notebook.forms import AnswerForm
from flownb.notebook.questions import OPEN_FORMS, Card, close_with_words, form_for, form_title

#: Forms of questions that are over may stay, hidden, so that no open form is drawn anew under who types in it; but not
#: more of them than that.
_MOST_HIDDEN = 12


class _Open:
    """A form below the panel, with what it says now."""

    def __init__(self, card: Card, place: str, form: AnswerForm) -> None:
        self.card, self.place, self.form = card, place, form
        self.due = card.request.deadline
        self.error = ""


class Desk:
    """At most three questions are open at once, the oldest that nobody put off, and what a person opened. On the host.

    Args:
        show: Called with the boxes of the forms when they are others.
        changed: Called when a person put a question off or opened one.
    """

    def __init__(self, show: Callable[[Sequence[Any]], None], changed: Callable[[], None]) -> None:
        self._show, self._changed = show, changed
        #: Open questions by id, as forms or as rows.
        self.opened: set[str] = set()
        self._later: set[str] = set()
        self._wanted: set[str] = set()
        self._open: dict[str, _Open] = {}
        #: Forms in the order in which they stand, by the question's id; those that are over are single lines.
        self._forms: dict[str, AnswerForm] = {}
        self._hidden: set[str] = set()
        #: What was typed into forms that were put off.
        self._drafts: dict[str, dict[str, Any]] = {}

    @property
    def forms(self) -> dict[str, AnswerForm]:
        """The open forms by question."""
        return {number: entry.form for number, entry in self._open.items()}

    def lines(self) -> set[str]:
        """Questions that are over and whose form says so in a line."""
        return {number for number in self._forms if number not in self._open and number not in self._hidden}

    def tend(self, cards: Sequence[Card], needs: int, recent: Sequence[str]) -> int:
        """Open the forms of the oldest questions, end those of questions that are over; how many changed.

        Args:
            cards: The open questions, oldest first.
            needs: How many are open; more than there are cards, maybe.
            recent: Ids of the questions that ended last: what became of them stays in sight.
        """
        changed = self._end({card.id for card in cards}, recent)
        order = list(self._forms)
        for place, card in enumerate(cards, 1):
            words = f"{place} of {needs}" if needs > 1 else ""
            if card.id not in self.opened and self._wants(card.id):
                if card.kind == "form":
                    self._begin(card, words)
                    self._renew(self._open[card.id], words)
                    changed += 1
                self.opened.add(card.id)
            elif card.id in self._open:
                changed += self._renew(self._open[card.id], words)
        if order != list(self._forms):
            self._show([form.box for form in self._forms.values()])
        return changed

    def _wants(self, number: str) -> bool:
        if number in self._wanted:
            return True
        return number not in self._later and len(self.opened) < OPEN_FORMS

    def _begin(self, card: Card, place: str) -> None:
        request = card.request
        later = partial(self._put_off_later, request, card.id)
        draft = self._drafts.pop(card.id, None)
        form = form_for(request, place, note=due_in_words(request), draft=draft, on_later=later)
        self._open[card.id] = _Open(card, place, form)
        self._forms[card.id] = form
        if card.id in self._wanted:  # who opened it has the focus there, so the others may be drawn anew
            ages = {number: entry.card.request.opened_at for number, entry in self._open.items()}
            self._forms = dict(sorted(self._forms.items(), key=lambda pair: ages.get(pair[0], 0.0)))

    def _renew(self, entry: _Open, place: str) -> int:
        changed, request = 0, entry.card.request
        if place != entry.place:
            entry.place = place
            entry.form.set_title(form_title(request, place))
            changed += 1
        if request.deadline != entry.due:
            entry.due = request.deadline
            entry.form.set_note(due_in_words(request) or "held: no deadline")
            entry.form.held()
            changed += 1
        if entry.card.error != entry.error:
            entry.error = entry.card.error
            entry.form.show_error(entry.error)  # reasons are added, never taken away
            changed += 1
        return changed

    def _end(self, asked: set[str], recent: Sequence[str]) -> int:
        """What is over becomes a line; a line that is no longer among the last ones is hidden."""
        changed = 0
        for number in [n for n in self._open if n not in asked]:
            entry = self._open.pop(number)
            close_with_words(entry.form, entry.card.request)
            changed += 1
        for known in (self.opened, self._later, self._wanted):
            known.intersection_update(asked)
        for number in self._drafts.keys() - asked:
            del self._drafts[number]
        for number in self.lines() - set(recent):
            self._hidden.add(number)
            self._forms[number].box.add_class("fl-past")
            changed += 1
        if self._hidden and (not self._open or len(self._hidden) > _MOST_HIDDEN):
            gone = [self._forms.pop(number) for number in self._hidden]
            self._hidden.clear()
            self._show([form.box for form in self._forms.values()])
            for form in gone:
                form.close()
        return changed

    def _put_off_later(self, request: Any, number: str) -> None:
        """A click, on whatever thread."""
        request._runner.host.call(self.put_off, number)

    def put_off(self, number: str) -> None:
        """A person looks at it later: it becomes a line, and the next one opens."""
        if number not in self.opened:
            return
        self._later.add(number)
        self._wanted.discard(number)
        self.opened.discard(number)
        entry = self._open.pop(number, None)
        if entry is not None:
            self._drafts[number] = entry.form.values
            del self._forms[number]
            self._show([form.box for form in self._forms.values()])
            entry.form.close()
        self._changed()

    def want(self, number: str) -> None:
        """Open a question, however many are open."""
        self._later.discard(number)
        self._wanted.add(number)
        self._changed()

    def close(self) -> None:
        """Close every form; none can come after it."""
        for form in self._forms.values():
            form.close()
        self._forms.clear()
        self._open.clear()
        self.opened.clear()
