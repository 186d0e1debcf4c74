"""The widget's script and style sheet, as text.

anywidget loads a script from a blob, where relative imports fail: so the modules, which Node and a browser import as
they are, are pasted into one script here. Comments and margins are left out, since every widget instance sends its
script to the page; so no module may hold a template string of several lines.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

__all__ = ["MODULES", "SHEETS", "script", "style"]

_STATIC = Path(__file__).parent / "static"

#: In the order in which they are pasted: each only uses those before it.
MODULES = (
    "common.mjs",
    "play.mjs",
    "captions.mjs",
    "history.mjs",
    "feed.mjs",
    "cells.mjs",
    "graph.mjs",
    "ticks.mjs",
    "editor.mjs",
    "eventpane.mjs",
    "diffpane.mjs",
    "queue.mjs",
    "inspector.mjs",
    "header.mjs",
    "controls.mjs",
    "slider.mjs",
    "narration.mjs",
    "popovers.mjs",
    "runto.mjs",
    "stops.mjs",
    "questions.mjs",
    "messages.mjs",
    "keys.mjs",
    "boxes.mjs",
    "page.mjs",
    "view.mjs",
)

#: In the order in which they are joined: later ones win.
SHEETS = (
    "base.css",
    "header.css",
    "controls.css",
    "boxes.css",
    "graph.css",
    "inspector.css",
    "queue.css",
    "ticks.css",
    "questions.css",
    "narrow.css",
    "gone.css",
    "form.css",
)

_IMPORT = re.compile(r"^import\b[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|let|function|async function|class)\b)", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?:/\*\*?.*?\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"/\*\* @[^*]*\*/ ?")
_MARGIN = re.compile(r"\n\s*")


@lru_cache(maxsize=1)
def script() -> str:
    """The modules as one ES module: no import left, one `export default`.

    Raises:
        RuntimeError: A module imports or exports in a way that cannot be pasted (a renamed import, a second default).
    """
    parts: list[str] = []
    for name in MODULES:
        source = (_STATIC / name).read_text(encoding="utf-8")
        if re.search(r"^import\b[^;]*\bas\b", source, re.MULTILINE):
            raise RuntimeError(f"{name} renames an import; pasted modules share one scope, so names must stay.")
        source = _EXPORT.sub("", _IMPORT.sub("", _INLINE.sub("", _COMMENT.sub("", source))))
        parts.append(f"// ---- {name}\n{_MARGIN.sub(chr(10), source).strip()}\n")
    pasted = "".join(parts)
    exports = re.findall(r"^\s*export\b[^\n]*", pasted, re.MULTILINE)
    if (
        len(exports) != 1
        or not exports[0].startswith("export default ")
        or re.search(r"^import\b", pasted, re.MULTILINE)
    ):
        raise RuntimeError(f"The pasted script must have no import and one default export, found {exports}.")
    return pasted


@lru_cache(maxsize=1)
def style() -> str:
    """The style sheet of the panel, the forms below it and the hidden twin."""
    text = "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in SHEETS)
    return _MARGIN.sub("\n", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)).strip()
