"""Calls of `vectorize` with a signature that run in the loop with no further look, once known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply import vectorized

RNG = np.random.default_rng(0)
X, Y = RNG.random((3, 5)), RNG.random((4, 1, 5))


@pytest.fixture
def straight(monkeypatch):
    """The calls that ran in the loop at once."""
    calls = []
    own = vectorized.of_slices

    def counting(*given):
        calls.append(given)
        return own(*given)

    monkeypatch.setattr(vectorized, "of_slices", counting)
    return calls


def both(f, signature, **how):
    return (make(f, signature=signature, **how) for make in (xpapply.vectorize, np.vectorize))


def test_few_slices_run_in_the_loop(straight):
    f = lambda a, b: (a * b).sum()  # noqa: E731
    ours, theirs = both(f, "(n),(n)->()")
    for _ in range(4):
        np.testing.assert_array_equal(ours(X, Y[0]), theirs(X, Y[0]))
    assert len(straight) == 3
    np.testing.assert_array_equal(ours(X, Y), theirs(X, Y))  # of other slices as well
    np.testing.assert_array_equal(ours(X[0], Y), theirs(X[0], Y))
    assert len(straight) == 5


@pytest.mark.parametrize("otypes", [None, "f", [np.float32, int]])
def test_results_are_numpys(straight, otypes):
    f = (lambda v: v.max() * 2) if otypes == "f" else (lambda v: (v.max(), 3))
    ours, theirs = both(f, "(n)->()" if otypes == "f" else "(n)->(),()", otypes=otypes)
    for _ in range(3):
        for got, want in zip(ours(X), theirs(X), strict=True):
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype
    assert straight


def test_what_f_raises_is_told_with_its_place(straight):
    def f(v):
        if v[0] > 7:
            raise ArithmeticError("too much")
        return v.sum()

    ours, _ = both(f, "(n)->()")
    for _ in range(3):
        ours(Y)
    assert straight
    bad = Y.copy()
    bad[2, 0, 0] = 8
    with pytest.raises(ArithmeticError, match="too much") as caught:
        ours(bad)
    assert "raised at the index (2, 0)" in "".join(caught.value.__notes__)


def test_what_does_not_fit_is_told_as_before(straight):
    ours, _ = both(lambda a, b: a @ b, "(n),(n)->()")
    for _ in range(3):
        ours(X, X)
    count = len(straight)
    assert count
    for wrong in ((X, X[:, 1:]), (X, X[:2]), (X[0, 0], X)):
        with pytest.raises(ValueError, match=r"argument|operand|shape"):
            ours(*wrong)
    assert len(straight) == count


@pytest.mark.parametrize(
    ("f", "signature", "want"),
    [
        (lambda v: [v[0], v[1]], "(n)->(k)", X[:, :2]),
        (lambda v: v[::-1] * 2, "(n)->(n)", X[:, ::-1] * 2),
        (lambda v: v[:3], "(5)->(3)", X[:, :3]),
    ],
)
def test_results_with_core_dims(straight, f, signature, want):
    ours = xpapply.vectorize(f, signature=signature)
    for _ in range(4):
        np.testing.assert_array_equal(ours(X), want)
    assert len(straight) == 3


def test_containers_are_taken_apart(straight):
    ours = xpapply.vectorize(lambda v: {"a": v[0]}, signature="(n)->()")
    for _ in range(4):
        np.testing.assert_array_equal(ours(X)["a"], X[:, 0])
    assert not straight


def test_results_of_other_shapes_are_told(straight):
    ours = xpapply.vectorize(lambda v: v[v > 0], signature="(n)->(k)")
    for _ in range(3):
        ours(X)
    assert straight
    with pytest.raises(ValueError, match="could not broadcast") as caught:
        ours(np.array([[1.0, 2, 5], [3, 4, -4]]))
    assert "at the index (1,) result 0 of f has the shape (2,)" in caught.value.__notes__[0]


def test_other_loops_are_asked_for_in_other_ways(straight):
    ours, theirs = both(lambda v: v.max(), "(n)->()")
    for _ in range(2):
        ours(X)
    count = len(straight)
    np.testing.assert_array_equal(ours(X.T, axis=0), theirs(X))
    out = np.empty(3)
    assert ours(X, out=out) is out
    with xpapply.options(engine="numpy"):
        np.testing.assert_array_equal(ours(X), theirs(X))
    masked = np.ma.masked_array(X, X > 0.9)
    ours(masked)
    assert len(straight) == count
    ours.pyfunc = lambda v: v.min()
    np.testing.assert_array_equal(ours(X), X.min(-1))


KINDS = [
    True, 1, 2**40, 2**63, 2**70, -1.5, 1j, "a", "abc", b"ab", None, (1, 2.0), (1, 2, 3), (), [1],
    np.float32(1), np.float64(1), np.int64(3), np.uint8(3), np.bool_(True), np.longdouble(1),
    np.str_("x"), np.datetime64(1, "D"), np.array(2.0), np.array(3, "f4"),
]  # fmt: skip


@given(st.lists(st.sampled_from(range(len(KINDS))), min_size=1, max_size=4), st.integers(1, 3))
def test_one_function_with_results_of_other_kinds_from_call_to_call(order, n):
    now = []

    def f(a):
        return KINDS[now[0]]

    ours, numpys, x = xpapply.vectorize(f), np.vectorize(f), np.arange(float(n))
    for k in order:
        now[:] = [k]
        got, want = (outcome(v, x) for v in (ours, numpys))
        assert type(got) is type(want)
        if isinstance(want, Exception):
            assert str(got) == str(want)
            continue
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def outcome(call, *args):
    """What a call gives or raises."""
    try:
        return call(*args)
    except Exception as error:
        return error
