"""Slices as modules take them: as they are, flat, as an image of one channel, as integers."""

from __future__ import annotations

import itertools
import math
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.utils._pytree import tree_leaves, tree_map_only

from ....errors import TraceError
from ....functions.cache import remembered
from ....limits import LIMITS
from ... import FlatFunction
from ..calls.script import is_script
from ..calls.snapshot import untouched
from ..model import SHAPE_ERRORS, check, device_of, modules, parameter_dtype
from ..outputs import described
from ..results import Parts, Structure, are_close, stacked

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


def several(f: Any, shapes: tuple[tuple[int, ...], ...], dtype: str) -> FlatFunction:
    """The same for slices of several arrays, one after the other.

    Its results are all tensors in what it returns.

    Raises
    ------
    TraceError
        For what is not a module, or returns anything but tensors in tuples, lists and dicts.
    """
    check(f, (), {})
    own, flat = _own_method(f), None
    if len(shapes) == 1:
        flat = as_taken(f, shapes[0], dtype) or _flat(f, shapes[0])
    elif own is not None:
        flat = _placed(own, shapes, (0,) * len(shapes))
    if flat is None:
        raise TraceError(f"a {type(f).__name__} takes slices of one array, to one result")
    length = sum(map(math.prod, shapes))
    if own is not None and not getattr(flat, "takes_integers", False):
        flat = _with_batches(flat, own, shapes, dtype)
    zeros = torch.zeros(length, dtype=parameter_dtype(flat, dtype), device=device_of(f))
    with torch.no_grad(), untouched(modules(f)):
        alone = _found(flat, zeros)
        found = _found(flat, zeros[None]) if alone is None else alone
        if found is None:
            raise TraceError("forward takes neither such a slice nor a batch of them")
        structure = Structure(found)
        if not structure.known:
            raise TraceError(f"forward returns {described(found)[0]}")
        at = (0,) * len(structure.parts(found))
        if alone is not None:
            at = _batch_axes(flat, zeros, structure, structure.parts(found))
        results = Structure(stacked(found if alone is not None else _first(found, structure), 0))
    function = _of_several(flat.__func__, structure, at, results, alone is not None)
    return FlatFunction(types.MethodType(function, flat.__self__), structure=results)


def _placed(own: tuple[nn.Module, str], shapes: tuple, places: tuple[int, ...]) -> Any:
    return types.MethodType(_of_parts(shapes, own[1], places), own[0])


def _with_batches(flat: Any, own: tuple[nn.Module, str], shapes: tuple, dtype: str) -> Any:
    """The same with the batch axis second, where the module takes it there.

    Recurrent and attention layers do by default, and LSTMs of their states always.
    """
    options = [(0, 1) if len(shape) > 1 else (0,) for shape in shapes]
    every = [
        flat,
        *(
            _placed(own, shapes, p)
            for p in itertools.islice(itertools.product(*options), 1, LIMITS.flat_places)
        ),
    ]
    if len(every) == 1:
        return flat
    length = sum(map(math.prod, shapes))
    kind: Any = {"dtype": parameter_dtype(flat, dtype), "device": device_of(flat)}
    with torch.no_grad(), untouched(modules(flat)):
        alone = _found(flat, torch.zeros(length, **kind))
        if alone is None or not Structure(alone).known:
            return flat
        structure = Structure(alone)
        shown = structure.parts(alone)
        n = next(n for n in itertools.count(2) if not any(n in t.shape for t in shown))
        x = torch.sin(torch.arange(1, n * length + 1, **kind)).reshape(n, length)
        try:
            want = structure.parts(flat(x[-1]))
        except Exception:  # it takes other numbers only: the slices will show
            return flat
        for one in every:
            try:
                many = structure.parts(one(x))
            except Exception:
                continue
            last = [t.movedim(t.shape.index(n), 0)[-1] for t in many if n in t.shape]
            if len(last) == len(want) and all(map(_same, last, want)):
                return one
    return flat


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and are_close(a, b)


def _first(found: Any, structure: Structure) -> Any:
    """The result of a slice from a batch of one."""
    return structure.filled([t[0] for t in structure.parts(found)])


