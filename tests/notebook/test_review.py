"""The table of open questions without a browser: what it lists, what its messages do, what it says of failures."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import model_validator

from flownb import Context, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Store, Workflow, options
from flownb.forms.approving import shortcuts
from flownb.notebook import review
from flownb.notebook.listing import STAYS_S, Listing, _in_a_word
from flownb.notebook.review import KEPT, ReviewBox
from flownb.schemas import schema_of
from tests.polling import wait_until


class Begin(StartEvent):
    kind: str = "check"
    no: int = 0


class Verdict(HumanResponseEvent):
    decision: Literal["approve", "reject"]
    note: str = ""


class Strict(HumanResponseEvent):
    ok: bool
    note: str = ""

    @model_validator(mode="after")
    def explains(self) -> "Strict":
        if not self.ok and not self.note:
            raise ValueError("a rejection needs a note")
        return self


class Check(InputRequiredEvent[Verdict]):
    no: int
    island: str = "<b>Biscoe</b>"


class Careful(InputRequiredEvent[Strict]):
    no: int


class Words(InputRequiredEvent[HumanResponseEvent]):
    prefix: str = "Say a word"


flow = Workflow[Any]("asks")


@flow.step
async def ask(ev: Begin, ctx: Context) -> StopEvent:
    if ev.kind == "bool":
        return StopEvent(result=await ctx.ask(f"Row {ev.no}?", bool))
    if ev.kind == "soon":
        return StopEvent(result=await ctx.ask(f"Row {ev.no}?", bool, timeout=0.4, default=False))
    kinds: dict[str, Any] = {"check": Check, "careful": Careful}
    question = kinds[ev.kind](no=ev.no) if ev.kind in kinds else Words()
    answer = await ctx.ask(question)
    return StopEvent(result=answer.model_dump())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "runs.db")
    yield opened
    for row in opened.runs(status="waiting"):
        opened.run(row.run_id).cancel().result(20)
    opened.close()


@pytest.fixture
def box(store: Store) -> Iterator[ReviewBox]:
    made = ReviewBox(store.requests())
    yield made
    made.close()


def begin(store: Store, *kinds: str, first: int = 1) -> list[Any]:
    bound = flow.with_options(store=store)
    runs = [bound.run(run_id=f"r{n}", kind=kind, no=n) for n, kind in enumerate(kinds, first)]
    wait_until(lambda: all(len(store.requests(text=f"r{n}:")) for n in range(first, first + len(kinds))))
    return runs


def shown(box: ReviewBox) -> dict[str, tuple[str, str]]:
    """State and word of each row that the page has."""
    return {row["id"]: (row["state"], row["said"]) for row in box.view.table["rows"]}


def test_a_row_tells_what_the_page_needs(store: Store):
    """Run, workflow, step, question, since, deadline, default, and what the keys mean."""
    begin(store, "check", "words", "bool")
    found = Listing(store.requests())
    found.look()
    table = found.shown()
    assert (table["done"], table["total"], table["more"], table["fault"]) == (0, 3, 0, "")
    first, second, third = table["rows"]
    assert (first["id"], first["run"], first["workflow"], first["step"]) == ("r1:1", "r1", "asks", "ask")
    assert first["text"] == "Check(no=1, island='<b>Biscoe</b>')"
    assert abs(first["since"] - time.time()) < 20
    assert (first["yes"], first["no"], first["due"]) == ("Approve", "Reject", None)
    assert (second["text"], second["yes"], bool(second["why"])) == ("Say a word", "", True)
    assert len({first["group"], second["group"], third["group"]}) == 3


@pytest.mark.parametrize(
    ("kind", "default", "word"),
    [
        (bool, "False", "Reject"),
        (Verdict, "Verdict(decision='approve', note='nobody looked')", "Approve"),
        (Verdict, "Verdict(note='later')", "Verdict(note='later')"),
        (str, "False", "False"),
        (bool, "", ""),
    ],
)
def test_a_default_is_told_in_a_word(kind: Any, default: str, word: str):
    assert _in_a_word(default, shortcuts(schema_of(kind))) == word


def test_approve_and_reject_answer_and_the_row_goes(store: Store):
    """R4.47, R4.49: counted as done at once; it stays a while with a word; a second press does nothing."""
    runs = begin(store, "check", "bool", "check")
    now = [0.0]
    found = Listing(store.requests(), clock=lambda: now[0])
    found.look()
    options.user, before = "ann", options.user
    try:
        found.answer("r1:1", approves=True)
        found.answer("r2:1", approves=False)
        found.answer("r2:1", approves=True)
        found.answer("nobody:1", approves=True)
    finally:
        options.user = before
    assert [run.result(20) for run in runs[:2]] == [{"decision": "approve", "note": ""}, False]
    assert [(row["state"], row["said"]) for row in found.shown()["rows"]] == [
        ("done", "Approve"), ("done", "Reject"), ("open", ""),
    ]  # fmt: skip
    assert (found.shown()["done"], found.shown()["total"]) == (2, 3)
    found.look()
    assert len(found.shown()["rows"]) == 3
    now[0] = STAYS_S
    found.look()
    assert [row["id"] for row in found.shown()["rows"]] == ["r3:1"]
    assert {(row.id, row.by) for row in store.reviews()} == {("r1:1", "ann"), ("r2:1", "ann")}


def test_what_is_refused_stands_at_its_row(store: Store):
    """R4.45: in words; the question is open still, and can be answered otherwise."""
    (run,) = begin(store, "careful")
    found = Listing(store.requests())
    found.look()
    assert found.sending(["r1:1"]) == ["r1:1"]
    found.answer("r1:1", approves=False)
    (row,) = found.shown()["rows"]
    assert row["state"] == "failed"
    assert "a rejection needs a note" in row["said"]
    assert "Traceback" not in row["said"]
    assert found.sending(["r1:1", "nobody:1"]) == ["r1:1"]
    found.answer("r1:1", approves=True)
    assert run.result(20) == {"ok": True, "note": ""}


def test_who_was_faster_is_told(store: Store):
    """R4.47, R4.48: answered otherwise, answered the same, closed since; nothing of ours counts."""
    runs = begin(store, "bool", "bool", "bool")
    found = Listing(store.requests())
    found.look()
    runs[0].answer(None, False, by="bob")
    runs[1].answer(None, True, by="bob")
    runs[2].cancel().result(20)
    for n in (1, 2, 3):
        found.answer(f"r{n}:1", approves=True)
    rows = {row["id"]: (row["state"], row["said"]) for row in found.shown()["rows"]}
    assert (rows["r1:1"][0], rows["r2:1"], rows["r3:1"][0]) == ("gone", ("done", "Approve"), "gone")
    assert "answered by bob" in rows["r1:1"][1]
    assert "False" in rows["r1:1"][1]
    assert "no longer open" in rows["r3:1"][1] or "no open question" in rows["r3:1"][1]
    assert [run.result(20) for run in runs[:2]] == [False, True]


def test_what_ends_elsewhere_goes_with_a_word_and_what_is_new_comes(store: Store):
    """An answer, a dispose, a deadline, a run's end; the list is that of the store at every look."""
    runs = begin(store, "bool", "check", "soon", "bool")
    found = Listing(store.requests())
    found.look()
    runs[0].answer(None, True, by="bob")
    runs[1].requests[0].dispose("no need")
    runs[3].cancel().result(20)
    wait_until(lambda: len(store.requests()) == 0)
    begin(store, "bool", first=5)
    found.look()
    rows = {row["id"]: (row["state"], row["said"]) for row in found.shown()["rows"]}
    assert rows["r1:1"] == ("gone", "answered by bob")
    assert rows["r2:1"][1].startswith("disposed of")
    assert rows["r3:1"] == ("gone", "its deadline passed: Reject")
    assert rows["r4:1"] == ("gone", "closed: its run is cancelled")
    assert rows["r5:1"] == ("open", "")
    assert (found.shown()["done"], found.shown()["total"]) == (4, 5)


