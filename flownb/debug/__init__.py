"""Stepping and history, headless. The panel only calls what is here."""
