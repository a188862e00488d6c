"""What came of the runs of a trace: by this it is decided what runs next."""

from __future__ import annotations

RESTS = 1.0
"""After runs in vain the loop runs for this many times their seconds, before the next try."""


class Record:
    """How often a trace was given up, and what its runs took.

    Attributes
    ----------
    refused : str
        Why the loop runs from now on; "" if it does not.
    given_up : int
        Runs that found too many paths.
    why : str
        What the last run that failed said.
    lost : bool
        Whether the last run was one of them.
    in_vain, in_loop : float
        Seconds of runs that found too many paths, and of the loop after runs that failed.
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
