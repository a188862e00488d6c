"""Arrays larger than memory: files read and written in blocks, and arrays of the host on a GPU.

Memory maps are sparse files, which take no room on the disk: what is measured is everything but the
disk. zarr's arrays are of numbers that compress to a part. Everything that is read is in the
system's cache where it has room.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import xpapply

from . import runner
from .files_report import ARR_GET, BY_HAND, IN_MEMORY, LOOP, OURS, WHOLE

GIGABYTES = {"cpu": 20.0, "gpu": 8.0}
QUICK = 0.05
SHARE = 10
"""One of so many bytes is that of the command line's volumes."""
REPEATS = 3
MEMORY = "300 MB"
LOOPED = 1 << 20
"""Slices of a block of the loop that one writes without this."""

Call = Callable[[], Any]


def network(*sizes: int) -> xpapply.MLP:
    rng = np.random.default_rng(0)
    pairs = list(pairwise(sizes))
    weights = [rng.normal(size=(n, m)).astype("f4") / np.float32(m**0.5) for m, n in pairs]
    return xpapply.MLP(weights, [np.zeros(n, "f4") for n in sizes[1:]], "relu")


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    size = QUICK if run.quick else GIGABYTES[run.args.device]
    return {"settings": {"gigabytes": size, "memory": MEMORY}, "cases": {}}


def measure(run: runner.Run) -> None:
    """All cases, each in a part of its own."""
    size = run.data["settings"]["gigabytes"]
    for case in run.chosen(CASES[run.args.device]):
        run.part(f"cases/{case.name}", partial(case.measure, size), line)


def line(found: dict[str, Any]) -> str:
    """What a run says of a case."""
    return ", ".join(f"{name} {found['bytes'] / t / 1e9:.2f} GB/s" for name, t in times(found))


def times(found: dict[str, Any]) -> list[tuple[str, float]]:
    return list(found["seconds"].items())


def best(calls: dict[str, Call]) -> dict[str, float]:
    """The least of some turns: what else the machine does at a time slows all."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            found[name].append(time.perf_counter() - begin)
    return {name: min(t) for name, t in found.items()}


class Case:
    """A name, and how to measure it at a size in gigabytes."""

    def __init__(self, name: str, measure: Callable[[float], dict[str, Any]]) -> None:
        self.name, self.measure = name, measure


# --- files ------------------------------------------------------------------------------


_RESIDENT = """
    import os, threading, time
    import numpy as np, xpapply
    from benchmarks import files
    peak = [0]

    def look():
        while True:
            with open("/proc/self/status") as file:
                found = [int(l.split()[1]) for l in file if l.startswith("VmRSS")]
            peak[0] = max(peak[0], found[0] << 10)
            time.sleep(0.01)

    threading.Thread(target=look, daemon=True).start()
    count = {count}
    arr = np.memmap({arr!r}, "f4", "r", shape=(count, 16))
    out = np.memmap({out!r}, "f4", "r+", shape=(count, 1))
    begin = time.perf_counter()
    with xpapply.options(memory={memory!r}):
        xpapply.apply_along_axis(files.network(16, 32, 32, 1), -1, arr, out=out)
    print(time.perf_counter() - begin, peak[0])
