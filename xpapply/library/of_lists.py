"""Python's functions of lists, ``bisect`` and ``heapq``.

A NaN raises where Python would look whether it is the very same object.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def part(values: Any, start: int, step: int, count: int) -> Any:
    """``values[...]``, of a slice."""
    found = []
    at = start
    for _ in range(count):
        found.append(values[at])
        at += step
    return found


def between(values: Any, before: int, after: int) -> Any:
    """Values without some at both ends, as a list."""
    found = []
    for k in range(before, len(values) - after):
        found.append(values[k])
    return found


def copied(values: Any) -> Any:
    """``values.copy()``."""
    found = []
    for x in values:
        found.append(x)
    return found


def joined(a: Any, b: Any) -> Any:
    """``a + b``."""
    found = []
    for x in a:
        found.append(x)
    for x in b:
        found.append(x)
    return found


def extend(values: Any, further: Any) -> None:
    """``values.extend(further)``."""
    for x in further:
        values.append(x)


def extended(values: Any, further: Any) -> Any:
    """``values += further``."""
    for x in further:
        values.append(x)
    return values


def insert(values: Any, at: int, x: Any) -> None:
    """``values.insert(at, x)``."""
    n = len(values)
    if at < 0:
        at += n
        if at < 0:
            at = 0
    if at > n:
        at = n
    values.append(x)
    k = n
    while k > at:
        values[k] = values[k - 1]
        k -= 1
    values[at] = x


def popped(values: Any, at: int) -> Any:
    """``values.pop(at)``."""
    n = len(values)
    if at < 0:
        at += n
    if at < 0 or at >= n:
        raise IndexError
    found = values[at]
    for k in range(at, n - 1):
        values[k] = values[k + 1]
    values.pop()
    return found


def without(values: Any, at: int) -> None:
    """``del values[at]``."""
    n = len(values)
    if at < 0:
        at += n
    if at < 0 or at >= n:
        raise IndexError
    for k in range(at, n - 1):
        values[k] = values[k + 1]
    values.pop()


def place(values: Any, x: Any) -> int:
    """The first index of an equal element; -1: none."""
    if x != x:
        raise ValueError
    for k in range(len(values)):
        if values[k] == x:
            return k
    return -1


def has(values: Any, x: Any) -> bool:
    """``x in values``."""
    return place(values, x) >= 0


def has_not(values: Any, x: Any) -> bool:
    """``x not in values``."""
    return place(values, x) < 0


def index(values: Any, x: Any) -> int:
    """``values.index(x)``."""
    found = place(values, x)
    if found < 0:
        raise ValueError
    return found


def remove(values: Any, x: Any) -> None:
    """``values.remove(x)``."""
    found = place(values, x)
    if found < 0:
        raise ValueError
    without(values, found)


def count(values: Any, x: Any) -> int:
    """``values.count(x)``."""
    if x != x:
        raise ValueError
    found = 0
    for y in values:
        if y == x:
            found += 1
    return found


def reverse(values: Any) -> None:
    """``values.reverse()``."""
    i = 0
    j = len(values) - 1
    while i < j:
        x = values[i]
        values[i] = values[j]
        values[j] = x
        i += 1
        j -= 1


def alike(a: Any, b: Any) -> bool:
    """``a == b``."""
    if len(a) != len(b):
        return False
    for k in range(len(a)):
        if a[k] != a[k] or b[k] != b[k]:
            raise ValueError
        if a[k] != b[k]:
            return False
    return True


def unlike(a: Any, b: Any) -> bool:
    """``a != b``."""
    return not alike(a, b)


_RUN = 12
"""So many neighbours are sorted by insertion."""


def sort(values: Any) -> None:
    """``values.sort()``: runs by insertion, which are merged; equal ones keep their order."""
    n = len(values)
    for x in values:
        if x != x:
            raise ValueError
    for i in range(1, n):
        x = values[i]
        k = i
        while k % _RUN > 0 and x < values[k - 1]:
            values[k] = values[k - 1]
            k -= 1
        values[k] = x
    if n <= _RUN:
        return
    other = copied(values)
    width = _RUN
    while width < n:
        at = 0
        for low in range(0, n, 2 * width):
            middle = min(low + width, n)
            high = min(low + 2 * width, n)
            i = low
            j = middle
            while i < middle or j < high:
                if j >= high or (i < middle and not values[j] < values[i]):
                    other[at] = values[i]
                    i += 1
                else:
                    other[at] = values[j]
                    j += 1
                at += 1
        for k in range(n):
            values[k] = other[k]
        width *= 2


def sort_back(values: Any) -> None:
    """``values.sort(reverse=True)``: equal ones keep their order."""
    reverse(values)
    sort(values)
    reverse(values)


# --- bisect and heapq ---------------------------------------------------------------------------


def place_left(a: Any, x: Any) -> int:
    """``bisect.bisect_left(a, x)``."""
    low, high = 0, len(a)
    while low < high:
        middle = (low + high) // 2
        if a[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


def place_right(a: Any, x: Any) -> int:
    """``bisect.bisect_right(a, x)``."""
    low, high = 0, len(a)
    while low < high:
        middle = (low + high) // 2
        if x < a[middle]:
            high = middle
        else:
            low = middle + 1
    return low


def insert_left(a: Any, x: Any) -> None:
    """``bisect.insort_left(a, x)``."""
    insert(a, place_left(a, x), x)


def insert_right(a: Any, x: Any) -> None:
    """``bisect.insort(a, x)``."""
    insert(a, place_right(a, x), x)


def _up(heap: Any, first: int, at: int) -> None:
    """Move an element of a heap towards the first one while it is smaller than what is above."""
    x = heap[at]
    while at > first:
        above = (at - 1) // 2
        if not x < heap[above]:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = x


def _down(heap: Any, at: int) -> None:
    """Move the smaller ones below up to the end, and an element from there to its place."""
    n = len(heap)
    first = at
    x = heap[at]
    below = 2 * at + 1
    while below < n:
        if below + 1 < n and not heap[below] < heap[below + 1]:
            below += 1
        heap[at] = heap[below]
        at = below
        below = 2 * at + 1
    heap[at] = x
    _up(heap, first, at)


def heap_push(heap: Any, x: Any) -> None:
    """``heapq.heappush(heap, x)``."""
    heap.append(x)
    _up(heap, 0, len(heap) - 1)


def heap_pop(heap: Any) -> Any:
    """``heapq.heappop(heap)``."""
    last = heap.pop()
    if len(heap) == 0:
        return last
    found = heap[0]
    heap[0] = last
    _down(heap, 0)
    return found


def heap_replace(heap: Any, x: Any) -> Any:
    """``heapq.heapreplace(heap, x)``."""
    found = heap[0]
    heap[0] = x
    _down(heap, 0)
    return found


def heap_push_pop(heap: Any, x: Any) -> Any:
    """``heapq.heappushpop(heap, x)``."""
    if len(heap) > 0 and heap[0] < x:
        found = heap[0]
        heap[0] = x
        _down(heap, 0)
        return found
    return x


def heap_of(heap: Any) -> None:
    """``heapq.heapify(heap)``."""
    for k in range(len(heap) // 2 - 1, -1, -1):
        _down(heap, k)


def as_array(x: Any, dtype: Any) -> Any:
    """``np.array(x, dtype)`` of a list of numbers."""
    out = np.empty(len(x), dtype)
    for k in range(len(x)):
        out[k] = x[k]
    return out


def as_table(rows: Any, dtype: Any) -> Any:
    """``np.array(rows)`` of lists of one length, which have numbers."""
    m = len(rows[0])
    if m == 0:
        raise ValueError
    out = np.empty((len(rows), m), dtype)
    for k in range(len(rows)):
        if len(rows[k]) != m:
            raise ValueError
        for j in range(m):
            out[k, j] = rows[k][j]
    return out


def largest_of(n: int, values: Any, key: Any) -> Any:
    """``heapq.nlargest(n, values, key)``. NaN raises."""
    found = sorted(values, reverse=True) if key is None else sorted(values, key=key, reverse=True)
    return found[: max(n, 0)]


def smallest_of(n: int, values: Any, key: Any) -> Any:
    """``heapq.nsmallest(n, values, key)``. NaN raises."""
    found = sorted(values) if key is None else sorted(values, key=key)
    return found[: max(n, 0)]
