"""`numpy.poly1d`, and series such as `numpy.polynomial.Polynomial`, in ``f``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial import polyutils

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


def _depends(tree: Any) -> bool:
    """Whether something in arguments depends on the slice."""
    return any(x.ref is not None for x in tracers(tree))


def is_series(kind: Any) -> bool:
    """Whether a class is one of `numpy.polynomial`'s own series."""
    return kind in _SERIES


_SERIES = frozenset(
    getattr(np.polynomial, name)
    for name in ("Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre")
)


class _Calls:
    """Calls of functions, which are written down if something in them depends on the slice."""

    __slots__ = ("_constant", "_recorder")

    def __init__(self, recorder: Recorder, constant: Callable[[Any], Any]) -> None:
        self._recorder, self._constant = recorder, constant

    def _of(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        if _depends((args, kwargs)):
            return function_call(self._recorder, function, args, kwargs)
        return self._constant(function(*values(args), **values(kwargs)))


class SeriesClass(_Calls):
    """The substitute of a class of series: what it makes, and its fits."""

    __slots__ = ("_kind",)

    def __init__(self, recorder: Recorder, constant: Callable[[Any], Any], kind: Any) -> None:
        super().__init__(recorder, constant)
        self._kind = kind

    def __call__(self, coef: Any, domain: Any = None, window: Any = None, symbol: str = "x") -> Any:
        self._are_known(domain, window, symbol)
        if _depends(coef):
            if isinstance(coef, (list, tuple)):
                coef = function_call(self._recorder, np.array, (coef,), {})
            if np.dtype(coef.dtype) != np.float64 or coef.ndim != 1:
                raise self._recorder.refuse(f"{self._kind.__name__} of other than float64 numbers")
            like = self._kind([0.0] * len(coef), values(domain), values(window), symbol)
        else:
            like = self._kind(values(coef), values(domain), values(window), symbol)
            coef = self._constant(like.coef)
        return Series(self._recorder, self._constant, like, coef)

    def fit(
        self, x: Any, y: Any, deg: Any, domain: Any = None, rcond: Any = None, full: bool = False,
        w: Any = None, window: Any = None, symbol: str = "x",
    ) -> Any:  # fmt: skip
        """A series that is a fit of least squares."""
        self._are_known(x, deg, domain, rcond, window, symbol)
        if values(full):
            raise self._recorder.refuse(f"{self._kind.__name__}.fit with full")
        x = values(x)
        like = self._kind.fit(  # which has the domain
            x, np.zeros(len(x)), 0, values(domain), window=values(window), symbol=symbol
        )
        places = polyutils.mapdomain(x, like.domain, like.window)
        kwargs = {k: v for k, v in (("rcond", rcond), ("w", w)) if v is not None}
        coef = self._of(self._kind._fit, places, y, values(deg), **kwargs)
        return Series(self._recorder, self._constant, like, coef)

    def __getattr__(self, name: str) -> Any:
        if name in ("domain", "window", "basis_name"):
            return self._constant(getattr(self._kind, name))
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._recorder.refuse(f"numpy.polynomial.{self._kind.__name__}.{name}")

    def _are_known(self, *given: Any) -> None:
        if _depends(given):
            raise self._recorder.refuse(
                f"places, degree or domain of {self._kind.__name__} that depend on the slice"
            )


class Series(_Calls):
    """The substitute of a series of `numpy.polynomial`: values, coefficients, derivatives.

    Parameters
    ----------
    like : numpy.polynomial.Polynomial
        A real one with its domain and window, or one of the other series.
    coef : array
        The coefficients, which may depend on the slice.
    """

    __slots__ = ("_like", "coef")

    def __init__(
        self, recorder: Recorder, constant: Callable[[Any], Any], like: Any, coef: Any
    ) -> None:
        super().__init__(recorder, constant)
        self._like, self.coef = like, coef

    def __call__(self, arg: Any) -> Any:
        off, scale = self._like.mapparms()
        if isinstance(arg, (list, tuple)):
            arg = self._of(np.asanyarray, arg)
        if _depends(arg):
            arg = self._of(np.add, off, self._of(np.multiply, scale, arg))
        else:
            arg = polyutils.mapdomain(values(arg), self._like.domain, self._like.window)
        return self._of(self._like._val, arg, self.coef)

    def deriv(self, m: int = 1) -> Series:
        """The derivative."""
        _, scale = self._like.mapparms()
        return self._made(self._of(self._like._der, self.coef, m, scale))

    def integ(self, m: int = 1) -> Series:
        """The integral from 0 of the window."""
        _, scale = self._like.mapparms()
        return self._made(self._of(self._like._int, self.coef, m, [], 0, 1.0 / scale))

    def degree(self) -> int:
        """The degree, with leading coefficients that are 0."""
        return len(self.coef) - 1

    def convert(self, domain: Any = None, kind: Any = None, window: Any = None) -> Series:
        """The same polynomial with the domain and window of its class."""
        real = type(self._like)
        if domain is not None or kind is not None or window is not None:
            raise self._recorder.refuse(f"{real.__name__}.convert with arguments")
        if real is not np.polynomial.Polynomial:
            raise self._recorder.refuse(f"{real.__name__}.convert")
        off, scale = self._like.mapparms()
        (line,) = polyutils.as_series([(off + scale * real.identity()).coef])
        c = [self.coef[k] for k in range(len(self.coef))]
        found = [c.pop()]
        while c:  # Horner's scheme; the products of series are sums of two
            last = c.pop()
            inner = [found[k] * line[0] + found[k - 1] * line[1] for k in range(1, len(found))]
            found = [found[0] * line[0] + last, *inner, found[-1] * line[1]]
        if len(found) > 1 and not bool(found[-1] != 0):
            raise self._recorder.refuse(f"{real.__name__}.convert, whose first coefficient is 0")
        coef = self._of(np.array, found)
        return Series(self._recorder, self._constant, real.identity(), coef)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("domain", "window", "symbol"):
            return self._constant(getattr(self._like, name))
        if name in ("mapparms", "has_samedomain", "has_samewindow"):
            return getattr(self._like, name)
        raise self._recorder.refuse(f"numpy.polynomial.{type(self._like).__name__}.{name}")

    def _refuse(self, *args: Any) -> Any:
        raise self._recorder.refuse(f"arithmetic of numpy.polynomial.{type(self._like).__name__}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __pow__ = _refuse
    __getitem__ = __setitem__ = __iter__ = __neg__ = __eq__ = __ne__ = _refuse
    __divmod__ = __floordiv__ = __mod__ = _refuse
    __array__ = __str__ = __repr__ = __hash__ = __bool__ = _refuse  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.coef)

    def _made(self, coef: Any) -> Series:
        return Series(self._recorder, self._constant, self._like, coef)
