"""Texts that are put together, for the compiler: a text is a part of a list of letters' numbers.

Nothing is written over letters that a text has, so texts may share a list. `code`, `codes`,
`begin`, `grows`, `text` and `letters` are the compiler's own, which take texts apart and make them.
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
    """The offset of the text in that list."""
    return 0


def grows(x: str) -> bool:
    """Whether that list can grow at its end."""
    return True


def text(numbers: Any, first: int, count: int) -> str:
    """The text of some numbers in a list."""
    return "".join(map(chr, numbers[first : first + count]))


def letters() -> list[int]:
    """An empty list of letters' numbers."""
    return []


def added(a: str, b: str) -> str:
    """``a + b``: appended to the letters of `a` if these end there."""
    n = len(a)
    if grows(a):
        known = codes(a)
        first = begin(a)
        if first + n == len(known):
            put(known, b)
            return text(known, first, n + len(b))
    found = letters()
    put(found, a)
    put(found, b)
    return text(found, 0, len(found))


def put(found: Any, x: str) -> None:
    """Put the letters of a text at the end of a list."""
    for k in range(len(x)):
        found.append(code(x, k))


def joined(between: str, some: Any) -> str:
    """``between.join(some)``."""
    found = letters()
    further = False
    for x in some:
        if further:
            put(found, between)
        put(found, x)
        further = True
    return text(found, 0, len(found))


def repeated(x: str, count: int) -> str:
    """``x * count``."""
    found = letters()
    if count * len(x) > _LIMIT:
        raise ValueError
    for _ in range(count):
        put(found, x)
    return text(found, 0, len(found))


def part(x: str, start: int, step: int, count: int) -> str:
    """``x[...]``, of a slice whose step is not 1."""
    found = letters()
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
    """Whether `y` is in `x` at a place with room for it."""
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


def last_place(x: str, y: str) -> int:
    """``x.rfind(y)``."""
    at = len(x) - len(y)
    while at >= 0:
        if begins(x, y, at):
            return at
        at -= 1
    return -1


def last_index(x: str, y: str) -> int:
    """``x.rindex(y)``."""
    at = last_place(x, y)
    if at < 0:
        raise ValueError
    return at


def _is_among(letter: int, some: str) -> bool:
    for k in range(len(some)):  # noqa: SIM110  # it is written for the compiler
        if code(some, k) == letter:
            return True
    return False


def stripped(x: str, some: str, left: bool, right: bool) -> str:
    """``x.strip(some)``, or that at one end."""
    first = 0
    last = len(x)
    while left and first < last and _is_among(code(x, first), some):
        first += 1
    while right and first < last and _is_among(code(x, last - 1), some):
        last -= 1
    return x[first:last]


def without_prefix(x: str, y: str) -> str:
    """``x.removeprefix(y)``."""
    return x[len(y) :] if starts(x, y) else x


def without_suffix(x: str, y: str) -> str:
    """``x.removesuffix(y)``."""
    return x[: len(x) - len(y)] if ends(x, y) else x


def parted(x: str, y: str) -> tuple[str, str, str]:
    """``x.partition(y)``."""
    if len(y) == 0:
        raise ValueError
    at = place(x, y)
    if at < 0:
        return x, x[len(x) :], x[len(x) :]
    return x[:at], x[at : at + len(y)], x[at + len(y) :]


def are_within(x: str, low: int, high: int, other_low: int, other_high: int) -> bool:
    """Whether all letters of a non-empty text are in one of two ranges, in ASCII."""
    n = len(x)
    for k in range(n):
        y = code(x, k)
        if y > 127:
            raise ValueError
        if not (low <= y <= high or other_low <= y <= other_high):
            return False
    return n > 0


def have_case(x: str, low: int, high: int) -> bool:
    """``x.isupper()`` or ``x.islower()``: no letter is in that range, and some have a case."""
    found = False
    for k in range(len(x)):
        y = code(x, k)
        if y > 127:
            raise ValueError
        if low <= y <= high:
            return False
        found = found or 65 <= y <= 90 or 97 <= y <= 122
    return found


def swapped(x: str) -> str:
    """``x.swapcase()``, of ASCII letters."""
    found = letters()
    for k in range(len(x)):
        y = code(x, k)
        if y > 127:
            raise ValueError
        if 65 <= y <= 90 or 97 <= y <= 122:
            y ^= 32
        found.append(y)
    return text(found, 0, len(found))


