"""Workflows that ask, for tests of what is answered over HTTP."""

import datetime
import enum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field, SecretStr, model_validator

from flownb import Context, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Store, Workflow, step
from flownb.run import Run
from tests.polling import wait_for_questions


class Begin(StartEvent):
    n: int = 1
    within: float | None = None


class Verdict(HumanResponseEvent):
    decision: Literal["approve", "reject"]
    note: str = ""

    @model_validator(mode="after")
    def check(self) -> "Verdict":
        if self.decision == "reject" and not self.note:
            raise ValueError("a rejection needs a note")
        return self


class Approve(InputRequiredEvent[Verdict]):
    prefix: str = "Shall this letter be sent?"
    no: int = 0
    text: str = "Dear <b>Ms Smith</b>,\nit is done."
    key: SecretStr = SecretStr("sesame")


class Asks(Workflow[Any]):
    """Asks `n` questions at once."""

    @step
    async def check(self, ev: Begin, ctx: Context) -> Approve | None:
        for no in range(ev.n):
            question = Approve(no=no)
            ctx.send_event(question if ev.within is None else question.with_deadline(ev.within))
        return None

    @step
    async def note(self, ev: Verdict) -> StopEvent:
        return StopEvent(result=[ev.decision, ev.note])


class Defaults(Workflow[Any]):
    """Asks with a default."""

    @step
    async def only(self, ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Which one?", str, timeout=ev.within, default="none"))


class Words(Workflow[Any]):
    """Asks in words, with a token of its own."""

    @step
    async def only(self, ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=await ctx.ask("Which one?", str, token="a/b c%2F?x=ü"))


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Item(BaseModel):
    name: str
    count: int = Field(1, ge=1, le=9)


class Address(BaseModel):
    street: str
    city: str = "Oslo"


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: str = Field(pattern=r"^\d{4}$")


class Cash(BaseModel):
    kind: Literal["cash"] = "cash"
    amount: float


class Everything(BaseModel):
    """A field of each kind."""

    text: str
    area: str = Field("", max_length=1000)
    secret: SecretStr
    whole: int = Field(3, ge=0)
    number: float
    yes: bool = False
    size: Size
    season: Literal["2007", "2008", "2009", "2010", "2011"] = "2009"
    day: datetime.date
    time: datetime.time = datetime.time(8, 30)
    due: AwareDatetime
    tags: list[str] = ["a", "b"]
    picks: list[Literal["red", "green", "blue"]] = ["red"]
    items: Annotated[list[Item], Field(min_length=1)]
    address: Address
    pay: Annotated[Card | Cash, Field(discriminator="kind")]
    maybe: str | None = None
    perhaps: bool | None = None
    other: Address | None = None
    free: dict[str, int] = {"a": 1}


#: Answers that came, as their step has them.
got: list[Any] = []


class AsksAll(Workflow[Any]):
    @step
    async def only(self, ev: Begin, ctx: Context) -> StopEvent:
        got.append(await ctx.ask("Everything, please", Everything))
        return StopEvent(result="done")


class Nested(BaseModel):
    need: int
    rows: list[Everything] = []
    maybe: Item | None = Item(name="x")
    pays: list[Annotated[Card | Cash, Field(discriminator="kind")]] = []
    more: Card | Address | None = None
    codes: list[int] = Field([1, 2], max_length=3)
    when: datetime.datetime | None = datetime.datetime(2026, 1, 2, 3, 4, 5, 678)
    at: datetime.time = datetime.time(1, 2, 3)
    long: str = "a\nb"


class AsksNested(Workflow[Any]):
    @step
    async def only(self, ev: Begin, ctx: Context) -> StopEvent:
        got.append(await ctx.ask("Nested, please", Nested))
        return StopEvent(result="done")


def asking(flow: Workflow[Any], store: Store, n: int = 1, **fields: Any) -> Run[Any]:
    """A run that asks so many questions."""
    # Not on the loop of this thread: in the tests of a browser nobody runs it.
    run = flow.with_options(store=store, host="thread").run(n=n, **fields)
    wait_for_questions(run, n)
    return run


class AsksLists(Workflow[Any]):
    @step
    async def only(self, ev: Begin, ctx: Context) -> StopEvent:
        return StopEvent(result=[repr(item) for item in await ctx.ask("Which items?", list[Item])])
