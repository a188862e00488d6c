"""Finding the module that serves a package: one of ours by its file name, else an entry point."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import time
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import BuiltinMethodType, MethodType, ModuleType
from typing import Any

from ..limits import LIMITS

_PACKAGE = __package__.partition(".")[0]


@functools.cache
def find(kind: str, name: str) -> ModuleType | None:
    """The module for the root package `name`, or None.

    Parameters
    ----------
    kind : {"frontends", "backends"}
        The folder here, and the entry point group ``xpapply.<kind>`` elsewhere.
    name : str
        A root package ("torch", "cupy" ...), which is also the name of the file.
    """
    started, before = time.thread_time(), seconds()
    try:
        return _found(kind, name)
    finally:
        _here.seconds = before + time.thread_time() - started  # with those that it loads itself


def seconds() -> float:
    """CPU seconds that modules took this thread to load: of no function that is looked at."""
    return getattr(_here, "seconds", 0.0)


_here = threading.local()


def _found(kind: str, name: str) -> ModuleType | None:
    from importlib.util import find_spec

    path = f"{_PACKAGE}.{kind}.{name}"
    if name.isidentifier() and find_spec(path) is not None:
        return importlib.import_module(path)
    for entry in _entry_points(kind):
        if entry.name == name:
            module: ModuleType = entry.load()
            return module
    return None


def loading(kind: str, name: str) -> float:
    """CPU seconds that `find` takes: modules are loaded once."""
    return 0.0 if f"{_PACKAGE}.{kind}.{name}" in sys.modules else LIMITS.module_loading


_NO_WING = frozenset(["choice"])
"""Files among them that serve no library."""


@functools.cache
def names(kind: str) -> tuple[str, ...]:
    """The root packages that are served, here and by entry points, installed or not."""
    import pkgutil

    here = pkgutil.iter_modules(importlib.import_module(f"{_PACKAGE}.{kind}").__path__)
    found = [module.name for module in here if module.name not in _NO_WING]
    return tuple(dict.fromkeys([*found, *(entry.name for entry in _entry_points(kind))]))


@functools.cache
def _entry_points(kind: str) -> tuple[Any, ...]:
    """All of the group: to read those of what is installed takes 20 ms, whatever the name."""
    group = f"{_PACKAGE}.{kind}"
    if not _may_have(group.encode()):
        return ()
    # its import takes longer than that of half of xpapply, and most calls never come here
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _may_have(group: bytes) -> bool:
    """Whether installed packages may have entry points of a group, by the bytes of their files."""
    finders = (x for x in sys.meta_path if hasattr(x, "find_distributions"))
    if any(x is not PathFinder for x in finders):
        return True
    for place in sys.path:
        try:
            names = os.listdir(place or os.curdir)
        except FileNotFoundError:
            continue
        except OSError:  # an archive, which may have some
            return True
        for name in names:
            if not name.endswith(_ABOUT):
                continue
            if name.endswith(".egg"):
                return True
            with suppress(FileNotFoundError, NotADirectoryError):
                if group in Path(place, name, "entry_points.txt").read_bytes():
                    return True
    return False


_ABOUT = (".dist-info", ".egg-info", ".egg")
"""Endings of folders with metadata of packages."""


GENERATOR, LEGACY, PYTHONS = "generator", "legacy", "python's"
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def generator_kind(x: Any) -> str:
    """The kind of a random generator; "": none that is known.

    `GENERATOR`: a `numpy.random.Generator`; `LEGACY`: a `RandomState`; `PYTHONS`: Python's.
    """
    module = sys.modules.get("numpy.random")
    if module is not None:
        for kind, cls, name in (
            (GENERATOR, module.Generator, "bit_generator"),
            (LEGACY, module.RandomState, "_bit_generator"),
        ):
            if type(x) is cls:
                own = type(getattr(x, name))
                return kind if own in [getattr(module, n) for n in _BIT_GENERATORS] else ""
    module = sys.modules.get("random")
    return PYTHONS if module is not None and type(x) is module.Random else ""


def method_kind(x: Any) -> str:
    """The kind of a method's generator. Other objects are not asked, as they may run code."""
    return generator_kind(x.__self__) if type(x) in (MethodType, BuiltinMethodType) else ""


def of_generator(x: Any) -> Any:
    """The class that generators share which can replace each other; None: no generator."""
    return type(x.bit_generator) if generator_kind(x) == GENERATOR else None
