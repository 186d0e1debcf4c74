"""What running steps do: they finish, collect, fail, send and write."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from flownb.core import ticks as t
from flownb.core.collecting import buffer_of, heads_of, is_complete
from flownb.core.state import Delivery, is_ended
from flownb.core.values import Out
from flownb.testing.feed import key, out
from flownb.testing.machine import flows
from flownb.testing.machine.run import Run, is_alive, is_running

#: What code may want of a buffer: so many of the type that it was given, and so many of another one.
WANTS = ((2, 0), (2, 0), (3, 0), (1, 0), (1, 1), (0, 1))


class Stepping(Run):
    """Rules of running steps."""

    @precondition(is_running)
    @rule(i=flows.index, outs=flows.many, fan=st.booleans(), held=flows.sometimes)
    def a_step_finishes(self, i: int, outs: tuple[Out, ...], fan: bool, held: bool) -> None:
        running = self.running()
        self._finish(running[i % len(running)], outs, fan, held)

    @precondition(is_running)
    @rule(each=st.lists(st.tuples(flows.index, flows.index), min_size=2, max_size=8))
    def some_steps_finish(self, each: list[tuple[int, int]]) -> None:
        """With what their hints say, in lists where they may."""
        for i, n in each:
            if is_running(self):
                running = self.running()
                d = running[i % len(running)]
                step = self.state.spec.steps[d.step]
                fan = bool(step.fans) and (n % 3 > 0 or not step.returns)
                names = [key.removeprefix("test:") for key in (step.fans if fan else step.returns)]
                outs = [flows.named(names[(n + k) % len(names)], n + k) for k in range(n % 5)] if names else []
                self._finish(d, tuple(outs), fan)

    @precondition(is_alive)
    @rule(i=flows.index, outs=flows.many)
    def a_step_returns_while_it_waits(self, i: int, outs: tuple[Out, ...]) -> None:
        """Tasks that it left behind wait still (R4.74)."""
        alive = self.asleep() or self.running()
        self._finish(alive[i % len(alive)], outs, False)

    def _finish(self, d: Delivery, outs: tuple[Out, ...], fan: bool, held: bool = False) -> None:
        self.says(d, t.StepFinished, held=held, outs=outs if fan else outs[:1], fan=fan)

    @precondition(is_running)
    @rule(
        i=flows.index,
        wants=st.sampled_from(WANTS),
        together=st.lists(flows.outs, max_size=2).map(tuple),
        waits=st.booleans(),
    )
    def steps_collect(self, i: int, wants: tuple[int, int], together: tuple[Out, ...], waits: bool) -> None:
        """Some look into the same buffer, then finish one after the other: who decided on an old one runs again."""
        running = [d for d in self.running() if isinstance(d.out, Out)]
        if not running:
            return
        first = running[i % len(running)]
        assert isinstance(first.out, Out)
        counts = {first.out.key: wants[0]}
        counts[key("C")] = counts.get(key("C"), 0) + wants[1]
        wanted = tuple((name, n) for name, n in counts.items() if n)
        looked = [(d, self._looks(d, wanted)) for d in running if d.step == first.step][:3]
        if waits:
            self.opens(looked[0][0], t.Sleep(self.state.at))
        for d, collect in looked:
            if self.is_open():
                self._finishes_with(d, collect, together)

    def _looks(self, d: Delivery, wants: tuple[tuple[str, int], ...]) -> t.Collect:
        assert isinstance(d.out, Out)
        buffer = buffer_of(self.state, self.name_of(d), "")
        slot = d.out.key if any(d.out.key == name for name, _ in wants) else ""
        took = is_complete(buffer, wants, slot)
        return t.Collect("", wants, d.out, slot, heads_of(buffer, wants) if took else (), took)

    def _collected(self, d: Delivery) -> int:
        return sum(queue.n for queue in buffer_of(self.state, self.name_of(d), "").queues.values())

    def _finishes_with(self, d: Delivery, collect: t.Collect, outs: tuple[Out, ...]) -> None:
        still = self._looks(d, collect.wants) == collect
        ignored, had = self.state.ignored, self._collected(d)
        self.says(d, t.StepFinished, outs=outs, collects=(collect,))
        if is_ended(self.state) or self.state.ignored > ignored or self.state.status == "cancelling":
            return
        now = self.state.steps[d.step]
        found = now.active.get(d.id) or now.waiting.get(d.id)
        assert (found is None) == still, "it decided on an old buffer and did not run again, or the reverse (R4.3)"
        made = bool(collect.slot) - (sum(n for _, n in collect.wants) if collect.took else 0)
        assert self._collected(d) == had + (made if still else 0), (
            "what was taken is there, or what was not is gone (R4.4)"
        )
        assert found is None or found.gone or found.start == d.start + 1, "old code may still say something (R3.17)"

    # -- failures

    @precondition(is_alive)
    @rule(i=flows.index, after=flows.delays)
    def a_step_fails_and_is_tried_again(self, i: int, after: float) -> None:
        alive = self.alive()
        d = alive[i % len(alive)]
        at = self.state.at
        self.says(d, t.StepFailed, failure=flows.NO, retry_at=at + after)
        now = self.state.steps[d.step]
        again = now.active.get(d.id) or now.waiting.get(d.id)
        assert again is not None and again.attempt == d.attempt + (after == 0), "attempts are miscounted (R3.28)"
        left = [child for child in self.state.side.children.values() if child.delivery == d.id]
        assert not left, "a child outlives the attempt that failed (R6.27)"
        assert after == 0 or again.worker < 0, "a delivery that waits for its next attempt holds a worker (R3.28)"

    @precondition(is_alive)
    @rule(i=flows.index, held=flows.sometimes)
    def a_step_fails_and_a_handler_hears_of_it(self, i: int, held: bool) -> None:
        spec = self.state.spec
        gather = spec.lists.get(flows.FAILED.key, ())
        hear = [d for d in self.alive() if spec.catchers[d.step] or (d.path is not None and gather)]
        hear = [d for d in hear if d.path is not None] or hear
        if hear:
            d = hear[i % len(hear)]
            self.says(d, t.StepFailed, held=held, failure=flows.NO, failed=flows.FAILED)

    @precondition(is_alive)
    @rule(i=flows.index, how=st.sampled_from(("not",) * 60 + ("stops", "stops with a list", "fails")))
    def a_step_ends_the_run(self, i: int, how: str) -> None:
        alive, was = self.alive(), self.state.status
        d = alive[i % len(alive)]
        if how == "fails" or (how != "not" and was == "cancelling"):
            self.says(d, t.StepFailed, failure=flows.NO)
            assert self.state.status == "failed" or was == "cancelling", "a failed step fails its run (R3.35)"
        elif how != "not":
            elements = (out("A"), out("Stop"), out("B")) if "list" in how else (out("Stop"),)
            self.says(d, t.StepFinished, outs=elements, fan="list" in how)
            assert self.state.status == "completed"

    # -- what they do meanwhile

    @precondition(is_alive)
    @rule(i=flows.index, outs=flows.many, only=st.none() | flows.index, held=flows.sometimes)
    def a_step_sends(self, i: int, outs: tuple[Out, ...], only: int | None, held: bool) -> None:
        alive = self.alive()
        steps = self.state.spec.steps
        target = None if only is None else steps[only % len(steps)].name
        self.says(alive[i % len(alive)], t.EventsSent, held=held, outs=outs, target=target)

    @precondition(is_alive)
    @rule(i=flows.index, n=flows.few, what=st.sampled_from(("set", "drop", "stream", "rewind", "once")))
    def a_step_writes(self, i: int, n: int, what: str) -> None:
        alive = self.alive()
        d = alive[i % len(alive)]
        if what == "set":
            self.says(d, t.StateWritten, changes={"x": out("Value", n), f"n{n}": out("Value", n)}, dropped=("y",))
        elif what == "drop":
            self.says(d, t.StateWritten, changes={}, dropped=("x", f"n{n}"))
        elif what == "stream":
            self.says(d, t.StreamWritten, out=out("A", n))
        elif what == "rewind":
            self.says(d, t.StreamRewound)
        else:
            self.says(d, t.ValueRecorded, name=f"once {n}", out=out("Value", n))
