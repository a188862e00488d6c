"""Functions of several arrays that hold the values of one mask, and interpolation between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import Batched, BatchingRule, NoRule, RaisesForSome, in_namespace
from .function_rules import Unsupported
from .ragged import Ragged
from .rules import leaves, mapped

TOGETHER = frozenset(f"numpy.{n}" for n in "polyfit dot vdot inner corrcoef trapezoid".split())
"""Functions whose results have a shape that does not depend on the number of values."""


def _together(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A function of as many values in each slice as its mask has."""
    row, given, keywords, shape, dtype = args
    if row.name == "numpy.polyfit" and len(given) == 3 and not keywords:
        x, y, deg = given
        if isinstance(x, Ragged) and isinstance(y, Ragged):
            from .numpy.least_squares import fits

            try:
                return Batched(fits(*_side_by_side(x, y), int(deg)))
            except Unsupported:
                pass
    operands = list(leaves(given, Ragged))
    function = in_namespace(xp, row.name)
    out = xp.empty((len(operands[0].counts), *shape), dtype)
    for parts in zip(*(x.batches() for x in operands), strict=True):
        index, values = parts[0][0], iter(parts)
        one = mapped(lambda _: Batched(next(values)[1]), given, Ragged)  # noqa: B023
        found = row.rule(xp, function, one, keywords)
        array = found.array if isinstance(found, Batched) else xp.asarray(found)[None]
        if array.shape[1:] != tuple(shape):
            raise NoRule("another shape for another number of values")
        out[index] = array
    return Batched(out)


def _side_by_side(x: Ragged, y: Ragged) -> tuple[Any, Any, Any]:
    """The values in rows, and which places of these they have."""
    if x.source is not None and y.source is not None:
        return x.source[0], y.source[0], x.source[1]
    within = np.arange(int(x.counts.max(initial=1))) < x.counts[:, None]
    found = [np.zeros(within.shape, v.flat.dtype) for v in (x, y)]
    for wide, v in zip(found, (x, y), strict=True):
        wide[within] = v.flat
    return found[0], found[1], within


def _all_finite(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """Whether all values of the mask are finite."""
    (x,) = args
    wide, _, within = _side_by_side(x, x)
    return Batched((np.isfinite(wide) | ~within).all(axis=1))


def _interp(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """`numpy.interp` between the values of a mask."""
    from .numpy.search import interp_of_masks

    x, places, values, left, right = args
    try:
        return interp_of_masks(x, places, values, left, right)
    except Unsupported:
        return _one_by_one(*args)


def _one_by_one(x: Any, places: Ragged, values: Ragged, left: Any, right: Any) -> Any:
    """By a call for each slice."""
    edges = places.starts()[1:]
    parts = zip(np.split(places.flat, edges), np.split(values.flat, edges), strict=True)
    if isinstance(x, Ragged):
        keys: Any = np.split(x.flat, x.starts()[1:])
    else:
        keys = x.array if isinstance(x, Batched) else [x] * len(places.counts)
    found = [np.interp(k, p, v, left, right) for k, (p, v) in zip(keys, parts, strict=True)]
    if isinstance(x, Ragged):
        return Ragged(np.concatenate(found), x.counts)
    return Batched(np.stack(found))


def _element(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """One of the values of a mask, by its number."""
    x, k = args
    bad = x.counts <= k if k >= 0 else x.counts < -k
    if bad.any():
        error = IndexError(f"index {k} is out of bounds for axis 0 with size {x.counts[bad][0]}")
        raise RaisesForSome(error, bad)
    if x.source is not None and k in (0, -1):
        array, mask = x.source
        column = mask.argmax(axis=1) if k == 0 else -1 - mask[:, ::-1].argmax(axis=1)
        return Batched(array[np.arange(len(mask)), column])
    return Batched(x.flat[x.starts() + (k if k >= 0 else x.counts + k)])


ELEMENT = BatchingRule("element of the values of a mask", _element, fresh=True)
FUNCTION = BatchingRule("function of the values of a mask", _together, fresh=True)
ALL_FINITE = BatchingRule("whether values of the mask are finite", _all_finite, fresh=True)
INTERP = BatchingRule("numpy.interp between the values of a mask", _interp, fresh=True)
