"""Batching rules of torch: `torch.vmap` runs any function for all slices of a block."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from ..runtime.warning_filters import VMAP_IS_SLOW, silent
from . import Batched, BatchingRule
from .ragged import Ragged
from .rules import leaves


def _torch() -> Any:
    return sys.modules["torch"]


@functools.cache
def vmapped(name: str) -> BatchingRule:
    """The row of a function."""
    return BatchingRule(name, _vmapped)


def _vmapped(xp: Any, _: Any, given: tuple, __: dict) -> Any:
    """The function for all slices."""
    torch = _torch()
    function, *rest = given
    if getattr(function, "__name__", "") in _QUANTILES and (found := _quantile(function, *rest)):
        return found
    flat: list[Any] = []
    args, kwargs = _packed(tuple(rest), flat)

    def inner(*parts: Any) -> Any:
        return function(*_filled(args, parts), **_filled(kwargs, parts))

    with torch.no_grad(), silent(VMAP_IS_SLOW):
        return _rows(torch.vmap(inner, randomness="error")(*flat))


class _Place(int):
    """The place of a batched tensor in the arguments."""


def _packed(tree: Any, flat: list[Any]) -> Any:
    """Arguments with a place in `flat` for each batched tensor."""
    if isinstance(tree, Batched):
        flat.append(tree.array)
        return _Place(len(flat) - 1)
    if isinstance(tree, tuple):
        return tuple(_packed(x, flat) for x in tree)
    if isinstance(tree, list):
        return [_packed(x, flat) for x in tree]
    if isinstance(tree, dict):
        return {k: _packed(x, flat) for k, x in tree.items()}
    return tree


def _filled(tree: Any, parts: tuple) -> Any:
    if isinstance(tree, _Place):
        return parts[tree]
    if isinstance(tree, tuple):
        return tuple(_filled(x, parts) for x in tree)
    if isinstance(tree, list):
        return [_filled(x, parts) for x in tree]
    if isinstance(tree, dict):
        return {k: _filled(x, parts) for k, x in tree.items()}
    return tree


def _rows(found: Any) -> Any:
    return tuple(map(_rows, found)) if isinstance(found, (tuple, list)) else Batched(found)


def _quantile(function: Any, args: tuple, kwargs: dict) -> Batched | None:
    """Along an axis, since torch.vmap calls it slice by slice."""
    x, others = (args or (None,))[0], (args[1:], kwargs)
    constant = not any(True for _ in leaves(others)) and len(args) < 3
    if not isinstance(x, Batched) or x.ndim != 1 or not constant or "dim" in kwargs:
        return None
    if kwargs.get("keepdim"):
        return None
    with _torch().no_grad():
        found = function(x.array, *args[1:], dim=1, **kwargs)
    return Batched(found.movedim(0, -1) if found.ndim > 1 else found)


_QUANTILES = frozenset(("quantile", "nanquantile"))


# --- values of a mask -----------------------------------------------------------------------


def _elementwise(xp: Any, _: Any, given: tuple, __: dict) -> Ragged:
    """A function of each of the values, and of numbers beside them."""
    torch = _torch()
    function, args, kwargs = given
    values = next(x for x in args if isinstance(x, Ragged))
    counts = torch.as_tensor(values.counts, device=values.flat.device)

    def wide(x: Any) -> Any:
        if isinstance(x, Ragged):
            return x.flat
        if isinstance(x, Batched):  # a number takes the dtype of the values beside it
            dtype = torch.result_type(values.flat, x.array.new_zeros(()))
            return x.array.repeat_interleave(counts).to(dtype)
        return x

    with torch.no_grad():
        return Ragged(function(*map(wide, args), **kwargs), values.counts)


def _reduce(xp: Any, _: Any, given: tuple, __: dict) -> Batched:
    """A function that makes a number of the values of each slice."""
    torch = _torch()
    function, x, args, kwargs, dtype = given
    out = torch.empty(len(x.counts), dtype=dtype, device=x.flat.device)
    for index, batch in x.batches():
        out[torch.as_tensor(index, device=out.device)] = _reduced(function, batch, args, kwargs)
    return Batched(out)


def _reduced(function: Any, batch: Any, args: tuple, kwargs: dict) -> Any:
    torch = _torch()
    with torch.no_grad():
        if not batch.shape[1]:  # all of these are the same, or all raise
            return function(batch[0], *args, **kwargs)
        along = not args or (function.__name__ in _QUANTILES and len(args) == 1)
        if not along or not {"dim", "axis"}.isdisjoint(kwargs):
            return _vmapped(None, None, (function, (Batched(batch), *args), kwargs), {}).array
        found = function(batch, *args, dim=1, **kwargs)
    return found if isinstance(found, torch.Tensor) else found[0]  # a value and its position


def _constant(xp: Any, _: Any, given: tuple, __: dict) -> Batched:
    """A number that is the same for all slices of a path."""
    x, number = given
    return Batched(number.to(x.array.device).expand(len(x.array), *number.shape).clone())


def _numbers(xp: Any, _: Any, given: tuple, __: dict) -> Batched:
    """NumPy's or Python's numbers as a tensor."""
    x, dtype = given
    return Batched(_torch().as_tensor(np.ascontiguousarray(x.array)).to(dtype))


ELEMENTWISE = BatchingRule(
    "torch function of the values of a mask", _elementwise, exact=True, fresh=True
)
REDUCE = BatchingRule("torch reduction of the values of a mask", _reduce, exact=True, fresh=True)
NUMBERS = BatchingRule("tensor of numbers", _numbers, exact=True, fresh=True)
CONSTANT = BatchingRule("constant tensor", _constant, exact=True, fresh=True)
