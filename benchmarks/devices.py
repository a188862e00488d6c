"""Where cases run: a GPU, the CPU, or the CPU in place of a GPU."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import clocks
from .clocks import Call

REPEATS = 15
BATCH = 1.5e-3
"""Seconds that one batch of calls takes at least."""
SLOW = 0.05
"""A call that takes longer is measured twice only."""
REST = 0.01
"""Seconds before each call on a CPU, at least."""
RESTS = 30
"""So many at most, while threads are busy: those of OpenBLAS wait for work for 0.1 s."""
KEPT = 1 << 23
"""Numbers of float32: what is larger, the system takes back."""


class Cpu:
    """NumPy's arrays and torch's tensors. Libraries are imported by those who use them."""

    name = "cpu"
    xp: Any = np
    in_turns = True
    """Whether the peers of a case are timed in turns, or each when it has been checked."""

    def array(self, t: Any) -> Any:
        return t.numpy()

    def synchronize(self) -> None:
        """Nothing runs after a call has returned, but JAX, which is waited for."""

    def pause(self) -> None:
        """Before a call: until no thread of the last one is spinning any more."""
        for _ in range(RESTS):
            before = time.process_time()
            time.sleep(REST)
            if time.process_time() - before < REST / 4:
                return

    def works(self) -> bool:
        return True

    def free(self) -> None:
        """Nothing is pooled."""

    def poison(self, sizes: set[int]) -> None:
        """Leave NaN in the memory that the next arrays of these sizes may get."""
        kept = [np.full(n, np.nan, np.float32) for n in sizes if n <= KEPT]
        del kept

    def about(self) -> dict[str, str]:
        return {}

    def copy_rate(self, megabytes: int = 128, threads: tuple[int, ...] = (1,)) -> float:
        """Bytes per second, read and written, of np.copyto in so many threads, at best."""
        source = np.ones(megabytes << 18, np.float32)
        target = np.zeros_like(source)

        def best(count: int) -> float:
            parts = zip(np.array_split(target, count), np.array_split(source, count), strict=True)
            pairs = list(parts)
            with ThreadPoolExecutor(count) as pool:
                run = lambda: list(pool.map(lambda p: np.copyto(*p), pairs))  # noqa: E731
                return min(clocks.seconds(run) for _ in range(9))

        return 2 * source.nbytes / min(map(best, threads))

    def extra(self, call: Call, of_torch: bool) -> dict[str, int]:
        """Bytes at the peak of a call, its result included.

        torch's large arrays come from the system each time: the growth of the process.
        """
        peak = clocks.resident_peak(call) if of_torch else clocks.traced_peak(call)
        return {"extra": peak}


class Dry(Cpu):
    """The CPU in place of a GPU, to see whether everything runs."""

    in_turns = False

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)  # many short calls, perhaps beside other work

    def seconds(self, call: Call, count: int) -> float:
        return clocks.seconds(clocks.many(call, count)) / count

    alone = seconds

    def about(self) -> dict[str, str]:
        return {"GPU": "none: a dry run"}

    def copy_rate(self) -> float:
        return 1e10

    def limits(self) -> dict[str, float]:
        return {"copy": 1e10, "product": 1e11, "half": 2e11, "tf32": 1.5e11, "peak": 2e11}

    def extra(self, call: Call, of_torch: bool) -> dict[str, int]:
        return {}


class Gpu:
    """CuPy's and torch's current device and default stream, which they share."""

    name = "cuda"
    in_turns = False

    def __init__(self) -> None:
        import cupy
        import torch

        self.xp, self.torch = cupy, torch
        if not torch.cuda.is_available():
            raise RuntimeError("torch finds no CUDA device")
        torch.cuda.init()
        cupy.zeros(1)

    def synchronize(self) -> None:
        self.xp.cuda.runtime.deviceSynchronize()

    pause = synchronize

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

    def array(self, t: Any) -> Any:
        return self.xp.from_dlpack(t)

    def works(self) -> bool:
        """An illegal access ends the context: after that every call fails."""
        try:
            self.synchronize()
        except Exception:
            return False
        return True

    def free(self) -> None:
        if self.works():
            self.xp.get_default_memory_pool().free_all_blocks()
            self.torch.cuda.empty_cache()

    def poison(self, sizes: set[int]) -> None:
        """Leave NaN in the memory that the next arrays of these sizes will get."""
        kept = [self.xp.full(n, self.xp.nan, self.xp.float32) for n in sizes]
        kept += [self.torch.full((n,), self.torch.nan, device=self.name) for n in sizes]
        self.synchronize()

    def about(self) -> dict[str, str]:
        runtime = self.xp.cuda.runtime
        found = runtime.getDeviceProperties(self.xp.cuda.Device().id)
        memory = found["totalGlobalMem"] / 2**30
        driver = ""
        if tool := shutil.which("nvidia-smi"):
            query = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
            run = subprocess.run(query, capture_output=True, text=True, check=False)
            match = re.match(r"[\d.]+", run.stdout)
            driver = f", driver {match[0]}" if match else ""

        def version(number: int) -> str:
            return f"{number // 1000}.{number % 1000 // 10}"

        return {
            "GPU": f"{found['name'].decode()}, {memory:.0f} GiB{driver}",
            "CUDA": f"{version(runtime.driverGetVersion())} (driver), "
            f"{version(runtime.runtimeGetVersion())} (CuPy), {self.torch.version.cuda} (torch)",
        }

    def copy_rate(self) -> float:
        """Bytes per second, read and written, of a large copy."""
        source = self.xp.ones(1 << 28, self.xp.float32)
        target = self.xp.empty_like(source)
        best = min(self.seconds(lambda: self.xp.copyto(target, source), 5) for _ in range(7))
        return 2 * source.nbytes / best

    def limits(self) -> dict[str, float]:
        """Bytes and operations per second: measured, and by cores and clock."""
        found = {"copy": self.copy_rate()}
        for name, dtype, value in (
            ("product", "float32", "highest"),
            ("tf32", "float32", "high"),
            ("half", "float16", "highest"),
        ):
            try:
                found[name] = self._products(getattr(self.torch, dtype), value)
            except Exception as problem:
                print(f"  {name}: {clocks.reason(problem)}", flush=True)
        self.free()
        device = self.xp.cuda.Device()
        clock = device.attributes.get("ClockRate", 0)  # kHz
        wide = {"70": 64, "72": 64, "75": 64, "80": 64}.get(device.compute_capability, 128)
        peak = 2e3 * clock * wide * device.attributes["MultiProcessorCount"]
        return found | ({"peak": peak} if peak else {})

    def _products(self, dtype: Any, value: str, size: int = 8192) -> float:
        """Operations per second of a large product of random numbers (zeros would be faster)."""
        torch = self.torch
        a, b = (torch.randn(size, size, device=self.name).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        with torch_precision(value):
            torch.mm(a, b, out=out)
            best = min(self.seconds(lambda: torch.mm(a, b, out=out), 3) for _ in range(5))
        return 2 * size**3 / best

    def extra(self, call: Call, of_torch: bool) -> dict[str, int]:
        """Bytes that a call takes from the device at its peak, its result included.

        CuPy's in an empty pool, which never shrinks; torch's by its own count.
        """
        self.free()
        pool = self.xp.cuda.MemoryPool()
        self.torch.cuda.reset_peak_memory_stats()
        before = self.torch.cuda.memory_allocated()
        with self.xp.cuda.using_allocator(pool.malloc):
            y = call()
            self.synchronize()
        peak = self.torch.cuda.max_memory_allocated() - before + pool.total_bytes()
        del y
        pool.free_all_blocks()
        return {"extra": int(peak)}


@contextmanager
def torch_precision(value: str) -> Iterator[None]:
    """torch's float32 products: "highest" is float32, "high" is TF32."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(value)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# --- clocks for a call on a device ----------------------------------------------------


