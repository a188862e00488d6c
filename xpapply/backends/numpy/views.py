"""Views of a function's arrays, with as few dims as possible, in a good order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...arrays.layout import Layout, Operand, merged, slowest_first
from ...limits import LIMITS


class Dim(NamedTuple):
    """Neighbouring axes that are one step in memory, for all arrays."""

    size: int
    axis: int
    """The fastest of them."""
    applied: bool
    steps: tuple[int, ...]
    """Strides of the inputs and the results, and of positions in a slice."""


class View(NamedTuple):
    """A view of an array: its shape, and the axis of each dim (negative)."""

    shape: tuple[int, ...]
    axes: tuple[int | None, ...]
    size: int
    in_order: bool

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if self.in_order:  # the quick ways
            if x.shape == self.shape:
                return x
            if x.flags.c_contiguous and x.size == self.size:
                return x.reshape(self.shape)
        strides = tuple(0 if a is None else x.strides[a] for a in self.axes)
        return as_strided(x, self.shape, strides)


class Seen:
    """The arrays of a layout with the dims that blocks have.

    Attributes
    ----------
    dims : list of Dim
        In the order of a block.
    memory : list of int
        Positions in `dims`, slowest in memory first.
    shape, numbers : tuple of int
        Of vectors, and of numbers: these have length 1 along the slice.
    axes, weights : tuple of int
        The dims of the slice, and how far apart neighbours along them are in its own order.
    transposed : bool
        Whether blocks have their axes in another order than memory.
    across : bool
        Whether the inner loops of a block run across slices.
    inputs : list of View or None
        None for numbers.
    """

    def __init__(self, layout: Layout) -> None:
        memory = _dims(layout)
        order = _block_order(memory)
        self._layout = layout
        self.dims = [memory[k] for k in order]
        self.memory = [order.index(k) for k in range(len(memory))]
        self.shape = tuple(d.size for d in self.dims)
        self.numbers = tuple(1 if d.applied else d.size for d in self.dims)
        self.axes = tuple(k for k, d in enumerate(self.dims) if d.applied)
        self.weights = tuple(d.steps[-1] for d in self.dims if d.applied)
        self.slices, self.length = math.prod(self.numbers), layout.length
        self.transposed = order != tuple(range(len(order)))
        self.across = not self.dims[-1].applied
        self.inputs = [None if o.strides is None else self._input(o) for o in layout.inputs]

    def _input(self, operand: Operand) -> View:
        strides, ndim = operand.strides or (), len(self._layout.shape)
        axes = [d.axis - ndim if d.size != 1 and strides[d.axis] else None for d in self.dims]
        return self._view(axes, self.shape)

    def _view(self, axes: Sequence[int | None], shape: tuple[int, ...]) -> View:
        present = [d.axis for d in self.dims if d.size != 1]
        return View(shape, tuple(axes), math.prod(shape), present == sorted(present))

    def result(self, vector: bool, ndim: int) -> View:
        """The view of a result of `ndim` axes: all axes, or only those across slices."""
        layout = self._layout
        kept = [a for a in range(len(layout.shape)) if a not in layout.axes]
        if ndim == len(layout.shape):
            kept = list(range(ndim))
        axes = [
            kept.index(d.axis) - ndim if d.size != 1 and (vector or not d.applied) else None
            for d in self.dims
        ]
        return self._view(axes, self.shape if vector else self.numbers)

    def is_good(self, operand: Operand) -> bool:
        """Whether the inner loops of a block run along an array's memory."""
        long = [d.axis for d in self.dims if d.size != 1]
        return operand.strides is None or not long or operand.strides[long[-1]] in (0, 1)


def _dims(layout: Layout) -> list[Dim]:
    """The axes, slowest in memory first, as few as possible."""
    weight, weights = 1, [0] * len(layout.shape)
    for a in reversed(layout.axes):
        weights[a] = weight
        weight *= layout.shape[a]
    strides = [o.strides for o in (*layout.inputs, *layout.outs) if o.strides is not None]
    inputs = sum(o.strides is not None for o in layout.inputs)
    steps = [(*(s[a] for s in strides), weights[a]) for a in range(len(layout.shape))]
    axes = slowest_first(range(len(steps)), [s[:inputs] for s in steps])
    axes = tuple(a for a in axes if layout.shape[a] != 1)
    found = [
        Dim(d.size, d.axis, applied, d.steps)
        for applied, group in itertools.groupby(axes, key=lambda a: a in layout.axes)
        for d in merged(layout.shape, steps, group)
    ]
    if not any(d.applied for d in found):
        found.insert(0, Dim(1, 0, True, (0,) * (len(strides) + 1)))
    return found


def _block_order(dims: Sequence[Dim]) -> tuple[int, ...]:
    """The order of dims in a block: that of memory, if the inner loops are long in it."""
    order = tuple(range(len(dims)))
    slices = math.prod(d.size for d in dims if not d.applied)
    length = math.prod(d.size for d in dims if d.applied)
    inner = dims[-1]
    if inner.size >= (LIMITS.short_slice if inner.applied else LIMITS.short_row):
        return order
    if slices >= 2 * LIMITS.short_row:
        return tuple(sorted(order, key=lambda k: not dims[k].applied))
    if length >= LIMITS.short_slice:
        return tuple(sorted(order, key=lambda k: dims[k].applied))
    return order
