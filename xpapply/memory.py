"""What is known of functions: remembered per function, forgotten with it."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

_REMEMBERED = 64
"""Entries kept per function and kind; arrays of ever new shapes must not fill the memory."""


class Limited(dict[Hashable, Any]):
    """A dict that starts anew when it is full."""

    def __setitem__(self, key: Hashable, value: Any) -> None:
        if len(self) >= _REMEMBERED and key not in self:
            self.clear()
        super().__setitem__(key, value)


class Memory:
    """What is known of one function: graphs and traces by slice, plans by array."""

    def __init__(self) -> None:
        self.lifted = Limited()
        self.plans = Limited()
        self.traced = Limited()
        self.warned: set[Hashable] = set()


_by_object: dict[int, tuple[weakref.ref[Any], Memory]] = {}
"""By identity: objects that compare equal need not be the same function."""
_by_code: weakref.WeakKeyDictionary[CodeType, tuple[tuple[Any, ...], Memory]]
_by_code = weakref.WeakKeyDictionary()
"""Python functions: a lambda that is written in a loop is made anew each time, and is the same
function as long as what it closes over is the same."""


def memory(f: Any) -> tuple[Memory, Hashable]:
    """The memory of `f`, and what tells the methods of one object apart."""
    if type(f) is FunctionType:
        return _of_code(f), None
    anchor, method = (f.__self__, f.__func__) if type(f) is MethodType else (f, None)
    key = id(anchor)
    found = _by_object.get(key)
    if found is not None and found[0]() is anchor:
        return found[1], method
    made = Memory()
    try:
        ref = weakref.ref(anchor, lambda gone: _forget(key, gone))
    except TypeError:
        own = getattr(anchor, "__module__", None) or type(anchor).__module__.startswith("cupy.")
        if callable(anchor) and own:  # a builtin lives for ever, and so does a ufunc of CuPy
            ref = lambda: anchor  # type: ignore[assignment]  # noqa: E731
        else:
            return made, method  # cannot be referenced weakly: remember nothing
    _by_object[key] = ref, made
    return made, method


def _forget(key: int, gone: weakref.ref[Any]) -> None:
    """Drop what is known of an object that is gone, unless another one has its identity now."""
    if key in _by_object and _by_object[key][0] is gone:
        del _by_object[key]


def _of_code(f: FunctionType) -> Memory:
    parts: list[Any] = [f.__globals__, f.__defaults__, f.__kwdefaults__]
    for cell in f.__closure__ or ():
        try:
            parts.append(cell.cell_contents)
        except ValueError:  # not yet set
            parts.append(cell)
    found = _by_code.get(f.__code__)
    if found is not None and len(found[0]) == len(parts) and all(map(_same, parts, found[0])):
        return found[1]
    made = Memory()
    _by_code[f.__code__] = tuple(parts), made
    return made


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return type(a) is type(b) and type(a) in (int, float, str, bool) and a == b and bool(a)


def arguments(args: tuple, kwargs: dict) -> Hashable | None:
    """Further arguments of `f` as a key; None where they cannot be one."""
    found = [_argument(a) for a in (*args, *kwargs.values())]
    return None if None in found else (*found, *kwargs)


def _argument(x: Any) -> Hashable | None:
    if type(x) in (int, float, bool, str, complex, bytes, type(None), type(np.sum)):
        return type(x), repr(x) if isinstance(x, (float, complex)) else x
    if type(x) in (tuple, list):
        parts = tuple(map(_argument, x))
        return None if None in parts else (type(x), parts)
    if isinstance(x, (type, np.dtype)):
        return type(x), x
    if isinstance(x, np.generic):
        return type(x), repr(x)
    if type(x) is np.ndarray and x.nbytes <= 1 << 16 and not x.dtype.hasobject:
        return x.shape, x.strides, x.dtype.str, x.tobytes()
    return None
