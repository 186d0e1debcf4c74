"""A run as one HTML file that needs neither a kernel nor a network: for lecture notes, mails and reports.

The file holds a recording as JSON, the panel's own modules and style sheet, and a still picture for readers without
scripts. Its Content-Security-Policy names the script and the style by their hashes and allows nothing else, so whatever
stood in the names and values of the run, nothing in the page can run it or reach out.
"""

from __future__ import annotations

import base64
import hashlib
import time
from html import escape
from pathlib import Path
from typing import Any
from uuid import uuid4

from flownb.notebook import assets
from flownb.notebook.layout import NAME_CHARS, lay_out, shorten
from flownb.notebook.recording import record
from flownb.notebook.screen import failure_data, graph_data
from flownb.notebook.svg import twin_svg
from flownb.run import Run

__all__ = ["MARK", "ReplayPage", "replay_page", "write_page"]

#: How such a file begins: what begins otherwise is not written over.
MARK = "<!DOCTYPE html>\n<!-- a run of flownb, to look at without a kernel -->\n"


class ReplayPage(str):
    """The text of a page; in a cell it shows itself in a line, not as its markup."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"<a page of {len(self) / 1000:,.0f} kB: run.view.to_html('run.html') writes it to a file>")


def replay_page(run: Run[Any]) -> ReplayPage:
    """The page of a run as it is now, also of one that goes on, is stored or was imported."""
    runner = run._runner
    # A run that has only just begun has no tick yet, but knows its first one.
    recording = record(tuple(runner.ticks) or (runner.first,), status=run.status, logs=runner.logs.copy())
    graph = recording.graph
    layout = lay_out(graph)
    data = recording.json(
        graph={**graph_data(run, graph, layout), "store": ""},  # where it is kept is the author's own business
        error=failure_data(runner.state),
        made=time.strftime("%Y-%m-%d %H:%M"),
    )
    nodes, edges = recording.end
    words = f"run {run.run_id} of {shorten(graph.name, NAME_CHARS)}: {run.status} at tick {recording.total}"
    picture = base64.b64encode(twin_svg(graph, layout, nodes, edges).encode("utf-8", "replace")).decode()
    return ReplayPage(_html(shorten(graph.name), run.run_id, words, picture, data))


def _html(name: str, run_id: str, words: str, picture: str, data: str) -> str:
    script, style = f"\n{assets.page_script()}", f"\n{assets.page_style()}\n"
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    still = f'<img alt="{escape(words)}" src="data:image/svg+xml;base64,{picture}">'
    lines = (
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape(name)} · run {escape(run_id)}</title>",
        f"<style>{style}</style>",
        "</head>",
        '<body class="flownb-body">',
        '<noscript><div class="flownb-still">',
        f"<p>{escape(words)}. Scripts are off, so it stands still.</p>{still}",
        "</div></noscript>",
        f'<script type="application/json" id="flownb-run">{data}</script>',
        f'<script type="module">{script}</script>',
        "</body>",
        "</html>",
        "",
    )
    return MARK + "\n".join(lines)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def write_page(page: str, path: str | Path) -> Path:
    """Write a page; the file is there whole or not at all. An earlier page is written over, nothing else is.

    Raises:
        IsADirectoryError: There is a folder of that name.
        FileNotFoundError: The folder that it is to lie in is not there.
        FileExistsError: There is another kind of file.
        OSError: The file cannot be written.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder: name a file in it, as {str(path / 'run.html')!r}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {str(path.parent)!r} to write {path.name!r} to: make it first.")
    if path.exists() and not _is_page(path):
        raise FileExistsError(f"{str(path)!r} is no page of a run, so it is not written over: take another name.")
    new = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        new.write_text(page, encoding="utf-8", errors="replace", newline="\n")
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return path


def _is_page(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(len(MARK))
    return head in (b"", MARK.encode())
