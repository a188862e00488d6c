"""What tracers do when they are used, for the recorder to hand to them.

A tracer is made of what these modules do, and they are made of tracers. So that imports go one
way, `tracer.py` imports none of them: it asks the recorder, which is given this module.
"""

from __future__ import annotations

from . import complex_numbers, estimators, native, scalars, tensors, torch_objects
from .arrays import as_array
from .attributes import attribute
from .elements import Elements as elements
from .functions import function_call
from .indexing import getitem, setitem
from .proxies import Different
from .python_builtins import plain, rounded, whole
from .sandbox import namespace_of
from .ufuncs import in_place, power, ufunc_call

__all__ = [
    "Different",
    "as_array",
    "attribute",
    "complex_numbers",
    "elements",
    "estimators",
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
    "tensors",
    "torch_objects",
    "ufunc_call",
    "whole",
]
