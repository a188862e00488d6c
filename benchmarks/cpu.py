"""Networks on NumPy arrays, on the CPU: xpapply and the other ways.

    python benchmarks/cpu.py            # measures, writes results/cpu.md and cpu.json
    python benchmarks/cpu.py --quick    # fewer rows and repeats: does everything run?
    python benchmarks/cpu.py --render   # writes cpu.md again from cpu.json

Needs torch; JAX and onnxruntime are measured where they are installed. Leave
the machine alone while it runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import timing
from timing import Call, digits

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no processes that stay

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
    torch_vmap,
)

import xpapply

NETS = (
    Net((8, 16, 1)),
    Net((16, 32, 32, 1)),
    Net((16, 32, 32, 1), "tanh"),
    Net((16, 64, 64, 64, 4)),
    Net((32, 128, 128, 128, 8)),
)
ROWS = 1 << 20
REPEATS = 15
REST = 0.03
CHUNK = 8192
SAMPLE = 2000
SLICES = 20_000

OURS = "xpapply"
OURS_NUMPY = 'xpapply, engine="numpy"'
OURS_AXIS0 = "xpapply, axis 0"
OURS_NUMPY_AXIS0 = 'xpapply, engine="numpy", axis 0'
EAGER = "torch eager"
CHUNKS = f"torch, {CHUNK}-row chunks by hand"
COMPILE = "torch.compile"
VMAP = "torch.vmap"
JAX = "JAX, jit(vmap)"
ONNX = "onnxruntime"
LOOP = "numpy.apply_along_axis"
METHODS = (
    *(OURS, OURS_AXIS0, OURS_NUMPY, OURS_NUMPY_AXIS0),
    *(CHUNKS, EAGER, COMPILE, VMAP, JAX, ONNX, LOOP),
)


# --- the methods ----------------------------------------------------------------------


def rows_of(net: Net, rows: int) -> np.ndarray:
    """Slices from a normal distribution, (rows, n)."""
    x = np.empty((rows, net.widths[0]), np.float32)
    np.random.default_rng(0).standard_normal(dtype=np.float32, out=x)
    return x


def ours(module: Any, x: np.ndarray, axis: int, engine: str = "") -> Call:
    def call() -> np.ndarray:
        with xpapply.options(engine=engine, fallback="raise"):
            return xpapply.apply_along_axis(module, axis, x)

    return call


def builders(net: Net, x: np.ndarray) -> dict[str, Callable[[], tuple[Call, str]]]:
    """For each method what prepares it: a call that gives (rows, outputs), and a remark."""
    module, tensor = net.module(), torch.from_numpy(x)
    columns = np.ascontiguousarray(x.T)

    def plain(call: Call) -> Callable[[], tuple[Call, str]]:
        return lambda: (call, "")

    def transposed(call: Call) -> Callable[[], tuple[Call, str]]:
        return lambda: (lambda: call().T, "")

    def jax() -> tuple[Call, str]:
        import jax.numpy as jnp

        run = jax_vmap(net, jnp.asarray(x), None)
        return lambda: run().block_until_ready(), ""

    def onnx() -> tuple[Call, str]:
        session, note = onnx_session(net, "CPUExecutionProvider", timing.cores())
        return lambda: session.run(None, {"x": x})[0], note

    return {
        OURS: plain(ours(module, x, -1)),
        OURS_AXIS0: transposed(ours(module, columns, 0)),
        OURS_NUMPY: plain(ours(module, x, -1, "numpy")),
        OURS_NUMPY_AXIS0: transposed(ours(module, columns, 0, "numpy")),
        CHUNKS: plain(torch_chunks(module, tensor, net.widths[-1], CHUNK)),
        EAGER: plain(torch_eager(module, tensor)),
        COMPILE: lambda: torch_compile(module, tensor),
        VMAP: plain(torch_vmap(module, tensor)),
        JAX: jax,
        ONNX: onnx,
    }


def measure(net: Net, rows: int, repeats: int, sample: int) -> dict[str, Any]:
    """All methods on one network, in turns."""
    x = rows_of(net, rows)
    truth = reference(net, torch.from_numpy(x))
    calls: dict[str, Call] = {}
    found: dict[str, Any] = {}
    for name, build in builders(net, x).items():
        try:
            call, note = build()
            y = call()
            y = y if isinstance(y, torch.Tensor) else torch.from_numpy(np.array(y))
            error = relative_error(y, truth)
        except Exception as problem:
            found[name] = {"skipped": timing.reason(problem)}
            print(f"  {name}: {found[name]['skipped']}", flush=True)
            continue
        found[name] = {"error": error} | ({"note": note} if note else {})
        calls[name] = call
    # libraries with threads of their own come after the others: those threads spin for a while
    last = {name: call for name, call in calls.items() if name.startswith(("JAX", "onnx"))}
    first = {name: call for name, call in calls.items() if name not in last}
    for group in (first, last):
        for name, times in timing.interleaved(group, repeats, REST).items():
            found[name] |= timing.summary(times)
    found[OURS]["engine"] = xpapply.explain(net.module(), -1, x).engine
    found[LOOP] = loop(net, x[:sample], truth[:sample], rows)
    return found


def loop(net: Net, x: np.ndarray, truth: torch.Tensor, rows: int) -> dict[str, Any]:
    """NumPy's loop over a sample, extrapolated."""
    module = net.module()

    @torch.inference_mode()
    def call() -> np.ndarray:
        return np.apply_along_axis(lambda v: module(torch.from_numpy(v)).numpy(), -1, x)

    error = relative_error(torch.from_numpy(call()), truth)
    times = [timing.seconds(call) * rows / len(x) for _ in range(3)]
    note = f"extrapolated from {len(x):,} slices"
    return timing.summary(times) | {"error": error, "note": note}


