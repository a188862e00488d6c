"""Parity with the plain loop, and strategies that draw arrays and networks.

For the tests of xpapply itself, of backends and frontends that others write,
and for anyone who wants to know that their own network gives what the loop
gives. Every tolerance of the project is in this file.
"""

from __future__ import annotations

import copy
import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import arrays as array_facts
from . import frontends, loop
from .apply import apply_along_axis, explain
from .backends import array_api
from .errors import UnsupportedError
from .ir.batch import batch
from .ir.graph import Graph, ShapeDtype, number
from .ir.ops import OPS, Kind, Op
from .ir.rewrite import expand
from .mlp import MLP

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SAFETY = 8.0
"""How many standard deviations of its rounding errors a result may be off."""
FUNCTION_ULPS = 4.0
"""Error of exp, tanh, erf ... in last places: what CUDA and vector libraries promise."""
PLAIN_ULPS = 64.0
"""Error of a result whose graph is not known, in last places of its largest element."""


def _activations() -> tuple[str, ...]:
    """Those of the op table, by their names in ``torch.nn``."""
    return (*filter(None, (row.activation for row in OPS.values())), "GELU-tanh", "Identity")


def _mlp_activations() -> tuple[str, ...]:
    """Those of them that have no weights, by their names in the table."""
    drawn = [row for row in OPS.values() if row.activation]

    def takes_more(row: Op) -> bool:
        return any(p.default is p.empty for p in row.parameters.values() if p.name != "axis")

    return (*(row.name for row in drawn if not takes_more(row)), "identity")


ACTIVATIONS = _activations()
"""The activations that `networks` draws from, by their names in ``torch.nn``."""
MLP_ACTIVATIONS = _mlp_activations()
"""The activations that `mlps` draws from."""
ORDERS = ("C", "F", "steps", "negative", "broadcast", "transposed")
"""The memory layouts that `arrays` draws from."""
DTYPES = ("float32", "float64", "float16", "uint8", "int64", "bool")
"""The dtypes that `arrays` draws from."""


# --- parity ---------------------------------------------------------------------------


