"""Rows of classes that are made of the values of a slice and then called: interpolators.

Making and calling is one call here: its arguments are those of the class, then those of the object.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import Known, NoRule, Rows
from .rules import bound, leaves, mapped, signature


def writeable(tree: Any) -> Any:
    """Arguments without arrays that are read-only, which some of these classes do not take."""
    return mapped(lambda x: x if x.flags.writeable else x.copy(), tree, np.ndarray)


def _made_of(data: str) -> Any:
    """All slices in trailing axes of the parameters `data`, or all places in one call."""
    names = data.split()

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        made, named, at, keywords = writeable(args)
        given = bound(call, made, named)
        values = {k: given[k] for k in names if given.get(k) is not None}
        others = [x for k, x in given.items() if k not in names]
        if any(leaves((others, keywords))):
            raise NoRule(f"{call.__name__} with other parameters that depend on the slice")
        if not any(leaves(values)):  # made of constants, called with a slice
            if len(at) != 1 or not isinstance(at[0], Rows):
                raise NoRule(f"{call.__name__} called with several arguments")
            return Rows(call(**given)(at[0].array))
        if any(leaves(at)):
            raise NoRule(f"{call.__name__}: places and values depend on the slice")
        n = next(leaves(values)).array.shape[0]
        for name, x in values.items():
            array = x.array if isinstance(x, Rows) else xp.asarray(x)
            if not isinstance(x, Rows):
                array = xp.broadcast_to(array, (n, *array.shape))
            given[name] = xp.ascontiguousarray(xp.moveaxis(array, 0, -1))
        if names == ["c"]:  # coefficients, whose first axes are not those of values
            if given.get("axis", 0) != 0:
                raise NoRule(f"{call.__name__} along another axis")
        elif "axis" in signature(call).parameters:
            if any(x.ndim != 1 for x in leaves(values)) or given.get("axis", 0) not in (0, -1):
                raise NoRule(f"{call.__name__} of values with several axes")
            given["axis"] = 0
        if call.__name__ == "interp1d" and not all(
            bool(xp.isfinite(x.array).all()) for x in leaves(values) if x.dtype.kind in "fc"
        ):
            raise NoRule("interp1d of one axis has a way of its own with infinities")
        places = [xp.asarray(x) for x in at]
        return Rows(xp.moveaxis(call(**given)(*places, **keywords), -1, 0))

    return rule


_DATA = {
    "y": "Akima1DInterpolator CubicSpline PchipInterpolator interp1d make_interp_spline "
    "make_lsq_spline NearestNDInterpolator",
    "y dydx": "CubicHermiteSpline",
    "yi": "KroghInterpolator BarycentricInterpolator",
    "c": "BSpline PPoly BPoly NdPPoly NdBSpline",
    "d": "RBFInterpolator",
    "values": "LinearNDInterpolator CloughTocher2DInterpolator RegularGridInterpolator",
}

ROWS = [
    Known(f"scipy.interpolate.{name}", _made_of(data), "made")
    for data, names in _DATA.items()
    for name in names.split()
]
