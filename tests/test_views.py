"""Writing into an array that a library function gave back, or gave a view of: as the loop does."""

import numpy as np
import pytest

import xpapply

ARR = np.random.default_rng(0).random((300, 6))
GIVE_BACK = {
    "np.real": np.real,
    ".real": lambda a: a.real,
    "np.squeeze": np.squeeze,
    "np.atleast_1d": np.atleast_1d,
    "np.broadcast_arrays": lambda a: np.broadcast_arrays(a)[0],
    "np.ravel": np.ravel,
    "np.flip": np.flip,
    "np.transpose": np.transpose,
    "np.expand_dims": lambda a: np.expand_dims(a, 0)[0],
    "np.split": lambda a: np.split(a, 2)[0],
}


def write_into_the_result(g):
    def f(v):
        a = v * 2
        b = g(a)
        b[0] = 5.0
        return a.sum() + b.sum()

    return f


def write_into_the_argument(g):
    def f(v):
        a = v * 2
        a[1] = 3
        b = g(a)
        a[0] = 7.0
        return b.sum() * 10 + a.sum()

    return f


@pytest.mark.parametrize("make", [write_into_the_result, write_into_the_argument])
@pytest.mark.parametrize("name", GIVE_BACK)
def test_shared_memory_is_seen(name, make):
    """By the tracer, not by results that happen to differ on the slices that were compared."""
    f = make(GIVE_BACK[name])
    with xpapply.options(engine="numpy"):
        np.testing.assert_array_equal(
            xpapply.apply_along_axis(f, -1, ARR), np.apply_along_axis(f, -1, ARR)
        )


def test_a_write_below_parts_of_complex_numbers_is_refused():
    def f(v):
        a = v * 1j
        b = a.imag
        a[0] = 3j
        return b.sum()

    with xpapply.options(fallback="silent"):
        np.testing.assert_array_equal(
            xpapply.apply_along_axis(f, -1, ARR), np.apply_along_axis(f, -1, ARR)
        )
        (why,) = xpapply.explain(f, -1, ARR).reasons
    assert "it writes into an array while another view of it is held" in why


@pytest.mark.parametrize("g", [np.take, np.roll, np.sort, np.copy, np.abs, np.nan_to_num])
def test_copies_are_written_into(g):
    copied = {np.take: lambda a: np.take(a, np.arange(6)), np.roll: lambda a: np.roll(a, 1)}
    for make in (write_into_the_result, write_into_the_argument):
        f = make(copied.get(g, g))
        assert xpapply.explain(f, -1, ARR).vectorized
        np.testing.assert_array_equal(
            xpapply.apply_along_axis(f, -1, ARR), np.apply_along_axis(f, -1, ARR)
        )
