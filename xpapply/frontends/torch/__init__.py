"""torch modules: run once on a stand-in tensor that writes down what happens to it.

The module's own ``forward`` runs with a stand-in for the slice, whose shape is
known. So loops over layers, nested modules, shape ``if``s, parametrizations
and buffers need no special care: torch and Python do them as always, and only
what touches the slice becomes a node. (torch.fx does not see through shape
``if``s, and torch.export costs seconds.)
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from ... import namespace
from ...errors import InputError, TraceError, UnsupportedError
from ...ir.graph import Builder, Graph, ShapeDtype
from ...ir.rewrite import without_batch_of_one
from .. import owner
from .standin import Recorder, StandIn
from .trial import HARMLESS_HOOKS, untouched
from .watch import Watch

VECTORIZED = "torch.vmap", "torch's own operations on all slices at once"
"""What plans call the way of `vectorized`, and what runs."""


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


def _tensors(m: nn.Module) -> list[torch.Tensor]:
    """The module's own parameters and buffers."""
    return [t for t in (*m._parameters.values(), *m._buffers.values()) if t is not None]


def parameter_dtype(f: Any, slice_dtype: str) -> torch.dtype:
    """The dtype that the model computes and returns in: that of its parameters.

    A model without parameters keeps a floating-point input's dtype; others become torch's default.
    """
    for m in modules(f):
        for t in _tensors(m):
            if t.is_floating_point():
                return t.dtype
    dtype: Any = getattr(torch, slice_dtype, None)
    return dtype if dtype is not None and dtype.is_floating_point else torch.get_default_dtype()


def _check_mode(f: Any) -> None:
    """No engine, nor the loop, has one answer in training mode."""
    root = owner(f)
    for name, m in root.named_modules() if isinstance(root, nn.Module) else ():
        where = f"layer {name!r}, {m}," if name else f"{m}"
        dropout = isinstance(m, _DropoutNd) and m.p > 0
        if m.training and (dropout or isinstance(m, _BatchNorm)):
            raise InputError(
                f"{where} is in training mode, so its answer depends on chance or on the other "
                f"slices. Call .eval() on the model first."
            )


_CLASS_QUESTIONS = frozenset(("isinstance", "is_tensor", "type"))


def _check(f: Any, args: tuple, kwargs: dict) -> None:
    """Refuse what tracing would get wrong."""
    _check_mode(f)
    for m in modules(f, args, kwargs):
        hooks = (*m._forward_pre_hooks.values(), *m._forward_hooks.values())
        for hook in hooks:
            if type(hook).__module__ not in HARMLESS_HOOKS:
                raise TraceError(
                    f"a forward hook is registered on {type(m).__name__}, so torch itself runs it "
                    "for every slice; remove the hook to run all slices at once"
                )
    if torch.nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
        raise TraceError("a global module hook is registered; torch itself runs every slice")


def _check_classes(f: Any, args: tuple, kwargs: dict) -> None:
    """Refuse a forward that asks for the class of a value."""
    for m in modules(f, args, kwargs):
        # the stand-in is no tensor by class: torch's C code would take it for one
        code = getattr(type(m).forward, "__code__", None)
        own = not type(m).__module__.startswith("torch.nn.")
        asked = _CLASS_QUESTIONS & set(code.co_names) if code is not None and own else ()
        if code is not None and own and "print" in code.co_names:
            raise TraceError(f"forward of {type(m).__name__} prints")
        if asked:
            raise TraceError(f"forward of {type(m).__name__} asks {min(asked)}() of its values")


def watch(f: Any, args: tuple, kwargs: dict, sources: tuple = ()) -> Callable[[], bool]:
    """Notice changes of weights (also in place), structure, mode, hooks and attributes.

    `sources` are the tensors that the graph's constants were made from, wherever
    they were found: in lists, in globals, in modules that are not registered.
    """
    everything = modules(f, args, kwargs)
    tensors = {id(t): t for m in everything for t in _tensors(m)}
    others = [*parts(f), *args, *kwargs.values(), *sources]
    for m in everything:
        others += m.__dict__.values()
    tensors |= {id(t): t for t in others if isinstance(t, torch.Tensor)}
    held: list[Any] = []
    inner = f
    while isinstance(inner, functools.partial):
        held += [inner.keywords, *inner.args]
        inner = inner.func
    return Watch(everything, list(tensors.values()), held)


