"""A process that races another one to the same store; it begins when it is told to by a line.

    python racer.py PLACE ME claim|answer|write COUNT

claim: claims the runs race0, race1, ... and prints each epoch that it got. answer: answers their request 1 and prints
the entry's number, or 0. write: appends to a run of its own for COUNT seconds and lays entries into race0's inbox;
prints how many ticks it wrote.
"""

import sys
import time

from flownb.core.ticks import GateClosed, GateOpened, RequestAnswered
from flownb.store.journal import Append, Journal
from tests.store.places import open_journal
from tests.store.samples import out, started


def main(place: str, me: str, what: str, count: int) -> None:
    store = open_journal(place)
    print("ready", flush=True)
    sys.stdin.readline()
    if what == "write":
        print(write(store, me, count))
    else:
        for i in range(count):
            print(i, claim(store, me, i) if what == "claim" else answer(store, me, i))
    store.close()


def claim(store: Journal, me: str, i: int) -> int:
    return store.claim(f"race{i}", me, 60.0).epoch


def answer(store: Journal, me: str, i: int) -> int:
    return store.put(f"race{i}", RequestAnswered(9.0, 1, out("yes"), me), key="answer 1", request=1)


def write(store: Journal, me: str, seconds: int) -> int:
    end, seq = time.monotonic() + seconds, 1
    store.append([Append(me, 0, [started(me)], "running", 1, me)])
    while time.monotonic() < end:
        tick = GateClosed(1.0 + seq) if seq % 2 else GateOpened(1.0 + seq)
        store.append([Append(me, seq, [tick], ("running", "paused")[seq // 4 % 2], 1)], durable=seq % 5 == 0)
        if seq % 10 == 0:
            store.renew(me, 5.0)
            store.put("race0", tick, key=f"{me} {seq}")
        seq += 1
    return seq


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
