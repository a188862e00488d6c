"""Functions that write to their slices: what NumPy's loop gives, leaves and raises."""

import warnings

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend

RNG = np.random.default_rng(2)

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]


def outcome(apply, f, axis, arr):
    """What a call gives or raises, what it warns of, and what the array is afterwards."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = apply(f, axis, arr)
        except Exception as error:
            found = np.array([repr(error)])
    return found, arr.copy(), {str(w.message) for w in said}


def same(a, b):
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def check(f, arr, axis=-1, engine="", compiled=True):
    """Compare with NumPy's loop, call after call: each finds what the last one has written."""
    mine, plain = arr.copy(), arr.copy()
    for _ in range(3):
        want, after, warned = outcome(np.apply_along_axis, f, axis, plain)
        with xpapply.options(engine=engine):
            got, mine_after, also = outcome(xpapply.apply_along_axis, f, axis, mine)
        assert same(want, got), (want, got)
        assert same(after, mine_after), np.argwhere(after != mine_after)
        assert warned == also
    if compiled:
        with xpapply.options(engine="cpu"):
            assert "one compiled loop" in xpapply.explain(f, axis, arr.copy()).kernels[0]


def clears(v):
    n = 0
    for k in range(len(v)):
        if v[k] < 0:
            v[k] = 0.0
            n += 1
    return n


def sums_up(v):
    for k in range(1, len(v)):
        v[k] += v[k - 1]
    return v


def sorts(v):
    for i in range(1, len(v)):
        x = v[i]
        j = i - 1
        while j >= 0 and v[j] > x:
            v[j + 1] = v[j]
            j -= 1
        v[j + 1] = x
    return v[0]


def by_parts(v):
    s = 0.0
    v[v < 0] = 0.0
    v[1:] -= v[:-1]
    rest = v[2:]
    rest[0] = 7.0
    for x in v:
        s += x
    v[:] = v[::-1]
    return s


def helped(v):
    def put(w, k, x):
        w[k] = x

    for k in range(len(v)):
        put(v, k, v[k] * 2)
    return v.sum()


def marked_late(v):
    s = 0.0
    for k in range(len(v)):
        v[k] = v[k] + 1
        s += 1.0 / v[k]
        v[k] *= 0.5
    return s


def raises_late(v):
    s = 0.0
    for k in range(len(v)):
        v[k] += 1
        s += 1.0 / float(v[k])
    return s


WRITE = [clears, sums_up, sorts, by_parts, helped, marked_late]


