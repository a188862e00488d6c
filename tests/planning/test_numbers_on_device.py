"""`vectorize` of functions of numbers on CuPy's arrays: compiled for the device, as NumPy has it.

With a stand-in what runs a typed function is its definition in plain Python.
"""

import math

import numpy as np
import pytest
from on_standin import evaluated_on_standin

import xpapply
from xpapply.backends.cpu import host

pytestmark = pytest.mark.skipif(host.why_not() is not None, reason=str(host.why_not()))

RNG = np.random.default_rng(11)


@pytest.fixture(params=["stand-in", pytest.param("cupy", marks=pytest.mark.gpu)])
def cp(request):
    if request.param == "cupy":
        yield pytest.importorskip("cupy")
        return
    with evaluated_on_standin() as found:
        yield found


def same(cp, f, *args, compiled=True, rtol=0.0, where=None, **how):
    """As `numpy.vectorize` has it on the host; `compiled`: on the device."""
    own = [cp.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
    more = {} if where is None else {"where": where}
    device = {} if where is None else {"where": cp.asarray(where)}
    with np.errstate(all="ignore"):
        want = xpapply.vectorize(f, **how)(*args, **more)
        made = xpapply.vectorize(f, **how)
        for _ in range(3):
            got = made(*own, **device)
            assert type(got) is (tuple if isinstance(want, tuple) else cp.ndarray)
            pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
            for x, y in pairs:
                assert isinstance(x, cp.ndarray)
                assert x.dtype == y.dtype
                np.testing.assert_allclose(x.get(), y, rtol=rtol, atol=rtol)
                assert rtol or (np.signbit(x.get()) == np.signbit(y)).all()
        if where is None:
            plan = made.explain(*own)
            on_host = any("copy on the host" in k for k in plan.kernels)
            assert on_host is not compiled, str(plan)
    return made


def decided(x, y):
    if x > y:
        return x - y
    if x == y:
        return 0.0
    return y * 2.0


def summed(x, n):
    total = 0.0
    for k in range(n % 7):
        if x * k > 2:
            break
        total += x * k
    else:
        total -= 1
    return total


def collatz(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def halley(e, m):
    x = m
    for _ in range(20):
        f = x - e * math.sin(x) - m
        step = f / (1 - e * math.cos(x))
        x -= step
        if abs(step) < 1e-13:
            break
    return x


def helped(x):
    return square(x) + square(x + 1)


def square(x):
    return x * x


class Scaled:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return min(max(x * self.by, -1.0), 1.0)


FLOATS = {
    "branches": (decided, 2),
    "helper": (helped, 1),
    "clipped": (Scaled(2.5), 1),
    "conditional": (lambda x: x if x > 0 else -x, 1),
    "chained": (lambda x, y: 1 if -1 < x <= y < 1 else 0, 2),
    "and or": (lambda x, y: bool(x > 0 and y > 0) or x < -1, 2),
    "augmented": (lambda x: (lambda t: t)(x) ** 3, 1),
    "floor division": (lambda x, y: x // 0.7 + y % 0.3, 2),
    "integers of floats": (lambda x: int(x * 10) % 3, 1),
    "rounded": (lambda x: round(x) + math.floor(x) - math.ceil(x), 1),
    "built in": (lambda x, y: max(x, y) - min(x, y) + abs(x), 2),
    "several": (lambda x, y: (x + y, x > y), 2),
    "no number": (lambda x: x if x > 0 else math.nan, 1),
    "signs": (lambda x: -0.0 if x > 0 else x * 0.0, 1),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int16", "uint8", "bool"])
@pytest.mark.parametrize("name", FLOATS)
def test_functions_of_numbers(cp, name, dtype):
    f, count = FLOATS[name]
    rng = np.random.default_rng(len(name))
    args = [(rng.normal(size=(9, 8)) * 3).astype(dtype) for _ in range(count)]
    try:
        np.vectorize(f)(*args)
    except Exception as error:  # NumPy gives the first element as one of its own
        with pytest.raises(type(error)):
            xpapply.vectorize(f)(*map(cp.asarray, args))
        return
    same(cp, f, *args, rtol=1e-12 if name == "augmented" else 0.0)


@pytest.mark.parametrize("name", ["exp", "log1p", "sin", "atan", "tanh", "erf", "cbrt", "expm1"])
def test_functions_of_math(cp, name):
    if not hasattr(math, name):
        pytest.skip("not of this Python")
    g = getattr(math, name)
    same(cp, lambda x: g(x) if x > 0 else 0.0, RNG.normal(size=300), rtol=1e-13)


TABLE = np.array([1.5, -2.0, 3.25])


@pytest.mark.parametrize(
    "f",
    [
        lambda a: np.float64(a) * 2,
        lambda a: {1: a}[1],
        lambda a: np.exp(-a) if a > 0 else np.sqrt(-a),
        lambda a: np.maximum(a, 0.5) + np.hypot(a, 2.0),
        lambda a: TABLE[int(abs(a)) % 3] * a,
        lambda a: np.sum(np.array([a, 2 * a, TABLE[1]]) ** 2),
        lambda a: max([abs(a - t) for t in (0.5, 1.0, 2.0)]),
    ],
)
def test_functions_of_numpy(cp, f):
    same(cp, f, RNG.normal(size=300), rtol=1e-13)


def test_what_numpy_warns_of_is_warned_of(cp):
    x = np.array([1.0, 2.0, 0.0, 3.0, np.inf])
    made = xpapply.vectorize(lambda a: np.log(a))
    said = pytest.warns(RuntimeWarning, match="divide by zero encountered in log")
    with np.errstate(divide="warn"), said:
        found = made(cp.asarray(x))
    np.testing.assert_allclose(found.get(), [0.0, np.log(2), -np.inf, np.log(3), np.inf])


def test_loops(cp):
    same(cp, summed, RNG.normal(size=(12, 9)), RNG.integers(0, 50, 9))
    same(cp, collatz, np.arange(1, 90))
    e, m = RNG.uniform(0, 0.9, 100), RNG.uniform(0, 6.28, 100)
    same(cp, halley, e, m, rtol=1e-12)


DECIDED = {
    "int": lambda x: int(math.exp(math.log(x))),
    "floor": lambda x: math.floor(math.exp(math.log(x))),
    "ceil": lambda x: math.ceil(x**0.5 * x**0.5),
    "round": lambda x: round(math.exp(math.log(x + 0.5))),
    "remainder": lambda x: math.exp(math.log(x)) % 1.0 < 0.5,
    "compared": lambda x: math.exp(math.log(x)) < x,
    "equal": lambda x: math.sin(x) ** 2 + math.cos(x) ** 2 == 1.0,
    "a branch": lambda x: 1.0 if math.exp(math.log(x) * 2) >= x * x else -1.0,
    "a sign": lambda x: 1.0 if math.exp(math.log(x)) - x > 0 else 0.0,
    "a truth": lambda x: 1.0 if math.exp(math.log(x)) - x else 0.0,
    "copysign": lambda x: math.copysign(1.0, math.exp(math.log(x)) - x),
    "a small difference": lambda x: abs(math.exp(math.log(x)) - x) < 1e-15,
    "whole differences": lambda x: math.floor(math.exp(math.log(x)) - x),
}
OFTEN = [*DECIDED][[*DECIDED].index("compared") :]


@pytest.mark.parametrize("name", DECIDED)
def test_what_last_bits_decide_is_decided_by_the_hosts(cp, name):
    often = name in OFTEN  # then it is left to the host
    x = np.random.default_rng(3).uniform(1, 50, 600)
    made = same(cp, DECIDED[name], x, otypes=[float], compiled=not often)
    if not often:  # nothing is left to the function
        assert not any("by the function itself" in k for k in made.explain(cp.asarray(x)).kernels)
    x[7::40] = np.arange(1, 16)
    same(cp, DECIDED[name], x, otypes=[float], compiled=not often)


ROOTS = {
    "brentq": lambda o: lambda k: o.brentq(lambda x: x - 0.5 * math.sin(x) - k, 0.0, 10.0),
    "bisect": lambda o: lambda k: o.bisect(lambda x, a: x * x * x - a, 0.0, 10.0, args=(k,)),
    "newton": lambda o: lambda k: o.newton(lambda x: x * x - k, 1.0, fprime=lambda x: 2 * x),
    "secant": lambda o: lambda k: o.newton(lambda x: x * x - k, 1.0),
    "root_scalar": lambda o: lambda k: o.root_scalar(lambda x: x * x - k, bracket=(0.0, 9.0)).root,
}


@pytest.mark.parametrize("name", ROOTS)
def test_roots(cp, name):
    f = ROOTS[name](pytest.importorskip("scipy.optimize"))
    same(cp, f, RNG.uniform(0.1, 5, 40), rtol=1e-12)


def test_functions_of_cupy_among_numbers(cp):
    x, y = RNG.normal(size=(2, 60))
    same_of_cupy(cp, lambda xp, a, b: xp.add(a, b) * 2, x, y)
    same_of_cupy(cp, lambda xp, a, b: xp.maximum(a, b) if a > 0 else xp.exp(b), x, y)
    same_of_cupy(cp, lambda xp, a, b: xp.multiply(a, b) + xp.sqrt(xp.abs(a)), x, y)
    same_of_cupy(cp, lambda xp, a, b: xp.add(a, b), np.arange(60), np.arange(60) % 7)


def same_of_cupy(cp, f, *args):
    own = xpapply.vectorize(lambda *xs: f(cp, *xs))
    want = np.vectorize(lambda *xs: f(np, *xs))(*args)
    for _ in range(3):
        got = own(*map(cp.asarray, args))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.get(), want, rtol=1e-12)
    assert "on the GPU" in str(own.explain(*map(cp.asarray, args)))


@pytest.mark.parametrize("number", [2, 2.5, True, np.float32(1.5), np.int8(3)])
def test_numbers_beside_arrays(cp, number):
    x = RNG.normal(size=(20, 3))
    are_pythons = not isinstance(number, np.generic)  # f gets these as they are
    same(cp, lambda a, b: a + b if a > b else b - a, x, number, compiled=are_pythons)
    same(cp, lambda a, b: a + b if a > b else b - a, number, x, compiled=are_pythons)


def test_layouts(cp):
    x, y = RNG.normal(size=(6, 7, 5)), RNG.normal(size=(7, 1))
    same(cp, decided, x, y)
    same(cp, decided, x.transpose(2, 0, 1)[::2, ::-1], RNG.normal(size=7)[::-1])
    same(cp, decided, np.float64(2.0) * np.ones((1, 1)), x)


def test_what_is_asked_for(cp):
    x = RNG.normal(size=50)
    same(cp, lambda a: a * 2 if a > 0 else 1, x, otypes=[float])
    same(cp, lambda a: a * 2 if a > 0 else 1, x, otypes="f", rtol=1e-7)
    same(cp, lambda a: (int(a * 9), a > 0), x, otypes=[np.int32, bool])
    same(cp, lambda a: a * 2 if a > 0 else 1.0, x, where=x > -1)


def test_the_first_element_says_what_all_are(cp):
    x = np.array([1.0, *RNG.normal(size=30) * 20])
    same(cp, lambda a: 1 if a > 0 else a, x)
    same(cp, lambda a: a if a > 0 else 1, x)
    same(cp, lambda a: True if a > 0 else a, x)


def test_elements_that_are_left_to_the_function_itself(cp):
    x = RNG.integers(1, 9, 300)
    x[[7, 290]] = 40
    same(cp, lambda a: (a**30) % 1000003, x)  # more than 63 bits
    x = np.where(np.arange(300) == 150, np.inf, RNG.normal(size=300))
    same(cp, lambda a: int(a) if a < 1e9 else -1, x)


def test_what_is_raised_is_raised_at_its_element(cp):
    x = np.ones((20, 6))
    x[13, 2] = 0.0
    made = xpapply.vectorize(lambda a: 1.0 / a)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            made(cp.asarray(x))
        assert "(13, 2)" in "".join(caught.value.__notes__)
    np.testing.assert_array_equal(made(cp.asarray(x[:10])).get(), x[:10])


def test_what_is_not_compiled_runs_on_a_copy_on_the_host(cp):
    x = RNG.normal(size=40)
    same(cp, lambda a: np.linalg.svd([[a]])[1][0], x, compiled=False)
    calls = []

    def counted(a):
        calls.append(a)
        return a

    made = xpapply.vectorize(counted, otypes=[float])
    with xpapply.options(fallback="silent"):
        made(cp.asarray(x))
    assert calls == x.tolist()
    plan = xpapply.vectorize(lambda a: np.linalg.svd([[a]])[1][0]).explain(cp.asarray(x))
    assert "not on the GPU: " in str(plan)


def test_what_changes_outside_is_seen(cp):
    by = 2.0
    f = lambda a: a * by if a > 0 else 0.0  # noqa: E731
    made, x = xpapply.vectorize(f), RNG.normal(size=60)
    for _ in range(3):
        np.testing.assert_array_equal(made(cp.asarray(x)).get(), np.where(x > 0, x * by, 0.0))
    by = 3.0
    np.testing.assert_array_equal(made(cp.asarray(x)).get(), np.where(x > 0, x * by, 0.0))


def test_several_arrays_of_slices(cp):
    def weighted(v, w):
        total = 0.0
        for a, b in zip(v, w, strict=True):
            if a > 0:
                total += a * b
        return total

    x, w = RNG.normal(size=(50, 6)), RNG.normal(size=6)
    made = xpapply.vectorize(weighted, signature="(n),(n)->()")
    for _ in range(3):
        got = made(cp.asarray(x), cp.asarray(w))
        np.testing.assert_allclose(got.get(), (np.where(x > 0, x, 0) * w).sum(-1), rtol=1e-12)
    assert "one compiled loop on the GPU" in str(made.explain(cp.asarray(x), cp.asarray(w)))


def counted(v, limits, scale=1.0):
    total = 0
    for x in v:
        for k in range(len(limits)):
            if x * scale < limits[k]:
                total += k
                break
    return total


@pytest.mark.parametrize("axis", [0, 1])
def test_arrays_beside_the_slices(cp, axis):
    x, limits = RNG.normal(size=(30, 40)), np.array([-1.0, 0.0, 0.5, 1.5])
    own, there = cp.asarray(x), cp.asarray(limits)
    for factor in (1, 1, 2):  # what is written into it is seen
        there[...] = cp.asarray(limits * factor)
        for how in ({}, {"scale": 2.0}):
            got = xpapply.apply_along_axis(counted, axis, own, there, **how)
            want = np.apply_along_axis(counted, axis, x, limits * factor, **how)
            np.testing.assert_array_equal(got.get(), want)
            plan = xpapply.explain(counted, axis, own, there, **how)
            assert "one compiled loop on the GPU" in str(plan)
    other = cp.asarray(limits[:3])
    got = xpapply.apply_along_axis(counted, axis, own, limits=other)
    np.testing.assert_array_equal(got.get(), np.apply_along_axis(counted, axis, x, limits[:3]))


def test_results_of_slices_beside_arrays_stand_where_the_slices_did(cp):
    def shifted(v, by):
        out = cp.zeros_like(v)
        for k in range(len(v)):
            out[k] = v[k] + by[k, 0] if v[k] > 0 else by[k, 1]
        return out

    x, by = RNG.normal(size=(5, 6, 7)), RNG.normal(size=(6, 2))
    got = xpapply.apply_along_axis(shifted, 1, cp.asarray(x), cp.asarray(by))
    want = np.where(x > 0, x + by[:, :1], by[:, 1:])
    np.testing.assert_array_equal(got.get(), want)


def test_a_step_that_is_small_enough_is_no_doubt(cp):
    def newton(a):
        x = a
        for _ in range(50):
            new = x - (math.exp(x) - a) / math.exp(x)
            if abs(new - x) < 1e-12:
                break
            x = new
        return x

    x = RNG.uniform(1.5, 9, 300)
    made = same(cp, newton, x, rtol=1e-11)
    assert not any("by the function itself" in k for k in made.explain(cp.asarray(x)).kernels)


def test_the_first_element_tells_the_dtype_each_time(cp):
    f = lambda x: x * 2 if x > 0 else math.sin(x)  # noqa: E731
    x = RNG.normal(size=80).astype("f4")
    made = xpapply.vectorize(f)
    for sign in (-1, -1, -1, 1, -1, 1):
        x[0] = sign
        want, got = np.vectorize(f)(x), made(cp.asarray(x))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.get(), want, rtol=1e-6)


def test_a_first_element_that_is_left_gets_pythons_numbers(cp):
    x = np.array([2**62 + 1, *range(1, 60)])
    same(cp, collatz, x, otypes="q")


def test_texts_beside_numbers(cp):
    f = lambda a, how: abs(a) if how == "abs" else -a  # noqa: E731
    x = RNG.normal(size=40)
    made = xpapply.vectorize(f)
    np.testing.assert_array_equal(made(cp.asarray(x), "abs").get(), np.abs(x))
    made.explain(cp.asarray(x), "abs")


def test_other_engines(cp):
    x = cp.asarray(RNG.normal(size=(40, 5)))
    f = lambda a: a * 2 if a > 0 else 1.0  # noqa: E731
    made = xpapply.vectorize(f)
    made(x)
    with xpapply.options(engine="loop"):
        assert "on the GPU, one launch" not in str(made.explain(x))
