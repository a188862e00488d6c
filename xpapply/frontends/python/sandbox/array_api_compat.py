"""Functions of array-api-compat: what asks for the library of an array, and what wraps its own."""

from __future__ import annotations

import importlib
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from ....batching import find
from ..trace.stand_ins import values
from .proxies import Forbidden, Function, real_arguments

if TYPE_CHECKING:
    from .stage import Stage

_HELPERS = "array_api_compat.common._helpers"
_ASKING = ("array_namespace", "device", "_unique_kwargs")
"""Functions, besides those whose names begin with ``is_``, that ask for the library of an array."""
_SAME = ("asarray", "ceil", "floor", "trunc")
"""Functions that differ from NumPy's own only in old versions."""


def takes(x: types.FunctionType) -> bool:
    """Whether a function belongs to it, to a vendored copy, or to SciPy's equivalent."""
    if x.__module__.startswith("scipy._lib._array_api"):
        return x.__name__ == "array_namespace"
    return "array_api_compat" in x.__module__.split(".")


def function(stage: Stage, x: types.FunctionType, name: str) -> Any:
    """The substitute of one of its functions."""
    helper = x.__module__.endswith(_HELPERS)
    if x.__name__ in _ASKING or (helper and x.__name__.startswith("is_")):
        if stage.recorder.library == "cupy":  # whose slices are traced on the host
            if x.__name__ == "array_namespace":
                return lambda *_, **__: stage.substitute(_of_cupy())
            return Forbidden(stage, x, name)
        return lambda *a, **k: stage.substitute(x(*_real(a), **_real(k)))
    if helper and x.__name__ == "_check_device":  # of arrays that are made

        def check(namespace: Any, device: Any) -> None:
            if device is not None and device != "cpu":
                raise stage.recorder.refuse(f"device={device!r}")

        return check
    if stage.recorder.library == "torch" and not helper:
        return Function(stage, x, name)
    if x.__name__ == "astype" and x.__module__.endswith("array_api_compat.cupy._aliases"):
        # its code compares arrays by `is`, only to look for copies between devices
        x = importlib.import_module("array_api_compat.numpy").astype
    if x.__name__ in _SAME and x.__module__.endswith("array_api_compat.numpy._aliases"):
        return stage.substitute(getattr(np, x.__name__))
    return Function(stage, x, name) if find(x) is not None else stage.function(x)


def _of_cupy() -> Any:
    return importlib.import_module("array_api_compat.cupy")


def _real(x: Any) -> Any:
    """Arrays and modules in the place of what stands for them."""
    if isinstance(x, tuple):
        return tuple(map(_real, x))
    if isinstance(x, dict):
        return {k: _real(v) for k, v in x.items()}
    return values(real_arguments(x))
