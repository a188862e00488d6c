"""Functions of numbers, of two arrays, and of slices with two axes: xpapply beside their loop.

The loop of functions of numbers is `numpy.vectorize`, over a part of the elements, and its time is
scaled. That of the others is what one writes without either: a list comprehension, which
`numpy.stack` makes an array. It takes less than `numpy.vectorize` with a signature.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import xpapply

from . import clocks, devices, runner
from .pages import digits
from .scalar_functions import ENTRIES
from .several_report import AXES, LOOP, NUMBERS, OURS, TWO

QUICK = 1000
SLICES = {NUMBERS: 1_000_000, TWO: 20_000, AXES: 5_000}
PART = 20
"""Functions of numbers are looped over one of so many elements."""
REPEATS = 7
PATIENCE = 0.7
LENGTH = 32
GRID = np.linspace(0.1, 0.9, 24)
KERNEL = np.array([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]) / 16

Build = Callable[[np.random.Generator, int], tuple[Callable[..., Any], list[np.ndarray]]]


@dataclass(frozen=True)
class Function:
    """A function of one slice of each array.

    Attributes
    ----------
    name, group : str
        The group is one of the report's.
    build : callable ``build(rng, slices)``
        A new function and its arrays, slices last.
    signature : str
        Of two arrays.
    rtol : float
        How far results may be from the loop's.
    """

    name: str
    group: str
    build: Build
    signature: str = ""
    rtol: float = 1e-9


FUNCTIONS = [Function(e.name, NUMBERS, e.build, rtol=e.rtol) for e in ENTRIES]


def of_two(signature: str = "(n),(n)->()", **settings: Any) -> Callable[[Build], Build]:
    """Register a function of two arrays; its name is that of what follows."""

    def register(build: Build) -> Build:
        FUNCTIONS.append(Function(build.__name__.strip("_"), TWO, build, signature, **settings))
        return build

    return register


def of_patches(build: Build) -> Build:
    """Register a function of slices with two axes."""
    FUNCTIONS.append(Function(build.__name__.strip("_"), AXES, build))
    return build


def pair(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    a = rng.standard_normal((n, LENGTH))
    return [a, 0.5 * a + rng.standard_normal((n, LENGTH))]


def patches(rng: np.random.Generator, n: int, size: int = 8) -> list[np.ndarray]:
    return [rng.standard_normal((n, size, size))]


# --- of two arrays --------------------------------------------------------------------


@of_two()
def correlation(rng, n):
    def correlation(a, b):
        a, b = a - a.mean(), b - b.mean()
        return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())

    return correlation, pair(rng, n)


@of_two()
def corrcoef(rng, n):
    return lambda a, b: np.corrcoef(a, b)[0, 1], pair(rng, n)


@of_two()
def covariance(rng, n):
    return lambda a, b: np.cov(a, b)[0, 1], pair(rng, n)


@of_two()
def slope(rng, n):
    """The trend of one on the other."""

    def slope(x, y):
        d = x - x.mean()
        return (d * (y - y.mean())).sum() / (d * d).sum()

    return slope, pair(rng, n)


@of_two("(n),(n)->(n)", rtol=1e-8)
def residual(rng, n):
    def residual(x, y):
        d = x - x.mean()
        slope = np.dot(d, y) / np.dot(d, d)
        return y - y.mean() - slope * d

    return residual, pair(rng, n)


@of_two()
def weighted_mean(rng, n):
    a, w = pair(rng, n)
    return lambda a, w: np.average(a, weights=w), [a, np.abs(w) + 0.1]


@of_two()
def euclidean(rng, n):
    return lambda a, b: np.linalg.norm(a - b), pair(rng, n)


@of_two()
def manhattan(rng, n):
    return lambda a, b: np.abs(a - b).sum(), pair(rng, n)


@of_two()
def cosine(rng, n):
    def cosine(a, b):
        return np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b))

    return cosine, pair(rng, n)


@of_two("(n),(n)->(m)")
def interp(rng, n):
    """Every profile on heights of its own."""
    heights = np.sort(rng.random((n, LENGTH)), axis=1)
    return lambda x, y: np.interp(GRID, x, y), [heights, pair(rng, n)[0]]


@of_two("(n),(n)->(m)")
def cross_correlation(rng, n):
    return lambda a, b: np.correlate(a, b, mode="same"), pair(rng, n)


@of_two()
def rmse(rng, n):
    return lambda a, b: np.sqrt(np.mean((a - b) ** 2)), pair(rng, n)


@of_two()
def r2(rng, n):
    def r2(y, predicted):
        return 1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum()

    return r2, pair(rng, n)


@of_two("(n),(n)->(n)")
def where_larger(rng, n):
    return lambda a, b: np.where(a > b, a, -b), pair(rng, n)


@of_two()
def mean_where(rng, n):
    """Of what one array has where the other says so."""
    return lambda a, b: a[b > 0].mean(), pair(rng, n)


@of_two("(n),(n)->(m)")
def cumulative_trapezoid(rng, n):
    def integral(x, y):
        return np.cumsum(np.diff(x) * (y[1:] + y[:-1]) / 2)

    times, y = pair(rng, n)
    return integral, [np.sort(times, axis=1), y]


@of_two("(m,n),(n)->(m)")
def matvec(rng, n):
    matrices = rng.standard_normal((n, 6, 8))
    return lambda m, v: m @ v, [matrices, rng.standard_normal((n, 8))]


@of_two("(n),(m)->(n,m)")
def outer(rng, n):
    return np.outer, [rng.standard_normal((n, 6)), rng.standard_normal((n, 8))]


@of_two("(n),(n)->(n)")
def cross(rng, n):
    return np.cross, [rng.standard_normal((n, 3)), rng.standard_normal((n, 3))]


@of_two()
def divergence(rng, n):
    """Kullback and Leibler's, of counts."""

    def divergence(a, b):
        p, q = a / a.sum(), b / b.sum()
        return np.sum(p * np.log(p / q))

    return divergence, [np.abs(x) + 0.1 for x in pair(rng, n)]


