"""An agent's loop: a model (here a function) asks for tools until it has an answer."""

from typing import Any

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Prompt(Event):
    pass


class ToolCalls(Event):
    calls: list[tuple[str, tuple[int, ...]]]


class Told(Event):
    text: str


TOOLS = {"add": lambda a, b: a + b, "times": lambda a, b: a * b}


def model(history: list[str]) -> dict[str, Any]:
    said = [line for line in history if line.startswith("tool ")]
    if not said:
        return {"calls": [("add", (2, 3)), ("times", (4, 5))]}
    if len(said) == 2:
        return {"calls": [("add", tuple(int(line.split()[-1]) for line in said))]}
    return {"answer": said[-1].split()[-1]}


class Agent(Workflow):
    @step
    async def ask(self, ctx: Context, ev: StartEvent) -> Prompt:
        await ctx.store.set("history", [f"user {ev.question}"])
        return Prompt()

    @step
    async def think(self, ctx: Context, ev: Prompt) -> ToolCalls | StopEvent:
        reply = model(await ctx.store.get("history"))
        for word in ("thinking", "done" if "answer" in reply else "tools"):
            ctx.write_event_to_stream(Told(text=word))
        if "answer" in reply:
            return StopEvent(result=(reply["answer"], await ctx.store.get("history")))
        return ToolCalls(calls=reply["calls"])

    @step
    async def call(self, ctx: Context, ev: ToolCalls) -> Prompt:
        async with ctx.store.edit_state() as state:
            history = list(state.get("history"))
            for name, args in ev.calls:
                history.append(f"tool {name} {TOOLS[name](*args)}")
            state["history"] = history
        return Prompt()


async def main() -> object:
    handler = Agent(timeout=10).run(question="2+3+4*5?")
    told = [ev.text async for ev in handler.stream_events() if isinstance(ev, Told)]
    return await handler, told


RIGHT = (
    ("25", ["user 2+3+4*5?", "tool add 5", "tool times 20", "tool add 25"]),
    ["thinking", "tools", "thinking", "tools", "thinking", "done"],
)
