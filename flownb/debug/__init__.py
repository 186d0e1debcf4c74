"""Breakpoints, stepping and a run's past: all of it works without a notebook."""
