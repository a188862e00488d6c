"""Ufuncs of ``scipy.special``, and distributions of ``scipy.stats``: fits and values."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any, NamedTuple

import numpy as np

from .....ir.typed import Literal
from .....limits import LIMITS
from .. import numbers
from ..values import NUMPY, Abstract, Arr, Inlined, Known, Num, Tup, Writes, integer
from .arguments import FALSE, TRUE, float64
from .common import Call, as_float, exactly, number
from .of_numpy import ufunc_of


def find(f: Any) -> Call | None:
    """The row of a call of `f`, if it is one of these; None: it is not."""
    special = sys.modules.get("scipy.special")
    if isinstance(f, np.ufunc):
        is_one = special is not None and getattr(special, f.__name__, None) is f
        return ufunc_of(f) if is_one and f.nout == 1 else None
    stats = sys.modules.get("scipy.stats")
    dist: Any = getattr(f, "__self__", None) if type(f) is MethodType else None
    if dist is None or stats is None or not isinstance(dist, stats.rv_continuous):
        return None
    row = _of_distribution(dist, f.__name__)
    if dist is not stats.norm or f.__name__ not in _OF_NORM or not _agree():
        return row
    return _normal(f.__name__, row)


def _normal(name: str, row: Call | None) -> Call:
    """``scipy.stats.norm.cdf`` and such, of one number; with further arguments by the row."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if row is not None and (kwargs or len(args) > 1 or isinstance(args[0], Arr)):
            return row(t, args, kwargs)
        exactly(t, args, kwargs, 1)
        if name == "ppf" and number(t, args[0]).dtype != "float64":  # which computes in its type
            raise t.refuse(f"scipy.stats.norm.ppf of {args[0].dtype}")
        x = as_float(t, args, {})._replace(kind=NUMPY)
        return _OF_NORM[name](t, x)

    return call


def _of(t: Writes, name: str, x: Num) -> Num:
    found: Num = ufunc_of(getattr(sys.modules["scipy.special"], name))(t, [x], {})
    return found


def _sf(t: Writes, x: Num) -> Num:
    return _of(t, "ndtr", numbers.unary(t, "-", x))


def _ppf(t: Writes, x: Num) -> Num:
    found = _of(t, "ndtri", x)  # which is moved by nothing: a zero has no sign then
    return numbers.binary(t, "+", found, Num("float64", NUMPY, Literal(0.0, "float64")))


def _pdf(t: Writes, x: Num) -> Num:
    def given(value: float) -> Num:
        return Num("float64", NUMPY, Literal(value, "float64"))

    square = numbers.unary(t, "-", ufunc_of(np.square)(t, [x], {}))
    half = numbers.binary(t, "/", square, given(2.0))
    found = ufunc_of(np.exp)(t, [half], {})
    return numbers.binary(t, "/", found, given(float(np.sqrt(2 * np.pi))))


_OF_NORM: dict[str, Any] = {
    "cdf": lambda t, x: _of(t, "ndtr", x), "sf": _sf, "ppf": _ppf, "pdf": _pdf
}  # fmt: skip


class _Distribution(NamedTuple):
    """How a distribution is computed: names in `library.solvers.distributions`.

    Attributes
    ----------
    ends : str
        Its support.
    shape : str
        The name of its shape; "" if it has none.
    any_sign : bool
        Whether that may be any finite number; else it is positive.
    values : str
        Its functions of numbers.
    fit : callable or None
        The function of data and their location, if that is given, and what else it gets.
    """

    ends: str
    shape: str
    any_sign: bool
    values: str
    fit: Callable[[Any, Any], tuple[str, tuple[Any, ...]] | None]


def _optimize(name: str) -> Any:
    return getattr(sys.modules["scipy.optimize"], name)


def _special() -> Any:
    return sys.modules["scipy.special"]


def _fit_of_norm(dist: Any, floc: Any) -> Any:
    return ("norm_fit", ()) if floc is None else None


def _fit_of_expon(dist: Any, floc: Any) -> Any:
    return "expon_fit", (floc,)


def _fit_of_lognorm(dist: Any, floc: Any) -> Any:
    return None if floc is None else ("lognorm_fit", (floc,))


def _fit_of_gumbel(dist: Any, floc: Any) -> Any:
    return ("gumbel_fit", (_optimize("root_scalar"),)) if floc is None else None


def _fit_of_gamma(dist: Any, floc: Any) -> Any:
    if floc is None:
        return "gamma_fit", (floc, _special(), _optimize("fmin"))
    return ("gamma_fit_at_zero", (floc, _optimize("brentq"), _special())) if floc == 0 else None


