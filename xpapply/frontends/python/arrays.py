"""What `f` does with NumPy arrays, as calls that can be written down."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import TraceError
from ...known import basic, find, lapack
from ...known.names import CUPY, mirrored, public_names, root_of
from ...known.rules import ufunc_row
from ...paths import LARGEST_ANSWER
from . import ragged, scalars, selections, writes
from .recorder import Recorder
from .tracer import Traced, Tracer, must, replaced, tracers, values

# --- arrays from lists ----------------------------------------------------------------------


def as_array(recorder: Recorder, tree: Any, dtype: Any = None) -> Any:
    """`tree` as `numpy.asanyarray` would have it: a tracer, or an array without any in it."""
    if isinstance(tree, Tracer):
        if dtype is None or np.asarray(tree.value).dtype == dtype:
            return tree
        return cast(tree, dtype)
    found = list(tracers(tree))
    if not found:
        return np.asanyarray(tree, dtype)
    if any(not isinstance(t, Tracer) for t in found):
        # what NumPy makes an array of by asking for one, such as a tensor
        return as_array(recorder, replaced(lambda t: t.as_numpy(), tree), dtype)
    if not isinstance(tree, (list, tuple)):
        raise recorder.refuse(f"an array is made of a {type(tree).__name__}")
    real = recorder.real(lambda: np.asanyarray(values(tree), dtype))
    for x in found:
        fits(x, real.dtype)
    if real.dtype.kind not in "biufc":
        raise recorder.refuse(f"an array of dtype {real.dtype}")
    return recorder.call(
        basic.STACK,
        lambda *_: real,
        (tree,),
        batch=((tree, real.shape, real.dtype), {}),
        check=False,
    )


def cast(x: Tracer, dtype: Any) -> Any:
    """`x` in another dtype, as a new array or number."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufc":
        raise x.recorder.refuse(f"a cast to {dtype}")

    fits(x, dtype)

    def real(value: Any, _: Any) -> Any:
        return np.asarray(value).astype(dtype)[()] if np.ndim(value) == 0 else value.astype(dtype)

    return x.recorder.call(basic.CAST, real, (x, dtype), check=False)


def _arrays(recorder: Recorder, tree: Any) -> Any:
    """Arguments in which lists that hold tracers are arrays."""
    if isinstance(tree, (list, tuple)) and any(True for _ in tracers(tree)):
        return as_array(recorder, tree)
    return tree


# --- ufuncs -----------------------------------------------------------------------------------


def ufunc_call(
    recorder: Recorder, ufunc: Any, method: str, inputs: tuple, kwargs: dict[str, Any]
) -> Any:
    """A call of a ufunc or one of its methods."""
    inputs = tuple(_arrays(recorder, x) for x in inputs)
    kwargs = dict(kwargs)
    out = kwargs.pop("out", None)
    if isinstance(out, tuple):
        out = out[0] if len(out) == 1 else out
    if out is not None and method == "__call__" and kwargs.get("where", True) is not True:
        return _masked_ufunc(recorder, ufunc, inputs, out, **kwargs)
    if out is not None:
        return _into(
            recorder, out, kwargs, lambda: ufunc_call(recorder, ufunc, method, inputs, kwargs)
        )
    if kwargs.get("where", True) is not True and method == "__call__":
        raise recorder.refuse(f"{ufunc.__name__} with where= and without out=")
    if method == "__call__":
        if ufunc is np.matmul:
            return recorder.call(basic.MATMUL, np.matmul, inputs, kwargs)
        if ufunc.signature is not None:
            row = find(ufunc)
            if row is None:
                raise recorder.refuse(f"{ufunc.__name__} has no batching rule")
            return recorder.call(row, ufunc, inputs, kwargs)
        inputs = _strong(ufunc, inputs, kwargs)
        if not kwargs:
            found = ragged.elementwise(recorder, ufunc, inputs)
            if found is not NotImplemented:
                return found
        if ufunc is np.power:
            _check_power(inputs)
        if ufunc in _CHECKED and not kwargs and all(map(_one_integer, inputs)):
            return _whole_number(recorder, ufunc, inputs)
        return recorder.call(ufunc_row(ufunc), ufunc, inputs, kwargs, check=False)
    if method in ("reduce", "accumulate", "outer"):
        return recorder.call(ufunc_row(ufunc, method), getattr(ufunc, method), inputs, kwargs)
    raise recorder.refuse(f"{ufunc.__name__}.{method}")


