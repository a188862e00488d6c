"""How the slices of an array lie in memory, and how to cut them into blocks.

Backends never transpose an array to bring the slices to the end. They get it
with its axes in *memory order* (slowest first) and the position `at` of the
applied axis in that order; results are written the same way, with the result
axes in the place of the applied one. So the output of a C-contiguous array is
C-contiguous, that of a Fortran-ordered volume is Fortran-ordered, and reading
and writing both run along memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MemoryOrder:
    """The axes of an array, slowest first.

    Attributes
    ----------
    axes : tuple of int
        Axes of the array, slowest first.
    at : int
        Position of the applied axis in `axes`.
    """

    axes: tuple[int, ...]
    at: int

    @classmethod
    def of(cls, strides: Sequence[int] | None, ndim: int, axis: int) -> MemoryOrder:
        """The memory order of an array with these `strides` (None: C order)."""
        axes = tuple(range(ndim))
        if strides is not None:
            axes = tuple(sorted(axes, key=lambda a: -abs(strides[a])))
        return cls(axes, axes.index(axis))

    def batch(self, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The batch dims before and behind the applied axis, in memory order."""
        dims = [shape[a] for a in self.axes]
        return tuple(dims[: self.at]), tuple(dims[self.at + 1 :])

    def result_axes(self, result_ndim: int) -> tuple[int, ...]:
        """The permutation from (batch and result in memory order) to NumPy's ``Ni + Nj + Nk``."""
        axis = self.axes[self.at]
        where: dict[int, int] = {}  # input axis -> position in the output in memory order
        for position, a in enumerate(self.axes):
            where[a] = position + (result_ndim - 1 if position > self.at else 0)
        result = range(self.at, self.at + result_ndim)
        before = [where[a] for a in range(axis)]
        behind = [where[a] for a in range(axis + 1, len(self.axes))]
        return (*before, *result, *behind)


def boxes(shape: Sequence[int], at: int, rows: int) -> Iterator[tuple[Any, ...]]:
    """Cut the batch dims of an array into boxes of at most `rows` slices each.

    Parameters
    ----------
    shape : sequence of int
        Shape in memory order, the applied axis at position `at`.
    at : int
        Position of the applied axis.
    rows : int
        The most slices in one box, at least 1.

    Yields
    ------
    tuple of slice
        An index of the array; ``slice(None)`` at `at`.

    Examples
    --------
    >>> list(boxes((3, 8), 1, 2))
    [(slice(0, 2, None), slice(None, None, None)), (slice(2, 3, None), slice(None, None, None))]
    """
    dims = [1 if a == at else n for a, n in enumerate(shape)]
    if 0 in dims:
        return
    # the fastest dims that fit whole, then a piece of the next, single steps of the slower ones
    cut, inner = len(dims), 1
    while cut > 0 and inner * dims[cut - 1] <= rows:
        cut -= 1
        inner *= dims[cut]
    if cut == 0:  # all of it
        yield tuple([slice(None) if a == at else slice(0, n) for a, n in enumerate(dims)])
        return
    steps = [1] * len(dims)
    steps[cut:] = dims[cut:]
    steps[cut - 1] = max(1, rows // inner)
    counts = [math.ceil(n / s) for n, s in zip(dims, steps, strict=True)]
    for flat in range(math.prod(counts)):
        index: list[Any] = [slice(None)] * len(dims)
        for a in range(len(dims) - 1, -1, -1):
            flat, k = divmod(flat, counts[a])
            if a != at:
                index[a] = slice(k * steps[a], min((k + 1) * steps[a], dims[a]))
        yield tuple(index)


@dataclass(frozen=True, slots=True)
class Operand:
    """How the elements of an array lie, for a function of the slices of several arrays.

    Attributes
    ----------
    dtype : str
        Of its elements.
    strides : tuple of int or None
        In elements, for each axis of the shape that all arrays broadcast to; 0 where it
        broadcasts, and for results that are one number per slice along the applied axes.
        None for a number that is passed by value.
    """

    dtype: str
    strides: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Layout:
    """How the arrays of a function of slices lie.

    Attributes
    ----------
    shape : tuple of int
        That all arrays broadcast to.
    axes : tuple of int
        The axes of a slice, ascending.
    inputs, outs : tuple of Operand
        The arrays; what results are written to.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    inputs: tuple[Operand, ...]
    outs: tuple[Operand, ...]

    @property
    def length(self) -> int:
        """Elements of a slice."""
        return math.prod(self.shape[a] for a in self.axes)

    @property
    def slices(self) -> int:
        """The number of slices."""
        return math.prod(n for a, n in enumerate(self.shape) if a not in self.axes)
