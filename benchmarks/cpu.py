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

from . import clocks, networks, runner
from . import cpu_report as names
from .clocks import Call
from .networks import Case, Net
from .runner import Peer

NETS = (
    Net((8, 16, 1)),
    Net((16, 32, 32, 1)),
    Net((16, 32, 32, 1), "tanh"),
    Net((16, 64, 64, 64, 4)),
    Net((32, 128, 128, 128, 8)),
)
SLICES = 1 << 20
SAMPLE = 2000
REPEATS = 15

with_numpy = partial(xpapply.options, engine="numpy")
PEERS = (
    Peer(names.OURS, networks.ours),
    Peer(names.OURS_AXIS0, partial(networks.ours, axis=0), axis=0),
    Peer(names.OURS_NUMPY, networks.ours, context=with_numpy),
    Peer(names.OURS_NUMPY_AXIS0, partial(networks.ours, axis=0), context=with_numpy, axis=0),
    Peer(names.CHUNKS, partial(networks.chunks, size=names.CHUNK)),
    Peer(names.EAGER, networks.eager),
    Peer(names.COMPILE, networks.compiled),
    Peer(names.VMAP, networks.vmap),
    Peer(names.JAX, networks.jax, turn=1),
    Peer(names.ONNX, networks.onnx, turn=1),
    Peer(names.LOOP, networks.numpy_loop, "sample"),
)
SMALL = (
    PEERS[0],
    PEERS[2],
    Peer(names.TENSOR, networks.module),
    Peer(names.ARRAY, networks.from_numpy_to_numpy),
)
"""Of which few slices are measured."""


def start(run: runner.Run) -> dict[str, Any]:
    rows = run.args.slices or (1 << 16 if run.quick else SLICES)
    repeats = run.args.repeats or (3 if run.quick else REPEATS)
    settings = {"rows": rows, "repeats": repeats, "torch threads": torch.get_num_threads()}
    return {"settings": settings, "networks": {}}


def measure(run: runner.Run) -> None:
    data, settings = run.data, run.data["settings"]
    rows, repeats = settings["rows"], settings["repeats"]
    nets = run.chosen(NETS)
    for net in nets:
        done = data["networks"].setdefault(net.name, {})
        case = Case(net, rows, run.on, 200 if run.quick else SAMPLE)
        run.measure(case, PEERS, done, repeats)
        if "median" in done[names.OURS]:
            x = case.on.array(case.x)
            done[names.OURS]["engine"] = xpapply.explain(net.module(), -1, x).engine
    for net in nets:
        few = partial(networks.few, run.on, net, names.FEW, SMALL, repeats)
        run.part(f"small/{net.name}", few)
    run.part("plain", lambda: plain_function(run.on, repeats))
    run.part("memory", lambda: memory(nets[:1] if run.quick else nets, rows))
    run.part("limits", lambda: limits(run))


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
    few, all_of_them = (Case(networks.named(name), n, Cpu()) for n in (64, int(slices)))
    with peer.context():
        peer.build(few)()  # libraries, threads and plans are there now
        return clocks.resident_peak(peer.build(all_of_them))


def limits(run: runner.Run) -> dict[str, float]:
    """Bytes and floating-point operations per second.

    NumPy's threads keep spinning after a large product, so this comes last.
    """
    copy = run.on.copy_rate(64 if run.quick else 512, (1, runner.cores()))
    size = 1024 if run.quick else 3072
    a = np.random.default_rng(0).random((size, size), np.float32)
    t, out = torch.from_numpy(a), torch.empty(size, size)
    products = (lambda: torch.mm(t, t, out=out), lambda: np.matmul(a, a, out=out.numpy()))
    best = min(clocks.seconds(call) for call in products for _ in range(5))
    return {"copy": copy, "product": 2 * size**3 / best}


if __name__ == "__main__":
    print(extra_memory(*sys.argv[1:]))
