"""Lists, deques, dicts and sets in compiled functions, against Python."""

import numpy as np
import pytest
from fuzz import loops

from xpapply.errors import TraceError

HEAD = """import bisect
import heapq
import math
from collections import Counter, defaultdict, deque
from functools import cache, lru_cache

import numpy as np


@lru_cache(maxsize=None)
def squared(n):
    return n * n + 1


@cache
def bent(x, y=2.0):
    return x * x - y


@cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


NAMES = {0: 1.5, 1: 2.5, 2: -1.0}
SEEN = []
PAIRS = {(0, 1): 3, (1, 2): 4}
"""
PROGRAMS = {
    "a dict of lists by a default": """
w = [int(x) for x in v if abs(x) < 99]
d = defaultdict(list)
for i, x in enumerate(w):
    d[x].append(i)
n = 0
for k, xs in d.items():
    n = (3 * n + xs[0] * len(xs) + k) % 1001
e = defaultdict(list)
for i, x in enumerate(v):
    e['up' if x > 0 else 'down'].append(i)
for k in e:
    n = (3 * n + len(e[k]) + len(k)) % 1001
return n, len(d), len(d[99]), len(d)
""",
    "a list of what is in something": """
w = {int(x) for x in v if abs(x) < 99}
l = [*sorted(w)]
m = [*l]
m.append(7)
d = {k: 2 * k for k in l}
return l[0], len(m), len(l), [*w][0], [*d.values()][-1], [*d][0]
""",
    "keys by their values": """
w = [int(x) for x in v if abs(x) < 99]
d = {}
for x in w:
    d[x] = d.get(x, 0) + 1
n = 0
for k in sorted(d, key=d.get, reverse=True):
    n = (5 * n + k) % 1001
return max(d, key=d.get), min(d, key=d.get), n
""",
    "the commonest ones": """
c = Counter(int(x) for x in v if abs(x) < 99)
n = 0
for k, m in c.most_common(3):
    n = (5 * n + k * m) % 1001
for k, m in c.most_common():
    n = (5 * n + k * m) % 1001
return n, len(c.most_common(0)), len(c.most_common(-1))
""",
    "helpers with a cache": """
s, t = 0, 0.0
for x in v:
    if abs(x) < 99:
        s = (2 * s + squared(int(x))) % 1001
    if x != 0:
        t = 0.5 * t + bent(x, y=1.0)
return s, t
""",
    "a part of a list": """
l = [float(x) for x in v]
m = l[1:-1] + l[::-1]
return sum(m[::2]), len(m)
""",
    "insert": "l = []\nfor x in v:\n    l.insert(len(l) // 2, x)\nreturn l[0], l[-1]",
    "insort": "l = []\nfor x in v:\n    bisect.insort(l, x)\nreturn l[len(l) // 2]",
    "places": "l = sorted(v)\nreturn bisect.bisect_left(l, v[0]), bisect.bisect(l, v[0])",
    "extend": "l = [1.0]\nl.extend(v.tolist())\nl += [2.0]\nreturn sum(l)",
    "remove": "l = [int(x) for x in v]\nl.remove(l[-1])\nl.reverse()\nreturn len(l), l[0]",
    "index": """
l = [int(x) for x in v]
return l.index(l[-1]), l.count(l[0]), l[0] in l, 99 not in l
""",
    "pop first": "l = [x for x in v]\ns = 0.0\nwhile l:\n    s = 0.5 * s + l.pop(0)\nreturn s",
    "del": "l = [x for x in v]\ndel l[0]\ndel l[-1]\nreturn len(l)",
    "sort": """
l = [x for x in v] * 3
l.sort()
m = sorted(v, reverse=True)
return l[4], m[0], m[-1]
""",
    "reversed": "s = 0.0\nfor x in reversed([y for y in v]):\n    s = s * 0.5 + x\nreturn s",
    "reversed as it shrinks": """
l = [x for x in v]
n = 0
for x in reversed(l):
    n += 1
    if l:
        l.pop()
return n
""",
    "equal lists": """
a = [int(x) for x in v]
b = a[:]
b[-1] = 3
return a == b, a != b, a == a.copy()
""",
    "an array of lists": """
t = [[x, 2 * x, 0 * x] for x in v]
w, m = np.array(t), np.asarray([[k, k + 1] for k in range(4)])
w[0, 1] += m[3, 1]
return w.sum(), t[0][1], np.argmax(w), m[:, 0].sum(), np.array([[x > 0] for x in v]).shape[1]
""",
    "lists of lists": """
t = [[0] * (len(v) + 1) for _ in range(3)]
for i in range(3):
    for j in range(len(v)):
        t[i][j + 1] = t[i][j] + (1 if v[j] > i else 0)
return t[0][-1], t[1][-1], t[2][-1]
""",
    "one list three times": "t = [[0.0] * 2] * 3\nt[0][1] += v[0]\nreturn t[2][1], t[1][0]",
    "groups": """
t = [[], [], []]
t.append([])
for x in v:
    if x == x and abs(x) < 1e9:
        t[int(abs(x)) % 4].append(x)
return len(t[0]), len(t[1]), sum(t[2]), len(t)
""",
    "neighbours": """
t = [[] for _ in range(len(v))]
for i in range(len(v) - 1):
    t[i].append(i + 1)
    t[i + 1].append(i)
seen = [False] * len(v)
stack = [0]
n = 0
while stack:
    k = stack.pop()
    if seen[k]:
        continue
    seen[k] = True
    n += 1
    for j in t[k]:
        if not seen[j] and v[j] > -1:
            stack.append(j)
return n
""",
    "rows are one with those in the list": """
t = []
for x in v:
    row = []
    t.append(row)
    row.append(x)
t[0].append(1.0)
u = t[0]
u[0] = 5.0
return t[0][0], t[0][1], t[-1][0]
""",
    "a stack of tuples": """
stack = []
best = 0
for i, x in enumerate(v):
    start = i
    while stack and stack[-1][1] > x:
        start, h = stack.pop()
        best = max(best, i - start)
    stack.append((start, float(x)))
for start, h in stack:
    best = max(best, len(v) - start)
return best, len(stack)
""",
    "a stack that begins with a tuple": """
stack = [(0, len(v))]
n = 0
while stack:
    a, b = stack.pop()
    n += 1
    if b - a > 1:
        m = (a + b) // 2
        stack.append((a, m))
        stack.append((m, b))
return n
""",
    "a heap": """
heap = []
for x in v:
    heapq.heappush(heap, x)
    if len(heap) > 3:
        heapq.heappop(heap)
return heap[0], len(heap)
""",
    "a heap of tuples": """
heap = [(0.0, 0)]
far = [math.inf] * len(v)
far[0] = 0.0
while heap:
    d, k = heapq.heappop(heap)
    if d > far[k]:
        continue
    for j in (k - 1, k + 1, k + 2):
        if 0 <= j < len(v):
            e = d + abs(float(v[j]))
            if e < far[j]:
                far[j] = e
                heapq.heappush(heap, (e, j))
return far[-1]
""",
    "heapify": """
h = [x for x in v]
heapq.heapify(h)
a = heapq.heapreplace(h, 0.5)
return a, h[0]
""",
    "tuples are compared": """
a, b = (int(v[0]), 2), (int(v[-1]), 3)
return a < b, a == b, a >= b, max(1, 2)
""",
    "sorted tuples": """
l = []
for i, x in enumerate(v):
    l.append((x, i))
l.sort()
return l[0][1], l[-1][0]
""",
    "a deque": """
q = deque()
s = 0.0
for x in v:
    q.append(x)
    if len(q) > 3:
        s += q.popleft()
return s, len(q), q[0], q[-1]
""",
    "the largest in a window": """
q = deque()
out = np.zeros(len(v))
for i in range(len(v)):
    while q and v[q[-1]] <= v[i]:
        q.pop()
    q.append(i)
    if q[0] <= i - 3:
        q.popleft()
    out[i] = v[q[0]]
return out
""",
    "a deque that drops": """
q = deque(maxlen=3)
for x in v:
    q.append(x)
return len(q), q[0], sum(q)
""",
    "a deque is filled from the left": """
q = deque([1.0, 2.0])
for x in v:
    q.appendleft(x)
return q[0], q[-1], len(q)
""",
    "a long queue": """
q = deque()
n = 0
for k in range(50):
    for x in v:
        q.append(k)
    while len(q) > 2:
        n += q.popleft()
return n
""",
    "a deque changes meanwhile": """
q = deque([1, 2])
for x in q:
    if v[0] > 0:
        q.append(1)
return len(q)
""",
    "counts": """
d = {}
for x in v:
    k = int(x)
    d[k] = d.get(k, 0) + 1
best = 0
for k, n in d.items():
    if n > best:
        best = n
return best, len(d)
""",
    "counts by setdefault and in": """
d = {}
for x in v:
    k = int(x) % 3
    if k not in d:
        d[k] = 0
    d[k] += 1
    d.setdefault(k + 10, 2)
return max(d.values()), sum(d), min(d.keys())
""",
    "the order of keys": "d = {}\nfor x in v:\n    d[int(x)] = 1\nl = list(d)\nreturn l[0], l[-1]",
    "keys that are floats": """
d = {}
for i, x in enumerate(v):
    d[x] = i
return len(d), d[v[0]]
""",
    "keys of several kinds are one": """
d = {1: 5.0}
return len(d), d[1.0], d[True], d.get(2.0, 0.0)
""",
    "keys that are tuples": """
d = {}
for i, x in enumerate(v):
    k = (i % 3, int(x) % 2)
    d[k] = d.get(k, 0) + i
return len(d), max(d.values())
""",
    "a key that is not there": "d = {0: 1}\nreturn d[int(v[0])]",
    "many keys": """
d = {}
for i in range(70):
    d[i * 7 + int(v[0])] = i
for i in range(0, 70, 2):
    del d[i * 7 + int(v[0])]
return len(d), d[7 + int(v[0])], sum(d.values())
""",
    "a dict changes meanwhile": """
d = {0: 1}
for k in d:
    if v[0] > 0:
        d[k + 1] = 2
return len(d)
""",
    "pop of a dict": """
d = {0: 1, 1: 2, 2: 3}
x = d.pop(1)
y = d.pop(int(v[0]), -1)
return x, y, len(d)
""",
    "Counter": """
c = Counter([int(x) for x in v])
return c[0], c[99], len(c), c.most_common(1)[0][1]
""",
    "defaultdict": """
d = defaultdict(int)
for x in v:
    d[int(x)] += 1
return len(d), d[77], len(d)
""",
    "an array of nothing": """
l = [3]
if v[0] > 0:
    l.pop()
return isinstance(np.array(l).sum(), np.integer), len(np.array(l))
""",
    "a set": """
s = set()
n = 0
for x in v:
    k = int(x)
    if k in s:
        n += 1
    s.add(k)
    s.discard(k - 1)
return n, len(s), len(set(v))
""",
    "a set of a comprehension": """
s = {int(x) % 3 for x in v}
d = {int(x): x for x in v}
return len(s), len(d), 1 in s
""",
    "a set that is written": "s = {1, 2, int(v[0])}\nreturn len(s), 2 in s, 0 not in s",
    "a dict of the user's": """
return sum([NAMES[int(abs(x)) % 3] for x in v]), NAMES.get(len(v), 0.0), len(v) in NAMES
""",
    "pairs of the user's": "return PAIRS.get((0, int(v[0])), -1), PAIRS[(1, 2)]",
}
REFUSED = {
    "a cache that its own calls use": "return fibonacci(abs(int(v[0])) % 9)",
    "a cache of two kinds of numbers": "return bent(v[0]) + bent(float(v[1]))",
    "the order of a set": "s = {float(x) for x in v}\nreturn sum([k for k in s])",
    "a list of several types": "l = [1]\nl.append(v[0])\nreturn l[0]",
}


def source(body):
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"{HEAD}\n\ndef f(v):\n    for _ in range(1):\n        pass\n{lines}\n"


X = np.random.default_rng(0).standard_normal((24, 9)) * 3
X[1, 3], X[2, 0], X[3, 4], X[4, 2:4] = np.nan, np.inf, -0.0, (0.0, -0.0)
X[5:9] = np.round(X[5:9])
X[9, 0] = X[9, -1] = np.nan


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_python(name):
    for x in (X, X.astype("float32"), X[:, :1], X[[0, 10, 11]].astype(int)):
        try:
            found = loops.compared(source(PROGRAMS[name]), loops.Given(x, False))
        except loops.Skipped:
            continue
        except TraceError:
            assert x.dtype != float
            continue
        assert found is None, (x.dtype, x.shape)


def test_a_refusal_names_the_list():
    why = "the attribute append of a list of several types, or one that it did not make"
    with pytest.raises(TraceError, match=why):
        loops.compared(source("SEEN.append(v[0])\nreturn v[0]"), loops.Given(X[10:], False))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(TraceError):
        loops.compared(source(REFUSED[name]), loops.Given(X[10:], False))
