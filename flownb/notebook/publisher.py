"""One publisher for all panels of a kernel: at most 20 messages a second, the last state always sent.

It lives on the engine's thread. Panels are marked when their run changed; a round takes the marked ones in turn and
spends the messages that this second still allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Protocol

from flownb.runtime.host import Host

PERIOD_S = 0.05
TWIN_PERIOD_S = 1.0

_log = logging.getLogger("flownb")


class Published(Protocol):
    """What the publisher needs of a panel."""

    def publish(self) -> bool:
        """Send what is new; whether more is waiting."""
        ...

    def publish_twin(self) -> None: ...


class Publisher:
    """Calls panels, never more often than the front end can take."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._marked: OrderedDict[Published, None] = OrderedDict()
        self._twins: OrderedDict[Published, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._twin_timer: asyncio.TimerHandle | None = None

    def mark(self, panel: Published, *, now: bool = False) -> None:
        """A panel has news. On the engine's thread.

        Args:
            panel: It.
            now: Its run is over: the twin is not put off either.
        """
        self._marked[panel] = None
        self._twins[panel] = None
        if self._timer is None:
            self._timer = self._host.loop.call_later(PERIOD_S, self._round)
        if self._twin_timer is None:
            self._twin_timer = self._host.loop.call_later(TWIN_PERIOD_S, self._twin_round)
        if now:
            self._twins.pop(panel)
            self._host.loop.call_later(2 * PERIOD_S, self._call, panel.publish_twin)

    def _round(self) -> None:
        """One message a period: with many panels each waits for its turn."""
        self._timer = None
        if not self._marked:
            return
        panel, _ = self._marked.popitem(last=False)
        if self._call(panel.publish):
            self._marked[panel] = None
        if self._marked:
            self._timer = self._host.loop.call_later(PERIOD_S, self._round)

    def _twin_round(self) -> None:
        self._twin_timer = None
        if not self._twins:
            return
        panel, _ = self._twins.popitem(last=False)
        self._call(panel.publish_twin)
        if self._twins:
            self._twin_timer = self._host.loop.call_later(TWIN_PERIOD_S, self._twin_round)

    def forget(self, panel: Published) -> None:
        """A panel was closed."""
        self._marked.pop(panel, None)
        self._twins.pop(panel, None)

    def _call(self, publish: object) -> bool:
        try:
            return bool(publish())  # type: ignore[operator]
        except Exception:  # one broken panel must not stop the others; its run does not notice
            _log.exception("a panel could not be updated")
            return False


_publishers: dict[Host, Publisher] = {}


def publisher_of(host: Host) -> Publisher:
    """The publisher of a host's panels."""
    found = _publishers.get(host)
    if found is None:
        found = _publishers[host] = Publisher(host)
    return found
