"""Past states of stored runs: by the last checkpoint and the ticks after it, and without any as well (DESIGN §4)."""

from pathlib import Path

import pytest

from flownb import Event, Run, StartEvent, StopEvent, Store, Workflow, step
from flownb.core.reduce import fold
from flownb.errors import RunNotFound
from flownb.runtime import stored as place


class Link(Event):
    left: int


class Chain(Workflow[int]):
    @step
    async def begin(self, ev: StartEvent) -> Link:
        return Link(left=120)

    @step
    async def go_on(self, ev: Link) -> Link | StopEvent:
        return Link(left=ev.left - 1) if ev.left else StopEvent(result=7)


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A run of 123 ticks, with a checkpoint after every 20 of ticks and events."""
    monkeypatch.setattr(place, "WORK", 20)
    store = Store(tmp_path / "runs.db")
    run: Run[int] = Chain().with_options(store=store).run(run_id="long")
    assert run.result(20) == 7
    return store


def _read(store: Store, seq: int, monkeypatch: pytest.MonkeyPatch) -> tuple[object, int]:
    """The state at a tick, and how many ticks were read for it."""
    counted: list[int] = []
    real = type(store.journal).read

    def read(self: object, run_id: str, start: int = 1, stop: int | None = None) -> list[object]:
        found = real(self, run_id, start, stop)  # type: ignore[arg-type]
        counted.append(len(found))
        return found  # type: ignore[return-value]

    with monkeypatch.context() as patch:
        patch.setattr(type(store.journal), "read", read)
        return store.at("long", seq)._state, sum(counted)


@pytest.mark.parametrize("seq", [1, 2, 19, 20, 21, 60, 61, 122, 123])
def test_the_state_at_a_tick_is_the_fold_and_only_the_last_ticks_are_read(
    stored: Store, seq: int, monkeypatch: pytest.MonkeyPatch
):
    state, read = _read(stored, seq, monkeypatch)
    assert state == fold(stored.history("long", 1, seq))
    assert read <= 11
    moment = stored.at("long", seq)
    assert moment.seq == seq
    assert moment.tick == stored.history("long")[seq - 1]


def test_without_checkpoints_and_with_damaged_ones_it_is_the_same(stored: Store, monkeypatch: pytest.MonkeyPatch):
    """They are an economy."""
    expected = fold(stored.history("long", 1, 100))
    at, body = stored.journal.checkpoint("long", 99) or (0, b"")
    assert 89 <= at <= 99
    for wrong in (b"", b"{", body[: len(body) // 2], body.replace(b'"steps":', b'"stebs":'), b'{"flownb":99}'):
        stored.journal.put_checkpoint("long", at, wrong)
        state, read = _read(stored, 100, monkeypatch)
        assert state == expected
        assert 10 <= read <= 21  # by the one before
    stored.journal.drop_checkpoints()
    state, read = _read(stored, 100, monkeypatch)
    assert (state, read) == (expected, 100)


def test_ticks_and_runs_that_are_not_there_are_told(stored: Store):
    for seq in (0, 124):
        with pytest.raises(IndexError, match="ticks 1 to 123"):
            stored.at("long", seq)
    with pytest.raises(RunNotFound):
        stored.at("short", 1)
