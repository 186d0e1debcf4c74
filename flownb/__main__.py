"""`python -m flownb`: the runs of a store, from a terminal."""

import sys

from flownb.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
