"""Parity with the plain loop."""

from __future__ import annotations

import copy
import functools
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import arrays as array_facts
from .. import config, frontends
from ..apply import apply_along_axis, explain
from ..errors import UnsupportedError
from ..ir.graph import ShapeDtype
from ..loop import reference
from ..mlp import MLP
from ..vectorized import vectorize
from .by_definition import definition
from .error_analysis import PLAIN_ULPS, ROUNDOFF, SAFETY, rounding_errors


def assert_parity(f: Callable[..., Any], *given: Any, signature: Any = None, **kwargs: Any) -> Any:
    """Check ``apply_along_axis`` or ``vectorize`` against the plain loop.

    Shape, dtype, array library and device must be those of the loop. A network
    is compared with the loop of a float64 copy of it: NaN and infinities in the
    same places, every other number within `~xpapply.testing.SAFETY` standard deviations of the
    rounding errors that its own graph makes in its own dtype. Any other
    function must give what the loop gives.

    Parameters
    ----------
    f : callable
        A plain function is called by both.
    *given, **kwargs
        ``axis, arr, *args, **kwargs`` as for `xpapply.apply_along_axis`. With `signature`, and
        where `f` is an `xpapply.vectorize`, arrays and keywords as for a call of that; then every
        engine that takes them is compared with the loop.
    signature : str, optional
        The core dims of arrays and results, as for `xpapply.vectorize`.

    Returns
    -------
    array, or tuple of them
        What the call returned.

    Raises
    ------
    AssertionError
        With the worst element, what it should be and what would be allowed.
    Exception
        What `f` raises, if every engine raises the same.

    Notes
    -----
    The allowed error is a running error analysis (Higham, Accuracy and Stability
    of Numerical Algorithms, 2nd ed., section 3.3), with independent errors added
    as squares. Where a sum overflows the dtype, infinities and NaN are both right:
    that depends on the order of the sum. Where something is divided by such a
    sum (LayerNorm of numbers whose squares overflow) no number is expected.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> from xpapply.testing import assert_parity
    >>> net = xpapply.MLP([np.ones((2, 3), np.float32)], output_activation="tanh")
    >>> assert_parity(net, 0, np.ones((3, 4), np.float32)).shape
    (2, 4)
    >>> x, weights = np.arange(12.0).reshape(4, 3), np.ones(3)
    >>> assert_parity(lambda a, w: (a * w).sum(), x, weights, signature="(n),(n)->()")
    array([ 3., 12., 21., 30.])
    """
    if isinstance(f, vectorize):
        return _of_several(f, given, kwargs)
    if signature is not None:
        return _of_several(vectorize(f, signature=signature), given, kwargs)
    return _along_axis(f, *given, **kwargs)


