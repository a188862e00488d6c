"""One of several things by probabilities, and samples by a table of places."""

import numpy as np
import pytest
from outcomes import outcome

import xpapply
from xpapply.backends.cpu import typed as backend

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))

SLICES = np.random.default_rng(0).normal(size=(60, 20))
WEIGHTS = np.array([0.2, 0.3, 0.5])
CHAIN = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]])


def chain(v, r):
    state = total = 0
    for x in v:
        state = r.choice(3, p=CHAIN[state])
        total += state * x
    return total


def as_loop(f, slices=SLICES, kinds=(np.random.default_rng, np.random.RandomState)):
    """The loop's values, exceptions and states afterwards."""
    for kind in kinds:
        rng = kind(3)
        wanted, _ = outcome(lambda r=rng: np.apply_along_axis(f, -1, slices, r))
        after = rng.random()
        rng = kind(3)
        with xpapply.options(engine="" if isinstance(wanted, tuple) else "cpu"):
            found, _ = outcome(lambda r=rng: xpapply.apply_along_axis(f, -1, slices, r))
        if isinstance(wanted, tuple):
            assert found[0] == wanted[0]
        else:
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype
        assert rng.random() == after


@pytest.mark.parametrize(
    "f",
    [
        lambda v, r: r.choice(3, p=WEIGHTS),
        lambda v, r: r.choice(3, p=[0.2, 0.3, 0.5]) + v[0],
        lambda v, r: r.choice(v[:3], p=WEIGHTS),
        lambda v, r: r.choice(v[:3], p=v[:3]),
        lambda v, r: r.choice(2, p=WEIGHTS) + v[0],
        lambda v, r: r.choice(v[:2], p=WEIGHTS),
        chain,
    ],
)
def test_one_by_probabilities(f):
    as_loop(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda v, r: v[r.integers(0, len(v), (30, len(v)))].mean(axis=1).std(),
        lambda v, r: v[r.integers(0, len(v), (30, len(v)))].sum(axis=0),
        lambda v, r: v[r.integers(0, len(v), (30, len(v))).T].mean(axis=1).std(),
        lambda v, r: v[r.integers(0, len(v), (30, len(v)))[::-1]].sum(),
        lambda v, r: v[r.integers(-len(v), len(v), (5, 4))].sum(),
        lambda v, r: v[r.integers(0, len(v) + 1, (5, 4))].sum(),
        lambda v, r: v[r.integers(0, 3, (2, 3))],
    ],
)
def test_samples_by_a_table_of_places(f):
    for slices in (SLICES, np.asfortranarray(SLICES)):
        as_loop(f, slices, [np.random.default_rng])
