"""Tests that do the same in several threads."""

import threading


def in_threads(work, *several, times=0):
    """Call ``work`` in threads of their own, as `map` does, or so many times; wait for all."""
    calls = zip(*several, strict=True) if several else [()] * times
    threads = [threading.Thread(target=work, args=args) for args in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
