"""Facts of a module before it runs: parts, dtype, device, mode, one slice."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_leaves, tree_map

from ...errors import InputError, TraceError
from ...functions import advice
from .. import owner
from .calls import script
from .calls.snapshot import HARMLESS_HOOKS
from .outputs import not_one_array


def parts(f: Any) -> Iterator[Any]:
    """Everything that a partial or bound method holds on to: functions, modules, arguments."""
    while f is not None:
        if isinstance(f, functools.partial):
            yield from (*f.args, *f.keywords.values())
            f = f.func
        else:
            yield f
            f = getattr(f, "__self__", None)


def modules(f: Any, args: tuple = (), kwargs: dict | None = None) -> list[nn.Module]:
    """All modules in `f` and its arguments, submodules included."""
    roots = [p for p in (*parts(f), *args, *(kwargs or {}).values()) if isinstance(p, nn.Module)]
    return list(dict.fromkeys(m for root in roots for m in root.modules()))


class Layer(NamedTuple):
    """A module of a network, as errors call it."""

    name: str
    module: nn.Module

    def __str__(self) -> str:
        return f"layer {self.name!r}, {self.module}," if self.name else f"{self.module}"


def layers(f: Any) -> dict[int, Layer]:
    """The modules that have weights, by the ids of these."""
    root = owner(f)
    named = root.named_modules() if isinstance(root, nn.Module) else ()
    return {id(t): Layer(name, m) for name, m in named for t in tensors_of(m)}


def tensors_of(m: nn.Module) -> list[torch.Tensor]:
    """The module's own parameters and buffers."""
    return [t for t in (*m._parameters.values(), *m._buffers.values()) if t is not None]


def parameter_dtype(f: Any, slice_dtype: str) -> torch.dtype:
    """The dtype that the model computes and returns in: that of its parameters.

    A model without parameters keeps a floating-point input's dtype; others become torch's default.
    One that looks up embeddings of its slices gets integers.
    """
    if getattr(f, "takes_integers", False):
        return torch.int64
    for m in modules(f):
        for t in tensors_of(m):
            if t.is_floating_point():
                return t.dtype
    dtype: Any = getattr(torch, slice_dtype, None)
    return dtype if dtype is not None and dtype.is_floating_point else torch.get_default_dtype()


def dtype_asked(f: Any, slice_dtype: str) -> Callable[[], torch.dtype]:
    """`parameter_dtype` for each slice of a loop, with the deciding parameter found once."""
    if not getattr(f, "takes_integers", False):
        for m in modules(f):
            own: Any
            for own in (m._parameters, m._buffers):
                for name, t in own.items():
                    if t is not None and t.is_floating_point():
                        return lambda own=own, name=name: own[name].dtype  # type: ignore[misc]

    def ask() -> torch.dtype:
        return parameter_dtype(f, slice_dtype)

    default, found = ask(), modules(f)
    if len(found) != 1 or getattr(torch, slice_dtype, None) is not default:
        return ask
    # a module with nothing in it: until it is given something while it runs
    weights, buffers, inner = found[0]._parameters, found[0]._buffers, found[0]._modules
    return lambda: ask() if weights or buffers or inner else default


def length_of_slices(f: Any) -> int | None:
    """The slice length, if the first layer with weights determines it."""
    for m in modules(f):
        if tensors_of(m):
            return m.in_features if isinstance(m, nn.Linear) else None
    return None


def check_mode(f: Any) -> None:
    """No engine, nor the loop, has one answer in training mode."""
    root = owner(f)
    if hasattr(root, "graph_module") and not isinstance(root, nn.Module):
        raise InputError("an ExportedProgram cannot be called: pass its module, program.module()")
    for name, m in root.named_modules() if isinstance(root, nn.Module) else ():
        if _is_by_mode(m) and getattr(m, "training", False):
            where = f"layer {name!r}, {m}," if name else f"{m}"
            raise InputError(
                f"{where} is in training mode, so its answer depends on chance or on the other "
                f"slices. Call .eval() on the model first."
            )


def _is_by_mode(m: nn.Module) -> bool:
    """Whether a layer differs in training mode: random, or dependent on other slices."""
    dropout = isinstance(m, _DropoutNd) and m.p > 0
    scripted = getattr(m, "original_name", "").startswith(("Dropout", "BatchNorm"))
    return dropout or scripted or isinstance(m, _BatchNorm)


def by_mode(f: Any) -> list[nn.Module]:
    """The layers of a model that give something else in training mode."""
    root = owner(f)
    return [m for m in root.modules() if _is_by_mode(m)] if isinstance(root, nn.Module) else []


def check(f: Any, args: tuple, kwargs: dict) -> None:
    """Refuse what tracing would get wrong."""
    check_mode(f)
    for m in modules(f, args, kwargs):
        written = script.why_not(m) if script.is_script(m) else None
        if written:
            raise TraceError(written)
        hooks = (*m._forward_pre_hooks.values(), *m._forward_hooks.values())
        for hook in hooks:
            kind = hook if isinstance(hook, types.FunctionType) else type(hook)
            if kind.__module__ not in HARMLESS_HOOKS:
                raise TraceError(
                    f"a forward hook is registered on {type(m).__name__}, so torch itself runs it "
                    "for every slice; remove the hook to run all slices at once"
                )
    if torch.nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
        raise TraceError("a global module hook is registered; torch itself runs every slice")


def device_of(f: Any) -> torch.device:
    """The device of the model's parameters."""
    for m in modules(f):
        for t in tensors_of(m):
            return t.device
    return torch.device("cpu")


SHAPE_ERRORS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, torch.jit.Error)
"""Exceptions of a forward for a wrong shape; exported programs assert theirs."""


def with_batch_of_one(f: Any) -> Callable[..., Any]:
    """`f` on a slice; on a batch of one where a slice alone is refused (see `lift`)."""

    def call(v: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return f(v, *args, **kwargs)
        except SHAPE_ERRORS as first:
            try:
                result = f(v[None], *args, **kwargs)
                if not all(isinstance(r, torch.Tensor) for r in tree_leaves(result)):
                    raise InputError(not_one_array(result))
                return tree_map(lambda r: r[0], result)
            except InputError:
                raise
            except SHAPE_ERRORS as second:
                # the one that came further tells more of what does not fit
                further = advice.layers_before(second) > advice.layers_before(first)
                raise (second if further else first) from None

    return call


def numpy_dtype(t: torch.Tensor) -> torch.Tensor:
    """bfloat16, which NumPy and CuPy do not have, becomes float32."""
    return t.float() if t.dtype == torch.bfloat16 else t
