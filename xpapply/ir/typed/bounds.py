"""Interval arithmetic of integers: bounds of sums, products and comparisons."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LEAST, MOST = -(1 << 63), (1 << 63) - 1
LONG = 1 << 47
"""No array is longer."""
FAR = 1 << 49
"""The distance from a symbolic value beyond which bounds are dropped."""


class Bounds(NamedTuple):
    """Bounds of an integer.

    Attributes
    ----------
    low, high : int
        Numbers that it is between.
    above, below : dict
        By the number of a value that stays: how much more it is at least, and at most.
    """

    low: int
    high: int
    above: dict[int, int]
    below: dict[int, int]


NONE: dict[int, int] = {}
ANY = Bounds(LEAST, MOST, NONE, NONE)
LENGTH = Bounds(0, LONG, NONE, NONE)


def of_type(dtype: str) -> Bounds:
    """The bounds of a type."""
    if dtype == "bool":
        return Bounds(0, 1, NONE, NONE)
    if np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize < 8:
        info = np.iinfo(dtype)
        return Bounds(int(info.min), int(info.max), NONE, NONE)
    return ANY


def _sum(a: Bounds, b: Bounds) -> Bounds:
    above, below = NONE, NONE
    if a.above or b.above:
        above = _most(_moved(a.above, b.low), _moved(b.above, a.low))
    if a.below or b.below:
        below = _least(_moved(a.below, b.high), _moved(b.below, a.high))
    return Bounds(a.low + b.low, a.high + b.high, above, below)


def _difference(a: Bounds, b: Bounds) -> Bounds:
    low, high = a.low - b.high, a.high - b.low
    for r in a.above.keys() & b.below.keys():
        low = max(low, a.above[r] - b.below[r])
    for r in a.below.keys() & b.above.keys():
        high = min(high, a.below[r] - b.above[r])
    return Bounds(low, high, _moved(a.above, -b.high), _moved(a.below, -b.low))


def _product(a: Bounds, b: Bounds) -> Bounds:
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Bounds(min(ends), max(ends), NONE, NONE)


def square(a: Bounds) -> Bounds:
    """A product of a number with itself."""
    found = _product(a, a)
    return found._replace(low=max(0, found.low))


def _masked(a: Bounds, b: Bounds) -> Bounds:
    tops = [x.high for x in (a, b) if x.low >= 0]
    return Bounds(0, min(tops), NONE, NONE) if tops else ANY


def _merged(a: Bounds, b: Bounds) -> Bounds:
    """Bits of both, or of one alone."""
    if a.low < 0 or b.low < 0:
        return ANY
    return Bounds(0, (1 << max(a.high, b.high).bit_length()) - 1, NONE, NONE)


def _shifted(a: Bounds, b: Bounds) -> Bounds:
    if not 0 <= b.low == b.high < 64:
        return ANY
    return Bounds(a.low >> b.low, a.high >> b.low, NONE, a.below if a.low >= 0 else NONE)


def _quotient(a: Bounds, b: Bounds) -> Bounds:
    """Bounds of a quotient, truncated."""
    if b.low <= 0:
        return ANY
    if a.low >= 0:
        return Bounds(a.low // b.high, a.high // b.low, NONE, a.below)
    return Bounds(-(-a.low // b.low), max(0, a.high // b.low), NONE, NONE)


def _rest(a: Bounds, b: Bounds) -> Bounds:
    """The bounds of a remainder, with the sign of the dividend."""
    most = max(abs(b.low), abs(b.high)) - 1
    high = min(most, max(0, a.high))
    if a.low < 0:
        return Bounds(max(-most, a.low), high, NONE, NONE)
    below = a.below
    if b.low > 0:
        below = _least(below, _moved(b.below, -1))
    return Bounds(0, high, NONE, below)


def summands(op: str, total: Bounds, a: Bounds, b: Bounds) -> tuple[Bounds, Bounds]:
    """What is known of the operands of a sum or difference, as that is between bounds."""
    if op == "add":
        return both(a, _difference(total, b)), both(b, _difference(total, a))
    return both(a, _sum(total, b)), both(b, _difference(a, total))


TWO = {
    "add": _sum, "sub": _difference, "mul": _product, "and": _masked, "or": _merged,
    "xor": _merged, "shr": _shifted, "div": _quotient, "rem": _rest,
}  # fmt: skip
TURNED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
MIRRORED = {"gt": "lt", "ge": "le"}


def _moved(of: dict[int, int], by: int) -> dict[int, int]:
    if by == 0 or not of:
        return of
    return {r: c + by for r, c in of.items() if -FAR < c + by < FAR}


def _most(a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
    if not (a and b):
        return a or b
    return {r: max(x[r] for x in (a, b) if r in x) for r in {**a, **b}}


def _least(a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
    if not (a and b):
        return a or b
    return {r: min(x[r] for x in (a, b) if r in x) for r in {**a, **b}}


def at_most(a: Bounds, b: Bounds, less: int) -> Bounds:
    """A number that is at most another one, or so much less."""
    return Bounds(
        a.low, min(a.high, b.high - less), a.above, _least(a.below, _moved(b.below, -less))
    )


def at_least(a: Bounds, b: Bounds, more: int) -> Bounds:
    """A number that is at least another one, or so much more."""
    return Bounds(max(a.low, b.low + more), a.high, _most(a.above, _moved(b.above, more)), a.below)


def both(a: Bounds, b: Bounds) -> Bounds:
    """A number that is both of two."""
    return at_least(at_most(a, b, 0), b, 0)


def but(a: Bounds, b: Bounds) -> Bounds:
    """A number that is not another one."""
    if b.low != b.high:
        return a
    return a._replace(low=a.low + (a.low == b.low), high=a.high - (a.high == b.low))


def widened(old: Bounds, new: Bounds) -> Bounds:
    """Widening: bounds that have moved are dropped."""
    low = new.low if new.low >= old.low else 0 if new.low >= 0 else LEAST
    high = new.high if new.high <= old.high else MOST
    above = {r: c for r, c in new.above.items() if c >= old.above.get(r, MOST)}
    below = {r: c for r, c in new.below.items() if c <= old.below.get(r, LEAST)}
    return Bounds(low, high, above, below)


def _is_less(a: Bounds, b: Bounds, less: int) -> bool:
    """Whether a number is always less than another by at least `less`."""
    if a.high + less <= b.low:
        return True
    return any(c + less <= b.above[r] for r, c in a.below.items() if r in b.above)


def compared(op: str, a: Bounds, b: Bounds) -> bool | None:
    """Whether a comparison is always true, or always false; None: unknown."""
    if op in ("gt", "ge"):
        op, a, b = MIRRORED[op], b, a
    if op in ("lt", "le"):
        if _is_less(a, b, op == "lt"):
            return True
        return False if _is_less(b, a, op == "le") else None
    if _is_less(a, b, 1) or _is_less(b, a, 1):
        return op == "ne"
    if _is_less(a, b, 0) and _is_less(b, a, 0):
        return op == "eq"
    return None
