"""Time each way on some of the slices: ``explain(..., compare=True)``."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

from .. import arrays, config, frontends
from ..backends import choice
from ..errors import InputError, UnsupportedError
from ..limits import LIMITS
from .adapters import results
from .application import Application
from .plan import Timed


def compare(app: Application) -> tuple[Timed, ...]:
    """Each way that can run `f`, the fastest first, and the plain loop."""
    own = frontends.find(app.f).ways
    ways = [name for name in (*choice.names(), *own) if name != "loop"]
    sample, few = _sample(app, LIMITS.compared_slices), _sample(app, LIMITS.compared_looped)
    found = [_timed(sample, name) for name in dict.fromkeys(ways)]
    found.append(_timed(few, "loop"))
    return tuple(sorted((t for t in found if t is not None), key=lambda t: t.seconds))


def _sample(app: Application, count: int) -> Application:
    """Sample about `count` slices, as a view."""
    arr = app.arr
    left, index = count, [slice(None)] * arr.ndim
    for a in range(arr.ndim - 1, -1, -1):
        if a not in app.axes:
            n = max(1, min(arr.shape[a], left))
            index[a], left = slice(0, n), left // n
    return app.on(arr[tuple(index)])


def _timed(app: Application, name: str) -> Timed | None:
    """Time one engine: the least of several calls."""
    x, slices = app.arr, max(1, math.prod(app.batch))
    with config.options(engine=name, fallback="silent", progress=False):
        try:
            results(app)  # which compiles
        except (InputError, UnsupportedError):
            return None
        _wait(x)
        took: list[float] = []
        began = time.perf_counter()
        while not took or (
            len(took) < LIMITS.compared_turns
            and time.perf_counter() - began < LIMITS.compared_enough
        ):
            start = time.perf_counter()
            results(app)
            _wait(x)
            took.append(time.perf_counter() - start)
    return Timed(name, min(took) / slices)


def _wait(x: Any) -> None:
    """Until a device has done what it was given."""
    library = arrays.library(x)
    if library == "cupy":
        sys.modules["cupy"].cuda.get_current_stream().synchronize()
    elif library == "torch" and x.is_cuda:
        sys.modules["torch"].cuda.synchronize(x.device)
