"""Rules for shapes that several ops have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import TraceError


def einsum_lengths(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The length of every einsum letter."""
    sizes: dict[str, int] = {}
    for letters, shape in zip(subscripts.partition("->")[0].split(","), shapes, strict=True):
        if len(letters) != len(shape):
            raise TraceError(f"einsum {subscripts!r} with an operand of shape {shape}")
        for letter, n in zip(letters, shape, strict=True):
            if sizes.setdefault(letter, n) != n:
                raise TraceError(
                    f"einsum {subscripts!r}: lengths {sizes[letter]} and {n} of {letter!r}"
                )
    return sizes


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcasting rule; the batch axis (-1) goes with 1 and with itself."""
    ndim = max(map(len, shapes))
    result = []
    for lengths in zip(*((1,) * (ndim - len(s)) + s for s in shapes), strict=True):
        different = {n for n in lengths if n != 1}
        if len(different) > 1:
            raise TraceError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
        result.append(different.pop() if different else 1)
    return tuple(result)


def indexed_shape(shape: tuple[int, ...], key: Sequence[Any]) -> tuple[int, ...]:
    """The shape of ``x[key]``: integers take an axis, (start, stop, step) keep it, None makes one.

    (Slices are written as tuples because slice objects have no hash before Python 3.12.)
    """
    result, axis = [], 0
    for k in key:
        if k is None:
            result.append(1)
            continue
        if isinstance(k, tuple):
            result.append(len(range(*slice(*k).indices(shape[axis]))))
        axis += 1
    return tuple(result) + shape[axis:]
