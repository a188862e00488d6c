"""Helpers with a cache: what they keep is what the loop's keep."""

import functools
import math

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS


def of_a_list():
    @functools.cache
    def table(k):
        return [0] * k

    def f(v):
        t = table(3)
        t[int(v[0]) % 3] += 1
        return t[0]

    return f, None


def of_an_array():
    @functools.cache
    def table(k):
        return np.zeros(k)

    def f(v):
        t = table(3)
        t[int(v[0]) % 3] += 1
        return t.copy()

    return f, None


def of_what_was_drawn():
    rng = np.random.default_rng(3)

    @functools.lru_cache
    def noise(k):
        return rng.normal()

    return lambda v: noise(int(v[0])) + v[1], None


def of_what_changes():
    scale = {"a": 1}

    @functools.cache
    def scaled(k):
        return k * scale["a"]

    def f(v):
        s = 0
        for x in v:
            s += scaled(int(x))
        return s

    return f, lambda: scale.update(a=scale["a"] + 1)


def of_what_a_helper_reads():
    gain = 1

    def helper(k):
        return k * gain

    @functools.cache
    def scaled(k):
        return helper(k)

    def change():
        nonlocal gain
        gain += 1

    return lambda v: scaled(int(v[0])), change


def of_a_private_name():
    __gain = 1

    @functools.cache
    def scaled(k):
        return k * __gain

    def change():
        nonlocal __gain
        __gain += 1

    return lambda v: scaled(int(v[0])), change


def of_signs():
    @functools.cache
    def sign(x):
        return math.copysign(1.0, x)

    return lambda v: sign(float(v[0] * 0.0)), None


def of_its_own_calls():
    @functools.cache
    def paths(k):
        return k if k < 2 else paths(k - 1) + paths(k - 2)

    return lambda v: paths(int(v[0])), None


def of_calls_in_turn():
    @functools.cache
    def even(k):
        return k if k < 2 else odd(k - 1) + odd(k - 2)

    @functools.cache
    def odd(k):
        return k if k < 2 else even(k - 1) + even(k - 2)

    return lambda v: even(int(v[0])), None


def of_windows():
    @functools.cache
    def window(k):
        return np.hanning(k)

    return lambda v: (v * window(len(v))).sum(), None


FUNCTIONS = [x for name, x in [*globals().items()] if name.startswith("of_")]


@pytest.mark.parametrize("make", FUNCTIONS)
@pytest.mark.parametrize("worth", [0.0, math.inf], ids=["source", "trace"])
@pytest.mark.usefixtures("plan_always")
def test_what_a_cache_keeps(make, worth):
    x = np.random.default_rng(0).integers(-4, 5, (200, 6))
    x[150, 0] = 60  # without the cache its own calls have no end
    want, got = make(), make()
    with LIMITS.set(typed_worth=worth):
        for _turn in range(3):
            y = xpapply.apply_along_axis(got[0], -1, x)
            np.testing.assert_array_equal(y, np.apply_along_axis(want[0], -1, x))
            for _, change in (want, got):
                if change is not None:
                    change()


def test_what_only_computes_is_kept_once():
    f, _ = of_windows()
    assert xpapply.explain(f, -1, np.ones((2000, 9))).vectorized
