"""The reference backend: runs any graph on any array-API namespace.

It is the definition of every op: slow and plain.
Every other backend is tested against it, and libraries without a backend of
their own (JAX, array-api-strict ...) run on it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from .. import arrays
from ..arrays.jitted import KERNEL, constants, program
from ..arrays.layout import boxes
from ..codegen.cost import Estimate
from ..errors import UnsupportedError
from ..ir.batch import LETTER, batch
from ..ir.graph import BATCH, Graph, Node, number
from ..ir.ops import OPS, Kind
from ..ir.rewrite import expand
from ..ir.shapes import Product, as_product
from ..ir.slices.slice_graph import Accumulator
from ..limits import LIMITS
from . import Backend, Lowered

_WHOLE = ("jax", "dask")
"""Libraries whose arrays cannot be written to, or are cut into blocks already."""


def special_function(xp: ModuleType, name: str) -> Callable[[Any], Any] | None:
    """erf and erfc are not in the standard: each library keeps them elsewhere."""
    root = xp.__name__.replace("array_api_compat.", "").partition(".")[0]
    try:
        if root == "torch":
            import torch

            return getattr(torch, name)  # type: ignore[no-any-return]
        if root == "cupy":
            import cupyx.scipy.special as special
        elif root == "jax":
            import jax.scipy.special as special
        elif root == "numpy":
            import scipy.special as special
        else:
            return None
    except ImportError:
        return None
    return getattr(special, name)  # type: ignore[no-any-return]


def missing(xp: ModuleType, graph: Graph) -> str | None:
    """The reason if a library lacks functions for a graph without composites, or None."""
    for node in graph.nodes:
        if node.op == "accumulate":
            by = node.attr("by")
            found = missing(xp, by.combine if by.chunk is None else by.chunk)
            if found is not None:
                return found
            continue
        row = OPS[node.op]
        if row.in_special:
            if special_function(xp, node.op) is None:
                extra = " without SciPy" if xp.__name__ == "numpy" else ""
                return f"{xp.__name__}{extra} has no {node.op}"
        elif node.op == "cast":
            if not hasattr(xp, node.aval.dtype):
                return f"{xp.__name__} has no dtype {node.aval.dtype}"
        elif row.kind is Kind.ALONG and row.join:
            continue
        elif row.kind in (Kind.ELEMENTWISE, Kind.ALONG) and not hasattr(xp, row.api or row.name):
            return f"{xp.__name__} has no {row.api or row.name}"
    return None


class ArrayAPI(Backend):
    """The reference, for arrays of any library. What can be written to may have a subclass."""

    name = "array_api"

    def why_not(self, graph: Graph, given: Sequence[Any]) -> str | None:
        """The reason if the library lacks functions; functions of slices run by `evaluate`."""
        xp = arrays.compat(given[0])
        if graph.any_length:
            return missing(xp, graph)
        return super().why_not(graph, given) or missing(xp, expand(graph))

    def lower(self, graph: Graph, precision: str = "highest") -> ArrayAPILowered:
        return ArrayAPILowered(graph)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        xp = arrays.compat(like)
        return xp.empty(shape, dtype=arrays.dtype_of(xp, dtype), device=arrays.device(like))


BACKEND = ArrayAPI()


def run(graph: Graph, x: Any, axis: int) -> Any:
    """A graph by its definition on the slices of `x`, or on one slice; `UnsupportedError`."""
    refused = BACKEND.why_not(graph, (x,))
    if refused:
        raise UnsupportedError(refused)
    lowered = BACKEND.lower(graph)
    return lowered(x, axis, lowered.bind(graph.consts, x))


class ArrayAPILowered(Lowered):
    """Run one namespace call per node, on a block of slices."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._batched = batch(expand(graph))
        # all values of a block are kept until its end
        nbytes = sum(math.prod(n.aval.shape[:-1]) * 8 for n in self._batched.nodes)
        nbytes += sum(_bytes_of_places(self._batched, n) for n in self._batched.nodes)
        self._rows = max(1, LIMITS.array_api_block // nbytes)
        self.kernels: tuple[str, ...] = ("one array operation per node, in blocks of slices",)
        self._programs: dict[int, Callable[..., Any]] = {}

    def bind(self, consts: tuple[Any, ...], like: Any) -> tuple[Any, ...]:
        """The constants on the library and device of `like`."""
        # torch warns about read-only memory
        native = (c if c.flags.writeable else c.copy() for c in consts)
        with constants(like):
            return tuple(arrays.asarray(c, like) for c in native)

    def __call__(self, x: Any, at: int, bound: tuple[Any, ...], out: Any = None) -> Any:
        """All slices of `x`; the results stand where the applied axis stood."""
        xp = arrays.compat(x)
        slices = math.prod(x.shape[:at] + x.shape[at + 1 :])
        if arrays.library(x) == "jax" and x.ndim > 1:  # one slice alone is what networks call
            return self._program(x, at)(x, bound)
        if out is None and (slices <= self._rows or arrays.library(x) in _WHOLE):
            return _run(self._batched, at, x, bound)
        for box in boxes(x.shape, at, self._rows):
            y = _run(self._batched, at, x[box], bound)
            n = y.ndim - x.ndim + 1
            if out is None:
                shape = (*x.shape[:at], *y.shape[at : at + n], *x.shape[at + 1 :])
                out = xp.empty(shape, dtype=y.dtype, **arrays.beside(y))
            out[(*box[:at], *(slice(None),) * n, *box[at + 1 :], ...)] = y
        return out

    def estimate(self, x: Any, consts: tuple[Any, ...], at: int | None = None) -> Estimate | None:
        """The estimate, which differs for arrays of JAX."""
        if arrays.library(x) != "jax" or x.ndim == 1:
            return None
        return Estimate((KERNEL,), (), None, None)

    def _program(self, x: Any, at: int) -> Callable[..., Any]:
        """All operations as one, for slices along an axis of JAX's arrays."""
        found = self._programs.get(at)
        if found is None:
            found = self._programs[at] = program(functools.partial(_run, self._batched, at), x)
        return found


def _bytes_of_places(graph: Graph, node: Node) -> int:
    """Bytes per slice of positions in all trees, and of look-ups."""
    return 0 if node.op != "trees" else 40 * graph.nodes[node.args[6]].aval.shape[0]


Own = Mapping[int, Callable[[Any], Any]]
"""Other implementations of nodes, by number: functions of the first operand."""


def run_block(batched: Graph, at: int, x: Any, bound: tuple[Any, ...], own: Own) -> Any:
    """The results for a block of slices, which lie along axis `at`; they take its place."""
    return _run(batched, at, x, bound, own)


def _run(batched: Graph, at: int, x: Any, bound: tuple[Any, ...], own: Own | None = None) -> Any:
    """Run one block."""
    xp = arrays.compat(x)
    before, behind = x.shape[:at], x.shape[at + 1 :]
    rows = xp.reshape(xp.moveaxis(x, at, 0), (x.shape[at], -1))
    with np.errstate(all="ignore"):  # torch does not warn about inf and NaN either
        (y,) = evaluate(xp, batched, [rows], bound, own=own)
    y = xp.reshape(y, (*y.shape[:-1], *before, *behind))
    n = y.ndim - len(before) - len(behind)
    order = (*range(n, n + len(before)), *range(n), *range(n + len(before), y.ndim))
    return xp.permute_dims(y, order)


def evaluate(
    xp: ModuleType,
    graph: Graph,
    operands: Sequence[Any],
    consts: Sequence[Any] = (),
    axes: tuple[int, ...] = (),
    own: Own | None = None,
) -> list[Any]:
    """The results of a graph, by one call per node on whole arrays: the definition.

    Parameters
    ----------
    xp : module
        The namespace of the arrays.
    graph : Graph
        What is computed.
    operands : sequence of array
        What the inputs are. Vectors of a graph for slices of any length: of one ndim, that
        broadcast, all alike along `axes`. Numbers may be Python's.
    consts : sequence of array
        What the constants are.
    axes : tuple of int
        The axes of a slice of any length.
    own : mapping, optional
        What computes nodes otherwise, such as a kernel, by their numbers: of the first operand.

    Returns
    -------
    list of array
        Numbers that stand for vectors have length 1 along `axes`.
    """
    like = max((x for x in operands if hasattr(x, "ndim")), key=lambda x: x.ndim)
    length = math.prod(like.shape[a] for a in axes)
    batch_size = like.shape[-1] if like.shape else 1
    values: list[Any] = []
    known: dict[Any, list[Any]] = {}
    for i, node in enumerate(graph.nodes):
        if own and i in own:
            values.append(own[i](values[node.args[0]]))
        elif node.op == "input":
            x = operands[node.attr("k")]
            values.append(x if hasattr(x, "dtype") else _number(xp, node, x, like))
        elif node.op == "const":
            values.append(consts[node.attr("k")])
        elif node.op == "length":
            values.append(_number(xp, node, length, like))
        elif node.op == "scalar":
            values.append(_number(xp, node, number(node), like))
        elif node.op == "accumulate":
            by, key = node.attr("by"), (node.attr("by"), node.args)
            if key not in known:
                known[key] = accumulated(xp, by, [values[a] for a in node.args], axes, length)
            values.append(known[key][node.attr("field")])
        elif OPS[node.op].kind is Kind.REDUCTION and graph.is_vector(node.args[0]):
            values.append(reduced(xp, node.op, values[node.args[0]], axes, True))
        else:
            values.append(apply(xp, node, [values[a] for a in node.args], batch_size))
    return [values[o] for o in graph.outs]


def _number(xp: ModuleType, node: Node, value: Any, like: Any) -> Any:
    return arrays.asarray(value, like, arrays.dtype_of(xp, node.aval.dtype))


def apply(xp: ModuleType, node: Node, args: list[Any], batch_size: int) -> Any:
    """Run one node on arrays of the namespace `xp`."""
    attrs, row = dict(node.attrs), OPS[node.op]
    if node.op == "cast":
        dtype = arrays.dtype_of(xp, attrs["dtype"])
        if dtype is None:
            raise UnsupportedError(f"{xp.__name__} has no dtype {attrs['dtype']}")
        return xp.astype(args[0], dtype)
    if row.in_special:
        function = special_function(xp, node.op)
        assert function is not None
        return function(args[0])
    if row.kind is Kind.ELEMENTWISE:
        return getattr(xp, row.api or row.name)(*args)
    if row.kind is Kind.REDUCTION:
        return reduced(xp, node.op, args[0], attrs["axis"], attrs.get("keepdims", False))
    if row.kind is Kind.ALONG:
        return along(xp, node.op, args, **attrs)
    if row.kind is Kind.CONTRACTION:
        return einsum(xp, attrs["subscripts"], *args)
    if row.kind is Kind.TREES:
        return trees(xp, *args, depth=attrs["depth"])
    if node.op == "concat":
        return xp.concat(args, axis=attrs["axis"])
    if node.op == "permute_dims":
        return xp.permute_dims(args[0], attrs["axes"])
    if node.op == "index":
        return args[0][index_key(attrs["key"])]
    if row.gathers:
        return gathered(xp, node.op, args[0], attrs)
    shape = tuple(batch_size if n == BATCH else n for n in attrs["shape"])
    return getattr(xp, node.op)(args[0], shape)


def reduced(xp: ModuleType, op: str, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """A reduction of the table along some axes."""
    booleans = x.dtype == xp.bool
    if OPS[op].finds_position:
        x = xp.astype(x, xp.uint8) if booleans else x
        if len(axes) == 1:
            return position(xp, op, x, axes[0], keepdims)
        y = position(xp, op, _last(xp, x, axes), -1, False)
        return xp.reshape(y, _kept(y.shape, axes)) if keepdims else y
    if booleans:
        return (xp.any if op in ("sum", "max") else xp.all)(x, axis=axes, keepdims=keepdims)
    # the standard widens small dtypes in sums otherwise
    own = {"dtype": x.dtype} if op in ("sum", "prod") else {}
    return getattr(xp, op)(x, axis=axes, keepdims=keepdims, **own)


def along(xp: ModuleType, op: str, args: Sequence[Any], axis: int, stable: bool = True) -> Any:
    """An op of the table that orders, adds up or picks numbers along an axis."""
    x = args[0]
    join = OPS[op].join
    if join:  # the standard has no largest or smallest so far, and adds in any order
        return _so_far(xp, getattr(xp, join), x, axis)
    if x.dtype == xp.bool and op != "take_along_axis":
        found = along(xp, op, [xp.astype(x, xp.uint8)], axis)
        return xp.astype(found, xp.bool) if op == "sort" else found
    if op == "take_along_axis":
        return xp.take_along_axis(*args, axis=axis)
    return getattr(xp, op)(x, axis=axis, stable=True)  # `stable` asks for no less


def _so_far(xp: ModuleType, join: Callable[[Any, Any], Any], x: Any, axis: int) -> Any:
    x = xp.moveaxis(x, axis, 0)
    found = [x[k, ...] for k in range(min(x.shape[0], 1))]
    for k in range(1, x.shape[0]):
        found.append(join(found[-1], x[k, ...]))
    return xp.moveaxis(xp.stack(found), 0, axis) if found else xp.moveaxis(x, 0, axis)


def position(xp: ModuleType, name: str, x: Any, axis: int, keepdims: bool) -> Any:
    """argmax or argmin with NaN spelled out, which the standard leaves open.

    CuPy's own may give a NaN that is not the first, and JAX's max may lose one.
    The result has the library's own dtype of indices: int64, where it has that.
    """
    best = getattr(xp, name.removeprefix("arg"))(x, axis=axis, keepdims=True)
    found, nan = (xp.astype(y, xp.uint8) for y in (x == best, x != x))
    return xp.argmax(found + 2 * nan, axis=axis, keepdims=keepdims)


def gathered(xp: ModuleType, op: str, x: Any, attrs: dict[str, Any]) -> Any:
    """More numbers along axes, windows along one, or those at some places of it."""
    if op == "pad":
        for axis, pair in enumerate(attrs["widths"]):
            if not any(pair):
                continue
            sides = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in pair]
            number = arrays.asarray(float(attrs["number"]), x, x.dtype)
            before, after = (xp.broadcast_to(number, shape) for shape in sides)
            x = xp.concat([before, x, after], axis=axis)
        return x
    axis = attrs["axis"]
    if op == "take":
        places = arrays.asarray(np.array(attrs["places"], np.int64), x)
        return xp.take(x, places, axis=axis)
    size, step, dilation = attrs["size"], attrs["step"], attrs["dilation"]
    count = (x.shape[axis] - dilation * (size - 1) - 1) // step + 1
    before = (slice(None),) * axis
    starts = (dilation * k for k in range(size))
    pieces = [x[(*before, slice(s, s + step * (count - 1) + 1, step), ...)] for s in starts]
    return xp.stack(pieces, axis=axis + 1)


def trees(
    xp: ModuleType,
    x: Any,
    feature: Any,
    threshold: Any,
    child: Any,
    after: Any,
    values: Any,
    roots: Any,
    start: Any,
    *,
    depth: int,
) -> Any:
    """Sum the leaves of all trees, one tree after the other.

    Slices lie along the last axis of `x`, which has two: ``(M, B)``. All trees go down together.
    """
    count, several = x.shape[1], roots.shape[0]
    flat = xp.reshape(x, (-1,))
    place = xp.broadcast_to(xp.reshape(roots, (-1, 1)), (several, count))
    place = xp.reshape(place, (-1,))
    slices = xp.arange(count, dtype=roots.dtype, **arrays.beside(x))
    slices = xp.reshape(xp.broadcast_to(slices, (several, count)), (-1,))
    for _ in range(depth):
        number = xp.take(flat, xp.take(feature, place) * count + slices)
        second = number > xp.take(threshold, place)
        second = second | ((number != number) & xp.take(after, place))
        place = xp.take(child, place) + xp.astype(second, roots.dtype)
    place = xp.reshape(place, (several, count))
    total = xp.reshape(start, (-1, 1))
    for k in range(several):  # in this order: the sum of an estimator to the last bit
        total = total + xp.permute_dims(xp.take(values, place[k, ...], axis=0), (1, 0))
    return total


def index_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index attribute as Python writes it."""
    return (*(slice(*k) if isinstance(k, tuple) else k for k in key), ...)


def einsum(xp: ModuleType, subscripts: str, *operands: Any) -> Any:
    """einsum, which the standard does not have: align the letters, multiply, sum."""
    sources, _, result = subscripts.partition("->")
    inputs = sources.split(",")
    if subscripts == f"nm,m{LETTER}->n{LETTER}":
        return xp.matmul(*operands)
    product = as_product(subscripts) if len(inputs) == 2 else None
    if product is not None and product.inner and xp.isdtype(operands[0].dtype, "real floating"):
        return _by_matrices(xp, inputs, result, product, operands)
    letters = result + "".join(sorted(set(sources) - set(result) - {","}))
    total = None
    for names, x in zip(inputs, operands, strict=True):
        if len(set(names)) < len(names):
            raise UnsupportedError(f"einsum {subscripts!r} takes a diagonal")
        order = sorted(range(len(names)), key=lambda i: letters.index(names[i]))
        sizes = {names[i]: x.shape[i] for i in order}
        aligned = xp.reshape(
            xp.permute_dims(x, tuple(order)), tuple(sizes.get(k, 1) for k in letters)
        )
        total = aligned if total is None else total * aligned
    summed = tuple(range(len(result), len(letters)))
    return xp.sum(total, axis=summed, dtype=operands[0].dtype) if summed else total


def _by_matrices(
    xp: ModuleType, inputs: Sequence[str], result: str, product: Product, operands: Sequence[Any]
) -> Any:
    """einsum as a stack of products of matrices."""
    sizes: dict[str, int] = {}
    for names, x in zip(inputs, operands, strict=True):
        sizes |= dict(zip(names, x.shape, strict=True))
    stack, rows, inner, columns = product

    def matrices(names: str, x: Any, *parts: str) -> Any:
        order = tuple(names.index(k) for k in "".join(parts))
        lengths = (math.prod(sizes[k] for k in part) for part in parts)
        return xp.reshape(xp.permute_dims(x, order), tuple(lengths))

    left = matrices(inputs[0], operands[0], stack, rows, inner)
    found = xp.matmul(left, matrices(inputs[1], operands[1], stack, inner, columns))
    order = stack + rows + columns
    found = xp.reshape(found, tuple(sizes[k] for k in order))
    return xp.permute_dims(found, tuple(order.index(k) for k in result))


# --- slices of any length ---------------------------------------------------------------------


def accumulated(
    xp: ModuleType, by: Accumulator, vectors: list[Any], axes: tuple[int, ...], length: int
) -> list[Any]:
    """The numbers of an accumulator: length 1 along `axes`."""
    if not length:
        assert by.identity is not None
        shape = [
            1 if a in axes else n
            for a, n in enumerate(np.broadcast_shapes(*(v.shape for v in vectors)))
        ]
        given = zip(by.identity, by.dtypes, strict=True)
        numbers = (arrays.asarray(i, vectors[0], arrays.dtype_of(xp, d)) for i, d in given)
        return [xp.broadcast_to(n, tuple(shape)) for n in numbers]
    if by.chunk is not None:
        return evaluate(xp, by.chunk, vectors, axes=axes)
    return halved(xp, by, [_last(xp, v, axes) for v in vectors], axes)


def halved(xp: ModuleType, by: Accumulator, states: list[Any], axes: tuple[int, ...]) -> list[Any]:
    """Elements along the last axis combined in pairs, these in pairs, until one is left."""
    if len({tuple(s.shape) for s in states}) > 1:  # of arrays that broadcast
        states = list(xp.broadcast_arrays(*states))
    if states[0].shape[-1] == 1:  # nothing is combined: they may be views of the arrays
        states = [fresh(xp, s) for s in states]
    while (n := states[0].shape[-1]) > 1:
        half = n // 2
        first, second = [s[..., :half] for s in states], [s[..., half : 2 * half] for s in states]
        joined = evaluate(xp, by.combine, [*first, *second])
        if n % 2:
            joined = [
                xp.concat([j, s[..., -1:]], axis=-1) for j, s in zip(joined, states, strict=True)
            ]
        states = joined
    return [xp.reshape(s, _kept(s.shape[:-1], axes)) for s in states]


def fresh(xp: ModuleType, x: Any) -> Any:
    """A copy of `x`, through which derivatives go."""
    return x.clone() if hasattr(x, "clone") else xp.asarray(x, copy=True)


def _kept(batch: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of numbers, with length 1 along `axes`."""
    shape = list(batch)
    for a in axes:
        shape.insert(a, 1)
    return tuple(shape)


def _last(xp: ModuleType, x: Any, axes: tuple[int, ...]) -> Any:
    """The axes of the slice as one, at the end."""
    batch = tuple(a for a in range(x.ndim) if a not in axes)
    y = xp.permute_dims(x, (*batch, *axes))
    return xp.reshape(y, (*y.shape[: len(batch)], math.prod(x.shape[a] for a in axes)))


def counts(x: Any, weights: Any, axes: tuple[int, ...], bins: int) -> Any:
    """Count each number in a slice, or sum weights: ``(batch..., bins)``."""
    xp = arrays.compat(x)
    x = xp.astype(x, arrays.dtype_of(xp, "int64"))  # small dtypes would wrap the bins around
    dtype = x.dtype if weights is None else weights.dtype
    zero, one = (arrays.asarray(n, x, dtype) for n in range(2))
    given = one if weights is None else weights
    found = [xp.sum(xp.where(x == k, given, zero), axis=axes, dtype=dtype) for k in range(bins)]
    if not found:  # an axis of length 0
        return xp.sum(xp.where(x == 0, given, zero), axis=axes, dtype=dtype)[..., None][..., :0]
    return xp.stack(found, axis=-1)
