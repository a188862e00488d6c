"""What came of the runs of a trace: by this it is decided what runs next."""

from __future__ import annotations

RESTS = 1.0
"""So many times the seconds of runs in vain, the loop runs before the next of them."""


class Record:
    """How often a trace was given up, and what its runs took.

    Attributes
    ----------
    refused : str
        Why the loop runs from now on.
    given_up : int
        Runs that found too many paths.
    why : str
        What the last of them said.
    lost : bool
        Whether the last run was one of them.
    in_vain, in_loop : float
        Seconds of such runs, and of the loop instead of them.
    slow : int
        Runs one after the other that took longer than the loop.
    """

    __slots__ = ("given_up", "in_loop", "in_vain", "lost", "refused", "slow", "why")

    def __init__(self) -> None:
        self.refused = self.why = ""
        self.given_up = self.slow = 0
        self.in_vain = self.in_loop = 0.0
        self.lost = False

    @property
    def rests(self) -> bool:
        """Whether the loop runs for now: it has not taken as long yet as what was tried."""
        return self.given_up > 0 and self.in_loop < RESTS * self.in_vain
