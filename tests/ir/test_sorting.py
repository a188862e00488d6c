"""Sorting networks."""

import itertools

import numpy as np

from xpapply.ir.slices import sorting


def test_every_number_of_numbers_is_sorted():
    for n in range(40):
        pairs = list(sorting.pairs(n))
        assert all(i < j < n for i, j in pairs)
        zeros = itertools.product([0, 1], repeat=n) if n < 11 else []
        random = np.random.default_rng(n).random((100, n)) < 0.5
        for row in [*zeros, *random]:  # Knuth's 0-1 principle
            found = list(row)
            for i, j in pairs:
                found[i], found[j] = min(found[i], found[j]), max(found[i], found[j])
            assert found == sorted(found)
