"""Access of a network kernel to slices and results in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..arrays.layout import merged

EVEN = 256
"""Slices that kernels take together, at most."""


@dataclass(frozen=True)
class Access:
    """The access that a kernel's text depends on.

    Attributes
    ----------
    before, after : int
        The number of batch dims before and after the applied axis; dims that lie
        together are one.
    vector : bool
        Each slice is contiguous and aligned to 16 bytes.
    wide : bool
        Offsets do not fit in 32 bits.
    grouped : bool
        The results of consecutive slices do not lie at equal distances.
    dense : bool
        There is one batch dim and no gap: the next slice starts one slice further, or,
        along the first axis, one element further.
    even : bool
        Behind the applied axis lies one batch dim without gaps, before it another one, and
        `EVEN` consecutive slices never differ in the one before.
    aligned : bool
        With `dense` or `even` and a batch dim after: elements of consecutive slices that
        lie side by side start at multiples of 16 bytes.
    """

    before: int
    after: int
    vector: bool = False
    wide: bool = False
    grouped: bool = False
    dense: bool = False
    even: bool = False
    aligned: bool = False


def geometry(
    shape: Sequence[int], strides: Sequence[int], itemsize: int, pointer: int, at: int, outputs: int
) -> tuple[Access, tuple[int, ...]]:
    """Access and the numbers passed to a network kernel, from shape and strides.

    Parameters
    ----------
    shape, strides : sequence of int
        Of the array in memory order, strides in bytes.
    itemsize, pointer : int
        Size of an element and address of the first.
    at : int
        Position of the applied axis.
    outputs : int
        Numbers in the whole output.

    Returns
    -------
    Access
        What the text of the kernel depends on.
    tuple of int
        The arguments between the weights and the placement of results.
    """
    before, after = (
        [(d.size, d.steps[0]) for d in merged(shape, [(s,) for s in strides], axes)]
        for axes in (range(at), range(at + 1, len(shape)))
    )
    vector = (
        strides[at] == itemsize
        and pointer % 16 == 0
        and all(s % 16 == 0 for _, s in (*before, *after))
    )
    reach = sum(abs(s) * (n - 1) for n, s in zip(shape, strides, strict=True)) // itemsize
    slices = math.prod(shape) // shape[at]
    # room for one more stride of the grid in 32 bits
    wide = max(reach, outputs, slices) >= (1 << 31) - (1 << 26)
    dims = [v for n, s in (*before, *after) for v in (n, s // itemsize)]
    numbers = (slices, math.prod(n for n, _ in after), strides[at] // itemsize, *dims)
    grouped = bool(before and after)
    apart = [s for _, s in (*before, *after)]
    step = itemsize if after else shape[at] * itemsize
    dense = apart == [step] and (after != [] or strides[at] == itemsize)
    even = len(before) == len(after) == 1 and apart[1] == itemsize and after[0][0] % EVEN == 0
    starts = pointer % 16 == 0 and strides[at] % 16 == 0 and all(s % 16 == 0 for _, s in before)
    aligned = (dense or even) and after != [] and starts
    access = Access(len(before), len(after), vector, wide, grouped, dense, even, aligned)
    return access, numbers


def placement(access: Access, n_behind: int, numbers: int) -> tuple[int, ...]:
    """Strides of results in an output in memory order, with `numbers` per slice.

    ``(o_row, o_j)``: result j of slice i lies at ``i * o_row + j * o_j``. Grouped,
    ``(o_row, o_j, n_group, o_group)``: it lies at
    ``i % n_group * o_row + i // n_group * o_group + j * o_j``.
    """
    if access.grouped:
        return 1, n_behind, n_behind, numbers * n_behind
    return (1, n_behind) if access.after else (numbers, 1)


def locate(access: Access) -> list[str]:
    """Statements that add to ``at`` where slice ``row`` starts.

    They read the numbers ``n_<dim>`` and ``s_<dim>`` of the batch dims
    ``b0, b1 ...`` before and ``c0, c1 ...`` after the applied axis.
    """
    lines = []
    # the last dim of each group is the fastest; `rest` is divided from there
    both = access.before and access.after
    for group, count, start in (
        ("c", access.after, "row % (I)n_behind" if both else "row"),
        ("b", access.before, "row / (I)n_behind" if both else "row"),
    ):
        if not count:
            continue
        lines.append(f"I {group}_rest = {start};")
        for d in range(count - 1, 0, -1):
            lines += [
                f"at += ({group}_rest % (I)n_{group}{d}) * (I)s_{group}{d};",
                f"{group}_rest /= (I)n_{group}{d};",
            ]
        lines.append(f"at += {group}_rest * (I)s_{group}0;")
    return lines
