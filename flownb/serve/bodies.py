"""The body of a POST, not longer than it may be, as names with their values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import parse_qsl

#: Bytes of a body at most.
LONGEST: Final = 1 << 20
#: Values in it at most.
MOST: Final = 2_000
#: A body must be there after so many seconds.
PATIENCE_S: Final = 20.0

Raw = dict[str, list[str]]


class Refused(Exception):
    """A request is not taken; `status` is HTTP's, the text is for people."""

    def __init__(self, status: int, text: str, *, after_s: float | None = None, allow: str = "") -> None:
        self.status, self.after_s, self.allow = status, after_s, allow
        super().__init__(text)


async def read_form(content_type: str, length: str, stream: AsyncIterator[bytes], *, longest: int = LONGEST) -> Raw:
    """What a form sent.

    Args:
        content_type: The header.
        length: The header; "" if there is none.
        stream: The body.
        longest: Bytes that it may have.

    Raises:
        Refused: It is something else, too long, too slow, or broken.
    """
    if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise Refused(415, "This address takes only what its own form sends.")
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > longest):
        raise Refused(413, f"That is too long: an answer may have {longest:,} bytes.")
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            size = 0
            async for part in stream:
                size += len(part)
                if size > longest:
                    raise Refused(413, f"That is too long: an answer may have {longest:,} bytes.")
                parts.append(part)
    except TimeoutError:
        raise Refused(408, "The answer did not arrive in time.") from None
    return parsed(b"".join(parts))


def parsed(body: bytes) -> Raw:
    """What stands in an urlencoded body.

    Raises:
        Refused: It has too many values.
    """
    try:
        # Bytes that are no UTF-8 become U+FFFD: a person sees what is wrong, and nothing fails.
        pairs = parse_qsl(
            body.decode("latin-1"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="replace",
            max_num_fields=MOST,
        )
    except ValueError:
        raise Refused(413, f"That is too much: an answer may have {MOST:,} values.") from None
    raw: Raw = {}
    for name, value in pairs:
        raw.setdefault(name, []).append(value.replace("\r\n", "\n").replace("\r", "\n"))
    return raw


__all__ = ["LONGEST", "MOST", "Raw", "Refused", "parsed", "read_form"]
