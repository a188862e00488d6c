"""``rolling(...).apply(f)`` and ``expanding().apply(f)``: a function of windows.

They are slices of one array, and most are as long as each other: these are views of it. Where
windows are of many lengths, a function of two numbers, where a window begins and ends, gets them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..errors import TraceError, UnsupportedError
from ..limits import LIMITS
from ..loop.arguments import Looped
from . import applied
from .applied import Host, Job, OfPandas, Own, Refusal
from .labels import Labels
from .returns import made, of_part


def apply(
    obj: Any,
    start: np.ndarray,
    end: np.ndarray,
    called: np.ndarray,
    f: Any,
    raw: bool,
    args: tuple,
    kwargs: dict[str, Any],
    own: Callable[[Any], Any],
    host: Host,
) -> Any:
    """What pandas' loop over windows gives, an array of floats.

    Parameters
    ----------
    obj : Series or array
        What windows are parts of: floats.
    start, end : array of int
        Where they begin and end.
    called : array of int
        For which of them `f` is called; the results of all others are NaN.
    f, raw, args, kwargs
        As of ``rolling.apply``.
    own : callable
        pandas' loop, with such a function.
    host : Host
        Who runs it.
    """
    values = np.ascontiguousarray(obj)

    def window(k: int) -> Any:
        part = values[start[k] : end[k]] if raw else obj.iloc[start[k] : end[k]]
        return f(part, *args, **kwargs)

    lengths = (end - start)[called]
    length = int(np.bincount(lengths).argmax())
    same = called[lengths == length]
    rest = called[lengths != length]
    at = start[same]
    alike = len(rest) <= max(LIMITS.few_slices, len(called) * LIMITS.other_windows)
    views = _views(values, at, length) if alike else None
    some = same if views is not None else called
    first = np.searchsorted(called, some)

    def ahead() -> None:
        for k in range(first[0]):
            job.once(k, lambda: window(int(called[k])))  # noqa: B023

    job = Job(
        f, own, lambda k: window(int(some[k])), len(some), lambda k: int(first[k]), host,
        ahead=ahead,
    )  # fmt: skip
    with Refusal() as refused:
        function = f
        if not raw:
            gaps = bool(np.isnan(values).any())
            of = made(_METHODS.get(f, f), Labels(None, "f", gaps), floats=True)
            function = of.of(_METHODS.get(f, f))
        if views is not None:
            what = applied.applied(
                job, function, [views], "(n)->()", (np.float64,), _float, (Looped(0), *args), kwargs
            )
        else:
            what = _between(job, function, values, start[called], end[called], args, kwargs)
    if refused.why is not None:
        return host.by_pandas(job, refused.why)
    if not raw:
        what.whole, what.silent = of.whole, of.silent
    found: Any = None
    try:
        found = applied.results(what)
    except UnsupportedError:
        raise
    except Exception:
        if job.looped or len(some) == len(called):
            raise
    if found is None:  # one of the others may raise sooner
        found = Own(host.loop(job))
    if isinstance(found, Own):
        return found.result
    output = np.full(len(start), np.nan)
    output[some] = found
    if views is not None:
        for k in rest.tolist():
            given = job.once(int(np.searchsorted(called, k)), lambda: window(k))  # noqa: B023
            if _float(given) is None:  # an array takes None and texts, pandas raises
                return host.loop(job)
            output[k] = given
    return output


def _views(values: np.ndarray, at: np.ndarray, length: int) -> np.ndarray | None:
    """The windows of one length; None: they are no views, and copies would be large."""
    if not length:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(values, length)
    steps = np.diff(at)
    if not len(steps) or (steps[0] > 0 and (steps == steps[0]).all()):
        return windows[at[0] : at[-1] + 1 : int(steps[0]) if len(steps) else 1]
    if len(at) * length * values.itemsize <= LIMITS.copied_windows:
        return windows[at]
    return None


def _between(
    job: Job, f: Any, values: np.ndarray, start: np.ndarray, end: np.ndarray, args: tuple,
    kwargs: dict[str, Any],
) -> OfPandas:  # fmt: skip
    """The function of where a window begins and ends."""
    if type(f) is not FunctionType:
        raise TraceError("windows of many lengths are for functions of Python")
    of = of_part(f, len(args), tuple(kwargs))
    return applied.of_parts(job, of, (start, end), (values,), (np.float64,), _float, args, kwargs)


def _float(result: Any, *_: Any) -> float | None:
    """What becomes of a result in an array of floats; None where that raises."""
    if isinstance(result, (float, int, bool, np.number, np.bool_)) and not isinstance(
        result, np.complexfloating
    ):
        return result  # type: ignore[return-value]
    return None


_METHODS: dict[Any, Any] = {
    np.mean: lambda x: x.mean(),
    np.sum: lambda x: x.sum(),
    np.min: lambda x: x.min(),
    np.max: lambda x: x.max(),
    np.prod: lambda x: x.prod(),
    np.median: lambda x: np.median(x),
}
"""Functions of NumPy that call a method of Series."""
