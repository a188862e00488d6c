"""Named tuples, dicts and dataclasses that a function returns: their leaves apart, and back.

Each leaf becomes an array of its own, and a call returns the same container of these arrays.
Containers may stand in a container, one level deep.
"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_PLAIN = frozenset((tuple, list, int, float, complex, bool, str, type(None)))
_DEEPEST = 1
"""Levels of containers in a container."""


class _Kind(NamedTuple):
    """A container: its class, the names of its parts, and what is in them."""

    cls: type
    names: tuple[Any, ...]
    parts: tuple[_Kind | None, ...]
    more: tuple[str, ...] = ()
    """Names of parts that its class does not take by position."""


class Leaves:
    """The leaves of what one function returns, in the order of its first result.

    Parameters
    ----------
    count : int
        How many are promised.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._kind: _Kind | None = None
        self.told_plain = False
        """Whether a loop has shown that its results are no containers."""

    @property
    def count(self) -> int:
        """The number of leaves."""
        return self._count

    @property
    def are_plain(self) -> bool:
        """Whether the first result was no container."""
        return self._kind is None

    def of(self, result: Any) -> Any:
        """The leaves of a result, as a tuple of several or one alone; others as they are.

        Raises
        ------
        ValueError
            If it has other parts than the first one.
        """
        if type(result) in _PLAIN or hasattr(result, "dtype"):
            return result
        kind = _kind_of(result, self._count)
        if kind is None:
            return result
        if self._kind is None:
            self._kind = kind
        elif kind[:2] != self._kind[:2] and set(kind.names) != set(self._kind.names):
            raise ValueError(
                f"f returned {_shown(kind)}, and {_shown(self._kind)} for the first slice: it must "
                "be one kind of result"
            )
        found = tuple(_leaves(result, self._kind))
        return found[0] if len(found) == 1 and self._count == 1 else found

    def apart(self, results: Any) -> Any:
        """An array of results, all of which are there, with the leaves in the place of each."""
        first = next(iter(results.flat), None)
        if self.are_plain and self.of(first) is first:
            self.told_plain = results.size > 0
            return results
        return np.asanyarray(np.frompyfunc(self.of, 1, 1)(results), object)

    def put_back(self, arrays: Any) -> Any:
        """The container, with arrays for its leaves; what is in none as it is."""
        if self._kind is None:
            return arrays
        given = iter(arrays if isinstance(arrays, tuple) else (arrays,))
        return _made(self._kind, given)


def _kind_of(x: Any, count: int, deep: int = 0) -> _Kind | None:
    """The kind of a container; None: it is a leaf."""
    if deep > _DEEPEST:
        return None
    cls, more = type(x), ()
    if isinstance(x, dict):
        names: tuple[Any, ...] = tuple(x)
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        names = tuple(f.name for f in dataclasses.fields(x))
    elif isinstance(x, tuple) and hasattr(cls, "_fields"):
        names = tuple(cls._fields)
        extra = tuple(getattr(cls, "_extra_fields", ()))  # of SciPy's results
        if not deep and len(x) == count and cls.__module__.partition(".")[0] == "scipy":
            return None  # a plain tuple of arrays, as NumPy makes of it
        if extra and (deep or count == len(names) + len(extra)):
            more = extra
    else:
        return None
    parts = tuple(_kind_of(_part(x, n), count, deep + 1) for n in (*names, *more))
    return _Kind(cls, names, parts, more)


def _part(x: Any, name: Any) -> Any:
    return x[name] if isinstance(x, dict) else getattr(x, name)


def _leaves(x: Any, kind: _Kind) -> list[Any]:
    found: list[Any] = []
    for name, inner in zip((*kind.names, *kind.more), kind.parts, strict=True):
        part = _part(x, name)
        if isinstance(part, (str, bytes)):  # of any length
            part = np.array(part, object)
        found += [part] if inner is None else _leaves(part, inner)
    return found


def _made(kind: _Kind, given: Any) -> Any:
    """A container whose leaves are taken from an iterator."""
    parts: Sequence[Any] = [
        next(given) if inner is None else _made(inner, given) for inner in kind.parts
    ]
    cls: Any = kind.cls
    if issubclass(cls, dict):
        return dict(zip(kind.names, parts, strict=True))
    named = zip((*kind.names, *kind.more), parts, strict=True)
    if issubclass(cls, tuple):
        if hasattr(cls, "_extra_fields") and not kind.more:
            make: Any = namedtuple  # its class needs what is not there
            cls = make(cls.__name__, kind.names)
        return cls(**dict(named)) if not hasattr(cls, "_make") else cls._make(parts)
    made = object.__new__(cls)  # arrays are not what its own checks expect
    for name, part in named:
        object.__setattr__(made, name, part)
    return made


def _shown(kind: _Kind) -> str:
    return f"{kind.cls.__name__}({', '.join(map(str, kind.names))})"
