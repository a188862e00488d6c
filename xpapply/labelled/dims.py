"""Names of results' dims, from those of slices."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ..errors import InputError

Names = tuple[Hashable, ...]


def position(axis: Any, dims: Sequence[Hashable], what: str) -> int:
    """The position of an axis among `dims`, by name or by number.

    Raises
    ------
    InputError
        If there is none of this name.
    """
    if axis in dims:
        return list(dims).index(axis)
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise InputError(f"no dim {axis!r}: {what} has the dims {_listed(dims)}")
    return int(axis.__index__())  # which the array itself checks


def of_results(
    sliced: Names,
    lengths: tuple[int, ...],
    found: tuple[int, ...],
    names: Names,
    kept: Sequence[Hashable],
) -> Names:
    """The names of the dims that a function's result has.

    Parameters
    ----------
    sliced, lengths : tuple
        Names and lengths of the dims of a slice.
    found : tuple of int
        The shape of the result for one slice.
    names : tuple
        What the dims are to be called, () if not given.
    kept : sequence
        The dims that all results have.

    Examples
    --------
    A result as long as the slice is along the same dim, any other along a new one:

    >>> of_results(("time",), (365,), (365,), (), ("x",))
    ('time',)
    >>> of_results(("band",), (12,), (2,), (), ("y", "x"))
    ('band_out',)
    >>> of_results(("band",), (12,), (2, 3), (), ("y", "x"))
    ('band_out_0', 'band_out_1')
    """
    if names and len(names) != len(found):
        if not found:
            return ()
        raise InputError(
            f"output_dims={names} are {len(names)}, the results of one slice have the shape {found}"
        )
    if not names:
        if found == lengths:
            return sliced
        stem = "_".join(map(str, sliced)) + "_out"
        names = (stem,) if len(found) == 1 else tuple(f"{stem}_{k}" for k in range(len(found)))
    twice = [d for k, d in enumerate(names) if d in kept or d in names[:k]]
    if twice:
        raise InputError(
            f"two dims of the results would be called {twice[0]!r}: the results keep "
            f"{_listed(kept)}. Say how the new ones are called: options(output_dims=...)"
        )
    return names


def asked(how: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a call that are not None.

    Raises
    ------
    InputError
        If ``out=`` is among them.
    """
    if how.get("out") is not None:
        raise InputError("out= of labelled arrays: the result has labels of its own, leave it away")
    return {name: x for name, x in how.items() if x is not None}


def _listed(dims: Sequence[Hashable]) -> str:
    return ", ".join(map(repr, dims)) or "none"
