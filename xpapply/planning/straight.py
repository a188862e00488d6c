"""Calls of `vectorize` that run in NumPy's loop, with next to nothing before it.

The loop gives what every engine gives, so that nothing but time is lost where it runs though
another way would do: what is remembered of a function's loops needs no check before each of them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from .. import config, frontends
from ..limits import LIMITS
from ..loop.own_vectorize import SCALARS
from ..runtime.budget import Budget

_FUNCTIONS = (FunctionType, BuiltinFunctionType, type, np.ufunc, type(np.sum))


_asked: tuple[Any, bool] = None, False
"""Options, and whether loops are to be nothing but loops under them, wherever they are best."""


def is_plain() -> bool:
    """Whether loops are to be nothing but loops, wherever they are best, under these options."""
    global _asked
    now, asked = config.current(), _asked  # other threads have options of their own
    if asked[0] is not now:
        is_so = now.plain_loop and now.engine in ("", "loop") and now.fallback != "raise"
        asked = _asked = now, is_so
    return asked[1]


def is_function(f: Any) -> bool:
    """Whether the loop of numbers calls `f` itself: it is neither a network nor compiled."""
    return type(f) in _FUNCTIONS or (callable(f) and frontends.is_python(f))


def elements(operands: Iterable[Any]) -> float:
    """How many elements arrays and numbers have, broadcast.

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
    """What tells calls apart that may run in other ways."""
    return tuple([x.dtype if type(x) is np.ndarray else type(x) for x in operands])


class Loops(Budget):
    """A function that runs in the loop, for arguments of some kinds.

    The budget is of loops until the long way is gone again: what the function reaches may have
    changed.

    Attributes
    ----------
    most : float
        For up to so many elements.
    options : Options
        Those that were in force.
    others : Budget or None
        Of loops until something else is tried, by which the long way goes.
    """

    __slots__ = ("__weakref__", "most", "options", "others")

    def __init__(self, seconds: float, most: float, others: Budget | None) -> None:
        super().__init__(seconds)
        self.most, self.options, self.others = most, config.current(), others

    def hold(self, size: float) -> bool:
        """Whether so many elements are looped over without a further look."""
        return size <= self.most and self.spent < self.limit and config.current() is self.options

    def took(self, seconds: float) -> None:
        """Note how long a loop took."""
        self.spent += seconds
        if self.others is not None:
            self.others.spent += seconds


def loops(
    most: float, seconds: float, in_loop: float, others: Budget | None = None
) -> Loops | None:
    """What is remembered of a call; None: nothing.

    Parameters
    ----------
    most : float
        Up to how many elements the loop runs.
    seconds, in_loop : float
        How long the call took, and the loop in it.
    others : Budget, optional
        Of loops until something else is tried.
    """
    if not most or not is_plain():
        return None
    left = LIMITS.loops_per_plan * min(LIMITS.plan_of_vectorize, seconds - in_loop)
    return Loops(left, max(most, LIMITS.few_elements), others)
