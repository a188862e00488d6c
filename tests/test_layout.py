import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply import testing
from xpapply.backends import array_api
from xpapply.layout import MemoryOrder, boxes

SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=4)


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
    monkeypatch.setattr(array_api, "_BLOCK_BYTES", 4096)
    x = np.random.default_rng(0).random((9, 10, 11))
    f = lambda v: np.stack([v.sum(), v.max()])  # noqa: E731
    with xpapply.options(engine="array_api"):
        got = xpapply.compile(f, (x.shape[axis],), "float64")(x, axis)
    np.testing.assert_allclose(got, np.apply_along_axis(f, axis, x), rtol=1e-14)
