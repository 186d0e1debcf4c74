# %% [markdown]
# # A flaky API: retries, a handler, rates

# %%
from typing import assert_type

from flownb import Context, Event, StartEvent, StopEvent, Workflow, catch_error, step
from flownb.errors import NoRetry
from flownb.events import StepFailedEvent
from flownb.retry_policy import (
    RetryInfo,
    retry_if_exception_type,
    retry_policy,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential_jitter,
)


class Fetch(StartEvent):
    urls: list[str]


class Page(Event):
    url: str


class Text(Event):
    url: str
    text: str


patient = retry_policy(
    retry=retry_if_exception_type(ConnectionError),
    wait=wait_exponential_jitter(initial=0.001, max=0.01),
    stop=stop_after_attempt(3) | stop_after_delay(5),
)


class Crawl(Workflow[list[str]]):
    @step
    def split(self, ev: Fetch) -> list[Page]:
        return [Page(url=url) for url in ev.urls]

    @step(num_workers=2, retry_policy=patient, timeout=5.0, rate=100)
    async def fetch(self, ev: Page, ctx: Context) -> Text:
        info = ctx.retry_info()
        assert_type(info, RetryInfo)
        if "gone" in ev.url:
            raise NoRetry(f"{ev.url} is gone")
        if ctx.attempt < 2:
            raise ConnectionError(ctx.task_key)
        return Text(url=ev.url, text=f"{ev.url} at attempt {info.retry_number + 1}")

    @catch_error(for_steps=["fetch"], max_recoveries=1)
    async def missing(self, ev: StepFailedEvent) -> Text:
        return Text(url="", text=f"{ev.step_name}: {ev.attempts}")

    @step
    def join(self, ev: list[Text]) -> StopEvent:
        return StopEvent(result=[each.text for each in ev])


# %%
texts = Crawl().run(urls=["a", "gone"]).result(20)
assert_type(texts, list[str])
assert texts == ["a at attempt 2", "fetch: 1"]
