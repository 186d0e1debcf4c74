"""The record of reviews as a table, a file and dicts, whatever texts are in it."""

import csv
import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import BaseModel, Field, SecretStr

from flownb import Context, StartEvent, StopEvent, Store, Workflow
from flownb.core.values import Out
from flownb.events import InputRequiredEvent, bases_of, defined, key_of
from flownb.reviews import COLUMNS, SHOWN, Review, Reviews, digest, in_short, plain
from flownb.store.codec import Codec

ROW = Review("r:1", "r", "flow", "ask", "Well?", "ab" * 32, {"ok": True}, "ann", 1_764_547_200.25, 12.5, "person")
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", '=HYPERLINK("http://x","y")', "\n-1"]


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_csv_file_has_every_column(tmp_path: Path):
    """Times are ISO 8601 in UTC, answers JSON, numbers numbers."""
    path = Reviews([ROW, replace(ROW, answer=None, at=None, waited_s=None, how="expired")]).to_csv(tmp_path / "r.csv")
    first, second = read(path)
    assert tuple(first) == COLUMNS
    assert first["at"] == "2025-12-01T00:00:00.250+00:00"
    assert (first["answer"], first["waited_s"], first["by"]) == ('{"ok": true}', "12.5", "ann")
    assert (second["answer"], second["at"], second["waited_s"]) == ("", "", "")


@pytest.mark.parametrize("text", FORMULAS)
@pytest.mark.parametrize("field", ["answer", "by", "question", "run", "step", "workflow", "id"])
def test_no_cell_is_a_formula(tmp_path: Path, text: str, field: str):
    """A cell that a spreadsheet would work out gets an apostrophe in front, wherever the text comes from."""
    (row,) = read(Reviews([replace(ROW, **{field: text})]).to_csv(tmp_path / "r.csv"))
    assert row[field] == f"'{text}"


def test_a_negative_number_stays_a_number(tmp_path: Path):
    (row,) = read(Reviews([replace(ROW, answer=-5)]).to_csv(tmp_path / "r.csv"))
    assert row["answer"] == "-5"


def test_hostile_texts_survive_in_a_file_and_are_escaped_in_a_table(tmp_path: Path):
    """Quotes, line ends, half a surrogate pair, markup, another direction of reading."""
    text = 'a"b,c\nd <script>alert(1)</script> \ud800 \u202e'
    record = Reviews([replace(ROW, answer=text, by=text, question=text)])
    (row,) = read(record.to_csv(tmp_path / "r.csv"))
    assert row["answer"] == row["by"] == text.replace("\ud800", "\\ud800")
    table = record._repr_html_()
    table.encode()  # a message can hold it
    assert "<script" not in table
    assert "&lt;script&gt;" in table
    assert table.count("<bdi>") == 10


def test_an_answer_is_told_on_one_line():
    """Fields by name, empty ones left out; the file and the dicts have all."""
    said = {
        "decision=yes, n=3": {"decision": "yes", "note": "", "n": 3, "more": None},
        "{}": {"note": ""},
        "true": True,
        "two lines": "two\nlines",
        "[1, 2]": [1, 2],
        "": None,
    }
    assert {replace(ROW, answer=answer).said(): answer for answer in said.values()} == said


def test_a_frame_is_made_of_dicts():
    """The shape that `to_dicts` says: what pandas takes."""
    record = Reviews([ROW, replace(ROW, id="r:2")])
    frame = pd.DataFrame(record.to_dicts())
    assert list(frame.columns) == list(COLUMNS)
    assert list(frame["id"]) == ["r:1", "r:2"]
    assert record.to_dicts()[0]["at"] == dt.datetime(2025, 12, 1, 0, 0, 0, 250_000, dt.UTC)
    assert list(pd.DataFrame(list(record))["by"]) == ["ann", "ann"]


