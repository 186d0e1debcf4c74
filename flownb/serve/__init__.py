"""Questions answered over HTTP: a page for each, at an address that holds its token.

python -m flownb serve                                   # needs flownb[serve]
flownb.serve.link(request, "https://flows.example.org")  # the address of one question, to be mailed
flownb.serve.application(store)                          # an ASGI application, for a server of yours
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flownb.serve.links import link

if TYPE_CHECKING:
    from flownb.serve.app import application


def __getattr__(name: str) -> Any:
    if name == "application":  # it needs starlette, a link does not
        try:
            from flownb.serve.app import application
        except ImportError as error:
            raise ImportError(f"To answer over HTTP {error.name} is needed: pip install 'flownb[serve]'.") from None
        return application
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["application", "link"]
