"""The panel: `RunView` and the forms below it, in one box."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import ipywidgets

from flownb.answering import find
from flownb.core.state import Delivery, RunState
from flownb.core.ticks import Ask
from flownb.errors import EngineLost, WorkflowError
from flownb.events import Event
from flownb.notebook.forms import AnswerForm
from flownb.notebook.kernel import said_hello
from flownb.notebook.payload import preview, rows
from flownb.notebook.questions import OPEN_FORMS, deadline_note, ending_note, form_for
from flownb.notebook.screen import Screen
from flownb.notebook.viewmodel import caption, causes, delivery_of
from flownb.notebook.widget import RunView
from flownb.requests import Request

#: Rows of one `ticks` message.
CHUNK = 2_500
_SECONDS_BETWEEN_CHUNKS = 0.06
_SECONDS_BETWEEN_NOTES = 1.0
#: Of the live state: what changes without news. The page lets the clock run on by itself.
_MOVING = frozenset(("at", "elapsed"))


class RunPanel(ipywidgets.VBox):  # type: ignore[misc]
    """One run, live, in a cell.

    Made in the cell that shows it; from then on the publisher, on the run's host, makes and changes all widgets.
    Handlers of messages, on whatever thread they come, only post.
    """

    def __init__(self, screen: Screen, *, compact: bool) -> None:
        self.view = RunView(graph=screen.graph(), live={}, compact=compact)
        super().__init__([self.view], layout=ipywidgets.Layout(width="auto", overflow="visible"))
        self.add_class("flownb-panel")
        self._screen = screen
        self._sent = 0
        self._forms: dict[int, AnswerForm] = {}
        self._later: set[int] = set()
        self._wanted: set[int] = set()
        self._ended_form: AnswerForm | None = None
        #: The last message of each view, whose ids count up.
        self._last_id: dict[str, int] = {}
        #: What was sent last: the live state without what changes by itself, the notes of the forms, the twin's facts.
        self._shown: dict[str, Any] = {}
        self._notes: dict[int, str] = {}
        self._shown_twin: tuple[Any, ...] = ()
        self._seq = 0
        self._countdown: asyncio.TimerHandle | None = None
        self._twin: Any = None
        self.closed = False
        self.view.on_msg(self._on_message)
        screen.want_layout()
        screen.show(self)

    def keep_twin(self, handle: Any) -> None:
        """The output of its twin is there; what happened meanwhile is news to it."""
        self._twin = handle
        self._screen.runner.host.call(self._screen.changed)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle["text/plain"] = f"run {self._screen.run.run_id} of {self._screen.projection.graph.name}"
        return bundle  # type: ignore[no-any-return]

    # -- down

    def publish(self) -> int:
        """Send what is new; how many messages that took (a form that opens counts as one)."""
        if self.closed:
            return 0
        sent = self._tend_forms() + self._send_live()
        rows_now = self._screen.projection.rows
        if self._sent < len(rows_now):
            self._send_ticks(self._sent)
            sent += 1
        if self._sent < len(rows_now):
            self._screen.publisher.mark(self)
        return sent

    def _send_live(self) -> int:
        live = self._screen.live(set(self._forms))
        shown = {name: value for name, value in live.items() if name not in _MOVING}
        if shown == self._shown:
            return 0
        self._shown = shown
        self._seq += 1
        self.view.live = {"seq": self._seq, **live}
        return 1

    def _count_down(self) -> None:
        """A second passed while a question with a deadline is open."""
        self._countdown = None
        if not self.closed:
            self._screen.publisher.mark(self)

    def redraw(self) -> None:
        """The graph was laid out."""
        if not self.closed:
            self.view.graph = self._screen.graph()

    def _send_ticks(self, start: int) -> int:
        projection = self._screen.projection
        total = len(projection.rows)
        stop = min(total, start + CHUNK)
        columns = projection.columns(start, stop)
        self.view.send(
            {"kind": "ticks", "run": self._screen.run.run_id, "from": start, "total": total, "cols": columns}
        )
        self._sent = max(self._sent, stop)
        return stop

    def _send_all(self, start: int) -> None:
        """Everything from a tick on, to a view that has just come, a chunk at a time."""
        if self.closed or start >= len(self._screen.projection.rows):
            return
        stop = self._send_ticks(start)
        self._screen.runner.host.later(_SECONDS_BETWEEN_CHUNKS, self._send_all, stop)

    def publish_twin(self) -> None:
        """Renew the static twin, if it says something new."""
        if self._twin is None or self.closed:
            return
        with self._screen.drawing:
            facts = self._screen.twin_facts()
            if facts != self._shown_twin:
                self._shown_twin = facts
                self._twin.update(self._screen.twin())

    # -- forms

    def _open_requests(self) -> list[Request[Any]]:
        return [request for request in self._screen.run.requests if request.answer_type is not bool]

    def _tend_forms(self) -> int:
        """Open the forms of the oldest questions, close those of answered ones; how many changed."""
        asked = {request.number: request for request in self._open_requests()}
        changed = 0
        for number in [n for n in self._forms if n not in asked]:
            self._put_away(
                self._forms.pop(number), Request(self._screen.runner, self._screen.runner.questions.all[number])
            )
            del self._notes[number]
            changed += 1
        for number, request in asked.items():
            if number not in self._forms and self._wants(number):
                place = f"1 of {len(asked)}" if len(asked) > 1 else ""
                self._forms[number] = form_for(request, place, on_later=lambda n=number: self._put_off(n))
                self._notes[number] = deadline_note(request)
                changed += 1
        if changed:
            self._show_forms()
        return changed + self._renew_notes(asked)

    def _renew_notes(self, asked: dict[int, Request[Any]]) -> int:
        """The countdowns of open forms, once a second; how many changed."""
        changed = 0
        for number, form in self._forms.items():
            note = deadline_note(asked[number])
            if note != self._notes[number]:
                self._notes[number] = note
                form.set_note(note)
                changed += 1
        if self._countdown is None and any(asked[number].deadline is not None for number in self._forms):
            self._countdown = self._screen.runner.host.later(_SECONDS_BETWEEN_NOTES, self._count_down)
        return changed

    def _wants(self, number: int) -> bool:
        if number in self._wanted:
            return True
        return number not in self._later and len(self._forms) < OPEN_FORMS

    def _put_away(self, form: AnswerForm, request: Request[Any]) -> None:
        """An ended form stays, with who and when, until the next one ends."""
        form.answered(ending_note(request))
        if self._ended_form is not None:
            self._ended_form.close()
        self._ended_form = form

    def _put_off(self, number: int) -> None:
        self._screen.runner.host.call(self._close_form, number)

    def _close_form(self, number: int) -> None:
        self._later.add(number)
        self._wanted.discard(number)
        form = self._forms.pop(number, None)
        if form is not None and not self.closed:
            del self._notes[number]
            self._show_forms()
            form.close()
            self._screen.publisher.mark(self)

    def _show_forms(self) -> None:
        ended = [self._ended_form.box] if self._ended_form is not None else []
        self.children = (self.view, *ended, *(form.box for form in self._forms.values()))

    # -- up

    def _on_message(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        if message.get("kind") == "hello":
            said_hello()
        self._screen.runner.host.call(self._handle, message)

    def _handle(self, message: dict[str, Any]) -> None:
        """One message from a view; (view, id) makes a repeat harmless."""
        if self.closed:
            return
        view, handler = str(message.get("view", "")), _MESSAGES.get(str(message.get("kind")))
        try:
            number = int(message["id"])
            if number <= self._last_id.get(view, 0):
                return
            self._last_id[view] = number
            if handler is None:
                raise WorkflowError(f"This panel does not know {message.get('kind')!r}.")
            answered = handler(self, message)
        except Exception as error:  # whatever was refused: in words, in the panel
            self._reply("error", message, text=f"{type(error).__name__}: {error}")
            return
        if answered:
            self._reply("done", message, seq=self._screen.runner.state.seq)

    def _reply(self, kind: str, message: dict[str, Any], **more: Any) -> None:
        self.view.send({"kind": kind, "view": message.get("view"), "of": message.get("id"), **more})

    def _on_hello(self, message: dict[str, Any]) -> bool:
        """A view has come: it gets the ticks that it lacks, and the time as it is now."""
        self._send_all(max(0, int(message.get("have", 0))))
        self._shown = {}
        self._screen.publisher.mark(self)
        return False

    def _on_ticks(self, message: dict[str, Any]) -> bool:
        self._send_all(max(0, int(message["from"])))
        return False

    def _on_bye(self, message: dict[str, Any]) -> bool:
        del self._last_id[str(message.get("view", ""))]
        return False

    def _on_pause(self, message: dict[str, Any]) -> bool:
        self._screen.run.pause()
        return True

    def _on_cont(self, message: dict[str, Any]) -> bool:
        self._screen.run.cont()
        return True

    def _on_step(self, message: dict[str, Any]) -> bool:
        self._screen.run.debug.step(int(message.get("n", 1)))
        return True

    def _on_cancel(self, message: dict[str, Any]) -> bool:
        self._screen.run.cancel("stopped in the panel")
        return True

    def _on_compact(self, message: dict[str, Any]) -> bool:
        self.view.compact = bool(message.get("on"))
        return True

    def _on_form(self, message: dict[str, Any]) -> bool:
        self._wanted.add(int(message["request"]))
        self._screen.publisher.mark(self)
        return True

    def _on_answer(self, message: dict[str, Any]) -> bool:
        runner = self._screen.runner
        Request(*find(runner, message["request"])).answer(message["value"])
        return True

    def _on_detail(self, message: dict[str, Any]) -> bool:
        self.view.send(
            {"kind": "detail", "view": message.get("view"), "of": message.get("id"), **self.detail(int(message["seq"]))}
        )
        return False

    def detail(self, seq: int) -> dict[str, Any]:
        """What the inspector shows of tick `seq`: `{seq, title, route, payload, state, causes, effects, log}`."""
        runner, screen = self._screen.runner, self._screen
        after = runner.history.at(seq)
        before: RunState | None = runner.history.at(seq - 1) if seq > 1 else None
        tick = runner.ticks[seq - 1]
        kind, step, event, _ = caption(tick, before)
        delivery = delivery_of(tick, before)
        changes = screen.run._moment(after).diff()
        return {
            "seq": seq,
            "title": event or kind,
            "route": " ".join(filter(None, (step, kind))),
            "payload": _payload(tick),
            "state": [
                [name, None if old is None else preview(old), None if new is None else preview(new)]
                for name, (old, new) in changes.items()
            ],
            "causes": causes(tick, before),
            "effects": screen.projection.effects.get(seq, [])[:50],
            "log": self._log_of(step, delivery)[-20_000:],
        }

    def _log_of(self, step: str, delivery: Delivery | None) -> str:
        """What the delivery of a tick wrote; of one that wrote nothing, what all steps wrote so far."""
        log = self._screen.runner.logs.get(step)
        said = log.text(delivery.id) if log is not None and delivery is not None else ""
        return said or self._screen.run.logs()

    # -- the end

    def close(self) -> None:
        """Close every widget of it; the run goes on."""
        if self.closed:
            return
        self.closed = True
        try:
            self._screen.runner.host.call(self._leave)
        except EngineLost:  # nobody makes widgets there any more
            self._leave()

    def _leave(self) -> None:
        """On the host, where forms are made: none can come into being meanwhile."""
        if self._countdown is not None:
            self._countdown.cancel()
            self._countdown = None
        self.view.on_msg(self._on_message, remove=True)
        super().close()
        self.view.layout.close()
        self.view.close()
        for form in (*self._forms.values(), *([self._ended_form] if self._ended_form else [])):
            form.close()
        self._forms.clear()
        self.layout.close()
        if self in self._screen.panels:
            self._screen.panels.remove(self)
        self._screen.publisher.forget(self)

    __hash__ = object.__hash__


def _payload(tick: Any) -> list[list[str]]:
    """The fields of what a tick carries, as previews."""
    shown: list[list[str]] = []
    outs = [out for out in (getattr(tick, "out", None), getattr(tick, "answer", None)) if out is not None]
    wait = getattr(tick, "wait", None)
    if isinstance(wait, Ask):
        outs.append(wait.question)
    outs += list(getattr(tick, "outs", ()))
    for out in outs[:20]:
        value = out.value
        if isinstance(value, Event):
            prefix = f"{type(value).__name__}." if len(outs) > 1 else ""
            shown += [[prefix + name, text] for name, text in rows(value)]
        else:
            shown.append(["value", preview(value)])
    if len(outs) > 20:
        shown.append(["…", f"{len(outs) - 20} more"])
    changes = getattr(tick, "changes", None)
    if changes:
        shown += [[name, preview(out.value)] for name, out in changes.items()]
    failure = getattr(tick, "failure", None)
    if failure is not None:
        shown += [["error", failure.message], ["traceback", failure.traceback]]
    for name in ("by", "how", "reason", "n"):
        value = getattr(tick, name, None)
        if value:
            shown.append([name, str(value)])
    return shown


_MESSAGES: dict[str, Callable[[RunPanel, dict[str, Any]], bool]] = {
    "hello": RunPanel._on_hello,
    "ticks": RunPanel._on_ticks,
    "bye": RunPanel._on_bye,
    "detail": RunPanel._on_detail,
    "pause": RunPanel._on_pause,
    "cont": RunPanel._on_cont,
    "step": RunPanel._on_step,
    "cancel": RunPanel._on_cancel,
    "compact": RunPanel._on_compact,
    "form": RunPanel._on_form,
    "answer": RunPanel._on_answer,
}
