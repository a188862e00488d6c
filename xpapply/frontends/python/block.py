"""Slices of several arrays side by side: what one array of slices is, for several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Block:
    """As many slices of each of several arrays, which begin with that dim.

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
