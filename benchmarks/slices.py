"""Functions of slices (logsumexp, softmax, norm ...): xpapply and what one would take instead.

Needs torch, and CuPy on a GPU; SciPy, JAX and numba take part where they are installed,
torch.compile where it works.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

import xpapply
from xpapply import special

from . import clocks, cpu_first, devices, guvectorized, networks, runner
from . import slices_report as names
from .clocks import Call
from .runner import Peer

Axis = int | None

WRONG = 1e-3
ROUNDING = 1e-11
"""A larger error in float64 is none of rounding."""
EXACT = 1 << 16
"""Elements whose results in float64 are compared with long double."""
FEWER = 1 << 16
"""Elements of an input at most, for trying out."""
HOST_CALLS = 200
REPEATS = 9
DTYPES = ("float32", "float64")


@dataclass
class Case(runner.Case):
    """A function, and its input on the device; what is costly is made when it is first wanted.

    `row`: the second array is one row, which broadcasts.
    """

    on: Any
    section: str
    function: str
    shape: tuple[int, ...]
    axis: Axis
    row: bool = False
    dtype: str = "float32"

    wrong = WRONG
    patience = 0.3

    @property
    def name(self) -> str:  # type: ignore[override]
        return names.key(self.function, self.shape, self.axis, self.row, self.dtype)

    @cached_property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Numbers from a normal distribution of mean 1 and standard deviation 2."""
        generator = torch.Generator(self.on.name).manual_seed(0)
        shapes = [self.shape]
        if self.function == "squared_diff":
            shapes.append(self.shape[1:] if self.row else self.shape)
        how: Any = {"generator": generator, "device": self.on.name}
        how["dtype"] = getattr(torch, self.dtype)
        found = tuple(torch.randn(s, **how).mul_(2).add_(1) for s in shapes)
        if self.function == "masked mean":  # a mean of nothing is NaN
            found[0].select(self.axis, 0).abs_()
        return found

    @cached_property
    def arrays(self) -> tuple[Any, ...]:
        """The same memory as NumPy's or CuPy's arrays."""
        return tuple(self.on.array(t) for t in self.tensors)

    @cached_property
    def truth(self) -> tuple[torch.Tensor, ...]:
        """In float64; a row of a broadcast input is as good as all of them."""
        row = FUNCTIONS[self.function]
        f = row.get("truth") or row[names.TORCH]
        found = f(*(t.double() for t in self.tensors), self.axis)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(t.double() for t in found)

    @cached_property
    def exact(self) -> tuple[np.ndarray, ...]:
        """Of the first slices in long double."""
        x = self._first(self.arrays[0]).astype(np.longdouble)
        found = FUNCTIONS[self.function][names.CAREFUL](x, self.axis)
        return found if isinstance(found, tuple) else (found,)

    def _first(self, y: Any) -> Any:
        """What of an input or a result belongs to the first slices; of two dimensions or one."""
        count = max(1, EXACT // self.shape[self.axis])
        return y[:, :count] if y.ndim == 2 and self.axis == 0 else y[:count]

    def bytes(self) -> tuple[int, int]:
        """That must be read and written."""
        read = sum(t.numel() for t in self.tensors)
        size = self.tensors[0].element_size()
        return size * read, size * sum(t.numel() for t in self.truth)

    def sizes(self) -> set[int]:
        return {t.numel() for t in self.truth} | {self.bytes()[1] // 4}

    def error(self, y: Any, peer: Peer) -> float:
        """The worst of the result's parts."""
        truth = self.truth
        if peer.name == names.SUM:
            truth = (self.tensors[0].double().sum(_dim(self.axis)),)
        found = tuple(y) if isinstance(y, (tuple, list)) else (y,)
        if len(found) != len(truth):
            raise ValueError(f"{len(found)} results, not {len(truth)}")
        parts = zip(found, truth, strict=True)
        errors = [networks.relative_error(networks.tensor(a, self.on), b) for a, b in parts]
        worst = float(np.max(errors))  # NaN if one is
        if self.dtype == "float32" or not worst < ROUNDING or peer.name == names.SUM:
            return worst
        pairs = zip(found, self.exact, strict=True)
        firsts = [(self._first(np.asarray(networks.tensor(a, self.on))), b) for a, b in pairs]
        return float(max(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in firsts))

    def extra(self, call: Call, peer: Peer) -> dict[str, Any]:
        """Memory, and the engine of functions of one slice.

        JAX keeps what it has had; on a CPU the result of our tensors is torch's, and float64 takes
        twice what float32 does.
        """
        found = {}
        if peer.name == names.APPLY:
            plan = xpapply.explain(self.of_one_slice, self.axis, *self.arrays)
            found["engine"] = plan.engine
        held = peer.name == names.JAX or (self.on.in_turns and peer.name == names.OURS_TORCH)
        if held or self.dtype != "float32":
            return found
        return found | self.on.extra(call, peer.name == names.TORCH)

    @property
    def of_one_slice(self) -> Callable[[Any], Any]:
        """What a user writes for apply_along_axis; by dtypes, where it holds an array."""
        f = FUNCTIONS[self.function][names.APPLY]
        return f[self.dtype] if isinstance(f, dict) else f


def _dim(axis: Axis) -> Any:
    return axis if axis is not None else ()


# --- the functions, by peers ----------------------------------------------------------
# a row is a function: for each peer that has it, how it is called with the arrays and the axis


def standardize_in_torch(x: torch.Tensor, axis: Axis) -> torch.Tensor:
    std, mean = torch.std_mean(x, axis, correction=0, keepdim=True)
    return (x - mean) / std


def layer_norm(x: torch.Tensor, axis: Axis) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=0.0)


def norm_in_torch(x: torch.Tensor, axis: Axis) -> torch.Tensor:
    return torch.linalg.vector_norm(x, dim=axis)


def total(x: Any, axis: Axis) -> Any:
    """What is read for a sum: the rate to compare with."""
    return x.sum(axis)


# expressions of arrays, with temporaries


def naive_logsumexp(xp: Any, x: Any, axis: Axis) -> Any:
    m = x.max(axis, keepdims=True)
    return xp.log(xp.exp(x - m).sum(axis)) + m.squeeze(axis)


def naive_softmax(xp: Any, x: Any, axis: Axis) -> Any:
    e = xp.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def naive_standardize(xp: Any, x: Any, axis: Axis) -> Any:
    return (x - x.mean(axis, keepdims=True)) / x.std(axis, keepdims=True)


def naive_norm(xp: Any, x: Any, axis: Axis) -> Any:
    """The library's own."""
    return xp.linalg.norm(x, axis=axis)


def naive_squared(xp: Any, x: Any, y: Any, axis: Axis) -> Any:
    d = x - y
    return d * d


# whole arrays of NumPy, as somebody writes them who knows it: hardly any temporaries, no passes
# over the array that can be spared


def add_up(x: np.ndarray, axis: Axis, keepdims: bool = False) -> Any:
    """The sum; einsum adds short slices without a ufunc's loop for each."""
    if x.ndim != 2 or axis is None or x.shape[axis] > EINSUM:
        return x.sum(axis, keepdims=keepdims)
    found = np.einsum("ij->j" if axis == 0 else "ij->i", x)
    return np.expand_dims(found, axis) if keepdims else found


def squares(x: np.ndarray, axis: int) -> np.ndarray:
    """The sum of squares, of short slices without an array of them."""
    if x.shape[axis] > EINSUM:
        return np.square(x).sum(axis)
    return np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", x, x)


EINSUM = 4096
"""Elements of longer slices are added in pairs, which is more accurate."""


def careful_standardize(x: np.ndarray, axis: int) -> np.ndarray:
    n = x.shape[axis]
    d = x - add_up(x, axis, keepdims=True) / x.dtype.type(n)
    d /= np.expand_dims(np.sqrt(squares(d, axis) / x.dtype.type(n)), axis)
    return d


def careful_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = x - x.max(axis, keepdims=True)
    np.exp(e, out=e)
    e /= add_up(e, axis, keepdims=True)
    return e


def careful_logsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    top = x.max(axis, keepdims=True)
    e = x - top
    np.exp(e, out=e)
    total = add_up(e, axis)
    np.log(total, out=total)
    total += top.squeeze(axis)
    return total


def careful_mean_var(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    n = x.dtype.type(x.shape[axis])
    mean = add_up(x, axis, keepdims=True) / n
    return mean.squeeze(axis), squares(x - mean, axis) / n


def careful_masked_mean(x: np.ndarray, axis: int) -> np.ndarray:
    total = add_up(np.fmax(x, x.dtype.type(0)), axis)
    total /= np.count_nonzero(x > 0, axis=axis)
    return total


def careful_median(x: np.ndarray, axis: int) -> np.ndarray:
    """NumPy sorts faster than it partitions, but for very long slices."""
    n = x.shape[axis]
    if n > EINSUM:
        return np.median(x, axis)
    ordered = np.sort(x, axis)
    return (ordered.take((n - 1) // 2, axis) + ordered.take(n // 2, axis)) / x.dtype.type(2)


def careful_convolve(x: np.ndarray, axis: int) -> np.ndarray:
    taps = TAPS.astype(x.dtype)
    half = len(taps) // 2
    if axis == 0:
        y = x * taps[half]
        for j in range(1, half + 1):
            y[j:] += taps[half + j] * x[:-j]
            y[:-j] += taps[half - j] * x[j:]
        return y
    padded = np.pad(x, [(0, 0), (half, half)])
    return np.lib.stride_tricks.sliding_window_view(padded, len(taps), 1) @ taps[::-1]


# the same in torch


def masked_mean_in_torch(x: torch.Tensor, axis: Axis) -> torch.Tensor:
    return x.clamp_min(0).sum(axis) / (x > 0).sum(axis)


def median_in_torch(x: torch.Tensor, axis: Any) -> torch.Tensor:
    """That of torch is the lower of the two in the middle."""
    n, ordered = x.shape[axis], x.sort(axis).values
    return (ordered.select(axis, (n - 1) // 2) + ordered.select(axis, n // 2)) / 2


def convolve_in_torch(x: torch.Tensor, axis: Any) -> torch.Tensor:
    """Sums of shifted arrays: conv1d takes many times as long."""
    half, n = len(TAPS) // 2, x.shape[axis]
    y = x * float(TAPS[half])
    for j in range(1, half + 1):
        first, last = (lambda t, a, j=j: t.narrow(axis, a, n - j) for _ in range(2))
        first(y, j).add_(last(x, 0), alpha=float(TAPS[half + j]))
        first(y, 0).add_(last(x, j), alpha=float(TAPS[half - j]))
    return y


def convolve_in_scipy(x: Any, axis: Axis) -> Any:
    from scipy import ndimage

    return ndimage.convolve1d(x, TAPS, axis, mode="constant")


# kernels by hand; the names `in0` and `out0` are those that CuPy's CUB path knows


@functools.cache
def logsumexp_kernel() -> Any:
    import cupy

    return cupy.ReductionKernel(
        *("float32 in0", "float32 out0", "lse_one(in0)", "lse_two(a, b)"),
        *("out0 = a.top + logf(a.sum)", "lse_none()", "logsumexp_by_hand"),
        reduce_type="LogSum",
        preamble="""
        struct LogSum { float top, sum; };
        __device__ LogSum lse_none() { LogSum s; s.top = -1e38f; s.sum = 0; return s; }
        __device__ LogSum lse_one(float x) { LogSum s; s.top = x; s.sum = 1; return s; }
        __device__ LogSum lse_two(const LogSum& a, const LogSum& b) {
            LogSum s;
            s.top = fmaxf(a.top, b.top);
            s.sum = a.sum * expf(a.top - s.top) + b.sum * expf(b.top - s.top);
            return s;
        }
        """,
    )


@functools.cache
def l2norm_kernel() -> Any:
    import cupy

    return cupy.ReductionKernel(
        *("float32 in0", "float32 out0", "in0 * in0", "a + b", "out0 = sqrt(a)", "0"),
        "l2norm_by_hand",
    )


@functools.cache
def squared_kernel() -> Any:
    import cupy

    return cupy.ElementwiseKernel(
        "float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "squared_diff_by_hand"
    )


L2NORM = xpapply.reduction(lambda x: x * x, lambda a, b: a + b, np.sqrt, 0)
SQUARED = xpapply.elementwise(lambda x, y: (x - y) * (x - y))


TAPS = np.array([0.0625, 0.25, 0.375, 0.25, 0.0625])
"""Exact in every dtype."""


def smoothing(dtype: str) -> Callable[[Any], Any]:
    taps = TAPS.astype(dtype)
    return lambda v: np.convolve(v, taps, "same")


def softmax_of_one(v: Any) -> Any:
    e = np.exp(v - v.max())
    return e / e.sum()


def plain(f: Callable[[Any], Any]) -> Callable[[Any, Axis], Any]:
    """What a user writes for one slice."""
    return lambda x, axis: xpapply.apply_along_axis(f, axis, x)


FUNCTIONS: dict[str, dict[str, Any]] = {
    "logsumexp": {
        names.OURS: special.logsumexp,
        names.SUM: total,
        names.SCIPY: "special.logsumexp",
        names.TORCH: torch.logsumexp,
        names.JAX: lambda jax, x, axis: jax.scipy.special.logsumexp(x, axis=axis),
        names.NAIVE: naive_logsumexp,
        names.KERNEL: logsumexp_kernel,
        names.APPLY: lambda v: np.log(np.sum(np.exp(v - v.max()))) + v.max(),
        names.CAREFUL: careful_logsumexp,
        names.NUMBA: guvectorized.logsumexp,
    },
    "softmax": {
        names.OURS: special.softmax,
        names.SCIPY: "special.softmax",
        names.TORCH: torch.softmax,
        names.JAX: lambda jax, x, axis: jax.nn.softmax(x, axis=axis),
        names.NAIVE: naive_softmax,
        names.APPLY: softmax_of_one,
        names.CAREFUL: careful_softmax,
        names.NUMBA: guvectorized.softmax,
    },
    "standardize": {
        names.OURS: special.standardize,
        names.SCIPY: "stats.zscore",
        names.TORCH: standardize_in_torch,
        names.LAYER: layer_norm,
        names.JAX: lambda jax, x, axis: jax.nn.standardize(x, axis=axis, epsilon=0),
        names.NAIVE: naive_standardize,
        names.APPLY: lambda v: (v - v.mean()) / v.std(),
        names.CAREFUL: careful_standardize,
        names.NUMBA: guvectorized.standardize,
    },
    "mean_var": {
        names.OURS: special.mean_var,
        names.TORCH: lambda x, axis: torch.var_mean(x, axis, correction=0)[::-1],
        names.JAX: lambda jax, x, axis: (jax.numpy.mean(x, axis), jax.numpy.var(x, axis)),
        names.NAIVE: lambda xp, x, axis: (x.mean(axis), x.var(axis)),
        names.CAREFUL: careful_mean_var,
        names.NUMBA: guvectorized.mean_var,
    },
    "norm": {
        names.OURS: lambda x, axis: special.norm(x, axis=axis),
        names.TORCH: norm_in_torch,
        names.NAIVE: naive_norm,
        names.APPLY: np.linalg.norm,
        names.CAREFUL: lambda x, axis: np.sqrt(squares(x, axis)),
        names.NUMBA: guvectorized.norm,
    },
    "normalize": {
        names.OURS: lambda x, axis: special.normalize(x, axis=axis),
        names.TORCH: lambda x, axis: torch.nn.functional.normalize(x, dim=axis),
        names.NAIVE: lambda xp, x, axis: x / xp.linalg.norm(x, axis=axis, keepdims=True),
    },
    "squared_diff": {
        names.OURS: lambda x, y, axis: special.squared_diff(x, y),
        names.ELEMENTWISE: lambda x, y, axis: SQUARED(x, y),
        names.TORCH: lambda x, y, axis: (x - y) ** 2,
        names.JAX: lambda jax, x, y, axis: (x - y) ** 2,
        names.NAIVE: naive_squared,
        names.KERNEL: squared_kernel,
    },
    "l2norm": {
        names.OURS: lambda x, axis: L2NORM(x, axis=axis),
        names.SPECIAL: lambda x, axis: special.norm(x, axis=axis),
        names.SUM: total,
        names.TORCH: norm_in_torch,
        names.JAX: lambda jax, x, axis: jax.numpy.sqrt(jax.numpy.sum(x * x, axis)),
        names.NAIVE: naive_norm,
        names.KERNEL: l2norm_kernel,
    },
    "masked mean": {
        names.APPLY: lambda v: v[v > 0].mean(),
        names.TORCH: masked_mean_in_torch,
        names.CAREFUL: careful_masked_mean,
        names.NUMBA: guvectorized.masked_mean,
    },
    "median": {
        names.APPLY: np.median,
        names.TORCH: median_in_torch,
        names.CAREFUL: careful_median,
        names.NUMBA: guvectorized.median,
    },
    "cumsum": {
        names.APPLY: np.cumsum,
        names.TORCH: torch.cumsum,
        names.CAREFUL: np.cumsum,
        names.NUMBA: guvectorized.cumsum,
    },
    "convolve": {
        names.APPLY: {dtype: smoothing(dtype) for dtype in DTYPES},
        names.SCIPY: convolve_in_scipy,
        names.TORCH: convolve_in_torch,
        names.CAREFUL: careful_convolve,
        names.NUMBA: guvectorized.convolve,
    },
    "argmax": {
        names.OURS: lambda x, axis: special.argmax_and_max(x, axis)[0],
        names.APPLY: np.argmax,
        names.TORCH: torch.argmax,
        names.CAREFUL: np.argmax,
        names.NUMBA: guvectorized.argmax,
    },
    "plain z-score": {
        names.OURS: plain(lambda v: (v - v.mean()) / v.std()),
        names.SPECIAL: special.standardize,
        names.NAIVE: naive_standardize,
        "truth": standardize_in_torch,
    },
    "plain logsumexp": {
        names.OURS: plain(lambda v: np.log(np.sum(np.exp(v - v.max()))) + v.max()),
        names.SPECIAL: special.logsumexp,
        names.NAIVE: naive_logsumexp,
        "truth": torch.logsumexp,
    },
}


# --- the peers ------------------------------------------------------------------------


def of_arrays(name: str, case: Case) -> Call:
    f, xs, axis = FUNCTIONS[case.function][name], case.arrays, case.axis
    return lambda: f(*xs, axis)


def of_tensors(name: str, case: Case) -> Call:
    f, xs, axis = FUNCTIONS[case.function][name], case.tensors, case.axis
    call = lambda: f(*xs, axis)  # noqa: E731
    return call if name == names.OURS else torch.inference_mode()(call)


def of_slices(case: Case) -> Call:
    f, (x,), axis = case.of_one_slice, case.arrays, case.axis
    return lambda: xpapply.apply_along_axis(f, axis, x)


def careful(case: Case) -> Call:
    f, (x,), axis = FUNCTIONS[case.function][names.CAREFUL], case.arrays, case.axis
    return lambda: f(x, axis)


def numba(case: Case) -> Call:
    """Compiled before it is timed."""
    f, (x,), axis = FUNCTIONS[case.function][names.NUMBA], case.arrays, case.axis
    ufunc = guvectorized.compiled(f, case.dtype)
    if f is guvectorized.convolve:
        taps, axes = TAPS.astype(case.dtype), [(axis,), (0,), (axis,)]
        return lambda: ufunc(x, taps, axes=axes)
    return lambda: ufunc(x, axis=axis)


def scipy(case: Case) -> Call:
    found = FUNCTIONS[case.function][names.SCIPY]
    if isinstance(found, str):
        module, _, name = found.partition(".")
        root = "scipy" if case.on.xp is np else "cupyx.scipy"
        found = getattr(importlib.import_module(f"{root}.{module}"), name)
    (x,), axis = case.arrays, case.axis
    return lambda: found(x, axis=axis)


def naive(case: Case) -> Call:
    f, xp, xs, axis = FUNCTIONS[case.function][names.NAIVE], case.on.xp, case.arrays, case.axis
    return lambda: f(xp, *xs, axis)


def by_kernel(case: Case) -> Call:
    networks.needs_gpu(case.on)
    f, xs, axis = FUNCTIONS[case.function][names.KERNEL](), case.arrays, case.axis
    return (lambda: f(*xs)) if axis is None else (lambda: f(*xs, axis=axis))


def jax(case: Case) -> Call:
    import jax

    f, axis = FUNCTIONS[case.function][names.JAX], case.axis
    return networks.jax_call(case.on, jax.jit(lambda *xs: f(jax, *xs, axis)), case.tensors)


def compiled(case: Case) -> tuple[Call, str]:
    f, axis = FUNCTIONS[case.function][names.TORCH], case.axis
    return networks.torch_compile(lambda *xs: f(*xs, axis), *case.tensors)


def has(name: str, *sections: str, dtypes: Sequence[str] = DTYPES) -> Callable[[Case], bool]:
    """Whether a function has this peer, and the section time for it."""

    def fits(case: Case) -> bool:
        there = name in FUNCTIONS[case.function] and case.dtype in dtypes
        return there and case.section in (sections or (case.section,))

    return fits


def last_axis(case: Case) -> bool:
    return names.LAYER in FUNCTIONS[case.function] and case.axis == len(case.shape) - 1


def row(name: str, build: Callable[..., Call] = of_arrays, **more: Any) -> Peer:
    """A peer for the functions that have it."""
    build = partial(build, name) if build in (of_arrays, of_tensors) else build
    return Peer(name, build, **{"fits": has(name)} | more)


FLOAT32 = DTYPES[:1]
"""Of what there is no time for more."""
COMPILED = ("logsumexp", "maps")
"""The sections with time for what takes long to compile."""
ours_torch = partial(of_tensors, names.OURS)
tensors_too = has(names.OURS, *COMPILED, "short", "cpu", dtypes=FLOAT32)
jax_too = has(names.JAX, *COMPILED, "own", "cpu", dtypes=FLOAT32)
ROUNDS = (
    (
        row(names.OURS),
        row(names.SUM, fits=has(names.SUM, dtypes=FLOAT32)),
        row(names.SCIPY, scipy),
        row(names.TORCH, of_tensors, turn=1),
        Peer(names.OURS_TORCH, ours_torch, fits=tensors_too, turn=1),
        row(names.LAYER, of_tensors, fits=last_axis),
        row(names.NAIVE, naive),
        row(names.SPECIAL),
        row(names.ELEMENTWISE),
    ),
    (row(names.KERNEL, by_kernel),),  # CUB's headers take seconds to compile
    (Peer(names.JAX, jax, "host", fits=jax_too, turn=2),),
    (Peer(names.COMPILE, compiled, fits=has(names.TORCH, *COMPILED)),),
    (
        Peer(names.APPLY, of_slices, fits=has(names.APPLY, "cpu")),
        Peer(names.CAREFUL, careful, fits=has(names.CAREFUL, "cpu")),
        Peer(names.NUMBA, numba, fits=has(names.NUMBA, "cpu"), turn=1),
    ),
)
"""What matters most comes first; the last ones are for a CPU."""
PEERS = {peer.name: peer for peers in ROUNDS for peer in peers}
ON_CPU = (
    *(names.OURS, names.APPLY, names.SUM, names.CAREFUL, names.SCIPY),
    *(names.TORCH, names.OURS_TORCH, names.NUMBA, names.JAX),
)


# --- the cases ------------------------------------------------------------------------

LSE = (
    ((4_194_304, 16), 1),
    ((65_536, 1024), 1),
    ((1024, 65_536), 0),
    ((64, 1_048_576), 1),
    ((256, 256, 64, 16), 0),
)
MAPS = (*LSE, ((16_384, 4096), 1), ((2048, 32_768), 1))
SHORT = (((20_000_000, 3), 1), ((20_000_000, 4), 1), ((3, 20_000_000), 0))
SQUARES = (((8192, 8192), None, False), ((8192, 8192), None, True))
CPU = (
    ((1_000_000, 12), 1, False, "float32"),
    ((4096, 1024), 1, False, "float32"),
    ((1024, 4096), 0, False, "float32"),
    ((1_000_000, 12), 1, False, "float64"),
    ((1_000_000, 16), 1, False, "float32"),
    ((4096, 1024), 1, False, "float64"),
    ((1024, 4096), 0, False, "float64"),
    ((16, 1_000_000), 1, False, "float32"),
    ((1_000_000, 16), 1, False, "float64"),
)
OF_CPU = (
    *("standardize", "softmax", "logsumexp", "masked mean", "median"),
    *("cumsum", "convolve", "argmax", "norm"),
)
SECTIONS: dict[str, Sequence[tuple[str, Sequence[str], Any]]] = {
    "gpu": (
        ("logsumexp", ("logsumexp",), LSE),
        ("maps", ("softmax", "standardize"), MAPS),
        ("short", ("logsumexp", "norm", "normalize", "softmax", "standardize", "mean_var"), SHORT),
        ("own", ("squared_diff",), SQUARES),
        ("own", ("l2norm",), LSE[:3]),
        ("plain", ("plain z-score", "plain logsumexp"), LSE[:2]),
    ),
    "cpu": (*(("cpu", OF_CPU, (place,)) for place in CPU), ("cpu", ("mean_var",), CPU[:1])),
}
"""A section, its functions, and of each the shapes and axes."""


def cases(on: Any, device: str, quick: bool = False) -> list[Case]:
    found = [
        Case(on, section, function, *place)
        for section, functions, places in SECTIONS[device]
        for function in functions
        for place in places
    ]
    for case in found:
        while quick and math.prod(case.shape) > FEWER:
            at = case.shape.index(max(case.shape))
            case.shape = (*case.shape[:at], case.shape[at] // 2, *case.shape[at + 1 :])
    return found


_LIBRARIES = (names.OURS, names.OURS_TORCH, names.TORCH, names.SCIPY)
SMALL = {
    "logsumexp": (*_LIBRARIES, names.KERNEL),
    "softmax": _LIBRARIES,
    "standardize": _LIBRARIES,
    "squared_diff": (names.OURS, names.ELEMENTWISE, names.TORCH, names.KERNEL),
    "l2norm": (names.OURS, names.TORCH, names.KERNEL),
}
"""Of which calls on arrays of shape (4, 8) are timed: what is left is the host's time."""


def first_calls(on: Any) -> list[tuple[str, Call]]:
    """Functions and shapes that no other case has, in this order."""

    def x(*shape: int) -> Any:
        return Case(on, "first", "logsumexp", shape, 1).arrays[0]

    xs = [x(65_536, 48), x(32_768, 48), x(4096, 3000), x(48, 65_536)]
    f = special.log_softmax
    return [
        ("a new function", lambda: f(xs[0], 1)),
        ("the same, another number of slices", lambda: f(xs[1], 1)),
        ("the same, longer slices", lambda: f(xs[2], 1)),
        ("the same, along axis 0", lambda: f(xs[3], 0)),
        ("`elementwise` of a new expression", lambda: _FIRST(xs[0])),
    ]


_FIRST = xpapply.elementwise(lambda x: np.tanh(x) * x + 0.125)


# --- the run --------------------------------------------------------------------------


def start(run: runner.Run) -> dict[str, Any]:
    return {"device": run.args.device, "limits": limits(run), "cases": {}}


def limits(run: runner.Run) -> dict[str, float]:
    """Bytes per second, read and written, of copies; on a CPU also of those to new memory."""
    if run.args.device == "gpu":
        return {"copy": run.on.copy_rate()}
    megabytes = 16 if run.quick else 128
    x = np.ones(megabytes << 18, np.float32)
    new = 2 * x.nbytes / min(clocks.seconds(x.copy) for _ in range(9))
    return {"copy": run.on.copy_rate(megabytes, (1, runner.cores())), "new": new}


def measure(run: runner.Run) -> None:
    if run.args.device == "cpu":
        torch.set_num_threads(runner.cores())
        host(run)
        chosen = {case.function for case in run.chosen(cases(run.on, "cpu"))} & set(OF_CPU)
        if chosen:
            run.part("fresh", lambda: cpu_first.first_calls("slices", *sorted(chosen)))
        by_peers(run, [PEERS[name] for name in ON_CPU])
        return
    by_peers(run, ROUNDS[0])
    host(run)
    for name, call in first_calls(run.on):
        first = lambda call=call: clocks.seconds(lambda: devices.wait(call(), run.on))  # noqa: E731
        run.part(f"first/{name}", first)
    for peers in ROUNDS[1:]:
        by_peers(run, peers)


def by_peers(run: runner.Run, peers: Sequence[Peer]) -> None:
    todo = run.chosen(cases(run.on, run.args.device, run.quick))
    while todo:
        case = todo.pop(0)  # its arrays end with it
        new = {"section": case.section, "function": case.function, "axis": case.axis}
        new |= {"shape": case.shape, "row": case.row, "ways": {}}
        entry = run.data["cases"].setdefault(case.name, new)
        run.measure(case, peers, entry["ways"], 3 if run.quick else REPEATS)
        if "bytes" not in entry and any("first" in found for found in entry["ways"].values()):
            entry["bytes"] = case.bytes()


def host(run: runner.Run) -> None:
    for function, peers in SMALL.items():
        case = Case(run.on, "host", function, (4, 8), None if function == "squared_diff" else 1)
        todo = [PEERS[name] for name in peers]
        run.part(f"host/{function}", partial(runner.small, case, todo, 15, HOST_CALLS))
