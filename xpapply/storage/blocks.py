"""Division of an array in a file into blocks of slices.

A block has whole slices, and whole chunks of what is written, so that each chunk is written once.
It has whole chunks of what is read too, where memory allows. Blocks follow each other as the
elements lie in the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .. import config
from ..arrays.layout import grid
from ..errors import InputError
from ..limits import LIMITS
from .stores import Block, Store


@dataclass(frozen=True)
class SlicesInBlocks:
    """The slices of one array and what becomes of them in another.

    Attributes
    ----------
    shape : tuple of int
        Of the array.
    axes : tuple of int
        Along which the slices run.
    at : int
        The place of the result's dims among the dims of the result.
    inner : tuple of int
        The shape of one result.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    at: int
    inner: tuple[int, ...]

    @property
    def rest(self) -> tuple[int, ...]:
        """The axes that are looped over."""
        return tuple(a for a in range(len(self.shape)) if a not in self.axes)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The shape of all results."""
        return self._around(tuple(self.shape[a] for a in self.rest), self.inner)

    def out_axis(self, a: int) -> int:
        """The axis of the result that is axis `a` of the array."""
        k = self.rest.index(a)
        return k if k < self.at else k + len(self.inner)

    def of_result(self, block: Block) -> Block:
        """The block of the results for a block of the array."""
        rest = tuple(block[a] for a in self.rest)
        return self._around(rest, tuple(slice(0, n) for n in self.inner))

    def _around(self, rest: tuple[Any, ...], inner: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*rest[: self.at], *inner, *rest[self.at :])


@dataclass(frozen=True)
class Cut:
    """Blocks of equal lengths but for the last ones.

    Attributes
    ----------
    slices : SlicesInBlocks
    order : tuple of int
        The axes that are looped over, slowest first.
    lengths : tuple of int
        Of a block, for every axis of the array.
    nbytes : int
        Of a block and its results.
    reads : float
        How often each chunk is read.
    """

    slices: SlicesInBlocks
    order: tuple[int, ...]
    lengths: tuple[int, ...]
    nbytes: int
    reads: float

    def __iter__(self) -> Iterator[Block]:
        return grid(self.slices.shape, self.lengths, self.order)

    def __len__(self) -> int:
        return math.prod(-(-self.slices.shape[a] // self.lengths[a]) for a in self.order)


def cut(slices: SlicesInBlocks, source: Store, target: Store, one: int, together: int) -> Cut:
    """Cut the slices of `source` so that their results go into `target`.

    `one`: bytes of a slice and its result; `together`: how many blocks are there at a time.
    """
    shape, most = slices.shape, memory() // together
    order = [a for a in _order(source, target, slices) if a not in slices.axes]
    lengths = {a: min(shape[a], target.write_unit[slices.out_axis(a)]) for a in order}

    def size(of: dict[int, int]) -> int:
        return math.prod(of.values()) * one

    if size(lengths) > most:
        if config.current().memory or size(lengths) > 8 * most:
            _raise_too_large(slices, lengths, size(lengths), together, target)
        most = size(lengths)
    for a in order:  # whole chunks of what is read
        whole = math.lcm(lengths[a], source.read_unit[a])
        wider = lengths | {a: min(shape[a], whole)}
        if size(wider) <= most:
            lengths = wider
    best = max(size(lengths), min(most, LIMITS.stored_block))
    for a in reversed(order):  # as many as are worth it, the fastest first
        many = max(1, best // max(1, size(lengths)))
        lengths[a] = min(shape[a], lengths[a] * many)
        if lengths[a] < shape[a]:
            break
    own = tuple(lengths.get(a, n) for a, n in enumerate(shape))
    reads = math.prod(_reads(shape[a], lengths[a], source.read_unit[a]) for a in order)
    return Cut(slices, tuple(order), own, size(lengths), reads)


def memory() -> int:
    """Bytes that blocks may take at a time."""
    asked = config.current().memory
    return asked or max(1 << 26, min(LIMITS.stored_memory, _free() // 4))


def _free() -> int:
    """Bytes of free memory."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 4 * LIMITS.stored_memory


def _order(source: Store, target: Store, slices: SlicesInBlocks) -> Sequence[int]:
    """The axes of the array, slowest first: as they lie in the file."""
    if source.path is not None or target.path is None:
        return source.order
    back = {slices.out_axis(a): a for a in slices.rest}
    return [back[b] for b in target.order if b in back]


def _reads(length: int, block: int, unit: int) -> float:
    """Average number of reads of a chunk, along one axis."""
    starts = range(0, length, block)
    touched = sum(-(-min(s + block, length) // unit) - s // unit for s in starts)
    return touched / -(-length // unit)


def _raise_too_large(
    slices: SlicesInBlocks, lengths: dict[int, int], size: int, together: int, target: Store
) -> None:
    found = tuple(lengths.get(a, n) for a, n in enumerate(slices.shape))
    asked = config.current().memory
    said = f"options(memory=...) allows {asked:,}" if asked else f"there are {memory():,} free"
    units = target.write_unit
    what = f"a block of {found} has to be computed at once, as a chunk of out is {units}"
    if max(units, default=1) == 1:
        what = f"one slice is a block of {found}, which has to be computed at once"
    raise InputError(
        f"{what}: with its results {size:,} bytes, "
        f"and {together} of them at a time, where {said}. Allow more memory, or give out smaller "
        "chunks along the axes that are looped over"
    )
