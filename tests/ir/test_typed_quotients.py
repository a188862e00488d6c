"""Python's quotients and remainders by numbers of the source, in fewer instructions."""

import numpy as np
import pytest
from fuzz import loops
from loop_functions import typed_function

from xpapply.backends.cpu import typed as backend
from xpapply.frontends.python.source import typed as frontend
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array, quotients
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.verify import verify

LEAST, MOST = -(2**63), 2**63 - 1
DIVISORS = (3, 7, 10, 100, 86_400, 2**31 - 1, 10**12 + 39, 2**62 + 1, MOST)
EXPRESSIONS = ("n // {0}", "n % {0}", "n // {0} + n % {0} // 5", "divmod(n, {0})[1]")
needs_cpu = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def dividends(by):
    near = (0, by, -by, 2 * by, 10 * by, -10 * by, LEAST, MOST, LEAST + by, MOST - by)
    found = {x + d for x in near for d in range(-3, 4)}
    return np.array(sorted(x for x in found if LEAST <= x <= MOST))


def made(expression):
    """A function of one integer, and its typed function."""
    f = loops.made(f"def f(v):\n    n = int(v[0])\n    return {expression}\n")
    return f, typed_function(f, np.array([8]))[0]


def ops(made):
    return [x.op for x in made.instructions]


@pytest.mark.parametrize("by", DIVISORS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_they_are_rounded_down(expression, by):
    f, short = made(expression.format(by))
    verify(short)
    assert "rem" not in ops(short)
    assert "select" not in ops(short)
    for n in dividends(by):
        out = np.zeros((), np.int64)
        assert evaluate(short, [np.array([n])], [out]) == 0
        assert out == f([int(n)]), n


@needs_cpu
@pytest.mark.parametrize("form", ["one", "lanes"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_compiled_they_are_as_well(expression, form):
    for by in DIVISORS[::3]:
        f, short = made(expression.format(by))
        v = dividends(by)[:, None]
        out = np.zeros(len(v), np.int64)
        assert not backend.Compiled(short).run([v], [out], 1, form=form).any()
        np.testing.assert_array_equal(out, [f([int(n)]) for n in v[:, 0]])


def test_one_quotient_serves_both():
    _, short = made("n // 100 + n % 100")
    assert ops(short).count("div") == 1


@pytest.mark.parametrize("expression", ["n // -7", "n % -7", "n // (n | 1)", "n % (n | 1)"])
def test_others_stay_as_they_are(expression):
    f, short = made(expression)
    assert "rem" in ops(short)
    for n in (-50, -49, -1, 0, 1, 48, 49, 50, LEAST, MOST):
        out = np.zeros((), np.int64)
        mark = evaluate(short, [np.array([n])], [out])
        assert mark or out == f([n]), n


def test_a_device_keeps_its_own(monkeypatch):
    seen = []
    monkeypatch.setattr(quotients, "rounded_down", seen.append)
    f = loops.made("def f(v):\n    return v[0] // 100\n")
    watch = Guards()
    watch.start(f)
    frontend.typed(f, [frontend.Input(0)], {}, [Array("int64", 1)], None, watch, "cupy")
    assert not seen