def capital(x: str, each: bool) -> str:
    """``x.capitalize()``, or by `each` ``x.title()``, of ASCII letters."""
    found = letters()
    begins_word = True
    for k in range(len(x)):
        y = code(x, k)
        if y > 127:
            raise ValueError
        is_letter = 65 <= y <= 90 or 97 <= y <= 122
        if is_letter:
            y = y & 95 if begins_word else y | 32
        begins_word = each and not is_letter
        found.append(y)
    return text(found, 0, len(found))


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
    found = letters()
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


def turned(found: Any, first: int) -> None:
    """Turn round what is in a list from a place on."""
    i = first
    j = len(found) - 1
    while i < j:
        kept_ = found[i]
        found[i] = found[j]
        found[j] = kept_
        i += 1
        j -= 1


def put_digits(found: Any, n: int, least: int, between: int) -> None:
    """Put the digits of an integer to a list, at least so many; a letter between thousands."""
    begun = len(found)
    left = n
    count = 0
    while left > 0 or count < least:
        if between != 0 and count > 0 and count % 3 == 0:
            found.append(between)
        found.append(48 + left % 10)
        left //= 10
        count += 1
    turned(found, begun)


def of_int(n: int) -> str:
    """``str(n)``."""
    found = letters()
    if n < 0:
        found.append(45)
    put_digits(found, abs(n), 1, 0)
    return text(found, 0, len(found))


def filled(x: str, width: int, by: int, is_left: bool) -> str:
    """A text that is made as long as is said: the letter `by` comes before it, or after it."""
    found = letters()
    if is_left:
        put(found, x)
    for _ in range(width - len(x)):
        found.append(by)
    if not is_left:
        put(found, x)
    return text(found, 0, len(found))


def padded(found: Any, begun: int, width: int) -> str:
    """A text with zeros after its sign: it gets so many letters."""
    n = len(found)
    if n >= width:
        return text(found, 0, n)
    made = letters()
    for k in range(begun):
        made.append(found[k])
    for _ in range(width - n):
        made.append(48)
    for k in range(begun, n):
        made.append(found[k])
    return text(made, 0, width)


def justified(x: str, width: int, by: int, way: int) -> str:
    """A text of so many letters at least: to the left (-1), in the middle (0), to the right (1)."""
    n = len(x)
    if n >= width:
        return x
    found = letters()
    before = 0 if way < 0 else width - n
    if way == 0:
        before = (width - n) // 2
    for _ in range(before):
        found.append(by)
    put(found, x)
    for _ in range(width - n - before):
        found.append(by)
    return text(found, 0, width)


def centered(x: str, width: int, by: int) -> str:
    """``x.center(width)``, which puts what is left over elsewhere than a format does."""
    far = width - len(x)
    before = far // 2 + (far & width & 1)
    if far <= 0:
        return x
    return justified(justified(x, len(x) + before, by, 1), width, by, -1)


def zero_filled(x: str, width: int) -> str:
    """``x.zfill(width)``."""
    found = letters()
    put(found, x)
    signed = len(x) > 0 and (code(x, 0) == 45 or code(x, 0) == 43)
    return padded(found, 1 if signed else 0, width)


def to_int(x: str, base: int = 10) -> int:
    """``int(x, base)`` of digits and a sign."""
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
    found = letters()
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
    found = letters()
    _spell(found, x, width)
    return found


def spelled_whole(x: str, width: int) -> Any:
    """Spell a result which is not cut: one that is longer is none."""
    if len(x) > width:
        raise ValueError("a text of more letters than there is place for")
    return spelled(x, width)


def all_spelled(some: Any, width: int) -> Any:
    """Spell several texts, one after the other."""
    found = letters()
    for x in some:
        _spell(found, x, width)
    return found


def kept(x: str) -> str:
    """A text whose letters are in a list."""
    if grows(x):
        return x
    found = letters()
    put(found, x)
    return text(found, 0, len(found))


def appended(some: Any, x: str) -> None:
    """``some.append(x)``, of a part of a text that is known."""
    some.append(kept(x))


def with_hash_kept(
    function: Callable[..., Any], keys: Any, places: Any, key: str, *others: Any
) -> Any:
    """Call a function of a table that keeps the text as its key."""
    mine = kept(key)
    return function(keys, places, mine, hashed(mine), *others)


def with_hash(function: Callable[..., Any], keys: Any, places: Any, key: str, *others: Any) -> Any:
    """Call one of the functions of keys, with the number that stands for a text."""
    return function(keys, places, key, hashed(key), *others)
