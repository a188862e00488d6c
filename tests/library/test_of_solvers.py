"""Solvers in plain Python give what SciPy's give, bit for bit."""

import math
import os
import random

import numpy as np
import pytest

from xpapply.library import of_roots

pytest.importorskip("scipy.optimize")

from fuzz import solvers

from xpapply.library.solvers import lengths, of_products

DEEP = os.environ.get("XPAPPLY_PROFILE") == "deep"


@pytest.mark.parametrize("problem", solvers.PROBLEMS)
def test_as_scipy_solves(problem):
    r, left, count = random.Random(problem.__name__), 0, 1000 if DEEP else 200
    count = 80 if problem is solvers.moved else count
    others = 0
    for k in range(count):
        ours, theirs = problem(r)
        if isinstance(ours, type) and ours in solvers.LEFT:
            left += 1
        elif not solvers.are_same(ours, theirs):
            # of a BLAS whose bits are not known: rounding leads to another minimum
            assert problem is solvers.by_slopes, k
            assert not of_products.are_known(), k
            others += 1
    assert others < 0.05 * count
    assert left < 0.6 * count  # warnings, products that are 0, steps to what is not finite


def test_more_than_a_derivative_of_zero_is_told():
    with pytest.raises(RuntimeError):
        of_roots.newton(lambda x: 1.0, np.float64(1), lambda x: 0.0, (), 1e-8, 50, None, 0.0, False)


def test_lengths_of_any_size():
    r = random.Random(1)
    for _ in range(300):
        x = np.array([r.choice([0.0, 1.0, -2.5]) * 10.0 ** r.randint(-320, 300) for _ in range(7)])
        whole = [abs(float(y)) for y in x]
        largest = max(whole)
        want = 0.0 if largest == 0 else math.sqrt(sum((y / largest) ** 2 for y in whole)) * largest
        assert math.isclose(lengths.norm(x, 0), want, rel_tol=1e-10, abs_tol=1e-320)


def test_lengths_have_the_bits_of_sums_by_sizes():
    r = random.Random(2)
    for k in range(1000):
        size = (3, 19, 25, 300)[k % 4]
        x = np.array([r.gauss(0, 1) * 10.0 ** r.randint(-size, size) for _ in range(5)])
        x[r.randrange(5)] = 0.0
        for first in (0, 2):
            want = lengths._scaled_norm(x, first, lengths._LARGE / (5 - first))
            assert lengths.norm(x, first) == want


def test_ridders_steps_are_the_same_before_and_since_scipy_1_18():
    """But for rounding, and where products of values are too small."""
    r = random.Random(2)
    for _ in range(200):
        p, q = r.uniform(0.3, 3), r.uniform(0.3, 3)
        given = lambda x: x**3 - p * x - q, -3.0, 6.0, (), 2e-12, 1e-15, 100, False  # noqa: B023
        before, since = of_roots.ridder(*given), of_roots.ridder_by_shares(*given)
        assert math.isclose(before[0], since[0], rel_tol=1e-11)
    small = lambda x: 1e-200 * (x - 1.0), 0.0, 3.0, (), 2e-12, 1e-15, 100, False
    assert math.isclose(of_roots.ridder_by_shares(*small)[0], 1.0)
