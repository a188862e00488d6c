"""Differential equations with events, and solutions at any place, run compiled."""

import math

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import cache_of
from xpapply.library.solvers import of_products
from xpapply.library.solvers.odes import implicit
from xpapply.planning.python.typed_loop import TypedLoop

pytest.importorskip("scipy.integrate")

from scipy.integrate import solve_ivp

RNG = np.random.default_rng(0)
pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]
NUMBERS = RNG.uniform(0.3, 3, (60, 2))
WHEN = np.linspace(0, 2, 5)


def falls(t, y):
    return [y[1], -9.81]


def ground(t, y):
    return y[0]


ground.terminal = True
ground.direction = -1


def top(t, y):
    return y[1]


def hits(v):
    """When a stone is down, and how fast it is then."""
    r = solve_ivp(falls, (0, 100), [1.0, 9 * v[0]], events=ground)
    return r.t_events[0][0], r.y_events[0][-1, 1], r.status, r.t[-1], len(r.t), r.nfev


def hits_and_turns(v):
    r = solve_ivp(falls, (0, 100), (1, 9 * v[0]), events=[top, ground], method="DOP853")
    down, up = r.t_events[1], r.t_events[0]
    return down[0], up[0], r.y_events[-2][0][0], r["status"] == 1, r.message.startswith("A term")


def crosses(v):
    """Defined within, with attributes."""

    def middle(t, y):
        return y[0] - 0.2 * v[1]

    middle.direction = 1
    middle.terminal = 3
    r = solve_ivp(lambda t, y: [y[1], -y[0]], (0, 40), [1.0, 0.0], events=(middle,), rtol=1e-6)
    return r.t_events[0].sum(), r.t_events[0].size, r.success


def seldom(v):
    """Of some slices there is none."""
    r = solve_ivp(lambda t, y: -v[0] * y, (0, 1), [1.0], "RK23", events=lambda t, y: y[0] - 0.3)
    if r.t_events[0].size:
        return r.t_events[0][0] + r.y_events[0][0, 0]
    return -1.0


def table_of_some(v):
    r = solve_ivp(lambda t, y: -v[0] * y, (0, 1), [1.0], events=lambda t, y: y[0] - 0.3)
    return r.y_events[0].ndim


def with_arguments(v):
    r = solve_ivp(
        lambda t, y, a, b: -a * y + b, (0, 5), [2], args=(v[0], v[1]), t_eval=WHEN,
        events=lambda t, y, a, b: 2 * y[0] - 3 * b,
    )  # fmt: skip
    return r.y[0, 1], len(r.t_events), r.t_events[0].size


def caught(v):
    """Brent's method raises if the ends of a step have one sign."""
    try:
        r = solve_ivp(
            lambda t, y: -v[0] * y, (0, 2), [1.0], events=lambda t, y: 1 if t < v[1] else 0
        )
    except ValueError:
        return -1.0
    return r.t_events[0][0] if r.t_events[0].size else -2.0


def anywhere(v):
    r = solve_ivp(lambda t, y: [y[1], -v[0] * y[0]], (0, 2), (1, v[1]), dense_output=True)
    y = r.sol(WHEN)
    return y[0].sum() + y[1, 2], r.sol(0.7)[1], r.sol(v[1])[0]


def anywhere_backwards(v):
    r = solve_ivp(
        lambda t, y: -v[0] * y, (2, 0), [1.0], "DOP853", t_eval=[1.0], dense_output=True,
        events=lambda t, y: y[0] - 3.0,
    )  # fmt: skip
    return r.sol(WHEN[::-1])[0, 1], r.sol(0.5)[0], r.y[0, 0]


def by_backward_differences(v):
    """Robertson's, which is stiff."""

    def rates(t, y):
        a, b, c = y
        fast = 3e7 * v[0] * b * b
        return [-0.04 * a + 1e4 * b * c, 0.04 * a - 1e4 * b * c - fast, fast]

    r = solve_ivp(rates, (0, 40), (1.0, 0.0, 0.0), method="BDF", t_eval=[0.4, 4.0, 40.0])
    return np.array([*r.y[2], r.nfev, r.njev, r.nlu, r.status])


def by_radau(v):
    def rates(t, y):
        return [y[1], 100 * v[0] * (1 - y[0] ** 2) * y[1] - y[0]]

    def slopes(t, y):
        return [[0.0, 1.0], [-200 * v[0] * y[0] * y[1] - 1, 100 * v[0] * (1 - y[0] ** 2)]]

    r = solve_ivp(rates, (0, 50), [2.0, 0.0], "Radau", jac=slopes)
    return np.array([r.y[0, -1], r.t[1], len(r.t), r.nfev, r.njev, r.nlu])


