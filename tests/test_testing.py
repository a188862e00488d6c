"""assert_parity notices what is wrong, and the strategies draw what they say."""

import builtins

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply import testing

RNG = np.random.default_rng(0)
NET = xpapply.MLP(
    [RNG.standard_normal((8, 4)).astype("f4"), RNG.standard_normal((3, 8)).astype("f4")],
    [RNG.standard_normal(8).astype("f4"), None],
    "tanh",
)
ARR = RNG.standard_normal((5, 4, 6)).astype("f4")


def spoil(kind, y):
    if kind == "shape":
        return y[:, :, :-1]
    if kind == "dtype":
        return y.astype("f8")
    if kind == "class":
        return np.ma.array(y)
    if kind == "axes":
        return y.swapaxes(0, 2)[:5].copy() if y.shape[0] == y.shape[2] else y[::-1]
    y = y.copy()
    one = (2, 1, 3)
    y[one] = {
        "nan": np.nan,
        "inf": np.inf,
        "zero": 0,
        "sign": -y[one],
        "six digits": y[one] + np.abs(y).max() * 1e-5,
    }[kind]
    return y


KINDS = ["shape", "dtype", "class", "axes", "nan", "inf", "zero", "sign", "six digits"]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_noticed(monkeypatch, kind):
    right = xpapply.apply_along_axis
    testing.assert_parity(NET, 1, ARR)
    monkeypatch.setattr(testing.parity, "apply_along_axis", lambda *a: spoil(kind, right(*a)))
    with pytest.raises(AssertionError, match=r"got|differ"):
        testing.assert_parity(NET, 1, ARR)


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("six digits",)])
def test_errors_of_plain_functions_are_noticed(monkeypatch, kind):
    def f(v):
        return v[:3] * 2

    right = xpapply.apply_along_axis
    testing.assert_parity(f, 1, ARR)
    monkeypatch.setattr(testing.parity, "apply_along_axis", lambda *a: spoil(kind, right(*a)))
    with pytest.raises(AssertionError, match=r"got|differ"):
        testing.assert_parity(f, 1, ARR)


def test_half_the_digits_are_not_enough(monkeypatch):
    """A product in TF32 or bfloat16 would be noticed."""
    right = xpapply.apply_along_axis

    def truncated(f, axis, arr):
        return right(f, axis, (arr.view(np.uint32) & 0xFFFFE000).view(np.float32))

    monkeypatch.setattr(testing.parity, "apply_along_axis", truncated)
    with pytest.raises(AssertionError, match="differ"):
        testing.assert_parity(NET, 1, ARR)


def test_nan_that_is_lost_is_noticed(monkeypatch):
    arr = ARR.copy()
    arr[2, 0, 3] = np.nan
    right = xpapply.apply_along_axis
    testing.assert_parity(NET, 1, arr)
    monkeypatch.setattr(
        testing.parity, "apply_along_axis", lambda f, axis, x: right(f, axis, np.nan_to_num(x))
    )
    with pytest.raises(AssertionError, match="3 of 90"):
        testing.assert_parity(NET, 1, arr)


def test_batch_norms_that_cancel(torch):
    """bias - mean * scale cancels in float64, in ours and in the oracle."""
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm1d(16).double().eval()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.1, 2)
    with torch.no_grad():
        norm.weight.normal_()
        shift = norm.running_mean / torch.sqrt(norm.running_var + norm.eps) * norm.weight
        norm.bias.copy_(shift * (1 + torch.logspace(-12, 0, 16)))
        norm.bias[0] = 2.0
    net = torch.nn.Sequential(torch.nn.Linear(1, 16, bias=False).double(), norm)
    testing.assert_parity(net, 0, np.zeros(1))
    testing.assert_parity(net.float(), 0, np.zeros(1))


@pytest.mark.parametrize("order", testing.ORDERS)
def test_layouts(order):
    seen = []

    @given(arr=testing.arrays(3, 1, ndim=3, orders=[order], dtypes=["float32"]))
    def collect(arr):
        assert arr.shape[1] == 3
        assert arr.dtype == np.float32
        seen.append(arr)

    collect()
    some = {
        "C": lambda a: a.flags.c_contiguous,
        "F": lambda a: a.flags.f_contiguous,
        "steps": lambda a: not a.flags.forc,
        "negative": lambda a: min(a.strides) < 0,
        "broadcast": lambda a: 0 in a.strides,
        "transposed": lambda a: not a.flags.c_contiguous,
    }[order]
    assert any(map(some, seen))


def test_special_values_are_drawn():
    seen = []

    @given(arr=testing.arrays(special=True, dtypes=["float32"]))
    def collect(arr):
        seen.append(arr.ravel())

    collect()
    drawn = np.concatenate(seen)
    assert np.isnan(drawn).any()
    assert np.isposinf(drawn).any()
    assert np.isneginf(drawn).any()
    assert (np.signbit(drawn) & (drawn == 0)).any()
    assert ((drawn != 0) & (np.abs(drawn) < np.finfo("f4").tiny)).any()


@given(data=st.data(), ndim=st.integers(1, 4))
def test_axes(data, ndim):
    axis = data.draw(testing.axes(ndim))
    arr = data.draw(testing.arrays(7, axis, ndim=ndim))
    assert arr.ndim == ndim
    assert arr.shape[axis] == 7


@given(data=st.data())
def test_networks_fit(torch, data):
    net = data.draw(testing.networks(3))
    assert not net.training
    assert np.isfinite(xpapply.apply_along_axis(net, 0, np.ones(3, np.float32))).all()


def test_without_hypothesis(monkeypatch):
    real = builtins.__import__

    def missing(name, *args):
        if name.startswith("hypothesis"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", missing)
    for call in (testing.axes, testing.arrays, testing.mlps):
        with pytest.raises(ImportError, match="pip install hypothesis"):
            call(3)
