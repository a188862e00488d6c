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
from ..arrays import as_tuple
from ..errors import InputError, add_note
from ..loop.signature import Signature, core_last, shown
from .dims import Names, asked, of_results, position


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
    parts = [_sliced(y, labelled, dims, names) for y in as_tuple(found)]
    return tuple(parts) if isinstance(found, tuple) else parts[0]


def _sliced(y: Any, operands: Sequence[Any], sliced: Names, names: Names) -> Any:
    """Label a result: the operands' dims without those of slices, or with `names` for them."""
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
    """The wanted dims that the arguments have."""
    return tuple(d for d in wanted if any(d in x.dims for x in operands if _is_labelled(x)))


# --- several arrays, one function of slices of each ---------------------------------------------


def looped(
    run: Callable[..., Any],
    operands: Sequence[Any],
    how: dict[str, Any],
    signature: Signature | None,
    names: Sequence[Names],
) -> Any:
    """``run(*arrays, **how)``, for arrays with their core dims last.

    Core dims are those that `axis` or `axes` name, else those that have the names that they have
    in the signature, else the last ones. Loop dims meet by their names.
    """
    how = asked(how)
    if any(isinstance(x, xr.Dataset) for x in operands):
        return _by_variable(
            lambda *own: looped(run, own, how, signature, names),
            operands,
            _of_datasets(operands, how, signature),
        )
    core: list[Names] = [()] * len(operands)
    results: list[Names] = []
    lost: set[Hashable] = set()
    if signature is not None:
        signature.check_count(len(operands))
        signature = signature.of_arrays([np.ndim(x) for x in operands])
        core, operands = _core(operands, signature, how.pop("axis", None), how.pop("axes", None))
        results, lost = _results(signature, operands, core, names, how.get("keepdims", False))
    mask = [how.pop("where")] if "where" in how else []
    found: list[Any] = []

    def compute(*given: Any) -> Any:
        where = {"where": given[-1]} if mask else {}
        found.append(run(*given[: len(operands)], **how, **where))
        return as_tuple(found[0])[0]

    def labelled(f: Callable[..., Any], k: int) -> Any:
        new = results[k] if results else ()
        y = xr.apply_ufunc(
            f,
            *operands,
            *mask,
            input_core_dims=[*core, *[()] * len(mask)],
            output_core_dims=[new],
            exclude_dims=lost,
            dask="allowed",
        )
        like, own = next((x, c) for x, c in zip(operands, core, strict=True) if _is_labelled(x))
        if new and len(new) == len(own):  # they stand where the core dims of the argument did
            order = [dict(zip(own, new, strict=True)).get(d, d) for d in like.dims]
            return y.transpose(*order) if set(order) == set(y.dims) else y
        return y

    parts = [labelled(compute, 0)]
    more = enumerate(as_tuple(found[0])[1:], 1)
    parts += [labelled(lambda *_, y=y: y, k) for k, y in more]
    return tuple(parts) if isinstance(found[0], tuple) else parts[0]


def _core(
    operands: Sequence[Any], signature: Signature, axis: Any, axes: Any
) -> tuple[list[Names], list[Any]]:
    """The names of the core dims of each argument, and arguments without names with these last."""
    if axis is not None and any(len(dims) > 1 for dims in signature.inputs):
        raise TypeError(
            f"axis= needs a signature with a single core dimension, which {signature} is not: "
            "give axes=, a list with one tuple per operand"
        )
    if axes is not None and len(axes) < len(operands):
        raise ValueError(f"axes has {len(axes)} entries for {len(operands)} arguments")
    core: list[Names] = []
    moved = []
    for k, (x, dims) in enumerate(zip(operands, signature.inputs, strict=True)):
        names = x.dims if _is_labelled(x) else ()
        if np.ndim(x) < len(dims):
            raise ValueError(
                f"argument {k} with the dims {names} does not have enough dimensions for all "
                f"core dimensions {shown(dims)}"
            )
        wanted = _wanted(k, dims, axis, axes)
        if wanted is None:
            wanted = tuple(d.name for d in dims)
            if not set(wanted) <= set(names):
                wanted = tuple(range(-len(dims), 0))
        if len(wanted) != len(dims):
            raise ValueError(f"axes entry {k}, {wanted!r}, should name {len(dims)} dims")
        if _is_labelled(x):
            given = tuple(position(a, names, type(x).__name__) for a in wanted)
            core.append(tuple(names[a] for a in _normal(given, x)))
            moved.append(x)
        else:
            numbers = all(hasattr(a, "__index__") for a in wanted)
            moved.append(core_last(x, _normal(wanted, x)) if numbers and wanted else x)
            core.append(())
    return core, moved


