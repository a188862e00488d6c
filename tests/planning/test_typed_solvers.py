"""Functions that solve something for each slice run compiled, and raise what SciPy raises."""

import functools
import math
import warnings

import numpy as np
import pytest

import xpapply
from xpapply import limits
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import cache_of
from xpapply.library import of_fits
from xpapply.library.solvers import of_products
from xpapply.library.solvers.odes import implicit
from xpapply.planning.python.typed_loop import TypedLoop

optimize = pytest.importorskip("scipy.optimize")
integrate = pytest.importorskip("scipy.integrate")

from scipy.integrate import odeint, quad, solve_ivp  # noqa: E402
from scipy.optimize import (  # noqa: E402
    bisect,
    brenth,
    brentq,
    curve_fit,
    fminbound,
    leastsq,
    minimize_scalar,
    newton,
    ridder,
    root_scalar,
)

RNG = np.random.default_rng(0)
pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]
T = np.linspace(0, 5, 16)
ERRORS = np.linspace(0.5, 2, 16)
NUMBERS = RNG.uniform(0.3, 3, (60, 2))
ABOUT = 1e-9
"""How far a covariance may be from SciPy's, relatively."""
AT_MOST = 1e-7
"""How far a fit within bounds may be, ten times its tolerance."""


def decays(n=60, noise=0.02):
    a, b = RNG.uniform(0.5, 3, (n, 1)), RNG.uniform(0.3, 2, (n, 1))
    return a * np.exp(-b * T) + RNG.normal(size=(n, 16)) * noise


def model(t, a, b):
    return a * np.exp(-b * t)


def shifted(t, a, b, c):
    return a * np.exp(-b * t) + c


def slopes(t, a, b):
    return np.column_stack([np.exp(-b * t), -a * t * np.exp(-b * t)])


def several(t, *p):
    return p[0] * np.exp(-p[1] * t)


class Decay:
    scale = 2.0

    def at(self, t, a, b):
        return self.scale * a * np.exp(-b * t)


DECAY = Decay()


# --- roots --------------------------------------------------------------------------------------


def root(v):
    p, q = v[0], v[1]
    return brentq(lambda x: math.exp(-p * x) - q * x, 0.0, 5.0)


def root_of_further(v):
    return optimize.brentq(lambda x, p, q: math.exp(-p * x) - q * x, 0, 5, args=(v[0], v[1]))


def root_with_one_more(v):
    return brenth(lambda x, p: math.exp(-p * x) - x, 0, 5, v[0], xtol=1e-6, rtol=1e-9)


def halved(v):
    def value(x):
        return x * x * x - v[0] * x - v[1]

    return bisect(value, 0, 4.0, maxiter=80)


def by_ridder(v):
    def value(x):
        total = 0.0
        for k in range(4):
            total = total * x + v[k % 2] - k
        return total

    try:
        return ridder(value, -3, 3)
    except ValueError:
        return math.nan


def only_where_signs_differ(v):
    try:
        return brentq(lambda x: math.exp(-v[0] * x) - v[1] * x, 0.0, 0.5)
    except ValueError:
        return -1.0


def only_in_few_rounds(v):
    try:
        return brentq(lambda x: math.exp(-v[0] * x) - v[1] * x, 0.0, 5.0, maxiter=5)
    except (RuntimeError, ZeroDivisionError):
        return v[0]


def smile(v):
    """The best of several roots."""
    best = math.inf
    for k in range(3):
        try:
            x = newton(lambda x: x**3 - v[0] * x - v[1], k + 0.5, tol=1e-10)
        except RuntimeError:
            continue
        best = min(best, abs(x - 1))
    return best


def by_derivatives(v):
    p, q = v
    a = newton(lambda x: np.exp(-p * x) - q * x, 1.0, lambda x: -p * np.exp(-p * x) - q)
    b = newton(
        lambda x: x**3 - p * x - q, 2, fprime=lambda x: 3 * x**2 - p, fprime2=lambda x: 6 * x
    )
    return a, b


def by_method(v):
    """What a solver says of a root, by name and as attributes."""
    r = root_scalar(lambda x: math.exp(-v[0] * x) - v[1] * x, bracket=[0, 5])
    s = root_scalar(lambda x, p: math.exp(-p * x) - x, args=v[0], method="Ridder", bracket=(0, 5.0))
    return r.root, r["iterations"], r.function_calls, s.root, s.function_calls


