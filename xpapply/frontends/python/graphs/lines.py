"""Functions along one axis of values that have several: line by line, in graphs.

A line is the numbers along the axis. In kernels of short slices it costs nothing to take values
apart and to put them together again.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import resolve
from ....errors import UnsupportedError
from ....ir.builder import Value

_MOST = 64
"""Lines of a value, at most."""

_ARRAYS = {
    **dict.fromkeys("sort argsort median nanmedian diff gradient cumsum cumprod".split(), "a"),
    **dict.fromkeys("nancumsum nancumprod quantile percentile".split(), "a"),
    **dict.fromkeys("nanquantile nanpercentile".split(), "a"),
    "gradient": "f",
}
PARAMETERS = {f"numpy.{name}": parameter for name, parameter in _ARRAYS.items()}
PARAMETERS |= {"scipy.signal.savgol_filter": "x"}
"""Functions for which that is so, and their parameters for the array."""
_FIRST = ("numpy.quantile", "numpy.percentile", "numpy.nanquantile", "numpy.nanpercentile")
"""Functions whose results have new axes first."""


def by_lines(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Lift a lowering for one axis to values of any number of axes."""
    parameter = PARAMETERS.get(name)
    if parameter is None:
        return function

    def lowered(lowering: Any, **given: Any) -> Any:
        x = given.pop(parameter, None)
        if not isinstance(x, Value) or len(x.shape) < 2:
            return function(lowering, **{parameter: x}, **given)
        if any(isinstance(y, Value) or np.ndim(y) > 1 for y in given.values()):
            raise UnsupportedError(f"{name} with several arrays")
        axis = given.pop("axis") if "axis" in given else _default(name)
        if axis is None:
            if name == "numpy.gradient":  # one result for each axis
                raise UnsupportedError(f"{name} along all axes")
            return function(lowering, **{parameter: _flat(lowering, x)}, **given)
        return along(
            lowering,
            x,
            axis,
            lambda line: function(lowering, **{parameter: line}, **given),
            name in _FIRST,
        )

    return lowered


def _default(name: str) -> Any:
    return inspect.signature(resolve(name)).parameters["axis"].default


def _flat(lowering: Any, x: Value) -> Value:
    found: Value = lowering.shaped(x, (math.prod(x.shape),))
    return found


def along(
    lowering: Any, x: Value, axis: Any, one: Callable[[Value], Any], first: bool = False
) -> Value:
    """Apply `one` to each line along an axis; results stand there, or first."""
    try:
        axis = operator.index(axis) % len(x.shape)
    except TypeError:
        raise UnsupportedError(f"axis {axis}") from None
    rest = [k for k in range(len(x.shape)) if k != axis]
    shape = tuple(x.shape[k] for k in rest)
    if math.prod(shape) > _MOST:
        raise UnsupportedError(f"{math.prod(shape)} lines of {x.shape[axis]} numbers")
    moved = lowering.op("permute_dims", x, axes=(*rest, axis))
    whole = ((None, None, None),)
    lines = [lowering.op("index", moved, key=(*at, *whole)) for at in np.ndindex(*shape)]
    found = [one(line) for line in lines]
    own = found[0].shape
    flat = [lowering.shaped(y, (1, *own)) for y in found]
    together = flat[0] if len(flat) == 1 else lowering.op("concat", *flat, axis=0)
    result: Value = lowering.shaped(together, (*shape, *own))
    if not own:
        return result
    n, at = len(rest), 0 if first else axis
    axes = (*range(at), *range(n, n + len(own)), *range(at, n))
    return (
        result
        if axes == tuple(range(len(axes)))
        else lowering.op("permute_dims", result, axes=axes)
    )
