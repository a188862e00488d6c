"""What compiled functions go through: itertools, iterators that are kept, sets; against Python."""

import numpy as np
import pytest
from fuzz import loops

from xpapply.errors import TraceError

HEAD = """import operator
from itertools import *

import numpy as np


def plus(a, b):
    return a + b
"""
PROGRAMS = {
    "accumulate": """
t = []
for s in accumulate(v):
    t.append(s)
return t[-1], max(accumulate(v, operator.mul)), sum(accumulate(v, plus, initial=0.5))
""",
    "zip that is strict": """
total = 0.0
for k, (a, b) in enumerate(zip(v, v[::-1], strict=True)):
    total += k * a - b
try:
    for a, b in zip(v, v[1:], strict=True):
        total += a * b
except ValueError:
    total += 100
for a, b, c in zip((1, 2), [3, 4], range(2), strict=False):
    total += a * b * c
return total + sum(a for a, _ in zip(range(3), (0.5, 1.5, 2.5), strict=True))
""",
    "zip of other lengths": """
total = 0
for a, b in zip(v, range(int(v[0] > 0) + len(v)), strict=True):
    total += b
return total
""",
    "pairwise": "return sum(b - a for a, b in pairwise(v)), len(list(pairwise(v)))",
    "groupby": """
best = 0
for k, g in groupby(v > 0):
    n = len(list(g))
    if k and n > best:
        best = n
return best
""",
    "groupby with a key": """
return max((sum(1 for _ in g) for k, g in groupby(v, key=lambda x: x > 1) if k), default=0)
""",
    "groups that are used up": """
before, n = None, 0
for k, g in groupby(v > 0):
    if before is not None:
        n += 10 * len(list(before))
    before = g
    for _ in g:
        n += 1
        break
return n
""",
    "combinations": """
s = 0.0
for a, b in combinations(v, 2):
    s += abs(a - b)
for i, j, k in combinations(range(4), 3):
    s += i - j * k
return s, len(list(permutations(range(3), 2)))
""",
    "product": """
t = 0
for i, j in product(range(3), range(4)):
    t += i * j
return t, sum(a - b for a, b in product((0, 1, 4), repeat=2))
""",
    "some of them": """
return sum(islice(v, 3)), sum(islice(v, 1, None, 2)), len(list(islice(v, 2, 5)))
""",
    "while": """
n = 0
for x in takewhile(lambda x: x < 2, v):
    n += 1
return n, sum(dropwhile(lambda x: x < 2, v)), len(list(filterfalse(lambda x: x > 0, v)))
""",
    "map and filter": """
s = 0.0
for x in map(abs, v):
    s = 0.5 * s + x
return s, sum(map(plus, v, v[1:])), len(list(filter(None, v > 0))), sum(chain(v[:2], v[1:]))
""",
    "an iterator that is kept": """
it = iter(v)
first, n = next(it), 0
for x in it:
    n += 1
    if x > 1:
        break
other = it
return first, n, next(other, -1.0), sum(1 for _ in it)
""",
    "zip takes of one before it asks the next": """
it, n = iter(v), 0
for x, y in zip(it, v[:2]):
    n += 1
for k, (i, x), y in zip(range(9), enumerate(it), (1, 2)):
    n += k + i
return n, sum(1 for _ in it)
""",
    "zip of one with itself": """
it, s, n = iter(v), 0.0, 0
for x, y in zip(it, it):
    s += x - y
some = iter(v)
for x, (i, y), z in zip(some, enumerate(some), some):
    n += i
return s, n, next(it, -1.0), len(list(zip(some, v)))
""",
    "one that has ended has ended": """
l = [1.0, 2.0]
it = iter(l)
n = len(list(it))
l.append(3.0)
for x in it:
    n += 10
return n, next(it, 7.0)
""",
    "the first one": "return next((k for k, x in enumerate(v) if x > 1), -1)",
    "the first one, or none": "return next(x for x in v if x > 1)",
    "what is caught": """
it, n = iter(v), 0
while True:
    try:
        next(it)
        n += 1
    except StopIteration:
        break
return n
""",
    "a set in order": """
s = {int(x) for x in v}
t = 0
for x in sorted(s, reverse=True):
    t = 3 * t % 1001 + x
return t, sum(s), min(s), max(s), any(s), len(set(s))
""",
    "two sets": """
a, b = {int(x) for x in v[:5]}, {int(x) for x in v[5:]}
c = a & b
c |= {1}
return len(a | b), len(a - b), len(a ^ b), sorted(c)[0]
""",
    "sets compared": """
a, b = {int(x) for x in v[:5]}, {int(x) for x in v[5:]}
return a <= b, a == b, a.isdisjoint(b), len(a.union(b))
""",
}
REFUSED = {
    "the order of a set": "n = 0\nfor x in {int(x) for x in v}:\n    n = 2 * n + x\nreturn n",
    "a sum of floats in any order": "return sum({x for x in v})",
    "what goes on changes": """
l = [x for x in v]
for s in accumulate(l):
    l[-1] = s
return l[-1]
""",
    "what goes on may change": """
l = [x for x in v]
m = l
for s in accumulate(l):
    m.append(s)
    if len(m) > 20:
        break
return l[-1]
""",
    "a limit that changes": """
limit, n = 1.0, 0
for x in takewhile(lambda y: y < limit, v):
    limit -= 0.1
    n += 1
return n
""",
    "several that are kept": """
it = iter(v)
other = it if v[0] > 0 else iter(v)
return sum(x - y for x, y in zip(it, other))
""",
    "used twice": "x = accumulate(v)\nreturn sum(x) + sum(x)",
    "a function that raises": """
t = 0.0
try:
    for x in map(lambda y: 1 // int(y), v):
        t += x
except ZeroDivisionError:
    pass
return t
""",
}


def source(body):
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"{HEAD}\n\ndef f(v):\n{lines}\n"


X = np.random.default_rng(0).standard_normal((24, 9)) * 3
X[1, 3], X[2, 0], X[3, 4], X[4, 2:4] = np.nan, np.inf, -0.0, (0.0, -0.0)


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_python(name):
    for x in (X, X.astype("float32"), X[:, :6], X[[0, 10, 11]].astype(int)):
        before = loops.counts["slices marked without need"]
        try:
            found = loops.compared(source(PROGRAMS[name]), loops.Given(x, False), counted=True)
        except loops.Skipped:
            continue
        except TraceError:
            assert x.dtype != float
            continue
        assert found is None, (x.dtype, x.shape)
        assert loops.counts["slices marked without need"] - before <= 4


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(TraceError, match="line "):
        loops.compared(source(REFUSED[name]), loops.Given(X[10:], False))
