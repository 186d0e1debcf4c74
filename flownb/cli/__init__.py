"""The command line: what `python -m flownb` prints and does. It looks at stores and their runs, and needs no user code
but for `resume`."""
