"""A run's twin without a panel, for kernels that nobody looks at."""

from __future__ import annotations

from typing import Any

from flownb.notebook.screen import Screen


class Still:
    """Renews one twin until its run is over."""

    def __init__(self, screen: Screen, handle: Any) -> None:
        self._screen, self._handle = screen, handle
        if not screen.runner.host.is_lost():
            screen.want_layout()
            screen.show(self)

    def publish(self) -> int:
        """There is no live view."""
        return 0

    def publish_twin(self) -> None:
        """Renew the twin."""
        with self._screen.drawing:
            self._handle.update(self._screen.twin())

    def redraw(self) -> None:
        """The twin is drawn as a whole each time."""
