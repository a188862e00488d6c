"""Networks on CuPy arrays and CUDA tensors: xpapply and the other ways.

    python benchmarks/gpu.py            # measures, writes results/gpu.md and gpu.json
    python benchmarks/gpu.py --dry      # no GPU: the same code on the CPU, few rows, no files
    python benchmarks/gpu.py --render   # writes gpu.md again from gpu.json

Needs CuPy and torch; JAX and onnxruntime are measured where they are installed.
What has been measured is on disk at every moment.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import timing
from timing import Call, digits

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"

import numpy as np
import torch
from networks import (
    Net,
    jax_vmap,
    onnx_session,
    reference,
    relative_error,
    torch_chunks,
    torch_compile,
    torch_eager,
)

import xpapply

ROWS = 1 << 22
NETS = (
    Net((8, 16, 1)),
    Net((16, 32, 32, 1)),
    Net((16, 32, 32, 1), "tanh"),
    Net((16, 64, 64, 64, 4)),
    Net((32, 128, 128, 8)),
    Net((13, 37, 21, 3), "GELU"),
    Net((7, 200, 5), "SiLU"),
    Net((1, 64, 64, 1), "tanh"),
    Net((256, 256, 256, 10)),
)
FEWER_ROWS = {NETS[-1]: ROWS // 4}
MILLISECONDS = {NETS[0].name: 0.045, NETS[1].name: 0.5}
NO_SLOWER_THAN_EAGER = (NETS[3].name, NETS[4].name)
CHUNK = 262_144
SAMPLE = 200
REPEATS = 15
BATCH = 1.5e-3
"""Seconds that one batch of calls takes at least."""
SLOW = 0.05
"""A call that takes longer is measured three times only."""


# --- the device -----------------------------------------------------------------------


class Gpu:
    """CuPy's and torch's current device and default stream, which they share."""

    name = "cuda"

    def __init__(self) -> None:
        import cupy

        self.xp = cupy
        torch.cuda.init()
        cupy.zeros(1)

    def synchronize(self) -> None:
        self.xp.cuda.runtime.deviceSynchronize()

    def seconds(self, call: Call, count: int) -> float:
        """Per call, by device events around `count` calls."""
        start, stop = self.xp.cuda.Event(), self.xp.cuda.Event()
        start.record()
        for _ in range(count):
            call()
        stop.record()
        stop.synchronize()
        return 1e-3 * self.xp.cuda.get_elapsed_time(start, stop) / count

    def array(self, x: torch.Tensor) -> Any:
        return self.xp.from_dlpack(x)

    def free(self) -> None:
        self.synchronize()
        self.xp.get_default_memory_pool().free_all_blocks()
        torch.cuda.empty_cache()

    def poison(self, sizes: set[int]) -> None:
        """Leave NaN in the memory that the next arrays of these sizes will get."""
        kept = [self.xp.full(n, self.xp.nan, self.xp.float32) for n in sizes]
        kept += [torch.full((n,), torch.nan, device=self.name) for n in sizes]
        self.synchronize()

    def about(self) -> dict[str, str]:
        runtime = self.xp.cuda.runtime
        found = runtime.getDeviceProperties(self.xp.cuda.Device().id)
        name = found["name"].decode()
        memory = found["totalGlobalMem"] / 2**30
        driver = ""
        tool = shutil.which("nvidia-smi")
        if tool:
            query = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
            run = subprocess.run(query, capture_output=True, text=True, check=False)
            match = re.match(r"[\d.]+", run.stdout)
            driver = f", driver {match[0]}" if match else ""
        return {
            "GPU": f"{name}, {memory:.0f} GiB{driver}",
            "CUDA": f"{_cuda(runtime.driverGetVersion())} (driver), "
            f"{_cuda(runtime.runtimeGetVersion())} (CuPy), {torch.version.cuda} (torch)",
        }

    def limits(self) -> dict[str, float]:
        """Bytes and operations per second: measured, and by cores and clock."""
        source = self.xp.ones(1 << 28, self.xp.float32)
        target = self.xp.empty_like(source)
        copy = min(self.seconds(lambda: self.xp.copyto(target, source), 5) for _ in range(7))
        found = {"copy": 2 * source.nbytes / copy}
        size = 8192
        a = torch.rand(size, size, device=self.name)
        out = torch.empty_like(a)
        with precision("highest"):
            torch.mm(a, a, out=out)
            best = min(self.seconds(lambda: torch.mm(a, a, out=out), 3) for _ in range(5))
        found["product"] = 2 * size**3 / best
        device = self.xp.cuda.Device()
        clock = device.attributes.get("ClockRate", 0)  # kHz
        wide = {"70": 64, "72": 64, "75": 64, "80": 64}.get(device.compute_capability, 128)
        peak = 2e3 * clock * wide * device.attributes["MultiProcessorCount"]
        if peak:
            found["peak"] = peak
        return found


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


class Dry:
    """The CPU in its place, to see whether everything runs."""

    name = "cpu"
    xp = np

    def __init__(self) -> None:
        torch.set_num_threads(1)  # many short calls, perhaps beside other work

    def synchronize(self) -> None:
        """Nothing runs behind our back."""

    def seconds(self, call: Call, count: int) -> float:
        return timing.seconds(timing.many(call, count)) / count

    def array(self, x: torch.Tensor) -> Any:
        return x.numpy()

    def free(self) -> None:
        """Nothing is pooled."""

    def poison(self, sizes: set[int]) -> None:
        """Nothing is pooled."""

    def about(self) -> dict[str, str]:
        return {"GPU": "none: a dry run"}

    def limits(self) -> dict[str, float]:
        return {"copy": 1e10, "product": 1e11, "peak": 2e11}


@contextmanager
def precision(value: str) -> Iterator[None]:
    """torch's float32 products: "highest" is float32, "high" is TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(value)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# --- one network ----------------------------------------------------------------------


