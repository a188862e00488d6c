"""Functions of slices on NumPy's fused engine: as the definition, however arrays lie."""

import sys
import tracemalloc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_threads import in_threads

import xpapply
from conftest import library
from xpapply import special
from xpapply.ir.ops import F
from xpapply.limits import LIMITS
from xpapply.slice_functions.function import Slicewise

SPECIAL = [
    special.logsumexp,
    special.softmax,
    special.log_softmax,
    special.mean_var,
    special.standardize,
    special.norm,
    special.normalize,
    special.argmax_and_max,
]
EXTENT = xpapply.reduction(
    lambda x: (x, x),
    lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
    lambda s: s[1] - s[0],
)
DOT = xpapply.reduction(lambda x, y: x * y, lambda a, b: a + b, identity=0)
PRODUCT_PLUS = xpapply.reduction(lambda x, n: x * n, lambda a, b: a + b + a * b, identity=0)
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 88.0, -88.0])


def both(call):
    """The results of the engine and of the definition."""
    got = call()
    with xpapply.options(engine="array_api"):
        expected = call()
    return got, expected


def assert_same(got, expected, atol=1e-5, rtol=2e-5):
    several = got if isinstance(got, tuple) else (got,)
    for a, b in zip(several, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=atol, rtol=rtol)


def numbers(rng, shape, dtype, odd=0.0):
    x = rng.normal(size=shape) * 4
    if np.dtype(dtype).kind in "iu":
        return np.abs(x * 4).astype(dtype)
    x = np.where(rng.random(shape) < odd, rng.choice(ODD, size=shape), x)
    return x.astype(dtype)


@st.composite
def arrays(draw, odd=True):
    """An array of any strides, and the axes of its slices."""
    ndim = draw(st.integers(1, 4))
    shape = draw(st.lists(st.integers(1, 9), min_size=ndim, max_size=ndim))
    if draw(st.booleans()):
        shape[draw(st.integers(0, ndim - 1))] = draw(st.sampled_from([33, 70, 200, 257]))
    dtype = draw(st.sampled_from(["float64", "float32", "float16", "int32", "uint8"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    order = draw(st.permutations(range(ndim)))
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, -1]), min_size=ndim, max_size=ndim))
    memory = [shape[a] * abs(s) for a, s in zip(order, (steps[a] for a in order), strict=True)]
    odd_share = draw(st.sampled_from([0.0, 0.0, 0.02, 0.5])) if odd else 0.0
    x = numbers(rng, memory, dtype, odd_share).transpose(np.argsort(order))
    x = x[tuple(slice(None, None, s) for s in steps)]
    assert x.shape == tuple(shape)
    axis = draw(st.one_of(st.none(), st.integers(-ndim, ndim - 1), _several(ndim)))
    return x, axis


def _several(ndim):
    return st.lists(st.integers(0, ndim - 1), unique=True, max_size=ndim).map(tuple)


BLOCKS = st.sampled_from([0, 64, 300, 2048, 1 << 14])


@given(arrays(), st.sampled_from(SPECIAL), BLOCKS, st.sampled_from([1, 2]))
def test_as_the_definition(of, f, block_bytes, threads):
    x, axis = of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LIMITS, "slices_pool", 1)  # threads however small the arrays are
        with xpapply.options(block_bytes=block_bytes, threads=threads):
            got, expected = both(lambda: f(x, axis=axis))
    low = x.dtype == "float16"
    assert_same(got, expected, 1e-2 if low else 1e-5, 1e-2 if low else 2e-5)


@given(arrays(odd=False), BLOCKS, st.data())
def test_several_arrays_that_broadcast(of, block_bytes, data):
    x, axis = of
    x = x.astype("float64")
    shape = [data.draw(st.sampled_from([1, n])) for n in x.shape]
    y = np.random.default_rng(1).normal(size=shape[data.draw(st.integers(0, x.ndim)) :])
    for f in (DOT, special.logsumexp):
        with xpapply.options(block_bytes=block_bytes):
            if f is DOT:
                assert_same(*both(lambda: DOT(x, y, axis=axis)), 1e-9, 1e-9)
            else:
                call = lambda: special.logsumexp(x, axis, b=y, return_sign=True)  # noqa: E731
                assert_same(*both(call), 1e-7, 1e-9)


@given(arrays(), BLOCKS, st.booleans())
def test_combined_in_pairs(of, block_bytes, keepdims):
    x, axis = of
    with xpapply.options(block_bytes=block_bytes):
        got, expected = both(lambda: EXTENT(x, axis=axis, keepdims=keepdims))
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype


@given(arrays(odd=False), BLOCKS)
def test_a_number_among_the_arguments(of, block_bytes):
    x, axis = of
    x = x.astype("float64") * 1e-3
    with xpapply.options(block_bytes=block_bytes):
        got, expected = both(lambda: PRODUCT_PLUS(x, 0.5, axis=axis))
    assert_same(got, expected, 1e-9, 1e-7)


@given(arrays(), BLOCKS, st.permutations(range(4)), st.sampled_from([1, 2, -1]), st.booleans())
def test_results_go_where_they_shall(of, block_bytes, order, step, keepdims):
    x, axis = of
    with xpapply.options(engine="array_api"):
        expected = DOT(x, x, axis=axis, keepdims=keepdims)
    shape, dtype = np.shape(expected), expected.dtype
    order = [a for a in order if a < len(shape)]
    room = np.zeros([shape[a] * abs(step) for a in order], dtype).transpose(np.argsort(order))
    out = room[(*(slice(None, None, step),) * len(shape), ...)]
    with xpapply.options(block_bytes=block_bytes):
        assert DOT(x, x, axis=axis, keepdims=keepdims, out=out) is out
    rtol = 1e-2 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(out, expected, rtol=rtol, atol=rtol)
    assert np.count_nonzero(room) == np.count_nonzero(out)  # nothing beside it


@pytest.mark.parametrize("shape", [(7,), (40, 3), (300, 70)])
@pytest.mark.parametrize("transposed", [False, True])
def test_results_in_the_place_of_arguments(shape, transposed):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, *shape))
    x, y = (x.T, y.T) if transposed else (x, y)
    swapped = xpapply.elementwise(lambda a, b: (b, a))
    both_ways = xpapply.elementwise(lambda a, b: (a + b, a - b))
    with xpapply.options(block_bytes=512):
        a, b = x.copy(), y.copy()
        swapped(a, b, out=(a, b))
        np.testing.assert_array_equal((a, b), (y, x))
        a, b = x.copy(), y.copy()
        both_ways(a, b, out=(a, b))
        np.testing.assert_array_equal((a, b), (x + y, x - y))


