"""What `vectorize(...).explain` says before a call is what runs, and what comes out."""

import contextlib
import importlib
import math

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply.limits import LIMITS
from xpapply.planning import vectorized_call
from xpapply.planning.python.kernel_of_paths import KernelOfPaths
from xpapply.planning.python.one_launch import OneLaunch

FEW = LIMITS.few_slices
SIZES = (1, 2, FEW, FEW + 1, 3000)


def correlation(a, b):
    return ((a - a.mean()) * (b - b.mean())).sum() / len(a)


def chosen(a, b):
    return a[b > 0].sum() if a[0] > 0 else b.max()


FUNCTIONS = {
    "kernel": (correlation, "(n),(n)->()", True),
    "paths": (chosen, "(n),(n)->()", True),
    "two": (lambda a, b: (a.min(), a * b), "(n),(n)->(),(n)", True),
    "numbers": (lambda a, b: a - b if a > b else math.exp(-a), None, True),
    "numbers, two": (lambda a, b: (a + b, a > b), None, True),
    "loop": (lambda a, b: float(len(str(a.sum() + b[0]))), "(n),(n)->()", False),
    "numbers, loop": (lambda a, b: hash(str(a + b)) % 7, None, False),
    "wrong": (lambda a, b: a[:2] if a[0] < 9 else b, "(n),(n)->(k)", True),
}


@pytest.fixture
def ran(monkeypatch):
    """The ways that have run; the last of each call is the one."""
    seen = []

    def watch(owner, name, what):
        real = getattr(owner, name)

        def spy(*given, **more):
            seen.append(what)
            return real(*given, **more)

        monkeypatch.setattr(owner, name, spy)

    watch(vectorized_call, "of_numbers", "loop")
    watch(vectorized_call, "of_slices", "loop")
    watch(xpapply.vectorize, "_straight", "loop")
    with contextlib.suppress(ImportError):
        watch(importlib.import_module("xpapply.backends.cupy.typed").Compiled, "launched", "cupy")
    # further calls go straight to the last two
    places = [(KernelOfPaths, "__call__"), (OneLaunch, "__call__")]
    for owner, name in [*places, (KernelOfPaths, "_again"), (OneLaunch, "results")]:
        real = getattr(owner, name)

        def launched(self, call, *more, launch=real):
            seen.append(call.engine)
            return launch(self, call, *more)

        monkeypatch.setattr(owner, name, launched)
    return seen


def both(size):
    made = np.random.default_rng(size)
    return made.normal(size=(size, 5)), made.normal(size=5)


def said_and_ran(ran, f, given, **how):
    """The engine that `explain` names, and the one that runs; what it says of the results holds."""
    with xpapply.options(fallback="silent"):
        p = f.explain(*given, **how)
        ran.clear()
        found = f(*given, **how)
    on_host = f.signature is None or isinstance(given[0], np.ndarray)  # numbers are copied there
    own = "numpy" if on_host else type(given[0]).__module__.split(".")[0]
    if p.results is not None:
        several = isinstance(found, tuple)
        shapes = tuple(tuple(y.shape) for y in (found if several else (found,)))
        dtypes = tuple(str(y.dtype).rpartition(".")[2] for y in (found if several else (found,)))
        assert p.out_shape == (shapes if several else shapes[0])
        assert p.out_dtype == (dtypes if several else dtypes[0])
    return p.engine, ran[-1] if ran else own


