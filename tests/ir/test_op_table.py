"""A row of the op table is all that an op needs: one that is added here is known everywhere."""

import dataclasses
import re
import sys
from pathlib import Path

import host_cxx
import host_llvm
import hypothesis
import numpy as np
import pytest
import scipy.special as sp

import xpapply
from conftest import library
from xpapply import testing
from xpapply.codegen import cost, scalar_network, tensor_network
from xpapply.codegen.access import Access
from xpapply.codegen.llvm import operations
from xpapply.codegen.llvm.functions import log
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.slice_kernels import Sharing, slice_kernels
from xpapply.ir import numpy_ufuncs
from xpapply.ir.ops import OPS, F, Kind, Op
from xpapply.ir.rewrite import compact, fold
from xpapply.ir.slices.slice_graph import written


def _root(writer, x):
    return writer.sqrt(x * x + 1.0)


ROW = Op(
    "asinh",
    Kind.ELEMENTWISE,
    "inverse hyperbolic sine",
    c="asinh({0})",
    llvm=lambda writer, x: writer.copysign(log(writer, writer.abs(x) + _root(writer, x)), x),
    torch=("arcsinh",),
    activation="asinh",
)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6))


@pytest.fixture
def row(monkeypatch):
    assert ROW.name not in OPS
    monkeypatch.setitem(OPS, ROW.name, ROW)


def ops(graph):
    return [node.op for node in graph.nodes]


def f(v):
    return np.arcsinh(v) * 2 - v[0]


def test_without_the_row():
    with pytest.raises(xpapply.UnsupportedError, match="arcsinh is not an op of the table"):
        xpapply.lift(f, (6,), "float64")
    assert "arcsinh" not in numpy_ufuncs.known()


def test_lifted_from_numpy(row):
    assert "asinh" in ops(xpapply.lift(f, (6,), "float64"))
    assert "arcsinh" in numpy_ufuncs.known()


def test_functions_of_an_element(row):
    got = xpapply.elementwise(lambda x: np.arcsinh(x) + 1)(X)
    np.testing.assert_allclose(got, np.arcsinh(X) + 1, rtol=1e-15)


@pytest.mark.parametrize("name", ["asinh", "arcsinh"])
def test_lifted_from_torch(torch, row, name):
    class Net(torch.nn.Module):
        def forward(self, x):
            return getattr(torch, name)(x)

    assert "asinh" in ops(xpapply.lift(Net(), (6,), "float64"))


@pytest.mark.parametrize(
    ("lib", "engine"),
    [
        ("numpy", "numpy"),
        ("numpy", "torch"),
        ("numpy", "array_api"),
        ("torch", "torch"),
        ("jax", "array_api"),
        pytest.param("cupy", "cupy", marks=pytest.mark.gpu),
    ],
)
def test_run_by_every_backend(row, lib, engine):
    for name in {lib, engine} & {"torch", "jax", "cupy"}:
        library(name)
    new = {"torch": "from_numpy", "jax": "numpy.asarray"}.get(lib, "asarray")
    make = library(lib)
    for part in new.split("."):
        make = getattr(make, part)
    plan = xpapply.compile(f, (6,), "float32")
    with xpapply.options(engine=engine):
        got = plan(make(X.astype("f")), -1)
    got = got.get() if lib == "cupy" else np.asarray(got)
    want = np.apply_along_axis(f, -1, X.astype("f"))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_generated_kernels(row):
    graph = compact(fold(xpapply.lift(f, (6,), "float32")))
    assert scalar_network.why_not(graph) is None
    x = X.astype("f")
    out = np.empty((40, 6), "f")
    host_cxx.run_network(graph, x, 1, out)
    np.testing.assert_allclose(out, np.apply_along_axis(f, -1, x), rtol=1e-5, atol=1e-6)
    assert "asinhf(" in scalar_network.network_kernel(graph, Access(1, 0), 1).function.text


def test_slice_kernels(row):
    graph = written(lambda x: (np.arcsinh(x), np.arcsinh(np.float64(2.0) * x)), [("float32", True)])
    text = slice_kernels(graph[0], Sharing(1, 64, steps=(1, 1, 1))).source
    assert {"asinhf(", "asinh("} <= set(re.findall(r"asinhf?\(", text))


def test_kernels_for_cpus(row, monkeypatch):
    def body(writer, x):
        return [operations.apply(writer, "asinh", [x], "float64")]

    target = TARGETS["SSE2"]
    got = host_llvm.elementwise(body, ["float64"], ["float64"], target, 2)(X)[0]
    np.testing.assert_allclose(got, np.arcsinh(X), rtol=1e-12)
    monkeypatch.setitem(OPS, "asinh", dataclasses.replace(ROW, llvm=""))
    assert "asinh has no form for CPUs" in operations.why_not("asinh", "float64", target)


