import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply import arrays


def test_get_array_module(xp):
    arr = xp.array(np.zeros((2, 3), np.float32))
    module = xpapply.get_array_module(arr, 1.0, None, [2], np.float32(3))
    name = "torch" if xp.name == "cuda" else xp.name
    assert name in module.__name__
    assert tuple(module.ones((2,)).shape) == (2,)
    assert arrays.library(arr) == name
    assert arrays.dtype_name(arr) == "float32"


def test_numpy_where_there_is_no_array():
    assert xpapply.get_array_module() is np
    assert xpapply.get_array_module(1, None, [2.0], np.float64(3)) is np
    assert xpapply.get_array_module(np.ma.zeros(3), np.zeros(2)) is np


def test_libraries_do_not_mix(torch):
    with pytest.raises(TypeError, match=r"numpy .*\(2,\) float64.*torch .*Tensor"):
        xpapply.get_array_module(np.zeros(2), torch.zeros(2))


def test_subclasses(torch):
    assert arrays.library(torch.nn.Parameter(torch.zeros(2))) == "torch"
    assert arrays.library(np.ma.zeros(2)) == "numpy"
    assert arrays.library([1, 2]) is None
    assert arrays.library(torch.nn.Linear(1, 1)) is None


def test_device(xp):
    arr = xp.array(np.zeros(3, np.float32))
    found = arrays.device(arr)
    assert str(found) == ("cpu" if xp.name == "numpy" else str(arr.device))


def test_code_for_every_library(xp):
    library("array_api_compat")
    arr = xp.array(np.array([-100.0, 0.0, 100.0], np.float32))
    module = xpapply.get_array_module(arr)
    result = module.maximum(arr, module.zeros_like(arr)) + module.log1p(module.exp(-abs(arr)))
    np.testing.assert_allclose(xp.numpy(result), [0, np.log(2), 100], rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("axis", [-4, 3, 1.5, None])
def test_wrong_axis(axis):
    with pytest.raises((np.exceptions.AxisError, TypeError)):
        arrays.normalize_axis_index(axis, 3)
