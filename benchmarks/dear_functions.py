"""Functions of slices that have been dearer than NumPy's loop once, or look as if they could be.

Loops and tables written out in Python, classes and objects made inside, texts, containers, what
raises for some, decisions by the last bit, functions that call vectorize or another library.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import fractions
import functools
import heapq
import itertools
import json
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from .idioms import Idiom, _through_torch, use
from .scalar_functions import Entry

ROWS: list[Idiom | Entry] = []


def along(*needs: str, **more: Any) -> Callable[[Callable], Callable]:
    """Register a builder of a call of apply_along_axis, as those of `idioms` are."""

    def register(build: Callable) -> Callable:
        ROWS.append(Idiom(build.__name__, "once dearer", build, needs=needs, **more))
        return build

    return register


def _rows(rng: np.random.Generator, n: int, length: int) -> np.ndarray:
    return rng.standard_normal((n, length))


def _digits(rng: np.random.Generator, n: int, length: int, top: int = 10) -> np.ndarray:
    return rng.integers(0, top, (n, length))


# --- loops and tables in Python -------------------------------------------------------


@along()
def insertion_sort(rng, n):
    def f(v):
        a = list(v)
        for i in range(1, len(a)):
            key, j = a[i], i - 1
            while j >= 0 and a[j] > key:
                a[j + 1] = a[j]
                j -= 1
            a[j + 1] = key
        return np.array(a)

    return use(f, 1, _rows(rng, n, 12))


@along()
def bubble_sort(rng, n):
    def f(v):
        a = v.copy()
        for i in range(len(a)):
            for j in range(len(a) - 1 - i):
                if a[j] > a[j + 1]:
                    a[j], a[j + 1] = a[j + 1], a[j]
        return a

    return use(f, 1, _rows(rng, n, 9))


@along()
def edit_distance(rng, n):
    word = [1, 0, 2, 2, 1, 3]

    def f(v):
        line = list(range(len(word) + 1))
        for i, a in enumerate(v, 1):
            last, line[0] = line[0], i
            for j, b in enumerate(word, 1):
                last, line[j] = line[j], min(line[j] + 1, line[j - 1] + 1, last + (a != b))
        return line[-1]

    return use(f, 1, _digits(rng, n, 8, 4))


@along()
def common_subsequence(rng, n):
    def f(v):
        a, b = v[:7], v[7:]
        table = np.zeros((8, 8), int)
        for i in range(7):
            for j in range(7):
                if a[i] == b[j]:
                    table[i + 1, j + 1] = table[i, j] + 1
                else:
                    table[i + 1, j + 1] = max(table[i, j + 1], table[i + 1, j])
        return table[7, 7]

    return use(f, 1, _digits(rng, n, 14, 4))


@along()
def pairs_by_sign(rng, n):
    def f(v):
        s = 0
        for i in range(len(v) - 1):
            for j in range(i + 1, len(v)):
                s += np.sign(v[j] - v[i])
        return s

    return use(f, 0, rng.standard_normal((20, n)))


@along()
def sieve(rng, n):
    def f(v):
        limit = int(v[0])
        prime = [True] * (limit + 1)
        for p in range(2, int(limit**0.5) + 1):
            if prime[p]:
                for k in range(p * p, limit + 1, p):
                    prime[k] = False
        return sum(prime[2:])

    return use(f, 1, rng.integers(20, 60, (n, 2)))


@along()
def gcd_of_rows(rng, n):
    return use(lambda v: functools.reduce(math.gcd, v.tolist()), 1, rng.integers(1, 500, (n, 4)))


@along()
def gcd_while(rng, n):
    def f(v):
        a, b = v
        while b:
            a, b = b, a % b
        return a

    return use(f, 1, rng.integers(1, 400, (n, 2)))


@along()
def threshold_walk(rng, n):
    def f(v):
        state, changes = 0, 0
        for x in v:
            if state == 0 and x > 1:
                state, changes = 1, changes + 1
            elif state == 1 and x < -1:
                state, changes = 0, changes + 1
        return changes

    return use(f, 1, _rows(rng, n, 40))


@along()
def clamped_walk(rng, n):
    def f(v):
        t = 0.0
        for x in v:
            t = min(max(t + x, -2.0), 2.0)
        return t

    return use(f, 1, _rows(rng, n, 25))


@along()
def recursive_determinant(rng, n):
    def determinant(m):
        if len(m) == 1:
            return m[0][0]
        minors = ([row[:j] + row[j + 1 :] for row in m[1:]] for j in range(len(m)))
        return sum((-1) ** j * m[0][j] * determinant(minor) for j, minor in enumerate(minors))

    return use(lambda v: determinant(v.reshape(3, 3).tolist()), 1, _rows(rng, n, 9))


@along()
def life_of_cells(rng, n):
    def f(v):
        for _ in range(4):
            v = np.array([int(v[i - 1] ^ v[(i + 1) % len(v)]) for i in range(len(v))])
        return v

    return use(f, 1, _digits(rng, n, 10, 2))


@along()
def half_split(rng, n):
    def f(v):
        low, high = 0, len(v)
        while low < high:
            middle = (low + high) // 2
            if v[middle] < 0.5:
                low = middle + 1
            else:
                high = middle
        return low

    return use(f, 1, np.sort(rng.random((n, 16)), 1))


# --- objects and containers -----------------------------------------------------------


@along()
def class_inside(rng, n):
    def f(v):
        class Range:
            def __init__(self, low, high):
                self.low, self.high = low, high

            def width(self):
                return self.high - self.low

        return Range(v.min(), v.max()).width()

    return use(f, 1, _rows(rng, n, 8))


@along()
def dataclass_inside(rng, n):
    @dataclasses.dataclass
    class Point:
        x: float
        y: float

        def length(self):
            return math.hypot(self.x, self.y)

    return use(lambda v: Point(float(v[0]), float(v[1])).length(), 1, _rows(rng, n, 2))


@along()
def dict_of_row(rng, n):
    names = {0: 5.0, 1: 1.5, 2: 9.0, 7: 2.0}
    return use(
        lambda v: names.get(int(v[0]), 0.0) + names.get(int(v[1]), 1.0), 1, _digits(rng, n, 2)
    )


@along()
def dict_get_in_loop(rng, n):
    names = {(a, b): 0.5 * a - b for a in range(4) for b in range(4)}

    def f(v):
        return sum(names.get((a, b), -1.0) for a, b in itertools.pairwise(v.tolist()))

    return use(f, 1, _digits(rng, n, 6, 5))


@along()
def counted_in_dict(rng, n):
    def f(v):
        counts = {}
        for x in v.tolist():
            counts[x] = counts.get(x, 0) + 1
        return max(counts.values())

    return use(f, 1, _digits(rng, n, 10, 5))


@along()
def grouped_in_defaultdict(rng, n):
    def f(v):
        groups = collections.defaultdict(list)
        for k, x in enumerate(v):
            groups[int(x)].append(k)
        return max(len(g) for g in groups.values())

    return use(f, 1, _digits(rng, n, 8, 4))


@along()
def distinct(rng, n):
    return use(lambda v: len(set(v.tolist())), 1, _digits(rng, n, 9))


@along()
def largest_of_heap(rng, n):
    return use(lambda v: sum(heapq.nlargest(3, v)), 1, _rows(rng, n, 10))


@along()
def ring_of_deque(rng, n):
    def f(v):
        last = collections.deque(maxlen=3)
        best = -math.inf
        for x in v:
            last.append(x)
            best = max(best, sum(last))
        return best

    return use(f, 1, _rows(rng, n, 12))


@along()
def place_by_bisect(rng, n):
    grid = [-1.0, -0.2, 0.1, 0.9, 2.0]
    return use(lambda v: bisect.bisect(grid, v[0]) + bisect.bisect(grid, v[1]), 1, _rows(rng, n, 2))


@along()
def sorted_by_key(rng, n):
    return use(lambda v: sorted(v, key=abs)[-2], 1, _rows(rng, n, 7))


@along()
def sorted_with_nan(rng, n):
    x = _rows(rng, n, 7)
    x[1:][rng.random((n - 1, 7)) < 0.05] = np.nan
    return use(lambda v: sorted(v)[2], 1, x)


@along()
def spread_of_statistics(rng, n):
    return use(lambda v: statistics.stdev(v.tolist()), 1, _rows(rng, n, 6))


@along()
def exact_sums(rng, n):
    return use(lambda v: float(sum(map(fractions.Fraction, v.tolist()))), 1, _digits(rng, n, 4))


@along()
def cached_inside(rng, n):
    @functools.cache
    def steps(k):
        return 0 if k <= 1 else 1 + steps(k // 2 if k % 2 == 0 else 3 * k + 1)

    return use(lambda v: max(steps(k) for k in v.tolist()), 1, rng.integers(1, 200, (n, 3)))


# --- texts and dates ------------------------------------------------------------------


@along()
def word_by_sign(rng, n):
    return use(lambda v: "up" if v[-1] > v[0] else "dn", 1, _rows(rng, n, 5))


@along()
def run_lengths(rng, n):
    def f(v):
        return len("".join(f"{k}{len(list(g))}" for k, g in itertools.groupby(v.tolist())))

    return use(f, 1, _digits(rng, n, 12, 2))


@along()
def parsed_json(rng, n):
    return use(lambda v: len(json.loads(json.dumps(v.tolist()))), 1, _digits(rng, n, 5))


@along()
def day_of_peak(rng, n):
    begin = np.datetime64("2001-01-01")
    return use(lambda v: begin + np.timedelta64(int(v.argmax()), "D"), 1, _rows(rng, n, 12))


@along()
def hours_between(rng, n):
    days = np.datetime64("2010-01-01") + rng.integers(0, 5000, (n, 2)).astype("m8[h]")
    return use(lambda v: (v[1] - v[0]) / np.timedelta64(1, "h"), 1, days)


# --- NumPy, SciPy, torch --------------------------------------------------------------


@along()
def search_in_any_order(rng, n):
    return use(lambda v: v.searchsorted(1), 1, rng.integers(-5, 6, (n, 7)))


@along()
def close_numbers(rng, n):
    x = np.round(3 * _rows(rng, n, 5))
    return use(lambda v: math.isclose(v[0], v[1], abs_tol=1), 1, x)


@along()
def vectorize_inside(rng, n):
    return use(lambda v: np.vectorize(lambda t: t if t > 0 else 0)(v).sum(), 1, _rows(rng, n, 7))


@along()
def vectorized_helper(rng, n):
    step = np.vectorize(lambda t: math.sqrt(t) if t > 0 else -t)
    return use(lambda v: step(v).max(), 1, _rows(rng, n, 6))


@along()
def apply_inside(rng, n):
    def f(v):
        return np.apply_along_axis(lambda w: w.max() - w.min(), 1, v.reshape(3, 4)).sum()

    return use(f, 1, _rows(rng, n, 12))


@along()
def as_many_ones(rng, n):
    return use(lambda v: np.ones(int((v > 0).sum())).sum(), 1, _rows(rng, n, 6))


@along()
def range_of_row(rng, n):
    return use(lambda v: np.arange(int(v[0])).sum(), 1, _digits(rng, n, 3))


@along()
def eigenvalues(rng, n):
    f = lambda v: np.linalg.eigvals(v.reshape(2, 2)).real.max()  # noqa: E731
    return use(f, 1, np.abs(_rows(rng, n, 4)))


@along()
def roots_of_polynomial(rng, n):
    return use(lambda v: np.poly1d(v).r.real.max(), 1, _rows(rng, n, 4))


@along()
def slope_of_polynomial(rng, n):
    return use(lambda v: np.poly1d(v).deriv()(2.0), 1, _rows(rng, n, 4))


@along()
def warned_constant(rng, n):
    return use(lambda v: np.median(v) + 0 * np.sqrt(-3.0), 1, _rows(rng, n, 6))


@along()
def constant_of_a_branch(rng, n):
    def f(v):
        if v[0] > 2.5:
            return [-3.0, 1.0, 0.0]
        return np.sort(v)[:3]

    return use(f, 1, np.minimum(_rows(rng, n, 6), np.where(np.arange(n) == 0, 2.0, 9.0)[:, None]))


@along()
def fit_or_nan(rng, n):
    def f(v):
        if np.isnan(v).any():
            return np.nan
        return np.polyfit(np.arange(6.0), v, 1)

    x = _rows(rng, n, 6)
    x[1::3] = np.nan
    return use(f, 1, x)


@along()
def attribute_or_default(rng, n):
    settings = type("Settings", (), {})()
    return use(lambda v: np.median(v) * getattr(settings, "scale", 1.0), 1, _rows(rng, n, 6))


@along()
def record_of_a_table(rng, n):
    row = np.array([(1.0, 2.0), (3.0, 4.0)], [("gain", "f8"), ("offset", "f8")])[1]
    return use(lambda v: np.median(v) * row["gain"] + row["offset"], 1, _rows(rng, n, 6))


@along()
def buffer_of_weights(rng, n):
    raw = bytearray(np.arange(6.0).tobytes())
    return use(lambda v: np.median(v * np.frombuffer(raw)), 1, _rows(rng, n, 6))


@along("scipy")
def filter_sections(rng, n):
    from scipy.signal import butter, sosfilt

    sections = butter(2, 0.3, output="sos")
    return use(lambda v: sosfilt(sections, v), 1, _rows(rng, n, 24))


@along("scipy")
def widths_of_peaks(rng, n):
    from scipy.signal import find_peaks, peak_widths

    def f(v):
        return peak_widths(v, find_peaks(v)[0])[0].sum()

    return use(f, 1, _rows(rng, n, 40))


@along("scipy")
def sparse_product(rng, n):
    from scipy import sparse

    matrix = sparse.random(8, 12, 0.3, "csr", random_state=1)
    return use(lambda v: matrix @ v, 1, _rows(rng, n, 12))


@along("torch")
def tensor_full(rng, n):
    import torch

    def f(v):
        return (torch.from_numpy(v) + torch.full((6,), float(v.max()))).sum().item()

    return use(f, 1, _rows(rng, n, 6))


@along("torch")
def tensor_of_list(rng, n):
    import torch

    return use(lambda v: torch.tensor(v.tolist()).mean().item(), 1, _rows(rng, n, 5))


@along("torch")
def tensor_histogram(rng, n):
    import torch

    return use(lambda v: torch.histc(torch.from_numpy(v), 3).numpy(), 1, _rows(rng, n, 7))


def _linear(rng: np.random.Generator, inputs: int, outputs: int) -> Any:
    import torch

    layer = torch.nn.utils.skip_init(torch.nn.Linear, inputs, outputs)
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.from_numpy(0.2 * rng.standard_normal(tuple(p.shape))))
    return layer


@along("torch", loop=_through_torch)
def module_with_branch(rng, n):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = _linear(rng, 16, 4), _linear(rng, 16, 4)

        def forward(self, v):
            return self.a(v) if v.mean() > 0 else self.b(v)

    return use(Net().eval(), 1, _rows(rng, n, 16).astype(np.float32))


@along("torch", loop=_through_torch)
def module_of_many_sines(rng, n):
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            for _ in range(100):
                x = torch.sin(x)
            return x

    return use(Net().eval(), 1, rng.random((n, 6)).astype(np.float32))


@along("torch", loop=_through_torch)
def wide_module(rng, n):
    import torch

    layers = [_linear(rng, 16, 1024), torch.nn.ReLU(), _linear(rng, 1024, 1024), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, _linear(rng, 1024, 2)).eval()
    return use(net, 1, rng.random((n, 16)).astype(np.float32))


@along("sklearn")
def isotonic(rng, n):
    from sklearn.isotonic import IsotonicRegression

    x = rng.random(100)
    model = IsotonicRegression(out_of_bounds="clip").fit(x, x + 0.1 * rng.standard_normal(100))
    return use(lambda v: model.predict(v.reshape(-1, 1)).sum(), 1, rng.random((n, 3)))
