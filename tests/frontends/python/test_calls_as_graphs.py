"""What NumPy's functions are as graphs for kernels: the function itself, on slices not marked."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpapply import UnsupportedError
from xpapply.backends import array_api
from xpapply.frontends.python.graphs.to_graph import to_graph
from xpapply.frontends.python.trace.tree import Call
from xpapply.ir.graph import ShapeDtype
from xpapply.planning.python import python_functions
from xpapply.planning.python.applied import Along

TAPS = np.array([0.25, 0.5, -0.25])
BINS = np.array([-1.0, 0.0, 0.5, 2.0])
TABLE = np.linspace(-3, 3, 70)
QS = [0, 0.1, 0.5, 0.73, 1]
METHODS = (
    "linear lower higher nearest midpoint hazen weibull median_unbiased normal_unbiased "
    "interpolated_inverted_cdf"
).split()


def smoothed(v, alpha=0.3):
    out = np.zeros(len(v))
    out[0] = v[0]
    for i in range(1, len(v)):
        out[i] = alpha * v[i] + (1 - alpha) * out[i - 1]
    return out


def differences(v):
    out = np.zeros_like(v)
    out[1:] = v[1:] - v[:-1]
    out[::2] = 1
    return out


EXACT = {
    "sort": np.sort,
    "argsort": np.argsort,
    "stable argsort": lambda v: np.argsort(v, kind="stable"),
    "sorted by": lambda v: v[np.argsort(v, kind="stable")],
    "median": np.median,
    "nanmedian": np.nanmedian,
    "percentile": lambda v: np.percentile(v, 95),
    "percentiles": lambda v: np.percentile(v, [25, 75]),
    "nanpercentile": lambda v: np.nanpercentile(v, 25),
    "nanpercentiles": lambda v: np.nanpercentile(v, [25, 75]),
    "least": lambda v: np.quantile(v, 0),
    "most": lambda v: np.quantile(v, 1),
    **{m: lambda v, m=m: np.quantile(v, QS, method=m) for m in METHODS},
    **{f"nan {m}": lambda v, m=m: np.nanquantile(v, QS, method=m) for m in METHODS},
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "nancumsum": np.nancumsum,
    "largest so far": lambda v: np.maximum.accumulate(v),
    "smallest so far": lambda v: np.minimum.accumulate(v),
    "diff": np.diff,
    "second diff": lambda v: np.diff(v, 2),
    "diff with more": lambda v: np.diff(v, prepend=0, append=[1, 2]),
    "gradient": np.gradient,
    "interp of values": lambda v: np.interp(TABLE, np.linspace(-2, 2.5, len(v)), v),
    "interp of places": lambda v: np.interp(v, BINS, [1.0, 5, 2, 0]),
    "interp between many": lambda v: np.interp(v, TABLE, TABLE**2, left=-7, right=9),
    "searchsorted": lambda v: np.searchsorted(BINS, v),
    "searchsorted right": lambda v: np.searchsorted(BINS, v, side="right"),
    "searchsorted in many": lambda v: np.searchsorted(TABLE, v),
    "searchsorted right in many": lambda v: np.searchsorted(TABLE, v, "right"),
    "search in the slice": lambda v: np.searchsorted(np.cumsum(np.abs(v)), 0.9),
    "digitize": lambda v: np.digitize(v, BINS),
    "digitize right": lambda v: np.digitize(v, BINS, right=True),
    "digitize down": lambda v: np.digitize(v, BINS[::-1]),
    "histogram": lambda v: np.histogram(v, bins=6, range=(-2, 2))[0],
    "histogram of its own range": lambda v: np.histogram(v)[0],
    "edges": lambda v: np.histogram(v, bins=7)[1],
    "histogram by edges": lambda v: np.histogram(v, bins=BINS)[0],
    "take": lambda v: np.take(v, [0, -1, 1]),
    "by constants": lambda v: v[[1, 0, 1, -1]],
    "roll": lambda v: np.roll(v, 3),
    "flip": np.flip,
    "repeat": lambda v: np.repeat(v, 2),
    "tile": lambda v: np.tile(v, 2),
    "append": lambda v: np.append(v, 1),
    "diag": lambda v: np.diag(v[:3]),
    "at the largest": lambda v: v[np.argmax(v)],
    "a table": lambda v: TABLE[np.argmin(v) - 3],
    "first above": lambda v: np.argmax(v > 0.5),
    "smoothed": smoothed,
    "written": differences,
    "outer": lambda v: np.outer(v[:3], v),
    "kron": lambda v: np.kron(v, [1, 2]),
    "how many": np.count_nonzero,
    "how many different": lambda v: len(np.unique(v)),
    "largest magnitude": lambda v: np.linalg.norm(v, np.inf),
}
ROUNDED = {
    "full": lambda v: np.convolve(v, TAPS),
    "same": lambda v: np.convolve(v, TAPS, "same"),
    "valid": lambda v: np.convolve(v, TAPS, "valid"),
    "turned": lambda v: np.convolve(TAPS, v),
    "of an even number": lambda v: np.convolve(v, [1, 2, 3, 4], "same"),
    "correlate": lambda v: np.correlate(v, TAPS),
    "correlate, same": lambda v: np.correlate(v, [1, 2, 3, 4], "same"),
    "correlate, full": lambda v: np.correlate(v, TAPS, "full"),
    "trapezoid": lambda v: np.trapezoid(v),
}
OF_INTEGERS = {
    "bincount": lambda v: np.bincount(v, minlength=12),
    "bincount of weights": lambda v: np.bincount(v, np.arange(len(v)) * 0.3, minlength=12),
    "vote": lambda v: np.bincount(v).argmax(),
    "frequencies": lambda v: np.bincount(v, minlength=10) / len(v),
    "a table": lambda v: TABLE[v],
    "take from a table": lambda v: np.take(TABLE, v),
    "a table of two axes": lambda v: np.arange(100.0).reshape(10, 10)[v[0], v[1:]],
    "cumsum": np.cumsum,
    "sort": np.sort,
    "median": np.median,
    "percentile": lambda v: np.percentile(v, 30),
    "percentiles": lambda v: np.percentile(v, [30, 99]),
    "most": lambda v: np.quantile(v, 1),
    "convolve": lambda v: np.convolve(v, [1, 0, -1]),
    "diff": np.diff,
    "gradient": np.gradient,
    "histogram": lambda v: np.histogram(v, bins=4, range=(0, 10))[0],
    "searchsorted": lambda v: np.searchsorted(np.array([2, 4, 6], v.dtype), v),
    "digitize": lambda v: np.digitize(v, [2.5, 4.5]),
    "flip": np.flip,
}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 0.1, -0.3, 1.7, 2.25, 1e30, -1e-30, np.inf, -np.inf, np.nan]


def graphs_of(f, x):
    """What the paths of `f` on the rows of `x` are, and the answers that lead along them."""
    traced = python_functions.decide(Along(f, 1, x, (), {})).traced
    aval = ShapeDtype((x.shape[1],), x.dtype.name)
    found = []
    for path in traced.tree.paths():
        answers = tuple(s.value for s in path.steps if not isinstance(s, Call))
        found.append((answers, to_graph(path, aval, True)))
    return found


def run(graphs, v):
    """The result for a slice, by the reference, and whether it is marked."""
    for answers, graph in graphs:
        with np.errstate(all="ignore"):
            out, *rest = array_api.evaluate(np, graph, [v], graph.consts)
        asked, marks = rest[: len(answers)], rest[len(answers) :]
        if all(int(a) == int(b) for a, b in zip(answers, asked, strict=True)):
            return out, any(map(bool, marks))
    return None, True


def compare(f, x, rtol=0.0):
    """Rows that are not marked have the result of `f`; how many are marked."""
    graphs, marked = graphs_of(f, x), 0
    for v in x:
        got, mark = run(graphs, v)
        marked += mark
        if mark:
            continue
        with warnings.catch_warnings(record=True) as said, np.errstate(all="warn", under="ignore"):
            warnings.simplefilter("always")
            want = np.asarray(f(v))
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        atol = rtol * np.abs(v[np.isfinite(v)]).max(initial=0) if rtol else 0
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
        if not rtol and want.dtype.kind == "f":
            numbers = want == want
            np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])
        # what NumPy warns of shows in numbers that a kernel looks at
        assert not said or not np.isfinite(got).all()
    return marked


def test_ordinary_slices_are_not_marked():
    x = np.random.default_rng(0).uniform(-2, 2, (20, 9))
    for f in {**EXACT, **ROUNDED}.values():
        assert compare(f, x, 1e-13) == 0


def test_degrees():
    for dtype in ("float32", "float64"):
        x = np.random.default_rng(0).uniform(-400, 400, (20, 30)).astype(dtype)
        assert compare(np.radians, x) == compare(np.rad2deg, x) == 0


@pytest.mark.parametrize("mode", ["reflect", "mirror", "nearest", "wrap", "constant"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_filters_of_scipy(mode, dtype):
    ndimage = pytest.importorskip("scipy.ndimage")
    for n in (5, 20, 60):
        x = np.random.default_rng(n).standard_normal((20, n)).astype(dtype)
        x[3, 2], x[4, 1] = np.nan, np.inf
        for f in (
            lambda v: ndimage.gaussian_filter1d(v, 1.0, mode=mode),
            lambda v: ndimage.gaussian_filter1d(v, 0.7, order=1, mode=mode, cval=2),
            lambda v: ndimage.convolve1d(v, [1, 2, 0.5], mode=mode),
            lambda v: ndimage.correlate1d(v, [1, 2, 0.5, -1], mode=mode, cval=3),
        ):
            assert compare(f, x) == 0


@pytest.mark.parametrize("mode", ["interp", "nearest"])
def test_fitted_polynomials(mode):
    signal = pytest.importorskip("scipy.signal")
    for n in (11, 46):
        x = np.random.default_rng(n).standard_normal((20, n))
        assert compare(lambda v: signal.savgol_filter(v, 11, 3, mode=mode), x, 1e-12) == 0
        x[2, 3] = np.nan
        compare(lambda v: signal.savgol_filter(v, 5, 2, 1, mode=mode), x, 1e-12)


@pytest.mark.parametrize("f", EXACT.values(), ids=EXACT)
@given(data=st.data())
def test_exactly_numpys(f, data):
    n, dtype = data.draw(st.integers(4, 40)), data.draw(st.sampled_from(["float64", "float32"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.standard_normal((6, n))
    x[1] = np.round(x[1], 1)
    x[2:5] = rng.choice(NUMBERS[: data.draw(st.integers(2, len(NUMBERS)))], (3, n))
    with np.errstate(all="ignore"):
        compare(f, x.astype(dtype))


@pytest.mark.parametrize("f", ROUNDED.values(), ids=ROUNDED)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("n", [4, 7, 30])
def test_up_to_rounding(f, dtype, n):
    x = np.random.default_rng(n).standard_normal((8, n)).astype(dtype)
    x[3, 2], x[4, -1] = np.nan, np.inf
    compare(f, x, 50 * float(np.finfo(dtype).eps))


HALF = {k: f for k, f in EXACT.items() if "histogram" not in k and k != "edges"}


@pytest.mark.parametrize("f", HALF.values(), ids=HALF)
def test_numbers_of_16_bits(f):
    x = np.random.default_rng(3).standard_normal((8, 6)).astype("float16")
    x[3, 2], x[4, -1], x[5] = np.nan, np.inf, 1
    compare(f, x)


@pytest.mark.parametrize("f", OF_INTEGERS.values(), ids=OF_INTEGERS)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("n", [4, 5, 30])
def test_integers(f, dtype, n):
    x = np.random.default_rng(n).integers(0, 10, (20, n)).astype(dtype)
    x[0] = 9
    compare(f, x)


def test_differences_of_integers_that_wrap_around():
    x = np.array([[1, 2, 3, 4], [-128, 127, 0, 1]] * 10, "int8")
    assert compare(lambda v: np.percentile(v, 80), x) == 0
    assert compare(lambda v: np.percentile(v[:2], 30), x) == 10


def test_arithmetic_of_single_integers():
    x = np.random.default_rng(0).integers(-128, 128, (40, 4)).astype("int8")
    x[:3], x[5] = 3, [-128, 127, -1, 0]
    for f in (
        lambda v: v[0] + v[1],
        lambda v: v[0] - v[1],
        lambda v: v[0] * v[1],
        lambda v: -v[0],
        lambda v: abs(v[0]),
    ):
        assert compare(f, x) < 40


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_pythons_numbers(dtype):
    x = np.random.default_rng(0).integers(1, 9, (40, 4)).astype(dtype)
    assert compare(lambda v: sum(k * a for k, a in enumerate(v.tolist())), x) == 0
    assert compare(lambda v: math.sqrt(v[0]) + math.atan2(v[1], v[2]), x) == 0
    assert compare(lambda v: float(v[0]) / 3 > 1, x) == 0


@pytest.mark.parametrize(
    ("f", "row"),
    [
        (np.sort, [0.0, -0.0, 1.0]),
        (np.median, [0.0, -0.0, 1.0]),
        (np.argsort, [1.0, 2.0, 1.0]),
        (np.argsort, [1.0, np.nan, np.nan]),
        (np.nanmedian, [np.nan] * 3),
        (lambda v: np.nanpercentile(v, 5), [np.nan] * 3),
        (lambda v: np.searchsorted(v, 1.5), [2.0, 1.0, 3.0]),
        (lambda v: TABLE[v.astype(int)], [1.0, 2.0, 70.0]),
        (lambda v: TABLE[v.astype(int)], [1.0, 2.0, -71.0]),
        (np.histogram, [1.0, 1.0, 1.0]),
        (np.histogram, [1.0, np.inf, 1.0]),
    ],
)
def test_what_the_algorithm_decides_is_marked(f, row):
    x = np.array([[1.0, 2.0, 3.0]] * 20 + [row])
    one = f if f is not np.histogram else lambda v: np.histogram(v)[0]
    if "astype" in f.__code__.co_names if hasattr(f, "__code__") else False:
        x = x.astype(int)
    graphs = graphs_of(one, x[:20])
    with np.errstate(all="ignore"):
        marks = [run(graphs, v)[1] for v in x]
    assert marks == [False] * 20 + [True]


@pytest.mark.parametrize(
    "f",
    [
        lambda v: np.gradient(v.reshape(2, 3))[0],
        lambda v: np.quantile(v, 0.5, method="inverted_cdf"),
        lambda v: np.interp(v, BINS, BINS, period=2.0),
        lambda v: np.searchsorted(BINS[::-1], v),
        lambda v: np.interp(v, BINS[::-1], BINS),
        lambda v: np.histogram(v, density=True)[0],
        lambda v: np.gradient(v, edge_order=2),
        lambda v: np.take(v, [1], mode="clip"),
    ],
)
def test_what_is_left_to_numpy(f):
    x = np.random.default_rng(0).standard_normal((20, 6))
    with pytest.raises(UnsupportedError):
        graphs_of(f, x)


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda v: np.linalg.norm(v, keepdims=True), "numpy.linalg.norm with keepdims"),
        (lambda v: np.var(v, mean=v.mean()), "numpy.var with mean"),
    ],
)
def test_a_keyword_that_is_not_known_is_named(f, said):
    x = np.random.default_rng(0).standard_normal((20, 6))
    with pytest.raises(UnsupportedError, match=said + r" \("):
        graphs_of(f, x)
