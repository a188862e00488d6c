"""Looks at a function run no code of the user's: descriptors, metaclasses, hashes."""

import math

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS


class Counted:
    """A descriptor that counts how often it was asked."""

    def __init__(self):
        self.count = 0

    def __get__(self, x, cls):
        self.count += 1
        return self.count


def of_a_descriptor():
    class Held:
        k = Counted()

        def run(self, v):
            return v[0] + self.k

    return Held().run, lambda: vars(Held)["k"].count


def of_a_class_of_a_class():
    class Meta(type):
        count = 0

        @property
        def k(cls):
            Meta.count += 1
            return Meta.count

    class Held(metaclass=Meta):
        k = 2.0

        def run(self, v):
            return v[0] + self.k

    return Held().run, lambda: Meta.count


def of_names_that_are_not_there():
    class Held:
        def __init__(self):
            self.asked = []

        def __getattr__(self, name):
            if name.startswith("__array_"):
                self.asked.append(name)
            if name == "k":
                return 2.0
            raise AttributeError(name)

    held = Held()
    return lambda v: v[0] * held.k, lambda: held.asked


def of_a_hash():
    class Held:
        count = 0

        def __hash__(self):
            Held.count += 1
            return 1

        def __eq__(self, other):
            Held.count += 1
            return True

        def __call__(self, v):
            return v.sum()

    return Held(), lambda: Held.count


@pytest.mark.parametrize(
    "make", [of_a_descriptor, of_a_class_of_a_class, of_names_that_are_not_there, of_a_hash]
)
@pytest.mark.parametrize("worth", [0.0, math.inf], ids=["source", "trace"])
@pytest.mark.usefixtures("plan_always")
def test_code_that_a_look_would_run(make, worth):
    x = np.random.default_rng(0).normal(size=(200, 6))
    want, got = make(), make()
    with LIMITS.set(typed_worth=worth):
        for _turn in range(2):
            y = xpapply.apply_along_axis(got[0], -1, x)
            np.testing.assert_array_equal(y, np.apply_along_axis(want[0], -1, x))
            assert got[1]() == want[1]()
