import copy
import pickle

import numpy as np
import pytest

import xpapply
from xpapply.ir.ops import OPS
from xpapply.testing import MLP_ACTIVATIONS, assert_parity

RNG = np.random.default_rng(0)
W, B = RNG.standard_normal((5, 3)), RNG.standard_normal(5)
V = RNG.standard_normal((2, 2))
ARR = RNG.standard_normal((4, 3, 2))


@pytest.mark.parametrize("name", MLP_ACTIVATIONS)
def test_like_torch(torch, name):
    """Against an implementation that is not ours, in float64."""
    layer = getattr(torch.nn, OPS[name].activation if name in OPS else "Identity")
    layer = layer(dim=-1) if "softmax" in name else layer()
    linear = torch.nn.Linear(3, 5).double()
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(W))
        linear.bias.copy_(torch.from_numpy(B))
        expected = layer(linear(torch.from_numpy(ARR).movedim(1, -1))).movedim(-1, 1).numpy()
    net = xpapply.MLP([W], [B], output_activation=name)
    np.testing.assert_allclose(assert_parity(net, 1, ARR), expected, rtol=1e-12, atol=1e-14)


def test_by_hand():
    net = xpapply.MLP([W, np.ones((1, 5))], [B, [2.0]])
    expected = np.maximum(np.einsum("nm,amb->anb", W, ARR) + B[:, None], 0).sum(1) + 2
    np.testing.assert_allclose(xpapply.apply_along_axis(net, 1, ARR)[:, 0], expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "empty"),
        (([W, V],), "layer 1 takes 2 values, layer 0 gives 5"),
        (([W], [B[:2]]), r"layer 0: expected"),
        (([W], [B, B]), "1 weights but 2 biases"),
        (([W[0]],), r"layer 0: expected"),
        (([W], None, "relu", "sofmax"), "unknown activation 'sofmax'"),
        (([W], None, ["relu"]), "1 activations for 0 hidden"),
        (([W * 1j],), "real numbers"),
        (([W], None, "relu", "einsum"), "unknown activation"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(xpapply.InputError, match=message):
        xpapply.MLP(*arguments)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", ">f4"])
def test_dtypes(dtype):
    net = xpapply.MLP([(W * 3).astype(dtype)], [None])
    expected = np.dtype("float64" if dtype == "int32" else dtype).newbyteorder("=")
    for source in ("f4", "f8", "u1", "?"):
        assert assert_parity(net, 1, ARR.astype(source)).dtype == expected


def test_the_weights_are_copies_that_cannot_change():
    weights = W.copy()
    net = xpapply.MLP([weights])
    before = xpapply.apply_along_axis(net, 1, ARR)
    weights[:] = 0
    np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, ARR), before)
    with pytest.raises(ValueError, match="read-only"):
        net.weights[0][0] = 1


ATTRIBUTES = {
    "weights": (W,),
    "biases": (np.ones(5),),
    "activations": ("tanh",),
    "dtype": np.dtype("f4"),
    "result_dtype": np.dtype("f4"),
}


def copies(net):
    return [net, copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_cannot_be_set(name):
    """Plans are remembered: one that was set afterwards had no effect."""
    for net in copies(xpapply.MLP([W], [np.ones(5)])):
        before = xpapply.apply_along_axis(net, 1, ARR)
        says = f"{name} of an MLP cannot be changed. Make another one: MLP"
        with pytest.raises(AttributeError, match=says):
            setattr(net, name, ATTRIBUTES[name])
        with pytest.raises(AttributeError, match=says):
            delattr(net, name)
        vars(net)[name] = ATTRIBUTES[name]
        assert getattr(net, name) is not ATTRIBUTES[name]
        np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, ARR), before)
        np.testing.assert_allclose(net(ARR[0, :, 0]), before[0, :, 0])


