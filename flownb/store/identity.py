"""What is known of an object, by the object itself: no copy, no hash, gone when it is gone."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ByIdentity(Generic[T]):
    """A map from objects to what is known of them; for any threads.

    Args:
        strong_limit: Of objects that cannot be held weakly (text, bytes), this many are kept, the last ones.
    """

    def __init__(self, strong_limit: int = 4) -> None:
        self._lock = threading.RLock()  # an object may go, and say so, while this very thread is in here
        self._known: dict[int, tuple[Callable[[], object], T]] = {}
        self._strong: OrderedDict[int, object] = OrderedDict()
        self._limit = strong_limit

    def get(self, value: object) -> T | None:
        found = self._known.get(id(value))
        return found[1] if found is not None and found[0]() is value else None

    def put(self, value: object, known: T) -> None:
        key = id(value)
        with self._lock:
            try:
                held: Callable[[], Any] = weakref.ref(value, partial(self._forget, key))
            except TypeError:
                held = partial(_same, value)
                self._strong[key] = value
                self._strong.move_to_end(key)
                if len(self._strong) > self._limit:
                    del self._known[self._strong.popitem(last=False)[0]]
            self._known[key] = held, known

    def _forget(self, key: int, gone: object) -> None:
        with self._lock:
            found = self._known.get(key)
            if found is not None and found[0] is gone:  # else another object has that address now
                del self._known[key]


def _same(value: object) -> object:
    return value
