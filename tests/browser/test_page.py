"""The replay page, opened as a file: no kernel, no server, no network."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from lab_harness import Browser
from playwright.sync_api import Page, expect
from test_hostile import HOSTILE, SEEN

from flownb import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow, step
from flownb.retry_policy import retry_policy, stop_after_attempt, wait_fixed

pytestmark = pytest.mark.browser


class Survey(StartEvent):
    parts: int = 6


class Rows(Event):
    n: int


class Part(Event):
    i: int


class Scored(Event):
    i: int


class Facts(Event):
    found: int


class Verdict(HumanResponseEvent):
    decision: Literal["keep", "drop"]


class Review(InputRequiredEvent[Verdict]):
    prefix: str = "What shall become of measurements that look odd?"


class Penguins(Workflow):
    """Fans out, fails once, looks something up, asks, and fails in the end."""

    @step
    async def load(self, ev: Survey, ctx: Context) -> Rows:
        print("reading 344 rows")
        ctx.state.set("survey", {"parts": ev.parts})
        return Rows(n=344)

    @step
    async def split(self, ev: Rows, ctx: Context) -> list[Part]:
        ctx.state.set("rows", ev.n)
        return [Part(i=i) for i in range(ctx.state.get("survey")["parts"])]

    @step(num_workers=2, retry_policy=retry_policy(wait=wait_fixed(0.01), stop=stop_after_attempt(3)))
    async def score(self, ev: Part, ctx: Context) -> Scored:
        print("part", ev.i)
        if ev.i == 2 and ctx.attempt < 2:
            raise TimeoutError("the sensor did not answer")
        return Scored(i=ev.i)

    @step
    async def lookup(self, ev: Rows) -> Facts:
        return Facts(found=3)

    @step
    async def gather(self, ev: list[Scored]) -> Review:
        return Review()

    @step
    async def note(self, ev: Facts) -> None:
        return None

    @step
    async def store(self, ev: Verdict, ctx: Context) -> StopEvent:
        ctx.state.set("verdict", ev.decision)
        raise ValueError("the table is locked by another report")


def penguins() -> Any:
    """A failed run with 8 parts of everything to look at."""
    run = Penguins().with_options(host="thread").run(run_id="7f3a", parts=6)
    until(lambda: len(run.requests) == 1)
    run.answer(decision="keep", by="ann")
    until(run.is_done)
    assert isinstance(run.error, ValueError)
    return run


def until(is_so: Any) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


class Replay:
    """An opened replay page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.root = page.locator(".fl-page")

    def at(self, seq: int, *, is_row: bool = True) -> None:
        """Waits until tick `seq` is shown, in the table too."""
        expect(self.root).to_have_attribute("data-tick", str(seq))
        if seq and is_row:
            expect(self.root.locator(".fl-rows .at")).to_have_attribute("data-seq", str(seq))

    def node(self, name: str) -> Any:
        return self.root.locator(f".fl-node:has(.name:text-is('{name}'))")

    def state(self, name: str) -> str:
        return next(c[2:] for c in self.node(name).get_attribute("class").split() if c.startswith("s-"))

    def tab(self, name: str) -> str:
        self.root.locator(f"[role=tab]:has-text('{name}')").click()
        return str(self.root.locator(".fl-pane").inner_text())

    @property
    def last(self) -> int:
        return int(self.root.locator(".fl-range").get_attribute("max") or 0)


@pytest.fixture(scope="module")
def run() -> Any:
    return penguins()


def file_page(browser: Browser) -> Page:
    """A page that may open files; whatever is not on this machine stays refused."""
    page = browser.new_page()
    page.route(lambda url: url.startswith("file:"), lambda route: route.continue_())
    return page


@pytest.fixture
def files(browser: Browser) -> Iterator[Any]:
    """`files(path, ...)` opens a file in a page of its own; whatever it asks for is noted, and nothing may be."""
    pages: list[Page] = []
    asked: list[str] = []
    said: list[str] = []

    def open_file(path: Path, *, hash: str = "", width: int = 1200, dark: bool = False) -> Replay:
        page = file_page(browser)
        pages.append(page)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.goto(f"{path.as_uri()}{hash}")
        replay = Replay(page)
        replay.root.wait_for()
        return replay

    yield open_file
    for page in pages:
        page.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert said == [], "errors, refusals of the policy, dialogs"


