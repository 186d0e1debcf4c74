"""An ASGI application asked without a network, and a browser's view of its forms."""

import asyncio
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

HOST = "127.0.0.1:8765"
FORM = "application/x-www-form-urlencoded"


class Page(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def words(self) -> str:
        """What people read."""
        parser = _Words()
        parser.feed(self.body)
        return " ".join(" ".join(parser.found).split())


Headers = Iterable[tuple[str, str]]


def ask(
    app: Any,
    method: str,
    address: str,
    body: bytes | Sequence[bytes] = b"",
    headers: Headers = (),
    *,
    client: str = "127.0.0.1",
    host: str | None = HOST,
    raw_path: str | None = None,
) -> Page:
    """What an application answers.

    Args:
        app: It.
        method: HTTP's.
        address: Path and query, or a whole address.
        body: In one piece or several.
        headers: Beside `Host` and, of a body, its type and length.
        client: Who asks.
        host: The header; None: there is none.
        raw_path: The path as it is after decoding, where it is none that an address can have.
    """
    parts = urlsplit(address)
    pieces = [body] if isinstance(body, bytes) else list(body)
    given = {name.lower() for name, _ in headers}
    sent = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    if host is not None:
        sent.append((b"host", host.encode("latin-1")))
    if method == "POST" and "content-type" not in given:
        sent.append((b"content-type", FORM.encode()))
    if isinstance(body, bytes) and body and "content-length" not in given:
        sent.append((b"content-length", str(len(body)).encode()))
    path = raw_path if raw_path is not None else _unquoted(parts.path)
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode("utf-8", "replace"), "query_string": parts.query.encode("latin-1"),
        "root_path": "", "headers": sent, "client": (client, 50_000), "server": ("127.0.0.1", 8765),
    }  # fmt: skip
    return asyncio.run(_asked(app, scope, pieces))


def _unquoted(path: str) -> str:
    from urllib.parse import unquote

    return unquote(path)


async def _asked(app: Any, scope: dict[str, Any], pieces: list[bytes]) -> Page:
    left = list(pieces)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        piece = left.pop(0) if left else b""
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    assert start["type"] == "http.response.start" and sum(m["type"] == start["type"] for m in sent) == 1
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
    return Page(start["status"], headers, b"".join(m.get("body", b"") for m in sent[1:]).decode())


def post(app: Any, address: str, fields: Iterable[tuple[str, str]], headers: Headers = (), **more: Any) -> Page:
    """Send a form."""
    return ask(app, "POST", address, urlencode(list(fields)).encode(), headers, **more)


def path_to(token: str) -> str:
    return "/r/" + quote(token, safe="")


class Filled:
    """The form of a page as a browser holds it: what it would send, and what a person changes in it."""

    def __init__(self, page: Page) -> None:
        parser = _Controls()
        parser.feed(page.body)
        self.page, self.fields, self.buttons = page, parser.fields, parser.buttons
        self.options = parser.options

    def value(self, name: str) -> str:
        """Of the only control of that name."""
        (found,) = [value for key, value in self.fields if key == name]
        return found

    def put(self, name: str, *values: str) -> "Filled":
        """Type, choose, tick: values of that name, none for no tick."""
        assert name in self.options or any(key == name for key, _ in self.fields), f"no control {name!r}"
        before = [key for key, _ in self.fields]
        place = before.index(name) if name in before else len(before)
        self.fields = [(key, value) for key, value in self.fields if key != name]
        self.fields[place:place] = [(name, value) for value in values]
        return self

    def pressed(self, button: str = "send") -> list[tuple[str, str]]:
        """What is sent when a button is pressed."""
        assert button in self.buttons, f"no button {button!r}, there are {self.buttons}"
        return [("do", button), *self.fields]


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._is_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._is_style = False

    def handle_data(self, data: str) -> None:
        if not self._is_style:
            self.found.append(data)


class _Controls(HTMLParser):
    """What of a form a browser sends as it stands."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[tuple[str, str]] = []
        self.buttons: list[str] = []
        #: Values that radio buttons, ticks and lists offer, by name.
        self.options: dict[str, list[str]] = {}
        self._area: str | None = None
        self._text: list[str] = []
        self._select: str | None = None
        self._chosen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        name, value, kind = found.get("name", ""), found.get("value", ""), found.get("type", "text")
        if tag == "input" and kind in ("radio", "checkbox"):
            self.options.setdefault(name, []).append(value)
            if "checked" in found:
                self.fields.append((name, value))
        elif tag == "input":
            self.fields.append((name, value))
        elif tag == "button":
            self.buttons.append(value)
        elif tag == "textarea":
            self._area, self._text = name, []
        elif tag == "select":
            self._select, self._chosen = name, []
        elif tag == "option" and self._select is not None:
            self.options.setdefault(self._select, []).append(value)
            if "selected" in found:
                self._chosen.append(value)

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            self.fields.append((self._area, "".join(self._text).removeprefix("\n").replace("\n", "\r\n")))
            self._area = None
        elif tag == "select" and self._select is not None:
            self.fields.append((self._select, (self._chosen or self.options[self._select])[0]))
            self._select = None
