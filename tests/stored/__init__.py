"""Runs that outlive their process: the rules of stores, leases, viewers and restarts."""