@dataclass
class Case:
    """A network and its input on the device; what is costly is made when it is first wanted."""

    net: Net
    rows: int
    on: Gpu | Dry

    @cached_property
    def x(self) -> torch.Tensor:
        """Slices from a normal distribution, (rows, n)."""
        generator = torch.Generator(self.on.name).manual_seed(0)
        shape = (self.rows, self.net.widths[0])
        return torch.randn(shape, generator=generator, device=self.on.name)

    @cached_property
    def module(self) -> Any:
        return self.net.module(self.on.name)

    @cached_property
    def truth(self) -> torch.Tensor:
        return reference(self.net, self.x)

    def error(self, y: Any, rows: int) -> float:
        """Of (rows, outputs), of any library, against float64."""
        if not isinstance(y, torch.Tensor):
            y = torch.from_numpy(np.array(y)) if isinstance(y, np.ndarray) else torch.from_dlpack(y)
        return relative_error(y.to(self.on.name), self.truth[:rows])


# --- the methods ----------------------------------------------------------------------


def ours(case: Case) -> Call:
    x, module = case.on.array(case.x), case.net.module()
    return lambda: xpapply.apply_along_axis(module, -1, x)


def ours_axis0(case: Case) -> Call:
    x, module = case.on.array(case.x.T.contiguous()), case.net.module()
    return lambda: xpapply.apply_along_axis(module, 0, x).T


def ours_torch(case: Case) -> Call:
    x, module = case.x, case.module
    return lambda: xpapply.apply_along_axis(module, -1, x)


def eager(case: Case) -> Call:
    return torch_eager(case.module, case.x)


def half(case: Case) -> Call:
    return torch_eager(case.net.module(case.on.name).half(), case.x.half())


def chunks(case: Case) -> Call:
    return torch_chunks(case.module, case.x, case.net.widths[-1], CHUNK)


def compiled(case: Case) -> tuple[Call, str]:
    return torch_compile(case.module, case.x)


_IN_CUDA = {
    "ReLU": "s > 0 ? s : 0",
    "tanh": "tanh(s)",
    "GELU": "0.5f * s * (1 + erf(s * 0.70710678f))",
    "SiLU": "s / (1 + exp(-s))",
    "": "s",
}


@cache
def layer_kernel(activation: str) -> Any:
    """A thread per row and output, a loop over the inputs."""
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


def by_layers(case: Case) -> Call:
    """What one writes by hand in CuPy: a kernel per layer."""
    if isinstance(case.on, Dry):
        raise RuntimeError("needs a GPU")
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


def jax(case: Case, precision: str | None) -> Call:
    import jax as library
    import jax.numpy as jnp

    wanted = "gpu" if isinstance(case.on, Gpu) else "cpu"
    if library.default_backend() != wanted:
        raise RuntimeError(f"JAX runs on {library.default_backend()} here")
    try:
        x = jnp.from_dlpack(case.x)
    except Exception:  # versions that refuse each other's protocol
        x = jnp.asarray(case.x.cpu().numpy())
    return jax_vmap(case.net, x, precision)


