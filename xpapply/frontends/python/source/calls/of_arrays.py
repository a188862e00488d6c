"""NumPy's functions of arrays, which are written in Python in `xpapply.library`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....ir.typed import Array, Literal
from .....ir.typed.function import PARTS
from .....library import of_making, of_middle, of_numpy, of_order, of_series, of_tables
from .. import arrays, numbers, places, whole
from ..values import (
    NUMPY,
    OF_SLICE,
    PYTHON,
    Abstract,
    Arr,
    Inlined,
    Known,
    Lst,
    Num,
    Span,
    Tup,
    Writes,
    integer,
)
from .arguments import FALSE, TAKEN, TRUE, bound, float64, number64, only_axis, written
from .common import Call, exactly, number, of_table, placed, python_int
from .of_numpy import dtype_of, ufunc_of, where


def _reduction(ufunc: Any) -> Call:
    """``numpy.sum`` and such, of an array of one axis."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        of_pairs = ufunc in (np.add, np.multiply) and isinstance(args[0], Arr)
        if of_pairs and args[0].type.dtype in PARTS and len(args) == 1 and not kwargs:
            return whole.reduced(t, ufunc, args[0])
        given = bound(t, "a:array axis:axis", args, kwargs)
        return whole.reduced(t, ufunc, given["a"])

    return call


