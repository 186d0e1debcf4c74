"""A run as one file, to be looked at elsewhere: a zip with what the journal has, and the files that it names.

    run.json                {"flownb": "runs", "format": 1, "runs": [{"run_id": ..., "journal": "journal.jsonl", ...}]}
    journal.jsonl           a line a tick: {"seq": 1, "at": 1.5, "kind": "RunStarted", "body": {...}, "sum": "9c0a..."}
    children/1.jsonl        the same for each child
    artifacts/ab/cdef...    the files, by their names

`sum` is of this tick and all before it, so that a journal that was changed is known to be sound up to a tick. It is no
signature: who wants to forge a run can. Secrets and tokens are not in it; what was sealed is a mark. Nothing in the
file names a place to write to, and nothing of it is run.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from hashlib import blake2b, sha256
from math import isfinite
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from flownb.errors import JournalDamaged, RunNotFound, WorkflowError
from flownb.store import escapes
from flownb.store.artifacts import ArtifactLost, Artifacts, hashes_in

FORMAT = 1
#: seq, at, kind, body.
Row = tuple[int, float, str, bytes]
_JOURNAL = re.compile(r"journal\.jsonl|children/[1-9][0-9]{0,6}\.jsonl")
_FILE = re.compile(r"artifacts/([0-9a-f]{2})/([0-9a-f]{62})")
#: Moments in a zip begin here; a fixed one makes the same run the same file.
_MOMENT = (1980, 1, 1, 0, 0, 0)


class ArchivedRun(Struct, frozen=True):
    """One run: what a store lists of it, and its journal."""

    run_id: str
    rows: Sequence[Row]
    #: Whatever the store tells of it, as plain JSON: workflow, status, parent.
    about: dict[str, Any] = {}
    #: Why the journal is sound only up to its last row here; "" if it is whole.
    fault: str = ""
    #: Rows that are to be written as sound ones, from the first; None: all. Those after them were changed in the store:
    #: they are in the file to be looked at, and who reads it takes them for damaged.
    sound: int | None = None


class Archive(Struct, frozen=True):
    """What was read: the run, then its children."""

    runs: tuple[ArchivedRun, ...]
    #: Names of files that the journals need and that are not there, or are damaged.
    missing: tuple[str, ...] = ()


class Limits(Struct, frozen=True):
    """How much is read, in bytes once unpacked: a small zip may say that it is a large one."""

    in_all: int = 4 << 30
    in_one_file: int = 2 << 30
    in_one_row: int = 256 << 20
    files: int = 200_000


class _Line(Struct, forbid_unknown_fields=True):
    seq: int
    at: float
    kind: str
    sum: str
    body: msgspec.Raw = msgspec.Raw()
    #: A body that is no JSON: a damaged one, to be looked at.
    raw: str = ""


class _Index(Struct):
    flownb: str
    format: int
    runs: list[_Listed]


class _Listed(Struct):
    run_id: str
    journal: str
    rows: int
    about: dict[str, Any] = {}


def write_archive(path: str | Path, runs: Sequence[ArchivedRun], artifacts: Artifacts | None = None) -> tuple[str, ...]:
    """Write one run and its children to a file; it is there whole or not at all.

    Args:
        runs: The run, then its children, with their rows in order.
        artifacts: Where the files are that their rows name.

    Returns:
        Names of files that are missing.

    Raises:
        OSError: The file cannot be written.
    """
    path = Path(path)
    new = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as zip_:
            listed, needed = [], set()
            for n, run in enumerate(runs):
                name = f"children/{n}.jsonl" if n else "journal.jsonl"
                listed.append(_Listed(run.run_id, name, len(run.rows), run.about))
                with zip_.open(_member(name, zipfile.ZIP_DEFLATED), "w", force_zip64=True) as file:
                    needed |= _write_rows(file, run.rows, len(run.rows) if run.sound is None else run.sound)
            zip_.writestr(_member("run.json", zipfile.ZIP_DEFLATED), escapes.dump(_Index("runs", FORMAT, listed)))
            missing = _write_files(zip_, sorted(needed), artifacts)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return missing


def read_archive(path: str | Path, artifacts: Artifacts | None = None, limits: Limits | None = None) -> Archive:
    """What is in such a file. Nothing of it is run, and nothing is written but to `artifacts`.

    Args:
        artifacts: Takes the files whose content is what their name says.

    Raises:
        RunNotFound: There is no such file.
        JournalDamaged: It is no such file: something else, of a newer format, damaged in its index, larger than
            `limits`, or with entries that such a file has not.
    """
    limits = limits or Limits()
    try:
        with zipfile.ZipFile(path) as zip_:
            names = _checked_names(zip_, limits)
            return _read(zip_, names, artifacts, _Meter(limits))
    except FileNotFoundError as error:
        raise RunNotFound(f"There is no file {str(path)!r}.", run_id="") from error
    except WorkflowError:  # the folder of files cannot be written
        raise
    except Exception as error:  # whatever a zip that somebody made makes of the library that reads it
        reason = str(error) or type(error).__name__
        raise JournalDamaged(
            f"{str(path)!r} cannot be read as a run: {reason}", run_id="", seq=0, reason=reason
        ) from error


class _Refused(Exception):
    """The file has what no such file has; the message is a sentence."""


# Writing.


def _write_rows(file: IO[bytes], rows: Sequence[Row], sound: int) -> set[str]:
    needed: set[str] = set()
    chain = b""
    for n, (seq, at, kind, stored) in enumerate(rows):
        body = without_secrets(kind, stored)
        needed |= hashes_in(body)
        chain = _sum(chain, seq, at, kind, body)
        line = _Line(seq, at, kind, chain.hex() if n < sound else "")
        if _is_one_line_of_json(body):
            line.body = msgspec.Raw(body)
        else:
            line.body, line.raw = msgspec.Raw(b"null"), b64encode(body).decode("ascii")
        file.write(msgspec.json.encode(line) + b"\n")
    return needed


def _write_files(zip_: zipfile.ZipFile, names: Sequence[str], artifacts: Artifacts | None) -> tuple[str, ...]:
    missing = []
    for name in names:
        try:
            data = artifacts.get(name) if artifacts is not None else None
        except ArtifactLost:
            data = None
        if data is None:
            missing.append(name)
        else:  # they are packed as far as they can be, or small
            zip_.writestr(_member(f"artifacts/{name[:2]}/{name[2:]}", zipfile.ZIP_STORED), data)
    return tuple(missing)


def _member(name: str, how: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _MOMENT)
    member.compress_type = how
    member.external_attr = 0o600 << 16
    return member


def without_secrets(kind: str, body: bytes) -> bytes:
    """A tick's body as somebody else may have it: sealed secrets are marks, and a caller's token leaves no hash."""
    has_token = kind in ("WaitOpened", "RunForked") and b'"token' in body
    if b"$sealed" not in body and not has_token:
        return body
    try:
        tree = _unsealed(escapes.load(body))
        if has_token:
            for asked in _asked(tree):
                asked.pop("token", None)
    except Exception:  # a damaged one: nothing of it goes out
        return b'{"$removed":"a damaged body that may have held a secret"}'
    return escapes.dump(tree)


def _asked(tree: Any) -> Iterator[dict[str, Any]]:
    """The questions of a tick, which a snapshot may hold: where else a `token` stands, it is a user's field."""
    snapshot = tree.get("snapshot") or {}
    for held in (tree.get("wait"), *(pair[1] for pair in snapshot.get("requests", ()))):
        if isinstance(held, dict):
            yield held


