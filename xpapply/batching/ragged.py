"""``v[mask]``: values of which every slice has another number, one after the other.

Elementwise work runs on all of them at once. Reductions run once per number of
values: slices that have as many are an ordinary batch, and so give what the
loop gives, bit for bit. No value outside the mask is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from . import Batched, BatchingRule, NoRule, RaisesForSome, in_namespace
from .syntax import batch_of


class Ragged:
    """`flat`: the values of all slices in order; `counts`: how many each slice has.

    Values that were selected from an array keep that and the mask, ``(B, M)``, as `source`:
    some functions need no other order.
    """

    __slots__ = ("_flat", "counts", "source")

    def __init__(self, flat: Any, counts: Any, source: tuple[Any, Any] | None = None) -> None:
        self._flat, self.counts, self.source = flat, counts, source

    @property
    def flat(self) -> Any:
        if self._flat is None:
            assert self.source is not None
            array, mask = self.source
            self._flat = array[mask]
        return self._flat

    def starts(self) -> Any:
        """Offsets of the slices' values."""
        return np.cumsum(self.counts) - self.counts

    def take(self, index: Any) -> Ragged:
        """Select slices."""
        if hasattr(index, "cpu"):
            index = index.cpu().numpy()
        if self._flat is None and self.source is not None:
            return Ragged(None, self.counts[index], tuple(x[index] for x in self.source))
        counts, starts = self.counts[index], self.starts()[index]
        shift = np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return Ragged(self.flat[shift + np.arange(int(counts.sum()))], counts)

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """The slices that have as many values, and these as ``(B, count)``."""
        order = np.argsort(self.counts, kind="stable")
        counts = self.counts[order]
        ends = np.flatnonzero(np.diff(counts, append=-1)) + 1
        starts = self.starts()
        begin = 0
        for end in ends.tolist():
            index = order[begin:end]
            count = int(counts[begin])
            yield index, self.flat[starts[index][:, None] + np.arange(count)]
            begin = end


def _host(xp: Any, x: Any) -> Any:
    if xp is np:
        return x
    return x.get() if hasattr(x, "get") else x.cpu().numpy()


def _select(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``x[mask]``."""
    x, mask = args
    batch = len(mask.array) if isinstance(mask, Batched) else len(x.array)
    array, mask = batch_of(xp, x, batch), batch_of(xp, mask, batch)
    counts = _host(xp, xp.count_nonzero(mask, axis=1))
    return Ragged(None if xp is np else array[mask], counts, (array, mask))


def _even(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """An ordinary batch, for slices that all have `count` values."""
    x, count = args
    return Batched(x.flat.reshape(len(x.counts), count))


def _elementwise(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A ufunc of ragged values and numbers."""
    ufunc, operands = args
    counts = next(x.counts for x in operands if isinstance(x, Ragged))
    given = []
    for x in operands:
        if isinstance(x, Ragged):
            given.append(x.flat)
        elif isinstance(x, Batched):
            if x.ndim:
                raise NoRule("values of a mask together with an array")
            given.append(xp.repeat(x.array, counts.tolist() if xp is not np else counts))
        else:
            given.append(x)
    function = in_namespace(xp, ufunc.name) if "." in ufunc.name else None
    if function is None:
        raise NoRule(f"{ufunc.name} of the values of a mask")
    return Ragged(function(*given), counts)


def _reduce(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A function that makes a number of the values of each slice."""
    row, before, x, after, keywords, dtype = args
    function = in_namespace(xp, row.name)
    out = xp.empty(len(x.counts), dtype)
    for index, batch in x.batches():
        try:
            found = row.rule(xp, function, (*before, Batched(batch), *after), keywords)
        except ValueError as error:
            if batch.shape[1]:
                raise
            raise RaisesForSome(error, x.counts == 0) from None
        out[index] = found.array if isinstance(found, Batched) else found
    return Batched(out)


SELECT = BatchingRule("values of a mask", _select, exact=True, lazy=True)
EVEN = BatchingRule("as many values for all", _even, "own", exact=True)
ELEMENTWISE = BatchingRule("of the values of a mask", _elementwise, exact=True, fresh=True)
REDUCE = BatchingRule("reduction of the values of a mask", _reduce, exact=True, fresh=True)
