"""Snapshots of values, by which it is known whether they are the same later.

Numbers and texts are compared by their bits, lists and dicts by their contents, all else by
identity.
"""

from __future__ import annotations

import builtins
import itertools
import operator
import struct
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..limits import LIMITS

MISSING: Any = object()
"""The value of an attribute or variable that does not exist."""

LIBRARIES = frozenset(
    ("numpy", "scipy", "torch", "cupy", "cupyx", "jax", "sklearn", "xpapply", "array_api_compat")
) | frozenset(sys.stdlib_module_names)
"""Root packages whose functions and classes live as long as the process."""


class Weak(weakref.ref):  # type: ignore[type-arg]
    """The value of a place, not kept alive."""

    __slots__ = ()


class Contents:
    """A snapshot of a list, tuple, dict or set."""

    __slots__ = ("_is_plain", "_kind", "_was")

    def __init__(self, x: Any, above: tuple[int, ...], given: Paths = frozenset()) -> None:
        self._kind = snapshot(type(x))
        below = (frozenset(p[1:] for p in given if p[:1] == (k,)) for k in itertools.count())
        self._was = [
            snapshot(e, (*above, id(x)), own) for e, own in zip(elements(x), below, strict=False)
        ]
        self._is_plain = not any(type(s) in (Weak, Contents) for s in self._was)

    def same(self, now: Any) -> bool:
        """Whether `now` has the same elements in the same order."""
        if not same(type(now), self._kind):
            return False
        found = elements(now)
        if len(found) != len(self._was):
            return False
        if self._is_plain and all(map(operator.is_, found, self._was)):
            return True
        return all(map(same, found, self._was))

    def others(self, now: Any, path: tuple[int, ...]) -> list[tuple[int, ...]] | None:
        """The paths of numbers that are others now; None: so is something else."""
        found = elements(now) if isinstance(now, CONTAINERS) else None
        if found is None or not same(type(now), self._kind) or len(found) != len(self._was):
            return None
        return _all_others(
            (x, was, (*path, k)) for k, (x, was) in enumerate(zip(found, self._was, strict=True))
        )


Paths = frozenset[tuple[int, ...]]
"""Where numbers stand in a value: the empty path is itself, others lead through `elements`."""
CONTAINERS = (dict, list, tuple, set, frozenset, deque)


def elements(x: Any) -> list[Any]:
    """The elements of a container, whatever its class shows."""
    if isinstance(x, dict):
        return [*dict.keys(x), *dict.values(x)]
    kind: Any = next(c for c in CONTAINERS if isinstance(x, c))
    return [*kind.__iter__(x)]


def snapshot(x: Any, above: tuple[int, ...] = (), given: Paths = frozenset()) -> Any:
    """A snapshot of a value, for `same`: itself if it keeps no memory alive.

    `above`: the containers that it is in, by identity; `given`: where numbers of these types may
    come.
    """
    if () in given and number_kind(x) is not None:
        return Alike(number_kind, x)
    if x is None or x is MISSING or type(x) in _NUMBERS:
        return x
    if isinstance(x, CONTAINERS):
        endless = id(x) in above  # in itself: compared where it was seen first
        return _MANY if endless or len(x) > LIMITS.compared_elements else Contents(x, above, given)
    if lives_on(x):
        return x
    try:
        return Weak(x)
    except TypeError:
        return x


class Alike:
    """A value in the place of which others may come that are alike."""

    __slots__ = ("_key", "_of")

    def __init__(self, of: Callable[[Any], Any], x: Any) -> None:
        self._of, self._key = of, of(x)

    def same(self, now: Any) -> bool:
        """Whether `now` is alike."""
        return bool(self._of(now) == self._key)


def number_kind(x: Any) -> type | None:
    """The type of a number that compiled code may read anew for each call; None: it is none."""
    kind = type(x)
    if kind is int:
        return kind if -(1 << 63) <= x < 1 << 63 else None
    return kind if kind in _GIVEN else None


_GIVEN = frozenset((float, np.float64, np.float32, np.int64, np.int32))


def others(now: Any, was: Any, path: tuple[int, ...] = ()) -> list[tuple[int, ...]] | None:
    """Where a value has other numbers than its snapshot; None: something else is another one."""
    if same(now, was):
        return []
    if type(was) is Contents:
        return was.others(now, path)
    kind = number_kind(now)
    return [path] if kind is not None and kind is type(was) and number_kind(was) is kind else None


def _all_others(
    pairs: Iterable[tuple[Any, Any, tuple[int, ...]]],
) -> list[tuple[int, ...]] | None:
    found: list[tuple[int, ...]] = []
    for now, was, path in pairs:
        some = others(now, was, path)
        if some is None:
            return None
        found += some
    return found


def followed(x: Any, path: Sequence[int]) -> Any:
    """What stands in a value at the end of a path."""
    for k in path:
        x = elements(x)[k]
    return x


class _Many:
    """Stands for a container that is too large to compare: it is never the same."""


_MANY = _Many()


def lives_on(x: Any) -> bool:
    """Whether an object belongs to a library, and so lives as long as the process."""
    if isinstance(x, types.ModuleType):
        name = x.__name__  # a class of modules of the user's may give anything
        if type(name) is not str:
            return False
        return name.partition(".")[0] in LIBRARIES and sys.modules.get(name) is x
    if isinstance(x, _FUNCTIONS):
        if "<locals>" in getattr(x, "__qualname__", ""):  # made by a call of another function
            return False
        root = home_of(x)
        return root in LIBRARIES or root == "builtins"
    return False


def home_of(x: Any) -> str:
    """The package that a class or a function says it is of; "" for code without a module.

    A class that ``exec`` makes where there is no ``__name__`` says that it is a builtin.
    """
    root = (getattr(x, "__module__", None) or "").partition(".")[0]
    if root == "builtins" and isinstance(x, type) and x.__flags__ & WRITTEN:
        return root if vars(builtins).get(x.__name__) is x else ""
    return root


WRITTEN = 1 << 9
"""Among the flags of a class: it is written in Python."""


_FUNCTIONS = (type, types.FunctionType, types.BuiltinFunctionType, np.ufunc, type(np.sum))


def same(now: Any, was: Any) -> bool:
    """Whether a value equals its snapshot."""
    if now is was:
        return True
    kind = type(was)
    if kind is Weak:
        return now is not None and was() is now  # None is no reference to what is gone
    if kind is Contents:
        return isinstance(now, CONTAINERS) and bool(was.same(now))
    if kind is Alike:
        return was.same(now)  # type: ignore[no-any-return]
    if type(now) is not kind:
        return False
    if kind in _NUMBERS:
        return exact(now) == exact(was)
    return isinstance(now, np.generic) and exact(now) == exact(was)


_NUMBERS = frozenset((bool, int, float, complex, str, bytes, type(...), type(NotImplemented)))


def exact(x: Any) -> Any:
    """A number or a text as something that is equal only to the same: 0.0 is not -0.0."""
    if type(x) is float:
        return struct.pack("d", x)
    if type(x) is complex:
        return struct.pack("dd", x.real, x.imag)
    if isinstance(x, np.generic) and not x.dtype.hasobject:
        return x.dtype.str, x.tobytes()
    return x
