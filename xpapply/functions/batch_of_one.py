"""A method of a model that takes samples in rows, as a function of a slice."""

from __future__ import annotations

from typing import Any

import numpy as np


class BatchOfOne:
    """`func`, which takes batches alone, as a function of a slice.

    `row`: the slice is one sample whatever its axes, as of an estimator that is given itself. Its
    result is then `func(v.reshape(1, -1))[0]`, where texts keep the dtype of all classes.
    """

    says = "called with batches of one slice: it wants 2-D data"

    def __init__(self, func: Any, row: bool = False) -> None:
        self.func, self.row = func, row

    def of(self, func: Any) -> BatchOfOne:
        """The same of another function that stands for `func`."""
        return BatchOfOne(func, self.row)

    def __call__(self, v: Any, *args: Any, **kwargs: Any) -> Any:
        """The result for one slice."""
        if self.row:
            # `vectorize` without a signature gives elements, which Python's numbers may be
            one = v.reshape(1, -1) if hasattr(v, "reshape") else np.reshape(v, (1, -1))
            found = self.func(one, *args, **kwargs)
            texts = getattr(getattr(found, "dtype", None), "kind", "") in ("U", "S")
            return found[0, ...] if texts else found[0]
        found = self.func(v[None], *args, **kwargs)
        return tuple(y[0] for y in found) if isinstance(found, tuple) else found[0]
