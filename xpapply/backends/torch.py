"""torch: blocks of fused products on the CPU; on a GPU CuPy's kernels, on the same memory.

A tensor that takes part in autograd is not for these: `plan` runs torch's own
operations on it.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from .. import config
from ..arrays.layout import boxes, columns, run_blocks
from ..functions.cache import BoundedDict, Dict, kept, remembered
from ..ir.batch import batch
from ..ir.graph import Graph
from ..ir.ops import OPS
from ..ir.rewrite import Region, expand
from ..limits import LIMITS
from ..lowering.program import Program, padded, padded_shape, windows_of
from ..lowering.repeated import Repeated
from ..runtime import threads
from . import Backend, Borrower, Lowered, compiled

# not gelu: torch adds 1 and erf, which leaves no digits of small results
_OF_NN = "elu hardsigmoid hardswish hardtanh leaky_relu mish silu softplus".split()
_NATIVE: dict[str, Callable[..., Any]] = {
    "relu": lambda x, out: torch.clamp_min(x, 0, out=out),
    "sigmoid": torch.sigmoid,
    "isfinite": lambda x, out: torch.isfinite(x) if out is None else out.copy_(torch.isfinite(x)),
    **{n: getattr(torch._C._nn, n) for n in _OF_NN if hasattr(torch._C._nn, n)},
}
"""Composites that torch has as one operation, and what it has without ``out=``."""
_spare = kept(Dict())
"""Buffers of the last call that took several blocks: memory is slow the first time."""


class TorchCalls:
    """torch's calls, as `Program` wants them."""

    name = "torch"
    batch_first = True

    def fuse(self, graph: Graph, region: Region) -> None:
        """Elementwise work runs in place, one call after the other."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def const(self, array: Any) -> torch.Tensor:
        return torch.tensor(array, device=self._device)

    def scalar(self, value: float, dtype: str) -> torch.Tensor:
        # 0-d tensors stay on the CPU: torch passes them to kernels as numbers
        return torch.tensor(value, dtype=getattr(torch, dtype))

    def empty(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        return torch.empty(shape, dtype=getattr(torch, dtype), device=self._device)

    def elementwise(self, op: str) -> Callable[..., Any]:
        if op in _NATIVE:
            return _NATIVE[op]
        if op in ("maximum", "minimum"):  # the only ones that take no CPU number beside the array
            function, clamp = getattr(torch, op), "min" if op == "maximum" else "max"
            return lambda x, y, out: (
                torch.clamp(x, **{clamp: y.item()}, out=out)
                if y.ndim == 0 and y.device.type == "cpu" and not torch.isnan(y)
                else function(x, y.to(x.device), out=out)
            )
        return getattr(torch, {"equal": "eq"}.get(op, OPS[op].api or op))  # type: ignore[no-any-return]

    def cast(self, x: torch.Tensor, dtype: str, out: torch.Tensor | None) -> torch.Tensor:
        return x.to(getattr(torch, dtype)) if out is None else out.copy_(x)

    def reduce(
        self, op: str, x: torch.Tensor, axis: tuple[int, ...], keepdims: bool, out: Any
    ) -> torch.Tensor:
        if not axis:  # torch takes no axes for all axes
            return x if out is None else out.copy_(x)
        if op in ("argmax", "argmin"):
            return getattr(torch, op)(x, axis[0], keepdims, out=out)  # type: ignore[no-any-return]
        if op in ("max", "min"):
            return getattr(torch, f"a{op}")(x, axis, keepdims, out=out)  # type: ignore[no-any-return]
        if op == "prod":  # one axis at a time
            for a in sorted(axis, reverse=True):
                x = torch.prod(x, a, keepdims)
            return x
        return torch.sum(x, axis, keepdims, dtype=x.dtype, out=out)

    def weights(self, w: torch.Tensor) -> torch.Tensor:
        return w.t()

    def bias(self, b: torch.Tensor) -> torch.Tensor:
        return b

    def affine(
        self, rows: torch.Tensor, weights: torch.Tensor, bias: Any, out: torch.Tensor | None
    ) -> torch.Tensor:
        if bias is None:
            return torch.mm(rows, weights, out=out)
        return torch.addmm(bias, rows, weights, out=out)

    def einsum(self, subscripts: str, x: Any, y: Any, out: Any) -> torch.Tensor:
        return torch.einsum(subscripts, x, y)

    def concat(self, xs: Sequence[Any], axis: int, out: Any) -> torch.Tensor:
        return torch.cat(list(xs), axis, out=out)

    def transpose(self, x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
        return x.permute(axes)

    def broadcast_to(self, x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return x.expand(shape)

    def pad(self, x: torch.Tensor, widths: Any, number: float, out: Any) -> torch.Tensor:
        out = x.new_empty(padded_shape(x.shape, widths)) if out is None else out
        return padded(x, widths, number, out)  # type: ignore[no-any-return]

    def take(self, x: torch.Tensor, places: tuple[int, ...], axis: int, out: Any) -> torch.Tensor:
        return x.index_select(axis, torch.tensor(places, device=x.device))

    def windows(self, x: torch.Tensor, *how: int, **names: int) -> torch.Tensor:
        return x.as_strided(*windows_of(x.shape, x.stride(), *how, **names))


class Torch(Backend):
    """torch's fused products; functions of slices run on the memory of NumPy or CuPy arrays."""

    name = "torch"

    def why_not(self, graph: Graph, given: Sequence[Any]) -> str | None:
        no_network = super().why_not(graph, given)
        if no_network is not None:
            return no_network
        for node in expand(graph, _NATIVE).nodes:
            if node.op == "index" and any(
                isinstance(k, tuple) and (k[2] or 1) < 0 for k in node.attr("key")
            ):
                return "torch has no slices with negative steps"
        refusal = graph.why_not_fused()
        if refusal and refusal == graph.why_not_windows():
            return f"{refusal} in its blocks of products: torch.batch runs a module that has them"
        return refusal

    def lower(self, graph: Graph, precision: str = "highest") -> TorchLowered:
        return TorchLowered(graph)

    def empty(self, shape: tuple[int, ...], dtype: str, like: torch.Tensor) -> torch.Tensor:
        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)

    def borrowers(self, x: torch.Tensor, dtype: str) -> Sequence[Borrower]:
        """CUDA tensors go to CuPy's kernels, if CuPy is there; others to those for this CPU."""
        if x.device.type == "cpu":
            plain = type(x) in (torch.Tensor, torch.nn.Parameter) and not self.is_wrapped(x)
            strided = x.layout == torch.strided and not (x.is_conj() or x.is_neg())
            return compiled() if plain and strided else ()
        if x.device.type != "cuda" or not _cupy_is_installed():
            return ()
        return (Borrower("cupy", _AsCuPy(x), _on_stream_of),)

    def slices_borrower(self, arrays: Sequence[torch.Tensor]) -> Borrower | str:
        """The borrower, or a reason; without one torch's own operations run."""
        if torch.is_grad_enabled() and any(t.requires_grad for t in arrays):
            return "autograd records this call; under torch.no_grad() it runs fused"
        if any(map(self.is_wrapped, arrays)):
            return "a transform of torch follows this call"
        if any(type(t) not in (torch.Tensor, torch.nn.Parameter) for t in arrays):
            return "a subclass of Tensor has a meaning of its own"
        if any(t.dtype == torch.bfloat16 for t in arrays):
            return "neither NumPy nor CuPy has bfloat16"
        if any(t.is_conj() or t.is_neg() or t.layout != torch.strided for t in arrays):
            return "a tensor whose elements do not lie in memory as they are"
        kind = arrays[0].device.type
        if kind == "cpu":
            return Borrower("numpy", _as_numpy)
        if kind == "cuda" and _cupy_is_installed():
            return Borrower("cupy", None, _on_stream_of)
        return f"no backend borrows tensors on {kind}"

    def written(self, x: torch.Tensor) -> None:
        """Tell autograd: what it has saved of the tensor is no longer so."""
        if not x.is_inference():
            torch.autograd.graph.increment_version(x)

    def is_wrapped(self, x: torch.Tensor) -> bool:
        """Inside `torch.func`, or with a forward derivative."""
        if torch._C._functorch.is_functorch_wrapped_tensor(x):  # type: ignore[attr-defined]
            return True
        in_level = forward_ad._current_level >= 0
        return in_level and forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]


