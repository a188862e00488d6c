"""Python's own operations on arrays: indexing, writing, stacking, casting, `@`.

These rows have no function of that name in any library, so their rules get None
as the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime import error_state
from . import Batched, BatchingRule, NoRule, in_namespace
from .function_rules import by_rows, infinite_products
from .rules import aligned, batch_size, elementwise, mapped


def batch_of(xp: Any, x: Any, batch: int) -> Any:
    """`x` with a batch axis in front, also where it is the same for all slices."""
    if isinstance(x, Batched):
        return x.array
    x = xp.asarray(x)
    return xp.broadcast_to(x, (batch, *x.shape))


def _index(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``x[key]`` where only `x` depends on the slice."""
    x, key = args
    found = x.array[(slice(None), *key)]
    # a number is a copy, as it is in NumPy
    return Batched(xp.array(found) if found.ndim == 1 else found)


def _positions(xp: Any, key: tuple, batch: int) -> tuple[Any, ...]:
    """The batch index and the key, lined up, for an index that depends on the slice."""
    ndim = max(k.ndim for k in key if isinstance(k, Batched))
    ndim = max([ndim, *(k.ndim for k in key if isinstance(k, np.ndarray))])
    first = xp.arange(batch).reshape(batch, *(1,) * ndim)
    return (first, *(aligned(k, ndim) if isinstance(k, Batched) else k for k in key))


