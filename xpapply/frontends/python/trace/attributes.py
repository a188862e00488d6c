"""Attributes and methods of arrays and numbers that depend on the slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import syntax
from ..data_dependent import ragged
from . import scalars
from .arrays import Elements, cast, copied
from .functions import function_call
from .indexing import counted, setitem
from .tracer import Tracer, must
from .ufuncs import ufunc_call

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
    if name == "nbytes" or isinstance(x, ragged.SelectedRows):
        counted(x) if name != "T" else None
    if name in _PLAIN:
        return getattr(x.value, name)  # an AttributeError is the user's
    if x.weak:
        return _python_attribute(x, name)
    if name == "T":
        if isinstance(x, ragged.SelectedRows) and x.matrix is not None:
            return x.turned()
        return function_call(recorder, np.transpose, (x,), {}) if x.ndim > 1 else x
    if name == "flat" and isinstance(x.value, np.ndarray):
        return Elements(x)
    if name in ("real", "imag"):
        return function_call(recorder, getattr(np, name), (x,), {})
    if name in _METHODS or (name == "ptp" and recorder.library == "cupy"):  # NumPy 2 has none
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
    if not number:
        return x.recorder.operations.complex_numbers.attribute(x, name)
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
    x.settle()
    value = x.value.item()
    if x.ref is None:
        return value
    flat = x.reshape(()) if x.ndim else x
    if x.dtype == np.uint64:
        must(flat <= 2**63 - 1)  # Python's integers are held as int64
    return (
        x.recorder.call(syntax.SAME, lambda _: value, (flat,), check=False)
        if np.asarray(value).dtype == np.asarray(x.value).dtype
        else x.recorder.call(
            syntax.CAST,
            lambda _: value,
            (flat,),
            batch=((flat, np.asarray(value).dtype), {}),
            check=False,
        )
    )


def _tolist(x: Tracer) -> Any:
    x.settle()
    if x.ref is None:
        return x.value.tolist()
    return [_tolist(y) if y.ndim else _item(y) for y in x] if x.ndim else _item(x)


def _sort(x: Tracer, axis: int = -1, kind: Any = None) -> None:
    new = function_call(x.recorder, np.sort, (x,), {"axis": axis, "kind": kind})
    x.become(new.value, new.ref)


def _partition(x: Tracer, kth: Any, axis: int = -1) -> None:
    new = function_call(x.recorder, np.partition, (x, kth), {"axis": axis})
    x.become(new.value, new.ref)


def _view(x: Tracer, *args: Any, **kwargs: Any) -> Any:
    if args or kwargs or not isinstance(x.value, np.ndarray):
        raise x.recorder.refuse("a view as another dtype")
    return x[...]


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
    "view": _view,
    "compress": _compress_method,
    "conj": _conjugate,
    "conjugate": _conjugate,
}
