"""Networks on CuPy arrays and CUDA tensors: xpapply and the other ways.

Needs CuPy and torch; JAX and onnxruntime are measured where they are installed.
"""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import xpapply

from . import clocks, networks, runner
from . import gpu_report as names
from .devices import REPEATS, torch_precision
from .gpu_report import ROWS
from .networks import Case, Net, by_layers, chunks, compiled, eager, jax, matmul, ours
from .runner import Peer

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
DEVICE_CALLS = 20

# in this order: what matters most is measured first
ROUNDS = (
    (
        Peer(names.OURS, ours),
        Peer(names.EAGER, eager),
        Peer(names.OURS_MEDIUM, ours, context=partial(xpapply.options, precision="medium")),
        Peer(names.OURS_HIGH, ours, context=partial(xpapply.options, precision="high")),
        Peer(names.OURS_AXIS0, partial(ours, axis=0), axis=0),
        Peer(names.OURS_MIDDLE, partial(ours, axis=1), axis=1),
        Peer(names.OURS_TORCH, partial(ours, tensors=True)),
        Peer(names.OURS_HALF, partial(ours, half=True)),
        Peer(names.EAGER_TF32, eager, context=partial(torch_precision, "high")),
        Peer(names.EAGER_HALF, partial(eager, half=True)),
    ),
    (
        Peer(names.JAX_HIGHEST, partial(jax, precision="highest"), "host"),
        Peer(names.JAX_DEFAULT, jax, "host"),
    ),
    (
        Peer(names.CHUNKS, partial(chunks, size=CHUNK)),
        Peer(names.MATMUL, matmul),
        Peer(names.CUPY_LOOP, networks.cupy_loop, "sample"),
        Peer(names.NUMPY_LOOP, networks.numpy_loop, "sample"),
        Peer(names.COMPILE, compiled),
        Peer(names.ONNX, networks.onnx, "host"),
        Peer(names.KERNELS, by_layers),
    ),
)
FEW = (ROUNDS[0][0], ROUNDS[0][6], ROUNDS[0][1])
"""Of which few slices are measured as well."""


def start(run: runner.Run) -> dict[str, Any]:
    rows = run.args.slices or (4096 if run.quick else ROWS)
    return {
        "settings": {"rows": rows, "repeats": REPEATS, "jobs": max(1, runner.cores() // 2)},
        "rows": {net.name: FEWER_ROWS.get(net, ROWS) * rows // ROWS for net in NETS},
        "limits": run.on.limits(),
    } | {part: {} for part in ("networks", "first")}


def measure(run: runner.Run) -> None:
    nets, data = run.chosen(NETS), run.data
    if not data["first"]:
        for net, kind, entry in first_calls(run, nets):
            data["first"].setdefault(net, {})[kind] = entry
            run.say(f"{net}, first call, {kind}: {entry.get('skipped') or entry['first']}")
            run.save()
    for number, peers in enumerate(ROUNDS):
        for net in nets:
            case = Case(net, data["rows"][net.name], run.on)
            run.measure(case, peers, data["networks"].setdefault(net.name, {}))
            if number == 0:
                del case  # its arrays end with it
                few = partial(networks.few, run.on, net, names.FEW, FEW, REPEATS)
                run.part(f"host/{net.name}", few)
                run.part(f"device/{net.name}", partial(alone, run, net))
                run.part(f"kernels/{net.name}", partial(kernels, run, net))


def kernels(run: runner.Run, net: Net) -> str:
    """What runs."""
    return "; ".join(
        xpapply.explain(net.module(), -1, run.on.array(Case(net, 8, run.on).x)).kernels
    )


def alone(run: runner.Run, net: Net) -> dict[str, dict[str, float]]:
    """Microseconds of the device per call, median."""
    found: dict[str, dict[str, float]] = {}
    with runner.exact():
        for peer, slices in itertools.product(FEW, names.FEW):
            call = peer.build(Case(net, slices, run.on))
            call()
            times = [run.on.alone(call, DEVICE_CALLS) for _ in range(5)]
            found.setdefault(peer.name, {})[str(slices)] = 1e6 * statistics.median(times)
    return found


def first_calls(run: runner.Run, nets: list[Net]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Of every network in fresh processes, some at a time, each with its own cache.

    What they compiled goes to the folder of this run's kernels, so that it finds them.
    """

    def one(net: Net, folder: str, *others: str) -> dict[str, Any]:
        places = dict.fromkeys(("CUPY_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME"), folder)
        words = (net.name, run.data["rows"][net.name], run.on.name, *others)
        lines, problem = runner.child("gpu_first", *words, timeout=max(0.1, run.left()), **places)
        # the last line is the fullest; a process that failed later has others
        found = [line for line in lines if line.startswith("{")]
        try:
            return json.loads(found[-1]) if found else {"skipped": problem}
        except ValueError as cut_off:
            return {"skipped": clocks.reason(cut_off)}

    def both(net: Net) -> list[tuple[str, str, dict[str, Any]]]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            found = [(net.name, "cold", one(net, folder, "others"))]
            if net in WARM:
                found.append((net.name, "warm", one(net, folder)))
            with suppress(OSError):
                shutil.copytree(Path(folder), run.args.kernels, dirs_exist_ok=True)
        return found

    order = sorted(nets, key=lambda net: net not in WARM)
    with ThreadPoolExecutor(run.data["settings"]["jobs"]) as pool:
        for task in as_completed([pool.submit(both, net) for net in order]):
            yield from task.result()
