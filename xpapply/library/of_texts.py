"""Texts that are put together, for the compiler: a text is a part of a list of letters' numbers.

Nothing is written over letters that a text has, so texts may share a list. `code`, `codes`,
`begin`, `grows` and `text` are the compiler's own, which take texts apart and make them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_LIMIT = 1 << 16
"""Letters whose text is made as often as is said."""


def code(x: str, k: int) -> int:
    """The number of a letter at a place that is there."""
    return ord(x[k])


def codes(x: str) -> Any:
    """The list of numbers of which some are the letters of a text."""
    return [ord(c) for c in x]


def begin(x: str) -> int:
    """Where in that list the text begins."""
    return 0


def grows(x: str) -> bool:
    """Whether something may be put at the end of that list."""
    return True


def text(letters: Any, first: int, count: int) -> str:
    """The text of some numbers in a list."""
    return "".join(map(chr, letters[first : first + count]))


def added(a: str, b: str) -> str:
    """``a + b``: at the end of the letters of `a` if nothing has been put there yet."""
    n = len(a)
    if grows(a):
        known = codes(a)
        first = begin(a)
        if first + n == len(known):
            put(known, b)
            return text(known, first, n + len(b))
    found: list[int] = []
    put(found, a)
    put(found, b)
    return text(found, 0, len(found))


def put(found: Any, x: str) -> None:
    """Put the letters of a text at the end of a list."""
    for k in range(len(x)):
        found.append(code(x, k))


def joined(between: str, some: Any) -> str:
    """``between.join(some)``."""
    found: list[int] = []
    further = False
    for x in some:
        if further:
            put(found, between)
        put(found, x)
        further = True
    return text(found, 0, len(found))


def repeated(x: str, count: int) -> str:
    """``x * count``."""
    found: list[int] = []
    if count * len(x) > _LIMIT:
        raise ValueError
    for _ in range(count):
        put(found, x)
    return text(found, 0, len(found))


def part(x: str, start: int, step: int, count: int) -> str:
    """``x[...]``, of a slice whose step is not 1."""
    found: list[int] = []
    at = start
    for _ in range(count):
        found.append(code(x, at))
        at += step
    return text(found, 0, count)


def alike(a: str, b: str) -> bool:
    """``a == b``."""
    if len(a) != len(b):
        return False
    return begins(b, a, 0)


def unlike(a: str, b: str) -> bool:
    """``a != b``."""
    return not alike(a, b)


def begins(x: str, y: str, at: int) -> bool:
    """Whether `y` stands in `x` at a place, which has room for it."""
    for k in range(len(y)):  # noqa: SIM110  # it is written for the compiler
        if code(x, at + k) != code(y, k):
            return False
    return True


def less(a: str, b: str) -> bool:
    """``a < b``."""
    for k in range(min(len(a), len(b))):
        x = code(a, k)
        y = code(b, k)
        if x != y:
            return x < y
    return len(a) < len(b)


def more(a: str, b: str) -> bool:
    """``a > b``."""
    return less(b, a)


def not_more(a: str, b: str) -> bool:
    """``a <= b``."""
    return not less(b, a)


def not_less(a: str, b: str) -> bool:
    """``a >= b``."""
    return not less(a, b)


def place(x: str, y: str) -> int:
    """``x.find(y)``."""
    for at in range(len(x) - len(y) + 1):
        if begins(x, y, at):
            return at
    return -1


def index(x: str, y: str) -> int:
    """``x.index(y)``."""
    at = place(x, y)
    if at < 0:
        raise ValueError
    return at


def has(y: str, x: str) -> bool:
    """``y in x``."""
    return place(x, y) >= 0


def has_not(y: str, x: str) -> bool:
    """``y not in x``."""
    return place(x, y) < 0


def is_one(x: str, some: Any) -> bool:
    """``x in some``, of texts that are written in the source."""
    for y in some:  # noqa: SIM110  # it is written for the compiler
        if x == y:
            return True
    return False


def is_none(x: str, some: Any) -> bool:
    """``x not in some``."""
    return not is_one(x, some)


def count(x: str, y: str) -> int:
    """``x.count(y)``."""
    if len(y) == 0:
        return len(x) + 1
    found = 0
    at = 0
    while at + len(y) <= len(x):
        if begins(x, y, at):
            found += 1
            at += len(y)
        else:
            at += 1
    return found


def starts(x: str, y: str) -> bool:
    """``x.startswith(y)``."""
    return len(y) <= len(x) and begins(x, y, 0)


def ends(x: str, y: str) -> bool:
    """``x.endswith(y)``."""
    return len(y) <= len(x) and begins(x, y, len(x) - len(y))


def split(x: str, y: str) -> Any:
    """``x.split(y)``."""
    if len(y) == 0:
        raise ValueError
    found = []
    first = 0
    at = 0
    while at + len(y) <= len(x):
        if begins(x, y, at):
            found.append(x[first:at])
            at += len(y)
            first = at
        else:
            at += 1
    found.append(x[first:])
    return found


def replaced(x: str, old: str, new: str) -> str:
    """``x.replace(old, new)``."""
    if len(old) == 0:
        raise ValueError
    found: list[int] = []
    at = 0
    while at < len(x):
        if at + len(old) <= len(x) and begins(x, old, at):
            put(found, new)
            at += len(old)
        else:
            found.append(code(x, at))
            at += 1
    return text(found, 0, len(found))


def hashed(x: str) -> int:
    """A number that equal texts have in common."""
    found = len(x)
    for k in range(len(x)):
        found = ((found & 0xFFFFFFFFFF) * 1000003) ^ code(x, k)
    return (found & 0xFFFFFFFFFF) ^ (found >> 17)


def looked_up(key: str, some: Any, values: Any) -> Any:
    """``d[key]`` of a dict of the user's, whose keys are texts."""
    for k, y in enumerate(some):
        if key == y:
            return values[k]
    raise KeyError


