"""Generators that a function spawns for each slice, as the loop has them."""

import numpy as np
import pytest
from outcomes import outcome

import xpapply
from xpapply.backends.cpu import typed as backend

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))

SLICES = np.random.default_rng(0).normal(size=(60, 20))


def pair(v, r):
    one, two = r.spawn(2)
    return one.normal() + two.random() * v[0]


def mixed(v, r):
    before = r.random()
    child = r.spawn(1)[0]
    return before + child.normal(size=3).sum() + r.normal()


def sometimes(v, r):
    if v[0] > 0:
        (child,) = r.spawn(1)
        return child.integers(0, 100) + v[1]
    return r.random()


def in_a_loop(v, r):
    total = 0.0
    for x in v:
        if x > 1:
            total += r.spawn(1)[0].random()
    return total


def raises(v, r):
    child = r.spawn(1)[0]
    if v[0] > 2.2:
        raise ValueError("large")
    return child.random()


def three(v, r):
    a, b, c = r.spawn(n_children=3)
    return np.array([a.random(), b.normal(), c.permutation(v)[0]])


FUNCTIONS = [
    lambda v, r: v.mean() + r.spawn(1)[0].normal(), pair, mixed, sometimes, in_a_loop, three,
]  # fmt: skip
SEEDS = [7, [1, 2**40, 3], 2**100 + 5, None]


def as_loop(f, make, engine="cpu"):
    rng = make()
    wanted, _ = outcome(lambda: np.apply_along_axis(f, -1, SLICES, rng))
    after = rng.bit_generator.seed_seq.n_children_spawned, rng.spawn(1)[0].random(), rng.random()
    rng = make()
    with xpapply.options(engine=engine):
        found, _ = outcome(lambda: xpapply.apply_along_axis(f, -1, SLICES, rng))
    if isinstance(wanted, tuple):
        assert found == wanted
    else:
        np.testing.assert_array_equal(found, wanted)
    now = rng.bit_generator.seed_seq.n_children_spawned, rng.spawn(1)[0].random(), rng.random()
    assert now == after


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_spawned(f, seed):
    entropy = np.random.SeedSequence(seed).entropy
    as_loop(f, lambda: np.random.default_rng(entropy))


def test_of_one_that_was_spawned_and_has_spawned():
    def make():
        rng = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(3, 2**33)))
        rng.spawn(4)
        return rng.spawn(2)[1]

    for f in FUNCTIONS:
        as_loop(f, make)


def test_what_it_raises():
    as_loop(raises, lambda: np.random.default_rng(7), engine="")


def test_another_generator_in_its_place():
    rng = np.random.default_rng(1)

    def f(v):
        return v[0] + rng.spawn(1)[0].normal()

    with xpapply.options(engine="cpu"):
        for seed in (1, 2, [3, 4]):
            rng = np.random.default_rng(seed)
            wanted = np.apply_along_axis(f, -1, SLICES)
            rng = np.random.default_rng(seed)
            np.testing.assert_array_equal(xpapply.apply_along_axis(f, -1, SLICES), wanted)
            assert rng.bit_generator.seed_seq.n_children_spawned == len(SLICES)


def test_a_generator_of_another_kind_in_its_place():
    rng = np.random.default_rng(1)

    def f(v):
        return v[0] + rng.spawn(1)[0].normal()

    for seed in (
        np.random.SeedSequence(3), np.random.SeedSequence(3, pool_size=8),
        np.random.SeedSequence([2**31] * 70),
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        wanted = np.apply_along_axis(f, -1, SLICES)
        rng = np.random.default_rng(np.random.SeedSequence(seed.entropy, pool_size=seed.pool_size))
        with xpapply.options(fallback="silent"):
            np.testing.assert_array_equal(xpapply.apply_along_axis(f, -1, SLICES), wanted)
        assert rng.bit_generator.seed_seq.n_children_spawned == len(SLICES)


def test_explain_spawns_nothing():
    rng = np.random.default_rng(1)
    assert xpapply.explain(FUNCTIONS[0], -1, SLICES, rng) is not None
    assert rng.bit_generator.seed_seq.n_children_spawned == 0


@pytest.mark.parametrize(
    ("make", "f"),
    [
        (lambda: np.random.Generator(np.random.MT19937(3)), FUNCTIONS[0]),
        (lambda: np.random.default_rng(3), lambda v, r: r.spawn(int(v[0] > 0) + 1)[0].random()),
        (lambda: np.random.default_rng(3), lambda v, r: r.spawn(5)[4].random()),
    ],
)
def test_what_the_loop_does(make, f):
    as_loop(f, make, engine="")
