"""Calls of library functions with constants alone, made once: ``np.vander(t, 3)`` of a global."""

from __future__ import annotations

import os
import sys
import types
import warnings
from typing import Any

import numpy as np

from ....errors import TraceError
from ....ir.typed import Literal
from ....limits import LIMITS
from .arrays import copied
from .numbers import number
from .values import DEVICE, NUMPY, PYTHON, Abstract, Arr, Known, Num, Tup, Writes

_PURE = {
    "numpy": (
        "vander logspace geomspace eye identity tri tril triu kron meshgrid hanning hamming "
        "blackman bartlett kaiser roots poly stack polyfit matmul tensordot indices"
    ),
    "numpy.fft": "fft ifft rfft irfft fftfreq rfftfreq fftshift ifftshift",
    "numpy.linalg": "inv pinv solve eigh eigvalsh qr svd cholesky det matrix_power matrix_rank",
    "numpy.polynomial.chebyshev": "chebvander chebgauss",
    "numpy.polynomial.hermite": "hermvander hermgauss",
    "numpy.polynomial.laguerre": "lagvander laggauss",
    "numpy.polynomial.legendre": "legvander leggauss",
    "numpy.polynomial.polynomial": "polyvander",
    "scipy.linalg": "hankel hilbert inv pinv toeplitz",
    "scipy.signal": "butter firwin get_window savgol_coeffs",
    "scipy.special": "comb roots_hermite roots_legendre",
}
"""Functions that read nothing but their arguments, change nothing, and give the same each time."""
_FILLED = ("eye", "identity")
"""Those whose result a function mostly writes to: each slice has its own."""


def called(t: Writes, f: Any, args: list[Abstract], kwargs: dict[str, Abstract]) -> Abstract | None:
    """What a call gives for all slices; None: it is none of these, or not of constants.

    What arrays of the user's hold counts from then on. A call that warns or raises is left to the
    function, and so is a result that is large, or no array of rows: such would not be compiled.
    """
    if t.element == DEVICE or t.fetches or not _is_pure(f):
        return None
    try:
        given = [_constant(t, x) for x in args]
        named = {name: _constant(t, x) for name, x in kwargs.items()}
    except LookupError:
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            found = f(*given, **named)
    except Exception:  # as the function itself meets them, for each slice
        return None
    arrays = [x for x in (*given, *named.values()) if isinstance(x, np.ndarray)]
    made = _value(t, found, arrays)
    if isinstance(made, Arr) and f.__name__ in _FILLED and found.nbytes <= LIMITS.typed_filled:
        return copied(t, made)
    return made


def _is_pure(f: Any) -> bool:
    """Whether a function is one of these, and not one of the user's in its place."""
    root, name = str(f.__module__).partition(".")[0], getattr(f, "__name__", "")
    if isinstance(f, types.FunctionType):
        home = os.path.dirname(getattr(sys.modules.get(root), "__file__", None) or "")
        if not home or not f.__code__.co_filename.startswith(home + os.sep):
            return False
    homes = [x for x in _PURE if x.partition(".")[0] == root and name in _PURE[x].split()]
    return any(getattr(sys.modules.get(x), name, None) is f for x in homes)


def _constant(t: Writes, x: Abstract) -> Any:
    """The object that a value is in each call.

    Raises
    ------
    LookupError
        If it may be another one.
    """
    if isinstance(x, Num) and isinstance(x.value, Literal) and x.kind in (PYTHON, NUMPY):
        value = x.value.value
        return value if x.kind == PYTHON else np.dtype(x.dtype).type(value)
    if isinstance(x, Tup):
        items = [_constant(t, y) for y in x.items]
        return items if x.is_list else tuple(items)
    if isinstance(x, Known) and (x.value is None or type(x.value) in (str, type, np.dtype)):
        return x.value
    found = t.content(x) if isinstance(x, Arr) else None
    if found is None or found.nbytes > LIMITS.typed_folded:
        raise LookupError
    return found


def _value(t: Writes, x: Any, given: list[np.ndarray]) -> Abstract | None:
    """What a call gave, as a value."""
    if isinstance(x, tuple):
        items = [_value(t, y, given) for y in x]
        return None if None in items else Tup(tuple(y for y in items if y is not None))
    if type(x) is not np.ndarray:
        return number(x)
    is_plain = x.flags.c_contiguous and x.size and x.nbytes <= LIMITS.typed_folded
    if not is_plain or any(np.shares_memory(x, y) for y in given):
        return None
    try:
        return t.constant(x, is_own=True)
    except TraceError:
        return None