def by_method_and_derivatives(v):
    p, q = v
    a = root_scalar(lambda x: np.exp(-p * x) - q * x, x0=0.5, x1=1.5, xtol=1e-10)
    b = root_scalar(lambda x: x**3 - p * x - q, x0=2, fprime=lambda x: 3 * x**2 - p, maxiter=3)
    if not b.converged:
        return a.root, 0.0, len(b.flag)
    return a.root, b.root, b.iterations


def if_it_converges(v):
    x, r = brentq(lambda x: math.exp(-v[0] * x) - v[1] * x, 0, 5, full_output=True, disp=False)
    x2, r2 = newton(lambda x: x * x - v[0], v[1], maxiter=4, full_output=True, disp=False)
    return x if r.converged else -1.0, x2 if r2.flag == "converged" else -r2.function_calls


def normal(v):
    return quad(lambda x: math.exp(-x * x / 2), 0, v[0])[0]


def to_infinity(v):
    def decay(x, p, q):
        return math.exp(-p * x) * math.cos(q * x)

    value, error = quad(decay, v[0], np.inf, args=(v[0], v[1]))
    return value, error, quad(lambda x: math.exp(-v[1] * x * x), -math.inf, math.inf)[0]


def with_a_corner(v):
    return quad(lambda x: abs(x - v[0]) ** 0.5, 3, 0, epsabs=1e-6, epsrel=1e-6, limit=80)[0]


def of_a_root(v):
    """One solver within another."""

    def inner(x):
        return brentq(lambda y: y * y * y + y - x * v[0], -10.0, 10.0)

    return quad(inner, 0.0, v[1])[0]


# --- minima -------------------------------------------------------------------------------------

LIMITS = {"xtol": 1e-5, "maxiter": 30}


def by_brent(v):
    r = minimize_scalar(lambda x: (x - v[0]) ** 2 + v[1] * math.cos(x))
    return r.x, r.fun, r["nit"], r.nfev, r.success


def by_brent_from(v):
    def value(x, p):
        return (x - p) ** 2 + v[1] * np.cos(x)

    r = minimize_scalar(value, bracket=(0, 1), args=(v[0],), tol=1e-4)
    s = minimize_scalar(value, bracket=(v[0] - 1, v[1] + 2), args=v[0], options=LIMITS)
    return r.x, r.fun, s.x, s.nfev


def by_gold(v):
    try:
        r = minimize_scalar(lambda x: abs(x - v[0]) + x * x, (0, 1, 3.5), method="golden")
    except ValueError:
        return np.full(3, np.nan)
    return np.array([r.x, r.fun, r.nit])


def within(v):
    r = minimize_scalar(
        lambda x: (x - v[0]) ** 2 + v[1] * np.cos(x),
        bounds=(0, 4),
        options={"maxiter": 9, "xatol": 1e-8},
    )
    x, y, _, calls = fminbound(lambda x: abs(x - v[1]) ** 0.5, -1.5, v[0] + 3, full_output=True)
    return r.x if r.success else -1.0, r.status, r.nfev, x, y, calls


def without_a_valley(v):
    r = minimize_scalar(lambda x: v[0] * x if x > -9 else -9 * v[0])
    return r.x, r.fun, r.success, fminbound(lambda x: (x - v[0]) ** 2, 0, 1)


# --- differential equations ---------------------------------------------------------------------

WHEN = np.linspace(0, 2, 5)


def two_parts(v):
    def flow(t, y):
        return [-v[0] * y[0] + v[1] * y[1], v[0] * y[0] - v[1] * y[1]]

    return solve_ivp(flow, (0, 2), [1.0, 0.0]).y[:, -1]


def swings(v):
    r = solve_ivp(
        lambda t, y: [y[1], -v[0] * y[0]], (0, 2), (1, v[1]), t_eval=WHEN, rtol=1e-8, atol=1e-8
    )
    return r.y[0]


