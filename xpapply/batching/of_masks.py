"""Functions of several arrays that hold the values of one mask, and interpolation between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import (
    Batched,
    BatchingRule,
    NoRule,
    OneByOne,
    RaisesForSome,
    in_namespace,
    one_by_one,
)
from .function_rules import Unsupported
from .ragged import Ragged
from .rules import leaves, mapped

TOGETHER = frozenset(
    [f"numpy.{n}" for n in "polyfit dot vdot inner corrcoef cov trapezoid linalg.norm".split()]
    + [f"scipy.integrate.{n}" for n in "simpson trapezoid".split()]
    + [
        f"scipy.stats.{n}"
        for n in "linregress pearsonr spearmanr kendalltau theilslopes skew kurtosis sem "
        "variation gmean hmean iqr median_abs_deviation entropy differential_entropy circmean "
        "circvar circstd mode normaltest skewtest kurtosistest jarque_bera shapiro "
        "ttest_1samp".split()
    ]
)
"""Functions whose results have a shape that does not depend on the number of values."""


def _together(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A function of as many values in each slice as its mask has."""
    row, given, keywords = args
    if row.name == "numpy.polyfit" and len(given) == 3 and set(keywords) <= {"w"}:
        x, y, deg = given
        if all(isinstance(v, Ragged) for v in (x, y, *keywords.values())):
            from .numpy.least_squares import fits

            try:
                x, y, *w, within = _side_by_side(x, y, *keywords.values())
                return Batched(fits(x, y, within, int(deg), *w))
            except Unsupported:
                pass
    operands = list(leaves((given, keywords), Ragged))
    function, found = in_namespace(xp, row.name), []
    for parts in zip(*(x.batches() for x in operands), strict=True):
        index, values = parts[0][0], iter(parts)
        one, named = mapped(lambda _: Batched(next(values)[1]), (given, keywords), Ragged)  # noqa: B023
        found.append((index, row.rule(xp, function, one, named)))
    return _put_back(xp, len(operands[0].counts), found)


def _put_back(xp: Any, n: int, found: list[tuple[Any, Any]]) -> Any:
    """Results for some of the slices at a time, with their numbers, as one for all of them."""
    from .scipy.axis import combined

    def joined(*column: Any) -> Any:
        arrays = [v.array if isinstance(v, Batched) else xp.asarray(v)[None] for v in column]
        first = arrays[0]
        if any(a.shape[1:] != first.shape[1:] or a.dtype != first.dtype for a in arrays):
            raise NoRule("another shape for another number of values")
        out = xp.empty((n, *first.shape[1:]), first.dtype)
        for (index, _), array in zip(found, arrays, strict=True):
            out[index] = array
        return OneByOne(out) if any(map(one_by_one, column)) else Batched(out)

    return combined([result for _, result in found], joined)


def _side_by_side(*given: Ragged) -> tuple[Any, ...]:
    """The values in rows, and which places of these they have."""
    sources = [v.source for v in given if v.source is not None]
    if len(sources) == len(given):
        return *(x for x, _ in sources), sources[0][1]
    counts = given[0].counts
    within = np.arange(int(counts.max(initial=1))) < counts[:, None]
    return *(_wide(v, within) for v in given), within


def _wide(x: Ragged, within: Any) -> Any:
    """The values in rows where a mask has them, and zeros."""
    if x.source is not None:
        return np.where(within, x.source[0], 0)
    found = np.zeros(within.shape, x.flat.dtype)
    found[within] = x.flat
    return found


def _roots(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """What the products and solutions of rows of a matrix have in common."""
    from .numpy.least_squares import roots_of_rows

    a, mask = args
    return Batched(roots_of_rows(a, mask.array))


def _product(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``a[mask].T @ b[mask]`` of all slices: one product of matrices."""
    from .numpy.least_squares import products_of_rows

    a, b, mask, roots = args
    b = _wide(b, mask.array) if isinstance(b, Ragged) else b
    return Batched(products_of_rows(a, b, mask.array, roots.array))


def _solution(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """The solution of `numpy.linalg.lstsq` for selected rows of a matrix."""
    from .numpy.least_squares import of_rows

    a, b, mask, roots, rcond = args
    return Batched(of_rows(a, _wide(b, mask.array), mask.array, roots.array, rcond))


def _rest(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """Its residuals and rank."""
    from .numpy.least_squares import conditions_of_rows, small_products

    a, b, mask, roots, rcond, x = args
    within, k, eps = mask.array, a.shape[1], np.finfo(float).eps
    least = eps * b.counts if rcond is None else eps if rcond < 0 else rcond
    with np.errstate(all="ignore"):
        is_full = least * conditions_of_rows(a, within, roots.array) < 1
    if not (is_full & (b.counts > k)).all():
        raise NoRule("residuals of some slices only")
    rest = np.where(within, _wide(b, within) - small_products(x.array, a.T), 0.0)
    squares = np.einsum("bi,bi->b", rest, rest)[:, None]
    return Batched(squares), Batched(np.full(len(rest), k, np.intc))


def _sizes(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """The singular values."""
    from .numpy.least_squares import sizes_of_rows

    a, mask, roots = args
    if (np.count_nonzero(mask.array, axis=1) < a.shape[1]).any():
        raise NoRule("fewer singular values of some slices")
    return Batched(sizes_of_rows(a, mask.array, roots.array))


def _all_finite(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """Whether all values of the mask are finite."""
    (x,) = args
    wide, within = _side_by_side(x)
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
    """Run a call for each slice."""
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
    """One selected value, by its number."""
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
ROOTS = BatchingRule("roots of normal equations of a mask", _roots, fresh=True, lazy=True)
PRODUCT = BatchingRule("product of rows of a mask", _product, fresh=True)
SOLUTION = BatchingRule("least squares of rows of a mask", _solution, fresh=True, lazy=True)
REST = BatchingRule("numpy.linalg.lstsq of rows of a mask", _rest, fresh=True, lazy=True)
SIZES = BatchingRule("singular values of rows of a mask", _sizes, fresh=True, lazy=True)
INTERP = BatchingRule("numpy.interp between the values of a mask", _interp, fresh=True)