def test_an_answer_that_waits_for_its_driver_is_done(store: Store, tmp_path: Path):
    """R4.62: nobody drives the run, so the question is listed as open still; the list knows better."""
    from tests.stored.other import Other

    process = Other(tmp_path / "runs.db")
    try:
        process.do("run = Returns().with_options(store=store).run(run_id='left')")
        process.wait("run.status == 'waiting'")
    finally:
        process.kill()
    found, other_list = Listing(store.requests()), Listing(store.requests())
    for one in (found, other_list):
        one.look()
    found.answer("left:1", approves=True)
    assert [row["state"] for row in found.shown()["rows"]] == ["done"]
    for one in (found, other_list):
        one.look()
    assert [row["state"] for row in found.shown()["rows"]] == ["done"]
    (row,) = other_list.shown()["rows"]
    assert (row["state"], row["said"].endswith("waits for its driver")) == ("gone", True)
    assert len(store.requests()) == 1


def test_a_store_that_cannot_be_read_is_told_and_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch):
    from flownb.errors import WorkflowRuntimeError

    begin(store, "bool")
    found = Listing(store.requests())

    def locked(**_: Any) -> Any:
        raise WorkflowRuntimeError("The store is locked.")

    with monkeypatch.context() as patch:
        patch.setattr(store.journal, "waiting", locked)
        found.look()
    assert (found.shown()["fault"], found.shown()["rows"]) == ("The store is locked.", [])
    found.look()
    assert (found.shown()["fault"], len(found.shown()["rows"])) == ("", 1)


# The widget.


