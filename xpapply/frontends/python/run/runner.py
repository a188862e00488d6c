"""Python functions traced on a few slices, and run on all in blocks, call after call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import arrays, config
from ....errors import TraceError
from ....limits import LIMITS
from ....loop.arguments import Arguments
from ....runtime.warning_filters import silent
from ..sandbox.tracing import Tracing
from ..trace.tree import TooManyPaths
from .account import Account, Begun
from .in_blocks import InBlocks
from .record import Record
from .rows import Rows

if TYPE_CHECKING:
    from ....ir.graph import Graph


class Trace:
    """A function whose calls were written down, for slices of one shape and dtype.

    It holds on to no function. What runs on all slices is chosen above, see
    `xpapply.planning.python.traced`: here are the calls themselves, in blocks of slices.

    Parameters
    ----------
    arguments : Arguments
        What it is called with.
    slice0, sample : array (M,) or tuple of arrays
        The first slice, whose result fixes the dtype, and the one to trace on; of several arrays
        one of each.
    runs_graph : callable
        ``runs_graph(graph)`` is what runs a network that the function calls.
    begun : Begun, optional
        The first calls of the loop, of which the first is for `slice0`.
    around : float
        Seconds that the loop takes for a slice beside the call.
    limit : float
        CPU seconds that writing it down may take ...
    per_step : float
        ... and for each call that is written down, where it is not known what the loop takes.

    Attributes
    ----------
    results : tuple of ShapeDtype
        Of the result, or of all that are kept apart.
    took : float
        CPU seconds of writing it down.
    keeps : bool
        Whether it keeps a large array of the user's alive.
    record : Record
        What came of its runs.
    """

    def __init__(
        self,
        f: Any,
        arguments: Arguments,
        slice0: Any,
        sample: Any,
        runs_graph: Callable[[Graph], Any],
        begun: Begun | None = None,
        *,
        around: float = 0.0,
        limit: float = math.inf,
        per_step: float = 0.0,
    ) -> None:
        several = isinstance(slice0, tuple)
        self.library = arrays.library(slice0[0] if several else slice0)
        self._tracing = Tracing(arguments, str(self.library), runs_graph)
        self._tracing.limit, self._tracing.per_step = limit, per_step
        self.unchanged: Callable[[Any], bool] = self._tracing.watch
        try:
            self._blocks = InBlocks(
                f, arguments, slice0, sample, self._tracing, str(self.library), begun, around
            )
        except TraceError as error:
            error.unchanged = self.unchanged
            raise
        self.took = self._tracing.seconds
        self._tracing.limit = math.inf  # of further paths accounts decide
        self.tree, self._path = self._blocks.tree, self._blocks.path
        if several and self._tracing.scratch:
            raise TraceError("it sets attributes")
        self.results = self._blocks.results
        self.keeps = self._tracing.keeps
        self.has_run = False
        self._is_timed = False
        self._gives_up: tuple[TraceError, int] | None = None
        """What the next run raises, as `explain` said, unless it has more slices than so many."""
        self.record = Record()

    @property
    def seconds(self) -> float:
        """What a call of `f` takes."""
        return self._blocks.seconds

    def timed(self, rows: Rows, f: Any, limit: float) -> float:
        """Seconds of a call of `f` in a loop: measured once, by calls for so many seconds."""
        if not self._is_timed:
            self._is_timed = True
            with self._tracing.scratch.kept():
                self._blocks.seconds = self._blocks.timed(rows, f, limit)
        return self._blocks.seconds

    @property
    def looped(self) -> int:
        """Slices that `f` was called for in the last run."""
        return self._blocks.looped

    @property
    def why_left(self) -> str:
        """Why slices were left to `f` in the last run, if it was for what else would take."""
        return self._blocks.why_left

    # --- running ----------------------------------------------------------------------------

    def begin(self, rows: Rows) -> None:
        """Note that a run begins; raise what it would give up by, where that was said."""
        self.has_run = True
        if self._gives_up is not None:  # which was said: the paths that are known now come next
            (error, slices), self._gives_up = self._gives_up, None
            if math.prod(rows.batch) <= slices and not config.current().engine:
                raise error

    def by_calls(self, rows: Rows, f: Any, account: Account | None = None) -> Any:
        """The results ``(*batch, *result shape)`` of all slices, by the calls that `f` makes.

        `account`: what that may cost beyond the loop; None: whatever it costs.
        """
        return self._blocks(rows, f, account)

    def check(self, f: Any, v: Any, result: Any) -> None:
        """Raise `Differs` where a result is not what `f` itself gives for a slice."""
        self._blocks.check(f, v, result)

    def end(self, rows: Rows, f: Any) -> None:
        """Leave in attributes what the loop leaves: what `f` sets for the last slice."""
        if self._tracing.scratch:
            with np.errstate(all="ignore"), silent():
                self._blocks.call(f, rows[(-1,) * len(rows.batch)])
        self._tracing.settle()

    def why_given_up(self, rows: Rows, f: Any) -> str:
        """Why a call would give up, as far as some of the slices tell; "" if it would not."""
        if not self.tree.branches and not self.tree.catches:
            return ""
        if self.record.given_up and self._gives_up is not None:
            return str(self._gives_up[0])  # as was said, until the next run
        known = self.tree.count
        most = None
        if self.library == "numpy":
            most = self.record.most(math.prod(rows.batch), self.seconds)
        error = self._blocks.gives_up(rows, f, most)
        grew = self.tree.count > known and not self._blocks.tries_all(rows)
        # so few slices still go ways that none of all went
        if error is None and self.record.given_up and grew:
            error = TooManyPaths(self.record.why)
        self._gives_up = None if error is None else (error, math.prod(rows.batch))
        return str(error or "")

    @property
    def overhead(self) -> float:
        """Seconds that a call takes, however few slices there are."""
        return LIMITS.blocks_run + LIMITS.blocks_call * len(self.tree.calls)

    @property
    def kernels(self) -> tuple[str, ...]:
        """What runs, in words."""
        return (self.tree.in_words(),)
