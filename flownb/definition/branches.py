"""In which branches steps can run, as far as hints tell: under which fan-out, or under none."""

from __future__ import annotations

from flownb.core.spec import Spec, takers

#: Outside of every fan-out.
TOP = -1


class Branches:
    """Where each step may run, and each type be sent.

    A branch is named by the step whose list opened it. What the gathering steps of a fan-out send goes on in the
    branch that the fan-out itself ran in, so events are followed until nothing new is found.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._types = {t.key: t for t in spec.types}
        self._closed = [t.key for t in spec.types if t.role == "closed"]
        #: Per step the fan-outs in whose branches it may run.
        self.of_step: list[set[int]] = [set() for _ in spec.steps]
        #: Per type key the fan-outs in whose branches it may be sent.
        self.of_type: dict[str, set[int]] = {t.key: set() for t in spec.types}
        asked = {t.answer for t in spec.types if t.role == "request"}
        #: What is still to be followed: a type key or the index of a step, and its branch.
        self._todo: list[tuple[str | int, int]] = []
        for event in spec.types:
            is_outer = event.role == "engine" or (event.role == "answer" and event.key not in asked)
            if event.key == spec.start or event.key in spec.outside or is_outer:
                self._todo.append((event.key, TOP))
        while self._todo:
            what, branch = self._todo.pop()
            found = self.of_type[what] if isinstance(what, str) else self.of_step[what]
            if branch not in found:
                found.add(branch)
                (self._sent(what, branch) if isinstance(what, str) else self._ran(what, branch))

    def _sent(self, key: str, branch: int) -> None:
        event = self._types[key]
        if event.role == "request":
            self._todo += [(follows, branch) for follows in (event.answer, *self._closed) if follows]
        self._todo += [(i, branch) for i in takers(self._spec, key, event.role, event.bases)]

    def _ran(self, i: int, branch: int) -> None:
        step, joins = self._spec.steps[i], self._spec.joins[i]
        self._todo += [(key, branch) for key in step.returns]
        inner = i if joins else branch  # a list that nothing gathers opens no branches
        self._todo += [(key, inner) for key in step.fans]
        self._todo += [(join, branch) for join in joins]
        if step.on_error == "continue":
            for event in self._spec.types:
                if event.role == "failure":
                    self.of_type[event.key].add(branch)
            self._todo += [(handler, branch) for handler in self._spec.catchers[i]]
