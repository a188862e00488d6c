"""Look-ups in dicts, lists and sets of the user, by whole numbers that depend on the slice.

They become indices of a table: of all numbers from the least key to the greatest where these are
near each other, else of the keys in order. What is not there raises, as it does for that slice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....batching import syntax
from ....batching.scalars import LARGEST
from ..trace.tracer import Tracer

_SPREAD, _ALWAYS, _LONGEST = 64, 1 << 12, 1 << 20
"""Places of a table for each of its keys at most, but for so many that there may be always."""

_NOTHING: Any = object()


def in_dict(known: Mapping[Any, Any], k: Tracer, default: Any = _NOTHING) -> Any:
    """``known[k]``, or ``known.get(k, default)``; `NotImplemented` where no table can say it."""
    table = _Table.of(known, default)
    if table is None:
        return NotImplemented
    return table.value(k, lambda: KeyError(k.value), default)


def in_list(known: list[Any], k: Tracer) -> Any:
    """``known[k]``; `NotImplemented` where no table can say it."""
    n = len(known)
    table = _Table.of({j: list.__getitem__(known, j) for j in range(-n, n)}, _NOTHING)
    if table is None:
        return NotImplemented
    return table.value(k, lambda: IndexError("list index out of range"), _NOTHING)


def contains(known: Any, k: Tracer) -> Any:
    """``k in known``; `NotImplemented` where no table can say it."""
    table = _Table.of(dict.fromkeys(known, True), _NOTHING)
    return NotImplemented if table is None else bool(table.known(k))


class _Table:
    """The values of whole numbers, all of one class."""

    def __init__(self, keys: np.ndarray, values: np.ndarray, kind: type, default: Any) -> None:
        order = np.argsort(keys)
        self._keys, self._values, self._kind = keys[order], values[order], kind
        self._has_default = default is not _NOTHING and default is not None
        low, high = int(self._keys[0]), int(self._keys[-1])
        places = high - low + 3  # with what lies below and above
        self._dense = places <= min(_LONGEST, max(_ALWAYS, _SPREAD * len(keys)))
        self._low, self._high = low, high
        if self._dense:
            at = self._keys - low + 1
            self._there = np.zeros(places, np.bool_)
            self._there[at] = True
            first = default if self._has_default else self._values[0]
            self._all = np.full(places, first, values.dtype)
            self._all[at] = self._values

    @classmethod
    def of(cls, known: Mapping[Any, Any], default: Any) -> _Table | None:
        """The table of a dict, if its keys are whole numbers and its values are of one class."""
        if not known or not all(isinstance(k, int) for k in known):
            return None
        values = [*known.values()]
        kinds = {type(v) for v in values}
        if default is not _NOTHING and default is not None:
            kinds.add(type(default))
        (kind, *others) = kinds
        if others or not (kind in (bool, int, float) or issubclass(kind, np.generic)):
            return None
        if any(abs(int(k)) > LARGEST for k in known):
            return None
        if kind is int and any(abs(v) > LARGEST for v in (*values, default) if type(v) is int):
            return None
        array = np.array(values)
        if array.dtype.kind not in "biufc" or array.ndim != 1:
            return None
        return cls(np.array([int(k) for k in known], np.int64), array, kind, default)

    def known(self, k: Tracer) -> Any:
        """Whether the key is in the table."""
        if self._dense:
            return _constant(k, self._there)[self._place(k)]
        return _constant(k, self._keys)[self._place(k)] == k

    def value(self, k: Tracer, error: Callable[[], Exception], default: Any) -> Any:
        """The value for the key, as Python's number where it is one."""
        if self._has_default and self._dense:
            return self._plain(_constant(k, self._all)[self._place(k)])
        if not bool(self.known(k)):
            if default is not _NOTHING:
                return default
            raise error()
        table = self._all if self._dense else self._values
        return self._plain(_constant(k, table)[self._place(k)])

    def _place(self, k: Tracer) -> Any:
        if self._dense:
            inside: Any = np.clip(k, self._low - 1, self._high + 1)  # type: ignore[call-overload]
            return inside - (self._low - 1)
        at: Any = np.searchsorted(_constant(k, self._keys), k)  # type: ignore[call-overload]
        return np.minimum(at, len(self._keys) - 1)

    def _plain(self, x: Tracer) -> Any:
        if self._kind not in (bool, int, float):
            return x
        value = self._kind(x.value)
        batch: Any = ((x, np.dtype(self._kind)), {})
        return x.recorder.call(syntax.NUMBER, lambda _: value, (x,), batch=batch, check=False)


def _constant(k: Tracer, array: np.ndarray) -> Tracer:
    array.flags.writeable = False
    return k.recorder.constant(array)
