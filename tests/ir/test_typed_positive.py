"""Divisors that are never zero: floats between bounds, on a GPU."""

import numpy as np
import pytest
import standin_cupy
from on_standin import made

from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.verify import verify

ZERO = "division by zero"


def kalman(v):
    level, spread = 0.0, 1.0
    for x in v:
        spread = spread + 0.1
        if x > -2.0:
            gain = spread / (spread + 0.5)
            level = level + gain * (float(x) - level)
            spread = (1.0 - gain) * spread
    return level


def squares(v):
    s = 0.0
    for x in v:
        y = float(x)
        s = s + y * y
    return 1.0 / (s + 1e-12)


def sizes(v):
    s = 1.0
    for x in v:
        s = s + abs(float(x))
    return float(v[0]) / s


def below_zero(v):
    s = -1.0
    for _ in v:
        s = s - 0.5
    return 2.0 / s


def falls_to_zero(v):
    s = 4.0
    for x in v:
        if x > 0:
            s = s - 1.0
    return 1.0 / s


def begins_at_zero(v):
    s = 0.0
    for x in v:
        y = float(x)
        s = s + y * y
    return 1.0 / s


def gain_of_another(v):
    """The quotient may be more than 1, so that what is left of 1 may fall to zero."""
    spread, other = 1.0, 2.0
    for x in v:
        if x > 0:
            gain = other / (spread + 0.5)
            spread = (1.0 - gain) * spread
        other = other + 1.0
    return 1.0 / (spread + 0.25)


def underflows(v):
    s = 1e-300
    for _ in v:
        s = s * 0.1
    return 1.0 / s


def marks(function):
    return sum(
        x.op == "mark" and ZERO in function.marks[x.what - 1].why for x in function.instructions
    )


@pytest.mark.parametrize("f", [kalman, squares, sizes, below_zero])
def test_never_zero(f):
    assert check(f) == 0


@pytest.mark.parametrize("f", [falls_to_zero, begins_at_zero, gain_of_another, underflows])
def test_perhaps_zero(f):
    assert check(f) > 0


def check(f):
    rng = np.random.default_rng(5)
    with standin_cupy.installed():
        function = made(f, "float64", [np.asarray(0.0)])
    verify(function)
    for v in (*rng.standard_normal((5, 12)), np.full(12, np.inf), np.full(12, np.nan)):
        out = np.empty(())
        if evaluate(function, [v], [out]) == 0:
            with np.errstate(all="ignore"):
                assert np.array_equal(out, f(v.astype(object)), equal_nan=True)
    return marks(function)
