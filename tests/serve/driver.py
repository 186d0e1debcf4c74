"""A process that drives runs, each of which asks one question after the other and says when it went on."""

import sys
import time

from flownb import Context, StartEvent, StopEvent, Workflow


class Begin(StartEvent):
    n: int = 1


flow = Workflow("asks-on")


@flow.step
async def asks(ev: Begin, ctx: Context) -> StopEvent:
    for number in range(ev.n):
        answer = await ctx.ask(f"Go on with {number}?", str)
        print(f"{number} {time.time():.6f} {answer}", flush=True)
    return StopEvent(result="done")


if __name__ == "__main__":
    place, run_id, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    run = flow.with_options(store=place).run(run_id=run_id, n=n)
    print("begun", flush=True)
    print(run.result(), flush=True)
