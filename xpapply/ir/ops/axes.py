"""Rows of ops that do something along axes: reductions, orders, products, layout."""

from __future__ import annotations

import math

from .row import LARGER, SMALLER, Kind, Op

_R, _A, _L, _T = Kind.REDUCTION, Kind.ALONG, Kind.LAYOUT, Kind.TREES

ROWS = [
    # reductions
    Op(
        "sum",
        _R,
        "sum",
        c="({0} + {1})",
        join="add",
        identity=0.0,
        sign="positive",
        positive="operands",
    ),
    Op(
        "prod",
        _R,
        "product",
        c="({0} * {1})",
        join="multiply",
        identity=1.0,
        inexact=True,
        domain=(-2, 2),
    ),
    Op(
        "max",
        _R,
        "largest, NaN wins",
        c=LARGER,
        slice_c="xp_max({0}, {1})",
        torch=("amax",),
        join="maximum",
        identity=-math.inf,
        either_zero=True,
    ),
    Op(
        "min",
        _R,
        "smallest, NaN wins",
        c=SMALLER,
        slice_c="xp_min({0}, {1})",
        torch=("amin",),
        join="minimum",
        identity=math.inf,
        either_zero=True,
    ),
    Op(
        "argmax",
        _R,
        "position of the largest: of the first NaN, else of the first of equal ones",
        c="({1} > {0} || ({1} != {1} && {0} == {0}))",
        result="int64",
        jumps=True,
        identity=-math.inf,
    ),
    Op(
        "argmin",
        _R,
        "position of the smallest: of the first NaN, else of the first of equal ones",
        c="({1} < {0} || ({1} != {1} && {0} == {0}))",
        result="int64",
        jumps=True,
        identity=math.inf,
    ),
    # along an axis: `axis` is an attribute
    Op("sort", _A, "in ascending order, NaN last", shows=(0,), silent=True, either_zero=True),
    Op(
        "argsort",
        _A,
        "the places of the numbers in that order; `stable`: equal ones as they stand",
        result="int64",
        jumps=True,
        silent=True,
    ),
    Op("cumulative_sum", _A, "sums up to each number, in order", join="add", shows=(0,)),
    Op(
        "cumulative_prod",
        _A,
        "products up to each number, in order",
        join="multiply",
        shows=(0,),
        inexact=True,
        domain=(-2, 2),
    ),
    Op(
        "cumulative_max",
        _A,
        "largest up to each number, NaN wins",
        join="maximum",
        silent=True,
        either_zero=True,
    ),
    Op(
        "cumulative_min",
        _A,
        "smallest up to each number, NaN wins",
        join="minimum",
        silent=True,
        either_zero=True,
    ),
    Op("take_along_axis", _A, "the numbers of a at the places b, which are there", silent=True),
    # contraction
    Op(
        "einsum",
        Kind.CONTRACTION,
        "sum of products; a product with a weight matrix is nm,m->n",
        inexact=True,
    ),
    # layout
    Op("reshape", _L, "another shape, C order"),
    Op("permute_dims", _L, "axes in another order"),
    Op("broadcast_to", _L, "repeat along axes of length 1"),
    Op("concat", _L, "join along an axis"),
    Op("index", _L, "integers, slices and new axes"),
    Op(
        "pad",
        _L,
        "more numbers along axes: `widths` before and after, of one `number`",
        gathers=True,
    ),
    Op(
        "windows",
        _L,
        "an axis as windows of `size` numbers, `dilation` apart, which start `step` apart:"
        " an axis of windows, and one of what is in them",
        gathers=True,
    ),
    Op("take", _L, "the numbers at `places` along an axis", gathers=True),
    # trees
    Op(
        "trees",
        _T,
        "decision trees: h, and what the leaves that a comes to have in f, one tree after the"
        " other; from the roots g, at most `depth` steps down. Node n looks at number b[n]: the"
        " next one is d[n], or the one after that where the number is above c[n], or NaN and e[n]",
        jumps=True,
    ),
]
