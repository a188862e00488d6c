"""Functions of slices as one writes them for numba's guvectorize: loops over a slice."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np


def standardize(v: Any, out: Any) -> None:
    mean = 0.0
    for x in v:
        mean += x
    mean /= len(v)
    variance = 0.0
    for x in v:
        variance += (x - mean) ** 2
    std = math.sqrt(variance / len(v))
    for k in range(len(v)):
        out[k] = (v[k] - mean) / std


def softmax(v: Any, out: Any) -> None:
    top = v[0]
    for x in v:
        top = max(top, x)
    total = 0.0
    for k in range(len(v)):
        out[k] = math.exp(v[k] - top)
        total += out[k]
    for k in range(len(v)):
        out[k] /= total


def logsumexp(v: Any, out: Any) -> None:
    top = v[0]
    for x in v:
        top = max(top, x)
    total = 0.0
    for x in v:
        total += math.exp(x - top)
    out[0] = math.log(total) + top


def mean_var(v: Any, mean: Any, var: Any) -> None:
    total = 0.0
    for x in v:
        total += x
    middle = total / len(v)
    squares = 0.0
    for x in v:
        squares += (x - middle) ** 2
    mean[0] = middle
    var[0] = squares / len(v)


def masked_mean(v: Any, out: Any) -> None:
    total, count = 0.0, 0
    for x in v:
        if x > 0:
            total += x
            count += 1
    out[0] = total / count if count else math.nan


def median(v: Any, out: Any) -> None:
    out[0] = np.median(v)


def cumsum(v: Any, out: Any) -> None:
    total = v[0] - v[0]
    for k in range(len(v)):
        total += v[k]
        out[k] = total


def convolve(v: Any, taps: Any, out: Any) -> None:
    n, half = len(v), len(taps) // 2
    for k in range(n):
        total = v[0] - v[0]
        for j in range(max(0, k - half), min(n, k + half + 1)):
            total += v[j] * taps[k + half - j]
        out[k] = total


def argmax(v: Any, out: Any) -> None:
    best = 0
    for k in range(len(v)):
        if v[k] > v[best]:
            best = k
    out[0] = best


def norm(v: Any, out: Any) -> None:
    total = 0.0
    for x in v:
        total += x * x
    out[0] = math.sqrt(total)


LAYOUTS: dict[Callable[..., None], tuple[str, str]] = {
    standardize: ("vv", "(n)->(n)"),
    softmax: ("vv", "(n)->(n)"),
    logsumexp: ("vv", "(n)->()"),
    mean_var: ("vvv", "(n)->(),()"),
    masked_mean: ("vv", "(n)->()"),
    median: ("vv", "(n)->()"),
    cumsum: ("vv", "(n)->(n)"),
    convolve: ("vvv", "(n),(k)->(n)"),
    argmax: ("vi", "(n)->()"),
    norm: ("vv", "(n)->()"),
}
"""Of the arguments: vectors of numbers (v) or of integers (i); and the layout of the gufunc."""


@functools.cache
def compiled(f: Callable[..., None], dtype: str) -> Any:
    """A gufunc of this dtype for all cores, compiled now."""
    import numba

    kinds = {"v": getattr(numba, dtype)[:], "i": numba.int64[:]}
    arguments, layout = LAYOUTS[f]
    signature = numba.void(*(kinds[kind] for kind in arguments))
    return numba.guvectorize([signature], layout, nopython=True, target="parallel")(f)
