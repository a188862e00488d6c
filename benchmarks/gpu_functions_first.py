"""First calls of functions whose kernels are on disk, which the suite `gpu_functions` starts.

    python -m benchmarks.gpu_functions_first 1000000

Prints JSON: the seconds of each row's first call in this process, which has used the device, and in
which CuPy has called the function itself. The folders of kernels come from the environment; without
them kernels are compiled, as in any first call.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import xpapply

from . import devices
from .gpu_function_rows import LENGTH, LOOPS, NUMBERS, ROWS, Row


def main() -> None:
    slices, kind = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "gpu"
    on: Any = devices.Gpu() if kind == "gpu" else devices.Dry()
    xp, found = on.xp, {}
    x = xp.asarray(np.random.default_rng(0).standard_normal((slices, LENGTH)))
    loops = [Row(f.__name__, "", lambda xp, f=f: f) for f in LOOPS]

    def seconds(call: Callable[[], Any]) -> float:
        on.synchronize()
        begin = time.perf_counter()
        call()
        on.synchronize()
        return time.perf_counter() - begin

    warnings.simplefilter("ignore")
    with xpapply.options(fallback="silent"), np.errstate(all="ignore"):
        for row in [*ROWS, *loops]:
            f = row.build(xp)
            f(x[0])
            found[row.name] = seconds(lambda f=f: xpapply.apply_along_axis(f, 1, x))
        for of in NUMBERS:
            given = [xp.asarray(a) for a in of.draw(np.random.default_rng(0), slices)]
            made = xpapply.vectorize(of.f)
            found[f"numbers/{of.name}"] = seconds(lambda g=given, m=made: m(*g))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