BACKEND = Torch()


def _as_numpy(t: torch.Tensor) -> np.ndarray:
    return t.detach().numpy()


class _AsCuPy:
    """The memory of CUDA tensors of one layout and device as CuPy arrays.

    What DLPack would give, in a hundredth of its time: both sides are known, and the
    kernels run on torch's own stream, so nothing has to wait. A CuPy array is no more than
    an address with a shape here, so it is made once per address: it keeps no tensor alive,
    and is used only while a tensor with that address is at hand.
    """

    def __init__(self, like: torch.Tensor) -> None:
        self._shape, self._device = tuple(like.shape), like.device.index
        # CuPy has no bfloat16: kernels that get an address know from the graph what lies there
        half = like.dtype == torch.bfloat16
        self._dtype = np.dtype("uint16" if half else str(like.dtype).partition(".")[2])
        self._strides = tuple(s * self._dtype.itemsize for s in like.stride())
        steps = zip(self._shape, self._strides, strict=True)
        self._reach = sum((n - 1) * s for n, s in steps) + self._dtype.itemsize
        self._made = BoundedDict()

    def __call__(self, x: torch.Tensor) -> Any:
        address = x.data_ptr()
        found = self._made.get(address)
        if found is None:
            import cupy

            memory = cupy.cuda.UnownedMemory(address, self._reach, None, self._device)
            pointer = cupy.cuda.MemoryPointer(memory, 0)
            found = cupy.ndarray(self._shape, self._dtype, pointer, self._strides)
            self._made[address] = found
        return found


