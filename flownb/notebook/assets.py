"""The script and style sheet of the widget, and of a page without a kernel, as text.

anywidget loads a script from a blob, where relative imports fail: so the modules, which Node and a browser import as
they are, are pasted into one script here. Comments and margins are left out, since every widget instance sends its
script to the page; so no module may hold a template string of several lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

__all__ = [
    "FORM_MODULES",
    "FORM_SHEETS",
    "MODULES",
    "PAGE_MODULES",
    "PAGE_SHEETS",
    "REVIEW_MODULES",
    "REVIEW_SHEETS",
    "SHEETS",
    "form_script",
    "form_style",
    "page_script",
    "page_style",
    "review_script",
    "review_style",
    "script",
    "style",
]

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
    "problems.mjs",
    "questions.mjs",
    "attention.mjs",
    "messages.mjs",
    "keys.mjs",
    "boxes.mjs",
    "page.mjs",
    "view.mjs",
)

#: Of the page: the panes of the panel, without what speaks to a kernel, and its own frame.
PAGE_MODULES = (
    "common.mjs",
    "play.mjs",
    "captions.mjs",
    "history.mjs",
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
    "problems.mjs",
    "keys.mjs",
    "page_data.mjs",
    "page_view.mjs",
    "page_main.mjs",
)

#: Of the small widgets in a form: each is pasted with those that it uses, which stand before it.
FORM_MODULES = {
    "guide.mjs": ("common.mjs", "keys.mjs", "page.mjs", "guide.mjs"),
    "secret.mjs": ("secret.mjs",),
    "chips.mjs": ("chips.mjs",),
}

#: Of the table of open questions.
REVIEW_MODULES = ("common.mjs", "keys.mjs", "page.mjs", "reviewrows.mjs", "review.mjs")

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
    "fields.css",
)

#: Of a form, wherever it stands.
FORM_SHEETS = SHEETS[-2:]
#: Of the table of open questions, and the form below it.
REVIEW_SHEETS = ("base.css", "gone.css", *FORM_SHEETS, "review.css")

#: Of the page, which has no form.
PAGE_SHEETS = (*SHEETS[:-2], "page.css")

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
    return _widget(MODULES)


@lru_cache(maxsize=1)
def review_script() -> str:
    """The modules of the table of open questions as one ES module, as `script` is one.

    Raises:
        RuntimeError: A module imports or exports in a way that cannot be pasted.
    """
    return _widget(REVIEW_MODULES)


def _widget(modules: Sequence[str]) -> str:
    pasted = _pasted(modules)
    exports = _exports(pasted)
    if len(exports) != 1 or not exports[0].startswith("export default "):
        raise RuntimeError(f"The pasted script must have no import and one default export, found {exports}.")
    return pasted


@lru_cache(maxsize=8)
def form_script(name: str) -> str:
    """One of `FORM_MODULES` as an ES module, with what it uses.

    Raises:
        RuntimeError: A module imports or exports in a way that cannot be pasted.
    """
    pasted = _pasted(FORM_MODULES[name])
    exports = _exports(pasted)
    if len(exports) != 1 or not exports[0].startswith("export default "):
        raise RuntimeError(f"{name} must have no import and one default export once it is pasted, found {exports}.")
    return pasted


@lru_cache(maxsize=1)
def page_script() -> str:
    """The page's modules as one script, which begins by itself: no import and no export left.

    Raises:
        RuntimeError: A module imports or exports in a way that cannot be pasted.
    """
    pasted = _pasted(PAGE_MODULES)
    if exports := _exports(pasted):
        raise RuntimeError(f"The pasted script of the page must have no import and no export, found {exports}.")
    return pasted


def _pasted(modules: Sequence[str]) -> str:
    parts: list[str] = []
    for name in modules:
        source = (_STATIC / name).read_text(encoding="utf-8")
        if re.search(r"^import\b[^;]*\bas\b", source, re.MULTILINE):
            raise RuntimeError(f"{name} renames an import; pasted modules share one scope, so names must stay.")
        source = _EXPORT.sub("", _IMPORT.sub("", _INLINE.sub("", _COMMENT.sub("", source))))
        parts.append(f"// ---- {name}\n{_MARGIN.sub(chr(10), source).strip()}\n")
    return "".join(parts)


def _exports(pasted: str) -> list[str]:
    """Lines that import or export."""
    return re.findall(r"^\s*(?:export\b[^\n]*|import\b(?! *\()[^\n]*)", pasted, re.MULTILINE)


@lru_cache(maxsize=1)
def style() -> str:
    """The style sheet of the panel, the forms below it and the hidden twin."""
    return _sheets(SHEETS)


@lru_cache(maxsize=1)
def form_style() -> str:
    """The style sheet of a form."""
    return _sheets(FORM_SHEETS)


@lru_cache(maxsize=1)
def review_style() -> str:
    """The style sheet of the table of open questions."""
    return _sheets(REVIEW_SHEETS)


@lru_cache(maxsize=1)
def page_style() -> str:
    """The style sheet of the page."""
    return _sheets(PAGE_SHEETS)


def _sheets(names: Sequence[str]) -> str:
    text = "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in names)
    return _MARGIN.sub("\n", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)).strip()
