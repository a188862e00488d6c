"""Arguments of functions of slices: which are arrays, which are numbers, and what they must be."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import arrays, labelled
from ..arrays import masked
from ..backends import choice
from ..errors import InputError


class Number(NamedTuple):
    """A number among the arguments: passed by value."""

    value: Any
    dtype: np.dtype[Any] | None
    """None for Python's own, which takes that of the arrays."""


def signature(x: Any) -> Any:
    """The key of an argument."""
    if type(x) in (float, int, bool, complex) or isinstance(x, np.generic):
        return type(x)
    if arrays.library(x) is None:  # nested lists
        labelled.refuse(x)
        x = np.asarray(x)
        return "list", x.shape, x.dtype
    if arrays.library(x) == "torch":  # views that mean other numbers than lie in memory
        wrapped = choice.backend("torch").is_wrapped(x)  # type: ignore[union-attr]
        return *arrays.signature(x), x.is_neg(), x.is_conj(), wrapped
    return arrays.signature(x)


def no_arrays(operands: Sequence[Any]) -> bool:
    """Whether all arguments are numbers."""
    return all(isinstance(x, (bool, int, float, complex, np.generic)) for x in operands)


def looked_at(name: str, x: Any, alone: bool) -> Any:
    """An argument as an array, or as a `Number`."""
    if not alone:
        if isinstance(x, np.generic):
            return Number(x.item(), x.dtype)
        if type(x) in (bool, int, float, complex):
            return Number(x, None)
    if arrays.library(x) is None or isinstance(x, np.generic):
        labelled.refuse(x)
        x = np.asarray(x)
    if masked.is_masked(x):
        raise TypeError(
            f"{name} of a MaskedArray: fill it, or give weights that are 0 where masked"
        )
    x = arrays.plain(x)
    kind = getattr(x.dtype, "kind", "")
    if kind in "OSUVMm" and kind and arrays.dtype_name(x) != "bfloat16":
        raise TypeError(
            f"{name} of dtype {x.dtype}: it takes numbers. Cast the array first: x.astype(float)"
        )
    return x


def same_place(name: str, operands: Sequence[Any]) -> None:
    """Refuse arrays of different libraries, or on different devices."""
    arrays.get_array_module(*operands)  # raises for arrays of different libraries
    places = {arrays.place(x) for x in operands}
    if len(places) > 1:
        which = ", ".join(map(arrays.describe, operands))
        raise InputError(f"{name}: arrays on different devices: {which}. Bring them to one first.")


def normalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of a slice, ascending.

    Raises
    ------
    numpy.exceptions.AxisError
        If one is out of range.
    """
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(arrays.normalize_axis_index(operator.index(a), ndim) for a in given))
    if len(set(axes)) < len(axes):
        raise InputError(f"axis={axis} names an axis twice")
    return axes


def kind_of(x: Any, own: Sequence[Any]) -> tuple[str, bool]:
    """The dtype that an argument has in the graph, and whether it is an array."""
    if not isinstance(x, Number):
        return _computed(arrays.dtype_name(x)), True
    if x.dtype is not None:
        return x.dtype.name, False
    dtypes = [np.dtype(_computed(arrays.dtype_name(y))) for y in own]
    return np.result_type(*dtypes, x.value).name, False


def _computed(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else dtype


def typed(value: Any, kind: Callable[[Any], Any]) -> Any:
    """A number as a NumPy scalar: infinite where the dtype ends earlier."""
    if abs(value) < 6e4:  # any dtype of floats has it: none of NumPy's warnings to switch off
        return kind(value)
    with np.errstate(over="ignore"):
        return kind(value)
