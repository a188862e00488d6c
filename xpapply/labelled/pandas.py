"""pandas' DataFrame and Series: what ``df.apply(f, axis, raw=True)`` says of the labels.

The index and the columns are kept where the results have them. Columns of several dtypes are one
array of the dtype that holds them all, as of ``df.to_numpy()``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import as_tuple
from ..errors import InputError
from ..loop.signature import Places, Signature, places
from .dims import Names, asked, of_results, position

DIMS = ("index", "columns")


def dtype(x: Any) -> np.dtype:
    """The dtype of the array inside."""
    return x.to_numpy().dtype  # type: ignore[no-any-return]


def library(x: Any) -> str:
    """The library of the array inside."""
    return "numpy"


def inside(x: Any, axis: Any) -> tuple[np.ndarray, Any]:
    """The array, and the axis as a number."""
    if isinstance(axis, tuple):
        return x.to_numpy(), tuple(_position(x, a) for a in axis)
    return x.to_numpy(), _position(x, axis)


def _position(x: Any, axis: Any) -> int:
    return position("index" if axis == "rows" else axis, DIMS[: x.ndim], type(x).__name__)


def along(run: Callable[[Any, Any], Any], x: Any, axis: Any, names: Names) -> Any:
    """``run(array, axis)``, whose results have any dims in the place of the first axis."""
    array, axis = inside(x, axis)
    found = run(array, axis)
    axes = [a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,))]
    kept = [a for a in range(x.ndim) if a not in axes]
    at = sum(a not in axes for a in range(axes[0]))
    inner = found.shape[at : found.ndim - (len(kept) - at)]
    lengths = tuple(x.shape[a] for a in axes)
    new = of_results(tuple(DIMS[a] for a in axes), lengths, inner, names, [DIMS[a] for a in kept])
    own: list[Any] = [x.axes[a] for a in axes] if inner == lengths and not names else []
    for length, name in zip(inner[len(own) :], new[len(own) :], strict=True):
        own.append(pd.RangeIndex(length, name=name if names else None))
    labels = [x.axes[a] for a in kept]
    return _labelled(found, x, [*labels[:at], *own, *labels[at:]])


def _labelled(found: Any, like: Any, labels: Sequence[pd.Index]) -> Any:
    """`found` with labels along its dims, and the attrs of `like`."""
    if len(labels) > len(DIMS):
        raise InputError(
            f"results of shape {found.shape}, and pandas has tables of two dims at most: "
            "apply the function to the array, df.to_numpy()"
        )
    if not labels:
        return found[()]
    if len(labels) == 1:
        name = like.name if isinstance(like, pd.Series) else None
        return pd.Series(found, labels[0], name=name).__finalize__(like)
    return pd.DataFrame(found, *labels).__finalize__(like)


# --- functions of slices that are written once --------------------------------------------------


def sliced(run: Callable[..., Any], operands: Sequence[Any], axis: Any, names: Names = ()) -> Any:
    """``run(arrays, axes)``, whose results are numbers for slices, or as long as they are."""
    like = _widest(operands)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(range(like.ndim)) if axis is None else tuple(_position(like, a) for a in given)
    found = run([inside(x, ())[0] if _is_labelled(x) else x for x in operands], axes)
    sliced = [a % like.ndim for a in axes]
    parts = [_sliced(y, like, sliced, names) for y in as_tuple(found)]
    return tuple(parts) if isinstance(found, tuple) else parts[0]


def _sliced(y: Any, like: Any, axes: Sequence[int], names: Names) -> Any:
    """Label a result: `like`'s axes without those of slices, or with another one for them."""
    labels = list(like.axes)
    if names or y.shape != like.shape:
        at = min(axes, default=0)
        labels = [x for a, x in enumerate(like.axes) if a not in axes]
        new = y.shape[at : at + y.ndim - len(labels)]
        labels[at:at] = [
            pd.RangeIndex(n, name=d) for n, d in zip(new, names or (None,) * len(new), strict=True)
        ]
    return _labelled(y, like, labels)


def _widest(operands: Sequence[Any]) -> Any:
    """The container whose labels the results get.

    Raises
    ------
    InputError
        If others have other labels where they meet: nothing is aligned here.
    """
    labelled = [x for x in operands if _is_labelled(x)]
    like = max(labelled, key=lambda x: x.ndim)
    for x in labelled:
        for own, wanted in zip(reversed(x.axes), reversed(like.axes), strict=False):
            _check_same(x, own, wanted)
    wider = [x for x in operands if not _is_labelled(x) and np.ndim(x) > like.ndim]
    if wider:
        raise InputError(
            f"an array of shape {np.shape(wider[0])} beside a {type(like).__name__}, which has no "
            "labels for all its dims: give arrays only"
        )
    return like


