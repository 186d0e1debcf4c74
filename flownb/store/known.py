"""Which object is which file: one that goes through a thousand steps is written once.

An object that others share must not be changed in place (R2.4). If it was nevertheless, it must not be written as the
one that it was: with each is kept a sum of all its memory, which costs 1 ms for 10 MB, a fiftieth of writing it.
"""

from __future__ import annotations

import pickle
import sys
import weakref
from hashlib import blake2b
from typing import Any

from flownb.store.identity import ByIdentity

#: Memory smaller than this is hashed whole; larger one is summed up, which is ten times as fast.
_HASHED_SIZE = 1 << 16
#: Words of a line, in `_sums`; a prime, so that no regular pattern of changes falls on the same column.
_LINE = 1021


class Known:
    """The notation of objects that were written or read as files; for any threads."""

    def __init__(self) -> None:
        self._notations: ByIdentity[tuple[bytes, dict[str, Any]]] = ByIdentity()
        # By name and form: what one tick has read, the next ones get.
        self._values: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    def notation(self, value: object) -> dict[str, Any] | None:
        """What was written of an object, if it is still as it was."""
        found = self._notations.get(value)
        if found is None or found[0] != fingerprint(value):
            return None
        return found[1]

    def value(self, notation: dict[str, Any]) -> Any:
        """The object that was written so or read so, if it still lives and is as it was; None: there is none."""
        key = _key(notation)
        value = self._values.get(key)
        now = None if value is None else self.notation(value)
        return value if now is not None and _key(now) == key else None

    def put(self, value: object, print_: bytes | None, notation: dict[str, Any]) -> None:
        """Remember an object.

        Args:
            print_: Its `fingerprint` from before it was written; None: there is none.
        """
        if print_ is None:
            return
        self._notations.put(value, (print_, notation))
        try:
            self._values[_key(notation)] = value
        except TypeError:  # text and bytes cannot be held weakly
            return


def _key(notation: dict[str, Any]) -> str:
    """Name and form of a file: the same bytes may be read in several ways."""
    return f"{notation['$artifact']} {notation['codec']} {notation.get('beside')}"


def fingerprint(value: object) -> bytes | None:
    """A digest that is another one after any change in place, short of a malicious one; None: it cannot be told.

    Pickled in a way that leaves out large memory, which is summed up where it lies. Nothing is ever unpickled.
    """
    if isinstance(value, (bytes, str)):
        return b""  # they never change
    buffers: list[pickle.PickleBuffer] = []
    try:
        digest = blake2b(pickle.dumps(value, 5, buffer_callback=buffers.append), digest_size=16)
        for buffer in buffers:
            memory = buffer.raw()
            digest.update(memory if len(memory) < _HASHED_SIZE else _sums(memory))
    except Exception:  # what is in it may refuse in any way
        return None
    return digest.digest()


def _sums(memory: memoryview) -> bytes:
    """Sums of lines and columns: one other word changes two of them, a swap or a sort too."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return blake2b(memory).digest()
    whole = len(memory) // (8 * _LINE) * _LINE
    words = numpy.frombuffer(memory, numpy.uint64, whole).reshape(-1, _LINE)
    parts = [words.sum(axis=0), words.sum(axis=1), numpy.frombuffer(memory, numpy.uint8, offset=8 * whole)]
    return blake2b(b"".join(part.tobytes() for part in parts)).digest()