def _strong(ufunc: Any, inputs: tuple, kwargs: dict) -> tuple:
    """Python numbers that depend on the slice in the dtype that they take beside arrays."""
    if not any(isinstance(x, Tracer) and x.weak for x in inputs):
        return inputs
    kinds = [_kind(x) for x in inputs]
    if all(isinstance(k, type) for k in kinds):
        return inputs
    loop = recorder_of(inputs).real(lambda: ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout)))
    return tuple(
        cast(x, dtype) if isinstance(x, Tracer) and x.weak else x
        for x, dtype in zip(inputs, loop, strict=False)
    )


def recorder_of(tree: Any) -> Recorder:
    """The recorder of the tracers in arguments."""
    return next(tracers(tree)).recorder  # type: ignore[no-any-return]


def fits(x: Any, dtype: Any) -> None:
    """A Python integer that does not fit into an integer dtype raises."""
    dtype = np.dtype(dtype)
    if not isinstance(x, Tracer) or x.ref is None or not x.weak or type(x.value) is not int:
        return
    if dtype.kind not in "iu":
        return
    info = np.iinfo(dtype)
    if not info.min <= x.value <= info.max:
        x.recorder.raised(OverflowError(f"{x.value} does not fit into {dtype}"))
        raise TraceError(f"{x.value} does not fit into {dtype}")
    if info.min > -(2**53):
        must(x >= int(info.min))
    if info.max < 2**53:
        must(x <= int(info.max))


def _kind(x: Any) -> Any:
    """A dtype, or the type of a Python number."""
    value = x.value if isinstance(x, Tracer) else x
    if type(value) in (bool, int, float, complex):
        return np.dtype(bool) if type(value) is bool else type(value)
    return np.asarray(value).dtype


_CHECKED = (np.add, np.subtract, np.multiply, np.negative, np.absolute)


def _one_integer(x: Any) -> bool:
    value = x.value if isinstance(x, Tracer) else x
    return isinstance(value, np.integer) or type(value) is int


def _whole_number(recorder: Recorder, ufunc: Any, inputs: tuple) -> Any:
    """Arithmetic of single integers, of which NumPy warns if they overflow."""
    # the operators of NumPy's scalars report an overflow, ufuncs do not
    real = recorder.real(lambda: _SCALAR[ufunc](*values(inputs)))
    if real.dtype.kind not in "iu":
        return recorder.call(ufunc_row(ufunc), ufunc, inputs, check=False)
    return recorder.call(
        basic.WHOLE_NUMBERS,
        lambda *_: real,
        (ufunc.__name__, inputs, real.dtype),
        check=False,
    )


_SCALAR: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.negative: operator.neg,
    np.absolute: operator.abs,
}


def _check_power(inputs: tuple) -> None:
    """Integers to negative powers raise, if it depends on the slice."""
    base, exponent = inputs
    if isinstance(exponent, Tracer) and np.asarray(exponent.value).dtype.kind == "i":
        if np.asarray(values(base)).dtype.kind in "iu":
            must((exponent >= 0).all() if exponent.ndim else exponent >= 0)


_QUICK: dict[float, Any] = {
    2: np.square,
    1: np.positive,
    0.5: np.sqrt,
    -1: np.reciprocal,
}
"""What NumPy may call for an array to one of these powers."""


@functools.lru_cache(maxsize=256, typed=True)  # 2 and 2.0 are not the same to NumPy
def _quick(dtype: np.dtype[Any], exponent: float) -> Any:
    """The ufunc that is `exponent` for arrays of a dtype, bit for bit; None: `numpy.power`."""
    ufunc = _QUICK.get(exponent)
    if ufunc is None or dtype.kind not in "iufc" or (dtype.kind in "iu" and exponent < 1):
        return None
    numbers = np.random.default_rng(0).normal(size=200) * 3
    if dtype.kind in "fc":
        numbers = np.concatenate([numbers, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300]])
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            numbers = (numbers[:, None] + 1j * np.roll(numbers, 1)[-7:]).ravel()
        probe = abs(numbers).astype(dtype) if dtype.kind == "u" else numbers.astype(dtype)
        asked, found = probe**exponent, ufunc(probe)
    same = asked.dtype == found.dtype and np.array_equal(asked, found, equal_nan=True)
    return ufunc if same and np.array_equal(*map(_signs, (asked, found))) else None


