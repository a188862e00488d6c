"""What the tests of kernels of slices have in common."""

import numpy as np
import pytest
from hypothesis import strategies as st
from slice_ways import (
    layout_of,
)

cupy_slices = pytest.importorskip("xpapply.backends.cupy.slices")


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


@st.composite
def shapes_and_axes(draw, sides=(1, 2, 3, 5), longest=1, most=4):
    """A shape, some of its axes, and perhaps one long axis."""
    shape = draw(st.lists(st.sampled_from(sides), min_size=1, max_size=most))
    axes = draw(st.permutations(range(len(shape))))[: draw(st.integers(1, len(shape)))]
    if draw(st.booleans()):
        shape[draw(st.sampled_from(range(len(shape))))] = draw(st.integers(1, longest))
    return tuple(shape), tuple(sorted(axes))


ONE_FUNCTION = {
    "standardized": lambda v: (v - v.mean()) / v.std(),
    "weighted": lambda v: v * np.linspace(-1, 1, len(v)) + np.array([2.0]),
    "mean": lambda v: v.mean(),
    "with its dim": lambda v: v.sum(keepdims=True),
    "position": lambda v: v.argmax(),
}