def epidemic(v):
    def rates(t, y, a, b):
        s, i, _ = y
        return np.array([-a * s * i, a * s * i - b * i, b * i])

    start, when = [0.99, 0.01, 0], [1.0, 5.0, 10.0]
    r = solve_ivp(rates, [0, 10], start, args=(v[0] * 2, v[1] / 3), method="DOP853", t_eval=when)
    return r.y.T[:, 1]


def decay_of_a_part(v):
    r = solve_ivp(lambda t, y: -v[0] * y, (0, 1.5), v[1:2], method="RK23")
    return r.y[0, -1], r.nfev, r["t"][-1], len(r.t), r.success


def backwards(v):
    r = solve_ivp(lambda t, y: -v * y, (1.0, 0), v, max_step=0.1, atol=[1e-6, 1e-3])
    return r.y[-1, -1] if r.success else math.nan


EQUATIONS = [two_parts, swings, epidemic, decay_of_a_part, backwards]


# --- fits ---------------------------------------------------------------------------------------


def fit(v):
    return curve_fit(model, T, v)[0]


def fit_from(v):
    p, _ = curve_fit(shifted, T, v, p0=(v[0], 1, 0.1))
    return p


def errors(v):
    _, cov = curve_fit(model, T, v, p0=[v[0], 1.0])
    return np.sqrt(np.diag(cov))


def with_errors(v):
    p, cov = curve_fit(model, T, v, (1, 1), sigma=ERRORS, absolute_sigma=True)
    return p[0], cov[0, 0], cov[0, 1]


def often_not(v):
    try:
        p, _ = curve_fit(model, T, v, p0=(v[0], 1.0), maxfev=9)
    except RuntimeError:
        return np.full(2, np.nan)
    return p


def of_method(v):
    return curve_fit(DECAY.at, T, v)[0]


def of_closure(v):
    t = T[: len(v)]
    half = v[0] / 2

    def inner(x, b):
        return half * 2 * np.exp(-b * x)

    return curve_fit(inner, t, v, method="lm", ftol=1e-10)[0][0]


def of_a_list(v):
    p = curve_fit(several, [0, 1, 2, 3, 4], v[:5], p0=(1.0, 0.5))[0]
    return p[1]


def of_a_part(v):
    some = v > 0.05
    if some.sum() < 6:
        return np.zeros(2)
    return curve_fit(model, T[some], v[some], check_finite=False)[0]


def best_of(v):
    """Every polarity of the first numbers."""
    best, found = math.inf, np.zeros(2)
    for k in range(3):
        y = v.copy()
        y[:k] *= -1
        p, _ = curve_fit(model, T, y, p0=(1.0, 1.0), maxfev=400)
        off = np.sum((model(T, p[0], p[1]) - y) ** 2)
        if off < best:
            best, found = off, p
    return found


def best_that_ends(v):
    """Two polarities, of which a fit may end in nothing: it is written for each of them."""
    best, least = np.full(2, np.nan), np.inf
    turn = int(v.argmin()) % 2
    for k in (turn, turn + 1):
        y = v.copy()
        y[:k] *= -1
        try:
            p, _ = curve_fit(model, T, y, p0=(v.max(), 1.0), maxfev=20)
        except RuntimeError:
            continue
        off = np.sum((y - model(T, *p)) ** 2)
        if off < least:
            best, least = p, off
    return best


def by_slopes(v):
    p, cov = curve_fit(model, T, v, p0=[1, 1], jac=slopes, sigma=ERRORS)
    return p[0], p[1], cov[0, 0]


def by_slopes_of_a_loop(v):
    def each(t, a, b):
        found = np.zeros((t.size, 2))
        for k in range(t.size):
            found[k, 0] = np.exp(-b * t[k])
            found[k, 1] = -a * t[k] * found[k, 0]
        return found

    return curve_fit(model, T, v, p0=(v[0], 1.0), jac=each, method="lm")[0]


def of_leastsq(v):
    def off(p, t, y):
        return model(t, p[0], p[1]) - y

    p, ier = optimize.leastsq(off, [1, 1], args=(T, v))
    return p[0], p[1], ier


def of_leastsq_by_slopes(v):
    p, _ = optimize.leastsq(
        lambda p: p[0] * np.exp(-p[1] * T) - v, np.ones(2), Dfun=lambda p: slopes(T, p[0], p[1])
    )
    return p


