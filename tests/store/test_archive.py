"""A run as one file (R7.12, C133): whole, without secrets, and harmless whoever made it."""

import json
import zipfile
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from flownb.core import ticks
from flownb.errors import JournalDamaged, RunNotFound
from flownb.events import newest
from flownb.store.archive import Archive, ArchivedRun, Limits, Row, read_archive, write_archive
from flownb.store.artifacts import Artifacts
from flownb.store.codec import Codec
from flownb.store.sealing import Sealer
from tests.store.samples import EXAMPLES, MORE, Anything, Ask, out, run_of, started

ARRAY = np.arange(5000.0)


def rows_of(codec: Codec, some: Any) -> list[Row]:
    return [(seq, tick.at, *codec.encode(tick)) for seq, tick in enumerate(some, 1)]


def a_run(files: Artifacts, length: int = 5) -> ArchivedRun:
    arrived = ticks.EventArrived(9.0, out(Anything(value=ARRAY)))
    rows = rows_of(Codec(newest, artifacts=files), [*run_of(length), arrived])
    return ArchivedRun("r", rows, {"workflow": "Sample", "status": "paused"})


@pytest.fixture
def files(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "runs.artifacts")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.flownb.zip"


def test_a_run_and_its_children_come_back(tmp_path: Path, files: Artifacts, path: Path):
    """Every tick byte by byte, whatever is in it, damaged ones too, and the files that they name."""
    bodies = [tick for tick in (*EXAMPLES, *MORE) if getattr(getattr(tick, "wait", None), "token", "") == ""]
    odd = [*rows_of(Codec(newest), [started("r/1/1"), *bodies[1:]])]
    odd += [(len(odd) + 1, 2.0, "Broken", b"\xff{"), (len(odd) + 2, 2.0, "Broken", b'{"a":\n1}')]
    text = rows_of(Codec(newest), [ticks.EventArrived(1.0, out(Anything(value="\ud83d\0\n")))])
    runs = (a_run(files), ArchivedRun("r/1/1", odd), ArchivedRun("r/1/2", text), ArchivedRun("r/1/3", []))

    assert write_archive(path, runs, files) == ()
    assert {p.name for p in tmp_path.iterdir()} == {"runs.artifacts", path.name}
    there = Artifacts(tmp_path / "elsewhere")
    archive = read_archive(path, there)

    assert archive == Archive(tuple(ArchivedRun(r.run_id, [*r.rows], r.about) for r in runs))
    assert {*there} == {*files}
    reader = Codec(newest, artifacts=there)
    last: Any = reader.decode(6, *archive.runs[0].rows[-1][1:])
    assert last.out.value.value.tolist() == ARRAY.tolist()
    first = path.read_bytes()
    write_archive(path, runs, files)
    assert path.read_bytes() == first


def test_an_archive_can_be_read_by_eye(files: Artifacts, path: Path):
    """It is a zip of JSON lines."""
    write_archive(path, [a_run(files)], files)
    with zipfile.ZipFile(path) as zip_:
        assert zip_.testzip() is None
        index = json.loads(zip_.read("run.json"))
        lines = [json.loads(line) for line in zip_.read("journal.jsonl").splitlines()]
        (digest,) = files
        assert sha256(zip_.read(f"artifacts/{digest[:2]}/{digest[2:]}")).hexdigest() == digest
    assert index["runs"][0] == {
        "run_id": "r", "journal": "journal.jsonl", "rows": 6, "about": {"workflow": "Sample", "status": "paused"},
    }  # fmt: skip
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert (lines[1]["kind"], lines[1]["body"]) == ("GateClosed", {"by": "p1"})


def test_secrets_and_tokens_do_not_leave(files: Artifacts, path: Path):
    """What is sealed is a mark: whoever has the key of this store, or will, gets nothing to open."""
    codec = Codec(newest, artifacts=files, sealer=Sealer(Fernet.generate_key().decode()))
    asked = ticks.Ask(out(Ask(prompt="?", token="a user's field")), token="5ca1ab1e")
    some = [
        started(),
        ticks.EventArrived(1.0, out(Anything(value=[SecretStr("hunter2")]))),
        ticks.EventArrived(1.0, out(Anything(value=[SecretStr("hunter2"), "\ud800"]))),
        ticks.WaitOpened(1.0, "load", 1, 1, 1, asked),
    ]
    rows = rows_of(codec, some)
    broken = (5, 1.0, "EventArrived", rows[1][3][:-5])
    write_archive(path, [ArchivedRun("r", [*rows, broken])], files)
    with zipfile.ZipFile(path) as zip_:
        content = b"".join(zip_.read(name) for name in zip_.namelist())
    archive = read_archive(path)
    reader = Codec(newest)
    found: list[Any] = [reader.decode(seq, at, kind, body) for seq, at, kind, body in archive.runs[0].rows[:4]]

    assert b"$sealed" not in content
    assert b"5ca1ab1e" not in content
    assert found[0] == some[0]
    assert repr(found[1].out.value.value) == "[<lost pydantic.types:SecretStr>]"
    assert found[2].out.value.value[1] == "\ud800"
    assert found[3].wait.token == ""
    assert found[3].wait.question.value["token"] == "a user's field"
    with pytest.raises(JournalDamaged):
        reader.decode(*archive.runs[0].rows[4])


