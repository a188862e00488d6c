"""The functions of `xpapply.special`, each as a function of one slice.

They get an `Expression` per array and return one, or a tuple; complex arrays are two arrays, of
real and of imaginary parts. `calls` has them by name.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.slices import accumulators
from ..ir.slices.slice_graph import Accumulator
from .function import Slicewise

Value = Any
"""An `Expression`. NumPy's stubs do not know that its functions take such."""


def _real(x: Value) -> Value:
    """Integers as float64, as NumPy's ufuncs have it; float16 in more than 16 bits."""
    dtype = x.aval.dtype
    if x.dtype.kind != "f":
        return x.astype("float64")
    return x.astype("float32") if dtype == "float16" else x


def _returned(x: Value, *like: Value) -> Value:
    """A result in the dtype that SciPy would give for inputs like these."""
    return _in(np.result_type(*(y.dtype for y in like)), x)


def _in(dtype: Any, x: Value) -> Value:
    return x.astype(dtype if dtype.kind in "fc" else "float64")


def _exponential(x: Value) -> tuple[Value, Any]:
    """The argument of exponentials, and the dtype that `numpy.exp` and SciPy give."""
    if x.dtype.kind not in "iu" or x.dtype.itemsize > 2:
        return _real(x), x.dtype
    return x.astype("float32"), np.dtype("float16" if x.dtype.itemsize == 1 else "float32")


def _accumulated(by: Callable[[str], Accumulator], x: Value) -> tuple[Value, ...]:
    return x.builder.accumulate(by(x.aval.dtype), x)


def _sum(x: Value) -> Value:
    return _accumulated(functools.partial(accumulators.simple, "sum"), x)[0]


def _total(top: Any, at_top: Any, below: Any) -> Any:
    """log of a sum of exponentials, less its shift; `below` counts also where it is small."""
    usual = np.isfinite(top)
    # derivatives of what `where` does not take must be finite, too
    return np.where(usual, np.log1p(np.where(usual, (at_top - 1) + below, 0)), top)


def _logsumexp(a: Value) -> Value:
    found = _accumulated(accumulators.exponentials, _real(a))
    return _returned(_total(*found) + accumulators.shift(found[0]), a)


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
    size = np.where(usual, apart, np.log(np.abs(whole))) + accumulators.shift(top)
    sign = np.where(usual, np.sign(1 + ratio) * np.sign(at), np.sign(whole))
    return _returned(size, a, b), _returned(sign, a, b)


def _weighted_logsumexp(a: Value, b: Value) -> Value:
    size, sign = _signed_logsumexp(a, b)
    return np.where(sign < 0, math.nan, size)


def _softmax(x: Value) -> Value:
    return _softmax_in(_real(x), x.dtype)


def _softmax_as_exp(x: Value) -> Value:
    return _softmax_in(*_exponential(x))


def _softmax_in(y: Value, dtype: Any) -> Value:
    top, total = _accumulated(accumulators.exponential_sum, y)
    # NumPy's x - max is NaN for an infinite maximum
    scale = 1 / np.where(np.isfinite(top), total, math.nan)
    return _in(dtype, np.exp(y - accumulators.shift(top)) * scale)


def _log_softmax(x: Value) -> Value:
    return _log_softmax_in(_real(x), x.dtype)


def _log_softmax_as_exp(x: Value) -> Value:
    return _log_softmax_in(*_exponential(x))


def _log_softmax_in(y: Value, dtype: Any) -> Value:
    found = _accumulated(accumulators.exponentials, y)
    return _in(dtype, (y - accumulators.shift(found[0])) - _total(*found))


def _moments(x: Value) -> tuple[Value, ...]:
    """Number of elements, mean as it is if that is infinite, and what `mean_and_squares` gives."""
    found = _accumulated(accumulators.moments, _real(x))
    return *found[:2], *accumulators.mean_and_squares(*found)


def _freedom(count: Value, correction: Value) -> Value:
    return np.maximum(count - correction.astype(count.dtype), 0)


def _mean_var(x: Value, correction: Value) -> tuple[Value, Value]:
    count, centre, mean, squares = _moments(x)
    mean = np.where(mean == mean, mean, centre)
    mean = np.where(count == 0, math.nan, mean)
    return _returned(mean, x), _returned(squares / _freedom(count, correction), x)


def _standardize(x: Value, correction: Value, eps: Value) -> Value:
    count, _, mean, squares = _moments(x)
    scale = np.sqrt(squares / _freedom(count, correction) + eps.astype(mean.dtype))
    # a product is cheaper, and 1 / scale finite: a root is 0 or larger than 1e-23
    return _returned((_real(x) - mean) * (1 / scale), x)


def _size(x: Sequence[Value]) -> Value:
    """The magnitude of a number, given by one part or by the real and the imaginary one."""
    return np.abs(x[0]) if len(x) == 1 else np.hypot(x[0], x[1])


def _root(f: Callable[[Any], Any], x: Any) -> Any:
    """A root of a sum, 0 of 0 with a derivative that is not NaN."""
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


def norm(ord: str, parts: int, *given: Value) -> Value:
    """The norm of a slice."""
    x, p = given[:parts], given[parts:]
    return _returned(_norm_of(ord, [_real(v) for v in x], *(p or (None,))), x[0])


def normalize(ord: str, parts: int, *given: Value) -> tuple[Value, ...]:
    """The parts of a slice over its norm."""
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
    return _returned(size + accumulators.shift(found[0]), *given), _returned(angle, *given)


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
    return _returned(_real(re) - accumulators.shift(found[0]) - size, re), _returned(turned, im)


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
calls = {
    f.__name__.lstrip("_"): Slicewise(f.__name__.lstrip("_"), f)
    for f in (
        _logsumexp,
        _signed_logsumexp,
        _weighted_logsumexp,
        _softmax,
        _log_softmax,
        _softmax_as_exp,
        _log_softmax_as_exp,
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
argmax_and_max = Slicewise("argmax_and_max", _argmax_and_max, _MAXIMUM)
squared_diff = Slicewise("squared_diff", lambda x, y: (x - y) * (x - y))


@functools.cache
def norm_call(function: Callable[..., Any], ord: str, parts: int) -> Slicewise:
    """`norm` or `normalize` of a kind, for real numbers (one part) or complex ones (two)."""
    nothing = _MAXIMUM if ord.endswith("inf") and function is norm else ""
    return Slicewise(
        function.__name__.lstrip("_"), functools.partial(function, ord, parts), nothing
    )
