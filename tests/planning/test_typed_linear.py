"""Linear least squares within bounds run compiled: with SciPy's active sets, values to rounding."""

import warnings

import numpy as np
import pytest
from calls_of import outcome

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import cache_of
from xpapply.planning.python.typed_loop import TypedLoop

optimize = pytest.importorskip("scipy.optimize")

from scipy.optimize import lsq_linear, nnls  # noqa: E402

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]
RNG = np.random.default_rng(0)
ECHOES = np.arange(1, 17) * 0.01
SPECTRUM = np.exp(-ECHOES[:, None] / np.geomspace(0.01, 2, 20))
ENDS = RNG.random((16, 4))
WHOLE = np.round(9 * ENDS).astype(int)
UPPER = np.array([0.3, 0.6, np.inf, 1.0])


def mixed(a, n=60, noise=0.01):
    return RNG.dirichlet(np.full(a.shape[1], 0.3), n) @ a.T + RNG.normal(size=(n, 16)) * noise


def spectrum(v):
    x, off = nnls(SPECTRUM, v)
    return np.append(x, off)


def of_the_slice(v):
    return nnls(np.exp(-ECHOES[:, None] / (v[0] * np.arange(1.0, 4.0))), v, maxiter=40)[0]


def by_columns(v):
    return nnls(ENDS.T.copy().T, v)[0]


def of_whole_numbers(v):
    return nnls(WHOLE, v)[0]


def caught(v):
    try:
        return nnls(ENDS, v, maxiter=3)[0]
    except RuntimeError:
        return np.full(4, -1.0)


def by_reflections(v):
    found = lsq_linear(ENDS, v, bounds=(0, UPPER))
    return np.array([*found.x, found.cost, found.success, *found.fun])


def by_sets(v):
    found = lsq_linear(ENDS, v, (np.zeros(4), UPPER), "bvls", tol=1e-9, max_iter=9)
    return np.array([*found.x, *found.fun, found.optimality > 1, found.nit, *found.active_mask])


def without_bounds(v):
    found = lsq_linear(ENDS, v)
    return found.x if found.success else -found.x


ALL = [
    spectrum, of_the_slice, by_columns, of_whole_numbers, caught, by_reflections, by_sets,
    without_bounds,
]  # fmt: skip


def compiled(f):
    return [x for x in cache_of(f)[0].traced.values() if isinstance(x, TypedLoop)]


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_as_the_loop(f):
    arr = mixed(SPECTRUM if f is spectrum else ENDS)
    want = np.apply_along_axis(f, 1, arr)
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(f, 1, arr)
    assert compiled(f)[0].looped < 6
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got == 0, want == 0)
    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)


def test_what_rounding_could_decide_is_scipys():
    """Data without noise, columns that are alike or hardly differ, slices of zeros."""
    a = np.column_stack([ENDS, ENDS[:, 0], ENDS[:, 1] * (1 + 1e-12)])

    def f(v):
        return nnls(a, v)[0]

    arr = mixed(ENDS)
    arr[:9] = RNG.random((9, 4)) @ ENDS.T
    arr[20] = 0.0
    arr[21] = -1.0
    with xpapply.options(engine="cpu"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_allclose(got, np.apply_along_axis(f, 1, arr), rtol=1e-7, atol=1e-300)
    assert compiled(f)[0].looped >= 9


@pytest.mark.parametrize(("by", "bad"), [("nnls", np.nan), ("nnls", 40.0), ("lsq", 40.0)])
def test_exceptions_are_scipys(by, bad):
    def f(v):
        if by == "nnls":
            return nnls(ENDS, v, maxiter=20 if v[0] != 40 else 1)[0]
        return lsq_linear(ENDS, v, (v[0], 9)).x

    arr = np.abs(mixed(ENDS)) * 0.1
    with xpapply.options(engine="cpu"):
        xpapply.apply_along_axis(f, 1, arr)
        assert compiled(f)
        arr[31, 0] = bad
        theirs = outcome(lambda: np.apply_along_axis(f, 1, arr))
        ours = outcome(lambda: xpapply.apply_along_axis(f, 1, arr))
    assert isinstance(theirs, Exception)
    assert (type(ours), str(ours)) == (type(theirs), str(theirs))


REFUSED = {
    "by such a method": lambda v: lsq_linear(ENDS, v, lsq_solver="lsmr").x,
    "verbose: verbose=0 is compiled": lambda v: lsq_linear(ENDS, v, verbose=0 + (v[0] > 9)).x,
    "nit": lambda v: lsq_linear(ENDS, v, (0, 1)).nit,
    "nnls of ": lambda v: nnls([[1.0, v[0]]] * 16, v)[0],
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_refused_says_so(why):
    f = REFUSED[why]
    with pytest.raises(xpapply.UnsupportedError), xpapply.options(engine="cpu"):
        xpapply.apply_along_axis(f, 1, mixed(ENDS))
    reasons = [getattr(x, "why", "") for x in cache_of(f)[0].traced.values()]
    assert any(why in x for x in reasons), reasons


def test_other_ways_of_scipy_are_noticed(monkeypatch):
    from xpapply.frontends.python.source.calls import of_solvers
    from xpapply.library.solvers import linear

    def f(v):
        return nnls(ENDS, v)[0]

    of_solvers._agrees.cache_clear()
    monkeypatch.setattr(linear, "nnls", lambda a, b, most: (np.ones(3), 1.0))
    with pytest.raises(xpapply.UnsupportedError), xpapply.options(engine="cpu"):
        xpapply.apply_along_axis(f, 1, mixed(ENDS))
    of_solvers._agrees.cache_clear()


def test_a_matrix_that_is_written_to_is_noticed():
    """Its factors are computed anew."""
    a = ENDS.copy()

    def f(v):
        return nnls(a, v)[0]

    arr = mixed(ENDS)
    for _ in range(2):
        with xpapply.options(engine="cpu"):
            got = xpapply.apply_along_axis(f, 1, arr)
        np.testing.assert_allclose(got, np.apply_along_axis(f, 1, arr), rtol=1e-9, atol=1e-12)
        a[:, 0] *= 3.0
    assert compiled(f)
