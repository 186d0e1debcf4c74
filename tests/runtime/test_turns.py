"""The line in which edits of the state stand."""

import asyncio
import threading

from flownb.runtime.turns import Turns


def test_turns_come_in_the_order_of_asking():
    turns = Turns()
    first, second, third = turns.ask(), turns.ask(), turns.ask()
    assert [t.done() for t in (first, second, third)] == [True, False, False]
    turns.next()
    assert [t.done() for t in (second, third)] == [True, False]
    turns.next()
    assert third.done()


def test_who_gives_up_leaves_the_line():
    turns = Turns()
    turns.ask()
    second, third = turns.ask(), turns.ask()
    turns.give_up(second)
    turns.next()
    assert third.done()
    assert not second.done()


def test_a_turn_that_came_and_is_given_up_passes_on():
    turns = Turns()
    first, second = turns.ask(), turns.ask()
    turns.give_up(first)
    assert second.done()


def test_threads_and_tasks_stand_in_one_line():
    turns = Turns()
    inside = 0
    worst = 0

    def enter() -> None:
        nonlocal inside, worst
        inside += 1
        worst = max(worst, inside)

    def leave() -> None:
        nonlocal inside
        inside -= 1
        turns.next()

    def plain() -> None:
        for _ in range(50):
            turns.ask().result(10)
            enter()
            leave()

    async def work() -> None:
        for _ in range(50):
            await turns.ask()
            enter()
            await asyncio.sleep(0)
            leave()

    async def main() -> None:
        threads = [threading.Thread(target=plain) for _ in range(3)]
        for thread in threads:
            thread.start()
        await asyncio.gather(*(work() for _ in range(3)))
        for thread in threads:
            await asyncio.to_thread(thread.join)

    asyncio.run(main())
    assert (worst, inside) == (1, 0)
