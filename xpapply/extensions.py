"""Finding the module that serves a package: one of ours by its file name, else an entry point."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
from types import ModuleType


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
    path = f"{__package__}.{kind}.{name}"
    if name.isidentifier() and importlib.util.find_spec(path) is not None:
        return importlib.import_module(path)
    for entry in importlib.metadata.entry_points(group=f"xpapply.{kind}", name=name):
        module: ModuleType = entry.load()
        return module
    return None
