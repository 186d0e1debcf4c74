"""Whatever is sent, nothing breaks and no token is told: no 500, no word of it in an answer, a log or an output."""

import logging
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote_from_bytes, urlencode

import pytest

from flownb import Store
from flownb.serve import application
from flownb.serve.limits import Limit
from flownb.serve.server import serving
from tests.polling import wait_until
from tests.serve.asgi import FORM, HOST, Filled, Page, ask, path_to
from tests.serve.flows import Asks, AsksAll, AsksNested, asking

Rng = random.Random
#: What a page may be answered with.
KNOWN = {200, 400, 403, 404, 405, 409, 410, 413, 415, 422, 429, 503}

TEXTS = [
    "", " ", "0", "-1", "1e400", "-1e400", "NaN", "nan", "Infinity", "-inf", "9" * 5000, "-" + "9" * 400,
    "1" + "0" * 308,
    "1.7976931348623157e309", "0x10", "1_000", "٣", "\0", "a\0b", "\x1b[31m", "\r\n\r\n", "\u202egnp.exe",
    "\ud7ff\ufffe",
    "true", "false", "null", "None", "on", "unset", "<script>alert(1)</script>", "</textarea><img src=x onerror=y>",
    "'; DROP TABLE runs; --", "../../etc/passwd", "%00", "%s%n", "{0.__class__}", "{{7*7}}", "${jndi:x}",
    "2026-02-31",
    "9999-12-31T23:59:59", "0001-01-01T00:00", "2026-12-24T18:30", "-2026-01-01", "10000-01-01", "24:00", "23:59:60",
    "Europe/Berlin", "../UTC", "/etc/localtime", "+99:99", "+23:59:59.999999", "[" * 50_000, "{" * 50_000,
    '{"a":' * 20_000, "[1]", '{"a": 1e999}', '{"a": NaN}', '"' + "x" * 60_000 + '"', "🂡" * 3000, "ﬀİı" * 50,
    "card", "cash", "l",
]  # fmt: skip
NAMES = [
    "do", "by", "seal", "f", "f.", "f..", "f.text", "f.text:unset", "f.text:was", "f.items:rows", "f.items.0",
    "f.items.0.count",
    "f.items.-1.name", "f.items.99999999999.name", "f.pay:tab", "f.pay~0.number", "f.pay~9.number", "f.pay~.x",
    "f.due:zone",
    "f.secret", "f.free", "f.other:unset", "f.other:was", "f.__class__", "f.__init__.x", "f.answer", "f.rows:rows",
    "f.rows.0.items:rows", "f.rows.0.pay:tab", "", ":", "%", "\0", "__proto__", "f.size", "f.picks", "f.tags",
    "f.codes",
]  # fmt: skip
DOS = [
    "send", "", "add f.items", "add f.rows", "add f.rows.0.items", "add f", "remove f.items 0", "remove f.items -1",
    "remove f.items " + "9" * 400, "remove f.items ٣", "add " + "f." * 5000, "remove", "\0",
]  # fmt: skip
PATHS = [
    "", "/", "//", "/r", "/r/", "/r//", "/r/../", "/r/..", "/r/%2e%2e/", "/r/\0", "/r/%00", "/R/x", "/r/x/y/z",
    "/r/x?key=",
    "/?key=", "/?key=%00", "/?key=a&key=b", "/?" + "a=b&" * 500, "/favicon.ico", "/robots.txt", "/.git/config",
    "/r/" + "a" * 8000,
    "/r/é", "/r/\u202e", "/r/%ED%A0%80", "/r/%FF", "/r/a b", "/r/;", "/r/*", "/r/a#b", "*", "http://evil.example/r/x",
]  # fmt: skip
METHODS = [
    "GET",
    "HEAD",
    "POST",
    "POST",
    "POST",
    "PUT",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PATCH",
    "get",
    "X" * 500,
    "P OST",
]
HEADERS = [
    ("origin", "null"), ("origin", "https://evil.example"), ("origin", "http://" + HOST), ("origin", "\xff"),
    ("origin", "http://["),
    ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "\x00"),
    ("referer", "http://x/"),
    ("content-length", "-1"), ("content-length", "999999999999"), ("content-length", "x"), ("content-length", "²"),
    ("transfer-encoding", "chunked"), ("content-type", "application/json"), ("content-type", "multipart/form-data"),
    ("content-type", FORM + "; charset=utf-16"), ("content-type", "\xff" * 300), ("content-type", "; ;;="),
    ("cookie", "a=" + "b" * 4000),
    ("x-forwarded-for", "127.0.0.1"), ("x-forwarded-host", "evil.example"), ("host", "localhost"),
    ("host", "evil.example"),
    ("accept-encoding", "gzip;q=NaN"), ("range", "bytes=0-"), ("if-none-match", "*"), ("expect", "100-continue"),
    ("upgrade", "h2c"),
]  # fmt: skip


@pytest.fixture
def silence(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[..., None]]:
    """Checks that nothing that was logged or printed holds a token."""
    caplog.set_level(logging.DEBUG)

    def check(*tokens: str) -> None:
        out, err = capfd.readouterr()
        for said in (caplog.text, out, err):
            assert not any(token in said for token in tokens)
        assert "a request failed" not in caplog.text and "Traceback" not in caplog.text + err

    yield check


