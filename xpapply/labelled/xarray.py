"""xarray's DataArray, Dataset and Variable.

Which coordinates and attrs a result has is decided by `xarray.apply_ufunc`, as for any function
that is handed to it: ``keep_attrs`` and the other options of xarray mean what they mean there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import xarray as xr

from .. import arrays
from ..errors import InputError, add_note
from .dims import Names, of_results, position


def inside(x: Any, axis: Any) -> tuple[Any, Any]:
    """The array, and the axis as a number."""
    if isinstance(x, xr.Dataset):
        raise InputError(
            f"a Dataset of {len(x.data_vars)} variables has no plan of its own: ask for one of "
            "them, such as explain(f, axis, dataset['name'])"
        )
    what = type(x).__name__
    if isinstance(axis, tuple):
        return x.data, tuple(position(a, x.dims, what) for a in axis)
    return x.data, position(axis, x.dims, what)


# --- one array, one function of its slices ------------------------------------------------------


def along(run: Callable[[Any, Any], Any], x: Any, axis: Any, names: Names) -> Any:
    """``run(array, axis)``, whose results have any dims in the place of the first axis."""
    if isinstance(x, xr.Dataset):
        wanted = axis if isinstance(axis, tuple) else (axis,)
        return _by_variable(lambda v: along(run, v, axis, names), [x], wanted)
    array, axis = inside(x, axis)
    found = run(array, axis)
    axes = [a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,))]
    sliced = tuple(x.dims[a] for a in axes)
    kept = [d for d in x.dims if d not in sliced]
    at = sum(d not in sliced for d in x.dims[: axes[0]])
    inner = tuple(found.shape[at : found.ndim - (len(kept) - at)])
    lengths = tuple(x.shape[a] for a in axes)
    new = of_results(sliced, lengths, inner, names, kept)
    return _labelled(found, [x], sliced, (*kept[:at], *new, *kept[at:]))


def _labelled(found: Any, operands: Sequence[Any], sliced: Names, dims: Names) -> Any:
    """`found`, whose dims are `dims`, with what `operands` say of them.

    `operands` have the same dims. Coordinates along a dim of the slices are kept if the results
    have this dim, as long as it was.
    """
    like = operands[0]
    kept = [d for d in like.dims if d not in sliced]
    new = [d for d in dims if d not in kept]
    length = dict(zip(dims, found.shape, strict=True))
    lost = {d for d in sliced if length.get(d) != like.sizes[d]}
    moved = arrays.permute(found, tuple(dims.index(d) for d in (*kept, *new)))
    result = xr.apply_ufunc(
        lambda *_: moved,
        *operands,
        input_core_dims=[list(sliced)] * len(operands),
        output_core_dims=[new],
        exclude_dims=lost,
        dask="allowed",
    )
    return result.transpose(*dims)


# --- Datasets -----------------------------------------------------------------------------------


def _by_variable(run: Callable[..., Any], operands: Sequence[Any], wanted: Sequence[Any]) -> Any:
    """``run`` of each variable: one Dataset, or a tuple of them.

    Variables with none of the dims `wanted` stay as they are, as `xarray.Dataset.reduce` has it.
    """
    dataset = next(x for x in operands if isinstance(x, xr.Dataset))
    for d in wanted:
        if d not in dataset.dims:
            known = ", ".join(map(repr, dataset.dims))
            raise InputError(f"no dim {d!r}: the Dataset has {known}. Dims of it go by their names")
    found = {}
    for name, variable in dataset.data_vars.items():
        lacking = [d for d in wanted if d not in variable.dims]
        if wanted and len(lacking) == len(wanted):
            continue
        if lacking:
            raise InputError(
                f"variable {name!r} has the dims {variable.dims}, but not {lacking[0]!r}: "
                "leave it out, dataset[[...]], or apply the function to slices that it has"
            )
        try:
            found[name] = run(*(_variable(x, name) for x in operands))
        except Exception as error:
            add_note(error, f"in variable {name!r} of the Dataset")
            raise
    several = [len(y) for y in found.values() if isinstance(y, tuple)]
    if not several:
        return dataset.map(lambda v: found.get(v.name, v))
    return tuple(
        dataset.map(lambda v, k=k: found[v.name][k] if v.name in found else v)
        for k in range(several[0])
    )


def _variable(x: Any, name: Hashable) -> Any:
    if not isinstance(x, xr.Dataset):
        return x
    if name not in x.data_vars:
        raise InputError(f"a Dataset among the arguments has no variable {name!r}")
    return x[name]
