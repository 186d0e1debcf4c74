"""The three containers of the state: values that share what did not change.

A run's state is kept at many ticks at once (time travel, forks, snapshots), so nothing in it may be changed in
place, and a tick may pay only for what it touches. A plain tuple or dict costs a copy of all it holds: 49 µs a tick
at 10,000 entries. `Fifo` and `Chain` are lists of cells, `Table` is a dict while small and a 16-way tree of ids
above that. Cells nest as deep as the list is long, so `==`, `repr` and pickling are written as loops here: the
automatic ones overflow the stack at a few thousand entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

_Cell = tuple[Any, Any]  # (value, next cell or None)


class Chain(Generic[T]):
    """A list that grows at one end: `add` is O(1), iteration goes from the newest to the oldest."""

    __slots__ = ("_cell", "_n")

    def __init__(self, values: Iterable[T] = ()) -> None:
        cell: _Cell | None = None
        n = 0
        for value in values:
            cell, n = (value, cell), n + 1
        self._cell, self._n = cell, n

    def add(self, value: T) -> Chain[T]:
        new: Chain[T] = Chain.__new__(Chain)
        new._cell, new._n = (value, self._cell), self._n + 1
        return new

    def oldest_first(self) -> list[T]:
        found = list(self)
        found.reverse()
        return found

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[T]:
        cell = self._cell
        while cell is not None:
            yield cell[0]
            cell = cell[1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chain):
            return NotImplemented
        return self._n == other._n and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Chain({self.oldest_first()!r})"

    def __reduce__(self) -> tuple[type[Chain[T]], tuple[list[T]]]:
        return Chain, (self.oldest_first(),)


class Fifo(Generic[T]):
    """A queue: `put` at the back, `get` and `unget` at the front, all O(1) (amortised).

    The back is kept reversed and turned round when the front runs out. Two queues are equal if they hold the same
    values in the same order, however these are split.
    """

    __slots__ = ("_back", "_front", "_n")

    def __init__(self, values: Iterable[T] = ()) -> None:
        self._front: _Cell | None = None
        self._back: _Cell | None = None
        self._n = 0
        back: _Cell | None = None
        n = 0
        for value in values:
            back, n = (value, back), n + 1
        self._back, self._n = back, n

    @staticmethod
    def _of(front: _Cell | None, back: _Cell | None, n: int) -> Fifo[Any]:
        new: Fifo[Any] = Fifo.__new__(Fifo)
        new._front, new._back, new._n = front, back, n
        return new

    def put(self, value: T) -> Fifo[T]:
        return self._of(self._front, (value, self._back), self._n + 1)

    def put_many(self, values: Iterable[T]) -> Fifo[T]:
        back, n = self._back, self._n
        for value in values:
            back, n = (value, back), n + 1
        return self._of(self._front, back, n)

    def unget(self, value: T) -> Fifo[T]:
        """The queue with `value` before all others."""
        return self._of((value, self._front), self._back, self._n + 1)

    def get(self) -> tuple[T, Fifo[T]]:
        """The first value and the queue without it.

        Raises:
            IndexError: The queue is empty.
        """
        front, back = self._front, self._back
        if front is None:
            if back is None:
                raise IndexError("get from an empty Fifo")
            while back is not None:
                front, back = (back[0], front), back[1]
            front = cast(_Cell, front)
        return front[0], self._of(front[1], back, self._n - 1)

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[T]:
        cell = self._front
        while cell is not None:
            yield cell[0]
            cell = cell[1]
        back, cell = [], self._back
        while cell is not None:
            back.append(cell[0])
            cell = cell[1]
        yield from reversed(back)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fifo):
            return NotImplemented
        return self._n == other._n and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Fifo({list(self)!r})"

    def __reduce__(self) -> tuple[type[Fifo[T]], tuple[list[T]]]:
        return Fifo, (list(self),)


_WIDTH = 16
_BITS = 4
_LARGE = 64  # above this a dict's copy costs more than a path through the tree
_SMALL = 32  # below this the tree becomes a dict again; the gap keeps it from flapping
_EMPTY_NODE: tuple[Any, ...] = (None,) * _WIDTH


class Table(Generic[T]):
    """A map from our own counting ids (0 and up) to values, iterated in the order of ids."""

    __slots__ = ("_n", "_root", "_shift", "_small")

    def __init__(self, items: Iterable[tuple[int, T]] = ()) -> None:
        self._small: dict[int, T] | None = {}
        self._root: tuple[Any, ...] = _EMPTY_NODE
        self._shift = 0
        self._n = 0
        built: Table[T] = self
        for key, value in items:
            built = built.set(key, value)
        if built is not self:
            self._small, self._root, self._shift, self._n = built._small, built._root, built._shift, built._n

    @staticmethod
    def _of(small: dict[int, Any] | None, root: tuple[Any, ...], shift: int, n: int) -> Table[Any]:
        new: Table[Any] = Table.__new__(Table)
        new._small, new._root, new._shift, new._n = small, root, shift, n
        return new

    def get(self, key: int) -> T | None:
        if self._small is not None:
            return self._small.get(key)
        if key >> (self._shift + _BITS):
            return None
        node, shift = self._root, self._shift
        while shift:
            node = node[(key >> shift) & 15]
            if node is None:
                return None
            shift -= _BITS
        return cast("T | None", node[key & 15])

    def __getitem__(self, key: int) -> T:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def set(self, key: int, value: T) -> Table[T]:
        """The table with `value` (never None) under `key`."""
        small = self._small
        if small is not None:
            new = {**small, key: value}
            if len(new) <= _LARGE:
                return self._of(new, _EMPTY_NODE, 0, len(new))
            return _tree(new)
        root, shift = self._root, self._shift
        while key >> (shift + _BITS):  # a larger id than the tree reaches: one more level on top
            root, shift = (root, *_EMPTY_NODE[1:]), shift + _BITS
        fresh = self.get(key) is None
        return self._of(None, _with(root, shift, key, value), shift, self._n + fresh)

    def drop(self, key: int) -> Table[T]:
        """The table without `key`, which must be in it."""
        small = self._small
        if small is not None:
            left = small.copy()
            del left[key]
            return self._of(left, _EMPTY_NODE, 0, len(left))
        if self.get(key) is None:
            raise KeyError(key)
        root = _with(self._root, self._shift, key, None)
        rest = self._of(None, root if root is not None else _EMPTY_NODE, self._shift, self._n - 1)
        return rest if rest._n >= _SMALL else self._of(dict(rest.items()), _EMPTY_NODE, 0, rest._n)

    def items(self) -> Iterator[tuple[int, T]]:
        if self._small is not None:
            yield from sorted(self._small.items())
        else:
            yield from _walk(self._root, self._shift, 0)

    def values(self) -> Iterator[T]:
        for _, value in self.items():
            yield value

    def __iter__(self) -> Iterator[int]:
        for key, _ in self.items():
            yield key

    def __contains__(self, key: int) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        return self._n

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self._n == other._n and all(a == b for a, b in zip(self.items(), other.items(), strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Table({dict(self.items())!r})"

    def __reduce__(self) -> tuple[type[Table[T]], tuple[list[tuple[int, T]]]]:
        return Table, (list(self.items()),)


def _tree(entries: dict[int, Any]) -> Table[Any]:
    table = Table._of(None, _EMPTY_NODE, 0, 0)
    for key, value in entries.items():
        table = table.set(key, value)
    return table


def _with(node: tuple[Any, ...] | None, shift: int, key: int, value: Any) -> Any:
    """The node with `key` set, None in its place where the node became empty."""
    slot = (key >> shift) & 15
    slots = list(node) if node is not None else [None] * _WIDTH
    slots[slot] = _with(slots[slot], shift - _BITS, key, value) if shift else value
    if value is None and slots.count(None) == _WIDTH:
        return None
    return tuple(slots)


def _walk(node: tuple[Any, ...], shift: int, base: int) -> Iterator[tuple[int, Any]]:
    for slot, child in enumerate(node):
        if child is None:
            continue
        if shift:
            yield from _walk(child, shift - _BITS, base | slot << shift)
        else:
            yield base | slot, child
