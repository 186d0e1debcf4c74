"""API §4: `self` serves all runs and is in no journal, so a step that assigns to it is told so once; theirs says
nothing."""

import warnings

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Next(Event):
    pass


class Keeps(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> Next:
        self.secret = ev.secret
        return Next()

    @step
    async def end(self, ev: Next) -> StopEvent:
        return StopEvent(result=self.secret)


async def main() -> object:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        flow = Keeps(timeout=10)
        results = [await flow.run(secret=n) for n in (1, 2)]
    return results, ["ctx.state.set" in str(one.message) for one in caught]


THEIRS = ([1, 2], [])
OURS = ([1, 2], [True])
