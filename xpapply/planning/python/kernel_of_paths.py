"""One kernel for all paths of a function of NumPy arrays; its calls where rounding may decide.

A kernel marks the slices that NumPy may warn of, that are on no path known so far, or that raise.
Those run by the calls that ``f`` makes, or by ``f`` itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import config
from ...errors import Differs, UnsupportedError
from ...frontends.python.run.in_blocks import InBlocks
from ...frontends.python.run.record import Record
from ...frontends.python.run.rows import Block, Chosen, Rows
from ...frontends.python.trace.tree import Call, SideExit
from ...limits import LIMITS
from ...loop.begun import Users
from ...runtime import registry
from ..ways import Way

if TYPE_CHECKING:
    from ...frontends.python.graphs.to_graph import Avals
    from ...ir.graph import Graph


class KernelOfPaths(Way):
    """One kernel of all known paths, rebuilt when many slices take others.

    Parameters
    ----------
    blocks : InBlocks
        The calls of the paths.
    record : Record
        What came of runs.
    aval : ShapeDtype or tuple of ShapeDtype
        Of a slice; of several arrays that of each.
    dtype : dtype or tuple of dtypes, optional
        Of the results, if one is asked for.
    results : int
        How many are kept apart; 0: there is one.

    Attributes
    ----------
    made : OneKernel or None
        The kernel of the paths' graphs.
    """

    name = "cpu"

    def __init__(
        self, blocks: InBlocks, record: Record, aval: Avals, dtype: Any = None, results: int = 0
    ) -> None:
        self._blocks, self._record, self._tree = blocks, record, blocks.tree
        self._aval, self._dtype, self._results = aval, dtype, results
        self.made: Any = None
        self._why = ""
        self._last: Any = None
        """The last call, if it marked no slice."""
        self._paths = 0
        """The number of paths in the kernel."""
        self._could = -1, False
        """Of so many paths, whether all have graphs."""
        self._many_left = False
        """Whether many slices were on none of the paths in the kernel."""
        self._checked = False
        self._wasted = 0
        """Runs whose results were not used, since many slices were marked."""

    @property
    def is_due(self) -> bool:
        """Whether the kernel is to be made, or rebuilt."""
        waits = self.made is not None and self.made.waits
        return not self._paths or ((self._many_left or waits) and self._paths != self._tree.count)

    @property
    def state(self) -> Any:
        """The kernel that there is, if any; something else each time while that may change."""
        may_change = self.is_due or (self.made is not None and self.made.waits)
        return object() if may_change else self.made

    @property
    def compiles(self) -> bool:
        """Whether the last call compiled something."""
        return self.made is not None and bool(self.made.compiles)

    def waited(self, rows: Rows, seconds: float = 0.0) -> None:
        """NumPy's own calls ran on such slices, or a loop that took so many seconds."""
        if self.made is not None:
            self.made.waited(rows, seconds)

    def why_not(self, rows: Rows) -> str | None:
        """Why there is none."""
        return self._why or None

    def told(self, rows: Rows) -> tuple[str, ...]:
        """The compiler's message, if it refused."""
        said = "" if self.made is None else self.made.not_compiled
        return (said,) * bool(said)

    def call_for(self, rows: Rows, limited: bool = True) -> Any:
        """The compiled kernel for this layout; None: run NumPy's calls.

        None is made of paths that turned out not to be all of them: it would take long, for
        slices that may go further ways. `limited`: whether making one may take no more than this
        call may lose.
        """
        if self._record.lost and self._tree.count > 1:
            return None
        most = math.inf  # CPU seconds that making it may take
        if limited and not config.current().engine:
            most = self._record.most(math.prod(rows.batch), self._blocks.seconds)
        if self.is_due:
            loading = registry.loading("planning.python", "one_kernel")
            if LIMITS.graph_per_call * self._steps() + loading > most:
                return None
            self._paths, self._many_left = self._tree.count, False
            self._drop()
            self._checked = False
            from .one_kernel import OneKernel  # which few first calls get to

            try:
                self.made = OneKernel(self._as_graphs(), max(1, self._results))
            except (UnsupportedError, OverflowError) as error:
                self._why = str(error)
        return None if self.made is None else self.made.call_for(rows, most)

    @property
    def is_made(self) -> bool:
        """Whether the kernel exists."""
        return self.made is not None

    @property
    def is_refused(self) -> bool:
        """Whether it was found that there is none."""
        return bool(self._why)

    def can_be(self) -> bool:
        """Whether all known paths have graphs."""
        paths = self._tree.count
        if self._could[0] != paths:  # each call asks, and graphs take longer than few slices
            try:
                self._could = paths, bool(self._as_graphs())
            except (UnsupportedError, OverflowError):
                self._could = paths, False
        return self._could[1]

    def ran(self, rows: Rows) -> tuple[Callable[[Rows], Sequence[Any] | None], bool] | None:
        """The last call for repeated runs, if it marked no slice."""
        call = self._last
        if call is None or not (call.fits(rows) and self._still_runs(call)):
            return None
        return partial(self._again, call), call.addresses_only

    def _again(self, call: Any, rows: Rows) -> Sequence[Any] | None:
        if not self._still_runs(call):
            return None
        found, marked = call.kernel(call, rows)
        return None if np.count_nonzero(marked) else found  # type: ignore[no-any-return]

    def _still_runs(self, call: Any) -> bool:
        """Whether a kernel that ran is still the current one."""
        return self.made is call.kernel and not self.is_due

    def _steps(self) -> int:
        """Calls on all paths together, about."""
        return len(self._tree.calls) * max(1, self._tree.count // 2)

    def _drop(self, why: str = "") -> None:
        """Drop the kernel."""
        self._last = None
        if self.made is not None:
            self.made.forget()
        self.made, self._why = None, why or self._why

    def _as_graphs(self) -> list[tuple[tuple[bool | int, ...], Graph | None]]:
        """The answers that each path gives, and its graph; None: it is left to ``f``."""
        if self._tree.count > LIMITS.kernel_paths:
            raise UnsupportedError(f"its slices go {self._tree.count} ways")
        ends = {x and (x[0], self._dtype or x[1]) for x in self._tree.results}
        if len(ends - {None}) > 1:
            raise UnsupportedError("its slices have results of several shapes or dtypes")
        from ...frontends.python.graphs.to_graph import to_graph
        from ...ir.rewrite import compact

        found: list[tuple[tuple[bool | int, ...], Graph | None]] = []
        for path in self._tree.paths():
            answers = tuple(s.value for s in path.steps if not isinstance(s, Call))
            if isinstance(path.result, SideExit):
                found.append((answers, None))
            else:
                found.append((answers, compact(to_graph(path, self._aval, True, self._dtype))))
        return found

    def __call__(self, call: Any, rows: Rows, f: Any, account: Any = None) -> Any:
        """All slices, by what `call_for` gave for such; the marked ones by the calls of `f`."""
        self._blocks.looped, self._blocks.why_left = 0, ""
        return rows.placed(self._of_slices(call, rows, f))

    def _of_slices(self, call: Any, rows: Rows, f: Any) -> Any:
        """The results of all slices ``(*batch, *result shape)``; several are a `Block`."""
        found, marked = call.kernel(call, rows)
        out: Any = Block(found) if self._results else found[0]
        if not self._checked:
            try:
                self._check(rows, out, marked, f)
            except Differs as error:
                self._drop(f"as one kernel {error}")
                return self._blocks(rows, f)
        count = np.count_nonzero(marked)
        self._last = None if count else call
        if count == 0:
            return out
        self._many_left = count > LIMITS.kernel_left * marked.size
        # what the first slice gives says what the results are: another path's, or what f catches
        parts = self._tree.branches or self._tree.catches
        if count > LIMITS.kernel_marked * marked.size or (parts and marked.flat[0]):
            self._wasted += self._paths == self._tree.count
            if self._wasted > LIMITS.kernel_wasted and not config.current().engine:
                self._drop("NumPy may warn of many of its slices")
            return self._blocks(rows, f)
        places = np.nonzero(marked)
        kinds = [(y.shape[marked.ndim :], y.dtype) for y in found]  # as the first slice has it
        kind: Any = tuple(zip(*kinds, strict=True)) if self._results else kinds[0]
        try:
            out[marked] = self._blocks(Chosen(rows, places, kind), f)
        except Users as error:
            (k,) = error.index
            raise Users(error.raised, tuple(int(p[k]) for p in places)) from None
        return out

    def _check(self, slices: Rows, results: Any, marked: np.ndarray, f: Any) -> None:
        """Compare some of the slices with real calls, once."""
        ordinary = np.flatnonzero(~marked.ravel())
        n = ordinary.size
        for k in {int(ordinary[p]) for p in (0, n // 3, 2 * n // 3, n - 1) if n}:
            at = np.unravel_index(k, marked.shape)
            self._blocks.check(f, slices[at], results[at])
        self._checked = bool(n)
