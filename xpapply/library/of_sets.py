"""Python's functions of sets, except their order, for the compiler."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from typing import Any

from .of_iteration import once


def elements(x: Any) -> Any:
    """Elements of a set; the compiler has them as a list, in order of insertion."""
    return list(x)


def either(made: Any, a: Any, b: Any) -> Any:
    """``a | b``."""
    for x in elements(a):
        made.add(x)
    for x in elements(b):
        made.add(x)
    return made


def both(made: Any, a: Any, b: Any) -> Any:
    """``a & b``."""
    for x in elements(a):
        if x in b:
            made.add(x)
    return made


def both_of_floats(made: Any, a: Any, b: Any) -> Any:
    """``a & b`` of floats; a zero raises: whose it is depends on how many each of them has."""
    for x in elements(a):
        if x in b:
            if x == 0:
                raise ValueError
            made.add(x)
    return made


def without(made: Any, a: Any, b: Any) -> Any:
    """``a - b``."""
    for x in elements(a):
        if x not in b:
            made.add(x)
    return made


def one_of(made: Any, a: Any, b: Any) -> Any:
    """``a ^ b``."""
    for x in elements(a):
        if x not in b:
            made.add(x)
    for x in elements(b):
        if x not in a:
            made.add(x)
    return made


def updated(a: Any, b: Any) -> Any:
    """``a |= b``."""
    for x in elements(b):
        a.add(x)
    return a


def within(a: Any, b: Any) -> bool:
    """``a <= b``."""
    for x in elements(a):  # noqa: SIM110  # it is written for the compiler
        if x not in b:
            return False
    return True


def around(a: Any, b: Any) -> bool:
    """``a >= b``."""
    return within(b, a)


def less(a: Any, b: Any) -> bool:
    """``a < b``."""
    return len(a) < len(b) and within(a, b)


def more(a: Any, b: Any) -> bool:
    """``a > b``."""
    return len(b) < len(a) and within(b, a)


def alike(a: Any, b: Any) -> bool:
    """``a == b``."""
    return len(a) == len(b) and within(a, b)


def unlike(a: Any, b: Any) -> bool:
    """``a != b``."""
    return not alike(a, b)


def apart(a: Any, b: Any) -> bool:
    """``a.isdisjoint(b)``."""
    for x in elements(a):  # noqa: SIM110  # it is written for the compiler
        if x in b:
            return False
    return True


def total(values: Any) -> Any:
    """``sum(values)`` of integers in any order: none of their sums leaves 64 bits."""
    up = 0
    down = 0
    for x in values:
        if x > 0:
            up += int(x)
        else:
            down += int(x)
    found = 0
    for x in values:
        found = found + x
    return found


def in_place_order(keys: Any) -> Iterator[Any]:
    """Integers in the order in which a set of CPython's has them that they were added to.

    Its table has a place for each hash, and where that is taken one of the nine after it, or one
    that the rest of the hash says; it gets four times as large (or more) once three of five places
    are taken.
    """
    last = 7
    table = [-1] * 8
    for k in range(len(keys)):
        _settled(table, last, keys, k)
        used = k + 1
        if used * 5 >= last * 3:
            size = 8
            while size <= 4 * used:
                size *= 2
            if used > 50000:
                raise ValueError
            old = [j for j in table if j >= 0]
            table = [-1] * size
            last = size - 1
            for j in old:
                _settled(table, last, keys, j)
    found = []
    for j in table:
        if j >= 0:
            found.append(keys[j])
    return once(found)


def _settled(table: Any, last: int, keys: Any, k: int) -> None:
    """Put a key, which is new, into the table."""
    number = int(keys[k])
    if number <= -2305843009213693951 or number >= 2305843009213693951:  # its hash is another one
        raise ValueError
    if number == -1:
        number = -2
    at = number & last
    far = number
    while True:
        least = at + 9 if at + 9 <= last else at
        here = at
        while here <= least:
            if table[here] < 0:
                table[here] = k
                return
            here += 1
        far = (far >> 5) & 0x07FFFFFFFFFFFFFF
        at = (at * 5 + 1 + far) & last


@functools.cache
def keeps_order_so() -> bool:
    """Whether this Python's sets have this order."""
    r = random.Random(0)
    for n in (3, 5, 9, 20, 50, 200):
        top = r.choice((9, 99, 2**20, 2**60))
        some = [*dict.fromkeys(r.randrange(-top, top) for _ in range(n))]
        found: set[int] = set()
        for x in some:
            found.add(x)
        if [*found] != [*in_place_order(some)]:
            return False
    return True


def copied(made: Any, a: Any) -> Any:
    """``a.copy()``."""
    for x in elements(a):
        made.add(x)
    return made
