"""pandas' DataFrame and Series: what ``df.apply(f, axis, raw=True)`` says of the labels.

The index and the columns are kept where the results have them. Columns of several dtypes are one
array of the dtype that holds them all, as of ``df.to_numpy()``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..errors import InputError
from .dims import Names, of_results, position

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
    parts = [_sliced(y, like, sliced, names) for y in _as_tuple(found)]
    return tuple(parts) if isinstance(found, tuple) else parts[0]


def _sliced(y: Any, like: Any, axes: Sequence[int], names: Names) -> Any:
    """One result: of `like`'s shape, without the axes of slices, or with another one for them."""
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
            if not own.equals(wanted):
                raise InputError(
                    f"a {type(x).__name__} whose labels are not those of the {type(like).__name__} "
                    f"beside it: {_shown(own)} and {_shown(wanted)}. Align them first, a.align(b)"
                )
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


def _is_labelled(x: Any) -> bool:
    return isinstance(x, (pd.DataFrame, pd.Series))


def _as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)
