"""Looking at runs: what stands in their journals, read without any code of theirs and never changed.

A run is folded here and not opened, so that a look starts no thread, takes no lease and needs no workflow.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from flownb.cli.answers import command_for, fields_of
from flownb.cli.words import (
    ago,
    brief,
    clean,
    clock,
    plain,
    plural,
    question_of,
    span,
    table,
    value_of,
    words_of,
)
from flownb.core.reduce import advance
from flownb.core.state import ENDED, Request, RunState
from flownb.core.ticks import AnyTick, RequestAnswered, RunForked
from flownb.errors import JournalDamaged, RunNotFound, WorkflowError, near
from flownb.events import StopEvent
from flownb.notebook.viewmodel import caption
from flownb.reasons import reason_of
from flownb.restoring import readable
from flownb.runs import Store
from flownb.runtime.stored import LEASE_S
from flownb.store.drivers import describe, is_gone, is_imported, missing_in
from flownb.store.journal import Entry, Holder, RunRow
from flownb.store.marks import UnknownEvent

#: The ways of a run that goes on: somebody should drive it.
_ACTIVE = ("running", "cancelling")
_TICK = "{:>6}"


class Sight(Struct):
    """A run, as far as its journal can be read."""

    row: RunRow
    holder: Holder
    #: After the last tick that is sound; None if there is none.
    state: RunState | None
    ticks: list[AnyTick]
    #: The last ticks, with their number and the state before.
    last: list[tuple[int, AnyTick, RunState | None]]
    #: Why it cannot be read any further.
    damage: str
    inbox: list[Entry]

    @property
    def open(self) -> list[tuple[Request, bool]]:
        """The questions, and whether each was answered and only waits for its driver."""
        if self.state is None:
            return []
        answered = {entry.tick.request for entry in self.inbox if isinstance(entry.tick, RequestAnswered)}
        return [(request, request.id in answered) for request in self.state.requests.values()]


def full_id(store: Store, run_id: str) -> str:
    """The id that is meant: itself, or the only one that begins so.

    Raises:
        RunNotFound: There is none, or there are several.
    """
    if store.journal.row(run_id) is not None:
        return run_id
    ids = [row.run_id for row in store.runs()]
    found = [other for other in ids if other.startswith(run_id) and "/" not in other]
    if run_id and len(found) == 1:
        return found[0]
    if len(found) > 1 and run_id:
        raise RunNotFound(f"Several runs begin with {run_id!r}: {', '.join(found[:8])}.", run_id=run_id)
    mend = near(run_id, ids[:1000], "There are") if len(ids) <= 8 else near(run_id, ids[:1000], "The newest are")
    raise RunNotFound(f"There is no run {clean(run_id)!r} in {store.place}. {mend[:400]}", run_id=run_id)


def see(store: Store, run_id: str, n: int = 0) -> Sight:
    """Read a run up to its first tick that cannot be read."""
    journal = store.journal
    row = journal.row(run_id)
    if row is None:
        raise RunNotFound(f"There is no run {clean(run_id)!r} in {store.place}.", run_id=run_id)
    ticks, unreadable = readable(store, run_id)
    damage = str(unreadable or "")
    state: RunState | None = None
    last: deque[tuple[int, AnyTick, RunState | None]] = deque(maxlen=max(0, n))
    for seq, tick in enumerate(ticks, 1):
        try:
            after, _ = advance(state, tick)
        except Exception as error:  # rows that can be read one by one and make no sense after each other
            damage = f"Tick {seq} does not follow from those before it: {type(error).__name__}: {error}."
            ticks = ticks[: seq - 1]
            break
        last.append((seq, tick, state))
        state = after
    try:
        inbox = journal.inbox([run_id])
    except JournalDamaged as error:
        inbox, damage = [], damage or str(error)
    return Sight(row, journal.holder(run_id), state, ticks, list(last), damage, inbox)


# Who drives.


def status_words(store: Store, row: RunRow) -> str:
    """A status, and what people must know with it."""
    if is_imported(row.driver):
        return f"{row.status} (imported)"
    if row.status in _ACTIVE and not _holder(store, row.run_id).is_live():
        return f"{row.status} (nobody drives it)"
    return row.status


def _holder(store: Store, run_id: str) -> Holder:
    """Who drives a listed run: nobody, if it was deleted since or cannot be found by the id that is listed."""
    try:
        return store.journal.holder(run_id)
    except RunNotFound:
        return Holder("", 0, 0.0)


def _driver_words(sight: Sight) -> str:
    holder = sight.holder
    if is_imported(holder.driver):
        return f"nobody, ever: it was imported{missing_in(holder.driver)}"
    if sight.row.status in ENDED:
        return f"nobody any more; it was {describe(holder.driver)}" if holder.driver else "nobody any more"
    if holder.is_live():
        age = max(0.0, LEASE_S - (holder.lease_until - time.time()))
        return f"{describe(holder.driver)}, whose lease was renewed {span(age)} ago"
    if not holder.driver:
        return "nobody while it waits" if sight.row.status == "waiting" else "nobody"
    if is_gone(holder.driver):
        return f"nobody: {describe(holder.driver)} is gone"
    return f"nobody: the lease of {describe(holder.driver)} ended {ago(holder.lease_until)}"


def _driver_word(store: Store, row: RunRow) -> str:
    """The same in a few words; "" of a run that is over."""
    if row.status in ENDED:
        return ""
    holder = _holder(store, row.run_id)
    if is_imported(holder.driver) or not holder.driver:
        return "nobody"
    if holder.is_live():
        return describe(holder.driver)
    return f"nobody, {'process gone' if is_gone(holder.driver) else 'lease over'}"


# runs


def list_runs(store: Store, status: str | None, workflow: str | None, limit: int, with_children: bool) -> list[RunRow]:
    """The newest runs first, children left out unless they are wanted."""
    rows = store.runs(status=status, workflow=workflow)
    rows = [row for row in rows if with_children or not row.parent]
    return rows[:limit] if limit else rows


def runs_lines(store: Store, rows: list[RunRow], left_out: int) -> Iterator[str]:
    asks: dict[str, int] = {}
    for run_id, _ in store.journal.waiting(kind="request"):
        asks[run_id] = asks.get(run_id, 0) + 1
    if not rows:
        yield "No such runs."
        return
    lines = [
        (
            clean(row.run_id), clean(row.workflow), f"{row.status}{' (imported)' if is_imported(row.driver) else ''}",
            clean(_driver_word(store, row)), f"{row.seq:,}", clock(row.started_at), ago(row.updated_at),
            _asks(asks.get(row.run_id, 0)),
        )
        for row in rows
    ]  # fmt: skip
    yield from table(lines, ("RUN", "WORKFLOW", "STATUS", "DRIVEN BY", "TICKS", "STARTED", "LAST TICK", ""))
    if left_out:
        yield f"... and {left_out:,} more: --limit 0 lists all, --children their children too."


def _asks(n: int) -> str:
    return plural(n, "question") if n else ""


def run_json(store: Store, row: RunRow) -> dict[str, Any]:
    holder = _holder(store, row.run_id)
    return {
        "run": row.run_id,
        "workflow": row.workflow,
        "key": row.key,
        "status": row.status,
        "ticks": row.seq,
        "started_at": row.started_at,
        "updated_at": row.updated_at,
        "parent": row.parent or None,
        "is_imported": is_imported(row.driver),
        "is_driven": holder.is_live() and row.status not in ENDED,
        "driver": describe(holder.driver) if holder.driver and row.status not in ENDED else None,
    }


# show


def show_lines(store: Store, sight: Sight, store_part: list[str]) -> Iterator[str]:
    """All that one run is, for people."""
    row, state = sight.row, sight.state
    yield f"Run {clean(row.run_id)} of {clean(row.workflow)}: {status_words(store, row)}"
    facts = [
        ("started", f"{clock(row.started_at)} ({ago(row.started_at)})"),
        ("last tick", f"{row.seq:,}, {ago(row.updated_at)}"),
        ("driven by", _driver_words(sight)),
    ]
    if row.parent:
        facts.append(("child of", clean(row.parent)))
    if state is not None:
        forked = next((tick for tick in reversed(sight.ticks) if isinstance(tick, RunForked)), None)
        if forked is not None:
            facts.append(("forked from", f"tick {forked.base_seq} of {clean(forked.base)}"))
        facts.append(("why", clean(why_words(sight, state))))
    if sight.inbox:
        facts.append(("inbox", f"{plural(len(sight.inbox), 'entry').replace('entrys', 'entries')} for its driver"))
    if sight.damage:
        facts.append(("damaged", clean(sight.damage)))
    yield from (f"  {line}" for line in table(facts))
    if state is None:
        return
    yield from _result_lines(state)
    yield from _question_lines(store, sight, store_part)
    yield from _children_lines(store, row)
    if sight.last:
        yield ""
        yield "Last ticks:"
        yield from (f"  {line}" for line in table([_tick_words(*each) for each in sight.last]))
    if not sight.holder.is_live() and row.status not in ENDED and not is_imported(row.driver) and not sight.damage:
        yield ""
        if row.key.startswith("__main__:"):
            yield f"To go on with it, in its notebook or script: flow.resume({row.run_id!r})"
        else:
            yield "To go on with it, where its code is:"
            command = ["python", "-m", "flownb", "resume", row.key or "MODULE:WORKFLOW", row.run_id, *store_part]
            yield f"  {words_of(command)}"


def why_words(sight: Sight, state: RunState) -> str:
    """Why it does what it does."""
    why = reason_of(state, time.time(), len(sight.inbox), sight.ticks)
    if state.status != "suspended":
        return why
    return f"Suspended{f' by {state.by}' if state.by else ''}: {state.reason or 'no reason given'}. {why}"


def _result_lines(state: RunState) -> Iterator[str]:
    result = _result(state)
    if state.result is not None:
        yield f"  result     {value_of(result, 400)}"
    failure = state.failure
    if failure is not None and failure.traceback:
        yield ""
        yield "Traceback:"
        yield from (f"  {clean_end(line)}" for line in failure.traceback.rstrip().splitlines()[-20:])


def clean_end(line: str) -> str:
    """A line of code, which keeps its indentation."""
    body = line.lstrip()
    return " " * (len(line) - len(body)) + clean(body)


def _result(state: RunState) -> Any:
    if state.result is None:
        return None
    value = state.result.value
    return value.result if type(value) is StopEvent else value


def _question_lines(store: Store, sight: Sight, store_part: list[str]) -> Iterator[str]:
    if sight.open:
        yield ""
        yield "Questions:"
    for request, is_answered in sight.open:
        asked = asked_of(store, sight, request, is_answered)
        yield from (f"  {line}" for line in question_lines(asked, store_part))


def _children_lines(store: Store, row: RunRow) -> Iterator[str]:
    children = store.journal.runs(parent=row.run_id)
    if children:
        yield ""
        yield "Children:"
        lines = [
            (clean(c.run_id), clean(c.workflow), status_words(store, c), f"{c.seq:,} ticks") for c in children[::-1]
        ]
        yield from (f"  {line}" for line in table(lines[:50]))
        if len(lines) > 50:
            yield f"  ... and {len(lines) - 50:,} more"


def _tick_words(seq: int, tick: AnyTick, before: RunState | None) -> tuple[str, str, str, str, str]:
    kind, step, event, keys = caption(tick, before)
    return _TICK.format(seq), clock(tick.at, "%H:%M:%S"), kind, clean(step), brief(f"{event} {keys}")


def show_json(store: Store, sight: Sight, store_part: list[str]) -> dict[str, Any]:
    """The same for programs."""
    state = sight.state
    found = run_json(store, sight.row)
    found["damage"] = sight.damage or None
    found["inbox"] = len(sight.inbox)
    found["requests"] = [asked_json(asked_of(store, sight, r, answered), store_part) for r, answered in sight.open]
    found["children"] = [run_json(store, child) for child in store.journal.runs(parent=sight.row.run_id)]
    if state is not None:
        failure = state.failure
        found["why"] = why_words(sight, state)
        found["result"] = plain(_result(state))
        found["failure"] = failure and {
            "step": state.spec.steps[state.failed_step].name if state.failed_step >= 0 else None,
            "type": failure.type,
            "message": failure.message,
            "traceback": failure.traceback,
        }
    found["last_ticks"] = [
        dict(zip(("kind", "step", "event", "keys"), caption(tick, before), strict=True)) | {"seq": seq, "at": tick.at}
        for seq, tick, before in sight.last
    ]
    return found


# requests


class Asked(Struct):
    """An open question."""

    run_id: str
    number: int
    workflow: str
    step: str
    question: Any
    schema: dict[str, Any] | None
    #: Unix seconds; None where the journal cannot be read.
    opened_at: float | None
    deadline: float | None
    is_answered: bool
    #: Why the driver refused the last answer; "" if it refused none.
    refused: str = ""
    #: Its run was imported, so nobody can answer it.
    is_imported: bool = False

    @property
    def id(self) -> str:
        return f"{self.run_id}:{self.number}"


def asked_of(store: Store, sight: Sight, request: Request, is_answered: bool) -> Asked:
    state = sight.state
    assert state is not None
    step = state.spec.steps[request.step].name if request.step >= 0 else ""
    try:
        schema = store._committer.schema(sight.row.run_id, request.id)
        refused = store._committer.refusal(sight.row.run_id, request.id)
    except WorkflowError:
        schema, refused = None, ""
    return Asked(
        sight.row.run_id, request.id, sight.row.workflow, step, request.question.value, schema,
        request.opened_at, request.due_at, is_answered, refused, is_imported(sight.holder.driver),
    )  # fmt: skip


def open_questions(store: Store) -> list[Asked]:
    """Those of all runs, by run and number, by the index of the store; the runs tell since when."""
    found: list[Asked] = []
    sights: dict[str, Sight] = {}
    for run_id, row in store.journal.waiting(kind="request"):
        if run_id not in sights:
            try:
                sights[run_id] = see(store, run_id)
            except RunNotFound:  # it was deleted just now, or its row is damaged
                continue
        sight = sights[run_id]
        known = next(((r, answered) for r, answered in sight.open if r.id == row.id), None)
        if known is not None:
            found.append(asked_of(store, sight, *known))
            continue
        try:
            question = store._committer.question(row).value
            schema = store._committer.schema(run_id, row.id)
        except JournalDamaged as error:
            question, schema = f"({error})", None
        imported = is_imported(sight.holder.driver)
        asked = Asked(
            run_id, row.id, sight.row.workflow, row.step, question, schema, None, row.due, False, "", imported
        )
        found.append(asked)
    return found


def question_lines(asked: Asked, store_part: list[str]) -> Iterator[str]:
    """A question, and the very command that answers it."""
    said = [clean(asked.id), f"{clean(asked.workflow)}, step {clean(asked.step)}"]
    if asked.opened_at is not None:
        said.append(f"open for {span(time.time() - asked.opened_at)}")
    if asked.deadline is not None:
        left = asked.deadline - time.time()
        said.append(f"deadline in {span(left)}" if left > 0 else f"deadline {span(-left)} ago")
    if asked.is_answered:
        said.append("answered, waits for its driver")
    yield "  ".join(said)
    yield f"  {question_of(asked.question)}"
    if asked.refused:
        yield f"  The last answer was refused: {clean(asked.refused)}"
    if asked.is_imported:
        yield "  Nobody can answer it: its run was imported."
    elif not asked.is_answered:
        yield f"  {words_of(command_for(asked.id, asked.schema, store_part))}"
        yield from (f"      {line}" for line in fields_of(asked.schema))


def asked_json(asked: Asked, store_part: list[str]) -> dict[str, Any]:
    return {
        "id": asked.id,
        "run": asked.run_id,
        "workflow": asked.workflow,
        "step": asked.step,
        "class": asked.question.key
        if isinstance(asked.question, UnknownEvent)
        else f"{type(asked.question).__module__}:{type(asked.question).__qualname__}",
        "question": plain(asked.question),
        "schema": asked.schema,
        "opened_at": asked.opened_at,
        "deadline": asked.deadline,
        "is_answered": asked.is_answered,
        "refused": asked.refused or None,
        "command": None if asked.is_imported else words_of(command_for(asked.id, asked.schema, store_part)),
    }
