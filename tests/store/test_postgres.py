"""What is PostgreSQL's own: its connection, schemas, poolers, errors."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flownb.core.ticks import GateClosed, GateOpened
from flownb.errors import JournalDamaged, LeaseLost, NotStorable, WorkflowConfigurationError, WorkflowRuntimeError
from flownb.store import postgres as module
from flownb.store import sql
from flownb.store.codec import Codec
from flownb.store.journal import Append, Waits
from flownb.store.postgres import PostgresJournal
from flownb.store.schema import FORMAT
from tests.postgres import Server
from tests.store.samples import run_of

ROOT = Path(__file__).resolve().parents[2]
Open = Callable[[], PostgresJournal]


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


@pytest.fixture
def open_store(url: str, codec: Codec) -> Iterator[Open]:
    opened: list[PostgresJournal] = []

    def open_one() -> PostgresJournal:
        opened.append(PostgresJournal(url, codec))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def admin(store: PostgresJournal, statement: str) -> list[Any]:
    """The rows of a statement, by a connection of its own, in the store's schema."""
    with psycopg.connect(store._url, autocommit=True) as connection:
        connection.execute(f'SET search_path = "{store.schema}"')
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def break_after(store: PostgresJournal, words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the connection break once, after a statement was done and before anybody learns of it."""
    broken: list[str] = []
    run = store._run

    def running(statement: str, parameters: Any = ()) -> Any:
        cursor = run(statement, parameters)
        if words in statement and not broken:
            broken.append(statement)
            store._db.execute("COMMIT")  # type: ignore[union-attr]
            store._db.close()  # type: ignore[union-attr]
            raise psycopg.OperationalError("the connection is lost")
        return cursor

    monkeypatch.setattr(store, "_run", running)
    return broken


# The connection.


def test_a_server_that_was_started_again_is_found_again(open_store: Open, postgres: Server):
    """The first call after it opens a new connection and goes on at the same tick; while it is down each says so."""
    store = open_store()
    store.append([Append("r", 0, run_of(2), "running", 1, "d")])
    postgres.stop()
    try:
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(WorkflowRuntimeError, match="cannot be"):
                store.append([Append("r", 2, [GateClosed(9.0)], "running", 1)])
            assert time.monotonic() - began < 5
    finally:
        postgres.start()
    deadline = time.monotonic() + 20
    while True:
        try:
            store.append([Append("r", 2, [GateClosed(9.0)], "running", 1)])
            break
        except WorkflowRuntimeError:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    assert store.read("r") == [*run_of(2), GateClosed(9.0)]


def test_a_server_that_closed_the_connection_costs_nothing(open_store: Open):
    """An administrator, or a limit for idle connections: the call is done on a new one."""
    store = open_store()
    store.append([Append("r", 0, run_of(2), "running", 1, "d")])
    pid = store._db.info.backend_pid  # type: ignore[union-attr]
    assert admin(store, f"SELECT pg_terminate_backend({pid})") == [(True,)]
    store.append([Append("r", 2, [GateClosed(9.0)], "running", 1)])

    assert store.last_seq("r") == 3


@pytest.mark.parametrize("status", ["running", "paused"])
def test_an_append_whose_acknowledgement_was_lost_is_written_once(
    open_store: Open, monkeypatch: pytest.MonkeyPatch, status: str
):
    """Its own rows are found at its seq: success, in one statement as in a transaction."""
    store = open_store()
    store.append([Append("r", 0, run_of(2), "running", 1, "d")])
    broken = break_after(store, "INSERT INTO journal", monkeypatch)
    store.append([Append("r", 2, [GateClosed(9.0)], status, 1)])
    assert len(broken) == 1
    store.append([Append("r", 3, [GateOpened(9.5)], status, 1)])

    assert store.read("r", 3) == [GateClosed(9.0), GateOpened(9.5)]


def test_an_entry_whose_acknowledgement_was_lost_lies_there_once(open_store: Open, monkeypatch: pytest.MonkeyPatch):
    """And is not taken for somebody else's of the same key."""
    store = open_store()
    store.append([Append("r", 0, run_of(2), "running", 1, "d")])
    broken = break_after(store, "INSERT INTO inbox", monkeypatch)
    n = store.put("r", GateClosed(9.0), key="k")

    assert len(broken) == 1
    assert [entry.n for entry in store.inbox(["r"])] == [n]
    assert store.put("r", GateClosed(9.0), key="k") == 0


def test_a_claim_whose_acknowledgement_was_lost_is_one_claim(open_store: Open, monkeypatch: pytest.MonkeyPatch):
    """The driver holds the run already."""
    store = open_store()
    store.append([Append("r", 0, run_of(2), "waiting")])
    break_after(store, "INSERT INTO drivers", monkeypatch)

    assert store.claim("r", "e", 60).epoch == 1
    assert store.holder("r")[:2] == ("e", 1)


def test_a_driver_that_lost_its_run_while_the_server_was_away_is_told(open_store: Open):
    """R5.9: the call that is tried again looks at the epoch, too."""
    one, two = open_store(), open_store()
    one.append([Append("r", 0, run_of(2), "running", 1, "d")])
    two.claim("r", "e", 60)
    one._db.close()  # type: ignore[union-attr]

    with pytest.raises(LeaseLost):
        one.append([Append("r", 2, [GateClosed(9.0)], "running", 1)])


@pytest.mark.parametrize("status", ["running", "paused"])
def test_an_append_that_waits_for_a_claim_sees_what_came_of_it(open_store: Open, status: str):
    """R5.8: the epoch is looked at under the lock, not as it was when the statement began."""
    store = open_store()
    store.append([Append("r", 0, run_of(2), "running", 1, "d")])
    told: list[type[BaseException]] = []

    def append() -> None:
        try:
            store.append([Append("r", 2, [GateClosed(9.0)], status, 1)])
        except LeaseLost as error:
            told.append(type(error))

    thread = threading.Thread(target=append)
    with psycopg.connect(store._url) as other:
        other.execute(f"UPDATE \"{store.schema}\".runs SET driver = 'e', epoch = 2")
        thread.start()
        deadline = time.monotonic() + 20
        while not admin(store, "SELECT 1 FROM pg_locks WHERE NOT granted") and time.monotonic() < deadline:
            time.sleep(0.01)
        assert thread.is_alive()
    thread.join()

    assert told == [LeaseLost]
    assert store.last_seq("r") == 2


def test_a_lock_that_does_not_come_is_not_waited_for_long(open_store: Open, monkeypatch: pytest.MonkeyPatch):
    """The thread that drives all runs waits here; nothing was written, and the same append works later."""
    monkeypatch.setitem(module.LIMITS, "lock_timeout", "100")
    store = open_store()
    store.append([Append("r", 0, run_of(2), "running", 1, "d")])
    with psycopg.connect(store._url) as other:
        other.execute(f'SELECT 1 FROM "{store.schema}".runs FOR UPDATE')
        for status in ("running", "paused"):
            with pytest.raises(WorkflowRuntimeError, match="lock timeout"):
                store.append([Append("r", 2, [GateClosed(9.0)], status, 1)])
    store.append([Append("r", 2, [GateClosed(9.0)], "paused", 1)])

    assert store.last_seq("r") == 3


def test_a_connection_that_changes_behind_a_pooler_is_no_fault(open_store: Open):
    """PgBouncer by transaction: what was prepared is not there, and nothing is prepared from then on."""
    store = open_store()
    store.append([Append("r", 0, run_of(2), "running", 1, "d")])
    for _ in range(2):
        for _ in range(module.PREPARE_AT + 2):
            store.append([Append("r", store.last_seq("r"), [GateClosed(9.0)], "running", 1)])
        store._db.pgconn.exec_(b"DEALLOCATE ALL")  # type: ignore[union-attr]
    store.append([Append("r", store.last_seq("r"), [GateClosed(9.0)], "running", 1)])

    assert store.last_seq("r") == 3 + 2 * (module.PREPARE_AT + 2)
    assert store._db.prepare_threshold is None  # type: ignore[union-attr]


def test_two_transactions_that_wait_for_each_other_are_both_done(open_store: Open):
    """Rows are locked in one order whatever the order of a group; by many threads no call fails."""
    stores = [open_store() for _ in range(3)]
    ids = [f"r{i}" for i in range(6)]
    stores[0].append([Append(run_id, 0, run_of(1, run_id), "running") for run_id in ids])
    failed: list[Exception] = []

    def answer(store: PostgresJournal, shift: int) -> None:
        try:
            for i in range(40):
                order = ids[shift:] + ids[:shift] if i % 2 else ids[::-1]
                store.claim(order[0], f"d{shift}", 0.001)
                store.put(order[1], GateClosed(1.0))
                store.release(f"d{shift}")
                store.delete([f"gone {shift}", order[2] + "x"])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=answer, args=(store, shift)) for shift, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert len(stores[0].inbox(ids)) == 120


