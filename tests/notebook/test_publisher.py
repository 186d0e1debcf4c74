"""The publisher: few messages, none lost, nobody stopped by another. On a loop whose time is turned by hand."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from flownb.notebook.publisher import PERIOD_S, TWIN_PERIOD_S, Publisher, publisher_of
from flownb.runtime.host import Host


class Timer:
    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due, self.call, self.is_cancelled = due, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class TurnedLoop:
    """`call_later` of a loop, and time that passes by `run`."""

    def __init__(self) -> None:
        self.time = 0.0
        self.timers: list[Timer] = []
        self.closed = False

    def is_closed(self) -> bool:
        return self.closed

    def call_later(self, delay: float, call: Callable[..., None], *args: Any, context: Any = None) -> Timer:
        timer = Timer(self.time + delay, lambda: call(*args))
        self.timers.append(timer)
        return timer

    def run(self, seconds: float) -> None:
        until = self.time + seconds + 1e-9
        while due := [t for t in self.timers if t.due <= until]:
            timer = min(due, key=lambda t: t.due)
            self.timers.remove(timer)
            self.time = timer.due
            if not timer.is_cancelled:
                timer.call()
        self.time = until


class Panel:
    """Counts when it was told to publish, and sends `cost` messages for each news."""

    def __init__(self, loop: TurnedLoop, publisher: Publisher, *, cost: int = 1) -> None:
        self.loop, self.publisher, self.cost = loop, publisher, cost
        self.news = 0
        self.shown = 0
        self.sent: list[float] = []
        self.twins: list[float] = []

    def tell(self, *, now: bool = False) -> None:
        self.news += 1
        self.publisher.mark(self, now=now)

    def publish(self) -> int:
        if self.shown == self.news:
            return 0
        self.shown = self.news
        self.sent += [self.loop.time] * self.cost
        return self.cost

    def publish_twin(self) -> None:
        self.twins.append(self.loop.time)


class Broken(Panel):
    def publish(self) -> int:
        raise RuntimeError("broken")

    def publish_twin(self) -> None:
        raise RuntimeError("broken")


@pytest.fixture
def loop() -> TurnedLoop:
    return TurnedLoop()


@pytest.fixture
def publisher(loop: TurnedLoop) -> Publisher:
    return Publisher(Host(loop))  # type: ignore[arg-type]


def busiest_second(times: list[float]) -> int:
    return max(sum(start <= at < start + 0.999 for at in times) for start in times)


@pytest.mark.parametrize("cost", [1, 2, 3])
@pytest.mark.parametrize("panels", [1, 7])
def test_all_panels_together_send_at_most_twenty_messages_a_second(
    loop: TurnedLoop, publisher: Publisher, panels: int, cost: int
):
    """PANEL §1, however many messages a panel's news take; and each panel gets its turn."""
    made = [Panel(loop, publisher, cost=cost) for _ in range(panels)]
    for _ in range(1_000):
        for panel in made:
            panel.tell()
        loop.run(0.005)
    everything = [at for panel in made for at in panel.sent]
    assert busiest_second(everything) <= 20 + cost - 1  # a panel's own messages stand together
    assert len(everything) >= 5 * 20 - 2 * cost
    counts = [len(panel.sent) for panel in made]
    assert max(counts) - min(counts) <= cost


def test_the_last_state_is_always_sent(loop: TurnedLoop, publisher: Publisher):
    made = [Panel(loop, publisher) for _ in range(5)]
    for _ in range(100):
        for panel in made:
            panel.tell()
    loop.run(5 * PERIOD_S)
    assert [panel.shown for panel in made] == [100] * 5


def test_what_comes_right_after_a_message_keeps_its_distance(loop: TurnedLoop, publisher: Publisher):
    panel = Panel(loop, publisher, cost=3)
    panel.tell()
    loop.run(PERIOD_S)
    panel.tell()
    loop.run(10.0)
    assert panel.sent[3] - panel.sent[0] == pytest.approx(3 * PERIOD_S)


def test_a_panel_without_news_costs_no_turn(loop: TurnedLoop, publisher: Publisher):
    """Marked for nothing: the next one is called in the same round."""
    quiet, loud = Panel(loop, publisher), Panel(loop, publisher)
    publisher.mark(quiet)
    loud.tell()
    loop.run(PERIOD_S)
    assert (quiet.sent, len(loud.sent)) == ([], 1)


def test_nothing_is_left_to_do_when_nothing_happens(loop: TurnedLoop, publisher: Publisher):
    """No timer runs for ever beside a run that waits for days."""
    panel = Panel(loop, publisher)
    panel.tell()
    loop.run(10.0)
    assert loop.timers == []


def test_a_twin_is_renewed_at_most_once_a_second_and_at_the_end(loop: TurnedLoop, publisher: Publisher):
    panel = Panel(loop, publisher)
    for _ in range(350):
        panel.tell()
        loop.run(0.01)
    assert panel.twins == pytest.approx([TWIN_PERIOD_S * n for n in (1, 2, 3)])
    panel.tell(now=True)
    panel.tell(now=True)
    loop.run(10.0)
    assert len(panel.twins) == 4
    assert panel.twins[-1] < 3.7


def test_a_panel_that_raises_stops_no_other(loop: TurnedLoop, publisher: Publisher, caplog: pytest.LogCaptureFixture):
    broken, well = Broken(loop, publisher), Panel(loop, publisher)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            broken.tell()
            well.tell()
            loop.run(1.0)
        broken.tell(now=True)
        well.tell(now=True)
        loop.run(3.0)
    assert well.shown == 4
    assert well.twins
    assert "a panel could not be updated" in caplog.text


def test_a_closed_panel_is_not_called_again(loop: TurnedLoop, publisher: Publisher):
    panel = Panel(loop, publisher)
    panel.tell()
    publisher.forget(panel)
    loop.run(3.0)
    assert (panel.sent, panel.twins) == ([], [])


def test_hosts_have_one_publisher_each_and_lost_ones_are_let_go_of(loop: TurnedLoop):
    """A script that calls asyncio.run a thousand times keeps no thousand loops."""
    from flownb.notebook import publisher

    one, other = Host(loop), Host(TurnedLoop())  # type: ignore[arg-type]
    assert publisher_of(one) is publisher_of(one)
    loop.closed = True
    assert publisher_of(other) is not None
    assert one not in publisher._publishers
    other.loop.closed = True  # type: ignore[attr-defined]
    publisher_of(Host(TurnedLoop()))  # type: ignore[arg-type]
    assert other not in publisher._publishers
