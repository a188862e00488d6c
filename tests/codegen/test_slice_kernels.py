"""Kernels of slices: compiled by NVRTC, and run on the host, thread by thread, and on a GPU."""

import itertools
import math
import re
import threading
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nvrtc import ARCHITECTURES, compile_plain
from slice_ways import (
    CASES,
    EVERY,
    WAYS,
    Gpu,
    Host,
    Place,
    Way,
    agree,
    case,
    contiguous_layout,
    defined,
    extent,
    forced,
    layout_of,
    numbers_like,
    places,
    soft_threshold,
)

import xpapply
from xpapply import special
from xpapply.codegen import slice_kernels as codegen
from xpapply.codegen.cxx import TYPES
from xpapply.codegen.slice_kernels import Sharing
from xpapply.ir import accumulators
from xpapply.ir.rewrite import compact
from xpapply.ir.slice_graph import written
from xpapply.ir.to_slice_graph import sliced
from xpapply.layout import Layout, Operand

cupy_slices = pytest.importorskip("xpapply.backends.cupy.slices")

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


@pytest.mark.parametrize("k", range(len(EVERY)), ids=[c.name for c in EVERY])
def test_functions_compile_however_they_are_shared(k):
    """Every function in two ways that have nothing to do with what is fast, for an architecture."""
    case = EVERY[k]
    for turn, way in enumerate((WAYS[k % len(WAYS)], WAYS[(7 * k + 3) % len(WAYS)])):
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
            kind = (share.lanes, share.across, share.held, share.split, share.vector > 1)
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


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)], scope="module")
def device(request):
    return Host() if request.param == "host" else Gpu()


def run(device, graph, shape, axes, inputs, outs, processors=16):
    """Run a graph on arrays in their memory: ``(array, memory)`` each. Numbers are no pairs."""
    layout = layout_of(
        shape,
        axes,
        [x[0] if isinstance(x, tuple) else x for x in inputs],
        [y for y, _ in outs],
    )
    with device(processors):
        targets = [device.array(*y) for y in outs]
        arrays = [device.array(*x) if isinstance(x, tuple) else x for x in inputs]
        found = cupy_slices.Run(graph, layout, targets[0])
        found(arrays, targets)
        for (_, memory), target in zip(outs, targets, strict=True):
            memory[:] = device.back(target)
    return found


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


def check(device, case, shape, axes, inputs, outs, **how):
    """Run, and compare with the definition."""
    found = run(device, case.graph, shape, axes, [*inputs, *case.numbers], outs, **how)
    length = math.prod(shape[a] for a in axes)
    given = [x for x, _ in inputs]
    want = defined(case.graph, shape, axes, [*given, *case.numbers])
    agree(case.graph, [nothing_beside(*y) for y in outs], want, length, given)
    return found


PAIRS = [(CASES[(k + turn * 7) % len(CASES)], way) for k, way in enumerate(WAYS) for turn in (0, 1)]


