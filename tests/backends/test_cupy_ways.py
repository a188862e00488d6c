"""CuPy's ways to run a graph: which is chosen, what is refused, and the plain ones by name.

Arrays of CuPy on the host's memory can be asked about, and planned for, without a device.
"""

import contextlib

import numpy as np
import pytest

import xpapply
from xpapply.codegen import cost
from xpapply.testing import assert_parity

RNG = np.random.default_rng(0)
H200 = cost.Device(132, 1.78e9, 4.3e12, "wgmma", 232_448)
ELEMENTWISE, REDUCTION = "cupy-elementwise", "cupy-reduction"


def network(*widths, output_activation="identity"):
    pairs = zip(widths[1:], widths[:-1], strict=True)
    weights = [RNG.standard_normal((n, m)).astype("f") / np.float32(np.sqrt(m)) for n, m in pairs]
    return xpapply.MLP(weights, None, "relu", output_activation)


@pytest.fixture
def array(cupy, monkeypatch):
    """``array(shape)``: one of CuPy on the host's memory, said to be on an H200."""
    from xpapply.backends.cupy import compiler

    monkeypatch.setattr(cupy.cuda.runtime, "getDevice", lambda: 0)
    monkeypatch.setattr(compiler, "device", lambda number: H200)
    monkeypatch.setattr(compiler, "rates", lambda number: (4.8e12, 1.98e9))

    def make(shape, dtype="float32"):
        x = np.zeros(shape, dtype)
        memory = cupy.cuda.UnownedMemory(x.ctypes.data, x.nbytes, x, 0)
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))

    return make


@pytest.mark.parametrize(
    ("engine", "net", "shape", "what"),
    [
        (ELEMENTWISE, network(8, 16, 1), (100, 8), "one ElementwiseKernel for all layers"),
        (REDUCTION, network(300, 1), (100, 300), "one ReductionKernel"),
        (REDUCTION, network(300, 1, output_activation="sigmoid"), (5, 300), "one ReductionKernel"),
    ],
)
def test_explain_names_them(array, engine, net, shape, what):
    with xpapply.options(engine=engine):
        plan = xpapply.explain(net, 1, array(shape))
    assert plan.engine == engine
    assert plan.kernels[0].startswith(what)
    assert plan.expected >= plan.floor > 0
    assert f"engine   {engine}: one " in str(plan)


@pytest.mark.parametrize(
    ("engine", "net", "features", "reason"),
    [
        (ELEMENTWISE, network(300, 200, 200), 300, "300 numbers .* do not fit in .* registers"),
        (REDUCTION, network(8, 16, 1), 8, "not one reduction to one number"),
        (REDUCTION, network(8, 2), 8, "not one reduction to one number"),
    ],
)
def test_refused_with_the_reason(array, engine, net, features, reason):
    with xpapply.options(engine=engine), pytest.raises(xpapply.UnsupportedError, match=reason):
        xpapply.explain(net, 1, array((10, features)))


@pytest.mark.parametrize("engine", [ELEMENTWISE, REDUCTION])
def test_of_cupy_alone(engine):
    with xpapply.options(engine=engine), pytest.raises(xpapply.UnsupportedError, match=engine):
        xpapply.apply_along_axis(network(8, 1), 1, np.zeros((3, 8), "f"))


def test_other_names_are_no_engines(array):
    with (
        xpapply.options(engine="cupy-other"),
        pytest.raises(xpapply.UnsupportedError, match=f"no engine .*{ELEMENTWISE}, {REDUCTION}"),
    ):
        xpapply.explain(network(8, 1), 1, array((3, 8)))


def test_nobody_else_gets_them(array):
    """What is chosen by its time is the engine `cupy`, also where that is the same kernel."""
    net = xpapply.MLP([np.ones((16, 8)), np.ones((1, 16))])
    plan = xpapply.explain(net, 1, array((100, 8), "float64"))
    assert plan.engine == "cupy"
    assert "ElementwiseKernel" in plan.kernels[0]
    assert not any("ReductionKernel" in line for line in plan.reasons)


@pytest.mark.parametrize("slices", [1, 100, 10**4, 10**6])
@pytest.mark.parametrize("length", [3, 100, 10**4, 10**6])
def test_a_reduction_is_never_below_the_floor(cupy, slices, length):
    graph = xpapply.lift(network(length, 1), (length,), "float32")
    least = cost.floor(graph, slices, H200, "highest")
    assert cost.reduction(graph, slices, H200) >= cost.LAUNCH + least


def test_few_long_slices_cost_what_their_threads_take(array):
    """32 of those that lie side by side share a block of CuPy's; a slice alone has one."""

    def price(x, axis):
        with xpapply.options(engine=REDUCTION):
            return xpapply.explain(network(x.shape[axis], 1), axis, x).expected

    rows = price(array((64, 1 << 20)), 1)
    assert price(array((64, 1 << 20)).T, 0) == rows
    assert 25 < price(array((1 << 20, 64)), 0) / rows < 35
    assert 3 < price(array((1 << 20, 4)), 0) / rows < 5
    many = array((1 << 10, 1 << 16))
    assert 0.5 < price(many, 0) / price(many, 1) < 2
    apart = array((1 << 15, 1 << 7, 4))[..., 0]
    assert price(apart, 1) > 3 * price(array(apart.shape), 1)


