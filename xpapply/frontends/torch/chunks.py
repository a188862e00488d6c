"""Arrays of any library as chunks of torch's rows, and torch's results as arrays again.

NumPy's and CuPy's arrays are seen where they are: only what torch cannot see, or what a module
writes to, is copied, a chunk at a time. CuPy's work goes on in its own current stream.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from ... import config, namespace, streams, threads
from ...blocks import MemoryOrder, boxes
from ...errors import TraceError
from ...ir.graph import ShapeDtype
from .. import AllAtOnce
from .batched import BATCH, VMAP, Batches
from .model import check, modules, numpy_dtype, parameter_dtype, tensors_of

VECTORIZED = (BATCH, VMAP)
"""What plans call the ways of `vectorized`."""

_SAMPLES = 4
"""Slices to find the way by."""
_WORTH_GIVING = 1 << 20
"""Bytes of a result from which torch's own memory is given away, not copied."""


def vectorized(
    f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, *, trusted: bool
) -> AllAtOnce:
    """`f` on all slices by torch's own operations: in batches, or by torch.vmap.

    Both are differentiable, and are compared with real calls on a few slices first. A function
    that is `trusted` runs by torch.vmap as it is.
    """
    check(f, args, kwargs)
    if namespace.library(arr) not in ("numpy", "torch", "cupy"):
        raise TraceError(f"not for {type(arr).__name__}")
    batches = Batches(f, args, kwargs)
    run = _Chunks(batches, arr, axis)
    forced = config.current().engine
    if not trusted or forced == BATCH:
        with run.on_its_device(arr), torch.no_grad():
            batches.prove(run.samples(arr, axis), forced if forced in VECTORIZED else "")
    result = None
    if batches.result is not None:
        shape, dtype = batches.result
        known = dtype if run.library == "torch" else numpy_dtype(torch.empty(0, dtype=dtype)).dtype
        result = ShapeDtype(shape, str(known).partition(".")[2])
    return AllAtOnce(batches.way, (run.what(arr, axis),), run, result)


