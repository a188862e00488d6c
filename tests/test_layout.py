import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply import testing
from xpapply.arrays.layout import MemoryOrder, boxes, columns, grid, merged, run_blocks
from xpapply.limits import LIMITS

SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=4)


def test_the_first_box_of_many_comes_at_once():
    first = (slice(0, 1), slice(0, 1), slice(None))  # lists of all of them would fill the memory
    assert next(boxes((2, 10**15, 1), 2, 1)) == first


@given(shape=SHAPES, data=st.data(), rows=st.integers(1, 400))
def test_boxes_tile_exactly(shape, data, rows):
    at = data.draw(st.integers(0, len(shape) - 1))
    hits = np.zeros(shape, int)
    for box in boxes(shape, at, rows):
        assert box[at] == slice(None)
        assert 1 <= hits[box].size // shape[at] <= rows
        hits[box] += 1
    assert (hits == 1).all()


@given(shape=SHAPES, data=st.data(), rows=st.integers(1, 400))
def test_boxes_are_not_small(shape, data, rows):
    """Not one slice at a time: two neighbours together are more than a box may be, or all."""
    at = data.draw(st.integers(0, len(shape) - 1))
    slices = math.prod(shape) // shape[at]
    count = len(list(boxes(shape, at, rows)))
    fastest = [n for a, n in enumerate(shape) if a != at][-1:]
    assert count == 1 if rows >= slices else count > 1
    if fastest and rows <= fastest[0]:
        assert count == slices // fastest[0] * math.ceil(fastest[0] / rows)


@given(shape=SHAPES, data=st.data())
def test_a_grid_tiles_exactly(shape, data):
    sizes = [data.draw(st.integers(1, n)) for n in shape]
    axes = data.draw(st.permutations(range(len(shape))))
    hits = np.zeros(shape, int)
    for box in grid(shape, sizes, axes):
        assert all(0 < b.stop - b.start <= n for b, n in zip(box, sizes, strict=True))
        hits[box] += 1
    assert (hits == 1).all()


@given(data=st.data())
def test_merged_dims_reach_the_same_elements(data):
    ndim = data.draw(st.integers(1, 4))
    arrays = [data.draw(testing.arrays(3, 0, ndim=ndim, dtypes=["int8"])) for _ in range(2)]
    shape = [min(x.shape[a] for x in arrays) for a in range(ndim)]
    steps = [tuple(x.strides[a] for x in arrays) for a in range(ndim)]
    dims = merged(shape, steps, range(ndim))
    want = [
        sum(s[k] * i for s, i in zip(steps, at, strict=True))
        for at in np.ndindex(*shape)
        for k in range(2)
    ]
    got = [
        sum(d.steps[k] * i for d, i in zip(dims, at, strict=True))
        for at in np.ndindex(*(d.size for d in dims))
        for k in range(2)
    ]
    assert got == want
    for a, b in itertools.pairwise(dims):
        assert a.steps != tuple(b.size * s for s in b.steps)


@given(data=st.data(), rows=st.integers(1, 20), writes=st.booleans())
def test_blocks_come_to_their_places(data, rows, writes):
    """In any memory, whether results are written where they are to be or come back."""
    ndim = data.draw(st.integers(1, 4))
    at = data.draw(st.integers(0, ndim - 1))
    x = data.draw(testing.arrays(3, at, ndim=ndim, dtypes=["float64"]))
    order = data.draw(st.permutations(range(ndim + 1)))
    shape = (*x.shape[:at], 2, 3, *x.shape[at + 1 :])
    memory = np.full([shape[a] for a in order], np.nan)
    out = memory.transpose(np.argsort(order))

    def run(block, place):
        found = np.stack([columns(block, at), -columns(block, at)])
        if not writes or place is None:
            return found
        assert place.shape == found.shape
        assert np.shares_memory(place, out)
        place[...] = found
        return place

    run_blocks(run, x, at, out, boxes(x.shape, at, rows))
    np.testing.assert_array_equal(out, np.stack([x, -x], axis=at))


@given(data=st.data())
def test_memory_order(data):
    ndim = data.draw(st.integers(1, 4))
    axis = data.draw(st.integers(0, ndim - 1))
    arr = data.draw(testing.arrays(3, axis, ndim=ndim, dtypes=["float64"]))
    result_shape = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    order = MemoryOrder.of(arr.strides, ndim, axis)
    x = arr.transpose(order.axes)
    assert x.shape[order.at] == 3
    steps = [abs(s) for s in x.strides]
    assert steps == sorted(steps, reverse=True)
    before, behind = order.batch(arr.shape)
    assert before == x.shape[: order.at]
    assert behind == x.shape[order.at + 1 :]
    # results in memory order, the result axes where the applied one was
    shape = (*before, *result_shape, *behind)
    results = np.arange(math.prod(shape)).reshape(shape)
    placed = results.transpose(order.result_axes(len(result_shape)))
    # the definition: result axes last, batch axes in the array's order, then np.moveaxis
    n = len(result_shape)
    last = np.moveaxis(results, range(order.at, order.at + n), range(-n, 0)) if n else results
    batch_axes = [a for a in order.axes if a != axis]
    last = last.transpose(*np.argsort(batch_axes), *range(ndim - 1, ndim - 1 + n))
    expected = np.moveaxis(last, range(ndim - 1, ndim - 1 + n), range(axis, axis + n))
    np.testing.assert_array_equal(placed, expected)
    assert placed.shape == arr.shape[:axis] + result_shape + arr.shape[axis + 1 :]


def test_no_strides_means_c_order():
    assert MemoryOrder.of(None, 3, 1) == MemoryOrder((0, 1, 2), 1)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_blocks_of_array_operations(axis, monkeypatch):
    """Results stand where the axis stood in each of the blocks, for all libraries."""
    monkeypatch.setattr(LIMITS, "array_api_block", 4096)
    x = np.random.default_rng(0).random((9, 10, 11))
    f = lambda v: np.stack([v.sum(), v.max()])  # noqa: E731
    with xpapply.options(engine="array_api"):
        got = xpapply.compile(f, (x.shape[axis],), "float64")(x, axis)
    np.testing.assert_allclose(got, np.apply_along_axis(f, axis, x), rtol=1e-14)
