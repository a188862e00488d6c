"""Conversions to arrays where a traced value is used: lists, other dtypes, copies, `y.flat`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....batching import syntax
from ....errors import TraceError
from ....ir.avals import KINDS
from . import choices
from .recorder import Recorder
from .stand_ins import replaced, tracers, values
from .tracer import Tracer, must


def as_array(recorder: Recorder, tree: Any, dtype: Any = None) -> Any:
    """`tree` as `numpy.asanyarray` would have it: a tracer, or an array without any in it."""
    if any(t.is_choice for t in tracers(tree)):
        tree = choices.as_one(tree)
    if isinstance(tree, Tracer):
        if dtype is None or np.asarray(tree.value).dtype == dtype:
            return tree
        return cast(tree, dtype)
    found = list(tracers(tree))
    if not found:
        return np.asanyarray(tree, dtype)
    if any(not isinstance(t, Tracer) for t in found):
        # what NumPy makes an array of by asking for one, such as a tensor
        return as_array(recorder, replaced(lambda t: t.as_numpy(), tree), dtype)
    if not isinstance(tree, (list, tuple)):
        raise recorder.refuse(f"an array is made of a {type(tree).__name__}")
    real = recorder.real(lambda: np.asanyarray(values(tree), dtype))
    for x in found:
        fits(x, real.dtype, one=True)
    if real.dtype.kind not in "biufc":
        kind = KINDS.get(real.dtype.kind, f"dtype {real.dtype}")
        raise recorder.refuse(f"an array of {kind} is made of what depends on the slice")
    return recorder.call(
        syntax.STACK,
        lambda *_: real,
        (tree,),
        batch=((tree, real.shape, real.dtype), {}),
        check=False,
    )


def cast(x: Tracer, dtype: Any) -> Any:
    """`x` in another dtype, as a new array or number."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufc":
        what = {"U": "text", "S": "text", "M": "dates", "m": "dates"}.get(dtype.kind, str(dtype))
        raise x.recorder.refuse(f"a cast to {what}")

    fits(x, dtype)

    def real(value: Any, _: Any) -> Any:
        return np.asarray(value).astype(dtype)[()] if np.ndim(value) == 0 else value.astype(dtype)

    return x.recorder.call(syntax.CAST, real, (x, dtype), check=False)


def lists_as_arrays(recorder: Recorder, tree: Any) -> Any:
    """Arguments in which lists that hold tracers are arrays."""
    if isinstance(tree, (list, tuple)) and any(True for _ in tracers(tree)):
        return as_array(recorder, tree)
    return tree


def recorder_of(tree: Any) -> Recorder:
    """The recorder of the tracers in arguments."""
    return next(tracers(tree)).recorder  # type: ignore[no-any-return]


def fits(x: Any, dtype: Any, one: bool = False) -> None:
    """Python's number that does not fit into an integer dtype raises: NumPy asks for its int.

    `one`: it is put where one element is, or a list has it. So are NumPy's numbers asked then.
    """
    dtype = np.dtype(dtype)
    if not isinstance(x, Tracer) or x.ref is None or dtype.kind not in "iu":
        return
    if not x.weak and not (one and isinstance(x.value, np.generic)):
        return
    info, own = np.iinfo(dtype), np.asarray(x.value).dtype
    if own.kind not in "fiu" or np.can_cast(own, dtype):
        return
    if not info.min <= x.recorder.real(int, x.value) <= info.max:
        _does_not_fit(x, dtype)
    if own.kind == "f":
        # the fraction is cut off; NaN is in no range
        must(x > float(info.min - 1) if info.bits < 64 or not info.min else x >= float(info.min))
        must(x < float(info.max + 1))
        return
    if info.min > np.iinfo(own).min:
        must(x >= int(info.min))
    if info.max < np.iinfo(own).max:
        must(x <= int(info.max))


def _does_not_fit(x: Tracer, dtype: Any) -> None:
    x.recorder.raised(OverflowError(f"{x.value} does not fit into {dtype}"))
    raise TraceError(f"{x.value} does not fit into {dtype}")


def copied(x: Any) -> Any:
    """A copy, which ``f`` may write into."""
    if not isinstance(x, Tracer):
        return np.array(x)
    return x.recorder.call(syntax.SAME, np.array, (x,), check=False)


class Elements:
    """The counterpart of `numpy.flatiter`: elements one after the other."""

    def __init__(self, x: Tracer) -> None:
        self._x = x

    def flat(self) -> Tracer:
        """The elements as a vector in the same memory."""
        x = self._x
        if x.ndim == 1:
            return x
        if not x.ndim or x.recorder.library != "numpy":
            raise x.recorder.refuse(f"the elements of an array of {x.ndim} axes one by one")
        return x.part(tuple(np.unravel_index(np.arange(x.size), x.shape)))

    def __len__(self) -> int:
        return int(self._x.size)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.flat())

    def __getitem__(self, key: Any) -> Any:
        found = self.flat()[key]
        view = isinstance(found, Tracer) and isinstance(found.value, np.ndarray)
        return copied(found) if view else found

    def __setitem__(self, key: Any, item: Any) -> None:
        x = self._x
        item = as_array(x.recorder, item)
        changed = x.value.copy()
        x.recorder.real(changed.flat.__setitem__, values(key), values(item))
        flat = self.flat()
        count = np.size(flat.value[values(key)])
        if np.size(values(item)) not in (1, count):
            raise x.recorder.refuse("elements one by one from more or fewer others")
        fits(item, x.dtype, one=count == 1 and np.ndim(values(key)) == 0)
        flat[key] = item.reshape(-1 if np.size(values(item)) > 1 else ())

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._x.recorder.refuse("the elements of an array go into a library's function")
