"""A run as one HTML file: `run.view.to_html()`."""

import asyncio
import base64
import hashlib
import json
import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter

from flownb import Context, StartEvent, StopEvent, Store, Workflow
from flownb.notebook.replaypage import MARK, ReplayPage
from tests.notebook.graphs import HOSTILE
from tests.notebook.panels import Count, Hangs, YesNo
from tests.polling import wait_until


class Parsed(HTMLParser):
    """Elements of a page with their attributes, and what stands in scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._inside, []).append(data)

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script reads."""
        found: dict[str, Any] = json.loads(self.texts["script"][0])
        return found


def done(n: int = 2) -> Any:
    run = Count().with_options(host="thread").run(n=n)
    run.result(timeout=30)
    return run


def test_the_page_is_one_file_that_names_its_script_and_style_by_their_hashes():
    page = Parsed(done().view.to_html())
    names = [tag for tag, _ in page.tags]
    assert {name: names.count(name) for name in ("html", "style", "script", "img", "link", "iframe")} == {
        "html": 1, "style": 1, "script": 2, "img": 1, "link": 0, "iframe": 0,
    }  # fmt: skip
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed == {
        "default-src": "'none'",
        "script-src": hash_of(page.texts["script"][1]),
        "style-src": hash_of("".join(page.texts["style"][:1])),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_holds_the_run():
    run = done(3)
    data = Parsed(run.view.to_html()).data
    assert (data["total"], data["graph"]["run"], data["graph"]["name"]) == (run.now.seq, run.run_id, "Count")
    assert data["graph"]["svg"].startswith("<svg ")
    assert len(data["details"]) == len(data["told"]) == run.now.seq
    assert data["told"][1].startswith("split finished with a list of 3, ")
    assert data["error"] is None


def test_without_scripts_the_last_picture_and_its_words_are_seen():
    page = done().view.to_html()
    still = re.search(r"<noscript>(.*?)</noscript>", page, re.DOTALL)
    assert still is not None
    assert "Count: completed at tick 7" in still[1]
    assert "data:image/svg+xml;base64," in still[1]


def test_the_page_tells_nothing_of_where_the_run_is_kept(tmp_path: Path):
    run = Count().with_options(host="thread", store=Store(tmp_path / "runs.db")).run(n=1)
    run.result(timeout=30)
    assert str(tmp_path) not in run.view.to_html()


@pytest.mark.parametrize("name", HOSTILE[:8])
def test_hostile_names_make_no_element(name: str):
    flow = Workflow(name or "unnamed")

    async def one(ev: StartEvent, ctx: Context) -> StopEvent:
        print(name)
        ctx.state.set("said", name)
        raise ValueError(name)

    one.__name__ = f"{name} one"
    flow.step(one)
    run = flow.with_options(host="thread").run()
    wait_until(run.is_done)
    assert isinstance(run.error, ValueError)
    plain, page = Parsed(done().view.to_html()), Parsed(run.view.to_html())
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert [a for _, attrs in page.tags for a in attrs if a.startswith("on")] == []
    assert page.data["error"]["type"] == "ValueError"


# -- runs of all kinds


def test_a_run_that_goes_on_is_recorded_as_far_as_it_is():
    run = YesNo().with_options(host="thread").run()
    wait_until(lambda: run.status == "waiting")
    try:
        data = Parsed(run.view.to_html()).data
        assert data["status"][-1][1:3] == ["waiting", 1]
    finally:
        run.cancel()


def test_a_run_without_a_tick_yet_is_recorded():
    async def main() -> str:
        run = Count().run(n=2)
        page: str = run.view.to_html()
        await run
        return page

    assert Parsed(asyncio.run(main())).data["total"] == 1


def test_a_paused_run_and_a_suspended_one_say_so():
    run = Hangs().with_options(host="thread").run()
    run.pause().result(10)
    assert Parsed(run.view.to_html()).data["status"][-1][1] == "paused"
    run.cancel().result(10)
    assert Parsed(run.view.to_html()).data["status"][-1][1] == "cancelled"


def test_stored_and_imported_runs_are_recorded(tmp_path: Path):
    """Nobody drives them here."""
    store = Store(tmp_path / "a.db")
    run = Count().with_options(host="thread", store=store).run(n=2)
    run.result(timeout=30)
    store.export(run.run_id, tmp_path / "run.zip")
    other = Store(tmp_path / "b.db")
    other.import_(tmp_path / "run.zip")
    store.close()
    again = Store(tmp_path / "a.db")
    for place in (again, other):
        data = Parsed(place.run(run.run_id).view.to_html()).data
        assert (data["total"], data["status"][-1][1]) == (7, "completed")
        assert "Item" in data["cols"]["event"][1]
        place.close()


def test_a_run_of_ten_thousand_ticks_is_written_in_seconds(tmp_path: Path):
    run = done(10_000)
    began = time.thread_time()
    path = run.view.to_html(tmp_path / "big.html")
    assert time.thread_time() - began < 10, "seconds of work; it takes 2 to 3"
    assert path.stat().st_size < 8_000_000
    data = Parsed(path.read_text(encoding="utf-8")).data
    assert len(data["cols"]["kind"]) == 10_000 and data["first"] == run.now.seq - 10_000
    assert data["left_out"][0].startswith(f"The first {data['first']:,} ticks are left out")


# -- the file


def test_a_page_is_written_and_written_over(tmp_path: Path):
    path = tmp_path / "run.html"
    first = done().view.to_html(path)
    assert first == path and path.read_text(encoding="utf-8").startswith(MARK)
    run = done(4)
    assert run.view.to_html(str(path)) == path
    assert run.run_id in path.read_text(encoding="utf-8")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.html"]


def test_what_is_no_page_is_not_written_over(tmp_path: Path):
    other = tmp_path / "notes.ipynb"
    other.write_text("{}")
    with pytest.raises(FileExistsError, match=r"notes\.ipynb' is no page of a run, so it is not written over"):
        done().view.to_html(other)
    assert other.read_text() == "{}"


def test_a_folder_and_a_missing_folder_are_refused_in_words(tmp_path: Path):
    run = done()
    with pytest.raises(IsADirectoryError, match="is a folder: name a file in it"):
        run.view.to_html(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*missing.* to write 'run.html' to"):
        run.view.to_html(tmp_path / "missing" / "run.html")


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "run.html"
    done().view.to_html(path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        done().view.to_html(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.html"]


def test_a_home_folder_may_be_written_in_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert done().view.to_html("~/run.html") == tmp_path / "run.html"


def test_the_text_shows_itself_in_a_cell_as_one_line():
    """Not as 100 kB of markup, which would stay in the notebook."""
    page = done().view.to_html()
    assert isinstance(page, str) and isinstance(page, ReplayPage)
    shown, _ = DisplayFormatter().format(page)
    assert list(shown) == ["text/plain"]
    words = r"<a page of \d+ kB: run\.view\.to_html\('run\.html'\) writes it to a file>"
    assert re.fullmatch(words, shown["text/plain"])
