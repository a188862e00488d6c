"""Python's `sum` of floats, which makes up for what is lost where it rounds (from 3.12 on)."""

import math
from fractions import Fraction

import numpy as np
import pytest

import xpapply
from xpapply.batching import scalars

FUNCTIONS = {
    "tolist": lambda v: sum(v.tolist()),
    "from a float": lambda v: sum(v.tolist(), 0.0),
    "from the first": lambda v: sum(v.tolist(), float(v[0])),
    "from a number of NumPy": lambda v: sum(v.tolist(), v[0]),
    "of a generator": lambda v: sum(float(x) * 0.1 for x in v),
    "of numbers of NumPy": lambda v: sum(x * 0.1 for x in v),
    "integers first": lambda v: sum([1, 2, True, *v.tolist()]),
    "integers between": lambda v: sum([0.1, *v.tolist(), 7, *v.tolist()]),
    "traced integers between": lambda v: sum([*v.tolist(), int(v[0] > 0), *v.tolist()]),
    "a number of NumPy between": lambda v: sum([*v.tolist(), v[1], *v.tolist()]),
    "from minus zero": lambda v: sum([-0.0 * x for x in v.tolist()], -0.0),
    "a constant among them": lambda v: sum([1e16, *v.tolist(), -1e16]),
    "a long integer first": lambda v: sum([2**70, *v.tolist()]),
    "a long integer between": lambda v: sum([1e16, 2**70, *v.tolist()]),
    "integers that become long": lambda v: sum([2**62, 2**62, *v.tolist()]),
    "one that makes them short": lambda v: sum([-5, 2**63 + 1, *v.tolist()]),
    "complex": lambda v: sum([complex(x, 0.1) for x in v.tolist()]).real,
    "a branch": lambda v: 1.0 if sum(v.tolist()) > 0.0 else -1.0,
    "weights": lambda v: sum(w * x for w, x in zip((0.1, 0.2, 0.3), v.tolist(), strict=False)),
    "of elements, in a loop": lambda v: [sum([float(x), 0.1, -float(x)]) for x in v],
}


def _slices(n: int) -> np.ndarray:
    """Sums that cancel, and a few slices that are unlike the others."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 6)) * 10.0 ** rng.integers(-3, 4, (n, 6))
    x[::3, 3:] = -x[::3, :3] * (1 + 2.0**-50)
    x[1::7] = [1e16, 1.0, 1e-3, -1e16, 1.0, 1e-20]
    if n > 40:
        x[31], x[32], x[33] = np.inf, np.nan, -0.0
        x[34] = [1.7e308, 1.7e308, -1.7e308, 1.0, -1.7e308, 0.1]
        x[35, 2] = -np.inf
    return x


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("n", [3, 1000])
def test_the_bits_are_those_of_the_loop(name: str, n: int) -> None:
    f, x = FUNCTIONS[name], _slices(n)
    with np.errstate(all="ignore"):
        wanted = np.apply_along_axis(f, -1, x)
        found = xpapply.apply_along_axis(f, -1, x)
    np.testing.assert_array_equal(found, wanted)
    there = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(wanted[there]))


@pytest.mark.parametrize("engine", ["cpu"])
@pytest.mark.parametrize("name", ["tolist", "integers between", "a constant among them"])
def test_kernels_make_up_too(name: str, engine: str) -> None:
    pytest.importorskip("llvmlite")
    f, x = FUNCTIONS[name], _slices(1000)
    with np.errstate(all="ignore"):
        wanted = np.apply_along_axis(f, -1, x)
        with xpapply.options(engine=engine):
            found = xpapply.apply_along_axis(f, -1, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def _python(numbers: list[float]) -> float:
    """What Python 3.12 does, in a form of its own: the exact error of each addition."""
    total, lost = numbers[0], 0.0
    for x in numbers[1:]:
        found = total + x
        if math.isfinite(found):
            lost += float(Fraction(total) + Fraction(x) - Fraction(found))
        else:
            lost = math.nan
        total = found
    return total + lost if lost and math.isfinite(lost) else total


def test_the_rule_adds_as_python_does() -> None:
    x = _slices(3000)[40:]
    columns = [scalars.Batched(c) for c in x.T]
    found = scalars.SUM.rule(np, None, (columns, (True,) * 6), {}).array
    np.testing.assert_array_equal(found, [_python(v) for v in x.tolist()])
    if float in scalars.COMPENSATED:
        np.testing.assert_array_equal(found, [sum(v) for v in x.tolist()])
