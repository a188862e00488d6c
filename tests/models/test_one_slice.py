"""Calls of networks with one slice: cheap, and the same as ever."""

import copy
import gc
import pickle
import timeit
import weakref

import numpy as np
import pytest

import xpapply
from conftest import Library, library
from xpapply.backends import array_api
from xpapply.ir.graph import ShapeDtype

RNG = np.random.default_rng(0)


def mlp(dtype="float64", activation="relu"):
    weights = [RNG.normal(size=s).astype(dtype) for s in ((32, 16), (4, 32))]
    return xpapply.MLP(weights, [RNG.normal(size=32).astype(dtype), None], activation)


def from_file(folder):
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = {
        "0.weight": RNG.normal(size=(32, 16)).astype("f"),
        "0.bias": RNG.normal(size=32).astype("f"),
        "2.weight": RNG.normal(size=(4, 32)).astype("f"),
    }
    safetensors.save_file(arrays, folder / "net.safetensors")
    return xpapply.load_model(folder / "net.safetensors", activation="relu")


def from_onnx(folder):
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    arrays = {"w": RNG.normal(size=(16, 32)), "v": RNG.normal(size=(32, 4))}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(k, 1, ["batch", n]) for k, n in (("x", 16), ("y", 4)))
    consts = [onnx.numpy_helper.from_array(a.astype("f"), k) for k, a in arrays.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], consts)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(made, folder / "net.onnx")
    return xpapply.load_model(folder / "net.onnx")


def plan(folder):
    xpapply.compile(mlp("float32"), (16,)).save(folder / "net.xpapply")
    return xpapply.load_model(folder / "net.xpapply")


NETS = {"MLP": lambda _: mlp(), "weights": from_file, "onnx": from_onnx, "plan": plan}


@pytest.mark.parametrize("what", NETS)
def test_a_call_takes_microseconds(what, tmp_path):
    """It took 400 and more while the graph was written for each call."""
    net = NETS[what](tmp_path)
    v = RNG.normal(size=16).astype("f")
    net(v)
    took = min(timeit.repeat(lambda: net(v), number=200, repeat=7)) / 200
    # some 20 by itself; the machine may be busy
    assert took < 100e-6


@pytest.mark.parametrize("what", ["MLP", "weights", "onnx"])
@pytest.mark.parametrize("lib", ["numpy", "torch", "jax", "array_api_strict"])
def test_it_is_the_definition_of_the_graph(what, lib, tmp_path):
    net, place = NETS[what](tmp_path), Library(lib, "")
    library(lib)
    for dtype in ("float32", "float64", "int32"):
        for _ in range(2):
            v = RNG.normal(size=16).astype(dtype)
            graph = net.lift(ShapeDtype((16,), dtype))
            x = place.array(v)
            got = net(x)
            if str(x.dtype).endswith(dtype):  # JAX has no float64 by itself
                want = array_api.run(graph, v, 0)
                np.testing.assert_allclose(place.numpy(got), want, rtol=1e-5, atol=1e-5)
            assert type(got) is type(x)


@pytest.mark.parametrize("activation", ["gelu", "softmax", "log_softmax", "hardswish", "elu"])
def test_constants_are_ready(activation):
    net = mlp(activation=activation)
    v = RNG.normal(size=16)
    graph = net.lift(ShapeDtype((16,), "float64"))
    for x in (v, v[::-1], np.broadcast_to(1.5, 16), v.astype(">f8")):
        # the last bits of a product depend on where its matrix lies
        want = array_api.run(graph, np.array(x, float), 0)
        np.testing.assert_allclose(net(x), want, rtol=1e-11, atol=1e-13)


def test_shapes_and_kinds_of_slices():
    net = mlp()
    v = RNG.normal(size=16)
    want = net(v)
    np.testing.assert_array_equal(net(v.tolist()), want)
    masked = net(np.ma.masked_greater(v, 100.0))
    assert isinstance(masked, np.ma.MaskedArray)
    np.testing.assert_array_equal(masked.data, want)
    with np.errstate(all="raise"):
        assert np.isinf(net(v * np.inf)).any() or np.isnan(net(v * np.inf)).any()
    for wrong in (v[:3], v.reshape(4, 4), 3.0):
        for _ in range(2):
            with pytest.raises(xpapply.InputError, match="takes 16 features, the slices have"):
                net(wrong)
    got = net(v)
    got[:] = 0  # a result is the caller's own
    np.testing.assert_array_equal(net(v), want)


@pytest.mark.parametrize("what", ["MLP", "weights", "onnx"])
def test_copies_and_what_is_kept(what, tmp_path):
    net = NETS[what](tmp_path)
    v = RNG.normal(size=16).astype("f")
    want, size = net(v), len(pickle.dumps(NETS[what](tmp_path)))
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(other(v), want)
    assert abs(len(pickle.dumps(net)) - size) < 64
    ref = weakref.ref(net)
    del net
    gc.collect()
    assert ref() is None


class Shifted(xpapply.MLP):
    shift = 0.0

    def lift(self, aval):
        return xpapply.MLP([self.weights[0] + self.shift]).lift(aval)


def test_subclasses_may_change():
    net, v = Shifted([np.ones((2, 3))]), np.ones(3)
    assert net(v).tolist() == [3.0, 3.0]
    net.shift = 1.0
    assert net(v).tolist() == [6.0, 6.0]


@pytest.mark.parametrize("what", ["MLP", "weights", "onnx"])
def test_what_cannot_be_computed_is_said_each_time(what, tmp_path, monkeypatch):
    net, v = NETS[what](tmp_path), RNG.normal(size=16).astype("f")
    monkeypatch.setattr(array_api.BACKEND, "why_not", lambda graph, v: "it has no maximum")
    runtime = pytest.importorskip("xpapply.models.onnx.runtime")

    monkeypatch.setattr(runtime, "is_there", lambda: False)
    for _ in range(2):
        with pytest.raises((xpapply.UnsupportedError, xpapply.InputError), match="no maximum"):
            net(v)
    monkeypatch.undo()
    assert net(v).shape == (4,)


def test_gradients_and_inference_mode():
    torch = pytest.importorskip("torch")
    net = mlp("float32")
    v = torch.randn(16)
    with torch.inference_mode():
        net(v)
    x = v.clone().requires_grad_()
    net(x).sum().backward()
    assert x.grad is not None
