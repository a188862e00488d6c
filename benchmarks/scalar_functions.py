"""How people call numpy.vectorize: a corpus of functions of numbers.

    python -m benchmarks vectorize     # measures it

Written the way they stand in public code, in the shares that some 500 calls there have: look-ups,
formulas with `math`, pieces with ``if``, clamps, conversions, closures over arrays, functions of
SciPy, loops inside. Nothing in it knows of xpapply. Functions of strings, dates and objects, a
fifth of the calls, stay in the loop and are not in it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Use = tuple[Callable[..., Any], tuple[np.ndarray, ...]]
"""The function, and what it is called with."""


@dataclass(frozen=True)
class Entry:
    """One way to call vectorize.

    Attributes
    ----------
    name, group : str
        What it does, and what kind that is.
    build : callable ``build(rng, n)``
        A function and arrays of `n` elements (or so many slices) that are new.
    signature : str or None
        Of `f`; None: it gets numbers.
    rtol : float
        How far results may be from the loop's.
    needs : tuple of str
        Modules beyond NumPy.
    otypes : list, optional
        What vectorize is told of the results.
    """

    name: str
    group: str
    build: Callable[[np.random.Generator, int], Use]
    signature: str | None = None
    rtol: float = 1e-12
    needs: tuple[str, ...] = ()
    otypes: list[Any] | None = None


ENTRIES: list[Entry] = []


def entry(group: str, **more: Any) -> Callable[[Callable[..., Use]], Callable[..., Use]]:
    def add(build: Callable[[np.random.Generator, int], Use]) -> Callable[..., Use]:
        ENTRIES.append(Entry(build.__name__, group, build, **more))
        return build

    return add


def _normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=n)


# --- look-ups -------------------------------------------------------------------------------------


@entry("look-ups")
def classes(rng, n):
    names = {0: 10, 1: 20, 2: 30, 5: 60, 7: 80}
    return (lambda k: names[k]), (rng.choice([0, 1, 2, 5, 7], n),)


@entry("look-ups")
def land_cover(rng, n):
    roughness = {11: 0.0, 21: 0.3, 22: 0.5, 31: 0.05, 41: 1.0, 42: 1.1, 52: 0.1, 81: 0.03, 82: 0.06}
    return (lambda k: roughness.get(k, 0.25)), (rng.integers(10, 90, n),)


@entry("look-ups")
def relabel(rng, n):
    old = rng.permutation(5000)[:800]
    mapping = dict(zip(old.tolist(), range(800), strict=True))
    return mapping.get, (rng.choice(old, n),)


@entry("look-ups")
def relabel_or_zero(rng, n):
    mapping = {int(k): int(v) for k, v in rng.integers(1, 1000, (300, 2))}
    return (lambda k: mapping.get(k, 0)), (rng.integers(0, 1000, n),)


@entry("look-ups")
def codon_weight(rng, n):
    weights = [1.0, 0.5, 0.25, 0.125, 2.0, 3.0]
    return (lambda k: weights[k]), (rng.integers(0, 6, n),)


@entry("look-ups")
def palette(rng, n):
    table = rng.integers(0, 256, 256)
    return (lambda k: table[k]), (rng.integers(0, 256, n),)


class Phase(enum.IntEnum):
    SOLID = 1
    LIQUID = 2
    GAS = 3


@entry("look-ups")
def phase_density(rng, n):
    density = {Phase.SOLID: 917.0, Phase.LIQUID: 1000.0, Phase.GAS: 0.6}
    return (lambda k: density[k]), (rng.integers(1, 4, n),)


# --- math -----------------------------------------------------------------------------------------


@entry("math")
def normal_cdf(rng, n):
    return (lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2)))), (_normal(rng, n),)


@entry("math")
def erf(rng, n):
    return math.erf, (_normal(rng, n),)


@entry("math")
def logistic(rng, n):
    return (lambda x: 1 / (1 + math.exp(-x))), (_normal(rng, n),)


@entry("math", rtol=1e-9)
def haversine(rng, n):
    def distance(lat1, lon1, lat2, lon2):
        a, b = math.radians(lat1), math.radians(lat2)
        u = math.sin((b - a) / 2) ** 2
        u += math.cos(a) * math.cos(b) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
        return 2 * 6371 * math.asin(math.sqrt(u))

    return distance, tuple(rng.uniform(-80, 80, (4, n)))


@entry("math", rtol=1e-9)
def black_scholes(rng, n):
    def call(s, k, t):
        r, sigma = 0.02, 0.3
        d1 = (math.log(s / k) + (r + 0.5 * sigma**2) * t) / (sigma * math.sqrt(t))
        d2 = d1 - sigma * math.sqrt(t)
        up, down = (0.5 * (1 + math.erf(d / math.sqrt(2))) for d in (d1, d2))
        return s * up - k * math.exp(-r * t) * down

    return call, tuple(rng.uniform([[80], [80], [0.1]], [[120], [120], [2]], (3, n)))


@entry("math")
def angle(rng, n):
    return (lambda x, y: math.degrees(math.atan2(y, x)) % 360), (_normal(rng, n), _normal(rng, n))


@entry("math")
def saturation_pressure(rng, n):
    return (lambda t: 6.112 * math.exp(17.67 * t / (t + 243.5))), (rng.uniform(-30, 40, n),)


@entry("math")
def sinc(rng, n):
    return (lambda x: math.sin(x) / x if x != 0 else 1.0), (_normal(rng, n),)


# --- pieces ---------------------------------------------------------------------------------------


@entry("pieces")
def larger_minus_smaller(rng, n):
    return (lambda a, b: a - b if a > b else a + b), (_normal(rng, n), _normal(rng, n))


@entry("pieces")
def tax(rng, n):
    def due(x):
        if x < 10_000:
            return 0.0
        if x < 40_000:
            return 0.2 * (x - 10_000)
        return 6_000 + 0.4 * (x - 40_000)

    return due, (rng.uniform(0, 1e5, n),)


@entry("pieces")
def grade(rng, n):
    def of(x):
        if x >= 90:
            return 4
        elif x >= 80:
            return 3
        elif x >= 70:
            return 2
        return 1 if x >= 60 else 0

    return of, (rng.integers(30, 100, n),)


@entry("pieces")
def hat(rng, n):
    return (lambda x: max(0.0, 1 - abs(x))), (_normal(rng, n),)


@entry("pieces")
def clamp(rng, n):
    return (lambda x: min(max(x, -1.0), 1.0)), (_normal(rng, n),)


@entry("pieces")
def valid(rng, n):
    return (lambda x: x if 0 < x < 1 else -9999.0), (_normal(rng, n),)


@entry("pieces")
def sign(rng, n):
    return (lambda x: 1 if x > 0 else -1 if x < 0 else 0), (_normal(rng, n),)


@entry("pieces")
def huber(rng, n):
    return (lambda r: 0.5 * r * r if abs(r) <= 1.0 else abs(r) - 0.5), (_normal(rng, n),)


@entry("pieces")
def heat_index(rng, n):
    def of(t, h):
        if t < 27:
            return t
        return t + 0.33 * h * 6.105 * 2.718 ** (17.27 * t / (237.7 + t)) - 4.0

    return of, (rng.uniform(10, 40, n), rng.random(n))


# --- conversions and whole numbers ----------------------------------------------------------------


@entry("conversions")
def to_int(rng, n):
    return int, (rng.uniform(-100, 100, n),)


@entry("conversions")
def rounded(rng, n):
    return (lambda x: round(x, 2)), (_normal(rng, n),)


@entry("conversions")
def nearest_bin(rng, n):
    return (lambda x: int(x // 0.25)), (_normal(rng, n),)


@entry("conversions")
def wrap_longitude(rng, n):
    return (lambda x: (x + 180) % 360 - 180), (rng.uniform(-400, 400, n),)


@entry("conversions")
def is_leap(rng, n):
    return (lambda y: y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)), (rng.integers(1800, 2100, n),)


@entry("conversions")
def hours(rng, n):
    return (lambda hhmm: hhmm // 100 + (hhmm % 100) / 60), (rng.integers(0, 2400, n),)


@entry("conversions")
def low_bits(rng, n):
    return (lambda k: (k >> 2) & 15), (rng.integers(0, 4096, n),)


# --- closures -------------------------------------------------------------------------------------


@entry("closures")
def polynomial(rng, n):
    c = [1.0, -0.5, 0.25, 2.0]
    return (lambda x: sum(a * x**k for k, a in enumerate(c))), (_normal(rng, n),)


@entry("closures")
def nearest_of(rng, n):
    centres = np.array([-1.5, 0.0, 0.7, 2.0])
    return (lambda x: np.argmin(np.abs(centres - x))), (_normal(rng, n),)


@entry("closures")
def interpolated(rng, n):
    xp, fp = np.linspace(-3, 3, 20), rng.random(20)
    return (lambda x: np.interp(x, xp, fp)), (_normal(rng, n),)


@entry("closures")
def step(rng, n):
    edges = np.array([-1.0, 0.0, 1.0, 2.0])
    return (lambda x: np.searchsorted(edges, x)), (_normal(rng, n),)


# --- SciPy ----------------------------------------------------------------------------------------


@entry("SciPy", needs=("scipy",))
def gamma(rng, n):
    from scipy import special

    return (lambda x: special.gamma(x) / special.gamma(x + 0.5)), (rng.uniform(0.5, 5, n),)


@entry("SciPy", needs=("scipy",))
def normal_pdf(rng, n):
    from scipy import stats

    return (lambda x: stats.norm.pdf(x, 0.5, 2.0)), (_normal(rng, n),)


# --- loops ----------------------------------------------------------------------------------------


@entry("loops")
def newton_root(rng, n):
    def root(a):
        x = a
        for _ in range(6):
            x = 0.5 * (x + a / x)
        return x

    return root, (rng.uniform(0.5, 4, n),)


@entry("loops")
def gcd(rng, n):
    return math.gcd, tuple(rng.integers(1, 1000, (2, n)))


@entry("loops")
def escape_time(rng, n):
    def of(x, y):
        c = z = complex(x, y)
        for k in range(20):
            if abs(z) > 2:
                return k
            z = z * z + c
        return 20

    return of, (rng.uniform(-2, 1, n), rng.uniform(-1, 1, n))


@entry("loops")
def collatz(rng, n):
    def steps(k):
        count = 0
        while k > 1:
            k = k // 2 if k % 2 == 0 else 3 * k + 1
            count += 1
        return count

    return steps, (rng.integers(1, 30, n),)


if __name__ == "__main__":
    for e in ENTRIES:
        print(f"{e.group:12} {e.name}")