"""


def memory_map(size: float) -> dict[str, Any]:
    """A network over a memory map, into another one; in a process of its own for its memory."""
    folder = Path(tempfile.mkdtemp())
    count = int(size * 1e9) // 64
    net = network(16, 32, 32, 1)
    try:
        arr, out = folder / "arr", folder / "out"
        for path, width in ((arr, 64), (out, 4)):
            with open(path, "wb") as file:
                file.truncate(count * width)
        script = _RESIDENT.format(count=count, arr=str(arr), out=str(out), memory=MEMORY)
        command = [sys.executable, "-c", textwrap.dedent(script)]
        turns = []
        for _ in range(REPEATS):
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            turns.append(tuple(map(float, said.split())))
        seconds = {OURS: min(t for t, _ in turns)}
        in_memory = np.ones((min(count, 1 << 24), 16), "f4")
        m, y = (
            np.memmap(arr, "f4", "r", shape=(count, 16)),
            np.memmap(out, "f4", "r+", shape=(count, 1)),
        )

        def looped() -> None:
            for k in range(0, count, LOOPED):
                y[k : k + LOOPED] = xpapply.apply_along_axis(net, -1, m[k : k + LOOPED])

        calls = {
            IN_MEMORY: lambda: xpapply.apply_along_axis(net, -1, in_memory),
            LOOP: looped,
        }
        found = best(calls)
        found[IN_MEMORY] *= count / len(in_memory)
        right = xpapply.apply_along_axis(net, -1, np.zeros((1, 16), "f4"))[0, 0]
        wrong = not all((y[k : k + LOOPED] == right).all() for k in range(0, count, LOOPED))
        return {
            "seconds": seconds | found, "bytes": count * 64, "resident": max(p for _, p in turns),
            "wrong": wrong,
        }  # fmt: skip
    finally:
        shutil.rmtree(folder)


def of_zarr(f: Callable[..., Any], width: int, size: float) -> dict[str, Any]:
    """A function over zarr's chunks, into chunks, beside what reading and writing alone take."""
    import zarr

    folder = Path(tempfile.mkdtemp())
    rows = max(1, int(size * 1e9 / 20) // (64 * 256 * 256)) * 256
    shape, chunks = (rows, 256, 16), (64, 64, 16)
    try:
        rng = np.random.default_rng(0)
        arr = zarr.create_array(store=folder / "arr.zarr", shape=shape, chunks=chunks, dtype="f4")
        for k in range(0, rows, 64):
            arr[k : k + 64] = rng.integers(0, 4096, (64, 256, 16)).astype("f4")
        out_shape = shape[:-1] + (width,) * bool(width)
        out = zarr.create_array(
            store=folder / "out.zarr", shape=out_shape, dtype="f4",
            chunks=chunks[:-1] + (width,) * bool(width),
        )  # fmt: skip
        whole = arr[...]
        y = xpapply.apply_along_axis(f, -1, whole).astype("f4")

        def ours() -> None:
            xpapply.apply_along_axis(f, -1, arr, out=out)

        def codec() -> None:
            for k in range(0, rows, 64):
                arr[k : k + 64]
            for k in range(0, rows, 64):
                out[k : k + 64] = y[k : k + 64]

        def looped() -> None:
            for k in range(0, rows, 64):
                out[k : k + 64] = xpapply.apply_along_axis(f, -1, arr[k : k + 64])

        calls = {
            OURS: ours,
            "codec": codec,
            IN_MEMORY: lambda: xpapply.apply_along_axis(f, -1, whole),
            LOOP: looped,
        }
        try:
            import dask.array as da
        except ImportError:
            pass
        else:
            calls["dask"] = lambda: da.store(
                da.map_blocks(
                    lambda x: xpapply.apply_along_axis(f, -1, x), da.from_zarr(arr), dtype="f4",
                    **({"chunks": (64, 64, width)} if width else {"drop_axis": -1}),
                ),
                out, lock=False,
            )  # fmt: skip
        seconds = best(calls)
        ours()
        wrong = not np.allclose(out[...], y, rtol=1e-5, atol=1e-5)
        return {"seconds": seconds, "bytes": whole.nbytes, "wrong": wrong}
    finally:
        shutil.rmtree(folder)


# --- the command line -------------------------------------------------------------------


_BY_HAND = """
    import sys
    import numpy as np, xpapply
    model, arr, out = sys.argv[1:]
    if arr.endswith(".nii"):
        import nibabel
        image = nibabel.load(arr)
        y = xpapply.apply_along_axis(xpapply.load_model(model), -1, np.asarray(image.dataobj))
        nibabel.Nifti1Image(y, image.affine).to_filename(out)
    else:
        np.save(out, xpapply.apply_along_axis(xpapply.load_model(model), -1, np.load(arr)))
"""


def of_command(ending: str, sizes: tuple[int, ...], size: float) -> dict[str, Any]:
    """``xpapply run`` from file to file, beside the call of the model on the data in memory."""
    import nibabel

    folder = Path(tempfile.mkdtemp())
    shape = (max(1, int(size * 1e9 / SHARE) // (64 * 250 * 500)), 250, 500, 16)
    model, arr, out = (folder / name for name in ("net.xpapply", f"in{ending}", f"out{ending}"))
    try:
        xpapply.compile(network(*sizes), (16,), "f4").save(model)
        f = xpapply.load_model(model)
        rng = np.random.default_rng(0)
        x = np.empty(shape, "f4", order="F" if ending == ".nii" else "C")
        for part in x:
            part[...] = rng.random(part.shape, dtype="f4")
        if ending == ".nii":
            nibabel.Nifti1Image(x, np.eye(4)).to_filename(arr)
        else:
            np.save(arr, x)
        python = [sys.executable, "-c", textwrap.dedent(_BY_HAND), str(model), str(arr), str(out)]
        command = [sys.executable, "-m", "xpapply", "run", str(model), str(arr), "-o", str(out)]
        seconds: dict[str, float] = {}
        resident = 0
        for _ in range(REPEATS):
            out.unlink(missing_ok=True)
            whole, peak, said = _watched(command)
            (own,) = re.findall(r"in ([0-9.e+-]+) s", said)
            resident = max(resident, peak)
            begin = time.perf_counter()
            y = xpapply.apply_along_axis(f, -1, x)
            now = {OURS: float(own), IN_MEMORY: time.perf_counter() - begin, WHOLE: whole}
            read = nibabel.load(out).dataobj if ending == ".nii" else np.load(out, mmap_mode="r")
            wrong = not np.array_equal(read, y)
            del y, read
            now[BY_HAND], _, _ = _watched(python)
            seconds = {k: min(t, seconds.get(k, t)) for k, t in now.items()}
        return {"seconds": seconds, "bytes": x.nbytes, "resident": resident, "wrong": wrong}
    finally:
        shutil.rmtree(folder)


def _watched(command: list[str]) -> tuple[float, int, str]:
    """Seconds of a process, the most bytes that it had in memory, and what it said on stderr."""
    begin, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:  # it has just ended
                break
            peak = max(peak, *(int(kb) << 10 for kb in re.findall(r"VmHWM:\s+(\d+)", status)), 0)
            time.sleep(0.01)
        assert process.stderr is not None
        said = process.stderr.read()
    seconds = time.perf_counter() - begin
    if process.returncode:
        raise RuntimeError(f"{command[1:4]} ended with {process.returncode}: {said[-500:]}")
    return seconds, peak, said


# --- arrays of the host on a GPU ----------------------------------------------------------


def on_device(sizes: tuple[int, ...], size: float) -> dict[str, Any]:
    """A network over an array of the host, beside copying that there and the results back."""
    import cupy

    count = int(size * 2**30) // 64
    net = network(*sizes)
    x = np.empty((count, sizes[0]), "f4")
    rng = np.random.default_rng(0)
    for k in range(0, count, 1 << 22):
        x[k : k + (1 << 22)] = rng.random((min(1 << 22, count - k), sizes[0]), dtype="f4")

    def copied() -> np.ndarray:
        there = cupy.asarray(x)
        y = cupy.empty((count, sizes[-1]), "f4")
        del there
        return y.get()  # type: ignore[no-any-return]

    def by_hand() -> np.ndarray:
        return xpapply.apply_along_axis(net, -1, cupy.asarray(x)).get()  # type: ignore[no-any-return]

    def ours() -> np.ndarray:
        with xpapply.options(device="cuda", memory="8 GB"):
            return xpapply.apply_along_axis(net, -1, x)  # type: ignore[no-any-return]

    seconds = best({OURS: ours, ARR_GET: copied, "copied by hand": by_hand})
    y = ours()
    places = rng.integers(0, count, 10_000)
    error = np.abs(y[places] - xpapply.apply_along_axis(net, -1, x[places])).max()
    del y
    moved = x.nbytes + count * sizes[-1] * 4
    seconds["pinned memory, one way each"] = moved / pinned_rate()
    return {"seconds": seconds, "bytes": moved, "wrong": bool(error > 1e-4), "error": float(error)}


def pinned_rate() -> float:
    """Bytes per second that the bus moves from memory that is pinned."""
    import cupy

    memory = cupy.cuda.alloc_pinned_memory(1 << 29)
    host, there = np.frombuffer(memory, "f4", 1 << 27), cupy.empty(1 << 27, "f4")

    def move() -> None:
        there.set(host)
        cupy.cuda.Device().synchronize()

    return float(host.nbytes / best({"": move})[""])


CASES = {
    "cpu": [
        Case("memory map, 16-32-32-1", memory_map),
        Case("xpapply run, .npy, 16-32-32-1", partial(of_command, ".npy", (16, 32, 32, 1))),
        Case("xpapply run, .nii, 16-64-64-64-4", partial(of_command, ".nii", (16, 64, 64, 64, 4))),
        Case("zarr, 16-32-32-1", partial(of_zarr, network(16, 32, 32, 1), 1)),
        Case("zarr, median", partial(of_zarr, np.median, 0)),
    ],
    "gpu": [
        Case("16-32-32-1", partial(on_device, (16, 32, 32, 1))),
        Case("16-32-32-16", partial(on_device, (16, 32, 32, 16))),
    ],
}