def _gather(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``x[key]`` where the integers in `key` depend on the slice."""
    x, key = args
    if xp is np and len(key) == 1 and not isinstance(x, Batched) and key[0].dtype.kind in "iu":
        return Batched(np.take(x, key[0].array, axis=0))  # which takes less time than an index
    batch = batch_size(args)
    positions = _positions(xp, key, batch)
    if not isinstance(x, Batched):
        # a table: with an index in front, the batch axis always comes first in the result
        return Batched(xp.asarray(x)[None][(xp.zeros_like(positions[0]), *positions[1:])])
    return Batched(x.array[positions])


def _compress(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``x[mask]`` for slices that all have `count` true values."""
    x, mask, count = args
    batch = batch_size(args)
    array, mask = batch_of(xp, x, batch), batch_of(xp, mask, batch)
    rest = array.shape[mask.ndim :]
    return Batched(array[mask].reshape((batch, count, *rest)))


def _count(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """Count true values."""
    mask = args[0].array
    return Batched(xp.count_nonzero(mask.reshape(len(mask), -1), axis=1))


def _nonzero(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """`numpy.nonzero` for slices that all have `count` values that are not 0."""
    mask, count = args
    return tuple(Batched(k.reshape(len(mask.array), count)) for k in xp.nonzero(mask.array)[1:])


def _set(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``x[key] = item``, as a new array."""
    x, key, item, ndim = args
    batch = batch_size(args)
    array = batch_of(xp, x, batch)
    if not kwargs.get("in_place"):
        array = xp.array(array)
    if isinstance(item, Batched):
        item = aligned(item, ndim)
        while item.ndim > ndim + 1 and item.shape[1] == 1:
            item = item[:, 0]
    if any(isinstance(k, Batched) for k in key):
        array[_positions(xp, key, batch)] = item
    else:
        array[(slice(None), *key)] = item
    return Batched(array)


def _at(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``ufunc.at(x, key, item)``, as a new array: in each slice one element after the other."""
    ufunc, x, key, items, ndim = args
    batch = batch_size(args)
    array = np.array(batch_of(np, x, batch))
    items = tuple(aligned(i, ndim) if isinstance(i, Batched) else i for i in items)
    moving = any(isinstance(k, Batched) for k in key)
    ufunc.at(array, _positions(np, key, batch) if moving else (slice(None), *key), *items)
    return Batched(array)


def _set_masked(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``x[mask] = item``, as a new array."""
    x, mask, item = args
    batch = batch_size(args)
    array = batch_of(xp, x, batch)
    if not kwargs.get("in_place"):
        array = xp.array(array)
    mask = batch_of(xp, mask, batch)
    if hasattr(item, "counts"):  # as many values as the mask has, in the order of the slices
        array[mask] = item.flat
    elif isinstance(item, Batched) and item.ndim:
        array[mask] = item.array.reshape(-1, *array.shape[mask.ndim :])
    elif isinstance(item, Batched):
        value = aligned(item, array.ndim - 1)
        if xp is np:
            mask = mask.reshape(*mask.shape, *(1,) * (array.ndim - mask.ndim))
            np.copyto(array, value, where=mask, casting="unsafe")
        else:
            array = xp.where(mask, value.astype(array.dtype), array)
    elif np.ndim(item):
        array[mask] = xp.broadcast_to(xp.asarray(item), (batch, *np.shape(item))).reshape(
            -1, *array.shape[mask.ndim :]
        )
    else:
        array[mask] = item
    return Batched(array)


def _stack(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """Nested lists as one array."""
    tree, shape, dtype = args
    out = xp.empty((batch_size(args), *shape), dtype)
    _fill(out, (slice(None),), tree)
    return Batched(out)


def _fill(out: Any, at: tuple, tree: Any) -> None:
    if isinstance(tree, (list, tuple)):
        for k, x in enumerate(tree):
            _fill(out, (*at, k), x)
    else:
        out[at] = tree.array if isinstance(tree, Batched) else tree


def _cast(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    x, dtype = args
    return Batched(x.array.astype(dtype))


def _number(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A Python number as a read-only array: the same memory if dtypes agree."""
    x, dtype = args
    return x if x.array.dtype == dtype else Batched(x.array.astype(dtype))


def _complex(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """Complex numbers of their parts."""
    found = xp.empty(batch_size(args), np.complex128)
    found.real, found.imag = (x.array if isinstance(x, Batched) else x for x in args)
    return Batched(found)


def _part(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """The real or the imaginary part of complex numbers."""
    x, name = args
    return Batched(xp.ascontiguousarray(getattr(x.array, name)))


def _same(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    return args[0]


_OF_TRUTHS = frozenset(
    "bitwise_and bitwise_or bitwise_xor less less_equal greater greater_equal equal "
    "not_equal".split()
)


def _math(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A function of Python's `math`, which raises where NumPy warns."""
    name, *numbers = args
    function = getattr(xp, name, None) or in_namespace(xp, f"scipy.special.{name}")
    with np.errstate(all="ignore"):
        return Batched(function(*(x.array if isinstance(x, Batched) else x for x in numbers)))


def _product(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``a * b`` of complex numbers: NumPy's loop over arrays may fuse products and sums."""
    a, b, dtype = args
    given = [(x.array if isinstance(x, Batched) else xp.asarray(x)).astype(dtype) for x in (a, b)]
    x, y = given
    found = xp.empty(max(map(xp.shape, given), key=len), dtype)
    found.real = x.real * y.real - x.imag * y.imag
    found.imag = x.real * y.imag + x.imag * y.real
    return Batched(found)


def _integers(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """Arithmetic of NumPy's integers, which reports where one overflows.

    NumPy reports it for single integers, not for arrays of them.
    """
    name, operands, dtype = args
    given = [(x.array if isinstance(x, Batched) else xp.asarray(x)).astype(dtype) for x in operands]
    found = getattr(xp, name)(*given)
    if xp is np and bool(_OVERFLOWS[name](found, *given).any()):
        error_state.report_overflow()
    return Batched(found)


def _product_overflows(found: Any, a: Any, b: Any) -> Any:
    """Dividing gives the other factor back, unless the product was too large."""
    info = np.iinfo(found.dtype)
    near = np.abs(a.astype(np.float64) * b) >= info.max
    if not near.any():
        return near
    with np.errstate(all="ignore"):
        quotient, rest = np.divmod(found, a)
    wrong = (a != 0) & ((quotient != b) | (rest != 0))
    return wrong | ((b == info.min) & (a == -1) if info.min else False)


_OVERFLOWS: dict[str, Callable[..., Any]] = {
    "add": lambda found, a, b: np.where(b < 0, found > a, found < a),
    "subtract": lambda found, a, b: np.where(b < 0, found < a, found > a),
    "multiply": _product_overflows,
    "negative": lambda found, a: (a != 0) & (found == a) if _signed(a) else a != 0,
    "absolute": lambda found, a: found < 0,
}


def _signed(a: Any) -> bool:
    return bool(a.dtype.kind == "i")


def _python(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """Arithmetic of Python numbers: it raises where NumPy's warns, and so never warns."""
    name, a, b, dtype = args
    a, b = (x.array if isinstance(x, Batched) else x for x in (a, b))
    if name not in _OF_TRUTHS:  # True + True is 2
        a, b = (x * 1 if x.dtype == bool else x for x in (xp.asarray(a), xp.asarray(b)))
    if dtype == "float64":  # first of all: integers would wrap around
        a, b = (xp.asarray(x).astype(dtype, copy=False) for x in (a, b))
    with np.errstate(all="ignore"):
        return Batched(getattr(xp, name)(a, b).astype(dtype, copy=False))


def _matmul(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """``a @ b``; products with a constant matrix are one product for all slices."""
    a, b = args
    a_dim, b_dim = np.ndim(getattr(a, "array", a)), np.ndim(getattr(b, "array", b))
    a_dim -= isinstance(a, Batched)
    b_dim -= isinstance(b, Batched)
    if a_dim == 0 or b_dim == 0:
        raise NoRule("@ of a number")
    if infinite_products(xp, a, b):
        return by_rows(xp, np.matmul, args, {})
    if isinstance(a, Batched) and a_dim == 1 and not isinstance(b, Batched) and b_dim <= 2:
        return Batched(xp.matmul(a.array, xp.asarray(b)))
    if isinstance(b, Batched) and b_dim == 1 and not isinstance(a, Batched) and a_dim <= 2:
        a = xp.asarray(a)
        return Batched(xp.matmul(b.array, a.T if a_dim == 2 else a))
    left = _stackable(xp, a, a_dim, b_dim, -2)
    right = _stackable(xp, b, b_dim, a_dim, -1)
    product = xp.matmul(left, right)
    if a_dim == 1:
        product = product[..., 0, :]
    if b_dim == 1:
        product = product[..., 0]
    return Batched(product)


def _stackable(xp: Any, x: Any, ndim: int, other: int, axis: int) -> Any:
    """An operand of `matmul` with a batch axis, if it has one, and at least a matrix after it."""
    array = x.array if isinstance(x, Batched) else xp.asarray(x)
    if ndim == 1:
        array = xp.expand_dims(array, axis)
        ndim = 2
    if isinstance(x, Batched) and other > ndim:
        array = array.reshape(len(array), *(1,) * (other - ndim), *array.shape[1:])
    return array


def _masked_ufunc(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A ufunc that writes into `out` where a mask is true."""
    row, inputs, out, where = args
    function = in_namespace(xp, row.name) if "." in row.name else None
    if function is None:
        raise NoRule(f"{row.name} with where=")
    batch = batch_size(args)
    target = xp.array(batch_of(xp, out, batch))
    ndim = target.ndim - 1
    given = [aligned(x, ndim) if isinstance(x, Batched) else x for x in inputs]
    mask = aligned(where, ndim) if isinstance(where, Batched) else where
    if xp is not np:  # CuPy has no where=
        found = function(*given).astype(target.dtype)
        return Batched(xp.where(mask, found, target))
    function(*given, out=target, where=mask)
    return Batched(target)


def _sorted_unique(xp: Any, array: Any, equal_nan: bool) -> tuple[Any, Any]:
    """Sorted rows, and where the values in them are new ones (all NaNs are one, or none)."""
    array = xp.sort(array.reshape(len(array), -1), axis=1)
    new = xp.ones(array.shape, bool)
    new[:, 1:] = array[:, 1:] != array[:, :-1]
    if array.dtype.kind in "fc" and equal_nan:
        new[:, 1:] &= ~(xp.isnan(array[:, 1:]) & xp.isnan(array[:, :-1]))
    return array, new


def _unique_count(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """The number of different values."""
    x, equal_nan = args
    return Batched(_sorted_unique(xp, x.array, equal_nan)[1].sum(axis=1))


def _unique(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """`numpy.unique` for slices that all have `count` different values."""
    x, count, index, inverse, counts, equal_nan = args
    flat = x.array.reshape(len(x.array), -1)
    batch, length = flat.shape
    array, new = _sorted_unique(xp, flat, equal_nan)
    found = [Batched(array[new].reshape(batch, count))]
    starts = xp.nonzero(new)[1].reshape(batch, count)
    if index or inverse:
        order = _stable_order(xp, flat)
        if index:
            found.append(Batched(xp.take_along_axis(order, starts, axis=1)))
        if inverse:
            back = xp.empty(flat.shape, np.intp)
            back[xp.arange(batch)[:, None], order] = xp.cumsum(new, axis=1) - 1
            found.append(Batched(back.reshape(x.array.shape)))
    if counts:
        ends = xp.concatenate([starts[:, 1:], xp.full((batch, 1), length)], axis=1)
        found.append(Batched(ends - starts))
    return tuple(found) if len(found) > 1 else found[0]


def _stable_order(xp: Any, flat: Any) -> Any:
    # CuPy's argsort is stable, and takes no other kind
    return np.argsort(flat, axis=1, kind="stable") if xp is np else xp.argsort(flat, axis=1)


def _counts(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """`numpy.bincount` for slices whose result has the same length."""
    from .numpy.histograms import bincount_rows

    x, weights, length = args  # f has decided that no number is outside
    return bincount_rows(xp, x, weights, length, within=xp is not np)


def _all_finite(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """Whether no value is NaN or infinite."""
    array = args[0].array
    return Batched(xp.isfinite(array.reshape(len(array), -1)).all(axis=1))


def _of_elements(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A callable that takes arrays of any shape, element by element."""
    function, *given = args
    return elementwise(xp, function, tuple(given), kwargs)


def _sparse(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A sparse matrix times the vector of each slice: one product, which adds in the same order."""
    product, x = args
    return Batched(np.ascontiguousarray(product(x.array.T).T))


def _rows(name: str, rule: Any, *, fresh: bool = False, lazy: bool = False) -> BatchingRule:
    return BatchingRule(name, rule, exact=True, fresh=fresh, lazy=lazy)


INDEX = _rows("index", _index)
GATHER = _rows("index by traced integers", _gather, fresh=True)
COUNT = _rows("count of a mask", _count, fresh=True)
COMPRESS = _rows("index by a mask", _compress, fresh=True)
NONZERO = _rows("nonzero", _nonzero, fresh=True)
SET = _rows("write", _set)
SET_MASKED = _rows("write by a mask", _set_masked)
AT = _rows("ufunc.at", _at, fresh=True)
SPARSE = _rows("product with a sparse matrix", _sparse, fresh=True)
STACK = _rows("stack", _stack, fresh=True)
CAST = _rows("cast", _cast, fresh=True)
NUMBER = _rows("Python number", _number)
COMPLEX = _rows("complex number", _complex, fresh=True, lazy=True)
PART = _rows("part of a complex number", _part)
SAME = _rows("copy", _same)
PYTHON = _rows("Python arithmetic", _python, fresh=True)
MATMUL = _rows("matmul", _matmul, fresh=True)
MASKED_UFUNC = _rows("ufunc with where=", _masked_ufunc, fresh=True)
MATH = _rows("math", _math, fresh=True)
PRODUCT = _rows("product of complex numbers", _product, fresh=True)
INTEGERS = _rows("arithmetic of integers", _integers, fresh=True)
UNIQUE_COUNT = _rows("count of unique", _unique_count, fresh=True)
UNIQUE = _rows("unique", _unique, fresh=True, lazy=True)
BINCOUNT = _rows("bincount", _counts, fresh=True)
ALL_FINITE = _rows("whether all are finite", _all_finite, fresh=True)
ELEMENTS = _rows("call for each element", _of_elements)

__all__ = [name for name in list(globals()) if name.isupper()] + ["batch_of", "mapped"]
