"""Iterators of ``itertools`` and Python, evaluated eagerly, for the compiler.

`once` and `groups` are the compiler's own: what can be gone through once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .of_python import add


def once(found: Any) -> Iterator[Any]:
    """A list's iterator."""
    return iter(found)


def generated(found: Any) -> Iterator[Any]:
    """The iterator of a generator's values, which were computed eagerly."""
    return iter(found)


def groups(values: Any, keys: Any, bounds: Any) -> Iterator[Any]:
    """Keys, each with what goes through its part of a list."""
    for k in range(len(keys)):
        yield keys[k], iter(values[bounds[k] : bounds[k + 1]])


def next_or(some: Any, default: Any) -> Any:
    """``next(some, default)``."""
    for x in some:
        return x
    return default


def accumulated(values: Any, func: Any = add, *, initial: Any = None) -> Any:
    """``itertools.accumulate``."""
    found = []
    total = initial
    if total is not None:
        found.append(total)
    for x in values:
        total = x if total is None else func(total, x)
        found.append(total)
    return once(found)


def grouped(iterable: Any, key: Any = None) -> Any:
    """``itertools.groupby``; NaN as a key raises."""
    found: list[Any] = []
    keys: list[Any] = []
    bounds: list[int] = []
    for x in iterable:
        k = x if key is None else key(x)
        if k != k:
            raise ValueError
        if len(keys) == 0 or keys[len(keys) - 1] != k:
            keys.append(k)
            bounds.append(len(found))
        found.append(x)
    bounds.append(len(found))
    return groups(found, keys, bounds)


def _listed(values: Any) -> Any:
    found = []
    for x in values:
        found.append(x)
    return found


def chained_parts(parts: Any) -> Any:
    """``itertools.chain.from_iterable(parts)``."""
    found = []
    for part in parts:
        for x in part:
            found.append(x)
    return once(found)


def zipped_longest(a: Any, b: Any, fillvalue: Any = None) -> Any:
    """``itertools.zip_longest(a, b)``."""
    x = _listed(a)
    y = _listed(b)
    found = []
    for k in range(max(len(x), len(y))):
        one = x[k] if k < len(x) else fillvalue
        other = y[k] if k < len(y) else fillvalue
        found.append((one, other))
    return once(found)


def numbered(values: Any, start: int) -> Any:
    """``enumerate(values, start)``, of a set."""
    found = []
    k = start
    for x in values:
        found.append((k, x))
        k += 1
    return once(found)


def pairs(values: Any) -> Any:
    """``itertools.combinations(values, 2)``."""
    x = _listed(values)
    found = []
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            found.append((x[i], x[j]))
    return once(found)


def pairs_with_itself(values: Any) -> Any:
    """``itertools.combinations_with_replacement(values, 2)``."""
    x = _listed(values)
    found = []
    for i in range(len(x)):
        for j in range(i, len(x)):
            found.append((x[i], x[j]))
    return once(found)


def ordered_pairs(values: Any) -> Any:
    """``itertools.permutations(values, 2)``."""
    x = _listed(values)
    found = []
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j:
                found.append((x[i], x[j]))
    return once(found)


def triples(values: Any) -> Any:
    """``itertools.combinations(values, 3)``."""
    x = _listed(values)
    found = []
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            for k in range(j + 1, len(x)):
                found.append((x[i], x[j], x[k]))
    return once(found)


def ordered_triples(values: Any) -> Any:
    """``itertools.permutations(values, 3)``."""
    x = _listed(values)
    found = []
    for i in range(len(x)):
        for j in range(len(x)):
            for k in range(len(x)):
                if i != j and i != k and j != k:
                    found.append((x[i], x[j], x[k]))
    return once(found)


