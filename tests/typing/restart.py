# %% [markdown]
# # Going on later: suspend, resume, a snapshot

# %%
import json
from typing import assert_type

import flownb
from flownb import Context, Event, Run, StartEvent, StopEvent, Workflow


class Begin(StartEvent):
    pass


class Reply(Event):
    text: str


flow = Workflow[str]("restart")

# %%


@flow.step
async def wait(ev: Begin, ctx: Context) -> StopEvent:
    began = ctx.now()
    reply = await ctx.wait_for_event(Reply, requirements={"text": "go"}, timeout=60)
    assert_type(reply, Reply)
    await ctx.sleep(0.01)
    return StopEvent(result=f"{reply.text} {ctx.now() >= began}")


# %%
run = flow.run(run_id="later")
run.suspend(drain=0).result(10)
again = flow.resume("later")
assert_type(again, Run[str])
saved = json.dumps(again.snapshot())
twin = flownb.resume(json.loads(saved))
again.send_event(Reply(text="go"), key="hook-1").result(10)
assert again.result(20) == "go True"
twin.send_event(Reply(text="go"))
assert twin.result(20) == "go True"
