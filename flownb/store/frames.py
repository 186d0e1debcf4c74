"""Frames and series as Parquet, exactly, or not at all.

Parquet has other types than pandas has. What it does not hold is put beside it, in the tick: labels that are no plain
names, object columns (text as text, anything else as notation), categories, the frequency of an index. What comes out
is compared with what went in before it counts: that is a tenth of the work, and a frame that came back changed would
be noticed by nobody.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from flownb.store import escapes

Convert = Callable[[Any], Any]
#: Older ones run what a file wants to be run (CVE-2023-47248).
PYARROW = 15
NEEDED = "needs pyarrow to be written: pip install 'flownb[parquet]'"


class NotExact(TypeError):
    """A value would not come back as it is; the message says why, as an end of "it ..."."""


def write(value: Any, lower: Convert, lift: Convert) -> tuple[bytes, dict[str, Any]]:
    """A frame or a series as a Parquet file, and what is to be kept beside it.

    Args:
        lower: Any value to notation.
        lift: And back.

    Raises:
        NotExact: It would not come back as it is, or pyarrow is not installed.
    """
    import pandas as pd

    arrow, parquet = _pyarrow()
    beside: dict[str, Any] = {}
    frame = value
    if isinstance(value, pd.Series):
        frame = value.to_frame("value")
        beside["series"] = lower(value.name)
    bare = frame.copy(deep=False)
    bare.attrs = {}
    if value.attrs:
        beside["attrs"] = lower(dict(value.attrs))
    if not _are_names(frame.columns, pd):
        beside["labels"] = _labels(frame.columns, lower)
        bare.columns = [str(i) for i in range(bare.shape[1])]
    for i, kind in enumerate(frame.dtypes):
        if kind.kind == "O" and not isinstance(kind, pd.api.extensions.ExtensionDtype):
            bare.isetitem(i, _texts(frame.iloc[:, i], i, beside, lower, pd))
        elif isinstance(kind, pd.CategoricalDtype) and not _are_names(kind.categories, pd):
            beside.setdefault("categories", {})[str(i)] = [_labels(kind.categories, lower), kind.ordered]
            bare.isetitem(i, frame.iloc[:, i].cat.codes)
    if getattr(frame.index, "freqstr", None):
        beside["freq"] = frame.index.freqstr
    if frame.index.dtype == object and frame.index.nlevels == 1:
        beside["index"] = "object"
    try:
        table = arrow.Table.from_pandas(bare)
        plain = [field.name for field in table.schema if not arrow.types.is_floating(field.type)]
        sink = io.BytesIO()
        parquet.write_table(table, sink, use_dictionary=plain)  # a dictionary of floats costs ten times the time
        data = sink.getvalue()
        found = parquet.read_table(arrow.BufferReader(data)).to_pandas().dtypes
        for i, (kind, other) in enumerate(zip(bare.dtypes, found, strict=True)):
            if _spelled(kind, pd) != _spelled(other, pd):
                beside.setdefault("types", {}).setdefault(str(i), _spelled(kind, pd))
        _compare(value, read(data, beside, lift), pd)
    except Exception as error:  # pyarrow, pandas and what is in the frame may refuse in any way
        raise NotExact(f"is a {type(value).__name__} that Parquet cannot hold exactly: {_one_line(error)}") from error
    return data, beside


def read(data: bytes, beside: dict[str, Any], lift: Convert) -> Any:
    """What `write` wrote.

    Raises:
        ImportError: pandas or pyarrow is not installed.
        Exception: The file is damaged: whatever they raise.
    """
    import pandas as pd

    arrow, parquet = _pyarrow()
    frame = parquet.read_table(arrow.BufferReader(data)).to_pandas()
    for i, kind in beside.get("types", {}).items():
        frame.isetitem(int(i), frame.iloc[:, int(i)].astype(kind))
    for i in beside.get("notation", ()):
        values = [lift(escapes.load(text.encode())) for text in frame.iloc[:, i]]
        frame.isetitem(i, _objects(values, frame.index, pd))
    for i, (labels, is_ordered) in beside.get("categories", {}).items():
        codes = frame.iloc[:, int(i)].to_numpy()
        kind = pd.CategoricalDtype(_index(labels, lift, pd), is_ordered)
        frame.isetitem(int(i), pd.Series(pd.Categorical.from_codes(codes, dtype=kind), frame.index))
    if "index" in beside:
        frame.index = frame.index.astype(beside["index"])
    if "freq" in beside:
        frame.index.freq = beside["freq"]
    if "labels" in beside:
        frame.columns = _index(beside["labels"], lift, pd)
    value = frame
    if "series" in beside:
        value = frame.iloc[:, 0]
        value.name = lift(beside["series"])
    value.attrs = lift(beside["attrs"]) if "attrs" in beside else {}
    return value


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise NotExact(NEEDED) from error
    if int(pyarrow.__version__.split(".")[0]) < PYARROW:
        raise NotExact(f"{NEEDED} (pyarrow {PYARROW} or newer; here is {pyarrow.__version__})")
    return pyarrow, parquet


def _are_names(index: Any, pd: Any) -> bool:
    """Whether labels are different texts, as Parquet wants them."""
    return type(index) is pd.Index and index.is_unique and len(index) > 0 and {*map(type, index)} == {str}


def _texts(column: Any, i: int, beside: dict[str, Any], lower: Convert, pd: Any) -> Any:
    """An object column as texts."""
    beside.setdefault("types", {})[str(i)] = "object"
    values = list(column)
    if {*map(type, values)} <= {str} and _is_utf8("".join(values)):
        return pd.Series(values, column.index, dtype="str")
    beside.setdefault("notation", []).append(i)
    return pd.Series([escapes.dump(lower(value)).decode() for value in values], column.index, dtype="str")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return False
    return True


def _objects(values: list[Any], index: Any, pd: Any) -> Any:
    import numpy as np

    # One by one: numpy would take a list of equal lists for a table.
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return pd.Series(array, index, dtype=object)


def _labels(index: Any, lower: Convert) -> dict[str, Any]:
    written: dict[str, Any] = {"names": lower(list(index.names))}
    if hasattr(index, "step") and hasattr(index, "start"):
        return written | {"range": [index.start, index.stop, index.step]}
    if index.nlevels > 1:
        return written | {"tuples": lower(list(index))}
    if getattr(index, "freqstr", None):
        written["freq"] = index.freqstr
    return written | {"values": lower(list(index)), "type": str(index.dtype)}


def _index(written: dict[str, Any], lift: Convert, pd: Any) -> Any:
    names = lift(written["names"])
    if "range" in written:
        return pd.RangeIndex(*written["range"], name=names[0])
    if "tuples" in written:
        return pd.MultiIndex.from_tuples(lift(written["tuples"]), names=names)
    index = pd.Index(lift(written["values"]), dtype=written["type"], name=names[0])
    if "freq" in written:
        index.freq = written["freq"]
    return index


def _spelled(kind: Any, pd: Any) -> str:
    if isinstance(kind, pd.StringDtype):
        return f"string[{kind.storage}]" if kind.na_value is pd.NA else "str"
    return str(kind)


def _compare(value: Any, again: Any, pd: Any) -> None:
    is_series = isinstance(value, pd.Series)
    same = pd.testing.assert_series_equal if is_series else pd.testing.assert_frame_equal
    more = {} if is_series else {"check_column_type": "exact"}
    same(value, again, check_exact=True, check_freq=True, check_index_type="exact", check_flags=True, **more)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"
