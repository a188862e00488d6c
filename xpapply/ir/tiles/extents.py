"""Extents: the places along an axis that a piece of a result needs of each earlier value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..graph import Graph, Node
from ..ops import OPS, Kind

ANY_LENGTH = math.lcm(*range(1, 17))
"""The length of a tile where it makes no difference: steps of windows divide it."""


class NoTiles(Exception):
    """Why a graph has no tiles."""


class Extent(NamedTuple):
    """The places of a value along an axis that tile 0 needs.

    Tile k needs those that are ``k * tile * ratio`` further.

    Attributes
    ----------
    axis : int
        Of the value; -1 where each tile needs all of it.
    start, stop : int
        The places; they may lie beyond the ends.
    ratio : Fraction
        Places of the value for each place of the result.
    """

    axis: int
    start: int
    stop: int
    ratio: Fraction

    @property
    def length(self) -> int:
        return self.stop - self.start


WHOLE = Extent(-1, 0, 0, Fraction(0))


def extents_of(graph: Graph, roots: Sequence[int], axis: int, tile: int) -> dict[int, Extent]:
    """The extents of a tile, back to the roots."""
    dependent = graph.dependent()
    found = {graph.out: Extent(axis, 0, tile, Fraction(1))}
    for i in reversed(graph.needed(graph.outs, roots)):
        n, own = graph.nodes[i], found.get(i)
        if own is None:
            continue
        for k, a in enumerate(n.args):
            need = needed(graph, n, k, own, dependent[a])
            if need is None:
                continue
            known = found.get(a)
            if known is not None:
                if known.axis != need.axis or known.ratio != need.ratio:
                    raise NoTiles(f"{n.op} takes a value along two axes, or in two steps")
                low, high = min(known.start, need.start), max(known.stop, need.stop)
                need = need._replace(start=low, stop=high)
            found[a] = need
    if not found.keys() >= set(roots):
        raise NoTiles("the result does not depend on the slice")
    for i, e in found.items():
        if (e.ratio * tile).denominator != 1:
            raise NoTiles(
                f"{tile} places of the result are {e.ratio * tile} of {graph.nodes[i].op}"
            )
    return found


def needed(graph: Graph, n: Node, k: int, own: Extent, dependent: bool) -> Extent | None:
    """The extent of operand `k` for a node; None: a constant that is equal at all places."""
    kind, attrs = OPS[n.op].kind, dict(n.attrs)
    shape = graph.nodes[n.args[k]].aval.shape
    a = own.axis
    if a < 0:
        return WHOLE if dependent else None
    if kind is Kind.CONTRACTION:
        sources, _, result = attrs["subscripts"].partition("->")
        letters, letter = sources.split(",")[k], result[a]
        a = letters.find(letter)
        if dependent and letters.count(letter) == 1:
            return own._replace(axis=a)
    elif kind in (Kind.ELEMENTWISE, Kind.COMPOSITE) or n.op in ("cast", "broadcast_to"):
        a -= len(n.aval.shape) - len(shape)
        if a >= 0 and shape[a] == 1:
            a = -1
        if dependent:
            return own._replace(axis=a) if a >= 0 else WHOLE
    elif not dependent:
        raise NoTiles(f"{n.op} of a constant")
    elif kind is Kind.REDUCTION:
        axes = attrs["axis"]
        kept = [d for d in range(len(shape)) if attrs.get("keepdims") or d not in axes]
        if kept[a] not in axes:
            return own._replace(axis=kept[a])
    elif kind is Kind.LAYOUT:
        found = _moved(n, attrs, own, shape)
        if found is not None:
            return found
    if dependent:
        raise NoTiles(f"{n.op} takes all places at once")
    if a >= 0:
        raise NoTiles(f"{n.op} takes a constant that differs from place to place")
    return None


def _moved(n: Node, attrs: dict[str, Any], own: Extent, shape: tuple[int, ...]) -> Extent | None:
    """The extent of a layout op's operand; None where it mixes the axis with others."""
    a = own.axis
    if n.op == "permute_dims":
        return own._replace(axis=attrs["axes"][a])
    if n.op == "concat":
        return None if attrs["axis"] == a else own
    if n.op == "pad":
        widths = attrs["widths"]
        before = widths[a][0] if a < len(widths) else 0
        return own._replace(start=own.start - before, stop=own.stop - before)
    if n.op == "windows":
        axis, step = attrs["axis"], attrs["step"]
        if a < axis:
            return own
        if a > axis:
            return own._replace(axis=a - 1) if a > axis + 1 else None
        reach = attrs["dilation"] * (attrs["size"] - 1) + 1
        return Extent(a, own.start * step, (own.stop - 1) * step + reach, own.ratio * step)
    if n.op == "take":
        if attrs["axis"] != a:
            return own
        places, size = np.array(attrs["places"]), shape[a]
        by = len(places) // size
        if not by or len(places) % size or (places != np.arange(len(places)) // by).any():
            return None
        return Extent(a, own.start // by, (own.stop - 1) // by + 1, own.ratio / by)
    if n.op == "index":
        return _indexed(attrs["key"], own, shape)
    if n.op == "reshape":
        return _reshaped(own, shape, n.aval.shape)
    return None


def _indexed(key: Sequence[Any], own: Extent, shape: tuple[int, ...]) -> Extent | None:
    axis, result = 0, 0
    for k in key:
        here = result == own.axis
        if k is None:
            if here:
                return None
            result += 1
            continue
        if isinstance(k, tuple):
            if here:
                start, _, step = slice(*k).indices(shape[axis])
                if step < 1:
                    return None
                first, last = start + own.start * step, start + (own.stop - 1) * step
                return Extent(axis, first, last + 1, own.ratio * step)
            result += 1
        axis += 1
    return own._replace(axis=axis + own.axis - result)


def _reshaped(own: Extent, before: tuple[int, ...], after: tuple[int, ...]) -> Extent | None:
    """The source of an axis under reshape: one of the same length, or a renumbered one."""
    a, n = own.axis, after[own.axis]
    above = math.prod(after[:a])
    for b, m in enumerate(before):
        outside = math.prod(before[:b])
        if m == 1 or outside != above:
            continue
        if m == n:
            return own._replace(axis=b)
        if n % m == 0 and math.prod(before[b:][: _within(before[b:], n)]) == n:
            by = n // m  # places, and what lies between two of them, become one axis
            return Extent(b, own.start // by, (own.stop - 1) // by + 1, own.ratio / by)
        if m % n == 0 and math.prod(after[a:][: _within(after[a:], m)]) == m:
            by = m // n
            return Extent(b, own.start * by, own.stop * by, own.ratio * by)
        return None
    return None


def _within(shape: tuple[int, ...], size: int) -> int:
    """The number of leading axes with at most `size` elements together."""
    count, total = 0, 1
    for n in shape:
        if total * n > size:
            break
        total *= n
        count += 1
    return count