@functools.cache
def _cupy_is_installed() -> bool:
    return importlib.util.find_spec("cupy") is not None


@remembered(64)
def _stream_of_cupy(stream: torch.cuda.Stream) -> Any:
    """torch's stream as one of CuPy's."""
    import cupy

    try:
        return cupy.cuda.Stream.from_external(stream)
    except (AttributeError, TypeError, ValueError):  # an older CuPy or torch
        return cupy.cuda.ExternalStream(stream.cuda_stream)


_NOTHING = nullcontext()
_address_of_stream: Callable[[int], int] = getattr(
    torch._C, "_cuda_getCurrentRawStream", lambda _: torch.cuda.current_stream().cuda_stream
)
"""The current stream of a device, without a Python object for it."""


def _on_stream_of(x: torch.Tensor) -> Any:
    """Make CuPy work on the device of a tensor, and on torch's current stream.

    Most often it does already: both have the default stream of the device that is current.
    """
    device = x.device
    import cupy

    index = device.index
    current = cupy.cuda.runtime.getDevice() == index
    if current and cupy.cuda.get_current_stream().ptr == _address_of_stream(index):
        return _NOTHING
    return _switched(device)


@contextmanager
def _switched(device: torch.device) -> Iterator[None]:
    import cupy

    stream = torch.cuda.current_stream(device)
    with cupy.cuda.Device(device.index), _stream_of_cupy(stream):
        yield


