"""How people call numpy.apply_along_axis: a corpus of functions of one slice.

    python -m benchmarks.idioms     # lists it

Every entry is written the way it stands in public code: climate grids, MRI and
hyperspectral images, microscopy, genomics, machine learning, finance, games.
Nothing in it knows of xpapply, but for two that ask for the array module. The
shares of the groups are `SHARES`; tests/frontends/python/test_idioms.py holds the corpus to
them, functions.py measures it.

``make(rng, slices)`` builds a function and an array that are new, so that
nothing planned for an earlier one is found again. Libraries beyond NumPy are
imported there and named in `needs`: NumPy alone loads this file.
"""

from __future__ import annotations

import inspect
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import asin, cos, radians, sin, sqrt
from typing import Any

import numpy as np

import xpapply

SHARES = {
    "axis": 17,
    "no axis": 20,
    "arithmetic": 24,
    "branches": 11,
    "models": 8,
    "strings": 6,
    "random": 3,
    "opaque": 11,
}
"""Per cent of the calls in public code, by what the function of a slice does."""

SLICES = 20_000

Use = tuple[Callable[..., Any], int, np.ndarray, tuple, dict]
"""``f, axis, arr, args, kwargs``."""


@dataclass(frozen=True)
class Idiom:
    """One way to call apply_along_axis.

    Attributes
    ----------
    name, group : str
        The group is a key of `SHARES`.
    build : callable ``build(rng, slices)``
        See `make`.
    vectorizes : bool
        Whether it should run without a loop.
    rtol : float
        How far results may be from NumPy's loop; 0 is bit by bit.
    needs : tuple of str
        Modules beyond NumPy: with none it is cheap to import.
    by_hand : callable ``by_hand(f, arr)``, optional
        What a careful user writes instead, for the array at once.
    loop : callable ``loop(f)``, optional
        What NumPy's loop gets where it cannot take `f` itself.
    state : callable ``state(f)``, optional
        What calls of `f` leave behind.
    """

    name: str
    group: str
    build: Callable[[np.random.Generator, int], Use]
    vectorizes: bool = True
    rtol: float = 0.0
    needs: tuple[str, ...] = ()
    by_hand: Callable[[Callable, np.ndarray], Any] | None = None
    loop: Callable[[Callable], Callable] | None = None
    state: Callable[[Callable], Any] | None = None

    def make(self, rng: np.random.Generator, slices: int = SLICES) -> Use:
        """A new ``f, axis, arr, args, kwargs`` with about so many slices, never fewer."""
        return self.build(rng, slices)


IDIOMS: list[Idiom] = []


def idiom(group: str, **settings: Any) -> Callable[[Callable], Callable]:
    """Register what follows; its name is the idiom's."""

    def register(build: Callable) -> Callable:
        IDIOMS.append(Idiom(build.__name__.strip("_"), group, build, **settings))
        return build

    return register


def use(f: Callable[..., Any], axis: int, arr: np.ndarray, *args: Any, **kwargs: Any) -> Use:
    """Arguments as apply_along_axis gets them."""
    return f, axis, arr, args, kwargs


def captured(f: Callable, name: str) -> Any:
    """A variable of the function around `f`."""
    return inspect.getclosurevars(f).nonlocals[name]


# --- inputs ---------------------------------------------------------------------------