def assert_parity(f: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Check ``apply_along_axis(f, axis, arr, *args, **kwargs)`` against the plain loop.

    Shape, dtype, array library and device must be those of the loop. A network
    is compared with the loop of a float64 copy of it: NaN and infinities in the
    same places, every other number within `SAFETY` standard deviations of the
    rounding errors that its own graph makes in its own dtype. Any other
    function must give what the loop gives.

    Parameters
    ----------
    f, axis, arr, *args, **kwargs
        As for `xpapply.apply_along_axis`. A plain function is called by both.

    Returns
    -------
    array
        What `apply_along_axis` returned.

    Raises
    ------
    AssertionError
        With the worst element, what it should be and what would be allowed.

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
    """
    engine = explain(f, axis, arr, *args, **kwargs).engine
    result = apply_along_axis(f, axis, arr, *args, **kwargs)
    frontend = frontends.find(f)
    library = array_facts.library(arr)
    if library not in (None, "numpy"):
        _same("library", array_facts.library(result), library)
        _same("device", str(array_facts.device(result)), str(array_facts.device(arr)))
    if frontends.is_python(f):
        with np.errstate(all="ignore"):
            expected = loop.apply(f, axis, arr, args, kwargs)
        _same_kind(result, expected)
        _compare(_numpy(result), _numpy(expected), None, None)
        return result
    values = _numpy(arr)
    axis = array_facts.normalize_axis_index(axis, values.ndim)
    one = frontend.slice_function(f)
    with np.errstate(all="ignore"):
        # only NumPy's and torch's loops know networks; the others get NumPy's answer
        like = arr if library in (None, "numpy", "torch") else values
        expected = loop.apply(one, axis, like, args, kwargs)
        _same_kind(result, expected)
        # torch's own operations have torch's own errors (its GELU cancels below -5)
        own = engine in ("loop", "torch.batch", "torch.vmap")
        exact = None if own else _exact(f, axis, values, args, kwargs)
        allowed = None if own else _allowed(f, axis, values, args, kwargs)
    got, seen = _numpy(result), _numpy(expected)
    if exact is None or allowed is None:
        name = _dtype(f, values)
        _compare(got, seen, None, None, ulp=2 * _ROUNDOFF.get(name, 0.0))
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
        return loop.apply(  # type: ignore[no-any-return]
            one, axis, _rounded(f, values), tuple(map(_double, args)), others
        )
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def _dtype(f: Any, values: np.ndarray) -> str:
    """The dtype that a network computes in."""
    owner = frontends.owner(f)
    if isinstance(owner, MLP):
        return owner.dtype.name
    of = getattr(frontends.find(f), "parameter_dtype", None)
    return values.dtype.name if of is None else str(of(f, values.dtype.name)).rpartition(".")[2]


def _rounded(f: Any, values: np.ndarray) -> np.ndarray:
    """The input as the network sees it, in float64."""
    name = _dtype(f, values)
    # 16-bit networks may read their input in float32: that is no error
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


_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
_TINY = {"float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
_LARGEST = {"float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.4e38, "float64": 1.79e308}


def _largest(u: float) -> float:
    return next(_LARGEST[name] for name, value in _ROUNDOFF.items() if value == u)


def rounding_errors(graph: Graph, rows: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """How far results of `graph` may be off when it is computed in `dtype`.

    Parameters
    ----------
    graph : Graph
        The graph of one slice.
    rows : ndarray (M, B)
        B slices, one per column, in float64.
    dtype : str
        The dtype of the computation.

    Returns
    -------
    error : ndarray (Nj..., B)
        Standard deviation of the rounding error of every result.
    unordered : ndarray (Nj..., B)
        1 where a sum overflows, so that its order decides between infinity and NaN;
        2 where something was divided by such a sum; else 0.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> graph = xpapply.lift(xpapply.MLP([[[1.0, 1.0]]]), (2,), "float32")
    >>> error, unordered = rounding_errors(graph, np.array([[1e8], [-1e8]]), "float32")
    >>> bool(1 < error[0, 0] < 100), int(unordered[0, 0])
    (True, 0)
    """
    u, tiny, largest = _ROUNDOFF[dtype], _TINY[dtype], _LARGEST[dtype]
    graph = batch(expand(graph))
    done: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            args = [done[a] for a in node.args]
            if node.op == "input":
                v, e = rows, np.zeros(rows.shape)
            elif node.op == "const":  # may be a product of constants, rounded
                v = np.asarray(graph.consts[node.attr("k")], np.float64)
                e = u * np.abs(v)
                if dtype == "float64":
                    # or a difference (BatchNorm's bias less its scaled mean) that was rounded in
                    # float64, as the oracle rounds it: its neighbours tell how large the parts are
                    e = np.full(v.shape, np.max(e, initial=0.0))
            elif node.op == "scalar":
                v = np.asarray(number(node))
                e = u * np.abs(v)
            else:
                v, e = _step(node, args, rows.shape[1], u)
                fresh = OPS[node.op].kind is not Kind.LAYOUT and v.dtype.kind == "f"
                if fresh:
                    own = _ROUNDOFF.get(node.aval.dtype, u) if node.op == "cast" else u
                    ulps = 1.0 if OPS[node.op].error is None else FUNCTION_ULPS
                    e = np.hypot(e, ulps * max(u, own) * np.abs(v) + tiny)
            unordered = _unordered(node, args, rows.shape[1], largest, v)
            # beside infinities and NaN there is no rounding error; 0 times infinity would be NaN
            e = np.where(np.isfinite(v), np.minimum(e, np.maximum(np.abs(v), 1e150)), 0.0)
            done.append((v, e, unordered))
        v, e, unordered = done[graph.out]
    return e, unordered


def _step(node: Any, args: list[Any], size: int, u: float) -> tuple[np.ndarray, np.ndarray]:
    """Value and error of one node; the error of a comparison says where it may come out wrong."""
    vs, es = [a[0] for a in args], [a[1] for a in args]
    op, kind = node.op, OPS[node.op].kind
    if op == "cast":
        return np.asarray(vs[0], np.float64), np.asarray(es[0], np.float64)
    v = array_api.apply(np, node, vs, size)  # type: ignore[arg-type]
    if kind is Kind.LAYOUT:
        return v, array_api.apply(np, node, es, size)  # type: ignore[arg-type]
    grown = OPS[op].error
    if grown is not None:
        return v, grown(vs[0], es[0], v, np.maximum(np.abs(vs[0]) - SAFETY * es[0], 0.0))
    if op in ("add", "subtract"):
        return v, np.hypot(*es)
    if op == "multiply":
        return v, np.hypot(vs[1] * es[0], vs[0] * es[1])
    if op == "divide":
        # silu: the denominator may overflow while the quotient does not
        lost = np.where(np.abs(vs[1]) > _largest(u), np.abs(v), 0.0)
        return v, np.hypot(es[0], v * es[1]) / np.abs(vs[1]) + lost
    if OPS[op].compares:
        return v, np.asarray(np.abs(vs[0] - vs[1]) <= SAFETY * (es[0] + es[1]), np.float64)
    if op in ("maximum", "minimum"):
        first = vs[0] == v
        close = np.abs(vs[0] - vs[1]) <= SAFETY * (es[0] + es[1])
        return v, np.where(close, np.maximum(*es), np.where(first, *es))
    if op == "where":
        chosen = np.where(vs[0], es[1], es[2])
        return v, np.where(es[0] > 0, np.maximum(es[1], es[2]), chosen)
    if kind is Kind.REDUCTION:
        how: dict[str, Any] = {"axis": node.attr("axis"), "keepdims": True}
        if op == "sum":
            e = np.sqrt(np.sum(es[0] ** 2, **how)) + u * np.sum(np.abs(vs[0]), **how)
        elif op == "prod":
            e = np.prod(np.abs(vs[0]) + es[0] + u * np.abs(vs[0]), **how)
            e = e - np.prod(np.abs(vs[0]), **how)
        elif OPS[op].finds_position:
            sign = 1.0 if op == "argmax" else -1.0
            axis = how["axis"][0]
            e = _positions(np.moveaxis(sign * vs[0], axis, 0), np.moveaxis(es[0], axis, 0), u)
        else:
            best = getattr(np, op)(vs[0], **how)
            near = np.abs(vs[0] - best) <= SAFETY * 2 * es[0]
            e = np.max(np.where(near, es[0], 0.0), **how)
        return v, e.reshape(v.shape)
    if kind is Kind.CONTRACTION:

        def product(x: Any, y: Any) -> Any:
            return array_api.einsum(np, node.attr("subscripts"), x, y)  # type: ignore[arg-type]

        squares = product(es[0] ** 2, vs[1] ** 2) + product(vs[0] ** 2, es[1] ** 2)
        return v, np.sqrt(squares) + u * product(np.abs(vs[0]), np.abs(vs[1]))
    return v, functools.reduce(np.maximum, es)  # negative, abs, and what acts on truth values


def _positions(x: np.ndarray, e: np.ndarray, u: float) -> np.ndarray:
    """How far from the first largest of `x`, along axis 0, another may be found that is as large.

    In units of which `SAFETY` are allowed.
    """
    low, high = x - SAFETY * e, x + SAFETY * e
    largest = _largest(u)  # beyond it a number may be infinite
    low = np.where(low < -largest, -np.inf, np.minimum(low, largest))
    high = np.where(high > largest, np.inf, np.maximum(high, -largest))
    infinite, nan = np.isinf(x), np.isnan(x)
    low, high = (np.where(infinite, x, np.where(nan, np.inf, v)) for v in (low, high))
    # found where none before it is surely as large, and none behind it surely larger
    none = np.full((1, *x.shape[1:]), -np.inf)
    before = np.maximum.accumulate(np.concatenate([none, low]), axis=0)[:-1]
    behind = np.maximum.accumulate(np.concatenate([low, none])[::-1], axis=0)[::-1][1:]
    first = np.arange(len(x)).reshape(-1, *(1,) * (x.ndim - 1)) == 0
    possible = ((high > before) | first) & (high >= behind)
    possible = np.where(nan.any(0), False, possible)
    away = np.abs(np.arange(len(x)).reshape(first.shape) - np.argmax(x, axis=0))
    return np.asarray(np.max(np.where(possible, away, 0), axis=0) / SAFETY)


def _unordered(node: Any, args: list[Any], size: int, largest: float, v: np.ndarray) -> np.ndarray:
    """1 where a sum that `node` depends on overflows; 2 where something was divided by it."""
    kind = OPS[node.op].kind
    before = [a[2] for a in args]
    if not args:
        return np.zeros(v.shape)
    if kind is Kind.LAYOUT:
        return np.asarray(array_api.apply(np, node, before, size))  # type: ignore[arg-type]
    if kind is Kind.REDUCTION:
        axes = node.attr("axis")
        level = np.max(before[0], axis=axes, keepdims=True)
        if node.op == "sum":
            total = np.sum(np.abs(args[0][0]), axis=axes, keepdims=True)
            level = np.maximum(level, _overflows(total, largest))
        if OPS[node.op].finds_position:
            level = 2.0 * (level > 0)
        return level.reshape(v.shape)
    if kind is Kind.CONTRACTION:

        def product(x: Any, y: Any) -> Any:
            return array_api.einsum(np, node.attr("subscripts"), x, y)  # type: ignore[arg-type]

        total = product(*(np.abs(a[0]) for a in args))
        level = _overflows(total, largest)
        for k in (1.0, 2.0):
            marks = [np.asarray(b >= k, np.float64) for b in before]
            ones = [np.ones(b.shape) for b in before]
            some = product(marks[0], ones[1]) + product(ones[0], marks[1]) > 0
            level = np.maximum(level, k * some)
        return level
    if node.op == "where":
        return np.where(args[0][0], before[1], before[2])
    if node.op == "divide":
        return np.maximum(before[0], 2.0 * (before[1] > 0))
    return functools.reduce(np.maximum, before) + np.zeros(v.shape)


def _overflows(total: np.ndarray, largest: float) -> np.ndarray:
    return np.asarray(np.isfinite(total) & (total > largest), np.float64)


# --- strategies -----------------------------------------------------------------------


def _strategies() -> Any:
    """hypothesis.strategies, or an error that says what to install."""
    try:
        from hypothesis import strategies
    except ImportError:
        raise ImportError(
            "the strategies of xpapply.testing need Hypothesis: pip install hypothesis"
        ) from None
    return strategies


def axes(ndim: int) -> SearchStrategy[int]:
    """Axes of an array with `ndim` dims, negative ones included.

    Parameters
    ----------
    ndim : int
        The number of dims, at least 1.

    Returns
    -------
    SearchStrategy of int

    Raises
    ------
    ImportError
        Without Hypothesis.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(axes(3))
    ... def test(axis):
    ...     assert -3 <= axis < 3
    >>> test()
    """
    found: SearchStrategy[int] = _strategies().integers(-ndim, ndim - 1)
    return found


def arrays(
    length: int | None = None,
    axis: int = -1,
    *,
    ndim: int | None = None,
    max_side: int = 5,
    dtypes: Sequence[str] = DTYPES,
    orders: Sequence[str] = ORDERS,
    exponents: tuple[int, int] = (-2, 2),
    special: bool = False,
) -> SearchStrategy[np.ndarray]:
    """NumPy arrays of many shapes, dtypes and memory layouts.

    Parameters
    ----------
    length : int, optional
        Length of `axis`; 1 to `max_side` where it is not given.
    axis : int, optional
        The axis that has that length.
    ndim : int, optional
        Number of dims; 1 to 4 where it is not given (but enough for `axis`).
    max_side : int, optional
        Greatest length of the other axes.
    dtypes : sequence of str, optional
        Names of dtypes.
    orders : sequence of str, optional
        Memory layouts: "C", "F", "steps" (every second or third element), "negative"
        (negative strides), "broadcast" (stride 0), "transposed" (axes in random order).
    exponents : (int, int), optional
        Range of the powers of ten that floating-point values are scaled by.
    special : bool, optional
        Put NaN, infinities, -0.0 and subnormal numbers among floating-point values.

    Returns
    -------
    SearchStrategy of ndarray

    Raises
    ------
    ImportError
        Without Hypothesis.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(arrays(7, axis=0, dtypes=["float32"]))
    ... def test(arr):
    ...     assert arr.shape[0] == 7 and arr.dtype == "float32"
    >>> test()
    """
    st = _strategies()
    least = axis + 1 if axis >= 0 else -axis

    def draw_array(draw: Any) -> np.ndarray:
        n = ndim if ndim is not None else draw(st.integers(least, max(4, least)))
        shape = draw(st.lists(st.integers(1, max_side), min_size=n, max_size=n))
        if length is not None:
            shape[axis] = length
        dtype = np.dtype(draw(st.sampled_from(list(dtypes))))
        order = draw(st.sampled_from(list(orders)))
        scale = 10.0 ** draw(st.integers(*exponents))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return _layout(order, shape, rng, lambda s: _values(rng, s, dtype, scale, special))

    found: SearchStrategy[np.ndarray] = st.composite(draw_array)()
    return found


def _values(
    rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype, scale: float, special: bool
) -> np.ndarray:
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -100
        return rng.integers(low, 100, shape).astype(dtype)
    with np.errstate(over="ignore"):
        x = (rng.standard_normal(shape) * scale).astype(dtype)
    if special:
        odd = (np.nan, np.inf, -np.inf, -0.0, 0.0, float(np.finfo(dtype).smallest_subnormal))
        some = rng.random(shape) < 0.1
        x[some] = rng.choice(np.array(odd, dtype), int(some.sum()))
    return x


def _layout(
    order: str, shape: list[int], rng: np.random.Generator, fill: Callable[[list[int]], np.ndarray]
) -> np.ndarray:
    """An array of this shape, with its memory laid out as `order` says."""
    if order == "F":
        return np.asfortranarray(fill(shape))
    if order == "steps":
        steps = [int(k) for k in rng.integers(1, 4, len(shape))]
        whole = fill([n * k for n, k in zip(shape, steps, strict=True)])
        return whole[tuple(slice(None, None, k) for k in steps)]
    if order == "negative":
        signs = [int(k) for k in rng.choice([-1, 1], len(shape))]
        signs[int(rng.integers(len(shape)))] = -1
        return fill(shape)[tuple(slice(None, None, k) for k in signs)]
    if order == "broadcast":
        flat = [1 if rng.random() < 0.5 else n for n in shape]
        return np.broadcast_to(fill(flat), shape)
    if order == "transposed":
        to = [int(a) for a in rng.permutation(len(shape))]
        return fill([shape[a] for a in to]).transpose(np.argsort(to))
    return fill(shape)


def networks(
    features: int,
    *,
    max_depth: int = 5,
    max_width: int = 40,
    activations: Sequence[str] | None = None,
    dtype: str = "float32",
    labels: bool = False,
) -> SearchStrategy[Any]:
    """Random ``torch.nn.Module`` networks in eval mode, for slices of `features` values.

    Layers: Linear with and without bias, all of `activations` with random
    arguments, BatchNorm1d with random running statistics, LayerNorm, Dropout,
    nested Sequentials, skip connections, and concatenations of an input with
    what a layer makes of it.

    Parameters
    ----------
    features : int
        Length of the slices.
    max_depth : int, optional
        Most Linear layers in a row.
    max_width : int, optional
        Most features between layers.
    activations : sequence of str, optional
        Names from `ACTIVATIONS`; all of them if they are not given.
    dtype : str, optional
        dtype of the parameters.
    labels : bool, optional
        Let some end with ``argmax(-1)`` or ``argmin(-1)``.

    Returns
    -------
    SearchStrategy of torch.nn.Module

    Raises
    ------
    ImportError
        Without Hypothesis or torch.

    Examples
    --------
    >>> import numpy as np
    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5, deadline=None)
    ... @given(networks(3))
    ... def test(net):
    ...     assert_parity(net, -1, np.ones((2, 3), np.float32))
    >>> test()
    """
    import torch

    st = _strategies()
    skip, concatenation, label, _ = _torch_modules()
    names = _activations() if activations is None else activations

    def draw_network(draw: Any) -> Any:
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
        layers: list[Any] = []
        width = features
        for _ in range(draw(st.integers(1, max_depth))):
            made, width = _block(draw, st, width, max_width, names, skip, concatenation)
            layers += made
        if draw(st.booleans()):
            layers = [torch.nn.Sequential(*layers[:2]), *layers[2:]]
        if labels and draw(st.integers(0, 3)) == 0:
            layers.append(label(draw(st.sampled_from(["argmax", "argmin"])), draw(st.booleans())))
        net = torch.nn.Sequential(*layers).to(getattr(torch, dtype)).eval()
        _randomize(net, generator)
        return net

    found: SearchStrategy[Any] = st.composite(draw_network)()
    return found


def _block(
    draw: Any, st: Any, width: int, most: int, activations: Sequence[str], *wrappers: Any
) -> tuple[list[Any], int]:
    """A Linear layer with what may stand around it, and the width behind it."""
    from torch import nn

    name = draw(st.sampled_from(list(activations)))
    wrapped = draw(st.sampled_from(["", "", "", "skip", "concat"]))
    new = width if wrapped == "skip" else draw(st.integers(1, most))
    layers: list[Any] = [nn.Linear(width, new, bias=draw(st.booleans()))]
    norm = draw(st.sampled_from(["", "", "BatchNorm1d", "LayerNorm", "Dropout"]))
    if norm == "BatchNorm1d":
        layers.append(nn.BatchNorm1d(new, affine=draw(st.booleans())))
    elif norm == "LayerNorm":
        layers.append(nn.LayerNorm(new, elementwise_affine=draw(st.booleans())))
    elif norm == "Dropout":
        layers.append(nn.Dropout(0.5))
    layers.append(activation(name, draw(st.sampled_from([0.25, 0.5, 1.0, 2.0])), new))
    if not wrapped:
        return layers, new
    inner = nn.Sequential(*layers)
    if wrapped == "skip":
        return [wrappers[0](inner)], new
    return [wrappers[1](inner)], width + new


def activation(name: str, number: float = 1.0, width: int = 1) -> Any:
    """The activation module `name` of `ACTIVATIONS`, `number` its argument where it takes one.

    Parameters
    ----------
    name : str
        A name of `ACTIVATIONS`.
    number : float, optional
        Slope, alpha, beta or bound.
    width : int, optional
        Features that it will get (a PReLU may have a slope for each).

    Returns
    -------
    torch.nn.Module

    Examples
    --------
    >>> activation("ELU", 0.5)
    ELU(alpha=0.5)
    """
    from torch import nn

    special: dict[str, Callable[[], Any]] = {
        "LeakyReLU": lambda: nn.LeakyReLU(number / 10),
        "PReLU": lambda: nn.PReLU(width if number < 1 else 1),
        "ELU": lambda: nn.ELU(number),
        "CELU": lambda: nn.CELU(number),
        "GELU-tanh": lambda: nn.GELU(approximate="tanh"),
        "Softplus": lambda: nn.Softplus(beta=number),
        "Hardtanh": lambda: nn.Hardtanh(-number, 2 * number),
        "Softmax": lambda: nn.Softmax(dim=-1),
        "LogSoftmax": lambda: nn.LogSoftmax(dim=-1),
    }
    if name in special:
        return special[name]()
    function = _torch_modules()[3]
    return getattr(nn, name)() if hasattr(nn, name) else function(name)


@functools.cache
def _torch_modules() -> tuple[Any, Any, Any, Any]:
    """The modules that join a layer with its input, that find a position, and of one function.

    Made here so that torch is imported late.
    """
    import torch

    class Skip(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return x + self.inner(x)

    class Concatenation(Skip):
        def forward(self, x: Any) -> Any:
            return torch.cat([x, self.inner(x)], dim=-1)

    class Label(torch.nn.Module):
        def __init__(self, name: str, keepdim: bool) -> None:
            super().__init__()
            self.name, self.keepdim = name, keepdim

        def forward(self, x: Any) -> Any:
            return getattr(torch, self.name)(x, -1, self.keepdim)

    class Function(torch.nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def forward(self, x: Any) -> Any:
            return getattr(torch, self.name)(x)

    return Skip, Concatenation, Label, Function


def _randomize(net: Any, generator: Any) -> None:
    """Random weights and running statistics, of a size that keeps values in range."""
    import torch

    with torch.no_grad():
        for name, t in [*net.named_parameters(), *net.named_buffers()]:
            if not t.is_floating_point():
                continue
            random = torch.randn(t.shape, generator=generator, dtype=torch.float64)
            if name.endswith("running_var"):
                random = random.abs() + 0.1
            elif t.ndim == 2:
                random = random * math.sqrt(2 / t.shape[1])
            t.copy_(random)


def mlps(
    features: int,
    *,
    max_depth: int = 4,
    max_width: int = 40,
    activations: Sequence[str] | None = None,
    dtypes: Sequence[str] = ("float32", "float64"),
) -> SearchStrategy[MLP]:
    """Random `xpapply.MLP` networks for slices of `features` values.

    Parameters
    ----------
    features : int
        Length of the slices.
    max_depth : int, optional
        Most layers.
    max_width : int, optional
        Most features between layers.
    activations : sequence of str, optional
        Names from `MLP_ACTIVATIONS`; all of them if they are not given.
    dtypes : sequence of str, optional
        dtypes of the weights.

    Returns
    -------
    SearchStrategy of MLP

    Raises
    ------
    ImportError
        Without Hypothesis.

    Examples
    --------
    >>> import numpy as np
    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5, deadline=None)
    ... @given(mlps(3))
    ... def test(net):
    ...     assert_parity(net, -1, np.ones((2, 3), np.float32))
    >>> test()
    """
    st = _strategies()
    known = _mlp_activations() if activations is None else activations

    def draw_mlp(draw: Any) -> MLP:
        depth = draw(st.integers(1, max_depth))
        widths = draw(st.lists(st.integers(1, max_width), min_size=depth, max_size=depth))
        names = draw(st.lists(st.sampled_from(list(known)), min_size=depth, max_size=depth))
        biased = draw(st.lists(st.booleans(), min_size=depth, max_size=depth))
        dtype = draw(st.sampled_from(list(dtypes)))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        weights, biases, before = [], [], features
        for n, b in zip(widths, biased, strict=True):
            w = rng.standard_normal((n, before)) * math.sqrt(2 / before)
            weights.append(w.astype(dtype))
            biases.append(rng.standard_normal(n).astype(dtype) if b else None)
            before = n
        return MLP(weights, biases, names[:-1], names[-1])

    found: SearchStrategy[MLP] = st.composite(draw_mlp)()
    return found
