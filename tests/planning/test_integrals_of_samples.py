"""Integrals of samples within compiled functions have SciPy's bits."""

import numpy as np
import pytest
from typed_parity import marked

from xpapply.backends.cpu import typed as backend
from xpapply.errors import TraceError

integrate = pytest.importorskip("scipy.integrate")
pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 40))
ROWS[3, 3], ROWS[4, 1] = np.nan, np.inf
PLACES = np.cumsum(RNG.random(40) + 0.01)
WHOLE = np.cumsum(RNG.integers(1, 5, 40))

WAYS = {
    "trapezoid": lambda v, n: integrate.trapezoid(v[:n]),
    "trapezoid, dx": lambda v, n: integrate.trapezoid(v[:n], dx=abs(v[0])),
    "trapezoid, x": lambda v, n: integrate.trapezoid(v[:n], PLACES[:n]),
    "trapezoid, integers": lambda v, n: integrate.trapezoid(v[:n], WHOLE[:n], axis=0),
    "simpson": lambda v, n: integrate.simpson(v[:n]),
    "simpson, dx": lambda v, n: integrate.simpson(v[:n], dx=v[0] if n > 1 else 0.5),
    "simpson, x": lambda v, n: integrate.simpson(v[:n], x=PLACES[:n]),
    "simpson, integers": lambda v, n: integrate.simpson(v[:n], WHOLE[:n]),
    "simpson, some alike": lambda v, n: integrate.simpson(v[:n], x=np.rint(v[:n])),
    "cumulative_trapezoid": lambda v, n: integrate.cumulative_trapezoid(v[:n], dx=0.3),
    "cumulative_trapezoid, x": lambda v, n: integrate.cumulative_trapezoid(v[:n], PLACES[:n]),
    "cumulative_trapezoid, integers": lambda v, n: integrate.cumulative_trapezoid(
        v[:n], x=WHOLE[:n], initial=0
    ),
    "cumulative_simpson": lambda v, n: integrate.cumulative_simpson(v[:n], dx=0.3),
    "cumulative_simpson, x": lambda v, n: integrate.cumulative_simpson(
        v[:n], x=PLACES[:n], initial=0.5
    ),
    "cumulative_simpson, integers": lambda v, n: integrate.cumulative_simpson(
        v[:n], x=WHOLE[:n], initial=v[0]
    ),
}


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 33, 40])
@pytest.mark.parametrize("name", WAYS)
def test_bits_are_scipys(name, n):
    way = WAYS[name]
    needless = marked(lambda v: way(v, n), ROWS)
    assert needless == 0 or (n == 1 and name.startswith("cumulative"))  # nothing comes of one


@pytest.mark.parametrize("n", [2, 3, 5, 33])
def test_romb(n):
    assert marked(lambda v: integrate.romb(v[:n], 0.1), ROWS) == 0
    assert marked(lambda v: integrate.romb(v[:n], dx=v[0]), ROWS) == 0


def of_one_number(v):
    return integrate.fixed_quad(lambda x: np.exp(-x * v[0] / 9), 0, 1)[0]


def of_more(v):
    value, _ = integrate.fixed_quad(lambda x, p: v[0] * x**2 + p, 0, abs(v[1]), (2.0,), n=7)
    return value


def within_a_fit(v):
    """Areas of a model that is fitted."""
    from scipy.optimize import curve_fit

    p = curve_fit(lambda t, a, b: a + b * t, PLACES, v)[0]
    return integrate.simpson(p[0] + p[1] * PLACES, x=PLACES)


def if_places_rise(v):
    try:
        return integrate.cumulative_simpson(v[:5], x=v[5:10])[-1]
    except ValueError:
        return -1.0


def if_they_are_as_many(v):
    try:
        return integrate.romb(v[:7])
    except ValueError:
        return -1.0


@pytest.mark.parametrize(
    "f",
    [of_one_number, of_more, within_a_fit, if_places_rise, if_they_are_as_many],
    ids=lambda f: f.__name__,
)
def test_within_functions(f):
    assert marked(f, ROWS) <= 2


@pytest.mark.parametrize(
    "f",
    [
        lambda v: integrate.romb(v[:33], show=(5, 8)),
        lambda v: integrate.trapezoid(v, PLACES.astype("f4")),
        lambda v: integrate.simpson(v, axis=-int(v[0] == v[0])),
    ],
)
def test_what_is_not_compiled_says_so(f):
    with pytest.raises(TraceError, match=r"scipy.integrate|along such an axis"):
        marked(f, ROWS[:2])
