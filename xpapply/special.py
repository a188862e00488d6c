"""Functions of a slice for arrays of every library: in one pass, without full-size temporaries.

Each is written once, in the terms of one slice, and runs as fused blocks on NumPy and as one
generated kernel on CuPy (and on CUDA tensors, where CuPy is installed). All take arrays of
NumPy, CuPy, torch or any library of the array API standard, and `axis` as NumPy does: an
integer, a tuple, or None for the whole array.

>>> import numpy as np
>>> from xpapply import special
>>> special.logsumexp(np.array([[1000.0, 1000.0], [0.0, -np.inf]]), axis=1)
array([1000.69314718,    0.        ])
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from . import counting, namespace
from .errors import InputError
from .ir import accumulators
from .ir.slicewise import Accumulator
from .slicewise import Slicewise

__all__ = [
    "ArgmaxAndMax",
    "MeanAndVar",
    "argmax_and_max",
    "bincount",
    "log_softmax",
    "logsumexp",
    "mean_var",
    "norm",
    "normalize",
    "softmax",
    "squared_diff",
    "standardize",
]

Value = Any
"""An `Expression`. NumPy's stubs do not know that its functions take such."""
Axis = int | tuple[int, ...] | None


class MeanAndVar(NamedTuple):
    """What `mean_var` returns."""

    mean: Any
    var: Any


class ArgmaxAndMax(NamedTuple):
    """What `argmax_and_max` returns."""

    argmax: Any
    max: Any


# --- what is computed of one slice ------------------------------------------------------------


def _real(x: Value) -> Value:
    """Whole numbers as float64, as NumPy's ufuncs have it; float16 in more than 16 bits."""
    dtype = x.aval.dtype
    if x.dtype.kind != "f":
        return x.astype("float64")
    return x.astype("float32") if dtype == "float16" else x


def _returned(x: Value, *like: Value) -> Value:
    """A result in the dtype that SciPy would give for inputs like these."""
    dtype = np.result_type(*(y.dtype for y in like))
    return x.astype(dtype if dtype.kind in "fc" else "float64")


def _accumulated(by: Callable[[str], Accumulator], x: Value) -> tuple[Value, ...]:
    return x.builder.accumulate(by(x.aval.dtype), x)


def _sum(x: Value) -> Value:
    return _accumulated(functools.partial(accumulators.simple, "sum"), x)[0]


def _shift(top: Any) -> Any:
    """What the exponents of an accumulator were shifted by."""
    return np.where(np.isfinite(top), top, 0)


def _total(top: Any, at_top: Any, below: Any) -> Any:
    """log of a sum of exponentials, less its shift; `below` counts also where it is small."""
    usual = np.isfinite(top)
    # derivatives of what `where` does not take must be finite, too
    return np.where(usual, np.log1p(np.where(usual, (at_top - 1) + below, 0)), top)


def _logsumexp(a: Value) -> Value:
    found = _accumulated(accumulators.exponentials, _real(a))
    return _returned(_total(*found) + _shift(found[0]), a)


def _signed_logsumexp(a: Value, b: Value) -> tuple[Value, Value]:
    """The logarithm of the sum's magnitude, and its sign."""
    x, w = _real(a), _real(b)
    dtype = np.result_type(x.dtype, w.dtype).name
    x, w = x.astype(dtype), w.astype(dtype)
    x = np.where(w == 0, -math.inf, x)  # what has no weight adds nothing, even if it is infinite
    top, at_top, below = a.builder.accumulate(accumulators.exponentials(dtype, True), x, w)
    usual = np.isfinite(top) & (at_top != 0)
    at = np.where(usual, at_top, 1)
    ratio = below / at
    apart = np.log1p(np.where(ratio < -1, -2 - ratio, ratio)) + np.log(np.abs(at))
    whole = at_top + below
    size = np.where(usual, apart, np.log(np.abs(whole))) + _shift(top)
    sign = np.where(usual, np.sign(1 + ratio) * np.sign(at), np.sign(whole))
    return _returned(size, a, b), _returned(sign, a, b)


