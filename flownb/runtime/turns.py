"""One after the other, in the order of asking: across tasks, threads and loops, which no standard lock spans."""

from __future__ import annotations

import threading

from flownb.runtime.pending import Pending


class Turns:
    """A fair lock whose `ask` gives a handle to await or to block on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: list[Pending[None]] = []

    def ask(self) -> Pending[None]:
        """Stand in line; the handle ends when it is this one's turn."""
        turn: Pending[None] = Pending("the turn to edit the state")
        with self._lock:
            self._line.append(turn)
            first = self._line[0] is turn
        if first:
            turn.resolve(None)
        return turn

    def next(self) -> None:
        """The one whose turn it is has finished."""
        with self._lock:
            self._line.pop(0)
            following = self._line[0] if self._line else None
        if following is not None:
            following.resolve(None)

    def give_up(self, turn: Pending[None]) -> None:
        """Leave the line, or pass the turn on if it came meanwhile."""
        with self._lock:
            if self._line and self._line[0] is turn:
                mine = True
            else:
                mine = False
                if turn in self._line:
                    self._line.remove(turn)
        if mine:
            self.next()