def test_tensor_kernels(row):
    net = xpapply.MLP([np.ones((16, 16), "f"), np.ones((3, 16), "f")], activation="asinh")
    graph = compact(fold(xpapply.lift(net, (16,), "float32")))
    for core in ("mma", "wgmma"):
        target = tensor_network.Target(core, "highest")
        text = tensor_network.tensor_kernel(graph, Access(1, 0), target)
        assert "asinhf(" in text.source
    assert cost.tensor(graph, 1 << 20, cost.Device(132, 1.7e9, 4e12, "mma", 1 << 17), "high") > 0


def test_drawn_by_the_strategies(torch, row):
    net = hypothesis.find(testing.mlps(3), lambda net: "asinh" in net.activations)
    testing.assert_parity(net, 0, np.linspace(-3, 3, 12, dtype="f").reshape(3, 4))
    module = hypothesis.find(testing.networks(3), lambda net: "Function" in str(net))
    testing.assert_parity(module, 0, np.linspace(-3, 3, 12, dtype="f").reshape(3, 4))


def test_printed_in_the_docs(row, monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    monkeypatch.delitem(sys.modules, "fill", raising=False)
    import fill

    assert "`asinh`" in fill.ops()
    assert "inverse hyperbolic sine" in fill.ops()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name",
    "tan arcsin arccos arctan sinh cosh log2 log10 floor ceil isfinite isinf isnan sign exp2 fabs "
    "square reciprocal conjugate positive".split(),
)
def test_ufuncs_in_graphs(name, dtype):
    """With NumPy's dtypes, and its results of NaN, infinities and zeros."""
    ufunc = getattr(np, name)
    function = (lambda v: np.where(ufunc(v), 1.0, 0.0)) if name.startswith("is") else ufunc
    f = lambda v: function(v)  # noqa: E731
    x = X.astype(dtype)
    x[:4, :4] = [0.0, -0.0, np.nan, np.inf]
    x[4] = -np.inf
    with xpapply.options(engine="array_api"), np.errstate(all="ignore"):
        got = xpapply.compile(f, (6,), dtype)(x, -1)
        want = np.apply_along_axis(f, -1, x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "float32" else 1e-13)
    if name != "reciprocal":
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize(
    "f",
    [
        lambda v: np.hypot(v, v[0]),
        lambda v: np.arctan2(v, v[1]),
        lambda v: np.abs(v) ** 1.5,
        lambda v: v**3,
        lambda v: sp.expit(v),
        lambda v: sp.erf(v) + sp.erfc(v[0]),
    ],
    ids=["hypot", "arctan2", "power", "cube", "expit", "erf"],
)
def test_compositions_in_graphs(f):
    x = X.astype("float32")
    with xpapply.options(engine="array_api"):
        got = xpapply.compile(f, (6,), "float32")(x, -1)
    want = np.apply_along_axis(f, -1, x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=2e-6)


def test_a_row_goes_before_a_definition(monkeypatch):
    assert "hypot" not in OPS
    f = lambda v: np.hypot(v, 2.0)  # noqa: E731
    assert "hypot" not in ops(xpapply.lift(f, (6,), "float64"))
    monkeypatch.setitem(OPS, "hypot", Op("hypot", Kind.ELEMENTWISE, c="hypot({0}, {1})"))
    assert "hypot" in ops(xpapply.lift(lambda v: np.hypot(v, 3.0), (6,), "float64"))


def test_elements_take_ufuncs_of_scipy():
    got = xpapply.elementwise(lambda x: sp.erf(x) - sp.expit(x))(X)
    np.testing.assert_allclose(got, sp.erf(X) - sp.expit(X), rtol=1e-13, atol=1e-15)


# --- composites -----------------------------------------------------------------------


def test_composites_are_known_everywhere(monkeypatch, torch):
    """An activation, and a reduction of torch's: by their definitions alone."""
    softcap = Op("softcap", Kind.COMPOSITE, define=lambda x, cap=2.0: F.tanh(x / cap) * cap)
    monkeypatch.setitem(OPS, "softcap", softcap)

    def logsumexp(x, axis, keepdims=False):
        return F.log(F.sum(F.exp(x), axis=axis, keepdims=keepdims))

    row = Op("logsumexp", Kind.COMPOSITE, define=logsumexp)
    monkeypatch.setitem(OPS, row.name, row)

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.logsumexp(x, -1, keepdim=True) + torch.logsumexp(x, dim=0)

    x = X.astype("f")
    graph = xpapply.lift(Net(), (6,), "float32")
    assert ops(graph).count("logsumexp") == 2
    assert scalar_network.why_not(compact(fold(graph))) is None
    testing.assert_parity(Net(), 1, x)
    net = xpapply.MLP([np.ones((5, 6), "f")], output_activation="softcap")
    want = 2 * np.tanh((x @ np.ones((6, 5), "f")) / 2)
    np.testing.assert_allclose(testing.assert_parity(net, 1, x), want, rtol=1e-5, atol=1e-6)