def _weighted_logsumexp(a: Value, b: Value) -> Value:
    size, sign = _signed_logsumexp(a, b)
    return np.where(sign < 0, math.nan, size)


def _softmax(x: Value) -> Value:
    y = _real(x)
    top, total = _accumulated(accumulators.exponential_sum, y)
    # NumPy's x - max is NaN for an infinite maximum
    scale = 1 / np.where(np.isfinite(top), total, math.nan)
    return _returned(np.exp(y - _shift(top)) * scale, x)


def _log_softmax(x: Value) -> Value:
    y = _real(x)
    found = _accumulated(accumulators.exponentials, y)
    return _returned((y - _shift(found[0])) - _total(*found), x)


def _moments(x: Value) -> tuple[Value, Value]:
    """Mean and sum of squared differences from it."""
    y = _real(x)
    return accumulators.mean_and_squares(*_accumulated(accumulators.moments, y))


def _mean_var(x: Value, correction: Value) -> tuple[Value, Value]:
    mean, squares = _moments(x)
    freedom = mean.builder.length(mean.aval.dtype) - correction.astype(mean.dtype)
    return _returned(mean, x), _returned(squares / np.maximum(freedom, 0), x)


def _standardize(x: Value, correction: Value, eps: Value) -> Value:
    mean, squares = _moments(x)
    freedom = mean.builder.length(mean.aval.dtype) - correction.astype(mean.dtype)
    scale = np.sqrt(squares / np.maximum(freedom, 0) + eps.astype(mean.dtype))
    # a product is cheaper; a root is never so small that 1 / scale would be infinite
    return _returned((_real(x) - mean) * (1 / scale), x)


def _size(x: Sequence[Value]) -> Value:
    """The magnitude of a number, given by one part or by the real and the imaginary one."""
    return np.abs(x[0]) if len(x) == 1 else np.hypot(x[0], x[1])


def _root(f: Callable[[Any], Any], x: Any) -> Any:
    """A root of a sum: 0 of 0, where its derivative shall not be NaN."""
    return np.where(x == 0, x, f(np.where(x == 0, 1, x)))


def _norm_of(ord: str, x: Sequence[Value], p: Any) -> Value:
    """The norm of a slice of numbers in one or two parts."""
    if ord == "2":
        squares = [v * v for v in x]
        return _root(np.sqrt, _sum(squares[0] if len(x) == 1 else squares[0] + squares[1]))
    size = _size(x)
    if ord in ("inf", "-inf"):
        name = "max" if ord == "inf" else "min"
        return _accumulated(functools.partial(accumulators.simple, name), size)[0]
    if ord == "0":
        return _sum(np.where(size != 0, 1, size * 0))
    if ord == "1":
        return _sum(size)
    p = p.astype(size.dtype)
    total = _sum(np.power(size, p))
    if ord == "p":
        return _root(lambda s: np.power(s, 1 / p), total)
    return np.power(total, 1 / p)  # of a negative power


def _norm(ord: str, parts: int, *given: Value) -> Value:
    x, p = given[:parts], given[parts:]
    return _returned(_norm_of(ord, [_real(v) for v in x], *(p or (None,))), x[0])


def _normalize(ord: str, parts: int, *given: Value) -> tuple[Value, ...]:
    x, p = given[:parts], given[parts:]
    real = [_real(v) for v in x]
    size = _norm_of(ord, real, *(p or (None,)))
    size = np.where(size == 0, 1, size)
    if ord == "2":  # a root: see _standardize
        return tuple(_returned(v * (1 / size), x[0]) for v in real)
    return tuple(_returned(v / size, x[0]) for v in real)


def _angles(im: Value, *b: Value) -> tuple[Value, Value]:
    """The weights that the cosine and the sine of the imaginary part are."""
    cosine, sine = np.cos(im), np.sin(im)
    if len(b) == 2:
        return b[0] * cosine - b[1] * sine, b[0] * sine + b[1] * cosine
    return (b[0] * cosine, b[0] * sine) if b else (cosine, sine)


