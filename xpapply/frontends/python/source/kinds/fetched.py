"""Slices on a device of whose copies on the host a function computes: ``x.get()``.

Such a function computes as NumPy does, and what it gives goes back by ``cupy.asarray``. All of it
is one launch, as if nothing were fetched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .....errors import TraceError
from .....functions.purity import helpers, names, opcodes, steps_of
from ..values import Abstract, Arr, Num, OnDevice, Tup, Writes


class ReadAnew(TraceError):
    """Raised when a function is to be read by other rules."""


class Fetches(ReadAnew):
    """Raised when a function fetches its slices, and is to be read by NumPy's rules."""


def asked_for(f: Any) -> None:
    """Raise `Fetches` for what fetches an array."""
    if getattr(f, "__name__", "") == "asnumpy" and f is _of_cupy("asnumpy"):
        raise Fetches("it fetches its slice")


def may_be_so(t: Any) -> bool:
    """Whether the function being read names a method that fetches slices."""
    return not names(t.place.code.function.__code__).isdisjoint(("get", "asnumpy"))


def may_fetch(f: Any) -> bool:
    """Whether a function, or one that it calls, names what fetches slices or numbers of them."""
    return any(not names(own.__code__).isdisjoint(_FETCH) for own in helpers(f))


_FETCH = frozenset("get asnumpy item tolist float int".split())


def _of_cupy(name: str) -> Any:
    return getattr(sys.modules.get("cupy"), name, None)


_WRITES = steps_of("STORE_SUBSCR STORE_SLICE DELETE_SUBSCR BINARY_OP")
_METHODS = frozenset("sort fill put partition resize itemset".split())


def fetched(t: Writes, x: OnDevice) -> Abstract:
    """The copy on the host: one of its own, if the function may write to it."""
    if not isinstance(x.copy, Arr):
        return x.copy
    code = t.place.code.function.__code__  # type: ignore[attr-defined]
    if _WRITES.isdisjoint(opcodes(code)) and _METHODS.isdisjoint(names(code)):
        return x.copy._replace(own=False)
    from .. import calls

    return calls.METHODS["copy"](t, [x.copy], {})


def attribute(t: Writes, x: OnDevice, name: str) -> Abstract | None:
    """An attribute that needs no copy; None: a method."""
    from .. import arrays

    if name in ("shape", "ndim", "size", "dtype"):
        return arrays.attribute(t, x.copy, name)
    if name in ("get", "item", "tolist"):
        return None
    raise t.refuse(
        f"{name} of a slice on the device, whose copy on the host is used too: "
        "take that of the copy, or leave all on the device"
    )


def method(t: Writes, x: OnDevice, name: str, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    """``x.get()`` and such."""
    from .. import arrays, calls

    if args or kwargs:
        raise t.refuse(f"{name} with arguments, of a slice on the device")
    if name == "get" and isinstance(x.copy, Num):
        raise t.refuse("get of an array without axes")
    if name == "get":
        return fetched(t, x)
    if isinstance(x.copy, Arr):
        return calls.METHODS[name](t, [x.copy], {})
    return arrays.method(t, x.copy, name, [], {})


def item(t: Writes, x: OnDevice, index: Abstract) -> OnDevice:
    """``x[index]``, on the device."""
    from .. import arrays

    found = arrays.item(t, x.copy, index)
    if not isinstance(found, (Arr, Num)):
        raise t.refuse("such a part of a slice on the device, whose copy on the host is used too")
    return OnDevice(arrays.loaded(t, found))


def called(f: Any) -> Callable[..., Any] | None:
    """The row of a transfer between host and device; None: it is none."""
    if f in (float, int, bool, len):
        return lambda t, args, kwargs: _plain(t, f, args, kwargs)
    if f is _of_cupy("asnumpy"):
        return _asnumpy
    if f is not None and f in (_of_cupy("asarray"), _of_cupy("array")):
        return _sent
    return None


def _plain(t: Writes, f: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A number of Python's."""
    from .. import calls

    row: Any = calls.find(f)
    args = [x.copy if isinstance(x, OnDevice) else x for x in args]
    found: Any = row(t, args, kwargs)
    return found


def _asnumpy(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs or not isinstance(args[0], (OnDevice, Arr)):
        raise t.refuse("cupy.asnumpy of such arguments")
    return fetched(t, args[0]) if isinstance(args[0], OnDevice) else args[0]


def _sent(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``cupy.asarray`` of what is on the host."""
    from .. import calls

    if len(args) == 1 and not kwargs and isinstance(args[0], OnDevice):
        return args[0]
    if args and isinstance(args[0], Num):
        if len(args) > 1 or kwargs:
            raise t.refuse("cupy.asarray of a number, with further arguments")
        return OnDevice(args[0])
    row: Any = calls.find(np.array)
    return OnDevice(row(t, args, kwargs))


def result(x: Abstract) -> Abstract:
    """A result, wherever it is."""
    if isinstance(x, OnDevice):
        return x.copy
    if isinstance(x, Tup):
        return x._replace(items=tuple(map(result, x.items)))
    return x
