"""What pandas finds in ``engine=xpapply``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from .. import config
from ..functions.cache import BoundedDict, kept
from ..limits import LIMITS
from . import elements, rows
from .applied import Host, key_of


class Engine:
    """pandas' plug-in point, as of ``df.apply(f, axis=1, engine=xpapply)``.

    pandas asks the engine for ``__pandas_udf__`` and calls these. What cannot run at once runs as
    without an engine.
    """

    @staticmethod
    def map(
        data: Any, func: Any, args: tuple, kwargs: dict[str, Any], decorator: Any, skip_na: bool
    ) -> Any:
        """A function of elements."""
        action = "ignore" if skip_na else None
        if not isinstance(data, pd.Series) or args:
            return data.map(func, na_action=action, **kwargs)

        def own(f: Any) -> Any:
            return data.map(f, na_action=action, **kwargs)

        if type(data) is not pd.Series:
            return own(func)
        if _is_short(func, len(data), LIMITS.unknown_elements):
            return _timed(own, func, len(data))
        values = data.to_numpy() if isinstance(data.dtype, np.dtype) else data.array
        return elements.apply(values, func, (), kwargs, skip_na, own, Host())

    @staticmethod
    def apply(
        data: Any, func: Any, args: tuple, kwargs: dict[str, Any], decorator: Any, axis: Any
    ) -> Any:
        """A function of rows, or of columns."""
        if isinstance(data, np.ndarray):
            return _raw(data, func, args, kwargs, axis)

        def own(f: Any) -> Any:
            return data.apply(f, axis=axis, args=args, **kwargs)

        if not callable(func) or isinstance(func, np.ufunc) or axis not in (1, "columns"):
            return own(func)
        if _is_short(func, len(data), LIMITS.unknown_rows):
            return _timed(own, func, len(data))
        return rows.apply(data, func, args, kwargs, own, Host())


_rates: BoundedDict = kept(BoundedDict())
"""Seconds of a turn of pandas' loop, by the code of functions."""


def _is_short(f: Any, count: int, unknown: int) -> bool:
    """Whether pandas' loop takes less time than a look; `unknown`: how many turns surely do."""
    now, rate = config.current(), _rates.get(key_of(f))
    if now.engine or now.fallback == "raise":
        return False
    return count <= unknown if rate is None else count * rate <= LIMITS.patched_worth


def _timed(own: Callable[[Any], Any], f: Any, count: int) -> Any:
    """pandas' own result, by which it is known what a turn takes."""
    began = time.thread_time()  # which a busy machine changes little
    found = own(f)
    took = (time.thread_time() - began) / max(1, count)
    _rates[key_of(f)] = min(took, _rates.get(key_of(f), took))
    return found


def _raw(values: np.ndarray, f: Any, args: tuple, kwargs: dict[str, Any], axis: Any) -> Any:
    """A function of arrays, as pandas applies it without an engine."""
    axis = {"index": 0, "rows": 0, "columns": 1}.get(axis, axis)
    if values.dtype.kind in "biufc":
        from ..apply import apply_along_axis

        return apply_along_axis(f, axis, values, *args, **kwargs)
    from ..loop import originals

    return originals.apply_along_axis(_Texts(f), axis, values, *args, **kwargs)


class _Texts:
    """A function whose texts come through whole: arrays of texts cut them."""

    def __init__(self, f: Any) -> None:
        self._f = f

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self._f(*args, **kwargs)
        return np.array(found, dtype=object) if isinstance(found, str) else found


__pandas_udf__ = Engine
