"""Objects of NumPy that are used by indexing them: `numpy.r_`, `c_`, `s_`, `mgrid`, `ogrid`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....batching.indexers import JOIN
from ..trace import arrays
from ..trace.stand_ins import tracers
from ..trace.tracer import Tracer
from .proxies import Forbidden

_JOIN = (type(np.r_), type(np.c_))
_GRID = (type(np.mgrid), type(np.ogrid))
_INDEX = (type(np.s_), type(np.index_exp))


class Indexer(Forbidden):
    """A substitute of one of these objects."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        what, stage = self.__xpapply_real__, self._xp_stage
        if isinstance(what, _INDEX):
            return what[key]
        items = key if isinstance(key, tuple) else (key,)
        key = tuple(
            slice(*(x.__index__() if isinstance(x, Tracer) else x for x in _parts(i)))
            if isinstance(i, slice)
            else i
            for i in items
        )
        if not any(True for _ in tracers(key)):
            return stage.calls.constant(what[key if len(items) > 1 else key[0]])
        if not isinstance(what, _JOIN):
            raise stage.recorder.refuse(f"{self._xp_name} of values that depend on the slice")
        if len(items) == 1 and isinstance(items[0], (list, tuple)):
            key = (arrays.as_array(stage.recorder, items[0]),)
        name = "r_" if type(what) is type(np.r_) else "c_"
        # a range in brackets is one array, whatever stands beside it
        given = [np.r_[i] if isinstance(i, slice) else i for i in key]
        joined = [
            arrays.as_array(stage.recorder, i) if isinstance(i, (list, tuple)) else i for i in given
        ]
        return stage.recorder.call(
            JOIN,
            lambda *parts: getattr(np, name)[parts],
            tuple(joined),
            batch=((name, *joined), {}),
        )


def _parts(s: slice) -> tuple[Any, Any, Any]:
    return s.start, s.stop, s.step


def is_indexer(x: Any) -> bool:
    """Whether this is one of these objects."""
    return isinstance(x, (*_JOIN, *_GRID, *_INDEX))
