"""Loops: a step returns an event that an earlier step takes, or its own."""

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Guess(Event):
    secret: int
    low: int
    high: int
    tries: int


class Halving(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> Guess:
        return Guess(secret=ev.secret, low=0, high=ev.limit, tries=0)

    @step
    async def guess(self, ev: Guess) -> Guess | StopEvent:
        middle = (ev.low + ev.high) // 2
        if middle == ev.secret:
            return StopEvent(result={"found": middle, "tries": ev.tries + 1})
        if middle < ev.secret:
            return Guess(secret=ev.secret, low=middle + 1, high=ev.high, tries=ev.tries + 1)
        return Guess(secret=ev.secret, low=ev.low, high=middle, tries=ev.tries + 1)


async def main() -> object:
    return [await Halving(timeout=10).run(secret=secret, limit=100) for secret in (50, 7, 99)]


RIGHT = [{"found": 50, "tries": 1}, {"found": 7, "tries": 7}, {"found": 99, "tries": 6}]
