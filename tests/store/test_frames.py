"""Frames, series, arrays and figures as files, exactly or not at all (R6.8, R6.9, R6.13)."""

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from numpy.testing import assert_array_equal

from flownb.core import ticks
from flownb.errors import LiveValueLost, NotStorable
from flownb.events import newest
from flownb.store import frames
from flownb.store.artifacts import Artifacts
from flownb.store.codec import Codec
from flownb.store.formats import Picture
from flownb.store.marks import Lost
from tests.store.samples import Anything, Opaque, exact, out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs.artifacts"


def codec_of(folder: Path, unserializable: Any = "error", **more: Any) -> Codec:
    """One of another process each time: nothing is remembered."""
    return Codec(newest, unserializable, artifacts=Artifacts(folder), **more)


def elsewhere(folder: Path, value: Any) -> Any:
    """The value as another process reads it."""
    kind, body = codec_of(folder).encode(ticks.StreamWritten(1.0, "s", 1, 1, out(Anything(value=value))))
    tick: Any = codec_of(folder).decode(1, 1.0, kind, body)
    return tick.out.value.value


def objects(*values: Any) -> pd.DataFrame:
    frame = pd.DataFrame(index=range(len(values)))
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    frame["o"] = pd.Series(column, dtype=object)
    return frame


DAYS = pd.date_range("2026-10-24", periods=3, freq="D", tz="Europe/Berlin", name="day")
LEVELS = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)], names=["k", None])
FRAMES = {
    "plain": pd.DataFrame({"a": [1, 2, 3], "b": [0.1, np.nan, -0.0], "c": [True, False, True], "s": ["x", None, "z"]}),
    "text as objects": objects("x", "y", ""),
    "text and None": objects("x", None, "z"),
    "text and nan": objects("x", np.nan, "z"),
    "numbers as objects": objects(1, 2, 2**70),
    "anything": objects(1, "a", 2.5, None, True, (1, 2), {"k": {3}}, b"\0"),
    "lists": objects([1], [], [[2]]),
    "lists of equal length": objects([1, 2], [3, 4]),
    "dates": objects(dt.date(2026, 1, 1), None, dt.date(1, 1, 1)),
    "decimals": objects(Decimal("1.0"), Decimal("2.00"), Decimal("NaN")),
    "moments as objects": objects(pd.Timestamp(5), pd.NaT, pd.NA, pd.Timedelta(7)),
    "surrogates": objects("\ud83d", "\ud83d\ude00", "😀"),
    "columns by number": pd.DataFrame(np.eye(3)),
    "columns of all kinds": pd.DataFrame([[1, 2, 3]], columns=["a", 1, ("b", 2)]),
    "columns in levels": pd.DataFrame([[1, 2]], columns=LEVELS),
    "columns with one name": pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "named columns": pd.DataFrame({"a": [1]}).rename_axis(columns="cn"),
    "columns of days": pd.DataFrame([[1, 2, 3]], columns=DAYS),
    "index in levels": pd.DataFrame({"v": [1, 2]}, index=LEVELS),
    "index of days": pd.DataFrame({"v": [1, 2, 3]}, index=DAYS),
    "index from 5": pd.DataFrame({"v": [1, 2, 3]}, index=pd.RangeIndex(5, 8, name="r")),
    "index of text as objects": pd.DataFrame({"v": [1, 2]}, index=pd.Index(["a", "b"], dtype=object)),
    "categories": pd.DataFrame({"c": pd.Categorical(["a", "b", None], categories=["b", "a", "z"], ordered=True)}),
    "categories of numbers": pd.DataFrame({"c": pd.Categorical([3, 1, 3], categories=[3, 1, 2])}),
    "categories of days": pd.DataFrame({"c": pd.Categorical(DAYS.tz_localize(None))}),
    "masked": pd.DataFrame({
        "i": pd.array([1, None, 3], dtype="Int64"),
        "b": pd.array([True, None, False], dtype="boolean"),
        "f": pd.array([1.5, None, 2], dtype="Float32"),
    }),
    "strings": pd.DataFrame({
        "s": pd.array(["a", None, "b"], dtype="string"),
        "p": pd.array(["a", None, "b"], dtype="string[python]"),
    }),
    "arrow": pd.DataFrame({"c": pd.array([1, None, 3], dtype="int64[pyarrow]")}),
    "times": pd.DataFrame({
        "td": pd.to_timedelta([1, 2, None], unit="s"),
        "ns": pd.to_datetime([1, 2, None], unit="ns"),
        "s": np.array([1, 2, 3], "M8[s]"),
        "tz": DAYS,
        "utc": DAYS.tz_convert("UTC"),
        "period": pd.period_range("2026", periods=3, freq="M"),
        "interval": pd.interval_range(0, 3),
    }),
    "sizes": pd.DataFrame({k: np.array([1, 2, 3], k) for k in ("f2", "f4", "i1", "u8", "i2")}),
    "nothing": pd.DataFrame(),
    "no rows": pd.DataFrame({"a": pd.Series([], dtype="int32"), "o": pd.Series([], dtype=object)}),
    "no columns": pd.DataFrame(index=[1, 2]),
}  # fmt: skip
NOTED = pd.DataFrame({"a": [1]})
NOTED.attrs["source"] = ("lab", {1: 2})
FRAMES["attributes"] = NOTED


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_comes_back_as_it_is(folder: Path, name: str):
    """R6.9: types, index, columns, categories, zones, what is missing: nothing is another thing afterwards."""
    frame = FRAMES[name]
    found = elsewhere(folder, frame)

    pd.testing.assert_frame_equal(
        frame, found, check_exact=True, check_freq=True, check_column_type="exact", check_index_type="exact"
    )
    assert exact(found.attrs) == exact(frame.attrs)
    for i, kind in enumerate(frame.dtypes):
        if str(kind) == "object":  # equal is not enough: 1 == True == Decimal("1.0")
            assert exact(list(found.iloc[:, i])) == exact(list(frame.iloc[:, i]))


