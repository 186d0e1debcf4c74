"""The folder of files beside a store, and what goes there (R6.9)."""

import json
import os
import threading
import time
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import SecretStr

from flownb.core import ticks
from flownb.errors import JournalDamaged, LiveValueLost, NotStorable, WorkflowRuntimeError
from flownb.events import newest
from flownb.store.artifacts import ArtifactLost, Artifacts, hashes_in
from flownb.store.codec import Codec
from flownb.store.marks import Lost
from flownb.store.writer import FIELD_SIZE
from tests.store.samples import Anything, Opaque, Row, exact, out, started


def row_of(codec: Codec, value: Any) -> tuple[str, bytes]:
    return codec.encode(ticks.StreamWritten(1.0, "s", 1, 1, out(Anything(value=value))))


def value_of(codec: Codec, row: tuple[str, bytes]) -> Any:
    tick: Any = codec.decode(1, 1.0, *row)
    return tick.out.value.value


def codec_of(files: Artifacts | Path, **more: Any) -> Codec:
    return Codec(newest, artifacts=files if isinstance(files, Artifacts) else Artifacts(files), **more)


# The folder.


def test_a_file_is_named_by_its_content_and_written_once(tmp_path: Path):
    """`ab/cdef...`; the second write changes nothing but its age; nothing else is left in the folder."""
    files = Artifacts(tmp_path / "deep" / "runs.artifacts")
    name = files.put(b"content")
    path = files.folder / name[:2] / name[2:]
    os.utime(path, (1, 1))
    inode = path.stat().st_ino

    assert name == sha256(b"content").hexdigest()
    assert files.put(b"content") == name
    assert (path.stat().st_ino, path.stat().st_mtime > 1) == (inode, True)
    assert files.get(name) == b"content"
    assert [*files] == [name]
    assert [p.name for p in files.folder.rglob("*") if p.is_file()] == [name[2:]]


def test_a_file_is_flushed_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """R1.12: content, name, and the names of its folders, in this order; so no tick names what a power cut takes."""
    done: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        done.append("flush " + Path(os.readlink(f"/proc/self/fd/{handle}")).name[:4])
        real_fsync(handle)

    def replace(self: Path, target: Path) -> Path:
        done.append("rename")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    name = Artifacts(tmp_path / "files").put(b"content")

    assert done == ["flush .new", "rename", f"flush {name[:2]}", "flush file"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """And is the store's fault, which the run outlives, not a fault of the value."""
    files = Artifacts(tmp_path / "files")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkflowRuntimeError, match="No space left on device"):
        row_of(codec_of(files), np.zeros(10_000))
    assert [p for p in files.folder.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "/etc/passwd", "ab", "A" * 64, "0" * 63 + "\n", "0" * 64])
def test_a_name_is_never_a_path(tmp_path: Path, name: str):
    """C133: whatever a journal says, nothing but files of the folder are read."""
    with pytest.raises(ArtifactLost):
        Artifacts(tmp_path).get(name)


def test_many_threads_write_the_same_files(tmp_path: Path):
    """Each file is there once, whole."""
    folder = tmp_path / "files"
    contents = [bytes([i]) * 50_000 for i in range(20)]

    def write() -> None:
        files = Artifacts(folder)
        for content in contents:
            files.put(content)

    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    files = Artifacts(folder)
    assert {files.get(name) for name in files} == {*contents}
    assert len([p for p in folder.rglob("*") if p.is_file()]) == 20


def test_files_that_no_journal_names_are_collected(tmp_path: Path):
    """Old ones only: a young one may belong to a tick that is being written, and a send again makes it young."""
    files = Artifacts(tmp_path)
    codec = codec_of(files)
    array = np.arange(50_000)
    frame = pd.DataFrame({"a": np.arange(50_000.0)})
    kept = row_of(codec, [{"deep": [array, "x" * 70_000]}, frame])
    row_of(codec, np.ones(50_000))
    text = row_of(codec, "\ud800" * 100_000)
    (tmp_path / "00").mkdir(exist_ok=True)
    (tmp_path / "00" / ".new-1").write_bytes(b"left by a process that was killed")
    assert len([*files]) == 5  # two arrays, a frame, the list with them, the text
    reachable = {*hashes_in(kept[1]), *hashes_in(text[1])}
    assert len(reachable) == 4

    assert files.collect(reachable).files == 0
    for path in tmp_path.rglob("*"):
        os.utime(path, (1, 1))
    row_of(codec, np.ones(50_000))
    assert files.collect(reachable).files == 1
    assert len([*files]) == 5
    for path in tmp_path.rglob("*"):
        os.utime(path, (1, 1))
    assert files.collect(reachable).size > 400_000
    assert {*files} == reachable
    assert value_of(codec_of(files), kept)[0]["deep"][0].sum() == array.sum()
    assert value_of(codec_of(files), text) == "\ud800" * 100_000


