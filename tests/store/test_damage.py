"""Bodies that somebody, or a disk, changed: a tick or `JournalDamaged`, and nothing of them is run (C113, C133)."""

import builtins
import json
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from flownb.core import ticks
from flownb.errors import JournalDamaged
from flownb.events import Event, defined
from flownb.store.artifacts import Artifacts
from flownb.store.codec import Codec
from flownb.store.sealing import Sealer
from tests.store.samples import EXAMPLES, MORE, Anything, Colour, Hidden, Note, Right, Typed, out

KEY = Fernet.generate_key().decode()
RICH = Anything(
    value=[
        (1, {2}, frozenset("a"), {3: 4}, b"\0", bytearray(b"x"), 1j, float("inf"), 2**70, range(3)),
        [Colour.RED, Right.READ | Right.WRITE, Note("x", ["y"]), np.float32(2), Path("a"), SecretStr("hunter2")],
        [np.arange(3), pd.DataFrame({"a": [1, "x"], "c": pd.Categorical([3, 1])}), pd.Series([1.5], name=("n", 1))],
        [pd.Timestamp(5, tz="Europe/Berlin"), pd.Timedelta(3), pd.NaT, np.arange(3000.0)],
    ],
    more="x" * 70_000,
)

#: What a hostile hand would put in place of a part.
EVIL: list[Any] = [
    None,
    True,
    -1,
    9223372036854775808,
    1e308,
    "",
    "\x00",
    "os:system",
    "builtins:eval",
    "__main__:__builtins__",
    [],
    {},
    [[]],
    {"": 1},
    {"$object": "os:system", "d": {}},
    {"$object": "builtins:eval", "d": ["1"]},
    {"$object": "subprocess:Popen", "d": {}},
    {"$object": "tests.store.samples:Opaque", "d": {}},
    {"$object": "flownb.events:Event"},
    {"$enum": "os:system", "name": "x"},
    {"$enum": "tests.store.samples:Colour", "flags": 7},
    {"$enum": "tests.store.samples:Right", "flags": 1180591620717411303424},
    {"$zone": "Europe"},
    {"$zone": "/etc/passwd"},
    {"$zone": "../../../etc/passwd"},
    {"$zone": "a\x00b"},
    {"$numpy": "O8", "b": "AAAAAAAAAAA="},
    {"$numpy": "V1", "b": ""},
    {"$numpy": "U999999999", "b": "AAAA"},
    {"$numpy": "f8,f8", "b": "AAAAAAAAAAA="},
    {"$path": "PosixPath", "text": 5},
    {"$path": "Popen", "text": "x"},
    {"$int": "0x" + "f" * 900},
    {"$decimal": "1e999999999"},
    {"$decimal": "x"},
    {"$range": [0, 1, 0]},
    {"$timedelta": [1e400]},
    {"$timedelta": [100000000000000000000, 0, 0]},
    {"$set": [[], {}]},
    {"$dict": [[[], 1]]},
    {"$dict": [1]},
    {"$parsed_offset": 1000000000},
    {"$parsed_offset": "x"},
    {"$offset": [99, 0, 0]},
    {"$datetime": "9999-99-99"},
    {"$datetime": "2026-01-01T00:00:00", "zone": 5, "fold": 9},
    {"$complex": [1]},
    {"$artifact": "../../../etc/passwd", "codec": "text", "type": "x"},
    {"$artifact": "0" * 64, "codec": "pickle", "type": "x"},
    {"$small": "pickle", "type": "x", "b": "Y29zCnN5c3RlbQooUydlY2hvIGhpJwp0Ui4="},
    {"$small": "npy", "type": "x", "b": "k05VTVBZAQA="},
    {"$small": "parquet", "type": "x", "b": "UEFSMQ==", "beside": {"types": {"0": "O"}}},
    {"$small": "json", "type": "x", "b": "W10="},
    {"$small": "json", "type": "x", "b": "eyIkb2JqZWN0IjoiczpzIn0="},
    {"$sealed": "gAAAA", "type": "pydantic.types:SecretStr"},
    {"$sealed": "x", "type": "os:system"},
    {"$secret": 5, "text": 1, "id": []},
    {"$live": "x"},
    {"$transient": None, "text": None},
    {"$pandas": "Timestamp", "value": 4611686018427387904, "unit": "s"},
    {"$pandas": "Timestamp", "value": 1, "unit": "parsec"},
    {"$pandas": "Popen"},
    {"$escaped": "\\ud800"},
    {"$unknown": 1},
    {"$": 1},
]


