"""What each way takes, measured on some of the slices: ``explain(..., compare=True)``."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import arrays, config, frontends
from ..backends import choice
from ..errors import InputError, UnsupportedError
from ..limits import LIMITS


class Timed(NamedTuple):
    """What one way takes."""

    engine: str
    seconds: float
    """Per slice."""


def compare(run: Callable[..., Any], f: Any, axis: Any, arr: Any, more: tuple) -> tuple[Timed, ...]:
    """Each way that can run `f`, the fastest first, and the plain loop.

    Parameters
    ----------
    run : callable
        ``run(f, axis, arr, *args, **kwargs)``, as `xpapply.apply_along_axis`.
    f, axis, arr
        As it takes them; `axis` is not negative, or a tuple of such.
    more : tuple
        ``args, kwargs`` of `f`.
    """
    own = frontends.find(f).ways
    ways = [name for name in (*choice.names(), *own) if name != "loop"]
    sample, few = (
        _sample(arr, axis, LIMITS.compared_slices),
        _sample(arr, axis, LIMITS.compared_looped),
    )
    found = [_timed(run, f, axis, sample, more, name) for name in dict.fromkeys(ways)]
    found.append(_timed(run, f, axis, few, more, "loop"))
    return tuple(sorted((t for t in found if t is not None), key=lambda t: t.seconds))


def _sample(arr: Any, axis: Any, count: int) -> Any:
    """Some slices of an array, where they lie."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    left, index = count, [slice(None)] * arr.ndim
    for a in range(arr.ndim - 1, -1, -1):
        if a not in axes:
            n = max(1, min(arr.shape[a], left))
            index[a], left = slice(0, n), left // n
    return arr[tuple(index)]


def _timed(
    run: Callable[..., Any], f: Any, axis: Any, x: Any, more: Sequence[Any], name: str
) -> Timed | None:
    """One way, called until it has taken some time; the least of these calls."""
    args, kwargs = more
    axes = axis if isinstance(axis, tuple) else (axis,)
    slices = max(1, math.prod(n for a, n in enumerate(x.shape) if a not in axes))
    with config.options(engine=name, fallback="silent", progress=False):
        try:
            run(f, axis, x, *args, **kwargs)  # which compiles
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
            run(f, axis, x, *args, **kwargs)
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
