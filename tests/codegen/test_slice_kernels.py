"""Kernels of slices: compiled by NVRTC, and run on the host, thread by thread."""

import itertools
import math
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nvrtc import ARCHITECTURES, compile_plain
from slice_kernel_cases import ONE_FUNCTION, cupy_slices, run, shapes_and_axes
from slice_ways import (
    CASES,
    EVERY,
    WAYS,
    Gpu,
    Host,
    Place,
    agree,
    case,
    contiguous_layout,
    defined,
    extent,
    forced,
    numbers_like,
    places,
    soft_threshold,
)

import xpapply
from xpapply import special
from xpapply.codegen import slice_kernels as codegen
from xpapply.codegen.cxx import TYPES
from xpapply.codegen.slice_kernels import Sharing
from xpapply.ir.rewrite import compact
from xpapply.ir.slices import accumulators
from xpapply.ir.slices.slice_graph import written
from xpapply.ir.slices.to_slice_graph import sliced

# --- NVRTC ------------------------------------------------------------------------------------

SHAPES = [
    ((1 << 22, 16), (1,)),
    ((100_000, 3), (1,)),
    ((5, 7, 11, 5), (0, 2)),
    ((1 << 16, 1024), (1,)),
    ((1024, 1 << 12), (1,)),
    ((300, 40_000), (1,)),
    ((2, 1 << 20), (1,)),
    ((1, 1 << 22), (1,)),
    ((1 << 10, 1 << 12), (0,)),
    ((100, 7), (0,)),
    ((20, 1 << 20), (0,)),
    ((1 << 20, 8), (0,)),
    ((8, 300, 77), (1,)),
    ((64, 64, 32, 16), (0,)),
    ((1 << 20, 1 << 12), (1,)),
    ((3, 50, 1 << 12, 9), (1, 3)),
    ((0, 5), (0,)),
]
"""Shapes and axes that are shared in all the ways that are chosen."""


def kernels_for(case, layout, processors=132):
    """The sharing that is chosen, or forced, and the kernels for it."""
    dims = cupy_slices.dims_of(layout, case.in_order)
    share, blocks = cupy_slices.sharing(case.graph, layout, dims, processors)
    return share, codegen.slice_kernels(case.graph, share), blocks


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("k", range(len(EVERY)), ids=[c.name for c in EVERY])
def test_functions_compile_however_they_are_shared(k, turn):
    """Every function in ways that have nothing to do with what is fast, for an architecture."""
    case, way = EVERY[k], WAYS[(k, 7 * k + 3)[turn] % len(WAYS)]
    length = 3 if way.lanes == 1 else 2 * way.lanes * way.vector - 3
    shape, axes = [((300, 7, length), (2,)), ((2, 50, length, 3), (0, 2))][(k + turn) % 2]
    with forced(way):
        _, text, _ = kernels_for(case, contiguous_layout(case.graph, case.kinds, shape, axes))
    assert compile_plain(text.source, ARCHITECTURES[(k + turn) % 4])


@pytest.mark.parametrize("dtype", TYPES)
def test_dtypes_compile(dtype):
    """Every dtype that kernels have: mapped, reduced, with tuples of numbers, moved in vectors."""
    calls = [special.formulas.calls["softmax"], special.formulas.argmax_and_max]
    if dtype != "bool":  # truths have no sign, and no differences
        calls += [extent._call, soft_threshold._call]
    for k, call in enumerate(calls):
        graph = written(call._write, ((dtype, True),) * (1 + (call is soft_threshold._call)))[0]
        assert codegen.why_not(graph) is None
        kinds = ((dtype, True),) * len(graph.inputs)
        layout = contiguous_layout(graph, kinds, (1000, 16), (1,))
        share, _ = cupy_slices.sharing(graph, layout, cupy_slices.dims_of(layout, True), 132)
        text = codegen.slice_kernels(graph, share)
        assert compile_plain(text.source, ARCHITECTURES[k % 4])


