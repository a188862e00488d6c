"""What each way takes: ``explain(..., compare=True)``."""

import numpy as np
import pytest

import xpapply

X = np.random.default_rng(0).normal(size=(40, 300, 16)).astype(np.float32)
NET = xpapply.MLP([np.ones((8, 16), "f4"), np.ones((2, 8), "f4")])


def test_a_plan_is_short_in_a_shell():
    text = repr(xpapply.explain(NET, -1, X))
    assert text.startswith("<Plan: ")
    assert "engine " in text
    assert len(text) < 160


def spread(v):
    return v.max() - v.min()


@pytest.mark.parametrize(("f", "axis"), [(NET, -1), (NET, 2), (spread, 0), (np.median, (0, 2))])
def test_the_ways_that_can_run_and_the_loop(f, axis):
    plan = xpapply.explain(f, axis, X, compare=True)
    times = {t.engine: t.seconds for t in plan.compared}
    assert {"numpy", "loop"} <= set(times)
    assert list(times.values()) == sorted(times.values())
    assert all(t > 0 for t in times.values())
    assert plan.to_dict()["compared"] == times
    (line,) = (line for line in str(plan).split("\n") if line.startswith("took"))
    assert all(name in line for name in times)
    usual = str(xpapply.explain(f, axis, X)).split("\n")
    assert [k for k in str(plan).split("\n") if not k.startswith("took")] == usual


def test_a_function_with_such_a_parameter_keeps_it():
    def f(v, compare=False):
        assert compare is True
        return v.sum()

    assert not xpapply.explain(f, -1, X, compare=True).compared


def test_lists_and_labels():
    xr = pytest.importorskip("xarray")
    assert xpapply.explain(NET, -1, [[1.0] * 16] * 3, compare=True).compared
    labelled = xr.DataArray(X, dims=("y", "x", "band"))
    assert xpapply.explain(NET, "band", labelled, compare=True).compared


def test_only_arrays_in_memory(tmp_path):
    da = pytest.importorskip("dask.array")
    with pytest.raises(xpapply.InputError, match="give a part of this one"):
        xpapply.explain(NET, -1, da.from_array(X), compare=True)


def test_what_f_raises_passes_through():
    def f(v):
        raise ArithmeticError("much")

    with pytest.raises(ArithmeticError, match="much"):
        xpapply.explain(f, -1, X, compare=True)
