"""What happens to a run as a whole: events from outside, the gate, lost drivers, forks, newer definitions, its end."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from flownb.core import ticks as t
from flownb.core.adopting import homeless
from flownb.core.editing import may_be_edited
from flownb.core.life import lives
from flownb.core.outstanding import is_quiet
from flownb.core.reduce import reduce
from flownb.core.spec import Spec, StepSpec, link
from flownb.core.state import Delivery, RunState
from flownb.core.values import Out
from flownb.testing.feed import out, step
from flownb.testing.machine import flows
from flownb.testing.machine.run import Run, goes_on, has_waiting_work, is_idle, is_open_now, is_over

#: What may change when a late tick is counted.
COUNTS = {"seq", "at", "counts", "budget"}
WHO = ("ann", "bob")


class Life(Run):
    """Rules of the run's own life."""

    # -- from outside

    @precondition(is_open_now)
    @rule(
        event=flows.outs, only=st.none() | flows.index, name=st.sampled_from(("", "", "k1", "k2")), held=flows.sometimes
    )
    def an_event_arrives(self, event: Out, only: int | None, name: str, held: bool) -> None:
        steps = self.state.spec.steps
        target = None if only is None else steps[only % len(steps)].name
        tick = t.EventArrived(self.state.at, event, target, name)
        was_known, before = name in self.state.side.keys, self.state
        if held:
            self.feed_held(tick)
        else:
            self.feed(tick)
        if name and was_known:
            assert self.state.ignored == before.ignored + 1, "the same key was taken twice (R2.33)"

    @precondition(is_idle)
    @rule(n=st.integers(1, 3))
    def the_start_comes_again(self, n: int) -> None:
        """An ordinary event (R2.15), which gives the run something to do."""
        for _ in range(n):
            if self.is_open():
                self.feed(t.EventArrived(self.state.at, out("Start")))

    @precondition(is_open_now)
    @rule()
    def quiet_is_noticed(self) -> None:
        if is_quiet(self.state):
            self.feed(t.QuietNoticed(self.state.at))
            assert self.state.status in ("waiting", "failed")

    @precondition(goes_on)
    @rule(what=st.sampled_from((*("nothing",) * 12, "run", "step", "end", "end all")), i=flows.index)
    def somebody_holds_the_run_open(self, what: str, i: int) -> None:
        if what == "nothing":
            return
        self.numbers += 1
        holds, alive = list(self.state.side.holds), self.alive()
        if what == "run":
            self.feed(t.HoldChanged(self.state.at, self.numbers, "a webhook"))
        elif what == "step" and alive:
            self.feed(t.HoldChanged(self.state.at, self.numbers, "a task", alive[i % len(alive)].id))
        elif what == "end" and holds:
            self.feed(t.HoldChanged(self.state.at, holds[i % len(holds)]))
        else:
            for hold in holds:
                self.feed(t.HoldChanged(self.state.at, hold))

    # -- late

    @precondition(is_open_now)
    @rule(i=flows.index, what=st.sampled_from(("said", "ids", "ids", "ghosts")))
    def something_comes_late(self, i: int, what: str) -> None:
        """What old code says, and timers, answers and marks of what is over (R3.19)."""
        late = self._old(i) if what == "said" else self._ghostly() if what == "ghosts" else []
        late = late or self._unknown()
        tick = late[i % len(late)]
        before, finished = self.state, self.world.finished
        self.feed(tick)
        after = self.state
        changed = {f for f in RunState.__struct_fields__ if getattr(after, f) != getattr(before, f)}
        assert after.ignored == before.ignored + 1 and changed <= COUNTS, (tick, changed)
        assert self.world.finished == finished

    def _old(self, i: int) -> list[t.AnyTick]:
        code = self.world.code
        begin = i % len(self.said) if self.said else 0
        return [tick for tick in self.said[begin : begin + 20] if code.get(tick.delivery) != tick.start]  # type: ignore[union-attr]

    def _ghostly(self) -> list[t.AnyTick]:
        """From code that is lost with its driver, or with its attempt."""
        at = self.state.at
        return [t.StepFinished(at, self.name_of(d), d.id, d.start) for d in self.ghosts()]

    def _unknown(self) -> list[t.AnyTick]:
        at, ids = self.state.at, self.state.ids
        return [
            t.TimerFired(at, ids.timer),
            t.RequestAnswered(at, ids.request, out("Reply")),
            t.RequestDisposed(at, ids.request),
            t.RequestHeld(at, ids.request),
            t.ChildChanged(at, ids.child, True),
            t.ChildFinished(at, ids.child, "completed"),
            t.HoldChanged(at, self.numbers + 1),
            t.StepFinished(at, "no such step", 1, 1),
            t.StepFailed(at, "first", self.state.next_delivery, 1, flows.NO),
            *(t.WaitWithdrawn(at, self.name_of(d), d.id, d.start, self.marks + 1) for d in self.alive()[:2]),
        ]

    # -- control

    @precondition(goes_on)
    @rule(
        what=st.sampled_from((*("nothing",) * 8, "close", "open", "open all", "open all", "grant", "grant")),
        reason=st.sampled_from(("person", "breakpoint", "budget", "parent", "livelock")),
    )
    def somebody_works_the_gate(self, what: str, reason: t.GateReason) -> None:
        at = self.state.at
        if what == "close":
            self.feed(t.GateClosed(at, reason, "ann"))
            assert reason in self.state.gate and not self.state.budget
        elif what == "open":
            closed = set(self.state.gate)
            self.feed(t.GateOpened(at, reason, "ann"))
            assert set(self.state.gate) == closed - {reason}, "a reason was lifted by the tick of another (R5.23)"
        elif what == "grant":
            budget = self.state.budget
            self.feed(t.StepsGranted(at, 2))
            assert self.state.budget == budget + 2
        elif what == "open all":
            for why in self.state.gate:
                self.feed(t.GateOpened(at, why, "ann"))
            assert self.state.gate == () and not self.state.side.held.n

    @precondition(has_waiting_work)
    @rule(i=flows.index, what=st.sampled_from(("edit", "edit", "drop")), n=flows.few)
    def somebody_has_a_hand_in_what_waits(self, i: int, what: str, n: int) -> None:
        """An edit changes an event and nothing else, a drop takes it out (R5.29, R5.30)."""
        waiting = [d for d in lives(self.state) if d.worker < 0]
        d = waiting[i % len(waiting)]
        at, step, original = self.state.at, self.name_of(d), d.out if isinstance(d.out, tuple) else (d.out,)
        if what == "drop":
            self.feed(t.EventDropped(at, step, d.id, original, "ann"))
            assert all(each.id != d.id for each in lives(self.state)), "what was dropped lives (R5.30)"
            return
        outs = tuple(replace(out, value=flows.Fields(n)) for out in original)
        before, ignored = self.state, self.state.ignored
        self.feed(t.EventEdited(at, step, d.id, outs, original, "ann"))
        after = next(each for each in lives(self.state) if each.id == d.id)
        if may_be_edited(d):
            assert repr(after) == repr(replace(d, out=outs if isinstance(d.out, tuple) else outs[0]))
        else:
            assert repr(after) == repr(d), "code that runs has another event (R5.29)"  # a value may be a copy by now
            assert self.state.ignored == ignored + 1
        assert (before.busy, [*before.timers]) == (self.state.busy, [*self.state.timers])

    @precondition(goes_on)
    @rule(now=st.sampled_from((False, False, False, True)), asks=st.booleans())
    def the_driver_is_lost(self, now: bool, asks: bool) -> None:
        """Of what must not simply run again somebody is asked what became of it (R3.62)."""
        if not now:
            return
        lost = {d.id: d for d in self.running()}
        steps = self.state.spec.steps
        unknown = {
            d.id: out("Ask", "what became of it") for d in lost.values() if asks and not steps[d.step].idempotent
        }
        was = self.state.status
        self.feed(t.RunOpened(self.state.at, "another", unknown=unknown))
        if was == "cancelling":
            assert self.state.status == "cancelled", "a restart does not end a cancelled run (R5.51)"
            return
        assert self.state.status != "suspended"
        self._lost_runs_again(lost, unknown.keys())

    def _lost_runs_again(self, lost: dict[int, Delivery], unknown: object = ()) -> None:
        for d in self.running():
            assert d.id not in lost or d.start == lost[d.id].start + 1, "lost code keeps its start number (R3.17)"
            assert d.id not in lost or d.attempt == lost[d.id].attempt, "a restart is no attempt (R3.60)"
        due = {d.id for s in self.state.steps for d in s.waiting.values() if d.due}
        again = {d.id for d in self.running()} | due
        assert lost.keys() - set(unknown) <= again, "lost work does not run again (R3.60)"  # type: ignore[call-overload]
        assert not set(unknown) & again, "nobody said what became of it, and it runs again (R3.62)"  # type: ignore[call-overload]

    @precondition(goes_on)
    @rule(order=st.integers(0, 50), adds=st.booleans(), drops=st.booleans(), workers=st.sampled_from((1, 3, None)))
    def newer_definitions_are_adopted(self, order: int, adds: bool, drops: bool, workers: int | None) -> None:
        """Steps stand in another order, one is new, one without work is gone."""
        spec = self.state.spec
        if order > 5 or self.state.status == "cancelling":
            return
        steps = list(spec.steps)
        Random(order).shuffle(steps)
        steps[0] = replace(steps[0], num_workers=workers)
        if adds and "new" not in spec.index:
            steps.insert(1, step("new", ("C", "B"), "A"))
        newer = _linked(spec, steps)
        fewer = _linked(spec, steps[:-1])
        if drops and len(steps) > 2 and not homeless(self.state, fewer):
            newer = fewer
        work = {d.id: self.name_of(d) for d in (*self.alive(), *self.ghosts())}
        self.feed(t.DefinitionAdopted(self.state.at, newer, "ann"))
        now = {d.id: self.name_of(d) for d in (*self.alive(), *self.ghosts())}
        assert not self.goes_on() or work.items() <= now.items(), "work is at another step (R2.23)"

    @precondition(goes_on)
    @rule(
        what=st.sampled_from(
            ("nothing",) * 100 + ("suspend", "cancel", "cancel and tidy", "fork", "fork", "fork whole")
        ),
        later=flows.delays,
        changes=st.booleans(),
    )
    def somebody_decides(self, what: str, later: float, changes: bool) -> None:
        at, was = self.state.at, self.state.status
        if what == "suspend":
            self.feed(t.RunSuspended(at, "for the night", "ann"))
            assert self.state.status == ("cancelled" if was == "cancelling" else "suspended")
        elif what.startswith("cancel"):
            self.feed(t.CancelRequested(at, "enough", "ann", out("Cancelled") if "tidy" in what else None))
            slow = "tidy" in what and any(s.on_cancel for s in self.state.spec.steps)
            expected = "cancelling" if slow or was == "cancelling" else "cancelled"
            assert self.state.status == expected, "a cancel is not done (R5.50, R5.51)"
        elif what.startswith("fork") and was != "cancelling":
            self._fork(later, "whole" in what, changes)

    def _fork(self, later: float, whole: bool, changes: bool) -> None:
        """From here on this is the fork; `whole` from a snapshot, which begins a journal."""
        before, at = self.state, self.state.at + later
        self.numbers += 1
        name = f"fork {self.numbers}"
        alive, children = self.alive(), list(before.side.children)
        settled = tuple(d.id for d in alive[:2]) if changes else ()
        over = tuple(children[:1]) if changes else ()
        lost = {d.id: d for d in self.running() if d.id not in settled}
        events = {key: out("A", "other") for key in list(lost)[:1] if isinstance(lost[key].out, Out)} if changes else {}
        user = {"x": out("Value", "forked")} if changes else None
        base = before if whole else None
        tick = t.RunForked(at, name, before.run_id, before.seq, user, events, (), base, settled, over)
        if whole:
            self.said.clear()
            self._begin(tick)
        else:
            self.feed(tick)
        after = self.state
        assert after.run_id == name and after.gate == () and after.status == "running"
        self._lost_runs_again(lost)
        due = {timer.id: timer.due_at for timer in after.timers.values() if timer.kind not in ("timeout", "rate")}
        was = {timer.id: timer.due_at + later for timer in before.timers.values() if timer.id in due}
        assert due == was, "a fork has other times to wait (R6.39)"
        assert all(child.run_id.startswith(f"{name}/") for child in after.side.children.values()), "not its own (R6.40)"
        for key, event in events.items():
            found = after.steps[lost[key].step]
            d = found.active.get(key) or found.waiting[key]
            assert d.out == event, "a fork runs with the old event (R6.37)"
        self._settle([d for d in alive if d.id in settled], over)

    def _settle(self, settled: list[Delivery], over: tuple[int, ...]) -> None:
        """The ends that the fork was promised."""
        for d in settled:
            if self.goes_on() and (d.id, d.start) in self.world.code.items():
                self.says(d, t.StepFinished, outs=(out("C"),))
        for child in over:
            if self.goes_on() and child in self.state.side.children:
                self.feed(t.ChildFinished(self.state.at, child, "completed", out("Value", "child")))

    # -- the end

    @precondition(is_over)
    @rule()
    def nothing_comes_after_the_end(self) -> None:
        at = self.state.at
        for tick in (t.QuietNoticed(at), t.CancelRequested(at), t.RunOpened(at, "another"), t.GateClosed(at)):
            try:
                reduce(self.state, tick)
            except ValueError:
                continue
            raise AssertionError(f"{tick!r} came after the end (R2.41)")


def _linked(spec: Spec, steps: list[StepSpec]) -> Spec:
    return link(replace(spec, steps=tuple(steps)))