def test_all_panes_show_the_same_tick(run: Any, files: Any, tmp_path: Path):
    """Graph, table, slider, header, inspector and sentence, at the end and wherever the slider goes."""
    replay = files(run.view.to_html(tmp_path / "run.html"))
    last = run.now.seq
    replay.at(last)
    assert (replay.last, replay.state("store"), replay.state("stop")) == (last, "failed", "skipped")
    assert replay.root.locator(".fl-failure .fl-ftext").inner_text() == "the table is locked by another report"
    expect(replay.root.locator(".fl-pill")).to_have_text("failed")

    replay.root.locator(".fl-range").fill("3")
    replay.at(3)
    assert replay.root.locator(".fl-failure").is_hidden()
    expect(replay.root.locator(".fl-pill")).to_have_text("running")
    assert [replay.state(name) for name in ("load", "split", "store")] == ["done", "running", "idle"]
    kind, name, event, _ = [replay.root.locator(".fl-rows .at > span").nth(i).inner_text() for i in range(4)]
    assert (kind, name) == ("3", "load finished") and event == "Rows"
    assert "344" in replay.tab("Event")
    assert "reading 344 rows" in replay.tab("Log")
    assert "split" in replay.tab("Queue")
    expect(replay.root.locator(".fl-told")).to_contain_text("load finished with Rows")

    replay.root.locator(".fl-rows .fl-tr:has-text('load wrote')").click()
    replay.at(2)
    assert "survey" in replay.tab("State")
    replay.tab("Event")
    replay.root.locator(".fl-cause .fl-link:has-text('#1')").click()
    replay.at(1)


def test_keys_move_play_and_filter(run: Any, files: Any, tmp_path: Path):
    replay = files(run.view.to_html(tmp_path / "run.html"))
    last, keys = run.now.seq, replay.page.keyboard
    keys.press("Home")
    replay.at(0)
    assert replay.state("load") == "idle"
    for key, seq in (("ArrowRight", 1), ("n", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("b", 1), ("End", last)):
        keys.press(key)
        replay.at(seq)
    keys.press("Home")
    for _ in range(9):
        keys.press("+")
    expect(replay.root.locator(".fl-speed")).to_have_value("50")
    keys.press(" ")
    replay.at(last)
    expect(replay.root.locator(".fl-play button")).to_have_attribute("aria-label", "play")
    keys.press("/")
    replay.page.keyboard.type("kind:failed n b")
    assert replay.root.locator(".fl-filter").input_value() == "kind:failed n b", "letters go into the filter"
    replay.at(last, is_row=False)


def test_play_stops_when_the_person_goes_somewhere(run: Any, files: Any, tmp_path: Path):
    replay = files(run.view.to_html(tmp_path / "run.html"), hash="#1")
    replay.at(1)
    play = replay.root.locator(".fl-play button")
    play.click()
    expect(play).to_have_attribute("aria-label", "stop playing")
    replay.page.wait_for_function("() => document.querySelector('.fl-page').dataset.tick >= 3")
    replay.root.locator(".fl-rows .fl-tr[data-seq='2']").click()
    expect(play).to_have_attribute("aria-label", "play")
    replay.page.wait_for_timeout(1200)
    replay.at(2)
    replay.node("score").click()
    expect(replay.root.locator(".fl-picked")).to_have_text("score")


def test_an_address_names_a_tick(run: Any, files: Any, tmp_path: Path):
    replay = files(run.view.to_html(tmp_path / "run.html"), hash="#tick=4")
    replay.at(4)
    replay.page.evaluate("location.hash = '#2'")
    replay.at(2)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 800])
def test_the_page_follows_light_and_dark_and_fits_its_window(
    run: Any, files: Any, tmp_path: Path, shots: Path, width: int, dark: bool
):
    replay = files(run.view.to_html(tmp_path / "run.html"), hash=f"#{run.now.seq - 6}", width=width, dark=dark)
    replay.at(run.now.seq - 6)
    colour = replay.root.evaluate("el => getComputedStyle(el).getPropertyValue('--fl-failed-s').trim()")
    assert colour == ("#ff8c42" if dark else "#b34700")
    wide = replay.page.evaluate("[document.documentElement.scrollWidth, innerWidth, document.body.scrollHeight]")
    assert wide[0] <= wide[1] and wide[2] <= 800
    replay.page.wait_for_timeout(200)
    replay.page.screenshot(path=shots / f"page-{width}-{'dark' if dark else 'light'}.png")


