"""Secrets of stored runs: never in plain text, given again on resume or sealed (R4.50)."""

from pathlib import Path

import pytest
from pydantic import SecretStr

import flownb.runs
import flownb.starting
from flownb import Context, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Store, Workflow, step
from flownb.errors import AnswerInvalid, LiveValueLost, WorkflowConfigurationError
from tests.polling import wait_for_questions

KEY = "WkdUd1Z5b2hMcE9rS2J5bXNGdzB2dG9QbnhRc0R5a2E="


class Login(StartEvent):
    user: str
    password: SecretStr


class Pin(HumanResponseEvent):
    pin: SecretStr


class AskPin(InputRequiredEvent[Pin]):
    pass


class Door(Workflow[str]):
    @step
    async def open(self, ev: Login, ctx: Context) -> StopEvent:
        pin = await ctx.ask(AskPin())
        await ctx.ask("Now?", bool)
        return StopEvent(result=f"{ev.user} {ev.password.get_secret_value()} {pin.pin.get_secret_value()}")


def _begun(store: Store) -> None:
    """A run that waits with two secrets, as another process left it."""
    run = Door().with_options(store=store, host="thread").run(run_id="door", user="ann", password="hunter2")
    wait_for_questions(run)
    run.answer(pin="0815")
    wait_for_questions(run, numbers=[2])
    run.suspend(0).result(5)
    store.close()
    flownb.starting.known.clear()
    flownb.starting.resting.clear()


def test_a_resume_names_the_secrets_that_it_needs_and_takes_them(tmp_path: Path):
    """Nothing is run before all of them are there."""
    _begun(Store(tmp_path / "runs.db"))
    store = Store(tmp_path / "runs.db")
    flow = Door()
    with pytest.raises(LiveValueLost, match=r"Login\.password, Pin\.pin.*with_options\(secrets=") as caught:
        flow.with_options(store=store).resume("door")
    assert caught.value.secrets == ("Login.password", "Pin.pin")
    with pytest.raises(WorkflowConfigurationError, match=r"Did you mean 'Login\.password'"):
        flow.with_options(store=store, secrets={"Login.pasword": "x"}).resume("door")
    given = {"Login.password": "hunter2", "Pin.pin": SecretStr("0815")}
    run = flow.with_options(store=store, secrets=given, host="thread").resume("door")
    run.answer(True)
    assert run.result(20) == "ann hunter2 0815"
    store.close()
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert b"hunter2" not in written.replace(b"ann hunter2 0815", b"")  # the result is the step's own doing
    assert b'"0815"' not in written


def test_with_a_key_they_are_sealed_and_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLOWNB_KEY", KEY)
    _begun(Store(tmp_path / "runs.db"))
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert b"hunter2" not in written
    assert b"0815" not in written
    store = Store(tmp_path / "runs.db")
    run = Door().with_options(store=store, host="thread").resume("door")
    run.answer(True)
    assert run.result(20) == "ann hunter2 0815"
    store.close()


def test_a_secret_answer_from_another_process_is_refused_where_it_would_be_lost(tmp_path: Path):
    """Not accepted and then lost; in plain text it is in no inbox."""
    store = Store(tmp_path / "runs.db")
    run = Door().with_options(store=store, host="thread").run(run_id="door", user="ann", password="hunter2")
    wait_for_questions(run)
    other = Store(tmp_path / "runs.db")
    flownb.starting.known.pop((store, "door"))
    with pytest.raises(AnswerInvalid, match="FLOWNB_KEY"):
        other.run("door").answer(pin="4711")
    run.answer(pin="0815")
    wait_for_questions(run, numbers=[2])
    run.answer(True)
    assert run.result(20).endswith("0815")
    other.close()
    store.close()
    assert b"4711" not in b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