def _complex_sums(re: Value, im: Value, *b: Value) -> tuple[Value, ...]:
    """The maximum of the real parts; the sum at it, and that of all others, in two parts each."""
    given = [_real(v) for v in (re, im, *b)]
    dtype = np.result_type(*(v.dtype for v in given)).name
    re, im, *b = (v.astype(dtype) for v in given)  # type: ignore[assignment]
    if b:
        nothing = b[0] == 0 if len(b) == 1 else (b[0] == 0) & (b[1] == 0)
        re = np.where(nothing, -math.inf, re)
    im = np.where(re == -math.inf, 0, im)  # nothing has no angle, even if that is infinite
    by = accumulators.exponentials(dtype, True)
    found = [re.builder.accumulate(by, re, w) for w in _angles(im, *b)]
    (top, at_re, below_re), (_, at_im, below_im) = found
    return top, at_re, at_im, below_re, below_im


def _complex_total(
    top: Any, at_re: Any, at_im: Any, below_re: Any, below_im: Any
) -> tuple[Any, Any]:
    """log of such a sum, less its shift: the real part, and the imaginary one in (-pi, pi]."""
    re, im = at_re + below_re, at_im + below_im
    at_top = np.hypot(at_re, at_im)
    usual = np.isfinite(top) & (at_top != 0)
    size = np.where(usual, at_top, 1)
    unit_re, unit_im = at_re / size, at_im / size
    ratio_re = (below_re * unit_re + below_im * unit_im) / size
    ratio_im = (below_im * unit_re - below_re * unit_im) / size
    more = ratio_re * (2 + ratio_re) + ratio_im * ratio_im  # |1 + ratio| ** 2 - 1
    near = usual & (np.abs(more) < 0.5)
    apart = np.log1p(np.where(near, more, 0)) / 2 + np.log(size)
    return np.where(near, apart, np.log(np.hypot(re, im))), np.atan2(im, re)


def _complex_logsumexp(*given: Value) -> tuple[Value, Value]:
    found = _complex_sums(*given)
    size, angle = _complex_total(*found)
    return _returned(size + _shift(found[0]), *given), _returned(angle, *given)


def _complex_signed_logsumexp(*given: Value) -> tuple[Value, ...]:
    size, angle = _complex_logsumexp(*given)
    nothing = size == -math.inf
    return size, np.where(nothing, 0, np.cos(angle)), np.where(nothing, 0, np.sin(angle))


def _complex_softmax(re: Value, im: Value) -> tuple[Value, Value]:
    top, at_re, at_im, below_re, below_im = _complex_sums(re, im)
    total_re, total_im = at_re + below_re, at_im + below_im
    size = np.hypot(total_re, total_im)
    unit_re, unit_im = total_re / size, total_im / size
    e = np.exp(_real(re) - top) / size
    a, b = e * np.cos(_real(im)), e * np.sin(_real(im))
    return _returned(a * unit_re + b * unit_im, re), _returned(b * unit_re - a * unit_im, im)


def _complex_log_softmax(re: Value, im: Value) -> tuple[Value, Value]:
    found = _complex_sums(re, im)
    size, angle = _complex_total(*found)
    turned = _real(im) - angle
    turns = np.ceil((turned - math.pi) / (2 * math.pi))
    turned = np.where(np.abs(turned) < math.pi, turned, turned - turns * (2 * math.pi))
    return _returned(_real(re) - _shift(found[0]) - size, re), _returned(turned, im)


def _complex_mean_var(re: Value, im: Value, correction: Value) -> tuple[Value, ...]:
    (mean_re, var_re), (mean_im, var_im) = (_mean_var(v, correction) for v in (re, im))
    return mean_re, mean_im, var_re + var_im


def _complex_standardize(re: Value, im: Value, correction: Value, eps: Value) -> tuple[Value, ...]:
    mean_re, mean_im, var = _complex_mean_var(re, im, correction)
    scale = np.sqrt(var + eps.astype(var.dtype))
    return _returned((_real(re) - mean_re) / scale, re), _returned(
        (_real(im) - mean_im) / scale, im
    )


