"""Kill a process that drives 30 runs, again and again, and see that nothing is lost.

    python -m tests.store.kill runs.db --kills 100
    python -m tests.store.kill postgresql://... --kills 100

A new process drives on each time; meanwhile this one answers and sends from outside, as a viewer. At the end every run
has the right result, its journal is dense and folds to one state with one end, and what was acknowledged is in it.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.store.kill.hunt import Hunt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="path of an SQLite file, or the URL of a PostgreSQL database")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--runs", type=int, default=30, help="runs driven at a time")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        hunt = Hunt(given.store, Path(folder), runs=given.runs, seed=given.seed, say=sys.stderr)
        counts = hunt.run(given.kills)
    print(json.dumps(counts, indent=2))
    for fault in hunt.faults:
        print(fault, file=sys.stderr)
    return 1 if hunt.faults else 0


if __name__ == "__main__":
    sys.exit(main())