def fit_within(v):
    return curve_fit(model, T, v, p0=(v[0], 1.0), bounds=([0, 0], [np.inf, 1.2]))[0]


def within_often_not(v):
    """Public code does it so: a table of what fits, NaN elsewhere."""
    try:
        p, cov = curve_fit(model, T, v, (1.0, 1.0), bounds=(0, [3, 10]), max_nfev=5)
    except RuntimeError:
        return np.full(4, np.nan)
    return np.concatenate([p, np.sqrt(np.diag(cov))])


def within_own_bounds(v):
    most = v.max()
    p, _ = curve_fit(shifted, T, v, bounds=([0.1, 0.1, -most], (5 * most, 4.0, most)), sigma=ERRORS)
    return p


def within_by_slopes(v):
    p, _ = curve_fit(model, T, v, p0=[1, 1], bounds=BOUNDS, jac=slopes, x_scale=[2.0, 0.5])
    return p


def of_squares(v):
    """As public code has it, with a result that is looked at."""

    def off(p):
        return model(T, p[0], p[1]) - v

    res = optimize.least_squares(off, x0=[1.0, 1.0], bounds=([0, 0], [10, 1.5]))
    if not res.success:
        return np.zeros(7)
    x, y = res.x
    return np.array([x, y, res.cost, res.fun[3], res.nfev > 3, res.njev > 3, res.status > 0])


def of_squares_by_lm(v):
    res = optimize.least_squares(off_of, np.ones(2), args=(T, v), method="lm", max_nfev=200)
    return np.append(res.x, [2 * res["cost"], res.optimality < 1e-3, res.nfev])


def of_squares_with_outliers(v):
    res = optimize.least_squares(off_of, (v[0], 1.0), slopes_of, loss="cauchy", args=(T, v))
    return res.x if res.message.startswith("`") or res.status == 4 else np.zeros(2)


def off_of(p, t, y):
    return p[0] * np.exp(-p[1] * t) - y


def slopes_of(p, t, y):
    return slopes(t, *p)


def by_trf(v):
    return curve_fit(model, T, v, method="trf", x_scale="jac", loss="soft_l1", f_scale=0.1)[0]


def in_a_box(v):
    p, covariance = curve_fit(model, T, v, p0=(1, 1), bounds=([0, 0], [2.0, 1.2]), method="dogbox")
    return np.array([*p, covariance[0, 1]])


def in_a_box_without_bounds(v):
    return curve_fit(model, T, v, method="dogbox", x_scale="jac", loss="huber", f_scale=0.1)[0]


def of_squares_in_a_box(v):
    ends = [0.2, 0.1], [v[0], 4.0]
    res = optimize.least_squares(
        off_of, (v[0], 1.0), slopes_of, ends, "dogbox", loss="soft_l1", args=(T, v)
    )
    return np.array([*res.x, res.cost, res.optimality, res.nfev > 1, res.njev > 1, res.success])


def by_simplex(v):
    def cost(p, y):
        return np.sum((p[0] * np.exp(-p[1] * T) - y) ** 2)

    res = optimize.minimize(cost, [1.0, 1.0], args=(v,), method="Nelder-Mead", tol=1e-6)
    return np.array([res.x[0], res.x[1], res.fun, res.nit, res.nfev, res.success])


def by_simplex_with_options(v):
    res = optimize.minimize(
        lambda p: abs(p[0] - v[0]) + (p[1] * p[0] - v[1]) ** 2, x0=np.zeros(2),
        method="nelder-mead", options={"maxiter": 60, "xatol": 1e-8, "adaptive": True},
    )  # fmt: skip
    return res.x if res.success else np.append(res.x[:1], res.status)


def by_fmin(v):
    def nll(p):
        total = 0.0
        for y in v:
            total += math.log(1 + (y - p[0]) ** 2)
        return total

    return optimize.fmin(nll, v[0], disp=False)


