"""``y.flat``: the elements of an array one after the other, in whatever shape it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .arrays import as_array, copied, fits
from .stand_ins import values
from .tracer import Tracer


class Elements:
    """What `numpy.flatiter` is for an array."""

    def __init__(self, x: Tracer) -> None:
        self._x = x

    def flat(self) -> Tracer:
        """The elements as a vector in the same memory."""
        x = self._x
        if x.ndim == 1:
            return x
        if not x.ndim or x.recorder.library != "numpy":
            raise x.recorder.refuse(f"the elements of an array of {x.ndim} axes one by one")
        return x.part(tuple(np.unravel_index(np.arange(x.size), x.shape)))

    def __len__(self) -> int:
        return int(self._x.size)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.flat())

    def __getitem__(self, key: Any) -> Any:
        found = self.flat()[key]
        view = isinstance(found, Tracer) and isinstance(found.value, np.ndarray)
        return copied(found) if view else found

    def __setitem__(self, key: Any, item: Any) -> None:
        x = self._x
        item = as_array(x.recorder, item)
        changed = x.value.copy()
        x.recorder.real(changed.flat.__setitem__, values(key), values(item))
        flat = self.flat()
        count = np.size(flat.value[values(key)])
        if np.size(values(item)) not in (1, count):
            raise x.recorder.refuse("elements one by one from more or fewer others")
        fits(item, x.dtype, one=count == 1 and np.ndim(values(key)) == 0)
        flat[key] = item.reshape(-1 if np.size(values(item)) > 1 else ())

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._x.recorder.refuse("the elements of an array go into a library's function")
