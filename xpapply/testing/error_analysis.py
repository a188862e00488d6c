"""Running error analysis: bounds on the rounding errors of a graph's results."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..backends import array_api
from ..ir.batch import batch
from ..ir.graph import Graph, number
from ..ir.ops import OPS, Kind
from ..ir.rewrite import expand

SAFETY = 8.0
"""The bound of a result, in standard deviations of its rounding error."""
FUNCTION_ULPS = 4.0
"""Error of exp, tanh, erf ... in last places: what CUDA and vector libraries promise."""
PLAIN_ULPS = 64.0
"""Error of a result whose graph is not known, in last places of its largest element."""

ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
_TINY = {"float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
_LARGEST = {"float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.4e38, "float64": 1.79e308}


def _largest(u: float) -> float:
    return next(_LARGEST[name] for name, value in ROUNDOFF.items() if value == u)


def rounding_errors(graph: Graph, rows: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on the errors of `graph`'s results when it is computed in `dtype`.

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
    u, tiny, largest = ROUNDOFF[dtype], _TINY[dtype], _LARGEST[dtype]
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
                    own = ROUNDOFF.get(node.aval.dtype, u) if node.op == "cast" else u
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
    """The largest distance from the first maximum of `x`, along axis 0, to another candidate.

    In units of which `SAFETY` are allowed.
    """
    low, high = x - SAFETY * e, x + SAFETY * e
    largest = _largest(u)  # beyond it a number may be infinite
    low = np.where(low < -largest, -np.inf, np.minimum(low, largest))
    high = np.where(high > largest, np.inf, np.maximum(high, -largest))
    infinite, nan = np.isinf(x), np.isnan(x)
    low, high = (np.where(infinite, x, np.where(nan, np.inf, v)) for v in (low, high))
    # found where none before it is surely as large, and none after it surely larger
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
