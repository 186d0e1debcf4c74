"""Start and stop events of one's own; the stop event is then the result."""

from pydantic import BaseModel
from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent


class Model(BaseModel):
    name: str


class Ask(StartEvent):
    question: str
    model: Model = Model(name="small")


class Answer(StopEvent):
    text: str
    sources: list[str] = []


class Talk(Workflow):
    @step
    async def answer(self, ev: Ask) -> Answer:
        return Answer(text=f"{ev.model.name}: {ev.question.upper()}", sources=["a", "b"])


async def main() -> object:
    flow = Talk(timeout=10)
    by_fields = await flow.run(question="why?")
    by_object = await flow.run(start_event=Ask(question="how?", model=Model(name="large")))
    handler = flow.run(question="when?")
    streamed = [ev.text async for ev in handler.stream_events() if isinstance(ev, Answer)]
    await handler
    return [(type(one).__name__, one.text, one.sources) for one in (by_fields, by_object)], streamed


RIGHT = (
    [("Answer", "small: WHY?", ["a", "b"]), ("Answer", "large: HOW?", ["a", "b"])],
    ["small: WHEN?"],
)
