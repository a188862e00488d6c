"""The plain loop: one call of ``f`` per slice, in C order.

It is the fallback for every `f` that no engine can run at once, and the oracle
of every parity test. NumPy's and CuPy's own loops are the definition on their
arrays. CuPy's is called; so is NumPy's, but for plain arrays, where `thin` gives the same for
less. Any other library gets the same contract here.

What `f` raises passes through as it is, with a note that says at which slice. To know that costs
nothing while all goes well: NumPy's and CuPy's loops are asked when they have been left.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType
from typing import Any

import numpy as np

from .. import arrays, config
from ..errors import add_note
from ..functions import samples
from . import originals, thin
from .arguments import Arguments, Looped

EMPTY = "Cannot apply_along_axis when any iteration dimensions are 0"
AROUND = "__xpapply_around__"
"""The name by which a function has a context that the whole loop over it runs in."""


def apply(
    f: Callable[..., Any],
    axis: int,
    arr: Any,
    args: tuple,
    kwargs: dict,
    known: Sequence[Any] = (),
) -> Any:
    """``f(slice, *args, **kwargs)`` for every slice of `arr` along `axis`.

    `known`: its results for the first slices, for which it is not called again.
    """
    batched = None
    try:
        return of_library(f, axis, arr, args, kwargs, known)
    except Exception as error:
        if was_first(error, axis, arr):
            batched = samples.wanted(f, error, lambda: samples.ends(axis, arr), args, kwargs)
        if batched is None:
            raise
    return of_library(batched, axis, arr, args, kwargs)


def of_library(
    f: Callable[..., Any],
    axis: int,
    arr: Any,
    args: tuple,
    kwargs: dict,
    known: Sequence[Any] = (),
) -> Any:
    """The loop of the array's own library, or one like it."""
    state = around(f, arr)
    if state is not None:
        with state():  # once, not for each slice
            return _of_library(f, axis, arr, args, kwargs, known)
    return _of_library(f, axis, arr, args, kwargs, known)


def around(f: Callable[..., Any], arr: Any) -> Callable[[], AbstractContextManager[Any]] | None:
    """What makes the context that a loop over an array runs `f` in; None: there is none."""
    # objects of users may have any attribute, and functions of ours only this one
    state = f.__dict__.get(AROUND) if type(f) is FunctionType else None
    return state if type(arr) is np.ndarray else None


def _of_library(
    f: Callable[..., Any], axis: int, arr: Any, args: tuple, kwargs: dict, known: Sequence[Any]
) -> Any:
    if thin.takes(arr, axis) and config.current().plain_loop:
        return _thin(f, axis % arr.ndim, arr, args, kwargs, known)
    if known:
        f = thin.Continued(f, known)
    if arrays.library(arr) not in (None, "numpy", "cupy"):
        return _apply(f, axis, arr, args, kwargs)
    with _called(f, (axis,), arr, args, kwargs) as calls:
        return _its_own(calls, axis, arr, args, kwargs)


def _thin(
    f: Callable[..., Any], axis: int, arr: Any, args: tuple, kwargs: dict, known: Sequence[Any]
) -> Any:
    """The loop over a plain array of NumPy."""

    def place(error: Exception, index: tuple[int, ...], shapes: Any) -> None:
        if shapes is not None:
            _note_shapes(error, *shapes)
        note(error, index, axis)

    found = thin.apply(f, axis, arr, args, kwargs, known, place)
    if type(found) is not thin.Left:
        return found
    known = known or (found.first,)
    return _its_own(thin.Continued(f, known), axis, arr, args, kwargs)


def _called(f: Any, axes: tuple[int, ...], arr: Any, args: tuple, kwargs: dict) -> Any:
    """The function that the loop calls: `f`, or one that shares it with processes."""
    if config.current().plain_loop:
        return nullcontext(f)
    from . import processes

    arguments = Arguments((Looped(0), *args), kwargs)
    if arrays.library(arr) is None:
        arr = np.asanyarray(arr)
    along = tuple(a % arr.ndim for a in axes) if arr.ndim else ()
    rest = tuple(a for a in range(arr.ndim) if a not in along)
    batch = tuple(arr.shape[a] for a in rest)

    def slices() -> processes.SharedSlices:
        return processes.SharedSlices([arr.transpose(*rest, *along)], batch)

    own = f.continues if type(f) is thin.Continued else f  # but for the first slice
    return processes.called(f, own, arguments, [arr], slices, math.prod(batch))


