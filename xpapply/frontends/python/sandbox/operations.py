"""Operations of tracers, for the recorder to call.

A tracer is made of what these modules do, and they are made of tracers. So that imports go one
way, `tracer.py` imports none of them: it asks the recorder, which is given this module.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from ..trace import native, scalars
from ..trace.arrays import Elements as elements
from ..trace.arrays import as_array
from ..trace.attributes import attribute
from ..trace.functions import function_call
from ..trace.indexing import getitem, setitem
from ..trace.python_builtins import plain, rounded, whole
from ..trace.ufuncs import in_place, of_complex, power, size, ufunc_call
from .proxies import Different
from .sandbox import namespace_of

_LATE = {
    "complex_numbers": "trace",
    "estimators": "sandbox",
    "python_numbers": "trace",
    "tensors": "trace",
    "torch_objects": "sandbox",
}
"""Modules that few functions need, by folder: loaded on first use."""


def __getattr__(name: str) -> ModuleType:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = importlib.import_module(f"..{_LATE[name]}.{name}", __package__)
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
    "of_complex",
    "plain",
    "power",
    "rounded",
    "scalars",
    "setitem",
    "size",
    "ufunc_call",
    "whole",
]
