"""Calls of ufuncs and their methods on something traced."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import find, libm, syntax
from ....batching.rules import ufunc_row
from ..data_dependent import ragged
from . import choices
from .arrays import as_array, cast, lists_as_arrays, recorder_of
from .functions import into
from .indexing import index
from .recorder import Recorder
from .stand_ins import tracers, values
from .tracer import Tracer, must


def ufunc_call(
    recorder: Recorder, ufunc: Any, method: str, inputs: tuple, kwargs: dict[str, Any]
) -> Any:
    """A call of a ufunc or one of its methods."""
    inputs = tuple(lists_as_arrays(recorder, x) for x in choices.beside(inputs))
    kwargs = dict(kwargs)
    out = kwargs.pop("out", None)
    if isinstance(out, tuple):
        out = out[0] if len(out) == 1 else out
    if out is not None and method == "__call__" and kwargs.get("where", True) is not True:
        return _masked_ufunc(recorder, ufunc, inputs, out, **kwargs)
    if out is not None:
        of_inputs = method == "__call__"  # they alone say in which dtype it computes
        if of_inputs:
            kwargs.pop("where", None)  # it is True
        return into(
            recorder,
            out,
            lambda: ufunc_call(recorder, ufunc, method, inputs, kwargs),
            alike=not of_inputs,
        )
    if kwargs.get("where", True) is not True and method == "__call__":
        raise recorder.refuse(f"{ufunc.__name__} with where= and without out=")
    if method == "__call__":
        if ufunc is np.matmul:
            found = NotImplemented if kwargs else ragged.product(recorder, *inputs)
            if found is not NotImplemented:
                return found
            return recorder.call(syntax.MATMUL, np.matmul, inputs, kwargs)
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
        if ufunc is np.square and not kwargs and _is_squared_alone(values(inputs[0])):
            return of_complex(recorder, operator.mul, *inputs, *inputs)
        if ufunc in _CHECKED and not kwargs and all(map(_one_integer, inputs)):
            return _whole_number(recorder, ufunc, inputs)
        return recorder.call(ufunc_row(ufunc), ufunc, inputs, kwargs, check=False)
    if method == "at":
        return _at(recorder, ufunc, *inputs, **kwargs)
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
        syntax.INTEGERS,
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


def of_complex(recorder: Recorder, python: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """A product of numbers, of which one is complex, or a comparison of their order."""
    if python is not operator.mul:  # NumPy compares arrays with NaN otherwise
        level = a.real == b.real
        return (level & python(a.imag, b.imag)) | (~level & python(a.real, b.real))
    if recorder.library != "numpy":
        return ufunc_call(recorder, np.multiply, "__call__", (a, b), {})
    real = np.asarray(recorder.real(python, *values((a, b))))[()]
    return recorder.call(syntax.PRODUCT, lambda *_: real, (a, b, real.dtype), check=False)


def _is_squared_alone(x: Any) -> bool:
    """Whether NumPy squares this complex number as the operator does.

    Its loop over arrays may fuse products and sums; what it does with a number alone depends on
    where it puts the result.
    """
    kind: Any = type(x)
    return issubclass(kind, (complex, np.complexfloating)) and _squares_plainly(kind)


@functools.cache
def _squares_plainly(kind: Any) -> bool:
    numbers = [kind(complex(*x)) for x in np.random.default_rng(0).normal(size=(64, 2))]
    return all(np.square(x) == x * x for x in numbers)


def size(x: Tracer) -> Any:
    """``abs(x)`` of a complex number of NumPy's, which is C's own, not that of its arrays."""
    if x.recorder.library != "numpy":
        return ufunc_call(x.recorder, np.absolute, "__call__", (x,), {})
    return ufunc_call(x.recorder, np.hypot, "__call__", (x.real, x.imag), {})


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
"""Functions that NumPy may call for an array to one of these powers."""


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
    if not any(isinstance(x, np.ndarray) for x in values((a, b))):
        inputs = _strong(np.power, (a, b), {})
        real = recorder.real(operator.pow, *values(inputs))
        if isinstance(real, np.floating) and libm.is_of_c(*map(type, values(inputs))):
            found = recorder.call(ufunc_row(np.power), operator.pow, inputs, check=False)
            if isinstance(found, Tracer) and found.ref is not None:
                recorder.of_numbers()
            return found
    return ufunc_call(recorder, np.power, "__call__", (a, b), {})


def _masked_ufunc(
    recorder: Recorder, ufunc: Any, inputs: tuple, out: Any, where: Any, **kwargs: Any
) -> Any:
    """A ufunc with ``out=`` and ``where=``, which computes only there."""
    if not isinstance(out, Tracer) or not isinstance(out.value, np.ndarray) or kwargs:
        raise recorder.refuse(f"{ufunc.__name__} with this out=, where= and {list(kwargs)}")
    if ufunc.signature is not None or ufunc.nout > 1:
        raise recorder.refuse(f"{ufunc.__name__} with where=")
    inputs, where = _strong(ufunc, inputs, kwargs), as_array(recorder, where)

    def real(*given: Any) -> Any:
        *operands, mask, array = given
        changed = array.copy()
        return ufunc(*operands, out=changed, where=mask)

    for x in tracers((inputs, where)):
        x.settle()
    new = recorder.structural(
        syntax.MASKED_UFUNC,
        real,
        (*inputs, where, out),
        batch=((ufunc_row(ufunc), inputs, out, where), {}),
        check=True,
    )
    if not isinstance(new, Tracer):
        new = Tracer(recorder, np.asarray(new), None)
    out.become(new.value, new.ref)
    if out.unset is not None:
        out.unset[...] = out.unset & (where == False)  # noqa: E712
    return out


def _at(recorder: Recorder, ufunc: Any, x: Any, indices: Any, *items: Any) -> None:
    """``ufunc.at``: one element after the other, also the same one again."""
    if not isinstance(x, Tracer) or not isinstance(x.value, np.ndarray):
        raise recorder.refuse(f"{ufunc.__name__}.at of something that is not an array")
    key = index(recorder, indices)
    masks = [k for k in key if isinstance(k, Tracer) and np.asarray(k.value).dtype == bool]
    if recorder.library != "numpy" or masks or ufunc.signature is not None:
        raise recorder.refuse(f"{ufunc.__name__}.at with these arguments")
    changed = x.value.copy()
    recorder.real(ufunc.at, changed, values(key), *values(items))
    ndim = np.ndim(x.value[values(key)])
    new = recorder.call(
        syntax.AT,
        lambda *_: changed,
        (x, key, items, ndim),
        batch=((ufunc, x, key, items, ndim), {}),
    )
    if not isinstance(new, Tracer):
        new = Tracer(recorder, changed, None)
    x.become(new.value, new.ref)


def in_place(x: Tracer, ufunc: Any, other: Any) -> Any:
    """``x += other`` and the like."""
    if ufunc is np.matmul:
        other = as_array(x.recorder, other)
        x.recorder.real(x.value.copy().__imatmul__, values(other))
    if isinstance(x.value, np.ndarray):
        return ufunc_call(x.recorder, ufunc, "__call__", (x, other), {"out": (x,)})
    if not x.owned:  # CuPy's, which is a part of the slice
        raise x.recorder.refuse("it writes into the slice, a number of which a name holds")
    found = ufunc_call(x.recorder, ufunc, "__call__", (x, other), {})
    dtype = x.value.dtype
    if np.shape(values(found)) or not np.can_cast(np.asarray(values(found)).dtype, dtype, _KINDS):
        raise x.recorder.refuse(f"what does not fit is written into a number of {dtype}")
    found = cast(found, dtype)
    x.become(found.value, found.ref)
    return x


_KINDS: Any = "same_kind"
