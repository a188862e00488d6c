"""NumPy's own tests of apply_along_axis, run against ours."""

import numpy as np
import pytest
from numpy.lib.tests import test_shape_base

import xpapply

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass")


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    """Put our function where NumPy's tests find theirs."""
    monkeypatch.setattr(test_shape_base, "apply_along_axis", xpapply.apply_along_axis)


class TestApplyAlongAxis(test_shape_base.TestApplyAlongAxis):
    """Collected from NumPy's wheel, so new tests of theirs are run too."""


def test_numpy_has_these_tests():
    names = [n for n in dir(TestApplyAlongAxis) if n.startswith("test_")]
    assert len(names) >= 12
    assert {"test_simple", "test_preserve_subclass", "test_tuple_func1d"} <= set(names)


@pytest.mark.parametrize("name", ["test_simple", "test_3d", "test_preserve_subclass"])
def test_they_can_fail(monkeypatch, name):
    """A wrong function is noticed, so these tests do run ours."""
    monkeypatch.setattr(test_shape_base, "apply_along_axis", lambda f, axis, a: np.zeros(3))
    with pytest.raises((AssertionError, ValueError, IndexError)):
        getattr(TestApplyAlongAxis(), name)()
