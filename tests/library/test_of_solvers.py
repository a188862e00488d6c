"""Solvers in plain Python give what SciPy's give, bit for bit."""

import math
import random

import numpy as np
import pytest

from xpapply.library import of_fits, of_roots

optimize = pytest.importorskip("scipy.optimize")

EPS = math.ulp(1.0)
LEFT = (NotImplementedError, ZeroDivisionError)
"""What leaves a problem to SciPy."""


def outcome(call):
    """What a call gives, or what it raises."""
    with np.errstate(all="ignore"):
        try:
            return call()
        except Exception as error:
            return type(error)


FUNCTIONS = (
    lambda x, p, q: math.exp(-p * x) - q * x,
    lambda x, p, q: x**3 - p * x - q,
    lambda x, p, q: math.cos(x) - p * x + q - 2,
    lambda x, p, q: (x - q) ** 5,
    lambda x, p, q: math.atan(p * (x - q)),
    lambda x, p, q: 0.0 if x > q else -1.0,
    lambda x, p, q: 1e-200 * (x - q),
    lambda x, p, q: math.nan if x > 2 * q else x - q,
)


@pytest.mark.parametrize("name", ["brentq", "brenth", "bisect", "ridder"])
def test_roots_between_two_places(name):
    theirs, ours = getattr(optimize, name), getattr(of_roots, name)
    r, left = random.Random(name), 0
    for k in range(600):
        f, p, q = FUNCTIONS[k % len(FUNCTIONS)], r.uniform(0.3, 3), r.uniform(0.3, 3)
        a, b = r.uniform(-1, 2), r.uniform(0, 6)
        xtol, most = 10.0 ** r.randint(-13, -2), r.choice([0, 3, 10, 100])
        args = (f, a, b, (p, q), xtol, r.choice([4 * EPS, 1e-6]), most)
        mine = outcome(lambda args=args: ours(*args))
        left += mine in LEFT
        if mine not in LEFT:
            want = outcome(lambda args=args: theirs(*args))
            assert mine == want, args[1:]
    assert left < 120  # numbers so small that products of them are 0


DERIVATIVES = (
    (
        lambda x, p, q: np.exp(-p * x) - q * x,
        lambda x, p, q: -p * np.exp(-p * x) - q,
        lambda x, p, q: p * p * np.exp(-p * x),
    ),
    (lambda x, p, q: x**3 - p * x - q, lambda x, p, q: 3 * x**2 - p, lambda x, p, q: 6 * x),
    (lambda x, p, q: x**2 + p, lambda x, p, q: 2 * x, lambda x, p, q: 2.0),
    (lambda x, p, q: p, lambda x, p, q: 0.0, lambda x, p, q: 0.0),
)


@pytest.mark.parametrize("method", ["newton", "halley", "secant"])
def test_newtons_method(method):
    r = random.Random(method)
    for k in range(400):
        f, slope, bent = DERIVATIVES[k % 4]
        args, x0 = (r.uniform(0.3, 3), r.uniform(0.3, 3)), np.float64(r.uniform(-2, 5))
        tol, most, rtol = 10.0 ** r.randint(-12, -3), r.choice([1, 4, 50]), r.choice([0.0, 1e-6])
        x1 = r.choice([None, None, x0, x0 + 0.25])
        known = {"args": args, "tol": tol, "maxiter": most, "rtol": rtol}
        if method == "secant":
            mine = outcome(lambda a=(f, x0, args, tol, most, x1, rtol): of_roots.secant(*a))
            want = outcome(lambda a=(f, x0), x1=x1, k=known: optimize.newton(*a, x1=x1, **k))
        else:
            second = bent if method == "halley" else None
            a = (f, x0, slope, args, tol, most, second, rtol)
            mine = outcome(lambda a=a: of_roots.newton(*a))
            want = outcome(
                lambda a=(f, x0, slope), s=second, k=known: optimize.newton(*a, fprime2=s, **k)
            )
        if mine not in LEFT:
            assert mine == want or (mine != mine and want != want)


