"""`numpy.poly1d` in ``f``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..trace.functions import function_call
from ..trace.recorder import Recorder
from ..trace.stand_ins import tracers, values

_COEFFICIENTS = frozenset(("c", "coef", "coeffs", "coefficients"))


class Polynomial:
    """The substitute of a `numpy.poly1d`: values, roots, derivatives and integrals."""

    __slots__ = ("_coefficients", "_constant", "_recorder")

    def __init__(
        self, recorder: Recorder, constant: Callable[[Any], Any], coefficients: Any
    ) -> None:
        self._recorder, self._constant = recorder, constant
        self._coefficients = coefficients

    def __call__(self, x: Any) -> Any:
        return self._of(np.polyval, self._coefficients, x)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _COEFFICIENTS:
            return self._stripped()
        if name in ("o", "order"):
            return len(self._stripped()) - 1
        if name in ("r", "roots"):
            return self._of(np.roots, self._stripped())
        if name == "deriv":
            return lambda m=1: self._made(np.polyder, m)
        if name == "integ":
            return lambda m=1, k=0: self._made(np.polyint, m, k)
        raise self._recorder.refuse(f"numpy.poly1d.{name}")

    def _refuse(self, *args: Any) -> Any:
        raise self._recorder.refuse("arithmetic of numpy.poly1d")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __pow__ = _refuse
    __getitem__ = __setitem__ = __len__ = __iter__ = __neg__ = __eq__ = __ne__ = _refuse
    __array__ = __str__ = __repr__ = __hash__ = __bool__ = _refuse  # type: ignore[assignment]

    def _stripped(self) -> Any:
        """The coefficients without leading zeros: slices part by how many there are."""
        c = self._coefficients
        if isinstance(c, (list, tuple)):
            c = self._of(np.array, c) if any(True for _ in tracers(c)) else np.atleast_1d(c)
        if len(c) == 0:
            return np.zeros(1, np.asarray(values(c)).dtype)
        while len(c) > 1 and not bool(c[0] != 0):
            c = c[1:]
        return c

    def _made(self, function: Any, *args: Any) -> Polynomial:
        found = self._of(function, self._stripped(), *args)
        return Polynomial(self._recorder, self._constant, found)

    def _of(self, function: Any, *args: Any) -> Any:
        if any(True for _ in tracers(args)):
            return function_call(self._recorder, function, args, {})
        return self._constant(function(*args))
