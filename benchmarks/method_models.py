"""Methods for the suite `methods`: models of voxels, orbits and prices."""

from __future__ import annotations

import math

import numpy as np

from . import method_peers as peers
from .method_rows import method
from .solver_rows import (
    ECHOES,
    INVERSIONS,
    WEIGHTINGS,
    decay,
    diffusion,
    diffusion_ivim,
    inversion,
    noisy,
    relaxation_t1,
    relaxation_t2,
)

MODELS = "models"
VOXELS = 128 * 128 * 30

_T1 = noisy(inversion, INVERSIONS, 1.0, (60, 140), (1.8, 2.0), (0.3, 2.0))
_T2 = noisy(decay, ECHOES, 2.0, (60, 140), (8.0, 40.0))
_IVIM = noisy(
    diffusion, WEIGHTINGS, 2.0, (80, 120), (0.05, 0.3), (0.01, 0.05), (5e-4, 2e-3)
)  # fmt: skip


@method(MODELS, VOXELS, _T1, source="Barral and others 2010", sample=2000)
def t1(v):
    """MRI: T1 of an inversion recovery, three parameters by `curve_fit`."""
    return relaxation_t1(v)


@method(MODELS, VOXELS, _T2, source="Carr and Purcell 1954", sample=2000)
def t2(v):
    """MRI: T2 of an exponential decay, two parameters by `curve_fit`."""
    return relaxation_t2(v)


@method(
    MODELS, 100_000, _IVIM, source="Le Bihan and others 1988", sample=100,
    package="dipy", peer=peers.dipy_ivim, part=100, near=1e-3,
    loss=True, shown=peers.off_the_decay,
)  # fmt: skip
def ivim(v):
    """MRI: IVIM, two exponential decays within bounds, four parameters by `curve_fit`."""
    return diffusion_ivim(v)


def orbits(rng, n):
    """Mean anomalies and eccentricities."""
    return rng.uniform(0.0, 2 * math.pi, n), rng.uniform(0.0, 0.95, n)


@method(
    MODELS, 2_000_000, orbits, "", source="Kepler 1609, Danby 1988", sample=100_000,
    package="kepler.py", peer=peers.kepler_py, part=2_000_000, near=1e-12,
)  # fmt: skip
def kepler(anomaly, e):
    """Kepler's equation: the eccentric anomaly, by Danby's method of the fourth order."""
    x = anomaly + math.copysign(0.85 * e, math.sin(anomaly))
    for _ in range(20):
        s, c = e * math.sin(x), e * math.cos(x)
        f, slope = x - s - anomaly, 1.0 - c
        step = -f / slope
        step = -f / (slope + 0.5 * step * s)
        step = -f / (slope + 0.5 * step * s + step * step * c / 6.0)
        x += step
        if abs(step) < 1e-5:  # the next one would be less than 1e-16
            break
    return x


def quotes(rng, n):
    """Calls on a stock at 100: strikes, years and prices, which the market has made."""
    years, sigma = rng.uniform(0.05, 2.0, n), rng.uniform(0.1, 0.6, n)
    strike = 100.0 * np.exp(sigma * np.sqrt(years) * rng.uniform(-2.0, 2.0, n))
    return peers.black(strike, years, sigma), strike, years


def below(x):
    """The normal distribution's function."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@method(
    MODELS, 1_000_000, quotes, "", source="Black and Scholes 1973, Manaster and Koehler 1982",
    sample=20_000, package="py-vollib-vectorized", peer=peers.vollib, part=1_000_000, near=1e-9,
    shown=lambda sigma, price, strike, years: peers.black(strike, years, sigma),
)  # fmt: skip
def implied_volatility(price, strike, years, spot=100.0, rate=0.02):
    """Implied volatility of a call in Black's and Scholes' model, by Newton's method."""
    paid = strike * math.exp(-rate * years)
    root = math.sqrt(years)
    moneyness = math.log(spot / paid)
    sigma = math.sqrt(2.0 * abs(moneyness) / years) if abs(moneyness) > 1e-9 else 0.3
    for _ in range(50):
        d = moneyness / (sigma * root) + 0.5 * sigma * root
        off = spot * below(d) - paid * below(d - sigma * root) - price
        vega = spot * root * math.exp(-0.5 * d * d) / math.sqrt(2.0 * math.pi)
        step = off / vega
        sigma -= step
        if abs(step) < 1e-12:
            break
    return sigma
