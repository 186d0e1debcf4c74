"""What is checked before anything is looked up, and HTML that cannot be broken."""

import pytest

from flownb.serve.bodies import MOST, Refused, parsed
from flownb.serve.guards import FORM_S, Hosts, Seal, is_loopback, is_of_this_site, name_in
from flownb.serve.limits import Limit
from flownb.serve.markup import Html, element, escaped, joined


@pytest.mark.parametrize(
    ("host", "is_it"),
    [
        ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("LocalHost.", True),
        ("a.localhost", True), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.org", False),
        ("127.0.0.1.example.org", False), ("", False), ("localhost.example.org", False),
    ],
)  # fmt: skip
def test_what_is_this_machine_alone(host: str, is_it: bool):
    assert is_loopback(host) is is_it


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        ("LOCALHOST:80", "localhost"), ("[::1]:80", "::1"), ("h.", "h"), ("h", "h"), ("h:", "h"), ("", None),
        (":80", None), ("h:x", None), ("h:99999", None), ("a@h", None), ("h/x", None), ("h?x", None), ("h#x", None),
        ("[::1", None), ("h\\x", "h\\x"), (" h", None),
    ],
)  # fmt: skip
def test_the_name_in_a_host_header(authority: str, name: str | None):
    assert name_in(authority) == name or (name is None and not Hosts("127.0.0.1").knows(authority))


@pytest.mark.parametrize(
    ("headers", "is_ours"),
    [
        ({}, True),
        ({"origin": "null"}, True),
        ({"origin": "https://h"}, True),
        ({"origin": "https://h:443"}, True),
        ({"origin": "http://h:80"}, True),
        ({"origin": "http://H"}, True),
        ({"origin": "https://h:80"}, False),
        ({"origin": "http://h.evil.example"}, False),
        ({"origin": "h"}, False),
        ({"origin": ""}, False),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, True),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "http://h"}, False),
        ({"sec-fetch-site": ""}, False),
    ],
)
def test_where_a_form_comes_from(headers: dict[str, str], is_ours: bool):
    assert is_of_this_site({"host": "h", **headers}) is is_ours


def test_a_seal_is_good_for_its_question_and_its_time():
    seal = Seal(b"secret")
    mark = seal.of("hash", now=1000.0)
    assert mark != seal.of("hash", now=1000.0)
    assert seal.check(mark, "hash", now=1000.0 + FORM_S) == "good" == Seal(b"secret").check(mark, "hash", now=1000.0)
    assert seal.check(mark, "hash", now=1002.0 + FORM_S) == "old" == seal.check(mark, "hash", now=800.0)
    assert seal.check(mark, "other", now=1000.0) == "wrong" == Seal(b"other").check(mark, "hash", now=1000.0)
    at, chance, given = mark.split(".")
    for wrong in (f"{at}9.{chance}.{given}", f"{at}.{chance}0.{given}", f"{at}.{chance}.", "", "..", "a.b.c", "\ud800"):
        assert seal.check(wrong, "hash", now=1000.0) == "wrong"


def test_a_limit_fills_by_itself_and_is_bounded():
    now = [0.0]
    limit = Limit(6, clock=lambda: now[0], kept=3)
    assert [limit.take("a") for _ in range(7)] == [0.0] * 6 + [10.0]
    now[0] = 5.0
    assert limit.take("a") == pytest.approx(5.0)
    now[0] = 10.0
    assert (limit.take("a"), limit.take("a")) == (0.0, pytest.approx(10.0))
    now[0] = 1000.0
    assert [limit.take("a") for _ in range(7)][5:] == [0.0, 10.0]
    assert limit.take("cost", 12.0) == 0.0
    assert limit.take("cost") == pytest.approx(70.0)
    for who in range(50):
        limit.take(who)
        assert len(limit) <= 3
    assert limit.take("a") == 0.0  # it was the longest without


def test_bodies_are_read_generously():
    assert parsed(b"a=1&a=2&b=%C3%BC+x&c&=d&e=%") == {"a": ["1", "2"], "b": ["ü x"], "c": [""], "": ["d"], "e": ["%"]}
    assert parsed(b"a=x%0D%0Ay%0Dz&b=%FF%ED%A0%80&c=\xff&d=%00") == {
        "a": ["x\ny\nz"], "b": ["\ufffd" * 4], "c": ["ÿ"], "d": ["\0"],
    }  # fmt: skip
    assert parsed(b"&&;=&") == {";": [""]}
    with pytest.raises(Refused) as refused:
        parsed(b"a=1&" * (MOST + 1))
    assert refused.value.status == 413


def test_text_never_becomes_markup():
    """`DESIGN.md` §9: what comes from users is escaped, in text and in attributes, whatever it holds."""
    evil = "</textarea><script>alert(1)</script>\"'&\x00\u202e\ud800"
    text = element("p", evil, title=evil, data_x=evil)
    assert "<script" not in text and text.count('"') == 4 and "&#x27;" in text
    assert "\x00" not in text and "\u202e" not in text
    text.encode("utf-8")
    assert (
        element("input", value=None, checked=True, disabled=False, aria_label="a") == '<input checked aria-label="a">'
    )
    assert joined("a<", None, element("b", "c")) == "a&lt;<b>c</b>"
    assert escaped(Html("<i>")) == "<i>"
