"""A run that loses its driver and gets another one, in this process; and runs that other tests left open."""

from typing import Any

from flownb.core.ticks import CancelRequested
from flownb.runtime import host
from tests.polling import wait_until


def restart(run: Any) -> None:
    """Stop driving a run and go on with it: the coroutines of its steps are gone, its state is not."""
    run.suspend(drain=0).result(20)
    assert run.status == "suspended"
    run.workflow.resume(run.run_id)


def end_all_runs() -> None:
    """End what other tests left open on the engine's thread, for a test of something that the process has once."""
    host._let_go_of_closed_loops()
    engine = host.engine()
    for runner in list(engine.runners):
        engine.call(runner.put, CancelRequested(0.0))
    wait_until(lambda: not engine.runners)
