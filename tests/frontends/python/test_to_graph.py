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


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("number", [0.1, 2, np.float32(0.1)], ids=repr)
def test_dtypes_of_products_with_numbers(number, dtype):
    """Not as in ``v * 0.1``: NumPy makes an array of the number."""
    v = V.astype(dtype)
    for f in (lambda v: np.dot(v, number), lambda v: v.dot(number), lambda v: np.dot(number, v)):
        graph = xpapply.lift(f, (6,), dtype)
        (got,) = array_api.evaluate(np, graph, [v], graph.consts)
        assert got.dtype == f(v).dtype
        np.testing.assert_array_equal(got, f(v))