def _found(f: Any, x: torch.Tensor) -> Any:
    """The result of `f`; None where it does not take `x`."""
    try:
        return f(x)
    except SHAPE_ERRORS:
        return None


def _batch_axes(f: Any, zeros: torch.Tensor, structure: Structure, alone: Parts) -> tuple[int, ...]:
    """The slice axis of each result of a batch: states of an LSTM have it after the layers."""
    n = next(n for n in itertools.count(2) if not any(n in t.shape for t in alone))
    found = _found(f, zeros.repeat(n, 1))
    try:
        many = structure.parts(found)
    except TraceError:
        return (0,) * len(alone)  # it takes no batch
    each = zip(many, alone, strict=True)
    return tuple(t.shape.index(n) if t.ndim == one.ndim + 1 and n in t.shape else 0
                 for t, one in each)  # fmt: skip


@remembered(256)
def _of_several(
    flat: Callable[..., Any],
    structure: Structure,
    at: tuple[int, ...],
    results: Structure,
    alone: bool,
) -> Callable[..., Any]:
    """`flat` for one or many slices, whatever it returns: one thing of the structure `results`.

    `at`: the axis of the batch in each tensor of `structure`; `alone`: a slice alone is taken.
    """

    def of_several(module: nn.Module, v: torch.Tensor) -> Any:
        if v.ndim == 1:
            return stacked(
                flat(module, v) if alone else _first(flat(module, v[None]), structure), 0
            )
        found = flat(module, v)
        if any(at):
            moved = zip(structure.parts(found), at, strict=True)
            found = structure.filled([t.movedim(k, 0) if k else t for t, k in moved])
        return stacked(found, 1)

    of_several.takes_integers = getattr(flat, "takes_integers", False)  # type: ignore[attr-defined]
    of_several.structure = results  # type: ignore[attr-defined]
    return of_several


def structure_of(f: Any) -> Structure | None:
    """The structure found by `several`; None for one tensor."""
    found: Structure | None = getattr(getattr(f, "__func__", None), "structure", None)
    return found


def _result(f: Any, x: torch.Tensor) -> tuple[int, ...] | None:
    """The shape of the first tensor that `f` returns; None where it does not take `x`."""
    found = _found(f, x)
    if found is None:
        return None
    return next((tuple(y.shape) for y in tree_leaves(found) if isinstance(y, torch.Tensor)), ())


def _flat(f: Any, shape: tuple[int, ...], *, integers: bool = False) -> Any:
    """A module, or a method of its class, as a function of flat slices; None for others."""
    own = _own_method(f)
    if own is None:
        return None
    # as a method it is served, watched and remembered as the module is, and keeps nothing alive
    return types.MethodType(_of_flat(shape, own[1], integers), own[0])


def _own_method(f: Any) -> tuple[nn.Module, str] | None:
    """A module, and the name of the method of its class that `f` is; None for others."""
    module: Any = f.__self__ if isinstance(f, types.MethodType) else f
    name = "__call__" if module is f else f.__name__
    its_own = isinstance(module, nn.Module) and callable(getattr(type(module), name, None))
    if not its_own or (module is not f and getattr(module, name) != f):
        return None
    return module, name


@remembered(256)
def _of_parts(
    shapes: tuple[tuple[int, ...], ...], name: str, places: tuple[int, ...]
) -> Callable[..., Any]:
    # `places`: where each part has the axis of batches
    lengths = [*map(math.prod, shapes)]

    def of_parts(module: nn.Module, v: torch.Tensor) -> Any:
        parts = zip(torch.split(v, lengths, -1), shapes, strict=True)
        whole = (p.reshape((*v.shape[:-1], *s)) for p, s in parts)
        if v.ndim > 1:
            # cuDNN takes no states that lie in another order
            each = zip(whole, places, strict=True)
            whole = ((p.movedim(0, k) if k else p).contiguous() for p, k in each)
        return getattr(module, name)(*whole)

    return of_parts


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
    """The function with images in memory as ``(B, places, channels)``.

    None where slices are no images or volumes with channels, or lie as they are. Results lie
    in the order of their axes.
    """
    found = getattr(getattr(f, "__func__", None), "with_channels_last", None)
    return None if found is None else types.MethodType(found, f.__self__)