def test_hostile_text_is_text(files: Any, tmp_path: Path, shots: Path):
    """As workflow, step, field, question, answer, log and exception."""
    flow = Workflow(HOSTILE)

    async def one(ev: StartEvent, ctx: Context) -> Rows:
        print(HOSTILE)
        ctx.state.set("said", HOSTILE)
        await ctx.ask(HOSTILE, bool)
        return Rows(n=1)

    def two(ev: Rows) -> StopEvent:
        raise ValueError(HOSTILE)

    for fn in (one, two):
        fn.__name__ = f"{HOSTILE} {fn.__name__}"
        flow.step(fn)
    run = flow.with_options(host="thread").run()
    until(lambda: len(run.requests) == 1)
    run.answer(True, by=HOSTILE)
    until(run.is_done)
    assert isinstance(run.error, ValueError)

    replay = files(run.view.to_html(tmp_path / "run.html"))
    for place in (".fl-name", ".fl-failure .fl-ftext", ".fl-told", ".fl-rows .at"):
        assert SEEN in replay.root.locator(place).first.inner_text()
    for seq in range(1, run.now.seq + 1):
        replay.page.evaluate(f"location.hash = '#{seq}'")
        replay.at(seq)
        for tab in ("Event", "State", "Queue", "Log"):
            replay.tab(tab)
    assert SEEN in replay.tab("Log") or SEEN in replay.tab("Event")
    assert replay.page.evaluate("() => window.__hacked") is None
    assert replay.page.locator("img, iframe, object, [onerror], [onload]").count() == 0
    assert replay.page.locator("script").count() == 2
    replay.page.screenshot(path=shots / "page-hostile.png")


def test_nothing_that_is_put_into_the_page_runs(run: Any, browser: Browser, tmp_path: Path):
    """The policy names the one script: a second one, a handler, a picture and a style from elsewhere are refused."""
    more = (
        "<script>window.__hacked = 1</script><img src=x onerror='window.__hacked = 2'>"
        "<img src='http://192.0.2.1/a.png'><link rel=stylesheet href='http://192.0.2.1/a.css'></body>"
    )
    path = tmp_path / "run.html"
    path.write_text(run.view.to_html().replace("</body>", more), encoding="utf-8")
    browser.external.clear()
    page = file_page(browser)
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(path.as_uri())
    Replay(page).at(run.now.seq)
    assert page.evaluate("() => window.__hacked") is None
    page.close()
    assert browser.external == []
    assert len([text for text in refused if "Content Security Policy" in text]) >= 3


def test_a_long_run_moves_at_once(files: Any, tmp_path: Path):
    """10,000 ticks."""

    class Many(Workflow):
        @step
        async def split(self, ev: Survey) -> list[Part]:
            return [Part(i=i) for i in range(ev.parts)]

        @step
        async def score(self, ev: Part) -> Scored:
            return Scored(i=ev.i)

        @step
        async def gather(self, ev: list[Scored]) -> StopEvent:
            return StopEvent(result=len(ev))

    run = Many().with_options(host="thread").run(parts=10_000)
    assert run.result(timeout=60) == 10_000
    replay = files(run.view.to_html(tmp_path / "run.html"))
    replay.at(10_003)
    expect(replay.root.locator(".fl-left").first).to_contain_text("The first 3 ticks are left out")
    replay.page.keyboard.press("Home")
    replay.at(3, is_row=False)
    expect(replay.root.locator(".fl-told")).to_have_text("Earlier ticks are not in this page.")
    assert replay.state("split") == "done"
    took = replay.page.evaluate(
        """async () => {
            const range = document.querySelector(".fl-range");
            const began = performance.now();
            for (let i = 0; i < 40; i++) {
                range.value = String(200 + i * 240);
                range.dispatchEvent(new Event("input"));
                await new Promise(requestAnimationFrame);
            }
            return performance.now() - began;
        }"""
    )
    assert took / 40 < 150, "ms from a move of the slider to the picture"
