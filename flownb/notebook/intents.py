"""What a person wishes in the panel, and what is done about it: a table from the kind of a message to its handler.

A handler is called on the run's host. It gives True for what is answered by `done` at once, False for what answers
itself or needs no answer; what it raises is told in the panel, in words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from flownb.answering import find
from flownb.debug.conditions import in_names_of
from flownb.errors import RequestClosed, WorkflowError
from flownb.forms.endings import give, hold, too_late
from flownb.notebook import kernel, stops
from flownb.notebook.detail import detail
from flownb.notebook.drafts import Draft, draft_of, draft_of_work
from flownb.notebook.retrying import draft_of_failure
from flownb.requests import Request

if TYPE_CHECKING:
    from flownb.debug.breakpoints import Breakpoints
    from flownb.notebook.panel import RunPanel
    from flownb.run import Run
    from flownb.runtime.pending import Pending

Message = dict[str, Any]
Handler = Callable[["RunPanel", Message], bool]


# -- what the view needs


def _hello(panel: RunPanel, message: Message) -> bool:
    """A view has come: it gets the ticks that it lacks, and the time as it is now."""
    panel.send_from(max(0, int(message.get("have", 0))))
    panel.send_live_again()
    return False


def _ticks(panel: RunPanel, message: Message) -> bool:
    panel.send_from(max(0, int(message["from"])))
    return False


def _bye(panel: RunPanel, message: Message) -> bool:
    panel.forget_view(str(message.get("view", "")))
    return False


def _detail(panel: RunPanel, message: Message) -> bool:
    against = message.get("against")
    found = detail(panel.screen, int(message["seq"]), None if against is None else int(against))
    panel.reply("detail", message, **found)
    return False


def _compact(panel: RunPanel, message: Message) -> bool:
    panel.view.compact = bool(message.get("on"))
    return True


# -- going on


def _pause(panel: RunPanel, message: Message) -> bool:
    panel.run.pause()
    return True


def _cont(panel: RunPanel, message: Message) -> bool:
    panel.run.cont()
    return True


def _step(panel: RunPanel, message: Message) -> bool:
    panel.run.debug.step(int(message.get("n", 1)))
    return True


def _over(panel: RunPanel, message: Message) -> bool:
    return _goes(panel, message, panel.run.debug.over())


def _out(panel: RunPanel, message: Message) -> bool:
    return _goes(panel, message, panel.run.debug.out())


def _run_to(panel: RunPanel, message: Message) -> bool:
    tick = message.get("tick")
    with in_names_of(kernel.user_names()):
        handle = panel.run.debug.run_to(
            step=message.get("step"),
            event=message.get("event"),
            tick=None if tick is None else int(tick),
            when=message.get("when"),
            request=bool(message.get("request")),
        )
    return _goes(panel, message, handle)


def _cancel(panel: RunPanel, message: Message) -> bool:
    panel.run.cancel("stopped in the panel")
    return True


def _goes(panel: RunPanel, message: Message, handle: Pending[Any]) -> bool:
    """It is under way. What goes wrong later (a condition that raises) is told then."""
    handle.on_end(partial(_tell_error, panel, message, handle))
    return True


def _tell_error(panel: RunPanel, message: Message, handle: Pending[Any]) -> None:
    try:
        handle.result(0)
    except Exception as error:
        panel.refuse(message, error)


def _ends(panel: RunPanel, message: Message, handle: Pending[Any]) -> bool:
    """It is answered when it is over."""

    def tell() -> None:
        try:
            handle.result(0)
        except Exception as error:
            panel.refuse(message, error)
        else:
            panel.done(message)

    handle.on_end(tell)
    return False


# -- what waits before the gate


def _admit(panel: RunPanel, message: Message) -> bool:
    return _ends(panel, message, panel.run.debug.admit(_meant(panel, message)))


def _edit(panel: RunPanel, message: Message) -> bool:
    what = _meant(panel, message)
    return _ends(panel, message, panel.run.debug.edit(what, _read(_draft_meant(panel, message), message)))


def _drop(panel: RunPanel, message: Message) -> bool:
    return _ends(panel, message, panel.run.debug.drop(_meant(panel, message)))


def _meant(panel: RunPanel, message: Message) -> Any:
    """An entry of the inbox, or a delivery that waits."""
    inbox = panel.screen.inbox
    return inbox.work(int(message["work"])) if "work" in message else inbox.tick(int(message["entry"]))


def _fire(panel: RunPanel, message: Message) -> bool:
    return _ends(panel, message, panel.run.debug.fire(int(message["timer"])))


def _draft(panel: RunPanel, message: Message) -> bool:
    """The JSON text of an entry's event, of a tick's, or of the one that failed."""
    found = _draft_meant(panel, message)
    if found is None:
        panel.reply("draft", message, text=None, title="", kept=[])
    else:
        panel.reply("draft", message, text=found.text(), title=found.title, kept=found.kept)
    return False


def _draft_meant(panel: RunPanel, message: Message) -> Draft | None:
    if "work" in message:
        return draft_of_work(panel.screen.inbox.work(int(message["work"])).events)
    if "entry" in message:
        return draft_of(panel.screen.inbox.tick(int(message["entry"])))
    if "seq" in message:
        return draft_of(_tick(panel, int(message["seq"])))
    return draft_of_failure(panel.screen.runner, str(message.get("step") or ""))


def _read(draft: Draft | None, message: Message) -> Any:
    if draft is None:
        raise WorkflowError("There is no event here that could be another one.")
    return draft.read(str(message["text"]))


def _tick(panel: RunPanel, seq: int) -> Any:
    ticks = panel.screen.runner.ticks
    if not 1 <= seq <= len(ticks):
        raise WorkflowError(f"The run has ticks 1 to {len(ticks)}, not {seq}.")
    return ticks[seq - 1]


# -- other runs of the same past


def _fork(panel: RunPanel, message: Message) -> bool:
    """A fork, shown below at once. `at` null: from the present, of a run that is over from just before its end."""
    at = message.get("at")
    event = None
    if "text" in message:
        event = _read(draft_of(_tick(panel, int(message["at"]))), message)
    with kernel.shown_elsewhere():
        made = panel.run.debug.fork(None if at is None else int(at), event=event)
    return _shows(panel, message, made)


def _retry(panel: RunPanel, message: Message) -> bool:
    step = str(message.get("step") or "")
    draft = draft_of_failure(panel.screen.runner, step)
    text = message.get("text")
    is_edited = draft is not None and text is not None and str(text) != draft.text()
    event = _read(draft, message) if is_edited else None
    with kernel.shown_elsewhere():
        made = panel.run.debug.retry(step or None, event=event)
    return _shows(panel, message, made)


def _replay(panel: RunPanel, message: Message) -> bool:
    with kernel.shown_elsewhere():
        made = panel.run.debug.replay()
    return _shows(panel, message, made)


def _into(panel: RunPanel, message: Message) -> bool:
    """Show the panel of a child run, of the picked step if it has one; where there is none, step."""
    state = panel.screen.runner.state
    children = list(state.side.children.values())
    if not children:
        return _step(panel, message)
    picked = [child for child in children if child.step + 1 == int(message.get("node", -1))]
    child = (picked or children)[-1]
    found = panel.run.children.get(child.run_id)
    if found is None:
        raise WorkflowError(f"Child {child.run_id} is not started yet: step once more.")
    return _shows(panel, message, found)


def _shows(panel: RunPanel, message: Message, run: Run[Any]) -> bool:
    panel.show_below(run)
    panel.done(message, shows=run.run_id)
    return False


def _close(panel: RunPanel, message: Message) -> bool:
    """Put away the panel of a fork or a child; its run goes on."""
    panel.put_away()
    return False


# -- breakpoints


def _breakpoints(panel: RunPanel) -> Breakpoints:
    if panel.run.workflow is None:
        raise WorkflowError("Breakpoints live on the workflow, which this process has not defined: run its cell first.")
    return panel.run.debug.breakpoints


def _break(panel: RunPanel, message: Message) -> bool:
    """A click on a step, an edge or a tick's row."""
    screen = panel.screen
    graph, seq = screen.projection.graph, 0
    if "node" in message:
        spot = stops.spot_of_node(graph, int(message["node"]))
    elif "edge" in message:
        spot = stops.spot_of_edge(graph, int(message["edge"]))
    else:
        seq = int(message["seq"])
        tick = _tick(panel, seq)
        spot = stops.spot_of_tick(tick, screen.runner.history.at(seq - 1) if seq > 1 else None)
    made = stops.toggle(_breakpoints(panel), spot, bool(message.get("on")))
    if made is not None and seq:
        screen.set_at[made.number] = seq
    screen.changed()
    return True


