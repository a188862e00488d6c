"""assert_parity notices what is wrong, and the strategies draw what they say."""

import builtins

import numpy as np
import pytest
from hypothesis import given, settings
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

    @settings(max_examples=500, derandomize=True, database=None)  # some are drawn seldom
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
    for call in (testing.axes, testing.arrays, testing.mlps, lambda n: testing.signatures()):
        with pytest.raises(ImportError, match="pip install hypothesis"):
            call(3)


# --- several arrays -----------------------------------------------------------------------------

WEIGHTED = xpapply.vectorize(lambda a, w: (a * w).sum(), signature="(n),(n)->()")
SCALED = xpapply.vectorize(lambda a, w: (a.max(), a * w), signature="(n),(n)->(),(n)")
GIVEN = (RNG.standard_normal((6, 5, 4)), RNG.standard_normal((5, 4)))


def spoil_several(kind, y):
    if kind == "count":
        return y[0] if isinstance(y, tuple) else (y,)
    if isinstance(y, tuple):
        return (*y[:-1], spoil_several(kind, y[-1]))
    if kind == "shape":
        return y[1:]
    if kind == "dtype":
        return y.astype("f4")
    if kind == "class":
        return np.ma.array(y)
    y = y.copy()
    y.flat[7] = {"nan": np.nan, "zero": 0, "sign": -y.flat[7]}.get(kind, y.flat[7] * (1 + 1e-9))
    return y


@pytest.mark.parametrize(
    "kind", ["count", "shape", "dtype", "class", "nan", "zero", "sign", "ulps"]
)
@pytest.mark.parametrize("f", [WEIGHTED, SCALED], ids=["one", "two"])
def test_errors_of_several_arrays_are_noticed(monkeypatch, f, kind):
    testing.assert_parity(f, *GIVEN)
    right = xpapply.vectorize.__call__
    monkeypatch.setattr(
        xpapply.vectorize,
        "__call__",
        lambda self, *a, **k: spoil_several(kind, right(self, *a, **k)),
    )
    with pytest.raises(AssertionError, match=r"engine by default: .*(got|differ)"):
        testing.assert_parity(f, *GIVEN)


def test_an_error_of_one_engine_is_noticed(monkeypatch):
    from xpapply import config

    right = xpapply.vectorize.__call__

    def spoiled(self, *given, **more):
        y = right(self, *given, **more)
        return y + 1 if config.current().engine == "numpy" else y

    monkeypatch.setattr(xpapply.vectorize, "__call__", spoiled)
    with pytest.raises(AssertionError, match="engine numpy: "):
        testing.assert_parity(WEIGHTED, *GIVEN)


def test_parity_of_exceptions(monkeypatch):
    inverse = xpapply.vectorize(lambda a: 1 // a)
    with pytest.raises(ZeroDivisionError):
        testing.assert_parity(inverse, np.arange(-20, 20))
    right = xpapply.vectorize.__call__

    def other(self, *given, **more):
        try:
            return right(self, *given, **more)
        except ZeroDivisionError:
            raise KeyError("another") from None

    monkeypatch.setattr(xpapply.vectorize, "__call__", other)
    with pytest.raises(AssertionError, match="got KeyError"):
        testing.assert_parity(inverse, np.arange(-20, 20))
    monkeypatch.setattr(xpapply.vectorize, "__call__", lambda self, x: x)
    with pytest.raises(AssertionError, match="the loop gives"):
        testing.assert_parity(inverse, np.arange(-20, 20))


def test_parity_along_several_axes(monkeypatch):
    def f(p):
        return p.max() - p.mean(0)

    assert testing.assert_parity(f, (2, 0), ARR).shape == (4, 5)
    assert testing.assert_parity(f, (1,), ARR).shape == (5, 6)
    monkeypatch.setattr(
        testing.parity, "apply_along_axis", lambda f, axis, x: np.zeros((4, 5), "f4")
    )
    with pytest.raises(AssertionError, match="differ"):
        testing.assert_parity(f, (2, 0), ARR)


def test_parity_takes_no_suppressed_errors():
    with pytest.raises(ValueError, match="on_error"):
        testing.assert_parity(xpapply.vectorize(abs, on_error="fill", fill=0), np.arange(3))


def test_signatures_are_drawn():
    seen = set()

    @settings(max_examples=300, derandomize=True)
    @given(testing.signatures())
    def collect(signature):
        parsed = xpapply.loop.signature.Signature.parse(signature)
        assert {d for c in parsed.outputs for d in c} <= {d for c in parsed.inputs for d in c}
        seen.add(signature)

    collect()
    for part in ("?", "2", "->()", "),(", "n,m", "(m,m)"):
        assert any(part in s for s in seen), part
    assert any(s.rpartition("->")[2].count("(") == 2 for s in seen)


@given(data=st.data())
def test_operands_fit(data):
    signature = data.draw(testing.signatures())
    sizes = {"m": 3, "n": 2}
    drawn = data.draw(testing.operands(signature, sizes=sizes, dtypes=["float32"]))
    dims = xpapply.loop.signature.resolve(
        xpapply.loop.signature.Signature.parse(signature), [x.shape for x in drawn]
    )
    assert all(dims.sizes.known.get(d, n) == n for d, n in sizes.items())
    assert all(x.dtype == np.float32 for x in drawn)


def test_operands_differ():
    """In loop dims, dtypes, memory layouts, and in lacking dims."""
    seen = []

    @settings(max_examples=300, derandomize=True)
    @given(testing.operands("(n,k?),(n),()->()", loop=(4, 5), special=True))
    def collect(drawn):
        seen.append(drawn)

    collect()
    assert any(x.shape[:2] == (4, 5) for drawn in seen for x in drawn)
    assert any(x.shape[:1] == (5,) and x.ndim == 2 for _, x, _ in seen)
    assert any(x.shape[:2] == (1, 5) for drawn in seen for x in drawn)
    assert {x.ndim for x, _, _ in seen} == {1, 2, 3, 4}
    assert any(len({x.dtype for x in drawn}) == 3 for drawn in seen)
    assert any(0 in x.strides for drawn in seen for x in drawn)
    assert any(min(x.strides, default=0) < 0 for drawn in seen for x in drawn)
    floats = [x.ravel() for drawn in seen for x in drawn if x.dtype.kind == "f"]
    assert np.isnan(np.concatenate(floats)).any()
