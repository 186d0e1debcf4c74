"""What must not be called while a store is looked at."""

import builtins
import os
import pickle
import subprocess
from collections.abc import Callable
from typing import Any

import pytest


def set_traps(monkeypatch: pytest.MonkeyPatch, *more: tuple[Any, str]) -> list[str]:
    """Whatever a journal could want to run fails the test: commands, text as code, pickles.

    Args:
        monkeypatch: Takes them away again.
        more: Also these.

    Returns:
        What was called so far; it stays empty.
    """
    called: list[str] = []

    def trap(name: str) -> Callable[..., Any]:
        def refuse(*args: Any, **kwargs: Any) -> Any:
            called.append(name)
            raise AssertionError(f"a store ran {name}{args!r}")

        return refuse

    def but_for_text(name: str) -> Callable[..., Any]:
        run, refuse = getattr(builtins, name), trap(name)
        return lambda code, *args: refuse(code) if isinstance(code, (str, bytes)) else run(code, *args)

    for module, name in (
        (os, "system"), (os, "popen"), (subprocess, "Popen"), (pickle, "loads"), (pickle, "load"), *more,
    ):  # fmt: skip
        monkeypatch.setattr(module, name, trap(name))
    for name in ("eval", "exec"):  # hints of our own classes, and modules, are code already
        monkeypatch.setattr(builtins, name, but_for_text(name))
    return called
