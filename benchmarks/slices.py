"""Functions of slices (logsumexp, softmax, norm ...): xpapply and what one would take instead.

    python benchmarks/slices.py --device gpu            # measures, writes slices_gpu.md and .json
    python benchmarks/slices.py --device cpu            # the same on the CPU
    python benchmarks/slices.py --device gpu --resume   # what is missing in slices_gpu.json
    python benchmarks/slices.py --device gpu --dry      # no GPU: the same code, few elements
    python benchmarks/slices.py --device cpu --render   # writes slices_cpu.md again

Needs torch, and CuPy on a GPU; SciPy and JAX take part where they are installed, torch.compile
where it works. What has been measured is on disk at every moment. The ways are in
`slices_ways.py`, the text is made by `slices_report.py`.
"""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import timing
from slices_report import JAX, NAIVE, OURS, OURS_TORCH, SCIPY, SUM, TORCH, readme, render
from timing import Call, digits

NO_TIME = "no time was left"
WRONG = 1e-3
"""An error of a result, relative to float64, that no rounding explains."""
HOST_CALLS = 200
REPEATS_CPU = 9
REST = 0.02
GROUPS = ((OURS, SUM, SCIPY, NAIVE), (TORCH, OURS_TORCH), (JAX,))
"""On the CPU: libraries with threads of their own come after the others, as those spin."""


# --- the CPU as a device --------------------------------------------------------------


class Cpu:
    """NumPy's and torch's."""

    name = "cpu"

    def __init__(self) -> None:
        import numpy
        import torch

        self.xp = numpy
        torch.set_num_threads(timing.cores())

    def array(self, t: Any) -> Any:
        return t.numpy()

    def synchronize(self) -> None:
        """Nothing runs behind our back, but JAX, which is waited for."""

    def works(self) -> bool:
        return True

    def free(self) -> None:
        """Nothing is pooled."""

    def poison(self, sizes: set[int]) -> None:
        kept = [self.xp.full(n, self.xp.nan, self.xp.float32) for n in sizes]
        del kept

    def about(self) -> dict[str, str]:
        return {}

    def copies(self) -> float:
        """Bytes per second, read and written, of a large copy by one thread."""
        source = self.xp.ones(1 << 25, self.xp.float32)
        target = self.xp.empty_like(source)
        copy = partial(self.xp.copyto, target, source)
        return 2 * source.nbytes / min(timing.seconds(copy) for _ in range(9))


def device(name: str, dry: bool) -> tuple[Any, Callable[[], float]]:
    """The device, and what measures its copies."""
    if name == "cpu":
        on = Cpu()
        return on, on.copies
    import gpu

    if dry:
        return gpu.Dry(), lambda: 1e10
    found = gpu.Gpu()
    return found, found._copies


# --- memory ---------------------------------------------------------------------------


def extra_on_gpu(call: Call, on: Any) -> int | None:
    """Bytes that a call takes from the device at its peak, its result included.

    CuPy's in an empty pool, which never shrinks; torch's by its own count.
    """
    import torch

    if on.xp.__name__ != "cupy":
        return None
    on.free()
    pool = on.xp.cuda.MemoryPool()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with on.xp.cuda.using_allocator(pool.malloc):
        y = call()
        on.synchronize()
    peak = torch.cuda.max_memory_allocated() - before + pool.total_bytes()
    del y
    pool.free_all_blocks()
    return int(peak)


def extra_on_cpu(call: Call, way: str) -> int:
    """Bytes at the peak, the result included.

    What NumPy allocates by tracemalloc; of torch, whose large arrays come from the system each
    time, the growth of the process. JAX keeps what it has had.
    """
    if way != TORCH:
        tracemalloc.start()
        try:
            y = call()
            return tracemalloc.get_traced_memory()[1] + 0 * (y is None)
        finally:
            tracemalloc.stop()

    def status(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))

    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    y = call()
    return status("VmHWM") - before + 0 * (y is None)


# --- one case -------------------------------------------------------------------------


