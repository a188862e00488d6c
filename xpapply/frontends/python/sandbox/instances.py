"""Interpolators and splines that ``f`` makes out of the slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching.instances import METHODS, call_row, is_single, make_row, maker, writeable
from ..trace.recorder import Recorder
from ..trace.stand_ins import Traced, tracers, values


class Instance(Traced):
    """An object of a library that depends on the slice."""

    __slots__ = ("_name", "recorder", "ref", "value")

    def __init__(self, recorder: Recorder, value: Any, ref: Any, name: str) -> None:
        self.recorder, self.value, self.ref, self._name = recorder, value, ref, name

    def as_numpy(self) -> Any:
        raise self.recorder.refuse(f"an array is made of a {self._name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._called("__call__", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        real = getattr(self.value, name)  # an AttributeError is the user's
        if callable(real) and name not in METHODS:
            raise self.recorder.refuse(f"{self._name}.{name}")
        if not callable(real):
            return self._found(name, real, False, (), {})
        return lambda *args, **kwargs: self._called(name, args, kwargs)

    def _called(self, name: str, args: tuple, kwargs: dict) -> Any:
        method: Callable[..., Any] = getattr(self.value, name)
        if any(isinstance(t, Instance) for t in tracers((args, kwargs))):
            raise self.recorder.refuse(f"{self._name} of another one")
        at, named = writeable((values(args), values(kwargs)))
        real = self.recorder.real(lambda: method(*at, **named))
        return self._found(name, real, True, args, kwargs)

    def _found(self, name: str, real: Any, method: bool, args: tuple, kwargs: dict) -> Any:
        known = isinstance(real, (np.ndarray, np.generic, float, int))
        made = type(real).__module__.startswith("scipy.interpolate")
        if not known and not made:
            raise self.recorder.refuse(f"{self._name}.{name} of type {type(real).__name__}")
        if known:
            real = np.asarray(real)[()] if np.ndim(real) == 0 else real
        given = (self, name, method, not known, args, kwargs)
        row = call_row("values" if name == "__call__" else name)
        if known:
            return self.recorder.call(row, lambda *a, **k: real, given, check=False)
        return Instance(self.recorder, real, self.recorder.record(row, real, given), self._name)


def make(recorder: Recorder, function: Any, args: tuple, kwargs: dict) -> Any:
    """An object made of a slice; NotImplemented if it is none of these."""
    name = maker(function)
    if name is None or recorder.library != "numpy":
        return NotImplemented
    given, named = writeable((values(args), values(kwargs)))
    real = recorder.real(lambda: function(*given, **named))
    if not _depends((args, kwargs)):
        return real
    single = is_single(function, args, kwargs, _depends)
    ref = recorder.record(make_row(name, single), real, (function, args, kwargs))
    return Instance(recorder, real, ref, name)


def _depends(tree: Any) -> list[Any]:
    return [t for t in tracers(tree) if t.ref is not None]
