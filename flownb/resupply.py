"""Secrets of a stored run that only an earlier process knew: given again when the run is resumed (R4.50).

A `SecretStr` or `SecretBytes` is never written in plain text. Without a key that seals it (`FLOWNB_KEY`) a journal has
a mark in its place, so a run that still needs one cannot go on in another process until somebody gives it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr

from flownb.errors import LiveValueLost, WorkflowConfigurationError, near
from flownb.runtime.runner import Runner
from flownb.snapshot import outs_in
from flownb.store.drivers import is_gone
from flownb.store.marks import Lost
from flownb.store.snapshots import Taken

_SECRET = frozenset({"$secret", "$sealed"})


def resupply(runner: Runner, given: Mapping[str, Any] | None) -> None:
    """Put secrets in the places where the run needs them, before it is driven here.

    Args:
        runner: The run, as it was read from its store.
        given: `{"Login.password": "...", ...}`, by the names of class and field.

    Raises:
        LiveValueLost: Some are missing; names all of them.
        WorkflowConfigurationError: One was given that the run does not need.
    """
    places = list(_places(runner))
    secrets = dict(given or {})
    names = [name for name, _, _ in places]
    for name in secrets:
        if name not in names and given:
            raise WorkflowConfigurationError(
                f"Run {runner.run_id!r} needs no secret {name!r}. {near(name, names, 'It needs')}"
            )
    missing = dict.fromkeys(name for name in names if name not in secrets)
    if missing and not _is_driven_elsewhere(runner):
        example = ", ".join(f"{name!r}: ..." for name in missing)
        raise LiveValueLost(
            f"Run {runner.run_id!r} needs secrets that only the process which drove it before knew: "
            f"{', '.join(missing)}. Give them: flow.with_options(secrets={{{example}}}).resume({runner.run_id!r}). "
            "Runs that are started with FLOWNB_KEY in the environment have them sealed in the store.",
            run_id=runner.run_id,
            secrets=tuple(missing),
        )
    for name, model, field in places:
        if name in secrets:
            model.__dict__[field] = _secret(secrets[name])


def _places(runner: Runner) -> Iterator[tuple[str, BaseModel, str]]:
    """Name, model and field of each secret that is lost and stands in what is still alive."""
    for out in outs_in(Taken(runner.state)):
        model = out.value
        if isinstance(model, BaseModel):
            for field, value in model.__dict__.items():
                if isinstance(value, Lost) and value._tag in _SECRET:
                    yield f"{type(model).__name__}.{field}", model, field


def _secret(value: Any) -> Any:
    if isinstance(value, str):
        return SecretStr(value)
    return SecretBytes(value) if isinstance(value, bytes) else value


def _is_driven_elsewhere(runner: Runner) -> bool:
    """Whether a live process drives the run: it has what it needs."""
    assert runner.stored is not None
    committer = runner.stored.committer
    driver = committer.journal.holder(runner.run_id).driver
    return bool(driver) and driver != committer.driver and not is_gone(driver)


__all__ = ["resupply"]
