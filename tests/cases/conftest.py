"""Stores that are closed at the end, and other processes."""

from tests.stored.conftest import open_store, other, place

__all__ = ["open_store", "other", "place"]