BOUNDS = optimize.Bounds([0.0, 0.2], [2.5, np.inf])
ROOTS = [
    root, root_of_further, root_with_one_more, halved, by_ridder, only_where_signs_differ,
    only_in_few_rounds, smile, by_derivatives, by_method, if_it_converges,
    by_method_and_derivatives, normal, to_infinity, with_a_corner, of_a_root,
]  # fmt: skip
MINIMA = [by_brent, by_brent_from, by_gold, within, without_a_valley]
FITS = [
    fit, fit_from, errors, with_errors, often_not, of_method, of_closure, of_a_list, of_a_part,
    best_of, best_that_ends, by_simplex, by_simplex_with_options, by_fmin, by_slopes,
    by_slopes_of_a_loop, of_leastsq, of_leastsq_by_slopes,
]  # fmt: skip


BOUNDED = [
    fit_within, within_often_not, within_own_bounds, within_by_slopes, by_trf, of_squares,
    of_squares_by_lm, of_squares_with_outliers, in_a_box, in_a_box_without_bounds,
    of_squares_in_a_box,
]  # fmt: skip


@pytest.mark.parametrize("f", [fit, fit_from], ids=lambda f: f.__name__)
def test_of_images_in_float32(f):
    """A start with a float32 number beside Python's is an array of float64."""
    arr = decays().astype(np.float32)
    want = np.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), want)
    assert compiled(f)


@pytest.mark.parametrize("f", BOUNDED, ids=lambda f: f.__name__)
def test_within_bounds_as_the_loop(f):
    arr = decays()
    want = np.apply_along_axis(f, 1, arr)
    got = xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    assert "compiled loop" in str(xpapply.explain(f, 1, arr))
    np.testing.assert_allclose(got, want, rtol=AT_MOST, atol=AT_MOST)


@pytest.mark.parametrize(
    ("start", "low", "text"),
    [(9.0, 0.0, "Initial guess is outside"), (1.0, 7.0, "Each lower bound")],
)
def test_bounds_that_cannot_be_raise_as_scipy_does(start, low, text):
    arr = np.column_stack([decays(40), np.full((40, 2), (1.0, 0.0))])

    def f(v):
        return curve_fit(model, T, v[:16], (v[16], 1.0), bounds=([v[17], 0], [5, 5]))[0]

    xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    arr[31, 16:] = start, low
    with pytest.raises(ValueError, match=text):
        xpapply.apply_along_axis(f, 1, arr)


def test_fits_that_move_as_numbers_are_rounded():
    """What is compared with real calls may be a fit that rounding alone decides."""

    def both(t, a, b):
        return (a + b) * t

    def f(v):
        return curve_fit(both, T, v, (1.0, 2.0), bounds=(0.5, np.inf), max_nfev=300)[0]

    arr = RNG.normal(size=(40, 16)) + 3 * T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optimize.OptimizeWarning)
        got = xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    want = np.apply_along_axis(f, 1, arr)
    np.testing.assert_allclose(got.sum(1), want.sum(1), rtol=1e-5)


def compiled(f):
    return [x for x in cache_of(f)[0].traced.values() if isinstance(x, TypedLoop)]


@pytest.mark.parametrize("f", ROOTS + MINIMA + EQUATIONS + FITS, ids=lambda f: f.__name__)
def test_as_the_loop(f):
    arr = decays() if f in FITS else NUMBERS
    want = np.apply_along_axis(f, 1, arr)
    got = xpapply.apply_along_axis(f, 1, arr)
    if f not in (
        by_derivatives,
        by_method_and_derivatives,
    ):  # which can be traced too: SciPy's is written in Python
        assert compiled(f)
        assert "compiled loop" in str(xpapply.explain(f, 1, arr))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    known = implicit.are_known() and of_products.are_sixteen_known()
    if f in (errors, with_errors, by_slopes) or (f in EQUATIONS and not known):
        np.testing.assert_allclose(got, want, rtol=ABOUT)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", ">f8", "int16"])
def test_data_of_other_types(dtype):
    arr = (decays(20) * 100).astype(dtype)
    f = functools.partial(fit_of, T=T)
    want, got = np.apply_along_axis(f, 1, arr), xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, want)


def fit_of(v, T):
    return curve_fit(model, T, v, p0=(50, 1.0))[0]


