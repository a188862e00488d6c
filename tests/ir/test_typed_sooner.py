"""Checks that are asked before ways part: what is marked stays the same."""

import copy

import numpy as np
import pytest
from loop_functions import typed_function

from xpapply.backends.cpu import typed as backend
from xpapply.frontends.python.source import typed as frontend
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.sooner import SELDOM, asked_sooner
from xpapply.ir.typed.verify import verify

LEAST, MOST = -(2**63), 2**63 - 1
needs_cpu = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def odd_or_even(v):
    n = int(v[0])
    return n // 2 if n % 2 == 0 else 3 * n + 1


def one_way(v):
    n = int(v[0])
    if n < 5:
        n -= 7
    return n


def negative(v):
    n = int(v[0])
    return 10 - 4 * n if n < 3 else n


def both_ways(v):
    n = int(v[0])
    return n + 3 if n > 0 else n - 3


def twice(v):
    n = int(v[0])
    return n + n - 1 if n != 12 else 0


SHORT = [odd_or_even, one_way, negative, both_ways, twice]


def of_two_names(v):
    n, m = int(v[0]), int(v[1])
    return n + m if n > 5 else 0


def squared(v):
    n = int(v[0])
    return n * n if n > 5 else 0


def far(v):
    n = int(v[0])
    return v[n + 1] if n > 5 else v[0]


OTHERS = [of_two_names, squared, far]


def moved(made):
    return [x for b in made.blocks for x in b.instructions if x.what == SELDOM]


def before(f, first, monkeypatch):
    """A typed function before that, with what is known left in."""
    with monkeypatch.context() as m:
        m.setattr(frontend, "decided", lambda made: None)
        m.setattr(frontend, "asked_sooner", lambda made: None)
        return typed_function(f, first)


def ends():
    """Integers near which sums leave 64 bits."""
    for x in (0, LEAST, MOST, LEAST // 2, MOST // 2, LEAST // 3, MOST // 3, LEAST // 4, MOST // 4):
        yield from (y for y in range(x - 9, x + 10) if LEAST <= y <= MOST)


@pytest.mark.parametrize("f", SHORT, ids=lambda f: f.__name__)
def test_the_same_slices_are_marked(f, monkeypatch):
    first = np.array([8, 8])
    whole, _ = before(f, first, monkeypatch)
    short = copy.deepcopy(whole)
    asked_sooner(short)
    verify(short)
    assert moved(short)
    assert not [x for b in short.blocks for x in b.instructions if x.op == "overflows"]
    outs = np.zeros((), np.int64), np.zeros((), np.int64)
    marked = 0
    for n in ends():
        v = np.array([n, 0])
        was, now = (
            evaluate(made, [v], [out]) for made, out in zip((whole, short), outs, strict=True)
        )
        assert was == now, n
        assert was or outs[0] == outs[1] == f(v), n
        marked += bool(was)
    assert marked


@pytest.mark.parametrize("f", OTHERS, ids=lambda f: f.__name__)
def test_what_is_not_of_one_number_stays_where_it_is(f, monkeypatch):
    whole, _ = before(f, np.array([8, 8, *[1] * 20]), monkeypatch)
    short = copy.deepcopy(whole)
    asked_sooner(short)
    assert str(short) == str(whole)


@needs_cpu
@pytest.mark.parametrize("form", [backend.ONE, backend.LANES])
@pytest.mark.parametrize("f", SHORT, ids=lambda f: f.__name__)
def test_compiled_it_marks_what_leaves_64_bits(f, form):
    arr = np.array([[n, 0] for n in ends()])
    made, (like,) = typed_function(f, np.array([8, 8]))
    out = np.zeros(len(arr), like.dtype)
    marks = backend.Compiled(made).run([arr], [out], 1, form=form)
    want = [f([int(n), 0]) for n, _ in arr]
    fits = np.array([LEAST <= x <= MOST for x in want])
    assert fits.any()
    assert not fits.all()
    said = [evaluate(made, [v], [np.zeros((), np.int64)]) for v in arr]
    np.testing.assert_array_equal(marks, said)
    assert not (~fits & (marks == 0)).any()
    assert (fits & (marks != 0)).sum() < 2  # of three times a number, before 1 is added
    assert out[marks == 0].tolist() == [x for x, m in zip(want, marks, strict=True) if not m]
