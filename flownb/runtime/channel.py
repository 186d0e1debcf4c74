"""What steps in other processes say, as they say it.

One listener a process, made with the first call: a socket that only this user can open, and a key. It is a help, not a
need: whatever does not come this way comes with the result, and each piece is handed on once, in order.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable
from functools import cache
from multiprocessing import ProcessError
from multiprocessing.connection import Listener
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

from flownb.errors import AttemptOver
from flownb.runtime.remote import Home, Said, Told

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: How long the engine waits for what a lost process said before it was lost.
LAST_WORDS_S = 0.5

_log = logging.getLogger("flownb")
_decode = msgspec.msgpack.Decoder(Told).decode


class Hearing:
    """What one call said so far."""

    def __init__(self, hear: Callable[[Said], None]) -> None:
        self._hear = hear
        self._n = 0
        self._closed = False
        self._lock = threading.Lock()
        #: The process that it came from hung up.
        self._is_silent = threading.Event()

    def hang_up(self) -> None:
        """Its process says nothing more."""
        self._is_silent.set()

    def wait_for_last_words(self) -> None:
        """Its process was lost: what it said before may still be on the way."""
        self._is_silent.wait(LAST_WORDS_S)

    def take(self, n: int, said: Said) -> None:
        """The n-th thing; out of its turn it is left for the end."""
        with self._lock:
            if n == self._n and not self._closed:
                self._hand_on(said)

    def finish(self, said: list[Said]) -> None:
        """All of it: what was not heard yet is handed on, and nothing comes after it."""
        with self._lock:
            for item in said[self._n :] if not self._closed else ():
                self._hand_on(item)
            self._closed = True

    def _hand_on(self, said: Said) -> None:
        self._n += 1
        try:
            self._hear(said)
        except AttemptOver:  # fenced off: nothing that it says counts
            self._closed = True
        except BaseException:  # the thread serves other calls too
            _log.exception("what a step said in another process could not be taken")


class Channel:
    """Listens to all calls of this process."""

    def __init__(self) -> None:
        self._hearings: dict[str, Hearing] = {}
        self._key = secrets.token_bytes(32)
        self._address: str | None = None
        try:
            listener = Listener(backlog=64, authkey=self._key)
        except Exception:  # no sockets here: all is told with the results
            _log.debug("no listener for steps in other processes", exc_info=True)
            return
        self._address = str(listener.address)
        threading.Thread(target=self._accept, args=(listener,), name="flownb-channel", daemon=True).start()

    def open(self, hear: Callable[[Said], None]) -> tuple[Home, Hearing]:
        """A call is about to begin: where it comes from, and what will be heard of it."""
        call = secrets.token_hex(8)
        hearing = self._hearings[call] = Hearing(hear)
        return Home(call, self._address, self._key), hearing

    def close(self, home: Home) -> None:
        """That call is over."""
        self._hearings.pop(home.call, None)

    def _accept(self, listener: Listener) -> None:
        while True:
            try:
                line = listener.accept()
            except (ProcessError, EOFError, ConnectionError):  # somebody who hung up, or who does not know the key
                continue
            except OSError:  # the listener is gone
                return
            threading.Thread(target=self._listen, args=(line,), name="flownb-channel", daemon=True).start()

    def _listen(self, line: Connection[Any, Any]) -> None:
        heard: WeakValueDictionary[str, Hearing] = WeakValueDictionary()
        with line:
            while True:
                try:
                    told = _decode(line.recv_bytes())
                except (EOFError, OSError, msgspec.DecodeError):
                    break
                hearing = self._hearings.get(told.call)
                if hearing is not None:
                    heard[told.call] = hearing
                    hearing.take(told.n, told.said)
        for hearing in heard.values():
            hearing.hang_up()


_making = threading.Lock()


def channel() -> Channel:
    """That of this process; a child that was forked makes its own."""
    with _making:
        return _channel_of(os.getpid())


@cache
def _channel_of(pid: int) -> Channel:
    return Channel()
