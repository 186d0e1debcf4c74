"""How often somebody may ask: a bucket for each, which fills by itself. In memory, and bounded."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

#: So many buckets are kept; the one that was not used for longest goes first.
KEPT = 10_000


class Limit:
    """So many requests a minute, in one go or spread.

    Args:
        per_minute: Of each one who asks.
        clock: Seconds that only grow.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic, kept: int = KEPT) -> None:
        self._size, self._clock, self._kept = float(per_minute), clock, kept
        self._rate = per_minute / 60
        self._lock = threading.Lock()
        #: What is left in a bucket, and when that was so.
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, who: Hashable, cost: float = 1.0) -> float:
        """Take from somebody's bucket.

        Args:
            who: Whose.
            cost: How much; what is left may become less than nothing.

        Returns:
            0.0 if it may be; else nothing was taken, and it is tried again after so many seconds.
        """
        with self._lock:
            now = self._clock()
            left, at = self._buckets.pop(who, (self._size, now))
            left = min(self._size, left + (now - at) * self._rate)
            may = left >= 1.0
            self._buckets[who] = (left - cost if may else left), now
            while len(self._buckets) > self._kept:
                self._buckets.popitem(last=False)
            return 0.0 if may else (1.0 - left) / self._rate

    def __len__(self) -> int:
        return len(self._buckets)


__all__ = ["KEPT", "Limit"]
