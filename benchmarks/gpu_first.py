"""The first calls for one network in a fresh process, which the suite `gpu` starts.

    python -m benchmarks.gpu_first '16-64-64-64-4 ReLU' 4194304 cuda [others]

Prints JSON with seconds, a line at a time; the last one has all. The folder of CuPy's cache comes
from the environment. With "others" it also runs what the suite measures later, so that the kernels
are in that folder.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from . import clocks


def main() -> None:
    name, slices, device, *others = sys.argv[1:]
    n, gpu = int(slices), device == "cuda"

    start = time.perf_counter()
    import numpy as np
    import torch

    import xpapply

    if gpu:
        import cupy as xp
    else:
        xp = np
        torch.set_num_threads(1)
    found: dict[str, Any] = {"import": time.perf_counter() - start}

    from .networks import inner, named

    net = named(name)
    features = net.widths[0]

    def wait() -> None:
        if gpu:
            xp.cuda.runtime.deviceSynchronize()

    start = time.perf_counter()
    # copied from the host: nothing is compiled for it
    few = np.random.default_rng(0).standard_normal((1024, features), np.float32)
    x = xp.asarray(np.resize(few, (n, features)))
    model, second = net.module(), net.module()
    with torch.no_grad():
        for p in second.parameters():
            p += 0.125
    wait()
    found["start"] = time.perf_counter() - start  # of CUDA, mostly

    def seconds(f: Any, axis: int, arr: Any, precision: str = "highest") -> float:
        with xpapply.options(fallback="raise", precision=precision):
            begin = time.perf_counter()
            xpapply.apply_along_axis(f, axis, arr)
            wait()
            return time.perf_counter() - begin

    found["first"] = seconds(model, -1, x)
    found["second"] = seconds(model, -1, x)
    found["new weights"] = seconds(second, -1, x)
    print(json.dumps(found), flush=True)

    def tensors() -> float:
        t = torch.from_dlpack(x) if gpu else torch.from_numpy(x)
        return seconds(net.module(t.device), -1, t)

    def middle() -> float:
        k = inner(n)
        return seconds(model, 1, x.reshape(n // k, k, features).transpose(0, 2, 1).copy())

    ways: dict[str, Callable[[], float]] = {
        "high": lambda: seconds(model, -1, x, "high"),
        "medium": lambda: seconds(model, -1, x, "medium"),
        "axis 0": lambda: seconds(model, 0, x.T.copy()),
        "middle axis": middle,
        "CUDA tensors": tensors,
        "float16": lambda: seconds(net.module().half(), -1, x.astype("float16")),
    }
    for way, call in ways.items() if others else ():
        try:
            found.setdefault("others", {})[way] = call()
        except Exception as problem:
            found["others"][way] = clocks.reason(problem)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
