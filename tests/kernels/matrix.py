"""Where clicks arrive, on every kernel that is supported: `python -m tests.kernels.matrix`, in the repository's root.

Makes an environment for each kernel (`--venvs`, kept for the next time), runs the tests that are marked `kernels` on
it, and then tries each of them in real JupyterLab in Chromium with subshells as they are and switched off, while a cell
awaits, blocks, or is over, with the fast lane and without. Prints the outcomes and ends with 1 if one is not as
`tests/browser/clicks.py` says. Takes about fifteen minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from clicks import EXPECTED, MODES, SETTINGS, Seen, Subshells, expected, try_clicks  # noqa: E402
from lab_harness import Browser, Lab, LabServer  # noqa: E402


def environment(folder: Path, kernel: str) -> Path:
    """The interpreter of an environment with flownb and the newest ipykernel of a series; made if it is not there."""
    python = folder / kernel / "bin" / "python"
    if not (folder / kernel / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder / kernel)], check=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*install, f"ipykernel=={kernel}.*", "-e", str(ROOT)], check=True)
        (folder / kernel / "complete").touch()
    return python


def main() -> int:
    """Exit code: 0 if everything is as expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venvs", type=Path, default=ROOT / ".kernels", help="folder of the environments")
    parser.add_argument("--kernels", nargs="+", choices=[*EXPECTED], default=[*EXPECTED], help="only these")
    chosen = parser.parse_args()
    pythons = {kernel: str(environment(chosen.venvs, kernel)) for kernel in chosen.kernels}

    wrong = sum(_fails(kernel, python) for kernel, python in pythons.items())
    print(f"{'ipykernel':10}{'subshells':10}{'lane':6}" + "".join(f"{mode:26}" for mode in MODES))
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        subshells: Subshells
        for subshells in ("default", "disabled"):
            settings = SETTINGS.get(subshells)
            with LabServer(Path(folder) / subshells, kernels=pythons, settings=settings) as server:
                lab = Lab(server, browser)
                for kernel in pythons:
                    for lane in (False, True):
                        cells = [_tried(lab, kernel, subshells, mode, lane=lane) for mode in MODES]
                        wrong += sum("WRONG" in cell for cell in cells)
                        row = f"{kernel:10}{subshells:10}{'on' if lane else 'off':6}"
                        print(row + "".join(f"{cell:26}" for cell in cells), flush=True)
                lab.close()
    print(f"{wrong} wrong" if wrong else "all as expected")
    return 1 if wrong else 0


def _fails(kernel: str, python: str) -> bool:
    """Whether a test that is to hold on every kernel fails on this one."""
    env = {**os.environ, "FLOWNB_KERNEL": python}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "kernels", "tests/notebook", "tests/runtime"],
        cwd=ROOT,
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )
    print(f"ipykernel {kernel}: {ran.stdout.strip().splitlines()[-1]}", flush=True)
    if ran.returncode:
        print(ran.stdout, file=sys.stderr, flush=True)
    return ran.returncode != 0


def _tried(lab: Lab, kernel: str, subshells: Subshells, mode: str, *, lane: bool) -> str:
    begun = time.monotonic()
    try:
        seen: Seen = try_clicks(lab, f"{kernel}-{mode}-{lane}", kernel, mode, lane=lane)
    except Exception as error:
        seen = Seen(type(error).__name__, str(error))
    took = time.monotonic() - begun
    wanted = expected(kernel, subshells, mode, lane=lane)
    if seen.outcome != wanted:
        print(f"--- {kernel} {subshells} {mode} lane={lane}: {seen.said}", file=sys.stderr, flush=True)
        return f"WRONG: {seen.outcome} ({took:.0f} s)"
    return (
        f"{seen.outcome} in {seen.after_s} s ({took:.0f} s)" if wanted == "words" else f"{seen.outcome} ({took:.0f} s)"
    )


if __name__ == "__main__":
    sys.exit(main())