def _argmax_and_max(x: Value) -> tuple[Value, Value]:
    value, index = _accumulated(functools.partial(accumulators.position, "argmax"), x)
    return index, value


_MAXIMUM = "a maximum of nothing has no value"
_calls = {
    f.__name__.lstrip("_"): Slicewise(f.__name__.lstrip("_"), f)
    for f in (
        _logsumexp,
        _signed_logsumexp,
        _weighted_logsumexp,
        _softmax,
        _log_softmax,
        _mean_var,
        _standardize,
        _complex_logsumexp,
        _complex_signed_logsumexp,
        _complex_softmax,
        _complex_log_softmax,
        _complex_mean_var,
        _complex_standardize,
    )
}
_argmax = Slicewise("argmax_and_max", _argmax_and_max, _MAXIMUM)
_squares = Slicewise("squared_diff", lambda x, y: (x - y) * (x - y))


@functools.cache
def _norm_call(function: Callable[..., Any], ord: str, parts: int) -> Slicewise:
    nothing = _MAXIMUM if ord.endswith("inf") and function is _norm else ""
    return Slicewise(
        function.__name__.lstrip("_"), functools.partial(function, ord, parts), nothing
    )


# --- complex numbers are pairs ----------------------------------------------------------------


def _is_complex(x: Any) -> bool:
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        return np.iscomplexobj(x)
    kind = getattr(dtype, "kind", None)  # torch's dtypes have none
    return "complex" in str(dtype) if kind is None else kind == "c"


def _parts(x: Any) -> tuple[Any, Any]:
    """Real and imaginary part: views, where the library has them."""
    if namespace.library(x) is None:
        x = np.asarray(x)
    if namespace.library(x) in ("numpy", "cupy", "torch"):
        return x.real, x.imag
    xp = namespace.compat(x)
    return xp.real(x), xp.imag(x)


def _joined(re: Any, im: Any) -> Any:
    """A complex array of its parts."""
    name, xp = namespace.library(re), namespace.compat(re)
    if name == "torch":
        return xp.complex(re, im)
    if name == "jax":
        import jax

        return jax.lax.complex(re, im)
    if name not in ("numpy", "cupy"):
        with np.errstate(all="ignore"):  # the standard has nothing better
            return re + 1j * im
    joined = xp.empty_like(re, dtype=np.result_type(re.dtype, np.complex64))
    joined.real, joined.imag = re, im
    return joined[()] if name == "numpy" else joined


# --- numbers among the arguments --------------------------------------------------------------


@functools.lru_cache(maxsize=64, typed=True)  # dtypes of two libraries do not like to be compared
def _is_half(dtype: Any) -> bool:
    return str(dtype).rpartition(".")[2] == "float16"


def _number(value: Any, x: Any) -> Any:
    """A parameter, in no fewer bits than what is computed of `x` has."""
    dtype = getattr(x, "dtype", None)
    return np.float32(value) if dtype is not None and _is_half(dtype) else float(value)


def _floating(x: Any) -> Any:
    """Python's whole numbers as floats: they need not fit into the dtype of the arrays."""
    return float(x) if type(x) in (bool, int) else x


# --- for everybody ----------------------------------------------------------------------------


