"""The steps of a workflow by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping

from flownb.definition.steps import Step
from flownb.errors import near


class Steps(MutableMapping[str, Step]):
    """The steps of a workflow by name; `del flow.steps["find"]` takes one out."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._steps: dict[str, Step] = {}
        self._changed = changed

    def __getitem__(self, name: str) -> Step:
        if name not in self._steps:
            raise KeyError(f"There is no step {name!r}. {near(name, list(self._steps), 'There are')}")
        return self._steps[name]

    def __setitem__(self, name: str, step: Step) -> None:
        self._steps[name] = step
        self._changed()

    def __delitem__(self, name: str) -> None:
        del self._steps[name]
        self._changed()

    def __iter__(self) -> Iterator[str]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        return f"<steps {', '.join(self._steps) or 'none'}>"
