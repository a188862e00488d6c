"""The command: ``python -m benchmarks SUITE``, in the root of the checkout."""

from __future__ import annotations

import argparse
import atexit
import importlib
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from . import pages

SUITES = {"cpu": ("cpu",), "functions": ("cpu",), "several": ("cpu",), "dask": ("cpu",)}
SUITES |= {"gpu": ("gpu",), "pairs": ("gpu",), "slices": ("cpu", "gpu")}
SUITES |= {"modules": ("cpu", "gpu"), "files": ("cpu", "gpu"), "onnx": ("cpu", "gpu")}
SUITES |= {"sklearn": ("cpu", "gpu"), "patched": ("cpu",), "never_slower": ("cpu",)}
SUITES |= {"loops": ("cpu",), "gpu_functions": ("gpu",), "gpu_solvers": ("gpu",)}
SUITES |= {"solvers": ("cpu",), "methods": ("cpu",), "gpu_methods": ("gpu",)}
"""And the devices that each is for. The rows are in the file of this name."""
SECONDS = {"cpu": 270.0, "functions": 270.0, "gpu": 270.0, "pairs": 150.0, "slices_gpu": 200.0}
SECONDS |= {"slices_cpu": 270.0, "dask": 400.0, "methods": 420.0, "gpu_methods": 130.0}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--device", choices=("cpu", "gpu"), help="of suites for both")
    parser.add_argument("--seconds", type=float, help="begin nothing new after so many")
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--only", nargs="+", default=[], help="cases whose names match; no files")
    parser.add_argument("--quick", action="store_true", help="few slices and repeats; no files")
    parser.add_argument("--dry", action="store_true", help="quick, the CPU in place of the GPU")
    parser.add_argument("--slices", "--rows", type=int, help="another number of slices")
    parser.add_argument("--repeats", type=int, help="of each call, on a CPU")
    parser.add_argument("--seed", type=int, default=1, help="of random functions")
    parser.add_argument("--jobs", type=int, default=1, help="functions at a time, of never_slower")
    parser.add_argument("--resume", action="store_true", help="what is missing in the JSON")
    parser.add_argument("--render", action="store_true", help="the page again, from the JSON")
    parser.add_argument("--kernels", type=Path, help=argparse.SUPPRESS)  # a cache, then removed
    args = parser.parse_args()
    args.only = "|".join(args.only)
    args.device = args.device or (SUITES[args.suite][0] if len(SUITES[args.suite]) == 1 else None)
    if args.device not in SUITES[args.suite]:
        parser.error(f"{args.suite} is for --device {' or '.join(SUITES[args.suite])}")
    return args


def main() -> None:
    args = arguments()
    name = args.suite if len(SUITES[args.suite]) == 1 else f"{args.suite}_{args.device}"
    report = importlib.import_module(f".{args.suite}_report", __package__)
    if args.render:
        folder = args.out or pages.RESULTS
        pages.save(name, pages.load(name, folder), report.render, folder)
        return
    args.quick = args.quick or args.dry
    args.out = args.out or (None if args.quick or args.only else pages.RESULTS)
    args.seconds = SECONDS.get(name, math.inf) if args.seconds is None else args.seconds
    begin = time.perf_counter()
    # for libraries that look when they are imported
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if args.device == "cpu" or args.dry:
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["JAX_ENABLE_X64"] = "1"  # or it would make float32 of float64
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no processes that stay
    args.kernels = args.kernels or Path(tempfile.mkdtemp())  # every kernel is compiled in this run
    atexit.register(shutil.rmtree, args.kernels, ignore_errors=True)
    os.environ["CUPY_CACHE_DIR"] = str(args.kernels)
    os.environ["XPAPPLY_CACHE_DIR"] = str(args.kernels / "xpapply")
    from . import devices, runner

    try:
        gpu = devices.Dry if args.dry else devices.Gpu
        on = devices.Cpu() if args.device == "cpu" else gpu()
        suite = importlib.import_module(f".{args.suite}", __package__)
    except Exception as problem:
        needs = "" if args.device == "cpu" else " needs a CUDA device, CuPy and torch, or --dry"
        sys.exit(f"{args.suite}{needs}: {type(problem).__name__}: {problem}")
    run = runner.Run(name, on, args, report.render, begin)
    if args.resume:
        run.data |= pages.load(name, args.out or pages.RESULTS)
    else:
        run.data |= {"machine": runner.machine() | on.about()} | suite.start(run)
    on.free()
    suite.measure(run)
    run.save()
    run.say("done")
    print(f"\n{report.render(run.data)}", flush=True)


if __name__ == "__main__":
    main()