def test_a_store_that_hears_nothing_looks_now_and_then(open_store: Open, monkeypatch: pytest.MonkeyPatch):
    """NOTIFY does not pass a pooler: `version` moves by itself, not at every look."""
    monkeypatch.setattr(module, "POLL_S", 0.2)
    store = open_store()
    monkeypatch.setattr(store, "_hear", lambda: None)
    began, seen = time.monotonic(), set()
    while time.monotonic() - began < 0.7:
        seen.add(store.version())
        time.sleep(0.005)

    assert 2 <= len(seen) <= 5


def test_a_listener_that_broke_is_made_again(open_store: Open, monkeypatch: pytest.MonkeyPatch):
    """And what came meanwhile is looked for."""
    monkeypatch.setattr(module, "POLL_S", 1e9)
    store, other = open_store(), open_store()
    store.append([Append("r", 0, run_of(2), "running")])
    before = store.version()
    admin(store, f"SELECT pg_terminate_backend({store._listener.info.backend_pid})")  # type: ignore[union-attr]
    other.put("r", GateClosed(1.0))
    deadline = time.monotonic() + 10
    while store.version() == before and time.monotonic() < deadline:
        time.sleep(0.01)
    heard = store.version()
    assert heard > before
    other.put("r", GateClosed(1.0))
    while store.version() == heard and time.monotonic() < deadline:
        time.sleep(0.01)

    assert store.version() > heard