@pytest.mark.parametrize(
    ("f", "bad", "kind"),
    [
        (root, (3.0, -3.0), ValueError),  # no change of sign
        (root, (math.nan, 1.0), ValueError),
        (halved, (0.0, -1.0), ValueError),
    ],
)
def test_exceptions_are_scipys(f, bad, kind):
    arr = NUMBERS.copy()
    arr[41] = bad
    with pytest.raises(kind) as theirs:
        np.apply_along_axis(f, 1, arr)
    xpapply.apply_along_axis(f, 1, NUMBERS)
    assert compiled(f)
    with pytest.raises(kind) as ours:
        xpapply.apply_along_axis(f, 1, arr)
    assert str(ours.value) == str(theirs.value)
    assert "41" in "".join(ours.value.__notes__)


def test_fits_that_end_in_nothing_raise_as_scipy_does():
    def f(v):
        return curve_fit(model, T, v, p0=(1.0, 1.0), maxfev=20)[0]

    arr = decays(40)
    arr[:] = np.where(np.arange(40)[:, None] == 23, RNG.normal(size=16) * 10, arr)
    with pytest.raises(RuntimeError) as theirs:
        np.apply_along_axis(f, 1, arr)
    with pytest.raises(RuntimeError) as ours:
        xpapply.apply_along_axis(f, 1, arr)
    assert str(ours.value) == str(theirs.value)


def test_data_that_are_not_finite_raise_as_scipy_does():
    arr = decays(30)
    xpapply.apply_along_axis(fit, 1, arr)
    arr[17, 3] = math.nan
    with pytest.raises(ValueError, match="must not contain infs or NaNs"):
        xpapply.apply_along_axis(fit, 1, arr)


@pytest.mark.parametrize("bad", [-math.inf, math.inf, math.nan])
@pytest.mark.parametrize("end", [-math.inf, math.inf])
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_bounds_of_integrals_that_are_infinite_for_some(bad, end):
    def f(v):
        return quad(lambda x: math.exp(-x * x), v[0], end)[0]

    arr = NUMBERS.copy()
    arr[23, 0] = bad
    got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, arr))


def in_one_row(x, a, b):
    return a * np.exp(-b * x[0])


def at_places(v):
    try:
        return curve_fit(model, v[:16], v[32:])[0]
    except ValueError:
        return np.zeros(2)


def at_two_rows_of_places(v):
    try:
        return curve_fit(in_one_row, v[:32].reshape(2, 16), v[32:], p0=(1.0, 1.0))[0]
    except ValueError:
        return np.zeros(2)


@pytest.mark.parametrize(("f", "at"), [(at_places, 15), (at_two_rows_of_places, 31)])
def test_places_that_are_not_finite_raise_as_scipy_does(f, at):
    arr = np.concatenate([np.tile(T, (60, 2)), decays()], 1)
    xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    arr[23, at] = math.inf
    got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, arr))
    assert not got[23].any()


def test_warnings_of_the_covariance():
    def both(t, a, b):
        return a * t

    def f(v):
        return curve_fit(both, T, v)[0]

    arr = decays(12)
    with pytest.warns(optimize.OptimizeWarning):
        want = np.apply_along_axis(f, 1, arr)
    with pytest.warns(optimize.OptimizeWarning):
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, want)


def bent(t, at, level, before, after):
    """Two lines that meet, as they are usually written."""
    lines = [lambda t: before * (t - at) + level, lambda t: after * (t - at) + level]
    return np.piecewise(t, [t < at], lines)


def test_lines_that_meet():
    """They begin with equal slopes, so two columns of the Jacobian depend on each other."""
    at = RNG.uniform(1, 4, (80, 1))
    arr = np.where(at > T, 0.3 * T, 0.3 * at + 2 * (T - at)) + 0.1 * RNG.normal(size=(80, 16))

    def f(v):
        return curve_fit(bent, T, v, p0=[2.5, 0.0, 0.1, 0.1])[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optimize.OptimizeWarning)
        want = np.apply_along_axis(f, 1, arr)
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, want)
    # most of them: a plan of which more are left to the function would not have been kept
    assert "compiled loop" in str(xpapply.explain(f, 1, arr))
    with xpapply.options(engine="cpu"):
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr[:1]), want[:1])


