"""Functions of slices on CPUs: every way through slices, on arrays that lie in all ways."""

import guarded
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slice_ways import EVERY, agree, case, defined, layout_of, numbers_like, places

import xpapply
from xpapply import special
from xpapply.arrays.layout import Layout
from xpapply.errors import UnsupportedError
from xpapply.ir.slices.slice_graph import written
from xpapply.limits import LIMITS

pytest.importorskip("llvmlite")

from cpu_targets import TARGETS, on

from xpapply.backends.cpu import compiler, slice_forms, slices


def runs(graph, axes, inputs, outs, shape):
    """Run a graph of arrays; whether there is a kernel for them."""
    layout = layout_of(shape, axes, inputs, outs)
    try:
        slices.LoweredSlices(graph, layout)(inputs, outs)
    except UnsupportedError:
        return False
    return True


def check(c, shape, axes, inputs, outs):
    """A case, beside its definition."""
    want = defined(c.graph, shape, axes, inputs)
    if runs(c.graph, axes, inputs, outs, shape):
        length = int(np.prod([shape[a] for a in axes]))
        agree(c.graph, outs, want, length, [x for x in inputs if x.ndim])


# --- any arrays -------------------------------------------------------------------------------


STABLE = [c for c in EVERY if "signed_log" not in c.name and "complex_" not in c.name]
"""Without those whose sums may cancel, so that rounding shows."""


@st.composite
def calls(draw):
    c = draw(st.sampled_from(STABLE))
    ndim = draw(st.integers(1, 3))
    axis = draw(st.integers(0, ndim - 1))
    lengths = st.one_of(st.integers(1, 70), st.sampled_from([128, 257]))
    shape = tuple(
        draw(lengths if a == axis else st.sampled_from([1, 2, 5, 17, 40])) for a in range(ndim)
    )
    return c, shape, (axis,), draw(st.integers(0, 2**32 - 1))


@pytest.mark.kernels
@given(calls(), st.data(), st.sampled_from(TARGETS), st.sampled_from([0, 0.05]))
@settings(max_examples=max(150, settings().max_examples))
def test_arrays_that_lie_in_any_way(call, data, target, odd):
    c, shape, axes, seed = call
    rng = np.random.default_rng(seed)
    memories, inputs = [], []
    for dtype in c.dtypes:
        own = shape
        if len(c.dtypes) > 1 and inputs and data.draw(st.booleans()):  # the same for all slices
            own = tuple(n if a in axes else 1 for a, n in enumerate(shape))
        x, _ = data.draw(places(len(shape))).array(own, dtype)
        x[...] = numbers_like(rng, own, dtype, odd)
        inputs.append(x)
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    outs = []
    for o in c.graph.outs:
        own = shape if c.graph.is_vector(o) else kept
        y, memory = data.draw(places(len(shape))).array(own, c.graph.nodes[o].aval.dtype)
        outs.append(y)
        memories.append((y, memory))
    with on(target):
        check(c, shape, axes, [*inputs, *c.numbers], outs)
    for y, memory in memories:  # nothing beside the results was written to
        y[...] = 0
        y.view(f"u{y.itemsize}")[...] = int.from_bytes(b"\xa5" * y.itemsize, "little")
        assert (memory == 0xA5).all()


# --- guard pages ------------------------------------------------------------------------------

LAYOUTS = {
    "last": lambda n, k: ((k, n), (n, 1), 1),
    "first": lambda n, k: ((n, k), (k, 1), 0),
    "apart": lambda n, k: ((k, n), (3 * n, 3), 1),
    "back": lambda n, k: ((k, n), (-n, -1), 1),
    "rows apart": lambda n, k: ((k, n), (n + 5, 1), 1),
}


def lying(x, strides):
    """A copy of `x` with such strides, in elements."""
    ends = [s * (n - 1) for s, n in zip(strides, x.shape, strict=True)]
    memory = np.zeros(sum(map(abs, ends)) + 1, x.dtype)
    first = -sum(e for e in ends if e < 0)
    y = np.ndarray(x.shape, x.dtype, memory, first * x.itemsize, [s * x.itemsize for s in strides])
    y[...] = x
    return y


