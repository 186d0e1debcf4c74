"""The form of a process that has not the class: its answer is one of the class, where the run is driven."""

import os
import subprocess
import sys
from pathlib import Path

FLOW = """
import datetime, enum, uuid
from typing import Annotated, Literal
from pydantic import BaseModel, Field
from flownb import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent, Workflow

class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"

class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9

class Dog(BaseModel):
    kind: Literal["dog"]
    born: datetime.date

class Answer(HumanResponseEvent):
    day: datetime.date
    id: uuid.UUID
    took: datetime.timedelta
    at: datetime.time
    when: datetime.datetime
    level: Level
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    ages: set[int]

class Ask(InputRequiredEvent[Answer]):
    prefix: str = "?"

flow = Workflow("elsewhere")

@flow.step
def ask(ev: StartEvent) -> Ask:
    return Ask()

@flow.step
def done(ev: Answer) -> StopEvent:
    return StopEvent(result=[type(value).__name__ for value in ev.__dict__.values()] + [ev.pet.born.year])
"""
BEGIN = """
import time
from flow import flow
run = flow.with_options(store="runs.db", host="thread").run(run_id="r1")
while not run.requests:
    time.sleep(0.01)
run.suspend()
"""
ANSWER = """
from flownb import Store
from flownb.forms.answers import AnswerType
run = Store("runs.db").run("r1")
(request,) = run.requests
asked = AnswerType(request.answer_type)
checked = asked.read({
    "day": "2026-12-24", "id": "12345678123456781234567812345678", "took": "01:30:00", "at": "18:30", "level": "high",
    "when": "2026-12-24 18:30 Europe/Berlin", "pet": {"": "dog", "born": "2020-01-02"}, "ages": ["1", "2"],
})
assert not checked.problems, checked.problems
request.answer(checked.answer, by="bob")
print(*[spec.kind for spec in asked.fields])
"""
END = """
from flow import flow
print(flow.with_options(store="runs.db", host="thread").resume("r1").result(timeout=30))
"""


def test_a_form_from_a_stored_schema_answers_the_class(tmp_path: Path) -> None:
    """R4.46: each kind of field, drawn from the schema in the store, gives what the class wants."""
    (tmp_path / "flow.py").write_text(FLOW)

    def ran(code: str) -> str:
        place = {"PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, **place},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    ran(BEGIN)
    assert ran(ANSWER) == "date text text time datetime choice tabs chips"
    assert ran(END) == "['date', 'UUID', 'timedelta', 'time', 'datetime', 'Level', 'Dog', 'set', 2020]"
