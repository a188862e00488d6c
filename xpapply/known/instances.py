"""Objects of SciPy that ``f`` makes out of a slice: interpolators and splines.

Those that have an axis are made once, of all slices of a block. The others, and those of slices
that are not finite, are made and called slice by slice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import Known, NoRule, Rows, resolve
from .rules import bound, leaves, mapped

_DATA = {
    "interp1d": "y",
    "CubicSpline": "y",
    "PchipInterpolator": "y",
    "Akima1DInterpolator": "y",
    "make_interp_spline": "y",
    "make_lsq_spline": "y",
    "KroghInterpolator": "yi",
    "UnivariateSpline": "",
    "InterpolatedUnivariateSpline": "",
    "LSQUnivariateSpline": "",
    "make_smoothing_spline": "",
    "CubicHermiteSpline": "",
}
"""What makes them, with the parameter that may have many slices along an axis; "": none."""

METHODS = frozenset(
    "__call__ derivative antiderivative derivatives integral integrate get_residual".split()
)
"""Methods that change nothing."""


def maker(function: Any) -> str | None:
    """The name of a class or function that makes such objects."""
    name = getattr(function, "__name__", "")
    known = name in _DATA and resolve(f"scipy.interpolate.{name}") is function
    return name if known else None


class Instances:
    """One object per slice.

    `whole`: one for all slices, but for those that are `odd`; `each`: makes that of one slice.
    """

    __slots__ = ("_made", "each", "index", "odd", "whole")

    def __init__(self, whole: Any, each: Callable[[int], Any], index: Any, odd: Any) -> None:
        self.whole, self.each, self.index, self.odd = whole, each, index, odd
        self._made: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, k: int) -> Any:
        """The object of the slice in place `k`."""
        b = int(self.index[k])
        if b not in self._made:
            self._made[b] = self.each(b)
        return self._made[b]

    def take(self, index: Any) -> Instances:
        """Some of the slices."""
        found = Instances(self.whole, self.each, self.index[index], self.odd)
        found._made = self._made
        return found

    def then(self, call: Callable[[Any], Any]) -> Instances:
        """Objects that are made of these."""
        whole = None if self.whole is None else call(self.whole)
        return Instances(whole, lambda b: call(self._of(b)), self.index, self.odd)

    def _of(self, b: int) -> Any:
        if b not in self._made:
            self._made[b] = self.each(b)
        return self._made[b]


def _make(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    function, given, named = args
    if xp is not np:
        raise NoRule(f"{function.__name__} takes NumPy arrays")
    rows = list(leaves((given, named)))
    n = len(rows[0].array)

    def each(b: int) -> Any:
        one = mapped(lambda x: x.array[b], (given, named))
        return function(*one[0], **one[1])

    index = np.arange(n)
    whole, odd = None, np.zeros(n, bool)
    data = _DATA[function.__name__]
    arguments = bound(function, given, named) if data else {}
    y: Any = arguments.get(data)
    fill = list(leaves(arguments.get("fill_value")))
    moving = isinstance(y, Rows) and y.ndim == 1 and len(rows) == 1 + len(fill)
    if moving and "axis" not in arguments and all(x.ndim == 0 for x in fill):
        if y.dtype.kind in "fc":
            odd = ~np.isfinite(y.array).all(axis=1)
        if not odd.all():
            arguments[data] = Rows(np.where(odd[:, None], 0, y.array)) if odd.any() else y
            whole = function(**mapped(lambda x: x.array, arguments), axis=1)
    found = Instances(whole, each, index, odd)
    for b in index if whole is None else np.flatnonzero(odd):
        found[int(b)]  # it raises here if it raises
    return found


def _call(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A method, or an attribute, of the object of each slice."""
    instances, name, method, is_object, given, named = args
    moving = any(True for _ in leaves((given, named)))

    def of(x: Any) -> Any:
        found = getattr(x, name)
        return found(*given, **named) if method else found

    if is_object:
        if moving:
            raise NoRule(f"{name} with values that depend on the slice")
        return instances.then(of)
    singles = range(len(instances))
    if instances.whole is not None and method and not moving:
        values = np.asarray(of(instances.whole))
        if name == "__call__":
            values = _at_knots(instances.whole, values, *given)
        values = values[instances.index]
        singles = np.flatnonzero(instances.odd[instances.index])  # type: ignore[assignment]
        if len(singles):
            values = np.array(values)
        for k in singles:
            values[k] = of(instances[k])
        return Rows(values)
    found = []
    for k in singles:
        one = mapped(lambda x: x.array[k], (given, named))  # noqa: B023
        value = getattr(instances[k], name)
        found.append(np.asarray(value(*one[0], **one[1]) if method else value))
    if len({(x.shape, x.dtype) for x in found}) > 1:
        raise NoRule(f"{name} has another shape for some slices")
    return Rows(np.stack(found))


def _at_knots(whole: Any, values: Any, *given: Any) -> Any:
    """`interp1d` calls `numpy.interp` for one slice, which gives the points themselves."""
    linear = type(whole).__name__ == "interp1d" and whole._kind == "linear"
    if not linear or whole._extrapolate or len(given) != 1:
        return values
    if not {whole.x.dtype, whole.y.dtype} <= {np.dtype(float), np.dtype(int)}:
        return values
    at = np.asarray(given[0])
    place = np.minimum(np.searchsorted(whole.x, at), len(whole.x) - 1)
    hit = whole.x[place] == at
    values = np.array(values)
    values[:, hit] = whole.y[:, place[hit]]
    return values


@functools.cache
def make_row(name: str, single: bool) -> Known:
    """The row of what makes the objects; `single`: one slice after the other."""
    return Known(f"{name}{', slice by slice' * single} of the slice", _make, exact=True)


@functools.cache
def call_row(name: str) -> Known:
    """The row of a method."""
    return Known(f"{name} of it", _call, exact=True)


def is_single(function: Any, args: tuple, kwargs: dict, moves: Callable[[Any], bool]) -> bool:
    """Whether an object is made for each slice; `moves`: whether arguments depend on it."""
    data = _DATA[function.__name__]
    arguments = bound(function, args, kwargs) if data else {}
    rest = {k: x for k, x in arguments.items() if k not in (data, "fill_value")}
    return not data or moves(rest) or "axis" in arguments
