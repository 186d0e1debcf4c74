"""Another process with these workflows and a store of its own, which does line by line what it is told.

`python -m tests.stored.other PLACE LEASE_S KNOWS`
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class OtherError(Exception):
    """What the other process raised."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(f"{kind}: {said}")
        self.kind, self.said = kind, said


class Other:
    """A process that another one is told through.

    Args:
        place: Of the store that it opens as `store`.
        lease_s: How long its leases last; None as usual.
        knows: Whether it has the workflows of `flows`, and their classes.
    """

    def __init__(self, place: str | Path, *, lease_s: float | None = None, knows: bool = True) -> None:
        command = [sys.executable, "-m", "tests.stored.other", str(place), str(lease_s or ""), str(knows)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True, encoding="utf-8"
        )
        self.pid = self._process.pid

    def do(self, code: str) -> None:
        """Run statements; names stay for later ones."""
        self._ask({"do": code})

    def give(self, expression: str) -> Any:
        """The value of an expression, as plain JSON can hold it."""
        return self._ask({"give": expression})

    def wait(self, expression: str) -> None:
        """Wait until an expression is true there."""
        self._ask({"wait": expression})

    def _ask(self, told: dict[str, str]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the other process died over {told}"
        answer = json.loads(line)
        if "error" in answer:
            raise OtherError(answer["error"], answer["said"])
        return answer["value"]

    def kill(self) -> None:
        """As `kill -9` does it: at once, and nothing is tidied up."""
        self._process.kill()
        self._process.wait(20)

    def freeze(self) -> None:
        """As a machine that sleeps."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """As a program that comes to its end; kills one that does not."""
        if self._process.poll() is None:
            self.thaw()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()
        except ValueError:  # it was told to end before
            pass
        self._process.stdin.close()
        self._process.stdout.close()


def main(place: str, lease_s: str, knows: str) -> None:
    import flownb
    from flownb.runtime import stored, watching
    from tests.polling import wait_until

    if lease_s:
        stored.LEASE_S = watching.LEASE_S = float(lease_s)
    names: dict[str, Any] = {**vars(flownb), "Store": flownb.Store, "os": os, "store": flownb.Store(place)}
    if knows == "True":
        from tests.stored import flows

        names.update(vars(flows))
    replies, sys.stdout = sys.stdout, sys.stderr  # what steps print is no reply
    for line in sys.stdin:
        told = json.loads(line)
        try:
            value = None
            if "do" in told:
                exec(told["do"], names)
            elif "give" in told:
                value = eval(told["give"], names)
            else:
                code = compile(told["wait"], "<wait>", "eval")
                wait_until(lambda code=code: eval(code, names))  # type: ignore[misc]
            reply = {"value": value}
        except BaseException as error:
            reply = {"error": type(error).__name__, "said": str(error)}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
