"""Curves through points, and systems of three diagonals: their arguments, for ours."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from typing import Any

import numpy as np

from .....ir.typed import Array, Literal
from .....library.solvers import b_splines, of_samples, splines
from .....limits import LIMITS
from .. import arrays
from ..values import (
    CALLED,
    NO_AXES,
    NUMPY,
    Arr,
    Inlined,
    Known,
    Num,
    Record,
    Tup,
    Writes,
    integer,
)
from .arguments import TRUE, as_array
from .common import Call, number
from .of_least_squares import doubles
from .solving import is_none, option, plainly, real, taken, whole_number

_NOTHING = Known(None)
_CUBIC = {"x": None, "y": None, "axis": 0, "bc_type": "not-a-knot", "extrapolate": None}
_MONOTONE = {"x": None, "y": None, "axis": 0, "extrapolate": None}
_AKIMA = {"x": None, "y": None, "axis": 0, "method": "akima", "extrapolate": None}
_ENDS = {
    "not-a-knot": splines.NOT_A_KNOT, "natural": splines.NATURAL, "clamped": splines.CLAMPED,
}  # fmt: skip


def _text(x: Any) -> Any:
    return x.value if isinstance(x, Known) else x


def _made(
    t: Writes, name: str, ours: Any, given: dict[str, Any], ends: Any, usual: bool
) -> Inlined:  # fmt: skip
    """Make a curve of ours; `usual`: the default for extrapolation."""
    x, y = (doubles(t, given[k]) for k in ("x", "y"))
    extends = given["extrapolate"]
    if isinstance(extends, Known) and isinstance(extends.value, str):
        raise t.refuse(f"scipy.interpolate.{name} with extrapolate={extends.value!r}")
    goes_on = usual if is_none(extends) else option(t, extends) == TRUE
    args = [Known(ours), x, y, ends, TRUE if goes_on else _NOTHING]
    return Inlined(splines.curve, args, {})


def _axis(t: Writes, name: str, given: dict[str, Any]) -> None:
    """Take out an axis, of which a slice has one."""
    if given.pop("axis") not in (0, -1, integer(0), integer(-1)):
        raise t.refuse(f"scipy.interpolate.{name} along such an axis")


def _cubic(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "CubicSpline", _CUBIC, args, kwargs)
    _axis(t, "CubicSpline", given)
    ends = given["bc_type"]
    ends = ends.items if isinstance(ends, Tup) else (ends, ends)
    said = [_ENDS.get(_text(x)) if isinstance(_text(x), str) else None for x in ends]
    if None in said or len(said) != 2:
        raise t.refuse("scipy.interpolate.CubicSpline with such a bc_type")
    both = Tup(tuple(integer(k) for k in said if k is not None))
    return _made(t, "CubicSpline", splines.cubic, given, both, True)


def _monotone(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "PchipInterpolator", _MONOTONE, args, kwargs)
    _axis(t, "PchipInterpolator", given)
    return _made(t, "PchipInterpolator", splines.monotone, given, _NOTHING, True)


def _akima(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    name = "Akima1DInterpolator"
    given = taken(t, name, _AKIMA, args[:3], kwargs)
    _axis(t, name, given)
    method = _text(given["method"])
    if method not in ("akima", "makima") or len(args) > 3:
        raise t.refuse(f"scipy.interpolate.{name} with such a method")
    ends = TRUE if method == "makima" else _NOTHING
    return _made(t, name, splines.akima, given, ends, False)


_LINES = {
    "x": None, "y": None, "kind": "linear", "axis": -1, "copy": True, "bounds_error": None,
    "fill_value": math.nan, "assume_sorted": False,
}  # fmt: skip


def _interp1d(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "interp1d", _LINES, args, kwargs)
    _axis(t, "interp1d", given)
    plainly(t, "interp1d", given, kind="linear")
    x, y, _, error, fill, _ = given.values()
    found = [as_array(t, a, "if") for a in (x, y)]
    if any(a.type.dtype not in ("int64", "float64") for a in found):
        raise t.refuse("scipy.interpolate.interp1d of such numbers")
    raises = is_none(error) or option(t, error) == TRUE
    beyond = splines.RAISES if raises else splines.FILLS
    if _text(fill) == "extrapolate" and isinstance(_text(fill), str):
        if not is_none(error) and raises:
            raise t.refuse("scipy.interpolate.interp1d that extrapolates, and raises")
        beyond, fill = _extends() or splines.EXTENDS, math.nan
    pair = fill.items if isinstance(fill, Tup) and not fill.is_list else (fill, fill)
    if len(pair) != 2 or not all(isinstance(p, (Num, float)) for p in pair):
        raise t.refuse("scipy.interpolate.interp1d with such a fill_value")
    fills = Tup(tuple(real(t, p)._replace(kind=NUMPY) for p in pair))
    return Inlined(splines.lines, [*(doubles(t, a) for a in found), integer(beyond), fills], {})


_FITPACK = {
    "x": None, "y": None, "w": None, "bbox": None, "k": 3, "s": None, "ext": 0,
    "check_finite": False,
}  # fmt: skip
_BEYOND = {
    "extrapolate": b_splines.EXTENDS, "zeros": b_splines.ZEROS, "raise": b_splines.RAISES,
    "const": b_splines.STAYS,
}  # fmt: skip


def _interpolating(name: str) -> Call:
    """A class of splines; of one of them only what goes through the points."""
    spec = dict(_FITPACK)
    if name == "InterpolatedUnivariateSpline":
        del spec["s"]

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        given = taken(t, name, spec, args, kwargs)
        if not _is_zero(given.pop("s", 0)):
            raise t.refuse(f"scipy.interpolate.{name} with s: s=0 is compiled")
        plainly(t, name, given, w=None, bbox=None, check_finite=False)
        beyond, places_ = _beyond(t, given["ext"]), t.content(given["x"])
        x, y, k = _through(t, given)
        if places_ is not None and isinstance(k.value, Literal):
            with contextlib.suppress(NotImplementedError):
                knots, *made = b_splines.knots(places_.astype(float), int(k.value.value))
                tables = Tup(tuple(t.constant(table, is_own=True) for table in made))
                return Inlined(b_splines.curve_of, [Known(knots), tables, y, k, beyond], {})
        return Inlined(b_splines.curve, [x, y, k, beyond], {})

    return call


_THROUGH = {
    "x": None, "y": None, "k": 3, "t": None, "bc_type": None, "axis": 0, "check_finite": True,
}  # fmt: skip


def _interp_spline(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "make_interp_spline", _THROUGH, args, kwargs)
    _axis(t, "make_interp_spline", given)
    plainly(t, "make_interp_spline", given, bc_type=None, check_finite=True)
    if not is_none(given["t"]):
        raise t.refuse("scipy.interpolate.make_interp_spline with knots that are given")
    t.rounds(LIMITS.typed_solving)
    return Inlined(b_splines.interpolating, [*_through(t, given)], {})


def _is_zero(x: Any) -> bool:
    """Whether a number is a literal zero."""
    known = x.value.value if isinstance(x, Num) and isinstance(x.value, Literal) else x
    return isinstance(known, (int, float)) and known == 0


def _through(t: Writes, given: dict[str, Any]) -> tuple[Arr, Arr, Num]:
    """Points, and the degree."""
    return doubles(t, given["x"]), doubles(t, given["y"]), whole_number(t, given["k"])


def _beyond(t: Writes, ext: Any) -> Num:
    """The mode of extrapolation."""
    return whole_number(t, _BEYOND.get(_text(ext), ext) if isinstance(_text(ext), str) else ext)


_REPRESENTED = {
    "x": None, "y": None, "w": None, "xb": None, "xe": None, "k": 3, "task": 0, "s": None,
    "t": None, "full_output": 0, "per": 0, "quiet": 1,
}  # fmt: skip


def _splrep(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "splrep", _REPRESENTED, args, kwargs)
    plainly(t, "splrep", given, w=None, xb=None, xe=None, task=0, full_output=0, per=0)
    if not is_none(given["t"]):
        raise t.refuse("scipy.interpolate.splrep with knots that are given")
    if not (is_none(given["s"]) or _is_zero(given["s"])):
        raise t.refuse("scipy.interpolate.splrep with s: s=0 is compiled")
    return Inlined(b_splines.representation, [*_through(t, given)], {})


def _splev(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "splev", {"x": None, "tck": None, "der": 0, "ext": 0}, args, kwargs)
    tck = given["tck"]
    if not isinstance(tck, Tup) or len(tck.items) != 3:
        raise t.refuse("scipy.interpolate.splev of what splrep does not give")
    knots, c, k = tck.items
    own = [doubles(t, knots), doubles(t, c), whole_number(t, k), _beyond(t, given["ext"])]
    order = whole_number(t, given["der"])
    return _at(t, b_splines.at_one, b_splines.at, [*own, order], given["x"])


def _asked_of_spline(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    knots, c, k, beyond, *rest = args
    given = taken(t, "a spline", {"x": None, "nu": 0, "ext": None}, rest, kwargs)
    if not is_none(given["ext"]):
        beyond = _beyond(t, given["ext"])
    order = whole_number(t, given["nu"])
    if isinstance(knots, Known):
        found = t.content(given["x"])
        said = [int(x.value.value) for x in (k, beyond, order) if isinstance(x.value, Literal)]
        known, knots = knots.value, t.constant(knots.value, is_own=True)
        if found is not None and found.ndim == 1 and len(said) == 3:
            with contextlib.suppress(NotImplementedError):
                made = b_splines.weights(known, said[0], said[1], said[2], found.astype(float))
                tables = [t.constant(table, is_own=True) for table in made]
                return Inlined(b_splines.values, [knots, c, k, order, *tables], {})
    return _at(t, b_splines.at_one, b_splines.at, [knots, c, k, beyond, order], given["x"])


def _asked_anywhere(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    spec = {"x": None, "nu": 0, "extrapolate": None}
    given = taken(t, "a spline", spec, args[3:], kwargs)
    if not is_none(given["extrapolate"]) and option(t, given["extrapolate"]) != TRUE:
        raise t.refuse("a spline that ends where its points do")
    own = [*args[:3], integer(b_splines.EXTENDS), whole_number(t, given["nu"])]
    return _at(t, b_splines.at_one, b_splines.at, own, given["x"])


_BANDED = {
    "l_and_u": None, "ab": None, "b": None, "overwrite_ab": False, "overwrite_b": False,
    "check_finite": True,
}  # fmt: skip


def _solve_banded(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "solve_banded", _BANDED, args, kwargs)
    plainly(t, "solve_banded", given, overwrite_ab=False, overwrite_b=False)
    bands, ab, b, finite = given.values()
    if not isinstance(bands, Tup) or bands.items != (integer(1), integer(1)):
        raise t.refuse("scipy.linalg.solve_banded of other than three diagonals")
    table = arrays.loaded(t, ab)
    if not isinstance(table, Arr) or table.type.ndim != 2 or table.type.dtype != "float64":
        raise t.refuse("scipy.linalg.solve_banded of such a matrix")
    return Inlined(splines.solve_banded, [table, doubles(t, b), option(t, finite)], {})


_KERNELS = {"dataset": None, "bw_method": None, "weights": None}
_RULES = {"scott": of_samples.SCOTT, "silverman": of_samples.SILVERMAN}


def _by_kernels(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = taken(t, "gaussian_kde", _KERNELS, args, kwargs)
    plainly(t, "gaussian_kde", given, weights=None)
    v, width = as_array(t, given["dataset"], "f"), given["bw_method"]
    rule = of_samples.SCOTT if is_none(width) else _RULES.get(_text(width))
    if v.type != Array("float64", 1) or (rule is None and not isinstance(width, (Num, float, int))):
        raise t.refuse("scipy.stats.gaussian_kde of such numbers, or with such a bw_method")
    factor = real(t, width if rule is None else 0.0)
    rule = of_samples.GIVEN if rule is None else rule
    return Inlined(of_samples.by_kernels, [v, integer(rule), factor], {})


def _density(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    *own, places_ = args
    if kwargs:
        raise t.refuse("a density with further arguments")
    return _at(t, of_samples.kernels_at_one, of_samples.kernels_at, own, places_)


def _callable(asked: Any) -> Call:
    """A row that makes a callable of places, by a function of ours."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Record:
        return Record((CALLED,), (Tup((Known(asked), *args)),))

    return call


