"""Integers of typed functions that only count: which sums are not checked, and that others are."""

import numpy as np
import pytest
from test_typed import typed_function

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.frontends.python.source.kinds.integers import OVERFLOWS
from xpapply.ir.typed import Block, Instruction, Literal, Register, Slot, TypedFunction
from xpapply.ir.typed.counters import unchecked

FIRST = np.arange(1, 21)
BIG = 2**62


def counts(v):
    best = n = 0
    for x in v:
        n = n + 1 if x > 3 else 0
        best = max(best, n)
    return best


def neighbours(v):
    found = 0
    for i in range(1, len(v) - 1):
        found += v[i - 1] < v[i] > v[i + 1]
    return found


def halves(v):
    low, high = 0, len(v)
    while low < high:
        middle = (low + high) // 2
        if v[middle] < 7:
            low = middle + 1
        else:
            high = middle
    return low


def remainders(v):
    n = 0
    for x in v:
        n += x % 5
    return n


@pytest.mark.parametrize("f", [counts, neighbours, halves, remainders], ids=lambda f: f.__name__)
def test_what_counts_is_not_checked(f):
    made, _ = typed_function(f, FIRST)
    assert not [x for b in made.blocks for x in b.instructions if x.op == "overflows"]


def by_powers_of_two(v):
    n = 0
    for x in v:
        n += x % 8
    return n + len(v) // 4


def test_remainders_and_quotients_of_powers_of_two_are_small():
    made, _ = typed_function(by_powers_of_two, FIRST)
    ops = [x.op for b in made.blocks for x in b.instructions]
    assert {"and", "shr"} <= {*ops}
    assert not {"rem", "div"} & {*ops}
    assert [x for b in made.blocks for x in b.instructions if x.op == "overflows"] == []


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_powers_of_two_divide_as_python_does(dtype):
    def f(v):
        out = np.empty((len(v), 6))
        for i, x in enumerate(v):
            out[i, 0], out[i, 1], out[i, 2] = x % 8, x // 8, x % 1
            out[i, 3], out[i, 4], out[i, 5] = x // 1, int(x) // 4, int(x) % 16
        return out

    info = np.iinfo(dtype)
    numbers = [info.min, info.min + 1, 0, 1, 7, 8, info.max]
    arr = np.array([[x, y] for x in numbers for y in (x, 3)] * 3, dtype)
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, arr))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_a_power_of_a_small_integer_is_as_small(dtype):
    def f(v):
        s = 0.0
        for x in v:
            s += float(np.power(x, 3) ** 2)
        return s

    arr = np.arange(-60, 60).reshape(30, 4).astype(dtype)
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, arr))


def adds(v):
    s = 0
    for x in v:
        s += x
    return s


def doubles(v):
    a, b = 1, 1
    for x in v:
        if x > 0:
            a, b = b, a + b
    return a


def twice(v):
    n = 1
    for x in v:
        if x > 0:
            n = n + n
    return n


def times(v):
    n = 1
    for x in v:
        n *= 2 if x > 0 else 1
    return n


def by_remainders(v):
    n = 0
    for x in v:
        n += x % 4_611_686_018_427_387_905
    return n


def goes_down(v):
    n, step = 0, 1
    for x in v:
        step = step * 3 if x > 0 else step
        n -= step
    return n


@pytest.mark.parametrize(
    "f", [adds, doubles, twice, times, by_remainders, goes_down], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("value", [1, BIG])
def test_what_grows_is_checked(f, value):
    """Each of them leaves 64 bits for some slices."""
    arr = np.full((30, 120), value)
    arr[::2] = -1
    arr[0] = 0
    made, _ = typed_function(f, arr[0])
    marks = [
        made.marks[x.what - 1].why for b in made.blocks for x in b.instructions if x.op == "mark"
    ]
    assert OVERFLOWS in marks
    if backend.why_not() is not None:
        pytest.skip(str(backend.why_not()))

    def called(along):
        try:
            return along(f, 1, arr).tolist()
        except OverflowError as error:
            return str(error)

    with np.errstate(all="ignore"), xpapply.options(engine="cpu"):
        assert called(xpapply.apply_along_axis) == called(np.apply_along_axis)


def _sum(*values):
    """A block that adds values of a slot that is a counter, and what is left of it."""
    slot = Slot("n", "int64")
    made = TypedFunction("f", ())
    block = Block([Instruction("store", None, (Literal(1, "int64"),), slot)])
    total = Literal(0, "int64")
    for k, value in enumerate(values):
        x = Register(3 * k, "int64")
        block.instructions.append(Instruction("load", x, (), slot))
        said = Instruction("overflows", Register(3 * k + 1, "bool"), (total, x), "add")
        block.instructions += [said, Instruction("mark", None, (said.result,), 1)]
        total_ = Register(3 * k + 2, "int64")
        block.instructions.append(Instruction("add", total_, (total, x)))
        block.instructions.append(Instruction("store", None, (Literal(value, "int64"),), slot))
        total = total_
    block.instructions.append(Instruction("return", None, ()))
    made.blocks.append(block)
    unchecked(made)
    return [x.op for x in made.blocks[0].instructions].count("overflows")


def test_sums_of_many_counters_are_checked():
    assert _sum(*[300] * 16) == 0
    assert _sum(*[300] * 18) > 0
    assert _sum(BIG) == 1


def test_checks_that_something_else_reads_become_no():
    made = TypedFunction("f", ())
    over, both = Register(0, "bool"), Register(1, "bool")
    one = Literal(1, "int64")
    made.blocks.append(
        Block(
            [
                Instruction("overflows", over, (one, one), "add"),
                Instruction("or", both, (over, over)),
                Instruction("mark", None, (both,), 1),
                Instruction("return", None, ()),
            ]
        )
    )
    unchecked(made)
    assert [x.op for x in made.blocks[0].instructions] == ["or", "mark", "return"]
    assert made.blocks[0].instructions[0].args == (Literal(False, "bool"),) * 2
