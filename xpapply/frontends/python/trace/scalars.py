"""Python's functions of numbers on traced numbers: `math`, `cmath`, `statistics`, `complex`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching.scalars import EACH, LARGEST
from ....errors import TraceError
from .recorder import Recorder
from .stand_ins import tracers, values
from .tracer import Tracer

MODULES = frozenset(("math", "cmath", "statistics", "bisect"))
"""Modules whose functions of numbers are called for one slice after the other."""

_WRITE = frozenset(("insort", "insort_left", "insort_right"))


def call(recorder: Recorder, function: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
    """`function` of numbers, lists of numbers or arrays, which returns numbers."""
    found = [t for t in tracers((args, kwargs)) if t.ref is not None]
    name = getattr(function, "__name__", "a Python function")
    if any(not isinstance(t, Tracer) for t in found):
        raise recorder.refuse(f"{name} of a tensor")
    real = recorder.real(lambda: function(*values(args), **values(kwargs)))
    if not found:
        return real
    kinds = _kinds(real)
    if kinds is None:
        raise recorder.refuse(f"{name} returns {type(real).__name__}")
    if any(isinstance(x, int) and abs(x) > LARGEST for x in _flat(real)):
        recorder.raised(OverflowError("a large Python integer"))
        raise TraceError("a large Python integer")
    plain = tuple(t.weak for t in found)
    batch = (function, args, kwargs, plain, kinds)
    return recorder.call(EACH, lambda *a, **k: real, args, kwargs, batch=(batch, {}), check=False)


def _kinds(real: Any) -> Any:
    """The classes of the numbers in a result; None if it is anything else."""
    if type(real) is tuple and real:
        parts = tuple(map(_kinds, real))
        return None if None in parts else parts
    known = type(real) in (bool, int, float, complex)
    return type(real) if known or isinstance(real, (np.number, np.bool_)) else None


def _flat(real: Any) -> list[Any]:
    return [y for x in real for y in _flat(x)] if isinstance(real, tuple) else [real]


def function(recorder: Recorder, python: Any, name: str) -> Any:
    """A member of one of `MODULES`."""
    if not callable(python) or isinstance(python, type) or name in _WRITE:
        return python

    def called(*args: Any, **kwargs: Any) -> Any:
        callback = any(callable(x) for x in (*args, *kwargs.values()) if not isinstance(x, Tracer))
        if callback or not any(True for _ in tracers((args, kwargs))):
            return python(*args, **kwargs)
        return call(recorder, python, args, kwargs)

    return called


def attribute(x: Tracer, name: str) -> Any:
    """``x.name`` of a Python number."""
    real = getattr(x.value, name)  # an AttributeError is the user's
    if not callable(real):
        return call(x.recorder, _getter(name), (x,), {})
    return lambda *args, **kwargs: call(
        x.recorder, getattr(type(x.value), name), (x, *args), kwargs
    )


@functools.cache
def _getter(name: str) -> Callable[[Any], Any]:
    return operator.attrgetter(name)
