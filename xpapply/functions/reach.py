"""Reachability: objects outside a function, one that is not traced, that its code reaches.

The names in the code of a function lead to its globals, closures and defaults, from there to
helpers, modules, objects and classes, and on to what these functions name. All of it is guarded.
Installed packages are followed one step: the globals that their code names, and no further.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..limits import LIMITS
from .guards import Guards
from .purity import OURS, of_library
from .snapshots import CONTAINERS, MISSING, elements, home_of, lives_on

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


Own = Callable[[Any], list[Any] | None]


def reach(guards: Guards, starts: list[Any], own: Own) -> None:
    """Guard everything that functions and objects can reach.

    Parameters
    ----------
    guards : Guards
        Where it is noted.
    starts : list
        Functions, and objects whose methods run.
    own : callable
        For an object that the caller looks at itself, what to follow of it; None for all others.
    """
    found = _Reach(guards, own)
    for x in starts:
        found.visit(x)
    found.follow()


class _Reach:
    def __init__(self, guards: Guards, own: Own) -> None:
        self._guards, self._own = guards, own
        self._seen: dict[int, Any] = {}
        self._names: set[str] = {"forward"}
        """Attributes that some code asks for."""
        self._holders: list[Any] = []
        """Modules, objects and classes whose attributes are looked up."""
        self._asked: set[tuple[int, str]] = set()

    def follow(self) -> None:
        """Look up all names in all holders until nothing new is found."""
        before = None
        while before != (len(self._names), len(self._holders)):
            before = len(self._names), len(self._holders)
            for holder in list(self._holders):
                for name in list(self._names):
                    if (id(holder), name) not in self._asked:
                        self._asked.add((id(holder), name))
                        self._ask(holder, name)
                if len(self._seen) > LIMITS.reached:
                    self._guards.add(lambda: False)
                    return

    def _ask(self, holder: Any, name: str) -> None:
        if name in vars(holder):
            self.visit(self._guards.look(holder, "entry", name))

    def visit(self, x: Any) -> None:
        """Look at a value, and at what it leads to."""
        if isinstance(x, _PLAIN) or x is MISSING or id(x) in self._seen:
            return
        if len(self._seen) > LIMITS.reached:
            return
        self._seen[id(x)] = x
        more = self._own(x)
        if more is not None:
            for y in more:
                self.visit(y)
        elif isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self.visit(x.__func__)
            self.visit(x.__self__)
        elif isinstance(x, (staticmethod, classmethod)):
            self.visit(x.__func__)
        elif isinstance(x, property):
            self.visit(x.fget)
        elif isinstance(x, functools.partial):
            for part in ("func", "args", "keywords"):
                self.visit(self._guards.look(x, "attribute", part))
        elif isinstance(x, np.ndarray):
            self._guards.array(x)
        elif isinstance(x, CONTAINERS) and len(x) <= LIMITS.compared_elements:
            for e in elements(x):
                self.visit(e)
        elif isinstance(x, types.ModuleType):
            self._holders.append(x)
        elif isinstance(x, type):
            self._class(x)
        else:
            self._object(x)

    def _function(self, f: types.FunctionType) -> None:
        if f.__closure__ and _is_own(f):  # the cells and globals of our wrappers are never set
            self._in_cells(f)
            return
        code_names = names(f.__code__)
        if is_installed(f):
            self._step(f, code_names)
            self._in_cells(f)  # what a decorator holds
            return
        self._guards.function(f)
        for given in (f.__defaults__, f.__kwdefaults__):
            self.visit(given)
        for k in range(len(f.__closure__ or ())):
            self.visit(self._guards.look(f, "cell", k))
        self._global_names(f, code_names, self.visit)
        self._names |= code_names.attributes
        if vars(f):
            self._holders.append(f)

    def _in_cells(self, f: types.FunctionType) -> None:
        """Visit what of the user's a function of a package holds, or one that it holds."""
        self._seen[id(f)] = f
        for k, cell in enumerate(f.__closure__ or ()):
            inner = _content(cell) if _is_own(f) else self._guards.look(f, "cell", k)
            called = inner
            while isinstance(called, (functools.partial, types.MethodType)):
                called = called.func if isinstance(called, functools.partial) else called.__func__
            code = called if isinstance(called, (types.FunctionType, type)) else type(called)
            if callable(called) and not is_installed(code):
                self.visit(inner)
            elif isinstance(called, types.FunctionType) and id(called) not in self._seen:
                self._in_cells(called)

    def _global_names(
        self, f: types.FunctionType, code_names: _Names, visit: Callable[[Any], None]
    ) -> None:
        for name in code_names.names:
            value = self._guards.look(f, "global", name)
            visit(self._guards.look(builtins, "entry", name) if value is MISSING else value)
        for name in code_names.modules:
            visit(sys.modules.get(name))

    def _step(self, f: types.FunctionType, code_names: _Names) -> None:
        """Look at what a function of an installed package names, and no further."""

        def members(x: Any) -> None:
            if isinstance(x, types.ModuleType):
                for name in code_names.attributes & vars(x).keys():
                    if not isinstance(vars(x)[name], types.ModuleType):
                        self._guards.look(x, "entry", name)

        if lives_on(f):  # their globals are set by their modules alone
            for name in code_names.names:
                members(f.__globals__.get(name))
        else:
            self._global_names(f, code_names, members)

    def _class(self, cls: type) -> None:
        if lives_on(cls):
            return
        self._guards.bases(cls)
        for c in cls.__mro__:
            if lives_on(c):
                continue
            self._guards.names(c)
            self._holders.append(c)
            if not is_installed(c):
                special = (n for n in vars(c) if n.startswith("__") and n not in _NOT_SPECIAL)
                for name in special:
                    self.visit(self._guards.look(c, "entry", name))

    def _object(self, x: Any) -> None:
        if lives_on(x):
            return
        if isinstance(x, functools._lru_cache_wrapper):
            self.visit(x.__wrapped__)
        if not hasattr(x, "__dict__"):
            return
        self._guards.kind(x)
        self._guards.names(x)
        self._class(type(x))
        self._holders.append(x)


