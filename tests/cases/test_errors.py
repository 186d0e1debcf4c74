"""Cases of the tag *errors*: what a person reads when something went wrong."""

import traceback
from typing import Any

import pytest

from flownb import StartEvent, StopEvent, Workflow


class Start(StartEvent):
    pass


def deeper() -> None:
    deepest()


def deepest() -> None:
    raise ValueError("x") from KeyError("y")


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_c135_the_users_error_arrives_as_it_is(kind: str):
    flow = Workflow[Any]("raises")
    if kind == "async":

        @flow.step
        async def work(ev: Start) -> StopEvent:
            deeper()
            return StopEvent()
    else:

        @flow.step
        def work(ev: Start) -> StopEvent:
            deeper()
            return StopEvent()

    run = flow.run()
    for _ in range(2):
        with pytest.raises(ValueError, match="x") as caught:
            run.result(20)
        error = caught.value
        assert type(error) is ValueError
        assert isinstance(error.__cause__, KeyError)
        assert [f.name for f in traceback.extract_tb(error.__traceback__)][-3:] == ["work", "deeper", "deepest"]
        assert len(error.__notes__) == 1
        assert "'work'" in error.__notes__[0]
