"""What a block needed is free as soon as it is done, not when the garbage collector runs."""

import gc

import numpy as np
import pytest

import xpapply
from conftest import library


def joined(v):
    return np.concatenate([v, v * 2])[::5].sum()


def stacked(v):
    return np.hstack([v, [v[0], v[1]]]).max()


def reversed_values(v):
    return np.roll(v, 2)[::-1].min()


def padded(v):
    return np.pad(v, 2).sum()


def decided(v):
    return np.stack([v, v]).sum() if v[0] > 0.5 else v[v > 0.2].sum()


def grids(v):
    return np.meshgrid(v, v)[0].sum()


def of_tensors(v):
    return (v[:, None] * v[None, :]).amax() if v[0] > 0.5 else v.sum()


def left_in_cycles(call):
    """How many arrays only the garbage collector frees after a call."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        call()
        gc.collect()
        found = [x for x in gc.garbage if type(x).__name__ in ("Batched", "ndarray", "Tensor")]
        held = [y for x in gc.garbage for y in gc.get_referents(x)]
        found += [x for x in held if type(x).__name__ in ("ndarray", "Tensor")]
        return len(found)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


FUNCTIONS = (joined, stacked, reversed_values, padded, decided, grids)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_arrays_of_blocks_are_in_no_cycle(f):
    arr = np.random.default_rng(0).uniform(0, 1, (500, 10))
    with xpapply.options(threads=1, fallback="raise"):
        xpapply.apply_along_axis(f, -1, arr)
        assert left_in_cycles(lambda: xpapply.apply_along_axis(f, -1, arr)) == 0


def test_tensors_of_blocks_are_in_no_cycle():
    arr = library("torch").from_numpy(np.random.default_rng(0).uniform(0, 1, (500, 10)))
    with xpapply.options(fallback="raise"):
        xpapply.apply_along_axis(of_tensors, -1, arr)
        assert left_in_cycles(lambda: xpapply.apply_along_axis(of_tensors, -1, arr)) == 0


def test_a_cycle_is_counted():
    def call():
        cycle = [np.ones(3)]
        cycle.append(cycle)

    assert left_in_cycles(call) == 1
