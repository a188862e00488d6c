"""Calls that run on tensor cores of a GPU: options, weights, machine code on disk, threads."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from in_threads import in_threads
from tensor_cases import (
    assert_same_kind_of_numbers,
    benchmarked,
    by_torch,
    double,
    error,
    evaluate,
    mlp,
)

import xpapply
from xpapply import testing


def on_tensor_cores(plan):
    return "tensor cores" in "; ".join(plan.kernels)


@pytest.fixture
def needs_tensor_cores(cupy):
    if int(cupy.cuda.Device().compute_capability) < 80:
        pytest.skip("a device without these tensor cores")


MANY = 400_000
"""Slices enough for the kernel to be chosen."""


@pytest.mark.gpu
def test_precision_is_an_option(cupy, needs_tensor_cores):
    net = mlp(16, 64, 64, 64, 4)
    x = cupy.asarray(np.random.default_rng(9).standard_normal((MANY, 16)).astype("f"))
    results, plans = [], []
    for precision in ("highest", "high", "medium", "highest"):
        with xpapply.options(precision=precision):
            plan = xpapply.explain(net, 1, x)
            assert on_tensor_cores(plan)
            plans.append(str(plan))
            results.append(xpapply.apply_along_axis(net, 1, x).get())
    for word, plan in zip(("split", "(float16)", "(bfloat16)", "split"), plans, strict=True):
        assert word in plan
    exact = evaluate(double(net), x.get().astype(float))
    errors = [error(r, exact) for r in results]
    assert errors[0] < 5e-7
    assert errors[0] < errors[1] < 3e-3
    assert errors[1] < errors[2] < 3e-2
    np.testing.assert_array_equal(results[0], results[3])


@pytest.mark.gpu
def test_weights_that_change_in_place(cupy, torch, needs_tensor_cores):
    """They are used by the next call, and nothing is compiled for it."""
    from xpapply.backends.cupy import compiler, launch

    net = benchmarked("16-64-64-64-4 ReLU")
    x = np.random.default_rng(10).standard_normal((MANY, 16)).astype("f")
    array = cupy.asarray(x)
    assert on_tensor_cores(xpapply.explain(net, 1, array))
    first = xpapply.apply_along_axis(net, 1, array).get()
    compiled = compiler.function.cache_info().misses
    texts = launch._written.cache_info().misses
    saved = {k: v.clone() for k, v in net.state_dict().items()}
    try:
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(-1.5)
        second = xpapply.apply_along_axis(net, 1, array).get()
        exact = testing.parity._double(net)(torch.from_numpy(x).double()).numpy()
    finally:
        net.load_state_dict(saved)
    third = xpapply.apply_along_axis(net, 1, array).get()
    assert compiler.function.cache_info().misses == compiled
    assert launch._written.cache_info().misses == texts
    assert error(second, exact) < 5e-7
    assert error(second, first.astype(float)) > 0.1
    np.testing.assert_array_equal(first, third)


@pytest.mark.gpu
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(cupy, torch, needs_tensor_cores, value):
    net = mlp(16, 64, 64, 64, 4)
    weights = [w.copy() for w in net.weights]
    weights[1][5, 7] = value
    net = xpapply.MLP(weights, net.biases, "relu")
    x = np.random.default_rng(11).standard_normal((MANY, 16)).astype("f")
    got = xpapply.apply_along_axis(net, 1, cupy.asarray(x)).get()
    want = by_torch(torch, net, x)
    assert_same_kind_of_numbers(got, want)
    fine = np.isfinite(want)
    np.testing.assert_allclose(got[fine], want[fine], rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
def test_a_kernel_that_cannot_be_built(cupy, monkeypatch, needs_tensor_cores):
    """The next way runs, now and from then on."""
    from xpapply.backends.cupy import compiler

    net = mlp(16, 72, 56, 72, 5)  # of this test alone
    asked = []

    def function(source, name, number, shared):
        asked.append(name)
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(compiler, "function", function)
    x = np.random.default_rng(12).standard_normal((MANY, 16)).astype("f")
    exact = evaluate(double(net), x.astype(float))
    assert on_tensor_cores(xpapply.explain(net, 1, cupy.asarray(x)))
    for _ in range(2):
        assert error(xpapply.apply_along_axis(net, 1, cupy.asarray(x)).get(), exact) < 5e-7
        assert len(asked) == 1


SCRIPT = """
import cupy
import numpy as np
import xpapply
rng = np.random.default_rng(0)
shapes = [(64, 16), (64, 64), (64, 64), (4, 64)]
weights = [(rng.standard_normal(s) * (2 / s[1]) ** 0.5).astype("f") for s in shapes]
net = xpapply.MLP(weights)
x = rng.standard_normal((400_000, 16)).astype("f")
got = xpapply.apply_along_axis(net, 1, cupy.asarray(x)).get()
y = x.astype(float)
for w in weights[:-1]:
    y = np.maximum(y @ w.T.astype(float), 0)
