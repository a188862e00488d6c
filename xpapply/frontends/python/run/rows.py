"""The slices of arrays, in the order of the loop, and blocks of them to run at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .... import arrays
from ....arrays.layout import boxes
from ....loop.thin import rows_of


class Block:
    """Corresponding slices of several arrays, which have the batch dim first.

    It is indexed and assigned to as one array is. One slice is a tuple.

    Examples
    --------
    >>> import numpy as np
    >>> block = Block([np.arange(3), np.zeros((3, 2))])
    >>> len(block[1:]), block[0][1].shape
    (2, (2,))
    """

    def __init__(self, arrays: Iterable[Any]) -> None:
        self.arrays = tuple(arrays)

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, part: Any) -> Any:
        if isinstance(part, int):
            return tuple(x[part] for x in self.arrays)
        return Block(x[part] for x in self.arrays)

    def __setitem__(self, part: Any, values: Any) -> None:
        values = values.arrays if isinstance(values, Block) else values
        for x, value in zip(self.arrays, values, strict=True):
            x[part] = value


class Rows:
    """The slices of one array along an axis.

    Attributes
    ----------
    views : tuple of arrays
        What the slices are of, with the batch dims first: here one array.
    batch : tuple of int
        The shape of the other axes.
    like : array
        Of the library and on the device of the slices.
    axis : int
        Where the axes of a result stand.
    """

    def __init__(self, arr: Any, axis: int) -> None:
        self.view = arr
        if axis != arr.ndim - 1:
            order = (*range(axis), *range(axis + 1, arr.ndim), axis)
            self.view = arrays.permute(arr, order)
        self.views: tuple[Any, ...] = (self.view,)
        self.batch = tuple(self.view.shape[:-1])
        self.like, self.axis = arr, axis

    def __getitem__(self, index: tuple[Any, ...]) -> Any:
        return self.view[index]

    def at(self, numbers: Sequence[int]) -> Iterator[Any]:
        """The slices of these numbers, in C order of the batch dims."""
        whole = type(self) is Rows
        if whole and len(numbers) == math.prod(self.batch):
            return rows_of(self.view, len(self.batch))
        places = np.unravel_index(np.asarray(numbers, np.intp), self.batch)
        one = self.view.__getitem__ if whole else self.__getitem__
        return map(one, zip(*(p.tolist() for p in places), strict=True))

    def placed(self, found: Any) -> Any:
        """Results with their own axes where they belong, which have them after the batch dims."""
        return results_at(found, self.batch, self.axis)

    @property
    def is_native(self) -> bool:
        """Whether numbers have native byte order."""
        return bool(getattr(self.like.dtype, "isnative", True))

    def blocks(self, count: int) -> Iterator[tuple[Any, slice]]:
        """Blocks of `count` slices ``(B, M)``, and where their results go."""
        shape = (*self.batch, 1)
        return _numbered(
            _block(self.view, box[:-1], 1) for box in boxes(shape, len(shape) - 1, count)
        )


class Chosen(Rows):
    """Chosen slices of NumPy arrays, gathered on read.

    `result`: the shape and dtype that their results have; of several results those of each.
    """

    def __init__(self, rows: Rows, places: tuple[np.ndarray, ...], result: tuple[Any, Any]) -> None:
        self._rows, self._places, self.result = rows, places, result
        self.batch, self.like = (len(places[0]),), rows.like

    @property
    def is_native(self) -> bool:
        """Whether numbers have native byte order."""
        return self._rows.is_native

    def __getitem__(self, index: tuple[Any, ...]) -> Any:
        (at,) = index
        return self._rows[tuple(p[at] for p in self._places)]

    def blocks(self, count: int) -> Iterator[tuple[Any, slice]]:
        """Blocks of `count` slices ``(B, M)``, and where their results go."""
        for start in range(0, self.batch[0], count):
            where = slice(start, min(start + count, self.batch[0]))
            part = self[(where,)]
            if isinstance(part, tuple):
                yield Block(_native(np.ascontiguousarray(x)) for x in part), where
            else:
                yield _native(np.ascontiguousarray(part)), where


class RowsOfSeveral(Rows):
    """Slices of several arrays, in parallel.

    Parameters
    ----------
    views : sequence of arrays
        All with the same batch dims, and then those of a slice.
    batch : tuple of int
        The batch dims.
    """

    def __init__(self, views: Sequence[Any], batch: tuple[int, ...]) -> None:
        self.views, self.batch, self.like = tuple(views), batch, views[0]
        self.axis = len(batch)

    def __getitem__(self, index: tuple[Any, ...]) -> Any:
        return tuple(x[index] for x in self.views)

    def placed(self, found: Any) -> Any:
        """Results as they are; several as a tuple."""
        return found.arrays if isinstance(found, Block) else found

    @property
    def is_native(self) -> bool:
        """Whether numbers have native byte order."""
        return all(getattr(x.dtype, "isnative", True) for x in self.views)

    def blocks(self, count: int) -> Iterator[tuple[Any, slice]]:
        """A `Block` of `count` slices of each array, and where their results go."""
        shape, n = (*self.batch, 1), len(self.batch)
        return _numbered(
            Block(_block(x, box[:-1], x.ndim - n) for x in self.views)
            for box in boxes(shape, n, count)
        )


def results_at(found: Any, batch: Sequence[int], axis: int) -> Any:
    """Results after their `batch` dims, with their own axes where the slices' axis was."""
    n = len(batch)
    if axis == n:
        return found
    return arrays.permute(found, (*range(axis), *range(n, found.ndim), *range(axis, n)))


def _numbered(blocks: Iterator[Any]) -> Iterator[tuple[Any, slice]]:
    start = 0
    for block in blocks:
        yield block, slice(start, start + len(block))
        start += len(block)


def _block(view: Any, box: tuple[Any, ...], core: int) -> Any:
    """The slices in a box, one after the other in memory."""
    shape = tuple(view.shape)[view.ndim - core :]
    block = view[box].reshape(-1, *shape)
    if arrays.library(block) == "torch":
        return block.contiguous()
    return _native(arrays.compat(block).ascontiguousarray(block))


def _native(block: Any) -> Any:
    if getattr(block.dtype, "isnative", True):
        return block
    return block.astype(block.dtype.newbyteorder("="))


def flat_of(buffer: Any, slices: int, batch: int) -> Any:
    """Results with the slices along one dim."""
    if isinstance(buffer, Block):
        return Block(flat_of(x, slices, batch) for x in buffer.arrays)
    return buffer.reshape(slices, *buffer.shape[batch:])


def index_of(k: int, rows: Rows) -> tuple[int, ...]:
    """The index of a slice, from its number."""
    return tuple(map(int, np.unravel_index(k, rows.batch)))
