"""Where a replay first differs from its recording, and how much of it was played back."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from flownb.core.spec import Spec
from flownb.core.ticks import AnyTick
from flownb.debug.recording import Recording
from flownb.debug.sameness import line_of


class Divergence(Struct, frozen=True):
    """The first place where a replay differs from what was recorded, in what matters: kind, step, events, failure."""

    #: In words.
    what: str
    #: The step that it is about; "" for none.
    step: str = ""
    #: The recorded tick and its number; None and 0: nothing of the kind was recorded.
    recorded: AnyTick | None = None
    recorded_seq: int = 0
    #: The replay's tick and its number; None and 0: it never came.
    tick: AnyTick | None = None
    seq: int = 0
    #: Steps whose source is another one than when the run was recorded.
    changed: tuple[str, ...] = ()

    def __repr__(self) -> str:
        was = f"tick {self.recorded_seq}, {line_of(self.recorded)}" if self.recorded is not None else "nothing"
        now = f"tick {self.seq}, {line_of(self.tick)}" if self.tick is not None else "nothing"
        lines = [
            f"The replay diverges{f' in step {self.step!r}' if self.step else ''}: {self.what}.",
            f"  recorded: {was}",
            f"  replayed: {now}",
            f"  changed steps: {', '.join(self.changed) or 'none'}",
        ]
        return "\n".join(lines)

    __str__ = __repr__


class Replayed(Struct):
    """What a replay took from the recording, and what it ran."""

    #: The run that was recorded, and how many ticks of it there are.
    run_id: str
    recorded: int
    #: Steps whose source is another one now; steps that are new, or gone.
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    #: `{step: starts}` of code that was not run, since its ticks are recorded; and of code that was run.
    played: Counter[str] = field(default_factory=Counter)
    live: Counter[str] = field(default_factory=Counter)
    #: The first difference; None while there is none.
    divergence: Divergence | None = None
    #: The recording is used up.
    is_over: bool = False

    def __repr__(self) -> str:
        lines = [f"Replay of run {self.run_id}, {self.recorded} recorded ticks{'' if self.is_over else ', under way'}:"]
        for name, steps in (("changed", self.changed), ("new", self.added), ("gone", self.removed)):
            if steps:
                lines.append(f"  {name} steps: {', '.join(steps)}")
        lines.append(f"  from the recording: {_counted(self.played)}")
        lines.append(f"  run live: {_counted(self.live)}")
        lines.append(f"{self.divergence!r}" if self.divergence is not None else "  no divergence")
        return "\n".join(lines)

    __str__ = __repr__


def report_of(recording: Recording, spec: Spec) -> Replayed:
    """What is known before anything is played back."""
    was: dict[str, str] = {}
    for delivery in recording.deliveries.values():
        for start in delivery.starts:
            was[delivery.step] = start.source
    for step in recording.state.spec.steps:
        was.setdefault(step.name, step.source)
    now = {step.name: step.source for step in spec.steps}
    return Replayed(
        recording.run_id,
        len(recording.ticks),
        changed=tuple(name for name, source in now.items() if name in was and was[name] != source),
        added=tuple(name for name in now if name not in was),
        removed=tuple(name for name in was if name not in now),
    )


def _counted(starts: Counter[str]) -> str:
    return ", ".join(f"{step} {n}×" if n > 1 else step for step, n in starts.items()) or "no step"
