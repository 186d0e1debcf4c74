"""The tables of a store, in one text for SQLite and PostgreSQL, and how older ones become these.

Words in braces are the few that differ: `{text}` is compared byte by byte in both, so that lists have one order, and a
float has eight bytes in both.
"""

from __future__ import annotations

from collections.abc import Mapping

#: 1: journal and runs of SQLite alone. 2: drivers, inbox, waiting, tokens, checkpoints, meta; sums; more columns of
#: runs.
FORMAT = 2

NAMES = ("journal", "runs", "drivers", "inbox", "waiting", "tokens", "checkpoints", "meta")

_JOURNAL = """
CREATE TABLE journal (
    run_id {text} NOT NULL,
    seq    BIGINT NOT NULL CHECK (seq > 0),
    at     DOUBLE PRECISION NOT NULL,
    kind   {text} NOT NULL,
    body   {blob} NOT NULL,
    -- Of this tick and all before it (`sums.py`); NULL in rows of format 1.
    sum    BIGINT,
    PRIMARY KEY (run_id, seq)
)
"""
_RUNS = """
CREATE TABLE runs (
    run_id     {text} NOT NULL PRIMARY KEY,
    workflow   {text} NOT NULL,
    -- Empty where nobody told it: it is then folded from the journal when asked for.
    status     {text} NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    key        {text} NOT NULL DEFAULT '',
    hash       {text} NOT NULL DEFAULT '',
    parent     {text} NOT NULL DEFAULT '',
    notebook   {text} NOT NULL DEFAULT '',
    -- Empty: nobody.
    driver     {text} NOT NULL DEFAULT '',
    epoch      BIGINT NOT NULL DEFAULT 0,
    -- Of a run that is over: its status, and number and sum of its last tick. The status is believed only with it.
    ending     {text} NOT NULL DEFAULT ''
)
"""
_MORE_OF_FIRST = (
    "ALTER TABLE journal ADD COLUMN sum BIGINT",
    "ALTER TABLE runs ADD COLUMN key {text} NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN hash {text} NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN parent {text} NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN notebook {text} NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN driver {text} NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE runs ADD COLUMN ending {text} NOT NULL DEFAULT ''",
    """
UPDATE runs SET ending = status || ' ' || (SELECT max(seq) FROM journal WHERE journal.run_id = runs.run_id) || ' '
WHERE status IN ('completed', 'failed', 'timed_out', 'cancelled')
AND EXISTS (SELECT 1 FROM journal WHERE journal.run_id = runs.run_id)
""",
)
_SECOND = (
    # A list of runs has the newest first, whatever it is narrowed to.
    "CREATE INDEX runs_by_time ON runs (started_at)",
    "CREATE INDEX runs_by_status ON runs (status, started_at)",
    "CREATE INDEX runs_by_workflow ON runs (workflow, started_at)",
    "CREATE INDEX runs_by_key ON runs (key, started_at)",
    "CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> ''",
    "CREATE INDEX runs_by_notebook ON runs (notebook, started_at) WHERE notebook <> ''",
    "CREATE INDEX runs_by_driver ON runs (driver) WHERE driver <> ''",
    """
CREATE TABLE drivers (
    driver      {text} NOT NULL PRIMARY KEY,
    -- Unix seconds by the store's clock.
    lease_until DOUBLE PRECISION NOT NULL
)
""",
    """
CREATE TABLE inbox (
    n      {serial},
    run_id {text} NOT NULL,
    key    {text} NOT NULL,
    at     DOUBLE PRECISION NOT NULL,
    kind   {text} NOT NULL,
    body   {blob} NOT NULL,
    sum    BIGINT NOT NULL
)
""",
    "CREATE INDEX inbox_by_run ON inbox (run_id, n)",
    "CREATE UNIQUE INDEX inbox_by_key ON inbox (run_id, key) WHERE key <> ''",
    """
CREATE TABLE waiting (
    run_id {text} NOT NULL,
    kind   {text} NOT NULL,
    id     BIGINT NOT NULL,
    due    DOUBLE PRECISION,
    step   {text} NOT NULL,
    body   {blob} NOT NULL,
    PRIMARY KEY (run_id, kind, id)
)
""",
    "CREATE INDEX waiting_by_due ON waiting (due) WHERE due IS NOT NULL",
    "CREATE INDEX waiting_by_kind ON waiting (kind, run_id, id)",
    """
CREATE TABLE tokens (
    hash    {text} NOT NULL PRIMARY KEY,
    run_id  {text} NOT NULL,
    request BIGINT NOT NULL
)
""",
    "CREATE INDEX tokens_by_run ON tokens (run_id)",
    """
CREATE TABLE checkpoints (
    run_id {text} NOT NULL,
    seq    BIGINT NOT NULL,
    body   {blob} NOT NULL,
    sum    BIGINT NOT NULL,
    PRIMARY KEY (run_id, seq)
)
""",
    "CREATE TABLE meta (key {text} NOT NULL PRIMARY KEY, value {blob} NOT NULL)",
)


def statements(found: int, words: Mapping[str, str]) -> list[str]:
    """What makes the tables of `FORMAT` of those of an older one; 0 is none.

    Args:
        found: The format of the tables that are there.
        words: What stands for the words in braces.
    """
    made = {0: (_JOURNAL, _RUNS, *_SECOND), 1: (*_MORE_OF_FIRST, *_SECOND)}[found]
    return [statement.format_map(words) for statement in made]
