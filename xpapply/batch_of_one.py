"""A method of a model that takes samples in rows, as a function of a slice."""

from __future__ import annotations

from typing import Any


class BatchOfOne:
    """`func`, which takes batches alone, as a function of a slice."""

    says = "called with batches of one slice: it wants 2-D data"

    def __init__(self, func: Any) -> None:
        self.func = func

    def __call__(self, v: Any, *args: Any, **kwargs: Any) -> Any:
        """The result for one slice."""
        found = self.func(v[None], *args, **kwargs)
        return tuple(y[0] for y in found) if isinstance(found, tuple) else found[0]
