"""Calls of `vectorize` with a signature that run in NumPy's own loop, once they are known."""

import numpy as np
import pytest

import xpapply
from xpapply import originals

RNG = np.random.default_rng(0)
X, Y = RNG.random((3, 5)), RNG.random((4, 1, 5))


@pytest.fixture
def numpys(monkeypatch):
    """How many calls NumPy's own loop has run."""
    calls = []
    own = originals.call_vectorize

    def counting(made, *args, **kwargs):
        calls.append(made)
        return own(made, *args, **kwargs)

    monkeypatch.setattr(originals, "call_vectorize", counting)
    return calls


def both(f, signature, **how):
    return (make(f, signature=signature, **how) for make in (xpapply.vectorize, np.vectorize))


def test_few_slices_run_in_numpys_loop(numpys):
    f = lambda a, b: (a * b).sum()  # noqa: E731
    ours, theirs = both(f, "(n),(n)->()")
    for _ in range(4):
        np.testing.assert_array_equal(ours(X, Y[0]), theirs(X, Y[0]))
    assert len(numpys) == 3
    np.testing.assert_array_equal(ours(X, Y), theirs(X, Y))  # of other slices as well
    np.testing.assert_array_equal(ours(X[0], Y), theirs(X[0], Y))
    assert len(numpys) == 5


@pytest.mark.parametrize("otypes", [None, "f", [np.float32, int]])
def test_results_are_numpys(numpys, otypes):
    f = (lambda v: v.max() * 2) if otypes == "f" else (lambda v: (v.max(), 3))
    ours, theirs = both(f, "(n)->()" if otypes == "f" else "(n)->(),()", otypes=otypes)
    for _ in range(3):
        for got, want in zip(ours(X), theirs(X), strict=True):
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype
    assert numpys


def test_what_f_raises_is_told_with_its_place(numpys):
    def f(v):
        if v[0] > 7:
            raise ArithmeticError("too much")
        return v.sum()

    ours, _ = both(f, "(n)->()")
    for _ in range(3):
        ours(Y)
    assert numpys
    bad = Y.copy()
    bad[2, 0, 0] = 8
    with pytest.raises(ArithmeticError, match="too much") as caught:
        ours(bad)
    assert "raised at the index (2, 0)" in "".join(caught.value.__notes__)


def test_what_does_not_fit_is_told_as_before(numpys):
    ours, _ = both(lambda a, b: a @ b, "(n),(n)->()")
    for _ in range(3):
        ours(X, X)
    count = len(numpys)
    assert count
    for wrong in ((X, X[:, 1:]), (X, X[:2]), (X[0, 0], X)):
        with pytest.raises(ValueError, match=r"argument|operand|shape"):
            ours(*wrong)
    assert len(numpys) == count


@pytest.mark.parametrize(
    ("f", "signature"),
    [
        (lambda v: [v[0], v[1]], "(n)->(k)"),
        (lambda v: {"a": v[0]}, "(n)->()"),
        (lambda v: v[0], "(5)->()"),
        (lambda v: v[0], "(n?)->()"),
    ],
)
def test_what_numpys_loop_does_not_know_is_ours(numpys, f, signature):
    ours = xpapply.vectorize(f, signature=signature)
    first = ours(X)
    for _ in range(3):
        again = ours(X)
        assert type(again) is type(first)
    assert not numpys


def test_other_loops_are_asked_for_in_other_ways(numpys):
    ours, theirs = both(lambda v: v.max(), "(n)->()")
    for _ in range(2):
        ours(X)
    count = len(numpys)
    np.testing.assert_array_equal(ours(X.T, axis=0), theirs(X))
    out = np.empty(3)
    assert ours(X, out=out) is out
    with xpapply.options(engine="numpy"):
        np.testing.assert_array_equal(ours(X), theirs(X))
    masked = np.ma.masked_array(X, X > 0.9)
    ours(masked)
    assert len(numpys) == count
    ours.pyfunc = lambda v: v.min()
    np.testing.assert_array_equal(ours(X), X.min(-1))