def _fit_of_extremes(dist: Any, floc: Any) -> Any:
    moments = [tuple(map(float, dist.stats(c, moments="mv"))) for c in (0.5, -0.5)]
    return "genextreme_fit", (floc, _special(), _optimize("fmin"), *moments)


def _fit_of_pareto(dist: Any, floc: Any) -> Any:
    return "genpareto_fit", (floc, _special(), _optimize("fmin"))


def _fit_of_weibull(dist: Any, floc: Any) -> Any:
    from .....library.solvers import distributions

    least = float(distributions.weibull_skewness(1e4, _special()))
    return "weibull_fit", (floc, _special(), _optimize("fmin"), _optimize("root_scalar"), least)


_ROWS = {
    "norm": _Distribution("whole", "", True, "cdf sf ppf", _fit_of_norm),
    "expon": _Distribution("positive", "", True, "cdf sf ppf", _fit_of_expon),
    "lognorm": _Distribution("positive", "s", False, "cdf sf ppf", _fit_of_lognorm),
    "gumbel_r": _Distribution("whole", "", True, "cdf sf ppf isf", _fit_of_gumbel),
    "gamma": _Distribution("positive", "a", False, "cdf ppf", _fit_of_gamma),
    "genextreme": _Distribution("extreme_ends", "c", True, "cdf sf ppf isf", _fit_of_extremes),
    "genpareto": _Distribution("pareto_ends", "c", True, "", _fit_of_pareto),
    "weibull_min": _Distribution("positive", "c", False, "cdf sf ppf isf", _fit_of_weibull),
}
_SIDES = {"cdf": (0, 1), "sf": (1, 0), "ppf": (0, 1), "isf": (1, 0)}
"""What is given below and above the support, or which end of it for shares of 0 and 1."""
_SHORT = {"gumbel_r": "gumbel", "genextreme": "extreme", "weibull_min": "weibull"}


def _of_distribution(dist: Any, name: str) -> Call | None:
    """The row of ``scipy.stats.<distribution>.<name>``; None: there is none."""
    row, known = _ROWS.get(dist.name), vars(sys.modules["scipy.stats"])
    if row is None or dist.name not in known or known[dist.name] is not dist:
        return None
    if name == "fit":
        return functools.partial(_fitted, dist, row)
    if name not in row.values.split() or not _values_agree(dist.name, name):
        return None
    return functools.partial(_value, dist, row, name)


def _fitted(
    dist: Any, row: _Distribution, t: Writes, args: list[Any], kwargs: dict[str, Any]
) -> Inlined:
    """``fit(data)`` and ``fit(data, floc=...)``."""
    from .....library.solvers import distributions

    floc = kwargs.get("floc")
    given = None if floc is None else getattr(getattr(floc, "value", None), "value", None)
    found = None
    if len(args) == 1 and kwargs.keys() <= {"floc"} and (floc is None or given is not None):
        found = row.fit(dist, given)
    if found is None or not _fits_agree(dist.name, given):
        raise t.refuse(f"scipy.stats.{dist.name}.fit with such arguments")
    data, (name, more) = float64(t, args[0]), found
    own = [x if x is not given else floc or Known(None) for x in more]
    return Inlined(getattr(distributions, name), [data, *map(_as_value, own)], {})


def _as_value(x: Any) -> Abstract:
    if isinstance(x, float):
        return Num("float64", NUMPY, Literal(x, "float64"))
    if isinstance(x, tuple) and not hasattr(x, "_fields"):
        return Tup(tuple(map(_as_value, x)))
    return x if isinstance(x, (Num, Known)) else Known(x)


def _value(
    dist: Any, row: _Distribution, name: str, t: Writes, args: list[Any], kwargs: dict[str, Any]
) -> Inlined:
    """``cdf(x, shape, loc=0, scale=1)`` and such, of a number or an array."""
    from .....library.solvers import distributions

    first = "q" if name in ("ppf", "isf") else "x"
    names = (first, row.shape, "loc", "scale") if row.shape else (first, "loc", "scale")
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or not kwargs.keys() <= {*names} or not {*names[:-2]} <= given.keys():
        raise t.refuse(f"scipy.stats.{dist.name}.{name} with such arguments")
    given = {"loc": integer(0), "scale": integer(1)} | given
    whole = [float64(t, given.pop(first))] if isinstance(given[first], Arr) else []
    if first == "x" and not whole:
        given |= _distance(t, given["x"], given["loc"])
    own = {n: as_float(t, [x], {})._replace(kind=NUMPY) for n, x in given.items()}
    shape = own.get(row.shape) or Num("float64", NUMPY, Literal(0.0, "float64"))
    how: Callable[..., Any] = distributions.quantile if first == "q" else distributions.share
    of = getattr(distributions, f"{_SHORT.get(dist.name, dist.name)}_{name}")
    fixed = [Known(of), Known(getattr(distributions, row.ends)), TRUE if row.any_sign else FALSE]
    if whole:
        how = distributions.quantiles if first == "q" else distributions.shares
        sides = Tup(tuple(map(integer, _SIDES[name])))
        rest = [*whole, shape, own["loc"], own["scale"], sides]
    else:
        rest = [own[first], shape, own["loc"], own["scale"]]
    return Inlined(how, [*fixed, Known(_special()), *rest], {})


