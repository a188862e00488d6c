"""xarray's own tests of apply_ufunc, with our vectorize in the place of NumPy's."""

import inspect

import numpy as np
import pytest

import xpapply

xr = pytest.importorskip("xarray")
of_computation = pytest.importorskip("xarray.tests.test_computation")

pytestmark = pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")

OTHERS = {
    "its function takes arrays with the loop dims, also under NumPy's vectorize": (
        "test_apply_input_core_dimension test_keep_attrs_strategies_dataset_variables "
        "test_output_wrong_dim_size test_output_wrong_dims"
    ),
}
"""Tests that cannot run with ``vectorize=True``, by the reason."""
NAMES = [
    name
    for name in dir(of_computation)
    if name.startswith("test_")
    and "apply_ufunc(" in inspect.getsource(getattr(of_computation, name))
    and not any(name in names.split() for names in OTHERS.values())
]


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """Have xarray, and dask, take ours, also where a test does not ask for vectorize."""
    made, its_own = [], of_computation.apply_ufunc

    class vectorize(xpapply.vectorize):
        def __init__(self, f, *given, **how):
            made.append(f)
            super().__init__(f, *given, **how)

    def apply_ufunc(*given, **how):
        return its_own(*given, **{"vectorize": True, **how})

    monkeypatch.setattr(np, "vectorize", vectorize)
    monkeypatch.setattr(of_computation, "apply_ufunc", apply_ufunc)
    return made


globals().update({name: getattr(of_computation, name) for name in NAMES})


def test_xarray_has_these_tests():
    assert len(NAMES) >= 25
    assert {"test_vectorize_dask_dtype", "test_vectorize_exclude_dims", "test_apply_exclude"} <= {
        *NAMES
    }


def test_they_run_ours(made):
    of_computation.test_vectorize()
    assert made == [of_computation.pandas_median]
    pytest.importorskip("dask.array")
    of_computation.test_vectorize_dask()
    assert len(made) == 2


@pytest.mark.parametrize("name", ["test_vectorize", "test_apply_two_outputs", "test_apply_exclude"])
def test_they_can_fail(monkeypatch, name):
    """A wrong function is noticed."""

    class wrong(xpapply.vectorize):
        def __call__(self, *given, **how):
            return super().__call__(*(np.flip(x) + 1 for x in given), **how)

    monkeypatch.setattr(np, "vectorize", wrong)
    with pytest.raises(AssertionError):
        getattr(of_computation, name)()
