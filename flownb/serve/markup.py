"""HTML that cannot be broken by what stands in it: plain text is escaped wherever it becomes a part of an element."""

from __future__ import annotations

import html
import re
from typing import Final

#: What no page may hold: it ends a text for some readers, or turns the direction of what follows (a name that reads as
#: another one).
_UNWANTED: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufdd0\ufffe\uffff]")
_VOID: Final = frozenset(("br", "hr", "img", "input", "link", "meta"))


class Html(str):
    """Text that is HTML already; made by `element` and `joined` only."""

    __slots__ = ()


Part = str | None
Attribute = str | int | bool | None


def escaped(text: str) -> Html:
    """A text as HTML; a part of an element that is HTML stays as it is."""
    if isinstance(text, Html):
        return text
    whole = text.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent
    return Html(html.escape(_UNWANTED.sub("\ufffd", whole)))


def element(tag: str, *parts: Part, **attributes: Attribute) -> Html:
    """An element.

    Args:
        tag: Its name.
        parts: What it holds: text or elements; None is nothing.
        attributes: `class_` is class, `aria_label` is aria-label. None and False: it is not there; True: it has no
            value.
    """
    words = [tag]
    for key, value in attributes.items():
        name = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            words.append(f'{name}="{escaped(str(value))}"')
    start = f"<{' '.join(words)}>"
    return Html(start if tag in _VOID else f"{start}{joined(*parts)}</{tag}>")


def joined(*parts: Part) -> Html:
    """Texts and elements one after the other."""
    return Html("".join(escaped(part) for part in parts if part is not None))


__all__ = ["Html", "Part", "element", "escaped", "joined"]
