"""elementwise and reduction in use: made anew, in threads, pickled, differentiated."""

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from custom_cases import X, online_logsumexp, squared_diff
from slice_cases import close, run

import xpapply
from xpapply import elementwise, reduction

# --- use --------------------------------------------------------------------------------------


def test_a_function_made_anew_in_a_loop(any_lib):
    for k in range(5):
        assert run(any_lib, elementwise(lambda x, k=k: x * 0 + k), X).tolist() == [[k] * 3] * 2


def test_a_closure_is_read_when_it_is_first_called():
    k = 1
    f = elementwise(lambda x: x + k)
    np.testing.assert_array_equal(f(X), X + 1)


def test_a_function_keeps_nothing_of_its_arrays():
    class Mine(np.ndarray):
        pass

    f, x = elementwise(np.exp), np.ones(3).view(Mine)
    there = weakref.ref(x)
    f(x)
    del x
    gc.collect()
    assert there() is None


def test_several_threads(any_lib):
    f = elementwise(lambda x, k: x * k + 1)
    norms = reduction(lambda x, k: x * k, lambda a, b: a + b, lambda s: s + 1, 0)

    def work(k):
        x = np.full((k % 3 + 1, 4), float(k))
        return run(any_lib, f, x, float(k)).tolist() == (x * k + 1).tolist() and run(
            any_lib, norms, x, float(k), axis=1
        ).tolist() == [4.0 * k * k + 1] * len(x)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(60)))


@elementwise
def decorated(x, limit):
    """Shrink."""
    return np.sign(x) * np.maximum(abs(x) - limit, 0)


def sum_of(a, b):
    return a + b


def test_a_decorated_function_keeps_its_name():
    assert decorated.__name__ == "decorated"
    assert decorated.__doc__ == "Shrink."
    assert repr(decorated) == "<xpapply.elementwise decorated>"


@pytest.mark.parametrize(
    "f", [decorated, elementwise(np.exp), elementwise(sum_of)], ids=["decorated", "ufunc", "named"]
)
def test_elementwise_functions_travel(f):
    given = (X,) if f.fn is np.exp else (X, 1)
    expected = f(*given)
    for again in (pickle.loads(pickle.dumps(f)), copy.copy(f), copy.deepcopy(f)):
        np.testing.assert_array_equal(again(*given), expected)


def test_reductions_travel():
    f = reduction(None, sum_of, np.sqrt, 0)
    x = abs(X)
    expected = f(x, axis=1)
    for again in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
        np.testing.assert_array_equal(again(x, axis=1), expected)


def test_an_engine_can_be_forced():
    with xpapply.options(engine="array_api"):
        close(squared_diff(X, 1), (X - 1) ** 2, 0)
    with xpapply.options(engine="cupy"), pytest.raises(xpapply.UnsupportedError, match="cupy"):
        squared_diff(X, 1)


def test_python_callables_of_any_kind():
    class Scaled:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k

        def method(self, x):
            return x + self.k

    np.testing.assert_array_equal(elementwise(Scaled(3))(X), X * 3)
    np.testing.assert_array_equal(elementwise(Scaled(3).method)(X), X + 3)


# --- derivatives ------------------------------------------------------------------------------

DIFFERENTIABLE = {
    "squared_diff": squared_diff,
    "soft threshold": decorated,
    "where": elementwise(lambda x, y: np.where(x > y, np.exp(x), np.tanh(y))),
    "power": elementwise(lambda x, y: (abs(x) + 1) ** 1.5 / (y * y + 1)),
    "hypot": elementwise(np.hypot),
    "clip": elementwise(lambda x, y: np.clip(x, -0.5, 0.5) * y),
    "several": elementwise(lambda x, y: (x * y, np.sin(x) - y)),
    "dot": lambda x, y: reduction(lambda x, y: x * y, lambda a, b: a + b)(x, y, axis=1),
    "logsumexp": lambda x, y: reduction(
        lambda x, y: (x * y, 1.0), online_logsumexp, lambda s: s[0] + np.log(s[1])
    )(x, y, axis=0),
    "prod": lambda x, y: reduction(None, lambda a, b: a * b)(x, axis=None) * y.sum(),
    "max": lambda x, y: reduction(lambda x, y: x * y, np.maximum)(x, y, axis=1),
}


@pytest.mark.parametrize("f", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_derivatives_as_differences(torch, f):
    torch.manual_seed(0)
    x, y = (torch.randn(2, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(f, (x, y))


def test_derivatives_as_torchs(torch):
    torch.manual_seed(0)
    x, y = (torch.randn(2, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    ours, torchs = squared_diff(x, y).sum(), ((x - y) ** 2).sum()
    for a, b in zip(*(torch.autograd.grad(z, (x, y)) for z in (ours, torchs)), strict=True):
        torch.testing.assert_close(a, b)


def test_no_derivatives_are_recorded_without_need(torch):
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert not squared_diff(x, 1).requires_grad
    assert squared_diff(x, 1).requires_grad
    assert not squared_diff(x.detach(), 1).requires_grad
