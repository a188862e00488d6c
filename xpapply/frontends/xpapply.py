"""xpapply's own functions of a slice.

`MLP` writes its graph itself; `elementwise` and `reduction` run on all slices at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import TraceError
from ..ir.graph import Graph, ShapeDtype
from . import AllAtOnce

VECTORIZED = ("slicewise",)
"""What plans call the way of `vectorized`."""


def lift(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph that `f` writes."""
    if not hasattr(f, "lift"):
        raise TraceError(f"{type(f).__name__} runs on all slices by itself")
    if args or kwargs:
        raise TypeError(f"{type(f).__name__} takes the slice and nothing else")
    graph: Graph = f.lift(aval)
    return graph


def watch(f: Any, args: tuple, kwargs: dict, sources: tuple = ()) -> Callable[[], bool]:
    """They cannot change."""
    return lambda: True


def slice_function(f: Any) -> Callable[..., Any]:
    """They take slices of any library."""
    return f  # type: ignore[no-any-return]


def vectorized(
    f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, *, trusted: bool = False
) -> AllAtOnce:
    """`elementwise` and `reduction`, which take all slices along an axis."""
    if not hasattr(f, "along"):
        raise TraceError(f"{type(f).__name__} takes one slice")
    if isinstance(arr, np.ma.MaskedArray):
        raise TraceError("a MaskedArray is a subclass of ndarray with a meaning of its own")
    if kwargs or any(getattr(x, "ndim", 0) or isinstance(x, (list, tuple)) for x in args):
        raise TraceError("with further arguments that are no numbers")
    run = lambda x, axis: f.along(axis, x, *args)  # noqa: E731
    return AllAtOnce("slicewise", ("one call for all slices",), run)
