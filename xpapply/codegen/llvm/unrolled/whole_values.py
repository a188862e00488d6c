"""Ops that are not elementwise, of values whose numbers are elements: one function each.

A function has the op's name. It gets the `Values` that write elements, the node, the arrays of
elements that are its operands, and their dtypes, and gives the array of its own elements: with
``values.apply(op, elements, dtype)`` for an elementwise op, ``values.new(make, *elements)`` for
whatever else one element is, and ``values.several`` for what is written in one go.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ....ir.graph import Node
from ....ir.ops import OPS
from .. import operations
from ..registers import INDEX, Register
from ..slice_kernel.states import Reduction, State
from .elements import Array, Element, array_of
from .values import Values

_PARTIAL_SUMS = 8
_IN_A_ROW = 128
"""So many numbers NumPy adds without cutting them in two."""

# --- layout -------------------------------------------------------------------------------


def reshape(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """Another shape."""
    return args[0].reshape(n.aval.shape)


def permute_dims(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """Axes in another order."""
    return args[0].transpose(n.attr("axes"))


def broadcast_to(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """Repeated along axes of length 1."""
    return np.broadcast_to(args[0], n.aval.shape)


def concat(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """Joined along an axis."""
    return np.concatenate(args, axis=n.attr("axis"))


def index(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """Select by an index."""
    key = tuple(slice(*k) if isinstance(k, tuple) else k for k in n.attr("key"))
    return np.asarray(args[0][(*key, ...)], object)


# --- reductions ---------------------------------------------------------------------------


def _rows(n: Node, x: Array) -> Array:
    """The numbers that each result is reduced from: one row each, in C order."""
    axes = n.attr("axis")
    kept = [a for a in range(x.ndim) if a not in axes]
    moved = x.transpose(*kept, *axes)
    size = int(np.prod([x.shape[a] for a in axes]))
    return moved.reshape(int(np.prod([x.shape[a] for a in kept])), size)


def _reduced(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """Reduce, one number after the other."""
    reduction = Reduction(values.writer, n, dtypes[0], values.lanes)

    def begun(k: int, x: Register) -> State:
        return reduction.one([x], _place(values, k))

    def followed(k: int, state: State, x: Register) -> State:
        return reduction.add(state, [x], _place(values, k))

    found = []
    for row in _rows(n, args[0]):
        state = values.new(reduction.start)
        for k, x in enumerate(row):
            if k:
                state = values.new(functools.partial(followed, k), state, x)
            else:
                state = values.new(functools.partial(begun, k), x)
        result = values.new(reduction.result, state)
        found.append(result if reduction.finds else _rounded(values, result, dtypes[0]))
    return array_of(n.aval.shape, found)


def _place(values: Values, k: int) -> Register:
    return values.writer.broadcast(values.writer.constant(k, INDEX), values.lanes)


def _rounded(values: Values, x: Element, dtype: str) -> Element:
    """A number of 16 bits, of what was summed with more."""
    if dtype not in ("float16", "bfloat16"):
        return x
    return values.new(lambda y: operations.cast(values.writer, y, "float32", dtype), x)


prod = argmax = argmin = _reduced


def _extreme(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """The largest or smallest: in any order, and of equal elements one is enough."""
    join = OPS[n.op].join
    if dtypes[0] == "bool":
        join = "logical_or" if n.op == "max" else "logical_and"
    rows = [list(dict.fromkeys(row)) for row in _rows(n, args[0])]
    if not all(rows):
        return _reduced(values, n, args, dtypes)
    return array_of(n.aval.shape, [_joined(values, join, row, dtypes[0]) for row in rows])


def _joined(values: Values, join: str, row: Sequence[Element], dtype: str) -> Element:
    """Both halves of a row, joined."""
    if len(row) == 1:
        return row[0]
    half = len(row) // 2
    parts = [_joined(values, join, x, dtype) for x in (row[:half], row[half:])]
    return values.apply(join, parts, dtype)


max = min = _extreme


def sum(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """Sums in NumPy's order; those of 16 bits are rounded at the end."""
    if dtypes[0] == "bool" or "int" in dtypes[0]:
        return _reduced(values, n, args, dtypes)
    dtype = "float32" if dtypes[0] in ("float16", "bfloat16") else dtypes[0]
    found = []
    for row in _rows(n, args[0]):
        zero = values.constant(0.0, dtype)
        total = (
            values.apply("add", [_pairwise(values, row, dtype), zero], dtype) if len(row) else zero
        )
        found.append(_rounded(values, total, dtypes[0]))
    return array_of(n.aval.shape, found)


