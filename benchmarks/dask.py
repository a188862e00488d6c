"""Arrays of dask: what its tasks cost, what two processes give, and what people take now.

Blocks are there before the clock starts, and results stay as blocks: neither the making of the data
nor the joining of results is measured. The graph of tasks is made anew in each call.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

import xpapply
from xpapply import special

from . import clocks, devices, runner
from .dask_report import APART, DASK, FORMULA, LOOP, OURS, REDUCTION, TRIVIAL, line

BLOCKS = 8
MIB = (1, 8, 64)
"""Of a block: dask's documentation wants 100 MiB or so, many people have less."""
PROCESS_BLOCKS, PROCESS_MIB = 16, 16
TASKS = 10_000
LENGTH = 16
SLICES = 20_000
"""Of what people take now, which is slow."""
REPEATS, PATIENCE = 9, 4.0

SPAWNED = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
SPAWNED |= {"worker_dashboard_address": None, "silence_logs": 50}

rng = np.random.default_rng(0)
WIDTHS = ((16, 32), (32, 32), (32, 1))
NET = xpapply.MLP([rng.normal(size=(n, m)).astype("f4") / m**0.5 for m, n in WIDTHS])


def standardize(v: Any) -> Any:
    return (v - v.mean()) / v.std()


def decides(v: Any) -> Any:
    return v[v > 0].sum() if v[0] > 0 else v.min()


def spread(v: Any) -> Any:
    return np.sort(v)[-3:].mean() - np.median(v)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "standardize": partial(xpapply.apply_along_axis, standardize, -1),
    "network 16-32-32-1": partial(xpapply.apply_along_axis, NET, -1),
    "logsumexp": partial(special.logsumexp, axis=-1),
}


class Timed:
    """A call, and what happens before the clock starts."""

    def __init__(self, call: clocks.Call, before: clocks.Call = lambda: None) -> None:
        self.call, self.before = call, before


def in_turns(calls: Mapping[str, Timed | clocks.Call], repeats: int) -> dict[str, Any]:
    """The seconds of every call, one after the other, again and again."""
    on = devices.Cpu()

    def clock(call: Any) -> float:
        call.before()
        on.pause()
        return clocks.seconds(call.call)

    each: Any = {n: c if isinstance(c, Timed) else Timed(c) for n, c in calls.items()}
    clocks.in_turns(each, 2, clock=clock)  # what is compiled while others go on is there then
    times = clocks.in_turns(each, repeats, clock=clock, patience=PATIENCE)
    return {name: clocks.summary(t) for name, t in times.items()}


def start(run: runner.Run) -> dict[str, Any]:
    """The settings."""
    mib = (1,) if run.quick else MIB
    return {
        "settings": {
            "blocks": BLOCKS,
            "mib": mib,
            "process": (4, 1) if run.quick else (PROCESS_BLOCKS, PROCESS_MIB),
            "tasks": 200 if run.quick else TASKS,
            "slices": 500 if run.quick else SLICES,
            "repeats": run.args.repeats or (2 if run.quick else REPEATS),
        }
    }


def measure(run: runner.Run) -> None:
    """All there is, the most important first."""
    settings = run.data["settings"]
    repeats = settings["repeats"]

    def part(path: str, make: Callable[..., Any], *args: Any) -> None:
        if run.chosen([_Named(path)]):
            run.part(path, partial(_with_load, make, *args, repeats), line)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, f in FUNCTIONS.items():
            for mib in settings["mib"]:
                part(f"overhead/{name}, {mib} MiB", overhead, f, name == "logsumexp", mib)
        for name in FUNCTIONS:
            part(f"processes/{name}", processes, name, *settings["process"])
        for name in FUNCTIONS:
            part(f"tasks/{name}", tasks, name, settings["tasks"])
        for dtype in ("float32", "float64"):
            part(f"pass/{dtype}", one_pass, dtype, max(settings["mib"]))
        for f in (standardize, decides, spread):
            part(f"peers/{f.__name__}", peers, f, settings["slices"])


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name