def test_all_ways_that_are_chosen_compile():
    """What `sharing` makes of arrays of many shapes, for all architectures in turn."""
    seen = set()
    some = [c for c in CASES if len(c.name) < 25]
    for k, ((shape, axes), processors) in enumerate(itertools.product(SHAPES, (132, 8))):
        for c in (some[k % len(some)], some[(5 * k + 1) % len(some)]):
            layout = contiguous_layout(c.graph, c.kinds, shape, axes)
            share, text, _ = kernels_for(c, layout, processors)
            kind = (share.lanes, share.across, share.in_registers, share.split, share.vector > 1)
            if text.source not in seen:
                assert compile_plain(text.source, ARCHITECTURES[len(seen) % 4]), (c, share)
                seen |= {text.source, kind}
    kinds = [s for s in seen if isinstance(s, tuple)]
    for lanes, across in ((1, False), (1, True), (32, False), (32, True), (1024, False)):
        assert any(s[:2] == (lanes, across) for s in kinds), (lanes, across)
    assert {s[2:4] for s in kinds} == {(True, False), (False, False), (False, True)}


def test_kernels_of_large_arrays_compile():
    """Offsets that 32 bits do not hold: in slices, and in what is one number of each."""
    for shape, axes in (((1 << 20, 1 << 12), (1,)), ((1 << 12, 1 << 20), (0,)), ((1 << 33,), (0,))):
        c = case("logsumexp of float32")
        share, text, _ = kernels_for(c, contiguous_layout(c.graph, c.kinds, shape, axes))
        assert share.wide
        assert compile_plain(text.source, "sm_90")


def test_states_that_fill_shared_memory_are_refused():
    """More numbers at a time than the threads of a block can share are no kernel's."""
    many = xpapply.reduction(
        lambda x: tuple(x * k for k in range(11)),
        lambda a, b: tuple(p + q for p, q in zip(a, b, strict=True)),
    )
    for dtype, refused in (("float64", True), ("float32", False)):
        graph = written(many._call._write, ((dtype, True),))[0]
        assert ("bytes" in (codegen.why_not(graph) or "")) is refused


# --- on the host, and on a GPU ----------------------------------------------------------------


def nothing_beside(y, memory):
    """All that is beside an array in memory is what it was before."""
    got = y.copy()
    y.view(f"V{y.itemsize}")[...] = np.full(y.itemsize, 0xA5, np.uint8).view(f"V{y.itemsize}")[0]
    assert (memory == 0xA5).all(), "something was written beside a result"
    return got


@st.composite
def problems(draw, case, shape, axes, last=None):
    """Places of the arrays of a graph, shapes of those that broadcast, and numbers for them."""
    inputs, ndim, graph = [], len(shape), case.graph
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    odd = draw(st.sampled_from([0, 0, 0.02, 0.3]), label="odd")
    for k, dtype in enumerate(case.dtypes):
        own = list(shape)
        for a in range(ndim) if k else ():
            if a != last and draw(st.sampled_from([False, False, True])):
                own[a] = 1
        place = draw(places(ndim, last), label=f"input {k}")
        x, memory = place.array(tuple(own), dtype)
        x[...] = numbers_like(rng, tuple(own), dtype, odd)
        inputs.append((x, memory))
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    outs = []
    for k, o in enumerate(graph.outs):
        vector = graph.is_vector(o)
        place = draw(places(ndim, last if vector else None), label=f"result {k}")
        outs.append(place.array(shape if vector else kept, graph.nodes[o].aval.dtype))
    return inputs, outs


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)], scope="module")
def device(request):
    return Host() if request.param == "host" else Gpu()