def _break_at(panel: RunPanel, message: Message) -> bool:
    """A breakpoint as the form says."""
    names = ("step", "event", "state", "when", "error", "at", "hit")
    given = {name: message[name] for name in names if message.get(name) not in (None, "", False)}
    with in_names_of(kernel.user_names()):
        _breakpoints(panel).add(**given)
    panel.screen.changed()
    return True


def _breakpoint(panel: RunPanel, message: Message) -> bool:
    """Enable, disable or remove one of the list."""
    point = stops.numbered(_breakpoints(panel), int(message["n"]))
    acts = {"enable": point.enable, "disable": point.disable, "remove": point.remove}
    act = acts.get(str(message.get("to")))
    if act is None:
        raise WorkflowError(f"A breakpoint is enabled, disabled or removed, not {message.get('to')!r}.")
    act()
    panel.screen.changed()
    return True


# -- people


def _form(panel: RunPanel, message: Message) -> bool:
    request = _asked(panel, message)
    if late := too_late(request):
        raise RequestClosed(late)
    panel.desk.want(request.id)
    return True


def _later(panel: RunPanel, message: Message) -> bool:
    """Put a question off; one that is over is none any more."""
    panel.desk.put_off(_asked(panel, message).id)
    return True


def _answer(panel: RunPanel, message: Message) -> bool:
    give(_asked(panel, message), message["value"])
    return True


def _hold(panel: RunPanel, message: Message) -> bool:
    hold(_asked(panel, message))
    return True


def _asked(panel: RunPanel, message: Message) -> Request[Any]:
    return Request(*find(panel.screen.runner, message["request"]))


def _notify(panel: RunPanel, message: Message) -> bool:
    """The bell: the browser tells of questions, or no longer."""
    panel.notify = bool(message.get("on"))
    panel.send_live_again()
    return True


INTENTS: dict[str, Handler] = {
    "hello": _hello,
    "ticks": _ticks,
    "bye": _bye,
    "detail": _detail,
    "compact": _compact,
    "pause": _pause,
    "cont": _cont,
    "step": _step,
    "over": _over,
    "out": _out,
    "run_to": _run_to,
    "cancel": _cancel,
    "admit": _admit,
    "edit": _edit,
    "drop": _drop,
    "fire": _fire,
    "draft": _draft,
    "fork": _fork,
    "retry": _retry,
    "replay": _replay,
    "into": _into,
    "close": _close,
    "break": _break,
    "break_at": _break_at,
    "breakpoint": _breakpoint,
    "form": _form,
    "later": _later,
    "answer": _answer,
    "hold": _hold,
    "notify": _notify,
}

__all__ = ["INTENTS"]
