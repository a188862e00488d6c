"""Rules for shapes that several ops have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import InputError, TraceError
from ..functions.cache import remembered
from ..limits import LIMITS


def check_room(shape: Sequence[int], given: int = 0, *, views: bool = False) -> None:
    """Raise `InputError` for a value of more numbers than a file of a model may ask for.

    Parameters
    ----------
    shape : sequence of int
        What it has for one slice.
    given : int
        How many numbers a slice has. The caller brings these, not the file.
    views : bool
        Whether they may lie in the memory of fewer.
    """
    most = max(LIMITS.value_numbers, given * LIMITS.value_per_number) * (
        LIMITS.value_views if views else 1
    )
    if math.prod(shape) > most:
        raise InputError(
            f"one slice would make a value of shape {tuple(shape)}: more than {most:,} numbers"
        )


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


def gathered_shape(op: str, shape: tuple[int, ...], attrs: dict[str, Any]) -> tuple[int, ...]:
    """The shape of what is padded, cut into windows or taken; axes count from the front."""
    if op == "pad":
        widths = attrs["widths"]
        more = (before + after for before, after in widths)
        sizes = tuple(n + k for n, k in zip(shape, more, strict=False))
        return sizes + shape[len(widths) :]
    axis = attrs["axis"]
    n = shape[axis]
    if op == "take":
        places = attrs["places"]
        if places and not 0 <= min(places) <= max(places) < n:
            raise TraceError(f"places {min(places)} ... {max(places)} of an axis of length {n}")
        return (*shape[:axis], len(places), *shape[axis + 1 :])
    size, step = attrs["size"], attrs["step"]
    reach = attrs["dilation"] * (size - 1) + 1
    if min(size, step, attrs["dilation"]) < 1 or n < reach:
        raise TraceError(f"windows of {reach} places along an axis of length {n}")
    return (*shape[:axis], (n - reach) // step + 1, size, *shape[axis + 1 :])


class Product(NamedTuple):
    """The letters of an einsum of two operands that is a product of matrices.

    Each letter of the result is that of a matrix, a row or a column; others are summed over.
    """

    stack: str
    rows: str
    inner: str
    columns: str


@remembered(256)
def as_product(subscripts: str) -> Product | None:
    """An einsum of two operands as products of matrices, or None where it is none."""
    sources, _, result = subscripts.partition("->")
    left, _, right = sources.partition(",")
    if "," in right or any(len(set(s)) < len(s) for s in (left, right)):
        return None
    both = [k for k in left if k in right]
    stack = "".join(k for k in result if k in both)
    inner = "".join(k for k in both if k not in result)
    rows = "".join(k for k in result if k in left and k not in right)
    columns = "".join(k for k in result if k in right and k not in left)
    if len(stack + inner + rows) < len(left) or len(stack + inner + columns) < len(right):
        return None  # a letter of one operand alone is summed over
    return Product(stack, rows, inner, columns)
