"""Graphs on JAX arrays: all operations as one program, which is compiled once."""

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply import special
from xpapply.arrays import jitted
from xpapply.backends import array_api
from xpapply.functions import cache
from xpapply.planning import compiled
from xpapply.slice_functions import call as bound_kernels

X = np.random.default_rng(0).normal(size=(6, 4, 12)).astype("f4")
NET = xpapply.MLP([X[0, :3], X[1, :2, :3]], activation="tanh")


@pytest.fixture(scope="module")
def jax():
    return library("jax")


def module():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = torch.nn.Linear(12, 8), torch.nn.GELU(), torch.nn.Linear(8, 2), torch.nn.Softmax(-1)
    return torch.nn.Sequential(*layers).eval().requires_grad_(False)


def applied(make):
    def along(axis):
        f = make()
        return lambda x: xpapply.apply_along_axis(f, axis, x)

    return along


def compiled_of_several(axis):
    plan = xpapply.compile(lambda a, b: (a * b).sum() + b, ((12,), (12,)))
    return lambda x: plan(x.swapaxes(axis, -1), x.swapaxes(axis, -1)[:1] * 2)


CASES = {
    "std": applied(lambda: lambda v: v.std()),
    "numpy": applied(lambda: np.std),
    "scaled": applied(lambda: lambda v: abs(v) / (1 + abs(v).max())),
    "matrix": applied(lambda: lambda v: v[:, None] * v[:2]),
    "integers": lambda axis: lambda x: special.argmax_and_max(x, axis)[0],
    "MLP": applied(lambda: NET),
    "module": applied(module),
    "plan": lambda axis: lambda x: xpapply.compile(NET, (12,))(x, axis),
    "plan of several": compiled_of_several,
    "logsumexp": lambda axis: lambda x: special.logsumexp(x, axis),
    "mean_var": lambda axis: lambda x: special.mean_var(x, axis)[1],
    "softmax of special": lambda axis: lambda x: special.softmax(x, axis),
    "numbers": lambda axis: lambda x: special.norm(x, 3, axis),
    "two arrays": lambda axis: lambda x: special.logsumexp(x, axis, b=x[:1] ** 2),
    "elementwise": lambda axis: xpapply.elementwise(lambda x: x * np.exp(x) + 2),
}


def op_by_op(monkeypatch):
    for where in (array_api, bound_kernels, compiled):
        monkeypatch.setattr(where, "program", lambda run, like: run)
    cache.clear()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_program_gives_what_its_operations_give(jax, name, axis, monkeypatch):
    x = jax.numpy.asarray(np.moveaxis(X, -1, axis))
    got = CASES[name](axis)(x)
    op_by_op(monkeypatch)
    want = CASES[name](axis)(x)
    assert isinstance(got, jax.Array)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("name", CASES)
def test_it_is_compiled_once(jax, name, monkeypatch):
    cache.clear()
    evaluate, traced = array_api.evaluate, []
    monkeypatch.setattr(
        array_api, "evaluate", lambda *a, **k: traced.append(1) or evaluate(*a, **k)
    )
    call = CASES[name](2)
    x = jax.numpy.asarray(X)
    call(x)
    assert traced
    if name == "plan":  # which is made anew here
        return
    traced.clear()
    call(x + 1)
    call(jax.numpy.asarray(X))
    assert not traced


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_inside_and_around_transforms(jax, name, monkeypatch):
    call, x = CASES[name](2), jax.numpy.asarray(X)
    plain = call(x)
    np.testing.assert_allclose(jax.jit(call)(x), plain, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.jit(call)(x[:3]), call(x[:3]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(call(x[:3]), plain[:3], rtol=1e-5, atol=1e-6)
    both = jax.numpy.stack([x, 2 * x])
    np.testing.assert_allclose(jax.vmap(call)(both)[1], call(2 * x), rtol=1e-5, atol=1e-5)
    if name == "integers":
        return

    def derivatives():
        grad = jax.grad(lambda x: (call(x) ** 2).sum())
        along = jax.jvp(call, (x,), (x[::-1],))[1]
        return grad(x), jax.jit(grad)(x), along, jax.vmap(grad)(both)[1]

    found = derivatives()
    op_by_op(monkeypatch)
    for got, want in zip(found, derivatives(), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert abs(found[0]).max() > 0


def test_weights_that_change_are_noticed(jax):
    torch = pytest.importorskip("torch")
    net, x = module(), jax.numpy.asarray(X)
    before = xpapply.apply_along_axis(net, 2, x)
    with torch.no_grad():
        net[2].bias += 1
        net[0].weight *= 2
    after = xpapply.apply_along_axis(net, 2, x)
    np.testing.assert_allclose(after, net(torch.from_numpy(X)).numpy(), rtol=1e-5, atol=1e-6)
    assert abs(before - after).max() > 0.01


def test_explain_says_what_runs(jax):
    x = jax.numpy.asarray(X)
    for f in (NET, np.std):
        plan = xpapply.explain(f, 2, x)
        assert (plan.engine, plan.kernels) == ("array_api", (jitted.KERNEL,))
    plan = xpapply.explain(NET, 0, x[0, 0])
    assert plan.kernels == ("one array operation per node, in blocks of slices",)


def test_arrays_of_other_libraries_are_no_programs():
    def run(x):
        return x

    assert jitted.program(run, X) is run
