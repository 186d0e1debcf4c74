"""Two processes race to drive and to answer the same runs; nothing is driven or answered twice.

python -m tests.store.kill.race runs.db --seconds 20
python -m tests.store.kill.race postgresql://... --seconds 20
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from flownb import Store
from flownb.core.reduce import fold
from flownb.core.ticks import RequestAnswered, RunOpened
from tests.store.kill.hunt import ROOT


def race(place: str, folder: Path, seconds: float) -> tuple[dict[str, Any], list[str]]:
    """Let them race for so many seconds.

    Returns:
        Counts, and what was not as it should be.
    """
    log = folder / "log"
    log.touch()
    Store(place).close()  # the tables are there
    command = [sys.executable, "-m", "tests.store.kill.racer", place, str(seconds), str(log)]
    racers = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [racer.communicate(timeout=seconds + 120)[1] for racer in racers]
    lines = [line.split(" ", 2) for line in log.read_text().splitlines()]
    faults = [f"a racer ended with {racer.returncode}: {text[-800:]}" for racer, text in zip(racers, said, strict=True)
              if racer.returncode]  # fmt: skip
    faults += [rest for _, kind, rest in lines if kind == "error"]
    faults += ["a store was locked"] * any("database is locked" in text for text in said)
    store = Store(place)
    answers, drivers = _judge(store, lines, faults)
    store.close()
    steps = [rest for _, kind, rest in lines if kind == "step"]
    faults += [f"step {what} ran {n} times" for what, n in Counter(steps).items() if n > 1]
    counts = {
        "runs": len({rest.split("/")[0] for rest in steps}),
        "steps": len(steps),
        "steps by process": dict(Counter(pid for pid, kind, _ in lines if kind == "step")),
        "answers by process": dict(Counter(pid for pid, kind, _ in lines if kind == "answer")),
        "answers in journals": answers,
        "take-overs": drivers,
        "faults": len(faults),
    }
    return counts, faults


def _judge(store: Store, lines: list[list[str]], faults: list[str]) -> tuple[int, int]:
    """Each question of each run has one answer, and that is the one that was acknowledged."""
    acknowledged: dict[str, list[str]] = {}
    for _, kind, rest in lines:
        if kind == "answer":
            question, words = rest.split(" ")
            acknowledged.setdefault(question, []).append(words)
    answers = drivers = 0
    for row in store.runs():
        ticks = store.history(row.run_id)
        state = fold(ticks)
        given = Counter(f"{row.run_id}:{tick.request}" for tick in ticks if isinstance(tick, RequestAnswered))
        answers += sum(given.values())
        drivers += sum(isinstance(tick, RunOpened) for tick in ticks)
        if state.status != "completed" or row.status != "completed":
            faults.append(f"{row.run_id} is {state.status}, listed as {row.status}")
            continue
        faults += [f"question {question} has {n} answers in its journal" for question, n in given.items() if n > 1]
        words = [words for question in given for words in acknowledged.get(question, ())]
        if sorted(words) != sorted(store.run(row.run_id).result(5)):
            faults.append(f"{row.run_id}: acknowledged {words}, and it has {store.run(row.run_id).result(5)}")
    return answers, drivers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts, faults = race(given.store, Path(folder), given.seconds)
    print(json.dumps(counts, indent=2))
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
