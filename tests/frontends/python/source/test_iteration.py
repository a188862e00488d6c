"""What compiled functions go through: itertools, iterators that are kept, sets; against Python."""

import numpy as np
import pytest
from fuzz import loops

from xpapply.errors import TraceError
from xpapply.library import of_sets

HEAD = """import heapq
import math
import operator
import statistics
from itertools import *

import numpy as np


def plus(a, b):
    return a + b


def runs(v):
    n = 0
    for x in v:
        if x > 0:
            n += 1
        elif n:
            yield n
            n = 0
    if n:
        yield n


def several(v):
    yield 0
    yield from runs(v)
    for x in v[:2]:
        if x != x:
            return
        yield int(x > 1)
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
    "compress, and orders of three": """
s, n = 0.0, 0
for x in compress(v, v > 0):
    s = 0.5 * s + x
for i, j, k in permutations(range(4), 3):
    n = (2 * n + i - j * k) % 1001
return s, n, sum(compress(v[:4], (1, 0, 1)))
""",
    "signs as functions": """
n, s = 0, 0.0
for a, b in zip(v, v[1:]):
    n += operator.lt(a, b) + 2 * operator.ge(a, b) + operator.ne(a, 0.0)
    s = operator.sub(operator.truediv(s, 2.0), operator.neg(a))
    n = operator.xor(n, 5) % 97
two = operator.getitem((1.0, 2.0), 1)
return n, s, operator.not_(n), operator.pow(two, operator.mod(n, 5))
""",
    "itemgetter": """
pairs = sorted([(x, i) for i, x in enumerate(v)], key=operator.itemgetter(0))
i, top = max(enumerate(v), key=operator.itemgetter(1))
a, b = operator.itemgetter(0, -1)(v)
last = 0
for p in pairs:
    last = (3 * last + p[1]) % 1001
return last, i, top, a, b
""",
    "ends of a heap": """
s = 0.0
for x in heapq.nlargest(3, v):
    s = 0.5 * s + x
return s, len(heapq.nlargest(20, v)), len(heapq.nsmallest(-1, v))
""",
    "ends of a heap by something": """
s = 0.0
for x, i in heapq.nsmallest(2, [(y, k) for k, y in enumerate(v)]):
    s = 0.5 * s + x * i
return s, heapq.nlargest(2, v, key=abs)[1]
""",
    "merged": """
s = 0.0
for x in heapq.merge(sorted(v[:4]), v[4:]):
    s = 0.5 * s + x
return s
""",
    "a starred name": """
first, *rest = v
*most, last = rest
a, *few, b = (1.0, 2.0, 3.0, 4.0)
s = 0.0
for x in most:
    s = 0.5 * s + x
few.append(s)
(c, *_), *others = [(1, 2, 3), (4, 5)]
return first, last, s, a + b, len(rest) + len(few) + c + len(others)
""",
    "a starred name that gets too few": """
try:
    a, b, *c = [x for x in v if x > 1]
    return a + b + len(c)
except ValueError:
    return -1.0
""",
    "isclose and modf": """
n, s = 0, 0.0
for a, b in zip(v, v[1:]):
    n += math.isclose(a, b, rel_tol=0.3) + 2 * math.isclose(a, b, abs_tol=0.5)
    n += 4 * math.isclose(a, a)
    part, whole = math.modf(a)
    s = 0.5 * s + 3.0 * part + math.copysign(1.0, part) + min(whole, 100.0)
return n, s
""",
    "used twice": "x = accumulate(v)\nreturn sum(x) + sum(x), next(x, 7.0)",
    "a generator in a loop": """
t = 0
for i, n in enumerate(several(v)):
    t = (3 * t + n * i) % 1001
for n in runs(v):
    t = (3 * t + n) % 1001
return t
""",
    "a generator that is used up": """
return sum(runs(v)), max(several(v), default=0), len(list(several(v))), sorted(several(v))[0]
""",
    "a generator that is kept": """
g = several(v)
a = next(g, 0)
b = next(g, 0)
return 10 * a + b, sum(g), sum(g)
""",
    "generators of its own": """
def positive():
    for i, x in enumerate(v):
        if x > 0:
            yield i, x
s = 0.0
for i, x in positive():
    s = 0.5 * s + x * i
squares = (x * x for x in v if x > 0)
s += next(squares, 0.0)
for y in squares:
    s = 0.5 * s - y
return s
""",
    "a generator and while": """
n = 0
it = iter(runs(v))
while (a := next(it, -1)) >= 0:
    n = 2 * n + a
return n
""",
    "counting, and what is chained": """
s = 0.0
for i, x in zip(count(3, 2), v):
    s = 0.5 * s + i * x
for i in count():
    if i > 5:
        break
    s = 0.5 * s + i
for x in chain.from_iterable([v[:2], v[3:]]):
    s = 0.5 * s + x
return s, sum(chain.from_iterable([[1, 2], [3, 4]]))
""",
    "the longest": """
s = 0.0
for a, b in zip_longest([float(x) for x in v[:3]], [float(x) for x in v], fillvalue=0.0):
    s = 0.5 * s + a * b
return s
""",
    "the order of a set": """
w = [int(x) for x in v if abs(x) < 99]
s, n = set(), 0
for x in w:
    s.add(7 * x)
for i, x in enumerate(list(s)):
    n = (3 * n + i * x) % 1001
for i, x in enumerate(s, 2):
    n = (3 * n + i * x) % 1001
for x in {k * k - 3 for k in w}:
    n = (3 * n + x) % 1001
for x in {50, n, 10, 30, -1, -2, 8}:
    n = (3 * n + x) % 1001
for x in {5, 1, 3}:
    n = (3 * n + x) % 1001
return n
""",
    "the order of a large set": """