def _pairwise(values: Values, row: Sequence[Element], dtype: str) -> Element:
    """A sum in the order that NumPy takes along the fastest axis."""

    def add(a: Element, b: Element) -> Element:
        return values.apply("add", [a, b], dtype)

    n = len(row)
    if n < _PARTIAL_SUMS:
        return functools.reduce(add, row)
    if n > _IN_A_ROW:
        half = n // 2 - n // 2 % _PARTIAL_SUMS
        return add(_pairwise(values, row[:half], dtype), _pairwise(values, row[half:], dtype))
    whole = n - n % _PARTIAL_SUMS
    sums = [functools.reduce(add, row[k:whole:_PARTIAL_SUMS]) for k in range(_PARTIAL_SUMS)]
    while len(sums) > 1:
        sums = [add(a, b) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return functools.reduce(add, row[whole:], sums[0])


# --- sums of products ---------------------------------------------------------------------

_CHAINS = 4
"""Sums of products that one number is the sum of, where it has many."""


def einsum(values: Values, n: Node, args: Sequence[Array], dtypes: Sequence[str]) -> Array:
    """Sums of products, each added as soon as it is there."""
    sources, _, target = n.attr("subscripts").partition("->")
    names = sources.split(",")
    order = target + "".join(sorted(set(sources) - set(target) - {","}))
    sizes: dict[str, int] = {}
    for letters, x in zip(names, args, strict=True):
        sizes |= dict(zip(letters, x.shape, strict=True))
    shape = [sizes[k] for k in order]
    wide = [_spread(x, letters, order, shape) for letters, x in zip(names, args, strict=True)]
    size = int(np.prod(n.aval.shape))
    rows = [x.reshape(size, -1) for x in wide]
    dtype = "float32" if dtypes[0] in ("float16", "bfloat16") else dtypes[0]
    made = [_products(values, [x[k] for x in rows], dtype) for k in range(size)]
    return array_of(n.aval.shape, [_rounded(values, x, dtypes[0]) for x in made])


def _spread(x: Array, letters: str, order: str, shape: Sequence[int]) -> Array:
    """An operand with an axis for each letter."""
    for k in sorted(set(letters)):  # a letter twice: the diagonal
        while letters.count(k) > 1:
            first, second = letters.index(k), letters.rindex(k)
            x = np.moveaxis(x.diagonal(0, first, second), -1, first)
            letters = letters[:second] + letters[second + 1 :]
    there = [k for k in order if k in letters]
    x = x.transpose([letters.index(k) for k in there])
    key = tuple(slice(None) if k in letters else None for k in order)
    return np.broadcast_to(x[key], shape)


def _products(values: Values, rows: Sequence[Array], dtype: str) -> Element:
    """A sum of products."""
    if not len(rows[0]):
        return values.constant(0, dtype)
    chains = _CHAINS if len(rows[0]) > 2 * _CHAINS else 1
    sums = []
    for c in range(chains):
        several = zip(*(row[c::chains] for row in rows), strict=True)
        total: Element | None = None
        for first, *others in several:
            if not others:
                total = first if total is None else values.apply("add", [total, first], dtype)
                continue
            *middle, last = others
            for x in middle:
                first = values.apply("multiply", [first, x], dtype)
            total = _added(values, first, last, total, dtype)
        assert total is not None
        sums.append(total)
    while len(sums) > 1:
        pairs = zip(sums[::2], sums[1::2], strict=True)
        sums = [values.apply("add", [a, b], dtype) for a, b in pairs]
    return sums[0]


def _added(values: Values, x: Element, y: Element, total: Element | None, dtype: str) -> Element:
    if total is None:
        return values.apply("multiply", [x, y], dtype)
    if "float" not in dtype:
        product = values.apply("multiply", [x, y], dtype)
        return values.apply("add", [total, product], dtype)
    return values.new(lambda a, b, c: values.writer.fma(a, b, c), x, y, total)
