"""What tracers do when they are used, for the recorder to hand to them.

A tracer is made of what these modules do, and they are made of tracers. So that imports go one
way, `tracer.py` imports none of them: it asks the recorder, which is given this module.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from . import native, scalars
from .arrays import as_array
from .attributes import attribute
from .elements import Elements as elements
from .functions import function_call
from .indexing import getitem, setitem
from .proxies import Different
from .python_builtins import plain, rounded, whole
from .sandbox import namespace_of
from .ufuncs import in_place, power, ufunc_call

_LATE = frozenset(["complex_numbers", "estimators", "tensors", "torch_objects"])
"""What few functions need: loaded when the first does."""


def __getattr__(name: str) -> ModuleType:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = importlib.import_module(f".{name}", __package__)
    return found


__all__ = [
    "Different",
    "as_array",
    "attribute",
    "elements",
    "function_call",
    "getitem",
    "in_place",
    "namespace_of",
    "native",
    "plain",
    "power",
    "rounded",
    "scalars",
    "setitem",
    "ufunc_call",
    "whole",
]
