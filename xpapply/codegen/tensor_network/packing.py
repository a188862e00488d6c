"""Weights of products on tensor cores: scaled, split, in the order in which a kernel reads them.

A product's weights get two scales, both powers of two. One per input feature
brings the terms of all features to the same size, near the middle of
float16's range; the values are multiplied by it before they are rounded. One
per output feature uses the range for the weights; results are divided by it
together with adding the bias. Where the values that a product reads are
another product's results, but for ReLU or the like, their scale is multiplied
into that product's results, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Slots = tuple[int, ...]
"""The feature in each place of a value that is spread over lanes, 8 per tile; -1 for none."""

Constants = Callable[[int], np.ndarray]
"""The array of a constant node."""

Piece = Callable[[Constants], np.ndarray]
"""A part of the packed weights, made of the constants of one model."""

LONG_SUM = 8
"""Steps of 16 terms from which a sum is added up in two halves: tensor cores cut off bits below
the largest term of a step, which adds up where all terms have one sign."""

_TYPICAL = 10
"""Terms of a sum, expected to be around 1, are scaled by 2 to this power."""


@dataclass(eq=False)
class Product:
    """A product on tensor cores.

    Attributes
    ----------
    weights, bias : int
        Nodes of the constants; None for no bias.
    inputs, outputs : Slots
        Where features lie; 16 inputs make a step, 8 outputs a tile.
    chunk : int
        Tiles that are read together.
    follows : Product or None
        The product whose results this one's input scale is multiplied into.
    factors_at : int
        Byte where the weights lie, from the start of all weights.
    affine_at, scale_at : int
        Where scales and biases of results, and the scale of the input, lie among the
        floats; -1 for an input that needs none.
    final : bool
        No other product reads what comes of the results.
    rectified : bool
        Only positive results go on: ReLU follows.
    """

    weights: int
    bias: int | None
    inputs: Slots
    outputs: Slots
    chunk: int
    follows: Product | None = None
    factors_at: int = -1
    affine_at: int = -1
    scale_at: int = -1
    final: bool = False
    rectified: bool = False

    @property
    def steps(self) -> int:
        """Steps of 16 terms."""
        return len(self.inputs) // 16

    @property
    def tiles(self) -> int:
        """Tiles of 8 results."""
        return len(self.outputs) // 8

    @property
    def chunks(self) -> int:
        """The number of chunks of weights."""
        return self.tiles // self.chunk


class Packing:
    """The packed products of a network."""

    def __init__(self, core: str, precision: str) -> None:
        self.core, self.precision = core, precision
        self.products: dict[int, Product] = {}
        self.parts = 2 if precision == "highest" else 1
        """arrays of 16-bit weights per product"""
        self.scaled = precision != "medium"
        """whether numbers are scaled: bfloat16 has the range of float32"""

    def bytes_of(self, product: Product) -> int:
        """Size of a product's weights."""
        return len(product.inputs) * len(product.outputs) * 2 * self.parts

    def factors(self, product: Product, value: Constants) -> np.ndarray:
        """The weights in the order in which tensor cores want them."""
        w = value(product.weights).astype(np.float64)
        if self.scaled:
            w = self._scaled(product, value)[0]
        placed = np.zeros((len(product.outputs), len(product.inputs)))
        rows, columns = np.array(product.outputs), np.array(product.inputs)
        placed[np.ix_(rows >= 0, columns >= 0)] = w[np.ix_(rows[rows >= 0], columns[columns >= 0])]
        both = split_weights(placed, self.precision)
        P, C, T, K = len(both), product.chunks, product.chunk, product.steps
        if self.core == "wgmma":
            # [chunk][part][step][tile][half of the step][row of the tile][8 terms]
            blocks = both.reshape(P, C, T, 8, K, 2, 8).transpose(1, 0, 4, 2, 5, 3, 6)
        else:
            # [tile][step][lane = 4 g + t][part][half of the step][2 terms]: row g, terms 2 t ...
            blocks = both.reshape(P, C * T, 8, K, 2, 4, 2).transpose(1, 3, 2, 5, 0, 4, 6)
        return blocks.reshape(-1)

    def affine(self, product: Product, value: Constants) -> np.ndarray:
        """Factors and biases of results, in pairs."""
        n = sum(k >= 0 for k in product.outputs)
        b = np.zeros(n, np.float32)
        if product.bias is not None:
            b = np.broadcast_to(value(product.bias).reshape(-1), (n,)).astype(np.float32)
        if not self.scaled:
            return laid_out(b, product.outputs)
        exponent = -self._scaled(product, value)[2]
        later = np.zeros(n, int)
        for p in self.products.values():
            if p.follows is product:
                later = self._scaled(p, value)[1]
        scale = np.ldexp(np.float32(1), exponent + later)
        pairs = [laid_out(a, product.outputs) for a in (scale, np.ldexp(b, later))]
        return np.stack([a.reshape(-1, 2) for a in pairs], 1)

    def scale(self, product: Product, value: Constants) -> np.ndarray:
        """The scale of the input."""
        return laid_out(np.ldexp(np.float32(1), self._scaled(product, value)[1]), product.inputs)

    def watch(self, shows_nan: bool, value: Constants) -> np.ndarray:
        """Whether ranges have to be checked from the start.

        Without that, numbers beyond the range become NaN and are noticed; numbers
        below it lose what a bias of ordinary size hides, if there is one.
        """
        found = not shows_nan
        for p in self.products.values():
            n = sum(k >= 0 for k in p.outputs)
            b = np.zeros(n) if p.bias is None else np.broadcast_to(value(p.bias).reshape(-1), (n,))
            size = np.maximum(b, 0) if p.rectified else np.abs(b)
            ordinary = size >= 2.0 ** (2 - self._typical(p, value))
            found |= not ordinary.mean() >= (1 / 2 if p.final else 1 / 8)
        return np.array([found], np.uint32)

    def _scaled(
        self, product: Product, value: Constants
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights with both scales in them, exponents of input features and of output features."""
        w = value(product.weights).astype(np.float64)
        largest = np.abs(w).max(0)
        p = np.clip(self._typical(product, value) + exponents(largest), -110, 110)
        p[largest == 0] = 0
        w = np.ldexp(w, -p)
        largest = np.abs(w).max(1)
        q = np.clip(12 - exponents(largest), -110, 110)
        q[largest == 0] = 0
        return np.ldexp(w, q[:, None]), p, q

    def _typical(self, product: Product, value: Constants) -> int:
        """The exponent that terms around 1 are scaled by.

        They are around 1 in trained networks, but for the last layer, whose results have
        any unit; there it is the input that is around 1.
        """
        if not product.final:
            return _TYPICAL
        largest = np.abs(value(product.weights)).max()
        return _TYPICAL - 2 - int(exponents(largest)) if largest else _TYPICAL


class Floats:
    """The floats of the packed weights, which lie before the factors: each piece, by its place."""

    def __init__(self) -> None:
        self.count = 0
        self.pieces: list[tuple[int, Piece]] = []
        self._known: dict[tuple[int, Slots | None], int] = {}

    def add(self, n: int, piece: Piece) -> int:
        """Append `n` numbers; return their offset."""
        at = -(-self.count // 4) * 4
        self.pieces.append((at, piece))
        self.count = at + n
        return at

    def constant(self, i: int, size: int, slots: Slots | None) -> int:
        """The offset of constant `i` of `size` numbers, laid out like a value."""
        slots = slots if size > 1 else None
        key = (i, slots)
        if key not in self._known:

            def piece(value: Constants) -> np.ndarray:
                flat = value(i).reshape(-1).astype(np.float32)
                return flat if slots is None else laid_out(flat, slots)

            self._known[key] = self.add(size if slots is None else len(slots), piece)
        return self._known[key]


def natural(n: int, tiles: int = 0) -> Slots:
    """Features in order, in as many tiles as they need or as requested."""
    return tuple(k if k < n else -1 for k in range(8 * (tiles or -(-n // 8))))


def laid_out(a: np.ndarray, slots: Slots) -> np.ndarray:
    """Numbers by feature, put where a value has its features; 0 elsewhere."""
    places = np.array(slots)
    out = np.zeros(len(slots), np.float32)
    out[places >= 0] = a[places[places >= 0]]
    return out


def split_weights(w: np.ndarray, precision: str) -> np.ndarray:
    """Weights as 16-bit numbers: float16 and what is left of it, float16, or bfloat16."""
    if precision == "medium":
        return _bfloat16(w.astype(np.float32))[None]
    hi = w.astype(np.float16)
    # infinity meets `hi` alone, so that has the sign of the weight, if nothing else
    lost = (hi == 0) & (w != 0)
    hi[lost] = np.copysign(np.finfo(np.float16).smallest_subnormal, w[lost])
    parts = [hi.view(np.uint16)]
    if precision == "highest":
        parts.append((w - hi.astype(np.float64)).astype(np.float16).view(np.uint16))
    return np.stack(parts)


def exponents(a: np.ndarray) -> np.ndarray:
    """floor(log2(a)) of positive numbers."""
    return np.frexp(np.asarray(a, np.float64))[1] - 1


def _bfloat16(a: np.ndarray) -> np.ndarray:
    """Bits of the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = a.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(a), 0x7FC0, rounded).astype(np.uint16)
