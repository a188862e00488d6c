"""Short programs that random ones led to, or could: compiled code marks, refuses, or is exact."""

import numpy as np
import pytest
from fuzz import loops

from xpapply.errors import TraceError

HEAD = "import math\nimport numpy as np\nNAN = float('nan')\nONE = np.uint8(1)\nLEAST = -(2**63)\n"
HEAD += "TABLE = [1, 2.5]\nDICT = {1: 2.0, 2: 3.0}\n"
PROGRAMS = {
    "lists of one place in the source have types of their own": """
def f(v):
    before, found = None, 0.0
    for k in range(2):
        now = []
        now.append(k + 7 if k == 0 else 1.5)
        if before is not None:
            found += before[0]
        before = now
    return found + v[0]
""",
    "what is put into one name of a list is in the other": """
def f(v):
    a = [1.5]
    b = a
    for x in v:
        b.append(x)
    a[0] = np.float64(2)
    return a[0] + b[-1]
""",
    "sorted with NaN, as Python's own search places it": """
def f(v):
    x = sorted(v)
    return x[0], x[-1], x[len(x) // 2]
""",
    "the largest of a generator": """
def f(v):
    return max(x * 2 for x in v) - min(abs(x) for x in v)
""",
    "a generator is used up": """
def f(v):
    g = (x for x in v)
    return sum(g) + sum(g)
""",
    "a generator has no length": """
def f(v):
    return 1 if v[0] > 0 else len(x for x in v)
""",
    "a generator sees what changes meanwhile": """
def f(v):
    k, found = 1, 0.0
    for x in (k * y for y in v):
        k += 1
        found += x
    return found
""",
    "an enumeration is used up": """
def f(v):
    e, n = enumerate(v), 0
    for i, x in e:
        if i == 1:
            break
    for i, x in e:
        n += 1
    return n
""",
    "pairs that a function of one's own goes through": """
def used(z):
    n = 0
    for a, b in z:
        n += 1
    for a, b in z:
        n += 1
    return n
def f(v):
    return used(zip(v, v))
""",
    "reversed is used up, and has no elements": """
def f(v):
    r, n = reversed(range(4)), 0
    for i in r:
        n += i
    for i in r:
        n += i
    return n
""",
    "an element of reversed": """
def f(v):
    return 1 if v[0] > 0 else reversed((1, 2, 3))[0]
""",
    "an infinite exponent": """
def f(v):
    return float(v[0]) ** math.inf
""",
    "a NaN that is in a tuple by its identity": """
def f(v):
    n = 0
    for x in v:
        if x in (1.0, x):
            n += 1
    return n
""",
    "trunc is not defined of NumPy's integers and of float32": """
def f(v):
    return 1 if v[0] > 0 else math.trunc(np.float32(v[0])) + 1
""",
    "trunc of integers": """
def f(v):
    return 1 if v[0] > 0 else math.trunc(np.int64(3))
""",
    "floor goes by way of a float": """
def f(v):
    return math.floor(np.int64(2**53 + 1) + np.int64(len(v)) * 2)
""",
    "round of a truth value of NumPy's": """
def f(v):
    return 1 if v[0] > 0 else round(v[0] > 0)
""",
    "a truth value's real part is an integer": """
def f(v):
    t = float(v[0]) > 0
    return np.maximum(t.real, np.int8(0)) * np.int8(100) + np.abs(t.conjugate())
""",
    "an array of no axes is written in place": """
def f(v):
    x = np.where(v[0] > 0, 1, 2)
    y = x
    y += 1
    return int(x) + 0
""",
    "an array of no axes keeps its type": """
def f(v):
    x = np.where(v[0] > 0, 1, 2)
    if v[1] > 0:
        x += 0.5
    return x
""",
    "round of an array of no axes": """
def f(v):
    return 1 if v[0] > 0 else round(np.where(v[1] > 0, 1.5, 2.5))
""",
    "a number's types in where": """
def f(v):
    return np.where(v[0] > 0, np.float32(1), 0.1) * 3
""",
    "minus of NumPy's constant": """
def f(v):
    return 1 if v[0] > 0 else -ONE
""",
    "not of NumPy's constant": """
def f(v):
    return ~ONE - np.uint8(len(v))
""",
    "minus of the least integer": """
def f(v):
    return -LEAST
""",
    "shifts of NumPy's integers drop bits": """
def f(v):
    h = np.uint32(2166136261)
    for x in v:
        h = (h ^ np.uint32(len(v))) << np.uint32(3)
    return h
""",
    "powers of NumPy's integers wrap around": """
def f(v):
    return np.int8(len(v) + 100) ** 2
""",
    "a name of an exception hides a global": """
def f(v):
    n = 0.0
    try:
        n = float(v[0])
    except ValueError as NAN:
        pass
    return n if v[0] > 0 else NAN
""",
    "a power by a ufunc of a negative exponent": """
def f(v):
    return np.power(np.int64(2), int(v[0]))
""",
    "a float into an array of truth values": """
def f(v):
    w = np.zeros(3, bool)
    w[0] = v[0]
    w[1] = float(v[1])
    return w
""",
    "who goes another way is left to the function, all of them": """
def f(v):
    x = 0
    i = len(v) - 1
    if v[i]:
        return (x, x, i)
    for y in v:
        if y:
            break
    return x
""",
    "a number that is like that of a register": """
def f(v):
    x = 1
    try:
        x = v[0]
        x = 4
    except ValueError:
        pass
    return x
""",
    "a zero of another sign": """
def f(v):
    x = 0.0
    for y in v:
        x = 0.0
        if y > 1:
            x = -0.0
    return math.copysign(1.0, x)
""",
    "a power of two names": """
def f(v):
    return len(v) ** len(v)
""",
    "an integer beyond what a small type holds": """
def f(v):
    w = np.zeros(3, np.int8)
    w[0] = len(v)
    if not v[0] > 0:
        w[1] = np.int64(len(v) * 100)
    w[2] = np.int8(np.int64(len(v) * 100))
    return w
""",
    "an array of a list that may be empty": """
def f(v):
    w = np.array([x for x in v if x > 0])
    if len(w) == 0:
        return 0.0
    return w[0] + w[-1]
""",
    "an empty list is popped": """
def f(v):
    some = []
    for x in v:
        if x > 0:
            some.append(x)
    return some.pop() + len(some)
""",
    "a sum of a Python that makes up for what is lost": """
from xpapply.library.of_python import compensated_total as total
def f(v):
    return total([float(x) * 1e16 for x in v]), total(v), total((1, 1e16, 1.5, True, -1e16))
""",
    "a float in the source that is no such integer": """
def f(v):
    return 1 if v[0] > 0 else np.uint32(-1.5)
""",
    "infinity is no integer": """
def f(v):
    return 1 if v[0] > 0 else int(math.inf)
""",
    "a result of other types than the first": """
def f(v):
    if v[0] > 0:
        return 1
    return 2.5, 1
""",
    "a name without a value is noticed where it is read": """
def f(v):
    found = []
    some = [1.0, 2.0]
    for k in range(6):
        try:
            if k == 0:
                x += 1 / int(v[0] > 9)
            elif k == 1:
                found.append(x * (1 / int(v[0] > 9)))
            elif k == 2:
                x[1 // int(v[0] > 9)] += some.pop()
            elif k == 3:
                found.append(max(x, some.pop(), 1 // int(v[0] > 9)))
            elif k == 4:
                found.append(x < 1 // int(v[0] > 9) < 2)
            else:
                some[0], some[x] = some.pop(), 1 // int(v[0] > 9)
        except ZeroDivisionError:
            found.append(1.0)
        except UnboundLocalError:
            found.append(2.0)
    if v[1] > 99:
        x = 1
    return sum(found) + 100 * len(some)
""",
    "a name is read before it gets another value": """
def f(v):
    x = float(v[0])
    x += (x := 3.0)
    return x
""",
    "names of a comprehension are its own from its second loop on": """
def f(v):
    y, n = [1.0, 2.0], 0
    for k in range(2):
        try:
            n += len([z for x in v for z in y for y in y])
        except UnboundLocalError:
            n += 1
    return n + sum([y for x in v for y in y if y > 0] if v[1] > 1 else y)
""",
    "a name without a value is no variable of a comprehension's": """
def f(v):
    if v[0] > 0:
        k = 2.0
    try:
        return sum([x * k for x in v])
    except UnboundLocalError:
        return -1.0
""",
    "integers of NumPy's whose signs differ are compared as they are": """
def f(v):
    w = np.full(3, len(v) - 1, np.uint64)
    w[1] = np.uint64(len(v)) << np.uint64(61)
    n = np.array([len(v) - 5, 3, LEAST])
    k = np.int32(len(v) - 5)
    return (w > n) + 2 * (k < w) + 4 * (w == np.int64(3)) + 8 * (np.maximum(w, w) >= n[::-1])
""",
    "exponentials that are too large": """
def f(v):
    w = np.exp(v.astype(np.float32) * 40)
    with np.errstate(over="ignore"):
        ignored = np.exp(np.float32(v[1]) * np.float32(100))
    k = int(v[3] == 2)
    return np.exp(np.float32(v[k]) * np.float32(50)) + np.exp(v[k] * 500) + w[0] + ignored
""",
    "exponentials that are too large, in a table": """
def f(v):
    w = v.astype(np.float32)
    return np.exp(np.column_stack((w, w[::-1])) * 40)[0]
""",
    "arrays of integers divided by -1": """
def f(v):
    w = np.full(3, -128, np.int8)
    k = np.full(2, LEAST)
    n = len(v) * (1 if v[0] > 0 else 0) - (0 if v[0] > 2 else 1)
    third = w // np.int8(-1 if v[1] > 2 else 3)
    return (w // np.int8(n))[0] + (k % n)[0] + (k // 2)[1] + third[1]
""",
    "what says how a list is sorted is an integer": """
def f(v):
    x, n = [3, 1, 2], 0
    for k in range(7):
        try:
            if k == 0:
                n += sorted(x, reverse=0.5)[0]
            elif k == 1:
                x.sort(reverse=v[0])
            elif k == 2:
                x.sort(reverse=np.bool_(True))
            elif k == 3:
                n += sorted(x, reverse=1099511627776)[0]
            elif k == 4:
                n += sorted(x, reverse=np.int8(1))[0] + sorted(x, reverse=k - 4)[0]
            elif k == 5:
                n += sorted(x, reverse=len(x) > 2, key=lambda y: -y)[0]
            else:
                n += 10 * sorted(x, reverse=1)[0]
        except (TypeError, OverflowError):
            n += 1000
    return n + 100 * x[0]
""",
    "a list of several types is no tuple": """
def f(v):
    k, n = len(v), 0
    some, rows = [k, 1.5], []
    rows.append([k, True])
    rows.append([k + 1, v[0] > 0])
    n += some == (k, 1.5)
    n += 2 * (some == [k, 1.5])
    n += 4 * (tuple(some) == (k, 1.5))
    n += 8 * (rows[0] == [k, True]) + 16 * (rows[0] == (k, True))
    n += 32 * isinstance(some, list) + 64 * isinstance(rows[1], tuple)
    n += 128 * isinstance(some + TABLE, list) + 256 * isinstance(TABLE[:1] * 2, tuple)
    n += 512 * (rows.pop() != (k, True))
    for j in range(6):
        try:
            if j == 5:
                n += some in DICT
            elif j == 0:
                some + (k,)
            elif j == 1:
                some < (k, 1.5)
            elif j == 2:
                {some: 1}
            elif j == 3:
                {k: 1}[some]
            else:
                [k, v[0]] in {(k, 1.5)}
        except TypeError:
            n += 1024
    return n
""",
    "a list of several types has two names and grows": """
def f(v):
    a = [len(v), 1.5]
    b = a
    b += [v[0]]
    return len(a)
""",
    "a list of the user's grows": """
def f(v):
    a = TABLE
    a += (v[0],)
    return len(a)
""",
    "a list of several types as an index": """
def f(v):
    w = np.zeros((3, 3))
    w[[np.int32(1), 2]] = 1.0
    return w
""",
    "tolerances that are no numbers": """
def f(v):
    a = bool(np.isclose(v[:1], 1.0, v[1])[0])
    with np.errstate(invalid="ignore"):
        a += np.allclose(v, v, 1e-3, v[2])
    return a + np.allclose(v, 0.0, 0, len(v))
""",
    "a new array is given its own view": """
def f(v):
    w = np.array([v[0], v[1], 1])
    w[:] = w[::-1]
    u = v.copy()
    u[:] = u[::-1]
    return w[0] + 2 * w[2] + 4 * u[0] + 8 * u[3]
""",
    "the size of a complex array without axes": """
def f(v):
    z = np.where(v[0] > 0, v[1] + 1j * v[2], 2 - 1j * v[3])
    return abs(z)
""",
    "the square of a complex number": """
def f(v):
    return np.square(v[0] + 1j).real
""",
}
REFUSED = {
    "a generator has no length": "the length of an iterator",
    "a generator sees what changes meanwhile": "may change what it goes through",
    "an enumeration is used up": "an iterator that is kept",
    "pairs that a function of one's own goes through": "an iterator that is kept",
    "reversed is used up, and has no elements": "an iterator that is kept",
    "an element of reversed": "an element of an iterator",
    "an array of no axes is written in place": "of an array without axes",
    "an array of no axes keeps its type": "of an array without axes",
    "a list of several types has two names and grows": "of a list of several types",
    "a list of the user's grows": "of a list of several types",
    "a list of several types as an index": "a list of several types as an index",
    "the square of a complex number": "whose last bit NumPy leaves open",
}
X = np.array(
    [
        *([1.5, -2.0, 0.25, 3.0], [np.nan, 1.0, 2.0, -0.0], [-1.5, np.nan, 3.0, 2.0]),
        *([3.0, 2.0, np.nan, 1.0], [2.0, np.inf, -1.0, 0.5], [-2.0, -0.0, 0.0, 1.0]),
    ]
)
X = np.concatenate([X, X[:4]])  # eight go side by side


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_python(name):
    source, given = HEAD + PROGRAMS[name], loops.Given(X, False)
    if name in REFUSED:
        with pytest.raises(TraceError, match=REFUSED[name]):
            loops.compared(source, given)
    else:
        assert loops.compared(source, given) is None


SEVERAL = {
    "a list is one result, a tuple several": """
def f(v):
    if v[1] > 1:
        return [v[0], 1]
    return v[0], 1
""",
    "lists among several results": """
def f(v):
    if v[1] > 1:
        return [v[0], 1], (v[0], 2)
    return (v[0], 1), [v[0], 2]
""",
}


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("name", SEVERAL)
def test_several_results(name):
    assert loops.compared(HEAD + SEVERAL[name], loops.Given(X, True)) is None
