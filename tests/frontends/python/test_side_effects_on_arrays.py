"""Functions that write into arrays, their slice among them, do so as in the loop."""

import numpy as np
import pytest
from side_effects import run

import xpapply

pytestmark = pytest.mark.usefixtures("plan_always")


EFFECTS = {
    "array": """
        table = np.zeros(4)
        def f(v):
            table[0] += 1
            return v.sum()
        state = lambda: table
    """,
    "array in place": """
        import operator
        table = np.zeros(4)
        def f(v):
            t = table
            t += v
            return t.sum()
        state = lambda: table
    """,
    "array by out=": """
        table = np.zeros(4)
        def f(v): return np.add(v, 1, out=table).sum()
        state = lambda: table
    """,
    "array by a constant and out=": """
        table = np.zeros(4)
        def f(v):
            np.add(table, 1, out=table)
            return v.sum()
        state = lambda: table
    """,
    "array by np.add.at": """
        table = np.zeros(4)
        def f(v):
            np.add.at(table, [0, 0], 1)
            return v.sum()
        state = lambda: table
    """,
    "array by copyto": """
        table = np.zeros(4)
        def f(v):
            np.copyto(table, v)
            return v.sum()
        state = lambda: table
    """,
    "array by copyto of constants": """
        table = np.zeros(4)
        def f(v):
            np.copyto(table, table + 1)
            return v.sum()
        state = lambda: table
    """,
    "array by put": """
        table = np.zeros(4)
        def f(v):
            np.put(table, [0], table[0] + 1)
            return v.sum()
        state = lambda: table
    """,
    "array by fill": """
        table = np.zeros(4)
        def f(v):
            table.fill(table[0] + 1)
            return v.sum()
        state = lambda: table
    """,
    "array by sort": """
        table = np.arange(4.0)[::-1].copy()
        def f(v):
            table.sort()
            return v.sum() + table[0]
        state = lambda: table
    """,
    "array by flat": """
        table = np.zeros((2, 2))
        def f(v):
            table.flat[0] += 1
            return v.sum()
        state = lambda: table
    """,
    "array by a view": """
        table = np.zeros((2, 4))
        def f(v):
            row = table[1]
            row[:] = v
            return v.sum()
        state = lambda: table
    """,
    "array by a transposed view": """
        table = np.zeros((2, 4))
        def f(v):
            table.T[0] += 2
            return v.sum()
        state = lambda: table
    """,
    "array by reshape": """
        table = np.zeros((2, 4))
        def f(v):
            table.reshape(-1)[3] += 2
            return v.sum()
        state = lambda: table
    """,
    "array by memoryview": """
        table = np.zeros(4)
        def f(v):
            memoryview(table)[0] += 1.0
            return v.sum()
        state = lambda: table
    """,
    "array by ndarray.__setitem__": """
        table = np.zeros(4)
        def f(v):
            np.ndarray.__setitem__(table, 0, table[0] + 1)
            return v.sum()
        state = lambda: table
    """,
    "array in a list": """
        tables = [np.zeros(4)]
        def f(v):
            tables[0][1] += 1
            return v.sum()
        state = lambda: tables
    """,
    "array of an attribute": """
        class F:
            def __init__(self): self.total = np.zeros(4)
            def __call__(self, v):
                self.total[:] += v
                return v.sum()
        f = F()
        state = lambda: f.total
    """,
    "the slice": """
        def f(v):
            v[0] = v.max()
            return v.sum()
        state = lambda: None
    """,
    "the slice in place": """
        def f(v):
            v *= 2
            return v.sum()
        state = lambda: None
    """,
    "the slice by sort": """
        def f(v):
            v.sort()
            return v[0]
        state = lambda: None
    """,
    "the slice by a view": """
        def f(v):
            w = v[1:]
            w[...] = 0
            return v.sum()
        state = lambda: None
    """,
    "the slice by asarray": """
        def f(v):
            w = np.asarray(v)
            w[0] = 0
            return v.sum()
        state = lambda: None
    """,
    "the slice by out=": """
        def f(v):
            np.exp(v, out=v)
            return v.sum()
        state = lambda: None
    """,
}


@pytest.mark.parametrize("name", EFFECTS)
def test_side_effects_are_those_of_the_loop(name):
    want = run(EFFECTS[name], np.apply_along_axis)
    got = run(EFFECTS[name], xpapply.apply_along_axis)
    np.testing.assert_equal(got, want)
