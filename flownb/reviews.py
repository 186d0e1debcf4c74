"""The record of what people decided: which question, what exactly it showed, which answer, who gave it, when and how.

A table with one row a question. It reads journals and runs nobody's code, so it is the same in a process that does not
have the workflow. Secrets are masked in it, and are no part of a hash.
"""

from __future__ import annotations

import csv
import datetime as dt
import html
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec
from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from flownb.core import commands as c
from flownb.core.reduce import advance
from flownb.core.ticks import EventArrived, RequestAnswered, RequestDisposed, TimerFired
from flownb.events import defined
from flownb.policy import HANDLER
from flownb.preview import MASK, one_line, preview
from flownb.store.marks import Lost, UnknownEvent
from flownb.wording import named

if TYPE_CHECKING:
    from flownb.core.state import Request as OpenRequest
    from flownb.core.state import RunState
    from flownb.core.ticks import AnyTick, How
    from flownb.core.values import Out
    from flownb.requests import Request
    from flownb.runtime.runner import Runner
    from flownb.store.codec import Codec

#: Characters of a question in short.
IN_SHORT = 160
#: Rows that a cell shows; the rest are counted.
SHOWN = 200
#: Characters of a hash that a cell shows.
HASH_SHOWN = 12
#: What a spreadsheet takes for a formula, at the start of a cell.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
#: Notations of a journal that name what is not in it by a number of this process.
_SECRETS = ("$secret", "$sealed")
_LIVE = ("$live", "$transient")
#: The ticks that decide a question; that its code gave it up, or that the run ended, is no decision.
DECIDES = (RequestAnswered, RequestDisposed, TimerFired, EventArrived)


@dataclass(frozen=True, slots=True)
class Review:
    """One question, and what became of it."""

    #: `<run id>:<n>`.
    id: str
    run: str
    workflow: str
    #: The step that asked.
    step: str
    #: In short, on one line.
    question: str
    #: SHA-256 of what the question showed, in hex: equal content has an equal one. "" if it cannot be written.
    digest: str
    #: As plain data (text, numbers, lists, dicts), secrets masked; None without one.
    answer: Any
    #: Who answered or disposed of it; "" where nobody is known.
    by: str
    #: Unix seconds of the answer or the end; None while it is open, or where that is not known.
    at: float | None
    #: Seconds from the question to that.
    waited_s: float | None
    #: person, ahead (`answers=`), handler (`input_handler=`), event (an event from outside), default (at the deadline);
    #: without an answer what ended it: expired, disposed, superseded, withdrawn, closed (by the run's end); else open.
    how: str

    def said(self) -> str:
        """The answer on one line, empty fields left out; "" without one."""
        if self.answer is None:
            return ""
        if isinstance(self.answer, dict):
            pairs = (f"{name}={_text(value)}" for name, value in self.answer.items() if value not in ("", None))
            return one_line(", ".join(pairs) or "{}", IN_SHORT)
        return one_line(_text(self.answer), IN_SHORT)

    def to_dict(self) -> dict[str, Any]:
        """`{"id": str, "run": str, "workflow": str, "step": str, "question": str, "digest": str, "answer": plain data,
        "by": str, "at": datetime in UTC or None, "waited_s": float or None, "how": str}`."""
        found = {name: getattr(self, name) for name in COLUMNS}
        return {**found, "at": None if self.at is None else dt.datetime.fromtimestamp(self.at, dt.UTC)}


COLUMNS = tuple(Review.__dataclass_fields__)


