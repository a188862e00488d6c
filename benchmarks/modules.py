"""Convolutional, recurrent and attending networks on stacks of images, volumes and series.

xpapply beside torch's own forward of a batch, by hand: of the whole stack, and in chunks of each
size, of which the best counts. On a CPU both begin and end with NumPy arrays; on a GPU xpapply gets
CuPy arrays and CUDA tensors, and torch tensors that are there already. There torch has its compiler
and the channels last in memory as well. All compute in float32: TF32 is off. Needs torch; CuPy on a
GPU.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import xpapply

from . import clocks, runner
from .modules_report import COMPILED, FEW, HIGH, LAST, OURS, OURS_TENSOR, TORCH, best_of_torch
from .pages import digits

REPEATS = 7
SECONDS = 0.02
"""Calls follow each other for so long in each repeat, at least."""
BEFORE = 1.5
"""Seconds of calls of a few slices, before they are measured."""
COMPARED = 512
"""Slices that are computed in float64 as well."""


class Lambda(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Block(nn.Module):
    """The basic block of ResNet, as many channels as it gets."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(y)))


class UNet(nn.Module):
    """Of depth 2, from one channel to two of the same size."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()

        def two(a: int, b: int) -> nn.Module:
            layers = [nn.Conv2d(a, b, 3, padding=1), nn.ReLU()]
            return nn.Sequential(*layers, nn.Conv2d(b, b, 3, padding=1), nn.ReLU())

        self.down1, self.down2 = two(1, width), two(width, 2 * width)
        self.middle = two(2 * width, 4 * width)
        self.up2, self.out2 = (
            nn.ConvTranspose2d(4 * width, 2 * width, 2, 2),
            two(4 * width, 2 * width),
        )
        self.up1, self.out1 = nn.ConvTranspose2d(2 * width, width, 2, 2), two(2 * width, width)
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        y = self.middle(F.max_pool2d(b, 2))
        y = self.out2(torch.cat([self.up2(y), b], 1))
        return self.last(self.out1(torch.cat([self.up1(y), a], 1)))


class DnCNN(nn.Module):
    """Says what of an image is noise, and takes it away: 17 layers of 64 channels."""

    def __init__(self, depth: int = 17, width: int = 64) -> None:
        super().__init__()
        layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
            layers += [nn.ReLU()]
        self.noise = nn.Sequential(*layers, nn.Conv2d(width, 1, 3, padding=1))
        for layer in layers:  # as its authors have it: numbers keep their size
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - self.noise(x)


class ViT(nn.Module):
    """A block of a vision transformer: 16 patches of 7 x 7, 64 features, 4 heads."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 7, 7)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width) / 10)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.mlp(self.norm2(x))
        return self.head(x[:, 0])


