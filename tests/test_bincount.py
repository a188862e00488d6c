"""Counts of integers: long slices, which are counted in pieces, and arrays without a True."""

import importlib

import numpy as np
import pytest

import xpapply
from xpapply import special
from xpapply.limits import LIMITS

counts = importlib.import_module("xpapply.backends.numpy.bincount")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_slices_that_are_longer_than_a_block(weighted, axes):
    n = LIMITS.bincount_block + 5
    x = np.arange(2 * n, dtype=np.uint8).reshape((2, n) if axes != (0,) else (n, 2)) % 3
    weights = np.linspace(0, 1, x.size).reshape(x.shape) if weighted else None
    found = counts.counts(x, weights, axes, 3)
    for k in range(3):
        given = np.ones(x.shape) if weights is None else weights
        wanted = np.where(x == k, given, 0).sum(axis=axes)
        np.testing.assert_allclose(found[..., k], wanted, rtol=1e-9)
    assert found.dtype == (np.float64 if weighted else np.int64)


def test_long_slices_by_the_public_function():
    x = np.zeros(LIMITS.bincount_block + 7, np.int16)
    x[[0, -1]] = 2
    np.testing.assert_array_equal(special.bincount(x), [LIMITS.bincount_block + 5, 0, 2])


@pytest.mark.parametrize("value", [False, True])
def test_truths_that_are_all_the_same(value):
    x = np.full((3, 4), value)
    found = special.bincount(x, axis=1)
    wanted = np.apply_along_axis(np.bincount, 1, x.astype(int))
    assert found.shape == wanted.shape == (3, 1 + value)
    np.testing.assert_array_equal(found, wanted)


def test_blocks_of_short_slices(monkeypatch):
    monkeypatch.setattr(LIMITS, "bincount_block", 64)
    x = np.random.default_rng(0).integers(0, 5, (40, 3, 7))
    for axes in ((0,), (2,), (0, 2), (1, 2)):
        wanted = [(x == k).sum(axis=axes) for k in range(5)]
        np.testing.assert_array_equal(counts.counts(x, None, axes, 5), np.stack(wanted, -1))


GROUPS = np.arange(24) % 5
SUMS = {
    "labels": lambda v: np.bincount(GROUPS, v),
    "keyword": lambda v: np.bincount(GROUPS[::-1], weights=v, minlength=9),
    "list": lambda v: np.bincount([0, 3] * 12, v * 2),
    "booleans": lambda v: np.bincount(GROUPS, v > 0),
    "means": lambda v: np.bincount(GROUPS, v) / np.bincount(GROUPS),
    "both": lambda v: np.bincount((v > 0).astype(int), v, 2),
}
WRONG = {
    "too many": lambda v: np.bincount(GROUPS, v[1:]),
    "complex": lambda v: np.bincount(GROUPS, v * 1j),
    "negative": lambda v: np.bincount(GROUPS - 1, v),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_by_group(name):
    """Weights of each slice, in groups that are the same for all: what the loop gives, exactly."""
    f = SUMS[name]
    x = np.random.default_rng(3).standard_normal((300, 24, 3))
    x[5, 3], x[7, 4], x[9], x[11, 2] = np.nan, np.inf, -0.0, -np.inf
    want = np.apply_along_axis(f, 1, x)
    plan = xpapply.explain(f, 1, x)
    assert plan.vectorized, plan.reasons
    got = xpapply.apply_along_axis(f, 1, x)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("name", WRONG)
def test_sums_by_group_that_raise(name):
    x = np.random.default_rng(3).standard_normal((300, 24, 3))
    errors = []
    for call in (np.apply_along_axis, xpapply.apply_along_axis):
        with pytest.raises((TypeError, ValueError)) as raised:
            call(WRONG[name], 1, x)
        errors.append((raised.type, str(raised.value)))
    assert errors[0] == errors[1]
