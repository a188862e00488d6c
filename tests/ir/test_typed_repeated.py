"""What a block computes or asks twice is done once; results and marks stay the same."""

import math

import numpy as np
import pytest
from loop_functions import typed_function

from xpapply.backends.cpu import typed as backend
from xpapply.frontends.python.source import typed as frontend
from xpapply.ir.typed import Literal
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.verify import verify

needs_cpu = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def kepler_step(v):
    x, y = float(v[0]), float(v[1])
    return x - (x - y * math.sin(x)) / (1 - y * math.cos(x))


def read_twice(v):
    i = int(v[0])
    return v[i] * 2 + v[i]


def divided_twice(v):
    return v[0] / v[1] + v[0] / v[1]


def written_between(v):
    x = float(v[0])
    y = x * 2.0
    x = y * 2.0
    return x * 2.0 + y


def written_to(v):
    a = v.copy()
    x = a[0] / a[1]
    a[0] = a[1]
    return x + a[0] / a[1]


def zeros_of_both_signs(v):
    x = float(v[0])
    return math.copysign(x, 0.0) + math.copysign(x, -0.0)


def of_two_types(v):
    n = int(v[0])
    return float(n) + np.float32(n)


def ignored_then_not(v):
    with np.errstate(all="ignore"):
        a = v[0] / v[1]
    return a + v[0] / v[1]


FUNCTIONS = [
    kepler_step, read_twice, divided_twice, written_between, written_to, zeros_of_both_signs,
    of_two_types, ignored_then_not,
]  # fmt: skip
VALUES = (0.0, -0.0, 1.0, 2.0, -1.0, -3.0, 3.0, 1e308, math.inf, -math.inf, math.nan)


def both(f, monkeypatch):
    """A typed function with and without its repetitions."""
    first = np.array([1.0, 2.0])
    with monkeypatch.context() as m:
        m.setattr(frontend, "done_once", lambda made: None)
        whole, _ = typed_function(f, first)
    once, _ = typed_function(f, first)
    verify(once)
    return whole, once


def count(made, op):
    return sum(x.op == op for x in made.instructions)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_and_marks_stay_the_same(f, monkeypatch):
    whole, once = both(f, monkeypatch)
    assert once.size <= whole.size
    for x in VALUES:
        for y in VALUES:
            v, outs = np.array([x, y]), [np.zeros(()), np.zeros(())]
            marks = [evaluate(m, [v], [o]) for m, o in zip((whole, once), outs, strict=True)]
            assert marks[0] == marks[1], (x, y)
            assert marks[0] or np.array_equal(*outs, equal_nan=True), (x, y)


@needs_cpu
@pytest.mark.parametrize("form", ["one", "lanes"])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_compiled_as_before(f, form, monkeypatch):
    v = np.array([(x, y) for x in VALUES for y in VALUES])
    found = []
    for made in both(f, monkeypatch):
        out = np.zeros(len(v))
        try:
            marks = backend.Compiled(made).run([v], [out], 1, form=form)
        except backend.UnsupportedError:
            pytest.skip("not side by side")
        found += [marks, np.where(marks, 0.0, out)]
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])


def test_what_is_finite_is_asked_once(monkeypatch):
    # else the cosine is one of other lanes, and shares nothing with the sine
    whole, once = both(kepler_step, monkeypatch)
    assert count(whole, "abs") == 2
    assert count(once, "abs") == 1
    assert count(once, "mark") == count(whole, "mark") - 1


def test_an_index_is_looked_at_once(monkeypatch):
    _, once = both(read_twice, monkeypatch)
    assert count(once, "select") == 1


def test_a_division_that_is_noted_is_done_once(monkeypatch):
    whole, once = both(divided_twice, monkeypatch)
    assert (count(whole, "div"), count(once, "div")) == (2, 1)


def test_an_element_that_was_written_is_read_again(monkeypatch):
    _, once = both(written_to, monkeypatch)
    assert count(once, "div") == 2


def test_what_counts_later_is_computed_again(monkeypatch):
    _, once = both(ignored_then_not, monkeypatch)
    assert count(once, "div") == 2
    out = np.zeros(())
    assert evaluate(once, [np.array([1.0, 0.0])], [out]) != 0


def test_zeros_of_two_signs_are_two_numbers(monkeypatch):
    _, once = both(zeros_of_both_signs, monkeypatch)
    found = [x.args[1] for x in once.instructions if x.op == "copysign"]
    assert found == [Literal(0.0, "float64"), Literal(-0.0, "float64")]
