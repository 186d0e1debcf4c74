"""W7: import time, number of dependencies and installed size of a package.

Each package is installed with its dependencies into an empty folder, and only
that folder is importable, so that other systems' packages do not count.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LINE = re.compile(r"import time:\s+(\d+) \|")


def install(requirement: str, folder: Path) -> dict[str, float]:
    """Install into ``folder``; return dependency count and sizes without bytecode."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--target", folder]
    subprocess.run([*pip, requirement], check=True, capture_output=True)
    files = [f for f in folder.rglob("*") if f.is_file()]
    return {
        "deps": len(list(folder.glob("*.dist-info"))) - 1,
        "total_mb": sum(f.stat().st_size for f in files) / 1e6,
        "native_mb": sum(f.stat().st_size for f in files if ".so" in f.name) / 1e6,
    }


def _python(code: str, env: Mapping[str, str], *options: str) -> tuple[str, float]:
    before = os.times()
    out = subprocess.run(
        [sys.executable, "-S", *options, "-c", code], capture_output=True, text=True, env=env, check=False
    )
    after = os.times()
    if out.returncode:
        raise RuntimeError((out.stderr.strip().splitlines() or ["import failed"])[-1])
    cpu = after.children_user + after.children_system
    return out.stderr, cpu - before.children_user - before.children_system


def measure_import(module: str, folder: Path) -> dict[str, float]:
    """One fresh import, less the bare interpreter start."""
    env = {**os.environ, "PYTHONPATH": str(folder)}

    def traced(code: str) -> tuple[float, int]:
        text, _ = _python(code, env, "-X", "importtime")
        own = [int(m.group(1)) for m in map(_LINE.match, text.splitlines()) if m]
        return sum(own) / 1e3, len(own)

    code = f"import {module}"
    _python(code, env)  # compiles bytecode and warms the file cache
    (bare, bare_n), (full, n) = traced("pass"), traced(code)
    return {
        "import_ms": full - bare,
        "import_cpu_ms": (_python(code, env)[1] - _python("pass", env)[1]) * 1e3,
        "modules": n - bare_n,
    }


def measure(packages: Mapping[str, tuple[str, str, str]], reps: int, scratch: Path) -> list[dict[str, Any]]:
    """``packages``: adapter name -> (requirement, version, module)."""
    installed = {}
    for name, (requirement, version, _) in packages.items():
        installed[name] = {"version": version, **install(requirement, scratch / name)}
    records = []
    for rep in range(reps):
        for name, (_, _, module) in packages.items():
            metrics = {**installed[name], **measure_import(module, scratch / name)}
            key = {"workload": "W7", "adapter": name, "size": 0, "mode": "", "rep": rep}
            records.append({**key, "status": "ok", "metrics": metrics})
    return records
