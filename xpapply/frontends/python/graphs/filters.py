"""Filters of SciPy with constant taps, in graphs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ....batching import resolve
from ....errors import UnsupportedError
from ....ir.builder import Value
from .places import along, joined, part, picked, places_of, vector

_MODES = {"reflect": "symmetric", "mirror": "reflect", "nearest": "edge", "wrap": "wrap"}
"""Modes of scipy.ndimage by the names of numpy.pad."""
_MODES |= {"grid-mirror": "symmetric", "grid-wrap": "wrap"}
"""Synonyms of modes."""

_AT_ONCE = 4
"""Products that SciPy's convolution in two dims adds at once."""


def extended(
    lowering: Any, x: Value, before: int, after: int, mode: str, cval: Any, dtype: Any = np.float64
) -> Value:
    """`x` in a dtype, with numbers on both sides of its first axis."""
    n, values = x.shape[0], lowering.operand(x, dtype)
    places, beside = places_of(x), ((before, after), *((0, 0) for _ in x.shape[1:]))
    if mode in ("constant", "grid-constant"):
        places = np.pad(places, beside, constant_values=places.size)
        return picked(lowering, [values, np.array([float(cval)], dtype)], places)
    if mode not in _MODES or (mode == "mirror" and n < 2):
        raise UnsupportedError(f"a filter of mode {mode!r}")
    how: Any = _MODES[mode]
    return picked(lowering, [values], np.pad(places, beside, how))


def _correlated(lowering: Any, wide: Value, taps: np.ndarray) -> Value:
    """Sums of products along the first axis, in the order of SciPy's C code, which knows of taps
    that are alike."""
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
    lowering: Any, x: Value, taps: np.ndarray, mode: Any, cval: Any, axis: int = 0
) -> Value:
    """Filter along one axis."""
    if x.dtype not in ("float32", "float64"):
        raise UnsupportedError(f"a filter of {x.dtype}")
    if len(taps) > 2 * x.shape[axis] or not np.isfinite(taps).all():
        raise UnsupportedError(f"{len(taps)} taps for {x.shape[axis]} numbers")
    before = len(taps) // 2

    def filtered(lines: Value) -> Value:
        wide = extended(lowering, lines, before, len(taps) - 1 - before, mode, cval)
        return lowering.operand(_correlated(lowering, wide, taps), x.dtype)  # type: ignore[no-any-return]

    return with_first(lowering, x, axis, filtered)


def with_first(lowering: Any, x: Value, axis: int, function: Callable[[Value], Value]) -> Value:
    """A function of the first axis, of another one."""
    if axis == 0:
        return function(x)
    order = (axis, *(k for k in range(len(x.shape)) if k != axis))
    found = function(lowering.op("permute_dims", x, axes=order))
    back = tuple(order.index(k) for k in range(len(order)))
    return lowering.op("permute_dims", found, axes=back)  # type: ignore[no-any-return]


def array_of(x: Any) -> Value:
    """A value with axes."""
    if not isinstance(x, Value) or not x.shape or 0 in x.shape:
        raise UnsupportedError("a filter of no array")
    return x


def axis_of(x: Value, axis: Any) -> int:
    """The axis, not negative."""
    return operator.index(axis) % len(x.shape)


def _each(x: Value, value: Any) -> list[Any]:
    """An argument for each axis."""
    several = isinstance(value, (list, tuple, np.ndarray))
    found = list(value) if several else [value] * len(x.shape)
    if len(found) != len(x.shape):
        raise UnsupportedError(f"{len(found)} values for {len(x.shape)} axes")
    return found


# --- along one axis ---------------------------------------------------------------------------


def _gaussian_taps(sigma: Any, order: Any, truncate: Any, radius: Any) -> np.ndarray:
    size = int(truncate * float(sigma) + 0.5) if radius is None else int(radius)
    one = np.zeros(4 * size + 1)
    one[2 * size] = 1
    call: Any = resolve("scipy.ndimage.gaussian_filter1d")
    found = call(one, sigma, order=order, mode="constant", truncate=truncate, radius=radius)
    return found[size : 3 * size + 1][::-1]  # type: ignore[no-any-return]


