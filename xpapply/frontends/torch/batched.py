"""torch's own operations on all slices at once: for what is no graph, and for autograd."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ... import namespace
from ...errors import InputError, TraceError
from .model import check, modules, numpy_dtype, parameter_dtype, slice_function, with_batch_of_one
from .trial import untouched

VECTORIZED = "torch.vmap", "torch's own operations on all slices at once"
"""What plans call the way of `vectorized`, and what runs."""

_VMAP_SLICES = 1 << 16


def vectorized(
    f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, *, trusted: bool
) -> Callable[[Any, int], Any]:
    """`f` on all slices through torch.vmap: torch's own operations, differentiable.

    vmap keeps the meaning of one call per slice, refuses random numbers and
    branches on data, and records for autograd. A function that is not
    `trusted` is first compared with real calls on the first and the last slice.
    """
    check(f, args, kwargs)
    if namespace.library(arr) not in ("numpy", "torch"):
        raise TraceError(f"not for {type(arr).__name__}")
    # plans live in a weak memory of f: holding f itself would keep it there for ever
    alive = weakref.WeakMethod(f) if isinstance(f, types.MethodType) else weakref.ref(f)

    def one(v: torch.Tensor) -> torch.Tensor:
        function = alive()
        if function is None:
            raise InputError("the function that this plan was made for is gone: keep it alive")
        result = with_batch_of_one(function)(v, *args, **kwargs)
        return torch.stack(list(result)) if isinstance(result, (tuple, list)) else result

    def call(x: Any, a: int) -> Any:
        if not isinstance(x, torch.Tensor):
            with torch.no_grad():
                y = run(torch.from_numpy(np.array(x, dtype=x.dtype.newbyteorder("="))), a)
            return numpy_dtype(y).numpy()
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