def onnx(case: Case) -> tuple[Call, str]:
    gpu = isinstance(case.on, Gpu)
    session, note = onnx_session(case.net, f"{'CUDA' if gpu else 'CPU'}ExecutionProvider")
    out = torch.full((case.rows, case.net.widths[-1]), torch.nan, device=case.on.name)
    binding = session.io_binding()
    for bind, name, t in (
        (binding.bind_input, session.get_inputs()[0].name, case.x),
        (binding.bind_output, session.get_outputs()[0].name, out),
    ):
        bind(name, case.on.name, 0, np.float32, tuple(t.shape), t.data_ptr())

    def call() -> torch.Tensor:
        session.run_with_iobinding(binding)
        return out

    return call, note


def cupy_loop(case: Case) -> Call:
    if isinstance(case.on, Dry):
        raise RuntimeError("needs a GPU")
    xp, module = case.on.xp, case.module
    x = case.on.array(case.x[:SAMPLE])

    def one_slice(v: Any) -> Any:
        return xp.from_dlpack(module(torch.from_dlpack(v)))

    return torch.inference_mode()(lambda: xp.apply_along_axis(one_slice, -1, x))


def numpy_loop(case: Case) -> Call:
    x, module = case.x[:SAMPLE].cpu().numpy(), case.net.module()

    def one_slice(v: np.ndarray) -> np.ndarray:
        return module(torch.from_numpy(v)).numpy()

    return torch.inference_mode()(lambda: np.apply_along_axis(one_slice, -1, x))


@dataclass(frozen=True)
class Method:
    """A way to run a network, and how to time it."""

    name: str
    build: Callable[[Case], Any]
    clock: str = "events"
    """"events", "host" (own streams: a clock on the host around many calls), "sample"."""
    context: Callable[[], Any] = field(default=nullcontext)


OURS, OURS_AXIS0, OURS_TORCH = "xpapply, CuPy", "xpapply, CuPy, axis 0", "xpapply, CUDA tensors"
EAGER = "torch eager, float32"
# in this order: what matters most is measured first
ROUNDS = (
    (
        Method(OURS, ours),
        Method(OURS_AXIS0, ours_axis0),
        Method(OURS_TORCH, ours_torch),
        Method(EAGER, eager, context=lambda: precision("highest")),
        Method("torch eager, TF32", eager, context=lambda: precision("high")),
        Method("torch eager, float16", half),
        Method(f"torch, {CHUNK:,}-row chunks by hand", chunks),
        Method("cupy.matmul per layer", matmul),
    ),
    (
        Method("JAX, jit(vmap), highest precision", lambda c: jax(c, "highest"), "host"),
        Method("JAX, jit(vmap), default precision", lambda c: jax(c, None), "host"),
        Method("cupy.apply_along_axis", cupy_loop, "sample"),
        Method("numpy.apply_along_axis", numpy_loop, "sample"),
        Method("ElementwiseKernel per layer", by_layers),
    ),
    (
        Method("torch.compile, float32", compiled, context=lambda: precision("highest")),
        Method("onnxruntime", onnx, "host"),
    ),
)
METHODS = tuple(m.name for methods in ROUNDS for m in methods)


def measure(method: Method, case: Case) -> dict[str, Any]:
    """Check the result, then time it; why not, if it fails."""
    start = time.perf_counter()
    on, sizes = case.on, {case.rows * w for w in case.net.widths[1:]}
    try:
        with xpapply.options(fallback="raise"), method.context():
            built = method.build(case)
            call, note = built if isinstance(built, tuple) else (built, "")
            rows = SAMPLE if method.clock == "sample" else case.rows
            case.truth  # noqa: B018  (made before the memory is poisoned)
            on.poison(sizes)
            y = call()
            if hasattr(y, "block_until_ready"):
                y.block_until_ready()
            on.synchronize()
            found: dict[str, Any] = {"error": case.error(y, rows)}
            del y
            found |= {"setup": time.perf_counter() - start}
            found |= CLOCKS[method.clock](call, on, case.rows)
    except Exception as problem:
        return {"skipped": timing.reason(problem)}
    finally:
        on.free()
    if method.clock == "sample":
        note = f"extrapolated from {SAMPLE} slices"
    return found | ({"note": note} if note else {})


def by_events(call: Call, on: Gpu | Dry, rows: int) -> dict[str, Any]:
    """Batches of back-to-back calls between two events."""
    one = on.seconds(call, 1)
    if one < SLOW:
        one = on.seconds(call, max(1, min(10, int(SLOW / one))))
    # the first call of a batch finds an idle device: its launch is part of the time
    count, repeats = (max(4, math.ceil(BATCH / one)), REPEATS) if one < SLOW else (1, 3)
    times = [on.seconds(call, count) for _ in range(repeats)]
    return timing.summary(times) | {"batch": count}


