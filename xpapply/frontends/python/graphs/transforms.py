"""Transforms of cosines and sines, in graphs: products with the matrices of single transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import resolve
from ....errors import UnsupportedError
from ....ir.builder import Value
from .filters import array_of, axis_of, with_first

_MOST = 32
"""Numbers along an axis, at most: of more a fast transform is more accurate, too."""


def _along(lowering: Any, name: str, x: Value, axis: int, given: dict[str, Any]) -> Value:
    """Transform along one axis."""
    n = x.shape[axis]
    if x.dtype not in ("float32", "float64") or n > _MOST:
        raise UnsupportedError(f"a transform of {n} numbers of {x.dtype}")
    call: Any = resolve(name)
    matrix = lowering.operand(np.ascontiguousarray(call(np.eye(n), axis=0, **given)), x.dtype)

    def transformed(lines: Value) -> Value:
        flat = lowering.shaped(lines, (n, int(np.prod(lines.shape[1:]))))
        found = lowering.op("einsum", matrix, flat, subscripts="km,mr->kr")
        return lowering.shaped(found, lines.shape)  # type: ignore[no-any-return]

    return with_first(lowering, x, axis, transformed)


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments that make another transform; those of speed are left out."""
    found = {k: v for k, v in given.items() if k not in ("workers", "overwrite_x")}
    if set(found) - {"type", "norm", "orthogonalize"} or given.get("overwrite_x"):
        raise UnsupportedError("a transform of another shape")
    if any(isinstance(v, Value) for v in found.values()):
        raise UnsupportedError("a transform that depends on the slice")
    return found


def _of_line(name: str) -> Callable[..., Value]:
    def lowered(lowering: Any, x: Any, axis: Any = -1, **given: Any) -> Value:
        x, given = array_of(x), _checked(given)
        return _along(lowering, name, x, axis_of(x, axis), given)

    return lowered


def _of_axes(name: str) -> Callable[..., Value]:
    def lowered(lowering: Any, x: Any, axes: Any = None, **given: Any) -> Value:
        x, given = array_of(x), _checked(given)
        several = range(len(x.shape)) if axes is None else np.atleast_1d(axes).tolist()
        for axis in several:
            x = _along(lowering, name, x, axis_of(x, axis), given)
        return x

    return lowered


_KINDS = ("dct", "idct", "dst", "idst")
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"scipy.fft.{kind}": _of_line(f"scipy.fft.{kind}") for kind in _KINDS},
    **{f"scipy.fft.{kind}n": _of_axes(f"scipy.fft.{kind}") for kind in _KINDS},
}
"""Lowerings by names of functions."""
