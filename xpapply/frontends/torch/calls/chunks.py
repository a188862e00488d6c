"""Arrays of any library as chunks of torch's rows, and torch's results as arrays again.

NumPy's and CuPy's arrays are seen where they are: only what torch cannot see, or what a module
writes to, is copied, a chunk at a time. CuPy's work goes on in its own current stream.
"""

from __future__ import annotations

import copy
import math
import time
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from .... import arrays, config
from ....arrays import streams
from ....arrays.layout import MemoryOrder, boxes
from ....errors import TraceError
from ....ir.graph import Graph, ShapeDtype
from ....limits import LIMITS
from ....runtime import threads
from ....runtime.error_state import let_pass
from ... import AllAtOnce
from ..guards import watch
from ..lift.flattened import structure_of
from ..model import check, modules, numpy_dtype, parameter_dtype, tensors_of
from ..pure import is_pure
from ..results import Parts
from . import BATCH, WAYS
from .batched import Batches, Structured, out_of_memory
from .chunk_sizes import ChunkSize
from .repeated import RepeatedModule, may_be_given, shares


def vectorized(
    f: Any,
    axis: int,
    arr: Any,
    args: tuple,
    kwargs: dict,
    *,
    trusted: bool = False,
    graph: Graph | None = None,
) -> AllAtOnce:
    """`f` on all slices by torch's own operations: in batches, or by torch.vmap.

    Both are differentiable, and are compared with real calls on a few slices first. A function
    that is `trusted` runs by torch.vmap as it is; of one that has a `graph` its tensors show all
    that it does.
    """
    check(f, args, kwargs)
    if arrays.library(arr) not in ("numpy", "torch", "cupy"):
        raise TraceError(f"torch itself cannot run on arrays of {arrays.library(arr)}")
    pure = graph is not None or all(map(is_pure, modules(f)))
    if arrays.library(arr) == "cupy" and not (args or kwargs):
        copied = _copied(f, _place(arr))
        if copied is not None:
            try:
                return _vectorized(copied, axis, arr, (), {}, trusted, pure, copied)
            except TraceError:  # forward is written for one device
                pass
    sources = () if graph is None else graph.sources
    try:
        found = _vectorized(f, axis, arr, args, kwargs, trusted, pure, None)
    except TraceError as error:
        unchanged = watch(f, args, kwargs, sources, numbers=False)
        error.unchanged = lambda f: unchanged()
        raise
    return found._replace(unchanged=watch(f, args, kwargs, sources, numbers=False))


def _vectorized(
    f: Any, axis: int, arr: Any, args: tuple, kwargs: dict, trusted: bool, pure: bool, copied: Any
) -> AllAtOnce:
    """The run; `copied`: `f` itself, if it was made for this plan alone."""
    structure = structure_of(f)
    batches = Batches(f, args, kwargs) if structure is None else Structured(f, structure)
    run = _Chunks(batches, arr, axis, pure, copied)
    forced = config.current().engine
    if not trusted or forced == BATCH:
        with run.on_its_device(arr), torch.no_grad():
            batches.prove(run.samples(arr, axis), forced if forced in WAYS else "")
    result = None
    if batches.result is not None:
        shape, dtype = batches.result
        known = dtype if run.library == "torch" else numpy_dtype(torch.empty(0, dtype=dtype)).dtype
        result = ShapeDtype(shape, str(known).partition(".")[2])
    return AllAtOnce(batches.way, (run.what(arr, axis),), run, result)


def half_dtype(f: Any, arr: Any, args: tuple, kwargs: dict) -> str:
    """The 16-bit dtype of all floating-point parameters and buffers, if they are where `arr` is."""
    tensors = [t for m in modules(f, args, kwargs) for t in tensors_of(m)]
    kinds = {t.dtype for t in tensors if t.is_floating_point()}
    if len(kinds) != 1 or not kinds <= {torch.float16, torch.bfloat16}:
        return ""
    place = _place(arr)
    here = all(t.device == place for t in tensors)
    return str(kinds.pop()).partition(".")[2] if here else ""


def _copied(f: Any, device: torch.device) -> Any:
    """A module on the host, or a method of one, on a device; None for others."""
    module = getattr(f, "__self__", f)
    if not isinstance(module, torch.nn.Module):
        return None
    tensors = [t for m in module.modules() for t in tensors_of(m)]
    if not tensors or any(t.device.type != "cpu" for t in tensors):
        return None
    try:
        there = copy.deepcopy(module).to(device)
    except Exception as error:  # not every module can be copied
        let_pass(error)
        return None
    return there if module is f else types.MethodType(f.__func__, there)