@pytest.mark.skipif(not guarded.HERE, reason="memory is protected on Linux and macOS")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("where", LAYOUTS)
@pytest.mark.parametrize(
    "name", ["softmax of float32", "mean_var of uint8", "argmax of int8", "extent of int32"]
)
def test_nothing_beside_the_arrays_is_touched(name, where, target):
    c = case(name)
    rng = np.random.default_rng(0)
    with on(target):
        for n in range(1, 71):
            k = (1, 3, 16, 37)[n % 4]
            shape, strides, axis = LAYOUTS[where](n, k)
            x = numbers_like(rng, shape, c.dtypes[0], 0)
            end = bool(n % 2)
            inputs = [guarded.guarded(lying(x, strides), end, writable=False), *c.numbers]
            kept = tuple(1 if a == axis else m for a, m in enumerate(shape))
            outs = []
            for o in c.graph.outs:
                dtype = c.graph.nodes[o].aval.dtype
                y = np.zeros(kept, dtype)
                if c.graph.is_vector(o):
                    y = lying(np.zeros(shape, dtype), strides)
                outs.append(guarded.guarded(y, end))
            check(c, shape, (axis,), inputs, outs)
            assert all(map(guarded.intact, outs))


def test_addresses_that_are_multiples_of_nothing():
    rng = np.random.default_rng(0)
    softmax = case("softmax of float32")
    for n in (1, 5, 16, 100):
        records = np.zeros((20, n), np.dtype([("a", "u1"), ("x", "f4")], align=False))
        memory = np.zeros(20 * n * 4 + 1, np.uint8)
        x = memory[1:].view(np.float32).reshape(20, n)
        x[...] = rng.normal(size=(20, n))
        y = np.zeros(20 * n * 4 + 1, np.uint8)[1:].view(np.float32).reshape(20, n)
        assert not y.flags.aligned
        check(softmax, (20, n), (1,), [x], [y])
        records["x"] = x
        with xpapply.options(engine="cpu"):
            np.testing.assert_allclose(special.softmax(records["x"], axis=1), y, rtol=1e-6)


# --- ways through slices ----------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((2, 50_001), 1),
        ((50_001, 2), 0),
        ((9_000, 40), 0),
        ((3, 9_000, 20), 1),
        ((1, 40_000), 1),
        ((300, 1030), 1),
        ((1030, 300), 0),
        ((5, 40_003, 3), 1),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_slices(shape, axis, dtype, target):
    x = np.random.default_rng(0).normal(size=shape).astype(dtype) + 3
    with on(target), xpapply.options(engine="cpu"):
        mean, var = special.mean_var(x, axis=axis)
        softmax = special.softmax(x, axis=axis)
        position = special.formulas.argmax_and_max((x,), axis)[0]
    wide = x.astype(np.longdouble)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(mean, wide.mean(axis).astype(float), rtol=8 * eps)
    np.testing.assert_allclose(var, wide.var(axis).astype(float), rtol=64 * eps)
    e = np.exp(wide - wide.max(axis, keepdims=True))
    want = e / e.sum(axis, keepdims=True)
    np.testing.assert_allclose(softmax, want.astype(float), rtol=64 * eps)
    np.testing.assert_array_equal(position, x.argmax(axis))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((1000, 12), 1),
        ((1000, 64), 1),
        ((300, 100), 1),
        ((100, 1024), 1),
        ((20, 16_384), 1),
        ((10, 200_000), 1),
        ((1024, 64), 0),
        ((100_000, 16), 0),
    ],
)
def test_sums_are_as_accurate_as_numpys(shape, axis, dtype):
    rng = np.random.default_rng(0)
    total = xpapply.reduction(None, np.add)
    for x in (rng.random(shape), rng.normal(size=shape)):
        x = x.astype(dtype)
        with xpapply.options(engine="cpu"):
            ours = total(x, axis=axis)
        exact = x.astype(np.longdouble).sum(axis)
        off = [np.sqrt(np.mean((y - exact).astype(float) ** 2)) for y in (ours, x.sum(axis))]
        assert off[0] <= 2 * off[1] + np.finfo(dtype).eps * 1e-3


def test_a_result_may_be_where_an_array_is():
    rng = np.random.default_rng(0)
    for shape, axis in [
        ((40, 12), 1),
        ((40, 100), 1),
        ((100, 70), 0),
        ((3, 40_000), 1),
        ((7, 3), 0),
    ]:
        x = rng.normal(size=shape)
        want = special.softmax(x.copy(), axis=axis)
        with xpapply.options(engine="cpu"):
            special.formulas.calls["softmax"]((x,), axis, out=x)
        np.testing.assert_allclose(x, want, rtol=1e-13)


