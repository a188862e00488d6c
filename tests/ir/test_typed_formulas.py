"""Plain operations on whole arrays: computed where they are read, with NumPy's bits."""

import numpy as np
import pytest
from loop_functions import for_others, machine_code, typed_function
from typed_parity import marked

from xpapply.backends.cpu import externals
from xpapply.backends.cpu import typed as backend
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.typed import kernel

RNG = np.random.default_rng(11)
needs_compiler = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def formula(v):
    return -(0.5 * (v - v[0]) ** 2) + 1.5 / (v + 3.0) - (v * v - 2.0 * v)


def long_one(v):
    return ((v + 1.0) * (v + 2.0) + (v + 3.0) * (v + 4.0)) * ((v - 1.0) * (v - 2.0) - v)


def in_rounds(v):
    total, before = 0.0, v * 1.0
    for k in range(5):
        now = before * 0.5 + (v - float(k))
        total += float(now[0] - before[-1])
        before = now
    return before + total


def changed_between(v):
    w = v * 1.0
    a = w * 2.0
    w[0] = 5.0
    b = w + 1.0
    w += a
    return a - b + w


def overlapping(v):
    w = v * 1.0
    w[1:] -= w[:-1] * 0.5
    w[:-1] += w[1:] * 0.25
    w[2:] = w[:-2]
    w[:-2] = w[2:] - 1.0
    w *= w[::-1]
    w[::2] = w[::2] * 2.0
    w[:] = w[::-1]
    return w


def spread(v):
    return v[:1] * 2.0 + (v - v[1:2]) * v[-1:]


def of_unlike_lengths(v):
    return (v[: int(abs(v[0]))] + 1.0) * (v[:2] - 1.0)


def apart(v):
    return (v[::2] - 1.0) * v[::-2] + 2.0 * v[::2]


def helped(v):
    def moved(x, far):
        return (x - far) * far

    def size(x):
        most = 0.0
        for y in x:
            most = max(most, abs(float(y)))
        return most

    a = moved(v, size(v))
    for _ in range(3):
        a = moved(a, 0.5 / size(moved(a, 1.0)))
    return a + size(a * 2.0)


def rows(v):
    a = np.zeros((3, len(v)), v.dtype)
    for k in range(3):
        a[k] = (v - float(k)) / 3.0
    for k in range(2):
        a[k + 1] -= 0.5 * a[k]
        part = a[k, k:]
        part /= 2.0
        a[0, k:] += part
    return a[0] * a[1] + a[2]


def integers(v):
    n = np.arange(len(v))
    n[1:] = n[:-1]
    return v * 2.0 + n


FUNCTIONS = [
    formula, long_one, in_rounds, changed_between, overlapping, spread, apart, helped, rows,
    integers,
]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bits_are_those_of_the_loop(f, dtype):
    for n in (2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 40, 46):
        arr = RNG.standard_normal((12, n)).astype(dtype)
        assert marked(f, arr) == 0
    arr[RNG.random(arr.shape) < 0.02] = np.nan
    arr[RNG.random(arr.shape) < 0.02] = np.inf
    arr[RNG.random(arr.shape) < 0.1] = -0.0
    arr[RNG.random(arr.shape) < 0.02] = np.finfo(dtype).max
    marked(f, arr)


@needs_compiler
def test_lengths_that_do_not_fit_are_left_to_the_loop():
    arr = np.array([[1.5, 2.0, 3.0], [2.5, 1.0, 0.5], [3.5, 1.0, 0.5], [0.5, 1.0, 2.0]])
    made, _ = typed_function(of_unlike_lengths, arr[0])
    out = np.zeros((4, 2))
    marks = backend.Compiled(made).run([arr], [out], 1)
    assert (marks != 0).tolist() == [False, False, True, True]
    for k in (0, 1):
        np.testing.assert_array_equal(out[k], of_unlike_lengths(arr[k]))


@needs_compiler
def test_warnings_are_those_of_numpy():
    """Of lanes that are not there nothing is noted."""
    for n in (3, 8, 13):
        arr = np.full((6, n), 2.0)
        arr[1, -1] = -3.0  # a division by zero
        arr[2, 0] = 1e200  # whose square is infinite
        assert marked(formula, arr) == 0


@needs_compiler
def test_no_loop_of_numpys_is_called(monkeypatch):
    """In place of them stands one with other results."""
    address = externals.address
    wrong = ("ufunc", "copysign", "float64", "float64", "float64")

    def instead(*name):
        return address(*(wrong if len(name) == 5 and name[0] == "ufunc" else name))

    arr = RNG.standard_normal((5, 21))
    want = np.array([*map(formula, arr)])
    made, _ = typed_function(formula, arr[0])
    monkeypatch.setattr(externals, "address", instead)
    out = np.zeros_like(arr)
    assert not backend.Compiled(made).run([arr], [out], 1).any()
    np.testing.assert_array_equal(out, want)


@for_others
def test_texts_of_formulas_compile_for_other_cpus(name):
    for f in (formula, rows):
        made, _ = typed_function(f, np.ones(8))
        text = kernel(made, TARGETS[name], side_by_side=True)
        assert "@formula.float64." in text
        machine_code(text, name)
