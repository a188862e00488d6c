"""Arguments and special values that few calls have: the loop's results, for all slices at once."""

import math

import numpy as np
import pytest
from calls_of import assert_at_once

import xpapply
from conftest import library


def data():
    x = np.random.default_rng(0).integers(-3, 9, (300, 8)) / 2.0
    x[::3, [1, 4]] = np.nan
    x[::5, 6] = np.nan
    return x


def positive():
    return np.random.default_rng(0).uniform(0.5, 2.0, (300, 8))


def straight():
    x = np.random.default_rng(0).uniform(0, 1, (300, 16))
    x[:, :8] += np.arange(8)
    x[:, 8:] += 2 + 3 * np.arange(8)  # no coefficient is nothing but rounding
    return x


def is_true(v, flag=True):
    return v.sum() if flag is True else v.max()


def is_none(v, axis=None):
    known = axis is None
    return v.max() * known


W = np.arange(1.0, 9.0)
CASES = {
    "unique NaN": (lambda v: len(np.unique(v)), data),
    "unique, each NaN": (lambda v: len(np.unique(v, equal_nan=False)), data),
    "sum of unique": (lambda v: np.nansum(np.unique(v)), data),
    "log to a base": (lambda v: math.log(v[0], 3), positive),
    "log to a traced base": (lambda v: math.log(2.0, v[0] + 2), positive),
    "polyfit": (lambda v: np.polyfit(v[:8], v[8:], 1), straight),
    "polyfit w": (lambda v: np.polyfit(v[:8], v[8:], 1, w=W), straight),
    "polyfit rcond": (lambda v: np.polyfit(v[:8], v[8:], 2, rcond=0.4), straight),
    "polyfit full": (lambda v: np.polyfit(v[:8], v[8:], 1, full=True)[1], straight),
    "polyfit cov": (lambda v: np.polyfit(v[:8], v[8:], 1, cov=True)[1], straight),
    "is True": (is_true, positive),
    "is None": (is_none, positive),
}


@pytest.mark.filterwarnings("ignore::numpy.exceptions.RankWarning")
@pytest.mark.parametrize("name", CASES)
def test_of_numpy(name):
    f, make = CASES[name]
    with xpapply.options(engine="numpy"):
        assert_at_once(f, -1, make())
        if name.startswith("log"):
            assert "slice by slice" not in xpapply.explain(f, -1, make()).kernels[0]


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", ["argrelmax", "argrelmin", "argrelextrema"])
def test_extrema(name, order, mode):
    find = getattr(pytest.importorskip("scipy.signal"), name)
    more = (np.greater_equal,) if name == "argrelextrema" else ()

    def f(v):
        found = find(v, *more, order=order, mode=mode)[0]
        return len(found) + v[found].sum()

    with xpapply.options(engine="numpy"):
        assert_at_once(f, -1, np.random.default_rng(0).integers(0, 9, (300, 12)) / 1.0)


def test_quantiles_of_selected_numbers():
    torch = library("torch")
    arr = torch.rand(300, 8)
    arr[:, 0] = 1
    for f in (
        lambda v: torch.quantile(v[v > 0.5], 0.3),
        lambda v: torch.nanquantile(v[v > 0.5], 0.3),
        lambda v: torch.quantile(v[v > 0.5], q=0.3, interpolation="lower"),
    ):
        with xpapply.options(fallback="raise"):
            got = xpapply.apply_along_axis(f, -1, arr)
        torch.testing.assert_close(got, torch.stack([f(v) for v in arr]))
