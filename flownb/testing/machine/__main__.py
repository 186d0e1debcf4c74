"""`python -m flownb.testing.machine 5000` tries that many runs."""

import sys

from flownb.testing.machine import check

check(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
print("Every run held.")
