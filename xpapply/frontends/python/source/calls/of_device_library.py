"""Functions of CuPy's short arrays that are written in `xpapply.library.on_device`: a row each.

CuPy does not say in which order it computes most of them, so results are equal to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....library.on_device import algebra, order, series, spectra
from .....limits import LIMITS
from .. import arrays, numbers, places
from ..places import described
from ..values import (
    FRESH,
    PYTHON,
    SPECTRUM,
    Abstract,
    Arr,
    Inlined,
    Known,
    Num,
    Record,
    Span,
    Tup,
    Writes,
)
from .arguments import bound, is_only_axis
from .common import Call, exactly
from .of_arrays import METHODS as _OF_NUMPY
from .of_device_arrays import operand, own_dtype

_SUM = {"b": "int64", "i": "int64", "u": "uint64"}


def _dtype(name: str) -> Known:
    return Known(np.dtype(name))


def _array(t: Writes, x: Abstract, letters: str = "f", ndim: int = 1) -> str:
    """The type of the elements of an operand, which has so many axes."""
    if not isinstance(x, Arr) or x.type.ndim != ndim:
        raise t.refuse(f"a function of {described(x)} on a device")
    if numbers.kind_of(x.type.dtype) not in letters or x.type.dtype == "float16":
        raise t.refuse(f"a function of {described(x)} on a device")
    return x.type.dtype


def _rounds(t: Writes, *dtypes: str) -> None:
    if any(numbers.kind_of(x) == "f" for x in dtypes):
        t.rounds(LIMITS.typed_rounding)


def _summed(inlined: Any) -> Call:
    """A row of a sum or product along an array, in the type of the sum."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        given = bound(t, "a>v:array axis:axis", args, kwargs)
        own = own_dtype(t, given["v"])
        _rounds(t, own)
        return Inlined(inlined, [given["v"], _dtype(_SUM.get(numbers.kind_of(own), own))], {})

    return call