def _with_load(make: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """What was measured, and how busy the machine was before."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {**make(*args), "load": load}


def floats(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype)  # type: ignore[call-overload]


def same(x: Any, y: Any) -> None:
    """Refuse a result that no rounding explains."""
    np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-5)


# --- tasks against calls --------------------------------------------------------------------------


def overhead(f: Callable[[Any], Any], chunked: bool, mib: int, repeats: int) -> dict[str, Any]:
    """Calls on the blocks one after another, and dask's."""
    length = (mib << 20) // (4 * LENGTH)
    shape = (BLOCKS * length, LENGTH)
    if chunked:  # slices of 8 blocks
        length = (mib << 20) // (4 * 64)
        shape, f = (64, BLOCKS * length), partial(special.logsumexp, axis=1)
    x = floats(shape)
    if chunked:
        parts = np.split(x, BLOCKS, axis=1)
        d = da.from_array(x, chunks=(-1, length)).persist(scheduler="sync")
    else:
        parts = np.split(x, BLOCKS)
        d = da.from_array(x, chunks=(length, -1)).persist(scheduler="sync")
    parts = [*map(np.ascontiguousarray, parts)]

    def apart(over: Callable[..., Any] = map) -> Any:
        with xpapply.options(threads=1):
            found = [*over(f, parts)]
            return f(np.stack(found, 1)) if chunked else found

    def lazy(**how: Any) -> Any:
        return f(d).persist(**how)

    def together(**how: Any) -> Any:
        return lazy(**how).compute(scheduler="sync")

    want = apart() if chunked else np.concatenate(apart())
    same(together(scheduler="sync"), want)
    with ThreadPoolExecutor(2) as pool:
        return in_turns(
            {
                APART[1]: apart,
                DASK[0]: partial(lazy, scheduler="sync"),
                TRIVIAL: lambda: d.map_blocks(_nothing, dtype="f4").persist(scheduler="sync"),
                DASK[1]: partial(lazy, scheduler="threads", num_workers=1),
                APART[2]: partial(apart, pool.map),
                DASK[2]: partial(lazy, scheduler="threads", num_workers=2),
            },
            repeats,
        )


# --- processes ------------------------------------------------------------------------------------


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """A client of so many processes of one thread each."""
    import distributed

    with (
        distributed.LocalCluster(n_workers=workers, **SPAWNED) as own,
        distributed.Client(own, set_as_default=False) as client,
    ):
        yield client


class OnCluster:
    """A lazy call that is computed on a cluster, where its results stay."""

    def __init__(self, client: Any, make: Callable[[], Any]) -> None:
        self.client, self.make, self.found = client, make, None

    def before(self) -> None:
        """Forget the last results, or the next call would find them."""
        if self.found is None:
            return
        name, self.found = self.found.name, None
        for _ in range(500):
            if not self.client.run_on_scheduler(_count_tasks, name=name):
                return
            time.sleep(0.01)
        raise RuntimeError("the cluster keeps the results of the last call")

    def call(self) -> None:
        self.found = _persisted(self.client, self.make())


def _persisted(client: Any, x: Any) -> Any:
    """An array of dask, with its blocks in the workers."""
    import distributed

    with client.as_current():
        x = client.persist(x)
        distributed.wait(x)
    return x


def _count_tasks(dask_scheduler: Any, name: str) -> int:
    return sum(key[0] == name for key in dask_scheduler.tasks)


def processes(name: str, blocks: int, mib: int, repeats: int) -> dict[str, Any]:
    """One process, and two: each makes its own blocks before the clock starts."""
    f = FUNCTIONS[name]
    length = (mib << 20) // (4 * LENGTH)
    with cluster(1) as one, cluster(2) as two:
        calls: dict[str, Any] = {}
        for workers, client in ((1, one), (2, two)):
            x = da.random.default_rng(0).normal(
                size=(blocks * length, LENGTH), chunks=(length, -1)
            ).astype("f4")  # fmt: skip
            x = _persisted(client, x)
            calls[str(workers)] = Timed(*_both(OnCluster(client, partial(f, x))))
            # what the machine gives to as many processes, whatever runs there
            work = partial(_alone, client, name, length, blocks // workers)
            calls[f"{workers}, without dask"] = work
        return in_turns(calls, repeats)


def _both(call: OnCluster) -> tuple[clocks.Call, clocks.Call]:
    return call.call, call.before


def _alone(client: Any, name: str, length: int, times: int) -> None:
    """The same number of blocks in each process at once, by one plain loop."""
    client.run(_again_and_again, name, length, times)


_FIXED: dict[tuple[str, int], np.ndarray] = {}


def _again_and_again(name: str, length: int, times: int) -> None:
    key = name, length
    if key not in _FIXED:
        _FIXED[key] = floats((length, LENGTH))
    with xpapply.options(threads=1):
        _kept = [FUNCTIONS[name](_FIXED[key]) for _ in range(times)]


def tasks(name: str, count: int, repeats: int) -> dict[str, Any]:
    """Very many very small blocks, and the same number of tasks that do nothing.

    Also by the time of the processor, of all processes: what else the machine does counts little.
    """
    f, repeats = FUNCTIONS[name], min(repeats, 3)
    found: dict[str, Any] = {"count": count}
    with cluster(2) as client:
        calls, graphs = {}, {}
        for blocks in (64, count):  # the first only loads what there is to load
            x = da.map_blocks(_made, chunks=((4,) * blocks, (LENGTH,)), dtype="f4")
            graphs = {TRIVIAL: partial(x.map_blocks, _nothing, dtype="f4"), OURS: partial(f, x)}
            calls = {way: OnCluster(client, make) for way, make in graphs.items()}
            times: dict[str, list[tuple[float, float]]] = {way: [] for way in calls}
            for _ in range(repeats):
                for way, call in calls.items():
                    call.before()
                    before = _processor_seconds(client)
                    wall = clocks.seconds(call.call)
                    times[way].append((wall, _processor_seconds(client) - before))
        for way, both in times.items():
            walls, processor = zip(*both, strict=True)
            found[way] = clocks.summary(walls) | {"processor": min(processor)}
        found["graph"] = in_turns(graphs, repeats)
    return found


def _processor_seconds(client: Any) -> float:
    return time.process_time() + sum(client.run(time.process_time).values())


def _made() -> np.ndarray:
    return np.arange(4.0 * LENGTH, dtype="f4").reshape(4, LENGTH)


def _nothing(block: Any) -> Any:
    return block


# --- one pass -------------------------------------------------------------------------------------


class Counted:
    """An array that counts what is read of it."""

    def __init__(self, x: np.ndarray) -> None:
        self.x, self.shape, self.dtype, self.ndim = x, x.shape, x.dtype, x.ndim
        self.nbytes = self.reads = 0

    def __getitem__(self, at: Any) -> np.ndarray:
        y = self.x[at]
        self.reads += 1
        self.nbytes += y.nbytes
        return y


def formula(d: Any) -> Any:
    """As one writes it in dask."""
    top = d.max(axis=1, keepdims=True)
    return da.log(da.exp(d - top).sum(axis=1)) + top[:, 0]


def reduction(d: Any) -> Any:
    """As somebody writes it who knows dask: what is merged are logsumexps."""
    from scipy.special import logsumexp

    def of(x: Any, axis: Any, keepdims: bool) -> Any:
        return logsumexp(x, axis=axis, keepdims=keepdims)

    return da.reduction(d, of, of, axis=1, dtype=d.dtype)


def one_pass(dtype: str, mib: int, repeats: int) -> dict[str, Any]:
    """logsumexp of slices that lie in many blocks: what it reads, and how long it takes."""
    ours = partial(special.logsumexp, axis=1)
    ways: dict[str, Callable[[Any], Any]] = {OURS: ours, FORMULA: formula, REDUCTION: reduction}
    length = (mib << 20) // (64 * np.dtype(dtype).itemsize)
    x = floats((64, BLOCKS * length), dtype)
    d = da.from_array(x, chunks=(-1, length)).persist(scheduler="sync")
    calls: dict[str, Any] = {}
    read: dict[str, Any] = {}
    want = xpapply.special.logsumexp(x, axis=1)
    for name, way in ways.items():
        counted = Counted(x)
        same(way(da.from_array(counted, chunks=(-1, length))).compute(scheduler="sync"), want)
        # dask itself looks at an empty part first
        read[name] = {"bytes": counted.nbytes / x.nbytes}
        calls[name] = partial(_computed, way, d)
    return in_turns(calls, repeats) | {"read": read, "blocks": BLOCKS}


def _computed(way: Callable[[Any], Any], d: Any) -> Any:
    return way(d).compute(scheduler="threads", num_workers=2)


# --- what people take now -------------------------------------------------------------------------


def peers(f: Callable[[Any], Any], slices: int, repeats: int) -> dict[str, Any]:
    """The ways to apply a Python function along an axis of an array of dask."""
    x = floats((slices, LENGTH), "float64")
    d = da.from_array(x, chunks=(-(-slices // 4), -1)).persist(scheduler="sync")
    want = np.apply_along_axis(f, -1, x)
    like = f(x[0])

    def labelled() -> Any:
        import xarray as xr

        out = [["z"]] if np.ndim(like) else [[]]
        return xr.apply_ufunc(
            f, xr.DataArray(d, dims=("y", "z")), input_core_dims=[["z"]], output_core_dims=out,
            vectorize=True, dask="parallelized", output_dtypes=[d.dtype],
        ).data  # fmt: skip

    lazy: dict[str, Callable[[], Any]] = {
        OURS: lambda: xpapply.apply_along_axis(f, -1, d),
        LOOP[0]: lambda: da.apply_along_axis(f, -1, d, dtype=d.dtype, shape=np.shape(like)),
        LOOP[1]: labelled,
        LOOP[2]: lambda: d.map_blocks(
            partial(np.apply_along_axis, f, -1), dtype=d.dtype, drop_axis=() if np.ndim(like) else 1
        ),
    }

    def computed(make: Callable[[], Any]) -> Any:
        return make().compute(scheduler="threads", num_workers=2)

    for make in lazy.values():
        same(computed(make), want)
    return in_turns({n: partial(computed, make) for n, make in lazy.items()}, repeats)
