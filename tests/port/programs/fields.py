"""Events hold what they were given: declared fields, and others by attribute and by item."""

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Point(Event):
    x: int
    y: int = 0


class Fields(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> Point:
        return Point(x=ev.x, label=ev["label"], tags=ev.get("tags", ["none"]))

    @step
    async def end(self, ev: Point) -> StopEvent:
        return StopEvent(result=(ev.x, ev.y, ev.label, ev["tags"], "label" in ev, "none" in ev, sorted(ev.keys())))


async def main() -> object:
    errors = []
    for wrong in (lambda: Point(x="no"), lambda: Point(x=1).missing, lambda: Point(x=1)["missing"]):
        try:
            wrong()
        except (ValueError, AttributeError, KeyError) as error:
            errors.append(isinstance(error, (AttributeError, KeyError)))
    return await Fields(timeout=10).run(x=3, label="three"), bool(Event()), errors


RIGHT = ((3, 0, "three", ["none"], True, False, ["label", "tags"]), True, [False, True, True])