# Names and places.


def test_the_place_shows_no_password(open_store: Open, postgres: Server, codec: Codec):
    """Nor does any error."""
    store = open_store()
    assert store.place == f"postgresql://127.0.0.1:{postgres.port}/postgres?schema={store.schema}"
    store.close()
    places = [
        "postgresql://flow:sesame@127.0.0.1:1/postgres?connect_timeout=2",
        "postgresql://flow:sesame@127.0.0.1:no/postgres",
        "postgresql://flow:ses%ame@127.0.0.1/postgres",
        "postgresql://flow:sesame@127.0.0.1/postgres?what=sesame",
        f"{postgres.url()}&options=-cwork_mem%3Dsesame",
        f"{postgres.url().replace('/postgres?', '/nothing?')}",
        "postgresql://flow@127.0.0.1:1/postgres?password=sesame",
        "postgresql://flow:sesame@127.0.0.1/postgres?schema=a%22b",
    ]
    for place in places:
        with pytest.raises(WorkflowConfigurationError) as refused:
            PostgresJournal(place, codec)
        if "work_mem" not in place:  # there it is a setting, which the server names
            assert "sesame" not in f"{refused.value} {vars(refused.value)}"


def test_stores_of_one_database_are_apart(new_url: Callable[[], str], codec: Codec):
    """Each has a schema of its own, and leaves the others' tables alone."""
    one, two = (PostgresJournal(new_url(), codec) for _ in range(2))
    one.append([Append("r", 0, run_of(2))])

    assert (one.last_seq("r"), two.last_seq("r")) == (2, 0)
    assert one.secret() != two.secret()
    assert admin(one, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    one.close()
    two.close()


def test_processes_that_make_one_store_at_once_agree(url: str, codec: Codec):
    """The tables are made once, whoever comes first."""
    made: list[bytes] = []

    def make() -> None:
        store = PostgresJournal(url, codec)
        made.append(store.secret())
        store.close()

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 6 and len(set(made)) == 1


def test_a_newer_format_is_refused(open_store: Open):
    """In words that say what to do; so are tables of something else."""
    store = open_store()
    admin(store, f"UPDATE meta SET value = '{FORMAT + 1}'")
    with pytest.raises(WorkflowConfigurationError, match=r"newer flownb .* update flownb"):
        open_store()
    admin(store, "DELETE FROM meta")
    with pytest.raises(WorkflowConfigurationError, match="something else"):
        open_store()


@pytest.mark.parametrize("run_id", ["a'b; DROP TABLE runs --", "", "日本/..", "%s ?1 :a $1", "100%"])
def test_a_hostile_run_id_is_only_a_name(open_store: Open, run_id: str):
    """Ids are parameters, never text of a statement; a percent sign is none of psycopg's."""
    store = open_store()
    store.append([Append(run_id, 0, run_of(2, run_id), opened=[Waits("timer", 1, 5.0, "100%")])])

    assert store.read(run_id) == run_of(2, run_id)
    assert [row.run_id for row in store.runs()] == [run_id]
    assert store.waiting() == [(run_id, Waits("timer", 1, 5.0, "100%"))]


@pytest.mark.parametrize("run_id", ["x\0y", "r\ud800"])
def test_a_name_that_postgresql_cannot_hold_is_refused(open_store: Open, run_id: str):
    """Nothing is written, and the connection is as good as before."""
    store = open_store()
    with pytest.raises(NotStorable):
        store.append([Append("r", 0, run_of(1)), Append(run_id, 0, run_of(1))])

    assert store.runs() == []


def test_texts_of_ticks_may_hold_anything(open_store: Open):
    """They stand in bytes: NUL and lone surrogates come back."""
    ticks = [*run_of(1), GateClosed(2.0, by="\0 \ud800 %s")]
    store = open_store()
    store.append([Append("r", 0, ticks)])

    assert store.read("r") == ticks


def test_lists_have_one_order_whatever_the_language_of_the_database(open_store: Open):
    """Bytes of ids, as in the other stores."""
    ids = ["b", "B", "a-c", "ab", "ä", "Z"]
    store = open_store()
    store.append([Append(run_id, 0, run_of(1, run_id), opened=[Waits("timer", 1)]) for run_id in ids])

    assert [run_id for run_id, _ in store.waiting()] == [row.run_id for row in store.runs()] == sorted(ids)


@pytest.mark.parametrize(
    ("damage", "seq"),
    [
        ("DELETE FROM journal WHERE seq = 2", 2),
        ("UPDATE journal SET seq = 9 WHERE seq = 3", 3),
        ("UPDATE journal SET kind = 'Nothing' WHERE seq = 2", 2),
        ("UPDATE journal SET body = 'oops' WHERE seq = 3", 3),
        ("UPDATE journal SET at = 'NaN' WHERE seq = 2", 2),
    ],
)
def test_a_damaged_row_is_named(open_store: Open, damage: str, seq: int):
    """C113: run, seq and reason, as of a file."""
    store = open_store()
    store.append([Append("r", 0, run_of(4))])
    admin(store, damage)

    with pytest.raises(JournalDamaged) as damaged:
        store.read("r")
    assert (damaged.value.run_id, damaged.value.seq) == ("r", seq)
    assert [row.status for row in store.runs()] == ["damaged"]


def test_a_closed_store_says_so(open_store: Open):
    """Closing twice is no error, using it afterwards is."""
    store = open_store()
    store.close()
    store.close()

    for use in (lambda: store.append([]), lambda: store.read("r"), store.runs, store.version):
        with pytest.raises(WorkflowRuntimeError, match="closed"):
            use()


def test_without_psycopg_it_says_what_to_install():
    """The engine itself does without."""
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from flownb.errors import WorkflowConfigurationError\n"
        "try: import flownb.store.postgres\n"
        "except WorkflowConfigurationError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "pip install 'flownb[postgres]'" in said


def test_no_statement_holds_a_percent_sign():
    """psycopg would take it for a parameter."""
    texts = [value for name, value in {**vars(sql), **vars(module)}.items() if name.isupper() and type(value) is str]
    texts += [*sql.DELETES, *(words for words, _ in sql.FILTERS.values())]

    assert len(texts) > 40
    assert not [text for text in texts if "%" in text]
