"""The rows of `numpy`: which functions run for all slices at once, and by which rule.

Functions that only move values around share the rule `moves`: it runs the function once, on the
*numbers* of the elements, and then moves the data of all slices by what came out. Most others
run as they are along an axis of the batch (`along_axis`), or take stacks of matrices by themselves.
What is left has a function of its own in the file of its topic, with the parameters of the NumPy
function after `xp` and `call`. Such a function raises `Unsupported` for arguments that are not
worth a batched way; then the rule calls the function once per slice.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import Batched, BatchingRule, NoRule, RaisesForSome
from ..function_rules import by_rows, constant, contiguous, is_data, no_output, of_topic, rule
from ..rules import (
    Rule,
    along,
    bound,
    leaves,
    mapped,
    shifted,
    stacked,
    table,
)
from ..rules import (
    elementwise as by_elements,
)
from .moves import moves


def checked(rule: Rule) -> Rule:
    """`rule`, unless something is written in place; operands are made C-contiguous.

    NumPy sums along the last axis of a C-contiguous array bit for bit as it sums one row of it.
    """

    def call_rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        no_output(given)
        if given.get("copy", True) is not True:
            raise NoRule("copy=")
        args, kwargs = mapped(contiguous(xp), args), mapped(contiguous(xp), kwargs)
        return rule(xp, call, args, kwargs)

    return call_rule


def along_axis(default: Any = None, *, axis_name: str = "axis", reduces: bool = True) -> Rule:
    """`rules.along` for operands that NumPy flattens together; the rest goes slice by slice."""
    rule = along(default, axis_name=axis_name, reduces=reduces)

    def call_rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        no_output(given)
        constant(given.get("n"), given.get("s"), given.get(axis_name))
        if given.get("overwrite_input"):
            raise NoRule("overwrite_input")
        ndims = {x.ndim for x in leaves(given)}
        constants = any(np.ndim(x) > 0 for k, x in given.items() if is_data(k, x, axis_name))
        whole = given.get(axis_name, default) is None and max(ndims) > 1
        alone = default is None and max(ndims) == 0 and given.keys() <= {"a", axis_name}
        if alone and "cum" not in call.__name__:
            args = mapped(lambda x: Batched(x.array[:, None]), args)  # a number is all of an axis
            return rule(xp, call, args, kwargs)
        if len(ndims) > 1 or max(ndims) == 0 or (whole and (constants or given.get("keepdims"))):
            return by_rows(xp, call, args, kwargs)
        args, kwargs = mapped(contiguous(xp), args), mapped(contiguous(xp), kwargs)
        return rule(xp, call, args, kwargs)

    return call_rule


def first_place(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """`argmax` and `argmin`, whose place is that of the first NaN, if there are some.

    CuPy's own may give another one: its threads meet them in any order.
    """

    @functools.wraps(call)
    def first(a: Any, *args: Any, **kwargs: Any) -> Any:
        if a.dtype.kind != "f" or not a.size:
            return call(a, *args, **kwargs)
        nan = a != a
        some = nan.any(axis=kwargs.get("axis"), keepdims=True)
        return call(xp.where(some, nan if call.__name__ == "argmax" else ~nan, a), *args, **kwargs)

    return along_axis()(xp, first if xp.__name__ == "cupy" else call, args, kwargs)


def place_without_nan(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """`nanargmax` and `nanargmin`, which raise for slices of NaN alone."""
    try:
        return along_axis()(xp, call, args, kwargs)
    except ValueError as error:
        (x,) = leaves((args, kwargs))
        nothing = xp.isnan(x.array).reshape(len(x.array), -1).all(axis=1)
        if x.ndim > 1 or not nothing.any():
            raise
        raise RaisesForSome(error, nothing) from None


def matrices(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Functions of one matrix that take stacks of them."""
    if args and isinstance(args[0], Batched) and args[0].ndim >= 2 and len(list(leaves(args))) == 1:
        if leaves_of := list(leaves(kwargs)):
            raise NoRule(f"{len(leaves_of)} more operands")
        if xp is not np and not bool(xp.isfinite(args[0].array).all()):
            raise NoRule("matrices that are not finite, of which CuPy's two ways differ")
        return stacked(xp, call, args, kwargs)
    return by_rows(xp, call, args, kwargs)


