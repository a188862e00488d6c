"""What Python does with sets, but for their order, for the compiler."""

from __future__ import annotations

from typing import Any


def elements(x: Any) -> Any:
    """What is in a set; the compiler has a list of it, in the order in which it came."""
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


def copied(made: Any, a: Any) -> Any:
    """``a.copy()``."""
    for x in elements(a):
        made.add(x)
    return made
