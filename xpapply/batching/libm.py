"""Functions of Python's `math`, and powers of numbers, to the last bit of those for one number.

Python calls the library of C, and so do powers of NumPy's numbers. NumPy's loops do so for some
functions; others have a loop of their own, which differs in the last bit for some numbers, and so
does a power to an exponent that is the same for all, such as 2 or 0.5. Powers are always what is
here. Of other functions NumPy's are as good, unless something is decided by them: a whole number, a
comparison, an index.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import Batched, in_namespace

_PYTHON: dict[str, Callable[..., float]] = {
    **{name: getattr(math, name) for name in "exp expm1 log log2 log10 log1p".split()},
    **{name: getattr(math, name) for name in "sin cos tan sinh cosh tanh hypot erf erfc".split()},
    **{f"arc{name[1:]}": getattr(math, name) for name in "asin acos atan atan2".split()},
    **{f"arc{name[1:]}": getattr(math, name) for name in "asinh acosh atanh".split()},
    "power": operator.pow,
}
"""Python functions that differ from NumPy's of that name on some machines."""

_PAIRS = frozenset(("arctan2", "hypot", "power"))
_TRIED = 4096
"""Numbers that tell whether two functions are the same: loops of their own differ for one of some
hundreds at the least."""


def differs(name: str) -> bool:
    """Whether a function of `math`, or ``**``, differs in bits from NumPy's, or may."""
    return name in _PYTHON and not _agree(name)


def of_floats(name: str, *operands: Any) -> Batched:
    """A function of Python's floats.

    Where Python raises, it gives what NumPy's function gives: ``f`` does not get further there.
    """
    given = [x.array if isinstance(x, Batched) else np.float64(x) for x in operands]
    columns = [*np.broadcast_arrays(*(np.asarray(x, np.float64) for x in given))]
    with np.errstate(all="ignore"):
        return Batched(_exactly(name, columns))


def of_numbers(a: Any, b: Any) -> Batched:
    """``a ** b`` of NumPy's numbers: each to its own exponent, as the operator has it."""
    given = [x.array if isinstance(x, Batched) else x for x in (a, b)]
    dtype = np.power.resolve_dtypes((*map(_dtype, given), None))[0]
    columns = [np.array(x, dtype) for x in np.broadcast_arrays(*given)]
    if dtype == np.float64 and not differs("power"):
        return Batched(np.float_power(*columns))
    if dtype.kind not in "fc" or _powers_agree(dtype):
        return Batched(np.power(*columns))
    numbers = map(operator.pow, *(x.ravel() for x in columns))  # which warn as in f
    return Batched(np.fromiter(numbers, dtype, columns[0].size).reshape(columns[0].shape))


def _dtype(x: Any) -> Any:
    return type(x) if type(x) in (int, float) else np.asarray(x).dtype


def _exactly(name: str, columns: list[Any]) -> Any:
    if not differs(name):
        # an exponent that is the same for all has a way of its own, unless it is many numbers
        return _numpys(name)(*(np.ascontiguousarray(x) for x in columns))
    return _by_python(name, columns)


def _by_python(name: str, columns: list[Any]) -> Any:
    python, lists = _PYTHON[name], [x.ravel().tolist() for x in columns]
    try:
        found = np.array([*map(python, *lists)], np.float64)
    except (OverflowError, ValueError, ZeroDivisionError, TypeError):
        with np.errstate(all="ignore"):
            found = _numpys(name)(*(x.ravel() for x in columns))
        for k, numbers in enumerate(zip(*lists, strict=True)):
            try:
                found[k] = python(*numbers)
            except (OverflowError, ValueError, ZeroDivisionError, TypeError):
                continue
    return found.reshape(columns[0].shape)


def _numpys(name: str) -> Any:
    if name == "power":  # which is C's, unless NumPy has vectors for it
        return np.float_power
    return getattr(np, name, None) or in_namespace(np, f"scipy.special.{name}")


@functools.cache
def is_of_c(base: type, exponent: type) -> bool:
    """Whether ``a ** b`` of scalars of such types is C's power, not that of NumPy's arrays.

    An integer to the power of Python's float is the latter.
    """
    rng = np.random.default_rng(0)
    sizes, few = rng.integers(2, 60, 256), rng.integers(2, 5, 256)
    with np.errstate(all="ignore"):
        numbers = [base(n) for n in sizes], [exponent(n) for n in few + 0.3]
        found = [*map(operator.pow, *numbers)]
        kind = type(found[0])
        return found == [kind(a) ** kind(b) for a, b in zip(*numbers, strict=True)]


@functools.cache
def _powers_agree(dtype: np.dtype) -> bool:
    """Whether powers of arrays have the bits of powers of scalars."""
    rng = np.random.default_rng(0)
    columns = rng.lognormal(size=(2, _TRIED)).astype(dtype)
    with np.errstate(all="ignore"):
        return np.array_equal(np.power(*columns), np.array([*map(operator.pow, *columns)], dtype))


@functools.cache
def _agree(name: str) -> bool:
    """Whether NumPy's loop and Python's function agree on some thousand numbers."""
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.normal(size=_TRIED) * 2) * np.where(rng.random(_TRIED) < 0.5, 1, -1)
    columns = [sizes, rng.permutation(sizes)] if name in _PAIRS else [sizes]
    if name == "power" or name.startswith("log"):
        columns[0] = abs(columns[0])
    if name == "arccosh":
        columns[0] = abs(columns[0]) + 1
    with np.errstate(all="ignore"):
        if name in ("arcsin", "arccos", "arctanh"):
            columns[0] = columns[0] / (1 + abs(columns[0]))
        numpys = _numpys(name)
        if numpys is None:
            return False
        own = numpys(*columns)
        return bool(np.array_equal(own, _by_python(name, columns), equal_nan=True))


__all__ = ["differs", "is_of_c", "of_floats", "of_numbers"]