def _signs(x: Any) -> Any:
    parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
    return [np.signbit(p) & (p == p) for p in parts] if x.dtype.kind in "fc" else []


def power(recorder: Recorder, a: Any, b: Any) -> Any:
    """``a ** b``: arrays have their own quick ways for some constant exponents."""
    if isinstance(a, Tracer) and isinstance(a.value, np.ndarray) and type(b) in (int, float):
        ufunc = _quick(a.value.dtype, b)
        if ufunc is not None:
            return recorder.call(ufunc_row(ufunc), lambda x: x**b, (a,), check=False)
    return ufunc_call(recorder, np.power, "__call__", (a, b), {})


def _into(recorder: Recorder, out: Any, kwargs: dict, compute: Callable[[], Any]) -> Any:
    """A call with ``out=``, and perhaps with ``where=``."""
    if not isinstance(out, Tracer) or not isinstance(out.value, np.ndarray):
        raise recorder.refuse("out= of several arrays, or of one that is no array")
    where = kwargs.pop("where", True)
    result = as_array(recorder, compute())
    changed = out.value.copy()
    if where is True:
        changed[...] = np.asarray(values(result)).astype(out.value.dtype, casting="same_kind")
        new = recorder.call(
            basic.SET, lambda *_: changed, (out, (Ellipsis,), result, changed.ndim), check=False
        )
    else:
        wide = function_call(recorder, np.where, (where, result, out), {})
        if np.shape(values(wide)) != out.value.shape:
            raise recorder.refuse("where= that broadcasts out")
        new = cast(wide, out.value.dtype) if isinstance(wide, Tracer) else wide
    out.become(np.asarray(values(new)), getattr(new, "ref", None))
    return out


def _masked_ufunc(
    recorder: Recorder, ufunc: Any, inputs: tuple, out: Any, where: Any, **kwargs: Any
) -> Any:
    """A ufunc with ``out=`` and ``where=``: nothing is computed elsewhere."""
    if not isinstance(out, Tracer) or not isinstance(out.value, np.ndarray) or kwargs:
        raise recorder.refuse(f"{ufunc.__name__} with this out=, where= and {list(kwargs)}")
    if ufunc.signature is not None or ufunc.nout > 1:
        raise recorder.refuse(f"{ufunc.__name__} with where=")
    inputs, where = _strong(ufunc, inputs, kwargs), as_array(recorder, where)

    def real(*given: Any) -> Any:
        *operands, mask = given
        changed = out.value.copy()
        return ufunc(*operands, out=changed, where=mask)

    new = recorder.call(
        basic.MASKED_UFUNC,
        real,
        (*inputs, where),
        batch=((ufunc_row(ufunc), inputs, out, where), {}),
    )
    if not isinstance(new, Tracer):
        new = Tracer(recorder, np.asarray(new), None)
    out.become(new.value, new.ref)
    return out


def in_place(x: Tracer, ufunc: Any, other: Any) -> Any:
    """``x += other`` and the like."""
    return ufunc_call(x.recorder, ufunc, "__call__", (x, other), {"out": (x,)})


# --- functions --------------------------------------------------------------------------------

_LISTS = frozenset(
    f"numpy.{n}"
    for n in (
        "concatenate concat stack hstack vstack column_stack dstack select choose piecewise "
        "block meshgrid broadcast_arrays ix_ append"
    ).split()
) | {"numpy.linalg.multi_dot", "scipy.linalg.lu_solve", "scipy.linalg.cho_solve"}
"""Functions that take lists of arrays, which must stay lists."""

_WRITING = frozenset(["copyto", *writes.WRITES])


