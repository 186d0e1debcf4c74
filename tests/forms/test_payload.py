"""What a question is about, as data: lines, blocks, tables and pictures; never much work, an exception or a secret."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from pydantic import BaseModel, Field, SecretStr

from flownb.forms.payload import BLOCK, HEAD_COLUMNS, HEAD_ROWS, SIDE, Block, Line, Picture, Table, rows, show, shown

HOSTILE = "</script><img src=x onerror=alert(1)>"


class About(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    n: int = 7
    text: str = "two\nlines"
    table: Any = None
    key: SecretStr = SecretStr("hunter2")
    hidden: str = Field("hunter2", repr=False)


def size_of(png: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(png)).size


def test_the_fields_of_an_event_are_shown_each_in_its_way() -> None:
    """A frame as a table, a text with its lines; secrets and hidden fields are masked, others one line."""
    about = About(table=pd.DataFrame({"a": [1]}))
    kinds = {name: type(one) for name, one in shown(about)}
    assert kinds == {"n": Line, "text": Block, "table": Table, "key": Line, "hidden": Line}
    assert "hunter2" not in repr(shown(about))
    assert dict(rows(about))["table"] == "DataFrame 1 × 1"
    assert dict(rows(about))["text"] == r"'two\nlines'"


def test_a_frame_is_its_upper_left_corner() -> None:
    """Eight rows and columns, each cell one short line, and the whole in words."""
    frame = pd.DataFrame({f"c{n}": range(1204) for n in range(12)})
    table = show(frame)
    assert isinstance(table, Table)
    assert (len(table.columns), len(table.rows), len(table.labels)) == (HEAD_COLUMNS, HEAD_ROWS, HEAD_ROWS)
    assert table.rows[2] == ("2",) * HEAD_COLUMNS
    assert table.note == "DataFrame 1 204 × 12"


def test_cells_are_short_plain_text() -> None:
    """Long text is cut, objects are asked for no more than a preview asks for."""

    class Bomb:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    table = show(pd.DataFrame({HOSTILE: ["x" * 500, Bomb(), SecretStr("hunter2"), 1.0, None]}))
    assert isinstance(table, Table)
    assert table.columns == (HOSTILE,)
    cells = [row[0] for row in table.rows]
    assert (len(cells[0]), cells[1], cells[3]) == (40, "Bomb (its text raised RuntimeError)", "1")
    assert "hunter2" not in repr(table)


def test_a_series_and_an_array_are_tables_too() -> None:
    """One column with its name; an array of numbers with its shape and type, one of objects is a line."""
    series = show(pd.Series([1.5, 2.5], index=["x", "y"], name="mass"))
    assert series == Table(("mass",), ("x", "y"), (("1.5",), ("2.5",)), "Series float64 2")
    assert show(np.arange(6).reshape(2, 3)) == Table(
        ("0", "1", "2"), ("0", "1"), (("0", "1", "2"), ("3", "4", "5")), "ndarray int64 2×3"
    )
    assert isinstance(show(np.arange(1000)), Table)
    assert show(np.array([object()])) == Line("ndarray object 1")
    assert show(np.zeros((2, 2, 2))) == Line("ndarray float64 2×2×2")
    assert show(pd.DataFrame()) == Line("DataFrame 0 × 0")


def test_a_figure_is_a_picture_of_bounded_size() -> None:
    """A figure of 50 inches too; it is drawn on whatever thread."""
    figure = matplotlib.figure.Figure(figsize=(50, 10))
    figure.subplots().plot([1, 2])
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(show(figure)))
    thread.start()
    thread.join()
    (picture,) = found
    assert isinstance(picture, Picture)
    assert max(size_of(picture.png)) <= SIDE
    assert picture.note == "figure of 1 axes"


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "1", "CMYK", "F"])
def test_an_image_is_a_smaller_one(mode: str) -> None:
    """Of any mode; the image itself is left as it is."""
    image = Image.new(mode, (3000, 1500))
    picture = show(image)
    assert isinstance(picture, Picture)
    assert size_of(picture.png) == (SIDE, SIDE // 2)
    assert (image.size, picture.note) == ((3000, 1500), "image 3000 × 1500")


def test_png_bytes_are_a_picture_unless_they_are_too_large() -> None:
    """A page would have to unpack it; other bytes are a line."""
    out = io.BytesIO()
    Image.new("L", (4, 4)).save(out, format="PNG")
    png = out.getvalue()
    assert isinstance(show(png), Picture)
    huge = png[:16] + (100_000).to_bytes(4, "big") * 2 + png[24:]
    assert isinstance(show(huge), Line)
    assert isinstance(show(png[:12]), Line)
    assert isinstance(show(png + b"x" * 3_000_000), Line)
    assert show(b"\x00\x01") == Line(r"b'\x00\x01'")


def test_a_long_text_keeps_its_lines_and_is_cut() -> None:
    """What cannot be printed is written out, so that no text looks like another."""
    block = show("line\n" * 2000)
    assert isinstance(block, Block)
    assert (len(block.text) <= BLOCK, block.note) == (True, "6 000 more characters")
    assert show("a\n\u202eb\x1b") == Block("a\n\\u202eb\\x1b")
    assert show("short") == Line("'short'")


def test_what_cannot_be_drawn_is_a_line() -> None:
    """A frame whose cells raise, an object that lies about its class."""

    class Liar:
        @property
        def __class__(self) -> Any:
            return pd.DataFrame

    class Broken(pd.DataFrame):
        @property
        def iloc(self) -> Any:
            raise RuntimeError("no")

    assert isinstance(show(Liar()), Line)
    assert isinstance(show(Broken({"a": [1]})), Line)

    class Mapping(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no")

    assert shown(Mapping()) == [("value", Line("Mapping (cannot be shown: RuntimeError)"))]


def test_nothing_is_imported_to_look() -> None:
    """A process without pandas and matplotlib stays without."""
    code = (
        "from flownb.forms.payload import show; import sys; show([1]); show('a\\nb'); show(b'x');"
        "sys.exit(any(m in sys.modules for m in ('pandas', 'matplotlib', 'PIL', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
