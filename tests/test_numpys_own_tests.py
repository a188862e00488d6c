"""NumPy's own tests of apply_along_axis and vectorize, run against ours."""

import numpy as np
import pytest
from numpy.lib.tests import test_function_base, test_shape_base

import xpapply

pytestmark = [
    pytest.mark.filterwarnings("ignore:the matrix subclass"),
    pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning"),  # NumPy's code has no rules
]


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    """Put our function where NumPy's tests find theirs."""
    monkeypatch.setattr(test_shape_base, "apply_along_axis", xpapply.apply_along_axis)
    monkeypatch.setattr(test_function_base, "vectorize", xpapply.vectorize)
    monkeypatch.setattr(np, "vectorize", xpapply.vectorize)  # some tests take it from there


class TestApplyAlongAxis(test_shape_base.TestApplyAlongAxis):
    """Collected from NumPy's wheel, so new tests of theirs are run too."""


class TestVectorize(test_function_base.TestVectorize):
    """Collected from NumPy's wheel."""


def test_numpy_has_these_tests():
    names = [n for n in dir(TestVectorize) if n.startswith("test_")]
    assert len(names) >= 40
    names = [n for n in dir(TestApplyAlongAxis) if n.startswith("test_")]
    assert len(names) >= 12
    assert {"test_simple", "test_preserve_subclass", "test_tuple_func1d"} <= set(names)


@pytest.mark.parametrize("name", ["test_simple", "test_3d", "test_preserve_subclass"])
def test_they_can_fail(monkeypatch, name):
    """A wrong function is noticed, so these tests do run ours."""
    monkeypatch.setattr(test_shape_base, "apply_along_axis", lambda f, axis, a: np.zeros(3))
    with pytest.raises((AssertionError, ValueError, IndexError)):
        getattr(TestApplyAlongAxis(), name)()


@pytest.mark.parametrize("name", ["test_simple", "test_signature_outer", "test_otypes"])
def test_those_of_vectorize_can_fail(monkeypatch, name):
    wrong = type("wrong", (), {"__init__": lambda *_, **__: None, "__call__": lambda *_: 7.5})
    monkeypatch.setattr(test_function_base, "vectorize", wrong)
    monkeypatch.setattr(np, "vectorize", wrong)
    with pytest.raises(AssertionError):
        getattr(TestVectorize(), name)()