def _along_axis(f: Callable[..., Any], axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Check ``apply_along_axis(f, axis, arr, *args, **kwargs)``."""
    if isinstance(axis, tuple) and len(axis) == 1:
        axis = axis[0]
    engine = explain(f, axis, arr, *args, **kwargs).engine
    result = apply_along_axis(f, axis, arr, *args, **kwargs)
    frontend = frontends.find(f)
    library = array_facts.library(arr)
    if library not in (None, "numpy"):
        _same("library", array_facts.library(result), library)
        _same("device", str(array_facts.device(result)), str(array_facts.device(arr)))
    if frontends.is_python(f):
        with np.errstate(all="ignore"):
            expected = _loop(f, axis, arr, args, kwargs)
        _same_kind(result, expected)
        _compare(_numpy(result), _numpy(expected), None, None)
        return result
    if isinstance(axis, tuple) and len(axis) > 1:  # networks are looped over
        expected = _loop(frontend.slice_function(f), axis, arr, args, kwargs)
        _same_kind(result, expected)
        _compare(_numpy(result), _numpy(expected), None, None)
        return result
    values = _numpy(arr)
    axis = array_facts.normalize_axis_index(axis, values.ndim)
    one = frontend.slice_function(f)
    with np.errstate(all="ignore"):
        # only NumPy's and torch's loops know networks; the others get NumPy's answer
        like = arr if library in (None, "numpy", "torch") else values
        expected = reference.apply(one, axis, like, args, kwargs)
        _same_kind(result, expected)
        # torch's own operations have torch's own errors (its GELU cancels below -5)
        own = engine in ("loop", "torch.batch", "torch.vmap")
        exact = None if own else _exact(f, axis, values, args, kwargs)
        allowed = None if own else _allowed(f, axis, values, args, kwargs)
    got, seen = _numpy(result), _numpy(expected)
    if exact is None or allowed is None:
        name = _dtype(f, values)
        _compare(got, seen, None, None, ulp=2 * ROUNDOFF.get(name, 0.0))
    else:
        error, unordered = (_in_place(x, axis, values.shape) for x in allowed)
        if engine == "cupy" and values.dtype == np.float32:
            # CuPy's kernels read subnormal float32 numbers as 0, cuBLAS does not
            with np.errstate(all="ignore"):
                tiny = np.abs(values) < np.finfo(np.float32).tiny
                flushed = _exact(f, axis, np.where(tiny, values * 0, values), args, kwargs)
                near = np.abs(got - flushed) <= SAFETY * error
                got = np.where(near, exact, got).astype(got.dtype)
        _compare(got, exact, SAFETY * error, unordered, seen)
    return result


def _loop(f: Any, axis: Any, arr: Any, args: tuple, kwargs: dict) -> Any:
    """The plain loop, along one axis or several."""
    if not isinstance(axis, tuple):
        return reference.apply(f, axis, arr, args, kwargs)
    arr = arr if array_facts.library(arr) else np.asanyarray(arr)
    axes = tuple(array_facts.normalize_axis_index(a, arr.ndim) for a in axis)
    return reference.along(f, axes, arr, args, kwargs, lambda error, index: None)


# --- several arrays -----------------------------------------------------------------------------


def _of_several(f: vectorize, given: tuple, kwargs: dict) -> Any:
    """Check ``f(*given, **kwargs)`` by every engine."""
    if f._on_error != "raise":
        raise ValueError("assert_parity compares what raises, too: leave on_error='raise'")
    looped = [*given, *kwargs.values()]
    like = next((x for x in looped if array_facts.library(x) not in (None, "numpy")), None)
    library = array_facts.library(like) or "numpy"
    # sums of float32 numbers are as exact as these, whatever is added to them
    dtypes = [array_facts.dtype_name(x) for x in looped if array_facts.library(x)]
    ulp = max((2 * ROUNDOFF.get(name, 0.0) for name in dtypes), default=0.0)
    expected = _outcome(lambda: definition(f, *given, **kwargs))
    first: Any = None
    forced = config.current().engine
    for engine in (forced,) if forced else ("", "loop", *dict.fromkeys((library, *_MORE))):
        more = dict(kwargs)
        if (out := kwargs.get("out")) is not None:
            more["out"] = tuple(map(_copied, out)) if isinstance(out, tuple) else _copied(out)
        with config.options(engine=engine, fallback="silent"):
            found = _outcome(lambda more=more: f(*given, **more))  # type: ignore[misc]
        if engine and not forced and isinstance(found, UnsupportedError):
            continue
        try:
            _same_outcome(found, expected, like, library, ulp)
        except AssertionError as error:
            raise AssertionError(f"engine {engine or 'by default'}: {error}") from error
        first = found if first is None else first
    if isinstance(first, Exception):
        raise first
    return first


_MORE = ("cpu", "torch", "array_api")
"""Engines that take arrays of other libraries."""


def _outcome(call: Callable[[], Any]) -> Any:
    """The result, or the exception."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except Exception as error:
            return error


def _copied(x: Any) -> Any:
    """A copy that may be written to, laid out as the array is."""
    if x is None:
        return None
    return x.copy(order="K") if isinstance(x, np.ndarray) else array_facts.asarray(x, x) + 0


def _same_outcome(found: Any, expected: Any, like: Any, library: str, ulp: float) -> None:
    if isinstance(expected, Exception) or isinstance(found, Exception):
        if type(found) is not type(expected):
            what = expected if isinstance(expected, Exception) else None
            raise AssertionError(f"got {found!r}, the loop gives {what!r}") from what
        return
    _same("class", isinstance(found, tuple), isinstance(expected, tuple))
    pairs = (
        [(found, expected)]
        if not isinstance(found, tuple)
        else [*zip(found, expected, strict=True)]
    )
    for got, exact in pairs:
        _same("library", array_facts.library(got), library)
        if like is not None:
            _same("device", str(array_facts.device(got)), str(array_facts.device(like)))
        _same("shape", tuple(got.shape), tuple(exact.shape))
        host = _numpy(got)
        _same("dtype", host.dtype, exact.dtype)
        if library == "numpy":
            _same("class", type(got), type(exact))
        _compare(host, exact, None, None, ulp=ulp)


def _same(what: str, got: Any, expected: Any) -> None:
    if got != expected:
        raise AssertionError(f"{what}: got {got}, the loop gives {expected}")


def _same_kind(result: Any, expected: Any) -> None:
    """Shape, dtype, and among NumPy arrays the class."""
    _same("shape", tuple(result.shape), tuple(expected.shape))
    dtype = array_facts.dtype_name(result)
    if dtype == "int32" and array_facts.library(result) == "jax":
        return  # it has no 64 bits unless it is told to, and int32 for positions
    if dtype != "bfloat16" or array_facts.library(result) == "torch":  # NumPy's loop has none
        _same("dtype", dtype, array_facts.dtype_name(expected))
    if isinstance(result, np.ndarray):
        _same("class", type(result), type(expected))


def _compare(
    got: Any, exact: Any, allowed: Any, unordered: Any, seen: Any = None, *, ulp: float = 0.0
) -> None:
    """`got` is near `exact`, or not finite in the way of `seen`."""
    if got.dtype.kind not in "fc":
        right = got == exact
        if allowed is not None and got.dtype.kind == "i":
            # a position: of a number that may be the largest, or the one that the loop gives
            right |= (np.abs(got - exact) <= allowed) | (got == seen) | (unordered == 2)
        if not np.all(right):
            raise AssertionError(f"got {got!r}, the loop gives {exact!r}")
        return
    got = got.astype(np.complex128 if got.dtype.kind == "c" else np.float64)
    if allowed is None:
        finite = np.where(np.isfinite(exact), np.abs(exact), 0)
        ulp = max(ulp, float(np.finfo(exact.dtype).eps))
        allowed = PLAIN_ULPS * ulp * finite.max(initial=0.0) * np.ones(exact.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(got - exact)
        right = np.isfinite(exact) & (off <= allowed)
        for other in (exact,) if seen is None else (exact, seen):
            other = np.asarray(other, got.dtype)
            right |= ~np.isfinite(other) & ((got == other) | (np.isnan(got) & np.isnan(other)))
    if unordered is not None:
        right |= (unordered == 1) & ~np.isfinite(got) | (unordered == 2)
    if right.all():
        return
    wrong = np.where(
        right, -1.0, np.where(np.isfinite(off), off / np.maximum(allowed, 1e-300), np.inf)
    )
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    where = tuple(map(int, at))
    raise AssertionError(
        f"{int((~right).sum())} of {right.size} elements differ from the loop; the worst is "
        f"{where}: got {got[at]!r}, expected {exact[at]!r}, off by {off[at]:.3g}, "
        f"allowed {np.broadcast_to(allowed, right.shape)[at]:.3g}"
    )


def _numpy(x: Any) -> Any:
    """An array of any library as a NumPy array."""
    name = array_facts.library(x)
    if name == "torch":
        x = x.detach().cpu()
        return (x if array_facts.dtype_name(x) != "bfloat16" else x.float()).resolve_neg().numpy()
    array = x.get() if name == "cupy" else np.asarray(x)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _in_place(x: np.ndarray, axis: int, shape: tuple[int, ...]) -> np.ndarray:
    """Results ``(Nj..., B)`` with the batch dims of `shape` around them."""
    before, behind = shape[:axis], shape[axis + 1 :]
    n = x.ndim - 1
    x = x.reshape((*x.shape[:-1], *before, *behind))
    return np.moveaxis(x, range(n), range(axis, axis + n))


def _exact(f: Any, axis: int, values: np.ndarray, args: tuple, kwargs: dict) -> np.ndarray | None:
    """The loop of a float64 copy; None for functions that cannot be copied or made float64."""
    try:
        double = _double(f)
        one = frontends.find(f).slice_function(double)
        others = {k: _double(v) for k, v in kwargs.items()}
        return reference.apply(  # type: ignore[no-any-return]
            one, axis, _rounded(f, values), tuple(map(_double, args)), others
        )
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def _dtype(f: Any, values: np.ndarray) -> str:
    """The dtype that a network computes in."""
    owner = frontends.owner(f)
    if isinstance(owner, MLP):
        return owner.dtype.name
    return frontends.find(f).parameter_dtype(f, values.dtype.name)


def _rounded(f: Any, values: np.ndarray) -> np.ndarray:
    """The input as the network sees it, in float64."""
    name = _dtype(f, values)
    # 16-bit networks may read their input in float32: that is not an error
    return (
        np.asarray(values).astype("float32" if name == "float32" else "float64").astype("float64")
    )


def _double(f: Any) -> Any:
    """A copy of `f` with all its numbers in float64."""
    if isinstance(f, functools.partial):
        keywords = {k: _double(v) for k, v in f.keywords.items()}
        return functools.partial(_double(f.func), *map(_double, f.args), **keywords)
    if isinstance(f, types.MethodType):
        return types.MethodType(f.__func__, _double(f.__self__))
    if isinstance(f, MLP):
        weights = [w.astype(np.float64) for w in f.weights]
        biases = [None if b is None else b.astype(np.float64) for b in f.biases]
        return MLP(weights, biases, f.activations[:-1], f.activations[-1])
    if array_facts.library(f) == "torch" and f.is_floating_point():
        return f.double().cpu()
    if hasattr(f, "named_modules"):
        # on the CPU: torch's CUDA Hardsigmoid multiplies by a float32 1/6 in float64 too
        return copy.deepcopy(f).double().cpu()
    return f


def _allowed(
    f: Any, axis: int, values: np.ndarray, args: tuple, kwargs: dict
) -> tuple[np.ndarray, np.ndarray] | None:
    """Standard deviation of the rounding errors, and where the order of sums decides; or None."""
    frontend = frontends.find(f)
    aval = ShapeDtype((values.shape[axis],), values.dtype.newbyteorder("=").name)
    try:
        graph = frontend.lift(f, aval, args, kwargs)
    except UnsupportedError:
        return None
    rows = np.moveaxis(_rounded(f, values), axis, 0).reshape(values.shape[axis], -1)
    return rounding_errors(graph, rows, _dtype(f, values))
