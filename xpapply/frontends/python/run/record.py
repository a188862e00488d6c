"""Records of runs, by which further calls choose between all slices at once and the loop."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ....functions.cache import BoundedDict
from ....ir.avals import ShapeDtype
from ....limits import LIMITS
from ....runtime.budget import Budget
from . import account


class Record:
    """Times of runs of a trace, and how often it was given up.

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
    loops : Budget
        What the loop may take before the next run, after runs that found too many paths.
    slow : int
        Runs one after the other that took longer than the loop.
    was_spent : bool
        Whether the last run took all that it was given.
    saved : float
        CPU seconds that runs took less than the loop would have, all together.
    runs : int
        How many there were.
    planning : float
        CPU seconds that went before the first one.
    looped : float
        What a slice has taken in a loop over all, in CPU seconds; inf: none was timed.
    """

    __slots__ = (
        "_budgets",
        "_least",
        "_times",
        "given_up",
        "looped",
        "loops",
        "lost",
        "planning",
        "refused",
        "runs",
        "saved",
        "slow",
        "was_spent",
        "why",
    )

    def __init__(self) -> None:
        self.refused = self.why = ""
        self.given_up = self.slow = self.runs = 0
        self.loops = Budget(0.0)
        self.lost = self.was_spent = False
        self.saved, self.planning = LIMITS.lent, 0.0
        self._least: dict[int, float] = {}
        self._budgets: dict[int, Budget] = {}
        self._times = LIMITS.loops_per_run
        self.looped = math.inf

    def for_another(self) -> Record:
        """The record of the same with other numbers: it knows what runs take, if they go well."""
        found = Record()
        if self.does_well:
            found.runs, found.looped, found._least = self.runs, self.looped, dict(self._least)
        return found

    @property
    def rests(self) -> bool:
        """Whether the loop runs for now: it has not yet taken as long as the try."""
        return self.given_up > 0 and not self.loops.is_over

    @property
    def does_well(self) -> bool:
        """Whether no run was given up."""
        return not (self.given_up or self.refused or self.slow)

    def in_vain(self, seconds: float) -> None:
        """Note a run that found too many paths: the loop runs for many times what it took.

        After each further one twice as long. What was planned for the first is in vain as well.
        """
        if not self.given_up:
            seconds += self.planning
        self.loops.limit += LIMITS.loops_per_run * 2**self.given_up * seconds

    def expected(self, slices: int) -> float | None:
        """CPU seconds of a run of so many slices, by earlier ones; None: not known."""
        return self._least.get(slices.bit_length())

    def is_slower(self, slices: int, seconds: float) -> bool:
        """Whether runs of about so many slices have taken longer than the loop."""
        seconds = min(seconds, self.looped)
        return LIMITS.run_tells * (self.expected(slices) or 0.0) > slices * seconds

    def is_quicker(self, slices: int, seconds: float) -> bool:
        """Whether runs of about so many slices are known to take less than the loop."""
        return not (self.is_slower(slices, seconds) or self.is_close(slices, seconds))

    def is_close(self, slices: int, seconds: float) -> bool:
        """Whether a loop is to be timed: runs take not much less than first calls say of it.

        These may take several times as long as others.
        """
        if self.looped < math.inf or self.is_slower(slices, seconds):
            return False
        return LIMITS.run_close * (self.expected(slices) or 0.0) > slices * seconds

    def loops_instead(self, slices: int, seconds: float) -> bool:
        """Whether the loop runs now, since runs of similar size have been slower.

        What they took may have been due to what else the machine did: after loops of many times
        their seconds there is another one, after twice as many the next. The second run may still
        take memory and threads that later ones have.
        """
        if not self.is_slower(slices, seconds) or (self.runs == 2 and not self.was_spent):
            return False
        key = slices.bit_length()
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = Budget(self._least[key], self._times)
        if budget.spend(slices * seconds):
            return True
        del self._least[key], self._budgets[key]
        self._times *= 2
        return False

    def rested(self, slices: int) -> Budget | None:
        """The time that loops may take before the next run of similar size."""
        return self._budgets.get(slices.bit_length())

    def most(self, slices: int, seconds: float) -> float:
        """CPU seconds that the next run may lose: `seconds` is what a slice takes in the loop."""
        loop, least = slices * seconds, self.expected(slices)
        if self.runs == 0:
            most = LIMITS.first_call + LIMITS.first_call_share * loop - self.planning
            most = max(most, LIMITS.first_run * loop)
        else:
            if least is not None:
                run = LIMITS.slower_than_least * least
            else:
                run = (LIMITS.slower_again if self.given_up else LIMITS.slower_than_loop) * loop
            most = LIMITS.later_call + LIMITS.later_call_share * loop + run
        return most + max(0.0, LIMITS.saved_share * self.saved)

    def for_run(self, slices: int, seconds: float, known: Sequence[Any]) -> account.Account:
        """The account of the next run."""
        most, tries = self.most(slices, seconds), self.expected(slices) is None
        return account.Account(slices, seconds, most, known, tries=tries)

    def ran(self, run: account.Account, took: float, compiles: bool) -> None:
        """Note what a run took; `compiles`: with what makes later ones faster."""
        self.runs += 1
        self.was_spent = run.is_spent
        self.saved += run.loop - took
        key = run.slices.bit_length()
        if compiles:
            return
        if run.is_spent:
            if self.runs > 1:  # the first one loads and makes things
                self._least[key] = max(took, 2 * run.loop)
            return
        # the first one tells no more than that runs are quicker
        if self.runs > 1 or LIMITS.run_tells * took < run.loop:
            self._least[key] = min(took, self._least.get(key, took))


class AtOnce:
    """A function prepared for all slices at once, traced or compiled from source.

    Call it as ``at_once(rows, f)``: it holds on to no function.

    Attributes
    ----------
    results : tuple of ShapeDtype
        Of the result, or of all that are kept apart.
    is_traced : bool
        Whether it is a `TracedFunction`, which is not loaded to find out.
    differs : bool
        Whether the first slice of each call says of which dtypes results are.
    draws : bool
        Whether it draws random numbers: slices go one after the other.
    asks_first : bool
        Whether a call of the function says of which dtype results are; else what runs it tells.
    keeps : bool
        Whether it keeps a large array of the user's alive.
    record : Record
        What came of its runs.
    plans : set of Plan
        Those that run it, which shall say so if the loop does from now on.
    ready : dict
        How further calls of `vectorize` run it, by how their arrays lie.
    agreed : dict
        What it gave for arrays of another library, where that was what `f` gives there.
    """

    library: Any
    results: tuple[ShapeDtype, ...]
    keeps: bool
    differs = has_run = is_traced = draws = False
    asks_first = True

    def __init__(self) -> None:
        self.record = Record()
        self.plans: weakref.WeakSet[Any] = weakref.WeakSet()
        self.agreed, self.ready = BoundedDict(), BoundedDict()

    def unspent(self, f: Any) -> AbstractContextManager[Any]:
        """A context for one more call of the function, after which generators are restored."""
        return nullcontext()
