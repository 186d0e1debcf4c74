"""What is shown of a large value without reading it: plain JSON of a few hundred bytes, in the tick that names it."""

from __future__ import annotations

from typing import Any

from flownb.store.marks import preview

ROWS, COLUMNS, NUMBERS, LETTERS = 5, 20, 10, 200


def of_frame(frame: Any) -> dict[str, Any]:
    """`{"shape": [rows, columns], "columns": [[label, dtype], ...], "index": [...], "head": [[cell, ...], ...]}`."""
    head = frame.iloc[:ROWS, :COLUMNS]
    return {
        "shape": list(frame.shape),
        "columns": [[_cell(label), str(kind)] for label, kind in zip(head.columns, head.dtypes, strict=True)],
        "index": [_cell(label) for label in head.index],
        "head": [[_cell(value) for value in row] for row in head.itertuples(index=False, name=None)],
    }


def of_array(array: Any) -> dict[str, Any]:
    """`{"shape": [...], "dtype": "float64", "head": ["0.5", ...]}`."""
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "head": [_cell(value) for value in array.flat[:NUMBERS].tolist()],
    }


def of_figure(figure: Any) -> dict[str, Any]:
    """`{"size": [width, height]}`, in pixels."""
    return {"size": [round(float(side)) for side in figure.get_size_inches() * figure.dpi]}


def of_text(text: str) -> dict[str, Any]:
    """`{"length": 70000, "head": "..."}`."""
    head = text[:LETTERS].encode("utf-8", "backslashreplace").decode()
    return {"length": len(text), "head": head}


def of_any(value: object) -> dict[str, Any]:
    """`{"text": "list of 20000"}`."""
    return {"text": preview(value)}


def _cell(value: object) -> str:
    text = value.encode("utf-8", "backslashreplace").decode() if type(value) is str else preview(value)
    return text if len(text) <= 40 else text[:39] + "…"
