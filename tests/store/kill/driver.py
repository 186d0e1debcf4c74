"""The process that is killed: it drives all runs of a batch, from wherever they are, and answers some itself.

    python -m tests.store.kill.driver STORE BATCH COUNT ACKS

What it was told to be answered is a line in the file ACKS, written when the call has returned.
"""

import asyncio
import sys
from pathlib import Path

from flownb import Store
from flownb.errors import RequestError
from tests.store.kill.flows import KINDS, SIZES


async def main(place: str, batch: str, count: int, acks: Path) -> None:
    store, kinds = Store(place), list(KINDS)
    runs = [
        KINDS[kind]().with_options(store=store).run(run_id=f"{batch}-{i}-{kind}", n=SIZES[kind])
        for i in range(count)
        for kind in [kinds[i % len(kinds)]]
    ]
    print("driving", flush=True)
    asked = asyncio.create_task(answer(runs, acks))
    await asyncio.gather(*runs)
    asked.cancel()
    print("done", flush=True)


async def answer(runs: list, acks: Path) -> None:
    """Every third question, soon after it is open; the others are answered from outside."""
    while True:
        await asyncio.sleep(0.03)
        for run in runs:
            for request in run.requests:
                if request.number % 3 == 0:
                    value = f"driver-{request.id}"
                    try:
                        request.answer(value=value)
                    except RequestError:
                        continue
                    with acks.open("a") as file:
                        file.write(f"{run.run_id} {request.question.no}={value}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
