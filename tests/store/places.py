"""Stores by their place, as another process opens them."""

from flownb.events import newest
from flownb.store.codec import Codec
from flownb.store.journal import Journal
from flownb.store.sqlite import Mode, SqliteJournal


def open_journal(place: str, mode: Mode = "auto") -> Journal:
    """The store of a path or URL."""
    if "://" in place:
        from flownb.store.postgres import PostgresJournal

        return PostgresJournal(place, Codec(newest))
    return SqliteJournal(place, Codec(newest), mode=mode)
