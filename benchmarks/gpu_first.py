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
from typing import Any

from . import clocks
from . import gpu_report as names

OTHERS = {
    "high": names.OURS_HIGH,
    "medium": names.OURS_MEDIUM,
    "axis 0": names.OURS_AXIS0,
    "middle axis": names.OURS_MIDDLE,
    "CUDA tensors": names.OURS_TORCH,
    "float16": names.OURS_HALF,
}


def main() -> None:
    name, slices, device, *others = sys.argv[1:]

    start = time.perf_counter()
    import torch

    import xpapply

    if device == "cuda":
        import cupy  # noqa: F401
    found: dict[str, Any] = {"import": time.perf_counter() - start}

    from . import devices, gpu, networks, runner

    start = time.perf_counter()
    on = devices.Gpu() if device == "cuda" else devices.Dry()
    case = networks.Case(networks.named(name), int(slices), on)
    model, second = case.net.module(), case.net.module()
    with torch.no_grad():
        for p in second.parameters():
            p += 0.125
    x = on.array(case.x)
    on.synchronize()
    found["start"] = time.perf_counter() - start  # of CUDA, mostly

    def seconds(call: clocks.Call) -> float:
        on.synchronize()
        return clocks.seconds(lambda: devices.wait(call(), on))

    with runner.exact():
        for kind, f in (("first", model), ("second", model), ("new weights", second)):
            found[kind] = seconds(lambda f=f: xpapply.apply_along_axis(f, -1, x))
        print(json.dumps(found), flush=True)
        peers = {peer.name: peer for peer in gpu.ROUNDS[0]}
        for way, peer in OTHERS.items() if others else ():
            try:
                with peers[peer].context():
                    found.setdefault("others", {})[way] = seconds(peers[peer].build(case))
            except Exception as problem:
                found["others"][way] = clocks.reason(problem)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
