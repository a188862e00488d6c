"""Functions of short slices, of any shape, as one kernel: what the loop gives, and its warnings."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpapply
from xpapply.frontends.python.run.rows import Rows
from xpapply.planning.python import python_functions
from xpapply.planning.python.applied import Along

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.usefixtures("by_trace")

W = np.array([[0.5, -1, 2], [1, 1, 1], [3, -2, 0.25]])
B = np.array([0.5, -0.25, 0])


def normal(v):
    n = np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    return v / n if n > 1 else v * 2


def side(v):
    return 1 if W[0] @ v + 0.5 > 0 else 0


def first_of_two(v):
    if v[0] > v[1]:
        return np.array([v[0], np.log(v[2])])
    return np.array([v[1], v[2] / v[0]])


def constant_or_not(v):
    if v.std() == 0:
        return np.zeros(2, v.dtype) * v[0]
    return np.stack([v.mean(), 1 / v.std()])


def rare(v):
    """A path that takes long, and few slices."""
    if v[0] > 2.5:
        return np.stack([np.exp(np.tanh(np.sin(v))).sum(), np.cosh(v[1])])
    if v[1] > v[0]:
        return np.stack([v[0] * 2, v[1]])
    return np.stack([np.log(np.abs(v) + 1).sum(), v[2]])


FUNCTIONS = {
    "rare": rare,
    "ratio": lambda v: (v[0] - v[1]) / (v[0] + v[1]),
    "stacked": lambda v: np.array([v[0] * v[1], v[2] - v[0], v[1] / v[2]]),
    "matrix": lambda v: W @ v,
    "layers": lambda v: np.tanh(W @ np.maximum(W @ v + B, 0)),
    "sigmoid": lambda v: 1 / (1 + np.exp(-(W @ v))),
    "distance": lambda v: np.sqrt(((v - B) ** 2).sum()),
    "form": lambda v: np.sqrt((v - B) @ (W.T @ W) @ (v - B)),
    "outer": lambda v: v[:, None] * v[None],
    "differences": lambda v: np.log(v[1:] / v[:-1]),
    "features": lambda v: np.array([1, v[0], v[1], v[0] * v[1], v[0] ** 2]),
    "comprehension": lambda v: sum(x * x for x in v) / len(v),
    "hidden element": lambda v: np.exp(v)[0],
    "of some": lambda v: np.sqrt(v[:2]).sum() + v[2],
    "share": lambda v: v[0] / v.sum(),
    "products": lambda v: np.stack([(W[0] * v).sum(), W[1] @ v]) / (W[2] @ v),
    "normal": normal,
    "side": side,
    "first of two": first_of_two,
    "constant or not": constant_or_not,
}
NUMBERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    3.5,
    1e-30,
    1e20,
    -3e38,
    1e200,
    np.inf,
    -np.inf,
    np.nan,
    100.0,
    0.1,
]


@pytest.fixture(autouse=True)
def compiled():
    with xpapply.options(engine="cpu", fallback="silent"):
        yield


def outcome(run, f, axis, x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = run(f, axis, x)
    return found, {(w.category, str(w.message)) for w in seen}


def compare(f, axis, x):
    want, warned = outcome(np.apply_along_axis, f, axis, x)
    for _ in range(3):  # the kernel is made anew with the paths that were found
        got, warns = outcome(xpapply.apply_along_axis, f, axis, x)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        eps = np.finfo(x.dtype).eps
        np.testing.assert_allclose(got, want, rtol=300 * eps, atol=300 * eps)
        assert warns == warned


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ordinary_slices(name, axis):
    f, shape = FUNCTIONS[name], [5, 70, 4]
    shape[axis] = 3
    x = np.random.default_rng(0).uniform(0.5, 3, shape)
    for y in (x, x.astype("f4"), np.asfortranarray(x), x[:, ::2]):
        if y.shape[axis] == 3:
            compare(f, axis, y)


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data())
@settings(max_examples=40)
def test_special_numbers(name, data):
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    rows = st.lists(st.sampled_from(NUMBERS), min_size=3, max_size=3)
    special = data.draw(st.lists(rows, min_size=1, max_size=6))
    many = data.draw(st.sampled_from([0, 3, 40]))
    with np.errstate(over="ignore"):
        x = np.array(special + [[1.5, 2.25, 3]] * many).astype(dtype)
    x = x[data.draw(st.permutations(range(len(x))))]
    if len(x) < 2:
        return
    f = FUNCTIONS[name]
    want, warned = outcome(np.apply_along_axis, f, 1, x)
    for _ in range(2):
        got, warns = outcome(xpapply.apply_along_axis, f, 1, x)
        eps = np.finfo(dtype).eps
        with np.errstate(all="ignore"):  # what cancels in products leaves what their order makes
            size = np.abs(np.where(np.isfinite(x), x, 0)).max(axis=1, initial=1).astype(float)
            room = np.minimum(300 * eps * size**2, 1e300).reshape(-1, *(1,) * (want.ndim - 1))
            near = np.abs(got.astype(float) - want) <= room
        alike = np.isclose(got, want, rtol=300 * eps, atol=0, equal_nan=True)
        assert (alike | near).all()
        assert warns == warned


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_run(name):
    """No slice of an ordinary array is left to NumPy's calls."""
    f = FUNCTIONS[name]
    x = np.random.default_rng(1).uniform(0.5, 3, (600, 3))
    x[::5] *= 0.1
    x[::2, 0] *= -1 if name in ("side", "ratio") else 1
    for _ in range(3):
        xpapply.apply_along_axis(f, 1, x)
    assert xpapply.explain(f, 1, x).engine == "cpu"
    traced = python_functions.decide(Along(f, 1, x, (), {})).traced
    call = traced.ways[0].call_for(Rows(x, 1))
    assert call is not None, traced.ways[0].why_not(None)
    _, marked = call.kernel(call, Rows(x, 1))
    # a power may be one of two numbers, where its 53 bits do not tell: C's library is asked then
    assert marked.mean() < (0.05 if name == "features" else 0.02)


def test_ties_are_left_to_numpy():
    """Products of whole numbers that are zero in one order, and not in another."""
    f = FUNCTIONS["side"]
    x = np.zeros((300, 3))
    x[:, 0] = np.arange(300) / 10 - 1
    x[:, 2] = -x[:, 0] / 4 - 0.25  # 0.5 a + 2 c + 0.5 is zero, or rounding
    x[::3] = np.random.default_rng(2).normal(size=(100, 3))
    want = np.apply_along_axis(f, 1, x)
    for _ in range(3):
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, x), want)


def test_it_takes_over_when_that_pays():
    """Until then NumPy's calls run, and `explain` says so."""
    weights = np.random.default_rng(3).normal(size=(3, 3))
    f = lambda v: np.cosh(weights @ v)[::-1] * v[0] - 3  # noqa: E731
    x = np.random.default_rng(4).normal(size=(5000, 3))
    want = np.apply_along_axis(f, 1, x)
    engines = []
    with xpapply.options(engine=""):
        for _ in range(60):
            engines.append(xpapply.explain(f, 1, x).engine)
            np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), want, rtol=1e-12)
    first = engines.index("cpu")
    assert engines == ["numpy"] * first + ["cpu"] * (60 - first)
    assert first > 0
