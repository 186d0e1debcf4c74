"""`replay`: an exported run on the code of a workflow as it is now, or its ticks folded where no code is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flownb.archiving import Folded, fold_archive
from flownb.cli.resuming import workflow_at
from flownb.cli.words import brief, clean, plural
from flownb.debug.archived import RunAgainAnswer, replay_file
from flownb.debug.sameness import line_of
from flownb.run import Run


def folded(path: str) -> list[Folded]:
    """What the ticks of a file fold to; no code is run."""
    return fold_archive(path)


def folded_lines(runs: Sequence[Folded]) -> list[str]:
    lines = []
    for run in runs:
        name, workflow = clean(run.run_id), clean(run.workflow) or "an unknown workflow"
        said = f"Run {name} of {workflow}: {plural(run.ticks, 'tick')} folded to {run.status or 'nothing'}"
        if run.fault:
            said += f"; {clean(run.fault)}"
        elif not run.is_sound:
            said += f", and the file says {clean(run.said)}"
        lines.append(f"{said}.")
    return lines


def folded_json(runs: Sequence[Folded]) -> list[dict[str, Any]]:
    return [
        {
            "run": run.run_id, "workflow": run.workflow, "ticks": run.ticks, "status": run.status, "said": run.said,
            "fault": run.fault or None, "is_sound": run.is_sound,
        }
        for run in runs
    ]  # fmt: skip


def replayed(
    path: str, place: str, live: Sequence[str], run_again: RunAgainAnswer | None, timeout: float | None
) -> Run[Any]:
    """Play a file's run back on a workflow.

    Raises:
        WorkflowNotDefined: The workflow is not there.
        TimeoutError: Changed steps took longer.
    """
    return replay_file(path, workflow_at(place), live=live, run_again=run_again, timeout=timeout)


def is_as_recorded(run: Run[Any]) -> bool:
    """Whether the replay came to the end of the recording without a difference."""
    return run.debug.divergence is None and run.debug.replayed.is_over


def replay_lines(run: Run[Any]) -> list[str]:
    """What was replayed, what ran, and the first difference."""
    report, state = run.debug.replayed, run._runner.state
    lines = [
        f"Run {clean(report.run_id)} of {clean(state.spec.name)}: {plural(report.recorded, 'tick')} recorded, "
        f"{plural(state.seq, 'tick')} replayed; the replay is {run.status}."
    ]
    for name, steps in (("Changed", report.changed), ("New", report.added), ("Gone", report.removed)):
        if steps:
            lines.append(f"{name}: {', '.join(steps)}.")
    lines.append(f"From the recording: {_counted(report.played)}.")
    lines.append(f"Run live: {_counted(report.live)}.")
    found = report.divergence
    if found is not None:
        lines.append(f"First divergence{f', step {found.step}' if found.step else ''}: {brief(found.what, 400)}.")
        for word, seq, tick in (("recorded", found.recorded_seq, found.recorded), ("replayed", found.seq, found.tick)):
            lines.append(f"  {word}: {f'tick {seq}, {brief(line_of(tick), 200)}' if tick is not None else 'nothing'}")
        return lines
    lines += [f"It asks: {brief(getattr(r.question, 'prefix', r.question), 400)}" for r in _questions(run)]
    lines.append("No divergence." if report.is_over else "It cannot go on: --run-again says what such a step does.")
    return lines


def _questions(run: Run[Any]) -> list[Any]:
    return [] if run.debug.replayed.is_over else list(run.requests)


def _counted(starts: dict[str, int]) -> str:
    return ", ".join(f"{step} ({n})" for step, n in starts.items()) or "no step"


def replay_json(run: Run[Any]) -> dict[str, Any]:
    report = run.debug.replayed
    found = report.divergence
    return {
        "run": report.run_id,
        "status": run.status,
        "recorded": report.recorded,
        "replayed": run._runner.state.seq,
        "changed": report.changed,
        "added": report.added,
        "removed": report.removed,
        "from_recording": dict(report.played),
        "live": dict(report.live),
        "is_over": report.is_over,
        "asks": [brief(getattr(r.question, "prefix", r.question), 400) for r in _questions(run)],
        "divergence": None
        if found is None
        else {
            "what": found.what,
            "step": found.step,
            "recorded_seq": found.recorded_seq,
            "recorded": line_of(found.recorded) if found.recorded is not None else None,
            "seq": found.seq,
            "replayed": line_of(found.tick) if found.tick is not None else None,
        },
    }
