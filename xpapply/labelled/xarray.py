"""xarray's DataArray, Dataset and Variable.

Which coordinates and attrs a result has is decided by `xarray.apply_ufunc`, as for any function
that is handed to it: ``keep_attrs`` and the other options of xarray mean what they mean there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from .. import arrays
from ..errors import InputError, add_note
from .dims import Names, of_results, position


def library(x: Any) -> str | None:
    """The library of the array inside; of a Dataset that of its first variable."""
    if isinstance(x, xr.Dataset):
        x = next(iter(x.data_vars.values()), np.zeros(()))
    return arrays.library(getattr(x, "data", x))


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


# --- functions of slices that are written once --------------------------------------------------


def dtype(x: Any) -> Any:
    """The dtype of the array inside; of a Dataset one that holds all its variables.

    Raises
    ------
    InputError
        If one of several variables is complex: whether numbers are two arrays is said only once.
    """
    if not isinstance(x, xr.Dataset):
        return x.dtype
    found = [v.dtype for v in x.data_vars.values()]
    if any("complex" in str(d) for d in found):
        raise InputError(
            "a Dataset with complex variables: take one after the other, such as "
            "dataset.map(lambda v: xpapply.special.logsumexp(v, axis=...))"
        )
    known = [d for d in found if isinstance(d, np.dtype) and d.kind in "biuf"]
    return np.result_type(*known) if known else None


def sliced(run: Callable[..., Any], operands: Sequence[Any], axis: Any, names: Names = ()) -> Any:
    """``run(arrays, axes)``, whose results are numbers for slices, or as long as they are.

    Several labelled arguments meet by the names of their dims, and their coordinates have to agree.
    """
    wanted = axis if isinstance(axis, (tuple, list)) else () if axis is None else (axis,)
    if any(isinstance(x, xr.Dataset) for x in operands):
        return _by_variable(
            lambda *own: sliced(run, own, axis if axis is None else _of(wanted, own), names),
            operands,
            wanted,
            partly=True,
        )
    labelled = _together([x for x in operands if _is_labelled(x)])
    like, others = labelled[0], iter(labelled)
    given = [next(others).data if _is_labelled(x) else x for x in operands]
    axes = tuple(position(a, like.dims, type(like).__name__) for a in wanted)
    if axis is None:
        axes = tuple(range(like.ndim))
    found = run(given, axes)
    dims = tuple(like.dims[a] for a in axes)
    parts = [_sliced(y, labelled, dims, names) for y in _as_tuple(found)]
    return tuple(parts) if isinstance(found, tuple) else parts[0]


def _sliced(y: Any, operands: Sequence[Any], sliced: Names, names: Names) -> Any:
    """One result: of the operands' dims, without those of slices, or with `names` for them."""
    like = operands[0]
    if not names and y.ndim == like.ndim:  # slices became slices, or dims of one element are kept
        return _labelled(y, operands, sliced, like.dims)
    kept = [d for d in like.dims if d not in sliced]
    at = min((like.dims.index(d) for d in sliced), default=like.ndim)
    dims = (*kept[:at], *names, *kept[at:])
    if len(dims) != y.ndim:
        raise InputError(
            f"an array with more dims beside a {type(like).__name__} with the dims {like.dims}: "
            "the results have dims without names. Give arrays only"
        )
    return _labelled(y, operands, sliced, dims)


def _together(labelled: Sequence[Any]) -> Sequence[Any]:
    """Arguments with the same dims, broadcast by their names."""
    if len(labelled) == 1:
        return labelled
    aligned = xr.align(*map(_as_dataarray, labelled), join="exact", copy=False)
    return xr.broadcast(*aligned)


def _as_dataarray(x: Any) -> Any:
    return xr.DataArray(x) if isinstance(x, xr.Variable) else x


def _is_labelled(x: Any) -> bool:
    return isinstance(x, (xr.DataArray, xr.Variable))


def _of(wanted: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
    """Those of some dims that the arguments have."""
    return tuple(d for d in wanted if any(d in x.dims for x in operands if _is_labelled(x)))


def _as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


# --- Datasets -----------------------------------------------------------------------------------


def _by_variable(
    run: Callable[..., Any], operands: Sequence[Any], wanted: Sequence[Any], partly: bool = False
) -> Any:
    """``run`` of each variable: one Dataset, or a tuple of them.

    Variables with none of the dims `wanted` stay as they are, as `xarray.Dataset.reduce` has it.
    `partly`: whether it is enough if they have one of them.
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
        if lacking and not partly:
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