@pytest.mark.parametrize("block_bytes", [0, 16, 256])
def test_positions_are_of_the_first(block_bytes):
    """Of the first NaN, else of the first maximum, in C order of the slice's own axes."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, size=(6, 5, 40)).astype("float32")
    x[1, 2, 7:9] = np.nan
    for axis in (0, 1, 2, None, (0, 2), (1, 2), (2, 0)):
        for y in (x, np.asfortranarray(x), x[::-1, :, ::-2]):
            with xpapply.options(block_bytes=block_bytes):
                got, best = special.argmax_and_max(y, axis=axis)
            axes = tuple(sorted((axis,) if isinstance(axis, int) else axis or (0, 1, 2)))
            batch = tuple(a for a in range(3) if a not in axes)
            rows = y.transpose(*batch, *axes).reshape([*(y.shape[a] for a in batch), -1])
            np.testing.assert_array_equal(got, rows.argmax(-1))
            np.testing.assert_array_equal(best, rows.max(-1))


@pytest.mark.parametrize("M", [31, 32, 100, 1023, 1024, 2000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_largest_of_rows_of_any_length(M, dtype):
    x = numbers(np.random.default_rng(M), (20, M), dtype, 0.001)
    np.testing.assert_array_equal(special.norm(x, np.inf, axis=1), abs(x).max(1))
    got = xpapply.reduction(None, np.minimum)(x, axis=1)
    np.testing.assert_array_equal(got, x.min(1))


def test_complex_numbers_and_truths():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(30, 50)) + 1j * rng.normal(size=(30, 50))
    total = xpapply.reduction(lambda z: z * z, lambda a, b: a + b, identity=0)
    alike = xpapply.reduction(lambda a, b: a == b, lambda a, b: a & b, identity=True)
    for block_bytes in (0, 128):
        with xpapply.options(block_bytes=block_bytes):
            np.testing.assert_allclose(total(z, axis=0), (z * z).sum(0))
            found = alike(z, np.where(np.arange(30)[:, None] < 5, z, 0), axis=1)
        assert found.tolist() == [True] * 5 + [False] * 25


def test_slices_of_nothing():
    x = np.zeros((3, 0, 2))
    np.testing.assert_array_equal(special.logsumexp(x, axis=1), np.full((3, 2), -np.inf))
    np.testing.assert_array_equal(special.norm(x, axis=1, keepdims=True), np.zeros((3, 1, 2)))
    np.testing.assert_array_equal(DOT(x, x, axis=1), np.zeros((3, 2)))


def test_small_terms_are_not_lost():
    x = np.full(100_000, -80.0)
    x[5] = 0.0
    for block_bytes in (0, 1024):
        with xpapply.options(block_bytes=block_bytes):
            np.testing.assert_allclose(special.logsumexp(x), 99_999 * np.exp(-80), rtol=1e-12)


def test_several_levels_in_pieces():
    """Numbers of one pass are read in the next."""

    def write(x):
        from xpapply.ir.slices import accumulators

        builder = x.builder
        top = builder.accumulate(accumulators.simple("max", "float64"), x)[0]
        total = builder.accumulate(accumulators.simple("sum", "float64"), abs(x - top))[0]
        rest = builder.accumulate(accumulators.simple("min", "float64"), x * total)[0]
        return (x - top) / total + rest, total * 2, top

    call = Slicewise("levels", write)
    x = np.random.default_rng(0).normal(size=(3, 500))
    for axis in (0, 1, None):
        for block_bytes in (0, 64, 1000):
            with xpapply.options(block_bytes=block_bytes):
                got, expected = both(lambda axis=axis: call((x,), axis))
            assert_same(got, expected, 1e-12, 1e-12)


@pytest.mark.parametrize("engine", ["numpy", "cpu"])
def test_calls_from_several_threads(engine):
    """One prepared call, whose buffers are those of one thread at a time."""
    if engine == "cpu":
        library("llvmlite")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(8, 16)) for _ in range(4)]
    with xpapply.options(engine=engine):
        expected = [special.softmax(x, axis=1) for x in arrays]
    wrong = []

    def work(x, expected):
        with xpapply.options(engine=engine):
            for _ in range(500):
                if not np.array_equal(special.softmax(x, axis=1), expected):
                    wrong.append(x)

    in_threads(work, arrays, expected)
    assert not wrong


def test_results_do_not_depend_on_the_number_of_threads():
    x = np.random.default_rng(0).normal(size=(1, 300_000)).astype("float32")
    found = []
    for threads in (1, 2, 3):
        with xpapply.options(threads=threads, block_bytes=1 << 16):
            found.append(special.mean_var(x, axis=1))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_no_array_is_kept():
    x = np.zeros((4, 8))
    y = special.softmax(x, axis=1)
    kept = weakref.ref(x), weakref.ref(y)
    del x, y
    assert [ref() for ref in kept] == [None, None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "axis"), [((3_125_000, 16), 1), ((195_312, 256), 1), ((50_000_000,), 0)]
)
@pytest.mark.parametrize("across", [False, True])
def test_memory_is_that_of_blocks(shape, axis, across):
    """200 MB are read; what is allocated is a few blocks, and the results."""
    x = np.zeros(shape, np.float32)
    if across:
        x, axis = x.reshape(shape[::-1]), 0
    calls = [
        lambda: special.logsumexp(x, axis=axis),
        lambda: special.mean_var(x, axis=axis),
        lambda: EXTENT(x, axis=axis),
        lambda: special.logsumexp(x[::-1], axis=axis),
    ]
    with xpapply.options(threads=2):
        for call in calls:
            tracemalloc.start()
            try:
                results = call()
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            several = results if isinstance(results, tuple) else (results,)
            assert peak - sum(y.nbytes for y in several) < 10e6


def test_what_runs_is_told():
    def planned(call, *arrays, axis):
        with xpapply.options(engine="numpy"):
            return call.planned(arrays, axis)

    call = special.formulas.calls["softmax"]
    tiny = planned(call, np.zeros((4, 8)), axis=1)
    assert tiny.engine == "numpy"
    assert "one block" in tiny.kernels[0]
    long = planned(call, np.zeros((2, 2_000_000)), axis=1)
    assert "pieces" in long.kernels[0]
    short = planned(call, np.zeros((1_000_000, 4)), axis=1)
    assert "transposed" in short.kernels[0]


def test_strides_between_elements_are_refused():
    records = np.zeros(10, [("a", "f4"), ("b", "f8")])
    records["b"] = np.arange(10)
    call = special.formulas.calls["logsumexp"].planned((records["b"],), 0)
    assert call.engine == "array_api"
    (refusal,) = (reason for reason in call.reasons if reason.startswith("numpy: "))
    assert "multiples" in refusal
    np.testing.assert_allclose(special.logsumexp(records["b"]), special.logsumexp(np.arange(10.0)))


def test_functions_of_scipy_without_scipy(monkeypatch):
    """NumPy says what is missing, for networks and for functions of slices."""
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    net = xpapply.MLP([np.ones((2, 3)), np.ones((1, 2))], activation="gelu")
    refused = pytest.raises(xpapply.UnsupportedError, match="NumPy has no erfc, and SciPy is not")
    with xpapply.options(engine="numpy"), refused:
        xpapply.explain(net, 1, np.ones((5, 3)))
    refused = pytest.raises(xpapply.UnsupportedError, match="NumPy has no erf, and SciPy is not")
    with xpapply.options(engine="numpy"), refused:
        Slicewise("erf", F.erf).planned((np.ones((5, 3)),), 1)
