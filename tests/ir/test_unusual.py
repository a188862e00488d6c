"""Every slice that NumPy would warn of is marked, and slices of ordinary numbers are not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.backends import array_api
from xpapply.ir.slices.to_slice_graph import sliced
from xpapply.ir.unusual import with_unusual

FUNCTIONS = {
    "standardize": lambda v: (v - v.mean()) / v.std(),
    "softmax": lambda v: np.exp(v - v.max()) / np.exp(v - v.max()).sum(),
    "logsumexp": lambda v: np.log(np.exp(v - v.max()).sum()) + v.max(),
    "norm": lambda v: np.sqrt((v * v).sum()),
    "hidden": lambda v: np.tanh(1 / v),
    "hidden in a maximum": lambda v: np.maximum(-1 / np.abs(v), -1),
    "hidden in a number": lambda v: v / np.exp(v.sum()),
    "hidden by a choice": lambda v: np.where(v > 0, np.log(v), 0),
    "a number": lambda v: np.sqrt(v.min()),
    "variance": lambda v: v.var(),
    "cubes": lambda v: (v**3).max(),
    "range": lambda v: (v.max() - v.min()) / (v.max() + v.min()),
}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 3.5, 1e-30, 1e20, -3e38, 3e38, np.inf, -np.inf, np.nan, 100.0]


def marked(f, x):
    """Which slices are marked."""
    found = sliced(with_unusual(xpapply.lift(f, x.shape[1:], x.dtype)))
    assert found is not None
    results = array_api.evaluate(np, found.graph, [x], axes=(1,))
    return np.broadcast_to(results[-1], (len(x), 1)).ravel()


def warns(f, v):
    with np.errstate(all="raise", under="ignore"):
        try:
            f(v)
        except FloatingPointError:
            return True
    return False


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
@given(data=st.data())
def test_what_numpy_would_warn_of_is_marked(f, data):
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    rows = st.lists(st.lists(st.sampled_from(NUMBERS), min_size=5, max_size=5), min_size=1)
    x = np.array(data.draw(rows), dtype)
    with np.errstate(all="ignore"):
        found = marked(f, x)
    for v, mark in zip(x, found, strict=True):
        assert mark or not warns(f, v), v


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_ordinary_slices_are_not_marked(f):
    x = np.random.default_rng(0).uniform(0.5, 3, (50, 5))
    assert not marked(f, x).any()


def test_few_numbers_are_looked_at():
    """One test of each element is enough for what the results show."""
    graph = with_unusual(xpapply.lift(FUNCTIONS["standardize"], (8,), "float32"))
    more = [n.op for n in graph.nodes]
    elementwise = [n for n in graph.nodes if n.op == "isfinite" and n.aval.shape == (8,)]
    assert len(elementwise) == 1
    assert more.count("isfinite") <= 8
