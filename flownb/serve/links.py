"""The address at which one question is answered."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlsplit

from flownb.errors import RequestError, WorkflowConfigurationError
from flownb.openings import StoreRequest, token_of
from flownb.requests import Request

#: Where `python -m flownb serve` listens, unless it is told otherwise.
BASE: Final = "http://127.0.0.1:8765"


def link(request: Request[Any] | StoreRequest | str, base: str = BASE) -> str:
    """The address at which whoever has it answers a question: `python -m flownb serve` has to serve its store there.

    It holds the question's token, so it is a secret: it goes to the person who is asked, and into no log.

    Args:
        request: The question; or its token, where the step that asks gave one of its own.
        base: Where the store is served, as the person's browser finds it: "https://flows.example.org".

    Raises:
        RequestError: Its run is kept in memory only, or its step gave a token of its own: then nobody else knows it.
        WorkflowConfigurationError: `base` is no address.
    """
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise WorkflowConfigurationError(f"{base!r} is no address: write it as {BASE!r}.")
    if isinstance(request, str):
        token = request
    else:
        token = token_of(request) if isinstance(request, StoreRequest) else request.token
        if not token:
            raise RequestError(
                f"Question {request.id} has no link: its run is kept in no store, or its step gave a token of its own. "
                "With that one: flownb.serve.link(token, base)."
            )
    return base.rstrip("/") + path_of(token)


def path_of(token: str) -> str:
    """The path of a token's page.

    Raises:
        RequestError: No browser asks for such a path.
    """
    if token in ("", ".", ".."):
        raise RequestError("That token cannot stand in an address.")
    return "/r/" + quote(token.encode("utf-8", "surrogatepass"), safe="")


__all__ = ["BASE", "link", "path_of"]