def check(device, case, shape, axes, inputs, outs, **how):
    """Run, and compare with the definition."""
    found = run(device, case.graph, shape, axes, [*inputs, *case.numbers], outs, **how)
    length = math.prod(shape[a] for a in axes)
    given = [x for x, _ in inputs]
    want = defined(case.graph, shape, axes, [*given, *case.numbers])
    agree(case.graph, [nothing_beside(*y) for y in outs], want, length, given)
    return found


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("number", range(len(WAYS)), ids=map(str, WAYS))
def test_however_slices_are_shared(device, number, turn):
    """One text of a kernel, on arrays of many shapes that lie in memory in many ways."""
    case, way, k = CASES[(number + turn * 7) % len(CASES)], WAYS[number], 2 * number + turn
    maps = not case.graph.accumulations()
    core, batch = [(1, 1), (1, 2), (2, 1), (1, 1), (3, 0)][k % 5] if not maps else (1, 2)
    beside = core == 1 and (way.vector > 1 or k % 2 == 0)
    vectors = [True] * len(case.dtypes) + [case.graph.is_vector(o) for o in case.graph.outs]
    dtypes = [*case.dtypes, *(case.graph.nodes[o].aval.dtype for o in case.graph.outs)]
    widest = max(np.dtype(d).itemsize for d, v in zip(dtypes, vectors, strict=True) if v)
    vector = min(way.vector, 16 // widest)
    each = 2 if way.in_registers else way.vectors
    most = way.lanes * vector * each
    length = max(1, most - k % 2) if way.exact else 0
    if way.exact:
        core, beside = 1, beside or way.vector > 1
    share = Sharing(
        way.lanes,
        way.slices,
        vector if beside else 1,
        each if beside else each * vector,
        way.across,
        way.in_registers,
        way.split,
        length,
        core,
        batch,
        tuple(int(v) if beside else -1 for v in vectors) if core == 1 else (),
        wide=k % 3 == 0,
    )

    def unmerged(layout, in_order):
        """The dims as they are."""
        steps = list(zip(*(o.strides for o in cupy_slices._strided(layout)), strict=True))
        dims = [(n, s) for n, s in zip(layout.shape, steps, strict=True)]
        axes = layout.axes
        return cupy_slices.Dims(
            tuple(dims[a] for a in axes),
            tuple(d for a, d in enumerate(dims) if a not in axes),
        )

    @settings(max_examples=4 if way.lanes > 32 else 10)
    @given(st.data())
    def each(data):
        ndim = core + batch
        axes = tuple(sorted(data.draw(st.permutations(range(ndim)), label="axes")[:core]))
        axes = (ndim - 1,) if maps else axes
        shape = [
            data.draw(st.sampled_from([1, 2, 3, 9 if way.slices > 9 else 4])) for _ in range(ndim)
        ]
        left = most if way.in_registers else 2 * most + 3
        for a in axes[:-1]:
            shape[a] = min(shape[a], left)
            left //= shape[a]
        shape[axes[-1]] = length or data.draw(st.just(left) | st.integers(1, left), label="length")
        shape = tuple(shape)
        last = axes[0] if beside else None
        inputs, outs = data.draw(problems(case, shape, axes, last))
        with (
            mock.patch.object(cupy_slices, "dims_of", unmerged),
            mock.patch.object(cupy_slices, "sharing", return_value=(share, way.blocks)),
        ):
            check(device, case, shape, axes, inputs, outs)

    each()


# the same examples each time: each is a kernel of its own, to be compiled
@settings(max_examples=30, derandomize=True)
@given(st.data())
def test_as_it_is_chosen(device, data):
    """Arrays of many shapes that lie in memory in many ways, shared as fits them."""
    c = data.draw(st.sampled_from(CASES), label="case")
    shape, axes = data.draw(shapes_and_axes(longest=3000, most=3), label="shape")
    axes = axes if c.graph.accumulations() else ()
    inputs, outs = data.draw(problems(c, shape, axes))
    processors = data.draw(st.sampled_from([1, 16, 132]))
    check(device, c, shape, axes, inputs, outs, processors=processors)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3, 0), (2, 0, 4)])
