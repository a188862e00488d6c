"""What pandas finds in ``engine=xpapply``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from . import elements, rows
from .applied import Host


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
        return rows.apply(data, func, args, kwargs, own, Host())


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
