"""The pure engine: ticks in, state and commands out. Begin reading at `ticks.py`."""
