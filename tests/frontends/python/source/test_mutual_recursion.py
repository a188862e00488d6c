"""Functions that call each other in turn, compiled, against Python."""

import numpy as np
import pytest
from fuzz import loops

HEAD = """def even(n):
    return True if n <= 0 else odd(n - 1)


def odd(n):
    return False if n <= 0 else even(n - 1)


def female(n):
    return 1 if n <= 0 else n - male(female(n - 1))


def male(n):
    return 0 if n <= 0 else n - female(male(n - 1))


def terms(v, k, depth):
    s = 0.0
    while k < len(v) and depth < 4:
        if v[k] > 2:
            x, k = within(v, k + 1, depth + 1)
            s = s - x * 0.5
        elif v[k] < -3:
            return s, k + 1
        else:
            s = s * 0.5 + v[k]
            k += 1
    return s, k


def within(v, k, depth):
    first = v[k] if k < len(v) else 1.0
    x, k = terms(v, k + 1, depth + 1)
    return x + first, k
"""
PROGRAMS = {
    "even and odd": """
s = 0
for x in v:
    if abs(x) < 9:
        s = (2 * s + even(int(abs(x) * 10)) + 3 * odd(int(abs(x)))) % 1001
return s
""",
    "results that are arguments": """
s = 0
for x in v:
    if abs(x) < 9:
        s = (2 * s + female(int(abs(x) * 2)) - 3 * male(int(abs(x)))) % 1001
return s
""",
    "terms within terms": "return terms(v, 0, 0)[0]",
    "functions of its own": """
def a(n):
    return 1.0 if n <= 0 else 0.5 * b(n - 1) + v[0]
def b(n):
    return 2.0 if n <= 0 else a(n - 1) - v[1]
return a(5) + b(4)
""",
    "three in turn": """
def a(n):
    return 1 if n <= 0 else 2 * b(n - 1) + n
def b(n):
    return 2 if n <= 0 else c(n - 1) - a(n - 2)
def c(n):
    return 3 if n <= 0 else a(n - 1) + b(n - 3)
t = 0
for x in v:
    if abs(x) < 9:
        t = (3 * t + a(int(abs(x))) + c(int(abs(x)))) % 1001
return t
""",
    "types that change on the way": """
def a(n):
    return 0 if n <= 0 else b(n - 1)
def b(n):
    return 0.5 if n <= 0 else a(n - 1)
t = 0.0
for k in range(7):
    t = 0.5 * t + a(k)
return t + v[0]
""",
}


def source(body):
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"{HEAD}\n\ndef f(v):\n{lines}\n"


X = np.random.default_rng(0).standard_normal((24, 9)) * 3
X[1, 3], X[2, 0], X[3, 4] = np.nan, np.inf, -0.0


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_python(name):
    for x in (X, X.astype("float32"), X[[0, 10, 11]].astype(int)):
        before = loops.counts["slices marked without need"]
        assert loops.compared(source(PROGRAMS[name]), loops.Given(x, False), counted=True) is None
        assert loops.counts["slices marked without need"] - before <= 1


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
def test_deep_ones_are_left_to_python():
    given = loops.Given(np.array([[3.0, 1.0], [250.0, 1.0]]), False)
    before = loops.counts["slices marked without need"]
    assert loops.compared(source("return even(int(v[0]))"), given, counted=True) is None
    assert loops.counts["slices marked without need"] - before == 1