@pytest.mark.parametrize("engine", ["", "numpy", "cpu", "loop"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_engines(name, engine, ran):
    """At the first call and at the next, around the number of slices from which blocks pay."""
    if engine == "cpu":
        pytest.importorskip("llvmlite")
    f, signature, _ = FUNCTIONS[name]
    made = xpapply.vectorize(f, signature=signature)
    for size in SIZES:
        for _ in range(3):
            with xpapply.options(engine=engine):
                try:
                    said, did = said_and_ran(ran, made, both(size))
                except xpapply.UnsupportedError:
                    with pytest.raises(xpapply.UnsupportedError):
                        made(*both(size))
                    continue
            assert said == did, f"{size} slices"


@pytest.mark.parametrize(
    "lib", ["torch", "array_api_strict", pytest.param("cupy", marks=pytest.mark.gpu)]
)
@pytest.mark.parametrize("name", ["kernel", "two", "numbers", "loop"])
def test_libraries(name, lib, ran):
    made = library(lib)
    f, signature, _ = FUNCTIONS[name]
    if lib == "array_api_strict":
        f = (lambda a, b: made.sum(a * b)) if signature else f
        signature = signature and "(n),(n)->()"
    f = xpapply.vectorize(f, signature=signature)
    for size in (1, FEW + 1, 500):
        for _ in range(2):
            said, did = said_and_ran(ran, f, tuple(map(made.asarray, both(size))))
            assert said == did, f"{size} slices"


@pytest.mark.parametrize(
    "how",
    [
        {"axis": 0},
        {"axis": -1, "keepdims": True},
        {"axes": [1, 0, ()]},
        {"where": np.arange(5) > 2, "axis": 0},
        {"dtype": "float32"},
        {"where": np.arange(300) % 7 == 0, "fill": 0},
    ],
    ids=str,
)
def test_keywords(how, ran):
    a = np.random.default_rng(0).normal(size=(300, 5))
    b = a[:, :1] if how.get("axis") == 0 else a[0]
    for name in ("kernel", "paths", "loop"):
        f, signature, _ = FUNCTIONS[name]
        said, did = said_and_ran(ran, xpapply.vectorize(f, signature=signature), (a, b), **how)
        assert said == did


def test_words():
    x, w = both(3000)
    f = xpapply.vectorize(correlation, signature="(n),(n)->()")
    with xpapply.options(engine="numpy"):
        p = f.explain(x, w)
    text = str(p)
    assert "correlation to slices float64[5], float64[5] of numpy arrays (3000, 5), (5,)" in text
    assert "(n),(n)->()" in text
    assert "float64[], 3,000 slices, out (3000,)" in text
    assert "numpy.mean (2x)" in text
    assert p.vectorized
    assert isinstance(p, type(f.explain(x, w)))
    said = p.to_dict()
    assert (said["slice"], said["slices"]) == ("float64[5], float64[5]", 3000)
    assert (said["out_shape"], said["signature"]) == ((3000,), "(n),(n)->()")
    g = xpapply.vectorize(FUNCTIONS["numbers, loop"][0])
    p = g.explain(x, w)
    assert not p.vectorized
    assert "str() of a value" in p.reasons[0]
    assert "Python's numbers float64[], float64[]" in str(p)
    assert "known once" in str(p)


def test_a_plan_is_called_with_arrays():
    x, w = both(3000)
    f = xpapply.vectorize(correlation, signature="(n),(n)->()")
    np.testing.assert_array_equal(f.explain(x, w)(x, w), f(x, w))
    p = f.explain(x.T, w, axis=0, keepdims=True)
    np.testing.assert_array_equal(p(x.T, w), f(x, w)[None])


def test_reasons():
    x, w = both(3000)
    plus = xpapply.vectorize(lambda a, b: a + b, cache=True)
    assert plus.explain(x, w).reasons == ("cache=True counts the calls of f",)
    plus = xpapply.vectorize(lambda a, b: a + b, on_error="fill")
    assert "on_error='fill'" in plus.explain(x, w).reasons[0]
    plus = xpapply.vectorize(lambda a, b: a + b)
    assert "single slice" in plus.explain(1.0, 2.0).reasons[0]
    assert "MaskedArray" in plus.explain(np.ma.array(x), w).reasons[0]
    with xpapply.options(engine="loop"):
        assert plus.explain(x, w).reasons == ("the loop was asked for",)


def test_what_a_call_raises_explain_raises():
    x, w = both(30)
    f = xpapply.vectorize(correlation, signature="(n),(n)->()")
    with pytest.raises(ValueError, match="inconsistent size"):
        f.explain(x, w[:3])
    with pytest.raises(TypeError, match="expected 2, got 1"):
        f.explain(x)
    with pytest.raises(xpapply.InputError, match="out has shape"):
        f.explain(x, w, out=np.zeros(3))
    out = np.zeros(30)
    f.explain(x, w, out=out)
    assert not out.any()


def test_a_plan_knows_that_it_was_given_up():
    """A function that is found to be unlike what was written down of it."""
    calls = []

    def f(a):
        return a[0] if a[0] < 2500 else a.reshape(1, -1)[0, 0] if a[1] < 0 else np.float32(a[0])

    made = xpapply.vectorize(f, signature="(n)->()")
    x = np.stack([np.arange(3000.0), np.ones(3000)], 1)
    p = made.explain(x)
    assert p.vectorized
    with xpapply.options(fallback="silent"):
        np.testing.assert_array_equal(made(x), x[:, 0])
    assert p.engine == made.explain(x).engine
    assert not calls


def test_functions_that_the_user_compiled(ran):
    numba = pytest.importorskip("numba")
    made = xpapply.vectorize(numba.njit(lambda a, b: a * b + 1.0))
    x, w = both(3000)
    p = made.explain(x, w)
    assert (p.engine, p.kernels) == ("numba", ("a compiled loop",))
    assert p.vectorized
    np.testing.assert_array_equal(made(x, w), x * w + 1)
    assert not ran


def test_a_network_of_chosen_slices():
    """What runs where `where` is true is what runs everywhere."""
    net = xpapply.MLP([np.ones((2, 8), np.float32)])
    x = np.random.default_rng(0).random((60, 50, 8), dtype=np.float32)
    f, where = xpapply.vectorize(net, signature="(n)->(k)"), x[..., 0] > 0.5
    plan = f.explain(x, where=where)
    assert plan.vectorized
    assert plan.reasons == f.explain(x).reasons
    y = f(x, where=where)
    np.testing.assert_allclose(y[where], xpapply.apply_along_axis(net, -1, x)[where])
