"""Powers with small exponents: the C library's, bit for bit, though it is seldom called."""

import math

import numpy as np
import pytest
from loop_functions import for_others, machine_code, typed_function

from xpapply.backends.cpu import typed as backend
from xpapply.backends.cpu.typed import LANES, ONE
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.typed import kernel, kernel_of_lanes
from xpapply.runtime import c_library

RNG = np.random.default_rng(3)


def square(v):
    return math.fabs(v[0]) ** 2


def square_of_numpys(v):
    return v[0] ** 2


def cube(v):
    return v[0] ** 3 + v[1] ** 3


def fourth(v):
    return (v[0] ** 4, v[1] ** 4)[1]


def root(v):
    return v[0] ** 0.5


FUNCTIONS = [square, square_of_numpys, cube, fourth, root]


def numbers():
    """Of all sizes; beside the middle between two floats; none that are finite."""
    x = RNG.standard_normal(40_000) * np.exp2(RNG.integers(-80, 80, 40_000))
    whole = RNG.integers(1, 1 << 27, 4000) * 2.0**-20  # squares of 54 bits lie in the middle
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0**64, 2.0**-64, 1e300, 1e-300, 5e-324]
    x = np.concatenate([x, whole, ends, 2.0 ** np.arange(-70.0, 70.0)])
    return np.stack([x, RNG.permutation(x)], 1)


@pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_powers_are_those_of_the_library(f, monkeypatch):
    arr = numbers()
    found = []
    for near in (False, True):
        monkeypatch.setattr(c_library, "is_near", lambda near=near: near)
        for form in (ONE, LANES):
            made, _ = typed_function(f, np.ones(2))
            out = np.full(len(arr), 77.0)
            marks = backend.Compiled(made).run([arr], [out], 1, form=form)
            found.append((out, marks))
    out, marks = found[0]
    with np.errstate(all="ignore"):
        for k in np.flatnonzero(marks == 0)[::7]:
            np.testing.assert_array_equal(out[k], f(arr[k]))
    assert (marks == 0).mean() > 0.4
    for others, again in found[1:]:
        np.testing.assert_array_equal(marks, again)
        done = marks == 0
        np.testing.assert_array_equal(out[done], others[done])
        np.testing.assert_array_equal(np.signbit(out[done]), np.signbit(others[done]))


@for_others
def test_texts_compile_for_other_cpus(name):
    for f in FUNCTIONS:
        made, _ = typed_function(f, np.ones(2))
        one = kernel(made, TARGETS[name], near_libm=True)
        lanes = kernel_of_lanes(made, TARGETS[name], 8, True, near_libm=True)
        for text in (one, lanes):
            assert "llvm.fma" in text
            machine_code(text, name)


def test_without_fused_sums_the_library_is_called():
    made, _ = typed_function(square, np.ones(2))
    assert "llvm.fma" not in kernel(made, TARGETS["SSE2"], near_libm=True)