def looked_up_or(key: str, some: Any, values: Any, default: Any) -> Any:
    """``d.get(key, default)``."""
    for k, y in enumerate(some):
        if key == y:
            return values[k]
    return default


def of_int(n: int) -> str:
    """``str(n)``."""
    found: list[int] = []
    left = n
    if n < 0:
        found.append(45)
        if n < -(1 << 62):
            raise ValueError
        left = -n
    unit = 1
    while unit <= left // 10:
        unit *= 10
    while unit > 0:
        found.append(48 + left // unit)
        left %= unit
        unit //= 10
    return text(found, 0, len(found))


def filled(x: str, width: int, by: int, is_left: bool) -> str:
    """A text that is made as long as is said: the letter `by` comes before it, or after it."""
    found: list[int] = []
    if is_left:
        put(found, x)
    for _ in range(width - len(x)):
        found.append(by)
    if not is_left:
        put(found, x)
    return text(found, 0, len(found))


def to_int(x: str, base: int = 10) -> int:
    """``int(x, base)`` of digits and a sign, and nothing else."""
    n = len(x)
    if base < 2 or base > 10:
        raise ValueError
    at = 0
    sign = 1
    if n > 0 and (code(x, 0) == 45 or code(x, 0) == 43):
        at = 1
        if code(x, 0) == 45:
            sign = -1
    if at == n:
        raise ValueError
    found = 0
    while at < n:
        digit = code(x, at) - 48
        if digit < 0 or digit >= base:
            raise ValueError
        found = found * base + digit
        at += 1
    return sign * found


def letter_changed(x: str, low: int, high: int, by: int) -> str:
    """``x.upper()`` or ``x.lower()``, of ASCII letters."""
    found: list[int] = []
    for k in range(len(x)):
        y = code(x, k)
        if y > 127:
            raise ValueError
        if low <= y <= high:
            y = y + by
        found.append(y)
    return text(found, 0, len(found))


def _spell(found: Any, x: str, width: int) -> None:
    n = len(x)
    for k in range(width):
        if k < n:
            found.append(code(x, k))
        else:
            found.append(0)


def spelled(x: str, width: int) -> Any:
    """The numbers of the letters of a result, cut or filled up with zeros, as NumPy has them."""
    found: list[int] = []
    _spell(found, x, width)
    return found


def all_spelled(some: Any, width: int) -> Any:
    """Those of several texts, one after the other."""
    found: list[int] = []
    for x in some:
        _spell(found, x, width)
    return found


def kept(x: str) -> str:
    """A text whose letters are in a list."""
    if grows(x):
        return x
    found: list[int] = []
    put(found, x)
    return text(found, 0, len(found))


def appended(some: Any, x: str) -> None:
    """``some.append(x)``, of a part of a text that is known."""
    some.append(kept(x))


def with_hash_kept(
    function: Callable[..., Any], keys: Any, places: Any, key: str, *others: Any
) -> Any:
    """The same of a function that keeps the text."""
    mine = kept(key)
    return function(keys, places, mine, hashed(mine), *others)


def with_hash(function: Callable[..., Any], keys: Any, places: Any, key: str, *others: Any) -> Any:
    """Call one of the functions of keys, with the number that stands for a text."""
    return function(keys, places, key, hashed(key), *others)
