"""The four containers of the state: values that share what did not change.

A run's state is kept at many ticks at once (time travel, forks, snapshots), so nothing in it may be changed in
place, and a tick may pay only for what it touches. A plain tuple or dict costs a copy of all it holds: 49 µs a tick
at 10,000 entries. `Fifo` and `Chain` are lists of cells, `Table` is a dict while small and a 32-way tree of ids
above that, and `Names` is a table of texts.

Cells nest as deep as the list is long, so `==`, `repr` and pickling are written as loops here: the automatic ones
overflow the stack at a few thousand entries. (`!=` stands here because a struct has one of its own, which would not
ask our `==`.) Containers are structs that the garbage collector does not look
through: they are made on every tick, and what they hold is held by the journal too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar, cast
from zlib import crc32

from msgspec import Struct

T = TypeVar("T")


# (value, next cell or None). A tuple, not a struct: the collector lets go of tuples whose content it need not know, and
# frees long nested ones without recursion.
_Cell = tuple[Any, Any]


class Chain(Struct, Generic[T], frozen=True, eq=False):
    """A list that grows at one end: `add` is O(1), iteration goes from the newest to the oldest."""

    cell: _Cell | None = None
    n: int = 0

    @staticmethod
    def of(values: Iterable[T]) -> Chain[T]:
        """A chain of values, given from the oldest to the newest."""
        cell: _Cell | None = None
        n = 0
        for value in values:
            cell, n = (value, cell), n + 1
        return Chain(cell, n)

    def add(self, value: T) -> Chain[T]:
        return Chain((value, self.cell), self.n + 1)

    def oldest_first(self) -> list[T]:
        found = list(self)
        found.reverse()
        return found

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[T]:
        cell = self.cell
        while cell is not None:
            yield cell[0]
            cell = cell[1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chain):
            return NotImplemented
        return self.n == other.n and all(a == b for a, b in zip(self, other, strict=True))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Chain.of({self.oldest_first()!r})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[list[T]]]:
        return _chain, (self.oldest_first(),)


class Fifo(Struct, Generic[T], frozen=True, eq=False):
    """A queue: `put` at the back, `get` and `unget` at the front, all O(1) (amortised).

    The back is kept reversed and turned round when the front runs out. Two queues are equal if they hold the same
    values in the same order, however these are split.
    """

    front: _Cell | None = None
    back: _Cell | None = None
    n: int = 0

    @staticmethod
    def of(values: Iterable[T]) -> Fifo[T]:
        """A queue of values, the first one first."""
        empty: Fifo[T] = Fifo()
        return empty.put_many(values)

    def put(self, value: T) -> Fifo[T]:
        return Fifo(self.front, (value, self.back), self.n + 1)

    def put_many(self, values: Iterable[T]) -> Fifo[T]:
        if not self.n:  # turned round at once: thousands that come together need no second set of cells
            front: _Cell | None = None
            come = list(values)
            for value in reversed(come):
                front = value, front
            return Fifo(front, None, len(come))
        back, n = self.back, self.n
        for value in values:
            back, n = (value, back), n + 1
        return Fifo(self.front, back, n)

    def unget(self, value: T) -> Fifo[T]:
        """The queue with `value` before all others."""
        return Fifo((value, self.front), self.back, self.n + 1)

    def get(self) -> tuple[T, Fifo[T]]:
        """The first value and the queue without it.

        Raises:
            IndexError: The queue is empty.
        """
        front, back = self.front, self.back
        if front is None:
            if back is None:
                raise IndexError("get from an empty Fifo")
            while back is not None:
                front, back = (back[0], front), back[1]
            front = cast(_Cell, front)
        return front[0], Fifo(front[1], back, self.n - 1)

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[T]:
        cell = self.front
        while cell is not None:
            yield cell[0]
            cell = cell[1]
        back, cell = [], self.back
        while cell is not None:
            back.append(cell[0])
            cell = cell[1]
        yield from reversed(back)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fifo):
            return NotImplemented
        return self.n == other.n and all(a == b for a, b in zip(self, other, strict=True))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Fifo.of({list(self)!r})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[list[T]]]:
        return _fifo, (list(self),)


#: Children of a node of the tree, and how many bits of an id choose one.
WIDTH = 32
BITS = 5
_MASK = WIDTH - 1
_LARGE = 64  # above this a dict's copy costs more than a path through the tree
_SMALL = 32  # below this the tree becomes a dict again; the gap keeps it from flapping
_EMPTY_NODE: tuple[Any, ...] = (None,) * WIDTH
_NOTHING: dict[int, Any] = {}


class Table(Struct, Generic[T], frozen=True, eq=False):
    """A map from our own counting ids (0 and up) to values, iterated in the order of ids."""

    #: All of it while it is small, None while the tree holds it.
    small: dict[int, T] | None = _NOTHING
    n: int = 0
    root: tuple[Any, ...] = _EMPTY_NODE
    shift: int = 0

    @staticmethod
    def of(items: Iterable[tuple[int, T]]) -> Table[T]:
        """A table of (id, value) pairs."""
        table: Table[T] = Table()
        for key, value in items:
            table = table.set(key, value)
        return table

    def get(self, key: int) -> T | None:
        if self.small is not None:
            return self.small.get(key)
        if key >> (self.shift + BITS):
            return None
        node, shift = self.root, self.shift
        while shift:
            node = node[(key >> shift) & _MASK]
            if node is None:
                return None
            shift -= BITS
        return cast("T | None", node[key & _MASK])

    def __getitem__(self, key: int) -> T:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def set(self, key: int, value: T) -> Table[T]:
        """The table with `value` (never None) under `key`."""
        small = self.small
        if small is not None:
            new = small.copy()
            new[key] = value
            size = len(new)
            return Table(new, size) if size <= _LARGE else _tree(new)
        root, shift = self.root, self.shift
        while key >> (shift + BITS):  # a larger id than the tree reaches: one more level on top
            root, shift = (root, *_EMPTY_NODE[1:]), shift + BITS
        fresh = self.get(key) is None
        return Table(None, self.n + fresh, _with(root, shift, key, value), shift)

    def drop(self, key: int) -> Table[T]:
        """The table without `key`, which must be in it."""
        small = self.small
        if small is not None:
            if len(small) == 1 and key in small:
                return _NONE
            left = small.copy()
            del left[key]
            return Table(left, len(left))
        if self.get(key) is None:
            raise KeyError(key)
        root = _with(self.root, self.shift, key, None)
        rest: Table[T] = Table(None, self.n - 1, root if root is not None else _EMPTY_NODE, self.shift)
        return rest if rest.n >= _SMALL else Table(dict(rest.items()), rest.n)

    def items(self) -> Iterator[tuple[int, T]]:
        if self.small is not None:
            yield from sorted(self.small.items())
        else:
            yield from _walk(self.root, self.shift, 0)

    def values(self) -> Iterator[T]:
        for _, value in self.items():
            yield value

    def __iter__(self) -> Iterator[int]:
        for key, _ in self.items():
            yield key

    def __contains__(self, key: int) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        return self.n

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.n == other.n and all(a == b for a, b in zip(self.items(), other.items(), strict=True))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Table.of({list(self.items())!r})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[list[tuple[int, T]]]]:
        return _table, (list(self.items()),)


#: The empty one; states share it.
_NONE: Table[Any] = Table()


class Names(Struct, Generic[T], frozen=True, eq=False):
    """A map from texts to values, iterated in the order in which the names came.

    Names stand in a table under a checksum of theirs, which is the same in every process; the few that share one
    stand together.
    """

    table: Table[tuple[tuple[str, int, T], ...]] = Table()
    n: int = 0
    #: Place of the next new name in the order.
    next: int = 0

    @staticmethod
    def of(items: Iterable[tuple[str, T]]) -> Names[T]:
        """A map of (name, value) pairs."""
        names: Names[T] = Names()
        for name, value in items:
            names = names.set(name, value)
        return names

    def get(self, name: str) -> T | None:
        for known, _, value in self.table.get(_sum(name)) or ():
            if known == name:
                return value
        return None

    def __getitem__(self, name: str) -> T:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def set(self, name: str, value: T) -> Names[T]:
        """The map with `value` (never None) under `name`; a name that is there keeps its place."""
        key = _sum(name)
        together = self.table.get(key) or ()
        for i, (known, place, _) in enumerate(together):
            if known == name:
                changed = (*together[:i], (name, place, value), *together[i + 1 :])
                return Names(self.table.set(key, changed), self.n, self.next)
        return Names(self.table.set(key, (*together, (name, self.next, value))), self.n + 1, self.next + 1)

    def drop(self, name: str) -> Names[T]:
        """The map without `name`, which must be in it."""
        key = _sum(name)
        together = self.table.get(key) or ()
        left = tuple(entry for entry in together if entry[0] != name)
        if len(left) == len(together):
            raise KeyError(name)
        return Names(self.table.set(key, left) if left else self.table.drop(key), self.n - 1, self.next)

    def items(self) -> Iterator[tuple[str, T]]:
        entries = [entry for together in self.table.values() for entry in together]
        entries.sort(key=_place)
        for name, _, value in entries:
            yield name, value

    def values(self) -> Iterator[T]:
        for _, value in self.items():
            yield value

    def __iter__(self) -> Iterator[str]:
        for name, _ in self.items():
            yield name

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __len__(self) -> int:
        return self.n

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Names):
            return NotImplemented
        return self.n == other.n and all(a == b for a, b in zip(self.items(), other.items(), strict=True))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Names.of({list(self.items())!r})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[list[tuple[str, T]]]]:
        return _names, (list(self.items()),)


def _sum(name: str) -> int:
    return crc32(name.encode("utf-8", "surrogatepass"))


def _place(entry: tuple[str, int, Any]) -> int:
    return entry[1]


# Functions of the module, since a static method of a generic class cannot be pickled.
def _chain(values: list[Any]) -> Chain[Any]:
    return Chain.of(values)


def _fifo(values: list[Any]) -> Fifo[Any]:
    return Fifo.of(values)


def _table(items: list[tuple[int, Any]]) -> Table[Any]:
    return Table.of(items)


def _names(items: list[tuple[str, Any]]) -> Names[Any]:
    return Names.of(items)


def _tree(entries: dict[int, Any]) -> Table[Any]:
    table: Table[Any] = Table(None, 0)
    for key, value in entries.items():
        table = table.set(key, value)
    return table


def _with(node: tuple[Any, ...] | None, shift: int, key: int, value: Any) -> Any:
    """The node with `key` set, None in its place where the node became empty."""
    slot = (key >> shift) & _MASK
    slots = list(node) if node is not None else [None] * WIDTH
    slots[slot] = _with(slots[slot], shift - BITS, key, value) if shift else value
    if value is None and slots.count(None) == WIDTH:
        return None
    return tuple(slots)


def _walk(node: tuple[Any, ...], shift: int, base: int) -> Iterator[tuple[int, Any]]:
    for slot, child in enumerate(node):
        if child is None:
            continue
        if shift:
            yield from _walk(child, shift - BITS, base | slot << shift)
        else:
            yield base | slot, child
