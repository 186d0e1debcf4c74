"""Run benchmark cells, print tables with ratios, append the records to a JSON file.

    python -m bench.run                                   everything
    python -m bench.run -w W1,W2 -a flownb,liw,burr  some of it
    python -m bench.run -w W2 -s W2=100,1000 -r 5         other sizes, more repetitions
    python -m bench.run --report --subject flownb         only print what is recorded

Every cell runs in a process of its own.  Repetitions are interleaved: one round
runs all adapters once, in random order, before the next round starts.  A cell
that times out or fails is not run again in later rounds, nor at larger sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import footprint, report
from bench.adapters import Adapter, load_adapters
from bench.cell import overrides
from bench.workloads import WORKLOADS, Workload, modes_for

ROOT = Path(__file__).resolve().parent.parent
MARKER = "<!-- tables -->"
Record = dict[str, Any]


def run_cell(w: str, adapter: str, size: int, mode: str, timeout: float) -> Record:
    """Run one cell in a fresh process; a record is found even if the exit then crashes."""
    key = {"workload": w, "adapter": adapter, "size": size, "mode": mode}
    cmd = [sys.executable, "-m", "bench.cell", w, adapter, str(size), *([mode] if mode else [])]
    load = os.getloadavg()[0]
    try:
        out = subprocess.run(cmd, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {**key, "status": "timeout", "note": f"> {timeout:g} s", "load": load}
    for line in reversed(out.stdout.splitlines()):
        if line.startswith('{"status"'):
            record = {**key, **json.loads(line), "load": load}
            if out.returncode:
                record["note"] = f"process exited with {out.returncode} after the run"
            return record
    tail = (out.stderr.strip().splitlines() or ["no output"])[-1]
    return {**key, "status": "crash", "note": f"rc={out.returncode}: {tail}"[:300], "load": load}


def run_workload(
    w: Workload,
    adapters: dict[str, type[Adapter]],
    sizes: tuple[int, ...],
    modes: tuple[str, ...] | None,
    reps: int,
    timeout: float,
    rng: random.Random,
) -> list[Record]:
    records: list[Record] = []
    stopped: set[tuple[str, str]] = set()
    for size in sizes:
        cells = [
            (name, mode)
            for name, cls in adapters.items()
            for mode in modes_for(w, cls)
            if (modes is None or mode in modes) and size <= cls.limits.get(w.id, size)
        ]
        for rep in range(reps):
            rng.shuffle(cells)
            for name, mode in cells:
                if (name, mode) in stopped:
                    continue
                if not overrides(adapters[name], w.needs):
                    reason = adapters[name].unsupported.get(w.needs)
                    if reason:
                        records.append(
                            {
                                "workload": w.id,
                                "adapter": name,
                                "size": size,
                                "mode": mode,
                                "rep": rep,
                                "status": "unsupported",
                                "note": reason,
                            }
                        )
                    stopped.add((name, mode))
                    continue
                record = run_cell(w.id, name, size, mode, timeout) | {"rep": rep}
                records.append(record)
                if record["status"] != "ok":
                    stopped.add((name, mode))
                m = record.get("metrics", {})
                label = name + (f"[{mode}]" if mode else "")
                what = f"{m['cpu_us']:.1f} us cpu/{w.unit}" if m else record["note"]
                print(f"{w.id} {size:>6} rep {rep} {label:34} {record['status']:8} {what}", file=sys.stderr, flush=True)
    return records


def run_footprint(adapters: dict[str, type[Adapter]], reps: int) -> list[Record]:
    with tempfile.TemporaryDirectory() as scratch:
        packages = {name: (*cls.requirement(), cls.module) for name, cls in adapters.items() if cls.dist and cls.module}
        return footprint.measure(packages, reps, Path(scratch))


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
    }


def append(path: Path, run: dict[str, Any]) -> None:
    runs = json.loads(path.read_text()) if path.exists() else []
    runs.append(run)
    tmp = path.with_suffix(".tmp")
    tmp.write_text(json.dumps(runs, indent=1) + "\n")
    tmp.replace(path)


def parse_sizes(items: list[str]) -> dict[str, tuple[int, ...]]:
    return {k: tuple(map(int, v.split(","))) for k, v in (i.split("=") for i in items)}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("-w", "--workloads", default=",".join([*WORKLOADS, "W7"]))
    p.add_argument("-a", "--adapters", help="comma-separated names (default: all)")
    p.add_argument("-s", "--sizes", action="append", default=[], metavar="W=N,N")
    p.add_argument("-m", "--modes", help="comma-separated modes (default: all)")
    p.add_argument("-r", "--reps", type=int, default=3)
    p.add_argument("-t", "--timeout", type=float, default=120)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--subject", default="flownb", help="ratios are other / SUBJECT")
    p.add_argument("--out", type=Path, default=ROOT / "results.json")
    p.add_argument("--report", action="store_true", help="run nothing, print what is recorded")
    p.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help=f"also write the tables to FILE, below a line {MARKER} if it has one",
    )
    args = p.parse_args()

    known = load_adapters()
    names = args.adapters.split(",") if args.adapters else list(known)
    adapters = {n: known[n] for n in names}
    ids = args.workloads.split(",")
    sizes = parse_sizes(args.sizes)
    modes = tuple(args.modes.split(",")) if args.modes else None
    rng = random.Random(args.seed)
    if not args.report:
        for wid in ids:
            started = time.time()
            if wid == "W7":
                records = run_footprint(adapters, args.reps)
            else:
                w = WORKLOADS[wid]
                records = run_workload(w, adapters, sizes.get(wid, w.sizes), modes, args.reps, args.timeout, rng)
            stamp = datetime.now(UTC).isoformat(timespec="seconds")
            append(
                args.out,
                {"time": stamp, "seconds": round(time.time() - started, 1), "machine": machine(), "records": records},
            )
    text = report.render(json.loads(args.out.read_text()), ids, names, known, args.subject)
    print(text)
    if args.markdown:
        old = args.markdown.read_text() if args.markdown.exists() else ""
        head = old.partition(MARKER)[0] + MARKER + "\n\n" if MARKER in old else ""
        args.markdown.write_text(head + text)


if __name__ == "__main__":
    main()
