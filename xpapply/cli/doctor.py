"""``xpapply doctor``: what there is to run with, tried out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from .. import MLP, apply_along_axis, options
from .installed import report as versions


def report() -> str:
    """Versions, engines and options; GPUs; whether engines run and are right."""
    lines = [versions(), ""]
    for name, look in (("GPU, by CuPy", _cupy), ("GPU, by torch", _torch)):
        lines.append(f"{name:18}{_said(look)}")
    x = np.random.default_rng(0).normal(size=(4096, 8)).astype(np.float32)
    net = MLP([np.ones((4, 8), np.float32), np.ones((2, 4), np.float32)], activation="tanh")
    wanted = np.tanh(x.sum(-1, keepdims=True)) * np.ones(2, np.float32) * 4
    for engine in ("numpy", "cpu", "torch"):

        def run(engine: str = engine) -> str:
            if engine == "torch" and find_spec("torch") is None:
                return "not installed: pip install torch"
            with options(engine=engine):
                found = apply_along_axis(net, -1, x)
            gap = float(np.abs(found - wanted).max())
            return "a network runs, and is right" if gap < 1e-4 else f"WRONG by {gap:.2g}"

        lines.append(f"{'try ' + engine:18}{_said(run)}")
    return "\n".join(lines)


def _said(look: Callable[[], str]) -> str:
    """The result of a check, or its exception as text."""
    try:
        return look()
    except ImportError as error:
        return f"not installed ({error})"
    except Exception as error:
        return f"no: {type(error).__name__}: {error}".splitlines()[0]


def _cupy() -> str:
    cupy = importlib.import_module("cupy")
    found = []
    for k in range(cupy.cuda.runtime.getDeviceCount()):
        about = cupy.cuda.runtime.getDeviceProperties(k)
        with cupy.cuda.Device(k):
            free, total = cupy.cuda.runtime.memGetInfo()
        name = about["name"].decode()
        found.append(f"{name}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free")
    return "; ".join(found) or "none"


def _torch() -> str:
    torch = importlib.import_module("torch")
    count = torch.cuda.device_count()
    return "; ".join(torch.cuda.get_device_name(k) for k in range(count)) or "none"
