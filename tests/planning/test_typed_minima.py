"""Minima of functions of several numbers by their slopes, compiled: as SciPy gives them."""

import math
import warnings

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import cache_of
from xpapply.library.solvers import of_products
from xpapply.planning.python.typed_loop import TypedLoop

optimize = pytest.importorskip("scipy.optimize")
pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]

T = np.linspace(0, 5, 16)
RNG = np.random.default_rng(11)
BOUNDS = optimize.Bounds([0.0, 0.2], [2.5, np.inf])
BOX = np.array([[0.5, 2.0]])
PAIRS = ((0, None), (0.1, 1.5))
DESIGN = np.column_stack([np.ones(16), T])


def decays(count=60):
    rates = RNG.uniform(0.3, 2, (count, 1))
    return RNG.uniform(0.5, 2, (count, 1)) * np.exp(-rates * T) + 0.01 * RNG.normal(
        size=(count, 16)
    )


def compiled(f):
    return [x for x in cache_of(f)[0].traced.values() if isinstance(x, TypedLoop)]


def cost(p, y):
    return np.sum((p[0] * np.exp(-p[1] * T) - y) ** 2)


def slopes(p, y):
    e = np.exp(-p[1] * T)
    off = p[0] * e - y
    return np.array([np.sum(2 * off * e), np.sum(-2 * off * p[0] * T * e)])


def said(r):
    return [r.fun, r.nit, r.nfev, r.njev, r.status, r.success, r.jac[0]]


def by_bfgs(v):
    r = optimize.minimize(lambda p: cost(p, v), [1.0, 1.0])
    return np.append(r.x, said(r))


def by_slopes(v):
    r = optimize.minimize(cost, np.ones(2), args=(v,), jac=slopes, method="BFGS", tol=1e-7)
    return np.concatenate([r.x, np.sqrt(np.diag(r.hess_inv)), said(r)])


def by_both(v):
    def both(p):
        return cost(p, v), slopes(p, v)

    r = optimize.minimize(both, [1, 1], jac=True, options={"maxiter": 6, "gtol": 1e-9, "norm": 2})
    return r.x if r.message.startswith("Opt") else np.append(r.x[:1], r["status"])


def by_steps(v):
    return optimize.minimize(cost, [1.0, 1.0], (v,), jac="2-point", options={"c2": 0.5}).x


def along_conjugate_directions(v):
    r = optimize.minimize(cost, [1.0, 1.0], (v,), jac=slopes, method="CG")
    return np.append(r.x, said(r))


def along_them_by_differences(v):
    return optimize.minimize(cost, v[:2], (v,), "CG", options={"maxiter": 20, "c2": 0.3}).x


def of_an_array_of_one(v):
    """Public code does it so."""

    def nll(p):
        return 0.5 * np.array([cost(p, v)])

    return optimize.minimize(nll, v[:2]).x


def of_a_loop(v):
    def nll(p):
        h, total = 1.0, 0.0
        for x in v:
            total += math.log(h) + x * x / h
            h = 0.01 + p[0] ** 2 * x * x + p[1] ** 2 * h
        return total

    return optimize.minimize(nll, [0.3, 0.5], method="bfgs", options={"maxiter": 8}).x


def older(v):
    x, f, g, h, calls, slopes_, flag = optimize.fmin_bfgs(
        cost, np.ones(2), args=(v,), disp=False, full_output=True
    )
    return np.array([x[0], x[1], f, g[0], h[1, 1], calls, slopes_, flag])


def older_alone(v):
    return optimize.fmin_bfgs(cost, [1, 1], slopes, (v,), disp=0)


def in_a_box(v):
    r = optimize.minimize(cost, [1.0, 1.0], args=(v,), bounds=PAIRS)
    return np.append(r.x, said(r))


def in_a_box_by_slopes(v):
    r = optimize.minimize(cost, [1.0, 1.0], (v,), jac=slopes, bounds=[(0, v[0] + 1), (None, 1.2)])
    return np.append(r.x, said(r)) if r.message != "ABNORMAL: " else np.zeros(9)


def in_bounds(v):
    return optimize.minimize(
        cost, v[:2], (v,), "L-BFGS-B", bounds=BOUNDS,
        options={"maxcor": 3, "ftol": 1e-12, "maxiter": 30, "eps": 1e-7},
    ).x  # fmt: skip