def _unsealed(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_unsealed(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if "$sealed" in tree:
        return {"$secret": str(tree.get("type")), "text": "", "id": ""}
    return {key: _unsealed(part) for key, part in tree.items()}


def _is_one_line_of_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return False
    return b"\n" not in body and b"\r" not in body


def _sum(before: bytes, seq: int, at: float, kind: str, body: bytes) -> bytes:
    text = f"{seq} {at!r} {kind} {len(body)}\n".encode()
    return blake2b(before + text + body, digest_size=12).digest()


# Reading.


class _Meter:
    """What may still be read, whatever the file says of its own sizes."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.left = limits.in_all

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise _Refused(f"Unpacked it is larger than {self.limits.in_all} bytes.")

    def whole(self, file: IO[bytes]) -> bytes:
        parts = []
        left = self.limits.in_one_file
        while part := file.read(1 << 20):
            self.take(len(part))
            left -= len(part)
            if left < 0:
                raise _Refused(f"A file in it is larger than {self.limits.in_one_file} bytes.")
            parts.append(part)
        return b"".join(parts)


def _checked_names(zip_: zipfile.ZipFile, limits: Limits) -> set[str]:
    names: set[str] = set()
    if len(zip_.infolist()) > limits.files:
        raise _Refused(f"It has more than {limits.files} entries.")
    for member in zip_.infolist():
        name = member.filename
        if name != member.orig_filename or not (
            name == "run.json" or _JOURNAL.fullmatch(name) or _FILE.fullmatch(name)
        ):
            raise _Refused(f"It has an entry {member.orig_filename[:80]!r}, which the file of a run has not.")
        if name in names:
            raise _Refused(f"It has two entries {name!r}.")
        if member.flag_bits & 1:
            raise _Refused(f"Its entry {name!r} is encrypted.")
        names.add(name)
    if "run.json" not in names:
        raise _Refused("It has no run.json.")
    return names


def _read(zip_: zipfile.ZipFile, names: set[str], artifacts: Artifacts | None, meter: _Meter) -> Archive:
    with zip_.open("run.json") as file:
        index = msgspec.convert(escapes.load(meter.whole(file)), _Index)
    if index.flownb != "runs" or not index.runs:
        raise _Refused("Its run.json lists no run.")
    if index.format > FORMAT:
        raise _Refused(f"It is of format {index.format}, and this flownb reads up to {FORMAT}: use a newer one.")
    journals = [run.journal for run in index.runs]
    if len({*journals}) < len(journals) or len({run.run_id for run in index.runs}) < len(journals):
        raise _Refused("Its run.json lists a run twice.")
    runs, needed = [], set[str]()
    for run in index.runs:
        rows, fault = _read_rows(zip_, run.journal, meter) if run.journal in names else ([], "its journal is not there")
        if not fault and len(rows) != run.rows:
            fault = f"it had {run.rows} ticks, and {len(rows)} are there"
        for row in rows:
            needed |= hashes_in(row[3])
        runs.append(ArchivedRun(run.run_id, rows, run.about, fault))
    return Archive(tuple(runs), _read_files(zip_, names, needed, artifacts, meter))


def _read_rows(zip_: zipfile.ZipFile, name: str, meter: _Meter) -> tuple[list[Row], str]:
    """Rows up to the first that is not as it was written, and what is wrong with that."""
    rows: list[Row] = []
    chain = b""
    decoder = msgspec.json.Decoder(_Line)
    try:
        for text in _lines(zip_, name, meter):
            line = decoder.decode(text)
            body = b64decode(line.raw, validate=True) if line.raw else bytes(line.body)
            chain = _sum(chain, line.seq, line.at, line.kind, body)
            if line.seq != len(rows) + 1 or not isfinite(line.at) or chain.hex() != line.sum:
                return rows, f"tick {len(rows) + 1} is not as it was written"
            rows.append((line.seq, line.at, line.kind, body))
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RecursionError) as error:
        return rows, f"tick {len(rows) + 1} cannot be read: {error or type(error).__name__}"
    return rows, ""


def _lines(zip_: zipfile.ZipFile, name: str, meter: _Meter) -> Iterator[bytes]:
    limit = meter.limits.in_one_row
    with zip_.open(name) as file:
        while line := file.readline(limit + 1):
            meter.take(len(line))
            if len(line) > limit:
                raise _Refused(f"A row in it is larger than {limit} bytes.")
            yield line


def _read_files(
    zip_: zipfile.ZipFile, names: set[str], needed: set[str], artifacts: Artifacts | None, meter: _Meter
) -> tuple[str, ...]:
    """Files to the folder that takes them; gives the names of those that are missing."""
    missing = []
    for name in sorted(needed):
        data = _read_file(zip_, names, f"artifacts/{name[:2]}/{name[2:]}", meter)
        if data is None or sha256(data).hexdigest() != name:
            missing.append(name)
        elif artifacts is not None:
            artifacts.put(data)
    return tuple(missing)


def _read_file(zip_: zipfile.ZipFile, names: set[str], name: str, meter: _Meter) -> bytes | None:
    if name not in names:
        return None
    try:
        with zip_.open(name) as file:
            return meter.whole(file)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError):
        return None
