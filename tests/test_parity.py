"""Random networks on random arrays give what the plain loop gives, on every engine."""

import contextlib
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply import testing
from xpapply.testing import assert_parity

PARAMETERS = ("float32", "float64", "float16", "bfloat16")


def parameter_dtypes(xp):
    """The dtypes of parameters that a library has."""
    lacking = {
        "numpy": {"cpu": ["bfloat16"], "torch": ["bfloat16"], "array_api": ["bfloat16"]}.get(
            xp.engine, []
        ),
        "cupy": {"array_api": ["bfloat16"]}.get(xp.engine, []),
        "cuda": ["bfloat16"],
        "array_api_strict": ["float16", "bfloat16"],
    }.get(xp.name, [])
    return [d for d in PARAMETERS if d not in lacking]


def activations(xp, names):
    """The standard has no erf, so no exact GELU."""
    return [n for n in names if xp.name != "array_api_strict" or n.upper() != "GELU"]


def drawn(data, xp, network, **how):
    """A network, an axis and an array of slices for it, in the library `xp`."""
    features = data.draw(st.integers(1, 9), label="features")
    net = data.draw(network(features), label="net")
    ndim = data.draw(st.integers(1, 4), label="ndim")
    axis = data.draw(testing.axes(ndim), label="axis")
    dtypes = [d for d in testing.DTYPES if xp.name != "array_api_strict" or d != "float16"]
    orders = list(testing.ORDERS)
    if (xp.name, xp.engine) == ("numpy", "torch"):
        orders.remove("negative")  # torch has no negative strides, so it cannot borrow those
    array = testing.arrays(
        features, axis, ndim=ndim, max_side=4, dtypes=dtypes, orders=orders, **how
    )
    return net, axis, data.draw(array, label="arr")


@given(data=st.data())
def test_networks(xp, torch, data):
    names = activations(xp, testing.ACTIVATIONS)
    draw = functools.partial(testing.networks, activations=names, labels=True)
    net, axis, arr = drawn(data, xp, draw)
    with xp():
        assert_parity(xp.module(net), axis, xp.array(arr))


@given(data=st.data())
def test_special_values(quick_xp, torch, data):
    """NaN, infinities, signed zeros and subnormals, and sizes from 1e-30 to 1e30."""
    names = activations(quick_xp, testing.ACTIVATIONS)
    how = {"special": True, "exponents": (-30, 30)}
    draw = functools.partial(testing.networks, activations=names, labels=True)
    net, axis, arr = drawn(data, quick_xp, draw, **how)
    with quick_xp():
        assert_parity(quick_xp.module(net), axis, quick_xp.array(arr))


@given(data=st.data())
def test_mlps(quick_xp, data):
    names = activations(quick_xp, testing.MLP_ACTIVATIONS)
    dtypes = [d for d in ("float32", "float64") if d in parameter_dtypes(quick_xp)]
    draw = functools.partial(testing.mlps, activations=names, dtypes=dtypes)
    net, axis, arr = drawn(data, quick_xp, draw, special=True)
    with quick_xp():
        assert_parity(net, axis, quick_xp.array(arr))


@pytest.mark.parametrize("dtype", PARAMETERS[1:])
@given(data=st.data())
def test_parameter_dtypes(quick_xp, torch, dtype, data):
    names = activations(quick_xp, testing.ACTIVATIONS)
    labels = dtype in parameter_dtypes(quick_xp)  # they have no such dtype
    how = {"max_depth": 3, "dtype": dtype, "labels": labels}
    draw = functools.partial(testing.networks, activations=names, **how)
    net, axis, arr = drawn(data, quick_xp, draw)
    with quick_xp():
        if dtype in parameter_dtypes(quick_xp):
            assert_parity(quick_xp.module(net), axis, quick_xp.array(arr))
        elif quick_xp.name == "cuda":  # where the kernel on tensor cores takes the network
            with contextlib.suppress(xpapply.UnsupportedError):
                assert_parity(quick_xp.module(net), axis, quick_xp.array(arr))
        else:
            with pytest.raises(xpapply.UnsupportedError):
                xpapply.apply_along_axis(quick_xp.module(net), axis, quick_xp.array(arr))
