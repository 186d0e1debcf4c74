"""The shell around the core: loops, threads, timers, user code. Everything asynchronous lives here."""
