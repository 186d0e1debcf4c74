"""After the last attempt: `catch_error`, for one step and for the rest, and its limit."""

from workflows import Context, Workflow, catch_error, step
from workflows.events import Event, StartEvent, StepFailedEvent, StopEvent
from workflows.retry_policy import retry_policy, stop_after_attempt, wait_fixed


class Fetch(Event):
    url: str


class Text(Event):
    text: str


TWICE = retry_policy(wait=wait_fixed(0), stop=stop_after_attempt(2))


class Reader(Workflow):
    calls: list[str] = []

    @step
    async def begin(self, ev: StartEvent) -> Fetch:
        return Fetch(url=ev.url)

    @step(retry_policy=TWICE)
    async def fetch(self, ev: Fetch) -> Text:
        self.calls.append("fetch")
        if "bad" in ev.url:
            raise ConnectionError(f"no {ev.url}")
        return Text(text=f"text of {ev.url}")

    @step(retry_policy=TWICE)
    async def read(self, ev: Text) -> StopEvent:
        self.calls.append("read")
        if "odd" in ev.text:
            raise ValueError("unreadable")
        return StopEvent(result=ev.text)

    @catch_error(for_steps=["fetch"])
    async def other_source(self, ctx: Context, ev: StepFailedEvent) -> Text:
        return Text(text=f"copy of {ev.input_event.url} after {ev.attempts} {type(ev.exception).__name__}")

    @catch_error
    async def give_up(self, ev: StepFailedEvent) -> StopEvent:
        return StopEvent(result=f"{ev.step_name}: {ev.exception}")


class Stubborn(Workflow):
    """The handler sends the work back; the third failure along the line ends the run."""

    calls: list[int] = []

    @step
    async def begin(self, ev: StartEvent) -> Fetch:
        return Fetch(url="x")

    @step
    async def fetch(self, ev: Fetch) -> StopEvent:
        self.calls.append(1)
        raise ConnectionError(f"call {len(self.calls)}")

    @catch_error(for_steps=["fetch"], max_recoveries=2)
    async def again(self, ev: StepFailedEvent) -> Fetch:
        return Fetch(url="x")


async def main() -> object:
    results = []
    for url in ("good", "bad", "odd", "bad odd"):
        Reader.calls.clear()
        results.append((await Reader(timeout=10).run(url=url), list(Reader.calls)))
    try:
        await Stubborn(timeout=10).run()
    except ConnectionError as error:
        return results, str(error)
    return results, "no error"


RIGHT = (
    [
        ("text of good", ["fetch", "read"]),
        ("copy of bad after 2 ConnectionError", ["fetch", "fetch", "read"]),
        ("read: unreadable", ["fetch", "read", "read"]),
        ("read: unreadable", ["fetch", "fetch", "read", "read"]),
    ],
    "call 3",
)
