"""What has no kernel on this CPU, or does not compile: another engine runs, and nothing is lost."""

import gc
import os
from dataclasses import replace

import numpy as np
import pytest
from thresholds import always_plan

import xpapply
from xpapply import special
from xpapply.functions import cache
from xpapply.ir.ops import OPS
from xpapply.limits import LIMITS

pytest.importorskip("llvmlite")

from xpapply.backends.cpu import compiler

X = np.random.default_rng(0).normal(size=(300, 12))
NET = xpapply.MLP([np.ones((12, 12)) / 9, np.ones((3, 12))], activation="tanh")


def plain(v):
    return np.tanh(v - v.mean())


def by_paths(v):
    return np.tanh(v) if v.max() > 1.5 else v / v.max()


doubled = xpapply.elementwise(lambda x: np.tanh(x) * 2)


def applied(f):
    return lambda x: xpapply.apply_along_axis(f, 1, x)


def kinds():
    """A call of each kind, and what it gives."""
    h = np.tanh(X @ NET.weights[0].T)
    return {
        "network": (applied(NET), h @ NET.weights[1].T),
        "function": (applied(plain), np.tanh(X - X.mean(1, keepdims=True))),
        "paths": (applied(by_paths), np.apply_along_axis(by_paths, 1, X)),
        "elementwise": (doubled, 2 * np.tanh(X)),
        "softmax": (lambda x: special.softmax(x, axis=1), special.softmax(X, axis=1)),
        "long": (
            lambda x: special.softmax(np.tile(x, (1, 3000)), axis=1)[:3],
            special.softmax(np.tile(X[:3], (1, 3000)), axis=1),
        ),
    }


EXPECTED = kinds()


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch):
    always_plan(monkeypatch)
    monkeypatch.setattr(LIMITS, "slices_compiling", 0.0)
    forget()
    with xpapply.options(fallback="raise"):
        yield
    cache.clear()


def forget():
    """Machine code that something still holds on to is not read again."""
    cache.clear()
    gc.collect()


def check(name):
    call, want = EXPECTED[name]
    for x in (X, X, np.asfortranarray(X)):
        np.testing.assert_allclose(call(x), want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_op_that_kernels_lack(name, monkeypatch):
    op = "exp" if name in ("softmax", "long") else "tanh"
    monkeypatch.setitem(OPS, op, replace(OPS[op], llvm=""))
    check(name)
    if name == "network":
        plan = xpapply.explain(NET, 1, X)
        assert plan.engine in ("torch", "numpy")
        assert f"cpu: {op} has no form for CPUs" in plan.reasons[0]


@pytest.mark.parametrize("name", EXPECTED)
def test_what_does_not_compile(name, monkeypatch):
    def broken(*_, **__):
        raise compiler.CompilerError("LLVM is out of sorts")

    monkeypatch.setattr(compiler, "compile", broken)
    check(name)
    if name == "function":
        plan = xpapply.explain(plain, 1, X)
        assert plan.engine == "numpy"
        assert "cpu: LLVM is out of sorts" in plan.reasons
    if name == "softmax":
        call = special.formulas.calls["softmax"].bound((X,), 1)
        assert call.engine == "numpy"
        assert "cpu: LLVM is out of sorts" in call.reasons


@pytest.mark.parametrize(
    "f",
    [
        lambda v: (v - v.mean()) * 2,
        lambda v: (v * v).sum() / (1 + v[0] * v[0]),
        lambda v: (v - v.sum()) * v.mean(),
    ],
)
@pytest.mark.parametrize("lib", ["torch", "a compiled plan"])
def test_tensors_go_to_another_engine(f, lib, torch, monkeypatch):
    def broken(*_, **__):
        raise compiler.CompilerError("LLVM is out of sorts")

    monkeypatch.setattr(compiler, "compile", broken)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(300, 6)))
    want = torch.stack([f(v) for v in x])
    with xpapply.options(fallback="raise"):
        if lib == "torch":
            assert xpapply.explain(f, 1, x).engine == "cpu"
            apply = xpapply.apply_along_axis
        else:
            plan = xpapply.compile(f, (6,), "float64")
            apply = lambda f, axis, x: plan(x, axis)  # noqa: E731
        for rows in (300, 300, 200):
            got = apply(f, 1, x[:rows])
            np.testing.assert_allclose(got.numpy(), want[:rows].numpy(), rtol=1e-12, atol=1e-13)
        if lib == "torch":
            plan = xpapply.explain(f, 1, x)
            assert plan.engine == "torch"
            assert "cpu: LLVM is out of sorts" in plan.reasons


@pytest.mark.skipif(os.name == "nt", reason="folders have no modes")
@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("state", ["no access", "a file", "damaged"])
def test_a_folder_of_no_use(name, state, monkeypatch, tmp_path):
    folder = tmp_path / "cache"
    if state == "a file":
        folder.write_text("")
    else:
        folder.mkdir(0o500 if state == "no access" else 0o700)
    monkeypatch.setenv("XPAPPLY_CACHE_DIR", str(folder))
    check(name)
    if state == "damaged":
        files = list(folder.glob("kernels/*"))
        assert files
        for file in files:
            code = bytearray(file.read_bytes())
            code[-1] ^= 1
            file.write_bytes(code)
        forget()
        check(name)
