"""Functions of several arrays as one kernel: what the plain loop gives, wherever these lie."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpapply

pytest.importorskip("llvmlite")

from xpapply.backends.cpu import slices

pytestmark = pytest.mark.usefixtures("by_trace")


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


def slope(x, y):
    u = x - x.mean()
    return (u * (y - y.mean())).sum() / (u * u).sum()


def pieces(a, b):
    return (a * b).sum() if a[0] < b[0] else (a - b).max()


def newton(x, y):
    for _ in range(4):
        x = x - (x * x - y) / (2 * x + 3)
    return x


def larger(a, b):
    return a - b if a > b else a + b


def logistic(x, k):
    return 1 / (1 + math.exp(-k * x))


def both(a, b):
    return a + b, a > b


GRID = np.array([-7.0, -2.5, -1.0, 0.0, 0.25, 3.0, 6.0, np.inf])
SLICES = {
    "correlation": (correlation, "(n),(n)->()"),
    "slope": (slope, "(n),(n)->()"),
    "weighted sum": (lambda v, w: (v * w).sum() / w.sum(), "(n),(n)->()"),
    "distance": (lambda a, b: np.sqrt(((a - b) ** 2).sum()), "(n),(n)->()"),
    "elementwise": (lambda a, b: np.where(a > b, a, b * 2), "(n),(n)->(n)"),
    "two ways": (pieces, "(n),(n)->()"),
    "scaled": (lambda v, s: v * s + 1, "(n),()->(n)"),
    "outer": (lambda a, b: np.outer(a, b), "(n),(m)->(n,m)"),
    "matrix times vector": (lambda a, v: a @ v, "(m,n),(n)->(m)"),
    "line": (lambda x, y: (slope(x, y), y - slope(x, y) * x), "(n),(n)->(),(n)"),
    "average": (lambda a, w: np.average(a, weights=w * w + 1), "(n),(n)->()"),
    "interp on own grids": (lambda x, v: np.interp(GRID, np.sort(x), v), "(n),(n)->(k)"),
    "interp on any grid": (lambda x, v: np.interp(GRID, x, v, left=-1.0), "(n),(n)->(k)"),
    "interp at own places": (lambda x, v, at: np.interp(at, x, v), "(n),(n),(m)->(m)"),
    "full correlation": (lambda a, b: np.correlate(a, b, "full"), "(n),(m)->(k)"),
    "same correlation": (lambda a, b: np.correlate(a, b, "same"), "(n),(m)->(k)"),
    "correlation of what is there": (np.correlate, "(n),(m)->(k)"),
    "convolution": (np.convolve, "(n),(m)->(k)"),
    "same convolution": (lambda a, b: np.convolve(a, b, "same"), "(n),(m)->(k)"),
    "interp": (lambda x, v: np.interp(1.5, np.cumsum(np.abs(x) + 1), v), "(n),(n)->()"),
}
NUMBERS = {
    "newton": newton,
    "larger": larger,
    "logistic": logistic,
    "both": both,
    "clamp": lambda x, y: min(max(x, -y), y),
    "floor": lambda x, y: x // (abs(y) + 1),
}
DTYPES = ("float64", "float32", "int32", "int16")


def drawn(data, rng, shape, dtype):
    """An array of that shape that lies in some way, with special values."""
    x = rng.integers(-6, 7, size=shape).astype(dtype)
    if x.dtype.kind == "f":
        x += rng.random(shape).astype(dtype) * data.draw(st.sampled_from([0, 1]))
        if data.draw(st.booleans()):
            x.flat[rng.integers(x.size, size=3)] = rng.choice([np.nan, np.inf, -0.0], 3)
    lies = data.draw(st.sampled_from(["C", "F", "reversed", "part"]))
    if lies == "F":
        return np.asfortranarray(x)
    if lies == "reversed":
        return np.flip(np.flip(x).copy())
    if lies == "part" and x.ndim:
        wide = np.empty((*x.shape[:-1], 2 * x.shape[-1]), dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    return x


def same(got, want):
    got, want = (y if isinstance(y, tuple) else (y,) for y in (got, want))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        eps = 1e-9 if b.dtype == np.float64 else 1e-4
        np.testing.assert_allclose(a, b, rtol=eps, atol=eps)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SLICES)
@settings(max_examples=max(8, settings().max_examples // 3))
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_slices(name, data, seed):
    f, signature = SLICES[name]
    rng = np.random.default_rng(seed)
    cores = [c.strip("()").split(",") for c in signature.partition("->")[0].split("),(")]
    sizes = {"n": data.draw(st.integers(2, 9)), "m": data.draw(st.integers(1, 4))}
    loops = [(5, 4), (4,), (5, 1), (), (5, 4)]
    given = []
    for core in cores:
        loop = data.draw(st.sampled_from(loops)) if given else (5, 4)
        shape = (*loop, *(sizes[d] for d in core if d))
        given.append(drawn(data, rng, shape, data.draw(st.sampled_from(DTYPES))))
    want = np.vectorize(f, signature=signature)(*given)
    with xpapply.options(engine="cpu"):
        try:
            got = xpapply.vectorize(f, signature=signature)(*given)
        except xpapply.UnsupportedError:
            got = want
    same(got, want)
    same(xpapply.vectorize(f, signature=signature)(*given), want)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", NUMBERS)
@settings(max_examples=max(8, settings().max_examples // 3))
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_numbers(name, data, seed):
    f, rng = NUMBERS[name], np.random.default_rng(seed)
    shapes = data.draw(st.sampled_from([[(6, 5), (6, 5)], [(6, 1), (5,)], [(6, 5), ()]]))
    given = [drawn(data, rng, s, data.draw(st.sampled_from(DTYPES))) for s in shapes]
    try:
        want = np.vectorize(f)(*given)
    except (ArithmeticError, ValueError) as error:
        with pytest.raises(type(error)):
            xpapply.vectorize(f)(*given)
        return
    for engine in ("", "cpu"):
        with xpapply.options(engine=engine):
            try:
                same(xpapply.vectorize(f)(*given), want)
            except xpapply.UnsupportedError:
                assert engine


KERNELS = [n for n in SLICES if n != "interp on any grid"]  # which is not sorted, mostly


@pytest.mark.parametrize("name", KERNELS)
def test_slices_are_one_kernel(name, decided):
    f, signature = SLICES[name]
    rng = np.random.default_rng(0)
    sizes = {"n": 6, "m": 3}
    cores = [c.strip("()").split(",") for c in signature.partition("->")[0].split("),(")]
    given = [rng.random((30, 20, *(sizes[d] for d in core if d))) for core in cores]
    assert ran(f, signature, given, decided)


@pytest.mark.parametrize("name", [n for n in NUMBERS if n != "floor"])
def test_numbers_are_one_kernel(name, decided):
    rng = np.random.default_rng(0)
    assert ran(NUMBERS[name], None, [rng.random((30, 20)) + 1, rng.random(20)], decided)


def test_numbers_of_several_dtypes_are_one_kernel(decided):
    given = [np.arange(-300, 300), np.linspace(1, 2, 600)]
    assert ran(NUMBERS["clamp"], None, given, decided)


def ran(f, signature, given, decided):
    """Whether a kernel ran."""
    with xpapply.options(engine="cpu"):
        for _ in range(2):
            xpapply.vectorize(f, signature=signature)(*given)
        traced, what = decided[-1][0].traced, decided[-1][1]
        call = traced.ways[0].call_for(what.rows())
    return call is not None and call.engine == "cpu"


def test_fresh_arrays_wait_no_longer_than_kept_ones(decided):
    """Whether compiling pays is asked of how arrays lie, not of where."""
    f = xpapply.vectorize(larger)
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(30):
        kept.append([rng.random(3000), rng.random(3000)])
        f(*kept[-1])
    assert ran(larger, None, kept[-1], decided)


def test_what_numpy_takes_longer_for_is_compiled_after_a_few_calls(monkeypatch):
    """Three calls of NumPy on 10 MB, a few of which take longer than compiling."""
    monkeypatch.setattr(slices, "is_compiled", lambda *_: False)  # nor kept from another process
    larger_or_minus = xpapply.vectorize(
        lambda a, b: np.where(a > b, a, -b), signature="(n),(n)->(n)"
    )
    given = np.random.default_rng(0).standard_normal((2, 20_000, 32))
    engines = []
    for _ in range(12):
        larger_or_minus(*given)
        engines.append(larger_or_minus.explain(*given).engine)
    assert engines[0] == "numpy"
    assert engines[-1] == "cpu"