def logsumexp(
    a: Any, axis: Axis = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """Logarithm of the sum of exponentials of each slice, as `scipy.special.logsumexp`.

    Parameters
    ----------
    a : array_like (Ni..., M, Nk...)
        Numbers, real or complex. Whole numbers count as float64.
    axis : int, tuple of int or None
        The axes of a slice; None for all.
    b : array_like, optional
        Weights: ``log(sum(b * exp(a)))``. They broadcast with `a`, and may be negative; what has
        the weight 0 adds nothing, even if it is infinite.
    keepdims : bool
        Keep the axes of the slice, with length 1.
    return_sign : bool
        Return the logarithm of the magnitude, and the sign (the phase, of complex sums).

    Returns
    -------
    array (Ni..., Nk...)
        -inf for empty slices; NaN where the sum is negative and no sign is asked for.
    array (Ni..., Nk...)
        With `return_sign`: 0 where the sum is 0, so also of empty slices.

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    InputError
        If shapes do not broadcast or devices differ.
    TypeError
        For object arrays and masked arrays.

    Notes
    -----
    One pass with a running maximum: Milakov and Gimelshein 2018, arXiv 1805.02867. Terms below
    the maximum are summed apart, so that ``logsumexp([0, -40])`` is 4.2e-18 and not 0.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.special import logsumexp
    >>> logsumexp(np.array([[1000.0, 1000.0], [0.0, 0.0]]), axis=1)
    array([1.00069315e+03, 6.93147181e-01])
    >>> logsumexp([1.0, 2.0], b=[1.0, -1.0], return_sign=True)
    (np.float64(1.5413248546129181), np.float64(-1.0))
    """
    a, b = _floating(a), _floating(b)
    if _is_complex(a) or (b is not None and _is_complex(b)):
        return _logsumexp_of_complex(a, axis, b, keepdims, return_sign)
    if b is None and not return_sign:
        return _calls["logsumexp"]((a,), axis, keepdims)
    name = "signed_logsumexp" if return_sign else "weighted_logsumexp"
    return _calls[name]((a, 1 if b is None else b), axis, keepdims)


def _logsumexp_of_complex(a: Any, axis: Axis, b: Any, keepdims: bool, return_sign: bool) -> Any:
    parts: tuple[Any, ...] = _parts(a) if _is_complex(a) else (a, 0.0)
    if b is not None:
        parts += _parts(b) if _is_complex(b) else (b,)
    if not return_sign:
        return _joined(*_calls["complex_logsumexp"](parts, axis, keepdims))
    size, re, im = _calls["complex_signed_logsumexp"](parts, axis, keepdims)
    return size, _joined(re, im)


def softmax(x: Any, axis: Axis = None) -> Any:
    """``exp(x) / sum(exp(x))`` of each slice, as `scipy.special.softmax`.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Numbers, real or complex.
    axis : int, tuple of int or None
        The axes of a slice; None for all.

    Returns
    -------
    array (Ni..., M, Nk...)
        NaN in slices that have NaN or inf, or only -inf. Slices of no elements stay empty, as in
        torch and JAX; SciPy raises ValueError.

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    TypeError
        For object arrays and masked arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.special import softmax
    >>> softmax(np.log([[1.0, 3.0], [2.0, 2.0]]), axis=1)
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    if _is_complex(x):
        return _joined(*_calls["complex_softmax"](_parts(x), axis))
    return _calls["softmax"]((x,), axis)


def log_softmax(x: Any, axis: Axis = None) -> Any:
    """``log(softmax(x))`` of each slice, as `scipy.special.log_softmax`.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Numbers, real or complex.
    axis : int, tuple of int or None
        The axes of a slice; None for all.

    Returns
    -------
    array (Ni..., M, Nk...)
        Slices of no elements stay empty. Of complex numbers the imaginary part is in (-pi, pi].

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    TypeError
        For object arrays and masked arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.special import log_softmax
    >>> log_softmax(np.array([1000.0, 1.0]))
    array([   0., -999.])
    """
    if _is_complex(x):
        return _joined(*_calls["complex_log_softmax"](_parts(x), axis))
    return _calls["log_softmax"]((x,), axis)


def mean_var(
    x: Any, axis: Axis = None, correction: float = 0, keepdims: bool = False
) -> MeanAndVar:
    """Mean and variance of each slice, in one pass.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Numbers, real or complex. Whole numbers count as float64.
    axis : int, tuple of int or None
        The axes of a slice; None for all.
    correction : float
        The sum of squares is divided by ``M - correction``: 0 is NumPy's default, 1 torch's.
    keepdims : bool
        Keep the axes of the slice, with length 1.

    Returns
    -------
    mean, var : array (Ni..., Nk...)
        As a named tuple. NaN for slices of no elements.

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    TypeError
        For object arrays and masked arrays.

    Notes
    -----
    Pieces of a slice are combined as in Chan, Golub and LeVeque 1983,
    doi 10.1080/00031305.1983.10483115, so that nothing cancels where the mean is large.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.special import mean_var
    >>> mean, var = mean_var(np.array([[1.0, 3.0], [1e8, 1e8 + 2]]), axis=1)
    >>> mean, var
    (array([2.00000000e+00, 1.00000001e+08]), array([1., 1.]))
    """
    correction = _number(correction, x)
    if _is_complex(x):
        re, im, var = _calls["complex_mean_var"]((*_parts(x), correction), axis, keepdims)
        return MeanAndVar(_joined(re, im), var)
    return MeanAndVar(*_calls["mean_var"]((x, correction), axis, keepdims))


def standardize(x: Any, axis: Axis = None, correction: float = 0, eps: float = 0.0) -> Any:
    """``(x - mean) / sqrt(var + eps)`` of each slice, as `scipy.stats.zscore` for ``eps=0``.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Numbers, real or complex. Whole numbers count as float64.
    axis : int, tuple of int or None
        The axes of a slice; None for all.
    correction : float
        The variance is divided by ``M - correction``.
    eps : float
        Added to the variance, as LayerNorm has it. With 0, constant slices become NaN.

    Returns
    -------
    array (Ni..., M, Nk...)

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    TypeError
        For object arrays and masked arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.special import standardize
    >>> standardize(np.array([[1.0, 3.0], [10.0, 30.0]]), axis=1)
    array([[-1.,  1.],
           [-1.,  1.]])
    """
    correction, eps = _number(correction, x), _number(eps, x)
    if _is_complex(x):
        return _joined(*_calls["complex_standardize"]((*_parts(x), correction, eps), axis))
    return _calls["standardize"]((x, correction, eps), axis)


_ORDS: dict[Any, str] = {0: "0", 1: "1", 2: "2", math.inf: "inf", -math.inf: "-inf"}
_ORDS |= {"l1": "1", "l2": "2", "max": "inf", "inf": "inf"}


def _ord(ord: Any) -> tuple[str, tuple[float, ...]]:
    """The kind of a norm, and its power as a further argument."""
    try:
        kind = _ORDS.get(ord)
    except TypeError:  # a list has no hash
        kind = None
    if kind is not None:
        return kind, ()
    if isinstance(ord, Real) and ord == ord:
        return "p" if float(ord) > 0 else "-p", (float(ord),)
    raise InputError(f"ord={ord!r}: use a number, inf, -inf, 'l1', 'l2' or 'max'")


def norm(x: Any, ord: Any = 2, axis: Axis = None, keepdims: bool = False) -> Any:
    """Vector norm of each slice: that of the array API's ``linalg.vector_norm``.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Numbers, real or complex. Whole numbers count as float64.
    ord : float or {"l1", "l2", "max"}
        ``sum(|x| ** ord) ** (1 / ord)``; inf for the largest magnitude, -inf for the smallest, 0
        for the number of elements that are not 0.
    axis : int, tuple of int or None
        The axes of a slice; None for all. Two axes are one vector, not a matrix.
    keepdims : bool
        Keep the axes of the slice, with length 1.

    Returns
    -------
    array (Ni..., Nk...)
        Real.

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    InputError
        For slices of no elements, where `ord` is infinite; for an `ord` that is no number.
    TypeError
        For object arrays and masked arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.special import norm
    >>> x = np.array([[3.0, -4.0], [0.0, 1.0]])
    >>> norm(x, axis=1), norm(x, 1, axis=1), norm(x, np.inf, axis=1)
    (array([5., 1.]), array([7., 1.]), array([4., 1.]))
    """
    kind, powers = _ord(ord)
    power = tuple(_number(p, x) for p in powers)
    parts = _parts(x) if _is_complex(x) else (x,)
    return _norm_call(_norm, kind, len(parts))((*parts, *power), axis, keepdims)


def normalize(x: Any, ord: Any = 2, axis: Axis = None) -> Any:
    """Each slice over its norm: unit vectors.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Numbers, real or complex. Whole numbers count as float64.
    ord : float or {"l1", "l2", "max"}
        As for `norm`.
    axis : int, tuple of int or None
        The axes of a slice; None for all.

    Returns
    -------
    array (Ni..., M, Nk...)
        Slices whose norm is 0 stay as they are.

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    InputError
        For an `ord` that is no number.
    TypeError
        For object arrays and masked arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.special import normalize
    >>> normalize(np.array([[3.0, 4.0], [0.0, 0.0]]), axis=1)
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    kind, powers = _ord(ord)
    power = tuple(_number(p, x) for p in powers)
    parts = _parts(x) if _is_complex(x) else (x,)
    found = _norm_call(_normalize, kind, len(parts))((*parts, *power), axis)
    return _joined(*found) if len(parts) == 2 else found[0]


def squared_diff(x: Any, y: Any) -> Any:
    """``(x - y) ** 2``, with broadcasting.

    Parameters
    ----------
    x, y : array_like
        Arrays of one library, or numbers.

    Returns
    -------
    array
        In the dtype that NumPy gives ``(x - y) * (x - y)``.

    Raises
    ------
    InputError
        If shapes do not broadcast or devices differ.
    TypeError
        For object arrays and masked arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.special import squared_diff
    >>> squared_diff(np.array([1.0, 2.0]), np.array([[0.0], [4.0]]))
    array([[1., 4.],
           [9., 4.]])
    """
    return _squares((x, y), ())


def argmax_and_max(x: Any, axis: Axis = None, keepdims: bool = False) -> ArgmaxAndMax:
    """Position and value of the largest element of each slice, in one pass.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Real numbers.
    axis : int, tuple of int or None
        The axes of a slice; None for all.
    keepdims : bool
        Keep the axes of the slice, with length 1.

    Returns
    -------
    argmax : array of int64 (Ni..., Nk...)
        Position in the slice: in C order, if that has several axes. The first NaN if there is
        one, else the first of equal elements.
    max : array (Ni..., Nk...)
        In the dtype of `x`.

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    InputError
        For slices of no elements.
    TypeError
        For complex numbers, which have no order, object arrays and masked arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.special import argmax_and_max
    >>> argmax_and_max(np.array([[1, 5, 5], [7, 0, 2]]), axis=1)
    ArgmaxAndMax(argmax=array([1, 0]), max=array([5, 7]))
    """
    if _is_complex(x):
        raise TypeError("argmax_and_max of complex numbers: they have no order. Take abs or real.")
    return ArgmaxAndMax(*_argmax((x,), axis, keepdims))


def bincount(x: Any, axis: Axis = None, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number occurs in each slice, as `numpy.bincount`.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Whole numbers that are not negative.
    axis : int, tuple of int or None
        The axes of a slice; None for all.
    weights : array_like, optional
        What each element counts, broadcasting to the shape of `x`.
    minlength : int
        The least number of bins.

    Returns
    -------
    array (Ni..., bins, Nk...)
        int64 counts, or float64 sums of weights. There are ``x.max() + 1`` bins, as many for
        every slice, so the largest number is waited for where devices work by themselves.

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    InputError
        For negative numbers, or weights whose shape does not broadcast to that of `x`.
    TypeError
        If `x` is not of whole numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.special import bincount
    >>> bincount(np.array([[0, 1, 1], [3, 1, 3]]), axis=1)
    array([[1, 2, 0, 0],
           [0, 1, 0, 2]])
    >>> bincount(np.array([0, 1, 1]), weights=np.array([0.5, 1.0, 2.0]))
    array([0.5, 3. ])
    """
    return counting.bincount(x, axis, weights, minlength)
