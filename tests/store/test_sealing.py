"""Secrets in a journal: a mark, or sealed with the key of the environment; never in plain text (R4.50)."""

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from pydantic import Secret, SecretBytes, SecretStr

from flownb.core import ticks
from flownb.errors import LiveValueLost, WorkflowConfigurationError
from flownb.events import newest
from flownb.store.artifacts import Artifacts
from flownb.store.codec import Codec
from flownb.store.marks import Lost
from flownb.store.sealing import Sealer, sealer_of
from tests.store.samples import Anything, Login, out

KEY = Fernet.generate_key().decode()


def codec_of(key: str = KEY, **more: Any) -> Codec:
    return Codec(newest, sealer=sealer_of({"FLOWNB_KEY": key} if key else {}), **more)


LOGIN = Login(user="ann", password="hunter2", token=[SecretBytes(b"hunter\xff")], odd=SecretStr("hunter\ud800"))
TICK = ticks.EventArrived(1.0, out(LOGIN))


def test_a_sealed_secret_opens_with_its_key():
    """In another process: the value itself, of the same type; declared fields and others, text of any kind."""
    kind, body = codec_of().encode(TICK)
    assert b"hunter" not in body
    assert b"***" not in body

    tick: Any = codec_of().decode(1, 1.0, kind, body)
    assert tick.out.value == LOGIN
    assert tick.out.value.password.get_secret_value() == "hunter2"
    assert type(tick.out.value["token"][0]) is SecretBytes


@pytest.mark.parametrize(("key", "why"), [("", "set FLOWNB_KEY"), (Fernet.generate_key().decode(), "another key")])
def test_without_its_key_a_secret_is_a_mark_that_says_so(key: str, why: str):
    """The run stays viewable; using it names event and field; it is written again as it was, to be opened later."""
    kind, body = codec_of().encode(TICK)
    reader = codec_of(key)
    tick: Any = reader.decode(1, 1.0, kind, body)
    password = tick.out.value.password

    assert (type(password), tick.out.value.user) == (Lost, "ann")
    assert "hunter" not in repr(tick)
    with pytest.raises(LiveValueLost, match=f"field 'password' of event 'tests.store.samples:Login' .*{why}") as used:
        password.get_secret_value()
    assert (used.value.event, used.value.field) == ("tests.store.samples:Login", "password")
    assert reader.encode(tick) == (kind, body)
    again: Any = codec_of().decode(1, 1.0, *reader.encode(tick))
    assert again.out.value == LOGIN


def test_without_a_key_a_secret_stays_in_memory():
    """R4.50: the journal has a mark; this process the secret."""
    codec = codec_of("")
    kind, body = codec.encode(TICK)
    assert b"$secret" in body
    here: Any = codec.decode(1, 1.0, kind, body)
    there: Any = codec_of().decode(1, 1.0, kind, body)

    assert here.out.value.password is LOGIN.password
    with pytest.raises(LiveValueLost, match=r"field 'password' .*kept in memory only"):
        there.out.value.password.get_secret_value()


def test_one_tick_has_one_body():
    """A tick that is written a second time, after a lost acknowledgement, is known as the same one; so is one read."""
    codec = codec_of()
    row = codec.encode(TICK)
    assert codec.encode(TICK) == row
    reader = codec_of()
    assert reader.encode(reader.decode(1, 1.0, *row)) == row


def test_secrets_of_other_types_are_marked():
    """Their class cannot be made again from the value alone."""
    event = Anything(value=Secret[date](date(2026, 1, 1)))
    body = json.loads(codec_of().encode(ticks.EventArrived(1.0, out(event)))[1])
    assert next(iter(body["out"]["d"]["value"])) == "$secret"


def test_a_secret_in_a_large_field_is_sealed_in_the_tick(tmp_path: Path):
    """Not in a file: an export has to find it."""
    codec = codec_of(artifacts=Artifacts(tmp_path))
    kind, body = codec.encode(ticks.EventArrived(1.0, out(Anything(value=["x" * 100_000, SecretStr("hunter2")]))))

    assert (len(body) > 100_000, b"hunter2" in body, [*Artifacts(tmp_path)]) == (True, False, [])
    tick: Any = codec_of().decode(1, 1.0, kind, body)
    assert tick.out.value.value[1].get_secret_value() == "hunter2"


def test_a_changed_seal_is_no_value():
    """Nobody without the key can make one, or change one."""
    kind, body = codec_of().encode(ticks.EventArrived(1.0, out(Anything(value=SecretStr("hunter2")))))
    token = json.loads(body)["out"]["d"]["value"]["$sealed"].encode()
    for place in range(0, len(token), 7):
        changed = token[:place] + (b"A" if token[place : place + 1] != b"A" else b"B") + token[place + 1 :]
        tick: Any = codec_of().decode(1, 1.0, kind, body.replace(token, changed))
        value = tick.out.value.value
        assert type(value) is Lost or value.get_secret_value() == "hunter2"  # the last letter has idle bits


def test_a_key_that_cannot_be_used_is_refused(monkeypatch: pytest.MonkeyPatch):
    """At once, not with the first secret; its text is not told."""
    assert sealer_of({}) is None
    assert sealer_of({"FLOWNB_KEY": "  "}) is None
    assert isinstance(sealer_of({"FLOWNB_KEY": f" {KEY}\n"}), Sealer)
    with pytest.raises(WorkflowConfigurationError, match=r"FLOWNB_KEY is no key\. One is made by: python") as refused:
        sealer_of({"FLOWNB_KEY": KEY[:-5]})
    assert KEY[:10] not in str(refused.value)
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)
    with pytest.raises(WorkflowConfigurationError, match=r"pip install 'flownb\[secrets\]'"):
        sealer_of({"FLOWNB_KEY": KEY})
