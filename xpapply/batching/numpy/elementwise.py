"""Batching rules of NumPy functions of elements: choices, comparisons, `full_like`, indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Batched, NoRule
from ..function_rules import Unsupported, as_rows, constant, flat, operand_list, plain
from ..rules import aligned, batch_size, elementwise


def where(xp: Any, call: Any, condition: Any, *values: Any) -> Any:
    """Choose by a condition, with three arguments."""
    if len(values) != 2:
        raise NoRule("where without values: the shape depends on the data")
    return elementwise(xp, call, (condition, *values), {})


def _lined_up(*trees: Any) -> tuple[Any, ...]:
    """Lists of operands with their axes lined up after the batch axis."""
    ndim = max(x.ndim if isinstance(x, Batched) else np.ndim(x) for tree in trees for x in tree)
    return tuple([aligned(x, ndim) if isinstance(x, Batched) else x for x in t] for t in trees)


def select(xp: Any, call: Any, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """All operands lined up."""
    conditions, choices, last = _lined_up(
        operand_list(condlist), operand_list(choicelist), [default]
    )
    return Batched(call(conditions, choices, last[0]))


def choose(xp: Any, call: Any, a: Any, choices: Any, mode: str = "raise") -> Any:
    """All operands lined up."""
    first, rest = _lined_up([a], operand_list(choices))
    if xp is not np:  # CuPy takes one array
        rest = xp.stack(xp.broadcast_arrays(*map(xp.asarray, rest)))
    return Batched(call(first[0], rest, mode=mode))


def piecewise(xp: Any, call: Any, x: Any, condlist: Any, funclist: Any, *args: Any) -> Any:
    """Pieces that are numbers; functions of parts of a slice are not known."""
    constant(funclist)
    if args or any(callable(f) for f in funclist):
        raise NoRule("functions in piecewise")
    if not isinstance(x, Batched) or (isinstance(condlist, Batched) and condlist.ndim <= x.ndim):
        raise Unsupported
    conditions = operand_list(condlist)
    n = x.array.shape[0]
    if any(as_rows(xp, c, n).shape != x.shape for c in conditions):
        raise Unsupported
    conditions = [as_rows(xp, c, n).array for c in conditions]
    return Batched(call(x.array, conditions, funclist))


def isin(
    xp: Any,
    call: Any,
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    """Test against one set for all slices, or a small set of each."""
    if assume_unique:
        raise NoRule("assume_unique: elements of several slices are not")
    if not isinstance(test_elements, Batched):
        given = {} if kind is None else {"kind": kind}  # which CuPy does not have
        return Batched(call(element.array, test_elements, invert=invert, **given))
    element = as_rows(xp, element, batch_size(test_elements))
    if {element.dtype.kind, test_elements.dtype.kind} == {"i", "u"}:
        raise Unsupported
    found = xp.zeros(element.array.shape, bool)
    for k in range(flat(test_elements).shape[1]):
        found |= element.array == aligned(Batched(flat(test_elements)[:, k]), element.ndim)
    return Batched(~found if invert else found)


def digitize(xp: Any, call: Any, x: Any, bins: Any, right: bool = False) -> Any:
    """Digitize with the same bins for all slices."""
    plain(bins, right)
    if np.isnan(np.asarray(bins)).any():
        raise Unsupported
    return Batched(call(x.array, bins, right=right))


def like(xp: Any, call: Any, prototype: Any, *args: Any, **kwargs: Any) -> Any:
    """`zeros_like` and its kin."""
    if kwargs.get("shape") is not None or len(args) > 3:
        raise Unsupported
    return Batched(call(prototype.array, *args, **kwargs))


def full_like(xp: Any, call: Any, a: Any, fill_value: Any, *args: Any, **kwargs: Any) -> Any:
    """`full_like` of a value, with a value, or both."""
    if kwargs.get("shape") is not None or len(args) > 3:
        raise Unsupported
    a = as_rows(xp, a, batch_size((a, fill_value)))
    fill = aligned(fill_value, a.ndim) if isinstance(fill_value, Batched) else fill_value
    return Batched(call(a.array, fill, *args, **kwargs))


def _all(x: Batched) -> Batched:
    return Batched(x.array.reshape(x.array.shape[0], -1).all(axis=1))


def array_equal(xp: Any, call: Any, a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Compare; one bool per slice."""
    n = batch_size((a1, a2))
    a1, a2 = as_rows(xp, a1, n), as_rows(xp, a2, n)
    if a1.shape != a2.shape:
        return False
    same = a1.array == a2.array
    if equal_nan:
        if {a1.dtype.kind, a2.dtype.kind} - set("biufc"):
            raise Unsupported
        same |= (a1.array != a1.array) & (a2.array != a2.array)
    return _all(Batched(same))


def array_equiv(xp: Any, call: Any, a1: Any, a2: Any) -> Any:
    """Compare, broadcast; one bool per slice."""
    one, other = _lined_up([a1], [a2])
    a, b = xp.asarray(one[0]), xp.asarray(other[0])
    try:
        np.broadcast_shapes(*(x.shape if isinstance(x, Batched) else np.shape(x) for x in (a1, a2)))
    except ValueError:
        return False
    return _all(Batched(a == b))


def allclose(xp: Any, call: Any, a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    """Compare within tolerances; one bool per slice."""
    return _all(elementwise(xp, xp.isclose, (a, b, *args), kwargs))


def ravel_multi_index(
    xp: Any, call: Any, multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C"
) -> Any:
    """`numpy.ravel_multi_index`: the indices may be one array, an axis after the other."""
    if isinstance(multi_index, Batched):
        multi_index = tuple(Batched(multi_index.array[:, k]) for k in range(multi_index.shape[0]))
    ndim = max(k.ndim if isinstance(k, Batched) else np.ndim(k) for k in multi_index)
    given = tuple(aligned(k, ndim) if isinstance(k, Batched) else k for k in multi_index)
    return Batched(call(given, dims, mode=mode, order=order))


def unravel_index(xp: Any, call: Any, indices: Any, shape: Any, order: str = "C") -> Any:
    """`numpy.unravel_index`."""
    return tuple(Batched(k) for k in call(indices.array, shape, order=order))