def _asked(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """The curve at one place, or at several."""
    x, c, extends, *rest = args
    given = taken(t, "a curve", {"x": None, "nu": 0, "extrapolate": None}, rest, kwargs)
    if not is_none(given["extrapolate"]):
        extends = TRUE if option(t, given["extrapolate"]) == TRUE else _NOTHING
    order = whole_number(t, given["nu"])
    return _at(t, splines.at_one, splines.at, [x, c, extends, order], given["x"])


def _at(t: Writes, one: Any, several: Any, own: list[Any], places_: Any) -> Inlined:
    at = arrays.loaded(t, places_)
    if isinstance(at, Num):
        return Inlined(one, [*own, real(t, at)], {})
    return Inlined(several, [*own, doubles(t, at)], {})


def _asked_of_lines(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    x, y, beyond, fill, *rest = args
    places_ = taken(t, "a curve", {"x": None}, rest, kwargs)["x"]
    return _at(t, splines.one_on_lines, splines.on_lines, [x, y, beyond, fill], places_)


_PLACES, _VALUES = (0.0, 0.7, 1.0, 2.5, 3.0, 4.2), (1.0, 0.3, 0.4, 2.0, 1.9, -1.0)
_AT = np.linspace(-0.5, 4.5, 11)


def agrees(name: str, solver: Any) -> bool:
    """Whether this SciPy takes the same steps as ours."""
    x, y = np.array(_PLACES), np.array(_VALUES)
    if name == "gaussian_kde":
        ours = of_samples.by_kernels(y, of_samples.SCOTT, 0.0)(_AT)
        return np.array_equal(ours, solver(y)(_AT))
    if name == "solve_banded":
        ab = np.stack([x, 3.0 - y, y])
        return np.array_equal(splines.solve_banded(ab, y, True), solver((1, 1), ab, y))
    if name == "interp1d":
        theirs = solver(x, y, bounds_error=False, fill_value=(2.0, 3.0))
        ours = splines.lines(x, y, splines.FILLS, (2.0, 3.0))
        return np.array_equal(ours(_AT), theirs(_AT)) and _extends() is not None
    if name == "make_interp_spline":
        return np.allclose(b_splines.interpolating(x, y, 3)(_AT), solver(x, y)(_AT))
    if name in _OF_FITPACK:
        t, c, k = b_splines.representation(x, y, 3)
        if name == "splrep":
            return all(map(np.array_equal, (t, c, k), solver(x, y)))
        theirs = (
            solver(_AT, (t, c, k)) if name == "splev" else solver(x, y, **_OF_FITPACK[name])(_AT)
        )
        return np.array_equal(b_splines.at(t, c, k, b_splines.EXTENDS, 0, _AT), theirs)
    ours, each = _CURVES[name]
    pairs = [(solver(x, y, **more), ends) for more, ends in each]
    return all(
        np.array_equal(splines.curve(ours, x, y, ends, True)(_AT), theirs(_AT, extrapolate=True))
        for theirs, ends in pairs
    )


@functools.cache
def _extends() -> int | None:
    """How this SciPy extrapolates lines; None: otherwise than known."""
    x, y = np.array(_PLACES), np.array(_VALUES)
    theirs = sys.modules["scipy.interpolate"].interp1d(x, y, fill_value="extrapolate")
    for way in (splines.EXTENDS, splines.BLENDS):
        if np.array_equal(splines.lines(x, y, way, (0.0, 0.0))(_AT), theirs(_AT)):
            return way
    return None


_CURVES: dict[str, tuple[Any, tuple[tuple[dict[str, Any], Any], ...]]] = {
    "CubicSpline": (
        splines.cubic,
        (
            ({}, (splines.NOT_A_KNOT,) * 2),
            ({"bc_type": "natural"}, (splines.NATURAL,) * 2),
        ),
    ),
    "PchipInterpolator": (splines.monotone, (({}, None),)),
    "Akima1DInterpolator": (splines.akima, (({}, None),)),
}


_OF_FITPACK: dict[str, dict[str, Any]] = {
    "splrep": {}, "splev": {}, "UnivariateSpline": {"s": 0}, "InterpolatedUnivariateSpline": {},
}  # fmt: skip
OURS: dict[Any, Call] = {
    of_samples.density: _callable(of_samples.density_at),
    of_samples.density_at: _density,
    b_splines.called: _callable(b_splines.asked),
    b_splines.asked: _asked_of_spline,
    b_splines.extended: _callable(b_splines.asked_anywhere),
    b_splines.asked_anywhere: _asked_anywhere,
    splines.called: _callable(splines.asked),
    splines.asked: _asked,
    splines.called_on_lines: _callable(splines.asked_of_lines),
    splines.asked_of_lines: _asked_of_lines,
    splines.without_axes: lambda t, args, kwargs: number(t, args[0])._replace(kind=NO_AXES),
}
ROWS: dict[str, Call] = {
    "CubicSpline": _cubic, "PchipInterpolator": _monotone, "Akima1DInterpolator": _akima,
    "interp1d": _interp1d, "gaussian_kde": _by_kernels,
    "solve_banded": _solve_banded, "splrep": _splrep, "splev": _splev,
    "make_interp_spline": _interp_spline,
    "UnivariateSpline": _interpolating("UnivariateSpline"),
    "InterpolatedUnivariateSpline": _interpolating("InterpolatedUnivariateSpline"),
}  # fmt: skip