def test_missing_files_are_told(tmp_path: Path, files: Artifacts, path: Path):
    """When it is written and when it is read; the run is there without them."""
    run = a_run(files)
    (digest,) = files
    (files.folder / digest[:2] / digest[2:]).write_bytes(b"damaged")

    assert write_archive(path, [run], files) == (digest,)
    assert read_archive(path, Artifacts(tmp_path / "elsewhere")).missing == (digest,)
    assert write_archive(path, [run]) == (digest,)
    assert read_archive(path).runs[0].rows == run.rows


def test_a_file_that_fails_to_be_written_is_not_there(tmp_path: Path, path: Path):
    """Nor half of it; what was there before stays."""
    path.write_bytes(b"before")
    with pytest.raises(TypeError):
        write_archive(path, [ArchivedRun("r", [(1, 1.0, "GateOpened", None)])])  # type: ignore[list-item]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"before"


# Made by somebody else.


def changed(path: Path, change: Any) -> None:
    """The same zip with other contents: `change` gets and gives `{name: bytes}`."""
    with zipfile.ZipFile(path) as zip_:
        contents = {name: zip_.read(name) for name in zip_.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zip_:
        for name, content in change(contents).items():
            zip_.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "good", "fault"),
    [
        (lambda line: line.replace(b'"p3"', b'"p4"'), 3, "tick 4 is not as it was written"),
        (lambda line: line.replace(b'"at":4.0', b'"at":9.0'), 3, "tick 4 is not as it was written"),
        (lambda line: line.replace(b'"seq":4', b'"seq":9'), 3, "tick 4 is not as it was written"),
        (lambda line: b"", 3, "tick 4 is not as it was written"),
        (lambda line: line + line, 4, "tick 5 is not as it was written"),
        (lambda line: line[:-9], 3, "tick 4 cannot be read"),
        (lambda line: b"[" * 100_000, 3, "tick 4 cannot be read"),
    ],
    ids=["body", "time", "number", "dropped", "doubled", "cut", "deep"],
)
def test_a_journal_is_read_up_to_its_last_good_tick(files: Artifacts, path: Path, change: Any, good: int, fault: str):
    """C113: and says what is wrong with the next one; nothing after it counts."""
    run = a_run(files)
    write_archive(path, [run], files)

    def edit(contents: dict[str, bytes]) -> dict[str, bytes]:
        lines = contents["journal.jsonl"].splitlines(keepends=True)
        lines[3] = change(lines[3])
        return contents | {"journal.jsonl": b"".join(lines)}

    changed(path, edit)
    (read,) = read_archive(path).runs
    assert read.rows == run.rows[:good]
    assert read.fault.startswith(fault)


def test_a_journal_without_its_end_is_known(files: Artifacts, path: Path):
    """A cut between two lines is none of their faults."""
    run = a_run(files)
    write_archive(path, [run], files)
    changed(path, lambda c: c | {"journal.jsonl": b"".join(c["journal.jsonl"].splitlines(keepends=True)[:-1])})
    (read,) = read_archive(path).runs
    assert (len(read.rows), read.fault) == (5, "it had 6 ticks, and 5 are there")
    changed(path, lambda c: {name: content for name, content in c.items() if name != "journal.jsonl"})
    assert read_archive(path).runs[0].fault == "its journal is not there"