# --- memory ---------------------------------------------------------------------------

MEMORY = (OURS, OURS_NUMPY, EAGER)


def status(field: str) -> int:
    """A line of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def extra_memory(method: str, net: Net, rows: int) -> int:
    """Bytes that one call adds to this process at its peak, its result included."""
    x = rows_of(net, rows)
    module = net.module()
    few = x[:64].copy()

    def prepare(x: np.ndarray) -> Call:
        if method == EAGER:
            return torch_eager(module, torch.from_numpy(x))
        return ours(module, x, -1, "numpy" if method == OURS_NUMPY else "")

    prepare(few)()  # libraries, threads and plans are there now
    call = prepare(x)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    y = call()
    return status("VmHWM") - before + 0 * len(y)


def memory(nets: tuple[Net, ...], rows: int) -> list[dict[str, Any]]:
    """In a process of its own for every number."""
    found = []
    for number, net in enumerate(NETS):
        if net not in nets:
            continue
        for count in (rows, 4 * rows):
            entry: dict[str, Any] = {"network": net.name, "rows": count}
            entry["output"] = 4 * count * net.widths[-1]
            for method in MEMORY:
                job = [sys.executable, __file__, "--memory", method, str(number), str(count)]
                run = subprocess.run(job, capture_output=True, text=True, check=False)
                lines = (run.stdout if run.returncode == 0 else run.stderr).strip().splitlines()
                last = lines[-1] if lines else "no output"
                if run.returncode == 0:
                    entry[method] = int(last)
                else:
                    print(f"  memory of {method}: {last}", flush=True)
            found.append(entry)
    return found


# --- small arrays, plain functions, limits --------------------------------------------

FEW = (1, 100, 1000)
TENSOR = "torch eager, on a tensor"
ARRAY = "torch eager, from and to NumPy"


def small(net: Net, repeats: int) -> dict[str, dict[str, float]]:
    """Microseconds per call, median."""
    module = net.module()
    found: dict[str, dict[str, float]] = {}
    for rows in FEW:
        x = rows_of(net, rows)
        tensor = torch.from_numpy(x)
        calls: dict[str, Call] = {
            OURS: lambda x=x: xpapply.apply_along_axis(module, -1, x),
            TENSOR: lambda t=tensor: module(t),
            ARRAY: lambda x=x: module(torch.from_numpy(x)).numpy(),
        }
        batches = {name: timing.many(call, 100) for name, call in calls.items()}
        batches[OURS_NUMPY] = _forced(timing.many(calls[OURS], 100))
        timing.interleaved(batches, 2, 0)
        for name, times in timing.interleaved(batches, repeats, REST / 3).items():
            found.setdefault(name, {})[str(rows)] = 1e4 * timing.summary(times)["median"]
    return found


def _forced(calls: Call) -> Call:
    def call() -> None:
        with xpapply.options(engine="numpy"):
            calls()

    return call


def plain_function(repeats: int) -> dict[str, Any]:
    """`len` of every slice: nothing but the loop."""
    a = np.zeros((SLICES, 8), np.float32)

    def ours() -> None:
        with xpapply.options(fallback="silent"):
            xpapply.apply_along_axis(len, 1, a)

    calls: dict[str, Call] = {OURS: ours, LOOP: lambda: np.apply_along_axis(len, 1, a)}
    timing.interleaved(calls, 2, 0)
    times = timing.interleaved(calls, 2 * repeats + 1, REST)
    return {name: timing.summary(t) for name, t in times.items()}


def copy_rate(megabytes: int) -> float:
    """Bytes per second, read and written, of np.copyto: in one thread or in all, the faster."""
    source = np.ones(megabytes << 18, np.float32)
    target = np.zeros_like(source)

    def best(threads: int) -> float:
        parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))  # noqa: B905
        with ThreadPoolExecutor(threads) as pool:
            run = lambda: list(pool.map(lambda p: np.copyto(*p), parts))  # noqa: E731
            return min(timing.seconds(run) for _ in range(7))

    return 2 * source.nbytes / min(best(1), best(timing.cores()))


def product_rate(size: int) -> float:
    """Floating-point operations per second of a large product, by torch or NumPy.

    NumPy's threads keep spinning afterwards, so this comes last.
    """
    a = np.random.default_rng(0).random((size, size), np.float32)
    t, out = torch.from_numpy(a), torch.empty(size, size)
    best = min(timing.seconds(lambda: torch.mm(t, t, out=out)) for _ in range(5))
    best = min(best, *(timing.seconds(lambda: np.matmul(a, a, out=out.numpy())) for _ in range(5)))
    return 2 * size**3 / best


# --- the text -------------------------------------------------------------------------


def render(data: dict[str, Any]) -> str:
    results, rows = data["networks"], data["settings"]["rows"]
    nets = {net.name: net for net in NETS}

    def times(entry: dict[str, Any], kind: str) -> str:
        return digits(1e3 * entry[kind]) if kind in entry else ""

    def ratio(name: str, entry: dict[str, Any], kind: str) -> str:
        if kind not in entry or kind not in results[name].get(OURS, {}):
            return ""
        return f"{times(entry, kind)} ({digits(entry[kind] / results[name][OURS][kind])}x)"

    engines = sorted({r[OURS]["engine"] for r in results.values() if "engine" in r.get(OURS, {})})
    parts = [
        "# CPU",
        f"{rows:,} slices of float32 in one run of `benchmarks/cpu.py`, the methods in turns, "
        f"{data['settings']['repeats']} times each; networks with ReLU, tanh and biases. The "
        'input is (slices, inputs) and the slices lie along the last axis; "axis 0" has it as '
        "(inputs, slices). xpapply is called with a torch module and a NumPy array; torch is "
        f"loaded, so it takes the engine {' and '.join(engines)}.",
        timing.machine_table(data["machine"]),
        "## xpapply against torch",
        _against(results),
        "## Time",
        "Milliseconds, median; in brackets as a multiple of xpapply's.",
        timing.grid(results, METHODS, lambda n, e: ratio(n, e, "median")),
        "The fastest of the repeats:",
        timing.grid(results, METHODS, lambda n, e: ratio(n, e, "min")),
        timing.skipped(results),
        "## Error",
        "Against float64, all slices: Euclidean norm of the difference over that of the truth.",
        timing.grid(results, METHODS, lambda n, e: f"{e['error']:.1e}" if "error" in e else ""),
    ]
    if "limits" in data:
        copy, product = data["limits"]["copy"], data["limits"]["product"]
        parts += [
            "## The least it could take",
            f"np.copyto moves {copy / 1e9:.3g} GB/s here (read and written), a large product "
            f"makes {product / 1e9:.3g} GFLOP/s. Reading each slice once and writing each result "
            "once, or the products alone (no activations, nothing but multiply-adds), at these "
            "rates, in milliseconds:",
            timing.table(
                ["", "bytes", "products", "xpapply", "of the larger"],
                (
                    [
                        name,
                        digits(1e3 * (least := nets[name].bytes(rows) / copy)),
                        digits(1e3 * (work := nets[name].flop(rows) / product)),
                        times(r[OURS], "median"),
                        f"{digits(r[OURS]['median'] / max(least, work), 2)}x",
                    ]
                    for name, r in results.items()
                    if "median" in r.get(OURS, {})
                ),
            ),
        ]
    if data.get("memory"):
        parts += [
            "## Memory",
            "MiB that one call adds to the process at its peak (VmHWM, a process of its own for "
            "each number); the output is part of it.",
            timing.table(
                ["", "slices", "output", *MEMORY, "xpapply without output"],
                (
                    [
                        e["network"],
                        f"{e['rows']:,}",
                        digits(e["output"] / 2**20),
                        *(digits(e[m] / 2**20) if m in e else "" for m in MEMORY),
                        digits((e[OURS] - e["output"]) / 2**20, 2) if OURS in e else "",
                    ]
                    for e in data["memory"]
                ),
            ),
        ]
    if data.get("small"):
        names = (OURS, OURS_NUMPY, TENSOR, ARRAY)
        parts += [
            "## Small arrays",
            "Microseconds per call, median.",
            timing.table(
                ["", "slices", *names],
                (
                    [name, f"{n:,}", *(digits(found[m][str(n)]) for m in names)]
                    for name, found in data["small"].items()
                    for n in FEW
                ),
            ),
        ]
    if "plain" in data:
        o, n = data["plain"][OURS], data["plain"][LOOP]
        parts += [
            "## Functions that cannot be lifted",
            f"`apply_along_axis(len, 1, a)` over {SLICES:,} slices: xpapply "
            f"{times(o, 'median')} ms, NumPy {times(n, 'median')} ms, "
            f"{digits(o['median'] / n['median'])} times as long (the fastest of each: "
            f"{digits(o['min'] / n['min'])}). Wanted: 1.1 at most.",
        ]
    return "\n\n".join(parts)


def _against(results: dict[str, Any]) -> str:
    """What is wanted, and what is."""
    rows = []
    for name, found in results.items():
        if any("median" not in found.get(m, {}) for m in (OURS, EAGER, CHUNKS)):
            continue
        cells = [digits(1e3 * found[OURS]["median"])]
        for method, wanted in ((EAGER, 4.0), (CHUNKS, 1.0)):
            factor = found[method]["median"] / found[OURS]["median"]
            lowest = found[method]["min"] / found[OURS]["min"]
            # a chunked loop that is as fast does not always come out as exactly as fast
            met = factor >= wanted * (1.0 if wanted > 1 else 0.95)
            cells.append(f"{digits(factor)} ({digits(lowest)}): {'yes' if met else 'no'}")
        rows.append([name, *cells])
    head = ["", "xpapply, ms", "x faster than eager: 4?", "than chunks: level?"]
    text = "By medians, in brackets by the fastest of the repeats; within 5 % counts as level."
    return f"{timing.table(head, rows)}\n\n{text}"


# --- all of it ------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows, no files")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--render", action="store_true", help="cpu.md from cpu.json")
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory:
        method, number, rows = args.memory
        print(extra_memory(method, NETS[int(number)], int(rows)))
        return
    folder = args.out or (None if args.quick else timing.RESULTS)
    if args.render:
        folder = folder or timing.RESULTS
        timing.save("cpu", timing.load("cpu", folder), render, folder)
        return
    rows = args.rows or (1 << 16 if args.quick else ROWS)
    repeats = args.repeats or (3 if args.quick else REPEATS)
    data: dict[str, Any] = {
        "machine": timing.machine(),
        "settings": {"rows": rows, "repeats": repeats, "torch threads": torch.get_num_threads()},
        "networks": {},
        "small": {},
    }

    def step(what: str) -> None:
        timing.save("cpu", data, render, folder)
        print(f"{time.perf_counter() - start:6.0f} s  {what}", flush=True)

    start = time.perf_counter()
    for net in NETS:
        step(net.name)
        data["networks"][net.name] = measure(net, rows, repeats, 200 if args.quick else SAMPLE)
    for net in NETS:
        step(f"{net.name}, small arrays")
        data["small"][net.name] = small(net, repeats)
    step("plain function")
    data["plain"] = plain_function(repeats)
    step("memory")
    data["memory"] = memory(NETS[:1] if args.quick else NETS, rows)
    step("limits")
    data["limits"] = {
        "copy": copy_rate(64 if args.quick else 512),
        "product": product_rate(1024 if args.quick else 3072),
    }
    step("done")
    print(render(data))


if __name__ == "__main__":
    main()