def _gaussian1d(
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
    x = array_of(input)
    taps = _gaussian_taps(sigma, order, truncate, radius)
    return _filtered(lowering, x, taps, mode, cval, axis_of(x, axis))


def _taps1d(convolves: bool) -> Callable[..., Value]:
    def lowered(
        lowering: Any,
        input: Any,
        weights: Any,
        axis: Any = -1,
        mode: str = "reflect",
        cval: Any = 0.0,
        origin: int = 0,
    ) -> Value:
        if isinstance(weights, Value) or np.ndim(weights) != 1 or origin:
            raise UnsupportedError("a filter of this kind")
        x, taps = array_of(input), np.asarray(weights, np.float64)
        if convolves and len(taps) % 2 == 0:
            raise UnsupportedError("a convolution with an even number of taps")
        taps = taps[::-1] if convolves else taps
        return _filtered(lowering, x, taps, mode, cval, axis_of(x, axis))

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


# --- of several axes --------------------------------------------------------------------------


def _gaussian(
    lowering: Any,
    input: Any,
    sigma: Any,
    order: Any = 0,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: Any = 4.0,
    radius: Any = None,
) -> Value:
    x = array_of(input)
    several = zip(*(_each(x, y) for y in (sigma, order, mode, radius)), strict=True)
    for axis, (width, k, how, size) in enumerate(several):
        if width > 1e-15:
            taps = _gaussian_taps(width, k, truncate, size)
            x = _filtered(lowering, x, taps, how, cval, axis)
    return x


def _derivative(smooth: Sequence[float]) -> Callable[..., Value]:
    """Differences along one axis, smoothed along the others."""

    def lowered(
        lowering: Any, input: Any, axis: Any = -1, mode: Any = "reflect", cval: Any = 0.0
    ) -> Value:
        x = array_of(input)
        along, modes = axis_of(x, axis), _each(x, mode)
        found = _filtered(lowering, x, np.array([-1.0, 0, 1]), modes[along], cval, along)
        for k in range(len(x.shape)):
            if k != along:
                found = _filtered(lowering, found, np.array(smooth), modes[k], cval, k)
        return found

    return lowered


def _laplace(lowering: Any, input: Any, mode: Any = "reflect", cval: Any = 0.0) -> Value:
    x, taps, total = array_of(input), np.array([1.0, -2, 1]), None
    for k, how in enumerate(_each(x, mode)):
        found = _filtered(lowering, x, taps, how, cval, k)
        total = found if total is None else total + found
    return total  # type: ignore[return-value]


def _gaussian_laplace(
    lowering: Any, input: Any, sigma: Any, mode: Any = "reflect", cval: Any = 0.0
) -> Value:
    return _sum_of_gaussians(lowering, input, sigma, mode, cval, 2, lambda y: y)


def _gaussian_gradient(
    lowering: Any, input: Any, sigma: Any, mode: Any = "reflect", cval: Any = 0.0
) -> Value:
    total = _sum_of_gaussians(lowering, input, sigma, mode, cval, 1, lambda y: y * y)
    return lowering.op("sqrt", total)  # type: ignore[no-any-return]


def _sum_of_gaussians(
    lowering: Any,
    input: Any,
    sigma: Any,
    mode: Any,
    cval: Any,
    order: int,
    of: Callable[[Any], Any],
) -> Value:
    """A sum of derivatives along each axis."""
    x = array_of(input)
    if not isinstance(mode, str):
        raise UnsupportedError("a filter of several modes")
    total = None
    for k in range(len(x.shape)):
        orders = [order * (j == k) for j in range(len(x.shape))]
        found = of(_gaussian(lowering, x, sigma, orders, mode, cval))
        total = found if total is None else total + found
    return total  # type: ignore[return-value]


def widened(
    lowering: Any, x: Value, shape: Sequence[int], mode: Any, cval: Any, dtype: Any = np.float64
) -> Value:
    """`x` with what is around it, as far as a window of that shape reaches."""
    fits = len(shape) == len(x.shape) and all(n <= m for n, m in zip(shape, x.shape, strict=True))
    if not isinstance(mode, str) or not fits:
        raise UnsupportedError("a filter of this kind")
    for k, n in enumerate(shape):
        how = {"before": n // 2, "after": n - 1 - n // 2, "mode": mode, "cval": cval}
        x = with_first(lowering, x, k, partial(extended, lowering, dtype=dtype, **how))
    return x


def _shifted(lowering: Any, x: Value, shape: Sequence[int], mode: Any, cval: Any) -> list[Value]:
    """The values below each place of a window that slides over `x`, in C order."""
    wide = widened(lowering, x, shape, mode, cval)
    keys = np.ndindex(*shape)
    return [
        lowering.op(
            "index", wide, key=tuple((i, i + n, 1) for i, n in zip(at, x.shape, strict=True))
        )
        for at in keys
    ]


def _weighted(lowering: Any, x: Value, places: Sequence[Value], weights: np.ndarray) -> Value:
    """Sums of products in the order of SciPy's C code, which leaves out weights of zero."""
    total: Any = 0.0
    for y, weight in zip(places, weights.ravel(), strict=True):
        if abs(weight) > np.finfo(np.float64).eps:
            total = y * float(weight) + total
    if not isinstance(total, Value):
        raise UnsupportedError("a filter of zeros")
    return lowering.operand(total, x.dtype)  # type: ignore[no-any-return]


def _weights(convolves: bool) -> Callable[..., Value]:
    def lowered(
        lowering: Any,
        input: Any,
        weights: Any,
        mode: Any = "reflect",
        cval: Any = 0.0,
        origin: int = 0,
    ) -> Value:
        x = array_of(input)
        if isinstance(weights, Value) or origin or x.dtype not in ("float32", "float64"):
            raise UnsupportedError("a filter of this kind")
        taps = np.asarray(weights)
        if taps.dtype.kind not in "biuf" or taps.ndim != len(x.shape):
            raise UnsupportedError("a filter of this kind")
        taps = taps.astype(np.float64)
        if convolves:
            if any(n % 2 == 0 for n in taps.shape):
                raise UnsupportedError("a convolution with an even number of taps")
            taps = np.flip(taps)
        if not np.isfinite(taps).all():
            raise UnsupportedError("weights that are not finite")
        return _weighted(lowering, x, _shifted(lowering, x, taps.shape, mode, cval), taps)

    return lowered


def _convolved2d(turned: bool) -> Callable[..., Value]:
    """scipy.signal's, of zeros around the slice: in the order of its C code."""

    def lowered(lowering: Any, in1: Any, in2: Any, mode: str = "full") -> Value:
        x = array_of(in1)
        if isinstance(in2, Value) or x.dtype not in ("float32", "float64"):
            raise UnsupportedError("a convolution of this kind")
        taps = np.asarray(in2)
        fits = taps.ndim == 2 and len(x.shape) == 2 and taps.size
        if not fits or any(k > n for k, n in zip(taps.shape, x.shape, strict=True)):
            raise UnsupportedError("a convolution of this kind")
        if np.result_type(x.dtype, taps.dtype) != x.dtype or not np.isfinite(taps).all():
            raise UnsupportedError(f"a convolution of {x.dtype} with {taps.dtype}")
        taps = taps.astype(x.dtype)
        taps = np.flip(taps) if turned else taps
        beside = [(k - 1, k - 1) for k in taps.shape]
        places = np.pad(places_of(x), beside, constant_values=math.prod(x.shape))
        wide = picked(lowering, [x, np.zeros(1, x.dtype)], places)
        sizes = list(x.shape)
        if mode == "full":
            starts, sizes = [0, 0], [n + k - 1 for n, k in zip(sizes, taps.shape, strict=True)]
        elif mode == "same":
            starts = [(k - 1 + turned) // 2 for k in taps.shape]
        elif mode == "valid":
            starts = [k - 1 for k in taps.shape]
            sizes = [n - k + 1 for n, k in zip(sizes, taps.shape, strict=True)]
        else:
            raise UnsupportedError(f"a convolution of mode {mode!r}")
        total: Any = None
        order = list(np.ndenumerate(taps))
        for at, tap in order[::-1] if turned else order:
            several = zip(starts, taps.shape, at, sizes, strict=True)
            key = tuple((s + k - 1 - i, s + k - 1 - i + n, 1) for s, k, i, n in several)
            found = lowering.op("index", wide, key=key) * tap
            total = found if total is None else total + found
        # of longer rows several products are added at once
        exact = taps.shape[1] < _AT_ONCE
        return total if exact else lowering.builder.approximate(total)  # type: ignore[no-any-return]

    return lowered


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "scipy.ndimage.gaussian_filter1d": _gaussian1d,
    "scipy.ndimage.correlate1d": _taps1d(convolves=False),
    "scipy.ndimage.convolve1d": _taps1d(convolves=True),
    "scipy.ndimage.gaussian_filter": _gaussian,
    "scipy.ndimage.gaussian_laplace": _gaussian_laplace,
    "scipy.ndimage.gaussian_gradient_magnitude": _gaussian_gradient,
    "scipy.ndimage.sobel": _derivative([1.0, 2, 1]),
    "scipy.ndimage.prewitt": _derivative([1.0, 1, 1]),
    "scipy.ndimage.laplace": _laplace,
    "scipy.ndimage.correlate": _weights(convolves=False),
    "scipy.ndimage.convolve": _weights(convolves=True),
    "scipy.signal.convolve2d": _convolved2d(turned=False),
    "scipy.signal.correlate2d": _convolved2d(turned=True),
    "scipy.signal.savgol_filter": _savgol,
}
"""Lowerings by names of functions."""
