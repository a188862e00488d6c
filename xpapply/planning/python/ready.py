"""Calls on arrays like those before: all is decided, but for what may have changed.

A kernel for small arrays takes microseconds; looking at the arguments anew took ten times that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ... import arrays, config
from ...arrays import selection
from ...frontends.python.run.rows import Rows, RowsOfSeveral, results_at
from ...functions.cache import cache_of, prepared, unprepared
from ...loop.arguments import Arguments
from ...loop.own_vectorize import note
from .applied import Along, layout_of
from .running import is_traced

if TYPE_CHECKING:
    from .traced import TracedFunction
    from .typed_loop import TypedLoop


class _Whole(NamedTuple):
    """Arrays in the place of their slices, which begin where they do: a kernel asks for no more."""

    views: tuple[Any, ...]


class Ready:
    """A prepared run for further arrays of the same layout.

    Call it as ``ready(f, arrays)``: it gives the results, or None where something has changed, or
    where NumPy's own calls shall look at some slices. Then the whole way is gone again. `along`
    gives them for the slices of one array.

    Parameters
    ----------
    arguments : Arguments
        What the function got.
    rows, operands
        The slices that it was applied to, and the arrays that they are of.
    traced, run, any_shapes
        What ran, and what `xpapply.planning.ways.Way.ran` gave for it.

    Attributes
    ----------
    kind : InputSpec or None
        What the function was called with.
    traced
        What runs, which keeps this.
    """

    def __init__(
        self,
        rows: Rows | RowsOfSeveral,
        operands: Sequence[Any],
        arguments: Arguments,
        traced: TracedFunction | TypedLoop,
        run: Callable[..., Sequence[Any] | None],
        any_shapes: bool,
    ) -> None:
        self.traced, self._run = traced, run
        self.kind: Any = None
        self._options, self._state = config.current(), np.geterr()
        self._batch = rows.batch
        self._shapes = [
            None if any_shapes or x.shape == y.shape else tuple(y.shape)
            for x, y in zip(operands, rows.views, strict=True)
        ]
        self._several, self._dtypes = bool(arguments.results), arguments.dtypes

    def __call__(self, f: Any, given: Sequence[Any], asks: bool) -> Any:
        """Run all slices; `asks`: whether a call of `f` decides the dtypes."""
        asks = asks and self.traced.asks_first
        if not self._holds(f) or (asks and not self._as_before(f, given)):
            return None
        views = [
            x if shape is None else arrays.broadcast_to(x, shape)
            for x, shape in zip(given, self._shapes, strict=True)
        ]
        found = self._run(RowsOfSeveral(views, self._batch))
        if found is None:
            return None
        return tuple(found) if self._several else found[0]

    def along(self, f: Any, axis: int, arr: np.ndarray) -> Any:
        """Run the slices of an array along an axis."""
        if self.traced.library == "cupy":  # which asks whether all holds while the device works
            found = self._run(_Whole((arr,)), functools.partial(self._holds, f))
            if found is None or found[0].ndim == len(self._batch):
                return found and found[0]
            return results_at(found[0], self._batch, axis)
        if not self._holds(f):
            return None
        rows = Rows(arr, axis)
        found = self._run(rows)
        return None if found is None else rows.placed(found[0])

    def _holds(self, f: Any) -> bool:
        """Whether function and options are unchanged."""
        traced, now = self.traced, config.current()
        if now is not self._options and now != self._options:
            return False
        # of CuPy's nothing warns
        noted = traced.library == "cupy" or np.geterr() == self._state
        return noted and not traced.record.refused and traced.unchanged(f)

    def _as_before(self, f: Any, given: Sequence[np.ndarray]) -> bool:
        """Whether the first elements give the same dtypes."""
        try:
            first = f(*map(selection.first, given))
        except Exception as error:
            note(error, (0,) * len(self._batch))
            raise
        if isinstance(first, tuple) != self._several:
            return False
        parts = first if self._several else (first,)
        return tuple(np.asarray(y).dtype for y in parts) == self._dtypes


def again(f: Any, axis: int, arr: Any) -> Any:
    """The result on an array of CuPy's that lies like one before; None: there is more to do."""
    layout = layout_of(f, axis, arr, (), {})
    if layout is None:
        return None
    known = prepared(f, layout)
    if known is None:
        return None
    result = known.along(f, axis, arr)
    if result is None:
        unprepared(f)
        cache_of(f)[0].ready.pop(layout, None)
    return result


def keep(what: Along, traced: TracedFunction | TypedLoop, layout: Hashable) -> None:
    """Have further calls like one go the shortest way, once its runs are known to be quicker.

    Of compiled loops alone: what runs a trace is chosen anew by what runs have taken.
    """
    record = traced.record
    if is_traced(traced) or record.rests or record.refused:
        return
    if traced.library == "numpy":  # of others the host's clock does not tell
        if record.expected(what.slices) is None:
            return
        if not record.is_quicker(what.slices, traced.seconds):
            return
    rows = what.rows()
    if (again := traced.ran(rows)) is not None:
        made = Ready(rows, rows.views, what.arguments, traced, *again)
        cache_of(what.f)[0].ready[layout] = traced.ready[layout] = made
