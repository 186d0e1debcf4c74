"""Retries: a policy of condition, wait and stop; what a step can see of its attempts; what comes after the last one."""

import time

from workflows import Context, Workflow, step
from workflows.errors import WorkflowRuntimeError
from workflows.events import StartEvent, StopEvent, WorkflowFailedEvent
from workflows.retry_policy import (
    retry_if_exception_message,
    retry_if_exception_type,
    retry_policy,
    stop_after_attempt,
    stop_after_delay,
    wait_chain,
    wait_fixed,
)


class Busy(Exception):
    pass


class Flaky(Workflow):
    @step(retry_policy=retry_policy(wait=wait_chain(wait_fixed(0.02), wait_fixed(0.03)), stop=stop_after_attempt(5)))
    async def work(self, ctx: Context, ev: StartEvent) -> StopEvent:
        info = ctx.retry_info()
        if info.retry_number < ev.fails:
            raise Busy(f"attempt {info.retry_number + 1}")
        return StopEvent(result=(info.retry_number, str(info.last_exception)))


class Picky(Workflow):
    """Only some errors are tried again."""

    calls: list[str] = []

    @step(
        retry_policy=retry_policy(
            retry=retry_if_exception_type(Busy) | retry_if_exception_message(match="again"),
            wait=wait_fixed(0),
            stop=stop_after_attempt(3) | stop_after_delay(5),
        )
    )
    async def work(self, ev: StartEvent) -> StopEvent:
        self.calls.append(ev.how)
        raise {"busy": Busy("x"), "again": ValueError("try again"), "no": ValueError("no")}[ev.how]


class Never(Workflow):
    @step
    async def work(self, ev: StartEvent) -> StopEvent:
        raise WorkflowRuntimeError("only once")


async def main() -> object:
    begun = time.monotonic()
    came_through = await Flaky(timeout=10).run(fails=2)
    waited = time.monotonic() - begun >= 0.05

    handler = Flaky(timeout=10).run(fails=9)
    failed = [ev async for ev in handler.stream_events() if isinstance(ev, WorkflowFailedEvent)]
    try:
        await handler
    except Busy as error:
        gave_up = str(error)
    picky = []
    for how in ("busy", "again", "no"):
        Picky.calls.clear()
        try:
            await Picky(timeout=10).run(how=how)
        except (Busy, ValueError) as error:
            picky.append((str(error), len(Picky.calls)))
    try:
        await Never(timeout=10).run()
    except WorkflowRuntimeError as error:
        never = str(error)
    told = [(ev.step_name, ev.attempts, str(ev.exception)) for ev in failed]
    return came_through, waited, gave_up, told, picky, never


RIGHT = (
    (2, "attempt 2"),
    True,
    "attempt 5",
    [("work", 5, "attempt 5")],
    [("x", 3), ("try again", 3), ("no", 1)],
    "only once",
)