def without_bounds(v):
    r = optimize.minimize(lambda p: cost(p, v), [1, 1], method="L-BFGS-B", options={"maxls": 4})
    return np.append(r.x, said(r))


def tried(v):
    """As genomics does it, with a product of a matrix."""
    y = np.log(np.abs(v) + 0.1)

    def off(p):
        r = y - (p[0] + T * p[1])
        return 0.5 * np.dot(r, r)

    def fall(p):
        return -DESIGN.T @ (y - DESIGN @ p)

    try:
        return np.flipud(optimize.minimize(off, [0.0, -0.01], jac=fall, bounds=PAIRS[:1] * 2).x)
    except ValueError:
        return np.zeros(2)


def older_in_a_box(v):
    x, f, d = optimize.fmin_l_bfgs_b(cost, [1, 1], slopes, args=(v,), bounds=PAIRS, factr=10.0)
    return np.append(x, [f, d["funcalls"], d["nit"], d["warnflag"], d["grad"][1]])


def places(v):
    def off(x):
        return [x[0] * np.cos(x[1]) - 4 - 0.1 * v[0], x[1] * x[0] - x[1] - 5]

    return optimize.fsolve(off, [1, 1])


def place(v):
    return optimize.fsolve(lambda x: np.exp(-x) - v[0] * x, 0.5, xtol=1e-10)


def places_told(v):
    def off(x):
        return [x[0] * np.cos(x[1]) - 4 - 0.1 * v[0], x[1] * x[0] - x[1] - 5]

    x, info, ier, message = optimize.fsolve(off, [1, 1], full_output=True)
    return np.append(x, [info["nfev"], np.abs(info["fvec"]).max(), ier, len(message)])


def place_if_there_is_one(v):
    x, info, ier, _ = optimize.fsolve(lambda x: x * x - v[0] + 1, 0.5, full_output=1)
    return x[0] if ier == 1 else -info["nfev"]


def bent(x, a, b):
    return np.array([10 * (x[1] - x[0] ** 2) * b, a - x[0]])


def bends(x, a, b):
    return np.array([[-20 * x[0] * b, 10.0 * b], [-1, 0]])


def of_a_system(v):
    s = optimize.root(bent, np.array([0.5, 0.2]), args=(v[0], v[0] + 1), jac=bends)
    return np.array([s.x[0], s.x[1], s.fun[0], s.nfev, s.njev, s.status, s.success])


def if_it_converges(v):
    s = optimize.root(lambda x: x**2 + x - v[:3], v[:3] + 1, tol=1e-9, options={"factor": 10})
    return s.x if s.success and s.message.endswith("converged.") else np.zeros(3)


def by_squares(v):
    s = optimize.root(bent, [0.5, 0.2], args=(v[0], v[0] + 1), jac=bends, method="lm")
    ends = s.message.endswith("in absolute value") or s.message.startswith("The relative error")
    return np.array([s.x[0], s.x[1], s.fun[0], s.nfev, s.njev, s.status, ends])


def by_squares_of_a_list(v):
    s = optimize.root(
        lambda x: [x[0] * x[1] - v[0], x[0] + x[1] - v[1] - 2], np.array([1.0, 2.0]),
        method="lm", tol=1e-10, options={"maxiter": 40},
    )  # fmt: skip
    return np.append(s.x, [s.nfev, s.success])


def along_directions(v):
    r = optimize.minimize(cost, (1.0, 1.0), args=(v,), method="Powell")
    return np.array([*r.x, r.fun, r.nit, r.nfev, r.status, r.success, len(r.message)])


def along_directions_within(v):
    def off(p):
        return (p[0] - v[0]) ** 2 + abs(p[1] - p[0]) + p[1] ** 2

    r = optimize.minimize(off, v[:2], method="powell", bounds=[(-5, 5), (-9, None)], tol=1e-6)
    return np.append(r.x, [r.fun, r.direc[0, 1], r.nfev])


def along_directions_by_the_older_name(v):
    x, y, _, rounds, calls, flag = optimize.fmin_powell(
        lambda p: abs(p[0] - v[0]) + p[1] ** 2 * v[1], [1, 0], disp=False, full_output=True
    )
    return np.append(x, [y, rounds, calls, flag])