def test_results_do_not_depend_on_threads():
    x = np.random.default_rng(0).normal(size=(3, 200_000)).astype(np.float32)
    found = []
    for threads in (1, 2, 5):
        with xpapply.options(engine="cpu", threads=threads):
            found.append((special.softmax(x, axis=1), *special.mean_var(x, axis=0)))
    for other in found[1:]:
        for y, z in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(y, z)


def test_another_engine_runs_until_compiling_pays():
    call = xpapply.reduction(lambda x: x * 1.25, np.maximum)
    x = np.ones((10, 12))
    bound = call._call.planned((x,), 1)
    assert bound.engine == "numpy"
    assert "compiling" in bound.kernels[-1]
    bound((x,))
    with LIMITS.set(slices_compiling=0.0):
        assert call._call.planned((x,), 1).engine == "cpu"
    large = np.ones((1_000_000, 12))
    bound = call._call.planned((large,), 1)
    assert bound.engine == "cpu"
    assert bound.kernels[0].startswith("one kernel, ")
    np.testing.assert_array_equal(bound((large,)), 1.25)


def waiting(number, x):
    """A function of slices that is compiled for the twelfth call, or so."""
    with LIMITS.set(slices_compiling=12 * LIMITS.slices_call):
        return xpapply.reduction(lambda x: x * number, np.maximum)._call.planned((x,), 1)


def test_another_thread_compiles_before_it_pays(monkeypatch):
    engines, begun_after = [], []
    begun = compiler.begun

    def recorded(make):
        begun_after.append(len(engines))
        return begun(make)

    monkeypatch.setattr(compiler, "begun", recorded)
    x = np.random.default_rng(0).normal(size=(10, 12))
    bound = waiting(1.75, x)
    for _ in range(16):
        np.testing.assert_array_equal(bound((x,)), 1.75 * x.max(1))
        engines.append(bound.engine)
    first = engines.index("cpu")
    assert 4 < first < 13
    assert engines == ["numpy"] * first + ["cpu"] * (16 - first)
    assert begun_after in ([1], [2], [3])


def test_what_another_thread_cannot_compile_stays_where_it_is(monkeypatch):
    def fails(*given):
        raise compiler.CompilerError("not today")

    monkeypatch.setattr(slices, "Kernel", fails)
    x = np.random.default_rng(0).normal(size=(10, 12))
    bound = waiting(2.75, x)
    for _ in range(16):
        np.testing.assert_array_equal(bound((x,)), 2.75 * x.max(1))
    assert bound.engine == "numpy"
    assert "cpu: not today" in bound.reasons
    assert "not today" in slices.why_not(bound.graph, [x])


def test_what_is_left_to_others():
    graph, _ = written(lambda x: x + 1, [("complex128", True)])
    assert "complex128" in slices.why_not(graph, [])
    graph = case("softmax of float32").graph
    x = np.zeros((4, 3), ">f4")
    assert "byte order" in slices.why_not(graph, [x])
    with xpapply.options(engine="cpu"):
        call = special.formulas.calls["softmax"].planned((np.ones((3, 4, 5)),), (0, 2))
    assert call.engine == "numpy"
    assert "cpu: slices along several axes" in call.reasons[0]


def test_a_kernel_serves_arrays_of_all_sizes():
    x = np.ones((50, 12), np.float32)
    graph = case("softmax of float32").graph
    forms = set()
    for shape in [(1000, 12), (50, 12), (7_000, 12)]:
        layout = layout_of(shape, (1,), [np.ones(shape, x.dtype)], [np.ones(shape, x.dtype)])
        assert isinstance(layout, Layout)
        lowered = slices.LoweredSlices(graph, layout)
        forms.add(slice_forms.way(lowered._whole, lowered._slices, compiler.host()).form)
    assert len(forms) == 1


def test_a_constant_beside_results_of_elements():
    graph, _ = written(lambda x: (np.clip(x, 0.2, 0.8), False), [("float64", True)])
    x = np.random.default_rng(0).random((1000, 12))
    clipped, told = np.empty_like(x), np.ones((1000, 1), bool)
    assert runs(graph, (1,), [x], [clipped, told], x.shape)
    np.testing.assert_array_equal(clipped, np.clip(x, 0.2, 0.8))
    assert not told.any()
