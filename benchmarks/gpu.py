"""Networks on CuPy arrays and CUDA tensors: xpapply and the other ways.

    python benchmarks/gpu.py            # measures, writes results/gpu.md and gpu.json
    python benchmarks/gpu.py --resume   # measures what is missing in gpu.json
    python benchmarks/gpu.py --dry      # no GPU: the same code on the CPU, few rows, no files
    python benchmarks/gpu.py --render   # writes gpu.md again from gpu.json
    python benchmarks/gpu.py --readme   # prints the table of the README from gpu.json

Needs CuPy and torch; JAX and onnxruntime are measured where they are installed.
What has been measured is on disk at every moment. The text is made by `gpu_report.py`.
"""

from __future__ import annotations

import argparse
import atexit
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import timing
from gpu_report import (
    CHUNKS,
    COMPILE,
    CUPY_LOOP,
    EAGER,
    EAGER_HALF,
    EAGER_TF32,
    FEW,
    JAX_DEFAULT,
    JAX_HIGHEST,
    KERNELS,
    MATMUL,
    NUMPY_LOOP,
    ONNX,
    OURS,
    OURS_AXIS0,
    OURS_HALF,
    OURS_HIGH,
    OURS_MEDIUM,
    OURS_MIDDLE,
    OURS_TORCH,
    ROWS,
    readme,
    render,
)
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

