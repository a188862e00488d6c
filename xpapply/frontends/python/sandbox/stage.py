"""The stage: the interface of the sandbox for its substitutes. `sandbox.py` implements it."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from ....functions.guards import Guards
from ..trace.recorder import Recorder
from . import ambient
from .scratch import Writes


class Stage:
    """Substitutes for one run of ``f``."""

    calls: Any
    """Calls of library functions: `LibraryCalls`."""

    def __init__(self, recorder: Recorder, watch: Guards) -> None:
        self.recorder, self.watch = recorder, watch
        self._made: dict[int, tuple[Any, Any]] = {}
        self.catches = self.keeps = False
        self._frozen: list[tuple[Any, list[Any], str]] = []
        self.writes = Writes(recorder)
        self._stores: dict[str, str] = {}
        """The attributes that the code sets, and where."""
        self._attributes: list[tuple[Any, dict[str, Any], str]] = []
        """Functions and modules whose attributes cannot be watched while they are set."""
        self.checks: list[Callable[[], bool]] = []
        """Checks that constants of other libraries have not been written to."""

    def check(self) -> None:
        """Refuse if something was written into a container that ``f`` did not make."""
        for made, was, name in self._frozen:
            now = elements_of(made)
            if len(now) != len(was) or any(a is not b for a, b in zip(now, was, strict=True)):
                raise self.recorder.refuse(f"it changes {name}, which it did not make")
        for made, before, name in self._attributes:
            for key in self._stores:
                if vars(made).get(key) is not before.get(key):
                    vars(made).pop(key) if key not in before else setattr(made, key, before[key])
                    line = self._stores[key]
                    raise self.recorder.refuse(f"it sets the attribute {key} of {name} ({line})")
        if not all(check() for check in self.checks):
            raise self.recorder.refuse("it changes a tensor that it did not make")

    def prints(self) -> None:
        """A text is made of an array of constants."""
        ambient.watch_printing(self.watch)

    def of_constants(self, function: Any) -> Any:
        """A context that refuses what warns of constants alone."""
        return ambient.of_constants(self.recorder, function)

    def names_class(self, cls: type) -> None:
        """Note that `f` sees a class, whose name it may read."""
        ambient.watch_name(self.watch, cls)

    def substitute(self, x: Any, name: str = "") -> Any:
        """The substitute of `x`."""
        raise NotImplementedError

    def function(self, x: types.FunctionType) -> Callable[..., Any]:
        """A function with substituted globals, closure and defaults."""
        raise NotImplementedError

    def member(self, module: types.ModuleType, name: str) -> Any:
        """An attribute of a module."""
        raise NotImplementedError

    # attributes of instances ----------------------------------------------------------------

    def attribute(self, x: Any, owner: Any, name: str) -> Any:
        """An attribute of an instance."""
        written, item = self.writes.read(x, name)
        if written:
            return item
        self.watch.look(x, "entry", name)  # also if it is not there: it may come
        self.watch.attribute_of_class(type(x), name)
        first = next((vars(c)[name] for c in type(x).__mro__ if name in vars(c)), None)
        if name in vars(x) and not hasattr(type(first), "__set__"):
            return self.substitute(vars(x)[name], f"{type(x).__name__}.{name}")
        for cls in type(x).__mro__:
            if name in vars(cls):
                found = vars(cls)[name]
                if isinstance(found, types.FunctionType):
                    return types.MethodType(self.substitute(found), owner)
                if isinstance(found, staticmethod):
                    return self.substitute(found.__func__)
                if isinstance(found, property) and found.fget is not None:
                    return self.substitute(found.fget)(owner)
                if isinstance(found, classmethod) or hasattr(type(found), "__get__"):
                    raise self.recorder.refuse(f"the attribute {name} of {type(x).__name__}")
                return self.substitute(found, name)
        raise AttributeError(f"{type(x).__name__!r} object has no attribute {name!r}")

    def set_attribute(self, x: Any, name: str, item: Any) -> None:
        """Set an attribute of an instance."""
        self.writes.write(x, name, item)
        for one in (name, "__setattr__"):  # no class may get a property of this name
            self.watch.attribute_of_class(type(x), one)

    def special(self, x: Any, owner: Any, name: str) -> Callable[..., Any]:
        """A special method of an instance."""
        self.watch.attribute_of_class(type(x), name)
        found = next((vars(cls)[name] for cls in type(x).__mro__ if name in vars(cls)), None)
        if isinstance(found, types.FunctionType):
            return functools.partial(self.substitute(found), owner)
        if name == "__bool__" and found is None:
            self.watch.attribute_of_class(type(x), "__len__")
            if hasattr(type(x), "__len__"):
                return lambda: bool(self.special(x, owner, "__len__")())
            return lambda: True
        raise self.recorder.refuse(f"{type(x).__name__} has no {name} written in Python")


def elements_of(x: Any) -> list[Any]:
    """The elements of a list, dict or set."""
    return [e for pair in x.items() for e in pair] if isinstance(x, dict) else list(x)
