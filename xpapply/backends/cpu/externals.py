"""Addresses of functions that compiled code calls: of the C library, and NumPy's inner loops.

With them a number has the bits that Python's ``math`` and NumPy give it.
"""

from __future__ import annotations

import ctypes
import functools
import sys

import numpy as np

from ...errors import UnsupportedError
from ...ir.typed.function import ufunc_named


class _Ufunc(ctypes.Structure):
    """The beginning of NumPy's ``PyUFuncObject``, which its C interface has."""

    _fields_ = [
        ("head", ctypes.c_char * object.__basicsize__),
        ("counts", ctypes.c_int * 3),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    ]


@functools.cache
def address(*name: str) -> tuple[int, int]:
    """Where a function is, and what it gets besides.

    Parameters
    ----------
    *name : str
        "libm", its name, and what it takes; or "ufunc", its name and the dtypes of a loop.

    Raises
    ------
    UnsupportedError
        If it is not found.
    """
    kind, called, *types = name
    if kind == "libm":
        return _of_libm(called), 0
    return _of_ufunc(called, tuple(types))


def _of_libm(name: str) -> int:
    for library in (None, "libm.so.6", "libSystem.dylib", "ucrtbase.dll"):
        try:
            found = getattr(ctypes.CDLL(library), name, None)
        except (OSError, TypeError):
            continue
        if found is not None:
            return ctypes.cast(found, ctypes.c_void_p).value or 0
    raise UnsupportedError(f"the C library has no {name}")


def _of_ufunc(name: str, types: tuple[str, ...]) -> tuple[int, int]:
    ufunc = ufunc_named(name)
    if sys.implementation.name != "cpython":
        raise UnsupportedError("NumPy's loops are found in CPython alone")
    seen = _Ufunc.from_address(id(ufunc))
    letters = "".join(np.dtype(t).char for t in types)
    wanted = {letters[: ufunc.nin] + "->" + letters[ufunc.nin :]}
    # long and long long are one type by two names
    for a, b in (("l", "q"), ("L", "Q"), ("q", "l"), ("Q", "L")):
        wanted |= {w.replace(a, b) for w in wanted}
    if tuple(seen.counts) != (ufunc.nin, ufunc.nout, ufunc.nargs) or seen.ntypes != ufunc.ntypes:
        raise UnsupportedError("this NumPy's ufuncs lie in another way")
    for k, loop in enumerate(ufunc.types):
        if loop in wanted:
            return seen.functions[k] or 0, seen.data[k] or 0
    raise UnsupportedError(f"numpy.{name} has no loop for {types}")
