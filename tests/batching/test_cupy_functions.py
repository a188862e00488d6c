"""What CuPy and cupyx.scipy offer for one slice runs without the loop, on a GPU.

`cupy_examples` has a call of every public function. Each is compared with CuPy's own loop, and
must be called a few times only, however many slices there are.
"""

import collections
import sys
import types
from unittest import mock

import cupy_examples
import numpy as np
import pytest
from calls_of import outcome

import xpapply
from xpapply.batching import function_rules
from xpapply.batching.scipy import axis, filters
from xpapply.limits import LIMITS

pytestmark = pytest.mark.gpu

SLICES = (7, 9)
GOAL = 0.95

UNFIXED_WHY = {
    "edges of each slice, counted by a size that is asked of the device": """
        cupy.histogram2d cupy.histogramdd""",
    "linear and symmetric polynomials only: it asks each slice for zeros and symmetry": """
        cupy.roots""",
    "draws the order of its points at random": """
        cupyx.scipy.interpolate.BarycentricInterpolator""",
    "takes for equal what differs by less than a part of the largest number of all slices": """
        cupyx.scipy.interpolate.Akima1DInterpolator""",
    "iterates until all values have settled, so that slices at once take more steps": """
        cupyx.scipy.interpolate.CloughTocher2DInterpolator""",
    "knots of each slice; they take one axis of values": """
        cupyx.scipy.interpolate.InterpolatedUnivariateSpline
        cupyx.scipy.interpolate.UnivariateSpline""",
    "steps by the norm of each matrix, which is asked of the device": """
        cupyx.scipy.linalg.expm""",
    "matrices one by one, in cuSOLVER": """
        cupyx.scipy.linalg.lu cupyx.scipy.linalg.lu_factor""",
    "Python's integers for each matrix": """
        cupyx.scipy.linalg.bandwidth""",
    "distances over the whole image, whatever its axes": """
        cupyx.scipy.ndimage.distance_transform_edt""",
    "places in float32, where one axis more may round otherwise": """
        cupyx.scipy.ndimage.rotate""",
    "recursions that only functions without a public name run along an axis": """
        cupyx.scipy.signal.cspline1d cupyx.scipy.signal.qspline1d
        cupyx.scipy.signal.cspline2d cupyx.scipy.signal.qspline2d""",
    "raise if the sum of one slice does not converge; made for one slice": """
        cupyx.scipy.signal.symiirorder1 cupyx.scipy.signal.symiirorder2""",
    "a filter whose coefficients are the slice": """
        cupyx.scipy.signal.deconvolve""",
    "another number of peaks in each slice, found one after the other": """
        cupyx.scipy.signal.find_peaks cupyx.scipy.signal.peak_prominences
        cupyx.scipy.signal.peak_widths""",
    "a kernel for one slice": """
        cupyx.scipy.signal.lombscargle""",
}
"""What still runs in the loop, or calls the library for one slice after the other, and why."""
UNSTEADY = {"cupyx.scipy.interpolate.BarycentricInterpolator"}
"""Of these: what is noticed to draw random numbers only where others have drawn some before."""

UNFIXED = frozenset(name for names in UNFIXED_WHY.values() for name in names.split())

ENDLESS = frozenset(("cupyx.scipy.special.exp1",))
"""Whose kernel counts down from what NaN is as an integer, in the loop as well."""


def numbers(seed=0):
    """Ordinary slices: positive numbers, in float64."""
    return np.random.default_rng(seed).gamma(2.0, size=(SLICES[0], cupy_examples.M, SLICES[1]))


def special():
    """Slices with NaN, infinities, both zeros, and constant ones."""
    x = numbers(1) - 1.0
    x[0, 3, 0], x[0, 5, 1], x[1, 2, 2], x[2, 7, 3] = np.nan, np.inf, -np.inf, -0.0
    x[3, :, 4], x[4, :, 5], x[5, ::2, 6], x[5, 1::2, 6] = 0.0, 2.5, 0.0, -0.0
    x[6, :, 7] = np.nan
    return x


class Calls:
    """How often `f` is run, and a library's function for one slice after the other."""

    def __init__(self, f):
        self.code = getattr(f, "__code__", None) if f.__name__ == "<lambda>" else None
        self.runs = self.rows = 0

    def __enter__(self):
        def seen(frame, event, arg):
            self.runs += event == "call" and frame.f_code is self.code

        def counted(function):
            def call(*args):
                self.rows += 1
                return function(*args)

            return call

        self._patches = [
            mock.patch.object(function_rules, "_slice", counted(function_rules._slice)),
            *(
                mock.patch.object(module, "call_on", counted(axis.call_on))
                for module in (axis, filters)
            ),
        ]
        for patch in self._patches:
            patch.start()
        sys.setprofile(seen)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)
        for patch in self._patches:
            patch.stop()


def same(got, want, tolerance):
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    got, want = got.get(), want.get()
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(got, want, tolerance, tolerance * scale, equal_nan=True)
    zeros = want == 0
    if want.dtype.kind == "f" and tolerance < 1e-12:
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@pytest.fixture(autouse=True)
def _less_patience(request, monkeypatch, _patience):
    """Functions whose slices go many ways are given up after a second, where that is no fault."""
    given = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    full = f"{given.get('module')}.{given.get('name')}"
    if full in UNFIXED or "without_the_loop" not in request.node.name:
        monkeypatch.setattr(LIMITS, "paths_at_least", 1.0)


