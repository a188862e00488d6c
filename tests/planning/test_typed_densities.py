"""Densities by kernels of each slice run compiled: with SciPy's bits."""

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import cache_of
from xpapply.library.solvers import of_samples
from xpapply.planning.python.typed_loop import TypedLoop

stats = pytest.importorskip("scipy.stats")

RNG = np.random.default_rng(0)
GRID = np.linspace(-3.0, 3.0, 21)
compiled = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]


def on_grid(v):
    return stats.gaussian_kde(v)(GRID)


def mode(v):
    there = v[~np.isnan(v)]
    return GRID[np.argmax(stats.gaussian_kde(there, bw_method="silverman")(GRID))]


def of_own_numbers(v):
    return stats.gaussian_kde(v[v > -1.0], 0.3)(v)


def at_a_number(v):
    return stats.gaussian_kde(v, bw_method=v[0] ** 2 + 0.1)(0.5)[0]


def kept(v):
    density = stats.gaussian_kde(v)
    try:
        other = stats.gaussian_kde(v[:1])(0.0)
    except ValueError:
        other = density(v[:2])
    return other[0] + density(GRID[::5])


FUNCTIONS = [on_grid, mode, of_own_numbers, at_a_number, kept]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
class TestCompiled:
    pytestmark = compiled

    def test_as_the_loop(self, f):
        x = RNG.normal(size=(60, 30))
        if f is mode:
            x[RNG.random(x.shape) < 0.2] = np.nan
        with xpapply.options(engine="cpu"):
            got = xpapply.apply_along_axis(f, 1, x)
        np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, x))
        assert TypedLoop in map(type, cache_of(f)[0].traced.values())


@pytest.mark.usefixtures("by_source")
@pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
def test_what_has_no_density_raises_as_in_the_loop():
    x = RNG.normal(size=(40, 8))
    x[30] = 2.0
    for run in (np.apply_along_axis, xpapply.apply_along_axis):
        with pytest.raises(np.linalg.LinAlgError, match="lower-dimensional"):
            run(on_grid, 1, x)


@pytest.mark.usefixtures("by_source")
@pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
def test_places_that_are_not_finite_raise_as_in_the_loop():
    def f(v):
        try:
            return stats.gaussian_kde(v[2:])(v[:2])[1]
        except ValueError:
            return -1.0

    x = RNG.normal(size=(40, 8))
    x[[3, 7], [0, 1]] = np.inf, np.nan
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(f, 1, x)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, x))


def test_bits_are_scipys():
    for k in range(300):
        n = (2, 3, 7, 30, 101)[k % 5]
        v = RNG.normal(size=n) * 10.0 ** RNG.uniform(-6, 6) + RNG.normal() * 10.0 ** RNG.uniform(
            -3, 3
        )
        at = np.concatenate([v[:5], RNG.uniform(v.min() - 1, v.max() + 1, 9), [1e9]])
        rules = [(None, of_samples.SCOTT, 0.0), ("silverman", of_samples.SILVERMAN, 0.0)]
        width, rule, factor = [*rules, (0.37, of_samples.GIVEN, 0.37)][k % 3]
        want = stats.gaussian_kde(v, width)(at)
        np.testing.assert_array_equal(of_samples.by_kernels(v, rule, factor)(at), want)