def checked(call: Call, case: Any, way: str) -> dict[str, Any]:
    """The first call: its time and its error."""
    on, (_, written) = case.on, case.sizes()
    on.poison({t.numel() for t in case.truth} | {written // 4})
    start = time.perf_counter()
    y = call()
    for part in y if isinstance(y, (tuple, list)) else (y,):
        if hasattr(part, "block_until_ready"):
            part.block_until_ready()
    on.synchronize()
    found = {"first": time.perf_counter() - start}
    error = case.error(y, of_sum=way == SUM)
    found["error"] = error
    if not error < WRONG:
        raise ArithmeticError(f"a wrong result: error {error:.1e}")
    return found


def on_gpu(build: Any, way: str, case: Any) -> dict[str, Any]:
    """Check, then time by device events (JAX: by the host)."""
    import gpu

    found: dict[str, Any] = {}
    try:
        with gpu.exact():
            call = build(case)
            found |= checked(call, case, way)
            clock = gpu.by_host if way == JAX else gpu.by_events
            found |= clock(call, case.on, 0)
            if way != JAX:
                extra = extra_on_gpu(call, case.on)
                found |= {} if extra is None else {"extra": extra}
    except Exception as problem:
        return found | {"skipped": timing.reason(problem)}
    return found


def on_cpu(ways: dict[str, Any], case: Any, repeats: int) -> dict[str, Any]:
    """All ways in turns: what disturbs the machine disturbs all of them."""
    import warnings

    import xpapply

    found: dict[str, Any] = {}
    calls: dict[str, Call] = {}
    for way, build in ways.items():
        try:
            with xpapply.options(fallback="raise"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call = build(case)
                found[way] = checked(call, case, way)
                if way not in (OURS_TORCH, JAX):  # of tensors the result is torch's
                    found[way]["extra"] = extra_on_cpu(call, way)
            calls[way] = call
        except Exception as problem:
            found.setdefault(way, {})["skipped"] = timing.reason(problem)
    for group in GROUPS:
        mine = {way: call for way, call in calls.items() if way in group}
        for way, times in timing.interleaved(mine, repeats, REST).items():
            found[way] |= timing.summary(times)
    return found


# --- host cost and first calls --------------------------------------------------------


def microseconds(call: Call, on: Any, repeats: int) -> dict[str, float]:
    """Of the host per call, the device's work behind."""
    calls = timing.many(call, HOST_CALLS)
    calls()
    times = []
    for _ in range(repeats):
        on.synchronize()
        times.append(1e6 * timing.seconds(calls) / HOST_CALLS)
    on.synchronize()
    return {"median": statistics.median(times), "min": min(times)}


# --- all of it ------------------------------------------------------------------------


class Run:
    """One run, or the rest of one: what is in `data` is not measured again."""

    def __init__(self, on: Any, data: dict[str, Any], args: Any, begin: float) -> None:
        self.on, self.data, self.args, self.begin = on, data, args, begin
        self.kind = f"slices_{args.device}"
        self.most = 1 << 16 if args.dry or args.quick else None

    def left(self) -> float:
        return self.args.seconds - (time.perf_counter() - self.begin)

    def say(self, text: str) -> None:
        print(f"{time.perf_counter() - self.begin:6.1f} s  {text}", flush=True)

    def save(self) -> None:
        try:
            timing.save(self.kind, self.data, render, self.args.out)
        except Exception as problem:
            self.say(f"the text: {timing.reason(problem)}")

    def all(self) -> None:
        import slices_ways as ways

        if self.args.device == "cpu":
            self.host(ways)
            self.cpu(ways)
            return
        self.gpu(ways, ways.ROUNDS[0])
        self.host(ways)
        self.first(ways)
        for methods in ways.ROUNDS[1:]:
            self.gpu(ways, methods)

    def gpu(self, ways: Any, methods: dict[str, Any]) -> None:
        cases = ways.gpu_cases(self.on, self.most)
        while cases:
            case = cases.pop(0)  # its arrays end with it
            done = self.entry(case)["ways"]
            for way, build in methods.items():
                if not ways.wanted(way, case):
                    continue
                if done.get(way, {"skipped": NO_TIME}).get("skipped") != NO_TIME:
                    continue
                if self.left() < 0:
                    done[way] = {"skipped": NO_TIME}
                    continue
                entry = on_gpu(build, way, case)
                if "bytes" not in self.entry(case) and "first" in entry:
                    self.entry(case)["bytes"] = case.sizes()
                done[way] = entry
                self.line(case.name, way, entry)
                self.on.free()
                self.go_on()
            self.save()

    def cpu(self, ways: Any) -> None:
        wanted = {way: build for methods in ways.ROUNDS for way, build in methods.items()}
        wanted = {way: wanted[way] for group in GROUPS for way in group}
        cases = ways.cpu_cases(self.on, self.most)
        while cases:
            case = cases.pop(0)  # its arrays end with it
            if self.left() < 0:
                self.entry(case)["ways"] = {w: {"skipped": NO_TIME} for w in wanted}
                continue
            self.entry(case)["bytes"] = case.sizes()
            mine = {way: build for way, build in wanted.items() if ways.wanted(way, case)}
            found = on_cpu(mine, case, 3 if self.most else REPEATS_CPU)
            self.entry(case)["ways"] = found
            for way, entry in found.items():
                self.line(case.name, way, entry)
            self.save()

    def line(self, case: str, way: str, entry: dict[str, Any]) -> None:
        self.say(f"{case}, {way}: {entry.get('skipped') or digits(1e3 * entry['min']) + ' ms'}")

    def entry(self, case: Any) -> dict[str, Any]:
        new = {"section": case.section, "function": case.function, "axis": case.axis}
        new |= {"shape": case.shape, "row": case.row, "ways": {}}
        found = self.data["cases"].setdefault(case.name, new)
        return found

    def host(self, ways: Any) -> None:
        if self.data["host"] or self.left() < 0:
            return
        try:
            calls = ways.tiny(self.on)
        except Exception as problem:
            self.say(f"host: {timing.reason(problem)}")
            return
        for name, group in calls.items():
            for way, call in group.items():
                try:
                    found = microseconds(call, self.on, 15)
                except Exception as problem:
                    found = {"skipped": timing.reason(problem)}
                self.data["host"].setdefault(name, {})[way] = found
                self.say(f"host, {name}, {way}: {found.get('median') or found['skipped']}")
        self.save()

    def first(self, ways: Any) -> None:
        if self.data["first"] or self.left() < 0:
            return
        try:
            for name, call in ways.first_calls(self.on):
                self.on.synchronize()
                start = time.perf_counter()
                call()
                self.on.synchronize()
                self.data["first"][name] = time.perf_counter() - start
                self.say(f"first call, {name}: {self.data['first'][name]:.3f} s")
        except Exception as problem:
            self.say(f"first calls: {timing.reason(problem)}")
        self.save()

    def go_on(self) -> None:
        """In a new process, if a kernel has made this one's device unusable."""
        if self.on.works() or self.args.out is None:
            return
        self.save()
        self.say("the device fails in this process: the rest in another one")
        command = [sys.executable, str(Path(__file__).resolve()), "--device", "gpu", "--resume"]
        command += ["--out", str(self.args.out), "--seconds", str(self.left())]
        os.execv(sys.executable, command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"), required=True)
    parser.add_argument("--seconds", type=float, help="nothing is begun after this (200; cpu 900)")
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--dry", action="store_true", help="--device gpu without one, no files")
    parser.add_argument("--quick", action="store_true", help="few elements, no files")
    parser.add_argument("--resume", action="store_true", help="what is missing in the JSON")
    parser.add_argument("--render", action="store_true", help="the text again, from the JSON")
    parser.add_argument(
        "--readme", action="store_true", help="a line for the README, from the JSON"
    )
    args = parser.parse_args()
    trial = args.dry or args.quick
    args.out = args.out or (None if trial else timing.RESULTS)
    name = f"slices_{args.device}"
    if args.readme:
        print(readme(timing.load(name, args.out or timing.RESULTS)))
        return
    if args.render:
        folder = args.out or timing.RESULTS
        timing.save(name, timing.load(name, folder), render, folder)
        return
    args.seconds = args.seconds or (200 if args.device == "gpu" else 900)
    begin = time.perf_counter()
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if args.device == "cpu" or args.dry:
        os.environ["JAX_PLATFORMS"] = "cpu"
    cache = Path(tempfile.mkdtemp())  # every kernel is compiled in this run
    atexit.register(shutil.rmtree, cache, ignore_errors=True)
    os.environ["CUPY_CACHE_DIR"] = str(cache)  # before CuPy is imported
    on, copies = device(args.device, args.dry)
    if args.resume:
        data = timing.load(name, args.out or timing.RESULTS)
    else:
        data = {
            "device": args.device,
            "machine": timing.machine() | on.about(),
            "limits": {"copy": copies()},
        }
    for part in ("cases", "host", "first"):
        data.setdefault(part, {})
    on.free()
    run = Run(on, data, args, begin)
    run.all()
    run.save()
    run.say("done")
    print(f"\n{render(data)}", flush=True)


if __name__ == "__main__":
    main()
