"""Choices in place of short branches: the same results and marks, by the definition."""

import dataclasses

import numpy as np
import pytest
from loop_functions import FUNCTIONS, typed_function

from xpapply.backends.cpu import typed as backend
from xpapply.backends.cpu.typed import LANES, ONE
from xpapply.ir.typed.chosen import with_choices
from xpapply.ir.typed.divergence import Divergence
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.function import WARNED, Block, Instruction, Literal, Register, Slot

RNG = np.random.default_rng(8)
FIRST = np.linspace(0.5, 2, 12)
needs_cpu = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def odd_or_even(v):
    n, steps = int(abs(v[0]) * 5) + 1, 0
    while n != 1 and steps < 30:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def one_way(v):
    top, at = v[0], 0
    for i in range(len(v)):
        if v[i] > top:
            top = v[i]
            at = i
    return at + top


def read_and_written(v):
    """A name that a way writes and reads again."""
    a, b = 1, 2
    for x in v:
        if x > 0:
            a = a + b
            b = a - b
        else:
            b = a
            a = b + 1
    return a * 100 + b


def ways_in_ways(v):
    n = 0
    for x in v:
        if x > 0:
            if x > 1:
                n += 2
            elif x > 0.5:
                n -= 1
        elif x < -1:
            n += 5
    return n


def marked(v):
    """A sum of one way leaves 64 bits."""
    n, m = 2**62, 0
    for x in v:
        if x > 2.5:
            m += n + int(x > 3) * n
        else:
            m = -m
    return m


def truths(v):
    was, n = False, 0
    for x in v:
        now = x > 0
        if now != was:
            n += 1
            was = now
    return n if was else -n


def pairs(v):
    z = 0j
    for x in v:
        z = z * 0.5 + x if x > 0 else z - 1j * x
    return z


def divides(v):
    """What may be noted is done only where it is asked for."""
    s = 0.0
    for x in v:
        s += 1 / x if x != 0 else 3.0
    return s


def turned_into(v):
    n = 0
    for x in v:
        n += int(x) if abs(x) < 1e6 else 7
    return n


SHORT = [odd_or_even, read_and_written, ways_in_ways, marked, truths]
OTHERS = [divides, turned_into, one_way, pairs]


def branches(blocks):
    return sum(b.instructions[-1].op == "branch" for b in blocks)


def slices():
    for _ in range(6):
        yield RNG.standard_normal(12)
    yield np.array([0.0, -0.0, np.nan, 1e300, -1e300, 5, -5, np.inf, -np.inf, 0.6, 1.2, 0])


@pytest.mark.parametrize("f", [*SHORT, *OTHERS, *FUNCTIONS], ids=lambda f: f.__name__)
def test_as_with_branches(f):
    made, parts = typed_function(f, FIRST)
    if any(x.op == "catch" for x in made.instructions):
        return
    other = dataclasses.replace(made, blocks=with_choices(made.blocks))
    assert branches(other.blocks) <= branches(made.blocks)
    for v in slices():
        outs = [[np.zeros(p.shape, p.dtype) for p in parts] for _ in range(2)]
        try:
            was = evaluate(made, [v.copy()], outs[0], 100_000)
        except RuntimeError:
            continue
        now = evaluate(other, [v.copy()], outs[1], 400_000)
        assert now in (was, WARNED)  # what the other way notes has the slice done again
        if not now:
            for a, b in zip(*outs, strict=True):
                np.testing.assert_array_equal(a, b)
                np.testing.assert_array_equal(np.signbit(a.real), np.signbit(b.real))


@pytest.mark.parametrize("f", SHORT, ids=lambda f: f.__name__)
def test_short_branches_are_gone(f):
    """Those of the loop's end are left, and of what `for` goes through."""
    made, _ = typed_function(f, FIRST)
    left = branches(with_choices(made.blocks))
    assert left <= 2 < 2 + branches(made.blocks) - left


@pytest.mark.parametrize("f", OTHERS, ids=lambda f: f.__name__)
def test_what_may_be_noted_or_takes_long_stays_in_its_branch(f):
    made, _ = typed_function(f, FIRST)
    ways = Divergence(made)
    asked = [b for b in ways.blocks if b.instructions[-1].op == "branch"]
    assert len(asked) > 1


@needs_cpu
@pytest.mark.parametrize("f", [*SHORT, *OTHERS], ids=lambda f: f.__name__)
def test_side_by_side(f):
    made, parts = typed_function(f, FIRST)
    compiled, found = backend.Compiled(made), []
    arr = np.array([*slices(), *RNG.standard_normal((61, 12)) * 2])
    for form in (ONE, LANES):
        outs = [np.zeros((len(arr), *p.shape), p.dtype) for p in parts]
        found.append((compiled.run([arr], outs, 1, form=form), outs))
    done = (found[0][0] == 0) & (found[1][0] == 0)
    assert done.sum() > 20
    assert (f is marked) <= bool(np.count_nonzero(found[1][0]))
    for a, b in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_array_equal(a[done], b[done])


def test_branches_become_short_in_any_order():
    """What is around a short branch is looked at again, though it was too long before."""
    n, k = Slot("n", "int64"), Slot("k", "int64")

    def block(*targets, asks=None, adds=0):
        code = [Instruction("load", Register(asks, "int64"), (), n)] if asks else []
        if asks:
            known = Register(asks + 1, "bool")
            code.append(Instruction("gt", known, (code[0].result, Literal(asks, "int64"))))
            return Block([*code, Instruction("branch", None, (known,))], targets)
        if adds:
            old, new = Register(90 + adds, "int64"), Register(190 + adds, "int64")
            code = [
                Instruction("load", old, (), k),
                Instruction("add", new, (old, Literal(adds, "int64"))),
                Instruction("store", None, (new,), k),
            ]
        return Block([*code, Instruction("jump", None, ())], targets)

    end = Block([Instruction("return", None, ())])
    # the outer branch is block 4, the inner one 1: entered last, or first
    inner_first = [block(4), block(2, 3, asks=50), block(3, adds=1), block(5, adds=2),
                   block(1, 5, asks=10), end]  # fmt: skip
    outer_first = [block(1), block(2, 5, asks=10), block(3, 4, asks=50), block(4, adds=1),
                   block(5, adds=2), end]  # fmt: skip
    for blocks in (inner_first, outer_first):
        assert branches(with_choices(blocks)) == 0
