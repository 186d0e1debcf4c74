"""Where an adapter spends its time: sample a cell with py-spy and sum up by module.

    python -m bench.profile liw W1 5000

Prints self time by package and by function, and inclusive time by function.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


Stack = tuple[list[str], int]


def sample(adapter: str, workload: str, size: int, mode: str, rate: int) -> list[Stack]:
    """Stacks (outermost first, ``function (file)``) with their sample counts."""
    with tempfile.TemporaryDirectory() as tmp:
        out = Path(tmp) / "stacks.txt"
        cmd = [
            "py-spy",
            "record",
            "-f",
            "raw",
            "-r",
            str(rate),
            "-F",
            "-o",
            str(out),
            "--",
            sys.executable,
            "-m",
            "bench.cell",
            workload,
            adapter,
            str(size),
        ]
        subprocess.run(cmd + ([mode] if mode else []), cwd=ROOT, check=True, capture_output=True)
        stacks = []
        for line in out.read_text().splitlines():
            frames, _, count = line.rpartition(" ")
            stacks.append((frames.split(";"), int(count)))
        return stacks


def package(frame: str) -> str:
    m = re.search(r"\((.+?)(?::\d+)?\)$", frame)
    path = m.group(1) if m else frame
    return path.split("/")[0] if "/" in path else path


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("adapter")
    p.add_argument("workload")
    p.add_argument("size", type=int)
    p.add_argument("mode", nargs="?", default="")
    p.add_argument("--rate", type=int, default=500)
    p.add_argument("--top", type=int, default=25)
    args = p.parse_args()
    stacks = sample(args.adapter, args.workload, args.size, args.mode, args.rate)
    # Only what runs under the event loop of the timed part.
    stacks = [(f, n) for f, n in stacks if any("run_forever" in x for x in f)]
    total = sum(n for _, n in stacks)
    by_package: Counter[str] = Counter()
    by_self: Counter[str] = Counter()
    inclusive: Counter[str] = Counter()
    for frames, n in stacks:
        by_package[package(frames[-1])] += n
        by_self[frames[-1]] += n
        for f in set(frames):
            inclusive[f] += n
    for title, counter in (
        ("self, by package", by_package),
        ("self, by function", by_self),
        ("inclusive, by function", inclusive),
    ):
        print(f"\n{title} ({total} samples)")
        for what, n in counter.most_common(args.top):
            print(f"{100 * n / total:6.1f} %  {what}")


if __name__ == "__main__":
    main()
