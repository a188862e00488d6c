"""Elements of arrays: `x[key]` and writes to it, by integers, slices and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....batching import syntax
from ..data_dependent import ragged
from . import choices
from .arrays import as_array, fits
from .recorder import Recorder
from .stand_ins import Traced, tracers, values
from .tracer import Tracer, must, must_be_set


def as_mask(recorder: Recorder, mask: Any) -> Tracer:
    """Truth values as a boolean array."""
    mask = as_array(recorder, mask)
    if not isinstance(mask, Tracer):
        mask = recorder.constant(np.asarray(mask))
    return mask if mask.value.dtype == bool else mask != 0


def count(recorder: Recorder, mask: Tracer) -> int:
    """Count true values: a decision, so slices with other counts take other paths."""
    found = recorder.call(
        syntax.COUNT, lambda m: np.intp(np.count_nonzero(m)), (mask,), check=False
    )
    return int(recorder.ask(found, int(found.value))) if isinstance(found, Tracer) else int(found)


def compressed(x: Any, mask: Tracer) -> Any:
    """``x[mask]``."""
    recorder = mask.recorder
    if mask.value.ndim == 0:
        raise recorder.refuse("an index by one truth value")
    if mask.ref is None:
        return recorder.call(
            syntax.INDEX, lambda v: v[mask.value], (x,), batch=((x, (mask.value,)), {})
        )
    if mask.value.ndim == 1 and np.shape(values(x)) == mask.value.shape:
        return ragged.selected(x, mask)
    if mask.value.ndim == 1 and (rows := ragged.rows_of(x, mask)) is not None:
        return rows
    real = recorder.real(lambda: values(x)[mask.value])
    n = count(recorder, mask)
    return recorder.call(
        syntax.COMPRESS, lambda *_: real, (x, mask), batch=((x, mask, n), {}), check=False
    )


def nonzero(recorder: Recorder, x: Any) -> Any:
    """`numpy.nonzero`."""
    mask = as_mask(recorder, x)
    if mask.ref is None:
        return recorder.call(syntax.SAME, np.nonzero, (mask,))
    if mask.value.ndim == 1 and recorder.library == "numpy":
        return (ragged.positions(mask),)
    n = count(recorder, mask)
    return recorder.call(syntax.NONZERO, np.nonzero, (mask,), batch=((mask, n), {}), check=False)


def counted(a: Any) -> None:
    """Make the number of selected values a decision."""
    if isinstance(a, (ragged.Selected, ragged.SelectedRows)):
        a.ref  # noqa: B018


def index(recorder: Recorder, key: Any) -> tuple[Any, ...]:
    """An index as a tuple, with lists as arrays; integers of slices become decisions."""
    parts = key if isinstance(key, tuple) else (key,)
    found = []
    for k in parts:
        if isinstance(k, slice):
            k = slice(*(x.__index__() if isinstance(x, Tracer) else x for x in _slice(k)))
        elif isinstance(k, (list, tuple)):
            k = as_array(recorder, k)
            if not isinstance(k, Tracer) and k.size == 0:
                k = k.astype(np.intp)
        if isinstance(k, Tracer) and k.ref is None:
            k = k.value
        if isinstance(k, Tracer) and k.weak and isinstance(k.value, bool):
            raise recorder.refuse("an index by one truth value")
        found.append(k)
    return tuple(found)


def _slice(s: slice) -> tuple[Any, Any, Any]:
    return s.start, s.stop, s.step


def getitem(x: Tracer, key: Any) -> Any:
    """``x[key]``."""
    recorder = x.recorder
    if isinstance(key, ragged.Selected) and key.places and x.value.shape == key.mask.value.shape:
        return ragged.selected(x, key.mask)
    if isinstance(x, ragged.Selected):
        found = ragged.element(x, key)
        if found is not NotImplemented:
            return found
    key = index(recorder, key)
    moving = [k for k in key if isinstance(k, Tracer)]
    if not moving:
        if not any(isinstance(k, (np.ndarray, bool, np.bool_)) for k in key):
            return _part(x, key)
        if x.unset is not None:
            must_be_set(recorder, x.unset[key])
        return recorder.structural(syntax.INDEX, lambda v, k: v[k], (x, key), check=True)
    if any(np.asarray(k.value).dtype == bool for k in moving):
        if len(key) > 1:
            raise recorder.refuse("an index by a mask and something else")
        return compressed(x, moving[0])
    if any(k is None or k is Ellipsis for k in key):
        raise recorder.refuse("an index by traced integers together with None or ...")
    if x.unset is not None:
        must_be_set(recorder, x.unset[key])
    return recorder.structural(syntax.GATHER, lambda v, k: v[k], (x, key), check=True)


def _part(x: Tracer, key: tuple[Any, ...]) -> Any:
    """``x[key]`` by integers and slices: a view, or a number."""
    recorder = x.recorder
    real = recorder.real(lambda: x.value[key])
    view = isinstance(real, np.ndarray)
    if x.unset is not None and not view:
        must_be_set(recorder, x.unset[key])
    found = recorder.structural(
        syntax.INDEX, lambda *_: real, (x,), batch=((x, key), {}), is_part=view
    )
    # a number of CuPy's is an array without axes
    if isinstance(found, Tracer) and (view or recorder.library == "cupy") and found is not x:
        found.is_view_of(x, key)
    return found


def setitem(x: Tracer, key: Any, item: Any) -> None:
    """``x[key] = item``."""
    recorder = x.recorder
    if not isinstance(x.value, np.ndarray):
        raise TypeError(f"'{type(x.value).__name__}' object does not support item assignment")
    if not x.owned:
        raise recorder.refuse("it writes into the slice or into an array that it did not make")
    key = index(recorder, key)
    if isinstance(item, Tracer) and item.is_part_of(x, key):
        return  # the end of `y[:3] += 1`, which has written it already
    if isinstance(item, (list, tuple)):
        item = as_array(recorder, item, x.dtype)  # number by number, as it is assigned
    item = as_array(recorder, item) if not isinstance(item, Traced) else choices.number(item)
    item.settle() if isinstance(item, Traced) else None
    if isinstance(item, ragged.Selected) and x.value.ndim == 1 and item.is_of(key):
        changed = x.value.copy()
        changed[key[0].value] = item.value
        new = recorder.structural(syntax.SET_MASKED, lambda *_: changed, (x, key[0], item.flat))
        x.become(new.value, new.ref)
        x.is_set(key)
        return
    if isinstance(item, Tracer) and item.ref is None:
        item = item.value
    changed = x.value.copy()
    recorder.real(changed.__setitem__, values(key), values(item))
    arrays = any(np.ndim(values(k)) for k in key if not isinstance(k, slice))
    fits(item, x.dtype, one=not arrays)  # with arrays in the index NumPy makes one of a number
    if isinstance(item, Tracer) and not isinstance(item.value, np.ndarray):
        if (
            item.ref is not None
            and x.dtype.kind in "iu"
            and np.asarray(item.value).dtype.kind == "f"
        ):
            must(abs(item) < 2.0**63)  # NaN and inf raise where one number is written
    masks = [k for k in key if isinstance(k, Tracer) and np.asarray(k.value).dtype == bool]
    if not any(t.ref is not None for t in tracers((x, key, item))):
        x.become(changed, None)
        x.is_set(key)
        return
    if masks:
        mask = masks[0]
        if len(key) > 1 or mask.ndim == 0:
            raise recorder.refuse("a write by a mask and something else")
        if np.ndim(values(item)):
            n = count(recorder, mask)
            if np.shape(values(item)) != (n,):
                if np.size(values(item)) != 1:
                    raise recorder.refuse("a write by a mask of a value that broadcasts")
                item = item.reshape(())
        new = recorder.structural(
            syntax.SET_MASKED, lambda *_: changed, (x, mask, item), check=True
        )
    else:
        ndim = np.ndim(x.value[values(key)])
        new = recorder.structural(syntax.SET, lambda *_: changed, (x, key, item, ndim), check=True)
    x.become(new.value, new.ref)
    x.is_set(key)
