"""Products of filters and windows on NumPy arrays."""

import math

import numpy as np
import pytest

from xpapply.backends.numpy import windows
from xpapply.limits import LIMITS

CASES = {
    "images": ("nckl,cpkqlZ->npqZ", (32, 16, 3, 3), (16, 30, 30)),
    "few places": ("nckl,cpkqlZ->npqZ", (16, 32, 3, 3), (32, 4, 4)),
    "in groups": ("gnck,gcpkZ->gnpZ", (2, 16, 32, 5), (2, 32, 70)),
    "wide filters": ("nck,cpkZ->npZ", (256, 128, 3), (128, 40)),
}


@pytest.mark.parametrize("name", CASES)
def test_products_are_small_enough_for_one_thread(name, monkeypatch):
    subscripts, filters, shape = CASES[name]
    rng = np.random.default_rng(0)
    w = rng.standard_normal(filters)
    taps = filters[3:] if "g" in subscripts else filters[2:]
    x = rng.standard_normal((50, *shape))
    places = range(x.ndim - len(taps), x.ndim)
    cut = np.lib.stride_tricks.sliding_window_view(x, taps, tuple(places))
    # each axis of taps behind that of its places
    lead = x.ndim - len(taps)
    pairs = [a for k in range(len(taps)) for a in (lead + k, x.ndim + k)]
    cut = cut.transpose((*range(1, lead), *pairs, 0))
    want = np.einsum(subscripts, w, cut, optimize=True)
    out = np.moveaxis(np.empty((50, *want.shape[:-1])), 0, -1)
    asked = []
    matmul = np.matmul

    def seen(a, b, out):
        asked.append(math.prod(a.shape[-2:]) * b.shape[-1])
        return matmul(a, b, out=out)

    monkeypatch.setattr(np, "matmul", seen)
    assert windows.product(subscripts, w, cut, out)
    assert np.allclose(out, want, rtol=1e-12, atol=1e-10)
    small = max(asked) <= LIMITS.windows_stack
    assert small == (name != "wide filters")  # a few columns are not worth a call
