"""Sorts, running sums and places in kernels: what the reference gives, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpapply.backends import array_api
from xpapply.ir.builder import Builder
from xpapply.ir.graph import ShapeDtype

pytest.importorskip("llvmlite")

from cpu_targets import TARGETS, on

from xpapply.backends.cpu import compiler, unrolled

DTYPES = ["float64", "float32", "float16", "int64", "int32", "uint8", "int8", "bool"]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.25, 1e4, -1e-3, np.inf, -np.inf, np.nan]


def numbers(rng, shape, dtype):
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if "int" in dtype:
        info = np.iinfo(dtype)
        few = rng.integers(0, 5, shape)
        many = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, few, many).astype(dtype)
    found = np.where(rng.random(shape) < 0.5, rng.choice(NUMBERS, shape), rng.normal(size=shape))
    return found.astype(dtype)


def check(graph, x):
    lowered = unrolled.Unrolled(graph)
    out = np.empty((len(x), *graph.result.shape), graph.result.dtype)
    lowered(x, 1, lowered.bind(graph.consts, x), out)
    with np.errstate(all="ignore"):
        want = [array_api.evaluate(np, graph, [v], graph.consts)[0] for v in x]
    for got, row in zip(out, want, strict=True):
        np.testing.assert_array_equal(got, row)


def graph_of(op, shape, axis, dtype, **attrs):
    builder = Builder()
    x = builder.input(ShapeDtype((int(np.prod(shape)),), dtype))
    wide = builder.op("reshape", x, shape=shape) if len(shape) > 1 else x
    return builder.graph(builder.op(op, wide, axis=axis, **attrs))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["sort", "argsort"])
@pytest.mark.parametrize("target", TARGETS)
def test_sorted(op, dtype, target):
    rng = np.random.default_rng(len(dtype))
    more = {"stable": True} if op == "argsort" else {}
    with on(target):
        for n in (1, 2, 3, 5, 8, 13, 24):
            check(graph_of(op, (n,), 0, dtype, **more), numbers(rng, (40, n), dtype))


@pytest.mark.parametrize("n", [17, 31, 33, 50])
def test_sorts_of_many(n):
    rng = np.random.default_rng(n)
    check(graph_of("sort", (n,), 0, "float64"), numbers(rng, (20, n), "float64"))


def test_places_of_numbers_that_differ():
    x = np.random.default_rng(0).permuted(np.tile(np.arange(20.0), (30, 1)), axis=1)
    check(graph_of("argsort", (20,), 0, "float64", stable=False), x)


@pytest.mark.parametrize("op", ["cumulative_sum", "cumulative_prod", "cumulative_max"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8"])
def test_running(op, dtype):
    rng = np.random.default_rng(2)
    for n in (1, 2, 9):
        check(graph_of(op, (n,), 0, dtype), numbers(rng, (30, n), dtype))


@given(data=st.data())
@settings(max_examples=10)
def test_axes(data):
    shape = (2, 3, 2)
    op = data.draw(st.sampled_from(["sort", "cumulative_min", "argsort"]))
    more = {"stable": True} if op == "argsort" else {}
    graph = graph_of(op, shape, data.draw(st.integers(0, 2)), "float32", **more)
    check(graph, numbers(np.random.default_rng(1), (20, 12), "float32"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("table", [False, True])
def test_places(table, target, dtype):
    rng = np.random.default_rng(4)
    with on(target):
        for n in (1, 2, 3, 7, 8, 20):
            builder = Builder()
            x = builder.input(ShapeDtype((n,), dtype))
            of = builder.const(numbers(rng, (n,), dtype)) if table else x
            places = builder.op("argsort", x, axis=0, stable=True)
            found = builder.op("take_along_axis", of, places, axis=0)
            check(builder.graph(found), numbers(rng, (30, n), dtype))


def test_places_in_rows():
    builder = Builder()
    x = builder.input(ShapeDtype((12,), "float64"))
    wide = builder.op("reshape", x, shape=(3, 4))
    for axis in (0, 1):
        places = builder.op("argsort", wide, axis=axis, stable=True)
        found = builder.op("take_along_axis", wide, places, axis=axis)
        graph = builder.graph(found)
        check(graph, numbers(np.random.default_rng(1), (20, 12), "float64"))


def test_the_median_takes_less_than_a_sort():
    target = compiler.host()
    builder = Builder()
    x = builder.input(ShapeDtype((25,), "float32"))
    whole = builder.op("sort", x, axis=0)
    one = builder.op("index", whole, key=(12,))
    from xpapply.codegen.llvm import unrolled as codegen
    from xpapply.codegen.llvm.slice_kernel import Form

    form = Form(True, 16, ("direct",), ("direct",), (1, 1), 1, 0)
    texts = [codegen.unrolled_kernel(builder.graph(y), form, target) for y in (whole, one)]
    assert len(texts[1]) < 0.8 * len(texts[0])
