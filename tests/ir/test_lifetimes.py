"""Which new arrays and lists may take the memory of those before them."""

import numpy as np
import standin_cupy
from on_standin import made

from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.lifetimes import MADE, reused


def looked_at(f, v, result):
    """The numbers of arrays that are reused, and of all; the result where memory is taken again."""
    with standin_cupy.installed():
        function = made(f, "float64", [result])
    again = reused(function)
    out = np.empty_like(result)
    assert evaluate(function, [v.copy()], [out], gone=again) == 0
    return len(again), sum(x.op in MADE for x in function.instructions), out


V = np.array([1.0, 2.0, 4.0])


def test_what_a_round_makes_is_gone_in_the_next():
    def f(v):
        w, total = v.get(), 0.0
        for k in range(4):
            made = np.zeros(3)
            made[k % 3] = w[k % 3]
            total += float((made * 2.0)[k % 3])
        return total

    again, count, out = looked_at(f, V, np.zeros(()))
    assert again == count
    assert out == 16.0


def test_what_the_next_round_reads_is_not():
    def f(v):
        w = v.get()
        before = np.zeros(3)
        for _ in range(3):
            now = before * 2.0 + w
            before = now
        return before[2]

    again, count, out = looked_at(f, V, np.zeros(()))
    assert again < count
    assert out == 28.0


def test_nor_a_part_of_it():
    def f(v):
        w, kept = v.get(), v.get()[1:]
        for k in range(3):
            now = np.zeros(3)
            now[k % 3] = w[k]
            total = kept[0] + now[k % 3]
            kept = now[1:]
        return total + kept[1]

    again, count, out = looked_at(f, V, np.zeros(()))
    assert again < count
    assert out == 10.0


def test_lists():
    def f(v):
        w, total = v.get(), 0.0
        for k in range(3):
            some = [float(w[k]), 1.0]
            some.append(2.0)
            total += some[0] * some[2]
        return total

    again, count, out = looked_at(f, V, np.zeros(()))
    assert again == count
    assert out == 14.0


def test_lists_in_lists_stay():
    def f(v):
        w, rows = v.get(), []
        for k in range(3):
            row = [float(w[k])]
            row.append(1.0)
            rows.append(row)
        total = 0.0
        for row in rows:
            total += row[0] + row[1]
        return total

    again, count, out = looked_at(f, V, np.zeros(()))
    assert again < count
    assert out == 10.0


def test_an_operand_that_is_read_later():
    """A formula is computed where it is read: what it is of is not written over before."""

    def f(v):
        x = v.get()
        for _ in range(3):
            x = x[::-1] * 1.5 + x
        return x[0]

    w = V.copy()
    for _ in range(3):
        w = w[::-1] * 1.5 + w
    _, _, out = looked_at(f, V, np.zeros(()))
    assert out == w[0]


def test_functions_that_give_numbers_keep_nothing():
    def f(v):
        def size(x):
            most = 0.0
            for y in x:
                most = max(most, abs(float(y)))
            return most

        w, total = v.get(), 0.0
        for _ in range(3):
            now = np.zeros(3)
            now[1] = size(w)
            total += size(now)
        return total

    again, count, out = looked_at(f, V, np.zeros(()))
    assert again == count
    assert out == 12.0


def test_a_function_may_give_what_it_got():
    def f(v):
        def same(x):
            return x

        w = v.get()
        kept = w
        for k in range(3):
            now = np.zeros(3)
            now[1] = w[k]
            if k > 0:
                now[0] = kept[1]
            kept = same(now)
        return kept[0] + same(kept)[1]

    _, _, out = looked_at(f, V, np.zeros(()))
    assert out == 6.0