@pytest.mark.parametrize("k", range(len(PAIRS)), ids=[f"{c.name}-{w}" for c, w in PAIRS])
def test_however_slices_are_shared(device, k):
    """One text of a kernel, on arrays of many shapes that lie in memory in many ways."""
    case, way = PAIRS[k]
    maps = not case.graph.accumulations()
    core, batch = [(1, 1), (1, 2), (2, 1), (1, 1), (3, 0)][k % 5] if not maps else (1, 2)
    beside = core == 1 and (way.vector > 1 or k % 2 == 0)
    vectors = [True] * len(case.dtypes) + [case.graph.is_vector(o) for o in case.graph.outs]
    dtypes = [*case.dtypes, *(case.graph.nodes[o].aval.dtype for o in case.graph.outs)]
    widest = max(np.dtype(d).itemsize for d, v in zip(dtypes, vectors, strict=True) if v)
    vector = min(way.vector, 16 // widest)
    pieces = 2 if way.held else way.pieces
    most = way.lanes * vector * pieces
    length = max(1, most - k % 2) if way.exact else 0
    if way.exact:
        core, beside = 1, beside or way.vector > 1
    share = Sharing(
        way.lanes,
        way.slices,
        vector if beside else 1,
        pieces if beside else pieces * vector,
        way.across,
        way.held,
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
        left = most if way.held else 2 * most + 3
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


@st.composite
def shapes_and_axes(draw, sides=(1, 2, 3, 5), longest=1, most=4):
    """A shape, some of its axes, and perhaps one long axis."""
    shape = draw(st.lists(st.sampled_from(sides), min_size=1, max_size=most))
    axes = draw(st.permutations(range(len(shape))))[: draw(st.integers(1, len(shape)))]
    if draw(st.booleans()):
        shape[draw(st.sampled_from(range(len(shape))))] = draw(st.integers(1, longest))
    return tuple(shape), tuple(sorted(axes))


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
    """More blocks than there are pieces, as many, and fewer; states of three accumulators."""

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


ONE_FUNCTION = {
    "standardized": lambda v: (v - v.mean()) / v.std(),
    "weighted": lambda v: v * np.linspace(-1, 1, len(v)) + np.array([2.0]),
    "mean": lambda v: v.mean(),
    "with its dim": lambda v: v.sum(keepdims=True),
    "position": lambda v: v.argmax(),
}


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


# --- how threads share slices -----------------------------------------------------------------


@st.composite
def layouts(draw, sides=(1, 2, 3, 4), most=4):
    """Layouts of some inputs and one result each: steps of 0, negative ones, gaps."""
    shape, axes = draw(shapes_and_axes(sides, 6, most))

    def operand(dims, dtype):
        place = draw(places(len(dims)))
        x, _ = place.array(dims, dtype)
        steps = zip(x.strides, dims, strict=True)
        return Operand(dtype, tuple(0 if n == 1 else s // x.itemsize for s, n in steps))

    dtypes = st.sampled_from(["uint8", "float32", "float64"])
    inputs = [
        operand(tuple(1 if draw(st.integers(0, 5)) == 0 else n for n in shape), draw(dtypes))
        for _ in range(draw(st.integers(1, 3)))
    ]
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    outs = [operand(draw(st.sampled_from([shape, kept])), draw(dtypes))]
    return Layout(shape, axes, tuple(inputs), tuple(outs))


def offsets(dims):
    """Where the elements lie in every array, in the order of the dims."""
    found = []
    for index in itertools.product(*(range(n) for n, _ in dims)):
        arrays = len(dims[0][1]) if dims else 0
        at = [sum(i * s[k] for i, (_, s) in zip(index, dims, strict=True)) for k in range(arrays)]
        found.append(tuple(at))
    return found


def plain_dims(layout, axes):
    steps = list(zip(*(o.strides for o in cupy_slices._strided(layout)), strict=True))
    return [(layout.shape[a], steps[a]) for a in axes]


@settings(max_examples=200)
@given(layouts(), st.booleans())
def test_merged_dims_reach_every_element_once(layout, in_order):
    """The same slices, and in each the same elements of all arrays; in order where that counts."""
    dims = cupy_slices.dims_of(layout, in_order)
    core = plain_dims(layout, layout.axes)
    batch = plain_dims(layout, [a for a in range(len(layout.shape)) if a not in layout.axes])
    got, want = (offsets(d) if d else None for d in (dims.core, core))
    if got is not None:
        assert got == want if in_order else sorted(got) == sorted(want)
    assert got is not None or len(want) == 1
    got, want = (offsets(d) if d else None for d in (dims.batch, batch))
    assert got is None or sorted(got) == sorted(want)
    assert math.prod(n for n, _ in dims.batch) == layout.slices
    assert math.prod(n for n, _ in dims.core) == layout.length


@pytest.mark.parametrize("order", ["C", "F"])
def test_dims_of_contiguous_arrays_are_merged(order):
    x = np.ndarray((2, 3, 4, 5), order=order, dtype="f", buffer=bytearray(480))
    steps = tuple(s // 4 for s in x.strides)
    first = (0, 1) if order == "F" else (2, 3)
    layout = Layout(x.shape, first, (Operand("float32", steps),) * 2, ())
    dims = cupy_slices.dims_of(layout, False)
    length = 6 if order == "F" else 20
    assert dims.core == ((length, (1, 1)),)
    assert dims.batch == ((120 // length, (length, length)),)


def large_layouts():
    """Layouts of arrays of up to 2 ** 36 elements."""

    @st.composite
    def draw(draw):
        c = draw(st.sampled_from(EVERY))
        exponents = draw(st.lists(st.integers(0, 34), min_size=1, max_size=4))
        while sum(exponents) > 36:
            exponents[exponents.index(max(exponents))] //= 2
        shape = tuple(max(1, (1 << e) + draw(st.integers(-3, 3))) for e in exponents)
        count = draw(st.integers(1, len(shape)))
        axes = tuple(sorted(draw(st.permutations(range(len(shape))))[:count]))
        axes = axes if c.graph.accumulations() else ()
        order = draw(st.permutations(range(len(shape))))
        moved = tuple(shape[a] for a in order)
        at = tuple(sorted(order.index(a) for a in axes))
        layout = contiguous_layout(c.graph, c.kinds, moved, at)

        def back(o):
            return (
                o
                if o.strides is None
                else Operand(o.dtype, tuple(o.strides[order.index(a)] for a in range(len(shape))))
            )

        inputs, outs = (tuple(map(back, os)) for os in (layout.inputs, layout.outs))
        return c, Layout(shape, axes, inputs, outs)

    return draw()


_POWERS = case("powers of float64")
_BESIDE = Layout((256, 32), (0,), *((Operand("float64", s),) for s in ((32, 1), (0, 1))))
_NEARLY = contiguous_layout(CASES[1].graph, CASES[1].kinds, (2143197555,), (0,))


@settings(max_examples=300)
@given(large_layouts(), st.sampled_from([1, 2, 16, 132, 200]), st.booleans())
@example((_POWERS, _BESIDE), 1, True).via("states that do not fit in shared memory")
@example((CASES[1], _NEARLY), 83, True).via("blocks of which the last would end beyond 32 bits")
def test_launches_are_within_the_limits_of_cuda(problem, processors, aligned):
    """Threads of a block, shared memory, blocks; nothing that 32 bits do not hold."""
    c, layout = problem
    like = type("Like", (), {"device": type("Device", (), {"id": 0})()})()
    with (
        Host()(processors),
        mock.patch.object(cupy_slices.module, "function", lambda text, *_: text),
    ):
        run = cupy_slices.Run(c.graph, layout, like)
        functions, grid, (threads,), numbers, scratch = run._launches(aligned)
        share, _, dims = run._shared(aligned)
    count, length = numbers[:2]
    assert count * length == math.prod(layout.shape)
    assert threads == share.threads <= 1024
    assert share.lanes & (share.lanes - 1) == 0
    assert share.lanes == 1 or threads % 32 == 0
    assert not share.across or share.lanes <= 32
    assert share.steps or len(dims.core) != 1
    assert grid[0] < 1 << 31
    assert grid[0] * share.slices >= count
    assert not (share.held and share.split)
    assert share.length in (0, length)
    if share.held:
        assert share.lanes * share.elements >= length
    if share.split:
        _, per_block, blocks = scratch
        assert blocks == grid[1] < 1 << 16
        assert (blocks - 1) * per_block < length <= blocks * per_block
        assert per_block % (share.lanes * share.elements) == 0
    for kept in re.findall(r"xp_shared\[(\d+)\]", functions[0]):
        assert int(kept) <= 48 << 10
    reach = [
        sum(abs(s[k]) * (n - 1) for n, s in (*dims.core, *dims.batch))
        for k in range(len(cupy_slices._strided(layout)))
    ]
    # where the last block would end if it were full, the last step of a loop, the last threads
    ends = blocks * per_block if share.split else 0, length + share.lanes * share.elements
    assert share.wide or max(*reach, *ends, grid[0] * share.slices) < 1 << 31


@settings(max_examples=300)
@given(layouts(sides=(1, 2, 3, 4, 8, 16), most=3))
def test_vectors_only_where_all_of_them_are_aligned(layout):
    """Every vector of every array starts at a multiple of its size, if the array does."""
    dims = cupy_slices.dims_of(layout, False)
    steps = tuple(s if s in (0, 1) else -1 for s in dims.core[-1][1]) if dims.core else ()
    operands = cupy_slices._strided(layout)
    vector = cupy_slices._vector(operands, dims, steps)
    assert vector == 1 or len(dims.core) == 1
    assert vector == 1 or vector <= dims.core[0][0]
    for k, o in enumerate(operands):
        if vector > 1 and steps[k] == 1:
            assert vector * np.dtype(o.dtype).itemsize <= 16
            assert all(s[k] % vector == 0 for _, s in dims.batch)


@pytest.mark.parametrize(
    ("dtype", "width", "vector"), [("f4", 8, 4), ("f4", 6, 2), ("f4", 7, 1), ("u1", 64, 8)]
)
def test_vectors_where_rows_allow_them(dtype, width, vector):
    dtype = np.dtype(dtype)
    layout = Layout(
        (100, width), (1,), (Operand(dtype.name, (width, 1)),), (Operand("float32", (1, 0)),)
    )
    dims = cupy_slices.dims_of(layout, False)
    assert cupy_slices._vector(cupy_slices._strided(layout), dims, (1, 0)) == vector


# --- on a GPU ---------------------------------------------------------------------------------

CALLS = {
    "logsumexp": (special.formulas.calls["logsumexp"], lambda x: special.logsumexp(x, axis=1)),
    "softmax": (special.formulas.calls["softmax"], lambda x: special.softmax(x, axis=1)),
    "log_softmax": (
        special.formulas.calls["log_softmax"],
        lambda x: special.log_softmax(x, axis=1),
    ),
    "mean_var": (special.formulas.calls["mean_var"], lambda x: special.mean_var(x, axis=1)),
    "standardize": (
        special.formulas.calls["standardize"],
        lambda x: special.standardize(x, axis=1, correction=1, eps=1e-3),
    ),
    "norm": (
        special.formulas.norm_call(special.formulas.norm, "2", 1),
        lambda x: special.norm(x, axis=1),
    ),
    "normalize": (
        special.formulas.norm_call(special.formulas.normalize, "1", 1),
        lambda x: special.normalize(x, 1, axis=1),
    ),
    "argmax_and_max": (
        special.formulas.argmax_and_max,
        lambda x: special.argmax_and_max(x, axis=1),
    ),
    "extent": (extent._call, lambda x: extent(x, axis=1)),
}
"""Calls along axis 1, and what remembers how they run."""
ON_GPU = [
    *(Way(lanes, 128 // lanes, held=True, vector=4) for lanes in (1, 4, 32)),
    *(Way(lanes, max(1, 128 // lanes), pieces=3, vector=2) for lanes in (1, 2, 16, 32, 64, 1024)),
    *(Way(lanes, 1, held=True) for lanes in (128, 256, 512)),
    *(Way(lanes, 16, across=True, held=True) for lanes in (8, 32)),
    *(Way(lanes, 128 // lanes, across=True, pieces=4) for lanes in (1, 4, 32)),
    *(Way(lanes, 2, split=True, blocks=b, pieces=2) for lanes in (32, 128) for b in (2, 7)),
    *(Way(8, 16, split=True, blocks=b, across=True) for b in (2, 7)),
]


def results(y):
    """One or several results as NumPy arrays."""
    return [x.get() if hasattr(x, "get") else x.cpu().numpy() for x in _all(y)]


def _all(y):
    return y if isinstance(y, tuple) else (y,)


def exactly(f, x):
    """What the definition gives, in float64 where that is what numbers are rounded from."""
    with xpapply.options(engine="array_api"), np.errstate(all="ignore"):
        return [np.asarray(y) for y in _all(f(x.astype("d") if x.dtype.kind == "f" else x))]


def near(got, want, eps):
    for y, w in zip(got, want, strict=True):
        scale = np.abs(w[np.isfinite(w)].astype("d")).max(initial=1)
        np.testing.assert_allclose(
            y.astype("d"), w.astype("d"), rtol=64 * eps, atol=64 * eps * scale
        )


def poisoned(cupy):
    """Memory that holds NaN is what the pool hands out next."""
    full = [cupy.full(n, np.nan, "d") for n in (64, 1 << 10, 1 << 13, 1 << 17) for _ in range(3)]
    del full


def slices_like(dtype, shape, seed=0):
    """Numbers; slices with NaN, with infinities, of equal numbers."""
    x = np.random.default_rng(seed).standard_normal(shape) * 5
    if np.dtype(dtype).kind != "f":
        return np.round(x).astype(dtype)
    x = x.astype(dtype)
    x[0, 3], x[1, 5], x[2, 7:9], x[3], x[4] = np.nan, np.inf, np.nan, -np.inf, 1
    return x


@pytest.mark.gpu
@pytest.mark.parametrize("way", ON_GPU, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_special_functions_on_a_gpu(cupy, name, way):
    """Every way to share slices gives what float64 gives, into memory that held NaN."""
    call, f = CALLS[name]
    x = slices_like("float32", (37, 8 * way.lanes + 5 if way.held else 1203))
    for order in ("C", "F") if name == "softmax" else ("F" if way.across else "C"):
        array = cupy.asarray(x, order=order)
        poisoned(cupy)
        call._known.clear()
        try:
            with forced(way):
                near(results(f(array)), exactly(f, x), 1.2e-7)
        finally:
            call._known.clear()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_dtypes_on_a_gpu(cupy, name, dtype):
    f = CALLS[name][1]
    x = slices_like(dtype, (37, 203), seed=1)
    if name == "extent" and dtype == "float16":
        x = np.round(x)  # differences that float16 has
    want = exactly(f, x)
    near(results(f(cupy.asarray(x))), want, 1e-3 if dtype == "float16" else 1.2e-7)


@pytest.mark.gpu
@pytest.mark.parametrize("way", ON_GPU[::3], ids=str)
@pytest.mark.parametrize("name", ["softmax", "mean_var", "argmax_and_max"])
def test_special_functions_of_tensors(cupy, torch, name, way):
    call, f = CALLS[name]
    x = slices_like("float32", (37, 8 * way.lanes + 5 if way.held else 1203))
    tensor = torch.from_numpy(x).cuda()
    call._known.clear()
    try:
        with forced(way):
            y = f(tensor)
            assert all(t.is_cuda for t in _all(y))
            near(results(y), exactly(f, x), 1.2e-7)
    finally:
        call._known.clear()


@pytest.mark.gpu
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4])
def test_arrays_that_start_anywhere(cupy, offset):
    """Vectors are moved where addresses allow that; what is known of a layout fits all of them."""
    x = slices_like("float32", (33, 256))
    memory = cupy.zeros(x.size + 8, "f")
    array = memory[offset : offset + x.size].reshape(x.shape)
    array[...] = cupy.asarray(x)
    out = cupy.full(x.size + 8, 7, "f")
    target = out[3 - offset % 4 :][: x.size].reshape(x.shape)
    for name in ("softmax", "logsumexp", "normalize"):
        f = CALLS[name][1]
        near(results(f(array)), exactly(f, x), 1.2e-7)
    soft = xpapply.elementwise(lambda v: v * 2 + 1)
    soft(array, out=target)
    np.testing.assert_array_equal(target.get(), x * 2 + 1)
    assert (out.get() == 7).sum() >= 8


@pytest.mark.gpu
def test_streams_and_threads_on_a_gpu(cupy):
    """Threads with a stream each share kernels and what is known, and nothing else."""
    x = slices_like("float32", (64, 5000))
    long = np.random.default_rng(2).standard_normal((2, 1 << 20)).astype("f")
    failures = []

    def work(seed):
        try:
            mine, mine_long = x + np.float32(seed), long * np.float32(seed + 1)
            wants = [exactly(f, mine) for _, f in CALLS.values()]
            want_long = exactly(CALLS["logsumexp"][1], mine_long)
            with cupy.cuda.Stream(non_blocking=True) as stream:
                array, many = cupy.asarray(mine), cupy.asarray(mine_long)
                for _ in range(5):
                    got = [f(array) for _, f in CALLS.values()]
                    got_long = CALLS["logsumexp"][1](many)
                stream.synchronize()
                for y, want in zip(got, wants, strict=True):
                    near(results(y), want, 1e-6)
                near(results(got_long), want_long, 1e-6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


@pytest.mark.gpu
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", [n for n in ONE_FUNCTION if n != "weighted"])  # NumPy's weights
def test_python_functions_in_one_kernel(cupy, name, axis):
    """`apply_along_axis` on CuPy runs a lifted function of whole slices as the loop would."""
    f = ONE_FUNCTION[name]
    x = np.random.default_rng(3).standard_normal((40, 50, 60))
    array = cupy.asarray(x)
    plan = xpapply.explain(f, axis, array)
    assert plan.engine == "cupy"
    if name == "standardized":  # a sum alone has a kernel of its own
        assert any("one generated kernel" in k for k in plan.kernels)
    poisoned(cupy)
    got = xpapply.apply_along_axis(f, axis, array)
    np.testing.assert_allclose(got.get(), np.apply_along_axis(f, axis, x), rtol=1e-10, atol=1e-10)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, (1 << 31) + 5), (3, (1 << 30) + 1)])
def test_more_than_2_to_the_31_elements(cupy, shape):
    """Places that 32 bits do not hold."""
    x = cupy.zeros(shape, "u1")
    x[-1, -2], x[0, 1] = 9, 7
    where, top = special.argmax_and_max(x, axis=1)
    best = np.zeros(shape[0], int)
    best[0], best[-1] = 1, shape[1] - 2
    np.testing.assert_array_equal(where.get(), best)
    assert top.get().tolist() == [9] if shape[0] == 1 else [7, 0, 9]
    norm = special.norm(x, 1, axis=1).get()
    assert norm.tolist() == ([16.0] if shape[0] == 1 else [7.0, 0.0, 9.0])
