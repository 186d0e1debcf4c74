"""API §3: items of an event (`ev["x"]`, `in`, `get`) are its declared fields too, and `to_dict()` has all;
theirs only the undeclared ones."""

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Point(Event):
    x: int


class Fields(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> Point:
        return Point(x=1, label="one")

    @step
    async def end(self, ev: Point) -> StopEvent:
        return StopEvent(result=("x" in ev, ev.get("x"), ev.to_dict(), sorted(ev.keys())))


async def main() -> object:
    return await Fields(timeout=10).run()


THEIRS = (False, None, {"label": "one"}, ["label"])
OURS = (True, 1, {"x": 1, "label": "one"}, ["label"])
