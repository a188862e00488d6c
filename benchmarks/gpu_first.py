"""The first calls for one network in a fresh process; `gpu.py` starts it.

    python benchmarks/gpu_first.py '16-64-64-64-4 ReLU' 4194304 cuda [others]

Prints JSON with seconds, a line at a time; the last one has all. The folder of
CuPy's cache comes from the environment. With "others" it also runs what `gpu.py`
measures later, so that the kernels are in that folder.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import timing


def main() -> None:
    name, rows, device, *others = sys.argv[1:]
    n = int(rows)
    gpu = device == "cuda"

    start = time.perf_counter()
    import numpy as np
    import torch

    import xpapply

    if gpu:
        import cupy as xp
    else:
        xp = np
    found: dict[str, Any] = {"import": time.perf_counter() - start}

    from networks import Net

    words = name.split()
    net = Net(timing.widths(name), words[-1])
    if not gpu:
        torch.set_num_threads(1)

    def wait() -> None:
        if gpu:
            xp.cuda.runtime.deviceSynchronize()

    start = time.perf_counter()
    # copied from the host: nothing is compiled for it
    few = np.random.default_rng(0).standard_normal((1024, net.widths[0]), np.float32)
    x = xp.asarray(np.resize(few, (n, net.widths[0])))
    model, second = net.module(), net.module()
    with torch.no_grad():
        for p in second.parameters():
            p += 0.125
    wait()
    found["start"] = time.perf_counter() - start  # of CUDA, mostly

    def seconds(f: Any, axis: int, arr: Any) -> float:
        begin = time.perf_counter()
        xpapply.apply_along_axis(f, axis, arr)
        wait()
        return time.perf_counter() - begin

    with xpapply.options(fallback="raise", precision="highest"):
        found["first"] = seconds(model, -1, x)
        found["second"] = seconds(model, -1, x)
        found["new weights"] = seconds(second, -1, x)
    print(json.dumps(found), flush=True)
    if others:
        found["others"] = _others(net, model, x, seconds, gpu)
        print(json.dumps(found), flush=True)


def _others(net: Any, model: Any, x: Any, seconds: Any, gpu: bool) -> dict[str, Any]:
    """First calls of the other ways; why not, for those that fail."""
    import torch

    import xpapply

    n, features = x.shape
    inner = timing.inner(n)

    def tensors() -> float:
        t = torch.from_dlpack(x) if gpu else torch.from_numpy(x)
        return seconds(net.module(t.device), -1, t)

    ways = {
        "high": ("high", lambda: seconds(model, -1, x)),
        "medium": ("medium", lambda: seconds(model, -1, x)),
        "axis 0": ("highest", lambda: seconds(model, 0, x.T.copy())),
        "middle axis": (
            "highest",
            lambda: seconds(
                model, 1, x.reshape(n // inner, inner, features).transpose(0, 2, 1).copy()
            ),
        ),
        "CUDA tensors": ("highest", tensors),
        "float16": ("highest", lambda: seconds(net.module().half(), -1, x.astype("float16"))),
    }
    found: dict[str, Any] = {}
    for way, (precision, call) in ways.items():
        try:
            with xpapply.options(fallback="raise", precision=precision):
                found[way] = call()
        except Exception as problem:
            found[way] = timing.reason(problem)
    return found


if __name__ == "__main__":
    main()
