"""What CuPy's plain ways take beside what the cost model says: `python -m benchmarks.plain_ways`.

Needs a GPU, CuPy and torch, and takes a minute. It prints a line for each case, and the constants
of `xpapply/codegen/cost.py` that fit them best. ``--dry`` runs few slices on the CPU instead.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import xpapply
from xpapply.codegen import cost
from xpapply.ir.graph import Graph

from . import devices, pages

SECONDS = 90.0
REPEATS = 5
H200 = cost.Device(132, 1.78e9, 4.3e12, "wgmma", 232_448)
"""What a dry run is priced for."""
LONG = [(1 << 22, 16), (1 << 20, 64), (1 << 18, 256), (1 << 16, 1 << 10), (1 << 14, 1 << 12)]
LONG += [(1 << 12, 1 << 14), (1 << 10, 1 << 16), (64, 1 << 20), (8, 1 << 23)]
SMALL = [(100, 100), (1000, 1000), (10_000, 300), (16, 1 << 14), (2000, 64), (1, 1 << 16)]
"""Slices and their lengths: 256 MB, and what fits into a cache."""
NETS = [(8, 16, 1), (16, 32, 32, 1), (4, 8, 2), (32, 16, 4), (3, 20)]
COUNTS = [10_000, 100_000, 1_000_000, 4_000_000]
CONSTANTS = {
    "_REDUCTION_SHARE": np.geomspace(0.05, 1, 60),
    "_REDUCTION_SLICE": np.geomspace(0.5, 500, 60),
    "_REDUCTION_STEP": np.geomspace(10, 10_000, 60),
}
"""Where the constants of a reduction are looked for."""


@dataclass
class Measured:
    """One case, its price and what it took."""

    way: str
    name: str
    price: Callable[[], float]
    seconds: float

    @property
    def ratio(self) -> float:
        """Of what was measured to the price."""
        return self.seconds / self.price()


def network(*widths: int) -> xpapply.MLP:
    """With weights that keep numbers at their size."""
    rng = np.random.default_rng(0)
    pairs = zip(widths[1:], widths[:-1], strict=True)
    return xpapply.MLP([(rng.standard_normal((n, m)) / m**0.5).astype("f") for n, m in pairs])


def norm(v: Any) -> Any:
    """The length of a slice, in the plain way."""
    return np.sqrt((v * v).sum())


def cases(dry: bool) -> list[tuple[str, str, Any, int, int, int]]:
    """Way, name, function, slices, their length, axis."""
    found: list[tuple[str, str, Any, int, int, int]] = []
    for axis in (1, 0):
        for slices, length in (*LONG, *SMALL):
            if dry and slices * length > 1 << 20:
                continue
            found.append(("cupy-reduction", "product", network(length, 1), slices, length, axis))
            found.append(("cupy-reduction", "norm", norm, slices, length, axis))
        for widths in NETS:
            for slices in COUNTS[: 1 if dry else None]:
                name = "-".join(map(str, widths))
                net = network(*widths)
                found.append(("cupy-elementwise", name, net, slices, widths[0], axis))
    return found


def price(way: str, graph: Graph, slices: int, axis: int, device: cost.Device) -> float:
    """What the model says."""
    if way == "cupy-elementwise":
        return cost.scalar(graph, slices, device)
    spacing = cost.SIDE_BY_SIDE if axis else cost.Spacing(slices, slices * 4)
    return cost.reduction(graph, slices, device, spacing)


def measure(dry: bool) -> list[Measured]:
    """All cases, within the time that is given."""
    on: Any = devices.Dry() if dry else devices.Gpu()
    device = H200
    if not dry:
        from xpapply.backends.cupy import compiler

        device = compiler.device(0)
    begin, found = time.perf_counter(), []
    for way, name, f, slices, length, axis in cases(dry):
        if time.perf_counter() - begin > SECONDS:
            print("no time was left for all cases")
            break
        shape = (slices, length) if axis else (length, slices)
        x = on.xp.ones(shape, "float32")
        plan = xpapply.compile(f, (length,), "float32")
        with xpapply.options(engine="" if dry else way):
            call = partial(plan, x, axis)
            call()
            once = on.alone(call, 1)
            count = max(1, min(50, round(1e-3 / max(once, 1e-7))))
            seconds = min(on.alone(call, count) for _ in range(REPEATS))
        assert plan.graph is not None
        case = f"{name} of {shape} along {axis}"
        mine = Measured(way, case, partial(price, way, plan.graph, slices, axis, device), seconds)
        found.append(mine)
        print(f"{way:17}{case:42}{1e6 * seconds:10.1f} us{mine.ratio:8.2f} of the price")
        del x, call
        on.free()
    return found


def spread(found: list[Measured]) -> tuple[float, float]:
    """The mean ratio to the price, and how far ratios are from it: both as factors."""
    logs = [math.log(m.ratio) for m in found]
    return math.exp(float(np.mean(logs))), math.exp(float(np.std(logs)))


def fit(found: list[Measured]) -> dict[str, float]:
    """The constants of a reduction with the least squares of the logarithms of ratios."""

    def off() -> float:
        return sum(math.log(m.ratio) ** 2 for m in found)

    for _ in range(6):
        for name, values in CONSTANTS.items():
            tried = []
            for value in values:
                setattr(cost, name, float(value))
                tried.append((off(), float(value)))
            setattr(cost, name, min(tried)[1])
    return {name: getattr(cost, name) for name in CONSTANTS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="few slices, on the CPU")
    found = measure(parser.parse_args().dry)
    for way in ("cupy-elementwise", "cupy-reduction"):
        mine = [m for m in found if m.way == way]
        mean, width = spread(mine)
        print(f"{way}: {len(mine)} cases take {mean:.2f} times their price, within {width:.2f}")
    reductions = [m for m in found if m.way == "cupy-reduction"]
    constants = fit(reductions)
    mean, width = spread(reductions)
    print("constants of reductions that fit best:")
    for name, value in constants.items():
        print(f"{name} = {pages.digits(value)}")
    print(f"with these they take {mean:.2f} times their price, within {width:.2f}")


if __name__ == "__main__":
    main()
