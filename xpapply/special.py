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
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from . import arrays, labelled
from .errors import InputError
from .slice_functions import formulas
from .slice_functions.bincount import bincount as counts_of
from .slice_functions.pairs import in_parts, is_complex, joined, parts_of

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

Axis = int | tuple[int, ...] | None


class MeanAndVar(NamedTuple):
    """The result of `mean_var`."""

    mean: Any
    var: Any


class ArgmaxAndMax(NamedTuple):
    """The result of `argmax_and_max`."""

    argmax: Any
    max: Any


# --- numbers among the arguments --------------------------------------------------------------


@functools.lru_cache(maxsize=64, typed=True)  # dtypes of two libraries do not like to be compared
def _is_half(dtype: Any) -> bool:
    return str(dtype).rpartition(".")[2] == "float16"


def _number(value: Any, x: Any) -> Any:
    """A parameter, in no fewer bits than what is computed of `x` has."""
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        dtype = labelled.dtype(x)
    return np.float32(value) if dtype is not None and _is_half(dtype) else float(value)


def _floating(x: Any) -> Any:
    """Python's integers as floats: they need not fit into the dtype of the arrays."""
    return float(x) if type(x) in (bool, int) else x


def _as_exp(x: Any) -> str:
    """The formulas whose results have the dtype of `numpy.exp`, for small integers of NumPy's."""
    dtype: Any = getattr(x, "dtype", None)
    if dtype is None:
        dtype = labelled.dtype(x)
    small = getattr(dtype, "kind", "") in ("i", "u") and dtype.itemsize <= 2
    if not small:
        return ""
    wing = labelled.wing(x)
    return "_as_exp" if (wing or arrays).library(x) in ("numpy", "cupy", "dask") else ""


# --- for everybody ----------------------------------------------------------------------------


def logsumexp(
    a: Any, axis: Axis = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """Logarithm of the sum of exponentials of each slice, as `scipy.special.logsumexp`.

    Parameters
    ----------
    a : array_like (Ni..., M, Nk...)
        Numbers, real or complex. Integers count as float64.
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
    if is_complex(a) or (b is not None and is_complex(b)):
        return _logsumexp_of_complex(a, axis, b, keepdims, return_sign)
    if b is None and not return_sign:
        return formulas.calls["logsumexp"]((a,), axis, keepdims)
    name = "signed_logsumexp" if return_sign else "weighted_logsumexp"
    return formulas.calls[name]((a, 1 if b is None else b), axis, keepdims)


def _logsumexp_of_complex(a: Any, axis: Axis, b: Any, keepdims: bool, return_sign: bool) -> Any:
    parts: tuple[Any, ...] = parts_of(a) if is_complex(a) else (a, 0.0)
    if b is not None:
        parts += parts_of(b) if is_complex(b) else (b,)
    if not return_sign:
        return joined(*formulas.calls["complex_logsumexp"](parts, axis, keepdims))
    size, re, im = formulas.calls["complex_signed_logsumexp"](parts, axis, keepdims)
    return size, joined(re, im)


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
        Of NumPy's and CuPy's integers in the dtype of their `exp`: float16 for 8 bits, float32
        for 16 bits.
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
    if is_complex(x):
        return in_parts(formulas.calls["complex_softmax"], parts_of(x), axis)
    return formulas.calls["softmax" + _as_exp(x)]((x,), axis)


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
        dtypes as of `softmax`.
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
    if is_complex(x):
        return in_parts(formulas.calls["complex_log_softmax"], parts_of(x), axis)
    return formulas.calls["log_softmax" + _as_exp(x)]((x,), axis)


def mean_var(
    x: Any, axis: Axis = None, correction: float = 0, keepdims: bool = False
) -> MeanAndVar:
    """Mean and variance of each slice, in one pass.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Numbers, real or complex. Integers count as float64.
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
    if is_complex(x):
        re, im, var = formulas.calls["complex_mean_var"]((*parts_of(x), correction), axis, keepdims)
        return MeanAndVar(joined(re, im), var)
    return MeanAndVar(*formulas.calls["mean_var"]((x, correction), axis, keepdims))


def standardize(x: Any, axis: Axis = None, correction: float = 0, eps: float = 0.0) -> Any:
    """``(x - mean) / sqrt(var + eps)`` of each slice, as `scipy.stats.zscore` for ``eps=0``.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Numbers, real or complex. Integers count as float64.
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
    if is_complex(x):
        return in_parts(
            formulas.calls["complex_standardize"], (*parts_of(x), correction, eps), axis
        )
    return formulas.calls["standardize"]((x, correction, eps), axis)


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
        Numbers, real or complex. Integers count as float64.
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
        For slices of no elements, where `ord` is infinite; for an `ord` that is not a number.
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
    parts = parts_of(x) if is_complex(x) else (x,)
    return formulas.norm_call(formulas.norm, kind, len(parts))((*parts, *power), axis, keepdims)


def normalize(x: Any, ord: Any = 2, axis: Axis = None) -> Any:
    """Each slice over its norm: unit vectors.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Numbers, real or complex. Integers count as float64.
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
        For an `ord` that is not a number.
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
    parts = parts_of(x) if is_complex(x) else (x,)
    call = formulas.norm_call(formulas.normalize, kind, len(parts))
    if len(parts) == 2:
        return in_parts(call, (*parts, *power), axis)
    return call((*parts, *power), axis)[0]


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
    return formulas.squared_diff((x, y), ())


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
    if is_complex(x):
        raise TypeError("argmax_and_max of complex numbers: they have no order. Take abs or real.")
    return ArgmaxAndMax(*formulas.argmax_and_max((x,), axis, keepdims))


def bincount(x: Any, axis: Axis = None, weights: Any = None, minlength: int = 0) -> Any:
    """Count the occurrences of each number in each slice, as `numpy.bincount`.

    Parameters
    ----------
    x : array_like (Ni..., M, Nk...)
        Integers that are not negative.
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
        every slice, so the largest number is waited for where devices work by themselves. Of dask
        arrays the number is unknown before they are computed, unless `minlength` is enough for all
        numbers of the dtype, such as 256 for uint8.

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    InputError
        For negative numbers, or weights whose shape does not broadcast to that of `x`.
    TypeError
        If `x` is not of integers.

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
    return counts_of(x, axis, weights, minlength)