def _added(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    """The sum for a mean, of integers as floats; NumPy always warns of an empty mean."""
    (x,) = args
    t.mark(t.op("eq", "bool", places.length(t, x), places.ZERO), "the mean of nothing")
    own = x.type.dtype
    return whole.reduced(t, np.add, x, own if numbers.kind_of(own) == "f" else "float64")


def _product(*, quiet: bool) -> Call:
    """A sum of products by NumPy's own loop; quiet: whatever the processor notes meanwhile."""
    return lambda t, args, kwargs: whole.dot(t, *args, quiet=quiet)


def _dot(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 2)
    if not all(isinstance(x, (Arr, Lst, Tup)) for x in args):
        raise t.refuse("numpy.dot of a number")
    if isinstance(args[0], Arr) and args[0].type.ndim == 2:
        return whole.by_matrix(t, args[0], TAKEN["numbers"](t, args[1]))
    a, b = (TAKEN["numbers"](t, x) for x in args)
    if a.type != b.type:
        raise t.refuse("a product of arrays of several types")
    if numbers.kind_of(a.type.dtype) == "f":
        return Inlined(of_series.inner, [a, b], {})
    if a.type.dtype != "int64":
        raise t.refuse(f"a product of {a.type.dtype}")
    return Inlined(of_series.inner_of_integers, [a, b], {})


def _running(inlined: Any) -> Call:
    """``numpy.cumsum`` and such: in the type of its sum."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        x = bound(t, "a:array axis:axis", args, kwargs)["a"]
        own = x.type.dtype
        dtype = {"i": "int64", "b": "int64", "u": "uint64"}.get(numbers.kind_of(own), own)
        return Inlined(inlined, [x, Known(np.dtype(dtype))], {})

    return call


def _accumulated(inlined: Any) -> Call:
    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return Inlined(inlined, [bound(t, "array:numbers axis:axis", args, kwargs)["array"]], {})

    return call


def _arange(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 1, 2, 3)
    given = [number(t, x) for x in args]
    if len(given) == 1:
        given = [integer(0), *given]
    if len(given) == 2:
        given.append(integer(1))
    if all(numbers.kind_of(x.dtype) == "i" for x in given):
        if any(x.dtype != "int64" for x in given):
            raise t.refuse("numpy.arange of short integers")
        return Inlined(of_making.steps, [python_int(t, x) for x in given], {})
    return Inlined(of_making.stepped, [number64(t, x) for x in given], {})


def _searchsorted(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    side = kwargs.pop("side", args.pop() if len(args) == 3 else Known("left"))
    exactly(t, args, kwargs, 2)
    if not isinstance(side, Known):
        raise t.refuse("numpy.searchsorted on a side that is computed")
    right = TRUE if side.value == "right" else FALSE
    a = TAKEN["array"](t, args[0])
    if (ways := of_order.searches()) is None:
        raise t.refuse("numpy.searchsorted, which searches in another way in this NumPy")
    one, several = ways
    if isinstance(args[1], Num):  # NumPy makes an array of it: not a weak number
        return Inlined(one, [a, args[1]._replace(kind=NUMPY), right], {})
    v = TAKEN["array"](t, args[1])
    if v.type != a.type:
        raise t.refuse("numpy.searchsorted of several types")
    return Inlined(several, [a, v, right], {})


def _interp(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 3)
    x, *table = args
    table = [whole.as_type(t, TAKEN["array"](t, a), "float64") for a in table]
    if not isinstance(x, Num):
        x = whole.as_type(t, TAKEN["array"](t, x), "float64")
        return Inlined(of_numpy.all_interpolated, [x, *table], {})
    x = Num("float64", NUMPY, numbers.cast(t, x.value, "float64"))
    return Inlined(of_numpy.interpolated, [x, *table], {})


def _argsort(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given = bound(t, "a:array axis:axis kind:text", args, kwargs)
    stable = "kind" in given and given["kind"].value in ("stable", "mergesort")
    return Inlined(of_order.places_in_order, [given["a"], TRUE if stable else FALSE], {})


def _norm(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """``numpy.linalg.norm`` of one axis, or of each row or column."""
    given = dict(zip(("x", "ord", "axis"), args, strict=False)) | kwargs
    order, axis = (_written(given.pop(name, Known(None))) for name in ("ord", "axis"))
    if {*given} != {"x"} or len(args) > 3:
        raise t.refuse("numpy.linalg.norm with such arguments")
    x = arrays.loaded(t, given["x"])
    table = isinstance(x, Arr) and x.type.ndim == 2
    pages: dict[Any, Any]
    if table:
        page = of_numpy.norms_of_columns if axis in (-2, 0) else of_numpy.norms_of_rows
        pages = {None: page} if axis in (-2, -1, 0, 1) else {}
    elif axis in (None, 0, -1):
        one = of_numpy.norm if axis is None else of_numpy.norm_along
        pages = {None: one, 2: one, 1: of_numpy.sum_of_sizes, math.inf: of_numpy.largest_size}
    else:
        pages = {}
    if order not in pages:
        raise t.refuse("numpy.linalg.norm of such an order: write it by sums")
    x = x if table else TAKEN["array"](t, x)
    if x.type.dtype not in ("float64", "float32"):
        x = whole.as_type(t, x, "float64")
    return Inlined(pages[order], [x], {})


def _written(x: Abstract) -> Any:
    """A number or None that is written in the source; else something that is neither."""
    if isinstance(x, Known):
        return x.value
    return x.value.value if isinstance(x, Num) and isinstance(x.value, Literal) else "computed"


def _quantile(one: Any, many: Any) -> Call:
    """``numpy.quantile`` or ``percentile``, of one place or several."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        q = kwargs.get("q", args[1] if len(args) > 1 else None)
        method = kwargs.pop("method", Known("linear"))
        if not isinstance(method, Known) or method.value != "linear":
            raise t.refuse("a quantile by another method")
        if not isinstance(q, Num):
            given = bound(t, "a:doubles q:array axis:axis", args, kwargs)
            taken = {"float64", "int64"} if many is of_order.percentiles else {"float64"}
            if "q" in given and given["q"].type.dtype not in taken:
                raise t.refuse(f"quantiles at {places.described(given['q'])}")
            return Inlined(many, [], given)
        if q.dtype not in ("float64", "int64"):
            raise t.refuse(f"a quantile at {places.described(q)}")
        is_place = one is of_order.quantile and q.dtype != "float64"  # NumPy takes the element
        if is_place:
            raise t.refuse("a quantile at an integer")
        return Inlined(one, [], bound(t, "a:doubles q:number axis:axis", args, kwargs))

    return call


def _unique(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given = bound(t, "ar:array return_counts:flag", args[:1], kwargs)
    exactly(t, args[1:], {}, 0)
    if given.pop("return_counts", FALSE) == TRUE:
        read = TRUE if t.reads_part(0) else FALSE
        return Inlined(of_order.unlike_counted, [], given | {"are_read": read})
    return Inlined(of_order.unlike, [], given)


def _reshape(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A view of an array of one axis, as one of one or two."""
    exactly(t, args[:1], kwargs, 1)
    x, *shape = args
    if len(shape) == 1 and isinstance(shape[0], Tup):
        shape = list(shape[0].items)
    if not isinstance(x, Arr) or x.type.ndim != 1 or len(shape) not in (1, 2):
        raise t.refuse(f"reshape of {places.described(x)}")
    n, dims = places.length(t, x), [places.as_index(t, y) for y in shape]
    if len(dims) == 1:
        unlike = t.op("ne", "bool", dims[0], n)
        given = t.op("ne", "bool", dims[0], Literal(-1, "int64"))
        t.mark(t.op("and", "bool", unlike, given), "reshape to another length", ValueError)
        return x
    none = Literal(-1, "int64")
    if none in dims:
        (known,) = [y for y in dims if y != none] or [none]
        t.mark(t.op("le", "bool", known, places.ZERO), "reshape to no length", ValueError)
        dims[dims.index(none)] = t.op("div", "int64", n, known)
    for y in dims:
        t.mark(t.op("lt", "bool", y, places.ZERO), "reshape to a length that is computed")
        t.mark(t.op("gt", "bool", y, n), "reshape to another length", ValueError)
    size = t.op("mul", "int64", *dims)
    t.mark(t.op("ne", "bool", size, n), "reshape to another length", ValueError)
    kind = Array(x.type.dtype, 2)
    return Arr(kind, x.own, t.op("reshape", kind, x.value, *dims))


def _diagonal(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.diagonal``: a view that cannot be written to."""
    exactly(t, args, kwargs, 1)
    x = args[0]
    if not isinstance(x, Arr) or x.type.ndim != 2:
        raise t.refuse(f"the diagonal of {places.described(x)}")
    kind = Array(x.type.dtype, 1)
    return Arr(kind, False, t.op("diagonal", kind, x.value))


def _diag(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.diag``: of a matrix its diagonal, of one axis the matrix that has it."""
    exactly(t, args, kwargs, 1)
    x = args[0]
    if isinstance(x, Arr) and x.type.ndim == 2:
        return _diagonal(t, args, kwargs)
    return Inlined(of_making.on_diagonal, [TAKEN["array"](t, x)], {})


def _trace(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return _reduction(np.add)(t, [_diagonal(t, args, kwargs)], {})


def _bincount(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    weights = kwargs.get("weights", args[1] if len(args) > 1 else Known(None))
    if isinstance(weights, Known) and weights.value is None:
        args, kwargs = [args[0]], {k: x for k, x in kwargs.items() if k != "weights"}
        return Inlined(of_order.counted, [], bound(t, "x:integers minlength:int", args, kwargs))
    spec = "x:integers weights:float64 minlength:int"
    return Inlined(of_order.weighed, [], bound(t, spec, args, kwargs))


def _digitize(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    one = bool(args) and isinstance(args[0], Num)
    given = bound(t, f"x:{'number' if one else 'array'} bins:array right:flag", args, kwargs)
    if one:
        given["x"] = given["x"]._replace(kind=NUMPY)
    return Inlined(of_order.in_bins if one else of_order.all_in_bins, [], given)


def _histogram(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    named = dict(zip(("a", "bins", "range"), args, strict=False)) | kwargs
    bins, limits = named.get("bins", integer(10)), named.get("range", Known(None))
    if named.keys() - {"a", "bins", "range"} or "a" not in named:
        raise t.refuse("numpy.histogram with further arguments")
    a = float64(t, named["a"])
    if not isinstance(bins, Num):
        return Inlined(of_order.histogram_of_edges, [a, float64(t, bins)], {})
    n = python_int(t, bins)
    if isinstance(limits, Known) and limits.value is None:
        return Inlined(of_order.histogram_of_all, [a, n], {})
    if not isinstance(limits, Tup) or len(limits.items) != 2:
        raise t.refuse("numpy.histogram in a range that is no pair")
    return Inlined(of_order.histogram, [a, n, *(number64(t, x) for x in limits.items)], {})


def _convolved(inlined: Any, default: str) -> Call:
    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        given = bound(t, "a:floats v:floats mode:text", args, kwargs)
        if given["a"].type != given["v"].type:
            raise t.refuse("a convolution of several types")
        return Inlined(inlined, [], {"mode": Known(default)} | given)

    return call


def _trapezoid(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    x = kwargs.get("x", args[1] if len(args) > 1 else Known(None))
    if isinstance(x, Known) and x.value is None:
        given = bound(t, "y:float64 dx:number", args[:1], kwargs)
        return Inlined(of_series.area, [], given)
    return Inlined(of_series.area_along, [], bound(t, "y:float64 x:float64", args, kwargs))


def _polyval(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 2)
    p, x = float64(t, args[0]), args[1]
    if isinstance(x, Num):
        if x.dtype != "float64":
            raise t.refuse(f"a polynomial of {places.described(x)}")
        return Inlined(of_series.polynomial, [p, x], {})
    return Inlined(of_series.polynomial_of_array, [p, float64(t, x)], {})


def _round(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.round``."""
    if args and isinstance(args[0], Num):
        x = number(t, args[0])
        if numbers.kind_of(x.dtype) != "f":
            raise t.refuse(f"numpy.round of {places.described(x)}")
        args = [x._replace(kind=NUMPY), *args[1:]]
        return Inlined(of_series.rounded, [], bound(t, "a:number decimals:int", args, kwargs))
    return Inlined(of_series.rounded, [], bound(t, "a:floats decimals:int", args, kwargs))


def _clip(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.clip``: a ufunc, or one of two."""
    named = dict(zip(("a", "a_min", "a_max"), args, strict=False))
    named |= {{"min": "a_min", "max": "a_max"}.get(k, k): x for k, x in kwargs.items()}
    if named.keys() - {"a", "a_min", "a_max"} or "a" not in named or len(args) > 3:
        raise t.refuse("numpy.clip with further arguments")
    none = Known(None)
    x, *ends = (named.get(k, none) for k in ("a", "a_min", "a_max"))
    if isinstance(x, Num):
        x = number(t, x)._replace(kind=NUMPY)
    elif not isinstance(x, Arr):
        x = TAKEN["numbers"](t, x)
    dtype = x.dtype if isinstance(x, Num) else x.type.dtype
    if numbers.kind_of(dtype) != "f" and not all(
        (isinstance(e, Num) and e.dtype == dtype) or e == none for e in ends
    ):
        raise t.refuse("numpy.clip of integers by numbers of another type")
    has = [not (isinstance(e, Known) and e.value is None) for e in ends]
    if not any(has):
        raise t.refuse("numpy.clip without limits")
    if all(has) and not any(isinstance(y, Arr) for y in (x, *ends)):
        limits = [Num(dtype, NUMPY, numbers.operand(t, number(t, e), dtype)) for e in ends]
        if any(e.kind == NUMPY and e.dtype != dtype for e in ends):
            raise t.refuse("numpy.clip by numbers of another type")
        return Inlined(of_series.clipped, [x, *limits], {})
    given = [x, *(e for e, there in zip(ends, has, strict=True) if there)]
    ufunc = whole.CLIP if all(has) else np.maximum if has[0] else np.minimum
    return ufunc_of(ufunc)(t, given, {})


def _isclose(one: Any, many: Any, mixed: Any) -> Call:
    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) < 2:
            raise t.refuse("numbers that are compared by name")
        kinds = ["number64" if isinstance(x, Num) else "doubles" for x in args[:2]]
        spec = f"a:{kinds[0]} b:{kinds[1]} rtol:number64 atol:number64 equal_nan:flag"
        given = bound(t, spec, args, kwargs)
        for name in given.keys() & {"rtol", "atol"}:  # NumPy warns of others by itself
            ends = numbers.is_finite(t, numbers.cast(t, given[name].value, "float64"))
            t.mark(t.op("not", "bool", ends), "a tolerance that is not finite")
        if kinds == ["number64", "doubles"]:
            raise t.refuse("a number is compared with an array")
        if kinds[0] != kinds[1]:
            return Inlined(mixed, [], given)
        return Inlined(one if kinds[0] == "number64" else many, [], given)

    return call


# --- arrays of others ---------------------------------------------------------------------------


def _parts(t: Writes, x: Abstract) -> list[Arr]:
    """The arrays of a tuple or list of them."""
    if not isinstance(x, Tup) or not x.items:
        raise t.refuse(f"arrays are put together from {places.described(x)}")
    return [TAKEN["array"](t, y) for y in x.items]


def _joined(t: Writes, parts: list[Arr]) -> Arr:
    dtype = np.result_type(*(np.dtype(x.type.dtype) for x in parts)).name
    n = places.length(t, parts[0])
    for x in parts[1:]:
        n = t.op("add", "int64", n, places.length(t, x))
    made = arrays.new(t, dtype, [n], "empty")
    at: Any = places.ZERO
    for x in parts:
        far = t.op("add", "int64", at, places.length(t, x))
        span = Span(Num("int64", PYTHON, at), Num("int64", PYTHON, far), Known(None))
        arrays.set_item(t, made, span, whole.as_type(t, x, dtype))
        at = far
    return made


def _concatenate(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
    axis = kwargs.pop("axis", integer(0))
    exactly(t, args, kwargs, 1)
    only_axis(t, axis)
    return _joined(t, _parts(t, args[0]))


def _append(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
    exactly(t, args, kwargs, 2)
    return _joined(t, [TAKEN["array"](t, Tup((x,)) if isinstance(x, Num) else x) for x in args])


def _stack(axis: int) -> Call:
    """``numpy.vstack`` (0) and ``column_stack`` (1) of arrays of one axis."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Arr:
        exactly(t, args, kwargs, 1)
        parts = _parts(t, args[0])
        dtype = np.result_type(*(np.dtype(x.type.dtype) for x in parts)).name
        dims: list[Any] = [places.length(t, parts[0])]
        dims.insert(axis, Literal(len(parts), "int64"))
        made = arrays.new(t, dtype, dims, "empty")
        everything = Span(Known(None), Known(None), Known(None))
        for k, x in enumerate(parts):
            at = (integer(k), everything) if axis == 0 else (everything, integer(k))
            arrays.set_item(t, made, Tup(at), whole.as_type(t, x, dtype))
        return made

    return call


def _where(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.where``: of one array the places; of three what is chosen."""
    exactly(t, args, kwargs, 1, 3)
    if len(args) == 1:
        return _nonzero(t, args, kwargs)
    if not any(isinstance(x, Arr) for x in args):
        return where(t, args, kwargs)
    c = TAKEN["array"](t, args[0])
    chosen = [x if isinstance(x, Num) else TAKEN["array"](t, x) for x in args[1:]]
    kinds = [np.dtype(x.type.dtype) if isinstance(x, Arr) else whole.weak(t, x) for x in chosen]
    if all(isinstance(x, Num) and x.kind == PYTHON for x in chosen):
        kinds = [np.dtype(x.dtype) for x in chosen]
    dtype = np.result_type(*(whole.AS_WEAK.get(k, k) for k in kinds))
    if dtype.name not in numbers.DTYPES:
        raise t.refuse(f"numpy.where of {dtype}")
    is_array = isinstance(chosen[0], Arr), isinstance(chosen[1], Arr)
    inlined = {
        (False, False): of_making.of_either, (True, True): of_making.of_either_arrays,
        (True, False): of_making.of_first_array, (False, True): of_making.of_second_array,
    }[is_array]  # fmt: skip
    return Inlined(inlined, [c, *chosen, Known(dtype)], {})


def _nonzero(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``numpy.nonzero`` of one axis: a tuple with the places."""
    exactly(t, args, kwargs, 1)
    return Inlined(of_numpy.nonzero, [TAKEN["array"](t, args[0])], {})


def _astype(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 2)
    dtype = Known(np.dtype(dtype_of(t, args[1], "float64")))
    return Inlined(of_making.as_type, [TAKEN["array"](t, args[0]), dtype], {})


def _flat(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``v.ravel()``: of one axis itself, or a copy where its elements do not lie side by side."""
    exactly(t, args, kwargs, 1)
    x = TAKEN["array"](t, args[0])
    if x.own != OF_SLICE:
        return Inlined(of_making.flat, [x], {})
    t.flattens()
    return x


def _copied(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 1)
    if isinstance(args[0], Arr):
        return arrays.copied(t, args[0])
    return TAKEN["array"](t, args[0])


def _reversed(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 1)
    back = Span(Known(None), Known(None), integer(-1))
    return arrays.item(t, TAKEN["array"](t, args[0]), back)


_SORTED = written(of_numpy.in_order, "a>v:numbers axis:axis")
_CLOSE = _isclose(of_series.close, of_series.closes, of_series.closes_to)
_ALL_CLOSE = _isclose(of_series.close, of_series.close_all, of_series.close_all_to)


def _allclose(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) > 1 and all(isinstance(x, Num) for x in args[:2]):
        raise t.refuse("numpy.allclose of numbers")
    return _ALL_CLOSE(t, args, kwargs)


_T = of_tables
METHODS: dict[str, Call] = {
    "sum": of_table(_reduction(np.add), _T.total, _T.column_sums, _T.row_sums),
    "prod": _reduction(np.multiply),
    "max": of_table(
        _reduction(np.maximum), _T.extreme, _T.column_extremes, _T.row_extremes, np.maximum
    ),
    "min": of_table(
        _reduction(np.minimum), _T.extreme, _T.column_extremes, _T.row_extremes, np.minimum
    ),
    "mean": of_table(
        written(of_numpy.mean, "a>v:array axis:axis"), _T.mean, _T.column_means, _T.row_means,
        floats=True,
    ),
    "var": written(of_numpy.variance, "a>v:array axis:axis ddof:int"),
    "std": written(of_numpy.deviation, "a>v:array axis:axis ddof:int"),
    "argmax": placed(written(of_numpy.argmax, "a>v:array axis:axis"), of_numpy.argmax),
    "argmin": placed(written(of_numpy.argmin, "a>v:array axis:axis"), of_numpy.argmin),
    "cumsum": _running(of_numpy.cumulated), "cumprod": _running(of_numpy.multiplied),
    "any": written(of_numpy.any_true, "a>v:array axis:axis"),
    "all": written(of_numpy.all_true, "a>v:array axis:axis"),
    "argsort": _argsort, "searchsorted": _searchsorted, "nonzero": _nonzero, "clip": _clip,
    "round": _round, "dot": _dot, "repeat": written(of_making.repeated, "a:array repeats:int"),
    "ravel": _flat, "diagonal": _diagonal, "trace": _trace,
}  # fmt: skip
"""Functions that are methods of arrays too."""
ONLY_METHODS: dict[str, Call] = {
    "astype": _astype, "tolist": written(of_making.as_list, "a>v:array"), "copy": _copied,
    "reshape": _reshape,
    "flatten": _copied,
}  # fmt: skip
ROWS: dict[Any, Call] = {
    of_numpy.added: _added, of_series.product: _product(quiet=False),
    of_series.quiet_product: _product(quiet=True),
    np.arange: _arange, np.diff: written(of_numpy.differences, "a>v:array"),
    np.sort: _SORTED, np.median: written(of_middle.median, "a>v:numbers axis:axis"),
    np.flatnonzero: written(of_numpy.places, "a>v:array"),
    np.count_nonzero: written(of_numpy.count, "a>v:array"), np.interp: _interp,
    np.add.reduce: _reduction(np.add), np.multiply.reduce: _reduction(np.multiply),
    np.maximum.reduce: _reduction(np.maximum), np.minimum.reduce: _reduction(np.minimum),
    np.logical_and.reduce: METHODS["all"], np.logical_or.reduce: METHODS["any"],
    np.amax: METHODS["max"], np.amin: METHODS["min"], np.around: _round,
    np.add.accumulate: METHODS["cumsum"], np.multiply.accumulate: METHODS["cumprod"],
    np.maximum.accumulate: _accumulated(of_series.accumulated_max),
    np.minimum.accumulate: _accumulated(of_series.accumulated_min),
    np.quantile: _quantile(of_order.quantile, of_order.quantiles),
    np.percentile: _quantile(of_order.percentile, of_order.percentiles),
    np.ptp: written(of_numpy.spread, "a>v:numbers axis:axis"), np.unique: _unique,
    np.linalg.norm: _norm,
    np.bincount: _bincount, np.digitize: _digitize, np.histogram: _histogram,
    np.convolve: _convolved(of_series.convolved, "full"),
    np.correlate: _convolved(of_series.correlated, "valid"), np.inner: _dot, np.vdot: _dot,
    np.gradient: written(of_series.slopes, "f:float64 dx:number"), np.polyval: _polyval,
    np.linspace: written(
        of_making.spaced, "start:number64 stop:number64 num:int endpoint:flag", 2
    ),
    np.roll: written(of_making.rolled, "a:array shift:int axis:axis", 2),
    np.tile: written(of_making.tiled, "A:array reps:int", 2), np.flip: _reversed,
    np.flipud: _reversed,
    np.outer: written(of_making.outer, "a:array b:array", 2), np.where: _where,
    np.delete: written(of_making.without, "arr:array obj:int", 2),
    np.insert: written(of_making.inserted, "arr:array obj:int values:number", 3),
    np.concatenate: _concatenate, np.append: _append, np.hstack: _concatenate,
    np.reshape: _reshape, np.vstack: _stack(0), np.column_stack: _stack(1), np.copy: _copied,
    np.diag: _diag, np.isclose: _CLOSE, np.allclose: _allclose,
    np.nansum: written(of_series.nan_sum, "a>v:floats axis:axis"),
    np.nanmean: written(of_series.nan_mean, "a>v:floats axis:axis"),
    np.nanvar: written(of_series.nan_variance, "a>v:floats axis:axis ddof:int"),
    np.nanstd: written(of_series.nan_deviation, "a>v:floats axis:axis ddof:int"),
    np.nanmax: written(of_series.nan_max, "a>v:floats axis:axis"),
    np.nanmin: written(of_series.nan_min, "a>v:floats axis:axis"),
    np.nanmedian: written(of_series.nan_median, "a>v:floats axis:axis"),
}  # fmt: skip
"""A row each."""
ROWS |= {getattr(np, name): row for name, row in METHODS.items()}
ROWS |= {np.trapezoid: _trapezoid}
METHODS |= ONLY_METHODS
