"""A fan-out inside a fan-out: the inner join fires once for each outer element, the outer one once."""

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent


class Book(Event):
    no: int


class Chapter(Event):
    book: int
    no: int


class Read(Event):
    book: int
    no: int


class Summary(Event):
    book: int
    chapters: list[int]


class Library(Workflow):
    @step
    async def books(self, ev: StartEvent) -> list[Book]:
        return [Book(no=no) for no in range(3)]

    @step
    async def chapters(self, ev: Book) -> list[Chapter]:
        return [Chapter(book=ev.no, no=no) for no in range(ev.no + 1)]

    @step
    async def read(self, ev: Chapter) -> Read:
        return Read(book=ev.book, no=ev.no)

    @step
    async def summarise(self, ev: list[Read]) -> Summary:
        return Summary(book=ev[0].book, chapters=sorted(read.no for read in ev))

    @step
    async def end(self, ev: list[Summary]) -> StopEvent:
        return StopEvent(result=sorted((one.book, one.chapters) for one in ev))


async def main() -> object:
    return await Library(timeout=10).run()


RIGHT = [(0, [0]), (1, [0, 1]), (2, [0, 1, 2])]
