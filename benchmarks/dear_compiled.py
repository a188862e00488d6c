"""Functions that are compiled from their source once that pays, which could be dearer until then.

Solvers of SciPy's (with those of `solver_rows.py`), pages of our library (heaps, statistics,
dicts, texts), and functions of numbers that decide.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from .idioms import Idiom, use
from .scalar_functions import Entry

ROWS: list[Idiom | Entry] = []
GROUP = "compiled"


def along(*needs: str) -> Callable[[Callable], Callable]:
    """Register a builder of a call of apply_along_axis, as those of `idioms` are."""

    def register(build: Callable) -> Callable:
        ROWS.append(Idiom(build.__name__, GROUP, build, needs=needs))
        return build

    return register


def numbers(*needs: str, **more: Any) -> Callable[[Callable], Callable]:
    """Register a builder of a call of vectorize, as those of `scalar_functions` are."""

    def register(build: Callable) -> Callable:
        ROWS.append(Entry(build.__name__, GROUP, build, needs=needs, **more))
        return build

    return register


def _rows(rng: np.random.Generator, n: int, length: int) -> np.ndarray:
    return rng.standard_normal((n, length))


# --- solvers --------------------------------------------------------------------------


@along("scipy")
def lowest_by_bfgs(rng, n):
    from scipy.optimize import minimize

    def f(v):
        far = lambda p: ((v[0] - p[0]) ** 2 + (v[1] - p[1]) ** 2 + p[0] ** 4) * v[2]  # noqa: E731
        return minimize(far, [0.1, 0.2]).x

    return use(f, 1, 1.0 + rng.random((n, 3)))


@along("scipy")
def lowest_within_bounds(rng, n):
    from scipy.optimize import minimize

    def f(v):
        far = lambda p: (v[0] - p[0]) ** 2 + (v[1] - p[1]) ** 2 + p[0] * p[1]  # noqa: E731
        return minimize(far, [0.1, 0.2], method="L-BFGS-B", bounds=[(0.0, 1.0)] * 2).x

    return use(f, 1, _rows(rng, n, 2))


@along("scipy")
def steady_state(rng, n):
    from scipy.optimize import fsolve

    def f(v):
        return fsolve(lambda p: [p[0] + 0.5 * p[1] - v[0], p[1] + 0.2 * p[0] ** 3 - v[1]], v)

    return use(f, 1, _rows(rng, n, 2))


@numbers("scipy")
def root_between(rng, n):
    from scipy.optimize import brentq

    return (lambda a: brentq(lambda x: x**3 + x - a, -5.0, 5.0)), (rng.standard_normal(n),)


@numbers("scipy")
def root_or_missing(rng, n):
    from scipy.optimize import newton

    def f(a):
        if a < 0:
            return math.nan
        return newton(lambda x: x * x - a, 1.0)

    return f, (rng.standard_normal(n),)


@numbers("scipy")
def integral_to(rng, n):
    from scipy.integrate import quad

    return (lambda a: quad(lambda t: math.exp(-a * t * t), 0.0, 1.0)[0]), (rng.random(n),)


@along("scipy")
def cooling_down(rng, n):
    from scipy.integrate import odeint

    t = np.linspace(0.0, 4.0, 9)

    def f(v):
        return odeint(lambda y, t: -v[0] * (y - v[1]), 5.0, t)[:, 0]

    return use(f, 1, rng.random((n, 2)))


# --- heaps, statistics, tables --------------------------------------------------------


@along()
def shortest_way(rng, n):
    ways = {0: (1, 2), 1: (2, 3), 2: (3, 4), 3: (4,), 4: ()}

    def f(v):
        heap, seen = [(0.0, 0)], [math.inf] * 5
        while heap:
            far, at = heapq.heappop(heap)
            if far < seen[at]:
                seen[at] = far
                for to in ways[at]:
                    heapq.heappush(heap, (far + v[to], to))
        return seen[4]

    return use(f, 1, rng.random((n, 5)))


@along()
def merged_by_heap(rng, n):
    def f(v):
        heap, cost = v.tolist(), 0.0
        heapq.heapify(heap)
        while len(heap) > 1:
            two = heapq.heappop(heap) + heapq.heappop(heap)
            cost += two
            heapq.heappush(heap, two)
        return cost

    return use(f, 1, rng.random((n, 9)))


@along()
def middle_and_quartiles(rng, n):
    def f(v):
        return [*statistics.quantiles(v.tolist(), n=4), statistics.median(v.tolist())]

    return use(f, 1, _rows(rng, n, 11))


@along()
def line_of_statistics(rng, n):
    places = [0.0, 1.0, 2.0, 3.0, 4.0]

    def f(v):
        slope, begin = statistics.linear_regression(places, v.tolist())
        return slope * 9.0 + begin

    return use(f, 1, _rows(rng, n, 5))


@along()
def most_common_of_row(rng, n):
    return use(lambda v: statistics.mode(v.tolist()), 1, rng.integers(0, 4, (n, 12)))


@along()
def sum_by_gamma(rng, n):
    def f(v):
        total = 0.0
        for a in v:
            total += math.gamma(a) if a < 3.0 else math.lgamma(a)
        return total

    return use(f, 1, 0.5 + 5.0 * rng.random((n, 8)))


@along()
def text_of_runs(rng, n):
    def f(v):
        text, last = "", -1
        for a in v:
            if a != last:
                text += str(a)
            last = a
        return text

    return use(f, 1, rng.integers(0, 3, (n, 10)))


# --- numbers, and decisions -----------------------------------------------------------


@numbers()
def gamma_of_number(rng, n):
    return (lambda a: math.gamma(a) / math.gamma(a + 0.5)), (0.5 + 5.0 * rng.random(n),)


@numbers()
def poisson_share(rng, n):
    def f(k, rate):
        if k < 0 or rate <= 0:
            return 0.0
        return math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))

    return f, (rng.integers(-1, 20, n), rng.uniform(0.5, 12.0, n))


@numbers()
def wind_scale(rng, n):
    bounds = (0.5, 1.6, 3.4, 5.5, 8.0, 10.8, 13.9, 17.2, 20.8, 24.5, 28.5, 32.7)

    def f(speed):
        for k, bound in enumerate(bounds):
            if speed < bound:
                return k
        return 12

    return f, (40.0 * rng.random(n),)


@numbers()
def kind_of_triangle(rng, n):
    def f(a, b, c):
        a, b, c = sorted((a, b, c))
        if a + b <= c:
            return 0
        if a == b == c:
            return 3
        return 2 if a == b or b == c else 1

    return f, tuple(rng.integers(1, 6, (3, n)))


@numbers()
def stability_class(rng, n):
    def f(wind, sun, night):
        if night:
            return "F" if wind < 3 else "D"
        if sun > 600:
            return "A" if wind < 3 else "B"
        return "C" if wind < 5 else "D"

    return f, (10.0 * rng.random(n), 900.0 * rng.random(n), rng.random(n) < 0.4)


@numbers()
def root_of_cubic(rng, n):
    def f(p, q):
        d = (q / 2) ** 2 + (p / 3) ** 3
        if d >= 0:
            a, b = -q / 2 + math.sqrt(d), -q / 2 - math.sqrt(d)
            return math.copysign(abs(a) ** (1 / 3), a) + math.copysign(abs(b) ** (1 / 3), b)
        r = math.sqrt(-p / 3)
        return 2 * r * math.cos(math.acos(max(-1.0, min(1.0, -q / 2 / r**3))) / 3)

    return f, (rng.standard_normal(n), rng.standard_normal(n))


@numbers()
def date_is_valid(rng, n):
    lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

    def f(year, month, day):
        if not 1 <= month <= 12 or day < 1:
            return False
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return day <= lengths[month - 1] + (leap and month == 2)

    return f, (rng.integers(1900, 2100, n), rng.integers(0, 14, n), rng.integers(0, 33, n))


@numbers()
def steps_to_palindrome(rng, n):
    def f(k):
        for count in range(20):
            turned = int(str(k)[::-1])
            if turned == k:
                return count
            k += turned
        return 20

    return f, (rng.integers(10, 500, n),)
