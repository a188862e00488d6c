"""Writes the graph of a tile: what a piece of a result needs, computed of a window; see `tiles`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..builder import Builder, Value
from ..graph import Graph, Node, ShapeDtype, scalar_type
from ..ops import OPS, F, Kind
from ..rewrite import expand
from .extents import ANY_LENGTH, Extent, NoTiles, extents_of, needed
from .tiles import Mask, Source, TiledAxis, Tiles, Window


def axes_of(graph: Graph) -> dict[int, int]:
    """The axes of the result along which there may be tiles, and their lengths.

    Of a result that is made flat at the end they are those of what it is made of.
    """
    graph = _with_axes(graph)
    found: dict[int, int] = {}
    taken: set[tuple[int, int]] = set()
    roots = _roots(graph)
    for axis, n in enumerate(graph.result.shape):
        if n < 2:
            continue
        try:
            extents = extents_of(graph, roots, axis, ANY_LENGTH)
        except NoTiles:
            continue
        own = {(root, extents[root].axis) for root in roots if extents[root].axis >= 0}
        if own and not own & taken:
            taken |= own
            found[axis] = n
    return found


def tiled(graph: Graph, sizes: dict[int, int]) -> Tiles:
    """Tiles of a graph that has a result of one array.

    Parameters
    ----------
    graph : Graph
        Of a slice, which may be flat. It may have several inputs: values that a slice is made of,
        one after the other.
    sizes : dict of int to int
        Axes of the result that are cut, as `axes_of` finds them, and how long a tile's result is
        along each. Without any a slice is one tile.

    Raises
    ------
    NoTiles
        If a number of the result depends on more than what is near it, or the sizes do not fit
        the steps of windows.

    Examples
    --------
    >>> from xpapply.ir.builder import Builder
    >>> from xpapply.ir.graph import ShapeDtype
    >>> from xpapply.ir.tiles.windows import padded, strided
    >>> x = Builder().input(ShapeDtype((100,), "float32"))
    >>> y = F.max(strided(padded(x, 0, 1, 1), 0, 3), axis=(1,), keepdims=False)
    >>> found = tiled(y.builder.graph(y), {0: 32})
    >>> (axis,) = found.axes
    >>> axis.windows, axis.count
    ((Window(axis=0, size=100, start=-1, stop=33, step=32),), 4)
    >>> found.graph.input, found.graph.result  # 34 numbers, and 34 whether they are inside
    (ShapeDtype(shape=(68,), dtype='float32'), ShapeDtype(shape=(32,), dtype='float32'))
    """
    graph = _with_axes(graph)
    roots = _roots(graph)
    extents = [extents_of(graph, roots, axis, n) for axis, n in sizes.items()]
    for i in extents[0] if extents else ():
        own = [e[i].axis for e in extents if e[i].axis >= 0]
        if len(set(own)) < len(own):
            raise NoTiles(f"two axes become one in {graph.nodes[i].op}")
    return _Writer(graph, roots, extents, sizes).tiles()


def _with_axes(graph: Graph) -> Graph:
    """The graph in which each op says which axes it works on, and slices have theirs at first.

    A result that is made flat at the end has those that it had before: its numbers lie the same.
    """
    keep = {n.op for n in graph.nodes if "axis" not in dict(n.attrs)}
    graph = _shaped_first(expand(graph, keep))
    if len(graph.result.shape) != 1:
        return graph
    out, roots = graph.out, _roots(graph)
    while out not in roots and _is_renumbered(graph, out):
        (out,) = graph.nodes[out].args
    return replace(graph, outs=(out,))


def _is_renumbered(graph: Graph, i: int) -> bool:
    """Whether a node has the numbers of another value in order, with other axes."""
    n = graph.nodes[i]
    if n.op == "index":
        before = graph.nodes[n.args[0]].aval
        forward = all(not isinstance(k, tuple) or (k[2] or 1) > 0 for k in n.attr("key"))
        return forward and math.prod(before.shape) == math.prod(n.aval.shape)
    return n.op == "reshape"


def _shaped_first(graph: Graph) -> Graph:
    """The graph, where a flat slice that is cast and then gets its shape gets that first."""
    if len(graph.inputs) > 1:
        return graph
    cast = _user(graph, graph.entry, "cast")
    shaped = None if cast is None else _user(graph, cast, "reshape")
    if cast is None or shaped is None:
        return graph
    nodes = list(graph.nodes)
    by, to = nodes[cast], nodes[shaped]
    before = ShapeDtype(to.aval.shape, graph.input.dtype)
    nodes[cast] = Node("reshape", by.args, to.attrs, before)
    nodes[shaped] = Node("cast", to.args, by.attrs, to.aval)
    return replace(graph, nodes=tuple(nodes))


def _user(graph: Graph, i: int, op: str) -> int | None:
    """The node that alone uses another, if it is of an op."""
    users = [k for k, n in enumerate(graph.nodes) if i in n.args]
    return users[0] if len(users) == 1 and graph.nodes[users[0]].op == op else None


def _roots(graph: Graph) -> tuple[int, ...]:
    """The slice in its own shape, or the values that it is made of."""
    if len(graph.inputs) > 1:
        return graph.inputs
    shaped = _user(graph, graph.entry, "reshape")
    return (graph.entry if shaped is None else shaped,)


def _is_padded(n: Node, e: Extent) -> bool:
    """Whether a `pad` adds numbers along the axis of an extent."""
    widths = n.attr("widths")
    return 0 <= e.axis < len(widths) and any(widths[e.axis])


class _Writer:
    """Writes a graph for the extents of a tile."""

    def __init__(
        self,
        graph: Graph,
        roots: tuple[int, ...],
        extents: list[dict[int, Extent]],
        sizes: dict[int, int],
    ) -> None:
        self._graph, self._roots, self._extents = graph, roots, extents
        self._needed = graph.needed(graph.outs, roots)
        self._tile = tuple(sizes.values())
        self._dependent = graph.dependent()
        self._builder = Builder(graph.consts)
        self._masks: list[dict[Mask, int]] = [{} for _ in sizes]
        self._out_axes = tuple(sizes)
        self._find_masks()

    def _find_masks(self) -> None:
        """All masks, before the input is written: its length has theirs."""
        for i, n in enumerate(self._graph.nodes):
            if n.op != "pad" or not self._lives(i):
                continue
            for d, extents in enumerate(self._extents):
                if _is_padded(n, extents[i]):
                    own = self._masks[d]
                    own.setdefault(self._mask(i, d), sum(m.stop - m.start for m in own))

    def _lives(self, i: int) -> bool:
        return self._dependent[i] and i in self._needed

    def _mask(self, i: int, d: int) -> Mask:
        """The mask of padding by node `i`."""
        n = self._graph.nodes[i]
        (need,) = self._need(i, 0, d)
        size = self._graph.nodes[n.args[0]].aval.shape[need.axis]
        return Mask(need.start, need.stop, int(need.ratio * self._tile[d]), size)

    def _need(self, i: int, k: int, d: int | None = None) -> list[Extent]:
        """The extents of operand `k` of node `i`, along all cut axes or one."""
        n = self._graph.nodes[i]
        every = self._extents if d is None else [self._extents[d]]
        found = [needed(self._graph, n, k, e[i], True) for e in every]
        return [e for e in found if e is not None]

    def tiles(self) -> Tiles:
        """The graph, and how slices are cut."""
        graph, avals = self._graph, [self._graph.nodes[root].aval for root in self._roots]
        sources: list[Source] = []
        start = 0
        for root, aval in zip(self._roots, avals, strict=True):
            window = list(aval.shape)
            for e in self._extents:
                if e[root].axis >= 0:
                    window[e[root].axis] = e[root].length
            sources.append(Source(start, aval.shape, tuple(window)))
            start += math.prod(aval.shape)
        self._windows = sum(math.prod(s.window) for s in sources)
        done, casts = self._entry(sources, avals[0].dtype)
        for i in self._needed:
            n = graph.nodes[i]
            if i in casts:
                done[i] = self._cut(done[n.args[0]], n.args[0], self._need(i, 0))
            elif not self._dependent[i]:
                args = [done[a] for a in n.args]
                leaf = OPS[n.op].kind is Kind.LEAF
                done[i] = (
                    self._builder.add(n) if leaf else self._builder.op(n.op, *args, **dict(n.attrs))
                )
            else:
                done[i] = self._written(i, done)
        axes = []
        for d, e in enumerate(self._extents):
            out_axis = self._out_axes[d]
            windows = [
                None
                if e[root].axis < 0
                else Window(
                    axis=e[root].axis,
                    size=aval.shape[e[root].axis],
                    start=e[root].start,
                    stop=e[root].stop,
                    step=int(e[root].ratio * self._tile[d]),
                )
                for root, aval in zip(self._roots, avals, strict=True)
            ]
            out_size, masks = graph.result.shape[out_axis], tuple(self._masks[d])
            axes.append(TiledAxis(out_axis, out_size, self._tile[d], tuple(windows), masks))
        written = self._builder.graph(done[graph.out])
        return Tiles(written, tuple(sources), tuple(axes), math.prod(graph.result.shape))

    def _entry(self, sources: list[Source], dtype: str) -> tuple[dict[int, Value], list[int]]:
        """The windows as inputs, and the nodes that are views of them, after a cast.

        The input itself is kept for the masks.
        """
        masks = sum(m.stop - m.start for own in self._masks for m in own)
        x = self._builder.input(ShapeDtype((self._windows + masks,), dtype))
        users = {i for i in self._needed if set(self._graph.nodes[i].args) & set(self._roots)}
        casts = [i for i in users if self._graph.nodes[i].op == "cast"]
        dtypes = {self._graph.nodes[i].aval.dtype for i in casts}
        if len(casts) < len(users) or len(dtypes) != 1 or self._graph.out in casts:
            casts = []
        else:
            x = F.cast(x, dtype=dtypes.pop())
        self._input, done, at = x, {}, 0
        for root, source in zip(self._roots, sources, strict=True):
            n = math.prod(source.window)
            window = F.index(x, key=((at, at + n, 1),)) if x.shape != (n,) else x
            shaped = window.shape == source.window
            done[root] = window if shaped else F.reshape(window, shape=source.window)
            at += n
        return done, casts

    def _inside(self, mask: Mask, d: int, e: Extent, shape: tuple[int, ...]) -> Value:
        """A mask for all numbers of a value of a shape."""
        before = sum(m.stop - m.start for own in self._masks[:d] for m in own)
        start = self._windows + before + self._masks[d][mask]
        x = F.index(self._input, key=((start, start + mask.stop - mask.start, 1),))
        behind = len(shape) - 1 - e.axis
        x = F.reshape(x, shape=(*x.shape, *(1,) * behind)) if behind else x
        return F.broadcast_to(x, shape=shape)

    def _written(self, i: int, done: dict[int, Value]) -> Value:
        """A node, of what its operands are for a tile."""
        n, attrs = self._graph.nodes[i], dict(self._graph.nodes[i].attrs)
        args = [
            self._cut(done[a], a, self._need(i, k)) if self._dependent[a] else done[a]
            for k, a in enumerate(n.args)
        ]
        own = [e[i] for e in self._extents]
        if n.op == "pad":
            return self._padded(i, args[0], attrs)
        if n.op == "broadcast_to":
            shape = list(attrs["shape"])
            for e in own:
                if e.axis >= 0:
                    shape[e.axis] = e.length
            attrs["shape"] = tuple(shape)
        elif n.op == "reshape":
            return self._reshaped(n, args[0], own, self._need(i, 0))
        elif n.op == "take":
            for e, need in zip(own, self._need(i, 0), strict=True):
                if e.axis == attrs["axis"]:
                    by = int(e.ratio / need.ratio)
                    places = np.arange(e.start, e.stop) // by - need.start
                    attrs["places"] = tuple(map(int, places))
        elif n.op == "index":
            attrs["key"] = self._key(attrs["key"], self._need(i, 0))
        return self._builder.op(n.op, *args, **attrs)

    def _cut(self, x: Value, a: int, need: list[Extent]) -> Value:
        """Cut a value to the extent that a node needs."""
        key: list[Any] = [(None, None, None)] * len(x.shape)
        for extents, e in zip(self._extents, need, strict=True):
            start = e.start - extents[a].start
            if e.axis >= 0 and (start, e.length) != (0, extents[a].length):
                key[e.axis] = (start, start + e.length, 1)
        while key and key[-1] == (None, None, None):
            key.pop()
        return F.index(x, key=tuple(key)) if key else x

    def _padded(self, i: int, x: Value, attrs: dict[str, Any]) -> Value:
        """Choose padding along cut axes by masks."""
        widths = list(attrs["widths"])
        chosen = []
        for d, extents in enumerate(self._extents):
            if _is_padded(self._graph.nodes[i], extents[i]):
                widths[extents[i].axis] = (0, 0)
                (need,) = self._need(i, 0, d)
                chosen.append((self._mask(i, d), d, need))
        if any(any(pair) for pair in widths):
            x = self._builder.op("pad", x, widths=tuple(widths), number=attrs["number"])
        if not chosen:
            return x
        masks = [self._inside(*which, x.shape) for which in chosen]
        if masks[0].aval.dtype == "bool":
            inside = functools.reduce(F.logical_and, masks)
        else:  # of one shape, and few operations: they run with what is computed before. An engine
            # may have any number above 0 for what is inside
            inside = functools.reduce(F.minimum, masks) > 0
        return self._builder.op("where", inside, x, self._number(attrs["number"], x.aval.dtype))

    def _number(self, text: str, dtype: str) -> Value:
        """The number that is padded, in the dtype of what it is beside, as `pad` casts it."""
        try:
            found = scalar_type(dtype)(float(text))
            if dtype.startswith(("int", "uint")):
                np.asarray(found, dtype)
        except (OverflowError, ValueError):
            raise NoTiles(f"pad with {text} among {dtype} numbers") from None
        return self._builder.scalar(found, dtype)

    def _reshaped(self, n: Node, x: Value, own: list[Extent], need: list[Extent]) -> Value:
        """A reshape whose axes that are cut have other lengths; their places may be finer."""
        shape = list(n.aval.shape)
        key: list[Any] = [(None, None, None)] * len(shape)
        for e, before in zip(own, need, strict=True):
            if e.axis < 0:
                continue
            by = before.ratio / e.ratio
            start, length = int(before.start / by), int(before.length / by)
            shape[e.axis] = length
            if (start, length) != (e.start, e.length):
                key[e.axis] = (e.start - start, e.start - start + e.length, 1)
        y = F.reshape(x, shape=tuple(shape))
        return y if all(k == (None, None, None) for k in key) else F.index(y, key=tuple(key))

    def _key(self, key: Sequence[Any], need: list[Extent]) -> tuple[Any, ...]:
        """An index of what it needs, from its first place to its last."""
        found, axis = [], 0
        cut = {e.axis: e for e in need if e.axis >= 0}
        for k in key:
            if isinstance(k, tuple) and axis in cut:
                k = (0, cut[axis].length, k[2] or 1)
            found.append(k)
            axis += k is not None
        return tuple(found)
