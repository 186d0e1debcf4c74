"""Which values of other libraries are files, and how. A library is looked for among the loaded ones.

DataFrame, Series -> Parquet     ndarray -> npy     matplotlib's Figure -> PNG, which comes back as a `Picture`
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from msgspec import Struct

from flownb.store import frames, previews
from flownb.store.frames import Convert, NotExact


class Format(Struct, frozen=True):
    """How a class of values is written.

    `write(value, lower, lift)` gives bytes and what stands beside them in the tick; it raises `NotExact`, or what
    `lower` raises. `lower` is any value to notation, `lift` back.
    """

    codec: str
    write: Callable[[Any, Convert, Convert], tuple[bytes, dict[str, Any]]]
    preview: Callable[[Any], dict[str, Any]]


class Picture:
    """A figure as it was drawn: what is read of one in another process. Jupyter shows it.

    Attributes:
        data: The PNG file.
    """

    __slots__ = ("__weakref__", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data

    def _repr_png_(self) -> bytes:
        return self.data

    def __repr__(self) -> str:
        return f"<picture of {len(self.data)} bytes>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"Of the figure only its picture was stored, which has no {name!r}: its `data` is a PNG file. Draw the "
            "figure again, or keep in the event what it is drawn from."
        )


def format_of(kind: type) -> Format | None:
    """How instances of exactly this class are written, None if by no file; a figure's subclasses are figures."""
    if kind is Picture:
        return _PICTURE
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if numpy is not None and kind is getattr(numpy, "ndarray", None):
        return _ARRAY
    if pandas is not None and kind is getattr(pandas, "DataFrame", None):
        return _FRAME
    if pandas is not None and kind is getattr(pandas, "Series", None):
        return _SERIES
    figures = sys.modules.get("matplotlib.figure")
    if figures is not None and issubclass(kind, getattr(figures, "Figure", ())):
        return _FIGURE
    return None


def read(codec: str, data: bytes, beside: dict[str, Any], lift: Convert) -> Any:
    """The value of a file.

    Raises:
        KeyError: There is no such codec.
        ImportError, NotExact: A library is not installed.
        Exception: The file is damaged: whatever the library raises.
    """
    return _READERS[codec](data, beside, lift)


def _write_array(array: Any, lower: Convert, lift: Convert) -> tuple[bytes, dict[str, Any]]:
    import numpy as np

    if array.dtype.hasobject:
        raise NotExact("is an array of Python objects, which only a pickle could hold")
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    data = file.getvalue()
    again = _read_array(data, {}, lift)
    if again.dtype != array.dtype or again.shape != array.shape:
        raise NotExact(f"is an array of type {array.dtype}, which comes back as {again.dtype}")
    return data, {}


def _read_array(data: bytes, beside: dict[str, Any], lift: Convert) -> Any:
    import numpy as np

    return np.load(io.BytesIO(data), allow_pickle=False)


def _draw(figure: Any, lower: Convert, lift: Convert) -> tuple[bytes, dict[str, Any]]:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue(), {}


_ARRAY = Format("npy", _write_array, previews.of_array)
_FRAME = Format("parquet", frames.write, previews.of_frame)
_SERIES = Format("parquet", frames.write, lambda series: previews.of_frame(series.to_frame()))
_FIGURE = Format("png", _draw, previews.of_figure)
_PICTURE = Format("png", lambda picture, lower, lift: (picture.data, {}), previews.of_any)
_READERS: dict[str, Callable[[bytes, dict[str, Any], Convert], Any]] = {
    "npy": _read_array,
    "parquet": frames.read,
    "png": lambda data, beside, lift: Picture(data),
}
