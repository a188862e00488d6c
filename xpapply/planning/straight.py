"""Calls that run in NumPy's loop with the least overhead.

The loop gives what every engine gives, so that nothing but time is lost where it runs though
another way would do: what is remembered of a function's loops needs no check before each of them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from .. import frontends
from ..limits import LIMITS
from ..loop.own_vectorize import SCALARS

_FUNCTIONS = (FunctionType, BuiltinFunctionType, type, np.ufunc, type(np.sum))


def is_function(f: Any) -> bool:
    """Whether the loop over numbers calls `f` itself: neither a network nor compiled."""
    return type(f) in _FUNCTIONS or (callable(f) and frontends.is_python(f))


def elements(operands: Iterable[Any]) -> float:
    """The number of elements of arrays and numbers, broadcast.

    0: there are none, or there are others among them; infinite: it takes a while to say.
    """
    shape: tuple[int, ...] = ()
    size: float = 1
    for x in operands:
        kind = type(x)
        if kind in SCALARS:
            continue
        if kind is np.ndarray:
            own: tuple[int, ...] = x.shape
        elif kind is list or kind is tuple:
            own = (len(x),)
            # in few each is looked at: lists may have lists in them
            if own > (LIMITS.few_elements,) or not SCALARS.issuperset(map(type, x)):
                size = math.inf
        else:
            return 0
        if own != shape and own:
            try:
                shape = np.broadcast_shapes(shape, own) if shape else own
            except ValueError:
                return 0
    if not shape:
        return size
    count = math.prod(shape)
    return size * count if count else 0


def kinds(operands: Iterable[Any]) -> Hashable:
    """The key of calls that run alike."""
    return tuple([x.dtype if type(x) is np.ndarray else type(x) for x in operands])