def broken_form(rng: Rng, form: list[tuple[str, str]]) -> bytes:
    """The body of a form in which something is odd."""
    fields = list(form)
    for _ in range(rng.randint(1, 6)):
        what = rng.randrange(6)
        if what == 0 and fields:
            del fields[rng.randrange(len(fields))]
        elif what == 1 and fields:
            place = rng.randrange(len(fields))
            fields[place] = (fields[place][0], rng.choice(TEXTS))
        elif what == 2 and fields:
            place = rng.randrange(len(fields))
            fields[place] = (rng.choice(NAMES), fields[place][1])
        elif what == 3:
            fields[:0] = [("do", rng.choice(DOS))]
        elif what == 4:
            text = rng.choice(TEXTS)
            fields += [(rng.choice(NAMES), text)] * (rng.choice((1, 2, 600)) if len(text) < 100 else 1)
        else:
            fields.insert(rng.randint(0, len(fields)), (rng.choice(NAMES), rng.choice(TEXTS)))
    body = urlencode(fields, errors="replace").encode()
    match rng.randrange(8):
        case 0:
            return body[: rng.randint(0, len(body))]
        case 1:
            place = rng.randint(0, len(body))
            return body[:place] + bytes(rng.randrange(256) for _ in range(20)) + body[place:]
        case 2:
            return body.replace(b"=", b"") if rng.random() < 0.5 else body.replace(b"&", b"%26")
    return body


def broken_body(rng: Rng) -> bytes:
    """A body that is no form at all."""
    return rng.choice(
        [
            b"", b"\0" * 100, b"%" * 1000, b"&" * 5000, b"=" * 5000, b"{}", b"[" * 100_000, bytes(range(256)) * 20,
            b"--x\r\nContent-Disposition: form-data; name=\"f.text\"\r\n\r\n", b"--x--", b"\xff\xfef\0",
            b"a" * (1 << 21),
        ]
    )  # fmt: skip


def is_harmless(page: Page, *tokens: str) -> bool:
    said = f"{page.headers} {page.body}"
    return page.status in KNOWN and not any(token in said for token in tokens) and "<script" not in page.body


@pytest.mark.parametrize("flow", [AsksAll, AsksNested, Asks])
def test_odd_requests_are_answered(file_store: Store, silence: Callable[..., None], flow: Any):
    """750 of them: paths, methods, headers, bodies and fields."""
    rng = Rng(flow.__name__)
    app = application(file_store, index_key="key", client_limit=Limit(10**6), token_limit=Limit(10**6))
    run = asking(flow(), file_store)
    token = run.requests[0].token
    form = Filled(ask(app, "GET", path_to(token))).pressed()
    seen: dict[int, int] = {}
    for _ in range(250):
        path = path_to(token) if rng.random() < 0.8 else rng.choice(PATHS)
        method = rng.choice(METHODS) if rng.random() < 0.25 else "POST"
        body = broken_form(rng, form) if rng.random() < 0.8 else broken_body(rng)
        headers = rng.sample(HEADERS, rng.choice((0, 0, 0, 1, 2)))
        raw = path if path and not path.startswith("/r/" + token) and "?" not in path else None
        page = ask(app, method, "/" if raw else path, body, headers, raw_path=raw)
        assert is_harmless(page, token), (method, path, body[:2000], headers, page.status, page.words)
        seen[page.status] = seen.get(page.status, 0) + 1
    assert {403, 404, 405, 413, 415, 422} <= set(seen) and seen[422] > 30, seen
    silence(token)
    run.cancel().result(20)


@contextmanager
def running(store: Store) -> Iterator[int]:
    """A server of a store, and its port."""
    with serving(store, "127.0.0.1", 0) as (server, address):
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            wait_until(server.is_up)
            yield int(address.base.rpartition(":")[2])
        finally:
            server.stop()
            thread.join(20)
        assert not thread.is_alive()


def said_to(port: int, line: bytes, patience_s: float = 20.0) -> bytes:
    """What a server answers to some bytes, until it closes the connection or says nothing more for so long."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=patience_s) as raw, suppress(OSError):
        raw.sendall(line)
        while part := raw.recv(65_536):
            answer += part
    return answer


def test_odd_bytes_on_the_line(file_store: Store, silence: Callable[..., None]):
    """Below the application: what is no HTTP, or half of it, ends its connection and nothing else."""
    rng = Rng(6)
    run = asking(Asks(), file_store)
    token = run.requests[0].token
    path = path_to(token).encode()
    with running(file_store) as port:
        good = b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        pieces = [
            b"GET " + path + b"\r\n\r\n", b"\0" * 50, b"\r\n" * 50, b"GET " + path + b" HTTP/9.9\r\n\r\n",
            good[:40], good,
            b"GET  HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", good.replace(b"Host", b"Ho st"),
            good.replace(b"127.0.0.1", b"\xff"),
            b"POST " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
            b"POST " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nx\r\n0\r\n\r\n",
            b"GET " + quote_from_bytes(path * 4000).encode() + b" HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(60),
            good.replace(b"HTTP/1.1", b"HTTP/1.0"), good.replace(b"Connection: close",
            b"Upgrade: websocket\r\nConnection: Upgrade"),
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            good + good, b"GET http://" + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        ]  # fmt: skip
        for n in range(60):
            line = pieces[n] if n < len(pieces) else bytearray(rng.choice(pieces))
            if isinstance(line, bytearray) and line:
                for _ in range(rng.randint(1, 8)):
                    line[rng.randrange(len(line))] = rng.randrange(256)
            answer = said_to(port, bytes(line), 0.2)
            assert token.encode() not in answer and b" 500 " not in answer.partition(b"\r\n")[0]
        assert said_to(port, good).startswith(b"HTTP/1.1 200 ")
    silence(token)
    run.cancel().result(20)
