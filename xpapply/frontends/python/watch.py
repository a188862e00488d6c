"""Notice that something which ``f`` depends on is not what it was when it was traced."""

from __future__ import annotations

import hashlib
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

_MISSING = object()
_COPIED = 1 << 26
"""Bytes up to which arrays are kept as copies, which compare quickly; larger ones as a digest."""


class Watch:
    """What ``f`` reached, and what it was."""

    def __init__(self) -> None:
        self._checks: dict[Any, Callable[[], bool]] = {}
        self._keep: list[Any] = []

    def __call__(self) -> bool:
        """Whether nothing has changed."""
        return all(check() for check in self._checks.values())

    def add(self, check: Callable[[], bool]) -> None:
        """A further question."""
        self._checks[len(self._checks), "own"] = check

    def item(self, where: dict[str, Any], key: str) -> None:
        """A global, or an attribute of an instance."""
        value = where.get(key, _MISSING)
        self._checks[id(where), key] = lambda: _unchanged(where.get(key, _MISSING), value)
        self._keep.append(where)

    def attribute(self, cls: type, name: str) -> None:
        """Something in a class."""
        value = vars(cls).get(name)
        self._checks[id(cls), name] = lambda: vars(cls).get(name) is value

    def kind(self, x: Any) -> None:
        """The class of an instance."""
        try:
            ref = weakref.ref(x)
        except TypeError:
            return
        cls = type(x)
        self._checks[id(x), "class"] = lambda: ref() is None or type(ref()) is cls

    def cell(self, cell: types.CellType) -> None:
        """A variable of an enclosing function."""
        value = cell.cell_contents

        def check() -> bool:
            try:
                return _unchanged(cell.cell_contents, value)
            except ValueError:
                return False

        self._checks[id(cell), "cell"] = check
        self._keep.append(cell)

    def function(self, f: types.FunctionType) -> None:
        """The code and the defaults of a function."""
        was = (f.__code__, f.__defaults__, f.__kwdefaults__)
        ref = weakref.ref(f)  # a function must not be kept by what is known of it

        def check() -> bool:
            f = ref()
            if f is None:
                return True
            now = (f.__code__, f.__defaults__, f.__kwdefaults__)
            return all(a is b for a, b in zip(now, was, strict=True))

        self._checks[id(f), "code"] = check
        if f.__kwdefaults__:
            self.container(f.__kwdefaults__)

    def array(self, x: np.ndarray) -> None:
        """The content of an array."""
        shape, dtype, strides = x.shape, x.dtype, x.strides
        digest = _digest(x)
        self._checks[id(x), "array"] = lambda: (
            x.shape == shape
            and x.dtype == dtype
            and x.strides == strides
            and _same_content(x, digest)
        )
        self._keep.append(x)

    def container(self, x: Any) -> None:
        """The elements of a list, dict or set."""
        was = _elements(x)
        self._checks[id(x), "elements"] = lambda: _same_elements(_elements(x), was)
        self._keep.append(x)

    def field(self, x: Any, name: str) -> None:
        """An attribute of an object of a library, with the content of an array."""
        value = getattr(x, name, None)
        if isinstance(value, np.ndarray):
            self.array(value)
        try:
            ref = weakref.ref(x)
        except TypeError:
            self._checks[id(x), name] = lambda: _unchanged(getattr(x, name, None), value)
            return
        self._checks[id(x), name] = lambda: (
            ref() is None or _unchanged(getattr(ref(), name, None), value)
        )

    def items(self, x: Any, was: tuple) -> None:
        """A partial."""
        for name in ("func", "args", "keywords"):
            self.field(x, name)
        self.container(x.keywords)
        self._keep.append(was)


def _unchanged(now: Any, was: Any) -> bool:
    if now is was:
        return True
    same = type(now) is type(was) and type(now) in (int, float, bool, str, bytes)
    return same and repr(now) == repr(was)  # NaN is itself, 0.0 is not -0.0


def _digest(x: np.ndarray) -> Any:
    if x.nbytes <= 1 << 12:
        return x.tobytes()
    return _bytes(x).copy() if x.nbytes <= _COPIED else hashlib.blake2b(_bytes(x).data).digest()


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def _same_content(x: np.ndarray, was: Any) -> bool:
    if isinstance(was, np.ndarray):
        return bool(np.array_equal(_bytes(x), was))
    return bool(_digest(x) == was)


def _elements(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [e for pair in x.items() for e in pair]
    return list(x)


def _same_elements(now: list[Any], was: list[Any]) -> bool:
    return len(now) == len(was) and all(map(_unchanged, now, was))
