"""A function is traced on the first slice, or on another one where that tells nothing."""

import math

import numpy as np
import pytest
from calls_of import assert_at_once

import xpapply
from xpapply.limits import LIMITS

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _worth_a_plan(monkeypatch):
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)


def root(v):
    try:
        return math.sqrt(v[0]) + v[1]
    except ValueError:
        return -1.0


@pytest.mark.parametrize("known", [0, 100, 199])
def test_a_function_that_catches_is_traced_where_nothing_is_raised(known):
    """The first slice, the one in the middle and the last one are tried."""
    f = eval("lambda v: root(v)", {"root": root})
    arr = np.abs(RNG.normal(size=(200, 4)))
    arr[[0, 100, 199], 0] = -1
    arr[known, 0] = 4
    assert_at_once(f, -1, arr)
    assert xpapply.explain(f, -1, arr).engine == "numpy"


def test_where_it_raises_for_all_of_them_the_loop_runs():
    arr = -np.abs(RNG.normal(size=(200, 4)))
    plan = xpapply.explain(root, -1, arr)
    assert plan.engine == "loop"
    assert "ValueError" in plan.reasons[0]
    with xpapply.options(fallback="silent"):
        np.testing.assert_array_equal(xpapply.apply_along_axis(root, -1, arr), -1.0)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_axes_of_length_one(axis):
    """Beside and among the slices."""
    shape = [1, 1, 200, 1]
    shape.insert(axis, 4)
    arr = RNG.normal(size=shape)
    for f in (lambda v: v.sum() * v[0], lambda v: v[:2] if v[0] > 0 else v[2:]):
        assert_at_once(f, axis, arr)
        # a kernel, where a slow machine has found that it pays
        assert xpapply.explain(f, axis, arr).engine in ("numpy", "cpu")