def lift(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph of ``f(slice, *args, **kwargs)``.

    `f` gets the slice as it is, shape (M,). If that fails it gets a batch of
    one, shape (1, M), and the leading axis is taken off the result: networks
    are often written for batches (``torch.cat(..., dim=1)``, BatchNorm1d).
    """
    _check(f, args, kwargs)
    _check_classes(f, args, kwargs)
    if not aval.dtype.startswith(("float", "int", "uint", "bool", "bfloat")):
        raise InputError(f"slices of dtype {aval.dtype}: networks take real numbers")
    refusals: list[Exception] = []
    for batched in (False, True):
        if batched and _takes_a_slice(f, aval, args, kwargs):
            raise refusals[0]  # a batch of one might mean something else
        try:
            return _lift_surely(f, aval, args, kwargs, batched=batched)
        except (InputError, TraceError) as error:
            refusals.append(error)
        except Exception as error:  # forward itself does not take this shape
            refusals.append(TraceError(f"forward raises {type(error).__name__}: {error}"))
            refusals[-1].__cause__ = error
    alone, batch_of_one = refusals
    if isinstance(batch_of_one, InputError):
        # only a batch could have fitted, or neither did
        raise alone if isinstance(alone, InputError) else batch_of_one
    raise TraceError(f"{alone}; as a batch of one: {batch_of_one}") from alone


def lift_function(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph of a Python function of a tensor; it is known to change nothing outside."""
    if not aval.dtype.startswith(("float", "bfloat")):
        raise TraceError(f"slices of dtype {aval.dtype}")
    try:
        return _lift_surely(f, aval, args, kwargs, batched=False)
    except (InputError, TraceError):
        raise
    except Exception as error:
        raise TraceError(f"it raises {type(error).__name__}: {error}") from error


def _takes_a_slice(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> bool:
    """Whether torch itself takes a slice as it is."""
    zeros = torch.zeros(aval.shape, dtype=parameter_dtype(f, aval.dtype), device=_device(f))
    try:
        with untouched(modules(f, args, kwargs)):
            f(zeros, *args, **kwargs)
    except Exception:
        return False
    return True


def _lift_surely(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict, *, batched: bool) -> Graph:
    """Lift twice: what differs between two runs (random draws, counters) is no graph."""
    with untouched(modules(f, args, kwargs)):
        once = _lift_once(f, aval, args, kwargs, batched=batched)
        again = _lift_once(f, aval, args, kwargs, batched=batched)
    same = once == again and all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(once.consts, again.consts, strict=True)
    )
    if not same:
        raise TraceError("two runs of forward differ: it draws random numbers or counts its calls")
    return once


def _lift_once(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict, *, batched: bool) -> Graph:
    recorder = Recorder(Builder())
    x = recorder.builder.input(aval)
    dtype = parameter_dtype(f, aval.dtype)
    x = recorder.cast(x, dtype)
    if batched:
        x = recorder.builder.op("reshape", x, shape=(1, *x.shape))
    result = f(StandIn(recorder, x, dtype, _device(f)), *args, **kwargs)
    several = isinstance(result, (tuple, list))
    if batched and several:
        result = [r[0] for r in result]
    out, dtype = recorder.result(result)
    if batched and not several:
        if not out.shape or out.shape[0] != 1:
            raise TraceError(f"a batch of one slice gives shape {out.shape}, not (1, ...)")
        out = recorder.builder.op("reshape", out, shape=out.shape[1:])
    graph = recorder.builder.graph(recorder.round(out, dtype))
    graph = without_batch_of_one(graph) if batched else graph
    return replace(graph, sources=tuple(recorder.sources))


def _device(f: Any) -> torch.device:
    for m in modules(f):
        for t in _tensors(m):
            return t.device
    return torch.device("cpu")


def _with_batch_of_one(f: Any) -> Callable[..., Any]:
    """`f` on a slice; on a batch of one where a slice alone is refused (see `lift`)."""

    def call(v: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return f(v, *args, **kwargs)
        except (RuntimeError, ValueError, IndexError, TypeError) as first:
            try:
                result = f(v[None], *args, **kwargs)
                several = isinstance(result, (tuple, list))
                return [r[0] for r in result] if several else result[0]
            except (RuntimeError, ValueError, IndexError, TypeError):
                raise first from None

    return call


def slice_function(f: Any) -> Callable[..., Any]:
    """`f` for one slice of any library: NumPy slices become tensors and results arrays."""
    _check_mode(f)
    inner = _with_batch_of_one(f)
    device = _device(f)

    def call(v: Any, *args: Any, **kwargs: Any) -> Any:
        library = namespace.library(v)
        if library == "torch":
            return inner(v.to(parameter_dtype(f, str(v.dtype).partition(".")[2])), *args, **kwargs)
        if library == "cupy":
            import cupy

            dtype = parameter_dtype(f, v.dtype.name)
            tensor = torch.utils.dlpack.from_dlpack(v).to(device, dtype)
            with torch.no_grad():
                result = inner(tensor, *args, **kwargs)
            return cupy.from_dlpack(_numpy_dtype(result).to(f"cuda:{v.device.id}").detach())
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
        return _to_numpy(result)

    return call


def _to_numpy(x: Any) -> Any:
    """What forward returned, for NumPy's loop: tensors as arrays, all else as it is."""
    if isinstance(x, (tuple, list)):
        return [_to_numpy(y) for y in x]
    return _numpy_dtype(x).detach().cpu().numpy() if isinstance(x, torch.Tensor) else x


def _numpy_dtype(t: torch.Tensor) -> torch.Tensor:
    """bfloat16, which NumPy and CuPy do not have, becomes float32."""
    return t.float() if t.dtype == torch.bfloat16 else t


def differentiable(f: Any, arr: Any, args: tuple, kwargs: dict) -> bool:
    """Whether autograd records the call: a tensor, or a parameter, requires grad."""
    if not isinstance(arr, torch.Tensor) or not torch.is_grad_enabled():
        return False
    tensors = [t for m in modules(f, args, kwargs) for t in _tensors(m)]
    others = [t for t in (*parts(f), *args, *kwargs.values()) if isinstance(t, torch.Tensor)]
    return any(t.requires_grad for t in (arr, *tensors, *others))


_VMAP_SLICES = 1 << 16


def vectorized(
    f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, *, trusted: bool
) -> Callable[[Any, int], Any]:
    """`f` on all slices through torch.vmap: torch's own operations, differentiable.

    vmap keeps the meaning of one call per slice, refuses random numbers and
    branches on data, and records for autograd. A function that is not
    `trusted` is first compared with real calls on the first and the last slice.
    """
    _check(f, args, kwargs)
    if namespace.library(arr) not in ("numpy", "torch"):
        raise TraceError(f"not for {type(arr).__name__}")
    # plans live in a weak memory of f: holding f itself would keep it there for ever
    alive = weakref.WeakMethod(f) if isinstance(f, types.MethodType) else weakref.ref(f)

    def one(v: torch.Tensor) -> torch.Tensor:
        function = alive()
        if function is None:
            raise InputError("the function that this plan was made for is gone: keep it alive")
        result = _with_batch_of_one(function)(v, *args, **kwargs)
        return torch.stack(list(result)) if isinstance(result, (tuple, list)) else result

    def call(x: Any, a: int) -> Any:
        if not isinstance(x, torch.Tensor):
            with torch.no_grad():
                y = run(torch.from_numpy(np.array(x, dtype=x.dtype.newbyteorder("="))), a)
            return _numpy_dtype(y).numpy()
        return run(x, a)

    def run(x: torch.Tensor, a: int) -> torch.Tensor:
        dtype = parameter_dtype(alive(), str(x.dtype).partition(".")[2])
        batch = x.shape[:a] + x.shape[a + 1 :]
        rows = x.movedim(a, -1).reshape(-1, x.shape[a])
        rows = rows.to(dtype, copy=True)  # forward may write into its input
        # autograd keeps everything anyway; else the memory is that of one chunk
        size = None if torch.is_grad_enabled() and x.requires_grad else _VMAP_SLICES
        y = torch.vmap(one, chunk_size=size)(rows)
        y = y.reshape(*batch, *y.shape[1:])
        n = len(batch)
        return y.permute(*range(a), *range(n, y.ndim), *range(a, n))

    if not trusted:
        _compare_ends(f, args, kwargs, arr, axis, call)
    return call


def _compare_ends(
    f: Any, args: tuple, kwargs: dict, arr: Any, axis: int, call: Callable[[Any, int], Any]
) -> None:
    """Run the first and the last slice both ways; raise where they differ or write something."""
    moved = np.moveaxis(arr, axis, -1) if isinstance(arr, np.ndarray) else arr.movedim(axis, -1)
    rows = [moved[(index,) * (moved.ndim - 1)] for index in (0, -1)]
    if isinstance(arr, np.ndarray):
        ends: Any = np.stack(rows)
    else:
        ends = torch.stack(rows)
    try:
        with untouched(modules(f, args, kwargs)):
            got = call(ends, 1)
            each = slice_function(f)
            want = [each(row, *args, **kwargs) for row in ends]
    except TraceError:
        raise
    except Exception as error:
        raise TraceError(f"{type(error).__name__}: {str(error).splitlines()[0]}") from None
    tolerance = torch.finfo(parameter_dtype(f, "float32")).eps ** 0.5
    for g, w in zip(got, want, strict=True):
        g, w = torch.as_tensor(g), torch.as_tensor(np.asarray(w) if isinstance(w, list) else w)
        close = g.shape == w.shape and torch.allclose(
            g.double(), w.double(), rtol=tolerance, atol=tolerance, equal_nan=True
        )
        if not close:
            raise TraceError("all slices at once and one slice alone give different results")