def merged(a: Any, b: Any) -> Any:
    """``heapq.merge(a, b)``: of equal ones the first's come first. NaN raises."""
    x = _listed(a)
    y = _listed(b)
    found = []
    i = j = 0
    while i < len(x) or j < len(y):
        if j == len(y):
            found.append(x[i])
            i += 1
        elif i == len(x):
            found.append(y[j])
            j += 1
        else:
            if x[i] != x[i] or y[j] != y[j]:
                raise ValueError
            if y[j] < x[i]:
                found.append(y[j])
                j += 1
            else:
                found.append(x[i])
                i += 1
    return once(found)


def compressed(data: Any, selectors: Any) -> Any:
    """``itertools.compress``."""
    found = []
    for x, is_wanted in zip(data, selectors, strict=False):
        if is_wanted:
            found.append(x)
    return once(found)


def product(a: Any, b: Any) -> Any:
    """``itertools.product(a, b)``."""
    x = _listed(a)
    y = _listed(b)
    found = []
    for p in x:
        for q in y:
            found.append((p, q))
    return once(found)


def product_of_three(a: Any, b: Any, c: Any) -> Any:
    """``itertools.product(a, b, c)``."""
    x = _listed(a)
    y = _listed(b)
    z = _listed(c)
    found = []
    for p in x:
        for q in y:
            for r in z:
                found.append((p, q, r))
    return once(found)


def chained(*some: Any) -> Any:
    """``itertools.chain``."""
    found = []
    for values in some:
        for x in values:
            found.append(x)
    return once(found)


def sliced(values: Any, start: int, stop: int, step: int) -> Any:
    """``itertools.islice``; a negative number raises."""
    if start < 0 or stop < 0 or step < 1:
        raise ValueError
    found: list[Any] = []
    if stop == 0:
        return once(found)
    for k, x in enumerate(values):
        if k >= start and (k - start) % step == 0:
            found.append(x)
        if k + 1 >= stop:
            break
    return once(found)


def taken_while(predicate: Any, iterable: Any) -> Any:
    """``itertools.takewhile``."""
    found = []
    for x in iterable:
        if not predicate(x):
            break
        found.append(x)
    return once(found)


def dropped_while(predicate: Any, iterable: Any) -> Any:
    """``itertools.dropwhile``."""
    found = []
    begun = False
    for x in iterable:
        if begun or not predicate(x):
            begun = True
            found.append(x)
    return once(found)


def filtered(function: Any, iterable: Any) -> Any:
    """``filter``."""
    found = []
    for x in iterable:
        if function is None:
            if x:
                found.append(x)
        elif function(x):
            found.append(x)
    return once(found)


def filtered_out(predicate: Any, iterable: Any) -> Any:
    """``itertools.filterfalse``."""
    found = []
    for x in iterable:
        if not predicate(x):
            found.append(x)
    return once(found)


def mapped(func: Any, iterable: Any) -> Any:
    """``map``."""
    found = []
    for x in iterable:
        found.append(func(x))
    return once(found)


def along_rows(func: Any, rows: Any) -> Any:
    """``np.apply_along_axis(func, 1, rows)`` of a function whose results are numbers."""
    if len(rows) == 0:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    found = []
    for k in range(len(rows)):
        found.append(func(rows[k]))
    return np.array(found)


def along_rows_with(func: Any, rows: Any, x: Any) -> Any:
    """The same of a function that gets something else as well."""
    if len(rows) == 0:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    found = []
    for k in range(len(rows)):
        found.append(func(rows[k], x))
    return np.array(found)


def mapped_to_two(func: Any, a: Any, b: Any) -> Any:
    """``map`` of two."""
    found = []
    for x, y in zip(a, b):  # noqa: B905  # as map does it
        found.append(func(x, y))
    return once(found)


def mapped_to_parts(func: Any, iterable: Any) -> Any:
    """``itertools.starmap``, of pairs."""
    found = []
    for x, y in iterable:
        found.append(func(x, y))
    return once(found)


def neighbours(values: Any) -> Any:
    """``itertools.pairwise``."""
    x = _listed(values)
    found = []
    for k in range(1, len(x)):
        found.append((x[k - 1], x[k]))
    return once(found)