def test_more_than_a_derivative_of_zero_is_told():
    with pytest.raises(RuntimeError):
        of_roots.newton(lambda x: 1.0, np.float64(1), lambda x: 0.0, (), 1e-8, 50, None, 0.0)


T = np.linspace(0, 5, 16)
MODELS = (
    (lambda t, a, b: a + b * t, (2, 3)),
    (lambda t, a, b: a * np.exp(-b * t), (1.5, 0.7)),
    (lambda t, a, b, c: a * np.exp(-b * t) + c, (1.5, 0.7, 0.2)),
    (lambda t, a, m, s: a * np.exp(-((t - m) ** 2) / (2 * s**2)), (2, 2, 0.8)),
    (lambda t, a, k, m, c: a / (1 + np.exp(-k * (t - m))) + c, (2, 2, 2.5, 0.1)),
    (lambda t, a: a * np.sin(a * t), (1.3,)),
    (lambda t, a, b: (a + b) * t, (1.0, 2.0)),  # which cannot be told apart
)


def problem(r):
    """A model, data and options of a fit."""
    model, true = r.choice(MODELS)
    n, rng = len(true), np.random.default_rng(r.randrange(1 << 30))
    with np.errstate(all="ignore"):
        y = model(T, *rng.uniform(0.5, 2, n) * true)
        y = y + rng.normal(size=16) * 10.0 ** r.randint(-7, 0)
    start = r.choice([None, np.ones(n), rng.normal(size=n), rng.normal(size=n) * 100])
    some = {"maxfev": r.choice([0, 0, 5, 30])}
    if r.random() < 0.3:
        some["sigma"] = rng.uniform(0.1, 2, 16)
    if r.random() < 0.3:
        some["absolute_sigma"] = True
    if r.random() < 0.2:
        some |= {"ftol": 1e-12, "xtol": 1e-3, "gtol": 1e-6}
    if r.random() < 0.1:
        some |= {"epsfcn": 1e-8, "factor": 0.5}
    if r.random() < 0.05:
        y[r.randrange(16)] = r.choice([math.nan, math.inf])
    return model, y, start, some


def fitted(model, y, start, some):
    """The fit by our page."""
    n = model.__code__.co_argcount - 1
    x0 = np.ones(n) if start is None else start
    return of_fits.curve_fit(
        model, T, y, x0, (None,) * n, some.get("sigma"), some.get("absolute_sigma", False), True,
        some.get("ftol", 1.49012e-8), some.get("xtol", 1.49012e-8), some.get("gtol", 0.0),
        some["maxfev"] or 200 * (n + 1), some.get("factor", 100.0), some.get("epsfcn", EPS),
    )  # fmt: skip


@pytest.mark.filterwarnings("error::scipy.optimize.OptimizeWarning")
def test_least_squares():
    r, left = random.Random(0), 0
    for _ in range(400):
        model, y, start, some = problem(r)
        mine = outcome(lambda a=(model, y, start, some): fitted(*a))
        if mine in LEFT:
            left += 1
            continue
        want = outcome(lambda a=(model, T, y, start), some=some: optimize.curve_fit(*a, **some))
        if isinstance(mine, type):
            assert mine is want, (start, some)
            continue
        np.testing.assert_array_equal(mine[0], want[0])
        np.testing.assert_allclose(mine[1], want[1], rtol=1e-9, atol=1e-9 * np.abs(want[1]).max())
    assert left < 150  # those that warn, and steps that overflow


def test_lengths_of_any_size():
    r = random.Random(1)
    for _ in range(300):
        x = np.array([r.choice([0.0, 1.0, -2.5]) * 10.0 ** r.randint(-320, 300) for _ in range(7)])
        whole = [abs(float(y)) for y in x]
        largest = max(whole)
        want = 0.0 if largest == 0 else math.sqrt(sum((y / largest) ** 2 for y in whole)) * largest
        assert math.isclose(of_fits._norm(x, 0), want, rel_tol=1e-10, abs_tol=1e-320)