def test_slices_of_nothing(device, shape):
    """Kernels run on slices of no elements: there are results to be written."""
    c, axes = case("logsumexp of float32"), tuple(a for a, n in enumerate(shape) if n == 0)
    place = Place(tuple(range(len(shape))), (1,) * len(shape))
    x, y = place.array(shape, "f"), place.array(tuple(n or 1 for n in shape), "f")
    run(device, c.graph, shape, axes, [x], [y])
    assert (nothing_beside(*y) == -np.inf).all()


@pytest.mark.parametrize("way", [w for w in WAYS if w.split], ids=str)
def test_slices_that_several_blocks_share(device, way):
    """More blocks than there are tiles, as many, and fewer; states of three accumulators."""

    def write(x):
        top = x.builder.accumulate(accumulators.simple("max", "float64"), x)[0]
        total = x.builder.accumulate(accumulators.simple("sum", "float64"), x)[0]
        at_top = (x == top).astype("int64")
        count = x.builder.accumulate(accumulators.simple("sum", "int64"), at_top)[0]
        spread = x.builder.accumulate(accumulators.simple("sum", "float64"), abs(x - total / 100))
        return top, count, spread[0], x - top

    graph = written(write, (("float64", True),))[0]
    assert max(graph.levels()) == 2
    for length in (1, 7, 65, 1500):
        shape, axes = (3, length), (1,)
        place = Place((0, 1), (1, 1))
        inputs = [place.array(shape, "d")]
        inputs[0][0][...] = numbers_like(np.random.default_rng(length), shape, "d", 0)
        kept = [(3, 1), (3, 1), (3, 1), shape]
        outs = [
            place.array(s, graph.nodes[o].aval.dtype) for s, o in zip(kept, graph.outs, strict=True)
        ]
        with forced(way):
            run(device, graph, shape, axes, inputs, outs)
        want = defined(graph, shape, axes, [inputs[0][0]])
        agree(graph, [nothing_beside(*y) for y in outs], want, length, [inputs[0][0]])


def test_many_results_and_inputs(device):
    """As many arrays as an expression likes, of different dtypes, some of them results twice."""
    write = lambda a, b, c, d: (a + b, b, a + b, c < d, np.where(c < d, a, b), d * 2)  # noqa: E731
    graph = written(write, [(d, True) for d in ("int8", "float32", "int64", "int64")])[0]
    shape, rng = (5, 13), np.random.default_rng(3)
    place = Place((1, 0), (1, 1))
    inputs = [place.array(shape, d) for d in ("int8", "float32", "int64", "int64")]
    for x, _ in inputs:
        x[...] = numbers_like(rng, shape, x.dtype, 0.1)
    outs = [place.array(shape, graph.nodes[o].aval.dtype) for o in graph.outs]
    run(device, graph, shape, (), inputs, outs)
    want = defined(graph, shape, (), [x for x, _ in inputs])
    for y, w in zip(outs, want, strict=True):
        np.testing.assert_array_equal(nothing_beside(*y), w)


@pytest.mark.parametrize("name", ONE_FUNCTION)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_function_of_slices(name, at):
    """A lifted function along any axis; results as memory has the array."""
    f = ONE_FUNCTION[name]
    shape = [3, 4, 5]
    shape[at] = 11
    graph = compact(xpapply.lift(f, (11,), "float64"))
    found, host = sliced(graph), Host()
    x, memory = Place((0, 1, 2), (1, -1, 1)).array(tuple(shape), "d")
    x[...] = numbers_like(np.random.default_rng(at), x.shape, "d", 0)
    want = np.apply_along_axis(f, at, x)
    y = Place(tuple(range(want.ndim)), (1,) * want.ndim).array(want.shape, want.dtype)
    consts = [host.array(c.reshape(-1), c) for c in graph.consts]
    bound = SimpleNamespace(consts=graph.consts, const=consts.__getitem__)
    with host():
        one = cupy_slices.OneFunction(found)
        for _ in range(2):  # the second time by what is known of the first
            one(host.array(x, memory), at, 0, bound, host.array(*y))
    np.testing.assert_allclose(nothing_beside(*y), want, rtol=1e-12, atol=1e-12)