def by_radau_and_differences(v):
    r = solve_ivp(
        lambda t, y: np.array([-1000 * v[0] * (y[0] - math.cos(t))]), (0, 2), [0.0], "Radau",
        events=lambda t, y: y[0] - 0.5, dense_output=True, rtol=1e-5,
    )  # fmt: skip
    return r.sol(0.3)[0], r.t_events[0][-1], r.nfev


LINEAR = np.array([[-100.0, 1.0], [0.0, -0.5]])


def by_a_constant_jacobian(v):
    r = solve_ivp(lambda t, y: LINEAR @ y * v[0], (0, 3), v, "BDF", jac=LINEAR * v[0])
    return r.y[1, -1], r.nfev, r.njev, r.nlu


def of_an_array_of_many(v):
    """Of more than five, results are equal to rounding."""
    y = np.repeat(v, 4)
    r = solve_ivp(lambda t, y: -50.0 * y * y + np.roll(y, 1), (0, 1), y, "BDF")
    return r.y[:, -1]


ALL = [
    hits, hits_and_turns, crosses, seldom, table_of_some, with_arguments, caught, anywhere,
    anywhere_backwards, by_backward_differences, by_radau, by_radau_and_differences,
    by_a_constant_jacobian, of_an_array_of_many,
]  # fmt: skip


def compiled(f):
    return [x for x in cache_of(f)[0].traced.values() if isinstance(x, TypedLoop)]


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_as_the_loop(f):
    want = np.apply_along_axis(f, 1, NUMBERS)
    got = xpapply.apply_along_axis(f, 1, NUMBERS)
    assert compiled(f), [getattr(x, "why", "") for x in cache_of(f)[0].traced.values()]
    assert "compiled loop" in str(xpapply.explain(f, 1, NUMBERS))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if f is of_an_array_of_many:
        np.testing.assert_allclose(got, want, rtol=1e-9)
    elif implicit.are_known() and of_products.are_sixteen_known():
        np.testing.assert_array_equal(got, want)
    else:  # a count may be another one
        others = np.count_nonzero(~np.isclose(got, want, rtol=1e-9, atol=0, equal_nan=True))
        assert others <= 0.02 * want.size


def test_what_an_event_has_may_change():
    """Its attributes are looked at in each call."""

    def low(t, y):
        return y[0] - 0.4

    def f(v):
        return solve_ivp(lambda t, y: -v[0] * y, (0, 9), [1.0], events=low).t[-1]

    for terminal in (False, True, 0):
        low.terminal = terminal
        want = np.apply_along_axis(f, 1, NUMBERS)
        near = 0.0 if of_products.are_known() else 1e-12
        np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, NUMBERS), want, rtol=near)
        assert bool(want[0] < 9) is bool(terminal)
    assert compiled(f)


def same_name(v):
    def low(t, y):
        return y[0] - 0.4

    other = low
    low.terminal = True
    return solve_ivp(lambda t, y: -v[0] * y, (0, 9), [1.0], events=other).t[-1]


def of_the_slice(v):
    def low(t, y):
        return y[0] - 0.4

    low.direction = v[0] - 1.0
    return solve_ivp(lambda t, y: -v[0] * y, (0, 9), [1.0], events=low).t_events[0].size


def of_something_else(v):
    ground.direction = -1
    return solve_ivp(falls, (0, 100), [1.0, 9 * v[0]], events=ground).t[-1]


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (same_name, "a function that has another name"), (of_the_slice, "or one computed"),
        (of_something_else, "it sets"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")
def test_attributes_that_are_left_to_python(f, why):
    want = np.apply_along_axis(f, 1, NUMBERS)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, NUMBERS), want)
    assert not compiled(f)
    reasons = [getattr(x, "why", "") for x in cache_of(f)[0].traced.values()]
    assert any(why in x for x in reasons), reasons


def test_exceptions_are_scipys():
    """Of an event that is NaN where its zero is looked for."""

    def f(v):
        return solve_ivp(
            lambda t, y: -v[0] * y, (0, 2), [1.0], first_step=2.0, atol=1e3,
            events=lambda t, y: t - 1 if t in (0, 2) else v[1],
        ).t_events[0].size  # fmt: skip

    arr = np.full((40, 2), (1.0, 5.0))
    xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    arr[31, 1] = math.nan
    with pytest.raises(ValueError, match="NaN") as theirs:
        np.apply_along_axis(f, 1, arr)
    with pytest.raises(ValueError, match="NaN") as ours:
        xpapply.apply_along_axis(f, 1, arr)
    assert str(ours.value) == str(theirs.value)