def test_a_long_record_is_cut_in_a_cell_only(tmp_path: Path):
    record = Reviews([replace(ROW, id=f"r:{i}") for i in range(SHOWN + 7)])
    assert "and 7 more" in record._repr_html_()
    assert "and 7 more" in repr(record)
    assert len(read(record.to_csv(tmp_path / "r.csv"))) == SHOWN + 7
    assert (len(record[:3]), record[-1].id, [r.id for r in record[1:2]]) == (3, f"r:{SHOWN + 6}", ["r:1"])


class Part(BaseModel):
    b: int = 1
    a: int = 2


class Pay(InputRequiredEvent):
    to: str
    amount: float = 1.0
    when: dt.datetime = dt.datetime(2026, 1, 1)
    parts: tuple[Part, ...] = (Part(),)
    key: SecretStr = SecretStr("k")
    hidden: str = Field("h", repr=False)


def out(question: Any) -> Out:
    return Out(key_of(type(question)), question, "request", bases_of(type(question)))


def hashed(question: Any) -> str:
    return digest(out(question), Codec(defined, "live"))


def test_equal_content_has_an_equal_hash():
    """In whatever order it was given, by whatever codec; what differs in one field differs."""
    same = [Pay(to="x"), Pay(amount=1.0, to="x"), Pay(to="x", parts=(Part(a=2, b=1),))]
    assert len({hashed(question) for question in same}) == 1
    others = [Pay(to="y"), Pay(to="x", amount=2.0), Pay(to="x", parts=()), Pay(to="x", more=1), Pay(to="x", hidden="i")]
    assert len({hashed(question) for question in [same[0], *others]}) == len(others) + 1


def test_a_hash_tells_nothing_of_a_secret():
    """R4.50: it is no part of it, so nobody finds it by trying."""
    assert hashed(Pay(to="x", key=SecretStr("k"))) == hashed(Pay(to="x", key=SecretStr("other")))


def test_a_hash_is_the_same_where_the_class_is_unknown():
    body = Codec(defined, "live").encode_out(out(Pay(to="x")))
    stranger = Codec(lambda key: None, "live")
    assert digest(stranger.decode_out(body), stranger) == hashed(Pay(to="x"))
    assert in_short(stranger.decode_out(body)).startswith("Pay(to='x', amount=1.0")


def test_a_plain_answer_hides_what_is_not_shown():
    """Secrets and fields with `repr=False`, at any depth; what JSON cannot hold is told in words."""
    found = plain({"p": Pay(to="x"), "s": [SecretStr("t")], "f": pd.DataFrame({"x": [1]}), "n": float("nan")})
    assert found["p"]["key"] == found["p"]["hidden"] == found["s"][0] == "••••••"
    assert found["p"]["to"] == "x"
    assert "DataFrame" in found["f"]
    assert found["n"] == "nan"


def test_a_store_in_memory_has_a_record_too():
    """A frame, which only a file can hold, is told in words; its question has a hash all the same."""
    store, flow = Store(":memory:"), Workflow[Any]("flow")

    @flow.step
    async def ask(ev: StartEvent, ctx: Context) -> StopEvent:
        return StopEvent(
            result=await ctx.ask(Pay(to="x", table=pd.DataFrame({"x": [1]})), timeout=0.05, default="none")
        )

    assert flow.with_options(store=store).run(run_id="r").result(20) == "none"
    (row,) = store.reviews()
    assert (row.id, row.how, row.answer, len(row.digest)) == ("r:1", "default", "none", 64)
    kept_nowhere = flow.run()
    kept_nowhere.result(20)
    (row,) = kept_nowhere.requests.all().reviews()
    assert (row.how, row.answer, len(row.digest)) == ("default", "none", 64)


class Nasty:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_a_value_whose_own_code_raises_is_told_in_words():
    assert "Nasty" in plain(Nasty())
    assert len(digest(Out("x:Nasty", Nasty(), "value"), Codec(defined, "live"))) in (0, 64)