def rows(folder: Path) -> list[tuple[str, bytes]]:
    codec = codec_of(folder)
    more = [ticks.EventArrived(1.0, out(event)) for event in (RICH, Hidden(no=1), Typed(right=Right.WRITE))]
    more.append(ticks.EventArrived(1.0, out(Anything(value=["\ud83d", {1: Note("\udfff")}]))))
    return [codec.encode(tick) for tick in (*EXAMPLES, *MORE, *more)]


def codec_of(folder: Path) -> Codec:
    return Codec(defined, "live", artifacts=Artifacts(folder), sealer=Sealer(KEY))


def flipped(body: bytes, random: Random) -> bytes:
    i = random.randrange(len(body))
    byte = random.choice([random.randrange(256), *b'"{}[],:$0e\\'])
    return random.choice([
        body[:i] + bytes([byte]) + body[i + 1 :],
        body[:i] + bytes([byte]) + body[i:],
        body[:i],
        body[:i] + body[random.randrange(i, len(body)) :],
        body[:i] + body[max(0, i - 20) :],
    ])  # fmt: skip


def replaced(body: bytes, random: Random) -> bytes:
    """One part of it as somebody else would have it: another value, a key gone, renamed or new."""
    tree = json.loads(body)
    parts: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:
        for key in [*part] if isinstance(part, dict) else range(len(part)):
            parts.append((part, key))
            if isinstance(part[key], (dict, list)):
                walk(part[key])

    walk(tree)
    if not parts:
        return b"[]"
    holder, key = random.choice(parts)
    how = random.random()
    if how < 0.6:
        holder[key] = random.choice(EVIL)
    elif how < 0.75:
        del holder[key]
    elif how < 0.9 and isinstance(holder, dict):
        holder[random.choice(["d", "t", "v", "x", "p", "a", "s", "$object", "$tuple", "zone", "codec"])] = holder.pop(
            key
        )
    else:
        other, place = random.choice(parts)
        holder[key] = json.loads(json.dumps(other[place])) if place in other or isinstance(place, int) else None
    return json.dumps(tree, separators=(",", ":")).encode()


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a journal could want to run fails the test; modules that pandas needs are there before."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a journal ran something")

    def made(self: Any, **data: Any) -> None:
        refuse()

    for module, name in ((os, "system"), (os, "popen"), (builtins, "eval")):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr(Note, "__init__", refuse)
    monkeypatch.setattr(Event, "__init__", made)


@pytest.mark.parametrize("seed", range(6))
def test_a_changed_body_is_a_tick_or_damaged(tmp_path: Path, seed: int, request: pytest.FixtureRequest):
    """2,400 changes: no other error, no import, no `__init__`, no pickle; what was read can be written and shown."""
    random, bodies = Random(seed), rows(tmp_path)
    for row in bodies:
        codec_of(tmp_path).decode(1, 1.0, *row)
    codec, read = codec_of(tmp_path), 0
    request.getfixturevalue("nothing_runs")
    modules = {*sys.modules}
    for _ in range(400):
        kind, body = random.choice(bodies[-4:] if random.random() < 0.2 else bodies)
        changed = flipped(body, random) if random.random() < 0.4 or body.startswith(b'{"$e') else replaced(body, random)
        try:
            tick = codec.decode(7, 1.0, kind, changed)
        except JournalDamaged as damaged:
            assert damaged.seq == 7
            assert damaged.reason
        else:
            read += 1
            assert type(tick).__name__ == kind
            repr(tick)
            if random.random() < 0.3:
                again = codec.encode(tick)
                assert codec.encode(codec.decode(7, 1.0, *again)) == again
    assert 60 < read < 400
    # Names of zones are looked up in tzdata where the system lacks them; pandas loads its own parts to show a frame.
    assert {name.partition(".")[0] for name in {*sys.modules} - modules} <= {"tzdata", "pandas"}


@pytest.mark.parametrize("place", ["t", "d", "value", "x", "p", "a", "s"])
def test_an_evil_part_is_a_tick_or_damaged(tmp_path: Path, place: str, request: pytest.FixtureRequest):
    """C133: each at each place of an event."""
    codec = codec_of(tmp_path)
    request.getfixturevalue("nothing_runs")
    for evil in EVIL:
        out_: dict[str, Any] = {"t": "tests.store.samples:Anything", "v": 1, "d": {"value": 1}}
        (out_["d"] if place == "value" else out_)[place] = evil
        try:
            tick = codec.decode(7, 1.0, "EventArrived", json.dumps({"out": out_}).encode())
        except JournalDamaged as damaged:
            assert damaged.reason
        else:
            repr(tick)
            codec.encode(tick)