class TorchLowered(Lowered):
    """Blocks through a `Program`, on torch's own threads."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._batched = batch(expand(graph, _NATIVE))
        self._programs: dict[torch.device, Program] = {}
        self.kernels: tuple[str, ...] = ("addmm(out=) and in-place activation in blocks",)

    def _program(self, device: torch.device) -> Program:
        if device not in self._programs:
            self._programs[device] = Program(self._batched, TorchCalls(device))
        return self._programs[device]

    def bind(self, consts: tuple[Any, ...], like: torch.Tensor) -> list[Any]:
        """The constants on the device of `like`."""
        with torch.inference_mode():
            return self._program(like.device).bind(consts)

    def slower_than_half(
        self, x: torch.Tensor, consts: tuple[Any, ...], at: int | None = None
    ) -> bool:
        """Whether torch's own operations in 16 bits take less time than float32 in blocks.

        They do on GPUs that have bfloat16. On a CPU without such products they take 2 to 30 times
        as long.
        """
        return x.device.type == "cuda" and torch.cuda.get_device_capability(x.device) >= (8, 0)

    def prepared(
        self, x: torch.Tensor, at: int, bound: list[Any], out: torch.Tensor
    ) -> Callable[[torch.Tensor, torch.Tensor], None] | None:
        """``call(x, out)`` for tensors that lie like these; None where there is no quicker way.

        For few slices: one block, whose buffers and views of them are kept.
        """
        program = self._program(x.device)
        slices = math.prod(x.shape) // max(1, x.shape[at])
        if x.device.type != "cpu" or slices > self._rows(program, x, slices):
            return None
        if at not in (0, x.ndim - 1) or not out.is_contiguous():
            return None
        length, first = x.shape[at], at == 0 < x.ndim - 1
        result = out.shape[: out.ndim - x.ndim + 1] if first else out.shape[x.ndim - 1 :]
        plain = x.ndim == 2 and not first and out.ndim == 2
        idle: list[Repeated] = []
        keep = slices * program.row_bytes <= LIMITS.torch_idle

        def call(x: torch.Tensor, out: torch.Tensor) -> None:
            if config.current().block_bytes or threads.torch_is_lost:
                self(x, at, bound, out)
                return
            with torch.inference_mode():
                if plain:
                    rows, place = x, out
                elif first:
                    rows = x.reshape(length, -1).T
                    place = out.view(*result, -1).movedim(-1, 0)
                else:
                    rows, place = x.reshape(-1, length), out.view(-1, *result)
                try:
                    repeated = idle.pop()
                except IndexError:  # the first call, or another thread is at work with it
                    repeated = Repeated(program, bound, slices)
                found = repeated(rows, place)
                if found is not None:
                    place.copy_(found.movedim(-1, 0))
                if keep:
                    idle.append(repeated)

        return call

    @staticmethod
    def _rows(program: Program, x: torch.Tensor, slices: int) -> int:
        chosen, on_cpu = config.current().block_bytes, x.device.type == "cpu"
        rows = (
            chosen or (LIMITS.torch_block if on_cpu else LIMITS.torch_gpu_block)
        ) // program.row_bytes
        if on_cpu and not chosen:
            rows = max(1024, min(16384, rows))
            rows = -(-slices // max(1, -(-slices // rows)))  # blocks of one size
        return max(1, min(slices, rows))

    @threads.forkable
    def __call__(
        self, x: torch.Tensor, at: int, bound: list[Any], out: torch.Tensor
    ) -> torch.Tensor:
        """All slices of `x` into `out`; both in memory order."""
        program = self._program(x.device)
        slices = math.prod(x.shape) // max(1, x.shape[at])
        rows = self._rows(program, x, slices)
        with torch.inference_mode():
            key = (program, rows)
            scratch = _spare.pop(key, None) or program.scratch(rows)

            def run(block: torch.Tensor, place: Any) -> torch.Tensor:
                return program.run(columns(block, at), bound, scratch, place)

            run_blocks(run, x, at, out, boxes(x.shape, at, rows))
        if x.device.type == "cpu" and not config.current().block_bytes:
            _spare.clear()
            _spare[key] = scratch
        return out
