"""R3.48, R3.52: what an attempt sent before it failed is not sent again by the next one; theirs sends it again."""

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent
from workflows.retry_policy import retry_policy, stop_after_attempt, wait_fixed

arrived: list[int] = []


class Note(Event):
    n: int


class End(Event):
    pass


class Flaky(Workflow):
    @step(retry_policy=retry_policy(wait=wait_fixed(0.01), stop=stop_after_attempt(3)))
    async def begin(self, ctx: Context, ev: StartEvent) -> End | Note:
        ctx.send_event(Note(n=1))
        if ctx.retry_info().retry_number < 2:
            raise ConnectionError("busy")
        return End()

    @step
    async def note(self, ev: Note) -> None:
        arrived.append(ev.n)

    @step
    async def end(self, ev: End) -> StopEvent:
        return StopEvent()


async def main() -> object:
    await Flaky(timeout=10).run()
    return arrived


THEIRS = [1, 1, 1]
OURS = [1]
