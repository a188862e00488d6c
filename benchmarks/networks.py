"""Networks, and the ways to run them: what the suites `cpu` and `gpu` have in common."""

from __future__ import annotations

import functools
import io
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

import xpapply

from . import clocks, pages, runner
from .clocks import Call

_MODULES = {
    "ReLU": torch.nn.ReLU,
    "tanh": torch.nn.Tanh,
    "GELU": torch.nn.GELU,
    "SiLU": torch.nn.SiLU,
}


@dataclass(frozen=True)
class Net:
    """Linear layers with biases, an activation between them, none at the end."""

    widths: tuple[int, ...]
    activation: str = "ReLU"
    dtype: str = "float32"

    @property
    def name(self) -> str:
        name = f"{'-'.join(map(str, self.widths))} {self.activation}"
        return name if self.dtype == "float32" else f"{name} {self.dtype}"

    def module(self, device: Any = "cpu") -> torch.nn.Sequential:
        """As a torch module: the same weights every time, and no gradients wanted."""
        torch.manual_seed(0)
        layers: list[Any] = []
        for inputs, outputs in zip(self.widths[:-1], self.widths[1:], strict=True):
            layers += [torch.nn.Linear(inputs, outputs), _MODULES[self.activation]()]
        module = torch.nn.Sequential(*layers[:-1]).eval().requires_grad_(False)
        return module.to(device, getattr(torch, self.dtype))

    def weights(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights (outputs, inputs) and biases (outputs,) of the layers."""
        linear = [m for m in self.module() if isinstance(m, torch.nn.Linear)]
        return [(m.weight.numpy(), m.bias.numpy()) for m in linear]


EXACT = 1 << 14
"""Slices whose results in float64 are compared with long double."""
ROUNDING = 1e-12
"""A larger error in float64 is none of rounding."""


def named(name: str) -> Net:
    """The network of this name."""
    return Net(pages.widths(name), name.split()[1], pages.dtype(name))


def inner(slices: int) -> int:
    """Slices behind a middle axis; the others stand before it."""
    return math.gcd(slices, 1024)


@dataclass
class Case(runner.Case):
    """A network and its input on the device; what is costly is made when it is first wanted."""

    net: Net
    slices: int
    on: Any
    sample: int = 200

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.net.name

    @property
    def scale(self) -> float:  # type: ignore[override]
        return self.slices / self.sample

    @cached_property
    def x(self) -> torch.Tensor:
        """Slices from a normal distribution, (slices, n)."""
        generator = torch.Generator(self.on.name).manual_seed(0)
        shape = (self.slices, self.net.widths[0])
        dtype = getattr(torch, self.net.dtype)
        return torch.randn(shape, generator=generator, device=self.on.name, dtype=dtype)

    def along(self, axis: int) -> torch.Tensor:
        """The same with the slices along 0 or 1, the middle axis of three."""
        if axis == -1:
            return self.x
        if axis == 0:
            return self.x.T.contiguous()
        shape = (-1, inner(self.slices), self.net.widths[0])
        return self.x.reshape(shape).transpose(1, 2).contiguous()

    @cached_property
    def module(self) -> Any:
        return self.net.module(self.on.name)

    @cached_property
    def truth(self) -> torch.Tensor:
        """Of all slices, in float64."""
        module = self.net.module(self.on.name).double()
        return torch.cat([module(part.double()) for part in self.x.split(1 << 18)])

    @cached_property
    def exact(self) -> np.ndarray:
        """Of the first slices in long double: of networks in float64 with ReLU."""
        v = self.x[:EXACT].cpu().numpy().astype(np.longdouble)
        for k, (w, b) in enumerate(self.net.weights()):
            v = (np.maximum(v, 0) if k else v) @ w.T.astype(v.dtype) + b
        return v

    def sizes(self) -> set[int]:
        return {len(self.truth) * width for width in self.net.widths[1:]}

    def error(self, y: Any, peer: runner.Peer) -> float:
        y = tensor(y, self.on).movedim(peer.axis, -1).reshape(-1, self.net.widths[-1])
        rows = self.sample if peer.clock == "sample" else self.slices
        found = relative_error(y, self.truth[:rows])
        if self.net.dtype == "float32" or not found < ROUNDING:
            return found
        first = y[:EXACT].cpu().numpy()
        difference = np.linalg.norm(first - self.exact[: len(first)])
        return float(difference / np.linalg.norm(self.exact[: len(first)]))


def tensor(y: Any, on: Any) -> torch.Tensor:
    """The result of any library as a tensor on the device."""
    if isinstance(y, torch.Tensor):
        return y.to(on.name)
    if isinstance(y, (np.ndarray, np.generic)):
        return torch.from_numpy(np.array(y)).to(on.name)
    return torch.from_dlpack(y).to(on.name)


def relative_error(y: torch.Tensor, truth: torch.Tensor) -> float:
    """``|y - truth| / |truth|`` in the Euclidean norm; NaN if any number is missing."""
    if y.shape != truth.shape:
        raise ValueError(f"a result of shape {tuple(y.shape)}, not {tuple(truth.shape)}")
    return float((y.to(truth) - truth).norm() / truth.norm())


# --- xpapply --------------------------------------------------------------------------


def ours(case: Case, axis: int = -1, half: bool = False, tensors: bool = False) -> Call:
    """Of NumPy's or CuPy's array, or of tensors on its device."""
    module, x = case.net.module(case.on.name if tensors else "cpu"), case.along(axis)
    if half:
        module, x = module.half(), x.half()
    array = x if tensors else case.on.array(x)
    return lambda: xpapply.apply_along_axis(module, axis, array)


# --- torch ----------------------------------------------------------------------------


def eager(case: Case, half: bool = False) -> Call:
    module, x = case.module, case.x
    if half:
        module, x = case.net.module(case.on.name).half(), x.half()
    return torch.inference_mode()(lambda: module(x))


def module(case: Case) -> Call:
    """As it is called without further thought."""
    f, x = case.module, case.x
    return lambda: f(x)


def from_numpy_to_numpy(case: Case) -> Call:
    f, x = case.module, case.on.array(case.x)
    return lambda: f(torch.from_numpy(x)).numpy()


def chunks(case: Case, size: int) -> Call:
    """By hand: chunks that fit a cache, into memory that is there already."""
    module, x = case.module, case.x
    out = torch.full((len(x), case.net.widths[-1]), torch.nan, device=x.device, dtype=x.dtype)

    @torch.inference_mode()
    def call() -> torch.Tensor:
        for a in range(0, len(x), size):
            out[a : a + size] = module(x[a : a + size])
        return out

    return call


def compiled(case: Case) -> tuple[Call, str]:
    return torch_compile(case.module, case.x)


_compile_failed: list[str] = []


def torch_compile(f: Callable[..., Any], *xs: torch.Tensor) -> tuple[Call, str]:
    """Compiled and called once; a remark if that took a second attempt.

    Whoever lacks a compiler lacks it for everything: after three that failed twice the others are
    not tried.
    """
    if len(_compile_failed) > 2:
        raise RuntimeError(_compile_failed[0])
    logging.getLogger("torch._inductor").setLevel(logging.ERROR)
    note = ""
    for attempt in range(2):
        torch._dynamo.reset()
        run = torch.compile(f, dynamic=False)
        call = torch.inference_mode()(lambda run=run: run(*xs))
        try:
            call()
            break
        except Exception as error:
            text = clocks.reason(error)
            if attempt:
                _compile_failed.append(text)
                raise
            note = f"its first call failed ({text}), the second one worked"
    return call, note


# --- JAX ------------------------------------------------------------------------------


def jax_call(on: Any, run: Callable[..., Any], tensors: Any, *more: Any) -> Call:
    """``run(*tensors, *more)`` in JAX; on the CPU the call ends when the result is there."""
    import jax
    import jax.numpy as jnp

    wanted = "gpu" if on.name == "cuda" else "cpu"
    if jax.default_backend() != wanted:
        raise RuntimeError(f"JAX runs on {jax.default_backend()} here")

    def moved(t: torch.Tensor) -> Any:
        try:
            return jnp.from_dlpack(t)
        except Exception:  # versions that refuse each other's protocol
            return jnp.asarray(t.cpu().numpy())

    xs = [moved(t) for t in tensors]
    if wanted == "cpu":
        return lambda: jax.block_until_ready(run(*xs, *more))
    return lambda: run(*xs, *more)


def jax(case: Case, precision: str | None = None) -> Call:
    """``jit(vmap(f))`` of a function of one slice."""
    import jax
    import jax.numpy as jnp

    # exact GELU, as in torch; the default here is the approximation by tanh
    gelu = functools.partial(jax.nn.gelu, approximate=False)
    acts = {"ReLU": jax.nn.relu, "tanh": jnp.tanh, "GELU": gelu, "SiLU": jax.nn.silu}
    act = acts[case.net.activation]

    def one_slice(v: Any, layers: Any) -> Any:
        for k, (w, b) in enumerate(layers):
            v = jnp.dot(w, v, precision=precision) + b
            v = act(v) if k + 1 < len(layers) else v
        return v

    run = jax.jit(jax.vmap(one_slice, in_axes=(0, None)))
    layers = [(jnp.asarray(w), jnp.asarray(b)) for w, b in case.net.weights()]
    return jax_call(case.on, run, [case.x], layers)


# --- onnxruntime ----------------------------------------------------------------------


def onnx_model(net: Net) -> bytes:
    """The network as ONNX, with any number of slices."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with redirect_stdout(io.StringIO()):
        program = torch.onnx.export(
            net.module(),
            (torch.zeros(8, net.widths[0], dtype=getattr(torch, net.dtype)),),
            input_names=["x"],
            output_names=["y"],
            dynamic_shapes=({0: torch.export.Dim("slices", min=1)},),
            dynamo=True,
            verbose=False,
        )
    return program.model_proto.SerializeToString()


def onnx(case: Case) -> tuple[Call, str]:
    """A session of onnxruntime."""
    import onnxruntime

    gpu = case.on.name == "cuda"
    provider = f"{'CUDA' if gpu else 'CPU'}ExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        raise RuntimeError(f"this onnxruntime has no {provider}")
    note = "model by torch.onnx.export"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 0 if gpu else runner.cores()
    # threads that go on spinning would take the cores from the others' calls
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(onnx_model(case.net), options, providers=[provider])
    if session.get_providers()[0] != provider:
        raise RuntimeError(f"{provider} is there, but could not be started")
    if not gpu:
        x = case.x.numpy()
        return lambda: session.run(None, {"x": x})[0], note
    out = torch.full((case.slices, case.net.widths[-1]), torch.nan, device=case.on.name)
    binding = session.io_binding()
    for bind, name, t in ((binding.bind_input, "x", case.x), (binding.bind_output, "y", out)):
        bind(name, case.on.name, 0, np.float32, tuple(t.shape), t.data_ptr())

    def call() -> torch.Tensor:
        session.run_with_iobinding(binding)
        return out

    return call, note


# --- CuPy -----------------------------------------------------------------------------

_IN_CUDA = {
    "ReLU": "s > 0 ? s : 0",
    "tanh": "tanh(s)",
    "GELU": "0.5f * s * (1 + erf(s * 0.70710678f))",
    "SiLU": "s / (1 + exp(-s))",
    "": "s",
}


@functools.cache
def layer_kernel(activation: str) -> Any:
    """A thread per slice and output, a loop over the inputs."""
    import cupy

    return cupy.ElementwiseKernel(
        "raw float32 x, raw float32 w, raw float32 b, int32 inputs, int32 outputs",
        "float32 y",
        f"""
        const ptrdiff_t row = i / outputs;
        const int o = i - row * outputs;
        float s = b[o];
        for (int k = 0; k < inputs; ++k)
            s += x[row * inputs + k] * w[o * inputs + k];
        y = {_IN_CUDA[activation]};
        """,
        f"layer_{activation or 'linear'}",
    )


def needs_gpu(on: Any) -> None:
    if on.name != "cuda":
        raise RuntimeError("needs a GPU")


def by_layers(case: Case) -> Call:
    """What one writes by hand in CuPy: a kernel per layer."""
    needs_gpu(case.on)
    xp = case.on.xp
    x = case.on.array(case.x)
    layers = [(xp.asarray(w), xp.asarray(b)) for w, b in case.net.weights()]

    def call() -> Any:
        h = x
        for k, (w, b) in enumerate(layers):
            y = xp.empty((len(h), len(w)), xp.float32)
            kernel = layer_kernel(case.net.activation if k + 1 < len(layers) else "")
            h = kernel(h, w, b, w.shape[1], w.shape[0], y)
        return h

    return call


def matmul(case: Case) -> Call:
    """cuBLAS and CuPy's ufuncs, in place where that is possible."""
    xp = case.on.xp
    x = case.on.array(case.x)
    layers = [(xp.asarray(np.ascontiguousarray(w.T)), xp.asarray(b)) for w, b in case.net.weights()]

    def activate(h: Any) -> Any:
        match case.net.activation:
            case "ReLU":
                return xp.maximum(h, 0, out=h)
            case "tanh":
                return xp.tanh(h, out=h)
            case "SiLU":
                return h / (1 + xp.exp(-h))
        if xp is np:
            from scipy.special import erf
        else:
            from cupyx.scipy.special import erf
        return h * (0.5 * (1 + erf(h * np.float32(math.sqrt(0.5)))))

    def call() -> Any:
        h = x
        for k, (w, b) in enumerate(layers):
            h = xp.matmul(h, w)
            h += b
            h = activate(h) if k + 1 < len(layers) else h
        return h

    return call


# --- loops ----------------------------------------------------------------------------


def numpy_loop(case: Case) -> tuple[Call, str]:
    x, module = case.x[: case.sample].cpu().numpy(), case.net.module()

    def one_slice(v: np.ndarray) -> np.ndarray:
        return module(torch.from_numpy(v)).numpy()

    call = torch.inference_mode()(lambda: np.apply_along_axis(one_slice, -1, x))
    return call, f"extrapolated from {len(x):,} slices"


def cupy_loop(case: Case) -> tuple[Call, str]:
    needs_gpu(case.on)
    xp, module = case.on.xp, case.module
    x = case.on.array(case.x[: case.sample])

    def one_slice(v: Any) -> Any:
        return xp.from_dlpack(module(torch.from_dlpack(v)))

    call = torch.inference_mode()(lambda: xp.apply_along_axis(one_slice, -1, x))
    return call, f"extrapolated from {len(x):,} slices"


# --- few slices -----------------------------------------------------------------------


def few(
    on: Any, net: Net, counts: Sequence[int], peers: Sequence[runner.Peer], repeats: int
) -> dict[str, dict[str, float]]:
    """Microseconds of the host per call, by peers and numbers of slices."""
    found: dict[str, dict[str, float]] = {}
    for slices in counts:
        case, batch = Case(net, slices, on), max(5, min(100, 20_000 // slices))
        for name, entry in runner.small(case, peers, repeats, batch).items():
            if "skipped" in entry:
                print(f"  {net.name}, {name}, {slices} slices: {entry['skipped']}", flush=True)
            else:
                found.setdefault(name, {})[str(slices)] = entry["median"]
    return found