def conjugate_by_the_older_name(v):
    p = optimize.fmin_cg(cost, [1, 1], slopes, args=(v,), disp=False)
    x, y, calls, falls, flag = optimize.fmin_cg(
        lambda p: cost(p, v), np.ones(2), gtol=1e-4, disp=0, full_output=1
    )
    return np.array([*p, *x, y, calls, falls, flag])


ROOTS = [
    places, place, places_told, place_if_there_is_one, of_a_system, if_it_converges, by_squares,
    by_squares_of_a_list, along_directions_within, along_directions_by_the_older_name,
]  # fmt: skip
MINIMA = [
    by_bfgs, by_slopes, by_both, by_steps, along_conjugate_directions, along_them_by_differences,
    of_an_array_of_one, of_a_loop, older, older_alone, in_a_box, in_a_box_by_slopes, in_bounds,
    without_bounds, tried, older_in_a_box, along_directions, conjugate_by_the_older_name,
]  # fmt: skip


@pytest.mark.parametrize("f", MINIMA + ROOTS, ids=lambda f: f.__name__)
def test_as_the_loop(f):
    arr = decays() if f in MINIMA else RNG.uniform(0.3, 1.5, (60, 4))
    want = np.apply_along_axis(f, 1, arr)
    got = xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    assert "compiled loop" in str(xpapply.explain(f, 1, arr))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if of_products.are_known() or f in ROOTS:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got[:, :2], want[:, :2], rtol=1e-3)


def test_slopes_that_another_function_would_raise_for():
    """A value that is not finite is left to SciPy, which says what it makes of it."""

    def f(v):
        r = optimize.minimize(lambda p: (p[0] - v[1]) ** 2 if v[0] > 0 else math.nan, [0.5])
        return np.array([r.x[0], r.status])

    arr = np.abs(decays())
    arr[[7, 30], 0] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        want = np.apply_along_axis(f, 1, arr)
        got = xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert want[7, 1] == want[30, 1] != 0


def of_a_result(v):
    return optimize.minimize(cost, [1.0, 1.0], args=(v,)).hess_inv


def of_all(v):
    return optimize.fmin_bfgs(cost, [1.0, 1.0], args=(v,), full_output=True, disp=False)[3]


@pytest.mark.parametrize("f", [of_a_result, of_all])
def test_an_inverse_of_integers_is_scipys(f):
    """Where nothing moves, SciPy's is one of integers."""
    arr = decays()
    arr[20:23] = np.exp(-T)
    assert optimize.minimize(cost, [1.0, 1.0], (arr[20],)).hess_inv.dtype.kind == "i"
    want = np.apply_along_axis(f, 1, arr)
    near = 0.0 if of_products.are_known() else 1e-3
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, arr), want, rtol=near)
    assert compiled(f)


def test_roots_of_which_scipy_warns():
    def f(v):
        return optimize.fsolve(lambda x: x * x - v[0], 1.0)

    arr = RNG.uniform(0.3, 1.5, (60, 4))
    xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    arr[41, 0] = -1.0
    with pytest.warns(RuntimeWarning, match="progress"):
        want = np.apply_along_axis(f, 1, arr)
    with pytest.warns(RuntimeWarning, match="progress"):
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, want)


def test_messages_with_numbers_are_scipys():
    def f(v):
        s = optimize.root(lambda x: x * x - v[0], 1.0, options={"maxfev": 9})
        return float(len(s.message))

    arr = RNG.uniform(0.9, 1.1, (60, 4))
    arr[17, 0] = 1e6
    want = np.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), want)
    assert len(set(want)) == 2


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(2.0, 1.0, "less than"), (0.5, 0.5, None), (math.nan, 1.0, None)],
)
def test_bounds_that_cannot_be(low, high, text):
    arr = np.column_stack([decays(40), np.full((40, 2), (0.0, 3.0))])

    def f(v):
        return optimize.minimize(
            lambda p: cost(p, v[:16]), [1.0, 1.0], bounds=[(v[16], v[17]), (0, 3)]
        ).x

    xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)
    arr[31, 16:] = low, high
    if text is None:
        want = np.apply_along_axis(f, 1, arr)
        near = 0.0 if of_products.are_known() else 1e-6
        np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, arr), want, rtol=near)
        return
    with pytest.raises(ValueError, match=text):
        xpapply.apply_along_axis(f, 1, arr)