def shape_only(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Functions of shape or dtype alone: called for one slice."""
    return call(*mapped(lambda x: x.array[0], args), **mapped(lambda x: x.array[0], kwargs))


def windows(xp: Any, call: Any, x: Any, window_shape: Any, axis: Any = None, **kwargs: Any) -> Any:
    """Windows that slide along axes of the slices."""
    constant(window_shape, axis)
    axis = tuple(range(x.ndim)) if axis is None else axis
    return Batched(call(x.array, window_shape, axis=shifted(axis, x.ndim), **kwargs))


ELEMENTWISE = """around round clip isclose real imag angle sinc i0 fix isneginf isposinf iscomplex
    isreal nan_to_num"""
SERIES = {
    "polynomial": "poly",
    "chebyshev": "cheb",
    "legendre": "leg",
    "hermite": "herm",
    "hermite_e": "herme",
    "laguerre": "lag",
}
"""Modules of `numpy.polynomial`, and what their functions begin with."""

REDUCTIONS = """sum prod mean std var max amax min amin ptp all any median cumsum cumprod
    nancumsum nancumprod nansum nanprod nanmean nanstd nanvar nanmin nanmax count_nonzero"""
MOVES = {
    "a": "ravel reshape squeeze expand_dims moveaxis rollaxis swapaxes transpose permute_dims "
    "repeat resize diagonal",
    "m": "flip fliplr flipud rot90 triu tril",
    "x": "matrix_transpose linalg.matrix_transpose unstack",
    "v": "diag diagflat",
}


def _rows() -> list[BatchingRule]:
    """All rows, most of them by the one rule of their group."""
    rows: list[BatchingRule] = []

    def add(kind: str, rule: Rule, names: str, *, exact: bool = False) -> None:
        rows.extend(table("numpy", kind, rule, names, exact=exact))

    def each(kind: str, topic: str, names: str, prefix: str = "") -> None:
        """The rules in a file for functions of these names, or ``function=name_of_rule``."""
        for name in names.split():
            function, _, other = name.partition("=")
            add(kind, of_topic(f"numpy.{topic}", other or function), prefix + function)

    add("elementwise", checked(by_elements), ELEMENTWISE, exact=True)
    each("elementwise", "elementwise", "where select choose piecewise isin digitize")
    each("elementwise", "elementwise", "zeros_like=like ones_like=like empty_like=like")
    each("elementwise", "elementwise", "full_like")
    each("elementwise", "moves", "copy asfortranarray=copy")
    each("elementwise", "moves", "array asarray=array asanyarray=array astype")
    each("elementwise", "elementwise", "ravel_multi_index unravel_index")
    each("elementwise", "elementwise", "array_equal allclose array_equiv")

    add("axis", along_axis(), REDUCTIONS, exact=True)
    add("axis", first_place, "argmax argmin", exact=True)
    add("axis", place_without_nan, "nanargmax nanargmin", exact=True)
    add("axis", along_axis(-1), "sort argsort partition argpartition unwrap", exact=True)
    add("axis", along_axis(None, reduces=False), "cumulative_sum cumulative_prod")
    each("axis", "axis", "diff ediff1d gradient trace trapezoid lexsort")
    each("axis", "axis", "packbits unpackbits=packbits")
    add("axis", rule(windows), "lib.stride_tricks.sliding_window_view")
    each("axis", "statistics", "average percentile=quantile quantile")
    each("own", "statistics", "nanpercentile=nanquantile nanquantile nanmedian")

    for data, names in MOVES.items():
        add("moves", moves(data), names)
    add("moves", moves("ary"), "split array_split hsplit vsplit dsplit")
    add("moves", moves("arrays"), "concatenate concat stack block")
    add("moves", moves("tup"), "hstack vstack column_stack dstack")
    add("moves", moves("*"), "atleast_1d atleast_2d atleast_3d broadcast_arrays meshgrid")
    for names, signature, data in (
        ("append", "arr values axis", "arr values"),
        ("insert", "arr obj values axis", "arr values"),
        ("compress", "condition a axis", "a"),
        ("delete", "arr obj axis", "arr"),
        ("tile", "A reps", "A"),
        ("broadcast_to", "array shape", "array"),
        ("ascontiguousarray", "a", "a"),
    ):
        add("moves", moves(data, signature), names)
    each("moves", "moves", "pad roll take take_along_axis")

    each("own", "convolve", "convolve correlate")
    each("own", "search", "interp searchsorted")
    each("own", "histograms", "bincount histogram histogram_bin_edges")
    each("own", "statistics", "cov corrcoef")
    each("own", "polynomials", "vander")
    each("own", "least_squares", "polyfit")
    each("own", "polynomials", "polyval polyder")
    each("rows", "polynomials", "roots")
    each("own", "polynomials", "polyint polyadd polysub")
    for place, letters in SERIES.items():
        fit, value = f"{letters}fit=series_fit", f"{letters}val=series_value"
        each("own", "least_squares", fit, f"polynomial.{place}.")
        each("own", "polynomials", value, f"polynomial.{place}.")
        changes = f"{letters}der=series_derivative {letters}int=series_integral"
        each("own", "polynomials", changes, f"polynomial.{place}.")
    each("products", "linalg", "dot vdot vecdot inner outer tensordot einsum kron cross")

    add("stacked", matrices, "linalg.det linalg.inv linalg.eigh linalg.eigvalsh linalg.qr")
    add("stacked", matrices, "linalg.svd linalg.svdvals linalg.cholesky linalg.pinv")
    add("stacked", matrices, "linalg.matrix_norm")
    add("axis", along_axis(), "linalg.vector_norm")
    add("stacked", matrices, "linalg.matrix_rank linalg.slogdet linalg.cond linalg.matrix_power")
    each("own", "linalg", "norm solve eig eigvals=eig", "linalg.")
    each("own", "least_squares", "lstsq", "linalg.")
    add("rows", by_rows, "linalg.multi_dot")

    add(
        "axis", along_axis(-1), "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft", exact=True
    )
    add("axis", along_axis((-2, -1), axis_name="axes"), "fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2")
    each("axis", "axis", "fftn=all_axes ifftn=all_axes rfftn=all_axes irfftn=all_axes", "fft.")
    add("moves", moves("x"), "fft.fftshift fft.ifftshift")

    add("shape", shape_only, "shape size ndim iscomplexobj isrealobj result_type")
    add("shape", shape_only, "isscalar promote_types")
    return rows


ROWS: list[BatchingRule] = _rows()
