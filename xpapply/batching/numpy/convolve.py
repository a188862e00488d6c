"""Batching rules of `numpy.convolve` and `correlate`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Batched
from ..function_rules import Unsupported, cache_parts, constant, flat


def convolve(xp: Any, call: Any, a: Any, v: Any, mode: Any = "full") -> Any:
    """A sum over the shorter operand, whose products are those of `numpy.convolve`."""
    constant(mode)
    a, v = _signals(xp, a, v)
    if xp is not np and not bool(xp.isfinite(a).all() and xp.isfinite(v).all()):
        raise Unsupported  # CuPy may go by an FFT, which spreads them
    if v.shape[1] > a.shape[1]:
        a, v = v, a
    return Batched(_windows(xp, a, v, mode, False))


def correlate(xp: Any, call: Any, a: Any, v: Any, mode: Any = "valid") -> Any:
    """Convolve with the second operand reversed and conjugated."""
    constant(mode)
    a, v = _signals(xp, a, v)
    if xp is not np and not bool(xp.isfinite(a).all() and xp.isfinite(v).all()):
        raise Unsupported
    v = v[:, ::-1].conj()
    if v.shape[1] > a.shape[1]:
        return Batched(_windows(xp, v, a, mode, True))
    return Batched(_windows(xp, a, v, mode, False))


def _signals(xp: Any, *xs: Any) -> list[Any]:
    """Operands ``(B, M)``, or ``(1, M)`` for constants."""
    found = []
    for x in xs:
        x = x if isinstance(x, Batched) else Batched(xp.asarray(x)[None])
        if x.ndim > 1 or x.dtype.kind not in "biufc" or flat(x).shape[1] == 0:
            raise Unsupported
        found.append(flat(x))
    return found


def windows_of(mode: Any, m: int, k: int, turned: bool) -> tuple[int, int]:
    """First index and number of a mode's windows, of `k` numbers over `m`."""
    if mode == "full":
        return 0, m + k - 1
    if mode == "same":
        return (k // 2 if turned else (k - 1) // 2), m
    if mode == "valid":
        return k - 1, m - k + 1
    raise Unsupported


@np.errstate(all="ignore")  # numpy.convolve does not warn, `@` does
def _windows(xp: Any, a: Any, v: Any, mode: Any, turned: bool) -> Any:
    """Only products of values that meet are summed: no inf or nan gets into other windows."""
    dtype = np.result_type(a, v)
    inner = np.dtype(np.float32) if dtype == np.float16 else dtype
    n, m, k = max(a.shape[0], v.shape[0]), a.shape[1], v.shape[1]
    start, length = windows_of(mode, m, k, turned)
    if dtype.kind == "c" and not bool(xp.isfinite(a).all() and xp.isfinite(v).all()):
        raise Unsupported  # BLAS has its own products of complex infinities
    a, v = a.astype(inner, copy=False), v.astype(inner, copy=False)
    if xp is np and v.shape[0] == 1 and dtype.kind in "iuf" and np.isfinite(v).all():
        # one convolution of all rows, one after the other, with room between them
        wide = np.zeros((n, m + k - 1), inner)
        wide[:, :m] = a
        found = np.convolve(wide.reshape(-1), v[0])[: wide.size].reshape(wide.shape)
        return found[:, start : start + length].astype(dtype, copy=False)
    if xp is np and k > MANY_TAPS:
        matrix = _toeplitz(a, v, start, length)
        if matrix is not None:
            rows = a if v.shape[0] == 1 else v
            return (rows @ matrix).astype(dtype, copy=False)
        if k > MOST_TAPS:
            raise Unsupported
    found = xp.zeros((n, length), inner)
    for part in cache_parts(n, 2 * m * inner.itemsize) if xp is np else [slice(None)]:
        x, taps, into = (t[part] if t.shape[0] > 1 else t for t in (a, v, found))
        for i in range(k):  # x[j] * taps[i] goes to place i + j - start
            low, high = max(0, start - i), min(m, start + length - i)
            if low < high:
                into[:, low + i - start : high + i - start] += x[:, low:high] * taps[:, i : i + 1]
    return found.astype(dtype, copy=False)


MANY_TAPS = 4
"""The number of taps from which a matrix product is faster."""


MOST_TAPS = 48
"""The number of taps from which a call per row is faster still (measured: 120 values, one core)."""


def _toeplitz(a: Any, v: Any, start: int, length: int) -> Any:
    """The matrix of a convolution with the constant one of the operands, if that is of use.

    Zeros in it meet values that are not in the window, which must be finite then.
    """
    m, k = a.shape[1], v.shape[1]
    if a.shape[0] > 1 and v.shape[0] > 1:
        return None
    if a.dtype.kind != "f" or a.dtype.itemsize > 8 or m > 16 * k or m * length > 2**20:
        return None
    if not (np.isfinite(a).all() and np.isfinite(v).all()):
        return None
    taps, n = (v[0], m) if v.shape[0] == 1 else (a[0], k)
    places = np.arange(start, start + length) - np.arange(n)[:, None]  # of taps, for each input
    inside = (places >= 0) & (places < taps.size)
    return np.where(inside, taps[np.where(inside, places, 0)], taps.dtype.type(0))
