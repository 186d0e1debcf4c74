"""A real kernel and its front end, without a page: cells, and what a page's widgets send."""

from __future__ import annotations

import os
import queue
import time
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]


class Kernel:
    """A kernel with a front end that may be asked for input, unless told otherwise: of this interpreter, or of the one
    that `$FLOWNB_KERNEL` names."""

    def __init__(self, folder: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        python = os.environ.get("FLOWNB_KERNEL")
        if python and self.manager.kernel_spec is not None:
            self.manager.kernel_spec.argv[0] = python
        self.manager.start_kernel(cwd=str(folder), env={**os.environ, "PYTHONPATH": str(ROOT)})
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(60)
        self.heard: list[dict[str, Any]] = []

    def run(self, source: str, *, interrupt_after: float | None = None, stdin: bool = True) -> str:
        """What a cell prints and raises."""
        asked = self.client.execute(source.strip(), allow_stdin=stdin)
        said, begun, end = "", time.monotonic(), time.monotonic() + 30
        while time.monotonic() < end:
            if interrupt_after is not None and time.monotonic() - begun > interrupt_after:
                self.interrupted_at, interrupt_after = time.time(), None
                self.manager.interrupt_kernel()
            try:
                message = self.client.get_iopub_msg(timeout=0.05)
            except queue.Empty:
                assert self.manager.is_alive(), f"the kernel died: {said}"
                continue
            if message["parent_header"].get("msg_id") != asked:
                continue
            content: Any = message["content"]
            if message["msg_type"] == "stream":
                said += content["text"]
            elif message["msg_type"] == "error":
                said += f"{content['ename']}: {content['evalue']}\n"
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return said
        raise AssertionError(f"the cell did not end: {said}")

    def interrupt(self, source: str, after: float) -> tuple[str, float]:
        """What a cell says that is interrupted, and the seconds that its code went on, by its own clock."""
        said = self.run(f"import time\ntry:\n    {source}\nfinally:\n    ended_at = time.time()", interrupt_after=after)
        return said, float(self.run("print(ended_at)")) - self.interrupted_at

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    # ---- what goes on meanwhile

    def begin(self, source: str) -> str:
        """Send a cell and do not wait for it; what `said` takes."""
        return str(self.client.execute(source.strip(), allow_stdin=True))

    def end(self, asked: str, patience_s: float = 30.0) -> str:
        """Wait until a cell is over; what it printed and raised."""
        end = time.monotonic() + patience_s
        while not self._is_over(asked):
            assert time.monotonic() < end, f"the cell did not end: {self._said(asked)}"
            self._listen()
        return self._said(asked)

    def until(self, asked: str, words: str) -> None:
        """Wait until a cell has printed these words."""
        end = time.monotonic() + 30
        while words not in self._said(asked):
            assert time.monotonic() < end and not self._is_over(asked), f"{words!r} is not in {self._said(asked)!r}"
            self._listen()

    def change(self, comm_id: str, what: Any) -> str:
        """Send what a page sends for a widget's own message; its id."""
        content = {"comm_id": comm_id, "data": {"method": "custom", "content": what}}
        message = self.client.session.msg("comm_msg", content)
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def statuses(self, asked: str) -> list[str]:
        """What the kernel has told about a message: "busy", "idle"."""
        return [m["content"]["execution_state"] for m in self._about(asked) if m["msg_type"] == "status"]

    def replies(self, *asked: str) -> list[str]:
        """These in the order in which the kernel answers them on its shell channel."""
        found: list[str] = []
        while len(found) < len(asked):
            answered = str(self.client.get_shell_msg(timeout=20)["parent_header"]["msg_id"])
            found += [answered] if answered in asked else []
        return found

    def _listen(self) -> None:
        try:
            self.heard.append(self.client.get_iopub_msg(timeout=0.05))
        except queue.Empty:
            assert self.manager.is_alive(), "the kernel died"

    def _about(self, asked: str) -> list[dict[str, Any]]:
        return [message for message in self.heard if message["parent_header"].get("msg_id") == asked]

    def _said(self, asked: str) -> str:
        said = ""
        for message in self._about(asked):
            content = message["content"]
            if message["msg_type"] == "stream":
                said += content["text"]
            elif message["msg_type"] == "error":
                said += f"{content['ename']}: {content['evalue']}\n"
        return said

    def _is_over(self, asked: str) -> bool:
        statuses = self.statuses(asked)
        return bool(statuses) and statuses[-1] == "idle"
