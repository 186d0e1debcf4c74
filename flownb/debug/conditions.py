"""Conditions of the user's: functions of a `Moment`, or expressions in the user's own names."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Any

from flownb.core.state import RunState
from flownb.core.ticks import AnyTick
from flownb.core.values import Out
from flownb.definition import Definition
from flownb.errors import WorkflowConfigurationError
from flownb.moment import Moment
from flownb.runtime.results import shown
from flownb.runtime.runner import Runner
from flownb.state import DictState
from flownb.store.marks import UnknownEvent

When = Callable[[Moment], Any] | str

_given_names: ContextVar[Mapping[str, Any] | None] = ContextVar("flownb_given_names", default=None)


@contextmanager
def in_names_of(names: Mapping[str, Any]) -> Generator[None, None, None]:
    """Expressions that are given inside mean these names: whoever clicks calls from no place that has some."""
    token = _given_names.set(names)
    try:
        yield
    finally:
        _given_names.reset(token)


class Condition:
    """A function, or an expression over `event`, `state` and `tick` that is compiled once.

    It lives in this process alone: no journal has it, and no replay asks it (R5.27).

    Args:
        given: The function or the expression.
        word: What it was given as, for the errors.

    Raises:
        WorkflowConfigurationError: It is neither, or no expression.
    """

    def __init__(self, given: When, word: str = "when") -> None:
        self.text = given if isinstance(given, str) else str(getattr(given, "__name__", given))
        self._call: Callable[[Moment], Any] | None = None
        self._code: CodeType | None = None
        self._names: tuple[Mapping[str, Any], Mapping[str, Any]] = {}, {}
        #: It speaks of the event, so it says nothing of what carries none.
        self.needs_event = False
        if isinstance(given, str):
            try:
                tree = ast.parse(given.strip(), f"<{word}>", "eval")
                self._code = compile(tree, f"<{word}>", "eval")
            except (SyntaxError, ValueError) as error:
                raise WorkflowConfigurationError(
                    f"{word}={given!r} is no expression: {error}. It sees event, state and tick: {word}='event.no > 3'."
                ) from None
            self.needs_event = any(isinstance(node, ast.Name) and node.id == "event" for node in ast.walk(tree))
            self._names = _names_of_the_caller()
        elif callable(given):
            self._call = given
        else:
            raise WorkflowConfigurationError(f"{word} takes a function of a Moment or an expression, not {given!r}.")

    def holds(self, runner: Runner, state: RunState, before: RunState | None, tick: AnyTick, out: Out | None) -> bool:
        """Whether it is met; raises what it raises.

        Args:
            runner: Of the run.
            state: What it sees: before the tick, or after it.
            before: The state before that one, if it is known.
            tick: The tick that is looked at.
            out: The event that is looked at, if any.
        """
        moment = Moment(state, before, tick, (*runner.control, *runner.inbox)) if self._call is not None else None
        return bool(self.value(runner.definition, moment, state, tick, out))

    def value(
        self, definition: Definition, moment: Moment | None, state: RunState, tick: AnyTick, out: Out | None
    ) -> Any:
        """What it says; raises what it raises.

        Args:
            definition: Of the run: an event is shown as the newest class of its name.
            moment: What a function is given; an expression needs none.
            state: What an expression sees.
            tick: The tick that is looked at.
            out: The event that is looked at, if any.
        """
        if self._call is not None:
            assert moment is not None
            return self._call(moment)
        assert self._code is not None
        outer, inner = self._names
        seen = {
            "event": _readable(shown(out, definition)) if out is not None else None,
            "state": DictState({name: held.value for name, held in state.user.items()}),
            "tick": tick,
        }
        return eval(self._code, {**outer, **inner, **seen})


def _readable(event: Any) -> Any:
    """An event whose class this process does not know is read by the names of its fields all the same."""
    fields = event.plain() if isinstance(event, UnknownEvent) else None
    return DictState(fields) if isinstance(fields, dict) else event


def _names_of_the_caller() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The global names of whoever calls flownb, as they will be then, and the local ones as they are now."""
    given = _given_names.get()
    if given is not None:
        return given, {}
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("flownb."):
        frame = frame.f_back
    is_module = frame.f_locals is frame.f_globals
    return frame.f_globals, {} if is_module else dict(frame.f_locals)