@pytest.mark.parametrize("engine", ["", REDUCTION])
@pytest.mark.parametrize(("axis", "turned"), [(0, False), (1, False), (0, True), (1, True)])
def test_what_is_explained_and_what_runs_are_asked_of_the_same(
    array, monkeypatch, axis, engine, turned
):
    from xpapply.backends.cupy import networks as backend

    asked, ran = [], []
    decided = backend.CuPyLowered._decided
    noted = lambda self, task: asked.append(task) or decided(self, task)  # noqa: E731
    monkeypatch.setattr(backend.CuPyLowered, "_decided", noted)
    monkeypatch.setattr(backend, "_on", lambda number: contextlib.nullcontext())
    note = lambda self, task: lambda *args: ran.append(self.named(task))  # noqa: E731
    for way in (backend.SlicesWay, backend.TensorWay, backend.ElementwiseWay, backend.ReductionWay):
        monkeypatch.setattr(way, "runner", note)
    monkeypatch.setattr(backend.CuPy, "empty", lambda self, shape, dtype, like: array(shape, dtype))
    x = array((40, 300, 1)).T if turned else array((1, 40, 300))
    axis = 1 - axis if turned else 1 + axis
    with xpapply.options(engine=engine):
        net = network(x.shape[axis], 1)
        plan = xpapply.explain(net, axis, x)
        explained = asked.copy()
        xpapply.apply_along_axis(net, axis, x)
    assert asked[len(explained) :] == explained[-1:]
    assert plan.kernels == tuple(ran)


def test_a_way_that_does_not_run_is_refused_from_then_on(array, monkeypatch):
    """The next one runs, and `explain` says why."""
    from xpapply.backends.cupy import networks, plain
    from xpapply.backends.cupy.networks import CuPyLowered, TensorWay
    from xpapply.backends.cupy.weights import Weights

    net, ran = network(8, 16, 1), []
    lowered = CuPyLowered(xpapply.lift(net, (8,)))

    def fail(self, task):
        def run(*args):
            raise RuntimeError("no such instruction\nand more")

        return run

    monkeypatch.setattr(TensorWay, "runner", fail)
    monkeypatch.setattr(plain.ElementwiseWay, "run", lambda self, *args: ran.append(args))
    monkeypatch.setattr(networks, "_on", lambda number: contextlib.nullcontext())
    x = array((100, 8))
    for _ in range(2):
        lowered(x, 1, Weights(lowered.graph.consts), x)
    assert len(ran) == 2
    found = lowered.estimate(x, lowered.graph.consts)
    assert "ElementwiseKernel" in found.kernels[0]
    assert found.refused[0].endswith("no such instruction")


# --- on a GPU -------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("engine", "make"),
    [
        (ELEMENTWISE, lambda n: network(n, 16, 3)),
        (ELEMENTWISE, lambda n: network(n, 1)),
        (REDUCTION, lambda n: network(n, 1)),
        (REDUCTION, lambda n: network(n, 1, output_activation="sigmoid")),
    ],
)
def test_plain_ways_give_what_the_loop_gives(cupy, engine, make, axis):
    x = RNG.standard_normal((30, 40, 50)).astype("f")
    net = make(x.shape[axis])
    with xpapply.options(engine=engine):
        assert xpapply.explain(net, axis, cupy.asarray(x)).engine == engine
        assert_parity(net, axis, cupy.asarray(x))


@pytest.mark.gpu
def test_plain_ways_on_tensors(cupy, torch):
    x = torch.randn(50, 8, device="cuda")
    for engine, net in ((ELEMENTWISE, network(8, 16, 3)), (REDUCTION, network(8, 1))):
        with xpapply.options(engine=engine):
            assert_parity(net, 1, x)


@pytest.mark.gpu
def test_python_functions_by_name(cupy):
    x, f = RNG.standard_normal((100, 50)), lambda v: np.sqrt((v * v).sum())
    with xpapply.options(engine=REDUCTION):
        assert xpapply.explain(f, 1, cupy.asarray(x)).engine == REDUCTION
        got = xpapply.apply_along_axis(f, 1, cupy.asarray(x))
    np.testing.assert_allclose(got.get(), np.apply_along_axis(f, 1, x), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_trees_have_a_kernel_of_their_own(array, dtype):
    pytest.importorskip("sklearn")
    from sklearn.ensemble import RandomForestClassifier

    rows = RNG.normal(size=(60, 4))
    forest = RandomForestClassifier(5, max_depth=4).fit(rows, rows[:, 0] > 0)
    plan = xpapply.explain(forest.predict_proba, -1, array((1000, 4), dtype))
    assert plan.engine == "cupy"
    assert plan.kernels == ("one kernel for all trees, a thread per slice",)
    for engine in (ELEMENTWISE, REDUCTION):
        with (
            xpapply.options(engine=engine),
            pytest.raises(xpapply.UnsupportedError, match="decision trees"),
        ):
            xpapply.explain(forest.predict_proba, -1, array((1000, 4), dtype))