class _Chunks:
    """`Batches` for the slices of an array: ``run(arr, axis)``, the axis not negative."""

    def __init__(self, batches: Batches, arr: Any, axis: int) -> None:
        self._batches = batches
        self.library = str(namespace.library(arr))
        f = batches.function
        tensors = [t for m in modules(f) for t in tensors_of(m)]
        own, here = next(iter(tensors), None), _place(arr)
        self._records = any(t.requires_grad for t in tensors)
        # tensors are never brought elsewhere: the loop does not do it either
        self._device = here if own is None or self.library == "torch" else own.device
        self._dtype = parameter_dtype(f, namespace.dtype_name(arr))

    # --- in -------------------------------------------------------------------------------

    def on_its_device(self, arr: Any) -> AbstractContextManager[Any]:
        """The device, and the stream, that the array's library works on."""
        return streams.of_cupy(arr.device.id) if self.library == "cupy" else nullcontext()

    def _rows(self, block: Any, at: int) -> torch.Tensor:
        """A part of the array as rows that torch can work with."""
        x = _tensor(block)
        rows = x.movedim(at, -1).reshape(-1, x.shape[at])
        made = rows.to(self._device, self._dtype)
        if self._batches.writes and _shares(made, x):
            return made.clone()
        return made

    def samples(self, arr: Any, axis: int) -> torch.Tensor:
        """A few slices, far apart."""
        view = namespace.permute(arr, (*(a for a in range(arr.ndim) if a != axis), axis))
        batch = view.shape[:-1]
        n = math.prod(batch)
        places = sorted({k * (n - 1) // (_SAMPLES - 1) for k in range(_SAMPLES)})
        found = [view[tuple(int(i) for i in np.unravel_index(k, batch))] for k in places]
        with torch.no_grad():
            return torch.stack([self._rows(v, 0)[0] for v in found])

    # --- running --------------------------------------------------------------------------

    @threads.forkable  # copies of large blocks take torch's threads too
    def __call__(self, arr: Any, axis: int) -> Any:
        """All slices of `arr`; the axes of a result stand where `axis` was."""
        if isinstance(arr, torch.Tensor):
            return self._run(arr, axis)
        with self.on_its_device(arr), torch.no_grad():
            y = _array(self._run(arr, axis), self.library)
        if isinstance(arr, np.ndarray) and type(arr) is not np.ndarray:
            return arr.__array_wrap__(y, None, False)  # what NumPy's own loop does
        return y

    def _run(self, arr: Any, axis: int) -> torch.Tensor:
        order = MemoryOrder.of(namespace.strides(arr), arr.ndim, axis)
        x, at = namespace.permute(arr, order.axes), order.at
        batch = x.shape[:at] + x.shape[at + 1 :]
        n = math.prod(batch)
        size = self._size(arr, axis, n)
        pieces = list(boxes(x.shape, at, size)) if size < n else [(slice(None),) * x.ndim]
        out: torch.Tensor | None = None
        recorded: list[torch.Tensor] = []
        for piece in pieces:
            block = x[piece]
            rows = self._rows(block, at)
            y = self._batches(rows)
            if self.library != "torch":
                y = numpy_dtype(y)
            if y.requires_grad:
                recorded.append(y)
                continue
            shaped = (*block.shape[:at], *block.shape[at + 1 :], *y.shape[1:])
            if len(pieces) == 1 and _may_be_given(y, rows):
                out = y.reshape(shaped).to(_place(arr))
                continue
            if out is None:
                out = torch.empty((*batch, *y.shape[1:]), dtype=y.dtype, device=_place(arr))
            out[(*piece[:at], *piece[at + 1 :])].copy_(y.reshape(shaped))
        if recorded:  # boxes are in C order
            out = recorded[0] if len(recorded) == 1 else torch.cat(recorded)
            out = out.reshape(*batch, *out.shape[1:])
        assert out is not None
        inner = [a for a in order.axes if a != axis]
        where = {a: k for k, a in enumerate(inner)}
        behind = range(axis + 1, arr.ndim)
        result = range(len(inner), out.ndim)
        return out.permute(*(where[a] for a in range(axis)), *result, *(where[a] for a in behind))

    def _size(self, arr: Any, axis: int, n: int) -> int:
        """Slices of a chunk."""
        if isinstance(arr, torch.Tensor) and torch.is_grad_enabled():
            if self._records or arr.requires_grad:
                return n  # autograd keeps everything anyway
        if not self._batches.bytes_per_slice:
            self._batches.measure(self.samples(arr, axis))
        return self._batches.rows(self._device)

    def what(self, arr: Any, axis: int) -> str:
        """What runs, in words."""
        n = math.prod(arr.shape) // max(1, arr.shape[axis])
        size = self._batches.rows(self._device) if self._batches.bytes_per_slice else n
        some = "all slices at once" if size >= n else f"chunks of {size:,} slices"
        batch = self._batches.way == BATCH
        text = f"the module itself on {some}" if batch else f"torch's own operations on {some}"
        if self._device != _place(arr):
            return f"{text}, copied to {self._device} and back"
        if self.library == "torch":
            return text
        name = {"cupy": "CuPy", "numpy": "NumPy"}[self.library]
        return f"{text}, on zero-copy views of the {name} array"


def _shares(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def _may_be_given(y: torch.Tensor, rows: torch.Tensor) -> bool:
    """Whether a result has memory of its own, and enough of it to save a copy."""
    own = y.untyped_storage().nbytes() == y.numel() * y.element_size() >= _WORTH_GIVING
    return own and not _shares(y, rows)


# --- libraries --------------------------------------------------------------------------


def _place(arr: Any) -> torch.device:
    """Where an array is, as torch calls it."""
    if isinstance(arr, torch.Tensor):
        return arr.device
    if namespace.library(arr) == "cupy":
        return torch.device("cuda", arr.device.id)
    return torch.device("cpu")


def _tensor(block: Any) -> torch.Tensor:
    """An array as a tensor, on the same memory wherever torch can see it."""
    if isinstance(block, torch.Tensor):
        return block
    if (block.dtype.kind == "u" and block.dtype.itemsize > 1) or block.dtype.itemsize > 8:
        block = block.astype(np.float64)  # torch cannot compute with these, or has them not
    if namespace.library(block) == "cupy":
        if any(s < 0 for s in block.strides):
            block = block.copy()
        return torch.as_tensor(block, device=_place(block))
    block = np.asarray(block)
    seen = block.flags.writeable and block.dtype.isnative and block.flags.aligned
    if not seen or any(s < 0 or s % block.itemsize for s in block.strides):
        block = np.array(block, dtype=block.dtype.newbyteorder("="))
    return torch.from_numpy(block)


def _array(y: torch.Tensor, library: str) -> Any:
    """A result as an array of the library, on the same memory."""
    if library == "numpy":
        return y.detach().numpy()
    import cupy

    return cupy.asarray(y.detach())