def test_a_file_with_another_content_is_not_taken(tmp_path: Path, files: Artifacts, path: Path):
    """A name is the promise of a content."""
    write_archive(path, [a_run(files)], files)
    (digest,) = files
    changed(path, lambda c: {n: b"another" if n.startswith("artifacts") else content for n, content in c.items()})
    there = Artifacts(tmp_path / "elsewhere")

    assert read_archive(path, there).missing == (digest,)
    assert [*there] == []


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/cron.d/x", "artifacts/../../evil", "artifacts/ab/../../../evil", "children/0.jsonl", "a/b",
     "artifacts/AB/" + "0" * 62, "C:\\evil", "journal.jsonl/", "children/", "run.json#.txt"],
)  # fmt: skip
def test_entries_that_no_run_has_are_refused(tmp_path: Path, files: Artifacts, path: Path, name: str):
    """A name that climbs out of its folder is one of them; nothing is written anywhere."""
    write_archive(path, [a_run(files)], files)
    changed(path, lambda c: c | {name: b"x"})
    path.write_bytes(path.read_bytes().replace(b"json#", b"json\0"))  # which ends the name, for some
    there = Artifacts(tmp_path / "elsewhere")
    with pytest.raises(JournalDamaged, match="which the file of a run has not"):
        read_archive(path, there)
    assert {p.name for p in tmp_path.iterdir()} == {path.name, "runs.artifacts"}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_twice_is_refused(files: Artifacts, path: Path):
    """One tool would read the first, another the second."""
    write_archive(path, [a_run(files)], files)
    with zipfile.ZipFile(path, "a") as zip_:
        zip_.writestr("journal.jsonl", b"")
    with pytest.raises(JournalDamaged, match=r"two entries 'journal\.jsonl'"):
        read_archive(path)


def test_a_bomb_does_not_go_off(tmp_path: Path, files: Artifacts, path: Path):
    """Whatever its sizes say: reading stops at the limits, in an entry that is a file, a row, or the index."""
    write_archive(path, [a_run(files)], files)
    (digest,) = files
    zeros = bytes(20 << 20)
    bombs = {f"artifacts/{digest[:2]}/{digest[2:]}": zeros, "journal.jsonl": zeros, "run.json": zeros}
    for name, content in bombs.items():
        write_archive(path, [a_run(files)], files)
        changed(path, lambda c, name=name, content=content: c | {name: content})
        assert path.stat().st_size < 100_000
        with pytest.raises(JournalDamaged, match="is larger than 1000000 bytes"):
            read_archive(path, limits=Limits(in_one_file=10**6, in_one_row=10**6))
        with pytest.raises(JournalDamaged, match="Unpacked it is larger than 1000000 bytes"):
            read_archive(path, limits=Limits(in_all=10**6))
    with pytest.raises(JournalDamaged, match="more than 2 entries"):
        read_archive(path, limits=Limits(files=2))


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"flownb":"runs","format":2,"runs":[{"run_id":"r","journal":"journal.jsonl","rows":1}]}', "use a newer one"),
        (b'{"flownb":"runs","format":1,"runs":[]}', "lists no run"),
        (b'{"flownb":"runs","format":1,"runs":[{"run_id":1}]}', "Expected `str`"),
        (b'{"flownb":"runs","format":1,"runs":[{"run_id":"r","journal":"j","rows":1},{"run_id":"r","journal":"k","rows":1}]}',
         "lists a run twice"),
    ],
)  # fmt: skip
def test_an_index_that_is_none_is_refused(files: Artifacts, path: Path, index: bytes, reason: str):
    """With what is wrong with it."""
    write_archive(path, [a_run(files)], files)
    changed(path, lambda c: c | {"run.json": index})
    with pytest.raises(JournalDamaged, match=reason):
        read_archive(path)


def test_what_is_no_archive_is_told(tmp_path: Path, path: Path):
    """A missing file, something else, a zip of something else."""
    with pytest.raises(RunNotFound):
        read_archive(path)
    path.write_bytes(b"no zip")
    with pytest.raises(JournalDamaged, match="cannot be read as a run: File is not a zip file"):
        read_archive(path)
    with zipfile.ZipFile(path, "w") as zip_:
        zip_.writestr("journal.jsonl", b"")
    with pytest.raises(JournalDamaged, match=r"has no run\.json"):
        read_archive(path)
    with pytest.raises(JournalDamaged):
        read_archive(tmp_path)


def test_a_damaged_archive_is_read_or_told(files: Artifacts, path: Path, tmp_path: Path):
    """C113: any byte changed or cut off: the journal up to a good tick, or an error that says so, never another run."""
    run = a_run(files)
    write_archive(path, [run], files)
    whole, random = path.read_bytes(), Random(1)
    (digest,) = files
    for _ in range(700):
        content = bytearray(whole)
        if random.random() < 0.8:
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        else:
            del content[random.randrange(len(content)) :]
        path.write_bytes(content)
        try:
            archive = read_archive(path)
        except JournalDamaged as damaged:
            assert damaged.reason
        else:
            (read,) = archive.runs
            assert read.rows == run.rows[: len(read.rows)]
            assert read.fault or len(read.rows) == len(run.rows)
            assert archive.missing in ((), (digest,))
