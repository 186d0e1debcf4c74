"""Tables from recorded runs.

Figures are medians over repetitions, with (min-max) where it matters.  Ratios
are OTHER / SUBJECT of CPU time, paired by repetition where both ran in the same
run, median of the pairs: above 1 the subject is faster.  For each cell the newest
run that has it counts.  A mode the subject lacks is compared with its first one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median
from typing import Any

from bench.adapters import Adapter
from bench.workloads import WORKLOADS, Workload, modes_for

Record = dict[str, Any]
Key = tuple[str, str]
"""(adapter, mode)"""


def _latest(runs: list[dict[str, Any]], wid: str) -> dict[tuple[Key, int], list[Record]]:
    cells: dict[tuple[Key, int], list[Record]] = {}
    for run in runs:
        fresh: dict[tuple[Key, int], list[Record]] = defaultdict(list)
        for r in run["records"]:
            if r["workload"] == wid:
                fresh[(r["adapter"], r["mode"]), r["size"]].append(r | {"run": run["time"]})
        cells.update(fresh)
    return cells


def _values(records: list[Record], metric: str) -> list[float]:
    return [r["metrics"][metric] for r in records if r["status"] == "ok"]


def _num(x: Any) -> str:
    if isinstance(x, bool):
        return "yes" if x else "no"
    if x == 0:
        return "0"
    if abs(x) >= 1000:
        return f"{x:,.0f}"
    return f"{x:.3g}"


def _metric(records: list[Record], metric: str, spread: bool = False) -> str:
    vals = _values(records, metric)
    if not vals:
        return ""
    if isinstance(vals[0], bool):
        return "yes" if all(vals) else "no"
    text = _num(median(vals))
    if spread and len(vals) > 1:
        text += f" ({_num(min(vals))}-{_num(max(vals))})"
    return text


def _ratio(records: list[Record], subject: list[Record] | None, metric: str) -> str:
    """Median of the ratios within repetitions; of the medians if they share none."""
    mine = {(r["run"], r["rep"]): r["metrics"][metric] for r in subject or [] if r["status"] == "ok"}
    theirs = {(r["run"], r["rep"]): r["metrics"][metric] for r in records if r["status"] == "ok"}
    if not mine or not theirs:
        return ""
    shared = mine.keys() & theirs.keys()
    if shared:
        pairs = [theirs[k] / mine[k] for k in shared if mine[k] > 0]
    else:
        pairs = [median(theirs.values()) / median(mine.values())]
    return f"{_num(median(pairs))}x" if pairs else ""


def _growth(points: dict[int, float]) -> str:
    """Least-squares slope of log(total) over log(size), and that of the last two sizes."""
    if len(points) < 2:
        return ""
    xs = [math.log(s) for s in points]
    ys = [math.log(max(t, 1e-9)) for t in points.values()]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    fit = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))
    fit /= sum((x - mx) ** 2 for x in xs)
    last = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
    return f"{fit:.2f} / {last:.2f}"


def _table(header: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(r[i]) for r in [header, *rows]) for i in range(len(header))]

    def line(cells: list[str]) -> str:
        first = cells[0].ljust(widths[0])
        rest = [c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True)]
        return "| " + " | ".join([first, *rest]) + " |"

    rule = "|" + "|".join("-" * (w + 1) + (":" if i else "-") for i, w in enumerate(widths)) + "|"
    return "\n".join([line(header), rule, *map(line, rows)])


def _section(
    w: Workload,
    cells: dict[tuple[Key, int], list[Record]],
    names: list[str],
    known: dict[str, type[Adapter]],
    subject: str,
) -> str:
    cells = {k: v for k, v in cells.items() if k[0][0] in names and k[0][0] in known and modes_for(w, known[k[0][0]])}
    sizes = sorted({size for _, size in cells})
    keys = sorted({key for key, _ in cells})

    def rank(key: Key) -> tuple[str, float]:
        best = [median(v) for s in sizes if (v := _values(cells.get((key, s), []), w.key))]
        mode = key[1] if len(w.modes) > 1 else ""
        return mode, best[-1] if best else math.inf

    keys.sort(key=rank)
    header = [f"{w.id} (us per {w.unit})"]
    for s in sizes:
        header += [f"cpu @{s}", f"wall @{s}", f"/{subject}"]
    header += list(w.columns)
    if len(sizes) > 1:
        header.append("growth fit/last")
    rows, remarks = [], []
    for key in keys:
        name, mode = key
        row = [name + (f" [{mode}]" if mode else "")]
        points: dict[int, float] = {}
        last: list[Record] = []
        for s in sizes:
            recs = cells.get((key, s), [])
            bad = [r for r in recs if r["status"] != "ok"]
            if bad:
                row += [bad[0]["status"], "", ""]
                remarks.append(f"{row[0]} @{s}: {bad[0]['status']} - {bad[0].get('note', '')}")
                continue
            if not recs:
                row += ["", "", ""]
                continue
            last = recs
            points[s] = median(_values(recs, "cpu"))
            base = cells.get(((subject, mode), s))
            if base is None:
                base = next((v for (k, size), v in sorted(cells.items()) if k[0] == subject and size == s), None)
            row += [_metric(recs, "cpu_us", True), _metric(recs, "wall_us"), _ratio(recs, base, w.key)]
        row += [_metric(last, c) for c in w.columns]
        if len(sizes) > 1:
            row.append(_growth(points))
        if any(row[1:]):
            rows.append(row)
    for n in names:
        note = known[n].__dict__.get("notes", {}).get(w.id) if n in known else None
        if note and any(k[0] == n for k in keys):
            remarks.append(f"{n}: {note}")
    text = f"## {w.id}: {w.title}\n\n{_table(header, rows)}\n"
    if remarks:
        text += "\n" + "\n".join(f"- {r}" for r in dict.fromkeys(remarks)) + "\n"
    return text


def _footprint(cells: dict[tuple[Key, int], list[Record]], names: list[str], subject: str) -> str:
    columns = ("import_ms", "import_cpu_ms", "modules", "deps", "total_mb", "native_mb")
    rows = []
    base = cells.get(((subject, ""), 0))
    for (name, _), _size in sorted(cells, key=lambda k: median(_values(cells[k], "import_ms"))):
        if name in names:
            recs = cells[(name, ""), 0]
            version = recs[-1]["metrics"]["version"]
            rows.append([f"{name} {version}", *[_metric(recs, c) for c in columns], _ratio(recs, base, "import_ms")])
    return "## W7: import time and installed size\n\n" + _table(["W7", *columns, f"import /{subject}"], rows) + "\n"


def render(
    runs: list[dict[str, Any]],
    ids: list[str],
    names: list[str],
    known: dict[str, type[Adapter]],
    subject: str,
) -> str:
    parts = []
    for wid in ids:
        cells = _latest(runs, wid)
        if not cells:
            continue
        if wid == "W7":
            parts.append(_footprint(cells, names, subject))
        else:
            parts.append(_section(WORKLOADS[wid], cells, names, known, subject))
    return "\n".join(parts)