@pytest.mark.parametrize("name", [None, "s", 3, ("a", 1)])
def test_a_series_comes_back_with_its_name(folder: Path, name: Any):
    """R6.9."""
    series = pd.Series([1.5, None], index=["x", "y"], name=name)
    series.attrs["unit"] = "kg"
    found = elsewhere(folder, series)

    pd.testing.assert_series_equal(series, found, check_exact=True, check_index_type="exact")
    assert (exact(found.name), found.attrs) == (exact(name), {"unit": "kg"})


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (pd.DataFrame({"c": [1j, 2]}), "complex128"),
        (pd.DataFrame({"c": pd.arrays.SparseArray([0, 1])}), "Sparse"),
        (pd.DataFrame({"v": [1, 2]}, index=pd.Index(["a", 1.5], dtype=object)), "Parquet cannot hold exactly"),
        (objects(Opaque()), "which has no codec"),
    ],
)
def test_what_parquet_cannot_hold_is_refused_not_changed(folder: Path, frame: pd.DataFrame, why: str):
    """R6.12, R6.13: with event, field and reason; where values may be live, it is kept and marked with the reason."""
    with pytest.raises(NotStorable, match=why) as refused:
        codec_of(folder).check(out(Anything(value=[frame])))
    assert (refused.value.field, refused.value.type) == ("value[0]", "pandas:DataFrame")

    live = codec_of(folder, "live")
    if "Opaque" not in why and "no codec" not in why:
        kind, body = live.encode(ticks.EventArrived(1.0, out(Anything(value=frame))))
        tick: Any = live.decode(1, 1.0, kind, body)
        assert tick.out.value.value is frame
        lost: Any = codec_of(folder).decode(1, 1.0, kind, body)
        with pytest.raises(LiveValueLost, match=why):
            lost.out.value.value.shape


def test_a_frame_without_pyarrow_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """R6.12: and one that was written elsewhere stays viewable, and is written again as it was."""
    frame = pd.DataFrame({"a": range(9)})
    tick = ticks.EventArrived(1.0, out(Anything(value=frame)))
    row = codec_of(folder).encode(tick)

    monkeypatch.setattr(frames, "PYARROW", 10**6)
    with pytest.raises(NotStorable, match=r"flownb\[parquet\]"):
        codec_of(folder).encode(tick)
    reader = codec_of(folder)
    read: Any = reader.decode(1, 1.0, *row)
    assert isinstance(read.out.value.value, Lost)
    with pytest.raises(LiveValueLost, match=r"flownb\[parquet\]"):
        len(read.out.value.value)
    assert reader.encode(read) == row


def test_a_frame_is_as_it_was_when_it_was_sent(folder: Path):
    """R2.5, R2.6: changed in place afterwards, against R2.4, the journal still has what was sent, each time."""
    codec = codec_of(folder)
    frame = pd.DataFrame({"a": np.arange(20_000.0), "s": ["x"] * 20_000})
    array = np.arange(300_000)
    rows, sent = [], []
    for change in (lambda: None, lambda: frame.loc.__setitem__((7, "a"), -1.0), array.sort, array[::-1].sort):
        change()
        rows.append(codec.encode(ticks.StreamWritten(1.0, "s", 1, 1, out(Anything(value=[frame, array])))))
        sent.append((frame.copy(), array.copy()))

    for row, (as_frame, as_array) in zip(rows, sent, strict=True):
        for reader in (codec, codec_of(folder)):
            tick: Any = reader.decode(1, 1.0, *row)
            found = tick.out.value.value
            pd.testing.assert_frame_equal(found[0], as_frame, check_exact=True)
            assert_array_equal(found[1], as_array)
    assert rows[1] == rows[2] != rows[0]


