"""Tables of NumPy's ziggurats, for compiled code that draws from them.

A ziggurat is a pile of rectangles over a density. 99 of 100 numbers lie within one of them: then a
number is a part of the random bits times the width of a rectangle. NumPy's functions tell their
widths: they are called with a generator whose bits are chosen. Of what is not within a rectangle
they are left to draw, from the same state. So all bits are NumPy's.

Source: G. Marsaglia and W. W. Tsang, The ziggurat method for generating random variables, Journal
of Statistical Software 5 (8), 2000; M. E. O'Neill, PCG: a family of simple fast space-efficient
statistically good algorithms for random number generation, 2014.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
import sys
from typing import Any, NamedTuple

import numpy as np

from .generators import Source, place_of

PCG64, OWN = "PCG64", "own PCG64"
"""The generator whose steps are known, and one that a function makes in memory of its own."""
WORDS, STATE, INNER = 12, 5, 8
"""Words of a generator in memory, and the offsets of its state and inner words."""
FACTOR = 0x2360ED051FC65DA44385DF649FCCF645
"""The multiplier of PCG64's state."""
UNIT = 2.0**-53
_PARTS = 256


class Ziggurat(NamedTuple):
    """The rectangles of a function.

    Attributes
    ----------
    widths : list of float
        Of what is drawn, for a step of the bits.
    within : list of int
        Below these steps it lies within the rectangle, surely.
    part, steps : int
        Where in 64 random bits the number of the rectangle begins, and the steps.
    sign : int
        Where a sign is; -1: nowhere.
    """

    widths: list[float]
    within: list[int]
    part: int
    steps: int
    sign: int


@functools.cache
def normal() -> Ziggurat | None:
    """The ziggurat of ``random_standard_normal``; None: unknown."""
    return _ziggurat("random_standard_normal", 0, 9, 8, 52)


@functools.cache
def exponential() -> Ziggurat | None:
    """The ziggurat of ``random_standard_exponential``."""
    return _ziggurat("random_standard_exponential", 3, 11, -1, 53)


class _Given:
    """A generator of chosen bits: each function of it is one of these."""

    def __init__(self, function: str) -> None:
        self.bits = self.asked = 0
        word, double = ctypes.c_uint64, ctypes.c_double
        of = ctypes.c_void_p
        self._kept: list[Any] = [
            ctypes.CFUNCTYPE(word, of)(self._next),
            ctypes.CFUNCTYPE(ctypes.c_uint32, of)(self._next),
            ctypes.CFUNCTYPE(double, of)(self._double),
            ctypes.CFUNCTYPE(word, of)(self._next),
        ]
        places = [ctypes.cast(f, ctypes.c_void_p).value for f in self._kept]
        self._words = (ctypes.c_void_p * 5)(None, *places)
        self._call = ctypes.CFUNCTYPE(double, of)(place_of(function))

    def _next(self, _: Any) -> int:
        self.asked += 1
        return self.bits

    def _double(self, _: Any) -> float:
        """A number that ends each search: inside the rectangle below, or at the end of the tail."""
        self.asked += 1
        return 0.0 if self.asked % 2 == 0 else 0.5

    def __call__(self, bits: int) -> tuple[float, bool]:
        """The number drawn from some bits, and whether no further bits were used."""
        self.bits, self.asked = bits, 0
        found: float = self._call(ctypes.addressof(self._words))
        return found, self.asked == 1


def _ziggurat(function: str, part: int, steps: int, sign: int, width: int) -> Ziggurat | None:
    if not place_of(function):
        return None
    draw = _Given(function)
    widths = [draw(k << part | 1 << steps)[0] for k in range(_PARTS)]
    within = []
    for k, x in enumerate(widths):
        beside = [y / x for y in (widths[k - 1], widths[(k + 1) % _PARTS]) if 0 < y < x]
        guess = math.floor(max(beside, default=0.0) * 2**width) - 4096
        fast = guess > 0 and draw(k << part | (guess - 1) << steps)[1]
        within.append(guess if fast else 0)
    found = Ziggurat(widths, within, part, steps, sign)
    good = sum(within) > 0.95 * _PARTS * 2**width and _agrees(found, draw)
    return found if good else None


