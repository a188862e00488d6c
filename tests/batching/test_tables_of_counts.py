"""Tests of tables of counts, one of each slice, are computed for all at once."""

import numpy as np
import pytest
from outcomes import check_along_rows as check

import xpapply

stats = pytest.importorskip("scipy.stats")

FUNCTIONS = [
    lambda v: stats.chi2_contingency(v.reshape(2, 3)).pvalue,
    lambda v: stats.chi2_contingency(v.reshape(3, 2), correction=False)[0],
    lambda v: stats.chi2_contingency(v[:4].reshape(2, 2)).statistic,
    lambda v: stats.chi2_contingency(v[:4].reshape(2, 2), False).pvalue,
    lambda v: stats.chi2_contingency([[v[0], v[1]], [v[2], v[3]]])[1],
    lambda v: stats.chi2_contingency(v.reshape(2, 3)).expected_freq,
    lambda v: stats.chi2_contingency(v.reshape(2, 3)).dof,
]


def counts(n=60):
    return np.random.default_rng(0).integers(1, 40, (n, 6))


@pytest.mark.parametrize("dtype", ["i8", "u1", "f8", "f4"])
@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_results_are_the_loops(k, dtype):
    x = counts().astype(dtype)
    check(FUNCTIONS[k], x)
    assert xpapply.explain(FUNCTIONS[k], 1, x).engine == "numpy"


@pytest.mark.parametrize("odd", [0, -1, 0.5, 1e17, np.nan, np.inf, "empty row", "all zero"])
@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_odd_tables_are_scipys(k, odd):
    x = counts().astype(float)
    if odd == "empty row":
        x[7, :3] = x[9, :2] = 0
    elif odd == "all zero":
        x[7] = 0
    else:
        x[7, 1] = x[9, 0] = odd
    check(FUNCTIONS[k], x)


def test_other_arguments_and_tables_are_scipys():
    x = counts()
    for f in (
        lambda v: stats.chi2_contingency(v.reshape(2, 3), lambda_="log-likelihood")[0],
        lambda v: stats.chi2_contingency(v)[1],
        lambda v: stats.chi2_contingency(v.reshape(1, 6)).pvalue,
        lambda v: stats.chi2_contingency([v[:3], [4, 5, 6]])[0],
        lambda v: stats.chi2_contingency(np.stack([v, v[::-1]]).reshape(2, 2, 3))[0],
    ):
        check(f, x)
