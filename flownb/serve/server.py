"""The command's server: one socket, one process, no log of addresses."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from flownb.errors import WorkflowConfigurationError
from flownb.runs import Store
from flownb.serve.app import application
from flownb.serve.guards import is_loopback

#: Seconds that requests which are under way have when the server ends.
GRACE_S: Final = 1
#: Requests at once; more are told to come again.
AT_ONCE: Final = 100
#: So many ports behind one that is taken are looked at.
_NEXT: Final = 50


class Address(NamedTuple):
    """Where a server listens."""

    #: As a browser on this machine finds it, without a path.
    base: str
    #: The list of open questions, with its key; "" where there is none.
    listed: str


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        WorkflowConfigurationError: It cannot; names the next port that is free, where that is all.
    """
    if not 0 <= port <= 65_535:  # some systems count on from 0
        raise WorkflowConfigurationError(f"There is no port {port}: they go from 0 to 65535.")
    try:
        return _bound(host, port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            why = error.strerror or str(error)
            raise WorkflowConfigurationError(f"Nobody can listen on {host!r}, port {port}: {why}.") from None
        taken = "taken" if error.errno == errno.EADDRINUSE else "not for everybody"
        free = _free(host, port if port >= 1024 else 8765)
        mend = f"Port {free} is free: --port {free}." if free else "--port 0 takes any that is free."
        raise WorkflowConfigurationError(f"Port {port} of {host} is {taken}. {mend}") from None


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    listening = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(AT_ONCE)
    except BaseException:
        listening.close()
        raise
    return listening


def _free(host: str, taken: int) -> int:
    for port in range(taken + 1, min(taken + 1 + _NEXT, 65_536)):
        with contextlib.suppress(OSError), _bound(host, port):
            return port
    return 0


@contextmanager
def serving(
    store: Store,
    host: str,
    port: int,
    *,
    names: Iterable[str] = (),
    told: Callable[[str], object] | None = None,
) -> Iterator[tuple[Server, Address]]:
    """A server that listens, and is not run yet; its socket is closed at the end.

    Raises:
        WorkflowConfigurationError: It cannot listen there.
    """
    with bound(host, port) as listening:
        key = secrets.token_urlsafe(24) if is_loopback(host) else ""
        app = application(store, host=host, names=names, index_key=key, told=told)
        base = _base(host, listening.getsockname()[1])
        yield Server(app, listening), Address(base, f"{base}/?key={key}" if key else "")


def _base(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Impatient(H11Protocol):
    """Closes a connection on which nothing comes; uvicorn looks at the clock after the first answer only."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)


class Server:
    """Runs until it is told to stop, or Ctrl-C comes.

    Args:
        app: An ASGI application.
        listening: Its socket.
    """

    def __init__(self, app: Any, listening: socket.socket) -> None:
        self._socket = listening
        # An address holds a token, so no request is logged, whatever the level is.
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                access_log=False,
                log_config=None,
                log_level=logging.CRITICAL,
                lifespan="off",
                ws="none",
                http=_Impatient,
                loop="asyncio",
                proxy_headers=False,
                server_header=False,
                limit_concurrency=AT_ONCE,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=GRACE_S,
            )
        )

    def run(self) -> None:
        """Serve until the end.

        Raises:
            KeyboardInterrupt: Ctrl-C ended it.
        """
        self._server.run(sockets=[self._socket])

    def is_up(self) -> bool:
        """Whether requests are answered."""
        return self._server.started

    def stop(self) -> None:
        """End it soon, from any thread."""
        self._server.should_exit = True


__all__ = ["Address", "Server", "bound", "serving"]