def by_host(call: Call, on: Gpu | Dry, rows: int) -> dict[str, Any]:
    """Longer batches and the host's clock: it waits for the device once per batch."""

    def batch(count: int) -> float:
        on.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            y = call()
        if hasattr(y, "block_until_ready"):
            y.block_until_ready()
        on.synchronize()
        return (time.perf_counter() - start) / count

    batch(1)
    one = batch(3)
    count = max(1, math.ceil(10 * BATCH / one))
    times = [batch(count) for _ in range(REPEATS if one < SLOW else 3)]
    return timing.summary(times) | {"batch": count}


def by_sample(call: Call, on: Gpu | Dry, rows: int) -> dict[str, Any]:
    def once() -> None:
        call()
        on.synchronize()

    return timing.summary([timing.seconds(once) * rows / SAMPLE for _ in range(3)])


CLOCKS = {"events": by_events, "host": by_host, "sample": by_sample}


# --- few rows -------------------------------------------------------------------------

FEW = (1, 1000)
HOST_CALLS = 100


def host(net: Net, on: Gpu | Dry) -> dict[str, dict[str, float]]:
    """Microseconds of the host per call, median; the device's work runs behind."""
    found: dict[str, dict[str, float]] = {}
    for rows in FEW:
        case = Case(net, rows, on)
        for name, build in ((OURS, ours), (OURS_TORCH, ours_torch), (EAGER, eager)):
            with xpapply.options(fallback="raise"), precision("highest"):
                calls = timing.many(build(case), HOST_CALLS)
                calls()
                times = []
                for _ in range(REPEATS):
                    on.synchronize()
                    times.append(timing.seconds(calls))
            found.setdefault(name, {})[str(rows)] = (
                1e6 / HOST_CALLS * timing.summary(times)["median"]
            )
    on.synchronize()
    return found


# --- the text -------------------------------------------------------------------------


def render(data: dict[str, Any]) -> str:
    results = data["networks"]

    def times(entry: dict[str, Any], kind: str = "median") -> str:
        return digits(1e3 * entry[kind]) if kind in entry else ""

    def ratio(name: str, entry: dict[str, Any]) -> str:
        ours = results[name].get(OURS, {})
        if "median" not in entry or "median" not in ours:
            return times(entry)
        return f"{times(entry)} ({digits(entry['median'] / ours['median'])}x)"

    fewer = ", ".join(
        f"{n:,} for {name}" for name, n in data["rows"].items() if n != data["settings"]["rows"]
    )
    fewer = f" ({fewer})" if fewer else ""
    parts = [
        "# GPU",
        f"{data['settings']['rows']:,} slices of float32{fewer} in one run of "
        "`benchmarks/gpu.py`; networks with biases, none of them with an activation at the end. "
        'The input is on the device, (slices, inputs) in C order; "axis 0" has it as (inputs, '
        f"slices). Median of {REPEATS} pairs of device events around batches of calls of at least "
        "1 ms, per call; JAX and onnxruntime have streams of their own and are timed by the host "
        "around batches ten times as long. The float16 input had been converted before.",
        timing.machine_table(data["machine"]),
        "## xpapply",
        _against(data, times),
        "What runs:",
        "\n".join(f"- {name}: {text}" for name, text in data["kernels"].items()),
        "## Time",
        "Milliseconds, median; in brackets as a multiple of xpapply's on CuPy arrays.",
        timing.grid(results, METHODS, ratio),
        "The fastest of the repeats:",
        timing.grid(results, METHODS, lambda _, e: times(e, "min")),
        timing.skipped(results),
        "## Error",
        "Against float64, all slices (of the loops: the sample), CuPy's and torch's free memory "
        "full of NaN before: Euclidean norm of the difference over that of the truth.",
        timing.grid(results, METHODS, lambda _, e: f"{e['error']:.1e}" if "error" in e else ""),
    ]
    if data.get("host"):
        names = (OURS, OURS_TORCH, EAGER)
        parts += [
            "## Few slices",
            f"Microseconds of the host per call, median of {REPEATS} times {HOST_CALLS} calls.",
            timing.table(
                ["", "slices", *names],
                (
                    [name, f"{n:,}", *(digits(found[m][str(n)]) for m in names)]
                    for name, found in data["host"].items()
                    for n in FEW
                ),
            ),
        ]
    return "\n\n".join(part for part in parts if part)