def _its_own(f: Callable[..., Any], axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    is_cupys = arrays.library(arr) == "cupy"
    its_own = originals.cupys() if is_cupys else originals.apply_along_axis
    try:
        return its_own(f, axis, arr, *args, **kwargs)
    except Exception as error:
        _note_where_it_was(error)
        raise


def note(error: BaseException, index: tuple[int, ...], axis: int) -> None:
    """Say at which slice `error` was raised: `index` is along all axes but `axis`."""
    add_note(error, _place(index, axis))
    from ..functions import advice

    advice.note(error)


def _place(index: tuple[int, ...], axis: int) -> str:
    parts = [*map(str, index[:axis]), ":", *map(str, index[axis:])]
    return f"raised at the slice arr[{', '.join(parts)}]"


def was_first(error: BaseException, axis: int, arr: Any) -> bool:
    """Whether an error is of the first slice."""
    ndim = arr.ndim if hasattr(arr, "ndim") else np.ndim(arr)
    return _place((0,) * (ndim - 1), axis % ndim) in getattr(error, "__notes__", ())


def _note_shapes(error: BaseException, shape: Any, first: Any) -> None:
    """Say that a result has not the shape of the first one."""
    text = f"f returned shape {shape}, and {first} for the first slice: it must be one shape"
    add_note(error, text)


def _fits(shape: tuple[int, ...], first: tuple[int, ...]) -> bool:
    """Whether an array can be assigned to one of shape `first`."""
    more = max(0, len(shape) - len(first))  # of ones, which NumPy leaves out
    try:
        return {*shape[:more]} <= {1} and np.broadcast_shapes(shape[more:], first) == first
    except ValueError:
        return False


def _other_shape(shape: tuple[int, ...], first: tuple[int, ...]) -> ValueError:
    """The error of NumPy's assignment to the output."""
    error = ValueError(f"could not broadcast input array from shape {shape} into shape {first}")
    _note_shapes(error, shape, first)
    return error


def _note_where_it_was(error: BaseException) -> None:
    """Say at which slice NumPy's or CuPy's loop was, as its local variables have it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_name != "apply_along_axis":
        trace = trace.tb_next
    if trace is None:
        return
    loop = trace.tb_frame.f_locals
    index, axis = loop.get("ind", loop.get("ind0")), loop.get("axis")
    # without an index it did not begin; with no more indices it was through
    if not isinstance(index, tuple) or getattr(loop.get("inds"), "gi_frame", None) is None:
        return
    if "ind" in loop and isinstance(error, ValueError):
        text = re.fullmatch(thin.OTHER_SHAPE, str(error)) if trace.tb_next is None else None
        first = loop["res"].shape
        shape = getattr(loop.get("out"), "shape", None)  # the result, in CuPy's loop
        if text is not None:
            _note_shapes(error, text[1], first)
        elif shape is not None and not _fits(shape, first):
            _note_shapes(error, shape, first)
    note(error, index[:-1], int(axis))  # type: ignore[arg-type]  # the last of them is "..."


def _apply(f: Callable[..., Any], axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """The loop for libraries without one."""
    axis = arrays.normalize_axis_index(axis, arr.ndim)

    def place(error: Exception, index: tuple[int, ...]) -> None:
        note(error, index, axis)

    return along(f, (axis,), arr, args, kwargs, place)


def along(
    f: Callable[..., Any],
    axes: tuple[int, ...],
    arr: Any,
    args: tuple,
    kwargs: dict,
    place: Callable[[Exception, tuple[int, ...]], None],
) -> Any:
    """The loop over slices with several axes, which `f` gets in the order of `axes`.

    Results stand where the first of `axes` was. They are collected and stacked: nothing is written
    in place, so read-only (JAX) and autograd (torch) arrays work as well. `place` notes at which
    slice `f` raised.
    """
    xp = arrays.compat(arr)
    rest = tuple(a for a in range(arr.ndim) if a not in axes)
    batch = tuple(arr.shape[a] for a in rest)
    if 0 in batch:
        raise ValueError(EMPTY)
    rows = arrays.permute(arr, (*rest, *axes))
    results: list[Any] = []
    index: tuple[int, ...] = ()
    with _called(f, axes, arr, args, kwargs) as calls:
        try:
            for index in itertools.product(*map(range, batch)):
                result = as_array(xp, calls(rows[(*index, ...)], *args, **kwargs), arr)
                if results:
                    if result.shape != results[0].shape:
                        result = _spread(xp, result, tuple(results[0].shape))
                    # the first result fixes the dtype, as in NumPy
                    result = xp.astype(result, results[0].dtype, copy=False)
                results.append(result)
        except Exception as error:
            place(error, index)
            raise
    stacked = xp.reshape(stack(xp, results), (*batch, *results[0].shape))
    n, at = len(batch), first_place(axes)
    order = (*range(at), *range(n, stacked.ndim), *range(at, n))
    return xp.permute_dims(stacked, order)


def _spread(xp: Any, result: Any, first: tuple[int, ...]) -> Any:
    """A result in the place of one of the shape `first`, where NumPy's assignment takes it."""
    shape = tuple(result.shape)
    if not _fits(shape, first):
        raise _other_shape(shape, first)
    return xp.broadcast_to(xp.reshape(result, shape[max(0, len(shape) - len(first)) :]), first)


def first_place(axes: tuple[int, ...]) -> int:
    """The number of loop dims before the first applied axis."""
    return axes[0] - sum(a < axes[0] for a in axes)


def as_array(xp: Any, value: Any, like: Any) -> Any:
    """A result of `f` as an array beside `like`: scalars, (nested) lists and tuples included."""
    if arrays.library(value) == arrays.library(like):
        return value
    if isinstance(like, np.ndarray):
        return np.asanyarray(value)  # as NumPy's own loop
    if isinstance(value, (list, tuple)):
        return stack(xp, [as_array(xp, v, like) for v in value])
    return arrays.asarray(value, like)


def stack(xp: Any, results: list[Any]) -> Any:
    """Arrays of one shape as one.

    Those of sparse must leave out the same number: one without axes leaves out its own.
    """
    first = results[0]
    if arrays.library(first) == "sparse" and len({str(x.fill_value) for x in results}) > 1:
        make, zero = type(first).from_numpy, first.dtype.type(0)
        results = [make(x.todense(), fill_value=zero) for x in results]
    return xp.stack(results)
