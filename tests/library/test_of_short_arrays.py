"""CuPy's functions of short arrays, as they run uncompiled: beside plainer ones."""

import numpy as np
import pytest

from xpapply.library import of_cupy
from xpapply.library.on_device import order, series, spectra

RNG = np.random.default_rng(11)
FLOAT64 = np.dtype("float64")


def numbers(n, special=True):
    x = RNG.standard_normal(n)
    if special and n:
        some = RNG.random(n) < 0.1
        x[some] = RNG.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], some.sum())
    return x


def in_pairs(x):
    """Each number is added to the one before it, then each pair to that before it."""
    x = np.concatenate([x, np.zeros(32 - len(x))])
    while len(x) > 1:
        x = x[::2] + x[1::2]
    return 0.0 + x[0]


def in_halves(x):
    """The second half is added to the first one, until one number is left."""
    x = np.concatenate([x, np.zeros(max(1, 1 << max(len(x) - 1, 0).bit_length()) - len(x))])
    while len(x) > 1:
        x = x[: len(x) // 2] + x[len(x) // 2 :]
    return 0.0 + x[0]


@pytest.mark.parametrize("n", range(33))
def test_a_tree_of_known_places_has_the_bits_of_pairs(n):
    for _ in range(20):
        for x in (numbers(n), numbers(n, special=False), np.full(n, -0.0)):
            for is_straight, defined in ((True, in_pairs), (False, in_halves)):
                with np.errstate(all="ignore"):
                    got, want = 0.0 + of_cupy.in_a_tree(x, is_straight, 0.0), defined(x)
                assert np.array_equal(got, want, equal_nan=True)
                assert np.isnan(got) or np.signbit(got) == np.signbit(want)


@pytest.mark.parametrize("n", [33, 64, 100, 256, 257, 300, 1000, 1024])
def test_longer_sums_are_of_warps(n):
    """Of 256 numbers each is the sum of those that lie 256 from each other."""
    for x in (numbers(n), numbers(n, special=False), np.full(n, -0.0)):
        with np.errstate(all="ignore"):
            some = np.zeros(min(n, 256))
            for k in range(0, n, 256):
                some[: n - k] += x[k : k + 256]
            want = 0.0
            for k in range(0, len(some), 32):
                want += in_pairs(some[k : k + 32])
            got = of_cupy.total(x, FLOAT64)
        assert np.array_equal(got, want, equal_nan=True)
    with pytest.raises(ValueError, match=r"^$"):
        of_cupy.total(x[::-1], FLOAT64)


@pytest.mark.parametrize("n", [0, 1, 2, 12, 31, 32, 33, 50])
def test_masks(n):
    for share in (0.0, 0.3, 0.5, 1.0):
        x, mask = numbers(n), RNG.random(n) < share
        assert np.array_equal(of_cupy.chosen(x, mask), x[mask], equal_nan=True)
    with pytest.raises(IndexError):
        of_cupy.chosen(numbers(n), np.ones(n + 1, bool))


def steps(bins, x, right):
    """What CuPy's kernel does, from its description: halves of an interval that it keeps."""
    n = len(bins)
    if np.isnan(x):
        return n if right else n - sum(1 for _ in trailing(bins))
    if n and (bins[-1] <= x if right else bins[-1] < x):
        return n
    low, high = 0, n - 1
    while low < high:
        middle = low + (high - low) // 2
        if bins[middle] <= x if right else bins[middle] < x:
            low = middle + 1
        else:
            high = middle
    return max(high, 0)


def trailing(bins):
    for y in bins[::-1]:
        if not np.isnan(y):
            return
        yield y


@pytest.mark.parametrize("n", [1, 2, 3, 12, 32, 40])
@pytest.mark.parametrize("right", [False, True])
def test_places_in_any_table(n, right):
    for k in range(60):
        table = np.round(numbers(n), 1)
        if k % 3 == 0:
            table.sort()
        x = np.concatenate([np.round(numbers(8), 1), table[:4], [np.nan, np.inf, -np.inf]])
        got = series.all_searched(table, x, right, np.dtype("int64"))
        assert got.tolist() == [steps(table, y, right) for y in x]
        if k % 3 == 0:
            assert got.tolist() == np.searchsorted(table, x, "right" if right else "left").tolist()


@pytest.mark.parametrize("bins", [1, 4, 16, 17, 30])
def test_bins(bins):
    x = np.concatenate([RNG.uniform(-3.2, 3.2, 30), np.linspace(-3, 3, bins + 1)])
    got = order.histogram(x, bins, -3.0, 3.0)
    want = np.histogram(x, got[1])
    assert np.array_equal(got[0], want[0])
    with pytest.raises(ValueError, match=r"^$"):
        order.histogram(np.append(x, np.nan), bins, -3.0, 3.0)


@pytest.mark.parametrize("n", range(1, 33))
def test_spectra(n):
    x = RNG.standard_normal(n)
    got, want = spectra.transformed(x, FLOAT64), np.fft.rfft(x)
    top = np.abs(want).max()
    assert np.abs(got.real - want.real).max() <= 1e-15 * max(top, 1) * 4
    assert np.abs(got.imag - want.imag).max() <= 1e-15 * max(top, 1) * 4
    assert np.allclose(spectra.sizes(*got, FLOAT64), np.abs(want), rtol=1e-13, atol=1e-14 * top)
    for odd in (np.nan, np.inf):
        x[n // 2] = odd
        with pytest.raises(ValueError, match=r"^$"):
            spectra.transformed(x, FLOAT64)


def test_sizes_of_the_largest_and_smallest_numbers():
    real = np.array([3e200, -3e-200, 0.0, 0.0, 5e-324, 1.0])
    imag = np.array([4e200, 4e-200, 0.0, -2e-300, 0.0, 1e-9])
    with np.errstate(all="ignore"):
        got = spectra.sizes(real, imag, FLOAT64)
    assert np.allclose(got, np.hypot(real, imag), rtol=1e-15, atol=0)