s, n = set(), 0
for x in v:
    for k in range(40):
        s.add((int(x > 0) + 3 * k * k) % 211 << k // 3)
for x in s:
    n = (3 * n + x) % 1001
return n
""",
    "lengths and distances": """
s = 0.0
for i in range(3, len(v)):
    s = 0.5 * s + math.dist((v[i], v[i - 1]), (v[i - 2], 2)) - math.hypot(v[i], 2, v[i - 2])
    s += math.dist(v[i - 1 : i + 1], v[i - 3 : i - 1]) + math.dist([v[i], i], v[:2])
    s += math.hypot(v[i]) + math.hypot(1e200 * v[0], 1e-200)
return s
""",
    "mantissas": """
s, n = 0.0, 0
for i, x in enumerate(v):
    m, e = math.frexp(x)
    n = (2 * n + e) % 1001
    s = 0.5 * s + m + math.ldexp(x, 7 * i - 40) + math.ldexp(m, -1070)
return s, n
""",
    "steps between floats": """
s = 0.0
for x in v:
    s = 0.5 * s + math.ulp(x) + math.nextafter(x, 2.0) - math.remainder(x, 0.75)
return s
""",
    "bits of integers": """
n = 0
for k, x in enumerate(v):
    if -9 < x < 9:
        n = (3 * n + int(10 * x).bit_length() + 5 * int(10 * x).bit_count()) % 10007
        n += float(x).is_integer() + 2 * x.is_integer() + (k + 1 << 55).bit_length()
return n
""",
    "means": """
total, t = 0.0, 0.0
for k in range(2, len(v)):
    total = 0.5 * total + statistics.fmean(v[:k]) + statistics.median_low(v[:k])
    t = 0.5 * t + statistics.median_high([x for x in v[:k]])
return total, t, statistics.mode([int(x) for x in v])
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
EXACT = {
    "mean": "return statistics.mean(v), max(statistics.mean(v[k : k + 3]) for k in range(5))",
    "variance": "return statistics.variance(v), statistics.pvariance([x for x in v if x > -9])",
    "deviation": "return statistics.stdev(v), sum(statistics.pstdev(v[k:]) for k in range(4))",
}
"""Of floats; in which slices rounding cannot be told is left to Python."""
REFUSED = {
    "the order of a set of floats": "n = 0\nfor x in set(v):\n    n = 2 * n + x\nreturn n",
    "a set that changes": """
s = {int(x) for x in v}
for x in s:
    s.add(1)
return len(s)
""",
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
    "a generator whose names change": """
k, s = 0, 0.0
def g():
    for x in v:
        yield x * k
for y in g():
    k += 1
    s = 0.5 * s + y
return s
""",
    "a generator that is read late": """
t = 1.0
g = (x * t for x in v)
t = 2.0
return next(g, 0.0) + sum(g)
""",
    "a generator that changes a list": """
l = []
def g():
    for x in v:
        l.append(x)
        yield x
for y in g():
    if len(l) > 2:
        break
return len(l)
""",
    "a generator without an end": """
def g():
    n = 0
    while True:
        yield n
        n += 1
return sum(a * (b > 0) for a, b in zip(g(), v))
""",
    "a generator whose list grows": """
l = [x for x in v]
g = (x for x in l)
s = 0.0
for y in g:
    l.append(1.0)
    s += y
    if len(l) > 20:
        break
return s
""",
    "a generator in a try": """
t = 0
try:
    for y in runs([1 // int(x) for x in v]):
        t += y
except ZeroDivisionError:
    t = -1
return t
""",
    "a helper that changes it": """
def put(l):
    l.append(1.0)
l = [x for x in v]
s = 0.0
for y in accumulate(l):
    put(l)
    s += y
    if len(l) > 20:
        break
return s
""",
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


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kind", ["normal", "round", "far", "whole", "wide", "equal"])
def test_exact_statistics(name, kind):
    """The exact sums are rounded once: values with many ties, and far from zero."""
    r = np.random.default_rng(3)
    x = r.standard_normal((40, 9))
    x = {
        "normal": x, "round": np.round(x, 1), "far": 1e6 + x, "whole": np.rint(3 * x),
        "wide": x * 10.0 ** r.integers(-12, 12, x.shape), "equal": np.round(x[:, :1], 1) + 0 * x,
    }[kind]  # fmt: skip
    assert loops.compared(source(EXACT[name]), loops.Given(x, False)) is None


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(TraceError, match="line "):
        loops.compared(source(REFUSED[name]), loops.Given(X[10:], False))


LEFT = {
    "taken out": "s.discard(max(s))",
    "put together": "s = s | {1, 2}",
    "a copy": "s = s.copy()",
    "another set's": "s = set(s)",
    "cleared": "s.clear()\ns.add(3)",
    "written in the source": "s = {50, 10, 30, 9, 8, 7}",
}
"""Sets whose order depends on more than what was put in."""


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("name", LEFT)
def test_orders_that_are_left_to_python(name):
    begun = "s = {int(x) for x in v}\n" + LEFT[name]
    body = begun + "\nn = 0\nfor x in s:\n    n = 3 * n + x\nreturn n"
    before = loops.counts["slices marked without need"]
    assert loops.compared(source(body), loops.Given(X[10:], False), counted=True) is None
    assert loops.counts["slices marked without need"] - before == len(X[10:])


def test_tables_of_sets():
    r = np.random.default_rng(3)
    assert of_sets.keeps_order_so()
    for n in (1, 4, 5, 19, 70, 1000):
        for top in (9, 300, 2**60):
            keys = [*dict.fromkeys(r.integers(-top, top, n).tolist())]
            assert [*of_sets.in_place_order(keys)] == [*set(keys)]
