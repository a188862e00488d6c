"""Slices that functions do not expect, one among ordinary ones, and what the loop makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import xpapply

DTYPES = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 g F D G >i4 >f8 >c16".split()
"""The 19 dtypes: NumPy's own numbers, and three in the other byte order."""

PLACES = ("first", "middle", "last")

LENGTH = 16
SLICES = 9

_REAL: dict[str, Callable[[Any, Any, Any], Any]] = {
    "nan": lambda x, at, info: _put(x, at, np.nan),
    "all nan": lambda x, at, info: x * 0 + np.nan,
    "inf": lambda x, at, info: _put(x, at, np.inf),
    "-inf": lambda x, at, info: _put(x, at, -np.inf),
    "inf and -inf": lambda x, at, info: _put(_put(x, at, np.inf), at[:1] - 1, -np.inf),
    "signed zeros": lambda x, at, info: np.where(np.arange(len(x)) % 3 == 1, -0.0, 0.0),
    "-0.0": lambda x, at, info: _put(x, at, -0.0),
    "denormals": lambda x, at, info: x.astype(info.dtype) * info.smallest_subnormal,
    "largest": lambda x, at, info: _put(x.astype(info.dtype), at, info.max),
    "far away": lambda x, at, info: x + 1000,
    "zeros": lambda x, at, info: x * 0,
    "level": lambda x, at, info: x * 0 + 3,
    "negative": lambda x, at, info: -abs(x) - 1,
    "ordinary": lambda x, at, info: x,
}
_INTEGER: dict[str, Callable[[Any, Any, Any], Any]] = {
    "least": lambda x, at, info: _put(x.astype(info.dtype), at, info.min),
    "largest": lambda x, at, info: _put(x.astype(info.dtype), at, info.max),
    "least and largest": lambda x, at, info: _put(
        _put(x.astype(info.dtype), at, info.max), at[:1] - 1, info.min
    ),
    "zeros": lambda x, at, info: x * 0,
    "level": lambda x, at, info: x * 0 + 3,
    "negative": lambda x, at, info: -x - 1,
    "ordinary": lambda x, at, info: x,
}


def _put(x: Any, at: Any, value: Any) -> Any:
    x = x.copy()
    with np.errstate(all="ignore"):
        x[at] = value
    return x


def kinds(dtype: str) -> list[str]:
    """The offending slices that there are of a dtype."""
    kind = np.dtype(dtype).kind
    return (
        ["zeros", "level", "ordinary"] if kind == "b" else [*(_INTEGER if kind in "iu" else _REAL)]
    )


def array(dtype: str, offence: str, place: str, rng: np.random.Generator) -> np.ndarray:
    """Ordinary slices ``(9, 16)``, one of which is not."""
    of = np.dtype(dtype)
    if of.kind == "b":
        x = rng.random((SLICES, LENGTH)) < 0.5
    elif of.kind in "iu":
        x = rng.integers(0, 9, (SLICES, LENGTH))
    else:
        x = rng.normal(size=(SLICES, LENGTH)) * 2
        x = np.where(rng.random(x.shape) < 0.3, np.round(x), x)
    k = {"first": 0, "middle": SLICES // 2, "last": SLICES - 1}[place]
    at = rng.choice(LENGTH, rng.integers(1, 4), replace=False)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if of.kind == "b":
            found = x.copy()
            found[k] = {"zeros": False, "level": True}.get(offence, found[k])
            return found
        if of.kind in "iu":
            odd = _INTEGER[offence](x[k], at, np.iinfo(of))
        else:
            odd = _REAL[offence](x[k], at, np.finfo(of.newbyteorder("=")))
        if of.kind == "c":
            found = (x + 1j * rng.permuted(x, axis=1)).astype(of)
            found.real[k] = odd
            if rng.random() < 0.5:
                found.imag[k] = rng.permutation(odd)
            return found
        found = x.astype(of)
        found[k] = odd
        return found


def outcome(apply: Any, f: Any, arr: Any) -> tuple[Any, tuple[type, str] | None, set[str]]:
    """The result, the exception and the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result, raised = None, None
        try:
            result = apply(f, -1, arr.copy())
        except xpapply.errors.UnsupportedError:
            raise
        except Exception as error:
            raised = type(error), str(error)
    return result, raised, {f"{w.category.__name__}: {w.message}" for w in caught}


def difference(wanted: Any, found: Any, exact: bool) -> str:
    """What is different about two results, in words."""
    if type(wanted) is not type(found):
        return f"a {type(found).__name__} instead of a {type(wanted).__name__}"
    if wanted.dtype != found.dtype or wanted.shape != found.shape:
        return f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind not in "fc":
        return "" if (wanted == found).all() else "other values"
    parts = [(wanted, found)]
    if wanted.dtype.kind == "c":
        parts = [(wanted.real, found.real), (wanted.imag, found.imag)]
    for a, b in parts:
        same = (a == b) | ((a != a) & (b != b))
        if not exact:
            with np.errstate(all="ignore"):
                eps = 2000 * np.finfo(a.dtype).eps
                scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
                same |= np.isfinite(a) & (np.abs(a - b) <= eps * np.maximum(np.abs(a), scale))
        if not same.all():
            k = np.argwhere(~same)[0]
            return f"{b[tuple(k)]!r} instead of {a[tuple(k)]!r} at {k.tolist()}"
        number = a == a
        if exact and (np.signbit(a) != np.signbit(b))[number].any():
            return "the sign of a zero"
    return ""


def compare(f: Any, arr: Any, exact: bool, *, warnings: bool = True) -> str | None:
    """What xpapply does otherwise than NumPy's loop, in words; None: it refuses `f`."""
    if exact and arr.dtype.kind == "c":
        exact = False  # NumPy has other products for one complex number than for arrays of them
    wanted, raised, warned = outcome(np.apply_along_axis, f, arr)
    try:
        with xpapply.options(engine="numpy"):
            found, raised_too, warned_too = outcome(xpapply.apply_along_axis, f, arr)
    except xpapply.errors.UnsupportedError:
        return None
    if raised != raised_too:
        return f"raises {raised_too} instead of {raised}"
    if raised is None:
        why = difference(wanted, found, exact)
        if why:
            return why
    if warnings and warned != warned_too:
        return f"warns {sorted(warned_too)} instead of {sorted(warned)}"
    return ""
