"""The rows of the suite `loops`: a function, and what it is called with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Data = Callable[[np.random.Generator, int], tuple[np.ndarray, ...]]
"""Of a generator and a number of slices: the arrays, slices first."""


@dataclass(frozen=True)
class Row:
    """A function with a loop over elements.

    Attributes
    ----------
    name, group : str
        What it is, and what kind that is.
    f : callable
        The function.
    count : int
        How many slices, or numbers.
    data : callable ``data(rng, count)``
        Its arrays.
    signature : str or None
        None: of slices of one array, for `apply_along_axis`. "": of numbers, for `vectorize`. Else
        that of `vectorize`.
    """

    name: str
    group: str
    f: Callable[..., Any]
    count: int
    data: Data
    signature: str | None = None


ROWS: list[Row] = []


def row(
    group: str, count: int, data: Data, signature: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function, which stays what it is."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        ROWS.append(Row(f.__name__, group, f, count, data, signature))
        return f

    return register


def rows() -> list[Row]:
    """All of them."""
    from . import loop_numbers, loop_searches, loop_series, loop_states  # noqa: F401

    return ROWS


# --- data -----------------------------------------------------------------------------


def normal(length: int) -> Data:
    """Noise."""
    return lambda rng, n: (rng.standard_normal((n, length)),)


def uniform(length: int) -> Data:
    """Between 0 and 1."""
    return lambda rng, n: (rng.random((n, length)),)


def walks(length: int) -> Data:
    """Random walks."""
    return lambda rng, n: (np.cumsum(rng.standard_normal((n, length)), 1),)


def codes(length: int, kinds: int) -> Data:
    """Integers below a number."""
    return lambda rng, n: (rng.integers(0, kinds, (n, length)),)


def two(one: Data) -> Data:
    """Two arrays of a kind."""
    return lambda rng, n: (*one(rng, n), *one(rng, n))