def test_arrays_stay_read_only():
    for net in copies(xpapply.MLP([W, W.T], [np.ones(5), None])):
        before = xpapply.apply_along_axis(net, 1, ARR)
        for x in (*net.weights, net.biases[0]):
            with pytest.raises(ValueError, match="WRITEABLE"):
                x.flags.writeable = True
            with pytest.raises(ValueError, match="read-only"):
                x[...] = 0
        np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, ARR), before)


FACTOR = 1.0


class Scaled(xpapply.MLP):
    """With a graph of its own, of attributes that change."""

    scale = 2.0

    def __init__(self, *args):
        super().__init__(*args)
        self.offset = np.zeros(5)

    def lift(self, aval):
        offset = self.offset[:, None] * np.eye(1)[0]
        weights = [self.weights[0] * self.scale * FACTOR]
        return xpapply.MLP(weights, [offset[:, 0]]).lift(aval)


class Called(xpapply.MLP):
    factor = 3.0

    def __call__(self, v):
        return super().__call__(v) * self.factor


def test_subclasses_with_attributes_that_change(monkeypatch):
    net = Scaled([W])
    inside = lambda v: net(v) + 1.0  # noqa: E731

    def check(want):
        np.testing.assert_allclose(xpapply.apply_along_axis(net, 1, ARR), want)
        np.testing.assert_allclose(xpapply.apply_along_axis(inside, 1, ARR), want + 1.0)
        with xpapply.options(engine="loop"):
            np.testing.assert_allclose(xpapply.apply_along_axis(net, 1, ARR), want)

    plain = xpapply.apply_along_axis(xpapply.MLP([W]), 1, ARR)
    check(2 * plain)
    net.scale = 4.0
    check(4 * plain)
    net.offset[:] = 1.0
    check(4 * plain + 1.0)
    net.offset = np.zeros(5)
    check(4 * plain)
    del net.scale
    monkeypatch.setattr(Scaled, "scale", 0.5)
    check(0.5 * plain)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    check(1.5 * plain)
    assert xpapply.explain(net, 1, ARR).vectorized


def test_subclasses_with_a_call_of_their_own():
    """The graph of the class that they inherit from is another function."""
    net = Called([W])
    plain = xpapply.apply_along_axis(xpapply.MLP([W]), 1, ARR)
    for factor in (3.0, 5.0):
        net.factor = factor
        with xpapply.options(fallback="silent"):
            for f in (net, lambda v: net(v)):
                np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, ARR), factor * plain)
    assert "Called has a __call__ of its own" in xpapply.explain(net, 1, ARR).reasons[0]


def test_functions_of_elements_cannot_be_set():
    f = xpapply.elementwise(lambda x: x + 1)
    with pytest.raises(AttributeError):
        f.fn = np.sin
    assert f.fn(1) == 2


def test_wrong_slices():
    net = xpapply.MLP([W])
    with pytest.raises(xpapply.InputError, match=r"takes 3 features, the slices have 2.*axis"):
        xpapply.apply_along_axis(net, 2, ARR)
    with pytest.raises(xpapply.InputError, match="real numbers"):
        xpapply.apply_along_axis(net, 1, ARR * 1j)
    with pytest.raises(TypeError, match="nothing else"):
        xpapply.apply_along_axis(net, 1, ARR, 2.0)


def test_one_slice(xp):
    net = xpapply.MLP([W.astype("f4")], output_activation="softmax")
    v = xp.array(ARR[0, :, 0].astype("f4"))
    result = net(v)
    assert type(result) is type(v)
    expected = xpapply.apply_along_axis(net, 0, ARR[0, :, 0].astype("f4"))
    np.testing.assert_allclose(xp.numpy(result), expected, rtol=1e-5)


def test_repr():
    assert (
        repr(xpapply.MLP([W, V[:, :1] @ np.ones((1, 5))])) == "MLP(3-5-2, relu, identity, float64)"
    )


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("which", ["activation", "output_activation"])
def test_an_unknown_activation_is_an_error_however_many_layers(layers, which):
    with pytest.raises(xpapply.InputError, match="unknown activation 'reluu': did you mean 'relu'"):
        xpapply.MLP([np.ones((2, 2))] * layers, **{which: "reluu"})