y = y @ weights[-1].T.astype(float)
assert np.linalg.norm(got - y) < 5e-7 * np.linalg.norm(y)
"""

ELF = b"\x7fELF"
"""How machine code starts."""


@pytest.mark.gpu
def test_machine_code_that_is_damaged_on_disk(cupy, tmp_path, needs_tensor_cores):
    """It breaks no call of the next process, which compiles it again and keeps that."""

    def call():
        folder = str(Path(xpapply.__file__).parents[1])
        environment = os.environ | {"CUPY_CACHE_DIR": str(tmp_path), "PYTHONPATH": folder}
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr

    call()
    kept = list(tmp_path.glob("xpapply_*.cubin"))
    assert kept
    assert not list(tmp_path.glob("*.tmp"))
    for path in kept:
        assert path.read_bytes().startswith(ELF)
        path.write_bytes(b"This is no machine code. " * 1000)
    call()
    assert sorted(tmp_path.glob("xpapply_*")) == sorted(kept)
    for path in kept:
        assert path.read_bytes().startswith(ELF)


def accurate_calls(net, arrays, want, failures):
    """Calls on arrays of one thread; what is wrong goes to `failures`."""
    try:
        for _ in range(20):
            results = [xpapply.apply_along_axis(net, 1, array) for array in arrays]
        for got in results:
            host = got.cpu().numpy() if hasattr(got, "cpu") else got.get()
            if not error(host, want) < 5e-7:
                failures.append(error(host, want))
    except Exception as problem:
        failures.append(problem)


@pytest.mark.gpu
def test_threads(cupy, needs_tensor_cores):
    """A stream for each thread; two networks of one structure, each in several threads."""
    x = np.random.default_rng(13).standard_normal((MANY, 16)).astype("f")
    nets = [mlp(16, 64, 64, 64, 4, seed=seed) for seed in (0, 1, 0, 1, 2, 3)]
    wants = [evaluate(double(net), x.astype(float)) for net in nets]
    assert on_tensor_cores(xpapply.explain(nets[0], 1, cupy.asarray(x)))
    failures = []

    def work(net, want):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            accurate_calls(net, [cupy.asarray(x)], want, failures)
            stream.synchronize()

    in_threads(work, nets, wants)
    assert not failures


@pytest.mark.gpu
def test_threads_and_streams_of_torch(cupy, torch, needs_tensor_cores):
    """CUDA tensors in threads with streams of torch, models on both devices."""
    x = np.random.default_rng(14).standard_normal((MANY, 16)).astype("f")
    net = benchmarked("16-64-64-64-4 ReLU")
    want = testing.parity._double(net)(torch.from_numpy(x).double()).numpy()
    import copy

    nets = [net, copy.deepcopy(net).cuda(), net, copy.deepcopy(net)]
    assert on_tensor_cores(xpapply.explain(net, 1, torch.from_numpy(x).cuda()))
    failures = []

    def work(net):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            tensor = torch.from_numpy(x).cuda()
            accurate_calls(net, [tensor, tensor[::1]], want, failures)
        stream.synchronize()

    in_threads(work, nets)
    assert not failures


@pytest.mark.gpu
def test_weights_copied_on_another_stream(cupy, needs_tensor_cores):
    """A stream that is free must not read weights whose copy waits in a busy one."""
    x = np.random.default_rng(15).standard_normal((MANY, 16)).astype("f")
    array, busy = cupy.asarray(x), cupy.ones((6000, 6000), "f")
    xpapply.apply_along_axis(mlp(16, 64, 64, 64, 4, seed=20), 1, array)  # compiles
    busy @ busy
    net = mlp(16, 64, 64, 64, 4, seed=21)
    want = evaluate(double(net), x.astype(float))
    slow, free = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    poison = cupy.full(1 << 20, np.nan, "f")
    del poison
    cupy.cuda.Device().synchronize()
    with slow:
        for _ in range(30):
            busy @ busy
        xpapply.apply_along_axis(net, 1, array)
    with free:
        got = xpapply.apply_along_axis(net, 1, array)
        free.synchronize()
        host = got.get()
    slow.synchronize()
    assert error(host, want) < 5e-7
