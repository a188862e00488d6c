"""What the tests of guards have in common."""

import numpy as np

import xpapply

ARRAY = np.random.default_rng(0).uniform(0.5, 2.0, (1200, 4))


def follows(f, change, arr=ARRAY, *args):
    """The result follows the change of what `f` depends on."""
    before = np.apply_along_axis(f, -1, arr, *args)
    for _ in range(3):
        with xpapply.options(fallback="raise"):  # else there is nothing to notice
            got = xpapply.apply_along_axis(f, -1, arr, *args)
        np.testing.assert_allclose(got, before, rtol=1e-9)
    change()
    want = np.apply_along_axis(f, -1, arr, *args)
    assert want.shape != before.shape or not np.array_equal(want, before, equal_nan=True)
    for _ in range(2):
        with xpapply.options(fallback="silent"):
            got = xpapply.apply_along_axis(f, -1, arr, *args)
        np.testing.assert_allclose(got, want, rtol=1e-9)


class Base:
    k = 2.0

    def __call__(self, v):
        return v.sum() * self.k

    def __len__(self):
        return 1


QUIET = np.array([np.nan])

LOUD = QUIET.copy()

LOUD.view(np.uint64)[0] += 5  # another payload
