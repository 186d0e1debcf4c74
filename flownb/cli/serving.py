"""Answering over HTTP, from a terminal: the server, and links to open questions."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Callable, Sequence

from flownb.errors import RequestError, WorkflowConfigurationError
from flownb.openings import StoreRequest
from flownb.runs import Store
from flownb.serve.guards import is_loopback
from flownb.serve.links import link
from flownb.store.drivers import is_imported

PUBLIC = """\
Other machines can reach this server, over plain HTTP: who can listen on the network reads links and answers. Put it
behind a proxy that speaks TLS (and --name the proxy's host), and let nobody else reach the port."""


def check(host: str, is_public: bool) -> None:
    """Raises WorkflowConfigurationError unless a server may listen there."""
    if not is_loopback(host) and not is_public:
        raise WorkflowConfigurationError(
            f"{host!r} is not this machine alone: other machines could read links and answer. If they are to, say "
            "--public; the default, 127.0.0.1, is reached by browsers of this machine."
        )
    try:
        import starlette
        import uvicorn
    except ImportError as error:
        raise WorkflowConfigurationError(
            f"To serve questions over HTTP, starlette and uvicorn are needed ({error.name} is missing): "
            "pip install 'flownb[serve]'."
        ) from None
    del starlette, uvicorn


def serve(
    store: Store,
    host: str,
    port: int,
    names: Sequence[str],
    *,
    opens: bool,
    say: Callable[[str], object],
    begun: Callable[[str, str], object],
) -> None:
    """Serve until Ctrl-C.

    Args:
        store: Its questions are answered.
        host: Where to listen.
        port: As well; 0 is any that is free.
        names: Other names under which it is called.
        opens: Whether the list of questions is opened in a browser.
        say: Called with a line for each answer.
        begun: Called with the address and that of the list, "" if there is none, once it listens.

    Raises:
        WorkflowConfigurationError: It cannot listen there; says which port is free.
    """
    from flownb.serve.server import serving

    with serving(store, host, port, names=names, told=say) as (server, address):
        begun(address.base, address.listed)
        if not is_loopback(host):
            print(PUBLIC, file=sys.stderr, flush=True)
        if opens:
            webbrowser.open(address.listed or address.base)
        server.run()


def link_of(store: Store, request: StoreRequest, base: str) -> str:
    """The link of an open question; "" where there is none: its run was imported, or its step gave it a token of its
    own."""
    if is_imported(store.journal.holder(request.run_id).driver):
        return ""
    try:
        return link(request, base)
    except RequestError:
        return ""


def links(store: Store, base: str) -> dict[str, str]:
    """The links of all open questions, by their id."""
    return {request.id: link_of(store, request, base) for request in store.requests()}


__all__ = ["check", "link_of", "links", "serve"]
