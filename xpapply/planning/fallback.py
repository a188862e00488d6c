"""The loop as a plan, and what is said of it: the slow way is never silent."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import arrays, config, frontends
from ..errors import UnsupportedError, warn
from ..functions.batch_of_one import BatchOfOne
from ..functions.cache import cache_of
from ..limits import LIMITS
from ..loop import reference
from ..loop.arguments import Arguments, Looped
from .plan import Plan


def announce(f: Any, slices: int, why: str, like: Any) -> None:
    """Warn once that `f` runs slice by slice on such arrays, or raise, as the options say."""
    how = config.current().fallback
    if how == "silent" or slices < 2 or config.current().engine == "loop":
        return
    expected = (frontends.is_python(f) or frontends.is_compiled(f)) and how != "raise"
    if slices < (LIMITS.warned_slices if expected else 2):
        return
    message = (
        f"{frontends.name_of(f)} runs slice by slice in Python ({slices:,} calls): {why}. "
        "xpapply.explain(...) shows the plan"
    )
    if how == "raise":
        raise UnsupportedError(f"{message}; without options(fallback='raise') the loop runs.")
    known, method = cache_of(f)
    key = method, arrays.library(like)  # elsewhere it may have another reason
    if key not in known.warned:
        known.warned.add(key)
        warn(f"{message}; options(fallback='silent') hides this warning.")


def in_loop(
    f: Any,
    arr: Any,
    args: tuple,
    kwargs: dict,
    reasons: tuple[str, ...],
    common: dict[str, Any],
    **seen: Any,
) -> Plan:
    """The plan that says why `f` runs slice by slice."""
    kernels: tuple[str, ...] = (f"one call per slice, {f.says}",) if type(f) is BatchOfOne else ()
    shared = why = ""
    if config.current().worker_count() > 1:
        from ..loop import processes

        shared, why = processes.in_words(f, Arguments((Looped(0), *args), kwargs), [arr])
    kernels, reasons = kernels + (shared,) * bool(shared), reasons + (why,) * bool(why)
    run = lambda x, a: reference.apply(f, a, x, args, kwargs)  # noqa: E731
    return Plan(engine="loop", kernels=kernels, reasons=reasons, _call=run, **seen, **common)


def why_awkward(arr: Any) -> str | None:
    """Why only NumPy's own loop keeps the meaning of this array."""
    if not isinstance(arr, np.ndarray) or type(arr) in (np.ndarray, np.memmap):
        return None
    return f"{type(arr).__name__} is a subclass of ndarray with a meaning of its own"
