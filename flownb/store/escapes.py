"""JSON that holds any text of Python: also lone surrogates, which no UTF-8 has."""

from __future__ import annotations

import json
from typing import Any

import msgspec

#: Begins a text with lone surrogates in it: JSON text, once more escaped. Pairs of them stay pairs that way.
ESCAPED = b'{"$escaped":'


def dump(tree: Any) -> bytes:
    """Plain JSON values, or structs of them, as bytes."""
    try:
        return msgspec.json.encode(tree)
    except UnicodeEncodeError:
        return escaped(tree)


def escaped(tree: Any) -> bytes:
    """The escaped form, whether it is needed or not."""
    text = json.dumps(msgspec.to_builtins(tree), ensure_ascii=False, separators=(",", ":"))
    return msgspec.json.encode({"$escaped": text.encode("unicode_escape").decode("ascii")})


def load(body: bytes) -> Any:
    """What `dump` wrote.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: It did not write this.
    """
    return unescaped(body) if body.startswith(ESCAPED) else msgspec.json.decode(body)


def unescaped(body: bytes) -> Any:
    """The value of an escaped body."""
    return json.loads(msgspec.json.decode(body)["$escaped"].encode("ascii").decode("unicode_escape"))
