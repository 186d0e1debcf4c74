"""Runs on the engine's thread and their panels without a browser."""

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import ipywidgets

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step
from flownb.notebook.forms import AnswerForm
from flownb.notebook.panel import RunPanel
from tests.polling import wait_until


class Begin(StartEvent):
    n: int = 3


class Item(Event):
    no: int


class Done(Event):
    no: int


class Verdict(HumanResponseEvent):
    decision: Literal["keep", "drop"]
    note: str = ""


class Odd(InputRequiredEvent[Verdict]):
    no: int
    prefix: str = ""


class Count(Workflow):
    @step
    async def split(self, ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step
    async def work(self, ev: Item, ctx: Context) -> Done:
        ctx.state.set("last", ev.no)
        return Done(no=ev.no)

    @step
    async def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=len(ev))


class Talks(Workflow):
    """One step that prints and writes the state."""

    @step
    async def work(self, ev: Begin, ctx: Context) -> StopEvent:
        print("working on", ev.n)
        ctx.state.set("last", ev.n)
        return StopEvent(result=ev.n)


class Review(Workflow):
    """Asks for `n` verdicts at once."""

    @step
    async def split(self, ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step(num_workers=8)
    async def ask(self, ev: Item, ctx: Context) -> Done:
        await ctx.ask(Odd(no=ev.no))
        return Done(no=ev.no)

    @step
    async def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=len(ev))


class YesNo(Workflow):
    @step
    async def ask(self, ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Sure?", bool))


class Hangs(Workflow):
    @step
    async def hang(self, ev: Begin) -> StopEvent:
        await asyncio.Event().wait()
        return StopEvent()


class Asks(Workflow):
    """Asks `n` yes-or-no questions at once, with a deadline."""

    @step
    async def split(self, ev: Begin) -> list[Item]:
        return [Item(no=i) for i in range(ev.n)]

    @step(num_workers=8)
    async def ask(self, ev: Item, ctx: Context) -> Done:
        await ctx.ask(f"Keep row {ev.no}?", bool, timeout=60, default=False)
        return Done(no=ev.no)

    @step
    async def join(self, ev: list[Done]) -> StopEvent:
        return StopEvent(result=len(ev))


class Page:
    """Stands for a view in a browser: sends messages, keeps those that come down."""

    def __init__(self, panel: RunPanel, name: str = "view-1") -> None:
        self.panel, self.name, self.id = panel, name, 0
        self.got: list[dict[str, Any]] = []
        panel.view.send = lambda content, buffers=None: self.got.append(content)

    def post(self, kind: str, **more: Any) -> int:
        self.id += 1
        self.again(kind, self.id, **more)
        return self.id

    def again(self, kind: str, number: Any, **more: Any) -> None:
        message = {"kind": kind, "run": "", "view": self.name, "id": number, **more}
        self.panel._on_message(self.panel.view, message, [])

    def reply(self, number: int) -> dict[str, Any]:
        """The answer to a message, waited for."""
        wait_until(lambda: any(m.get("of") == number for m in list(self.got)))
        return next(m for m in list(self.got) if m.get("of") == number)

    def ask(self, kind: str, **more: Any) -> dict[str, Any]:
        return self.reply(self.post(kind, **more))

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [m for m in list(self.got) if m["kind"] == kind]


def forms_of(panel: RunPanel) -> dict[int, AnswerForm]:
    """The open forms by the number of their question."""
    return {int(number.rpartition(":")[2]): form for number, form in list(panel.desk.forms.items())}


def inside(widget: Any) -> Iterator[Any]:
    """A widget and all that is in it."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from inside(child)


def widget_of(box: Any, css: str) -> Any:
    """The widget of a form that wears a class; None if there is none."""
    return next((widget for widget in inside(box) if css in widget._dom_classes), None)


def head_of(box: Any) -> str:
    """All HTML of a form."""
    return "\n".join(widget.value for widget in inside(box) if isinstance(widget, ipywidgets.HTML))


def pick(form: AnswerForm, value: str) -> None:
    """Choose in the first field of a form."""
    next(widget for widget in inside(form.box) if isinstance(widget, ipywidgets.RadioButtons)).label = value


def type_in(form: AnswerForm, text: str) -> None:
    """Fill the first text of a form in."""
    next(
        widget for widget in inside(form.box) if isinstance(widget, (ipywidgets.Text, ipywidgets.Textarea))
    ).value = text


def choose(form: AnswerForm, value: str) -> None:
    """Choose in the first field of a form, and send it."""
    pick(form, value)
    form.submit()


def on_engine(run: Any, call: Callable[[], Any] = lambda: None) -> Any:
    """The value of a call made on the run's host; what was posted before it is done by then."""
    found: list[Any] = []
    run._runner.host.call(lambda: found.append(call()))
    wait_until(lambda: found)
    return found[0]


@contextmanager
def panel_of(run: Any, *, compact: bool = False) -> Generator[tuple[RunPanel, Page], None, None]:
    """A panel of a run, joined, and closed at the end; the run is cancelled if it still lives."""
    panel = RunPanel(run.view.screen, compact=compact)
    page = Page(panel)
    on_engine(run)
    try:
        yield panel, page
    finally:
        panel.close()
        run.cancel()
        on_engine(run)
