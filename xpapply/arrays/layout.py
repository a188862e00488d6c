"""The layout of slices in memory, and their division into blocks.

Backends never transpose an array to bring the slices to the end. They get it
with its axes in *memory order* (slowest first) and the position `at` of the
applied axis in that order; results are written the same way, with the result
axes in the place of the applied one. So the output of a C-contiguous array is
C-contiguous, that of a Fortran-ordered volume is Fortran-ordered, and reading
and writing both run along memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import arrays


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
            axes = slowest_first(axes, [(s,) for s in strides])
        return cls(axes, axes.index(axis))

    def batch(self, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The batch dims before and after the applied axis, in memory order."""
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
    sizes = [1] * len(dims)
    sizes[cut:] = dims[cut:]
    sizes[cut - 1] = max(1, rows // inner)
    for box in grid(dims, sizes, range(len(dims))):
        yield (*box[:at], slice(None), *box[at + 1 :])


Box = tuple[slice, ...]


def grid(shape: Sequence[int], sizes: Sequence[int], axes: Sequence[int]) -> Iterator[Box]:
    """Boxes of the lengths `sizes` along some axes of an array, the last of them fastest.

    They are whole along the other axes.
    """
    for starts in _combined([range(0, shape[a], sizes[a]) for a in axes]):
        box = [slice(0, n) for n in shape]
        for a, start in zip(axes, starts, strict=True):
            box[a] = slice(start, min(start + sizes[a], shape[a]))
        yield tuple(box)


def _combined(ranges: Sequence[range]) -> Iterator[tuple[int, ...]]:
    """Every combination, as `itertools.product`, which makes lists of them all before the first."""
    if not ranges:
        yield ()
        return
    for first in ranges[0]:
        for rest in _combined(ranges[1:]):
            yield (first, *rest)


def run_blocks(
    run: Callable[[Any, Any], Any], x: Any, at: int, out: Any, blocks: Iterable[tuple[Any, ...]]
) -> None:
    """Run blocks of slices, each into its place.

    Parameters
    ----------
    run : callable
        ``run(block, place)`` of a block with its axes as in `x`. Results have shape ``(*result
        shape, slices)``. They may be written to `place`, an array of that shape, which is then
        what is returned; it is None where the results do not lie evenly in `out`.
    x, out : array
        In memory order.
    at : int
        The applied axis of `x`, and the first axis of results in `out`.
    blocks : iterable of tuple of slice
        As `boxes` yields them.
    """
    ndim = out.ndim - x.ndim + 1
    inner = tuple(range(at, at + ndim))
    axes = (*inner, *range(at), *range(at + ndim, out.ndim))
    for box in blocks:
        # with an ellipsis: without one an index of a 0-d array is a copy
        target = out[(*box[:at], *(slice(None),) * ndim, *box[at + 1 :], ...)]
        target = arrays.permute(target, axes)
        place = _in_line(target, ndim)
        result = run(x[box], place)
        if result is not place:
            target[...] = result.reshape((*result.shape[:-1], *target.shape[ndim:]))


def columns(block: Any, at: int) -> Any:
    """The slices of a block as columns: shape ``(M, slices)``."""
    axes = (*range(at), *range(at + 1, block.ndim))
    slices = math.prod([block.shape[a] for a in axes])
    return arrays.permute(block, (at, *axes)).reshape((block.shape[at], slices))


def _in_line(x: Any, ndim: int) -> Any:
    """`x` with all axes after the first `ndim` as one; None if that takes a copy."""
    if x.ndim == ndim + 1:
        return x
    steps = arrays.strides(x)
    if steps is None or len(merged(x.shape, [(s,) for s in steps], range(ndim, x.ndim))) > 1:
        return None
    return x.reshape((*x.shape[:ndim], math.prod(x.shape[ndim:])))


def first_gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    """The first place where so much fits between ranges (start, stop) that are taken.

    Examples
    --------
    >>> first_gap([(6, 9), (0, 2)], 4), first_gap([(6, 9), (0, 2)], 5)
    (2, 9)
    """
    at = 0
    for start, stop in sorted(taken):
        if start - at >= size:
            break
        at = max(at, stop)
    return at


def slowest_first(axes: Iterable[int], strides: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Axes by their strides in the arrays, of which the largest counts."""
    return tuple(sorted(axes, key=lambda a: -max(map(abs, strides[a]), default=0)))


def side_by_side(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array in C order, in elements; zeros where it has none.

    Examples
    --------
    >>> side_by_side((2, 3, 4)), side_by_side((2, 0))
    ((12, 4, 1), (0, 0))
    """
    if 0 in shape:
        return (0,) * len(shape)
    return tuple(math.prod(shape[a + 1 :]) for a in range(len(shape)))


class Dim(NamedTuple):
    """Neighbouring axes of several arrays that are one step in the memory of each."""

    size: int
    steps: tuple[int, ...]
    """Steps in each array."""
    axis: int
    """The fastest of the axes."""


def merged(
    shape: Sequence[int], strides: Sequence[tuple[int, ...]], axes: Iterable[int]
) -> list[Dim]:
    """Axes of arrays, given slowest first, as few dims as possible; axes of length 1 are none.

    Parameters
    ----------
    shape : sequence of int
        That all arrays broadcast to.
    strides : sequence of tuple of int
        For each axis the stride in every array.
    axes : iterable of int
        The axes that are asked about, which others must not lie between.

    Examples
    --------
    >>> merged((2, 3, 4), [(12,), (4,), (1,)], range(3))
    [Dim(size=24, steps=(1,), axis=2)]
    """
    found: list[Dim] = []
    for a in axes:
        n, steps = shape[a], strides[a]
        if n == 1:
            continue
        if found and found[-1].steps == tuple(n * s for s in steps):
            found[-1] = Dim(found[-1].size * n, steps, a)
        else:
            found.append(Dim(n, steps, a))
    return found


@dataclass(frozen=True, slots=True)
class Operand:
    """The layout of one array, for a function of slices of several arrays.

    Attributes
    ----------
    dtype : str
        Of its elements.
    strides : tuple of int or None
        In elements, for each axis of the shape that all arrays broadcast to; 0 where it
        broadcasts, and for results that are one number per slice along the applied axes.
        None for a number that is passed by value. Results of functions that know the length of
        their slices have axes of their own, in the place of the applied one.
    """

    dtype: str
    strides: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of the arrays of a function of slices.

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


def span(x: np.ndarray) -> tuple[int, int]:
    """Bytes of an array before its first element, and from there on."""
    far = [stride * (size - 1) for stride, size in zip(x.strides, x.shape, strict=True)]
    return -sum(n for n in far if n < 0), sum(n for n in far if n > 0) + x.itemsize


def lying_alike(x: np.ndarray) -> np.ndarray:
    """A copy whose elements are as far from each other in memory."""
    before, after = span(x)
    memory = np.empty(before + after, np.uint8)
    found: np.ndarray = np.ndarray(x.shape, x.dtype, memory, before, x.strides)
    found[...] = x
    return found


def is_apart(x: np.ndarray, others: Sequence[np.ndarray]) -> bool:
    """Whether no element of a writable array overlaps another one of it, or of others."""
    far = x.itemsize
    for stride, size in sorted(zip(map(abs, x.strides), x.shape, strict=True)):
        if size > 1 and stride < far:
            return False
        far += stride * (size - 1)
    return x.flags.writeable and not any(np.may_share_memory(x, c) for c in others)
