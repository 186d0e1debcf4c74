"""A run that loses its driver and gets another one, in this process."""

from typing import Any


def restart(run: Any) -> None:
    """Stop driving a run and go on with it: the coroutines of its steps are gone, its state is not."""
    run.suspend(drain=0).result(20)
    assert run.status == "suspended"
    run.workflow.resume(run.run_id)