def products(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """``a @ b`` of arrays of one or two axes."""
    exactly(t, args, kwargs, 2)
    dims = tuple(x.type.ndim if isinstance(x, Arr) else 0 for x in args)
    inlined = _PRODUCTS.get(dims)
    if inlined is None:
        raise t.refuse(f"a product of {' and '.join(map(described, args))} on a device")
    types = [_array(t, x, "iuf", n) for x, n in zip(args, dims, strict=True)]
    _rounds(t, *types)
    return Inlined(inlined, [*args, _dtype(np.result_type(*types).name)], {})


_PRODUCTS: dict[tuple[int, ...], Any] = {
    (1, 1): series.inner, (2, 1): algebra.times_vector, (1, 2): algebra.vector_times,
    (2, 2): algebra.times,
}  # fmt: skip


def _of_one_axis(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """``cupy.inner`` and ``vdot``."""
    if any(isinstance(x, Arr) and x.type.ndim != 1 for x in args):
        raise t.refuse("a product of arrays of two axes on a device")
    return products(t, args, kwargs)


def _pair(inlined: Any, default: str) -> Call:
    """A convolution."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        given = bound(t, "a:array v:array mode:text", args, kwargs)
        if given.get("mode", Known(default)).value not in ("full", "same", "valid"):
            raise t.refuse("a convolution of another mode")
        types = [_array(t, given[k], "iuf") for k in ("a", "v")]
        _rounds(t, *types)
        dtype = _dtype(np.result_type(*types).name)
        return Inlined(inlined, [], {"mode": Known(default)} | given | {"dtype": dtype})

    return call


def _literal(t: Writes, x: Abstract) -> Any:
    """A number that is written in the source."""
    if not isinstance(x, Num) or not isinstance(x.value, Literal) or x.kind != PYTHON:
        raise t.refuse("a number that is computed where one of the source has to be, on a device")
    return x.value.value


def _gradient(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    exactly(t, args, kwargs, 1, 2)
    _array(t, args[0])
    for x in args[1:]:
        _literal(t, x)
    return Inlined(series.slopes, args, {})


def _trapezoid(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = bound(t, "y:array x:array" if len(args) > 1 or "x" in kwargs else "y:array dx:number",
                  args, kwargs)  # fmt: skip
    for name in given.keys() & {"x", "y"}:
        if _array(t, given[name]) != given["y"].type.dtype:
            raise t.refuse("an area of several types")
    t.rounds(LIMITS.typed_rounding)
    return Inlined(series.area_along if "x" in given else series.area, [], given)


def _clip(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    named = dict(zip(("a", "a_min", "a_max"), args, strict=False)) | kwargs
    if set(named) != {"a", "a_min", "a_max"} or len(args) > 3:
        raise t.refuse("cupy.clip with further arguments")
    x, *ends = (named[k] for k in ("a", "a_min", "a_max"))
    if isinstance(x, Num):
        dtype = x.dtype
        if numbers.kind_of(dtype) != "f" or dtype == "float16":
            raise t.refuse(f"cupy.clip of {described(x)} on a device")
    else:
        dtype = _array(t, x)
    for e in ends:
        if not isinstance(_literal(t, e), (int, float)) or not _literal(t, e) < np.inf:
            raise t.refuse("cupy.clip by such a number")
    if not _literal(t, ends[0]) <= _literal(t, ends[1]) or (
        isinstance(x, Num) and x.kind == PYTHON
    ):
        raise t.refuse("cupy.clip by limits that fall, or of a number of Python's")
    limits = [Num(dtype, FRESH, operand(t, e, dtype)) for e in ends]
    if isinstance(x, Num):
        return Inlined(series.clipped_number, [x, *limits, _dtype(dtype)], {})
    return Inlined(series.clipped, [x, *limits], {})


def _interp(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = bound(t, "x:array xp:array fp:array", args, kwargs)
    for x in given.values():
        _array(t, x, "if")
    t.rounds(LIMITS.typed_rounding)
    return Inlined(series.interpolated, [], given)


def _searchsorted(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = bound(t, "a:array v:array side:text", args, kwargs)
    side = given.pop("side", Known("left")).value
    types = [_array(t, given[k], "iuf") for k in ("a", "v")]
    if side not in ("left", "right") or types[0] != types[1]:
        raise t.refuse("cupy.searchsorted of several types")
    right = Num("bool", PYTHON, Literal(side == "right", "bool"))
    return Inlined(series.all_searched, [given["a"], given["v"], right, _dtype("int64")], {})


def _digitize(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = bound(t, "x:array bins:array right:flag", args, kwargs)
    if _array(t, given["x"], "iuf") != _array(t, given["bins"], "iuf"):
        raise t.refuse("cupy.digitize of several types")
    return Inlined(order.all_in_bins, [], given)


def _argsort(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """CuPy's sorts are stable all."""
    if kwargs.pop("kind", Known(None)).value not in (None, "stable"):
        raise t.refuse("cupy.argsort of another kind")
    given = bound(t, "a>v:array axis:axis", args, kwargs)
    _array(t, given["v"], "iuf")
    return Inlined(order.places_in_order, [], given)


def _one(inlined: Any, letters: str = "iuf") -> Call:
    """A function of an array alone."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        exactly(t, args, kwargs, 1)
        _array(t, args[0], letters)
        return Inlined(inlined, args, {})

    return call


def _typed(inlined: Any, letters: str = "f") -> Call:
    """A reduction of floats, in their type."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        given = bound(t, "a>v:array axis:axis", args, kwargs)
        own = _array(t, given["v"], letters)
        t.rounds(LIMITS.typed_rounding)
        return Inlined(inlined, [given["v"], _dtype(own)], {})

    return call


def _quantile(share: float) -> Call:
    """``cupy.quantile`` and ``percentile``, whose places are numbers of the source."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        axis = kwargs.pop("axis", args[2] if len(args) == 3 else Known(None))
        a, q = _bound_two(t, args[:2], kwargs)
        if _array(t, a) != "float64" or not is_only_axis(axis):
            raise t.refuse(f"a quantile of {described(a)} on a device")
        some = q.items if isinstance(q, Tup) else (q,)
        found = [_literal(t, x) * 1.0 if share == 1.0 else _literal(t, x) / share for x in some]
        if not all(0 <= x <= 1 for x in found) or not found:
            raise t.refuse("a quantile beyond all numbers")
        given = [Num("float64", PYTHON, Literal(x, "float64")) for x in found]
        t.rounds(LIMITS.typed_rounding)
        if isinstance(q, Tup):
            return Inlined(order.quantiles, [a, Tup(tuple(given))], {})
        return Inlined(order.quantile, [a, *given], {})

    return call


def _bound_two(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """An array and where in it."""
    named = dict(zip(("a", "q"), args, strict=False)) | kwargs
    if set(named) != {"a", "q"}:
        raise t.refuse("a quantile with further arguments")
    return named["a"], named["q"]


def _histogram(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    named = dict(zip(("x", "bins", "range"), args, strict=False)) | kwargs
    named = {{"a": "x"}.get(k, k): x for k, x in named.items()}
    x, bins, ends = (named.pop(k, Known(None)) for k in ("x", "bins", "range"))
    if named or _array(t, x) != "float64":
        raise t.refuse(f"a histogram of {described(x)} on a device")
    if isinstance(bins, Arr):
        if _array(t, bins) != "float64":
            raise t.refuse(f"a histogram in {described(bins)} on a device")
        return Inlined(order.histogram_of_edges, [x, bins], {})
    count = 10 if places.is_none(bins) else _literal(t, bins)
    if type(count) is not int:
        raise t.refuse("a histogram in so many parts")
    t.rounds(LIMITS.typed_rounding)
    many = Num("int64", PYTHON, Literal(count, "int64"))
    if places.is_none(ends):
        return Inlined(order.histogram_of_all, [x, many], {})
    if not isinstance(ends, Tup) or len(ends.items) != 2:
        raise t.refuse("a histogram in a range that is no pair")
    low, high = (Num("float64", PYTHON, Literal(float(_literal(t, e)), "float64"))
                 for e in ends.items)  # fmt: skip
    return Inlined(order.histogram, [x, many, low, high], {})


def _bincount(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    given = bound(t, "x:integers weights:floats minlength:int", args, kwargs)
    if "weights" not in given:
        return Inlined(order.counted, [], given)
    if _array(t, given["weights"]) != "float64":
        raise t.refuse("a sum of weights of other floats")
    t.rounds(LIMITS.typed_rounding)
    return Inlined(order.weighed, [], given)


def _norm(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    exactly(t, args, kwargs, 1, 2)
    own = _array(t, args[0])
    which = None if len(args) == 1 or places.is_none(args[1]) else _literal(t, args[1])
    inlined = {None: algebra.norm, 2: algebra.norm, 1: algebra.norm_of_sizes,
               np.inf: algebra.norm_of_largest}.get(which)  # fmt: skip
    if inlined is None:
        raise t.refuse(f"the norm {which} of an array on a device")
    t.rounds(LIMITS.typed_rounding)
    return Inlined(inlined, [args[0], _dtype(own)], {})


def _of_matrix(inlined: Any, more: int = 0) -> Call:
    """A function of a matrix, and of so many arrays of its type."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        exactly(t, args, kwargs, 1 + more)
        own = _array(t, args[0], ndim=2)
        if any(_array(t, x) != own for x in args[1:]):
            raise t.refuse("linear algebra of several types on a device")
        t.rounds(LIMITS.typed_rounding)
        return Inlined(inlined, [*args, _dtype(own)], {})

    return call


def _polyfit(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    exactly(t, args, kwargs, 3)
    if {_array(t, x) for x in args[:2]} != {"float64"} or type(_literal(t, args[2])) is not int:
        raise t.refuse("a polynomial is fitted to other numbers than float64 on a device")
    t.rounds(LIMITS.typed_rounding)
    return Inlined(algebra.fitted, args, {})


def _rfft(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    exactly(t, args, kwargs, 1)
    own = _array(t, args[0])
    t.rounds(LIMITS.typed_rounding)
    return Inlined(spectra.transformed, [args[0], _dtype(own)], {})


def is_spectrum(x: Abstract) -> bool:
    """Whether it is complex numbers, as two arrays."""
    return isinstance(x, Record) and x.names == SPECTRUM


def sizes(x: Record) -> Inlined:
    """``abs(x)`` of complex numbers."""
    return Inlined(spectra.sizes, [*x.values, _dtype(x.values[0].type.dtype)], {})


def _of_both(inlined: Any) -> Call:
    """``cupy.cov`` and ``corrcoef`` of two arrays."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        exactly(t, args, kwargs, 2)
        if {_array(t, x) for x in args} != {"float64"}:
            raise t.refuse("covariances of other numbers than float64 on a device")
        t.rounds(LIMITS.typed_rounding)
        return Inlined(inlined, [*args, _dtype("float64")], {})

    return call


def _flip(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 1)
    _array(t, args[0], "biuf")
    return arrays.item(t, args[0], Span(Known(None), Known(None), Num("int64", PYTHON, _BACK)))


_BACK = Literal(-1, "int64")


def _concatenate(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not args or not isinstance(args[0], Tup) or len({
        _array(t, x, "biuf") for x in args[0].items
    }) != 1:  # fmt: skip
        raise t.refuse("arrays of several types are put together on a device")
    return _joined(t, args, kwargs)


def _joined(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    from .of_arrays import ROWS

    return ROWS[np.concatenate](t, args, kwargs)


METHODS: dict[str, Call] = {
    "cumsum": _summed(series.cumulated), "cumprod": _summed(series.multiplied),
    "prod": _summed(series.product), "argsort": _argsort,
    "dot": products, "clip": _clip, "reshape": _OF_NUMPY["reshape"],
}  # fmt: skip
"""Functions that are methods too."""
FUNCTIONS: dict[str, Call] = METHODS | {
    "matmul": products, "inner": _of_one_axis, "vdot": _of_one_axis,
    "convolve": _pair(series.convolved, "full"), "correlate": _pair(series.correlated, "valid"),
    "gradient": _gradient, "trapezoid": _trapezoid, "interp": _interp,
    "searchsorted": _searchsorted, "digitize": _digitize, "unique": _one(order.unlike),
    "quantile": _quantile(1.0), "percentile": _quantile(100.0), "histogram": _histogram,
    "bincount": _bincount, "polyfit": _polyfit, "cov": _of_both(algebra.covariances),
    "corrcoef": _of_both(algebra.correlations), "flip": _flip, "concatenate": _concatenate,
    "nansum": _typed(order.known_sum), "nanmean": _typed(order.known_mean),
}  # fmt: skip
"""Rows by names in CuPy and NumPy."""
LINALG: dict[str, Call] = {
    "norm": _norm, "det": _of_matrix(algebra.determinant), "solve": _of_matrix(algebra.solved, 1),
    "inv": _of_matrix(algebra.inverse), "eigvalsh": _of_matrix(algebra.eigenvalues),
}  # fmt: skip
"""Rows by names in ``linalg``."""
FFT: dict[str, Call] = {"rfft": _rfft}
"""Rows by names in ``fft``."""
PARTS: dict[Any, Call] = {
    spectra.Spectrum: lambda t, args, kwargs: Record(SPECTRUM, tuple(args)),
}