def _wanted(k: int, dims: Sequence[Any], axis: Any, axes: Any) -> tuple[Any, ...] | None:
    """The core dims of an argument given in the call; None: not given."""
    if axis is not None:
        return (axis,) * len(dims)
    if axes is not None:
        return axes[k] if isinstance(axes[k], tuple) else (axes[k],)
    return None


def _normal(axes: Sequence[int], x: Any) -> tuple[int, ...]:
    return tuple(arrays.normalize_axis_index(a, np.ndim(x)) for a in axes)


def _results(
    signature: Signature,
    operands: Sequence[Any],
    core: Sequence[Names],
    names: Sequence[Names],
    keepdims: bool,
) -> tuple[list[Names], set[Hashable]]:
    """The names of the results' core dims, and the core dims whose coordinates are not theirs."""
    inputs = [
        (x, own, d) for x, own, d in zip(operands, core, signature.inputs, strict=True) if own
    ]
    known: dict[str, Hashable] = {}
    lengths: dict[Hashable, set[int]] = {}
    for x, own, dims in inputs:
        for name, d in zip(own, dims, strict=True):
            known.setdefault(d.name, name)
            lengths.setdefault(name, set()).add(x.sizes[name])
    lost = {name for name, found in lengths.items() if len(found) > 1}
    if keepdims:
        own = inputs[0][1] if inputs else ()
        return [own] * len(signature.outputs), {*lost, *own}
    if names and [*map(len, names)] != [*map(len, signature.outputs)]:
        raise InputError(f"output_dims={names} are not as many as in the results of {signature}")
    stem = "_".join(map(str, inputs[0][1])) if inputs else "result"
    loop = {d for x in operands if _is_labelled(x) for d in x.dims} - lengths.keys()
    found = []
    for k, dims in enumerate(signature.outputs):
        usual = (known.get(d.name, d.name if d.size is None else f"{stem}_out") for d in dims)
        new = names[k] if names else tuple(usual)
        twice = [d for j, d in enumerate(new) if d in loop or d in new[:j]]
        if twice:
            raise InputError(
                f"two dims of the results would be called {twice[0]!r}: say how new ones are "
                "called, vectorize(..., output_dims=...)"
            )
        both = zip(new, dims, strict=True)
        lost |= {d for d, own in both if d in lengths and known.get(own.name) != d}
        found.append(new)
    return found, lost


def _of_datasets(
    operands: Sequence[Any], how: dict[str, Any], signature: Signature | None
) -> list[Hashable]:
    """The dims that variables of Datasets among the arguments need to have."""
    if signature is None:
        return []
    signature.check_count(len(operands))
    wanted: list[Hashable] = []
    for k, (x, dims) in enumerate(zip(operands, signature.inputs, strict=True)):
        if not isinstance(x, xr.Dataset):
            continue
        said = _wanted(k, dims, how.get("axis"), how.get("axes"))
        if said is None:
            said = tuple(d.name for d in dims)
            said = said if set(said) <= set(x.dims) else ()
        wanted += [d for d in said if d not in wanted and not hasattr(d, "__index__")]
    return wanted


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
