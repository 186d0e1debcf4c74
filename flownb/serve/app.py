"""The ASGI application: which address does what. What a question says is looked up on a thread, never in the loop."""

from __future__ import annotations

import hmac
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flownb.errors import JournalDamaged, WorkflowRuntimeError
from flownb.runs import Store
from flownb.runtime.questions import secret_of
from flownb.serve.asking import Answering
from flownb.serve.bodies import Refused, read_form
from flownb.serve.guards import Hosts, is_loopback, is_of_this_site
from flownb.serve.index import index_of
from flownb.serve.limits import Limit
from flownb.serve.look import HEADERS
from flownb.serve.pages import status_page

#: A minute: requests of one client, and of one token. To try a token that does not exist costs a client ten.
CLIENT_RATE: Final = 120
TOKEN_RATE: Final = 60
_MISS_COST: Final = 9.0
_METHODS: Final = ("GET", "HEAD", "POST")

_log = logging.getLogger("flownb.serve")


def application(
    store: Store,
    *,
    host: str = "127.0.0.1",
    names: Iterable[str] = (),
    index_key: str = "",
    client_limit: Limit | None = None,
    token_limit: Limit | None = None,
    told: Callable[[str], object] | None = None,
) -> ASGIApp:
    """The questions of a store as an ASGI application. Put it behind TLS where others than this machine can reach it.

    Args:
        store: Its questions are answered.
        host: The address that the server listens on. On loopback only names of this machine are answered to, against
            pages that point a name of theirs at it.
        names: Names of hosts under which it is called, such as that of a proxy: "flows.example.org".
        index_key: What has to be given to see the list of open questions, `/?key=...`; "" is no list. It is shown on
            loopback only.
        client_limit: How often one client may ask.
        token_limit: How often one token may be asked for.
        told: Called with a line for each answer that was recorded; without tokens.
    """
    clients = Limit(CLIENT_RATE) if client_limit is None else client_limit
    tokens = Limit(TOKEN_RATE) if token_limit is None else token_limit
    answering = Answering(store, told or (lambda line: None))
    has_index = bool(index_key) and is_loopback(host)

    async def question(request: Request) -> Response:
        token = str(request.path_params["token"])
        hashed = secret_of(token)
        if request.method == "POST" and not is_of_this_site(request.headers):
            raise Refused(403, "")
        if not await run_in_threadpool(answering.knows, hashed):
            wait_s = clients.take(_client_of(request.scope), _MISS_COST)
            raise Refused(429, "", after_s=wait_s) if wait_s else Refused(404, "")
        wait_s = tokens.take(hashed)
        if wait_s:
            raise Refused(429, "", after_s=wait_s)
        if request.method != "POST":
            return _response(*await run_in_threadpool(answering.show, token))
        headers = request.headers
        raw = await read_form(headers.get("content-type", ""), headers.get("content-length", ""), request.stream())
        return _response(*await run_in_threadpool(answering.take, token, raw))

    async def index(request: Request) -> Response:
        if not has_index:
            raise Refused(404, "")
        if request.method == "POST":
            raise Refused(405, "", allow="GET, HEAD")
        given = request.query_params.get("key", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, index_key.encode()):
            raise Refused(403, "Open the address that the command printed: it holds the key to this list.")
        return _response(200, await run_in_threadpool(index_of, store))

    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        raise Refused(404, "")

    # Not the class `Starlette`: it answers faults itself, before anybody else can.
    routes = [
        Route("/", index, methods=_METHODS),
        Route("/r/{token:path}", question, methods=_METHODS),
    ]
    return Guarded(Router(routes, redirect_slashes=False, default=nothing), Hosts(host, names), clients)


def _response(status: int, page: str, more: dict[str, str] | None = None) -> Response:
    return HTMLResponse(page, status, {**HEADERS, **(more or {})})


def _client_of(scope: Scope) -> str:
    """Who asks, as far as it counts: an IPv6 client has a whole network of addresses to ask from."""
    client = scope.get("client")
    address = str(client[0]) if client else ""
    return ":".join(address.split(":")[:4]) if ":" in address else address


class Guarded:
    """What holds for every request, before and after: method, host, rate, headers, and no fault that tells anything."""

    def __init__(self, app: ASGIApp, hosts: Hosts, clients: Limit) -> None:
        self._app, self._hosts, self._clients = app, hosts, clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # a lifespan or a websocket: neither is there
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            refused = self._refusal(scope)
            if refused is None:
                await self._app(scope, receive, sending)
                return
        except Refused as error:
            refused = error
        except ClientDisconnect:
            return
        except JournalDamaged:
            refused = Refused(410, "The record of this question is damaged, so it can no longer be answered.")
        except WorkflowRuntimeError:
            refused = Refused(503, "", after_s=2.0)
        except Exception as error:
            refused = Refused(500, "")
            _tell(error)
        if not begun:
            await self._refuse(refused)(scope, receive, sending)

    def _refusal(self, scope: Scope) -> Refused | None:
        if scope["method"] not in _METHODS:
            return Refused(405, "")
        wait_s = self._clients.take(_client_of(scope))
        if wait_s:
            return Refused(429, "", after_s=wait_s)
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self._hosts.knows(hosts[0].decode("latin-1")):
            return Refused(400, "This server is not called by that name. If it should be: serve --name NAME.")
        return None

    def _refuse(self, refused: Refused) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        more: dict[str, str] = {}
        if refused.status == 405:
            more["allow"] = refused.allow or ", ".join(_METHODS)
        if refused.after_s is not None:
            more["retry-after"] = str(max(1, int(refused.after_s + 0.999)))
        if refused.status in (408, 413, 415):
            more["connection"] = "close"  # the rest of what was sent is not read
        return _response(refused.status, status_page(refused.status, str(refused)), more)


def _tell(error: BaseException) -> None:
    """A fault of ours, in the log: where it happened, but not what its message says, which may hold anything."""
    frames = reversed(traceback.extract_tb(error.__traceback__)[-8:])
    where = " <- ".join(f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in frames)
    _log.error("a request failed: %s in %s", type(error).__qualname__, where)


__all__ = ["CLIENT_RATE", "TOKEN_RATE", "application"]