def test_messages_answer_and_the_table_follows(store: Store, box: ReviewBox):
    """Its thread looks by itself, at most once a second, while somebody looks."""
    runs = begin(store, "bool", "check", "careful")
    box._on_message(None, {"kind": "hello"}, None)
    wait_until(lambda: len(shown(box)) == 3)
    box._on_message(None, {"kind": "reject", "ids": ["r1:1", "r2:1", "r3:1", "none:1", 7]}, None)
    wait_until(lambda: box.view.table["done"] == 2)
    assert runs[0].result(20) is False
    assert shown(box)["r3:1"][0] == "failed"
    begin(store, "bool", first=9)
    wait_until(lambda: "r9:1" in shown(box))
    for message in (
        {},
        {"kind": "nonsense"},
        {"kind": "approve"},
        {"kind": "approve", "ids": "r9:1"},
        {"kind": "edit"},
    ):
        box._on_message(None, message, None)
    box._on_message(None, {"kind": "look", "id": "r9:1"}, None)
    wait_until(box._queue.empty)
    assert shown(box)["r9:1"][0] == "open"


def test_its_thread_ends_when_nobody_looks(store: Store, box: ReviewBox, monkeypatch: pytest.MonkeyPatch):
    """And begins again with the next message."""
    monkeypatch.setattr(review, "UNSEEN_S", 0.05)
    monkeypatch.setattr(review, "LOOK_S", 0.02)
    box._on_message(None, {"kind": "hello"}, None)
    wait_until(lambda: box._thread is None)
    begin(store, "bool")
    assert shown(box) == {}
    box._on_message(None, {"kind": "here"}, None)
    wait_until(lambda: set(shown(box)) == {"r1:1"})


def test_the_form_of_one_question_stands_below_the_table(store: Store, box: ReviewBox):
    """One at a time; its answer closes it and counts; one that is left keeps what was typed."""
    runs = begin(store, "check", "words")
    box.look()
    box.tell("r1:1")
    assert box._form is None
    box.edit("r1:1")
    assert box.view.table["editing"] == {"id": "r1:1", "n": 1}
    form = box._form
    assert form is not None
    assert box.children == (box.view, form.box)
    box.tell("r2:1")  # no key answers it
    assert box.view.table["editing"] == {"id": "r2:1", "n": 2}
    assert box._form is not form
    box.leave()
    assert (box.view.table["editing"], box.children) == ({}, (box.view,))
    box.edit("r1:1")
    assert box._form is form  # with what was typed
    assert box.view.table["editing"] == {"id": "r1:1", "n": 3}
    runs[0].answer(None, decision="reject", by="bob")
    box._tend()
    assert box._form is None
    assert shown(box)["r1:1"][0] == "done"
    assert "Answered by bob" in shown(box)["r1:1"][1]
    box.edit("r1:1")
    box.edit("nobody:1")
    assert box._form is None


def test_only_some_forms_that_were_left_are_kept(store: Store, box: ReviewBox):
    """A form is dozens of widgets."""
    begin(store, *["check"] * (KEPT + 2))
    box.look()
    forms = []
    for n in range(1, KEPT + 3):
        box.edit(f"r{n}:1")
        forms.append(box._form)
    assert list(box._left) == [f"r{n}:1" for n in range(2, KEPT + 2)]
    box.edit("r1:1")
    assert box._form is not forms[0]
    box.answer(["r5:1"], approves=True)
    box.look()
    assert "r5:1" not in box._left


def test_what_a_question_shows_is_sent_when_it_is_looked_at(store: Store, box: ReviewBox):
    """With its hash, as the record will have it."""
    begin(store, "check")
    box.look()
    sent: list[Any] = []
    box.view.send = sent.append  # type: ignore[method-assign]
    box.tell("r1:1")
    assert sent == [
        {
            "kind": "content",
            "id": "r1:1",
            "rows": [("no", "1"), ("island", "'<b>Biscoe</b>'")],
            "digest": store.requests()[0].digest,
        }
    ]
    box.refuse("r1:1", "no")
    assert sent[-1] == {"kind": "error", "id": "r1:1", "text": "no"}


def test_where_nobody_looks_it_is_a_plain_table(store: Store, monkeypatch: pytest.MonkeyPatch):
    """No widget is made; texts are escaped."""
    begin(store, "check")
    displayed: list[Any] = []
    monkeypatch.setattr(review, "_display", lambda data, raw: displayed.append(data))
    store.requests()._ipython_display_()
    (data,) = displayed
    assert data["text/plain"] == "<1 open questions: r1:1>"
    assert "<b>" not in data["text/html"]
    assert "&lt;b&gt;Biscoe" in data["text/html"]


def test_with_a_page_it_is_a_widget(store: Store, monkeypatch: pytest.MonkeyPatch):
    """A cell that is run again closes what it showed before."""
    begin(store, "check")
    displayed: list[Any] = []
    monkeypatch.setattr(review.kernel, "has_front_end", lambda: True)
    monkeypatch.setattr(review.kernel, "cell_key", lambda message: "cell-1")
    monkeypatch.setattr(review, "_display", displayed.append)
    store.requests()._ipython_display_()
    store.requests()._ipython_display_()
    first, second = displayed
    assert (first.closed, second.closed) == (True, False)
    assert second._repr_mimebundle_()["text/plain"] == "<1 open questions: r1:1>"
    second.close()
    second.close()
    second.post(second.look)  # nothing happens any more
    review._by_cell.clear()