def _against(data: dict[str, Any], times: Callable[..., str]) -> str:
    """Beside what is wanted, the best of the others and the floor."""
    results, limits = data["networks"], data["limits"]
    nets = {net.name: net for net in NETS}
    fp32 = max(limits["product"], limits.get("peak", 0))
    head = ["", "CuPy", "CuPy, axis 0", "CUDA tensors", "wanted", "met"]
    head += ["bytes", "products", "best other", "its time / xpapply's"]
    rows = []
    for name, found in results.items():
        entries = [found.get(m, {}) for m in (OURS, OURS_AXIS0, OURS_TORCH)]
        done = [e["median"] for e in entries if "median" in e]
        wanted, target = "", None
        if name in MILLISECONDS:
            target = 1e-3 * MILLISECONDS[name]
            wanted = f"{MILLISECONDS[name]} ms"
        elif name in NO_SLOWER_THAN_EAGER and "median" in found.get(EAGER, {}):
            target = found[EAGER]["median"]
            wanted = f"{times(found[EAGER])} (eager)"
        met = "" if target is None or not done else ("yes" if max(done) <= target else "no")
        if met == "no" and min(done) <= target:
            met = "in part"
        net, n = nets[name], data["rows"][name]
        cells = [digits(1e3 * net.bytes(n) / limits["copy"]), digits(1e3 * net.flop(n) / fp32)]
        # as exact as float32: TF32 and float16 products are another deal
        others = {
            m: e
            for m, e in found.items()
            if m not in (OURS, OURS_AXIS0, OURS_TORCH) and "median" in e and e["error"] < 1e-5
        }
        best = min(others, key=lambda m: others[m]["median"], default=None)
        if best is not None and "median" in entries[0]:
            factor = others[best]["median"] / entries[0]["median"]
            cells += [f"{times(others[best])} ({best})", f"{digits(factor)}x"]
        else:
            cells += ["", ""]
        rows.append([name, *(times(e) for e in entries), wanted, met, *cells])
    peak = f", by cores and clock {limits['peak'] / 1e12:.3g}" if "peak" in limits else ""
    text = (
        f"Milliseconds. Bytes: each slice read once, each result written once, at the "
        f"{limits['copy'] / 1e12:.3g} TB/s of a copy on this device. Products: their multiply-adds "
        f"in float32 at {fp32 / 1e12:.3g} TFLOP/s (a large product reaches "
        f"{limits['product'] / 1e12:.3g}{peak}). Best other: of those with an error below 1e-5."
    )
    return f"{timing.table(head, rows)}\n\n{text}"


# --- all of it ------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="on the CPU, few rows, no files")
    parser.add_argument("--rows", type=int, help="for GPUs with less memory")
    parser.add_argument("--seconds", type=float, default=270, help="nothing is begun after this")
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--render", action="store_true", help="gpu.md from gpu.json")
    args = parser.parse_args()
    folder = args.out or (None if args.dry else timing.RESULTS)
    if args.render:
        folder = folder or timing.RESULTS
        timing.save("gpu", timing.load("gpu", folder), render, folder)
        return
    begin = time.perf_counter()
    on = Dry() if args.dry else Gpu()
    rows = args.rows or (4096 if args.dry else ROWS)
    torch.set_float32_matmul_precision("highest")
    data: dict[str, Any] = {
        "machine": timing.machine() | on.about(),
        "settings": {"rows": rows, "repeats": REPEATS},
        "rows": {net.name: FEWER_ROWS.get(net, ROWS) * rows // ROWS for net in NETS},
        "limits": on.limits(),
        "networks": {net.name: {} for net in NETS},
        "host": {},
        "kernels": {},
    }
    on.free()

    def elapsed() -> float:
        return time.perf_counter() - begin

    for number, methods in enumerate(ROUNDS):
        for net in NETS:
            case = Case(net, data["rows"][net.name], on)
            for method in methods:
                if elapsed() > args.seconds:
                    entry: dict[str, Any] = {"skipped": "no time was left"}
                else:
                    entry = measure(method, case)
                data["networks"][net.name][method.name] = entry
                timing.save("gpu", data, render, folder)
                what = entry.get("skipped") or f"{digits(1e3 * entry['median'])} ms"
                print(f"{elapsed():6.1f} s  {net.name}, {method.name}: {what}", flush=True)
            del case
            on.free()
            if number == 0:
                try:
                    x = on.array(torch.zeros(8, net.widths[0], device=on.name))
                    plan = xpapply.explain(net.module(), -1, x)
                    data["kernels"][net.name] = "; ".join(plan.kernels)
                    data["host"][net.name] = host(net, on)
                except Exception as problem:
                    print(f"  few slices: {timing.reason(problem)}", flush=True)
                on.free()
    timing.save("gpu", data, render, folder)
    print(f"{elapsed():6.1f} s  done\n\n{render(data)}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
