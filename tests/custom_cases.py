"""What the tests of elementwise and reduction have in common."""

import warnings

import numpy as np

from xpapply import elementwise, reduction


def quiet(f, *args):
    """`f` of NumPy's own arrays, without its warnings."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args)


X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -0.25]])

squared_diff = elementwise(lambda x, y: (x - y) * (x - y))

l2norm = reduction(lambda x: x * x, lambda a, b: a + b, np.sqrt, 0)

small = {"float16": (-1, 0), "float32": (-1, 0), "float64": (-1, 0)}


def online_logsumexp(a, b):
    top = np.maximum(a[0], b[0])
    return top, a[1] * np.exp(a[0] - top) + b[1] * np.exp(b[0] - top)