@pytest.mark.parametrize("seed", range(3))
def test_columns_that_depend_on_each_other(seed):
    """Where a length hangs on memory that SciPy should not read, nothing is said."""
    rng = np.random.default_rng(seed)
    left = 0
    for _ in range(150):
        n = int(rng.integers(2, 7))
        m = int(rng.integers(n, 12))
        columns = rng.normal(size=(m, n)) * 10.0 ** rng.uniform(-2, 2, n)
        for _ in range(int(rng.integers(1, 3))):
            i, j = rng.choice(n, 2, replace=False)
            columns[:, i] = columns[:, j] * rng.uniform(-2, 2)
            columns[:, i] += rng.normal(size=m) * 10.0 ** rng.uniform(-30, -6)
        y, start = rng.normal(size=m), rng.normal(size=n)

        def f(p, columns=columns, y=y):
            return columns @ p - y + 0.1 * np.sin(columns @ p)

        def slopes(p, columns=columns):
            return columns * (1 + 0.1 * np.cos(columns @ p))[:, None]

        def jacobian(p, at, a, slopes=slopes):
            a[:] = slopes(p).T
            return 0

        found = start.copy()
        try:
            info, calls, _, _ = of_fits.levenberg_marquardt(
                f, jacobian, found, f(start), np.zeros((n, m)), False, 100 * (n + 1), TOLERANCES
            )
        except NotImplementedError:
            left += 1
            continue
        p, _, more, _, status = leastsq(f, start.copy(), Dfun=slopes, full_output=True)
        np.testing.assert_array_equal(found, p)
        assert (info, calls) == (status, more["nfev"])
    assert left < 100


TOLERANCES = 1.49012e-8, 1.49012e-8, 0.0, 100.0


def test_what_is_left_to_scipy_is_not_caught():
    """A handler of everything is not for what only compiled code cannot do."""

    def f(v):
        bent = 0.0 if v[0] < 0 else 1.0
        try:
            return curve_fit(lambda t, a, b: a * t + b * bent * t**2, T, v)[0]
        except Exception:
            return np.zeros(2)

    arr = np.abs(decays())
    arr[[7, 25, 52], 0] = -1
    with pytest.warns(optimize.OptimizeWarning):
        want = np.apply_along_axis(f, 1, arr)
    with pytest.warns(optimize.OptimizeWarning):
        got = xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    np.testing.assert_array_equal(got, want)
    assert got[7].any()


def test_warnings_of_integrals():
    def f(v):
        return quad(lambda x: 1 / x if x > 0 else v[0], 0, 1)[0]

    with pytest.warns(integrate.IntegrationWarning):
        want = np.apply_along_axis(f, 1, NUMBERS[:6])
    with pytest.warns(integrate.IntegrationWarning):
        got = xpapply.apply_along_axis(f, 1, NUMBERS[:6])
    np.testing.assert_array_equal(got, want)


def test_parameters_that_start_as_integers():
    """SciPy computes the first values of them as they are: here as powers of integers."""

    def power(t, a, n):
        return a * t**n

    def f(v):
        return curve_fit(power, T, v, p0=[1, 2])[0]

    arr = RNG.uniform(0.5, 2, (30, 1)) * T**1.7
    np.testing.assert_array_equal(
        xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr)
    )


def test_values_in_an_array_that_is_used_again():
    """What the model returns may be the same array each time."""

    def f(v):
        held = np.zeros(16)

        def into(t, a, b):
            held[:] = a * np.exp(-b * t)
            return held

        return curve_fit(into, T, v)[0]

    arr = decays(20)
    np.testing.assert_array_equal(
        xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr)
    )


def off_by(v):
    """Elements of an array are arguments, as many as the function takes."""
    p, _ = curve_fit(model, T, v, p0=(1.0, 1.0))
    q = p if v[1] < 1.5 else np.append(p, 1.0)
    try:
        return np.sum((model(T, *q) - v) ** 2)
    except TypeError:
        return -1.0


def test_arrays_as_arguments():
    arr = decays()
    got = xpapply.apply_along_axis(off_by, 1, arr)
    assert compiled(off_by)
    np.testing.assert_array_equal(got, np.apply_along_axis(off_by, 1, arr))
    assert 0 < np.sum(got == -1) < len(got)