_NOT_SPECIAL = frozenset(("__init__", "__new__", "__repr__", "__str__", "__init_subclass__"))
_NOT_SPECIAL |= {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__"}


class _Names:
    """The names in the code of a function."""

    def __init__(self, code: types.CodeType) -> None:
        self.names: set[str] = set()
        """Globals or builtins."""
        self.attributes: set[str] = set()
        self.modules: set[str] = set()
        self._add(code)

    def _add(self, code: types.CodeType) -> None:
        for step in dis.get_instructions(code):
            if step.opname in _GLOBALS:
                self.names.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                self.modules.add(step.argval)
        for x in code.co_consts:
            if isinstance(x, types.CodeType):
                self._add(x)
            elif isinstance(x, str) and x.isidentifier():
                self.attributes.add(x)  # for getattr
        self.attributes |= set(code.co_names)


_GLOBALS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
_known: weakref.WeakKeyDictionary[types.CodeType, _Names] = weakref.WeakKeyDictionary()


def names(code: types.CodeType) -> _Names:
    """The names in code, those in functions that it defines included."""
    found = _known.get(code)
    if found is None:
        found = _known[code] = _Names(code)
    return found


def _is_own(f: types.FunctionType) -> bool:
    """Whether a function belongs to xpapply."""
    return f.__code__.co_filename.startswith(OURS)


def _content(cell: types.CellType) -> Any:
    """The content of a cell; MISSING if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def is_installed(x: Any) -> bool:
    """Whether a function or class belongs to Python or an installed package."""
    code = getattr(x, "__code__", None)
    if isinstance(code, types.CodeType):
        file = code.co_filename
    else:
        if home_of(x) in _PYTHON or (not isinstance(x, type) and x.__module__ is None):
            return True
        # no file: a class of a notebook, or of code that was given as text
        file = getattr(sys.modules.get(x.__module__), "__file__", None) or ""
    return of_library(file)


_PYTHON = sys.stdlib_module_names | {"builtins"}