def _shown(labels: pd.Index) -> str:
    first = ", ".join(map(repr, labels[:3].tolist()))
    return f"{first}{' ...' * (len(labels) > 3)} ({len(labels)})"


# --- several arrays, one function of slices of each ---------------------------------------------


def looped(
    run: Callable[..., Any],
    operands: Sequence[Any],
    how: dict[str, Any],
    signature: Signature | None,
    names: Sequence[Names],
) -> Any:
    """``run(*arrays, **how)``: core dims are where they are in arrays, or go by their names."""
    how = asked(how)
    if _is_labelled(how.get("where")):
        how["where"] = how["where"].to_numpy()
    given = [x.to_numpy() if _is_labelled(x) else x for x in operands]
    if signature is None:
        like = _widest(operands)
        found = run(*given, **how)
        parts = [_labelled(y, like, like.axes) for y in as_tuple(found)]
        return tuple(parts) if isinstance(found, tuple) else parts[0]
    signature.check_count(len(operands))
    signature = signature.of_arrays([np.ndim(x) for x in operands])
    first = next(x for x in operands if _is_labelled(x))
    kept = how.get("keepdims", False)
    ndims = [np.ndim(x) for x in operands]
    if "axis" in how:
        how["axes"] = _axes(signature, max(operands, key=np.ndim), ndims, how.pop("axis"), kept)
    where = places(signature, ndims, None, how.get("axes"), kept)
    loop, core = _loop_and_core(operands, signature, where)
    found = run(*given, **how)
    parts = []
    for k, (y, at) in enumerate(zip(as_tuple(found), where.outputs, strict=True)):
        if len(loop) + len(at) != y.ndim:
            raise InputError(
                f"results of shape {y.shape} have loop dims that no {type(first).__name__} has "
                "labels for: give arrays only"
            )
        own = {a: pd.RangeIndex(y.shape[a]) for a in at}
        if not kept:
            said = names[k] if names else (None,) * len(at)
            for a, d, name in zip(at, signature.outputs[k], said, strict=True):
                usual = pd.RangeIndex(y.shape[a], name=name)
                own[a] = usual if name is not None else core.get(d.name, usual)
        rest = iter(loop)
        parts.append(
            _labelled(y, first, [own[a] if a in own else next(rest) for a in range(y.ndim)])
        )
    return tuple(parts) if isinstance(found, tuple) else parts[0]


def _axes(signature: Signature, like: Any, ndims: list[int], axis: Any, kept: bool) -> list[Any]:
    """The axes of each argument and result, where one is said: arguments of one dim have but one.

    `like`: the argument with most dims.
    """
    if any(len(dims) > 1 for dims in (*signature.inputs, *signature.outputs)):
        raise TypeError(
            f"axis= needs core dimensions that are single ones, which {signature} has not: "
            "give axes=, a list with one tuple per operand"
        )
    at = _position(like, axis) if _is_labelled(like) else axis
    found = [(at if n > 1 else 0,) * len(d) for d, n in zip(signature.inputs, ndims, strict=True)]
    return found + [(at,) * (1 if kept else len(dims)) for dims in signature.outputs]


def _loop_and_core(
    operands: Sequence[Any], signature: Signature, where: Places
) -> tuple[list[pd.Index], dict[str, pd.Index]]:
    """The labels of the loop dims, and of core dims by their names in the signature.

    Raises
    ------
    InputError
        If two arguments have other labels where they meet.
    """
    loop: list[pd.Index] = []
    core: dict[str, pd.Index] = {}
    for x, axes, dims in zip(operands, where.inputs, signature.inputs, strict=True):
        if not _is_labelled(x):
            continue
        own = [labels for a, labels in enumerate(x.axes) if a not in axes]
        meet = [*zip(reversed(own), reversed(loop), strict=False)]
        for a, d in zip(axes, dims, strict=True):
            meet.append((x.axes[a], core.setdefault(d.name, x.axes[a])))
        for labels, wanted in meet:
            _check_same(x, labels, wanted)
        loop = max(loop, own, key=len)
    return loop, core


def _check_same(x: Any, labels: pd.Index, wanted: pd.Index) -> None:
    if not labels.equals(wanted):
        raise InputError(
            f"a {type(x).__name__} whose labels are not those of what it meets: {_shown(labels)} "
            f"and {_shown(wanted)}. Align them first, a.align(b)"
        )


def _is_labelled(x: Any) -> bool:
    return isinstance(x, (pd.DataFrame, pd.Series))