def plane(slices: int) -> tuple[int, int]:
    """Height and width of an image with at least so many pixels."""
    height = max(1, math.isqrt(slices))
    return height, -(-slices // height)


def series(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Temperatures: (time, lat, lon), a season and noise, float32."""
    t = np.arange(shape[0]).reshape(-1, *(1 for _ in shape[1:]))
    season = 10 * np.sin(2 * np.pi * t / 365)
    return (15 + season + 3 * rng.standard_normal(shape)).astype(np.float32)


def holes(rng: np.random.Generator, x: np.ndarray, share: float = 0.1) -> np.ndarray:
    """`x` with missing values, none among the first slice's: that one fixes the result's dtype."""
    gone = rng.random(x.shape) < share
    gone[(slice(None), *(0 for _ in x.shape[1:]))] = False
    gone[0] = False
    x[gone] = np.nan
    return x


# --- what the functions below find in their module ------------------------------------

_constants = np.random.default_rng(7)

KERNEL = np.ones(7) / 7
SOBEL = np.array([1, 0, -1])
DAYS = np.arange(60)
YEARS = np.arange(1981, 2021)
TEMPLATE = np.sin(np.linspace(0, 4 * np.pi, 64))
WAVELENGTHS = np.linspace(400, 2500, 48)
COMMON_GRID = np.linspace(420, 2400, 64)
BINS = np.array([-1.5, -0.5, 0.5, 1.5])
VOTE_WEIGHTS = np.array([0.4, 0.3, 0.2, 0.05, 0.05])
TARGET = np.array([1, 0, 1, 1])
BOARD = (8, 8, 4)
STANDARDS = np.array([0.25, 0.5, 1.0, 2.0])

A = 0.3
CENTERS = _constants.standard_normal((5, 4))
ROTATION = np.linalg.qr(_constants.standard_normal((3, 3)))[0]
AFFINE = np.eye(4)
AFFINE[:3] += 0.1 * _constants.standard_normal((3, 4))
YUV = np.array([[0.299, 0.587, 0.114], [-0.147, -0.289, 0.436], [0.615, -0.515, -0.100]])
UNMIX = np.linalg.pinv(_constants.random((31, 4)))
MEAN = _constants.standard_normal(6)
PRECISION = np.cov(_constants.standard_normal((6, 50))) + np.eye(6)
POINT = np.array([1.0, -2.0, 0.5])
HOME = (52.52, 13.405)
W, B = _constants.standard_normal((4, 12)), _constants.standard_normal(4)
PERCEPTRON = _constants.standard_normal(8)
TRAPEZOID = np.array([0.5, *[1.0] * 22, 0.5])

PALETTE = {(0, 0, 0): 0, (128, 0, 0): 1, (0, 128, 0): 2, (128, 128, 0): 3, (0, 0, 128): 4}
CODES = {"A": 0, "C": 1, "G": 2, "T": 3}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# --- functions that have axis= themselves ---------------------------------------------


@idiom("axis", by_hand=lambda f, a: a.argmax(1))
def argmax(rng, n):
    """Probabilities to labels."""
    return use(np.argmax, 1, rng.random((n, 10)))


@idiom("axis")
def argsort(rng, n):
    return use(np.argsort, 1, rng.random((n, 20)))


@idiom("axis")
def sort(rng, n):
    return use(np.sort, 0, rng.standard_normal((30, n)).astype(np.float32))


@idiom("axis", by_hand=lambda f, a: np.median(a, axis=-1))
def median(rng, n):
    """A stack of microscope frames."""
    return use(np.median, -1, rng.integers(0, 256, (*plane(n), 15), np.uint8))


@idiom("axis", by_hand=lambda f, a: np.percentile(a, 95, axis=0))
def percentile(rng, n):
    return use(np.percentile, 0, series(rng, 30, *plane(n)), 95)


@idiom("axis")
def nanpercentile(rng, n):
    return use(np.nanpercentile, 0, holes(rng, series(rng, 24, *plane(n))), [25, 75])


@idiom("axis", rtol=1e-6)
def nanmean(rng, n):
    return use(np.nanmean, 0, holes(rng, series(rng, 12, *plane(n))))


@idiom("axis", rtol=1e-14, by_hand=lambda f, a: np.linalg.norm(a, axis=1))
def norm(rng, n):
    return use(np.linalg.norm, 1, rng.standard_normal((n, 3)))


@idiom("axis")
def norm_ord(rng, n):
    return use(np.linalg.norm, axis=1, arr=rng.standard_normal((n, 50)), ord=1)


@idiom("axis", rtol=1e-14)
def std_ddof(rng, n):
    return use(np.std, 1, rng.standard_normal((n, 30)), ddof=1)


@idiom("axis")
def cumsum(rng, n):
    return use(np.cumsum, 0, rng.integers(0, 5, (50, n)))


@idiom("axis")
def count_nonzero(rng, n):
    """Reads per gene."""
    return use(np.count_nonzero, 1, rng.poisson(0.4, (n, 40)))


@idiom("axis")
def spectrum(rng, n):
    return use(lambda v: np.abs(np.fft.rfft(v)), 1, rng.standard_normal((n, 64)))


@idiom("axis", needs=("scipy",))
def zscore(rng, n):
    from scipy import stats

    return use(stats.zscore, 1, rng.standard_normal((n, 40)))


@idiom("axis", needs=("scipy",))
def rankdata(rng, n):
    from scipy.stats import rankdata

    return use(rankdata, 1, rng.integers(0, 30, (n, 12)))


@idiom("axis", needs=("scipy",))
def mode(rng, n):
    from scipy import stats

    return use(lambda x: stats.mode(x)[0], 0, rng.integers(0, 4, (9, n)))


@idiom("axis", rtol=1e-12, needs=("scipy",))
def special_softmax(rng, n):
    from scipy.special import softmax

    return use(softmax, 1, rng.standard_normal((n, 10)))


@idiom("axis", rtol=1e-10, needs=("scipy",))
def detrend(rng, n):
    """Of the BOLD signal of every voxel."""
    from scipy.signal import detrend

    return use(detrend, -1, rng.standard_normal((*plane(n), 60)))


@idiom("axis", needs=("scipy",))
def gaussian_filter1d(rng, n):
    from scipy.ndimage import gaussian_filter1d

    return use(gaussian_filter1d, 0, series(rng, 60, n), 2.0)


# --- functions for one dimension only -------------------------------------------------


@idiom("no axis", rtol=1e-12)
def convolve_same(rng, n):
    """The answer on Stack Overflow."""
    return use(lambda m: np.convolve(m, KERNEL, mode="same"), 0, rng.standard_normal((120, n)))


@idiom("no axis")
def convolve_full(rng, n):
    def derivative(row):
        return np.convolve(row, SOBEL)

    return use(derivative, 1, rng.integers(0, 256, (n, 32)))


@idiom("no axis", rtol=1e-12)
def moving_average(rng, n):
    def moving_average(x, w):
        return np.convolve(x, np.ones(w), "valid") / w

    return use(moving_average, 1, 100 + rng.standard_normal((n, 60)).cumsum(1), 5)


def _votes(f, a):
    return (a[None] == np.arange(6).reshape(-1, 1, 1)).sum(1).argmax(0)


@idiom("no axis", by_hand=_votes)
def vote(rng, n):
    """Of eleven classifiers."""
    return use(lambda x: np.bincount(x).argmax(), 0, rng.integers(0, 6, (11, n)))


@idiom("no axis")
def weighted_vote(rng, n):
    """As scikit-learn's VotingClassifier has it."""
    votes = rng.integers(0, 4, (n, 5))
    return use(lambda x: np.argmax(np.bincount(x, weights=VOTE_WEIGHTS)), 1, votes)


@idiom("no axis")
def bincount_minlength(rng, n):
    return use(np.bincount, 1, rng.integers(0, 10, (n, 25)), minlength=10)


@idiom("no axis")
def frequencies(rng, n):
    """Of the nucleotides in each column of an alignment."""
    sites = rng.integers(0, 4, (30, n))
    return use(lambda col: np.bincount(col, minlength=4) / len(col), 0, sites)


@idiom("no axis", rtol=1e-13)
def interp(rng, n):
    """Spectra to a common grid."""
    cube = rng.random((*plane(n), 48))
    return use(lambda v: np.interp(COMMON_GRID, WAVELENGTHS, v), 2, cube)


@idiom("no axis")
def histogram_range(rng, n):
    def hist(v):
        return np.histogram(v, bins=16, range=(0, 256))[0]

    return use(hist, 1, rng.integers(0, 256, (n, 64), np.uint8))


@idiom("no axis")
def histogram_entropy(rng, n):
    def entropy(v):
        counts, _ = np.histogram(v, bins=10)
        p = counts / counts.sum()
        return -np.sum(p * np.log2(p + 1e-12))

    return use(entropy, 1, rng.standard_normal((n, 50)))


@idiom("no axis")
def unique_len(rng, n):
    return use(lambda v: len(np.unique(v)), 1, rng.integers(0, 12, (n, 16)))


@idiom("no axis")
def unique_mode(rng, n):
    def most_frequent(v):
        values, counts = np.unique(v, return_counts=True)
        return values[np.argmax(counts)]

    return use(most_frequent, 1, rng.integers(-3, 4, (n, 15)))


@idiom("no axis")
def searchsorted(rng, n):
    """How many components explain most of the variance."""
    shares = np.sort(rng.random((n, 20)), 1)[:, ::-1]
    shares /= shares.sum(1, keepdims=True)
    return use(lambda v: np.searchsorted(np.cumsum(v), 0.9), 1, shares)


@idiom("no axis")
def digitize(rng, n):
    return use(lambda v: np.digitize(v, BINS), 1, rng.standard_normal((n, 12)))


def _slopes(f, a):
    return np.polyfit(YEARS, a.reshape(len(a), -1), 1)[0].reshape(a.shape[1:])


@idiom("no axis", rtol=1e-8, by_hand=_slopes)
def polyfit(rng, n):
    """The trend of a climate grid."""
    grid = series(rng, 40, *plane(n)) + 0.02 * DAYS[:40, None, None]
    return use(lambda y: np.polyfit(YEARS, y, 1)[0], 0, grid)


@idiom("no axis", rtol=1e-9, needs=("scipy",))
def linregress(rng, n):
    from scipy import stats

    data = 0.1 * DAYS + rng.standard_normal((n, 60))
    return use(lambda y: stats.linregress(DAYS, y).slope, 1, data)


def _template(f, a):
    d, t = a - a.mean(1, keepdims=True), TEMPLATE - TEMPLATE.mean()
    return d @ t / np.sqrt((d**2).sum(1) * (t @ t))


@idiom("no axis", rtol=1e-10, by_hand=_template)
def corrcoef(rng, n):
    noisy = TEMPLATE + rng.standard_normal((n, 64))
    return use(lambda v: np.corrcoef(v, TEMPLATE)[0, 1], 1, noisy)


@idiom("no axis", by_hand=lambda f, a: a[:, None] * np.eye(4))
def diag(rng, n):
    return use(np.diag, 1, rng.random((n, 4)))


@idiom("no axis", by_hand=lambda f, a: a[:, :, None] * a[:, None])
def outer(rng, n):
    return use(lambda v: np.outer(v, v), 1, rng.standard_normal((n, 5)))


@idiom("no axis")
def kron(rng, n):
    """Pixels twice as large."""
    return use(lambda v: np.kron(v, [1, 1]), 1, rng.integers(0, 256, (n, 16), np.uint8))


@idiom("no axis", rtol=1e-10, needs=("scipy",))
def savgol(rng, n):
    from scipy.signal import savgol_filter

    return use(lambda v: savgol_filter(v, 11, 3), -1, rng.random((n, 46)))


@idiom("no axis")
def array_equal(rng, n):
    rows = rng.integers(0, 2, (n, 4))
    return use(lambda row: np.array_equal(row, TARGET), 1, rows)


@idiom("no axis")
def ravel_multi_index(rng, n):
    moves = np.stack([rng.integers(0, k, n) for k in BOARD], 1)
    return use(lambda x: np.ravel_multi_index(x, BOARD), 1, moves)


# --- arithmetic and reductions --------------------------------------------------------


def _standard(f, a):
    return (a - a.mean(1, keepdims=True)) / a.std(1, keepdims=True)


@idiom("arithmetic", rtol=1e-14, by_hand=_standard)
def standardize(rng, n):
    return use(lambda v: (v - v.mean()) / v.std(), 1, rng.standard_normal((n, 30)))


@idiom("arithmetic")
def minmax(rng, n):
    def normalize(x):
        xp = xpapply.get_array_module(x)
        return (x - xp.min(x)) / (xp.max(x) - xp.min(x))

    return use(normalize, axis=0, arr=rng.random((48, n)).astype(np.float32))


def _softmax(f, a):
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@idiom("arithmetic", rtol=1e-14, by_hand=_softmax)
def softmax(rng, n):
    def softmax(x):
        e = np.exp(x - np.max(x))
        return e / e.sum(axis=0)

    return use(softmax, 1, rng.standard_normal((n, 10)))


@idiom("arithmetic", rtol=1e-12, by_hand=lambda f, a: sigmoid(a @ W.T + B))
def dense_layer(rng, n):
    return use(lambda v: sigmoid(W @ v + B), 1, rng.standard_normal((n, 12)))


@idiom("arithmetic", rtol=1e-13)
def quaternion(rng, n):
    def to_matrix(q):
        w, x, y, z = q / np.linalg.norm(q)
        return [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]

    return use(to_matrix, 1, rng.standard_normal((n, 4)))


def _grey(f, a):
    return 0.299 * a[..., 0] + 0.587 * a[..., 1] + 0.114 * a[..., 2]


@idiom("arithmetic", by_hand=_grey)
def grey(rng, n):
    image = rng.integers(0, 256, (*plane(n), 3), np.uint8)
    return use(lambda p: 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2], 2, image)


@idiom("arithmetic")
def rgb_unpack(rng, n):
    def luma(pixel):
        r, g, b = pixel
        return (2 * r + 5 * g + b) / 8.0

    return use(luma, 2, rng.integers(0, 256, (*plane(n), 3)))


@idiom("arithmetic", rtol=1e-12, by_hand=lambda f, a: a @ ROTATION.T)
def rotate(rng, n):
    return use(ROTATION.dot, 1, rng.standard_normal((n, 3)))


@idiom("arithmetic", rtol=1e-12)
def affine(rng, n):
    """Voxels to millimetres."""
    return use(lambda p: (AFFINE @ np.append(p, 1))[:3], 1, rng.integers(0, 200, (n, 3)))


@idiom("arithmetic", rtol=1e-12)
def yuv(rng, n):
    def to_yuv(v):
        xp = xpapply.get_array_module(v)
        return xp.dot(xp.asarray(YUV), v / 255.0)

    return use(to_yuv, -1, rng.integers(0, 256, (*plane(n), 3), np.uint8))


@idiom("arithmetic", rtol=1e-12)
def unmix(rng, n):
    """Abundances in a hyperspectral pixel, made to add up to one."""

    def unmix(spectrum):
        x = np.maximum(np.dot(UNMIX, spectrum), 1e-9)
        x /= x.sum()
        return x

    return use(unmix, 2, rng.random((*plane(n), 31)))


@idiom("arithmetic", rtol=1e-14)
def spherical(rng, n):
    def to_spherical(p):
        x, y, z = p
        r = np.sqrt(x**2 + y**2 + z**2)
        return np.array([r, np.arccos(z / r), np.arctan2(y, x)])

    return use(to_spherical, 1, rng.standard_normal((n, 3)))


@idiom("arithmetic", rtol=1e-12)
def haversine(rng, n):
    def haversine(place):
        lat, lon = place[0], place[1]
        dlat, dlon = radians(lat - HOME[0]), radians(lon - HOME[1])
        h = sin(dlat / 2) ** 2 + cos(radians(HOME[0])) * cos(radians(lat)) * sin(dlon / 2) ** 2
        return 2 * 6371 * asin(sqrt(h))

    return use(haversine, 1, rng.uniform((-80, -180), (80, 180), (n, 2)))


@idiom("arithmetic", by_hand=lambda f, a: np.sqrt(((a - POINT) ** 2).sum(1)))
def distance(rng, n):
    return use(lambda p: np.sqrt(np.sum((p - POINT) ** 2)), 1, rng.standard_normal((n, 3)))


@idiom("arithmetic", rtol=1e-11)
def mahalanobis(rng, n):
    def mahalanobis(x):
        d = x - MEAN
        return np.sqrt(d @ PRECISION @ d)

    return use(mahalanobis, 1, rng.standard_normal((n, 6)))


@idiom("arithmetic")
def nearest(rng, n):
    """The assignment step of k-means."""
    points = rng.standard_normal((n, 4))
    return use(lambda p: np.argmin(np.linalg.norm(CENTERS - p, axis=1)), 1, points)


@idiom("arithmetic", rtol=1e-12)
def feedforward(rng, n):
    class Network:
        def __init__(self, sizes):
            pairs = list(pairwise(sizes))
            self.weights = [rng.standard_normal((y, x)) for x, y in pairs]
            self.biases = [rng.standard_normal(y) for y in sizes[1:]]

        def feedforward(self, a):
            for w, b in zip(self.weights, self.biases, strict=True):
                a = sigmoid(np.dot(w, a) + b)
            return a

    net = Network([8, 16, 3])
    return use(net.feedforward, 1, rng.standard_normal((n, 8)))


@idiom("arithmetic")
def sum_of_squares(rng, n):
    return use(lambda v: math.sqrt(sum(x * x for x in v)), 1, rng.standard_normal((n, 5)))


@idiom("arithmetic")
def builtin_range(rng, n):
    return use(lambda v: max(v) - min(v), 1, rng.standard_normal((n, 8)))


@idiom("arithmetic")
def comprehension(rng, n):
    return use(lambda v: [x / (i + 1) for i, x in enumerate(v)], 1, rng.random((n, 6)))


@idiom("arithmetic")
def polynomial_features(rng, n):
    def features(p):
        x, y = p
        return np.array([1, x, y, x * x, x * y, y * y])

    return use(features, 1, rng.standard_normal((n, 2)))


@idiom("arithmetic")
def smoothing(rng, n):
    def exponential(v, alpha=0.3):
        out = np.zeros(len(v))
        out[0] = v[0]
        for i in range(1, len(v)):
            out[i] = alpha * v[i] + (1 - alpha) * out[i - 1]
        return out

    return use(exponential, 1, 100 + rng.standard_normal((n, 20)).cumsum(1))


@idiom("arithmetic", rtol=1e-15)
def log_returns(rng, n):
    def returns(price):
        out = np.zeros_like(price)
        out[1:] = np.log(price[1:] / price[:-1])
        return out

    return use(returns, 0, np.exp(0.01 * rng.standard_normal((60, n)).cumsum(0)))


@idiom("arithmetic")
def drawdown(rng, n):
    prices = np.exp(0.01 * rng.standard_normal((n, 90)).cumsum(1))
    return use(lambda p: np.max(1 - p / np.maximum.accumulate(p)), 1, prices)


@idiom("arithmetic")
def ndvi(rng, n):
    def ndvi(v):
        return (v[7] - v[3]) / (v[7] + v[3])

    return use(ndvi, 0, rng.random((13, *plane(n))).astype(np.float32) + np.float32(0.01))


@idiom("arithmetic", rtol=1e-12)
def fft_recursion(rng, n):
    """Recursion as deep as the slice's length says."""

    def fft(x):
        k = len(x)
        if k == 1:
            return x
        even, odd = fft(x[::2]), fft(x[1::2])
        turn = np.exp(-2j * np.pi * np.arange(k) / k)
        left = even + turn[: k // 2] * odd
        return np.concatenate([left, even + turn[k // 2 :] * odd])

    return use(fft, 1, rng.standard_normal((n, 8)))


@idiom("arithmetic", rtol=1e-10)
def diffusion_tensor(rng, n):
    """Fractional anisotropy from six numbers of a voxel."""

    def anisotropy(d):
        tensor = np.array([[d[0], d[1], d[2]], [d[1], d[3], d[4]], [d[2], d[4], d[5]]])
        e = np.linalg.eigvalsh(tensor)
        return np.sqrt(1.5 * ((e - e.mean()) ** 2).sum() / (e**2).sum())

    return use(anisotropy, -1, rng.standard_normal((*plane(n), 6)))


# --- branches on the data, masks ------------------------------------------------------


@idiom("branches")
def normalize_unless_zero(rng, n):
    def normalize(v):
        if v.sum() == 0:
            return v
        return v / v.sum()

    counts = rng.poisson(0.5, (n, 6)).astype(float)
    return use(normalize, 1, counts)


def _positive(f, a):
    good = a > 0
    return np.where(good, a, 0).sum(1) / good.sum(1)


@idiom("branches", rtol=1e-13, by_hand=_positive)
def mean_of_positive(rng, n):
    return use(lambda v: v[v > 0].mean(), 1, rng.standard_normal((n, 40)))


@idiom("branches", rtol=1e-13)
def variance_without_nan(rng, n):
    data = holes(rng, rng.standard_normal((20, n)))
    return use(lambda v: np.var(v[~np.isnan(v)]), 0, data)


@idiom("branches")
def count_above(rng, n):
    return use(lambda v: len(v[v > 25]), 0, series(rng, 90, *plane(n)))


@idiom("branches", rtol=1e-6)
def nanmean_or_zero(rng, n):
    grid = holes(rng, series(rng, 12, n))
    grid[:, rng.random(n) < 0.3] = np.nan  # the sea
    grid[:, 0] = 1
    return use(lambda v: 0.0 if np.isnan(v).all() else np.nanmean(v), 0, grid)


@idiom("branches", rtol=1e-13)
def fill_by_interp(rng, n):
    def fill(y):
        y = y.copy()
        gone = np.isnan(y)
        if gone.any():
            i = np.arange(len(y))
            y[gone] = np.interp(i[gone], i[~gone], y[~gone])
        return y

    return use(fill, 0, holes(rng, rng.standard_normal((24, n))))


@idiom("branches", vectorizes=False, by_hand=lambda f, a: np.nan_to_num(a))
def nan_to_zero_in_place(rng, n):
    """It writes into the user's array."""

    def clean(v):
        v[np.isnan(v)] = 0
        return v

    return use(clean, 1, holes(rng, rng.standard_normal((n, 10))))


@idiom("branches", by_hand=lambda f, a: np.where((a > 0.8).any(1), (a > 0.8).argmax(1), -1))
def first_above(rng, n):
    def onset(v, threshold=0.8):
        where = np.where(v > threshold)[0]
        return where[0] if len(where) else -1

    return use(onset, 1, rng.random((n, 12)))


@idiom("branches", rtol=1e-14)
def clamp(rng, n):
    def score(v):
        s = np.mean(v) * 2
        if s > 1.0:
            return 1.0
        elif s < 0.0:
            return 0.0
        return s

    return use(score, 1, rng.standard_normal((n, 9)))


@idiom("branches", by_hand=lambda f, a: np.where(a @ PERCEPTRON + 0.1 > 0, 1, -1))
def perceptron(rng, n):
    def predict(x):
        return 1 if np.dot(PERCEPTRON, x) + 0.1 > 0 else -1

    return use(predict, 1, rng.standard_normal((n, 8)))


@idiom("branches")
def winner(rng, n):
    """Rows of a board."""

    def winner(row):
        if np.all(row == 1):
            return 1
        if np.all(row == 2):
            return 2
        return 0

    return use(winner, -1, rng.integers(0, 3, (n, 3)))


@idiom("branches")
def try_except(rng, n):
    """A sample's peak, or where it has none to show, -1."""

    def peak(v):
        try:
            return np.nanargmax(v)
        except ValueError:
            return -1

    spectra = holes(rng, rng.random((16, n)))
    spectra[:, 1 + rng.integers(0, n - 1, n // 20)] = np.nan
    return use(peak, 0, spectra)


@idiom("branches", rtol=1e-8)
def trend_with_gaps(rng, n):
    """A fit through what there is: of another length in every slice."""

    def trend(y):
        good = np.isfinite(y)
        if good.sum() < 5:
            return np.nan
        return np.polyfit(YEARS[good], y[good], 1)[0]

    grid = holes(rng, rng.standard_normal((40, n)), 0.3)
    grid[:, 1 + rng.integers(0, n - 1, n // 20)] = np.nan
    return use(trend, 0, grid)


# --- models ---------------------------------------------------------------------------


def _torch_net(rng, *widths):
    """Weights from `rng`, so that torch's own generator stays as it is."""
    import torch

    layers = []
    for inputs, outputs in pairwise(widths):
        layers += [torch.nn.utils.skip_init(torch.nn.Linear, inputs, outputs), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for p in net.parameters():
            scale = p.shape[-1] ** -0.5
            p.copy_(torch.from_numpy(scale * rng.standard_normal(tuple(p.shape))))
    return net.eval()


def _tensor_in_tensor_out(f, a):
    import torch

    with torch.no_grad():
        return captured(f, "net")(torch.from_numpy(a).float()).numpy()


def _rows_at_once(f, a):
    return captured(f, "est").predict(a)


@idiom("models", rtol=1e-5, needs=("torch",), by_hand=_tensor_in_tensor_out)
def torch_lambda(rng, n):
    import torch

    net = _torch_net(rng, 12, 32, 2)
    data = rng.standard_normal((n, 12))
    return use(lambda v: net(torch.from_numpy(v).float()).detach().numpy(), 1, data)


@idiom("models", rtol=1e-5, needs=("torch",))
def torch_unsqueeze(rng, n):
    import torch

    net = _torch_net(rng, 7, 24, 24, 3)

    def infer(voxel):
        with torch.no_grad():
            x = torch.tensor(voxel, dtype=torch.float32).unsqueeze(0)
            return net(x).squeeze(0).numpy()

    return use(infer, -1, rng.random((*plane(n), 7)))


@idiom("models", needs=("torch",))
def torch_argmax(rng, n):
    """A policy picks its action."""
    import torch

    net = _torch_net(rng, 4, 32, 3)

    @torch.no_grad()
    def act(state):
        return net(torch.as_tensor(state)).argmax().item()

    return use(act, 1, rng.standard_normal((n, 4)).astype(np.float32))


@idiom("models", rtol=1e-5, needs=("torch",))
def torch_item(rng, n):
    import torch

    net = _torch_net(rng, 16, 16, 1)

    def value(v):
        out = net(torch.FloatTensor(v))
        return torch.sigmoid(out).item()

    return use(value, 1, rng.standard_normal((n, 16)))


def _through_torch(net):
    """NumPy's loop hands out arrays, which torch's modules refuse."""
    import torch

    return lambda v: net(torch.from_numpy(v)).detach().numpy()


@idiom("models", rtol=1e-5, needs=("torch",), loop=_through_torch)
def torch_bare(rng, n):
    net = _torch_net(rng, 10, 32, 4)
    return use(net, 1, rng.standard_normal((n, 10)).astype(np.float32))


@idiom("models", rtol=1e-12, needs=("sklearn",), by_hand=_rows_at_once)
def sklearn_predict(rng, n):
    from sklearn.linear_model import LinearRegression

    x = rng.standard_normal((200, 6))
    est = LinearRegression().fit(x, x @ np.arange(6.0) + rng.standard_normal(200))
    return use(lambda v: est.predict(v.reshape(1, -1))[0], 1, rng.standard_normal((n, 6)))


@idiom("models", rtol=1e-9, needs=("sklearn",))
def sklearn_proba(rng, n):
    from sklearn.linear_model import LogisticRegression

    x = rng.standard_normal((200, 5))
    clf = LogisticRegression().fit(x, x[:, 0] + x[:, 1] > 0)
    return use(lambda v: clf.predict_proba([v])[0, 1], 1, rng.standard_normal((n, 5)))


@idiom("models", needs=("sklearn",), by_hand=_rows_at_once)
def sklearn_tree(rng, n):
    from sklearn.tree import DecisionTreeClassifier

    x = rng.random((300, 8))
    est = DecisionTreeClassifier(max_depth=5, random_state=0).fit(x, (x[:, 0] * 4).astype(int))
    pixels = rng.random((n, 8))

    def classify(v):
        return est.predict(v.reshape(1, -1))[0]

    return use(classify, 1, pixels)


@idiom("models", rtol=1e-12)
def handwritten_network(rng, n):
    """Genes of a population of agents, layers as objects."""

    class Layer:
        def __init__(self, inputs, outputs):
            self.w = rng.standard_normal((inputs, outputs))
            self.b = np.zeros(outputs)

        def __call__(self, x):
            return np.tanh(np.dot(x, self.w) + self.b)

    class Brain:
        def __init__(self, *sizes):
            self.layers = [Layer(a, b) for a, b in pairwise(sizes)]

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    return use(Brain(6, 10, 2), 1, rng.standard_normal((n, 6)))


# --- strings and objects --------------------------------------------------------------


@idiom("strings", vectorizes=False)
def join_digits(rng, n):
    return use(lambda v: "".join(map(str, v)), 1, rng.integers(0, 10, (n, 8)))


@idiom("strings", vectorizes=False)
def join_words(rng, n):
    words = np.array(["one", "two", "six", "ten"])
    return use(" ".join, 1, rng.choice(words, (n, 5)))


@idiom("strings", vectorizes=False)
def hex_color(rng, n):
    image = rng.integers(0, 256, (*plane(n), 3), np.uint8)
    return use(lambda p: "#{:02x}{:02x}{:02x}".format(*p), 2, image)


@idiom("strings", vectorizes=False)
def palette_lookup(rng, n):
    """Colours of a mask to its classes."""
    colors = np.array(list(PALETTE), np.uint8)
    mask = colors[rng.integers(0, len(colors), plane(n))]
    return use(lambda p: PALETTE[tuple(p)], 2, mask)


@idiom("strings", vectorizes=False)
def encode_bases(rng, n):
    reads = rng.choice(np.array(list("ACGT")), (n, 8))
    return use(lambda read: [CODES[base] for base in read], 1, reads)


@idiom("strings", vectorizes=False)
def object_rows(rng, n):
    """Rows of a table, as pandas hands them out."""
    rows = np.empty((n, 3), object)
    rows[:, 0] = rng.choice(["Anna", "Bert", "Cleo"], n)
    rows[:, 1] = rng.integers(10, 100, n)
    rows[:, 2] = rng.random(n)
    return use(lambda row: f"{row[0]} ({row[1]}): {row[2]:.2f}", 1, rows)


# --- chance and state -----------------------------------------------------------------


@idiom("random", vectorizes=False)
def random_choice(rng, n):
    """Words drawn from a language model."""
    p = rng.random((n, 6))
    p /= p.sum(1, keepdims=True)
    return use(lambda row: np.random.choice(len(row), p=row), 1, p)


@idiom("random", vectorizes=False)
def shuffled_dropout(rng, n):
    def spoil(v):
        np.random.shuffle(v)  # the user's array, in place
        return v if random.random() < 0.9 else np.zeros_like(v)

    return use(spoil, 1, rng.standard_normal((n, 6)))


@idiom(
    "random",
    vectorizes=False,
    state=lambda f: (captured(f, "calls"), list(captured(f, "maxima"))),
)
def counts_calls(rng, n):
    calls, maxima = 0, []

    def note(v):
        nonlocal calls
        calls += 1
        maxima.append(v.max())
        return v / calls

    return use(note, 1, rng.random((n, 5)))


# --- what nothing can look into -------------------------------------------------------


@idiom("opaque", vectorizes=False)
def crc32(rng, n):
    import zlib

    return use(lambda v: zlib.crc32(v.tobytes()), 1, rng.integers(0, 256, (n, 16), np.uint8))


@idiom("opaque", vectorizes=False)
def md5(rng, n):
    import hashlib

    rows = rng.integers(0, 100, (n, 4))
    return use(lambda v: hashlib.md5(v.tobytes()).hexdigest(), 1, rows)


@idiom("opaque", vectorizes=False)
def struct_unpack(rng, n):
    import struct

    packets = rng.integers(0, 256, (n, 8), np.uint8)
    return use(lambda v: struct.unpack("<hHI", v.tobytes()), 1, packets)


@idiom("opaque", vectorizes=False, needs=("scipy",))
def curve_fit(rng, n):
    """T2 of a voxel from its echoes."""
    from scipy.optimize import curve_fit

    te = np.linspace(0.01, 0.1, 8)

    def decay(t, s0, r2):
        return s0 * np.exp(-t * r2)

    def fit(signal):
        try:
            return curve_fit(decay, te, signal, p0=(1.0, 20.0), maxfev=200)[0]
        except RuntimeError:
            return np.zeros(2)

    signal = decay(te, 1.0, rng.uniform(10, 40, (n, 1))) + 0.01 * rng.standard_normal((n, 8))
    return use(fit, 1, signal)


@idiom("opaque", vectorizes=False, needs=("scipy",))
def minimize_scalar(rng, n):
    from scipy.optimize import minimize_scalar

    def shift(v):
        cost = lambda c: np.sum(np.abs(v - c) ** 1.5)  # noqa: E731
        return minimize_scalar(cost, bounds=(-3, 3), method="bounded").x

    return use(shift, 1, rng.standard_normal((n, 10)))


@idiom("opaque")
def slide_2048(rng, n):
    """A move in the game 2048."""

    def slide(row):
        tiles, out = [x for x in row if x != 0], []
        while tiles:
            if len(tiles) > 1 and tiles[0] == tiles[1]:
                out.append(2 * tiles.pop(0))
            else:
                out.append(tiles[0])
            tiles.pop(0)
        return np.array(out + [0] * (len(row) - len(out)))

    return use(slide, 1, rng.choice([0, 2, 4, 8], (n, 4)))


@idiom("opaque", rtol=1e-12)
def newton_while(rng, n):
    """The rate of return of a cash flow."""

    def irr(cash):
        rate, change = 0.1, 1.0
        while abs(change) > 1e-9:
            value = sum(c / (1 + rate) ** t for t, c in enumerate(cash))
            slope = sum(-t * c / (1 + rate) ** (t + 1) for t, c in enumerate(cash))
            change = value / slope
            rate -= change
        return rate

    cash = rng.uniform(25, 40, (n, 5))
    cash[:, 0] = -100
    return use(irr, 1, cash)


@idiom("opaque")
def gcd_recursion(rng, n):
    def gcd(a, b):
        return a if b == 0 else gcd(b, a % b)

    return use(lambda v: gcd(v[0], v[1]), 1, rng.integers(1, 500, (n, 2)))


@idiom("opaque")
def statistics_median(rng, n):
    import statistics

    return use(statistics.median_low, 1, rng.integers(0, 50, (n, 8)))


@idiom("opaque", vectorizes=False)
def counter(rng, n):
    return use(lambda v: Counter(v).most_common(1)[0][0], 0, rng.integers(0, 5, (9, n)))


@idiom("opaque")
def longest_run(rng, n):
    """Of dry days."""

    def longest(v):
        return max((len(list(g)) for dry, g in groupby(v < 1.0) if dry), default=0)

    return use(longest, 0, rng.exponential(3.0, (30, *plane(n))))


@idiom("opaque", vectorizes=False, needs=("scipy",))
def find_peaks(rng, n):
    from scipy.signal import find_peaks

    return use(lambda v: len(find_peaks(v, height=1.0)[0]), 1, rng.standard_normal((n, 50)))


def main() -> None:
    for group in SHARES:
        names = [i.name + ("" if i.vectorizes else "*") for i in IDIOMS if i.group == group]
        share = 100 * len(names) / len(IDIOMS)
        print(f"{group}: {len(names)}, {share:.1f} %\n  {', '.join(names)}")
    print(f"{len(IDIOMS)} in all; * runs in the loop")


if __name__ == "__main__":
    main()
