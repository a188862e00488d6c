"""Objects of SciPy and CuPy that ``f`` makes out of a slice: interpolators and splines.

Those that take values with more axes are made once, of all slices of a block. The others, and
those of slices that are not finite, are made and called slice by slice. (Akima's takes for equal
what differs by less than a part of the largest number of all its columns.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import Batched, BatchingRule, NoRule, resolve
from .rules import SINGLY, bound, leaves, mapped, signature

_WHOLE = {
    "y": "CubicSpline PchipInterpolator interp1d make_interp_spline make_lsq_spline "
    "NearestNDInterpolator",
    "y dydx": "CubicHermiteSpline",
    "yi": "KroghInterpolator BarycentricInterpolator",
    "c": "BSpline PPoly BPoly NdPPoly NdBSpline",
    "d": "RBFInterpolator",
    "values": "LinearNDInterpolator CloughTocher2DInterpolator RegularGridInterpolator",
}
_SINGLE = """
    UnivariateSpline InterpolatedUnivariateSpline LSQUnivariateSpline make_smoothing_spline
    Akima1DInterpolator
"""

_DATA = {name: data.split() for data, names in _WHOLE.items() for name in names.split()}
_DATA |= {name: [] for name in _SINGLE.split()}
"""What makes them, with the parameters that may have many slices in more axes."""

METHODS = frozenset(
    "__call__ derivative antiderivative derivatives integral integrate get_residual".split()
)
"""Methods without side effects."""


def maker(function: Any) -> str | None:
    """The name of a class or function that makes such objects."""
    name = getattr(function, "__name__", "")
    full = f"scipy.interpolate.{name}"
    return full if name in _DATA and resolve(full) is function else None


def writeable(tree: Any) -> Any:
    """Arguments without arrays that are read-only, which some of these classes do not take."""
    return mapped(lambda x: x if x.flags.writeable else x.copy(), tree, np.ndarray)


class Instances:
    """An object per slice.

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
        """Select slices."""
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
    function, given, named = writeable(args)
    if xp is not np:
        raise NoRule(f"{function.__name__} takes NumPy arrays")
    rows = list(leaves((given, named)))
    n = len(rows[0].array)

    def each(b: int) -> Any:
        one = mapped(lambda x: x.array[b], (given, named))
        return function(*one[0], **one[1])

    odd = np.zeros(n, bool)
    single = is_single(function, given, named, lambda tree: list(leaves(tree)))
    for x in rows:
        if x.dtype.kind in "fc":
            odd |= ~np.isfinite(x.array).reshape(n, -1).all(axis=1)
    odd |= single
    whole = None if odd.all() else _whole(xp, function, given, named, odd)
    found = Instances(whole, each, np.arange(n), odd)
    for b in np.flatnonzero(odd):
        found[int(b)]  # it raises here if it raises
    return found


def _whole(xp: Any, function: Any, given: tuple, named: dict, odd: Any = None) -> Any:
    """Make one object of all slices along the last axis, except the `odd` ones."""
    arguments = bound(function, given, named)
    n = len(next(leaves(arguments)).array)
    for k in _DATA[function.__name__]:
        x = arguments.get(k)
        if x is None:
            continue
        array = x.array if isinstance(x, Batched) else xp.asarray(x)
        if not isinstance(x, Batched):
            array = xp.broadcast_to(array, (n, *array.shape))
        elif odd is not None and odd.any():
            array = np.array(array)
            array[odd] = 0
        arguments[k] = xp.ascontiguousarray(xp.moveaxis(array, 0, -1))
    if "axis" in signature(function).parameters:
        arguments["axis"] = 0
    return function(**mapped(lambda x: x.array, arguments))


def _call(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """A method, or an attribute, of the object of each slice."""
    instances, name, method, is_object, given, named = writeable(args)
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
        values = np.moveaxis(values, -1, 0)[instances.index]
        singles = np.flatnonzero(instances.odd[instances.index])  # type: ignore[assignment]
        if len(singles):
            values = np.array(values)
        for k in singles:
            values[k] = of(instances[k])
        return Batched(values)
    found = []
    for k in singles:
        one = mapped(lambda x: x.array[k], (given, named))  # noqa: B023
        value = getattr(instances[k], name)
        found.append(np.asarray(value(*one[0], **one[1]) if method else value))
    if len({(x.shape, x.dtype) for x in found}) > 1:
        raise NoRule(f"{name} has another shape for some slices")
    return Batched(np.stack(found))


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
    values[hit] = whole.y[place[hit]]
    return values


@functools.cache
def make_row(name: str, single: bool) -> BatchingRule:
    """The row of what makes the objects; `single`: one slice after the other."""
    return BatchingRule(f"{name}{SINGLY * single} of the slice", _make, exact=True)


@functools.cache
def call_row(name: str) -> BatchingRule:
    """The row of a method."""
    return BatchingRule(f"{name} of it", _call, exact=True)


def is_single(function: Any, args: tuple, kwargs: dict, moving: Callable[[Any], list]) -> bool:
    """Whether an object is made for each slice; `moving`: arguments that depend on it."""
    data = _DATA[function.__name__]
    if not data:
        return True
    arguments = bound(function, args, kwargs)
    of_data = [x for k in data for x in moving(arguments.get(k))]
    rest = {k: x for k, x in arguments.items() if k not in data}
    fill = moving(rest.pop("fill_value", None)) if function.__name__ == "interp1d" else []
    if not of_data or moving(rest) or any(x.ndim for x in fill):
        return True
    if any(moving(arguments.get(k)) and not _is_array(arguments[k]) for k in data):
        return True  # a list of numbers
    axis = arguments.get("axis", 0)
    if data == ["c"]:  # coefficients, whose first axes are not those of values
        return bool(axis != 0)
    with_axis = "axis" in signature(function).parameters
    return with_axis and (axis not in (0, -1) or any(x.ndim != 1 for x in of_data))


def _is_array(x: Any) -> bool:
    return hasattr(x, "ndim")


def _made_and_called(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """An object that is made, and called once: arguments of the class, then of the object."""
    made, named, at, keywords = writeable(args)
    name = call.__name__
    if not any(True for _ in leaves((made, named))):  # made of constants, called with a slice
        if len(at) != 1 or not isinstance(at[0], Batched):
            raise NoRule(f"{name} called with several arguments")
        return Batched(call(*made, **named)(at[0].array))
    if is_single(call, made, named, lambda tree: list(leaves(tree))):
        raise NoRule(f"{name} with these values that depend on the slice")
    if any(True for _ in leaves((at, keywords))):
        raise NoRule(f"{name}: places and values depend on the slice")
    if name == "interp1d" and not all(
        bool(xp.isfinite(x.array).all()) for x in leaves((made, named)) if x.dtype.kind in "fc"
    ):
        raise NoRule("interp1d of one axis has a way of its own with infinities")
    found = _whole(xp, call, made, named)(*map(xp.asarray, at), **keywords)
    return Batched(xp.moveaxis(found, -1, 0))


ROWS = [
    BatchingRule(f"scipy.interpolate.{name}", _made_and_called, "made")
    for names in _WHOLE.values()
    for name in names.split()
]
"""Rules for CuPy's arrays, whose objects are made and called on the GPU at once."""
