"""How people call apply_along_axis: every idiom gives NumPy's result, and most need no loop."""

import copy
import random
import warnings
from collections import Counter

import numpy as np
import pytest

import xpapply
from benchmarks.idioms import IDIOMS, SHARES
from conftest import library

SLICES = 300
FEW = 40
"""For groups whose loops are slow."""

every_idiom = pytest.mark.parametrize("idiom", IDIOMS, ids=lambda i: i.name)
vectorizing = pytest.mark.parametrize(
    "idiom", [i for i in IDIOMS if i.vectorizes], ids=lambda i: i.name
)
by_hand = pytest.mark.parametrize("idiom", [i for i in IDIOMS if i.by_hand], ids=lambda i: i.name)


def made(idiom, seed=0):
    """The idiom's call; the same every time, and everything in it new."""
    for name in idiom.needs:
        library(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what libraries say while they are imported
        slices = FEW if idiom.group in ("models", "opaque") else SLICES
        return idiom.make(np.random.default_rng(seed), slices)


def outcome(idiom, apply, seed=0):
    """What a call gives and leaves behind, and of which categories it warns."""
    f, axis, arr, args, kwargs = made(idiom, seed)
    if apply is np.apply_along_axis and idiom.loop:
        f = idiom.loop(f)
    np.random.seed(0)
    random.seed(0)
    with warnings.catch_warnings(record=True) as caught, xpapply.options(fallback="silent"):
        warnings.simplefilter("always")
        result = apply(f, axis, arr, *args, **kwargs)
    categories = {w.category for w in caught} - {xpapply.FallbackWarning}
    state = {
        "numpy.random": np.random.get_state(legacy=False),
        "random": random.getstate(),
        "f": copy.deepcopy(idiom.state(f)) if idiom.state else None,
    }
    return result, arr, categories, state


def assert_close(got, want, rtol):
    """Within `rtol` of each number or of the largest; NaN is equal to NaN."""
    if not rtol:
        np.testing.assert_array_equal(got, want)
        return
    finite = np.abs(want[np.isfinite(want)])
    np.testing.assert_allclose(got, want, rtol, rtol * finite.max(initial=0))


@every_idiom
def test_result(idiom):
    want, left, expected, after = outcome(idiom, np.apply_along_axis)
    got, ours, caught, state = outcome(idiom, xpapply.apply_along_axis)
    assert type(got) is type(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert_close(got, want, idiom.rtol)
    np.testing.assert_array_equal(ours, left)  # f may write into its slice
    assert caught <= expected
    np.testing.assert_equal(state, after)


@vectorizing
def test_vectorizes(idiom):
    f, axis, arr, args, kwargs = made(idiom)
    plan = xpapply.explain(f, axis, arr, *args, **kwargs)
    assert plan.vectorized, plan


@pytest.mark.no_such_case(lambda idiom: idiom.group == "random")  # other results in each call
@every_idiom
def test_another_array(idiom):
    """A plan that was made for one array holds for the next one."""
    f, axis, arr, args, kwargs = made(idiom)
    other = made(idiom, seed=1)[2]
    loop = idiom.loop(f) if idiom.loop else f
    with warnings.catch_warnings(), xpapply.options(fallback="silent"):
        warnings.simplefilter("ignore")
        xpapply.apply_along_axis(f, axis, arr, *args, **kwargs)
        got = xpapply.apply_along_axis(f, axis, other.copy(), *args, **kwargs)
        want = np.apply_along_axis(loop, axis, other.copy(), *args, **kwargs)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert_close(got, want, idiom.rtol)


@by_hand
def test_by_hand(idiom):
    """What functions.py compares with is the same function."""
    f, axis, arr, args, kwargs = made(idiom)
    got = idiom.by_hand(f, arr)
    want = np.apply_along_axis(idiom.loop(f) if idiom.loop else f, axis, arr, *args, **kwargs)
    assert got.shape == want.shape
    assert_close(got, want, max(idiom.rtol, 1e-9))


def test_corpus_is_as_described():
    names = [i.name for i in IDIOMS]
    assert len(names) == len(set(names))
    assert len(names) >= 100
    counts = Counter(i.group for i in IDIOMS)
    assert set(counts) == set(SHARES)
    for group, share in SHARES.items():
        assert abs(100 * counts[group] / len(names) - share) <= 2, group
    assert sum(i.vectorizes for i in IDIOMS) >= 0.8 * len(names)


def test_every_make_is_new():
    for idiom in IDIOMS:
        if idiom.needs:
            continue
        (f, _, a, _, _), (_, _, b, _, _) = made(idiom), made(idiom)
        np.testing.assert_array_equal(a, b)
        assert not np.shares_memory(a, b)
        assert callable(f)
