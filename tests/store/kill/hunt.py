"""One hunt: batches of runs, a driver that is killed at random moments, and the look at what became of them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from flownb import Store
from flownb.core.invariants import broken
from flownb.core.reduce import fold
from flownb.core.state import ENDED
from flownb.core.ticks import AnyTick
from flownb.errors import RequestError, RunNotFound, WorkflowDone
from tests.store.kill.flows import KINDS, SIZES, expected
from tests.stored.flows import News

ROOT = Path(__file__).parents[3]
#: A batch that is not over by then hangs.
PATIENCE_S = 300.0


class Hunt:
    """Kills drivers of one store.

    Args:
        place: The store.
        folder: For the drivers' own notes.
        runs: How many runs are driven at a time.
        seed: Of the moments of the kills.
        say: Where progress is told.
    """

    def __init__(self, place: str, folder: Path, *, runs: int, seed: int = 0, say: TextIO | None = None) -> None:
        self.place, self.folder, self.runs, self.say = place, folder, runs, say
        self.random = random.Random(seed)
        self.store = Store(place)
        self.acks = folder / "acks"
        #: What was acknowledged: run id -> the words that its result must hold.
        self.answered: dict[str, set[str]] = {}
        self.sent: dict[str, set[int]] = {}
        self.kills = self.batches = self.answers = self.events = 0
        self.faults: list[str] = []
        self.ticks = self.reopened = 0

    def run(self, kills: int) -> dict[str, Any]:
        """Kill so many times, each batch to its end; gives the counts."""
        begun = time.monotonic()
        while self.kills < kills and not self.faults:
            self._batch(f"b{self.batches}", kills)
            self.batches += 1
        self.store.close()
        return {
            "kills": self.kills,
            "batches": self.batches,
            "runs": self.batches * self.runs,
            "ticks": self.ticks,
            "take-overs": self.reopened,
            "answers acknowledged": self.answers,
            "events acknowledged": self.events,
            "faults": len(self.faults),
            "seconds": round(time.monotonic() - begun, 1),
        }

    def _batch(self, name: str, kills: int) -> None:
        kinds = list(KINDS)
        ids = [f"{name}-{i}-{kinds[i % len(kinds)]}" for i in range(self.runs)]
        limit = time.monotonic() + PATIENCE_S
        is_over = False
        while not is_over and time.monotonic() < limit:
            is_over = self._life(name, ids, may_kill=self.kills < kills)
            if self.say is not None:
                print(f"\r{self.kills} kills, batch {name} ", end="", file=self.say, flush=True)
        if not is_over:
            left = [row.run_id for row in self.store.runs() if row.run_id in ids and row.status not in ENDED]
            self.faults.append(f"batch {name} is not over after {PATIENCE_S} s; left: {left}")
        for line in self.acks.read_text().splitlines() if self.acks.exists() else ():
            run_id, words = line.split(" ", 1)
            if run_id in ids:
                self.answered.setdefault(run_id, set()).add(words)
                self.answers += 1
        for run_id in ids:
            self._judge(run_id)

    def _life(self, name: str, ids: list[str], *, may_kill: bool) -> bool:
        """One driver from its start to its end, or to its death; True if it brought all runs to their end."""
        command = [sys.executable, "-m", "tests.store.kill.driver", self.place, name, str(self.runs), str(self.acks)]
        errors, begun = (self.folder / "errors").open("a+"), time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, text=True)
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != "driving":
                errors.seek(0)
                raise AssertionError(f"the driver did not come up: {errors.read()[-2000:]}")
            # A life is long enough for some work on a busy machine too, else no batch would ever end.
            longest = max(0.35, (time.monotonic() - begun) / 3)
            die_at = time.monotonic() + self.random.uniform(0.0, longest) if may_kill else float("inf")
            while process.poll() is None and time.monotonic() < die_at:
                self._from_outside(ids)
                time.sleep(0.01)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                self.kills += 1
            return process.wait() == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            errors.close()

    def _from_outside(self, ids: list[str]) -> None:
        """Answer one question and send one event, as another process does."""
        open_now = [request for request in self.store.requests() if request.run_id in ids and request.number % 3]
        if open_now:
            request = self.random.choice(open_now)
            words = f"{request.question.no}=outside-{request.id}"
            try:
                request.answer(value=f"outside-{request.id}")
            except RequestError:
                pass
            else:
                self.answered.setdefault(request.run_id, set()).add(words)
                self.answers += 1
        listening = [i for i in ids if i.endswith("listen") and len(self.sent.get(i, ())) < SIZES["listen"]]
        if listening:
            run_id = self.random.choice(listening)
            no = len(self.sent.setdefault(run_id, set()))
            try:
                self.store.run(run_id).send_event(News(no=no), key=f"news-{no}").result(5)
            except (RunNotFound, WorkflowDone):
                return
            self.sent[run_id].add(no)
            self.events += 1

    def _judge(self, run_id: str) -> None:
        """Whether a run is what it should be."""
        kind = run_id.rpartition("-")[2]
        try:
            ticks = self.store.history(run_id)
            state = fold(ticks)
        except Exception as error:
            self.faults.append(f"{run_id}: its journal cannot be folded: {error!r}")
            return
        self.ticks += len(ticks)
        self.reopened += sum(type(tick).__name__ == "RunOpened" for tick in ticks)
        fault = self._fault_of(run_id, kind, ticks, state)
        if fault:
            self.faults.append(f"{run_id}: {fault}")

    def _fault_of(self, run_id: str, kind: str, ticks: list[AnyTick], state: Any) -> str:
        if state.status != "completed":
            return f"it is {state.status}"
        if state.seq != len(ticks) or self.store.journal.last_seq(run_id) != len(ticks):
            return "its journal is not dense"
        said = broken(state)
        if said:
            return f"its state breaks a rule: {said}"
        seen = self.store.run(run_id)
        if seen._runner.state != state:
            return "a viewer has another state than the fold"
        result = seen.result(5)
        if kind == "ask":
            answered = self.answered.get(run_id, set())
            if set(result) < answered or not answered <= set(result) or len(result) != SIZES[kind]:
                return f"acknowledged {sorted(answered)}, and it has {result}"
        elif result != expected(kind):
            return f"it has {result}, not {expected(kind)}"
        row = self.store.journal.row(run_id)
        return "" if row is not None and row.status == "completed" else f"the store lists it as {row}"
