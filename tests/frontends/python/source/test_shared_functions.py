"""Functions that several places call are written once, and do what they do where they stand."""

import math

import numpy as np
import pytest
from loop_functions import typed_function

from xpapply.backends.cpu import typed as backend
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.typed import kernel_of_lanes
from xpapply.errors import InputError
from xpapply.ir.typed import Instruction, Register
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.verify import verify
from xpapply.ir.typed.written_out import written_out
from xpapply.limits import LIMITS

V = np.linspace(-2.0, 3.0, 12)
LIMIT = 1.5


@pytest.fixture(autouse=True)
def _short_ones_as_well(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_shared", 5)


def _length(x, first):
    total = 0.0
    for i in range(first, len(x)):
        if x[i] > LIMIT:
            total += x[i] * x[i]
        else:
            total -= math.exp(x[i])
    return total


def of_numbers(v):
    return _length(v, 0) + 2 * _length(v[::2], 0) + _length(v[1:], 0)


def _turned(x, by):
    found = np.zeros(len(x))
    for i in range(len(x)):
        found[(i + by) % len(x)] = x[i]
    return found, float(found[0])


def of_arrays(v):
    a, first = _turned(v + 0.0, len(v) // 2)
    b, second = _turned(a, len(v) // 3)
    return a * b[::-1] + first - second


def _halved(x):
    rounds = 0
    while abs(x) > 0.01:
        x /= 2
        rounds += 1
    return rounds


def of_rounds(v):
    return _halved(v[0]) + _halved(v[1]) * _halved(v[2])


def _inner(x):
    if x < 0:
        return math.sqrt(x + 1.75)
    return math.sqrt(x)


def _outer(x):
    return _inner(x) + _inner(x - 0.25) + x


def of_each_other(v):
    return _outer(v[4]) + _outer(v[5])


def _product(a, b):
    if a.real > b.real:
        a, b = b, a
    return a * b + 1


def of_complex_numbers(v):
    z = complex(v[0], v[1])
    return _product(_product(z, z), z) + _product(z, complex(v[2], 1.0))


def of_closures(v):
    k = v[0] * 2

    def shifted(x, by=1.0):
        if x > k:
            return x + by
        return k - x

    return shifted(v[1]) + shifted(v[2]) + shifted(v[3], 2.0)


def _name_of(x):
    return "low" if x < 0 else "high" if x > 1 else "middle"


def of_texts(v):
    return (_name_of(v[0]) == _name_of(v[1])) + 2 * (_name_of(v[2]) == "high")


def _written(x, k):
    for i in range(len(x)):
        x[i] *= k
    return None


def of_what_is_written(v):
    a = np.zeros(len(v))
    a[:] = v
    _written(a, 2.0)
    _written(a[::3], 2.0)
    return a


def of_lists(v):
    def grown(x, n):
        made = []
        for i in range(n):
            made.append(x + i)
        return made[0] * made[n - 1]

    return grown(v[0], 3) + grown(v[1], 3) + grown(v[2], 3)


def _caught(x):
    try:
        return math.sqrt(x)
    except ValueError:
        return -1.0


def of_caught(v):
    return _caught(v[0]) + _caught(v[11]) + _caught(v[6])


SHARED = [
    of_numbers, of_arrays, of_rounds, of_each_other, of_complex_numbers, of_closures,
    of_what_is_written, of_lists, of_caught,
]  # fmt: skip


def _either(x):
    if x > 0:
        return x, 1
    return None


def of_other_results(v):
    a, b = _either(v[0]), _either(v[11])
    return (0 if a is None else a[1]) + (0 if b is None else b[0])


def around_a_handler(v):
    try:
        return _inner(v[0]) + _inner(v[11])
    except ValueError:
        return -7.0


def _listed(x, made):
    made.append(x)
    made.append(x * 2)
    return len(made)


def of_lists_given(v):
    made = []
    return _listed(v[0], made) + _listed(v[1], made) + made[2]


def quietly(v):
    with np.errstate(divide="ignore", invalid="ignore"):
        return _quotient(v[0], v[1]) + _quotient(v[2], v[3] - v[3])


def _quotient(a, b):
    if a > 100:
        return a
    return a / b


ALONE = [of_texts, of_other_results, around_a_handler, of_lists_given, quietly]


def same(made, f, slices, compiled):
    """Compare what the evaluator, compiled code and lanes give with the function, and their marks.

    Gives the marks.
    """
    verify(made)
    flat = written_out(made)
    verify(flat)
    assert not flat.functions
    shape, dtype = made.results[0], made.results[0].dtype
    marks = []
    for v in slices:
        size = np.shape(f(v)) if shape.ndim else ()
        outs = [np.zeros(size, dtype) for _ in range(2)]
        marks.append(evaluate(made, [v], [outs[0]]))
        assert evaluate(flat, [v], [outs[1]]) == marks[-1]
        if not marks[-1]:
            np.testing.assert_array_equal(outs[0], f(v))
            np.testing.assert_array_equal(outs[1], f(v))
    if compiled:
        out = np.zeros((len(slices), *size), dtype)
        found = backend.Compiled(made).run([slices], [out], 1)
        assert found.tolist() == marks
        for k in np.flatnonzero(found == 0):
            np.testing.assert_array_equal(out[k], f(slices[k]))
    return marks


@pytest.mark.parametrize("f", SHARED, ids=lambda f: f.__name__)
def test_what_is_called_often_is_a_function(f):
    made, _ = typed_function(f, V)
    runs = [x.what for x in made.instructions if x.op == "run"]
    assert made.functions
    assert all(runs.count(k) > 1 for k in range(len(made.functions)))
    assert "function 0: " in str(made)
    slices = np.random.default_rng(0).uniform(-1.5, 4, (9, 12))
    slices[3:, 0] = 0.25
    same(made, f, slices, backend.why_not() is None)


@pytest.mark.parametrize("f", ALONE, ids=lambda f: f.__name__)
def test_where_it_cannot_be_it_is_written_where_it_is_called(f):
    made, _ = typed_function(f, V)
    assert not any(x.op == "run" for x in made.instructions)
    slices = np.random.default_rng(0).uniform(0.5, 4, (5, 12))
    with np.errstate(all="ignore"):
        same(made, f, slices, backend.why_not() is None)


def test_short_functions_stay_where_they_are(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_shared", 60)
    assert not typed_function(of_each_other, V)[0].functions


def test_marks_within_leave_the_whole_slice_and_name_the_line():
    made, _ = typed_function(of_each_other, V)
    slices = np.full((3, 12), 0.5)
    slices[1, 5], slices[2, 4] = -1.6, -9.0
    marks = []
    for v in slices:
        marks.append(evaluate(made, [v], [np.zeros(())]))
    assert not marks[0]
    line = _inner.__code__.co_firstlineno + 2
    assert [made.marks[m - 1].line for m in marks[1:]] == [line, line]
    if backend.why_not() is None:
        assert backend.Compiled(made).run([slices], [np.zeros(3)], 1).tolist() == marks


def _of_the_middle(v):
    return np.median(v[:5]) + np.median(v[5:]) + np.median(v[3:7])


def test_lanes_have_it_written_out():
    made, _ = typed_function(of_numbers, V)
    text = kernel_of_lanes(made, TARGETS["AVX2"], 8, True)
    assert "@f0" not in text
    made, _ = typed_function(_of_the_middle, V)
    slices = np.random.default_rng(0).standard_normal((40, 12))
    if backend.why_not() is None:
        outs = [np.zeros(40) for _ in range(2)]
        compiled = backend.Compiled(made)
        for out, form in zip(outs, ("one", "lanes"), strict=True):
            assert not compiled.run([slices], [out], 1, form=form).any()
        np.testing.assert_array_equal(outs[0], outs[1])
        np.testing.assert_array_equal(outs[0], [_of_the_middle(v) for v in slices])


def test_what_is_wrong_with_running_one_is_said():
    def wrong(x, why, at=0):
        made, _ = typed_function(of_numbers, V)
        verify(made)
        made.blocks[0].instructions.insert(at, x)
        with pytest.raises(InputError, match=why):
            verify(made)

    wrong(Instruction("run", None, (), 99), "no such function")
    wrong(Instruction("run", None, (), 0), "takes other types")
    wrong(Instruction("given", Register(999, "float64"), (), 0), "nothing is given")
    made, _ = typed_function(of_numbers, V)
    made.functions[0].gives = ("int64",)
    with pytest.raises(InputError, match="another type"):
        verify(made)
    made, _ = typed_function(of_numbers, V)
    made.functions[0].functions.append(made)
    with pytest.raises(InputError, match="as one that is not"):
        verify(made)
