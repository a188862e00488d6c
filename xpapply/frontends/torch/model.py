"""What is to be known of a module before it runs: its parts, dtype, device, mode, and one slice."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from ... import arrays, threads
from ...errors import InputError, TraceError, UnsupportedError
from .. import owner
from . import script
from .outputs import not_one_array, one_array
from .snapshot import HARMLESS_HOOKS


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
    """
    for m in modules(f):
        for t in tensors_of(m):
            if t.is_floating_point():
                return t.dtype
    dtype: Any = getattr(torch, slice_dtype, None)
    return dtype if dtype is not None and dtype.is_floating_point else torch.get_default_dtype()


def check_mode(f: Any) -> None:
    """No engine, nor the loop, has one answer in training mode."""
    root = owner(f)
    if hasattr(root, "graph_module") and not isinstance(root, nn.Module):
        raise InputError("an ExportedProgram cannot be called: pass its module, program.module()")
    for name, m in root.named_modules() if isinstance(root, nn.Module) else ():
        where = f"layer {name!r}, {m}," if name else f"{m}"
        dropout = isinstance(m, _DropoutNd) and m.p > 0
        scripted = getattr(m, "original_name", "").startswith(("Dropout", "BatchNorm"))
        chance = dropout or scripted or isinstance(m, _BatchNorm)
        if chance and getattr(m, "training", False):
            raise InputError(
                f"{where} is in training mode, so its answer depends on chance or on the other "
                f"slices. Call .eval() on the model first."
            )


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
    """Where the model's parameters are."""
    for m in modules(f):
        for t in tensors_of(m):
            return t.device
    return torch.device("cpu")


_SHAPE_ERRORS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, torch.jit.Error)
"""What a forward raises for a shape that it does not take: exported ones assert theirs."""


def with_batch_of_one(f: Any) -> Callable[..., Any]:
    """`f` on a slice; on a batch of one where a slice alone is refused (see `lift`)."""

    def call(v: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return f(v, *args, **kwargs)
        except _SHAPE_ERRORS as first:
            try:
                result = f(v[None], *args, **kwargs)
                several = isinstance(result, (tuple, list))
                parts = result if several else [result]
                if not all(isinstance(r, torch.Tensor) for r in parts):
                    raise InputError(not_one_array(result))
                return [r[0] for r in result] if several else result[0]
            except InputError:
                raise
            except _SHAPE_ERRORS:
                raise first from None

    return call


def slice_function(f: Any) -> Callable[..., Any]:
    """`f` for one slice of any library: NumPy slices become tensors and results arrays."""
    return _of_slice(f, one_array, list)


def several_of_slice(f: Any) -> Callable[..., Any]:
    """The same for several results: what forward returns, a list of them as a tuple."""
    return _of_slice(f, lambda x, any_object: tuple(x) if type(x) is list else x, tuple)


def _of_slice(f: Any, checked: Callable[..., Any], sequence: type) -> Callable[..., Any]:
    check_mode(f)
    inner = with_batch_of_one(f)
    device = device_of(f)

    @threads.forkable
    def call(v: Any, *args: Any, **kwargs: Any) -> Any:
        library = arrays.library(v)
        if library == "torch":
            dtype = parameter_dtype(f, str(v.dtype).partition(".")[2])
            return checked(inner(v.to(dtype), *args, **kwargs), any_object=False)
        if library == "cupy":
            import cupy

            dtype = parameter_dtype(f, v.dtype.name)
            tensor = torch.utils.dlpack.from_dlpack(v).to(device, dtype)
            with torch.no_grad():
                result = inner(tensor, *args, **kwargs)
            place = f"cuda:{v.device.id}"
            lent = lambda t: cupy.from_dlpack(numpy_dtype(t).to(place).detach())  # noqa: E731
            return _mapped(lent, checked(result, any_object=False), sequence)
        if library != "numpy":
            raise UnsupportedError(f"a torch module on {type(v).__name__} slices")
        v = np.asarray(v)
        if v.dtype.kind not in "fiub":
            raise InputError(f"slices of dtype {v.dtype}: networks take real numbers")
        dtype = parameter_dtype(f, v.dtype.name)
        native = np.array(v, dtype=v.dtype.newbyteorder("="))
        small = native.dtype.itemsize == 1
        if (native.dtype.kind == "u" and not small) or native.dtype.itemsize > 8:
            native = native.astype(np.float64)  # torch cannot compute with these, or has them not
        with torch.no_grad():
            result = inner(torch.from_numpy(native).to(device, dtype), *args, **kwargs)
        return _mapped(_to_numpy, checked(result, any_object=True), sequence)

    return call


def _mapped(function: Callable[[Any], Any], x: Any, sequence: type) -> Any:
    """What forward returned with a function of each tensor, all else as it is."""
    if isinstance(x, torch.Tensor):
        return function(x)
    if isinstance(x, dict):
        return {k: _mapped(function, y, sequence) for k, y in x.items()}
    if isinstance(x, (tuple, list)):
        parts = [_mapped(function, y, sequence) for y in x]
        named = sequence is tuple and hasattr(x, "_make")
        return x._make(parts) if named else sequence(parts)  # type: ignore[union-attr]
    return x


def _to_numpy(t: torch.Tensor) -> Any:
    return numpy_dtype(t).detach().cpu().numpy()


def numpy_dtype(t: torch.Tensor) -> torch.Tensor:
    """bfloat16, which NumPy and CuPy do not have, becomes float32."""
    return t.float() if t.dtype == torch.bfloat16 else t
