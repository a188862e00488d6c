"""Index maps: numbers that a step reads and their positions, and products by axes.

Moving numbers is nothing but arithmetic with positions. Where these grow evenly along every axis,
loops count them; a convolution then reads its windows in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..ir.graph import Graph


class Dim(NamedTuple):
    """An axis of a loop.

    Attributes
    ----------
    size : int
        How often.
    read, write : int
        Rows from one number that is read to the next, and from one result to the next.
    number : int
        The same in the value that is computed, which is not the result where numbers are joined.
    """

    size: int
    read: int
    write: int = 0
    number: int = 0


@dataclass(frozen=True)
class Product:
    """Constants times a value, summed up: ``W @ x``, or filters at every place.

    Attributes
    ----------
    matrix, source : int
        The nodes.
    order : tuple of int
        The axes of the constants: that of groups if there is one, of outputs if there is one,
        of terms.
    base : int
        The row of the value's first number, counted from that of the rows that it lies in.
    groups, outputs : Dim
        Of size 1 where there is none.
    places, terms : tuple of Dim
        The outermost first.
    taps : tuple of (int, int)
        What is joined to one result: `read` and `number` of each, beyond the first.
    joins : str
        The reduction that joins them, or "".
    """

    matrix: int
    source: int
    order: tuple[int, ...]
    base: int
    groups: Dim
    outputs: Dim
    places: tuple[Dim, ...]
    terms: tuple[Dim, ...]
    taps: tuple[tuple[int, int], ...] = ((0, 0),)
    joins: str = ""

    @property
    def count(self) -> int:
        """The number of terms of a sum."""
        return math.prod(d.size for d in self.terms)


class Letters(NamedTuple):
    """The letters of a product's subscripts, by what they are."""

    matrix: str
    source: str
    result: str
    groups: str
    outputs: str
    places: str
    terms: str


def letters_of(graph: Graph, dependent: Sequence[bool], i: int) -> Letters | None:
    """Letters of an einsum of constants with a value, or None for other nodes."""
    n = graph.nodes[i]
    if n.op != "einsum" or [dependent[a] for a in n.args].count(True) != 1:
        return None
    swapped, subscripts = dependent[n.args[0]], n.attr("subscripts")
    sources, _, result = subscripts.partition("->")
    names = sources.split(",")
    if len(names) != 2 or any(len(set(k)) < len(k) for k in (*names, result)):
        return None
    w, x = names[::-1] if swapped else names
    groups = "".join(k for k in result if k in w and k in x)
    outputs = "".join(k for k in result if k in w and k not in x)
    places = "".join(k for k in result if k in x and k not in w)
    terms = "".join(k for k in w if k in x and k not in result)
    known = {*groups, *outputs, *places, *terms}
    if len(groups) > 1 or len(outputs) > 1 or not {*w, *x} <= known or not terms:
        return None
    return Letters(w, x, result, groups, outputs, places, terms)


def product(graph: Graph, i: int, k: int, found: Letters, positions: np.ndarray) -> Product | None:
    """Index maps of product `i`; the value of operand ``1 - k`` has `positions`.

    None where these grow unevenly.
    """
    n = graph.nodes[i]
    even = affine(positions)
    if even is None:
        return None
    base, steps = even
    read = dict(zip(found.source, steps, strict=True))
    size = dict(zip(found.source, positions.shape, strict=True))
    size |= dict(zip(found.matrix, graph.nodes[n.args[k]].aval.shape, strict=True))
    shape = [size[c] for c in found.result]
    write = dict(zip(found.result, contiguous(shape), strict=True))

    def dim(c: str) -> Dim:
        return Dim(size[c], read.get(c, 0), write.get(c, 0), write.get(c, 0))

    one = Dim(1, 0)
    letters = found.groups + found.outputs + found.terms
    return Product(
        n.args[k],
        n.args[1 - k],
        tuple(found.matrix.index(c) for c in letters),
        base,
        dim(found.groups) if found.groups else one,
        dim(found.outputs) if found.outputs else one,
        merged([dim(c) for c in found.places]),
        merged([dim(c) for c in found.terms]),
    )


