"""Rules of what only CuPy has, or has in a form of its own.

All other functions of CuPy have the rows of the NumPy and SciPy functions of the same name. Where
a rule here does not cover the arguments, the code of CuPy's function is traced.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from . import Batched, BatchingRule, NoRule
from .names import mirrored
from .rules import Rule, bound, elementwise, leaves, shifted, table
from .scipy.axis import checked
from .scipy.filters import sibling


def elementwise_row(function: Any, names: tuple[str, ...]) -> BatchingRule | None:
    """The row of one of CuPy's ufuncs, all of which are elementwise."""
    if type(function).__name__ != "ufunc":
        return None
    if names:
        return BatchingRule(mirrored(names[0]), elementwise, "elementwise", exact=True, fresh=True)

    # one that other functions of CuPy call
    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        return elementwise(xp, function, args, kwargs)

    return BatchingRule(function.__name__, rule, "elementwise", exact=True, fresh=True)


def own_code(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """No rule: SciPy's does not fit."""
    raise NoRule("CuPy's own")


def extreme_position(name: str) -> Rule:
    """The indices of the first of the largest, or smallest, values of a slice."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        x = given.get("input")
        if set(given) != {"input"} or not isinstance(x, Batched) or x.ndim == 0:
            raise NoRule("these arguments")
        if bool((x.array != x.array).any()):
            raise IndexError("Index 0 is out of bounds for axis 0 with size 0")
        at = getattr(xp, name)(x.array.reshape(len(x.array), -1), axis=1)
        return tuple(Batched(i) for i in xp.unravel_index(at, x.shape))

    return rule


def fourier(parameter: str) -> Rule:
    """Filters in Fourier space: the factor of the batch axis is 1."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        checked((), given)
        x = given.pop("input")
        if not isinstance(x, Batched) or x.ndim == 0 or any(leaves(given)):
            raise NoRule("these arguments")
        value = given[parameter]
        values = [value] * x.ndim if np.ndim(value) == 0 else list(value)
        given[parameter] = [0, *values]
        given["axis"] = shifted(given.get("axis", -1), x.ndim)
        return Batched(call(x.array, **given))

    return rule


def gradient_magnitude(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """The root of the sum of the squares of derivatives along the axes of a slice."""
    given = bound(call, args, kwargs)
    checked((), given)
    x, sigma = given.pop("input"), given.pop("sigma")
    usual = isinstance(x, Batched) and x.ndim > 0 and x.dtype.kind == "f" and np.ndim(sigma) == 0
    if not usual or any(leaves((sigma, given))) or set(given) - {"mode", "cval"}:
        raise NoRule("these arguments")
    smooth = sibling(call, "gaussian_filter")
    total: Any = None
    for axis in range(x.ndim):
        order = [0, *(int(k == axis) for k in range(x.ndim))]
        part = smooth(x.array, [0, *[sigma] * x.ndim], order=order, **given)
        total = part * part if total is None else total + part * part
    return Batched(xp.sqrt(total))


_CENTRE = {0: 1.0, 1: 1.0, 2: 3 / 4, 3: 2 / 3, 4: 115 / 192, 5: 11 / 20}
"""The value of a spline at its own grid point, by order."""
_APART = 4
"""Places from slice to slice, so that no spline reaches from one to another."""


def resampled(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Slices at other places, which are the same for all: zeros between slices keep them apart."""
    given = bound(call, args, kwargs)
    checked((), given)
    x = given.pop("input")
    order, mode = given.get("order", 3), given.get("mode", "constant")
    filters = order > 1 and given.get("prefilter", True)
    usual = (
        isinstance(x, Batched)
        and x.ndim > 0
        and x.dtype.kind == "f"
        and given.keys()
        <= {
            *("shift", "zoom", "matrix", "offset", "output_shape", "coordinates"),
            *("order", "mode", "cval", "prefilter"),
        }
    )
    padded = filters and mode in ("nearest", "grid-constant", "opencv")
    if not usual or any(leaves(given)) or padded or mode == "opencv":
        raise NoRule("these arguments")
    array = x.array
    for axis in range(1, array.ndim) if filters else ():
        dtype = np.promote_types(x.dtype, np.float32)
        array = sibling(call, "spline_filter1d")(array, order, axis, dtype, mode)
    found = []
    for start in range(0, len(array), 1 << 20):  # places may be counted in float32
        part = array[start : start + (1 << 20)]
        wide = xp.zeros((_APART * len(part), *part.shape[1:]), part.dtype)
        wide[::_APART] = part / _CENTRE[order]
        places = _with_batch_axis(xp, given, x.shape, len(wide))
        result = call(wide, **given | places | {"prefilter": False})
        found.append(result if "coordinates" in given else result[::_APART])
    return Batched(xp.concatenate(found).astype(x.dtype, copy=False))


def _with_batch_axis(xp: Any, given: dict[str, Any], shape: tuple[int, ...], n: int) -> dict:
    """The parameters that say where, for `n` places of an axis in front that stays as it is."""
    ndim = len(shape)
    found: dict[str, Any] = {}
    for name, same in {"shift": 0.0, "zoom": 1.0, "offset": 0.0}.items():
        if (value := given.get(name)) is not None:
            values = [value] * ndim if np.ndim(value) == 0 else [float(v) for v in value]
            found[name] = [same, *values]
    if "output_shape" in given and given["output_shape"] is not None:
        found["output_shape"] = (n, *given["output_shape"])
    if "matrix" in given:
        matrix = xp.asarray(given["matrix"], np.float64)
        if matrix.shape not in ((ndim,), (ndim, ndim)):
            raise NoRule("a matrix of homogeneous coordinates")
        wide = xp.zeros([k + 1 for k in matrix.shape])
        wide[(0,) * matrix.ndim] = 1.0
        wide[(slice(1, None),) * matrix.ndim] = matrix
        found["matrix"] = wide
    if "coordinates" in given:
        places = xp.asarray(given["coordinates"], np.float64)
        first = xp.arange(0.0, n, _APART).reshape(-1, *(1,) * (places.ndim - 1))
        wide = [first, *(p[None] for p in places)]
        found["coordinates"] = xp.stack(xp.broadcast_arrays(*wide))
    return found


def convolve_planes(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Two axes, with a kernel that is the same for all slices and zeros around them."""
    given = bound(call, args, kwargs)
    x: Any = given.get("in1")
    kernel: Any = given.get("in2")
    mode = given.get("mode", "full")
    usual = isinstance(x, Batched) and x.ndim == 2 and np.ndim(kernel) == 2
    if not usual or any(leaves([kernel])) or set(given) - {"in1", "in2", "mode"}:
        raise NoRule("these arguments")
    if any(k > n for k, n in zip(kernel.shape, x.shape, strict=True)):
        raise NoRule("a kernel that is larger than the slice")
    direct = sibling(call, call.__name__.removesuffix("2d"))
    return Batched(direct(x.array, xp.asarray(kernel)[None], mode, "direct"))


def separable(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Two axes, one after the other, with kernels that are the same for all slices."""
    given = bound(call, args, kwargs)
    x, row, column = (given[k] for k in ("input", "hrow", "hcol"))
    usual = isinstance(x, Batched) and x.ndim == 2 and x.dtype.name in ("float32", "float64")
    if not usual or any(leaves((row, column))):
        raise NoRule("these arguments")
    kernels = [xp.asarray(k).astype(x.dtype, copy=False) for k in (column, row)]
    if any(k.ndim != 1 or k.size % 2 == 0 for k in kernels):
        raise NoRule("kernels that have no centre")
    correlate = sys.modules[_NDIMAGE].correlate1d
    array = x.array
    for axis, kernel in enumerate(kernels, 1):
        array = correlate(array, kernel[::-1], axis, mode="reflect")
    return Batched(array)


def lstsq(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """A matrix that is the same for all slices, with their right-hand sides as columns."""
    given = bound(call, args, kwargs)
    a, b = given.pop("a"), given.pop("b")
    if not isinstance(b, Batched) or b.ndim != 1 or any(leaves([a, given])):
        raise NoRule("a matrix of each slice")
    x, residuals, rank, s = call(a, b.array.T, **given)
    if residuals.size:
        residuals = Batched(residuals.reshape(len(b.array), 1))
    return Batched(xp.ascontiguousarray(x.T)), residuals, rank, s


_NDIMAGE, _SIGNAL = "cupyx.scipy.ndimage", "cupyx.scipy.signal"

ROWS: list[BatchingRule] = [
    *table("cupy.linalg", "own", lstsq, "lstsq"),
    *table(_NDIMAGE, "own", own_code, "binary_fill_holes"),
    *table(_NDIMAGE, "own", extreme_position("argmax"), "maximum_position"),
    *table(_NDIMAGE, "own", extreme_position("argmin"), "minimum_position"),
    *table(_NDIMAGE, "own", fourier("sigma"), "fourier_gaussian"),
    *table(_NDIMAGE, "own", fourier("size"), "fourier_uniform"),
    *table(_NDIMAGE, "own", fourier("shift"), "fourier_shift"),
    *table(_NDIMAGE, "own", gradient_magnitude, "gaussian_gradient_magnitude"),
    *table(_NDIMAGE, "own", resampled, "shift zoom map_coordinates affine_transform"),
    *table(_SIGNAL, "own", convolve_planes, "convolve2d correlate2d"),
    *table(_SIGNAL, "own", separable, "sepfir2d"),
]
