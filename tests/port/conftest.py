"""The programs are loaded by their tests, twice each, never imported as they stand."""

collect_ignore_glob = ["programs/*", "differences/*"]
