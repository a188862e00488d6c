"""Places of functions, where replacements are put, and restored."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

_dict_of: Callable[[ModuleType], dict[str, Any]] = vars(ModuleType)["__dict__"].__get__
"""The names of a module, without asking what a class of its own might do then."""


def namespaces() -> Iterator[dict[str, Any]]:
    """The names of all modules that are loaded, but for those of xpapply."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name.partition(".")[0] != "xpapply":
            yield _dict_of(module)


def put(instead: dict[int, tuple[Any, Any]]) -> None:
    """Put objects in the places of others, in all modules.

    Parameters
    ----------
    instead : dict
        By the identity of an object this object, and what stands in its places.
    """
    wanted = frozenset(instead)
    for names in namespaces():
        # there may be a million names: nothing of Python's runs for each
        if wanted.isdisjoint(map(id, list(names.values()))):
            continue
        for name, x in list(names.items()):
            if (found := instead.get(id(x))) is not None and found[0] is x:
                names[name] = found[1]


# --- a module that is loaded later --------------------------------------------------------------


class WhenLoaded(importlib.abc.MetaPathFinder):
    """Call a function when a module has been loaded, by ``import`` as ever.

    Parameters
    ----------
    name : str
        The module.
    then : callable
        What is called, without arguments.
    """

    def __init__(self, name: str, then: Callable[[], object]) -> None:
        self._name, self._then = name, then

    def start(self) -> None:
        """Wait for it."""
        sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Wait no longer."""
        sys.meta_path[:] = [x for x in sys.meta_path if x is not self]

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module as the other finders find it, with a word when it has been loaded."""
        if name != self._name:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            found = None if finder is self or find is None else find(name, path, target)
            if found is None:
                continue
            if hasattr(found.loader, "exec_module"):
                found.loader.exec_module = functools.partial(self._load, found.loader.exec_module)
            return found  # type: ignore[no-any-return]
        return None

    def _load(self, own: Callable[[ModuleType], object], module: ModuleType) -> None:
        own(module)
        self._then()
