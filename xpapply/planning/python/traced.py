"""Python functions traced on a few slices, and the ways to run them on all that there are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import arrays, config
from ...errors import OnlyTraced, Raises, TooManyPaths, TraceError, UnsupportedError
from ...frontends.python.run.account import Account, planning
from ...frontends.python.run.in_blocks import InBlocks
from ...frontends.python.run.record import AtOnce
from ...frontends.python.run.rows import Rows
from ...frontends.python.sandbox.tracing import Tracing
from ...ir.avals import ShapeDtype
from ...limits import LIMITS
from ...loop.arguments import Arguments
from ...loop.begun import Begun
from ...runtime import threads
from ...runtime.warning_filters import silent
from .. import engines
from ..ways import Run, Way, chosen
from .by_graph import ByCalls, ByGraph, graph_of_several
from .kernel_of_paths import KernelOfPaths

if TYPE_CHECKING:
    from ...ir.graph import Graph


class TracedFunction(AtOnce):
    """A function whose calls were written down, for slices of one shape and dtype.

    Parameters
    ----------
    arguments : Arguments
        What it is called with.
    slice0, sample : array (M,) or tuple of arrays
        The first slice, whose result fixes the dtype, and the one to trace on; of several arrays
        one of each.
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
    blocks : InBlocks
        The calls, for all slices in blocks.
    ways : list of Way
        All that there are: the first one that does not refuse runs, and `explain` says which.
    """

    writes, is_traced = False, True

    def __init__(
        self,
        f: Any,
        arguments: Arguments,
        slice0: Any,
        sample: Any,
        begun: Begun | None = None,
        *,
        around: float = 0.0,
        limit: float = math.inf,
        per_step: float = 0.0,
    ) -> None:
        super().__init__()
        several = isinstance(slice0, tuple)
        self.library = arrays.library(slice0[0] if several else slice0)
        self._tracing = Tracing(arguments, str(self.library), engines.Deferring)
        self._tracing.limit, self._tracing.per_step = limit, per_step
        self.unchanged: Callable[[Any], bool] = self._tracing.watch
        try:
            self.blocks = InBlocks(
                f, arguments, slice0, sample, self._tracing, str(self.library), begun, around
            )
        except TraceError as error:
            error.unchanged = self.unchanged
            raise
        self._tracing.limit = math.inf  # of further paths accounts decide
        self.tree = self.blocks.tree
        if several and self._tracing.scratch:
            raise TraceError("it sets attributes")
        self.results = self.blocks.results
        self.keeps = self._tracing.keeps
        self._is_timed = False
        self._gives_up: tuple[TraceError, int] | None = None
        """The error that `explain` announced for the next run, and for how many slices."""
        asked = arguments.dtypes
        if asked is not None and any(np.dtype(d).kind == "U" for d in asked):
            raise TraceError("it returns text")  # which a loop that is compiled chooses
        aval: Any = tuple(map(_aval, slice0)) if several else _aval(slice0)
        blocks, scratch = self.blocks, self._tracing.scratch
        self.by_graph = ByGraph(f, arguments, aval, blocks, scratch)
        if self.library not in ("numpy", "cupy", "torch") and self.by_graph.graph is None:
            why = self.by_graph.why_not(None)
            raise TraceError(f"no graph for {self.library} arrays: {why}")
        self.ways: list[Way] = [self.by_graph, ByCalls(blocks)]
        if self.library == "numpy":
            dtype = asked if asked is None or arguments.results else asked[0]
            kernel = KernelOfPaths(blocks, self.record, aval, dtype, arguments.results)
            self.ways.insert(0, kernel)
        elif several and self.library in ("cupy", "torch"):
            from .one_launch import OneLaunch

            graph = partial(graph_of_several, f, arguments, aval, blocks, scratch)
            self.ways.insert(0, OneLaunch(graph, blocks, scratch))

    @property
    def compiles(self) -> bool:
        """Whether the last run compiled something, so that its time is no estimate of the next."""
        return any(way.compiles for way in self.ways)

    @threads.forkable
    def __call__(self, rows: Rows, f: Any, account: Account | None = None) -> Any:
        """All slices through `f`; the result axes stand where the slices' axis was.

        `account`: what that may cost beyond the loop; None: whatever it costs.
        """
        self._begin(rows)
        run = self.run_for(rows)
        found = run(rows, f, account)
        if run.way is self.ways[-1]:
            for way in self.ways:
                way.waited(rows)
        self._end(rows, f)
        return found

    def run_for(self, rows: Rows, told: list[str] | None = None) -> Run:
        """Choose the run for slices like these; `told` gets remarks for plans about the others.

        Raises
        ------
        UnsupportedError
            If an engine is asked for that cannot.
        """
        run = chosen(self.ways, rows, told)
        if run is None:
            engine = config.current().engine
            reasons = (w.why_not(rows) for w in self.ways if w.name in ("", engine))
            why = next(filter(None, reasons), "")
            if engine.startswith("cupy") and self.library == "numpy":
                why = "the array is NumPy's; pass cupy.asarray(arr), or options(device='cuda')"
            raise UnsupportedError(f"engine {engine!r} cannot run it: {why}")
        return run

    def ran(self, rows: Rows) -> tuple[Callable[[Rows], Any], bool] | None:
        """The last run on slices like these, for repeated calls: see `Way.ran`."""
        return next(filter(None, (way.ran(rows) for way in self.ways)), None)

    # --- beside runs ----------------------------------------------------------------------------

    @property
    def graph(self) -> Graph | None:
        """The graph of a slice, if there is one."""
        return self.by_graph.graph

    def is_cs(self) -> bool:
        """Whether it has powers of numbers that C's library rounds, and no kernel can exist."""
        kernel = self.ways[0]
        return self.tree.powers and isinstance(kernel, KernelOfPaths) and not kernel.can_be()

    def stays_in_blocks(self) -> bool:
        """Whether it runs in blocks for good: there is no kernel, nor will there be one."""
        kernel = self.ways[0]
        if not isinstance(kernel, KernelOfPaths) or kernel.is_refused:
            return True
        return not (kernel.is_made or kernel.can_be())

    def has_kernel(self, rows: Rows) -> bool:
        """Whether there is a kernel for such slices, which are looped over until it pays.

        Of functions that decide nothing: of others it may leave what last bits decide.
        """
        kernel = self.ways[0]
        if self.tree.count > 1 or self.tree.branches:
            return False
        if not isinstance(kernel, KernelOfPaths) or kernel.why_not(rows) is not None:
            return False
        if kernel.call_for(rows, limited=False) is not None:
            return True
        kernel.waited(rows, math.prod(rows.batch) * self.seconds)
        return False

    def is_settled(self) -> bool:
        """Whether times of runs are final: no kernel is still to come."""
        kernel = self.ways[0]
        return (isinstance(kernel, KernelOfPaths) and kernel.is_made) or self.stays_in_blocks()

    @property
    def looped(self) -> int:
        """Slices that `f` was called for in the last run."""
        return self.blocks.looped

    @property
    def why_left(self) -> str:
        """Why slices were left to `f` in the last run, if it was for what else would take."""
        return self.blocks.why_left

    @property
    def state(self) -> tuple[Any, ...]:
        """The states of all ways: a new value means that another way may run."""
        return tuple([way.state for way in self.ways])

    @property
    def seconds(self) -> float:
        """Seconds of one call of `f`."""
        return self.blocks.seconds

    def timed(self, rows: Rows, f: Any, limit: float) -> float:
        """Seconds of a call of `f` in a loop: measured once, by calls for so many seconds."""
        if not self._is_timed:
            self._is_timed = True
            with self._tracing.scratch.kept():
                self.blocks.seconds = self.blocks.timed(rows, f, limit)
        return self.blocks.seconds

    def _begin(self, rows: Rows) -> None:
        """Note that a run begins; raise what it would give up by, where that was said."""
        self.has_run = True
        if self._gives_up is not None:  # which was said: the paths that are known now come next
            (error, slices), self._gives_up = self._gives_up, None
            if math.prod(rows.batch) <= slices and not config.current().engine:
                raise error

    def _end(self, rows: Rows, f: Any) -> None:
        """Leave in attributes what the loop leaves: what `f` sets for the last slice."""
        if self._tracing.scratch:
            with np.errstate(all="ignore"), silent():
                self.blocks.call(f, rows[(-1,) * len(rows.batch)])
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
        error = self.blocks.gives_up(rows, f, most)
        grew = self.tree.count > known and not self.blocks.tries_all(rows)
        # so few slices still go ways that none of all went
        if error is None and self.record.given_up and grew:
            error = TooManyPaths(self.record.why)
        self._gives_up = None if error is None else (error, math.prod(rows.batch))
        return str(error or "")

    @property
    def overhead(self) -> float:
        """Seconds that a call takes, however few slices there are."""
        return LIMITS.blocks_run + LIMITS.blocks_call * len(self.tree.calls)


