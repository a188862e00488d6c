"""How threads share slices: merged dims, offsets, limits of launches, vectors."""

import itertools
import math
import re
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from slice_kernel_cases import cupy_slices, shapes_and_axes
from slice_ways import (
    CASES,
    EVERY,
    Host,
    case,
    contiguous_layout,
    places,
)

from xpapply.arrays.layout import Layout, Operand


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
        mock.patch.object(cupy_slices.compiler, "function", lambda text, *_: text),
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
    assert not (share.in_registers and share.split)
    assert share.length in (0, length)
    if share.in_registers:
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
