"""When a step that gathers a fan-out fires, written beside its hint.

    @flow.step
    def fastest(ev: Annotated[list[Offer], Take(1, cancel_rest=True)]) -> StopEvent: ...

A bare `list[Offer]` waits for every branch. `Collect(Take(3))` says the same as `Take(3)`.
"""

from __future__ import annotations

from msgspec import Struct

from flownb.errors import WorkflowConfigurationError


class All(Struct, frozen=True):
    """Fire when every branch is finished, as without any word."""


class Take(Struct, frozen=True):
    """Fire at the n-th arrival; with fewer, if every branch is finished before.

    Args:
        n: How many, at least 1.
        cancel_rest: End the other branches then, with their waits and questions. Without it they go on, and what they
            still send to this step is not taken.

    Raises:
        WorkflowConfigurationError: `n` is no whole number above 0.
    """

    n: int
    cancel_rest: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise WorkflowConfigurationError(f"Take({self.n!r}): give a whole number above 0.")


class Collect(Struct, frozen=True):
    """Another spelling: `Annotated[list[Offer], Collect(Take(1))]`."""

    #: `All()` or `Take(n)`.
    cardinality: All | Take = All()

    def __post_init__(self) -> None:
        if not isinstance(self.cardinality, (All, Take)):
            raise WorkflowConfigurationError(f"Collect({self.cardinality!r}): give All() or Take(n).")


__all__ = ["All", "Collect", "Take"]
