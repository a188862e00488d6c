"""Networks on NumPy's masked arrays: the data go through them, the mask goes along.

A network is one function of its whole slice. So the rule is that of `numpy.ma` for
arithmetic, by slices: where a masked value takes part, the result is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def on_data(run: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    """``run(x, axis)`` for masked arrays too, where it only knows plain ones."""

    def call(x: Any, axis: int) -> Any:
        if not isinstance(x, np.ma.MaskedArray):
            return run(x, axis)
        return with_mask(run(np.asarray(x.data), axis), x, axis)

    return call


def with_mask(y: np.ndarray, x: np.ma.MaskedArray, axis: int) -> Any:
    """The results `y` for the slices of `x` along `axis`, of the class of `x`.

    All results of a slice with a masked value are masked. Whether the mask is hard and what
    `filled` puts in its place are as in `x`, as after arithmetic.
    """
    found: Any
    if y.dtype.kind in "fc" or x.dtype.kind not in "fc":
        found = x.__array_wrap__(y, None)  # type: ignore[no-untyped-call]
    else:  # 1e20 fills no index: what its own dtype has
        found = y.view(type(x))
        if x.hardmask:
            found.harden_mask()
    mask = np.ma.getmask(x)
    if mask is not np.ma.nomask:
        touched = np.any(mask, axis)
        within = y.ndim - touched.ndim
        inside = touched.reshape(touched.shape[:axis] + (1,) * within + touched.shape[axis:])
        found.mask = np.broadcast_to(inside, y.shape)
    return found
