"""All paths of a function of NumPy arrays as one kernel, and its calls where that decides nothing.

A kernel marks the slices that NumPy may warn of, that are on no path known so far, or that raise.
Those run by the calls that ``f`` makes, or by ``f`` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import arrays, config
from ...errors import UnsupportedError
from ...ir.graph import Graph, ShapeDtype
from ...ir.rewrite import compact
from .rows import Chosen, Rows
from .to_graph import to_graph
from .tree import Call, Differs, SideExit, Tree, Users

_MOST_PATHS = 64
"""Paths that one kernel has at most."""
_MANY_LEFT = 0.02
"""Share of the slices that must leave the paths of a kernel for it to be made anew."""
_MANY_MARKED = 0.25
"""Share of the slices from which on those that are marked run with all the others ..."""
_MOST_WASTED = 3
"""... and so many runs of a kernel may be for nothing."""


class KernelOfPaths:
    """One kernel of all paths that are known, made anew when many slices go other ways.

    Parameters
    ----------
    tree : Tree
        The paths.
    aval : ShapeDtype
        Of a slice.
    make : callable
        What makes a kernel of the paths' graphs: see `xpapply.planning.one_kernel`.
    dtype : dtype, optional
        Of the results, if one is asked for.

    Attributes
    ----------
    made : object or None
        What `make` gave.
    why_not : str
        Why there is none.
    """

    def __init__(
        self, tree: Tree, aval: ShapeDtype, make: Callable[[Any], Any], dtype: Any = None
    ) -> None:
        self._tree, self._aval, self._make, self._dtype = tree, aval, make, dtype
        self.made: Any = None
        self.why_not = ""
        self._paths = 0
        """How many paths are in the kernel ..."""
        self._many_left = False
        """... and whether many slices were on none of them."""
        self._checked = False
        self._wasted = 0
        """Runs whose results were not used, since many slices were marked."""

    @property
    def is_due(self) -> bool:
        """Whether it is to be made, or made anew."""
        waits = self.made is not None and self.made.waits
        return not self._paths or ((self._many_left or waits) and self._paths != self._tree.count)

    @property
    def may_change(self) -> bool:
        """Whether another one, or none, may run the next call."""
        return self.is_due or (self.made is not None and self.made.waits)

    def waited(self, arr: np.ndarray, axis: int) -> None:
        """NumPy's own calls ran on such an array."""
        if self.made is not None:
            self.made.waited(arr, axis)

    def call_for(self, arr: np.ndarray, axis: int) -> Any:
        """What runs on an array like this one; None: NumPy's own calls shall."""
        if self.is_due:
            self._paths, self._many_left = self._tree.count, False
            self._drop()
            self._checked = False
            try:
                self.made = self._make(self._as_graphs())
            except (UnsupportedError, OverflowError) as error:
                self.why_not = str(error)
        return None if self.made is None else self.made.call_for(arr, axis)

    def _drop(self, why: str = "") -> None:
        """There is no kernel any more."""
        if self.made is not None:
            self.made.forget()
        self.made, self.why_not = None, why or self.why_not

    def _as_graphs(self) -> list[tuple[tuple[bool | int, ...], Graph | None]]:
        """The answers that each path gives, and its graph; None: it is left to ``f``."""
        if self._tree.count > _MOST_PATHS:
            raise UnsupportedError(f"its slices go {self._tree.count} ways")
        ends = {x and (x[0], self._dtype or x[1]) for x in self._tree.results}
        if len(ends - {None}) > 1:
            raise UnsupportedError("its slices have results of several shapes or dtypes")
        found: list[tuple[tuple[bool | int, ...], Graph | None]] = []
        for path in self._tree.paths():
            answers = tuple(s.value for s in path.steps if not isinstance(s, Call))
            if isinstance(path.result, SideExit):
                found.append((answers, None))
            else:
                found.append((answers, compact(to_graph(path, self._aval, True, self._dtype))))
        return found

    def __call__(
        self,
        call: Any,
        arr: np.ndarray,
        axis: int,
        check: Callable[[Any, Any], None],
        by_calls: Callable[[Rows], Any],
    ) -> np.ndarray:
        """All slices of `arr`; the result axes stand where `axis` was.

        Parameters
        ----------
        call : object
            What `call_for` gave for such an array.
        check : callable (slice, result)
            Compares a result with that of ``f`` itself.
        by_calls : callable (rows)
            The calls that ``f`` makes: for all slices, or for those `Chosen`.
        """
        out, marked = call.kernel(call, arr, axis)
        if not self._checked:
            try:
                self._check(Rows(arr, axis), self._results(out, axis, marked), marked, check)
            except Differs as error:
                self._drop(f"as one kernel {error}")
                return results_at(by_calls(Rows(arr, axis)), arr.ndim - 1, axis)  # type: ignore[no-any-return]
        count = np.count_nonzero(marked)
        if count == 0:
            return out  # type: ignore[no-any-return]
        self._many_left = count > _MANY_LEFT * marked.size
        if count > _MANY_MARKED * marked.size or (self._tree.branches and marked.flat[0]):
            self._wasted += self._paths == self._tree.count
            if self._wasted > _MOST_WASTED and not config.current().engine:
                self._drop("NumPy may warn of many of its slices")
            return results_at(by_calls(Rows(arr, axis)), arr.ndim - 1, axis)  # type: ignore[no-any-return]
        places, results = np.nonzero(marked), self._results(out, axis, marked)
        kind = results.shape[marked.ndim :], out.dtype  # as the first slice of all has it
        try:
            found = by_calls(Chosen(Rows(arr, axis), places, kind))
        except Users as error:
            (k,) = error.index
            raise Users(error.raised, tuple(int(p[k]) for p in places)) from None
        results[marked] = found
        return out  # type: ignore[no-any-return]

    def _check(
        self, slices: Rows, results: np.ndarray, marked: np.ndarray, check: Callable
    ) -> None:
        """Compare some of the slices with real calls, once."""
        ordinary = np.flatnonzero(~marked.ravel())
        n = ordinary.size
        for k in {int(ordinary[p]) for p in (0, n // 3, 2 * n // 3, n - 1) if n}:
            at = np.unravel_index(k, marked.shape)
            check(slices[at], results[at])
        self._checked = bool(n)

    @staticmethod
    def _results(out: np.ndarray, axis: int, marked: np.ndarray) -> np.ndarray:
        """Results with their own axes last, after those of the batch."""
        own = range(axis, axis + out.ndim - marked.ndim)
        return out.transpose(*(k for k in range(out.ndim) if k not in own), *own)


def results_at(buffer: Any, batch: int, axis: int) -> Any:
    """Results after their `batch` dims, with their own axes where the slices' axis was."""
    own = range(batch, buffer.ndim)
    return arrays.permute(buffer, (*range(axis), *own, *range(axis, batch)))
