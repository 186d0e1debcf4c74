"""The workloads: how each is sized, driven, checked and measured.

A workload runs inside the cell process and returns a flat dict of metrics.
``wall`` and ``cpu`` are seconds for the timed part; ``cpu`` is
``time.process_time`` and so counts all threads of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.adapters.base import Adapter

Metrics = dict[str, Any]


# -- measuring ---------------------------------------------------------------


def _status_kib(field: str) -> int:
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    return 0


def rss_kib() -> int:
    return _status_kib("VmRSS")


def reset_peak() -> None:
    """Make VmHWM start again from the present RSS (Linux; ignored elsewhere)."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as f:
        f.write("5")


def peak_kib() -> int:
    return _status_kib("VmHWM")


class Timer:
    wall = 0.0
    cpu = 0.0


@contextlib.contextmanager
def timed() -> Iterator[Timer]:
    t = Timer()
    gc.collect()
    w, c = time.perf_counter(), time.process_time()
    yield t
    t.cpu = time.process_time() - c
    t.wall = time.perf_counter() - w


def check(got: Any, want: Any, what: str) -> None:
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


async def _repeat(call: Callable[[], Awaitable[Any]], want: Any, what: str, units: int, rounds: int) -> Metrics:
    """Time ``rounds`` calls one after the other; report the median call."""
    reset_peak()
    base = rss_kib()
    walls, cpus = [], []
    for _ in range(rounds):
        with timed() as t:
            got = await call()
        check(got, want, what)
        walls.append(t.wall)
        cpus.append(t.cpu)
    walls.sort()
    cpus.sort()
    wall, cpu = walls[len(walls) // 2], cpus[len(cpus) // 2]
    return {
        "wall": wall,
        "cpu": cpu,
        "wall_us": wall / units * 1e6,
        "cpu_us": cpu / units * 1e6,
        "peak_mib": max(0, peak_kib() - base) / 1024,
    }


# -- the workloads -------------------------------------------------------------


async def w1_chain(a: Adapter, n: int, mode: str) -> Metrics:
    await a.chain(10)
    return await _repeat(lambda: a.chain(n), n, "counter", n, 5 if n <= 1000 else 1)


async def w2_fan(a: Adapter, m: int, mode: str) -> Metrics:
    await a.fan_out(10)
    return await _repeat(lambda: a.fan_out(m), m * (m - 1) // 2, "sum", m, 5 if m <= 100 else 1)


async def w3_runs(a: Adapter, r: int, mode: str) -> Metrics:
    check(await a.small_run(), 5, "small_run")

    async def burst() -> int:
        return sum(await asyncio.gather(*[a.small_run() for _ in range(r)]))

    out = await _repeat(burst, 5 * r, "sum", r, 1)
    out["runs_per_s"] = r / out["wall"]
    out["kib_per_run"] = out["peak_mib"] * 1024 / r
    return out


async def w4_wait(a: Adapter, k: int, mode: str) -> Metrics:
    check(await a.resume(await a.suspend(2)), 2, "resumed")
    gc.collect()
    base = rss_kib()
    with timed() as up:
        token = await a.suspend(k)
    gc.collect()
    held = rss_kib() - base
    with timed() as down:
        done = await a.resume(token)
    check(done, k, "resumed")
    return {
        "wall": up.wall + down.wall,
        "cpu": up.cpu + down.cpu,
        "suspend_us": up.cpu / k * 1e6,
        "resume_us": down.cpu / k * 1e6,
        "wall_us": (up.wall + down.wall) / k * 1e6,
        "cpu_us": (up.cpu + down.cpu) / k * 1e6,
        "kib_per_run": held / k,
    }


async def w5_snapshot(a: Adapter, m: int, mode: str) -> Metrics:
    token = await a.snapshot_prepare(m)
    data = await a.snapshot_dump(token)
    check(await a.snapshot_load(data), m, "restored events")
    dumps, loads = [], []
    for _ in range(5):
        with timed() as t:
            data = await a.snapshot_dump(token)
        dumps.append(t)
        with timed() as t:
            await a.snapshot_load(data)
        loads.append(t)
    dumps.sort(key=lambda t: t.cpu)
    loads.sort(key=lambda t: t.cpu)
    dump, load = dumps[2], loads[2]
    size = len(data if isinstance(data, bytes) else data.encode())
    return {
        "wall": dump.wall + load.wall,
        "cpu": dump.cpu + load.cpu,
        "dump_ms": dump.cpu * 1e3,
        "load_ms": load.cpu * 1e3,
        "wall_us": (dump.wall + load.wall) / m * 1e6,
        "cpu_us": (dump.cpu + load.cpu) / m * 1e6,
        "bytes": size,
        "bytes_per_event": size / m,
    }


async def w5_checkpoint(a: Adapter, n: int, mode: str) -> Metrics:
    await a.checkpointed_chain(10, mode)
    with timed() as t:
        size = await a.checkpointed_chain(n, mode)
    return {
        "wall": t.wall,
        "cpu": t.cpu,
        "wall_us": t.wall / n * 1e6,
        "cpu_us": t.cpu / n * 1e6,
        "bytes": size,
        "bytes_per_step": size / n,
    }


def _make_payload(mode: str) -> Any:
    import numpy as np

    if mode == "int":
        return 1
    if mode == "numpy":
        return np.ones(10_000_000 // 8)
    import pandas as pd

    return pd.DataFrame({f"c{i}": np.ones(125_000) for i in range(10)})


async def w6_payload(a: Adapter, n: int, mode: str) -> Metrics:
    obj = _make_payload(mode)
    await a.payload(obj, 2)
    gc.collect()
    reset_peak()
    base = rss_kib()
    with timed() as t:
        got = await a.payload(obj, n)
    check(type(got).__name__, type(obj).__name__, "payload type")
    return {
        "wall": t.wall,
        "cpu": t.cpu,
        "wall_us": t.wall / n * 1e6,
        "cpu_us": t.cpu / n * 1e6,
        "same_object": got is obj,
        "peak_mib": max(0, peak_kib() - base) / 1024,
    }


async def w8_fold(a: Adapter, m: int, mode: str) -> Metrics:
    token = await a.fold_prepare(m)
    with timed() as t:
        ticks = a.fold(token)
    return {
        "wall": t.wall,
        "cpu": t.cpu,
        "wall_us": t.wall / m * 1e6,
        "cpu_us": t.cpu / m * 1e6,
        "ticks": ticks,
        "us_per_tick": t.cpu / ticks * 1e6,
    }


@dataclass(frozen=True)
class Workload:
    id: str
    title: str
    unit: str
    sizes: tuple[int, ...]
    run: Callable[[Adapter, int, str], Awaitable[Metrics]]
    needs: str
    """The adapter method without which the workload is unsupported."""
    columns: tuple[str, ...] = ()
    """Metrics shown besides wall_us and cpu_us."""
    modes: tuple[str, ...] = ("",)
    key: str = "cpu_us"
    """Metric the ratios are computed from."""


WORKLOADS: dict[str, Workload] = {
    w.id: w
    for w in (
        Workload(
            "W1",
            "chain: one event N times through one step",
            "step",
            (100, 1_000, 10_000),
            w1_chain,
            "chain",
            ("peak_mib",),
        ),
        Workload(
            "W2",
            "fan-out/fan-in: M events, 4 workers, one collector",
            "event",
            (100, 1_000, 10_000),
            w2_fan,
            "fan_out",
            ("peak_mib",),
        ),
        Workload(
            "W3",
            "R concurrent runs of five steps",
            "run",
            (100, 1_000),
            w3_runs,
            "small_run",
            ("runs_per_s", "kib_per_run"),
        ),
        Workload(
            "W4",
            "K runs suspended on human input, then resumed",
            "run",
            (100, 1_000),
            w4_wait,
            "suspend",
            ("suspend_us", "resume_us", "kib_per_run"),
        ),
        Workload(
            "W5",
            "snapshot of a run holding M events, and back",
            "event",
            (1_000,),
            w5_snapshot,
            "snapshot_prepare",
            ("dump_ms", "load_ms", "bytes_per_event"),
        ),
        Workload(
            "W5c",
            "W1 with a checkpoint after every step",
            "step",
            (300,),
            w5_checkpoint,
            "checkpointed_chain",
            ("bytes_per_step",),
        ),
        Workload(
            "W6",
            "10 MB payload through N steps (mode int: same chain, no payload)",
            "step",
            (1_000,),
            w6_payload,
            "payload",
            ("same_object", "peak_mib"),
            modes=("int", "numpy", "pandas"),
        ),
        Workload(
            "W8",
            "fold the recorded ticks of a W2 run: the reducer alone, no asyncio",
            "event",
            (100, 1_000, 10_000),
            w8_fold,
            "fold_prepare",
            ("ticks", "us_per_tick"),
        ),
    )
}


def modes_for(w: Workload, a: type[Adapter]) -> tuple[str, ...]:
    """The modes to run ``a`` in; empty if it takes no part in ``w``."""
    if a.only and w.id not in a.only:
        return ()
    if w.id == "W5c" and a.checkpoint_modes:
        return a.checkpoint_modes
    return w.modes
