"""What ``xarray.DataArray.curvefit`` calls for each slice, for the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np


def fitted(
    curve_fit: Any, model: Any, y: Any, x: Any, start: Any, lower: Any, upper: Any, count: int,
    skips: Any, quiet: Any, is_free: Any,
) -> Any:  # fmt: skip
    """The best parameters and their covariance; NaN where there is none, if that is `quiet`.

    `skips`: what is NaN is left out. `is_free`: there are no bounds. Of these None stands for
    False, so that it is known.
    """
    if skips is not None:
        kept = ~(np.isnan(x) | np.isnan(y))
        x = x[kept]
        y = y[kept]
        if len(y) == 0:
            return np.full(count, np.nan), np.full((count, count), np.nan)
    if len(x) == 1:
        raise NotImplementedError  # the model gets a number
    try:
        if is_free is not None:
            p, covariance = curve_fit(model, x, y, p0=start)
        else:
            p, covariance = curve_fit(model, x, y, p0=start, bounds=(lower, upper))
    except RuntimeError:
        if quiet is None:
            raise RuntimeError from None
        return np.full(count, np.nan), np.full((count, count), np.nan)
    return p, covariance