def _aval(v: Any) -> ShapeDtype:
    return ShapeDtype(tuple(map(int, v.shape)), arrays.dtype_name(v))


_SAMPLES = 16
_BY_HALVES = (0, 8, 16, 4, 12, 2, 6, 10, 14, 1, 3, 5, 7, 9, 11, 13, 15)
"""Slices that a function is traced on until it raises for none, in sixteenths of all."""


def traced(what: Any, begun: Begun | None, limit: float, started: float) -> TracedFunction:
    """Trace on the first slice; on another one, if `f` raises for the first and catches that.

    `what`: what it is applied to. `limit`: CPU seconds that it may take, where the first calls have
    told what the loop takes. `started`: when planning did, on the clock of the thread.
    """
    batch = what.rows().batch
    last = math.prod(batch) - 1
    places = [last * k // _SAMPLES for k in _BY_HALVES]
    slice0 = what.slice_at((0,) * len(batch))
    for k in dict.fromkeys(places):
        at = tuple(map(int, np.unravel_index(k, batch)))
        sample = slice0 if k == 0 else what.slice_at(at)
        left = limit + started - time.thread_time()
        try:
            made = what.traced(slice0, sample, begun, left)
        except Raises as raised:
            error = raised
        else:
            # of more than it may take, loading was a part
            most = planning(what.slices * made.seconds)
            made.record.planning = min(time.thread_time() - started, most)
            return made
    if isinstance(error, OnlyTraced):
        raise error
    raise Raises(f"for each slice that was tried {error}")