def test_names_are_found_in_any_body():
    """Also in damaged ones, and none that a user's text quotes as a tick would."""
    name = "ab" * 32
    assert hashes_in(b'{"a":{"$artifact":"%s","codec":"npy"}}' % name.encode()) == {name}
    assert hashes_in(b'{"a": {"$artifact" : "%s", "codec"' % name.encode()) == {name}
    assert hashes_in(b'{"$artifact":"%s","$parts":["%s"]}' % (name.encode(), b"cd" * 32)) == {name, "cd" * 32}
    assert hashes_in(b"\xff\xfe no body, and $artifact in it") == set()
    for tick in (started(), ticks.EventArrived(1.0, out(Row(no=1, name="$artifact")))):
        assert hashes_in(Codec(newest).encode(tick)[1]) == set()


# What goes there.


@pytest.mark.parametrize(
    ("value", "codec_name"),
    [
        (b"\0\xff" * 40_000, "bytes"),
        ("é\0" * 40_000, "text"),
        ("\ud83d" * 70_000, "text"),
        ([*range(20_000)], "json"),
        ({"a": ["\ud83d\ude00", "x" * 70_000], 1: (2.5, {3})}, "json"),
    ],
    ids=["bytes", "text", "surrogates", "list", "dict"],
)
def test_a_large_field_is_a_file(tmp_path: Path, value: Any, codec_name: str):
    """Over 64 KB of JSON: the tick stays small, the value the same."""
    row = row_of(codec_of(tmp_path), value)
    notation = json.loads(row[1])["out"]["d"]["value"]

    assert len(row[1]) < 2000
    assert (notation["codec"], notation["size"] > FIELD_SIZE) == (codec_name, True)
    assert exact(value_of(codec_of(tmp_path), row)) == exact(value)


def test_small_fields_stay_in_the_tick(tmp_path: Path):
    """Each of them, however many: only what is large itself is a file. Small arrays too: a file costs more."""
    event = Anything(**{f"f{i}": "x" * 60_000 for i in range(5)}, big="y" * 70_000, few=np.arange(5))
    codec = codec_of(tmp_path)
    kind, body = codec.encode(ticks.EventArrived(1.0, out(event)))
    parts = json.loads(body)["out"]["x"]

    assert [name for name in parts if "$artifact" in parts[name]] == ["big"]
    assert parts["few"]["$small"] == "npy"
    assert parts["few"]["preview"] == {"shape": [5], "dtype": "int64", "head": ["0", "1", "2", "3", "4"]}
    tick: Any = codec_of(tmp_path).decode(1, 1.0, kind, body)
    assert tick.out.value["few"].tolist() == [0, 1, 2, 3, 4]
    assert tick.out.value["big"] == event["big"]
    assert len([*Artifacts(tmp_path)]) == 1


def test_a_large_value_of_the_state_or_of_a_question_is_a_file(tmp_path: Path):
    """Values that are no events, and those that are written alone."""
    codec = codec_of(tmp_path)
    tick = ticks.StateWritten(1.0, "s", 1, 1, {"a": out("x" * 100_000), "b": out(1)})
    kind, body = codec.encode(tick)
    alone = codec.encode_out(out(Anything(value="x" * 100_000)))

    assert len(body) + len(alone) < 2000
    assert codec_of(tmp_path).decode(1, 1.0, kind, body) == tick
    assert codec_of(tmp_path).decode_out(alone).value.value == "x" * 100_000
    assert len([*Artifacts(tmp_path)]) == 1


def test_without_a_folder_all_is_in_the_tick():
    """As in memory, and in a snapshot; frames have no codec then."""
    row = row_of(Codec(newest), b"x" * 100_000)

    assert value_of(Codec(newest), row) == b"x" * 100_000
    with pytest.raises(NotStorable, match="DataFrame, which has no codec"):
        row_of(Codec(newest), pd.DataFrame({"a": [1]}))


def test_a_preview_stands_in_the_tick(tmp_path: Path):
    """What the panel shows of a frame before anybody reads it."""
    frame = pd.DataFrame({"a": np.arange(9000.0), "b": ["x" * 100] * 9000}, index=range(1, 9001))
    notation = json.loads(row_of(codec_of(tmp_path), frame)[1])["out"]["d"]["value"]

    assert notation["type"] == "pandas:DataFrame"
    assert notation["preview"] == {
        "shape": [9000, 2],
        "columns": [["a", "float64"], ["b", "str"]],
        "index": ["1", "2", "3", "4", "5"],
        "head": [[f"{i}.0", "x" * 39 + "…"] for i in range(5)],
    }


# What is not there any more.


