"""The networks, and the other ways to run them."""

from __future__ import annotations

import functools
import io
import logging
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np
import timing
import torch

Call = Callable[[], Any]

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

    @property
    def name(self) -> str:
        return f"{'-'.join(map(str, self.widths))} {self.activation}"

    def module(self, device: Any = "cpu") -> torch.nn.Sequential:
        """As a torch module: the same weights every time, and no gradients wanted."""
        torch.manual_seed(0)
        layers: list[Any] = []
        for inputs, outputs in zip(self.widths[:-1], self.widths[1:], strict=True):
            layers += [torch.nn.Linear(inputs, outputs), _MODULES[self.activation]()]
        return torch.nn.Sequential(*layers[:-1]).eval().requires_grad_(False).to(device)

    def weights(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights (outputs, inputs) and biases (outputs,) of the layers."""
        linear = [m for m in self.module() if isinstance(m, torch.nn.Linear)]
        return [(m.weight.numpy(), m.bias.numpy()) for m in linear]

    def flop(self, rows: int) -> int:
        """Of the products alone."""
        return timing.flop(self.widths, rows)

    def bytes(self, rows: int) -> int:
        """Every slice read once and every result written once, in float32."""
        return timing.traffic(self.widths, rows)


def reference(net: Net, x: torch.Tensor, rows: int = 1 << 18) -> torch.Tensor:
    """Of all rows, in float64, on the device of `x`."""
    module = net.module(x.device).double()
    out = torch.empty((len(x), net.widths[-1]), dtype=torch.float64, device=x.device)
    for a in range(0, len(x), rows):
        out[a : a + rows] = module(x[a : a + rows].double())
    return out


def relative_error(y: torch.Tensor, truth: torch.Tensor) -> float:
    """``|y - truth| / |truth|`` in the Euclidean norm; NaN if any number is missing."""
    if y.shape != truth.shape:
        raise ValueError(f"a result of shape {tuple(y.shape)}, not {tuple(truth.shape)}")
    return float((y.to(truth) - truth).norm() / truth.norm())


# --- torch ----------------------------------------------------------------------------


def torch_eager(module: Any, x: torch.Tensor) -> Call:
    return torch.inference_mode()(lambda: module(x))


def torch_chunks(module: Any, x: torch.Tensor, outputs: int, rows: int) -> Call:
    """By hand: chunks that fit a cache, into memory that is there already."""
    out = torch.full((len(x), outputs), torch.nan, dtype=x.dtype, device=x.device)

    @torch.inference_mode()
    def call() -> torch.Tensor:
        for a in range(0, len(x), rows):
            out[a : a + rows] = module(x[a : a + rows])
        return out

    return call


def torch_vmap(module: Any, x: torch.Tensor) -> Call:
    batched = torch.vmap(module)
    return torch.inference_mode()(lambda: batched(x))


_compile_failed: list[str] = []


def torch_compile(module: Any, x: torch.Tensor) -> tuple[Call, str]:
    """Compiled and called once; a remark if that took a second attempt.

    Whoever lacks a compiler lacks it for every network: after one that failed
    twice the others are not tried.
    """
    if _compile_failed:
        raise RuntimeError(_compile_failed[0])
    logging.getLogger("torch._inductor").setLevel(logging.ERROR)
    note = ""
    for attempt in range(2):
        torch._dynamo.reset()
        compiled = torch.compile(module, dynamic=False)
        call = torch.inference_mode()(lambda compiled=compiled: compiled(x))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call()
        except Exception as error:
            text = timing.reason(error)
            if attempt:
                _compile_failed.append(text)
                raise
            note = f"its first call failed ({text}), the second one worked"
        else:
            break
    return call, note


# --- JAX ------------------------------------------------------------------------------


def jax_vmap(net: Net, x: Any, precision: str | None) -> Call:
    """``jit(vmap(f))`` of a function of one slice; `x` is a JAX array."""
    import jax
    import jax.numpy as jnp

    # exact GELU, as in torch; the default here is the approximation by tanh
    gelu = functools.partial(jax.nn.gelu, approximate=False)
    act = {"ReLU": jax.nn.relu, "tanh": jnp.tanh, "GELU": gelu, "SiLU": jax.nn.silu}[net.activation]

    def one_slice(v: Any, layers: Any) -> Any:
        for k, (w, b) in enumerate(layers):
            v = jnp.dot(w, v, precision=precision) + b
            v = act(v) if k + 1 < len(layers) else v
        return v

    run = jax.jit(jax.vmap(one_slice, in_axes=(0, None)))
    layers = [(jnp.asarray(w), jnp.asarray(b)) for w, b in net.weights()]
    return lambda: run(x, layers)


# --- onnxruntime ----------------------------------------------------------------------


def onnx_model(net: Net) -> tuple[bytes, str]:
    """The network as ONNX with any number of rows; and who wrote it."""
    try:
        import onnxscript  # noqa: F401

        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            rows = torch.export.Dim("rows", min=1)
            program = torch.onnx.export(
                net.module(),
                (torch.zeros(8, net.widths[0]),),
                input_names=["x"],
                output_names=["y"],
                dynamic_shapes=({0: rows},),
                dynamo=True,
                verbose=False,
            )
        return program.model_proto.SerializeToString(), "model by torch.onnx.export"
    except Exception:
        return _onnx_by_hand(net), "model by onnx.helper"


def _onnx_by_hand(net: Net) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights, x = [], [], "x"
    layers = net.weights()
    for k, (w, b) in enumerate(layers):
        weights += [numpy_helper.from_array(w, f"w{k}"), numpy_helper.from_array(b, f"b{k}")]
        last = k + 1 == len(layers)
        h = "y" if last else f"h{k}"
        nodes.append(helper.make_node("Gemm", [x, f"w{k}", f"b{k}"], [h], transB=1))
        if last:
            break
        x = f"a{k}"
        if net.activation == "SiLU":
            nodes.append(helper.make_node("Sigmoid", [h], [f"s{k}"]))
            nodes.append(helper.make_node("Mul", [h, f"s{k}"], [x]))
        else:
            op = {"ReLU": "Relu", "tanh": "Tanh", "GELU": "Gelu"}[net.activation]
            nodes.append(helper.make_node(op, [h], [x]))

    def value(name: str, width: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])

    first, *_, final = net.widths
    graph = helper.make_graph(nodes, "net", [value("x", first)], [value("y", final)], weights)
    opset = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()


def onnx_session(net: Net, provider: str, threads: int = 0) -> tuple[Any, str]:
    """An onnxruntime session; and who wrote the model."""
    import onnxruntime

    if provider not in onnxruntime.get_available_providers():
        raise RuntimeError(f"this onnxruntime has no {provider}")
    model, note = onnx_model(net)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    # threads that go on spinning would take the cores from the others' calls
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=[provider])
    if session.get_providers()[0] != provider:
        raise RuntimeError(f"{provider} is there, but could not be started")
    return session, note