@pytest.mark.parametrize("f", WRITE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("engine", ["", "cpu"])
def test_as_the_loop(f, engine):
    arr = np.round(RNG.standard_normal((9, 5, 8)) * 4) / 4
    check(f, arr, engine=engine)
    check(f, arr, 0, engine=engine)
    check(f, arr.astype(np.float32), 1, engine=engine)
    check(f, (arr * 10).astype(np.int32), engine=engine, compiled=False)
    special = arr.copy()
    special[RNG.random(arr.shape) < 0.03] = np.nan
    special[RNG.random(arr.shape) < 0.03] = -1.0
    check(f, special, engine=engine)


@pytest.mark.parametrize("at", [0, 3, 11, 19])
@pytest.mark.parametrize("f", [marked_late, raises_late])
def test_a_slice_that_is_left_is_as_it_was(f, at):
    """Whatever had been written when it was left."""
    for k in range(6):
        arr = RNG.random((20, 6)) + 1
        arr[at, k] = -1.0
        arr[min(19, at + 4), k] = -1.0
        for engine in ("", "cpu"):
            check(f, arr, engine=engine)


def test_many_are_left():
    arr = np.where(RNG.random((40, 6)) < 0.2, -1.0, 2.0)
    check(marked_late, arr, compiled=False)


def test_arrays_that_are_written_elsewhere():
    base = np.arange(24.0)
    over = np.lib.stride_tricks.as_strided(base, (10, 6), (16, 8))
    other = np.lib.stride_tricks.as_strided(base.copy(), (10, 6), (16, 8))
    want = np.apply_along_axis(sums_up, 1, over)
    assert same(want, xpapply.apply_along_axis(sums_up, 1, other))
    assert same(np.array(over), np.array(other))

    fixed = np.broadcast_to(np.arange(6.0), (20, 6))
    with pytest.raises(ValueError, match="read-only"):
        xpapply.apply_along_axis(sums_up, 1, fixed)

    arr, plain = np.ones((20, 4)), np.ones((20, 4))

    def of(table):
        def neighbours(v):
            for k in range(len(v)):
                v[k] += table[3, k]
            return v[0]

        return neighbours

    want = np.apply_along_axis(of(plain), 1, plain)
    assert same(want, xpapply.apply_along_axis(of(arr), 1, arr))
    assert same(plain, arr)


def likeness(v, template, weights=None, *, scale=1.0):
    s = 0.0
    for k in range(len(v)):
        s += abs(v[k] - template[k]) * (1.0 if weights is None else weights[0][k])
    return s * scale


def test_array_arguments():
    arr, t = RNG.standard_normal((30, 8)), np.linspace(-1, 1, 8)
    before = t.copy()
    weights = (np.arange(8.0), None)
    large = np.linspace(0, 1, 40_000)[::2]

    def both(*args, **kwargs):
        want = np.apply_along_axis(likeness, 1, arr, *args, **kwargs)
        for _ in range(2):
            assert same(want, xpapply.apply_along_axis(likeness, 1, arr, *args, **kwargs))
        with xpapply.options(engine="cpu"):
            kernels = xpapply.explain(likeness, 1, arr, *args, **kwargs).kernels
        assert "one compiled loop" in kernels[0]

    both(t)
    both(t, scale=2.0)
    both(t, weights)
    both(template=t, weights=weights)
    t[3] = 7.0  # what was compiled for its content is not for this
    both(t)
    both(before)
    both(large)
    large[2] = -5.0
    both(large)


def test_an_argument_may_be_the_array():
    def adds(v, other):
        for k in range(len(v)):
            v[k] += other[0, k]
        return v[0]

    mine, plain = np.ones((20, 4)), np.ones((20, 4))
    want = np.apply_along_axis(adds, 1, plain, plain)
    assert same(want, xpapply.apply_along_axis(adds, 1, mine, mine))
    assert same(plain, mine)


def test_vectorize_gives_what_cannot_be_written():
    arr = np.ones((20, 3))
    of_rows = {"signature": "(n)->()"}
    want = outcome(lambda f, _, x: np.vectorize(f, **of_rows)(x), clears, 0, arr - 2)
    got = outcome(lambda f, _, x: xpapply.vectorize(f, **of_rows)(x), clears, 0, arr - 2)
    assert all(map(same, want[:2], got[:2]))


def flattened_part(v):
    w = v + 1
    some = w[::2].ravel()  # a copy
    whole = w.ravel()
    for k in range(len(some)):
        some[k] = 7
        whole[-1 - k] = 9
    return w.sum() + some.sum()


def flattened_slice(v):
    w = v.ravel()  # a copy, where the elements of a slice do not lie side by side
    for k in range(len(w)):
        w[k] = k
    return v.sum()


@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_flattened_may_be_a_copy(axis):
    check(flattened_part, RNG.standard_normal((40, 40)), axis)
    check(flattened_slice, RNG.standard_normal((40, 40)), axis, compiled=False)


def halved(v):
    for k in range(len(v)):
        v[k] *= 0.5
    return v @ v[::-1] + v @ v  # whose bits depend on how far elements are from each other


def told_strides(v):
    for k in range(len(v)):
        v[k] += v.strides[0]
    return v.strides[0]


PARTS = [
    lambda x: x, lambda x: x[:, ::3], lambda x: x[:, ::-1], lambda x: x[::-1, ::2],
    np.asfortranarray, lambda x: x[:, 3:90],
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("f", [halved, told_strides])
def test_slices_that_are_written_lie_as_the_array_does(f, axis, part):
    x = RNG.standard_normal((40, 96))
    mine, plain = part(x.copy()), part(x.copy())
    want = np.apply_along_axis(f, axis, plain)
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(f, axis, mine)
        assert "one compiled loop" in xpapply.explain(f, axis, mine).kernels[0]
    assert same(want, got)
    assert same(plain, mine)


def test_slices_that_lie_far_apart_are_looped_over():
    x = RNG.standard_normal((20, 30, 40))
    plain = x.copy()
    want = np.apply_along_axis(halved, 1, plain[:, :, 0])
    assert same(want, xpapply.apply_along_axis(halved, 1, x[:, :, 0]))
    assert same(plain, x)


@pytest.mark.parametrize("shape", [(300, 5), (3, 5)])
def test_arrays_in_files_are_written_once(tmp_path, shape):
    """Results are of the class of the first one, for which it is not called again."""

    def decays(v):
        s = 0.0
        for x in v:
            s = s * 0.5 + x
        v[0] = s + v[0]
        return s

    def doubles(v):
        for k in range(len(v)):
            v[k] *= 2
        return v

    for k, f in enumerate((decays, doubles)):
        mine = np.memmap(tmp_path / f"mine{k}", np.float64, "w+", shape=shape)
        plain = np.memmap(tmp_path / f"plain{k}", np.float64, "w+", shape=shape)
        mine[:] = plain[:] = RNG.normal(size=shape)
        for _ in range(4):
            want = np.apply_along_axis(f, -1, plain)
            got = xpapply.apply_along_axis(f, -1, mine)
            assert type(want) is type(got)
            assert np.array_equal(want, got)
            assert np.array_equal(plain, mine)
    with xpapply.options(engine="cpu"):
        assert "one compiled loop" in xpapply.explain(decays, -1, plain).kernels[0]
