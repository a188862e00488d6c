"""xpapply's own functions of a slice (`MLP`): they write their graph themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.graph import Graph, ShapeDtype


def lift(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph that `f` writes."""
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
