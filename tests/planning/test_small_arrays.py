"""Small arrays of a network: NumPy's engine runs, until it pays to load and compile kernels."""

import subprocess
import sys

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS

pytest.importorskip("llvmlite")

X = np.random.default_rng(0).standard_normal((50, 8)).astype("f4")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """As it is without conftest."""
    monkeypatch.setattr(LIMITS, "small_patience", 10e-3)


def network():
    rng = np.random.default_rng(1)
    return xpapply.MLP([rng.standard_normal((16, 8)).astype("f4"), np.ones((2, 16), "f4")])


def test_calls_are_counted_until_a_kernel_pays():
    net = network()
    plan = xpapply.explain(net, -1, X)
    assert plan.engine == "numpy"
    assert "kernels are compiled after 10 ms of calls like this" in plan.reasons[0]
    want = xpapply.apply_along_axis(net, -1, X)
    ran = []
    while len(ran) < 400:
        np.testing.assert_allclose(xpapply.apply_along_axis(net, -1, X), want, rtol=1e-5, atol=1e-6)
        ran.append(xpapply.explain(net, -1, X).engine)
    assert 20 < ran.index("cpu") < 400
    assert set(ran[ran.index("cpu") :]) == {"cpu"}
    assert not any("kernels are compiled" in why for why in xpapply.explain(net, -1, X).reasons)


def test_plans_count_their_calls_too():
    plan = xpapply.compile(network(), (8,), "float32")
    ran = []
    for _ in range(400):
        plan(X)
        (engine,) = plan._call._engines.values()
        ran.append(engine.name)
    assert ran[0] == "numpy"
    assert ran[-1] == "cpu"


def test_plans_of_explain_that_are_kept_count_their_calls_too():
    plan = xpapply.explain(network(), -1, X)
    want = plan(X)
    for _ in range(400):
        np.testing.assert_allclose(plan(X), want, rtol=1e-5, atol=1e-6)
    assert plan._call.name == "numpy"
    assert {e.name for e in plan._call._others._engines.values()} == {"cpu"}


def test_a_plan_for_a_small_array_that_gets_a_large_one():
    plan = xpapply.explain(network(), -1, X)
    large = np.tile(X, (5000, 1))
    np.testing.assert_allclose(plan(large)[:50], plan(X), rtol=1e-5, atol=1e-6)
    assert {e.name for e in plan._call._others._engines.values()} == {"cpu"}


def test_tensors_count_as_well():
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(8, 2).eval()
    x = torch.from_numpy(X)
    with torch.no_grad():
        plan = xpapply.explain(net, -1, x)
        for _ in range(5):
            torch.testing.assert_close(plan(x), net(x))


def test_large_arrays_do_not_wait():
    assert xpapply.explain(network(), -1, np.tile(X, (5000, 1))).engine == "cpu"


def test_an_engine_that_is_asked_for_runs_at_once():
    with xpapply.options(engine="cpu"):
        assert xpapply.explain(network(), -1, X).engine == "cpu"


def test_small_arrays_load_no_kernels():
    code = (
        "import sys, numpy as np, xpapply\n"
        "net = xpapply.MLP([np.ones((4, 8), 'f4')])\n"
        "xpapply.apply_along_axis(net, -1, np.ones((50, 8), 'f4'))\n"
        "print(sorted(m for m in sys.modules if 'backends.cpu' in m or 'llvm' in m))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
