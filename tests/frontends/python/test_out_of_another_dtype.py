"""Calls with ``out=`` and ``dtype=``: these may say in which dtype NumPy computes."""

import numpy as np
import outcomes
import pytest

CALLS = {
    "np.sum": lambda v: np.sum(v, out=np.zeros(())),
    "sum": lambda v: v.sum(out=np.zeros(())),
    "cumsum": lambda v: np.cumsum(v, out=np.zeros(12)),
    "mean": lambda v: np.mean(v.reshape(3, 4), axis=0, out=np.zeros(4)),
    "mean of a dtype": lambda v: np.mean(v.reshape(3, 4), axis=0, dtype="f4", out=np.zeros(4)),
    "var": lambda v: np.var(v.reshape(3, 4), axis=1, out=np.zeros(3)),
    "nansum": lambda v: np.nansum(v.reshape(3, 4), axis=0, out=np.zeros(4)),
    "reduce": lambda v: np.add.reduce(v.reshape(3, 4), axis=1, out=np.zeros(3)),
    "accumulate": lambda v: np.multiply.accumulate(v, out=np.zeros(12)),
    "einsum": lambda v: np.einsum("ij->i", v.reshape(3, 4), out=np.zeros(3)),
    "percentile": lambda v: np.percentile(v.reshape(3, 4), 30, axis=0, out=np.zeros(4)),
    "round": lambda v: np.round(v, 1, out=np.zeros(12)),
    "trace": lambda v: np.trace(v[:9].reshape(3, 3), out=np.zeros(())),
    "a ufunc": lambda v: np.multiply(v, v, out=np.zeros(12)),
    "matmul": lambda v: np.matmul(v.reshape(3, 4), v.reshape(4, 3), out=np.zeros((3, 3))),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_numbers_of_another_dtype(name, dtype, plan_always):
    """Sums of float32 that go into an array of float64 are computed in float64."""
    rng = np.random.default_rng(0)
    x = (rng.integers(-9, 9, (40, 12)) * 16.0 ** rng.integers(0, 6, (40, 12)) + 0.5).astype(dtype)
    outcomes.check_along_rows(CALLS[name], x)


def test_mask_of_a_reduction(plan_always):
    """What a mask leaves out adds nothing: the array that is written into is none of the terms."""

    def f(v):
        return np.add.reduce(v[None, :], axis=0, out=np.ones(5), where=v > -100)

    x = np.arange(2000.0).reshape(400, 5)
    x[333, 3] = -200
    outcomes.check_along_rows(f, x)


@pytest.mark.parametrize("stack", [np.hstack, np.vstack])
def test_places_are_not_converted(stack, plan_always):
    """A dtype is that of the numbers: complex places warned that their imaginary part is lost."""
    x = np.arange(480.0).reshape(40, 12)
    outcomes.check_along_rows(lambda v: stack((v > 70, v[::-1] > 90), dtype=complex), x)
