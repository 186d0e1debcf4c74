"""RunView: what is looked at. Python writes three traits and sends messages; the page sends messages of intent."""

from __future__ import annotations

import difflib
from typing import Any

import anywidget
import traitlets

from flownb.notebook import assets

__all__ = ["RunView"]


class RunView(anywidget.AnyWidget):
    """The live view of one run, without its forms. It holds no logic: who owns it writes the traits and listens."""

    _esm = assets.script()
    _css = assets.style()

    #: What does not change while a run lives: names, the drawn graph, its order. {} shows an empty frame.
    graph = traitlets.Dict().tag(sync=True)
    #: The whole live state, with the publisher's sequence number; the last value wins.
    live = traitlets.Dict().tag(sync=True)
    #: Whether only the line of 38 px is shown.
    compact = traitlets.Bool(False).tag(sync=True)

    def __init__(self, **kwargs: Any) -> None:
        """
        Raises:
            TypeError: A keyword is no trait; traitlets would only warn, and the value would be lost.
        """
        known = self.trait_names()
        for name in kwargs:
            if name not in known:
                public = sorted(k for k in self.trait_names(sync=True) if not k.startswith("_"))
                close = difflib.get_close_matches(name, public, n=1)
                mend = f"Did you mean {close[0]!r}?" if close else f"It takes {', '.join(public)}."
                raise TypeError(f"RunView has no trait {name!r}. {mend}")
        super().__init__(**kwargs)