def _agrees(of: Ziggurat, draw: _Given) -> bool:
    """Whether a ziggurat draws what its function does, for given bits."""
    for bits in np.random.PCG64(3).random_raw(300).tolist():
        k, steps = bits >> of.part & (_PARTS - 1), bits >> of.steps
        if of.sign >= 0:
            steps &= (1 << 52) - 1
        x = steps * of.widths[k]
        if of.sign >= 0 and bits >> of.sign & 1:
            x = -x
        if steps < of.within[k] and draw(bits) != (x, True):
            return False
    return True


@functools.cache
def steps_are_known() -> bool:
    """Whether PCG64's memory and steps are as in its source."""
    if sys.byteorder != "little":
        return False
    module: Any = importlib.import_module("numpy.random")
    for seed in range(3):
        of = module.PCG64(seed)
        of.random_raw()
        module.Generator(of).integers(0, 9, dtype=np.int32)  # it keeps the other half
        words = Source(module.Generator(of)).words
        state = ctypes.cast(int(words[0]), ctypes.POINTER(ctypes.c_uint64))
        inner = ctypes.cast(state[0], ctypes.POINTER(ctypes.c_uint64))
        now = of.state
        mine = [inner[2 * k] | inner[2 * k + 1] << 64 for k in range(2)]
        half = state[1] & 0xFFFFFFFF, state[1] >> 32
        if mine != [now["state"]["state"], now["state"]["inc"]]:
            return False
        if half != (now["has_uint32"], now["uinteger"]) or not half[0]:
            return False
        for _ in range(9):
            mine[0] = (mine[0] * FACTOR + mine[1]) % (1 << 128)
            high, low = mine[0] >> 64, mine[0] % (1 << 64)
            x, far = high ^ low, high >> 58
            if (x >> far | x << (64 - far)) % (1 << 64) != of.random_raw():
                return False
    return True


@functools.cache
def sums_are_plain() -> bool:
    """Whether NumPy rounds the product before the sum of ``loc + scale * x``."""
    module: Any = importlib.import_module("numpy.random")
    a, b = (module.Generator(module.PCG64(7)) for _ in range(2))
    for _ in range(200):
        if a.normal(0.1, 1.7) != 0.1 + 1.7 * b.standard_normal():
            return False
        if a.uniform(0.1, 1.7) != 0.1 + (1.7 - 0.1) * b.random():
            return False
        if a.exponential(1.7) != 1.7 * b.standard_exponential():
            return False
    return True


def started(words: np.ndarray, like: np.ndarray, halves: list[int]) -> None:
    """Make a PCG64 in an array, of eight halves of the numbers that it is seeded with.

    `like`: the words of another one, whose functions it has. Without halves: of any other kind,
    whose state is still to be written.
    """
    here = words.ctypes.data
    words[0], words[1:5] = here + 8 * STATE, like[1:5]
    if not halves:
        return
    a, b, c, d = (halves[k] | halves[k + 1] << 32 for k in range(0, 8, 2))
    inc = ((c << 64 | d) << 1 | 1) % (1 << 128)
    state = ((inc + (a << 64 | b)) * FACTOR + inc) % (1 << 128)
    words[STATE], words[STATE + 1] = here + 8 * INNER, 0
    words[INNER:] = [x >> far & (1 << 64) - 1 for x in (state, inc) for far in (0, 64)]


@functools.cache
def like(kind: str = PCG64) -> np.ndarray:
    """The words of one of our own."""
    module: Any = importlib.import_module("numpy.random")
    return Source(module.Generator(getattr(module, kind)(0))).words
