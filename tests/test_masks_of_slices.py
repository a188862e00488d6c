"""vectorize with `where`: slices that are not computed; masked arrays; NaN."""

import tracemalloc
import warnings

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS

X = np.random.default_rng(0).normal(size=(8, 9, 5))
MASK = np.random.default_rng(1).random((8, 9)) > 0.4


@pytest.fixture(autouse=True)
def quiet():
    with xpapply.options(fallback="silent"):
        yield


@pytest.fixture(params=[None, 3, 1])
def blocks(request, monkeypatch):
    """At most so many slices at once."""
    if request.param is not None:
        monkeypatch.setattr(LIMITS, "where_block", X.itemsize * 5 * request.param)
    return request.param


def both(v):
    return v.max() - v.min(), v - v.mean()


def only_text(v):
    return len(str(v[0])), v


@pytest.mark.parametrize("f", [both, only_text], ids=["at once", "loop"])
@pytest.mark.parametrize("mask", [MASK, MASK[:1], ~MASK[:, :1], np.array(True)], ids=str)
def test_where(f, mask, blocks):
    fill = -3
    first, second = xpapply.vectorize(f, signature="(n)->(),(n)")(X, where=mask, fill=fill)
    for index in np.ndindex(8, 9):
        a, b = f(X[index]) if np.broadcast_to(mask, (8, 9))[index] else (fill, fill)
        np.testing.assert_allclose(first[index], a, rtol=1e-12)
        np.testing.assert_allclose(second[index], np.broadcast_to(b, 5), rtol=1e-12)


def test_slices_that_are_not_chosen_are_not_computed(blocks):
    seen = []

    def f(v, w):
        seen.append(float(v[0]))
        return v.sum() + w

    got = xpapply.vectorize(f, signature="(n),()->()")(X, 1.0, where=MASK)
    assert seen == X[MASK][:, 0].tolist()
    assert np.isnan(got[~MASK]).all()


@pytest.mark.parametrize("otypes", [None, "i"])
@pytest.mark.parametrize("cache", [False, True])
def test_where_for_numbers(otypes, cache, blocks):
    calls = []

    def f(a, b):
        calls.append(a)
        return int(a * 10) if len(calls) == 1 else a * 10 + b

    x = X[..., 0]
    got = xpapply.vectorize(f, otypes=otypes, cache=cache)(x, 0, where=MASK, fill=-1)
    extra = otypes is None and not cache  # which tells the dtype
    assert len(calls) == MASK.sum() + extra
    assert got.dtype == (np.int32 if otypes else np.int64)
    want = np.array([int(a * 10) for a in x[MASK]])
    np.testing.assert_array_equal(got[MASK], want)
    assert (got[~MASK] == -1).all()


def test_the_first_result_fixes_the_dtype_of_all_blocks(blocks):
    first = X[MASK][0, 0]

    def f(v):
        return int(v[0]) if v[0] == first else v[0]

    got = xpapply.vectorize(f, signature="(n)->()")(X, where=MASK, fill=7)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got[MASK], X[MASK][:, 0].astype(int))


@pytest.mark.parametrize("how", ["raise", "fill", "warn"])
def test_errors_name_the_index_among_all(how, blocks):
    at = tuple(map(int, np.argwhere(MASK)[11]))

    def f(v):
        if v[0] == X[at][0]:
            raise ArithmeticError("no")
        return v[0]

    made = xpapply.vectorize(f, signature="(n)->()", on_error=how, fill=0)
    if how == "raise":
        with pytest.raises(ArithmeticError) as info:
            made(X, where=MASK)
        assert any(str(at) in note for note in info.value.__notes__)
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        got = made(X, where=MASK)
    assert got[at] == 0
    assert [str(at) in str(w.message) for w in told] == [True] * (how == "warn")


def test_results_of_blocks_must_agree(blocks):
    f = xpapply.vectorize(lambda v: v[v > 0], signature="(n)->(k)")
    with pytest.raises(ValueError, match=r"shape|dim"):
        f(X, where=MASK)


def test_out_keeps_what_is_not_computed(blocks):
    out = np.full((8, 9), 5.0)
    got = xpapply.vectorize(lambda v: v.sum(), signature="(n)->()")(X, where=MASK, out=out)
    assert got is out
    np.testing.assert_allclose(out, np.where(MASK, X.sum(-1), 5.0))


def test_memory_is_bounded():
    x, mask = np.ones((20_000, 512)), np.ones(20_000, bool)
    f = xpapply.vectorize(lambda v: v.max() - v.min(), signature="(n)->()")
    f(x[:2000], where=mask[:2000])
    before, LIMITS.where_block = LIMITS.where_block, 1 << 22
    tracemalloc.start()
    try:
        f(x, where=mask)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        LIMITS.where_block = before
    assert peak < x.nbytes / 4


# --- masked arrays --------------------------------------------------------------------------------


def as_numpys(f, *operands, **how):
    want, got = (make(f, **how)(*operands) for make in (np.vectorize, xpapply.vectorize))
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (want, got)), strict=True):
        assert (type(a), a.dtype, a.shape) == (type(b), b.dtype, b.shape)
        np.testing.assert_array_equal(np.ma.getmaskarray(b), np.ma.getmaskarray(a))
        np.testing.assert_array_equal(np.ma.filled(b, 0), np.ma.filled(a, 0))
    return got


PARTLY = np.ma.masked_greater(X, 1.5)


def test_masked_numbers():
    got = as_numpys(lambda a, b: a * b, PARTLY, X)
    assert isinstance(got, np.ma.MaskedArray)
    np.testing.assert_array_equal(got.mask, PARTLY.mask)


def test_masked_slices_come_as_such():
    as_numpys(lambda v: v.sum(), PARTLY, signature="(n)->()")
    as_numpys(lambda v, w: v * w, PARTLY, X[0, 0], signature="(n),(n)->(n)")
    as_numpys(lambda v: (v.min(), v - 1), PARTLY, signature="(n)->(),(n)")


@pytest.mark.parametrize("first", [False, True])
def test_what_is_masked_of_a_slice_is_masked_in_the_result(first):
    x = PARTLY.copy()
    x[(0, 0) if first else (2, 3)] = np.ma.masked
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = xpapply.vectorize(lambda v: v.sum(), signature="(n)->()")(x)
    want = np.ma.apply_along_axis(lambda v: v.sum(), -1, x)
    assert isinstance(got, np.ma.MaskedArray)
    np.testing.assert_array_equal(np.ma.getmaskarray(got), np.ma.getmaskarray(want))
    np.testing.assert_allclose(got.filled(0), want.filled(0))


def test_nan_is_a_number_like_any_other():
    x = X.copy()
    x[0, 0, 1] = x[3, 4] = np.nan
    f = xpapply.vectorize(lambda v: v.max(), signature="(n)->()")
    np.testing.assert_array_equal(f(x), x.max(-1))
    finite = ~np.isnan(x).any(-1)
    np.testing.assert_array_equal(f(x, where=finite), np.where(finite, x.max(-1), np.nan))
