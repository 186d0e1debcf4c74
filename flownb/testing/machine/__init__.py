"""Any legal order of ticks, tried by Hypothesis: what must hold for every run, held.

After each tick: `invariants.broken` is empty; time does not run backwards; what the commands put into a driver's
hands is what the state owes; a late tick changes nothing but a count. At the end: replay equals live, at the last
tick and at random ones; and the run can be driven to its end, by this driver, by another one or as a fork, with the
same result.

    python -m flownb.testing.machine 5000      # that many runs

The rules stand by family: `stepping`, `waits`, `life`; `flows` holds what runs are made of.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from flownb.testing.machine.life import Life
from flownb.testing.machine.plain import ended
from flownb.testing.machine.stepping import Stepping
from flownb.testing.machine.waits import Waits

__all__ = ["RunMachine", "check", "ended"]


class RunMachine(Stepping, Waits, Life):
    """One run, and all that may happen to it."""


def check(runs: int, *, steps: int = 80, shrink: bool = True) -> None:
    """Try so many runs, of so many rules at most; a broken one is shown as short as it can be made."""
    run_state_machine_as_test(
        RunMachine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=[phase for phase in Phase if shrink or phase is not Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
