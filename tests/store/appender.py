"""A process that appends to a store until it is killed or done; it prints the seq of each tick that it has written.

    python appender.py PLACE RUN_ID COUNT

Appends COUNT ticks of its own. Where another process was faster it goes on from there.
"""

import sys

from flownb.core.ticks import GateClosed, GateOpened
from flownb.errors import JournalConflict
from flownb.store.journal import Append
from tests.store.places import open_journal
from tests.store.samples import started


def main(place: str, run_id: str, count: int) -> None:
    store = open_journal(place)
    last, done, conflicts = store.last_seq(run_id), 0, 0
    while done < count:
        tick = (GateClosed if last % 2 else GateOpened)(1.0 + last, by=str(done)) if last else started(run_id)
        try:
            # Now with the table of runs, in a transaction, and now as one statement.
            status = "running" if done % 4 < 2 else "paused"
            store.append([Append(run_id, last, [tick], status=status)], durable=done % 3 == 0)
        except JournalConflict as conflict:
            last = conflict.found  # type: ignore[attr-defined]
            conflicts += 1
            continue
        last, done = last + 1, done + 1
        print(last, flush=True)
    store.close()
    print(f"conflicts {conflicts}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
