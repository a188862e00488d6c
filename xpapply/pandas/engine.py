"""What pandas finds in ``engine=xpapply``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from .. import config
from ..functions.cache import BoundedDict, kept
from ..limits import LIMITS
from ..runtime.budget import Quick
from . import elements, rows
from .applied import Host, Own, key_of


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
        if short := _short(own, func, len(data), LIMITS.unknown_elements):
            return short.result
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
        if short := _short(own, func, len(data), LIMITS.unknown_rows):
            return short.result
        return rows.apply(data, func, args, kwargs, own, Host())


_quick: BoundedDict = kept(BoundedDict())
"""What turns of pandas' loop took, by the code of functions."""


def _short(own: Callable[[Any], Any], f: Any, count: int, unknown: int) -> Own | None:
    """pandas' own result, where its loop takes less time than a look; None: it does not.

    `unknown`: how many turns of a function that is not known surely do.
    """
    now, key = config.current(), key_of(f)
    if (quick := _quick.get(key)) is None:
        quick = _quick[key] = Quick(math.inf, LIMITS.patched_worth)
    known = count <= unknown if quick.seconds == math.inf else quick.serves(count)
    if not known or now.engine or now.fallback == "raise":
        return None
    return Own(quick.timed(max(1, count), own, f))


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