def test_one_object_that_is_sent_often_is_written_once(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """It costs a look at its memory; in this process the journal gives the object itself."""
    codec = codec_of(folder)
    frame = pd.DataFrame({"a": np.arange(20_000.0)})
    tick = ticks.StreamWritten(1.0, "s", 1, 1, out(Anything(value=frame)))
    row = codec.encode(tick)
    monkeypatch.setattr(frames, "PYARROW", 10**6)  # to write a frame now would fail

    assert all(codec.encode(tick) == row for _ in range(100))
    again: Any = codec.decode(1, 1.0, *row)
    assert again.out.value.value is frame
    (digest,) = codec._writer.artifacts  # type: ignore[union-attr]
    codec._writer.artifacts._path(digest).unlink()  # type: ignore[union-attr]
    with pytest.raises(NotStorable, match="pyarrow"):  # somebody removed it: it would be written again
        codec.encode(tick)


def test_what_is_read_twice_is_one_object_that_nobody_keeps(folder: Path):
    """A journal of a thousand ticks with one frame has one frame in memory."""
    frame = pd.DataFrame({"a": np.arange(20_000.0)})
    row = codec_of(folder).encode(ticks.StreamWritten(1.0, "s", 1, 1, out(Anything(value=frame))))
    reader = codec_of(folder)
    first: Any = reader.decode(1, 1.0, *row)
    second: Any = reader.decode(2, 1.0, *row)

    assert first.out.value.value is second.out.value.value
    first.out.value.value.loc[0, "a"] = 5.0
    third: Any = reader.decode(3, 1.0, *row)
    assert third.out.value.value.loc[0, "a"] == 0.0
    del first, second, third
    assert len(reader._writer.artifacts.known._values) == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5),
        np.arange(5000, dtype="f4").reshape(10, 500).T,
        np.array(3.5),
        np.array([], dtype="u1"),
        np.array(["a", "bc"]),
        np.array([b"a", b"bc"]),
        np.array(["2026-01-01", "NaT"], dtype="M8[D]"),
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("ü", ">f8")]),
        np.array([np.nan, -0.0, np.inf, 1e-320]),
        np.zeros((3, 0, 2), dtype=complex),
        np.ones(3, dtype="f2")[::2],
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_an_array_comes_back_as_it_is(folder: Path, array: Any):
    """R6.9: type, shape, order of memory, every bit."""
    found = elsewhere(folder, [array])[0]

    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert type(found) is np.ndarray


@given(st.binary(min_size=1, max_size=400_000), st.data())
def test_any_change_of_memory_is_another_fingerprint(content: bytes, data: Any):
    """A byte, a swap of two places, a sort."""
    from flownb.store.known import fingerprint

    array = np.frombuffer(bytearray(content), np.uint8)
    before = fingerprint(array)
    assert before == fingerprint(array.copy())
    i, j = (data.draw(st.integers(0, len(content) - 1)) for _ in range(2))
    array[i], array[j] = array[j], array[i]
    assert (fingerprint(array) == before) == (array.tobytes() == content)
    array[i] ^= 1
    assert (fingerprint(array) == before) == (array.tobytes() == content)


@pytest.mark.parametrize(
    "array", [np.array([1, "a"], dtype=object), np.ma.masked_array([1, 2], [0, 1]), np.array([(1, None)], dtype="i4,O")]
)
def test_an_array_that_npy_cannot_hold_is_refused(folder: Path, array: Any):
    """R6.13: objects would need a pickle; a mask would be lost."""
    with pytest.raises(NotStorable) as refused:
        codec_of(folder).check(out(Anything(value=array)))
    assert refused.value.field == "value"


def test_a_figure_comes_back_as_its_picture(folder: Path):
    """R6.9: Jupyter shows it; what only a figure can is told, and it is written again as the same file."""
    figure = Figure(figsize=(2, 1), dpi=100)
    figure.subplots().plot([1, 3, 2])
    found = elsewhere(folder, figure)

    assert isinstance(found, Picture)
    assert found._repr_png_().startswith(b"\x89PNG")
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert found.data == file.getvalue()
    assert elsewhere(folder, found) == found
    with pytest.raises(AttributeError, match=r"Of the figure only its picture was stored, which has no 'axes'"):
        found.axes
    assert not hasattr(found, "__array__")


def test_moments_of_pandas_come_back(folder: Path):
    """What `frame.index[0]` gives is no datetime of Python's, though it is an instance of it."""
    for value in (
        pd.Timestamp(1),
        pd.Timestamp("2026-10-25 01:30", tz="UTC").tz_convert(ZoneInfo("Europe/Berlin")),
        pd.Timestamp("1066-10-14").as_unit("s"),
        pd.Timestamp("2026-01-01", tz="UTC").as_unit("ms"),
        pd.Timedelta(-1),
        pd.Timedelta(days=3).as_unit("s"),
        pd.NaT,
        pd.NA,
    ):
        found = elsewhere(folder, value)
        assert type(found) is type(value)
        if value is pd.NaT or value is pd.NA:
            assert found is value
        else:
            assert (found, found.unit, repr(found)) == (value, value.unit, repr(value))