@pytest.mark.parametrize("damage", ["gone", "flipped", "cut"])
def test_a_file_that_is_lost_leaves_the_run_viewable(tmp_path: Path, damage: str):
    """C113: a mark that names event and field when it is used, and is written again as it was."""
    row = row_of(codec_of(tmp_path), [np.arange(5000.0)])
    (name,) = Artifacts(tmp_path)
    path = tmp_path / name[:2] / name[2:]
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        content[500] ^= 1
        path.write_bytes(content if damage == "flipped" else content[:600])
    reader = codec_of(tmp_path)
    tick: Any = reader.decode(1, 1.0, *row)
    (lost,) = tick.out.value.value

    assert isinstance(lost, Lost)
    assert repr(lost) == "<lost numpy:ndarray: shape (5000,)>"
    said = "is not there" if damage == "gone" else "is damaged"
    with pytest.raises(LiveValueLost, match=f"field 'value' of event 'tests.store.samples:Anything' .*{said}") as used:
        lost.sum()
    assert (used.value.event, used.value.field) == ("tests.store.samples:Anything", "value")
    assert reader.encode(tick) == row
    assert reader.decode(1, 1.0, *row) == tick


def test_who_only_looks_reads_no_files(tmp_path: Path):
    """A foreign run of many gigabytes, or with a file that unpacks to them, is shown by its previews."""
    row = row_of(codec_of(tmp_path), np.arange(5000.0))
    viewer = codec_of(tmp_path, opens_files=False)

    assert repr(value_of(viewer, row)) == "<lost numpy:ndarray: shape (5000,)>"
    assert repr(value_of(Codec(newest), row)) == "<lost numpy:ndarray: shape (5000,)>"
    assert viewer.encode(viewer.decode(1, 1.0, *row)) == row


def test_a_file_of_an_unknown_codec_is_a_mark(tmp_path: Path):
    """Of a newer version, say; a small one that is damaged is a damaged tick."""
    kind, body = row_of(codec_of(tmp_path), np.arange(5000.0))
    newer = body.replace(b'"codec":"npy"', b'"codec":"zarr"')
    with pytest.raises(LiveValueLost, match="cannot be read: KeyError: 'zarr'"):
        len(value_of(codec_of(tmp_path), (kind, newer)))

    kind, body = row_of(codec_of(tmp_path), np.arange(5))
    with pytest.raises(JournalDamaged):
        codec_of(tmp_path).decode(1, 1.0, kind, body.replace(b'"$small":"npy"', b'"$small":"zarr"'))


# Pickles, where they are trusted.


class Noted:
    """Tells when an instance is made by unpickling."""

    made: list[str] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.made.append(self.name)


def test_pickles_are_written_and_read_with_trust_alone(tmp_path: Path):
    """R6.10, C133: whoever opens the store without it gets a mark, and nothing of the pickle runs."""
    Noted.made.clear()
    many = [Noted("x" * 10_000), Noted("y")]
    row = row_of(codec_of(Artifacts(tmp_path, trust=True)), many)

    for files in (Artifacts(tmp_path), None):
        found = value_of(Codec(newest, "live", artifacts=files), row)
        assert [type(part) for part in found] == [Lost, Lost]
        with pytest.raises(LiveValueLost, match=r"opened with trust=True"):
            found[1].name
    assert Noted.made == []

    found = value_of(codec_of(Artifacts(tmp_path, trust=True)), row)
    assert [part.name for part in found] == ["x" * 10_000, "y"]
    assert Noted.made == ["x" * 10_000, "y"]
    with pytest.raises(NotStorable):
        row_of(codec_of(tmp_path), many)


def test_functions_travel_in_a_trusted_store(tmp_path: Path):
    """Also those of a cell, which no import finds; C117: what cannot be pickled is refused, with the reason."""
    codec = codec_of(Artifacts(tmp_path, trust=True))
    three = 3
    assert value_of(codec_of(Artifacts(tmp_path, trust=True)), row_of(codec, lambda n: n + three))(4) == 7
    with pytest.raises(NotStorable, match=r"thread:lock, which cannot be pickled"):
        codec.check(out(Anything(value=threading.Lock())))


def test_no_secret_is_pickled(tmp_path: Path):
    """Also not one deep inside: the file would have it in plain text."""
    holder = ModuleType("holder")
    holder.client = Opaque()  # type: ignore[attr-defined]
    holder.client.key = SecretStr("hunter2")
    with pytest.raises(NotStorable, match="there is a secret in it"):
        row_of(codec_of(Artifacts(tmp_path, trust=True)), holder.client)
    assert not any(b"hunter2" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_large_value_is_quickly_sent_again(tmp_path: Path):
    """10 MB through a thousand steps: not a hash of it for each tick."""
    codec, frame = codec_of(tmp_path), pd.DataFrame({"a": np.arange(1_300_000.0)})
    begun = time.thread_time()
    row = row_of(codec, frame)
    first = time.thread_time() - begun
    begun = time.thread_time()
    assert all(row_of(codec, frame) == row for _ in range(20))
    assert (time.thread_time() - begun) / 20 < first / 5
