"""One publisher for all panels of a kernel: at most 20 messages a second, the last state always sent.

It lives on the engine's thread. Panels are marked when their run changed; a round takes the marked ones in turn and
spends the messages that this second still allows.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from flownb.runtime.host import Host

PERIOD_S = 0.05
TWIN_PERIOD_S = 1.0

_log = logging.getLogger("flownb")


class Published(Protocol):
    """What the publisher needs of a panel."""

    def publish(self) -> int:
        """Send what is new; how many messages that took. What must wait marks itself again."""
        ...

    def publish_twin(self) -> None: ...


class Publisher:
    """Calls panels, never more often than the front end can take."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._marked: OrderedDict[Published, None] = OrderedDict()
        self._twins: OrderedDict[Published, None] = OrderedDict()
        #: Panels whose last twin is on its way.
        self._last: set[Published] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._twin_timer: asyncio.TimerHandle | None = None

    def mark(self, panel: Published, *, now: bool = False) -> None:
        """A panel has news. On the engine's thread.

        Args:
            panel: It.
            now: Its run is over: the twin is not put off either.
        """
        self._marked[panel] = None
        if self._timer is None:
            self._timer = self._host.later(PERIOD_S, self._round)
        if now:
            self._twins.pop(panel, None)
            if panel not in self._last:
                self._last.add(panel)
                self._host.later(2 * PERIOD_S, self._last_twin, panel)
            return
        self._twins[panel] = None
        if self._twin_timer is None:
            self._twin_timer = self._host.later(TWIN_PERIOD_S, self._twin_round)

    def _round(self) -> None:
        """The first panel that has something to send; with many panels each waits for its turn."""
        sent = 0
        for _ in range(len(self._marked)):
            panel, _nothing = self._marked.popitem(last=False)
            sent = self._call(panel.publish)
            if sent:
                break
        # Also after the last one, so that what is marked next keeps its distance to it.
        again = bool(sent or self._marked)
        self._timer = self._host.later(PERIOD_S * max(1, sent), self._round) if again else None

    def _twin_round(self) -> None:
        if self._twins:
            panel, _ = self._twins.popitem(last=False)
            self._call(panel.publish_twin)
            self._twin_timer = self._host.later(TWIN_PERIOD_S, self._twin_round)
        else:
            self._twin_timer = None

    def _last_twin(self, panel: Published) -> None:
        self._last.discard(panel)
        self._call(panel.publish_twin)

    def forget(self, panel: Published) -> None:
        """A panel was closed."""
        self._marked.pop(panel, None)
        self._twins.pop(panel, None)

    def _call(self, publish: Callable[[], int | None]) -> int:
        try:
            return publish() or 0
        except Exception:  # one broken panel must not stop the others; its run does not notice
            _log.exception("a panel could not be updated")
            return 0


_publishers: dict[Host, Publisher] = {}
_lock = threading.Lock()


def publisher_of(host: Host) -> Publisher:
    """The publisher of a host's panels. Those of hosts whose loop is closed are let go of."""
    with _lock:
        for lost in [known for known in _publishers if known.is_lost()]:
            del _publishers[lost]
        found = _publishers.get(host)
        if found is None:
            found = _publishers[host] = Publisher(host)
        return found