REFUSED = {
    "method='SLSQP'": lambda v: (
        optimize.minimize(lambda p: p[0] ** 2 + v[0], 1.0, method="SLSQP").x
    ),
    "bounds=None": lambda v: (
        optimize.minimize(lambda p: p[0] ** 2 + v[0], [1.0], method="BFGS", bounds=[(0, 1)]).x
    ),
    "the option disp": lambda v: (
        optimize.minimize(
            lambda p: p[0] ** 2 + v[0], [1.0], method="L-BFGS-B", options={"disp": None}
        ).x
    ),
    "such a norm": lambda v: (
        optimize.minimize(lambda p: p[0] ** 2 + v[0], [1.0], options={"norm": 3}).x
    ),
    "callback": lambda v: (
        optimize.minimize(lambda p: p[0] ** 2 + v[0], [1.0], callback=lambda p: None).x
    ),
    "a minimum of": lambda v: optimize.minimize(lambda p: np.float32(p[0] ** 2 + v[0]), [1.0]).x,
    "hess_inv of what": lambda v: len(
        optimize.minimize(lambda p: p[0] ** 2 + v[0], [1.0], bounds=[(0, 1)]).hess_inv.shape
    ),
    "that prints": lambda v: optimize.fmin_bfgs(lambda p: p[0] ** 2 + v[0], [1.0]),
    "method='broyden1'": lambda v: optimize.root(lambda x: x - v[:1], [0.5], method="broyden1").x,
    "fjac of what": lambda v: optimize.fsolve(lambda x: x - v[:1], [0.5], full_output=True)[1][
        "fjac"
    ][0],
    "no pairs": lambda v: optimize.minimize(lambda p: p[0] ** 2 + v[0], [1.0], bounds=BOX).x,
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")
def test_what_is_refused_says_so(why):
    f, arr = REFUSED[why], decays(8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        np.testing.assert_array_equal(
            xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr)
        )
    assert not compiled(f)
    reasons = [getattr(x, "why", "") for x in cache_of(f)[0].traced.values()]
    assert any(why in x for x in reasons), reasons


def test_other_ways_of_scipy_are_noticed(monkeypatch):
    """A minimum that goes another way than ours is not replaced."""
    from xpapply.frontends.python.source.calls import of_minimize

    real = optimize.minimize

    def other(f, start, **how):
        return real(f, start, **how | {"options": {"maxiter": 2}})

    for agrees in (of_minimize._bfgs_agrees, of_minimize._l_bfgs_b_agrees):
        agrees.cache_clear()
        assert agrees()
        agrees.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(optimize, "minimize", other)
            assert not agrees()
        agrees.cache_clear()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(1, 5), (2, 2), (5, 9), (16, 16), (17, 3), (2, 40), (90, 100)])
def test_products_of_matrices_with_vectors(shape, turned):
    rows = RNG.normal(size=shape[::-1] if turned else shape)
    rows = rows.T if turned else rows

    def f(v):
        for k in range(2):
            out = rows @ (v * (k + 1))
            if out[0] > 1:
                break
        return np.append(out, np.dot(rows, v))

    arr = RNG.normal(size=(50, shape[1]))
    near = 0.0 if of_products.are_known() else 1e-13
    np.testing.assert_allclose(
        xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr), rtol=near, atol=near
    )
    assert compiled(f)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("most", [500, 4])
def test_fminbound_warns_as_scipy_does(most, full):
    """Of NaN, and of too many calls."""

    def f(v):
        found = optimize.fminbound(
            lambda x: (x - v[0]) ** 2, 0.0, 4.0, maxfun=most, full_output=full
        )
        return found[:2] if full else found

    x = RNG.uniform(0.5, 3, (60, 2))
    x[40, 0] = np.nan
    seen = []
    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            seen.append((apply(f, -1, x), {(w.category, str(w.message)) for w in told}))
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    assert seen[0][1]
    assert seen[0][1] == seen[1][1]