# --- of slices with two axes ----------------------------------------------------------


@of_patches
def contrast(rng, n):
    return lambda p: (p.max() - p.min()) / (np.abs(p).mean() + 1), patches(rng, n)


@of_patches
def median(rng, n):
    return np.median, patches(rng, n)


@of_patches
def gaussian_filter(rng, n):
    from scipy import ndimage

    return lambda p: ndimage.gaussian_filter(p, 1.0), patches(rng, n)


@of_patches
def edges(rng, n):
    from scipy import ndimage

    def edges(p):
        return np.hypot(ndimage.sobel(p, 0), ndimage.sobel(p, 1)).mean()

    return edges, patches(rng, n)


@of_patches
def convolved(rng, n):
    from scipy import signal

    return lambda p: signal.convolve2d(p, KERNEL, mode="same"), patches(rng, n)


@of_patches
def median_filter(rng, n):
    from scipy import ndimage

    return lambda p: ndimage.median_filter(p, 3), patches(rng, n)


@of_patches
def power_spectrum(rng, n):
    return lambda p: np.abs(np.fft.fftshift(np.fft.fft2(p))) ** 2, patches(rng, n)


@of_patches
def cosine_transform(rng, n):
    from scipy import fft

    return lambda p: fft.dctn(p, norm="ortho")[:4, :4], patches(rng, n)


@of_patches
def determinant(rng, n):
    return np.linalg.det, patches(rng, n, 3)


@of_patches
def inverse(rng, n):
    return np.linalg.inv, [x + 4 * np.eye(4) for x in patches(rng, n, 4)]


@of_patches
def covariance_of_rows(rng, n):
    return np.cov, patches(rng, n)


@of_patches
def pooled(rng, n):
    return lambda p: p.reshape(4, 2, 4, 2).max(axis=(1, 3)), patches(rng, n)


