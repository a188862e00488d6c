"""What saved graphs may ask for: values of some size, and numbers at places that are there."""

import numpy as np
import pytest

import xpapply
from xpapply.errors import UnsupportedError
from xpapply.ir import saved
from xpapply.ir.builder import Builder
from xpapply.ir.graph import ShapeDtype


def places_of(name, b, x):
    """Places along an axis of 8 that are all there."""
    if name == "constant":
        return b.const(np.array([7, 0, 3]))
    if name == "argsort":
        return b.op("argsort", x, axis=0)
    if name == "argmax":
        return b.op("reshape", b.op("argmax", x, axis=(0,)), shape=(1,))
    if name == "clipped":
        found = b.node("cast", x, dtype="int64")
        return b.op("minimum", b.op("maximum", found, 0), 7)
    if name == "counted":
        ones = b.node("cast", b.op("index", x > 0.5, key=((0, 7, 1),)), dtype="int64")
        return b.op("sum", ones, axis=(0,), keepdims=True)
    table = b.const(np.arange(16)[::-1] // 2)
    return b.op("take_along_axis", table, b.op("argsort", x, axis=0) * 2 + 1, axis=0)


@pytest.mark.parametrize("name", ["constant", "argsort", "argmax", "clipped", "counted", "table"])
def test_places_that_are_there(name, tmp_path):
    b = Builder()
    x = b.input(ShapeDtype((8,), "float64"))
    places = places_of(name, b, x)
    graph = b.graph(b.op("take_along_axis", x, places, axis=0))
    saved.write(tmp_path / "f.xpapply", graph, {"name": "f"})
    model = xpapply.load_model(tmp_path / "f.xpapply")
    arr = np.random.default_rng(0).random((50, 8)) * 12 - 2
    found = xpapply.apply_along_axis(model, 1, arr)
    np.testing.assert_array_equal(found, np.apply_along_axis(model, 1, arr))


def test_places_that_may_not_be_there_are_not_saved(tmp_path):
    b = Builder()
    x = b.input(ShapeDtype((8,), "float64"))
    graph = b.graph(b.op("take_along_axis", x, b.node("cast", x, dtype="int8"), axis=0))
    with pytest.raises(UnsupportedError, match=r"not saved: .* is -128 \.\.\. 127.* to 0 \.\.\. 7"):
        saved.write(tmp_path / "f.xpapply", graph, {})
    assert not list(tmp_path.iterdir())


def test_large_values_of_large_slices_are_saved(tmp_path):
    """The caller brings the slices: what is made of them may be as large as in any network."""
    b = Builder()
    x = b.input(ShapeDtype((1, 1 << 20), "float32"))
    wide = b.op("broadcast_to", x, shape=(512, 1 << 20))
    windows = b.op("windows", wide, axis=1, size=9, step=1, dilation=1)
    saved.write(tmp_path / "f.xpapply", b.graph(b.op("sum", windows, axis=(2,))), {"name": "f"})
    saved.read(tmp_path / "f.xpapply")


def test_values_far_larger_than_slices_are_not_saved(tmp_path):
    b = Builder()
    x = b.input(ShapeDtype((8,), "float32"))
    graph = b.graph(b.op("broadcast_to", x, shape=(1 << 30, 8)))
    with pytest.raises(UnsupportedError, match=r"not saved: .*\(1073741824, 8\): more than 134,"):
        saved.write(tmp_path / "f.xpapply", graph, {})


def test_long_sorts_of_a_file_are_planned_soon(tmp_path):
    b = Builder()
    x = b.input(ShapeDtype((8,), "float32"))
    wide = b.op("reshape", b.op("broadcast_to", x, shape=(1 << 20, 8)), shape=(1 << 23,))
    graph = b.graph(b.op("max", b.op("sort", wide, axis=0), axis=(0,)))
    saved.write(tmp_path / "f.xpapply", graph, {"name": "f"})
    model = xpapply.load_model(tmp_path / "f.xpapply")
    xpapply.explain(model, 1, np.zeros((20, 8), "float32"))
