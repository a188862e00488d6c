"""Python functions as graphs of the op table."""

import numpy as np
import pytest

import xpapply
from xpapply.backends import array_api

W = np.random.default_rng(0).standard_normal((4, 6))
V = np.random.default_rng(1).standard_normal(6)
PRODUCTS = {
    "matrix @ slice": lambda v: W @ v,
    "slice @ matrix": lambda v: v @ W.T,
    "np.dot": lambda v: np.dot(W, v),
    "method dot": lambda v: v.dot(W.T),
    "dot of slices": lambda v: np.dot(v, v),
    "dot with a number": lambda v: np.dot(v, 2.0),
    "np.matmul": lambda v: np.matmul(W, v),
    "two layers": lambda v: np.dot(W.T, np.tanh(np.dot(W, v))),
}


@pytest.mark.parametrize("f", PRODUCTS.values(), ids=PRODUCTS)
def test_products(f):
    graph = xpapply.lift(f, (6,))
    (got,) = array_api.evaluate(np, graph, [V], graph.consts)
    np.testing.assert_allclose(got, f(V), rtol=1e-12)
