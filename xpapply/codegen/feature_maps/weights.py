"""The constants of a kernel of feature maps: numbers, tables of words, and weights in two forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..tensor_network.packing import Constants, Piece, exponents, split_weights

Made = Callable[[Constants], np.ndarray]

_ORDINARY = 8
"""Numbers around 1 are scaled by 2 to this power."""


class Section:
    """Pieces one after the other, each on a multiple of 16 bytes."""

    def __init__(self) -> None:
        self.bytes = 0
        self.pieces: list[tuple[int, Piece]] = []

    def add(self, bytes_: int, piece: Piece) -> int:
        """The byte where a piece lies, from the start of the section."""
        at = self.bytes
        self.pieces.append((at, piece))
        self.bytes += -(-bytes_ // 16) * 16
        return at


class Numbers(Section):
    """float32 numbers and tables of integers."""

    def __init__(self) -> None:
        super().__init__()
        self._tables: dict[tuple[bytes, int], int] = {}
        self._powers: list[tuple[int, int, int]] = []

    def floats(self, n: int, make: Made, power: int = 0) -> int:
        """Append `n` numbers; return their offset.

        Where all maps are scaled by another number, they are multiplied by it (`power` 1), or
        divided (-1).
        """

        def piece(value: Constants) -> np.ndarray:
            return np.ascontiguousarray(make(value).reshape(-1), np.float32)

        at = self.add(4 * n, piece) // 4
        if power:
            self._powers.append((at, n, power))
        return at

    def scaled(self) -> list[tuple[int, int, int]]:
        """The numbers that depend on how maps are scaled: from where, how many, and the power."""
        found: list[tuple[int, int, int]] = []
        for at, n, power in self._powers:
            if found:
                start, before, same = found[-1]
                if same == power and start + -(-before // 4) * 4 == at:  # zeros lie between
                    found[-1] = start, at + n - start, power
                    continue
            found.append((at, n, power))
        return found

    def looked_up(self, words: np.ndarray, name: str) -> str:
        """The expression that reads a number of a table, of which there is one."""
        short = words.min(initial=0) >= 0 and words.max(initial=0) < 1 << 16
        found = np.ascontiguousarray(words.reshape(-1), np.uint16 if short else np.int32)
        key = found.tobytes(), found.itemsize
        if key not in self._tables:
            self._tables[key] = self.add(found.nbytes, lambda _: found) // found.itemsize
        ctype = "unsigned short" if short else "int"
        return f"((const {ctype}*)f)[{self._tables[key]} + {name}]"


def input_exponent(w: np.ndarray, final: bool) -> int:
    """The power of two that the numbers of a map are multiplied by.

    Terms are then around 2 to the 10th, in the middle of float16's range, if the terms of trained
    networks are around 1; before the last product, and where there are so many terms that weights
    are small, the numbers are.
    """
    largest = float(np.abs(w).max(initial=0))
    if final or not largest:
        return _ORDINARY
    return int(np.clip(10 + exponents(np.array(largest)), _ORDINARY, 110))


def output_exponents(w: np.ndarray, by: int) -> np.ndarray:
    """The power of two that scales the weights of each output ``w[..., k]``."""
    largest = np.abs(np.ldexp(w.astype(np.float64), -by)).max(-1, initial=0)
    q = np.clip(12 - exponents(largest), -110, 110)
    return np.where(largest == 0, 0, q)


def packed(w: np.ndarray, slots: np.ndarray, tiles: int, precision: str, by: int) -> np.ndarray:
    """Weights ``w[group, output, term]`` as lanes of a warp read them.

    ``[group][tile][step][lane 4 g + t][part][half][2]``: output ``8 tile + g``, and of the four
    terms ``slots[4 step + t]`` the first or second pair. A slot of -1 has no term.
    """
    groups, n, _ = w.shape
    w = w.astype(np.float64)
    if precision != "medium":
        w = np.ldexp(w, output_exponents(w, by)[..., None] - by)
    placed = np.zeros((groups, 8 * tiles, slots.size))
    flat = slots.reshape(-1)
    placed[:, :n, flat >= 0] = w[:, :, flat[flat >= 0]]
    both = split_weights(placed, precision)
    found = both.reshape(len(both), groups, tiles, 8, -1, 4, 2, 2)  # part G T g step t half c
    return found.transpose(1, 2, 4, 3, 5, 0, 6, 7).reshape(-1)
