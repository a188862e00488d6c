"""Elementwise functions and reductions of one's own on masked arrays: as numpy.ma has it."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import xpapply

RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(5, 7, 4))
MASKED = np.ma.masked_array(DATA, RNG.random(DATA.shape) < 0.3)
MASKED[2, :, 1] = np.ma.masked
HYPOT = xpapply.elementwise(lambda x, y: np.sqrt(x * x + y * y))
PARTS = xpapply.elementwise(lambda x: (np.sin(x), x > 0))

SUM = xpapply.reduction(None, lambda a, b: a + b, identity=0)
MAX = xpapply.reduction(None, np.maximum)
MEAN = xpapply.reduction(
    lambda x: (x, np.where(x == x, 1.0, 1.0)),
    lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lambda s: s[0] / s[1],
)
EXTENT = xpapply.reduction(
    lambda x: (x, x), lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1]))
)
DOT = xpapply.reduction(lambda x, y: x * y, lambda a, b: a + b, None, 0)
REDUCTIONS = {
    "sum": (SUM, np.ma.sum),
    "max": (MAX, np.ma.max),
    "mean": (MEAN, np.ma.mean),
    "count": (xpapply.reduction(lambda x: 1, lambda a, b: a + b), np.ma.count),
}


def same(found, want):
    assert isinstance(found, np.ma.MaskedArray)
    assert (found.shape, found.dtype) == (np.shape(want), np.asarray(want).dtype)
    mask = np.ma.getmaskarray(want)
    np.testing.assert_array_equal(np.ma.getmaskarray(found), mask)
    np.testing.assert_allclose(found.data[~mask], np.ma.getdata(want)[~mask], rtol=1e-12)


# --- functions of elements ----------------------------------------------------------------------


def test_elements_are_masked_where_an_argument_is():
    other = np.ma.masked_array(DATA[0], RNG.random(DATA[0].shape) < 0.5)
    for x, y in (
        (MASKED, 2.0),
        (MASKED, DATA[0]),
        (DATA, other),
        (MASKED, other),
        (np.float32(1), other),
        (MASKED[::-1, :, ::2], other[:, ::2]),
        (np.asfortranarray(MASKED), MASKED),
        (MASKED[0, 0, 0], MASKED),
        (np.ma.masked, DATA),
    ):
        same(HYPOT(x, y), np.ma.hypot(x, y))


def test_several_results():
    sines, positive = PARTS(MASKED)
    same(sines, np.ma.sin(MASKED))
    same(positive, np.ma.greater(MASKED, 0))


def test_without_a_mask():
    plain = np.ma.masked_array(DATA)
    found = HYPOT(plain, 1.0)
    assert isinstance(found, np.ma.MaskedArray)
    assert found.mask is np.ma.nomask
    np.testing.assert_array_equal(found.data, HYPOT(DATA, 1.0))
    assert SUM(plain, axis=1).mask is np.ma.nomask
    assert not isinstance(HYPOT(DATA, 1.0), np.ma.MaskedArray)  # plain ones as ever


def test_class_filling_and_hardness():
    class Named(np.ma.MaskedArray):
        pass

    m = np.ma.masked_equal([1.0, -9999.0], -9999.0).harden_mask()
    found = HYPOT(m, 1.0)
    assert found.hardmask
    assert found.filled().tolist() == [np.sqrt(2.0), -9999.0]
    assert type(HYPOT(MASKED.view(Named), 1.0)) is Named
    assert PARTS(m)[1].filled().dtype == bool
    found = HYPOT(MASKED, 1.0)
    found[...] = np.ma.masked  # a mask of its own
    assert not MASKED.mask.all()


def test_what_lies_under_the_mask_does_no_harm():
    x = DATA.copy()
    x[0, :3, 0] = np.nan, np.inf, -1e308
    m = np.ma.masked_array(x, ~(np.abs(x) < 1e300))
    zeros = np.ma.masked_array(m.filled(0.0), m.mask)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        same(HYPOT(m, 1.0), np.ma.sqrt(zeros * zeros + 1))
        same(MAX(m, axis=1), m.max(1))
        same(SUM(m, axis=1), m.sum(1))


def test_out():
    out = np.ma.masked_array(np.zeros(DATA.shape), True)
    assert HYPOT(MASKED, 1.0, out=out) is out
    same(out, HYPOT(MASKED, 1.0))
    out = np.ma.zeros((5, 4))
    assert SUM(MASKED, axis=1, out=out) is out
    same(out, MASKED.sum(1))
    for call in (
        lambda: HYPOT(MASKED, 1.0, out=np.zeros(DATA.shape)),
        lambda: SUM(MASKED, axis=1, out=np.zeros((5, 4))),
    ):
        with pytest.raises(TypeError, match="which has no mask: give a masked array, or fill"):
            call()
    with pytest.raises(xpapply.InputError, match="out has shape"):
        HYPOT(MASKED, 1.0, out=np.ma.zeros((1, *DATA.shape)))


def test_errors_of_other_kinds_stay():
    with pytest.raises(TypeError, match="got 1 arguments"):
        HYPOT(MASKED)
    with pytest.raises(TypeError, match="of dtype object"):
        HYPOT(MASKED.astype(object), 1.0)
    with pytest.raises(TypeError, match="of a MaskedArray: fill it"):
        xpapply.special.softmax(MASKED, 1)


# --- reductions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), None])
@pytest.mark.parametrize("keepdims", [False, True])
def test_masked_elements_are_left_out(name, axis, keepdims):
    ours, numpys = REDUCTIONS[name]
    want = numpys(MASKED, axis=axis, keepdims=keepdims)
    if name == "count":  # which gives zeros
        want = np.ma.masked_equal(want, 0)
    same(ours(MASKED, axis=axis, keepdims=keepdims), want)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float16", "float32", "complex64"])
def test_dtypes(dtype):
    m = np.ma.floor(np.ma.abs(MASKED) * 4).astype(dtype)
    add = xpapply.reduction(None, lambda a, b: a + b)
    same(add(m, axis=1), np.ma.masked_array(add(m.filled(0), axis=1), m.mask.all(1)))


def test_states_of_several_numbers():
    low, high = EXTENT(MASKED, axis=1)
    same(low, MASKED.min(1))
    same(high, MASKED.max(1))


def test_several_arguments():
    y = np.ma.masked_array(DATA[0], RNG.random(DATA[0].shape) < 0.3)
    same(DOT(MASKED, y, axis=1), (MASKED * y).sum(1))
    same(DOT(DATA, y, axis=1), (DATA * y).sum(1))


def test_slices_of_nothing():
    empty = np.ma.masked_array(np.zeros((3, 0)), np.zeros((3, 0), bool))
    assert SUM(empty, axis=1).mask.all()
    with pytest.raises(xpapply.InputError, match="slices of no elements"):
        MAX(empty, axis=1)
    assert SUM(np.ma.masked_array(DATA, True), axis=1).mask.all()


@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=3, max_side=5))
def test_any_shape_and_mask(data, shape):
    m = np.ma.masked_array(
        data.draw(hnp.arrays("int32", shape, elements=st.integers(-9, 9))),
        data.draw(hnp.arrays(bool, shape)),
    )
    axis = data.draw(st.sampled_from([None, *range(len(shape))]))
    same(MAX(m, axis=axis), np.ma.masked_array(m.max(axis), m.mask.all(axis), "int32"))
    same(HYPOT(m, 1), np.ma.hypot(m, 1))


# --- along an axis --------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["hypot", "parts", "sum", "max", "extent", "mean"])
def test_along_an_axis(name, axis):
    f, further = {
        "hypot": (HYPOT, (2.0,)),
        "parts": (PARTS, ()),
        "sum": (SUM, ()),
        "max": (MAX, ()),
        "extent": (EXTENT, ()),
        "mean": (MEAN, ()),
    }[name]
    for m in (MASKED, np.ma.masked_array(DATA), np.ma.masked_array(DATA, True)):
        with xpapply.options(engine="loop"):
            want = xpapply.apply_along_axis(f, axis, m, *further)
        assert xpapply.explain(f, axis, m, *further).engine == "slicewise"
        with xpapply.options(fallback="raise"):
            same(xpapply.apply_along_axis(f, axis, m, *further), want)
        if name not in ("parts", "extent"):  # of tuples NumPy makes plain arrays
            with xpapply.options(fallback="silent"):
                same(xpapply.apply_along_axis(lambda v: f(v, *further), axis, m), want)
