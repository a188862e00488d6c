"""The constants of a network's kernel, in the order in which it reads them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Values = Mapping[int, np.ndarray]
"""The constants by their nodes."""


@dataclass
class Weights:
    """Offsets of constants.

    Attributes
    ----------
    size : int
        How many numbers they are, all together.
    """

    size: int = 0
    _pieces: list[tuple[int, Callable[[Values], np.ndarray]]] = field(default_factory=list)
    _flat: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)

    def flat(self, node: int, shape: tuple[int, ...]) -> int:
        """The offset of a constant's numbers, broadcast to a shape."""
        key = node, shape
        if key not in self._flat:
            size = math.prod(shape)

            def make(values: Values) -> np.ndarray:
                number = values[node].size == 1
                return np.broadcast_to(values[node].reshape(()) if number else values[node], shape)

            self._flat[key] = self._add(size, make)
        return self._flat[key]

    def blocks(
        self,
        matrix: Callable[[Values], np.ndarray],
        bias: Callable[[Values], np.ndarray] | None,
        shape: tuple[int, int, int],
        sizes: Sequence[int],
    ) -> int:
        """The offset of matrices in blocks of rows: biases, then column by column.

        `matrix` gives them in this shape, of groups, outputs and terms, and `bias` a number for
        each output of each group.
        """
        g, n, k = shape
        assert sum(sizes) == n
        ends = np.cumsum(sizes)[:-1]

        def make(values: Values) -> np.ndarray:
            every = matrix(values).reshape(shape)
            added = np.zeros((g, n)) if bias is None else bias(values).reshape(g, n)
            columns = np.concatenate([added[:, None], every.transpose(0, 2, 1)], 1)
            pieces = [b.reshape(-1) for one in columns for b in np.split(one, ends, axis=1)]
            return np.concatenate(pieces)

        return self._add(g * n * (k + 1), make)

    def _add(self, size: int, make: Callable[[Values], np.ndarray]) -> int:
        at = self.size
        self._pieces.append((at, make))
        self.size += size
        return at

    def packed(self, values: Values, dtype: str) -> np.ndarray:
        """The constants as the kernel reads them."""
        found = np.zeros(max(1, self.size), dtype)
        for at, make in self._pieces:
            numbers = make(values).reshape(-1)
            found[at : at + numbers.size] = numbers
        return found
