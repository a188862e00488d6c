"""Subclasses of NumPy's arrays: the result is of the class that NumPy's loop gives it."""

import numpy as np
import pytest

import xpapply

FUNCTIONS = {
    "itself": lambda v: v,
    "sorted": lambda v: np.sort(v),
    "part": lambda v: v[:3],
    "element": lambda v: v[0],
    "sum": lambda v: v + 1,
    "mean": lambda v: v.mean(),
    "median": np.median,
    "list": lambda v: [v[0], v[1]],
    "written": lambda v: float(f"{v[0]:.2f}") * v,  # runs in the loop
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("axis", [0, -1])
def test_a_memory_mapped_array(name, axis, tmp_path):
    f = FUNCTIONS[name]
    arr = np.memmap(tmp_path / "x", "f8", "w+", shape=(40, 50))
    arr[:] = np.random.default_rng(0).normal(size=arr.shape)
    wanted = np.apply_along_axis(f, axis, arr)
    with xpapply.options(fallback="silent"):
        for _ in range(3):
            found = xpapply.apply_along_axis(f, axis, arr)
            assert type(found) is type(wanted)
            np.testing.assert_array_equal(found, wanted)
    with xpapply.options(engine="numpy" if name != "written" else "loop"):
        assert type(xpapply.apply_along_axis(f, axis, arr)) is type(wanted)


def test_a_function_that_the_loop_calls_is_called_once_per_slice(tmp_path):
    arr = np.memmap(tmp_path / "x", "f8", "w+", shape=(400, 5))
    seen = []

    def f(v):
        seen.append(1)
        return v

    with xpapply.options(fallback="silent"):
        found = xpapply.apply_along_axis(f, -1, arr)
    assert type(found) is np.memmap
    assert len(seen) == 400
