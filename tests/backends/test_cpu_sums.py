"""Sums in kernels of slices: to the last bit what NumPy makes of each slice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slice_ways import layout_of
from test_cpu_slices import TARGETS, on

import xpapply
from xpapply.backends.cpu import slices
from xpapply.backends.cpu.slice_forms import halves
from xpapply.frontends.python.run.rows import Rows
from xpapply.ir.graph import VECTOR, ShapeDtype
from xpapply.ir.numpy_sums import adds_as_numpy, pairwise
from xpapply.ir.slices import accumulators
from xpapply.ir.slices.slice_graph import SliceBuilder
from xpapply.planning.python import python_functions
from xpapply.planning.python.applied import Along

pytest.importorskip("llvmlite")

SHORT = [*range(2, 70), *range(70, 301, 7), 127, 128, 129, 136, 255, 256, 257, 264, 272]
LONG = [1000, 1003, 5000, 9000, 20_000]
PIECES = [70_000, 131_072, 300_001]
"""So long that they are cut for threads."""


def numbers(rng, shape, dtype):
    """Of which any order has another sum."""
    if np.dtype(dtype).kind != "f":
        limits = np.iinfo(dtype) if dtype != "bool" else None
        top = min(limits.max, 10**15) if limits else 1
        return rng.integers(max(limits.min, -top) if limits else 0, top, shape).astype(dtype)
    return (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)


def same_bits(got, want):
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype
    assert (np.signbit(got) == np.signbit(want)).all()


def sums(dtype, others):
    """A graph of sums, with `others` of what has no order beside them."""
    b = SliceBuilder()
    x = b.input(ShapeDtype(VECTOR, dtype))
    (total,) = b.accumulate(accumulators.simple("sum", dtype), x)
    found = [total]
    if others:
        found += b.accumulate(accumulators.simple("max", dtype), x)
        found.append(b.accumulate(accumulators.position("argmax", dtype), x)[1])
        found += b.accumulate(accumulators.simple("sum", dtype), x * x)
    return b.graph(*found)


def test_the_order_is_that_of_this_numpy():
    assert adds_as_numpy()
    x = numbers(np.random.default_rng(0), (1003,), "float32")
    assert pairwise(x) == np.sum(x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("others", [False, True])
def test_any_length(target, dtype, others):
    rng = np.random.default_rng(1)
    graph = sums(dtype, others)
    for n in [*SHORT[:: 3 if others else 1], *LONG, *PIECES]:
        for shape, axis in (
            ((n, 1), 0),
            ((3, n), 1),
            ((40 if n < 2000 else 9, n), 1),
            ((n, 21), 0),
        ):
            x = numbers(rng, shape, dtype)
            results = [np.sum, np.max, np.argmax, lambda v: np.sum(v * v)]
            wanted = [
                np.array([f(v) for v in np.moveaxis(x, axis, -1)])
                for f, _ in zip(results, graph.outs, strict=False)
            ]
            outs = [np.empty_like(w) for w in wanted]
            with on(target):
                views = [np.expand_dims(y, axis) for y in outs]
                slices.LoweredSlices(graph, layout_of(shape, (axis,), [x], views))([x], views)
            for got, want in zip(outs, wanted, strict=True):
                same_bits(got, want)


def test_pieces_are_parts_of_the_tree():
    for n in PIECES:
        for count in (1, 2, 8, 32):
            x = numbers(np.random.default_rng(2), (n,), "float64")
            ends = np.cumsum(halves(n, count))
            found = [pairwise(v) for v in np.split(x, ends[:-1])]
            while len(found) > 1:
                found = [a + b for a, b in zip(found[::2], found[1::2], strict=True)]
            assert found[0] == np.sum(x)


FUNCTIONS = {
    "sum": lambda v: v.sum(),
    "mean": lambda v: v.mean(),
    "var": lambda v: v.var(),
    "std": lambda v: np.std(v),
    "sample": lambda v: v.var(ddof=1),
    "half a degree": lambda v: v.std(ddof=0.5),
    "kept": lambda v: v.mean(keepdims=True),
    "standardized": lambda v: (v - v.mean()) / v.std(),
    "squares": lambda v: np.sqrt((v * v).sum() / 3),
    "without NaN": lambda v: np.nanmean(v) + np.nanstd(v),
    "as float64": lambda v: v.sum(dtype=np.float64) + v.mean(dtype="float64"),
    "above the mean": lambda v: (v > v.mean()).sum(),
    "largest difference": lambda v: np.argmax(np.abs(v - v.mean())),
}


def run(f, axis, x):
    with xpapply.options(engine="cpu", fallback="raise"):
        return xpapply.apply_along_axis(f, axis, x)


OF_FLOATS = ("without NaN", "squares", "as float64")
NOT_OF_BOOLEANS = ("standardized", "largest difference", "above the mean")
OF_FLOAT16 = ("sum", "mean", "above the mean")  # variances of it have no kernel
OF_DTYPES = [
    (name, dtype)
    for name in FUNCTIONS
    for dtype in ("float16", "float32", "float64", "int64", "int32", "uint8", "bool")
    if ("float" in dtype or name not in OF_FLOATS)
    and (dtype != "bool" or name not in NOT_OF_BOOLEANS)
    and (dtype != "float16" or name in OF_FLOAT16)
    and (dtype == "float32" or name != "as float64")
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "dtype"), OF_DTYPES)
def test_functions_of_any_dtype(name, dtype):
    f, rng = FUNCTIONS[name], np.random.default_rng(3)
    lengths = (3, 8, 13, 129, 300, 5000, *((9000, 20_000) if "float" in dtype else ()))
    for n in lengths:
        if dtype == "float16" and n > 8192:
            continue  # cast in parts, whose sums are added
        if name == "as float64" and n > 8192:
            continue
        for axis in (0, 1):
            m = 40 if n < 2000 else 5
            x = numbers(rng, (n, m) if axis == 0 else (m, n), dtype)
            with np.errstate(all="ignore"):
                same_bits(run(f, axis, x), np.apply_along_axis(f, axis, x))


@given(data=st.data())
def test_slices_that_lie_in_any_way(data):
    draw = data.draw
    shape = draw(st.lists(st.integers(2, 40), min_size=2, max_size=3))
    axis = draw(st.integers(0, len(shape) - 1))
    shape[axis] = draw(st.integers(2, 300))
    steps = [draw(st.sampled_from([1, 1, 2, -1, -3])) for _ in shape]
    dtype = draw(st.sampled_from(["float32", "float64"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    order = draw(st.permutations(range(len(shape))))
    whole = numbers(rng, [shape[k] * abs(steps[k]) for k in order], dtype)
    x = whole.transpose(np.argsort(order))[tuple(slice(None, None, s) for s in steps)]
    f = FUNCTIONS[draw(st.sampled_from(["mean", "std", "standardized"]))]
    same_bits(run(f, axis, x), np.apply_along_axis(f, axis, x))


def test_zeros_have_numpys_sign():
    for n in (3, 8, 20, 300):
        x = np.full((40, n), -0.0)
        same_bits(run(lambda v: v.sum(), 1, x), np.zeros(40))


DECIDING = {
    "no deviation": lambda v: v * 0 if v.std() == 0 else (v - v.mean()) / v.std(),
    "above": lambda v: np.where(v > v.mean(), 1.0, 0.0),
    "not above": lambda v: (v >= v.mean()).all(),
    "floor": lambda v: np.floor(v.mean() * 3),
    "place": lambda v: np.argmax(v - v.mean()),
    "no sum": lambda v: v if v.sum() == 0 else v / v.sum(),
    "of those above": lambda v: v[v > v.mean()].max() if v.max() > v.mean() else v.min(),
}


@pytest.mark.parametrize("name", DECIDING)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [7, 23, 300])
def test_sums_decide_as_numpys_do(name, dtype, n):
    """The mean of equal numbers is one of them, or off by a bit: as the order of sums has it."""
    f, rng = DECIDING[name], np.random.default_rng(4)
    x = rng.uniform(-9, 9, (400, 1)) * np.ones(n)
    x[::3, : n // 2] = -x[::3, n - n // 2 :]
    x[::5] = np.round(x[::5])
    x = x.astype(dtype)
    want = np.apply_along_axis(f, 1, x)
    for _ in range(3):
        same_bits(run(f, 1, x), want)
    traced = python_functions.decide(Along(f, 1, x, (), {})).traced
    with xpapply.options(engine="cpu"):
        call = traced.ways[0].call_for(Rows(x, 1))
    assert call.kernel(call, Rows(x, 1))[1].mean() < 0.05


INEXACT = {
    "exponential": lambda v: np.where(np.exp(v) > 1, v, 0),
    "product": lambda v: 1.0 if np.dot(v, W[: len(v)]) > 0 else 0.0,
    "length": lambda v: np.floor(np.linalg.norm(v)),
    "mask": lambda v: v[v > 0].mean() > 0.5,
    "cubes": lambda v: (v**3 >= 1).sum(),
    "largest exponential": lambda v: np.argmax(np.exp(v) / np.exp(v).sum()),
    "logarithm": lambda v: np.log(np.exp(v) - 1).max() if v.min() > 0 else 0.0,
}
W = np.linspace(-1, 1, 300)


@pytest.mark.parametrize("name", INEXACT)
@pytest.mark.parametrize("n", [4, 23])
def test_what_is_inexact_decides_nothing(name, n):
    """Slices in which the last bit counts are left to NumPy, others are not."""
    f, rng = INEXACT[name], np.random.default_rng(5)
    x = rng.normal(size=(600, n))
    x[:, 0] = abs(x[:, 0]) + 0.1
    near = x[::4]
    near[:, 1:] = np.round(near[:, 1:])
    near[::2] = rng.normal(size=(len(near[::2]), 1))
    near[:, 0] = abs(near[:, 0])
    near[::3] = 1e-7 if name == "logarithm" else 1e-17
    for k in range(3):
        x[4 * k + 1] = np.nextafter(1.0, k)
    want = np.apply_along_axis(f, 1, x)
    for _ in range(3):
        np.testing.assert_allclose(run(f, 1, x), want, rtol=1e-13 if name == "logarithm" else 0)
    traced = python_functions.decide(Along(f, 1, x, (), {})).traced
    with xpapply.options(engine="cpu"):
        call = traced.ways[0].call_for(Rows(x, 1))
    assert call is not None
    assert call.kernel(call, Rows(x, 1))[1].mean() < 0.3
