"""Which store a command is about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flownb.cli.words import clean
from flownb.errors import WorkflowConfigurationError, WorkflowError
from flownb.runs import Store
from flownb.store.sqlite import SqliteJournal

#: How long a command waits for a process that writes, in seconds.
PATIENCE_S = 5.0
VARIABLE = "FLOWNB_STORE"


class NoStore(WorkflowError):
    """There is no store where one was looked for; says where, and how to name another."""


def default_place() -> Path:
    """Where the runs of a notebook of this folder are."""
    return Path.cwd() / ".flownb" / "runs.db"


def place_of(given: str | None) -> tuple[str, bool]:
    """The place of the store, and whether somebody named it."""
    named = given or os.environ.get(VARIABLE)
    return (named, True) if named else (str(default_place()), False)


def check(given: str | None) -> str:
    """The place of a store that is there: to look at one makes none.

    Raises:
        NoStore: It is not there, or in memory.
    """
    place, is_named = place_of(given)
    if place == ":memory:":
        raise NoStore("A store in memory is gone with its process. Name a file or a database: --store runs.db.")
    if "://" in place or Path(place).is_file():
        return place
    if is_named:
        origin = "" if given else f" ({VARIABLE})"
        raise NoStore(f"There is no store {clean(place)!r}{origin}.")
    raise NoStore(
        f"There is no store in this folder (.flownb/runs.db, where notebooks keep their runs). Name one: --store "
        f"runs.db, --store postgresql://..., or the variable {VARIABLE}."
    )


@contextmanager
def opened(given: str | None, *, makes: bool = False) -> Iterator[Store]:
    """The store, closed at the end.

    Args:
        given: As it was named in the command.
        makes: A file that is not there is made.

    Raises:
        NoStore: It is not there.
        WorkflowConfigurationError: It cannot be used.
    """
    place = place_of(given)[0] if makes and place_of(given)[0] != ":memory:" else check(given)
    is_default = "://" not in place and Path(place).resolve() == default_place().resolve()
    if is_default:
        place = str(default_place())
    elif "://" not in place and Path(place).is_dir():
        raise WorkflowConfigurationError(f"{clean(place)!r} is a folder: name the file in it.")
    store = Store(place, unserializable="live" if is_default else "error")
    if isinstance(store.journal, SqliteJournal):
        store.journal.set_patience(PATIENCE_S)
    try:
        yield store
    finally:
        store.close()


def store_words(given: str | None, store: Store) -> list[str]:
    """What a command that is told to people says of the store: only what they said themselves, and no password."""
    if not given:
        return []
    return ["--store", store.place if "://" in given else given]