def pooled(whole: Product, op: str, table: np.ndarray) -> Product | None:
    """A product whose results are joined at once; `table`: which of them, for each that is left.

    None where these are no windows beside each other.
    """
    dims = whole.groups, whole.outputs, *whole.places
    numbers, reads = np.zeros(1, int), np.zeros(1, int)
    for d in dims:
        every = np.arange(d.size)[:, None]
        numbers, reads = (numbers + every * d.number).ravel(), (reads + every * d.read).ravel()
    read = np.zeros(numbers.size, int)
    read[numbers] = reads
    if np.unique(table).size < table.size:
        return None  # what two windows have in common would be computed twice
    apart = [(t - t[..., :1]).reshape(-1, t.shape[-1]) for t in (read[table], table)]
    if any((t != t[0]).any() for t in apart):
        return None
    first, g, n = table[..., 0], whole.groups, whole.outputs
    if g.size > 1 and n.size > 1 and first.shape[:1] == (g.size * n.size,):
        first = first.reshape(g.size, n.size, *first.shape[1:])
    by_number, by_read = affine(first), affine(read[first])
    if by_number is None or by_read is None or by_number[0] or by_read[0]:
        return None
    groups, outputs, places = g, n, []
    steps = zip(first.shape, by_read[1], contiguous(first.shape), by_number[1], strict=True)
    for d in (Dim(*given) for given in steps):
        if d.size > 1 and (d.size, d.number) == (g.size, g.number):
            groups = d
        elif d.size > 1 and (d.size, d.number) == (n.size, n.number):
            outputs = d
        elif d.size > 1:
            places.append(d)
    if groups.size * outputs.size * math.prod(d.size for d in places) != first.size:
        return None
    if (groups.size, outputs.size) != (g.size, n.size):
        return None
    taps = tuple(zip(*(t[0].tolist() for t in apart), strict=True))
    return replace(
        whole, groups=groups, outputs=outputs, places=merged(places), taps=taps, joins=op
    )


def contiguous(shape: Sequence[int]) -> list[int]:
    """Steps of numbers side by side, in C order."""
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def merged(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The same index map with as few axes as possible."""
    found: list[Dim] = []
    for d in dims:
        if d.size == 1:
            continue
        if found and found[-1][1:] == tuple(d.size * step for step in d[1:]):
            found[-1] = d._replace(size=found[-1].size * d.size)
        else:
            found.append(d)
    return tuple(found)


def affine(table: np.ndarray) -> tuple[int, tuple[int, ...]] | None:
    """``table[i, j, ...] == base + i * steps[0] + j * steps[1] + ...``, or None."""
    if not table.size:
        return None
    base = int(table.flat[0])
    steps = []
    for axis, size in enumerate(table.shape):
        second = tuple(int(a == axis) for a in range(table.ndim))
        steps.append(int(table[second]) - base if size > 1 else 0)
    want = np.full((1,) * table.ndim, base)
    for axis, (size, step) in enumerate(zip(table.shape, steps, strict=True)):
        want = want + (step * np.arange(size)).reshape(-1, *(1,) * (table.ndim - axis - 1))
    return (base, tuple(steps)) if np.array_equal(want, table) else None


def moved(op: str, attrs: dict[str, Any], source: np.ndarray) -> np.ndarray:
    """The positions of the result of an op that moves numbers, from those of its operand.

    Numbers that padding adds have the position -1.
    """
    if op == "permute_dims":
        return source.transpose(attrs["axes"])
    if op == "index":
        return source[tuple(slice(*k) if isinstance(k, tuple) else k for k in attrs["key"])]
    if op == "broadcast_to":
        return np.broadcast_to(source, attrs["shape"])
    if op == "take":
        return source.take(attrs["places"], attrs["axis"])
    if op == "pad":
        return np.pad(source, attrs["widths"], constant_values=-1)
    if op == "windows":
        axis, size, apart = attrs["axis"], attrs["size"], attrs["dilation"]
        reach = apart * (size - 1) + 1
        found = np.lib.stride_tricks.sliding_window_view(source, reach, axis)
        every = (*(slice(None),) * axis, slice(None, None, attrs["step"]))
        return np.moveaxis(found[..., ::apart], -1, axis + 1)[every]
    assert op == "reshape", op
    return source.reshape(attrs["shape"])


def strided(table: np.ndarray) -> tuple[int, list[tuple[int, int]]] | None:
    """``table[k]`` as a base and loops (size, step), the outermost first, which count up to k.

    None where no such loops have these numbers in this order.
    """
    flat = np.asarray(table).reshape(-1)
    loops: list[tuple[int, int]] = []
    while flat.size > 1:
        step = int(flat[1] - flat[0])
        breaks = np.flatnonzero(np.diff(flat) != step)
        size = int(breaks[0]) + 1 if breaks.size else flat.size
        if flat.size % size:
            return None
        rows = flat.reshape(-1, size)
        if (rows - rows[:, :1] != step * np.arange(size)).any():
            return None
        loops.insert(0, (size, step))
        flat = rows[:, 0]
    return int(flat[0]), loops