class Reviews(Sequence[Review]):
    """A record: rows by index, a table in a cell. `pandas.DataFrame(reviews.to_dicts())` makes a frame of it."""

    def __init__(self, rows: Sequence[Review]) -> None:
        self._rows = list(rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dict for each question, as `Review.to_dict` gives it."""
        return [row.to_dict() for row in self._rows]

    def to_csv(self, path: str | Path) -> Path:
        """Write all rows as a CSV file in UTF-8, with a line of names.

        Answers that are no text are JSON; times are ISO 8601 in UTC. A text that a spreadsheet would take for a formula
        gets an apostrophe in front.

        Returns:
            The file.

        Raises:
            OSError: It cannot be written.
        """
        path = Path(path)
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for row in self._rows:
                writer.writerow([_cell(name, value) for name, value in row.to_dict().items()])
        return path

    @overload
    def __getitem__(self, which: int) -> Review: ...
    @overload
    def __getitem__(self, which: slice) -> Reviews: ...
    def __getitem__(self, which: int | slice) -> Review | Reviews:
        return Reviews(self._rows[which]) if isinstance(which, slice) else self._rows[which]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Review]:
        return iter(self._rows)

    def __repr__(self) -> str:
        lines = [
            f"{row.id} {row.question}: {row.said() or 'no answer'} ({row.how}{f', {row.by}' if row.by else ''})"
            for row in self._rows[:SHOWN]
        ]
        more = len(self._rows) - SHOWN
        return "\n".join([f"<{len(self._rows)} questions>", *lines, *([f"and {more:,} more"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col" style="text-align:left">{name}</th>' for name in _HEAD)
        body = "".join(f"<tr>{''.join(map(_td, _HEAD, _shown(row)))}</tr>" for row in self._rows[:SHOWN])
        more = len(self._rows) - SHOWN
        rest = f"<p>and {more:,} more: to_dicts() and to_csv(path) have all</p>" if more > 0 else ""
        count = "1 question" if len(self._rows) == 1 else f"{len(self._rows):,} questions"
        return (
            f'<div style="overflow-x:auto"><table class="flownb-reviews"><caption>{count}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}</div>"
        )


_HEAD = ("question", "answer", "how", "by", "at", "waited", "run", "workflow", "step", "content")


def _shown(row: Review) -> tuple[str, ...]:
    at = "" if row.at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.at))
    waited = "" if row.waited_s is None else f"{row.waited_s:,.1f} s"
    return (
        row.question, row.said(), row.how, row.by, at, waited, row.run, row.workflow, row.step, row.digest[:HASH_SHOWN],
    )  # fmt: skip


def _td(name: str, text: str) -> str:
    safe = html.escape(text.encode("utf-8", "backslashreplace").decode())
    width = "min-width:16em" if name in ("question", "answer") else "white-space:nowrap"
    return f'<td style="text-align:left;{width}"><bdi>{safe}</bdi></td>'


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cell(name: str, value: Any) -> Any:
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="milliseconds")
    text = _text(value)
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text


# What a row says.


def in_short(question: Out, limit: int = IN_SHORT) -> str:
    """A question on one line: its `prefix`, else its class and fields."""
    value = question.value
    fields = value.plain() if isinstance(value, UnknownEvent) else None
    prefix = fields.get("prefix") if isinstance(fields, dict) else getattr(value, "prefix", None)
    if isinstance(prefix, str) and prefix:
        return one_line(prefix, limit)
    return named(question, limit)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: secrets and fields that are not shown are masked, what has no such form is told in
    words."""
    if isinstance(value, (SecretStr, SecretBytes, Secret)):
        return MASK
    if isinstance(value, UnknownEvent):
        return value.plain()
    if isinstance(value, Lost):
        return repr(value)
    if isinstance(value, BaseModel):
        infos = type(value).model_fields
        held = {**value.__dict__, **(value.__pydantic_extra__ or {})}
        return {
            name: MASK if name in infos and not infos[name].repr else plain(item)
            for name, item in held.items()
            if name in infos or name in (value.__pydantic_extra__ or {})
        }
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if type(value) is str:
        return value
    if type(value) is float and not isfinite(value):
        return str(value)
    try:
        return to_jsonable_python(value, fallback=preview, inf_nan_mode="strings")
    except Exception:  # whatever a user's own class raises
        return preview(value)


def review_of(request: Request[Any]) -> Review:
    """What became of a question so far."""
    runner, opened = request._runner, request._opened
    accepted = runner.questions.accepted.get(opened.id)
    ended = accepted or runner.questions.ends.get(opened.id)
    return Review(
        id=request.id,
        run=runner.run_id,
        workflow=runner.state.spec.name,
        step=request.step,
        question=in_short(opened.question),
        digest=request.digest,
        answer=None if accepted is None else plain(accepted.answer.value),
        by="" if ended is None else ended.by,
        at=None if ended is None else ended.at,
        waited_s=None if ended is None else max(0.0, ended.at - opened.opened_at),
        how=how_of(None, "", request.status) if accepted is None else how_of(accepted.how, accepted.by, request.status),
    )


def digest_in(runner: Runner, opened: OpenRequest) -> str:
    """The hash of what a question of a run shows."""
    if runner.stored is not None:
        return digest(opened.question, runner.stored.committer.codec)
    from flownb.store.codec import Codec  # a run that is kept nowhere needs none else

    return digest(opened.question, Codec(defined, "live"))


def digest(question: Out, codec: Codec) -> str:
    """The hash of what a question shows: its class and fields, without deadline, secrets and private attributes.

    Args:
        question: It.
        codec: That of its store.

    Returns:
        64 hex digits; "" if it cannot be written.
    """
    try:
        return digest_of_body(codec.encode_out(question))
    except Exception:  # a field that has no form, or whose own code raises: there is nothing to compare with
        return ""


def digest_of_body(body: bytes) -> str:
    """The same of a question as its store has it."""
    try:
        stored = msgspec.json.decode(body)
    except (ValueError, RecursionError):  # somebody, or a disk, changed it
        return ""
    content = {name: _canonical(stored[name]) for name in ("t", "d", "x") if stored.get(name)}
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def _canonical(stored: Any) -> Any:
    """What stands in a journal without what differs from process to process."""
    if isinstance(stored, list):
        return [_canonical(part) for part in stored]
    if not isinstance(stored, dict):
        return stored
    tag = next(iter(stored), "")
    if tag in _SECRETS:
        return {"$secret": ""}
    if tag in _LIVE:
        return {tag: stored[tag], "text": stored.get("text", "")}
    if tag == "$object":
        return {name: _canonical(stored[name]) for name in ("$object", "d", "x") if stored.get(name)}
    return {name: _canonical(part) for name, part in stored.items()}


def how_of(how: How | None, by: str, ended: str) -> str:
    """How a question was answered, or what ended it.

    Args:
        how: Of its answer, None without one.
        by: Who gave it.
        ended: What became of the question.
    """
    if how is None:
        return ended
    if how == "policy":
        return "handler" if by == HANDLER else "ahead"
    return how


def from_ticks(run_id: str, workflow: str, ticks: Sequence[AnyTick], codec: Codec) -> list[Review]:
    """The questions of a run that somebody or something decided, as far as its ticks make sense, oldest first."""
    made: dict[int, Review] = {}
    state: RunState | None = None
    for tick in ticks:
        before = state
        try:
            state, commands = advance(before, tick)
        except Exception:  # rows that can be read one by one and make no sense after each other
            break
        for command in commands:
            if isinstance(command, c.CloseRequest) and before is not None and isinstance(tick, DECIDES):
                request = before.requests.get(command.request)
                if request is not None:
                    made[request.id] = _closed(run_id, workflow, before, request, tick, command, codec)
    return [made[n] for n in sorted(made)]


def _closed(
    run_id: str,
    workflow: str,
    before: RunState,
    request: OpenRequest,
    tick: AnyTick,
    command: c.CloseRequest,
    codec: Codec,
) -> Review:
    """The row of a question that a tick closed."""
    answer, how, by = command.answer, None, getattr(tick, "by", "")
    if isinstance(tick, RequestAnswered) and tick.request == request.id:
        answer, how = tick.answer, how_of(tick.how, by, command.how)
    elif isinstance(tick, TimerFired) and command.how == "default":
        answer, how, by = request.default, "default", ""
    elif answer is not None:
        how = "event"
    elif not isinstance(tick, RequestDisposed):
        by = ""
    step = before.spec.steps[request.step].name if request.step >= 0 else ""
    return Review(
        f"{run_id}:{request.id}", run_id, workflow, step, in_short(request.question), digest(request.question, codec),
        None if answer is None else plain(answer.value), by, tick.at, max(0.0, tick.at - request.opened_at),
        how or command.how,
    )  # fmt: skip


__all__ = ["DECIDES", "Review", "Reviews", "digest", "digest_of_body", "from_ticks", "how_of", "in_short", "plain"]
