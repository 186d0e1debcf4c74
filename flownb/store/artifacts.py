"""Large values as files beside a store, named by what is in them: `ab/cdef...`, the SHA-256.

A file is written and flushed before the tick that names it, so a tick never names what is not there; a file that no
tick names is garbage, which `collect` removes. The same content is one file, however many ticks and runs name it.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from flownb.errors import WorkflowRuntimeError
from flownb.store.known import Known

_DIGEST = re.compile(r"[0-9a-f]{64}")
# With any number of backslashes: in a body that is escaped, or damaged, a name counts too. Better a file too many.
_NAMED = re.compile(rb'\\*"\$artifact\\*"\s*:\s*\\*"([0-9a-f]{64})\\*"')
_PARTS = re.compile(rb'\\*"\$parts\\*"\s*:\s*\[([^\]]*)\]')
#: A file younger than this, in seconds, may belong to a tick that is just being written.
GRACE_S = 3600.0


class ArtifactLost(LookupError):
    """A file is not there, or is not what its name says; the message is a sentence."""


class Collected(Struct, frozen=True):
    """What `Artifacts.collect` removed."""

    files: int
    size: int


class Artifacts:
    """One folder of them; for any threads and processes at once.

    Args:
        folder: It is made when the first file is written.
        trust: Whether values that have no other form are pickled, and pickles read. To read one runs what its author
            wanted to be run.
    """

    def __init__(self, folder: str | Path, *, trust: bool = False) -> None:
        self.folder = Path(folder).absolute()
        self.trust = trust
        #: Values that were written or read here, so that one that did not change is not written or read again.
        self.known = Known()

    def put(self, data: bytes) -> str:
        """Write a file, unless it is there, and give its name.

        Raises:
            WorkflowRuntimeError: The folder cannot be written.
        """
        digest = sha256(data).hexdigest()
        path = self._path(digest)
        try:
            if not self._is_there(path, len(data)):
                self._write(path, data)
        except OSError as error:
            raise WorkflowRuntimeError(
                f"A value of {len(data)} bytes cannot be written to {str(self.folder)!r}: {error}. "
                "Mend the folder (space, permission); the run goes on from its last tick."
            ) from error
        return digest

    def touch(self, digest: str) -> bool:
        """Whether a file is there; it is then safe from `collect` for a while, since a tick is about to name it."""
        try:
            os.utime(self._path(digest))
        except PermissionError:  # somebody else's file: there it is
            return True
        except OSError:
            return False
        return True

    def get(self, digest: str) -> bytes:
        """The content of a file.

        Raises:
            ArtifactLost: It is not there, or was damaged.
        """
        if not _DIGEST.fullmatch(digest):
            raise ArtifactLost(f"{digest!r} is no name of a file.")
        try:
            data = self._path(digest).read_bytes()
        except OSError as error:
            reason = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
            raise ArtifactLost(f"Its file {self._path(digest)} {reason}.") from None
        if sha256(data).hexdigest() != digest:
            raise ArtifactLost(f"Its file {self._path(digest)} is damaged: the content is not what was written.")
        return data

    def __iter__(self) -> Iterator[str]:
        """The names of all files."""
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            if _DIGEST.fullmatch(digest := path.parent.name + path.name):
                yield digest

    def collect(self, reachable: Iterable[str], *, grace_s: float = GRACE_S) -> Collected:
        """Remove what no journal names.

        Args:
            reachable: What `hashes_in` finds in the bodies of all runs of the store.
            grace_s: Younger files stay: another process may be about to write the tick that names one.
        """
        keep, before = {*reachable}, time.time() - grace_s
        files = size = 0
        for path in [*self.folder.glob("[0-9a-f][0-9a-f]/*"), *self.folder.glob("[0-9a-f][0-9a-f]/.new-*")]:
            if path.parent.name + path.name in keep:
                continue
            with suppress(OSError):  # somebody else was faster, or has it open
                told = path.stat()
                if told.st_mtime <= before:
                    path.unlink()
                    files, size = files + 1, size + told.st_size
        return Collected(files, size)

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]

    def _is_there(self, path: Path, size: int) -> bool:
        try:
            is_there = path.stat().st_size == size  # another length: a damaged one, which is written anew
        except FileNotFoundError:
            return False
        if is_there:
            with suppress(PermissionError):
                os.utime(path)
        return is_there

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.parent / f".new-{secrets.token_hex(8)}"
        try:
            with open(new, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        _flush_names(path.parent)
        _flush_names(self.folder)


def hashes_in(body: bytes) -> set[str]:
    """The names of all files that a tick's body needs, also those that other ones of its files name."""
    if b"$artifact" not in body:
        return set()
    found = {name.decode() for name in _NAMED.findall(body)}
    for names in _PARTS.findall(body):
        found.update(_DIGEST.findall(names.decode("ascii", "replace")))
    return found


def _flush_names(folder: Path) -> None:
    with suppress(OSError):  # Windows opens no folders; there a rename is as safe as it gets
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