@pytest.fixture(scope="module")
def env(cupy):
    return cupy_examples.constants(cupy)


@pytest.fixture(scope="module")
def ran():
    """Which examples ran without the loop, and which did not."""
    found = collections.defaultdict(set)
    yield found
    total = len(found["fast"]) + len(found["slow"])
    if total > 100:
        share = 100 * len(found["slow"]) / total
        print(f"\n{share:.1f} % of {total} functions of CuPy are not fast: {sorted(found['slow'])}")


EXAMPLES = list(cupy_examples.examples())


@pytest.mark.parametrize(("module", "name", "call"), EXAMPLES)
def test_without_the_loop(cupy, env, ran, module, name, call):
    f = cupy_examples.function(module, name, call, env)
    full = f"{module}.{name}"
    x = cupy.asarray(numbers())
    want = outcome(lambda: cupy.apply_along_axis(f, 1, x))
    if isinstance(want, Exception):
        pytest.skip(f"CuPy's loop raises: {want}")  # cuVS, for distances
    with Calls(f) as calls, xpapply.options(fallback="silent"):
        plan = outcome(lambda: xpapply.explain(f, 1, x))
        got = outcome(lambda: xpapply.apply_along_axis(f, 1, x))
    same(got, want, 1e-11)
    plan = xpapply.explain(f, 1, x)  # after it ran: not given up
    fast = plan.vectorized and calls.runs < 20 and calls.rows < 20
    ran["fast" if fast else "slow"].add(full)
    if full in UNFIXED:
        assert not fast or full in UNSTEADY, "take it from the list"
        return
    assert fast, (plan.reasons, calls.runs, calls.rows)


@pytest.mark.parametrize(("module", "name", "call"), EXAMPLES)
def test_special_values(cupy, env, module, name, call):
    """NaN, infinities and zeros in some slices: what the loop gives, or raises."""
    if f"{module}.{name}" in ENDLESS:
        pytest.skip("the loop does not end")
    f = cupy_examples.function(module, name, call, env)
    x = cupy.asarray(special())
    want = outcome(lambda: cupy.apply_along_axis(f, 1, x))
    with xpapply.options(fallback="silent"):
        got = outcome(lambda: xpapply.apply_along_axis(f, 1, x))
    if isinstance(want, Exception):
        assert type(got) is type(want), got
        return
    if isinstance(got, Exception):
        raise got
    again = outcome(lambda: cupy.apply_along_axis(f, 1, x))
    if name == "cond":  # of singular matrices it is large, or infinite, by rounding
        got, want, again = (cupy.minimum(y, 1e12) for y in (got, want, again))
    if not np.array_equal(want.get(), again.get(), equal_nan=want.dtype.kind in "fc"):
        pytest.skip("CuPy's loop is not deterministic")
    same(got, want, 1e-9)


@pytest.mark.parametrize("module", cupy_examples.MODULES)
def test_everything_public_is_listed(cupy, module):
    known = {name for m, name, _ in EXAMPLES if m == module}
    left_out = cupy_examples.excluded(module)
    assert cupy_examples.public(module) <= known | left_out
    assert not known & left_out


def test_most_are_fast(cupy):
    """The goal, by the list of what is unfixed: each entry of it is asserted above."""
    # distances need cuVS, without which CuPy's own loop raises
    names = {f"{m}.{n}" for m, n, _ in EXAMPLES if not m.endswith("distance")}
    assert names >= UNFIXED
    assert len(UNFIXED) <= (1 - GOAL) * len(names)


def test_bincount_in_one_pass(cupy):
    """Counts of all slices in a kernel, of slices that are longer than a thread takes."""
    x = cupy.asarray(np.random.default_rng(0).integers(0, 5, (8000, 40)))
    f = lambda v: cupy.bincount(v, minlength=5)  # noqa: E731
    with mock.patch("xpapply.loop.reference.apply", side_effect=AssertionError("the loop ran")):
        got = xpapply.apply_along_axis(f, 1, x)
    want = np.apply_along_axis(lambda v: np.bincount(v, minlength=5), 1, x.get())
    np.testing.assert_array_equal(got.get(), want)
    assert isinstance(f, types.FunctionType)
    assert "bincount" in xpapply.explain(f, 1, x).kernels[0]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("q", [0.0, 0.3, 1.0, [1.0, 0.5], [0.0, 1.0]])
@pytest.mark.parametrize("method", ["linear", "midpoint"])
def test_quantiles_beside_slices_without_numbers(n, q, method):
    """The largest number of a slice lies beside the smallest of the next one."""
    cupy = pytest.importorskip("cupy")
    host = np.arange(6.0 * n).reshape(6, n)
    host[1], host[3], host[5, -1] = np.nan, -np.inf, np.inf
    arr = cupy.asarray(host)
    for f in (
        lambda v: cupy.quantile(v, q, method=method),
        lambda v: cupy.percentile(v, 100 * np.asarray(q), method=method),
    ):
        with xpapply.options(fallback="raise"):
            got = xpapply.apply_along_axis(f, 1, arr)
        want = cupy.stack([f(row) for row in arr])
        cupy.testing.assert_allclose(got, want, rtol=1e-14)
