"""Models in ONNX files on NumPy and CuPy arrays: xpapply beside onnxruntime, in its best batch.

On a GPU xpapply gets CuPy arrays, and torch has the network that the file was made of, and tensors
that are there already; onnxruntime has its CUDA provider if it was built with that, else the CPU.
Needs torch and skl2onnx, which export them, onnx and onnxruntime; CuPy on a GPU.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import xpapply

from . import clocks, devices, runner
from .networks import Net
from .onnx_report import OURS, RUNTIME, TORCH

BATCHES = {"cpu": (64, 256, 1024, 4096, 1 << 14), "gpu": (1 << 14,)}
"""Of onnxruntime, beside all slices in one."""
REPEATS = 7
QUICK = 1 << 11


def cnn() -> nn.Module:
    first = [nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*first, *second, nn.Linear(16, 10))


def normalised() -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(2):
        layers += [nn.Linear(32, 32), nn.BatchNorm1d(32), nn.GELU()]
    return nn.Sequential(*layers, nn.LayerNorm(32), nn.Linear(32, 4), nn.Softmax(-1))


def forest(count: int = 100, depth: int = 8) -> Any:
    """Of scikit-learn, fitted to products of two features."""
    from sklearn.ensemble import RandomForestRegressor

    x = np.random.default_rng(0).normal(size=(3000, 16))
    found = RandomForestRegressor(count, max_depth=depth, random_state=0)
    return found.fit(x, x[:, 0] * x[:, 1] + x[:, 2])


class Model:
    """A model, how its slices look, and how many there are."""

    def __init__(
        self, name: str, make: Callable[[], Any], shape: tuple[int, ...], slices: int
    ) -> None:
        self.name, self.make, self.shape, self.slices = name, make, shape, slices


def _dense(*widths: int, activation: str = "ReLU", slices: int = 1 << 18) -> Model:
    net = Net(widths, activation)
    return Model(net.name, net.module, widths[:1], slices)


MODELS = (
    _dense(8, 16, 1),
    _dense(16, 32, 32, 1),
    _dense(16, 64, 64, 64, 4),
    _dense(10, 50, 50, 3, activation="GELU"),
    _dense(32, 128, 128, 128, 8),
    Model("BatchNorm, GELU, LayerNorm, softmax", normalised, (32,), 1 << 18),
    Model("forest of 100 trees", forest, (16,), 1 << 17),
    Model("CNN of 12 x 12", cnn, (1, 12, 12), 1 << 14),
    Model("CNN of 28 x 28", cnn, (1, 28, 28), 1 << 12),
)


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    torch.set_num_threads(runner.cores())
    repeats = run.args.repeats or (3 if run.quick else REPEATS)
    return {"settings": {"repeats": repeats, "threads": runner.cores()}, "models": {}}


def measure(run: runner.Run) -> None:
    """All models, each in a part of its own."""
    for model in run.chosen(MODELS):
        run.part(f"models/{model.name}", partial(timed, run, model), line)


def line(found: dict[str, Any]) -> str:
    """What a run says of a model."""
    return f"{found['ratio']:.2f} times the rate of onnxruntime, by {found['engine']}"


def timed(run: runner.Run, model: Model) -> dict[str, Any]:
    """Both on the same slices, onnxruntime in batches of several sizes."""
    on_gpu = run.args.device == "gpu"
    many = model.slices << 2 if on_gpu else model.slices
    count = run.args.slices or (min(QUICK, many) if run.quick else many)
    x = np.random.default_rng(0).normal(size=(count, *model.shape)).astype(np.float32)
    axes = tuple(range(1, x.ndim)) if len(model.shape) > 1 else 1
    arr = run.on.array(torch.from_numpy(x).to(run.on.name)) if on_gpu else x
    with tempfile.TemporaryDirectory() as folder:
        path = exported(model, Path(folder, "model.onnx"))
        f, session = xpapply.load_model(path), opened(path, on_gpu)
    name = session.get_inputs()[0].name

    def in_batches(size: int) -> np.ndarray:
        parts = (x[k : k + size] for k in range(0, count, size))
        return np.concatenate([session.run(None, {name: part})[0] for part in parts])

    def ours() -> Any:
        return xpapply.apply_along_axis(f, axes, arr)

    calls: dict[str, clocks.Call] = {OURS: ours}
    sizes = (n for n in BATCHES[run.args.device] if n < count)
    calls |= {f"{RUNTIME}, {n}": partial(in_batches, n) for n in sizes}
    calls[f"{RUNTIME}, all"] = partial(in_batches, count)
    if on_gpu:
        calls |= by_torch(model, torch.from_numpy(x).to(run.on.name))
    results = {key: on_host(call()) for key, call in calls.items()}
    scale = float(np.abs(results[f"{RUNTIME}, all"]).max()) or 1.0
    error = float(np.abs(results[OURS] - results[f"{RUNTIME}, all"]).max()) / scale
    median = medians(run, calls)
    best = min((key for key in median if key.startswith(RUNTIME)), key=median.__getitem__)
    return {
        "slices": count,
        "shape": list(model.shape),
        "seconds": median,
        "best": best,
        "ratio": median[best] / median[OURS],
        "error": error,
        "engine": xpapply.explain(f, axes, arr).engine,
        "provider": session.get_providers()[0],
        "bytes": 4 * math.prod(x.shape),
    }


def exported(model: Model, path: Path) -> Path:
    """The model as a file, with any number of slices."""
    torch.manual_seed(0)
    made = model.make()
    if not isinstance(made, nn.Module):
        import skl2onnx

        kind = skl2onnx.common.data_types.FloatTensorType([None, *model.shape])
        path.write_bytes(skl2onnx.to_onnx(made, initial_types=[("x", kind)]).SerializeToString())
        return path
    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "slices"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.zeros(2, *model.shape)
        torch.onnx.export(made.eval(), (x,), path, dynamo=False, **names)
    return path


def by_torch(model: Model, x: torch.Tensor) -> dict[str, clocks.Call]:
    """The network that the file was made of, on a GPU."""
    torch.manual_seed(0)
    made = model.make()
    if not isinstance(made, nn.Module):
        return {}
    torch.backends.cudnn.allow_tf32 = False
    net = made.eval().requires_grad_(False).to(x.device)
    return {TORCH: torch.inference_mode()(lambda: net(x))}


def medians(run: runner.Run, calls: dict[str, clocks.Call]) -> dict[str, float]:
    """Seconds of each: on a CPU in turns, on a GPU of calls that follow each other."""
    if run.args.device == "gpu":
        found = {key: devices.by_host(call, run.on, 1.0) for key, call in calls.items()}
    else:
        clocks.in_turns(calls, 1)  # what is compiled beside the first calls is there now
        times = clocks.in_turns(calls, run.data["settings"]["repeats"], run.on.pause)
        found = {key: clocks.summary(seconds) for key, seconds in times.items()}
    return {key: entry["median"] for key, entry in found.items()}


def on_host(y: Any) -> np.ndarray:
    """A result as NumPy has it."""
    return y.cpu().numpy() if isinstance(y, torch.Tensor) else getattr(y, "get", lambda: y)()


def opened(path: Path, on_gpu: bool = False) -> Any:
    """A session of onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = runner.cores()
    # threads that go on spinning would take the cores from the others' calls
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    every = onnxruntime.get_available_providers()
    providers = [p for p in ("CUDAExecutionProvider",) if on_gpu and p in every]
    return onnxruntime.InferenceSession(
        path.read_bytes(), options, providers=[*providers, "CPUExecutionProvider"]
    )