def _distance(t: Writes, x: Any, loc: Any) -> dict[str, Any]:
    """A number and a location as SciPy subtracts them, in the dtype of both; it divides after that.

    What leaves the range of integers is left to the function.
    """
    x, loc = (number(t, n)._replace(kind=NUMPY) for n in (x, loc))
    dtype = np.result_type(x.dtype, loc.dtype)
    if dtype == np.float64:
        return {}
    if dtype.kind not in "iu":
        raise t.refuse(f"a distance of {dtype} from a location")
    return {"x": numbers.binary(t, "-", x, loc), "loc": integer(0)}


@functools.cache
def _fits_agree(name: str, floc: float | None) -> bool:
    """Whether this SciPy fits a distribution as we do, to rounding."""
    from .....library.solvers import distributions

    dist = getattr(sys.modules["scipy.stats"], name)
    data = np.array([0.3, 1.7, 2.25, 4.1, 0.9, 3.3, 0.6, 1.1, 2.9, 1.4]) + (floc or 0.0)
    with np.errstate(all="ignore"):
        found = _ROWS[name].fit(dist, floc)
        assert found is not None
        of, more = found
        try:
            want = dist.fit(data) if floc is None else dist.fit(data, floc=floc)
            mine = getattr(distributions, of)(data, *more)
        except Exception:  # of another version
            return False
    return bool(np.allclose(mine, want, rtol=LIMITS.typed_rounding, atol=0.0))


@functools.cache
def _values_agree(name: str, method: str) -> bool:
    """Whether this SciPy computes values with the same bits."""
    from .....library.solvers import distributions

    row, dist = _ROWS[name], getattr(sys.modules["scipy.stats"], name)
    how = distributions.quantile if method in ("ppf", "isf") else distributions.share
    of = getattr(distributions, f"{_SHORT.get(name, name)}_{method}")
    ends, special = getattr(distributions, row.ends), _special()
    for x in map(np.float64, (0.15, 0.4, 0.75, 0.98)):
        for c in map(np.float64, (0.3, 1.7)):
            given = (c,) if row.shape else ()
            loc, scale = np.float64(-0.1), np.float64(1.1)
            with np.errstate(all="ignore"):
                try:
                    mine = how(of, ends, row.any_sign, special, x, c, loc, scale)
                except ValueError:  # it is outside of the support
                    continue
                if getattr(dist, method)(x, *given, loc, scale) != mine:
                    return False
    return _wholes_agree(dist, row, of, method)


def _wholes_agree(dist: Any, row: _Distribution, of: Any, method: str) -> bool:
    """Whether this SciPy computes values for arrays with the same bits."""
    from .....library.solvers import distributions

    how = distributions.quantiles if method in ("ppf", "isf") else distributions.shares
    x, given = np.linspace(-0.5, 1.0, 40), (np.float64(0.7), np.float64(-0.1), np.float64(1.1))
    x[3] = np.nan
    with np.errstate(all="ignore"):
        mine = how(of, getattr(distributions, row.ends), row.any_sign, _special(), x, *given,
                   _SIDES[method])  # fmt: skip
        want = getattr(dist, method)(x, *(given if row.shape else given[1:]))
    return np.array_equal(mine, want, equal_nan=True)


@functools.cache
def _agree() -> bool:
    """Whether this SciPy computes with the same bits."""
    norm, special = sys.modules["scipy.stats"].norm, sys.modules["scipy.special"]
    x = np.array([-9.5, -1.25, -0.3, 0.0, 0.1, 0.5, 0.97, 1.7, 4.4])
    with np.errstate(all="ignore"):
        pairs = [
            (norm.cdf, special.ndtr(x)), (norm.sf, special.ndtr(-x)),
            (norm.ppf, special.ndtri(x) + 0.0),
            (norm.pdf, np.array([np.exp(-(y * y) / 2.0) for y in x]) / np.sqrt(2 * np.pi)),
        ]  # fmt: skip
        return all(np.array_equal([f(y) for y in x], want, equal_nan=True) for f, want in pairs)