@of_patches
def total_variation(rng, n):
    def variation(p):
        return np.abs(np.diff(p, axis=0)).sum() + np.abs(np.diff(p, axis=1)).sum()

    return variation, patches(rng, n)


@of_patches
def padded(rng, n):
    return lambda p: np.pad(np.rot90(p), 1, mode="reflect"), patches(rng, n)


@of_patches
def entropy(rng, n):
    def entropy(p):
        counts = np.histogram(p, bins=8, range=(-3, 3))[0]
        shares = counts / max(counts.sum(), 1)
        return -np.sum(shares * np.log2(shares + 1e-12))

    return entropy, patches(rng, n)


# --- measuring ------------------------------------------------------------------------


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    slices = dict.fromkeys(SLICES, QUICK) if run.quick else SLICES
    if run.args.slices:
        slices = dict.fromkeys(SLICES, run.args.slices)
    return {"settings": {"slices": slices}, "functions": {}}


def measure(run: runner.Run) -> None:
    """All functions, each in a part of its own."""
    slices = run.data["settings"]["slices"]
    with warnings.catch_warnings(), xpapply.options(fallback="silent"):
        warnings.simplefilter("ignore")
        for function in FUNCTIONS:  # libraries are imported, threads and compilers are there
            ours(function, *function.build(np.random.default_rng(1), 200))()
        for function in run.chosen(FUNCTIONS):
            part = partial(measure_function, function, slices[function.group])
            run.part(f"functions/{function.name}", part, line)


def ours(function: Function, f: Callable[..., Any], arrays: list[np.ndarray]) -> clocks.Call:
    """The call of xpapply."""
    if function.group == NUMBERS:
        return partial(xpapply.vectorize(f), *arrays)
    if function.group == TWO:
        return partial(xpapply.vectorize(f, signature=function.signature), *arrays)
    return partial(xpapply.apply_along_axis, f, (1, 2), *arrays)


def looped(function: Function, f: Callable[..., Any], arrays: list[np.ndarray]) -> np.ndarray:
    """The loop."""
    if function.group == NUMBERS:
        return np.vectorize(f)(*(x[: len(x) // PART] for x in arrays))  # type: ignore[no-any-return]
    return np.stack([f(*slices) for slices in zip(*arrays, strict=True)])


def measure_function(function: Function, slices: int) -> dict[str, Any]:
    """Everything about one function; times in seconds, for all slices."""
    f, arrays = function.build(np.random.default_rng(0), slices)
    call = ours(function, f, arrays)
    begin = time.perf_counter()
    got = call()
    first = time.perf_counter() - begin
    calls = {OURS: call, LOOP: partial(looped, function, f, arrays)}
    # what is compiled while other calls go on is there once the loop has run
    want = calls[LOOP]()
    times = clocks.in_turns(calls, REPEATS, devices.Cpu().pause, patience=PATIENCE)
    found: dict[str, Any] = {name: statistics.median(t) for name, t in times.items()}
    found |= {"group": function.group, "slices": slices, "first": first}
    if function.group == NUMBERS:
        found[LOOP] *= PART
        got = got[: len(want)]
    close = np.allclose(got, want, function.rtol, function.rtol * np.abs(want).max())
    if (got.shape, got.dtype) != (want.shape, want.dtype) or not close:
        found["wrong"] = f"{got.dtype}{got.shape}, the loop has {want.dtype}{want.shape}"
    if function.group == AXES:
        plan = xpapply.explain(f, (1, 2), *arrays)
        found["how"] = "; ".join(plan.kernels) if plan.vectorized else "; ".join(plan.reasons)
    return found


def line(found: dict[str, Any]) -> str:
    """What a run says of it."""
    wrong = f" WRONG: {found['wrong']}" if "wrong" in found else ""
    return f"{digits(found[LOOP] / found[OURS])} times as fast as the loop{wrong}"
