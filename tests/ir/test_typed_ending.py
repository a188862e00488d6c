"""Loops that end by themselves have their rounds counted before them, on a GPU."""

import numpy as np
import pytest
import standin_cupy
from loop_functions import peaks_apart
from on_standin import made

from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.verify import verify


def backwards(v):
    n, i = 0, len(v) - 1
    while i >= 0:
        if v[i] > 0:
            n += i
        i -= 1
    return n


def escape(v):
    re, im, n = 0.0, 0.0, 0
    while n < 64 and re * re + im * im < 4.0:
        re, im = re * re - im * im + 0.5 * v[0], 2.0 * re * im + 0.5 * v[1]
        n += 1
    return n


def within_another(v):
    n, i = 0, 0
    while i < len(v):
        k = 0
        while k <= i:
            n += int(v[k] > v[i])
            k += 1
        i += 1
    return n


def stands(v):
    """A round may add nothing."""
    n, i = 0, 0
    while i < len(v):
        n += 1
        if v[i] > 0 or n > 40:
            i += 1
    return n


def goes_back(v):
    n, i = 0, 0
    while i < len(v):
        n += 1
        i += 2
        if n < 5:
            i -= 1
    return n


def moves_on(v):
    """Its bound comes along."""
    n, i, end = 0, 0, 3
    while i < end:
        i += 1
        if i < 9:
            end += 1
        n += 1
    return n


def counted_elsewhere(v):
    n, i = 0, 0
    while i < len(v):
        n += 1
        i = n + 1
    return n


def rounds(function):
    """Instructions that count rounds: in each round, and before loops."""
    asked = [x for x in function.instructions if x.op == "round"]
    return sum(not x.args for x in asked), sum(bool(x.args) for x in asked)


@pytest.mark.parametrize(
    ("f", "ends"),
    [(peaks_apart, (0, 1)), (backwards, (0, 1)), (escape, (1, 1)), (within_another, (0, 2))],
)
def test_rounds_are_counted_before(f, ends):
    """Where types change, the first round is no part of the loop."""
    check(f, ends)


@pytest.mark.parametrize("f", [stands, goes_back, moves_on, counted_elsewhere])
def test_others_are_counted_as_they_run(f):
    check(f, (1, 0))


def check(f, want):
    rng = np.random.default_rng(3)
    with standin_cupy.installed():
        function = made(f, "float64", [np.asarray(0)])
    verify(function)
    assert rounds(function) == want, function
    for n in (0, 1, 2, 3, 12):
        if f is escape and n < 2:
            continue
        v, out = rng.standard_normal(n), np.empty((), np.int64)
        assert evaluate(function, [v], [out]) == 0
        assert out == f(v)
