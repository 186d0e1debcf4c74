"""Steps outside of the class, plain functions as steps, and steps that a subclass inherits or replaces."""

import threading

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Middle(Event):
    text: str
    thread: str = ""


class Outside(Workflow):
    pass


@step(workflow=Outside)
async def begin(ev: StartEvent) -> Middle:
    return Middle(text=ev.text)


@step(workflow=Outside)
async def end(ctx: Context, ev: Middle) -> StopEvent:
    return StopEvent(result=ev.text[::-1])


class Plain(Workflow):
    @step
    def begin(self, ev: StartEvent) -> Middle:
        return Middle(text=ev.text, thread=threading.current_thread().name)

    @step
    async def end(self, ev: Middle) -> StopEvent:
        return StopEvent(result=(ev.text, ev.thread != threading.current_thread().name))


class Loud(Plain):
    @step
    async def end(self, ev: Middle) -> StopEvent:
        return StopEvent(result=ev.text.upper())


async def main() -> object:
    return [await flow(timeout=10).run(text="abc") for flow in (Outside, Plain, Loud)]


RIGHT = ["cba", ("abc", True), "ABC"]
