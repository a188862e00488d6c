"""Functions that no trace runs on an array's library: JAX's vmap, or NumPy's view of the memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ... import arrays, frontends
from ...errors import TraceError
from ...frontends import AllAtOnce
from ...frontends.python.run.comparison import close
from ...ir.avals import ShapeDtype
from ...loop import reference
from ...runtime.error_state import let_pass


def find(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> AllAtOnce:
    """The way of the array's own library.

    Raises
    ------
    TraceError
        If it has none, or if `f` should be called for each slice just once.
    """
    if arrays.library(arr) != "jax":
        raise TraceError(f"{arrays.library(arr)} has no way of its own")
    if 0 in arr.shape or arr.ndim < 2:
        raise TraceError("there is one slice, or none")
    from ...functions.repeatable import why_not_repeatable

    for given in (f, *args, *kwargs.values()):
        why = why_not_repeatable(given) if callable(given) else None
        if why:
            network = _network_in(given)
            way_out = f"; {network} is a network: apply_along_axis({network}, ...) runs at once"
            raise TraceError(why + way_out * bool(network))
    return _vmap(f, axis, arr, args, kwargs)


def _network_in(f: Any, deep: int = 2) -> str:
    """The name by which a Python function, or one that it calls, knows a network; "" for none."""
    if not isinstance(f, FunctionType) or not deep:
        return ""
    try:
        known = inspect.getclosurevars(f)
    except ValueError:  # a name that has no value yet
        return ""
    for name, x in (*known.nonlocals.items(), *known.globals.items()):
        if isinstance(x, FunctionType):
            if found := _network_in(x, deep - 1):
                return found
        elif callable(x) and not isinstance(x, type) and frontends.is_network(x):
            return name
    return ""


# --- JAX --------------------------------------------------------------------------------------


def _vmap(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> AllAtOnce:
    """All slices by `jax.vmap`, after a comparison with real calls on three of them.

    Inside `jax.jit`, `jax.grad` and the like there are no numbers to compare: it is enough there
    that `f` can do without them.
    """
    import jax

    def one(v: Any) -> Any:
        return reference.as_array(jax.numpy, f(v, *args, **kwargs), v)

    def call(x: Any, a: int) -> Any:
        batch = x.shape[:a] + x.shape[a + 1 :]
        y = jax.vmap(one)(jax.numpy.moveaxis(x, a, -1).reshape(-1, x.shape[a]))
        y = y.reshape(*batch, *y.shape[1:])
        n = len(batch)
        return jax.numpy.transpose(y, (*range(a), *range(n, y.ndim), *range(a, n)))

    rows = jax.numpy.moveaxis(arr, axis, -1).reshape(-1, arr.shape[axis])
    if isinstance(arr, jax.core.Tracer):
        try:
            y = jax.eval_shape(jax.vmap(one), rows)
        except Exception as error:
            let_pass(error)
            raise TraceError(_why(error)) from None
        result = ShapeDtype(y.shape[1:], y.dtype.name)
        return AllAtOnce("jax.vmap", ("jax.vmap of f",), call, result)
    result = _compared(one, rows, lambda some: call(some, 1))
    return AllAtOnce("jax.vmap", ("jax.vmap of f",), call, result)


def _compared(
    one: Callable[[Any], Any], rows: Any, run: Callable[[Any], Any], way: str = "jax.vmap"
) -> ShapeDtype:
    """The result for a slice, where `run` gives for three of `rows` what `one` gives for each."""
    import jax

    some = rows[jax.numpy.asarray(sorted({0, len(rows) // 2, len(rows) - 1}))]
    try:
        real = [np.asarray(one(v)) for v in some]
        found = np.asarray(run(some))
    except Exception as error:
        let_pass(error)
        raise TraceError(_why(error, way)) from None
    for y, want in zip(found, real, strict=True):
        if y.shape != want.shape or y.dtype != want.dtype or not close(y, want):
            raise TraceError(f"{way}: it gives other results than the slices alone")
    return ShapeDtype(found.shape[1:], found.dtype.name)


def _why(error: Exception, way: str = "jax.vmap") -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{way}: {type(error).__name__}: {text}"


ON_HOST = "on NumPy's view of the array"
"""The remark in plans of functions that run there."""


def on_host(arr: Any) -> np.ndarray:
    """A read-only NumPy view of an array's memory.

    Raises
    ------
    TraceError
        If there is none.
    """
    if arrays.library(arr) != "jax":
        raise TraceError(f"{arrays.library(arr)} arrays are not seen as NumPy's")
    import jax

    if isinstance(arr, jax.core.Tracer):
        raise TraceError("there are no numbers inside a transform of JAX")
    if {d.platform for d in arr.devices()} != {"cpu"} or len(arr.devices()) > 1:
        raise TraceError("the array is not in the memory of one CPU")
    view = np.asarray(arr)
    if view.dtype.kind not in "biufc":
        raise TraceError(f"NumPy has no dtype {arr.dtype}")
    return view


def same_on_host(what: Any, view: np.ndarray, run: Callable[[Any], Any]) -> ShapeDtype:
    """The result for a slice, where `run` on rows of NumPy gives what `f` gives for the array's.

    Raises
    ------
    TraceError
        If it gives anything else for three of the slices.
    """
    import jax

    def one(v: Any) -> Any:
        return reference.as_array(jax.numpy, what.f(v, *what.args, **what.kwargs), v)

    def through_numpy(some: Any) -> Any:
        return jax.numpy.asarray(run(np.asarray(some)))

    rows = jax.numpy.moveaxis(what.own, what.axis, -1).reshape(-1, view.shape[what.axis])
    return _compared(one, rows, through_numpy, "on NumPy's view")
