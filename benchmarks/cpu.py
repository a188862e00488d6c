"""Networks on NumPy arrays, on the CPU: xpapply and the other ways.

Needs torch; JAX and onnxruntime are measured where they are installed.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import torch

import xpapply

from . import clocks, cpu_first, fma, networks, runner
from . import cpu_report as names
from .clocks import Call
from .networks import Case, Net
from .runner import Peer

NETS = (
    Net((8, 16, 1)),
    Net((16, 32, 32, 1)),
    Net((16, 32, 32, 1), "tanh"),
    Net((16, 64, 64, 64, 4)),
    Net((10, 50, 50, 3), "GELU"),
    Net((13, 37, 21, 3), "SiLU"),
    Net((16, 64, 64, 4), "ReLU", "float64"),
    Net((32, 128, 128, 128, 8)),
)
SLICES = 1 << 20
SAMPLE = 1000
REPEATS = 15
FEW_REPEATS = 7
NARROW = 64
"""Of networks at most this wide few slices are measured."""
FIRST = 400
"""Calls of few slices, until the kernel runs."""
WARM = Net((3, 5, 2))
"""Called first: the libraries that are loaded then belong to no network's first call."""
FRESH = 1 << 18
"""Slices of first calls: more would hide what planning and compiling takes."""
OF_MEMORY = (NETS[1], NETS[-1])

with_numpy = partial(xpapply.options, engine="numpy")
PEERS = (
    Peer(names.OURS, networks.ours),
    Peer(names.OURS_AXIS0, partial(networks.ours, axis=0), axis=0),
    Peer(names.OURS_NUMPY, networks.ours, context=with_numpy),
    Peer(names.OURS_NUMPY_AXIS0, partial(networks.ours, axis=0), context=with_numpy, axis=0),
    Peer(names.CHUNKS, partial(networks.chunks, size=names.CHUNK)),
    Peer(names.EAGER, networks.eager),
    Peer(names.COMPILE, networks.compiled),
    Peer(names.JAX, networks.jax, turn=1),
    Peer(names.ONNX, networks.onnx, turn=1),
    Peer(names.LOOP, networks.numpy_loop, "sample"),
)
SMALL = (
    PEERS[0],
    PEERS[2],
    Peer(names.OURS_TENSOR, partial(networks.ours, tensors=True)),
    Peer(names.TENSOR, networks.module, context=torch.inference_mode),
    Peer(names.ARRAY, networks.from_numpy_to_numpy, context=torch.inference_mode),
)
"""Of which few slices are measured."""


def start(run: runner.Run) -> dict[str, Any]:
    rows = run.args.slices or (1 << 16 if run.quick else SLICES)
    repeats = run.args.repeats or (3 if run.quick else REPEATS)
    torch.set_num_threads(runner.cores())
    settings = {"rows": rows, "repeats": repeats, "torch threads": runner.cores()}
    return {"settings": settings, "networks": {}}


def measure(run: runner.Run) -> None:
    rows, repeats = run.data["settings"]["rows"], run.data["settings"]["repeats"]
    nets = run.chosen(NETS)
    run.part("limits", lambda: limits(run))
    networks.ours(Case(WARM, rows, run.on))()
    narrow = [net for net in nets if max(net.widths) <= NARROW]
    for net in narrow:
        by_peers(run, net)
    for net in narrow:
        if net.dtype == "float32":
            for count in names.FEW:  # the first calls do not wait for the kernel
                clocks.many(networks.ours(Case(net, count, run.on)), FIRST)()
            few = partial(networks.few, run.on, net, names.FEW, SMALL, min(repeats, FEW_REPEATS))
            run.part(f"small/{net.name}", few)
    if nets:
        words = [net.name for net in nets]
        run.part("fresh", lambda: cpu_first.first_calls("networks", min(rows, FRESH), *words))
    for net in nets:
        if net not in narrow:
            by_peers(run, net)
    run.part("plain", lambda: plain_function(run.on, repeats))
    run.part("memory", lambda: memory([net for net in nets if net in OF_MEMORY], rows))


def by_peers(run: runner.Run, net: Net) -> None:
    """What has been measured of a network is not measured again."""
    settings, done = run.data["settings"], run.data["networks"].setdefault(net.name, {})
    case = Case(net, settings["rows"], run.on, 200 if run.quick else SAMPLE)
    run.measure(case, PEERS, done, settings["repeats"])
    if "median" in done[names.OURS]:
        x = case.on.array(case.x)
        done[names.OURS]["engine"] = xpapply.explain(net.module(), -1, x).engine


# --- plain functions ----------------------------------------------------


def plain_function(on: Any, repeats: int) -> dict[str, Any]:
    """The bytes of every slice, which no tracer can tell: nothing but the loop."""
    a = np.zeros((names.SLICES, 8), np.float32)

    def f(v: np.ndarray) -> int:
        return len(v.tobytes())

    def ours() -> None:
        with xpapply.options(fallback="silent"):
            xpapply.apply_along_axis(f, 1, a)

    calls: dict[str, Call] = {names.OURS: ours, names.LOOP: lambda: np.apply_along_axis(f, 1, a)}
    clocks.in_turns(calls, 2)
    times = clocks.in_turns(calls, 2 * repeats + 1, on.pause)
    return {name: clocks.summary(t) for name, t in times.items()}


# --- memory and limits ----------------------------------------------------------------


def memory(nets: list[Net], rows: int) -> list[dict[str, Any]]:
    """In a process of its own for every number."""
    found = []
    for net in nets:
        for count in (rows, 4 * rows):
            entry: dict[str, Any] = {"network": net.name, "rows": count}
            entry["output"] = 4 * count * net.widths[-1]
            for method in names.MEMORY:
                lines, problem = runner.child("cpu", method, net.name, count)
                if lines:
                    entry[method] = int(lines[-1])
                else:
                    print(f"  memory of {method}: {problem}", flush=True)
            found.append(entry)
    return found


def extra_memory(method: str, name: str, slices: str) -> int:
    """Bytes that one call adds to this process at its peak, its result included."""
    from .devices import Cpu

    (peer,) = (peer for peer in PEERS if peer.name == method)
    few, all_of_them = (Case(networks.named(name), n, Cpu()) for n in (1 << 16, int(slices)))
    with peer.context():
        peer.build(few)()  # libraries, threads, plans and kernels are there now
        return clocks.resident_peak(peer.build(all_of_them))


def limits(run: runner.Run) -> dict[str, Any]:
    """Bytes and floating-point operations per second.

    Multiply-adds alone are measured where llvmlite is installed.
    """
    copy = run.on.copy_rate(64 if run.quick else 512, (1, runner.cores()))
    try:
        multiply_adds = {dtype: fma.peak(runner.cores(), dtype) for dtype in fma.DTYPES}
    except Exception as problem:
        run.say(f"multiply-adds: {clocks.reason(problem)}")
        multiply_adds = {}
    size = 1024 if run.quick else 3072
    a = np.random.default_rng(0).random((size, size), np.float32)
    t, out = torch.from_numpy(a), torch.empty(size, size)
    products = (lambda: torch.mm(t, t, out=out), lambda: np.matmul(a, a, out=out.numpy()))
    best = min(clocks.seconds(call) for call in products for _ in range(5))
    run.on.pause()  # NumPy's threads keep spinning after a large product
    return {"copy": copy, "fma": multiply_adds, "product": 2 * size**3 / best}


if __name__ == "__main__":
    print(extra_memory(*sys.argv[1:]))
