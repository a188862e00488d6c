"""Filters of SciPy with constant taps, in graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...batching import resolve
from ...errors import UnsupportedError
from ...ir.builder import Value
from .of_places import along, joined, part, picked, vector

_MODES = {"reflect": "symmetric", "mirror": "reflect", "nearest": "edge", "wrap": "wrap"}
"""What numpy.pad calls the modes of scipy.ndimage ..."""
_MODES |= {"grid-mirror": "symmetric", "grid-wrap": "wrap"}
"""... of which some have two names."""


def _extended(lowering: Any, x: Value, before: int, after: int, mode: str, cval: Any) -> Value:
    """`x` in float64, with numbers on both sides."""
    n = x.shape[0]
    values = lowering.operand(x, np.float64)
    places = np.arange(n)
    if mode in ("constant", "grid-constant"):
        places = np.pad(places, (before, after), constant_values=n)
        return picked(lowering, [values, np.array([float(cval)])], places)
    if mode not in _MODES or (mode == "mirror" and n < 2):
        raise UnsupportedError(f"a filter of mode {mode!r}")
    how: Any = _MODES[mode]
    return picked(lowering, [values], np.pad(places, (before, after), how))


def _correlated(lowering: Any, wide: Value, taps: np.ndarray) -> Value:
    """Sums of products, in the order of SciPy's C code, which knows of taps that are alike."""
    k = len(taps)
    count, middle = wide.shape[0] - k + 1, k // 2

    def at(j: int) -> Value:
        return part(lowering, wide, j, j + count)

    alike = 0
    if k % 2:
        left, right = taps[:middle][::-1], taps[middle + 1 :]
        eps = np.finfo(np.float64).eps
        alike = int((abs(left - right) <= eps).all()) or -int((abs(left + right) <= eps).all())
    if alike:
        total = at(middle) * float(taps[middle])
        for j in range(middle):
            a, b = at(j), at(k - 1 - j)
            total = total + (a + b if alike > 0 else a - b) * float(taps[j])
        return total  # type: ignore[no-any-return]
    total = at(k - 1) * float(taps[k - 1])
    for j in range(k - 1):
        total = total + at(j) * float(taps[j])
    return total  # type: ignore[no-any-return]


def _filtered(
    lowering: Any, x: Value, taps: np.ndarray, mode: str, cval: Any, origin: int = 0
) -> Value:
    if x.dtype not in ("float32", "float64"):
        raise UnsupportedError(f"a filter of {x.dtype}")
    if len(taps) > 2 * x.shape[0] or origin or not np.isfinite(taps).all():
        raise UnsupportedError(f"{len(taps)} taps for {x.shape[0]} numbers")
    before = len(taps) // 2
    wide = _extended(lowering, x, before, len(taps) - 1 - before, mode, cval)
    return lowering.operand(_correlated(lowering, wide, taps), x.dtype)  # type: ignore[no-any-return]


def _gaussian(
    lowering: Any,
    input: Any,
    sigma: Any,
    axis: Any = -1,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: Any = 4.0,
    radius: Any = None,
    order: int = 0,
) -> Value:
    along(axis)
    x = vector(input)
    size = int(truncate * float(sigma) + 0.5) if radius is None else int(radius)
    one = np.zeros(4 * size + 1)
    one[2 * size] = 1
    call: Any = resolve("scipy.ndimage.gaussian_filter1d")
    found = call(one, sigma, order=order, mode="constant", truncate=truncate, radius=radius)
    return _filtered(lowering, x, found[size : 3 * size + 1][::-1], mode, cval)


def _taps(convolves: bool) -> Callable[..., Value]:
    def lowered(
        lowering: Any,
        input: Any,
        weights: Any,
        axis: Any = -1,
        mode: str = "reflect",
        cval: Any = 0.0,
        origin: int = 0,
    ) -> Value:
        along(axis)
        if isinstance(weights, Value) or np.ndim(weights) != 1 or origin:
            raise UnsupportedError("a filter of this kind")
        taps = np.asarray(weights, np.float64)
        if convolves and len(taps) % 2 == 0:
            raise UnsupportedError("a convolution with an even number of taps")
        return _filtered(lowering, vector(input), taps[::-1] if convolves else taps, mode, cval)

    return lowered


def _savgol(
    lowering: Any,
    x: Any,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    axis: Any = -1,
    mode: str = "interp",
    cval: float = 0.0,
) -> Value:
    """The taps, and at the ends what the fitted polynomials are: sums of products, too."""
    along(axis)
    values = vector(x)
    if values.dtype != np.float64 or window_length % 2 == 0:
        raise UnsupportedError(f"a filter of {values.dtype}")
    coefficients: Any = resolve("scipy.signal.savgol_coeffs")
    taps = coefficients(window_length, polyorder, deriv=deriv, delta=delta)[::-1]
    n, half = values.shape[0], window_length // 2
    if mode != "interp":
        return _filtered(lowering, values, taps, mode, cval)
    lowering.mark(~lowering.builder.ufunc(np.isfinite, values))  # a fit raises then
    call: Any = resolve("scipy.signal.savgol_filter")
    matrix = call(np.eye(n), window_length, polyorder, deriv=deriv, delta=delta, axis=0)
    ends = []
    for start, first in ((0, 0), (n - half, n - window_length)):
        last = first + window_length
        weights = lowering.operand(matrix[start : start + half, first:last], np.float64)
        near = part(lowering, values, first, last)
        ends.append(lowering.op("einsum", weights, near, subscripts="nm,m->n"))
    found = _correlated(lowering, values, taps)
    return joined(lowering, ends[0], found, ends[1]) if half else found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "scipy.ndimage.gaussian_filter1d": _gaussian,
    "scipy.ndimage.correlate1d": _taps(convolves=False),
    "scipy.ndimage.convolve1d": _taps(convolves=True),
    "scipy.signal.savgol_filter": _savgol,
}
"""By their names."""
