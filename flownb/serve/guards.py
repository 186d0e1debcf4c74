"""What a request must look like before anything is looked up for it.

A page of somebody else in the same browser must neither read a form nor send one: the name of the host is checked
(against names that are pointed at 127.0.0.1), where a POST comes from, and that the form was made here.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

#: How long a form may lie open before it has to be looked at again, in seconds.
FORM_S: Final = 24 * 3600.0
_LOOPBACK_NAMES: Final = frozenset(("localhost", "localhost.localdomain", "ip6-localhost"))


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine alone."""
    if host.lower().rstrip(".") in _LOOPBACK_NAMES or host.lower().endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def name_in(authority: str) -> str | None:
    """The host in `name:port`, in small letters and without brackets; None if it is none."""
    try:
        parts = urlsplit(f"//{authority}")
        if parts.netloc != authority or parts.username is not None or parts.path or parts.query or parts.fragment:
            return None
        _ = parts.port  # raises if it is no number
    except ValueError:
        return None
    return (parts.hostname or "").rstrip(".") or None


class Hosts:
    """The names under which a server may be called.

    Args:
        bound: The address that it listens on. On loopback only names of this machine count; elsewhere every address
            does, for only names can be pointed elsewhere.
        names: Others, such as that of a proxy in front of it.
    """

    def __init__(self, bound: str, names: Iterable[str] = ()) -> None:
        self._is_loopback = is_loopback(bound)
        self._names = {name.lower().rstrip(".") for name in (bound, *names)}

    def knows(self, header: str) -> bool:
        """Whether a `Host` header names this server."""
        name = name_in(header)
        if name is None:
            return False
        return name in self._names or is_loopback(name) or (not self._is_loopback and _address(name) is not None)


def is_of_this_site(headers: Mapping[str, str]) -> bool:
    """Whether a POST comes from a page of this server, as far as the browser says where it comes from.

    `Origin` is "null" for forms of pages with `Referrer-Policy: no-referrer`, as ours are; then `Sec-Fetch-Site` and
    the form's seal say it.
    """
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin", "null")
    if origin == "null":
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    default = {"http": ":80", "https": ":443"}.get(parts.scheme)
    if default is None:
        return False
    return parts.netloc.lower().removesuffix(default) == headers.get("host", "").lower().removesuffix(default)


class Seal:
    """Marks a form as made here, for one question; any process that serves the store knows it.

    Args:
        secret: The store's.
    """

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, b"flownb: forms over HTTP", hashlib.sha256)

    def of(self, token_hash: str, now: float | None = None) -> str:
        """The mark of a form."""
        at, chance = int(time.time() if now is None else now), secrets.token_hex(8)
        return f"{at}.{chance}.{self._sum(token_hash, str(at), chance)}"

    def check(self, mark: str, token_hash: str, now: float | None = None) -> Literal["good", "old", "wrong"]:
        """What a mark that came back is worth."""
        at, _, rest = mark.partition(".")
        chance, _, given = rest.partition(".")
        expected = self._sum(token_hash, at, chance)
        if not hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode()):
            return "wrong"
        age = (time.time() if now is None else now) - int(at)
        return "good" if -60.0 <= age <= FORM_S else "old"

    def _sum(self, token_hash: str, at: str, chance: str) -> str:
        said = f"{token_hash}.{at}.{chance}".encode("utf-8", "replace")
        return hmac.new(self._key, said, hashlib.sha256).hexdigest()


__all__ = ["FORM_S", "Hosts", "Seal", "is_loopback", "is_of_this_site", "name_in"]