def test_vectorize():
    def year(q, p):
        return brentq(lambda x: math.exp(-p * x) - q * x, 0.0, 5.0)

    a, b = NUMBERS.T
    got = xpapply.vectorize(year)(a, b)
    np.testing.assert_array_equal(got, np.vectorize(year)(a, b))
    fits = xpapply.vectorize(lambda v: curve_fit(model, T, v)[0], signature="(n)->(m)")(decays(9))
    assert fits.shape == (9, 2)


def with_few_rounds(v):
    few = {}
    few["maxiter"] = 9
    return minimize_scalar(np.cos, (v[0], 4.0), options=few).x


def later(when, t, y):
    return t - when


LATER = functools.partial(later, 0.5)
REFUSED = {
    "method='TNC'": lambda v: optimize.minimize(lambda p: p[0] ** 2 + v[0], [1.0], method="TNC").x,
    "that prints": lambda v: optimize.fmin(lambda p: p[0] ** 2 + v[0] * p[0], [1.0]),
    "tr_solver='lsmr'": lambda v: curve_fit(model, T, v, bounds=(0, 5), tr_solver="lsmr")[0],
    "jac='3-point'": lambda v: curve_fit(model, T, v, bounds=(0, 5), jac="3-point")[0],
    "toms748": lambda v: root_scalar(lambda x: x - v[0], bracket=(-9, 9), method="toms748").root,
    "method of what": lambda v: len(root_scalar(lambda x: x - v[0], bracket=(-9, 9)).method),
    "its derivative too": lambda v: root_scalar(lambda x: (x, 1.0), x0=v[0], fprime=True).root,
    "without what it needs": lambda v: root_scalar(lambda x: x - v[0], x0=1.0).root,
    "options that": with_few_rounds,
    "message of what": lambda v: len(minimize_scalar(lambda x: (x - v[0]) ** 2).message),
    "LSODA": lambda v: solve_ivp(lambda t, y: -v[0] * y, (0, 1), [1.0], "LSODA").y[0, -1],
    "no function of Python's": lambda v: solve_ivp(
        lambda t, y: -v[0] * y, (0, 1), [1.0], events=LATER
    ).y[0, -1],
    "solve_ivp by BDF or RK45": lambda v: odeint(lambda y, t: -v[0] * y, 1.0, [0.0, 1.0])[-1, 0],
    "points": lambda v: quad(lambda x: x * v[0], 0, 1, points=[0.5])[0],
    "so many parameters": lambda v: curve_fit(several, T, v, p0=np.abs(v[:2]) + 1)[0],
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")
def test_what_is_refused_says_so(why):
    f, arr = REFUSED[why], decays(8)
    np.testing.assert_array_equal(
        xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr)
    )
    assert not compiled(f)
    reasons = [getattr(x, "why", "") for x in cache_of(f)[0].traced.values()]
    assert any(why in x for x in reasons), reasons


def test_other_ways_of_scipy_are_noticed(monkeypatch):
    """A solver that goes another way than ours is not replaced."""
    from xpapply.frontends.python.source.calls import of_solvers

    of_solvers._agrees.cache_clear()
    monkeypatch.setattr(optimize, "bisect", lambda f, a, b: 1.0)
    try:
        assert of_solvers.find(optimize.bisect) is None
    finally:
        of_solvers._agrees.cache_clear()


def where_there_is_something(v):
    if v[0] < 0.1:
        return np.zeros(2)
    return curve_fit(model, T, v, p0=(1.0, 1.0), maxfev=5000)[0]


@pytest.mark.parametrize("by", ["apply_along_axis", "vectorize"])
def test_first_slices_that_take_no_time_do_not_put_off_compiling(by, plan_always):
    """As the voxels around a head, which come first: the loops that follow tell what it takes."""
    background = decays(200)
    background[:60] = 0.0

    def call(f):
        if by == "vectorize":
            return xpapply.vectorize(f, signature="(n)->(p)")(background)
        return xpapply.apply_along_axis(f, 1, background)

    f = functools.wraps(where_there_is_something)(
        type(where_there_is_something)(where_there_is_something.__code__, globals())
    )
    wanted = np.apply_along_axis(f, 1, background)
    with xpapply.options(fallback="silent"), limits.LIMITS.set(typed_worth=0.02):
        for _ in range(6):
            assert np.array_equal(call(f), wanted)
    assert any(type(x) is TypedLoop for x in cache_of(f)[0].traced.values())
