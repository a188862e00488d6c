"""Identity of functions across runs: a digest of all that determines what they compute.

The code of functions that are not of installed packages, what they close over, their defaults and
the globals that they name; the attributes of objects; arrays by their bytes. What is of an
installed package counts by its name and the package's version.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import arrays
from ..errors import UnsupportedError
from . import reach


def of(*parts: Any) -> str:
    """The digest of a function and its arguments.

    Raises
    ------
    UnsupportedError
        If something has no contents that another process could know again.
    """
    walk = _Walk()
    for x in parts:
        walk.visit(x)
    return walk.hash.hexdigest()[:32]


class _Walk:
    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._seen: dict[int, tuple[int, Any]] = {}

    def _put(self, *words: Any) -> None:
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            self.hash.update(f"{len(data)}:".encode())
            self.hash.update(data)

    def _all(self, kind: str, parts: Iterable[Any]) -> None:
        found = list(parts)
        self._put(kind, len(found))
        for x in found:
            self.visit(x)

    def visit(self, x: Any) -> None:
        if x is None or isinstance(x, (bool, int, float, complex, str, bytes, np.dtype)):
            self._put(type(x).__name__, x if isinstance(x, bytes) else repr(x))
            return
        if id(x) in self._seen:
            self._put("again", self._seen[id(x)][0])
            return
        self._seen[id(x)] = len(self._seen), x
        if arrays.library(x) is not None:
            self._array(x)
        elif isinstance(x, (list, tuple)):
            self._all(type(x).__name__, x)
        elif isinstance(x, dict):
            self._all(type(x).__name__, (part for item in x.items() for part in item))
        elif isinstance(x, (set, frozenset)):
            self._put(type(x).__name__, *sorted(of(e) for e in x))
        elif isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self._all("method", (x.__func__, x.__self__))
        elif isinstance(x, functools.partial):
            self._all("partial", (x.func, x.args, x.keywords))
        elif isinstance(x, (staticmethod, classmethod)):
            self._all(type(x).__name__, (x.__func__,))
        elif isinstance(x, property):
            self._all("property", (x.fget, x.fset))
        elif isinstance(x, types.CodeType):
            self._code(x)
        elif isinstance(x, types.ModuleType):
            self._put("module", x.__name__, _version(x.__name__))
        elif isinstance(x, type):
            self._class(x)
        elif isinstance(x, _COMPILED) or (hasattr(x, "__qualname__") and reach.is_installed(x)):
            self._named(x)
        else:
            self._object(x)

    def _array(self, x: Any) -> None:
        if getattr(x, "layout", None) is not None and "sparse" in str(x.layout):
            raise UnsupportedError(f"it reaches {arrays.describe(x)}")
        y = np.asarray(arrays.on_host(x))
        self._put("array", arrays.library(x), arrays.dtype_name(x), y.shape)
        if y.dtype.hasobject:
            self._all("objects", y.ravel().tolist())
        else:
            self.hash.update(np.ascontiguousarray(y).reshape(-1).view(np.uint8).data)

    def _named(self, x: Any) -> None:
        home = getattr(x, "__module__", None) or getattr(x, "__objclass__", type(x)).__module__
        owner = getattr(x, "__self__", None)
        self._put("name", home, getattr(x, "__qualname__", None) or x.__name__, _version(home))
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.visit(owner)

    def _function(self, f: types.FunctionType) -> None:
        if reach.is_installed(f):
            self._named(f)
            for cell in f.__closure__ or ():  # what a decorator holds
                self._cell(cell)
            return
        self._put("function")
        self._code(f.__code__)
        self.visit(f.__defaults__)
        self.visit(f.__kwdefaults__)
        for cell in f.__closure__ or ():
            self._cell(cell)
        for name in sorted(reach.names(f.__code__).names):
            if name in f.__globals__:
                self._put("global", name)
                self.visit(f.__globals__[name])

    def _cell(self, cell: Any) -> None:
        try:
            self.visit(cell.cell_contents)
        except ValueError:
            self._put("empty")

    def _code(self, code: types.CodeType) -> None:
        self._put("code", code.co_code, code.co_names, code.co_varnames, code.co_argcount)
        self._put(code.co_kwonlyargcount, code.co_flags, code.co_freevars)
        self._all("consts", code.co_consts)

    def _class(self, cls: type) -> None:
        self._put("class", cls.__module__, cls.__qualname__, _version(cls.__module__))
        if not reach.is_installed(cls):
            self._all("bases", cls.__bases__)
            for name, value in sorted(vars(cls).items()):
                if isinstance(value, _METHODS) or not name.startswith("__"):
                    self._put(name)
                    self.visit(value)

    def _object(self, x: Any) -> None:
        cls = type(x)
        try:
            found = x.__reduce_ex__(4)
        except Exception as error:
            raise UnsupportedError(
                f"it reaches {cls.__module__}.{cls.__qualname__}, which has no contents that "
                f"can be compared ({error})"
            ) from None
        if isinstance(found, str):
            self._put("name", cls.__module__, found)
            return
        made, given, *state = found
        self._all("reduced", (made, given, *(state[:1])))
        for more in state[1:]:
            if more is not None:
                self._all("items", more)


_COMPILED = (
    np.ufunc,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_METHODS = (types.FunctionType, staticmethod, classmethod, property)


@functools.lru_cache(maxsize=256)
def _version(module: str) -> str:
    """The version of an installed package; "" for Python's own, and for what is not installed."""
    import importlib.metadata  # slow, and seldom needed

    try:
        return importlib.metadata.version(module.partition(".")[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ""
