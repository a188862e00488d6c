"""Modules of slices with several axes, as functions of the same slices laid flat."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from torch import nn

from ...cache import remembered
from ...errors import TraceError
from .. import FlatFunction


def flattened(f: Any, shape: tuple[int, ...]) -> FlatFunction:
    """`f` for slices of a shape that lie flat.

    Raises
    ------
    TraceError
        For what is neither a module nor a method of its class.
    """
    module, name = (f.__self__, f.__name__) if isinstance(f, types.MethodType) else (f, "__call__")
    its_own = isinstance(module, nn.Module) and callable(getattr(type(module), name, None))
    if not its_own or (module is not f and getattr(module, name) != f):
        raise TraceError(f"slices with several axes are looped over by a {type(f).__name__}")
    # as a method it is served, watched and remembered as the module is, and keeps nothing alive
    return FlatFunction(types.MethodType(_of_flat(shape, name), module))


@remembered(256)
def _of_flat(shape: tuple[int, ...], name: str) -> Callable[..., Any]:
    def of_flat(module: nn.Module, v: Any, *args: Any, **kwargs: Any) -> Any:
        # of a batch of slices, too
        return getattr(module, name)(v.unflatten(-1, shape), *args, **kwargs)

    return of_flat