class Steps(nn.Module):
    """A GRU of two layers; what it says after the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(8, 32, 2, batch_first=True), nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.gru(x)[0][:, -1])


def classic() -> nn.Module:
    first = [nn.Conv2d(1, 10, 3), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(10, 20, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(500, 10))


def spectra() -> nn.Module:
    layers = [nn.Conv1d(1, 20, 24), nn.Tanh(), nn.MaxPool1d(5), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(780, 100), nn.Tanh(), nn.Linear(100, 16))


def series() -> nn.Module:
    layers = [nn.Conv1d(1, 16, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2)]
    layers += [nn.Conv1d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2)]
    layers += [nn.Conv1d(32, 32, 3, padding=1), nn.ReLU(), Lambda(lambda x: x.mean(-1))]
    return nn.Sequential(*layers, nn.Linear(32, 4))


def patches() -> nn.Module:
    layers = [nn.Conv3d(1, 8, 3), nn.ReLU(), nn.Conv3d(8, 16, 3), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16, 1))


def lenet() -> nn.Module:
    layers = [nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)]
    layers += [nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()]
    layers += [nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(84, 10))


def denoiser() -> nn.Module:
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1))


def classifier() -> nn.Module:
    layers: list[nn.Module] = []
    for a, b in ((1, 8), (8, 16), (16, 32)):
        layers += [nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(32 * 16 * 16, 64), nn.ReLU(), nn.Linear(64, 5)
    )


@dataclass(frozen=True)
class Network:
    """A network, and the slices that it is applied to.

    Attributes
    ----------
    make : callable
        The network, for batches.
    shape : tuple of int
        Of a slice as the network takes it.
    slices : tuple of int
        On a CPU, and on a GPU.
    """

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    slices: tuple[int, int]


NETWORKS = (
    Network("the classic", classic, (1, 28, 28), (4096, 65_536)),
    Network("spectra", spectra, (1, 220), (4096, 262_144)),
    Network("time series", series, (1, 64), (16_384, 262_144)),
    Network("patches", patches, (1, 5, 5, 5), (16_384, 262_144)),
    Network("LeNet", lenet, (1, 28, 28), (4096, 65_536)),
    Network("ResNet block", Block, (16, 28, 28), (1024, 16_384)),
    Network("64 channels", partial(Block, 64), (64, 64, 64), (32, 1024)),
    Network("U-Net of depth 2", UNet, (1, 28, 28), (1024, 16_384)),
    Network("denoiser of images", denoiser, (1, 256, 256), (32, 1024)),
    Network("classes of images", classifier, (1, 128, 128), (256, 4096)),
    Network("U-Net of images", UNet, (1, 128, 128), (64, 2048)),
    Network("DnCNN", DnCNN, (1, 128, 128), (2, 128)),
    Network("ViT block", ViT, (1, 28, 28), (4096, 65_536)),
    Network("GRU, 50 steps", Steps, (50, 8), (4096, 65_536)),
)


def start(run: runner.Run) -> dict[str, Any]:
    torch.set_num_threads(runner.cores())
    torch.backends.cudnn.allow_tf32 = False
    repeats = run.args.repeats or (2 if run.quick else REPEATS)
    settings = {"repeats": repeats, "torch threads": runner.cores(), "before": BEFORE}
    return {"settings": settings, "networks": {}}


def measure(run: runner.Run) -> None:
    for network in run.chosen(NETWORKS):
        run.part(f"networks/{network.name}", partial(of_network, run, network), line)


def line(found: dict[str, Any]) -> str:
    ratios = ", ".join(digits(best_of_torch(c) / c[OURS]) for c in found["counts"].values())
    wrong = f" WRONG: {found['wrong']}" if "wrong" in found else ""
    return f"{ratios} of torch's rate{wrong}"


def of_network(run: runner.Run, network: Network) -> dict[str, Any]:
    """Times of one network, for few slices and for many."""
    on_gpu = torch.cuda.is_available() and run.args.device == "gpu"
    device = "cuda" if on_gpu else "cpu"
    torch.manual_seed(0)
    net = network.make().eval().requires_grad_(False).to(device)
    many = run.args.slices or (256 if run.quick else network.slices[on_gpu])
    repeats = run.data["settings"]["repeats"]
    found: dict[str, Any] = {"shape": network.shape, "slices": many, "counts": {}}
    for count in (*FEW, many):
        host = np.random.default_rng(0).standard_normal((count, *network.shape), np.float32)
        tensor = torch.from_numpy(host).to(device)
        ways = ours(net, host, tensor, on_gpu)
        want = by_hand(net, host, tensor, on_gpu, count)()
        chunk = best_chunk(net, host, tensor, on_gpu, count, few=count in FEW)
        ways[TORCH] = by_hand(net, host, tensor, on_gpu, chunk)
        if count == many and (on_gpu or run.args.dry):
            ways |= further(net, tensor, found)
            if OURS in ways:
                ways[HIGH] = with_less_precision(ways[OURS])
            found["errors"] = errors(net, tensor, ways)
        for name in ways.keys() - {TORCH}:
            far = float(np.abs(numpy(ways[name]()) - numpy(want)).max())
            if not far < (2e-2 if name == HIGH else 2e-3):
                found["wrong"] = f"{name}, {count} slices: {far:.1e}"
        entry = found["counts"][str(count)] = turns(ways, repeats, run.on, few=count in FEW)
        entry["chunk"] = chunk
    axes = tuple(range(1, 1 + len(network.shape)))
    arr = run.on.array(tensor) if OURS in ways else tensor
    plan = xpapply.explain(net, axes, arr)
    found["how"] = f"{plan.engine}: {'; '.join(plan.kernels)}"
    if plan.floor is not None:
        found["floor"] = plan.floor
    return found


def with_less_precision(call: Callable[[], Any]) -> Callable[[], Any]:
    def less() -> Any:
        with xpapply.options(precision="high"):
            return call()

    return less


def errors(net: nn.Module, tensor: torch.Tensor, ways: dict[str, Any]) -> dict[str, float]:
    """The largest error of some slices, relative to the largest result, by float64."""
    step = max(1, len(tensor) // COMPARED)
    some = tensor[::step]
    with torch.inference_mode():
        want = copy.deepcopy(net).double()(some.double()).cpu().numpy()
    most = np.abs(want).max()
    given = {way: numpy(call())[::step] for way, call in ways.items()}
    return {way: float(np.abs(y - want).max() / most) for way, y in given.items()}


def numpy(y: Any) -> np.ndarray:
    y = y.get() if hasattr(y, "get") else y
    return y.cpu().numpy() if isinstance(y, torch.Tensor) else y


def ours(net: nn.Module, host: np.ndarray, tensor: torch.Tensor, on_gpu: bool) -> dict[str, Any]:
    """xpapply on arrays of each library."""
    axes = tuple(range(1, host.ndim))
    if not on_gpu:
        return {OURS: partial(xpapply.apply_along_axis, net, axes, host)}
    found = {}
    with contextlib.suppress(ImportError):
        import cupy

        found[OURS] = partial(xpapply.apply_along_axis, net, axes, cupy.asarray(host))
    call = partial(xpapply.apply_along_axis, net, axes, tensor)
    found[OURS_TENSOR] = torch.no_grad()(call)
    return found


def by_hand(
    net: nn.Module, host: np.ndarray, tensor: torch.Tensor, on_gpu: bool, size: int
) -> Callable[[], Any]:
    """torch's own forward, in chunks of a size."""

    @torch.inference_mode()
    def call() -> Any:
        x = tensor if on_gpu else torch.from_numpy(host)
        n = len(x)
        y = net(x) if size >= n else torch.cat([net(x[k : k + size]) for k in range(0, n, size)])
        return y if on_gpu else y.numpy()

    return call


