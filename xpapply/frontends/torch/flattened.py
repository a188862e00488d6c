"""How modules take slices: as they are, laid flat, as an image of one channel, as integers."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.utils._pytree import tree_leaves, tree_map_only

from ...cache import remembered
from ...errors import TraceError
from .. import FlatFunction
from .model import SHAPE_ERRORS, check, device_of, modules, parameter_dtype
from .script import is_script
from .snapshot import untouched

_PARTICULAR = (_ConvNd, nn.Embedding, nn.EmbeddingBag, torch.fx.GraphModule)
"""Layers that are written for batches of images, or for integers, and code that may have them."""


def flattened(f: Any, shape: tuple[int, ...], dtype: str = "") -> FlatFunction:
    """`f` for slices of a shape that lie flat; with a `dtype`, as `fitted` has them.

    Raises
    ------
    TraceError
        For what is neither a module nor a method of its class.
    """
    flat = _flat(f, shape)
    if flat is None:
        raise TraceError(f"slices with several axes are looped over by a {type(f).__name__}")
    return FlatFunction(as_taken(f, shape, dtype) or flat)


def fitted(f: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """`f` itself, or for what takes no such slices a function of them that gives what it takes.

    A module that takes neither a slice ``(M,)`` nor a batch of them may take images of one
    channel, ``(1, M)`` or ``(B, 1, M)``, or integers.
    """
    return as_taken(f, shape, dtype) or f


def as_taken(f: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """A function of flat slices that adds a channel, or wants integers; None if none is needed."""
    found = modules(f)
    if not dtype or not any(isinstance(m, _PARTICULAR) or is_script(m) for m in found):
        return None
    if _flat(f, shape) is None:
        return None
    zeros = torch.zeros(shape, dtype=parameter_dtype(f, dtype), device=device_of(f))
    try:
        check(f, (), {})
        with untouched(found):
            if _result(f, zeros) is not None:
                return None
            alone = _result(f, zeros[None])
            two = _result(f, torch.stack([zeros, zeros]))
            if alone and two and (alone[0], two[0]) == (1, 2):
                return None  # a batch of one
            # what takes one image of one channel may take it for a batch of one, if it has to
            if _result(f, zeros[None, None]) is not None or (alone and alone[0] != 1):
                return _flat(f, (1, *shape))
            zeros = zeros.long()
            if dtype.startswith(("int", "uint")) and alone is None:
                if _result(f, zeros) is not None or _result(f, zeros[None]) is not None:
                    return _flat(f, shape, integers=True)
    except TraceError:  # it writes to its attributes, or has hooks: the loop runs it
        return None
    return None


def _result(f: Any, x: torch.Tensor) -> tuple[int, ...] | None:
    """The shape of the first tensor that `f` returns; None where it does not take `x`."""
    try:
        found = f(x)
    except SHAPE_ERRORS:
        return None
    return next((tuple(y.shape) for y in tree_leaves(found) if isinstance(y, torch.Tensor)), ())


def _flat(f: Any, shape: tuple[int, ...], *, integers: bool = False) -> Any:
    """A module, or a method of its class, as a function of flat slices; None for others."""
    module, name = (f.__self__, f.__name__) if isinstance(f, types.MethodType) else (f, "__call__")
    its_own = isinstance(module, nn.Module) and callable(getattr(type(module), name, None))
    if not its_own or (module is not f and getattr(module, name) != f):
        return None
    # as a method it is served, watched and remembered as the module is, and keeps nothing alive
    return types.MethodType(_of_flat(shape, name, integers), module)


@remembered(256)
def _of_flat(shape: tuple[int, ...], name: str, integers: bool) -> Callable[..., Any]:
    def of_flat(module: nn.Module, v: Any, *args: Any, **kwargs: Any) -> Any:
        # of a batch of slices, too
        return getattr(module, name)(v.reshape(*v.shape[:-1], *shape), *args, **kwargs)

    def with_channels_last(module: nn.Module, v: Any) -> Any:
        x = v.reshape(*v.shape[:-1], *shape)
        memory = torch.channels_last if x.ndim == 4 else torch.channels_last_3d
        # .to() does nothing where there is one channel: that may count as either order
        x = torch.empty(x.shape, dtype=x.dtype, memory_format=memory).copy_(x)
        found = getattr(module, name)(x)
        if isinstance(found, torch.Tensor):
            return found.contiguous()
        return tree_map_only(torch.Tensor, torch.Tensor.contiguous, found)

    of_flat.takes_integers = integers  # type: ignore[attr-defined]
    if len(shape) in (3, 4):
        of_flat.with_channels_last = with_channels_last  # type: ignore[attr-defined]
    return of_flat


def with_channels_last(f: Any) -> Any:
    """What `flattened` or `fitted` gave, with images in memory as ``(B, places, channels)``.

    None where slices are no images or volumes with channels, or lie as they are. Results lie
    in the order of their axes.
    """
    found = getattr(getattr(f, "__func__", None), "with_channels_last", None)
    return None if found is None else types.MethodType(found, f.__self__)
