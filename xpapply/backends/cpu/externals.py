"""Addresses of functions that compiled code calls: of the C library, and NumPy's inner loops.

With them a number has the bits that Python's ``math`` and NumPy give it.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import platform
import sys

import numpy as np

from ...errors import UnsupportedError
from ...ir.typed.function import KEEP_NOTES, ufunc_named
from ...runtime import generators


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
    """The address of a function, and its data argument.

    Parameters
    ----------
    *name : str
        "libm", its name, and what it takes; "draws", its name, the kind of generator, and what it
        gives and takes; or "ufunc", its name and the dtypes of a loop.

    Raises
    ------
    UnsupportedError
        If it is not found.
    """
    kind, called, *types = name
    if kind == "libm":
        return _of_libm(called), 0
    if kind == "draws":
        if not generators.is_known(called):
            raise UnsupportedError(f"this NumPy has no {called}, or another one")
        return generators.place_of(called), 0
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
            found = seen.functions[k] or 0, seen.data[k] or 0
            if name in KEEP_NOTES and not _keeps_notes(*found, types):
                raise UnsupportedError(f"numpy.{name} forgets what the processor has noted")
            return found
    raise UnsupportedError(f"numpy.{name} has no loop for {types}")


_LOOP = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 4)


def _keeps_notes(loop: int, data: int, types: tuple[str, ...]) -> bool:
    """Whether floating-point flags are still set after a loop, by a trial."""
    noted = 0x1C if sys.platform == "win32" else 0x07 if _is_arm() else 0x0D
    clear, note, test = (
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(_of_libm(name))
        for name in ("feclearexcept", "feraiseexcept", "fetestexcept")
    )
    given = [np.full(18, 0.5).astype(t) for t in types]
    places = (ctypes.c_void_p * len(given))(*(x.ctypes.data for x in given))
    kept = True
    for count, step, first in itertools.product((1, 9), (1, 2), (0, 1)):
        steps = [step * x.itemsize for x in given]
        steps[0] *= first  # of a number there is none
        sizes = (ctypes.c_ssize_t * 1)(count), (ctypes.c_ssize_t * len(given))(*steps)
        note(noted)
        _LOOP(loop)(places, *sizes, data)
        kept = kept and test(noted) == noted
        clear(noted)
    return kept


def _is_arm() -> bool:
    return platform.machine().lower() in ("arm64", "aarch64")