def further(net: nn.Module, tensor: torch.Tensor, found: dict[str, Any]) -> dict[str, Any]:
    """What torch can do besides, of the whole stack; why not, in ``found["without"]``."""
    compiled = torch.compile(net)
    ways: dict[str, Any] = {COMPILED: torch.inference_mode()(lambda: compiled(tensor))}
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.ndim in formats:
        form = formats[tensor.ndim]
        moved, other = tensor.to(memory_format=form), copy.deepcopy(net).to(memory_format=form)
        ways[LAST] = torch.inference_mode()(lambda: other(moved))
    for name, call in [*ways.items()]:
        try:
            call()
        except Exception as error:  # a compiler that is missing, an operation without a form
            found.setdefault("without", {})[name] = f"{type(error).__name__}: {error}"[:200]
            del ways[name]
    return ways


def best_chunk(
    net: nn.Module, host: np.ndarray, tensor: torch.Tensor, on_gpu: bool, n: int, few: bool
) -> int:
    """The size of a chunk by which torch takes the least time."""
    if few:
        return n
    least = max(1, 32 * 784 // host[0].size)  # images that are large stay in no cache together
    sizes = [n >> k for k in range(9) if n >> k >= least]
    times = {}
    for size in sizes:
        call = by_hand(net, host, tensor, on_gpu, size)
        times[size] = min(timed(call, 1) for _ in range(3))
    return min(times, key=times.__getitem__)


def turns(ways: dict[str, Any], repeats: int, on: Any, few: bool) -> dict[str, Any]:
    """Seconds of a call, the median of repeats in which all have their turn.

    Calls of a few slices are measured when there were many of them: xpapply compiles a kernel then.
    """
    counts = {}
    for name, call in ways.items():
        timed(call, 1)
        begin = time.perf_counter()
        while few and time.perf_counter() - begin < BEFORE:
            timed(call, 1)
        once = timed(call, 1)
        counts[name] = max(1, min(1000, int(SECONDS / once)))
    times: dict[str, list[float]] = {name: [] for name in ways}
    # calls of microseconds vary more than those that take SECONDS
    for _ in range(3 * repeats if few and min(counts.values()) > 1 else repeats):
        for name, call in ways.items():
            if hasattr(on, "pause"):
                on.pause()
            times[name].append(timed(call, counts[name]))
    return {name: clocks.summary(found)["median"] for name, found in times.items()}


def timed(call: Callable[[], Any], count: int) -> float:
    """Seconds of a call: the host's, until the device is done with all of them."""
    sync = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    sync()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    sync()
    return (time.perf_counter() - begin) / count