def wait(y: Any, on: Any) -> None:
    """Until a result is there: JAX has streams of its own."""
    for part in y if isinstance(y, (tuple, list)) else (y,):
        if hasattr(part, "block_until_ready"):
            part.block_until_ready()
    on.synchronize()


def by_events(call: Call, on: Any, scale: float) -> dict[str, Any]:
    """Batches of back-to-back calls between two events."""
    one = on.seconds(call, 1)
    if one > SLOW:
        return clocks.summary([one, on.seconds(call, 1)]) | {"batch": 1}
    one = on.seconds(call, max(1, min(10, int(SLOW / one))))
    # the first call of a batch finds an idle device: its launch is part of the time
    count = max(4, math.ceil(BATCH / one))
    times = [on.seconds(call, count) for _ in range(REPEATS)]
    return clocks.summary(times) | {"batch": count}


def by_host(call: Call, on: Any, scale: float) -> dict[str, Any]:
    """Longer batches and the host's clock: it waits for the device once per batch."""

    def batch(count: int) -> float:
        on.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            y = call()
        wait(y, on)
        return (time.perf_counter() - start) / count

    batch(1)
    one = batch(3)
    count = max(1, math.ceil(10 * BATCH / one))
    times = [batch(count) for _ in range(REPEATS if one < SLOW else 3)]
    return clocks.summary(times) | {"batch": count}


def by_sample(call: Call, on: Any, scale: float) -> dict[str, Any]:
    """A loop over a few slices, as if it had run over all."""
    times = [clocks.seconds(lambda: wait(call(), on)) for _ in range(3)]
    return clocks.summary([scale * t for t in times])


CLOCKS: dict[str, Callable[[Call, Any, float], dict[str, Any]]] = {
    "events": by_events,
    "host": by_host,
    "sample": by_sample,
}