class _Chunks:
    """`Batches` for the slices of an array: ``run(arr, axis)``, the axis not negative."""

    def __init__(self, batches: Batches, arr: Any, axis: int, pure: bool, copied: Any) -> None:
        self._batches, self._pure = batches, pure
        self._copied = copied  # which nothing else keeps alive
        self._sizes: ChunkSize | None = None
        self._several = isinstance(batches, Structured)
        self.library = str(arrays.library(arr))
        f = batches.function
        tensors = [t for m in modules(f) for t in tensors_of(m)]
        own, here = next(iter(tensors), None), _place(arr)
        self._records = any(t.requires_grad for t in tensors)
        # tensors are never brought elsewhere: the loop does not do it either
        self._device = here if own is None or self.library == "torch" else own.device
        self._dtype = parameter_dtype(f, arrays.dtype_name(arr))

    # --- in -------------------------------------------------------------------------------

    def on_its_device(self, arr: Any) -> AbstractContextManager[Any]:
        """The device, and the stream, that the array's library works on."""
        return streams.of_cupy(arr.device.id) if self.library == "cupy" else nullcontext()

    def _rows(self, block: Any, at: int) -> torch.Tensor:
        """A part of the array as rows that torch can work with."""
        x = made = _tensor(block)
        if at != x.ndim - 1:
            made = made.movedim(at, -1)
        if x.ndim != 2:
            made = made.reshape(-1, x.shape[at])
        made = made.to(self._device, self._dtype)
        if self._batches.writes and shares(made, x):
            return made.clone()
        return made

    def samples(self, arr: Any, axis: int) -> torch.Tensor:
        """A few slices, far apart."""
        view = arrays.permute(arr, (*(a for a in range(arr.ndim) if a != axis), axis))
        batch = view.shape[:-1]
        n = math.prod(batch)
        places = sorted(
            {k * (n - 1) // (LIMITS.chunk_samples - 1) for k in range(LIMITS.chunk_samples)}
        )
        found = [view[tuple(int(i) for i in np.unravel_index(k, batch))] for k in places]
        with torch.no_grad():
            return torch.stack([self._rows(v, 0)[0] for v in found])

    # --- running --------------------------------------------------------------------------

    def __call__(self, arr: Any, axis: int) -> Any:
        """All slices of `arr`; the axes of a result stand where `axis` was."""
        return self._call(arr, _Layout(arr, axis))

    def prepared(self, arr: Any, axis: int) -> Callable[[Any], Any]:
        """``call(arr)`` for arrays that lie like this one."""
        layout = _Layout(arr, axis)
        repeated: RepeatedModule | None = None

        def call(x: Any) -> Any:
            nonlocal repeated
            if repeated is not None:
                try:
                    found = repeated(x)
                except (RuntimeError, MemoryError) as error:
                    if not out_of_memory(error):
                        raise
                    found = None  # it runs in halves below
                if found is not None:
                    return found
            result = self._call(x, layout)
            if repeated is None and self._batches.way == BATCH and not self._several:
                repeated = self._repeated(x, layout)
            return result

        return call

    def _repeated(self, arr: Any, layout: _Layout) -> RepeatedModule | None:
        """The repeated call for such arrays, where one batch takes all slices in place."""
        batches, n = self._batches, layout.slices
        plain = type(arr) is np.ndarray or self.library != "numpy"
        if not plain or batches.writes or self._device != layout.place or not batches.tried(n):
            return None
        if self._size(arr, layout) < n or not _is_seen(arr):
            return None
        order = layout.rows
        axes = None if order == tuple(range(arr.ndim)) else order
        alive = n * batches.bytes_per_slice
        return RepeatedModule(
            batches.tried_batch,
            arr,
            axes,
            (n, arr.shape[layout.axis]),
            self._dtype,
            layout.outward,
            alive,
            self._pure,
        )

    @threads.forkable  # copies of large blocks take torch's threads too
    def _call(self, arr: Any, layout: _Layout) -> Any:
        if self.library == "torch":
            found = self._run(arr, layout)
            return tuple(found) if self._several else found[0]
        with self.on_its_device(arr), torch.inference_mode():
            parts = [_array(y, self.library) for y in self._run(arr, layout)]
        if self._several:
            return tuple(parts)
        (y,) = parts
        if type(arr) is not np.ndarray and isinstance(arr, np.ndarray):
            return arr.__array_wrap__(y, None, False)  # what NumPy's own loop does
        return y

    def _run(self, arr: Any, layout: _Layout) -> list[torch.Tensor]:
        """Each of the results for all slices."""
        n, at = layout.slices, layout.at
        x = arr if layout.inward is None else arrays.permute(arr, layout.inward)
        if layout.merged is not None:
            x = x.reshape(layout.merged)
        size = self._size(arr, layout)
        if size >= n:
            rows, parts = self._results(x, at)
            return [layout.outward(self._own(y, rows, layout.place)) for y in parts]
        recorded: list[Parts] = []
        batch = (*x.shape[:at], *x.shape[at + 1 :])
        outs: list[torch.Tensor] = []
        for piece in self._pieces(x, at, size):
            _, parts = self._results(x[piece], at)
            if any(y.requires_grad for y in parts):
                recorded.append(parts)
                continue
            if not outs:
                shapes = [(*batch, *y.shape[1:]) for y in parts]
                each = zip(shapes, parts, strict=True)
                outs = [_empty(s, y.dtype, layout.place, self.library) for s, y in each]
            for out, y in zip(outs, parts, strict=True):
                part = out[(*piece[:at], *piece[at + 1 :])]
                part.copy_(y.reshape(part.shape))
        if recorded:  # boxes are in C order
            outs = list(Parts.joined(recorded, torch.cat))
        else:
            outs = [out.reshape(n, *out.shape[len(batch) :]) for out in outs]
        return [layout.outward(out) for out in outs]

    def _own(self, y: torch.Tensor, rows: torch.Tensor, place: torch.device) -> torch.Tensor:
        """The result at its place, in memory of its own."""
        if self._device != place:
            return y.to(place)
        if y.requires_grad or may_be_given(y, rows):
            return y
        return y.clone(memory_format=torch.contiguous_format)

    def _pieces(self, x: Any, at: int, size: int) -> Iterator[tuple[slice, ...]]:
        """Chunks of `x`, one after the other; on the host of sizes that turn out to be fast."""
        n = math.prod(x.shape) // x.shape[at]
        if x.ndim != 2 or self._device.type != "cpu" or config.current().block_bytes:
            yield from boxes(x.shape, at, -(-n // -(-n // size)))  # of one size, if they can be
            return
        if self._sizes is None:
            self._sizes = ChunkSize(size, self._batches.most_rows())
        k = 0
        while k < n:
            count = self._sizes.next(n - k)
            rows = slice(k, k + count)
            begin = time.perf_counter()
            yield (rows, slice(None)) if at else (slice(None), rows)
            self._sizes.took(count, time.perf_counter() - begin)
            k += count

    def _results(self, block: Any, at: int) -> tuple[torch.Tensor, Parts]:
        """The rows of a block, and their results."""
        try:
            rows = self._rows(block, at)
        except (RuntimeError, MemoryError) as error:
            halves = _halves(block, at) if out_of_memory(error) else []
            if len(halves) < 2:
                raise
            del error
            both = []
            for half in halves:  # one copy at a time has room there
                rows, parts = self._results(half, at)
                both.append(parts)
            return rows[:1].clone(), Parts.joined(both, torch.cat)
        found = self._batches(rows)
        parts = found if self._several else Parts([found])
        return rows, parts if self.library == "torch" else parts.map(numpy_dtype)

    def _size(self, arr: Any, layout: _Layout) -> int:
        """Slices of a chunk."""
        if self.library == "torch" and torch.is_grad_enabled():
            if self._records or arr.requires_grad:
                return layout.slices  # autograd keeps everything anyway
        if not self._batches.bytes_per_slice:
            self._batches.measure(self.samples(arr, layout.axis))
        return self._batches.rows(self._device, layout.slices)

    def what(self, arr: Any, axis: int) -> str:
        """A description of the run."""
        n = math.prod(arr.shape) // max(1, arr.shape[axis])
        size = self._batches.rows(self._device, n) if self._batches.bytes_per_slice else n
        some = "all slices at once" if size >= n else f"chunks of {size:,} slices"
        if size < n and self._device.type == "cpu" and not config.current().block_bytes:
            some += ", or fewer or more if that proves faster"
        if self._batches.channels_last:
            some += ", channels last in memory"
        batch = self._batches.way == BATCH
        text = f"the module itself on {some}" if batch else f"torch's own operations on {some}"
        if self._device != _place(arr):
            return f"{text}, copied to {self._device} and back"
        if self.library == "torch":
            return text
        name = {"cupy": "CuPy", "numpy": "NumPy"}[self.library]
        text = f"{text}, on zero-copy views of the {name} array"
        return text if self._copied is None else f"{text}, with a copy of the weights there"


class _Layout:
    """Layout of an array: views as rows of slices, and results from rows."""

    def __init__(self, arr: Any, axis: int) -> None:
        order = MemoryOrder.of(arrays.strides(arr), arr.ndim, axis)
        self.axis, self.at = axis, order.at
        self.inward = None if order.axes == tuple(range(arr.ndim)) else order.axes
        before, after = order.batch(arr.shape)
        self._batch = (*before, *after)
        self.slices = math.prod(self._batch)
        self.place = _place(arr)
        self.merged: tuple[int, ...] | None = None
        """The shape with the batch dims on either side of the slices as one, where no copy is
        needed for it: then chunks can be of one size."""
        x = arr if self.inward is None else arrays.permute(arr, self.inward)
        if max(len(before), len(after)) > 1 and _is_contiguous(x):
            ends = [(math.prod(dims),) * bool(dims) for dims in (before, after)]
            self.merged, self.at = (*ends[0], arr.shape[axis], *ends[1]), len(ends[0])
        self._batch_axes = [a for a in order.axes if a != axis]
        self.rows = (*self._batch_axes, axis)
        """The axes of arrays in the order of rows."""
        self._outward: dict[int, tuple[int, ...] | None] = {}

    def outward(self, out: Any) -> Any:
        """Results ``(slices, *result)`` with the batch dims in the place of their own."""
        if len(self._batch) != 1:
            out = out.reshape((*self._batch, *out.shape[1:]))
        ndim = out.ndim
        if ndim not in self._outward:
            where = {a: k for k, a in enumerate(self._batch_axes)}
            before = (where[a] for a in range(self.axis))
            after = (where[a] for a in range(self.axis + 1, len(where) + 1))
            axes = (*before, *range(len(where), ndim), *after)
            self._outward[ndim] = None if axes == tuple(range(ndim)) else axes
        axes_ = self._outward[ndim]
        return out if axes_ is None else arrays.permute(out, axes_)


def _halves(block: Any, at: int) -> list[Any]:
    """Two parts of the slices of a block, one after the other in the order of rows; or itself."""
    for axis, n in enumerate(block.shape):
        if axis != at and n > 1:
            before = (slice(None),) * axis
            return [block[(*before, slice(0, n // 2))], block[(*before, slice(n // 2, n))]]
    return [block]


def _is_contiguous(x: Any) -> bool:
    """Whether an array lies in the order of its axes, without gaps."""
    return bool(x.is_contiguous() if isinstance(x, torch.Tensor) else x.flags.c_contiguous)


# --- libraries --------------------------------------------------------------------------


def _place(arr: Any) -> torch.device:
    """The torch device of an array."""
    if isinstance(arr, torch.Tensor):
        return arr.device
    if arrays.library(arr) == "cupy":
        return torch.device("cuda", arr.device.id)
    return torch.device("cpu")


def _tensor(block: Any) -> torch.Tensor:
    """An array as a tensor, on the same memory wherever torch can see it."""
    if isinstance(block, torch.Tensor):
        return block
    if _is_foreign(block.dtype):
        block = block.astype(np.float64)
    if arrays.library(block) == "cupy":
        if any(s < 0 for s in block.strides):
            block = block.copy()
        return torch.as_tensor(block, device=_place(block))
    block = np.asarray(block)
    if not _is_seen(block):
        block = np.array(block, dtype=block.dtype.newbyteorder("="))
    return torch.from_numpy(block)


def _is_foreign(dtype: np.dtype) -> bool:
    """Whether torch lacks a dtype or cannot compute with it."""
    return (dtype.kind == "u" and dtype.itemsize > 1) or dtype.itemsize > 8


def _is_seen(arr: Any) -> bool:
    """Whether torch can view an array where it is."""
    if isinstance(arr, torch.Tensor):
        return True
    if _is_foreign(arr.dtype) or any(s < 0 or s % arr.itemsize for s in arr.strides):
        return False
    if not isinstance(arr, np.ndarray):
        return True
    return arr.flags.writeable and arr.dtype.isnative and arr.flags.aligned


def _empty(
    shape: tuple[int, ...], dtype: torch.dtype, place: torch.device, library: str
) -> torch.Tensor:
    """Memory for results; NumPy's is on huge pages, which are there much sooner."""
    if library != "numpy":
        return torch.empty(shape, dtype=dtype, device=place)
    name = str(dtype).partition(".")[2]
    return torch.from_numpy(np.empty(shape, name))


def _array(y: torch.Tensor, library: str) -> Any:
    """A result as an array of the library, on the same memory."""
    y = y.detach() if y.requires_grad else y
    if library == "numpy":
        return y.numpy()
    import cupy

    return cupy.asarray(y.detach())