def function_call(recorder: Recorder, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of a library function on something traced."""
    name = _name(function)
    if name.removeprefix("numpy.") in _WRITING:
        if name == "numpy.copyto" and set(kwargs) <= {"where"} and len(args) == 2:
            _copyto(recorder, *args, **kwargs)
            return None
        write = writes.find(name, args, kwargs)
        if write is None:
            raise recorder.refuse(name)
        given = [a if k == 0 else _arrays(recorder, a) for k, a in enumerate(args)]
        recorder.real(
            lambda: function(np.copy(values(args[0])), *values(args[1:]), **values(kwargs))
        )
        return write(recorder, *given, **kwargs)
    if not any(t.ref is not None for t in tracers((args, kwargs)) if not _selected(t)):
        if not any(map(_selected, tracers((args, kwargs)))) and "out" not in kwargs:
            return recorder.call(basic.SAME, function, args, kwargs)
    found = ragged.reduce(recorder, function, args, kwargs)
    if found is not NotImplemented:
        return found
    special = SPECIAL.get(name)
    if special is not None:
        done = special(recorder, *args, **kwargs)
        if done is not NotImplemented:
            return done
    done = selections.call(recorder, function, args, kwargs)
    if done is not NotImplemented:
        return done
    row = find(function)
    if row is None:
        if not any(t.ref is not None for t in tracers((args, kwargs))):
            return recorder.call(basic.SAME, function, args, kwargs)
        name = public_name(function)
        if any(callable(x) for x in (*args, *kwargs.values()) if not isinstance(x, Traced)):
            raise recorder.refuse(f"{name} {CALLS_BACK}")
        raise recorder.refuse(f"{name} has no batching rule")
    if row.name not in _LISTS:
        args = tuple(_arrays(recorder, x) for x in args)
        kwargs = {k: _arrays(recorder, x) for k, x in kwargs.items()}
    out = kwargs.pop("out", None)
    if out is not None:
        return _into(recorder, out, {}, lambda: function_call(recorder, function, args, kwargs))
    if lapack.may_not_end(row.name, args, kwargs):
        for x in tracers((args, kwargs)):
            _must_be_finite(x, row.name)
    return recorder.call(row, function, args, kwargs)


def _name(function: Any) -> str:
    """What a function is called in NumPy or SciPy, "numpy.sort" for `cupy.sort`."""
    if root_of(function) in CUPY:
        names = public_names(function) or (function.__name__,)
        return next((mirrored(n) for n in names if mirrored(n) in SPECIAL), mirrored(names[0]))
    return f"{function.__module__}.{function.__name__}"


def _must_be_finite(x: Any, name: str) -> None:
    """Leave slices to ``f`` itself where there is NaN or infinity."""
    if not isinstance(x, Tracer) or x.ref is None or np.asarray(x.value).dtype.kind not in "fc":
        return
    finite = x.recorder.call(
        basic.ALL_FINITE, lambda v: np.bool_(np.isfinite(v).all()), (x,), check=False
    )
    if not bool(finite):
        why = f"{name} of NaN or infinity, which LAPACK may never return from"
        x.recorder.raised(ValueError(why), decided=True)
        raise TraceError(why)


CALLS_BACK = "calls a Python function again and again, for one slice after the other"


def public_name(function: Any) -> str:
    """The name of a library's function, without the private modules that it is written in."""
    module = [p for p in str(function.__module__).split(".") if not p.startswith("_")]
    return ".".join([*module, function.__name__])


def _selected(x: Any) -> bool:
    return isinstance(x, ragged.Selected)


def _copyto(recorder: Recorder, dst: Any, src: Any, where: Any = True) -> None:
    if not isinstance(dst, Tracer) or not isinstance(dst.value, np.ndarray):
        raise recorder.refuse("numpy.copyto into something that is no array")
    src = as_array(recorder, src)
    recorder.real(lambda: np.copyto(dst.value.copy(), values(src), where=values(where)))
    if where is True:
        setitem(dst, Ellipsis, src if np.ndim(values(src)) else src.reshape(()))
        return
    wide = function_call(recorder, np.where, (as_array(recorder, where), src, dst), {})
    setitem(dst, Ellipsis, wide)


def _truth(recorder: Recorder, mask: Any) -> Tracer:
    """Whether values are true, as a boolean array."""
    mask = as_array(recorder, mask)
    if not isinstance(mask, Tracer):
        mask = recorder.constant(np.asarray(mask))
    return mask if mask.value.dtype == bool else mask != 0


def count(recorder: Recorder, mask: Tracer) -> int:
    """How many are true: slices with other counts take other paths."""
    found = recorder.call(basic.COUNT, lambda m: np.intp(np.count_nonzero(m)), (mask,), check=False)
    return int(recorder.ask(found, int(found.value))) if isinstance(found, Tracer) else int(found)


def compressed(x: Any, mask: Tracer) -> Any:
    """``x[mask]``."""
    recorder = mask.recorder
    if mask.value.ndim == 0:
        raise recorder.refuse("an index by one truth value")
    if mask.ref is None:
        return recorder.call(
            basic.INDEX, lambda v: v[mask.value], (x,), batch=((x, (mask.value,)), {})
        )
    if mask.value.ndim == 1 and np.shape(values(x)) == mask.value.shape:
        return ragged.selected(x, mask)
    real = recorder.real(lambda: values(x)[mask.value])
    n = count(recorder, mask)
    return recorder.call(
        basic.COMPRESS, lambda *_: real, (x, mask), batch=((x, mask, n), {}), check=False
    )


def nonzero(recorder: Recorder, x: Any) -> Any:
    """`numpy.nonzero`."""
    mask = _truth(recorder, x)
    if mask.ref is None:
        return recorder.call(basic.SAME, np.nonzero, (mask,))
    n = count(recorder, mask)
    return recorder.call(basic.NONZERO, np.nonzero, (mask,), batch=((mask, n), {}), check=False)


def _where(recorder: Recorder, condition: Any, *others: Any, **kwargs: Any) -> Any:
    if others or kwargs:
        return NotImplemented
    return nonzero(recorder, condition)


def _argwhere(recorder: Recorder, x: Any) -> Any:
    found = nonzero(recorder, x)
    return function_call(recorder, np.stack, (list(found),), {"axis": 1})


def _flatnonzero(recorder: Recorder, x: Any) -> Any:
    return nonzero(recorder, function_call(recorder, np.ravel, (x,), {}))[0]


def _compress(recorder: Recorder, condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    condition = _truth(recorder, condition)
    if out is not None or axis not in (None, 0) or np.ndim(values(a)) != 1:
        return NotImplemented
    if condition.shape != a.shape:
        return NotImplemented
    return compressed(a, condition)


def _extract(recorder: Recorder, condition: Any, arr: Any) -> Any:
    flat = function_call(recorder, np.ravel, (arr,), {})
    return compressed(flat, _truth(recorder, function_call(recorder, np.ravel, (condition,), {})))


def _delete(recorder: Recorder, arr: Any, obj: Any, axis: Any = None) -> Any:
    if not isinstance(obj, Tracer) or obj.ref is None:
        return NotImplemented
    if arr.ndim != 1 or np.ndim(obj.value) > 1:
        raise recorder.refuse("numpy.delete of positions that depend on the slice")
    if obj.value.dtype == bool:
        return compressed(arr, ~obj)
    recorder.real(np.delete, arr.value, obj.value)
    keep = recorder.constant(np.ones(arr.shape, bool))
    keep.owned = True
    setitem(keep, obj, False)
    return compressed(arr, keep)


def _unique(
    recorder: Recorder,
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    ar = as_array(recorder, ar)
    if not isinstance(ar, Tracer) or ar.ref is None:
        return NotImplemented
    if axis is not None and not (axis in (0, -1) and ar.ndim == 1):
        raise recorder.refuse("numpy.unique with axis=")
    if ar.size == 0 or ar.value.dtype.kind == "c":
        raise recorder.refuse("numpy.unique of an empty or complex array")
    flags = tuple(map(bool, (return_index, return_inverse, return_counts)))
    real: Any = np.unique(ar.value, *flags, equal_nan=equal_nan)  # type: ignore[call-overload]
    found = distinct(ar, bool(equal_nan))
    n = recorder.ask(found, int(found.value))
    return recorder.call(
        basic.UNIQUE, lambda *_: real, (ar,), batch=((ar, n, *flags, bool(equal_nan)), {})
    )


def distinct(x: Tracer, equal_nan: bool = True) -> Any:
    """How many different values there are."""
    return x.recorder.call(
        basic.UNIQUE_COUNT,
        lambda v: np.intp(len(np.unique(v, equal_nan=equal_nan))),
        (x,),
        batch=((x, equal_nan), {}),
        check=False,
    )


def _unique_part(**flags: bool) -> Callable[..., Any]:
    def special(recorder: Recorder, x: Any) -> Any:
        return _unique(recorder, x, **flags)

    return special


def _bincount(recorder: Recorder, x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    x, minlength = as_array(recorder, x), int(minlength or 0)  # None in CuPy
    moving = isinstance(x, Tracer) and x.ref is not None and x.size
    within = moving and minlength and bool(((x >= 0) & (x < minlength)).all())
    if moving and not within and x.dtype.kind in "iu":
        if not bool(((x >= 0) & (x <= LARGEST_ANSWER)).all()):
            why = "numpy.bincount of a negative or large number"  # for which memory may not do
            recorder.raised(ValueError(why), decided=True)
            raise TraceError(why)
    real = recorder.real(lambda: np.bincount(values(x), values(weights), minlength))
    if moving and not within:
        top = function_call(recorder, np.max, (x,), {})
        recorder.ask(top, int(top.value))
    if not any(t.ref is not None for t in tracers((x, weights))):
        return recorder.call(basic.SAME, np.bincount, (x, weights, minlength))
    return recorder.call(
        basic.BINCOUNT, lambda *_: real, (x, weights), batch=((x, weights, len(real)), {})
    )


def _copy(recorder: Recorder, a: Any, order: str = "K", subok: bool = False) -> Any:
    return copied(a if isinstance(a, Tracer) else as_array(recorder, a))


def copied(x: Any) -> Any:
    """A copy, which ``f`` may write into."""
    if not isinstance(x, Tracer):
        return np.array(x)
    return x.recorder.call(basic.SAME, np.array, (x,), check=False)


def _known(a: Any) -> None:
    """Values of a mask of which somebody wants to know how many they are."""
    if isinstance(a, ragged.Selected):
        a.ref  # noqa: B018


def _shape(recorder: Recorder, a: Any) -> Any:
    _known(a)
    return np.shape(values(as_array(recorder, a)))


def _ndim(recorder: Recorder, a: Any) -> Any:
    return np.ndim(values(as_array(recorder, a)))


def _size(recorder: Recorder, a: Any, axis: Any = None) -> Any:
    if isinstance(a, ragged.Selected) and axis is None:
        return a.length()
    _known(a)
    return np.size(values(as_array(recorder, a)), axis)


SPECIAL: dict[str, Callable[..., Any]] = {
    "numpy.nonzero": nonzero,
    "numpy.where": _where,
    "numpy.argwhere": _argwhere,
    "numpy.flatnonzero": _flatnonzero,
    "numpy.compress": _compress,
    "numpy.extract": _extract,
    "numpy.delete": _delete,
    "numpy.unique": _unique,
    "numpy.unique_values": _unique_part(),
    "numpy.bincount": _bincount,
    "numpy.copy": _copy,
    "numpy.shape": _shape,
    "numpy.ndim": _ndim,
    "numpy.size": _size,
}
"""Functions whose result has a shape that depends on the data, or whose result is plain."""


# --- elements -----------------------------------------------------------------------------------


def _key(recorder: Recorder, key: Any) -> tuple[Any, ...]:
    """An index as a tuple, with lists as arrays; integers of slices are asked for."""
    parts = key if isinstance(key, tuple) else (key,)
    found = []
    for k in parts:
        if isinstance(k, slice):
            k = slice(*(x.__index__() if isinstance(x, Tracer) else x for x in _slice(k)))
        elif isinstance(k, (list, tuple)):
            k = as_array(recorder, k)
            if not isinstance(k, Tracer) and k.size == 0:
                k = k.astype(np.intp)
        if isinstance(k, Tracer) and k.ref is None:
            k = k.value
        if isinstance(k, Tracer) and k.weak and isinstance(k.value, bool):
            raise recorder.refuse("an index by one truth value")
        found.append(k)
    return tuple(found)


def _slice(s: slice) -> tuple[Any, Any, Any]:
    return s.start, s.stop, s.step


def getitem(x: Tracer, key: Any) -> Any:
    """``x[key]``."""
    recorder = x.recorder
    if isinstance(key, ragged.Selected) and key.places and x.value.shape == key.mask.value.shape:
        return ragged.selected(x, key.mask)
    key = _key(recorder, key)
    moving = [k for k in key if isinstance(k, Tracer)]
    if not moving:
        if not any(isinstance(k, (np.ndarray, bool, np.bool_)) for k in key):
            real = recorder.real(lambda: x.value[key])
            found = recorder.call(
                basic.INDEX, lambda *_: real, (x,), batch=((x, key), {}), check=False
            )
            if isinstance(found, Tracer) and isinstance(real, np.ndarray) and found is not x:
                found._is_view_of(x, key)
            return found
        return recorder.call(basic.INDEX, lambda v, k: v[k], (x, key))
    if any(np.asarray(k.value).dtype == bool for k in moving):
        if len(key) > 1:
            raise recorder.refuse("an index by a mask and something else")
        return compressed(x, moving[0])
    if any(k is None or k is Ellipsis for k in key):
        raise recorder.refuse("an index by traced integers together with None or ...")
    return recorder.call(basic.GATHER, lambda v, k: v[k], (x, key))


def setitem(x: Tracer, key: Any, item: Any) -> None:
    """``x[key] = item``."""
    recorder = x.recorder
    if not isinstance(x.value, np.ndarray):
        raise TypeError(f"'{type(x.value).__name__}' object does not support item assignment")
    if not x.owned:
        raise recorder.refuse("it writes into the slice or into an array that it did not make")
    key = _key(recorder, key)
    item = as_array(recorder, item) if not isinstance(item, Traced) else item
    if isinstance(item, Tracer) and item.ref is None:
        item = item.value
    changed = x.value.copy()
    recorder.real(changed.__setitem__, values(key), values(item))
    fits(item, x.dtype)
    if isinstance(item, Tracer) and not isinstance(item.value, np.ndarray):
        if (
            item.ref is not None
            and x.dtype.kind in "iu"
            and np.asarray(item.value).dtype.kind == "f"
        ):
            must(abs(item) < 2.0**63)  # NaN and inf raise where one number is written
    masks = [k for k in key if isinstance(k, Tracer) and np.asarray(k.value).dtype == bool]
    if not any(t.ref is not None for t in tracers((x, key, item))):
        x.become(changed, None)
        return
    if masks:
        mask = masks[0]
        if len(key) > 1 or mask.ndim == 0:
            raise recorder.refuse("a write by a mask and something else")
        if np.ndim(values(item)):
            n = count(recorder, mask)
            if np.shape(values(item)) != (n,):
                if np.size(values(item)) != 1:
                    raise recorder.refuse("a write by a mask of a value that broadcasts")
                item = item.reshape(())
        new = recorder.call(basic.SET_MASKED, lambda *_: changed, (x, mask, item))
    else:
        ndim = np.ndim(x.value[values(key)])
        new = recorder.call(basic.SET, lambda *_: changed, (x, key, item, ndim))
    x.become(new.value, new.ref)


# --- attributes and methods ---------------------------------------------------------------------

_PLAIN = frozenset(["shape", "ndim", "size", "dtype", "itemsize", "nbytes"])

_METHODS = frozenset(
    (
        "all any argmax argmin argpartition argsort clip cumprod cumsum diagonal dot max mean "
        "min nonzero prod ravel repeat round searchsorted squeeze std sum swapaxes take trace "
        "var choose"
    ).split()
)
"""Methods that are the function of the same name."""


def attribute(x: Tracer, name: str) -> Any:
    """``x.name``."""
    recorder = x.recorder
    if name == "size" and isinstance(x, ragged.Selected):
        return x.length()
    if name == "shape" and isinstance(x, ragged.Selected):
        return (x.length(),)
    if name == "nbytes":
        _known(x)
    if name in _PLAIN:
        return getattr(x.value, name)  # an AttributeError is the user's
    if x.weak:
        return _python_attribute(x, name)
    if name == "T":
        return function_call(recorder, np.transpose, (x,), {}) if x.ndim > 1 else x
    if name in ("real", "imag"):
        return function_call(recorder, getattr(np, name), (x,), {})
    if name in _METHODS:
        function = getattr(np, name)

        def method(*args: Any, **kwargs: Any) -> Any:
            if name == "clip" and args and len(args) == 1 and not kwargs:
                args = (args[0], None)
            return function_call(recorder, function, (x, *args), kwargs)

        return method
    if name in _OWN_METHODS and hasattr(x.value, name):
        return lambda *args, **kwargs: _OWN_METHODS[name](x, *args, **kwargs)
    if not hasattr(x.value, name) and recorder.library == "numpy":
        return getattr(x.value, name)  # the user's AttributeError
    raise recorder.refuse(f"the attribute {name} of the slice")


def _python_attribute(x: Tracer, name: str) -> Any:
    number = not isinstance(x.value, complex)
    if name == "real" and number:
        return x
    if name == "conjugate" and number:
        return lambda: x
    if name == "is_integer" and number:
        # inf is equal to its floor
        return lambda: bool(np.logical_and(x == _whole(x), x - x == 0))
    return scalars.attribute(x, name)


def _whole(x: Tracer) -> Any:
    return ufunc_call(x.recorder, np.floor, "__call__", (x,), {})


def _astype(x: Tracer, dtype: Any, *args: Any, **kwargs: Any) -> Any:
    dtype = np.dtype(getattr(dtype, "__xpapply_real__", dtype))
    x.recorder.real(lambda: x.value.astype(dtype, *args, **kwargs))
    if kwargs.get("copy", True) is False and dtype == x.dtype:
        return x
    return copied(x) if dtype == x.dtype else cast(x, dtype)


def _reshape(x: Tracer, *shape: Any, **kwargs: Any) -> Any:
    if kwargs.get("order", "C") != "C":
        raise x.recorder.refuse("reshape in another order")
    shape = shape[0] if len(shape) == 1 else shape
    shape = tuple(map(int, shape)) if isinstance(shape, (tuple, list)) else (int(shape),)
    return function_call(x.recorder, np.reshape, (x, shape), {})


def _transpose(x: Tracer, *axes: Any) -> Any:
    order = axes[0] if len(axes) == 1 else axes or None
    return function_call(x.recorder, np.transpose, (x, order), {})


def _flatten(x: Tracer, order: str = "C") -> Any:
    return copied(function_call(x.recorder, np.ravel, (x,), {"order": order}))


def _item(x: Tracer, *args: Any) -> Any:
    if args:
        x = x[args if len(args) > 1 else args[0]]
    value = x.value.item()
    if x.ref is None:
        return value
    flat = x.reshape(()) if x.ndim else x
    if x.dtype == np.uint64:
        must(flat <= 2**63 - 1)  # Python's integers are held as int64
    return (
        x.recorder.call(basic.SAME, lambda _: value, (flat,), check=False)
        if np.asarray(value).dtype == np.asarray(x.value).dtype
        else x.recorder.call(
            basic.CAST,
            lambda _: value,
            (flat,),
            batch=((flat, np.asarray(value).dtype), {}),
            check=False,
        )
    )


def _tolist(x: Tracer) -> Any:
    if x.ref is None:
        return x.value.tolist()
    return [_tolist(y) if y.ndim else _item(y) for y in x] if x.ndim else _item(x)


def _sort(x: Tracer, axis: int = -1, kind: Any = None) -> None:
    new = function_call(x.recorder, np.sort, (x,), {"axis": axis, "kind": kind})
    x.become(new.value, new.ref)


def _partition(x: Tracer, kth: Any, axis: int = -1) -> None:
    new = function_call(x.recorder, np.partition, (x, kth), {"axis": axis})
    x.become(new.value, new.ref)


def _fill(x: Tracer, item: Any) -> None:
    setitem(x, Ellipsis, item)


def _compress_method(x: Tracer, condition: Any, axis: Any = None) -> Any:
    return function_call(x.recorder, np.compress, (condition, x), {"axis": axis})


def _conjugate(x: Tracer) -> Any:
    return ufunc_call(x.recorder, np.conjugate, "__call__", (x,), {})


_OWN_METHODS: dict[str, Callable[..., Any]] = {
    "astype": _astype,
    "reshape": _reshape,
    "transpose": _transpose,
    "flatten": _flatten,
    "copy": lambda x, order="C": copied(x),
    "item": _item,
    "tolist": _tolist,
    "sort": _sort,
    "partition": _partition,
    "fill": _fill,
    "compress": _compress_method,
    "conj": _conjugate,
    "conjugate": _conjugate,
}
