"""Python's own functions of several values."""

from __future__ import annotations

import math
from typing import Any

from .of_lists import sort, sort_back

COMPENSATES = sum([1e16, 1.0, -1e16]) == 1.0
"""Whether ``sum`` compensates rounding of floats."""
OF_INTEGERS = sum([1e16, 1, -1e16]) == 1.0
"""Whether it does so with integers among them."""


NOTHING: Any = object()
"""The default of an argument that is not given."""


def larger(a: Any, b: Any) -> Any:
    """``max(a, b)``."""
    if b > a:
        return b
    return a


def smaller(a: Any, b: Any) -> Any:
    """``min(a, b)``."""
    if b < a:
        return b
    return a


def largest(values: Any, key: Any = None, default: Any = NOTHING) -> Any:
    """``max(values, key=key, default=default)``."""
    found = best = None
    for x in values:
        k = x if key is None else key(x)
        if best is None or k > best:
            found = x
            best = k
    if best is not None:
        return found
    if default is NOTHING:
        raise ValueError
    return default


def smallest(values: Any, key: Any = None, default: Any = NOTHING) -> Any:
    """``min(values, key=key, default=default)``."""
    found = best = None
    for x in values:
        k = x if key is None else key(x)
        if best is None or k < best:
            found = x
            best = k
    if best is not None:
        return found
    if default is NOTHING:
        raise ValueError
    return default


def total(values: Any, start: Any = 0) -> Any:
    """``sum(values)``, added up one after the other."""
    found = start
    for x in values:
        found = found + x
    return found


def is_float(x: Any) -> bool:
    """Whether it is a Python float; the compiler decides by types."""
    return type(x) is float


def is_int(x: Any) -> bool:
    """Whether it is a Python integer or truth value."""
    return type(x) in (int, bool)


def compensated_total(values: Any, start: Any = 0) -> Any:
    """``sum(values)`` since Python 3.12: Neumaier's sum, which CPython names.

    A. Neumaier, Zeitschrift für angewandte Mathematik und Mechanik 54 (1974), 39.
    """
    found = start
    lost = 0.0
    for x in values:
        if is_float(found) and (is_float(x) or (OF_INTEGERS and is_int(x))):
            both = found + x
            if abs(found) >= abs(x):
                lost += (found - both) + x
            else:
                lost += (x - both) + found
            found = both
        else:
            if is_float(found) and not is_int(x):
                if lost != 0 and math.isfinite(lost):
                    found += lost
                lost = 0.0
            found = found + x
    if is_float(found) and lost != 0 and math.isfinite(lost):
        found += lost
    return found


def any_of(values: Any) -> bool:
    """``any(values)``."""
    for x in values:  # noqa: SIM110  # this is what any is
        if x:
            return True
    return False


def all_of(values: Any) -> bool:
    """``all(values)``."""
    for x in values:  # noqa: SIM110  # this is what all is
        if not x:
            return False
    return True


def listed(values: Any) -> Any:
    """``list(values)``."""
    found = []
    for x in values:
        found.append(x)
    return found


def in_order(values: Any, key: Any = None, reverse: Any = False) -> Any:
    """``sorted(values)``. NaN raises: the order depends then on how Python sorts."""
    if key is not None:
        return in_order_by(values, key, reverse)
    found = listed(values)
    if reverse:
        sort_back(found)
    else:
        sort(found)
    return found


def sort_in_place(values: Any, key: Any = None, reverse: Any = False) -> None:
    """``values.sort(key=key, reverse=reverse)``."""
    if key is not None:
        found = in_order_by(values, key, reverse)
        for k in range(len(values)):
            values[k] = found[k]
    elif reverse:
        sort_back(values)
    else:
        sort(values)


def in_order_by(values: Any, key: Any, reverse: Any) -> Any:
    """``sorted(values, key=key, reverse=reverse)``."""
    found = []
    by = []
    for x in values:
        y = key(x)
        if y != y:
            raise ValueError
        found.append(x)
        by.append(y)
        k = len(found) - 1
        while k > 0 and (by[k - 1] < y if reverse else by[k - 1] > y):
            found[k] = found[k - 1]
            by[k] = by[k - 1]
            k -= 1
        found[k] = x
        by[k] = y
    return found


def gcd(a: int, b: int) -> int:
    """``math.gcd(a, b)``."""
    while b:
        a, b = b, a % b
    return abs(a)


# --- operator -----------------------------------------------------------------------------------


def add(a: Any, b: Any) -> Any:
    """``a + b``."""
    return a + b


def sub(a: Any, b: Any) -> Any:
    """``a - b``."""
    return a - b


def mul(a: Any, b: Any) -> Any:
    """``a * b``."""
    return a * b


def truediv(a: Any, b: Any) -> Any:
    """``a / b``."""
    return a / b


def floordiv(a: Any, b: Any) -> Any:
    """``a // b``."""
    return a // b


def mod(a: Any, b: Any) -> Any:
    """``a % b``."""
    return a % b


def pow_(a: Any, b: Any) -> Any:
    """``a ** b``."""
    return a**b


def and_(a: Any, b: Any) -> Any:
    """``a & b``."""
    return a & b


def or_(a: Any, b: Any) -> Any:
    """``a | b``."""
    return a | b


def xor(a: Any, b: Any) -> Any:
    """``a ^ b``."""
    return a ^ b


def lshift(a: Any, b: Any) -> Any:
    """``a << b``."""
    return a << b


def rshift(a: Any, b: Any) -> Any:
    """``a >> b``."""
    return a >> b


def lt(a: Any, b: Any) -> Any:
    """``a < b``."""
    return a < b


def le(a: Any, b: Any) -> Any:
    """``a <= b``."""
    return a <= b


def gt(a: Any, b: Any) -> Any:
    """``a > b``."""
    return a > b


def ge(a: Any, b: Any) -> Any:
    """``a >= b``."""
    return a >= b


def eq(a: Any, b: Any) -> Any:
    """``a == b``."""
    return a == b


def ne(a: Any, b: Any) -> Any:
    """``a != b``."""
    return a != b


def neg(a: Any) -> Any:
    """``-a``."""
    return -a


def pos(a: Any) -> Any:
    """``+a``."""
    return +a


def not_(a: Any) -> bool:
    """``not a``."""
    return not a


def truth(a: Any) -> bool:
    """``bool(a)``."""
    return bool(a)


def contains(a: Any, b: Any) -> bool:
    """``b in a``."""
    return b in a