NETS = (
    Net((8, 16, 1)),
    Net((16, 32, 32, 1)),
    Net((16, 32, 32, 1), "tanh"),
    Net((16, 64, 64, 64, 4)),
    Net((16, 64, 64, 64, 4), "tanh"),
    Net((32, 128, 128, 8)),
    Net((32, 128, 128, 8), "tanh"),
    Net((13, 37, 21, 3), "GELU"),
    Net((7, 200, 5), "SiLU"),
    Net((1, 64, 64, 1), "tanh"),
    Net((256, 256, 256, 10)),
)
FEWER_ROWS = {NETS[-1]: ROWS // 4}
WARM = (NETS[0], NETS[3], NETS[5], NETS[10])
"""Whose first call is also measured with a warm cache."""
CHUNK = 262_144
SAMPLE = 200
REPEATS = 15
BATCH = 1.5e-3
"""Seconds that one batch of calls takes at least."""
SLOW = 0.05
"""A call that takes longer is measured twice only."""


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

    def alone(self, call: Call, count: int) -> float:
        """Seconds of the device per call: they queue up while it is busy with copies."""
        start, stop = self.xp.cuda.Event(), self.xp.cuda.Event()
        source = self.xp.zeros(1 << 26, self.xp.float32)
        target = self.xp.empty_like(source)
        copies = 64  # 0.1 ms each on a fast device
        for _ in range(4):
            for _ in range(copies):
                self.xp.copyto(target, source)
            start.record()
            for _ in range(count):
                call()
            waited = not start.done
            stop.record()
            stop.synchronize()
            if waited:
                return 1e-3 * self.xp.cuda.get_elapsed_time(start, stop) / count
            copies *= 2
        raise RuntimeError("the device is never busy for long enough")

    def array(self, x: torch.Tensor) -> Any:
        return self.xp.from_dlpack(x)

    def works(self) -> bool:
        """An illegal access ends the context: after that every call fails."""
        try:
            self.synchronize()
        except Exception:
            return False
        return True

    def free(self) -> None:
        if not self.works():
            return
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
        found = {"copy": self._copies()}
        for name, dtype, value in (
            ("product", torch.float32, "highest"),
            ("tf32", torch.float32, "high"),
            ("half", torch.float16, "highest"),
        ):
            try:
                found[name] = self._products(dtype, value)
            except Exception as problem:
                print(f"  {name}: {timing.reason(problem)}", flush=True)
        self.free()
        device = self.xp.cuda.Device()
        clock = device.attributes.get("ClockRate", 0)  # kHz
        wide = {"70": 64, "72": 64, "75": 64, "80": 64}.get(device.compute_capability, 128)
        peak = 2e3 * clock * wide * device.attributes["MultiProcessorCount"]
        if peak:
            found["peak"] = peak
        return found

    def _copies(self, size: int = 1 << 28) -> float:
        """Bytes per second, read and written, of a large copy."""
        source = self.xp.ones(size, self.xp.float32)
        target = self.xp.empty_like(source)
        best = min(self.seconds(lambda: self.xp.copyto(target, source), 5) for _ in range(7))
        return 2 * source.nbytes / best

    def _products(self, dtype: torch.dtype, value: str, size: int = 8192) -> float:
        """Operations per second of a large product of random numbers (zeros would be faster)."""
        a, b = (torch.randn(size, size, device=self.name).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        with precision(value):
            torch.mm(a, b, out=out)
            best = min(self.seconds(lambda: torch.mm(a, b, out=out), 3) for _ in range(5))
        return 2 * size**3 / best


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

    def alone(self, call: Call, count: int) -> float:
        return self.seconds(call, count)

    def array(self, x: torch.Tensor) -> Any:
        return x.numpy()

    def works(self) -> bool:
        return True

    def free(self) -> None:
        """Nothing is pooled."""

    def poison(self, sizes: set[int]) -> None:
        """Nothing is pooled."""

    def about(self) -> dict[str, str]:
        return {"GPU": "none: a dry run"}

    def limits(self) -> dict[str, float]:
        return {"copy": 1e10, "product": 1e11, "half": 2e11, "tf32": 1.5e11, "peak": 2e11}


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

    def error(self, y: Any, rows: int, axis: int = -1) -> float:
        """Of a result of any library against float64; the outputs are along `axis`."""
        if not isinstance(y, torch.Tensor):
            y = torch.from_numpy(np.array(y)) if isinstance(y, np.ndarray) else torch.from_dlpack(y)
        y = y.to(self.on.name).movedim(axis, -1).reshape(-1, self.net.widths[-1])
        return relative_error(y, self.truth[:rows])


# --- the methods ----------------------------------------------------------------------


def ours(case: Case) -> Call:
    x, module = case.on.array(case.x), case.net.module()
    return lambda: xpapply.apply_along_axis(module, -1, x)


def ours_axis0(case: Case) -> Call:
    x, module = case.on.array(case.x.T.contiguous()), case.net.module()
    return lambda: xpapply.apply_along_axis(module, 0, x)


def ours_middle(case: Case) -> Call:
    shape = (-1, timing.inner(case.rows), case.net.widths[0])
    x = case.on.array(case.x.reshape(shape).transpose(1, 2).contiguous())
    module = case.net.module()
    return lambda: xpapply.apply_along_axis(module, 1, x)


def ours_half(case: Case) -> Call:
    x, module = case.on.array(case.x.half()), case.net.module().half()
    return lambda: xpapply.apply_along_axis(module, -1, x)


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
    context: Callable[[], Any] = nullcontext
    """Of the calls; the outermost is `exact`."""
    axis: int = -1
    """Where the outputs stand in the result."""


# in this order: what matters most is measured first
ROUNDS = (
    (
        Method(OURS, ours),
        Method(EAGER, eager),
        Method(OURS_MEDIUM, ours, context=partial(xpapply.options, precision="medium")),
        Method(OURS_HIGH, ours, context=partial(xpapply.options, precision="high")),
        Method(OURS_AXIS0, ours_axis0, axis=0),
        Method(OURS_MIDDLE, ours_middle, axis=1),
        Method(OURS_TORCH, ours_torch),
        Method(OURS_HALF, ours_half),
        Method(EAGER_TF32, eager, context=partial(precision, "high")),
        Method(EAGER_HALF, half),
    ),
    (
        Method(JAX_HIGHEST, partial(jax, precision="highest"), "host"),
        Method(JAX_DEFAULT, partial(jax, precision=None), "host"),
    ),
    (
        Method(CHUNKS, chunks),
        Method(MATMUL, matmul),
        Method(CUPY_LOOP, cupy_loop, "sample"),
        Method(NUMPY_LOOP, numpy_loop, "sample"),
        Method(COMPILE, compiled),
        Method(ONNX, onnx, "host"),
        Method(KERNELS, by_layers),
    ),
)


def measure(method: Method, case: Case) -> dict[str, Any]:
    """Check the result, then time it; why not, if it fails."""
    start = time.perf_counter()
    on, sizes = case.on, {case.rows * w for w in case.net.widths[1:]}
    found: dict[str, Any] = {}
    try:
        with exact(), method.context():
            built = method.build(case)
            call, note = built if isinstance(built, tuple) else (built, "")
            rows = SAMPLE if method.clock == "sample" else case.rows
            case.truth  # noqa: B018  (made before the memory is poisoned)
            on.poison(sizes)
            y = call()
            if hasattr(y, "block_until_ready"):
                y.block_until_ready()
            on.synchronize()
            found |= {"setup": time.perf_counter() - start}
            found |= {"error": case.error(y, rows, method.axis)}
            del y
            found |= CLOCKS[method.clock](call, on, case.rows)
    except Exception as problem:
        return found | {"skipped": timing.reason(problem)}
    if method.clock == "sample":
        note = f"extrapolated from {SAMPLE} slices"
    return found | ({"note": note} if note else {})


@contextmanager
def exact() -> Iterator[None]:
    """No loops, and products as accurate as float32, in xpapply and in torch."""
    with xpapply.options(fallback="raise", precision="highest"), precision("highest"):
        yield


def by_events(call: Call, on: Gpu | Dry, rows: int) -> dict[str, Any]:
    """Batches of back-to-back calls between two events."""
    one = on.seconds(call, 1)
    if one > SLOW:
        return timing.summary([one, on.seconds(call, 1)]) | {"batch": 1}
    one = on.seconds(call, max(1, min(10, int(SLOW / one))))
    # the first call of a batch finds an idle device: its launch is part of the time
    count = max(4, math.ceil(BATCH / one))
    return timing.summary([on.seconds(call, count) for _ in range(REPEATS)]) | {"batch": count}


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

HOST_CALLS = 100
DEVICE_CALLS = 20


def few(net: Net, on: Gpu | Dry, data: dict[str, Any]) -> None:
    """Microseconds per call, median: of the host, the device's work behind; of the device."""
    host, device = data["host"][net.name], data["device"][net.name]
    for name, build in ((OURS, ours), (OURS_TORCH, ours_torch), (EAGER, eager)):
        for rows in FEW:
            try:
                with exact():
                    call = build(Case(net, rows, on))
                    calls = timing.many(call, HOST_CALLS)
                    calls()
                    times = []
                    for _ in range(REPEATS):
                        on.synchronize()
                        times.append(timing.seconds(calls))
                    host.setdefault(name, {})[str(rows)] = (
                        1e6 / HOST_CALLS * statistics.median(times)
                    )
                    on.synchronize()
                    times = [on.alone(call, DEVICE_CALLS) for _ in range(5)]
                    device.setdefault(name, {})[str(rows)] = 1e6 * statistics.median(times)
            except Exception as problem:
                print(f"  {net.name}, {name}, {rows} rows: {timing.reason(problem)}", flush=True)


# --- first calls ----------------------------------------------------------------------


def first_calls(
    rows: dict[str, int], on: Gpu | Dry, kernels: Path, seconds: float, jobs: int
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Of every network in fresh processes, some at a time, each with its own cache.

    What they compiled goes to the folder `kernels`, so that this process finds it.
    """
    deadline = time.perf_counter() + seconds

    def run(net: Net, folder: Path, *others: str) -> dict[str, Any]:
        places = ("CUPY_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME")
        command = [sys.executable, str(Path(__file__).with_name("gpu_first.py"))]
        command += [net.name, str(rows[net.name]), on.name, *others]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=max(0.1, deadline - time.perf_counter()),
                env=os.environ | dict.fromkeys(places, str(folder)),
            )
            out = done.stdout
            problem = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        except subprocess.TimeoutExpired as late:
            out, problem = late.stdout or "", "it took too long"
            out = out.decode() if isinstance(out, bytes) else out
        try:
            # the last line is the fullest; a process that failed later has others
            lines = [line for line in out.splitlines() if line.startswith("{")]
            return json.loads(lines[-1]) if lines else {"skipped": problem}
        except Exception as problem:
            return {"skipped": timing.reason(problem)}

    def both(net: Net) -> list[tuple[str, str, dict[str, Any]]]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            found = [(net.name, "cold", run(net, folder, "others"))]
            if net in WARM:
                found.append((net.name, "warm", run(net, folder)))
            with suppress(OSError):
                shutil.copytree(folder, kernels, dirs_exist_ok=True)
        return found

    order = sorted(NETS, key=lambda net: net not in WARM)
    with ThreadPoolExecutor(jobs) as pool:
        for task in as_completed([pool.submit(both, net) for net in order]):
            yield from task.result()


# --- all of it ------------------------------------------------------------------------

NO_TIME = "no time was left"


class Run:
    """One run, or the rest of one: what is in `data` is not measured again."""

    def __init__(
        self,
        on: Gpu | Dry,
        data: dict[str, Any],
        folder: Path | None,
        kernels: Path,
        seconds: float,
    ) -> None:
        self.on, self.data, self.folder, self.kernels = on, data, folder, kernels
        self.begin, self.seconds = time.perf_counter(), seconds

    def elapsed(self) -> float:
        return time.perf_counter() - self.begin

    def left(self) -> float:
        return self.seconds - self.elapsed()

    def say(self, text: str) -> None:
        print(f"{self.elapsed():6.1f} s  {text}", flush=True)

    def save(self) -> None:
        try:
            timing.save("gpu", self.data, render, self.folder)
        except Exception as problem:
            self.say(f"the text: {timing.reason(problem)}")

    def all(self) -> None:
        self.first()
        for number, methods in enumerate(ROUNDS):
            for net in NETS:
                self.ways(net, methods)
                if number == 0:
                    self.few(net)
        self.save()

    def first(self) -> None:
        found = self.data["first"]
        if found:
            return
        rows, jobs = self.data["rows"], self.data["settings"]["jobs"]
        for net, kind, entry in first_calls(rows, self.on, self.kernels, self.left(), jobs):
            found.setdefault(net, {})[kind] = entry
            self.say(f"{net}, first call, {kind}: {entry.get('skipped') or entry['first']}")
            self.save()

    def ways(self, net: Net, methods: Sequence[Method]) -> None:
        done = self.data["networks"][net.name]
        case = Case(net, self.data["rows"][net.name], self.on)
        for method in methods:
            if done.get(method.name, {"skipped": NO_TIME}).get("skipped") != NO_TIME:
                continue
            entry = measure(method, case) if self.left() > 0 else {"skipped": NO_TIME}
            done[method.name] = entry
            self.on.free()
            self.save()
            what = entry.get("skipped") or f"{digits(1e3 * entry['median'])} ms"
            self.say(f"{net.name}, {method.name}: {what}")
            self.go_on()

    def few(self, net: Net) -> None:
        if net.name in self.data["host"] or self.left() < 0:
            return
        self.data["host"][net.name], self.data["device"][net.name] = {}, {}
        few(net, self.on, self.data)
        try:
            x = self.on.array(torch.zeros(8, net.widths[0], device=self.on.name))
            plan = xpapply.explain(net.module(), -1, x)
            self.data["kernels"][net.name] = "; ".join(plan.kernels)
        except Exception as problem:
            self.say(f"{net.name}, kernels: {timing.reason(problem)}")
        self.on.free()
        self.save()
        self.say(f"{net.name}, few slices")
        self.go_on()

    def go_on(self) -> None:
        """In a new process, if a kernel has made this one's device unusable."""
        if self.on.works() or self.folder is None:
            return
        self.say("the device fails in this process: the rest in another one")
        command = [sys.executable, str(Path(__file__).resolve()), "--resume"]
        command += ["--dry"] * isinstance(self.on, Dry)
        command += ["--out", str(self.folder), "--kernels", str(self.kernels)]
        os.execv(sys.executable, [*command, "--seconds", str(self.left())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="on the CPU, few rows, no files")
    parser.add_argument("--rows", type=int, help="for GPUs with less memory")
    parser.add_argument("--seconds", type=float, default=270, help="nothing is begun after this")
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--resume", action="store_true", help="what is missing in gpu.json")
    parser.add_argument("--render", action="store_true", help="gpu.md from gpu.json")
    parser.add_argument("--kernels", type=Path, help=argparse.SUPPRESS)  # a cache, then removed
    parser.add_argument("--readme", action="store_true", help="the README's table from gpu.json")
    args = parser.parse_args()
    folder = args.out or (None if args.dry else timing.RESULTS)
    if args.render or args.readme:
        folder = folder or timing.RESULTS
        data = timing.load("gpu", folder)
        if args.readme:
            print(readme(data))
        else:
            timing.save("gpu", data, render, folder)
        return
    begin = time.perf_counter()
    kernels = args.kernels or Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, kernels, ignore_errors=True)
    os.environ["CUPY_CACHE_DIR"] = str(kernels)  # before CuPy is imported
    on = Dry() if args.dry else Gpu()
    torch.set_float32_matmul_precision("highest")
    if args.resume:
        data = timing.load("gpu", folder or timing.RESULTS)
    else:
        rows = args.rows or (4096 if args.dry else ROWS)
        data = {
            "machine": timing.machine() | on.about(),
            "settings": {"rows": rows, "repeats": REPEATS, "jobs": max(1, timing.cores() // 2)},
            "rows": {net.name: FEWER_ROWS.get(net, ROWS) * rows // ROWS for net in NETS},
            "limits": on.limits(),
        }
    for name in ("networks", "host", "device", "first", "kernels"):
        data.setdefault(name, {})
    for net in NETS:
        data["networks"].setdefault(net.name, {})
    on.free()
    run = Run(on, data, folder, kernels, args.seconds - (time.perf_counter() - begin))
    run.all()
    run.say("done")
    print(f"\n{render(data)}", flush=True)


if __name__ == "__main__":
    main()
