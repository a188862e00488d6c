"""Functions that draw random numbers, through a patched `numpy.vectorize`."""

import numpy as np
import pytest

import xpapply


@pytest.mark.usefixtures("by_source", "always")
@pytest.mark.parametrize("raises", [False, True])
def test_draws_are_those_of_the_original(raises):
    """What is looked at for warnings draws no further number, and raises nothing."""
    rng = np.random.default_rng(3)

    def f(x):
        total = 0.0
        for _ in range(4):
            total += rng.random()
        if raises and total > 3.7:
            raise ValueError(total)
        return total + x

    x, state = np.arange(300.0), rng.bit_generator.state
    if raises:
        x = x[:20]  # of which none raises: others might
    want, after = np.vectorize(f)(x), rng.random()
    for _turn in range(3):
        rng.bit_generator.state = state
        with xpapply.patch():
            got = np.vectorize(f)(x)
        np.testing.assert_array_equal(got, want)
        assert rng.random() == after
