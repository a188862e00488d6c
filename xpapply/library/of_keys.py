"""Dicts, sets and deques of Python, for the compiler.

Keys lie in a list, in the order in which they came. ``places`` says where, and has room for more
than twice as many: the place of a key is at its hash or after it; -1 where none is. ``state``
counts changes.
"""

from __future__ import annotations

from typing import Any


def hashed(key: Any) -> int:
    """A number that equal keys have in common; the compiler has one of its own."""
    return hash(key)


def find(keys: Any, places: Any, key: Any, number: int) -> int:
    """The place of a key; -1: absent."""
    last = len(places) - 1
    at = number & last
    while places[at] >= 0:
        if keys[places[at]] == key:
            return places[at]
        at = (at + 1) & last
    return -1


def _settle(places: Any, number: int, k: int) -> None:
    """Write down where a key is that is new."""
    last = len(places) - 1
    at = number & last
    while places[at] >= 0:
        at = (at + 1) & last
    places[at] = k


def _settle_all(keys: Any, places: Any) -> None:
    """Write down anew where all keys are."""
    for k in range(len(places)):
        places[k] = -1
    for k in range(len(keys)):
        _settle(places, hashed(keys[k]), k)


def _new(keys: Any, places: Any, key: Any, number: int, state: Any) -> None:
    """Put a key that is not there."""
    keys.append(key)
    state[0] = state[0] + 1
    if 2 * len(keys) > len(places):
        for _ in range(3 * len(places)):
            places.append(-1)
        _settle_all(keys, places)
    else:
        _settle(places, number, len(keys) - 1)


def _take_out(keys: Any, places: Any, at: int, state: Any) -> None:
    for k in range(at, len(keys) - 1):
        keys[k] = keys[k + 1]
    keys.pop()
    state[0] = state[0] + 1
    _settle_all(keys, places)


def has(keys: Any, places: Any, key: Any, number: int) -> bool:
    """``key in d``."""
    return find(keys, places, key, number) >= 0


def has_not(keys: Any, places: Any, key: Any, number: int) -> bool:
    """``key not in d``."""
    return find(keys, places, key, number) < 0


def got(keys: Any, places: Any, key: Any, number: int, values: Any) -> Any:
    """``d[key]``."""
    at = find(keys, places, key, number)
    if at < 0:
        raise KeyError
    return values[at]


def got_or(keys: Any, places: Any, key: Any, number: int, values: Any, default: Any) -> Any:
    """``d.get(key, default)``."""
    at = find(keys, places, key, number)
    if at < 0:
        return default
    return values[at]


def put(keys: Any, places: Any, key: Any, number: int, values: Any, state: Any, value: Any) -> None:
    """``d[key] = value``."""
    at = find(keys, places, key, number)
    if at < 0:
        _new(keys, places, key, number, state)
        values.append(value)
    else:
        values[at] = value


def got_or_put(
    keys: Any, places: Any, key: Any, number: int, values: Any, state: Any, value: Any
) -> Any:
    """``d.setdefault(key, value)``."""
    at = find(keys, places, key, number)
    if at >= 0:
        return values[at]
    _new(keys, places, key, number, state)
    values.append(value)
    return value


def got_or_new(keys: Any, places: Any, key: Any, number: int, values: Any, state: Any) -> Any:
    """``d[key]`` of a ``defaultdict(list)``."""
    at = find(keys, places, key, number)
    if at >= 0:
        return values[at]
    made: list[Any] = []
    _new(keys, places, key, number, state)
    values.append(made)
    return made


def delete(keys: Any, places: Any, key: Any, number: int, values: Any, state: Any) -> None:
    """``del d[key]``."""
    at = find(keys, places, key, number)
    if at < 0:
        raise KeyError
    _take_out(keys, places, at, state)
    for k in range(at, len(values) - 1):
        values[k] = values[k + 1]
    values.pop()


def popped(keys: Any, places: Any, key: Any, number: int, values: Any, state: Any) -> Any:
    """``d.pop(key)``."""
    found = got(keys, places, key, number, values)
    delete(keys, places, key, number, values, state)
    return found


def popped_or(
    keys: Any, places: Any, key: Any, number: int, values: Any, state: Any, default: Any
) -> Any:
    """``d.pop(key, default)``."""
    at = find(keys, places, key, number)
    if at < 0:
        return default
    found = values[at]
    delete(keys, places, key, number, values, state)
    return found


def clear(keys: Any, places: Any, values: Any, state: Any) -> None:
    """``d.clear()``."""
    values.clear()
    clear_set(keys, places, state)


def clear_set(keys: Any, places: Any, state: Any) -> None:
    """``s.clear()``."""
    keys.clear()
    state[0] = state[0] + 1
    for k in range(len(places)):
        places[k] = -1


def commonest(keys: Any, values: Any) -> Any:
    """``Counter(...).most_common(1)``."""
    if len(keys) == 0:
        raise ValueError
    at = 0
    for k in range(1, len(values)):
        if values[k] > values[at]:
            at = k
    return [(keys[at], values[at])]


def commonest_first(keys: Any, values: Any, most: int) -> Any:
    """``Counter(...).most_common(most)``: of equal ones those first that came first."""
    found = []
    by = []
    for at in range(len(keys)):
        n = values[at]
        found.append((keys[at], n))
        by.append(n)
        k = at
        while k > 0 and by[k - 1] < n:
            found[k] = found[k - 1]
            by[k] = by[k - 1]
            k -= 1
        found[k] = (keys[at], n)
        by[k] = n
    return found[: max(most, 0)]


def add(keys: Any, places: Any, key: Any, number: int, state: Any) -> None:
    """``s.add(key)``."""
    if find(keys, places, key, number) < 0:
        _new(keys, places, key, number, state)


def discard(keys: Any, places: Any, key: Any, number: int, state: Any) -> None:
    """``s.discard(key)``."""
    at = find(keys, places, key, number)
    if at >= 0:
        _take_out(keys, places, at, state)


def remove(keys: Any, places: Any, key: Any, number: int, state: Any) -> None:
    """``s.remove(key)``."""
    at = find(keys, places, key, number)
    if at < 0:
        raise KeyError
    _take_out(keys, places, at, state)


def filled(made: Any, some: Any) -> Any:
    """A set of what is gone through."""
    for x in some:
        made.add(x)
    return made


def updated(made: Any, some: Any) -> None:
    """``s.update(some)``."""
    for x in some:
        made.add(x)


def counted(made: Any, some: Any) -> Any:
    """``Counter(some)``."""
    for x in some:
        made[x] = made.get(x, 0) + 1
    return made


def pushed(made: Any, some: Any) -> Any:
    """``deque(some)``."""
    for x in some:
        made.append(x)
    return made


def push(values: Any, x: Any, most: int) -> None:
    """``d.append(x)`` of a deque that holds so many."""
    if most <= 0:
        raise ValueError
    values.append(x)
    if len(values) > most:
        first(values)


def push_left(values: Any, x: Any, most: int) -> None:
    """``d.appendleft(x)`` of a deque that holds so many."""
    if most <= 0:
        raise ValueError
    if len(values) == most:
        values.pop()
    values.append(x)
    k = len(values) - 1
    while k > 0:
        values[k] = values[k - 1]
        k -= 1
    values[0] = x


def first(values: Any) -> Any:
    """Take out the first element; the compiler has an instruction for it."""
    return values.pop(0)
