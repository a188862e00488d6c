"""What a traced function may not do unnoticed: answer, write, raise, or change."""

import bisect
import cmath
import collections
import contextlib
import copy
import decimal
import fractions
import functools
import hashlib
import heapq
import io
import itertools
import json
import math
import numbers
import operator
import random
import re
import statistics
import struct
import textwrap
import time
import types
import warnings
import zlib

import numpy as np
import pytest
from calls_of import assert_at_once

import xpapply
from xpapply.errors import TraceError
from xpapply.frontends.python import operations
from xpapply.frontends.python.recorder import Recorder
from xpapply.frontends.python.sandbox import Stage
from xpapply.frontends.python.tracer import Tracer
from xpapply.frontends.python.tree import Branch
from xpapply.guards import Guards
from xpapply.planning import python_functions

SLICES = 1200


@pytest.fixture(autouse=True)
def _always_plan(monkeypatch):
    monkeypatch.setattr(python_functions, "_FEW", 0)
    monkeypatch.setattr(python_functions, "_PLANNING", 0.0)
    monkeypatch.setattr(python_functions, "_SLOWER", 1e9)
    with xpapply.options(fallback="silent"):
        yield


def array(slices=SLICES, length=4):
    return np.random.default_rng(3).standard_normal((slices, length))


# --- dunder methods -------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "a b")


def match_it(x):
    match x:
        case 0.3:
            return 1.0
        case float() if x > 0:
            return 2.0
        case _:
            return 3.0


def with_walrus(v):
    total, k = 0.0, 0
    while k < len(v) and (x := v[k]) > -3:
        total, k = total + x, k + 1
    return total


MADE = {
    "an array": lambda v: v * 1,
    "the slice": lambda v: v,
    "an array of one": lambda v: v[:1] * 1,
    "a matrix": lambda v: v.reshape(2, 2) * 1,
    "integers": lambda v: (v * 10).astype(np.int64),
    "a mask": lambda v: v > 0.2,
    "a NumPy number": lambda v: v[0],
    "a NumPy integer": lambda v: (v * 10).astype(np.int64)[0],
    "a NumPy truth": lambda v: (v > 0.2)[0],
    "a Python number": lambda v: v[0].item(),
    "a Python integer": lambda v: (v * 10).astype(np.int64)[0].item(),
}
"""Tracers of all kinds that depend on the slice."""

TWO = (np.array([0.3, 1.5, -2.0, 4.0]), np.array([-3.5, 0.1, 7.25, 1.0]))
"""Two slices: what is answered without a question must be the same for both."""

NOT_OURS = {
    "__class__": "isinstance, type and the class of a tracer are replaced in f",
    "__doc__": "not of the value",
    "__dir__": "names of attributes",
    "__getattribute__": "ends in __getattr__",
    "__init__": "makes a tracer",
    "__new__": "makes a tracer",
    "__init_subclass__": "of the class",
    "__subclasshook__": "of the class",
    "__class_getitem__": "of the class",
    "__sizeof__": "size of the object, not of the value",
    "__getstate__": "what copy and pickle ask after __reduce_ex__, which refuses",
    "__array_namespace__": "a module",
}
"""Dunder names that `Tracer` may have from `object`, or not at all."""

ARGUMENTS = ((), (2,), (0,), (1.5,), ("d",), (2, 1), (0, 1.5), ({},), (float,), (None,))


def tracer(made, v):
    recorder = Recorder(operations, "numpy")
    recorder.stage = Stage(recorder, Guards(), None)
    found = made(recorder.input(v.copy()))
    assert isinstance(found, Tracer)
    assert found.ref is not None
    return recorder, found


def dunders():
    for kind, made in MADE.items():
        _, found = tracer(made, TWO[0])
        for name in dir(type(found.value)):
            if name.startswith("__") and name.endswith("__") and name not in NOT_OURS:
                yield pytest.param(made, name, id=f"{kind} {name}")


def answered(made, v, name, arguments):
    """(what a dunder gave, whether it is recorded)."""
    recorder, found = tracer(made, v)
    decisions = sum(isinstance(s, Branch) for s in recorder.steps)
    try:
        method = getattr(type(found), name, None)
        if method is None:
            result = getattr(found, name)
            result = result(*arguments) if callable(result) else result
        else:
            result = method(found, *arguments) if callable(method) else method
        if name in ("__iter__", "__reversed__"):
            result = list(result)
    except (
        TraceError,
        TypeError,
        AttributeError,
        ValueError,
        IndexError,
        ArithmeticError,
    ) as error:
        result = type(error)
    if recorder.refused is not None or _traced(result):
        return None, True
    return result, sum(isinstance(s, Branch) for s in recorder.steps) > decisions


def _traced(x):
    if isinstance(x, (tuple, list)) and x:
        return all(map(_traced, x))
    return isinstance(x, Tracer)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("made", "name"), [*dunders()])
def test_no_dunder_answers_unnoticed(made, name):
    for arguments in ARGUMENTS:
        (a, recorded), (b, _) = (answered(made, v, name, arguments) for v in TWO)
        assert recorded or repr(a) == repr(b), (arguments, a, b)


@pytest.mark.parametrize("name", sorted(NOT_OURS))
def test_the_excused_are_of_object(name):
    assert name not in vars(Tracer) or name in ("__init__", "__doc__", "__array_namespace__")


MISSING = {
    "__array_finalize__", "__array_wrap__", "__array_interface__", "__array_struct__",
    "__complex__", "__dlpack__", "__dlpack_device__", "__getnewargs__", "__getformat__",
    "__setformat__", "__setstate__", "__class_getitem__", "__array_prepare__",
}  # fmt: skip
"""Of what NumPy's and Python's numbers have, tracers may lack this: asking for it raises."""


def test_every_dunder_is_defined_or_raises():
    classes = (np.ndarray, np.float64, np.int64, np.bool_, float, int)
    names = {n for c in classes for n in dir(c) if n.startswith("__") and n.endswith("__")}
    own = {n for c in Tracer.__mro__[:-1] for n in vars(c)}
    lacking = names - own - set(NOT_OURS)
    assert lacking <= MISSING | {"__reduce__"}, lacking
    for made in MADE.values():
        for name in lacking - {"__reduce__"}:
            _, found = tracer(made, TWO[0])
            with pytest.raises((AttributeError, TraceError)):
                getattr(found, name)


AT_ONCE = [
    lambda v: complex(v[0]),
    lambda v: copy.deepcopy(v)[0],
    lambda v: [10, 20, 30][int(abs(v[0])) % 3],
    lambda v: "abc"[int(abs(v[0])) % 3] == "a",
    lambda v: v[0] in [0.3, 0.1],
    lambda v: [0.3, v[1]].index(v[1]),
    lambda v: [v[0], 2.0].count(2.0),
    lambda v: sorted([v[0], v[1]], key=lambda x: -x)[0],
    lambda v: max([v[0], v[1]], key=abs),
    lambda v: divmod(v[0], 2)[0],
    lambda v: pow(v[0], 2),
    lambda v: round(v[0]),
    lambda v: float.fromhex("0x1p3") + v[0],
    lambda v: int.from_bytes(b"a", "big") + v[0],
    lambda v: isinstance(v[0], float),
    lambda v: [*map(float, v)][0],  # noqa: RUF015
    lambda v: dict(enumerate(v))[1],
    lambda v: dict(zip("abcd", v, strict=True))["b"],
    lambda v: min(v.tolist()),
    lambda v: [x for x in v if x > 0][-1] if (v > 0).any() else 0,
    lambda v: v.tolist().index(v.max()),
    lambda v: bool(v[0]) + int(v[1]),
    lambda v: not v[0] > 0,
    lambda v: (v > 0).tolist() == [True, True, False, True],
    lambda v: 1.0 if v[0] else 2.0,
    lambda v: v[0] if v[0] else 7.0,
    lambda v: v.item(0),
    lambda v: statistics.mean(v),
    lambda v: statistics.fmean(v),
    lambda v: statistics.median(v),
    lambda v: statistics.stdev(v.tolist()),
    lambda v: bisect.bisect([-1.0, 0.0, 1.0], v[0]),
    lambda v: bisect.bisect_left(sorted(v), v[0]),
    lambda v: heapq.nlargest(2, v)[1],
    lambda v: heapq.nsmallest(2, v.tolist())[-1],
    lambda v: list(itertools.accumulate(v))[-1],
    lambda v: list(itertools.accumulate(v, max))[2],
    lambda v: len(list(itertools.groupby(v > 0))),
    lambda v: sum(1 for _ in itertools.takewhile(lambda x: x > 0, v)),
    lambda v: sum(a * b for a, b in itertools.combinations(v, 2)),
    lambda v: sum(b - a for a, b in itertools.pairwise(v)),
    lambda v: functools.reduce(lambda a, b: a if a > b else b, v),
    lambda v: functools.reduce(operator.mul, v),
    lambda v: operator.itemgetter(1)(v),
    lambda v: operator.methodcaller("sum")(v),
    lambda v: operator.attrgetter("size")(v) + v[0],
    lambda v: operator.truth(v[0] > 0),
    lambda v: operator.not_(v[0] > 0),
    lambda v: operator.contains(v.tolist(), 0.3),
    lambda v: operator.countOf(v.tolist(), 0.3),
    lambda v: operator.indexOf(v.tolist(), v[2]),
    lambda v: [1, 2, 3][operator.index((v[0] > 0) * 1)],
    lambda v: collections.Counter(v > 0)[True],
    lambda v: collections.Counter((v > 0).tolist())[True],
    lambda v: collections.deque(v, maxlen=2)[0],
    lambda v: collections.OrderedDict(a=v[0])["a"],
    lambda v: Pair(v[0], v[1]).b,
    lambda v: Pair(*v[:2])._replace(a=3.0).a + v[0],
    lambda v: math.fsum(v),
    lambda v: math.prod(v),
    lambda v: math.dist(v[:2], v[2:]),
    lambda v: math.gcd(int(v[0] * 10), 12),
    lambda v: math.comb(5, int(abs(v[0])) % 5),
    lambda v: math.factorial(int(abs(v[0])) % 5),
    lambda v: math.isclose(v[0], 0.3),
    lambda v: math.frexp(v[0])[1],
    lambda v: math.ldexp(v[0], 2),
    lambda v: math.modf(v[0])[0],
    lambda v: math.remainder(v[0], 1.0),
    lambda v: math.nextafter(v[0], 9.0),
    lambda v: math.ulp(v[0]),
    lambda v: math.isqrt(int(abs(v[0] * 10))),
    lambda v: math.floor(v[0]) + math.ceil(v[1]) + math.trunc(v[2]),
    lambda v: cmath.sqrt(v[0]).real,
    lambda v: copy.copy(v)[1],
    lambda v: copy.deepcopy({"a": [v]})["a"][0][1],
    lambda v: isinstance(v[0], numbers.Real),
    lambda v: isinstance(v[0].item(), numbers.Integral),
    lambda v: float("1") + v[0],
    lambda v: len(str(v.size)) + v[0],
    lambda v: bin(int(abs(v[0] * 10))).count("1"),
    lambda v: int(abs(v[0] * 10)).bit_length(),
    lambda v: int(abs(v[0] * 10)).bit_count(),
    lambda v: chr(97 + int(abs(v[0]))) == "a",
    lambda v: "x" * int(abs(v[0])) == "",
    lambda v: len([0] * int(abs(v[0]))),
    lambda v: slice(int(abs(v[0])), 4).indices(4)[0],
    lambda v: v[: int(abs(v[0])) % 3 + 1].sum(),
    lambda v: v[slice(None, None, -1)][0],
    lambda v: range(10)[int(abs(v[0]))],
    lambda v: len(range(int(abs(v[0])))),
    lambda v: int(v[0]) in range(3),
    lambda v: 0.3 in v,
    lambda v: v[0] in v.tolist(),
    lambda v: v[0] in (v[1], v[2]),
    lambda v: v[0] == v[0] == 0.3,
    lambda v: (v[0], v[1]) < (0.3, 2.0),
    lambda v: [v[0], 1] == [0.3, 1],
    lambda v: max((x, i) for i, x in enumerate(v))[1],
    lambda v: sorted((x, i) for i, x in enumerate(v))[0][1],
    lambda v: sorted(range(4), key=lambda i: v[i])[0],
    lambda v: max(zip(v, range(4), strict=True))[1],
    lambda v: min(enumerate(v), key=lambda p: p[1])[0],
    lambda v: any(map(math.isnan, v)),
    lambda v: sum(filter(None, v)),
    lambda v: next(filter(lambda x: x > 0, v), -1.0),
    lambda v: [x for x in v if not x > 0][:1] == [],
    lambda v: {True: 1.0, False: 2.0}[bool(v[0] > 0)],
    lambda v: {True: 1.0, False: 2.0}[v[0] > 0],
    lambda v: {0: 1.0, 1: 2.0}.get((v > 0).sum(), 5.0),
    lambda v: v[0] and v[1],
    lambda v: v[0] or v[1],
    lambda v: (lambda x: x if x else 1.0)(v[0] - v[0]),
    lambda v: v[v > 0][0] if v[v > 0].size else 0.0,
    lambda v: v[np.newaxis].shape[0] + v[0],
    lambda v: (w := v * 2)[0] + w[1],
    lambda v: with_walrus(v),
    lambda v: int("1" * (1 + (v[0] > 0))),
]
"""What is asked of a slice, and needs no loop."""

ALONE = [
    lambda v: str(v),
    lambda v: f"{v[0]:.3f}",
    lambda v: "%d" % v[0],  # noqa: UP031
    lambda v: repr(v[0]),
    lambda v: hash(v[0]),
    lambda v: {v[0]: 1}[v[0]],
    lambda v: len({v[0], v[1]}),
    lambda v: bytes(v.astype(np.uint8)),
    lambda v: memoryview(v)[0],
    lambda v: list(range(int(v[0]) % 3)).__len__(),
    lambda v: v[0].hex() == "x",
    lambda v: v[0].as_integer_ratio()[0],
    lambda v: v.tobytes() == b"",
    lambda v: v.data[0],
    lambda v: v.flat[0],
    lambda v: v.view(np.int64)[0],
    lambda v: v.byteswap()[0],
    lambda v: v.strides[0],
    lambda v: v.flags.c_contiguous,
    lambda v: v.base is None,
    lambda v: type(v[0]) is np.float64,
    lambda v: v.__len__(),
    lambda v: float.__add__(float(v[0]), 1.0),
    lambda v: np.float64.__add__(v[0], 1.0),
    lambda v: np.ndarray.sum(v),
    lambda v: float.__float__(v[0].item()),
    lambda v: object.__repr__(v) == "",
    lambda v: object.__eq__(v, v) is True,
    lambda v: v is v[...],
    lambda v: v[0] is v[0],
    lambda v: np.asarray(memoryview(v)).sum(),
    lambda v: float(fractions.Fraction(v[0])),
    lambda v: float(decimal.Decimal(v[0].item())),
    lambda v: float(json.dumps(v[0].item())),
    lambda v: json.loads(json.dumps(v.tolist()))[1],
    lambda v: struct.unpack("d", struct.pack("d", v[0]))[0],
    lambda v: zlib.crc32(v),
    lambda v: hashlib.sha1(v.tobytes()).digest()[0],
    lambda v: sorted(range(4), key=v.__getitem__)[0],
    lambda v: max(range(4), key=v.__getitem__),
    lambda v: ("a", "b")[v[0] > 0] == "b",
    lambda v: match_it(v[0]),
]
"""What is not known of a slice before it is there, or raises."""


@pytest.mark.parametrize("use", AT_ONCE, ids=lambda f: str(f.__code__.co_firstlineno))
def test_whatever_is_asked_is_answered_at_once(use):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_at_once(use, 1, np.concatenate([np.stack(TWO * 5), array(100)]))


@pytest.mark.parametrize("use", ALONE, ids=lambda f: str(f.__code__.co_firstlineno))
def test_whatever_is_asked_gives_the_loops_answer(use):
    arr = np.concatenate([np.stack(TWO * 5), array(40)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = np.apply_along_axis(use, 1, arr)
        except Exception as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                xpapply.apply_along_axis(use, 1, arr)
            return
        np.testing.assert_array_equal(xpapply.apply_along_axis(use, 1, arr), want)


# --- side effects ---------------------------------------------------------------------

EFFECTS = {
    "global": """
        count = 0
        def f(v):
            global count
            count += 1
            return v.sum() + count
        state = lambda: count
    """,
    "global in a helper": """
        count = 0
        def tick():
            global count
            count += 1
        def f(v):
            tick()
            return v.sum()
        state = lambda: count
    """,
    "nonlocal": """
        def make():
            count = 0
            def f(v):
                nonlocal count
                count += 1
                return v.max() * count
            return f, lambda: count
        f, state = make()
    """,
    "attribute": """
        class F:
            count = 0
            def __call__(self, v):
                self.count += 1
                return v.sum() * self.count
        f = F()
        state = lambda: f.count
    """,
    "attribute of a bound method": """
        class F:
            def __init__(self): self.log = []
            def run(self, v):
                self.log.append(float(v[0]))
                return v.sum()
        o = F()
        f = o.run
        state = lambda: o.log
    """,
    "attribute by object.__setattr__": """
        class F:
            count = 0
            def __call__(self, v):
                object.__setattr__(self, "count", self.count + 1)
                return v.sum()
        f = F()
        state = lambda: f.count
    """,
    "attribute by __dict__": """
        class F:
            def __call__(self, v):
                self.__dict__["count"] = self.__dict__.get("count", 0) + 1
                return v.sum()
        f = F()
        state = lambda: f.count
    """,
    "attribute by __dict__.update": """
        class F:
            def __call__(self, v):
                self.__dict__.update(last=self.__dict__.get("last", 0) + 1)
                return v.sum()
        f = F()
        state = lambda: vars(f)
    """,
    "attribute by setattr": """
        class F:
            count = 0
            def __call__(self, v):
                setattr(self, "count", self.count + 1)
                return v.sum()
        f = F()
        state = lambda: f.count
    """,
    "attribute by vars": """
        class F:
            def __call__(self, v):
                vars(self)["x"] = float(v[0])
                return v.sum()
        f = F()
        state = lambda: f.x
    """,
    "slots": """
        class F:
            __slots__ = ("n",)
            def __init__(self): self.n = 0
            def __call__(self, v):
                self.n += 1
                return v.sum() + self.n
        f = F()
        state = lambda: f.n
    """,
    "class attribute": """
        class F:
            count = 0
            @classmethod
            def run(cls, v):
                cls.count += 1
                return v.sum()
        f = F.run
        state = lambda: F.count
    """,
    "property with a counter": """
        class F:
            n = 0
            @property
            def scale(self):
                self.n += 1
                return 2.0
            def __call__(self, v): return v * self.scale
        f = F()
        state = lambda: f.n
    """,
    "function attribute": """
        def f(v):
            f.calls += 1
            return v.sum()
        f.calls = 0
        state = lambda: f.calls
    """,
    "list": """
        log = []
        def f(v):
            log.append(1)
            return v.sum()
        state = lambda: log
    """,
    "list, unbound append": """
        log = []
        def f(v):
            list.append(log, 1)
            return v.sum()
        state = lambda: log
    """,
    "list, append taken outside": """
        log = []
        add = log.append
        def f(v):
            add(1)
            return v.sum()
        state = lambda: log
    """,
    "list, operator": """
        import operator
        log = [0]
        def f(v):
            operator.setitem(log, 0, log[0] + 1)
            return v.sum()
        state = lambda: log
    """,
    "list, heapq": """
        import heapq
        heap = []
        def f(v):
            heapq.heappush(heap, 1)
            return v.sum()
        state = lambda: heap
    """,
    "list, bisect": """
        import bisect
        found = []
        def f(v):
            bisect.insort(found, 1)
            return v.sum()
        state = lambda: found
    """,
    "list, slice": """
        log = []
        def f(v):
            log[len(log):] = [1]
            return v.sum()
        state = lambda: log
    """,
    "list, sort": """
        log = [3, 1, 2]
        def f(v):
            log.sort()
            return v.sum() + log[0]
        state = lambda: log
    """,
    "list, unbound insert and pop": """
        log = [3, 1, 2]
        def f(v):
            list.insert(log, 0, list.pop(log))
            return v.sum() + log[0]
        state = lambda: log
    """,
    "list, pop": """
        todo = list(range(5000))
        def f(v): return v.sum() + todo.pop()
        state = lambda: todo
    """,
    "list in a list": """
        logs = [[], []]
        def f(v):
            logs[1].append(1)
            return v.sum()
        state = lambda: logs
    """,
    "list in a tuple in a dict": """
        logs = {"a": ([],)}
        def f(v):
            logs["a"][0].append(1)
            return v.sum()
        state = lambda: logs
    """,
    "list, comprehension": """
        log = []
        def f(v):
            [log.append(i) for i in range(2)]
            return v.sum()
        state = lambda: log
    """,
    "list, map": """
        log = []
        def f(v):
            list(map(log.append, [1, 2]))
            return v.sum()
        state = lambda: log
    """,
    "dict": """
        seen = {}
        def f(v):
            seen["n"] = seen.get("n", 0) + 1
            return v.sum()
        state = lambda: seen
    """,
    "dict, unbound update": """
        seen = {}
        def f(v):
            dict.update(seen, {len(seen): 1})
            return v.sum()
        state = lambda: seen
    """,
    "dict, unbound __setitem__": """
        seen = {}
        def f(v):
            dict.__setitem__(seen, len(seen), 1)
            return v.sum()
        state = lambda: seen
    """,
    "dict, setdefault": """
        seen = {}
        def f(v):
            seen.setdefault("log", []).append(1)
            return v.sum()
        state = lambda: seen
    """,
    "dict, by position": """
        seen = {}
        def f(v):
            k = int(v[0])
            if k not in seen:
                seen[k] = len(seen)
            return seen[k]
        state = lambda: seen
    """,
    "defaultdict": """
        from collections import defaultdict
        seen = defaultdict(int)
        def f(v):
            seen["n"] += 1
            return v.sum()
        state = lambda: dict(seen)
    """,
    "Counter": """
        from collections import Counter
        seen = Counter()
        def f(v):
            seen.update(["a"])
            return v.sum()
        state = lambda: dict(seen)
    """,
    "set": """
        seen = set()
        def f(v):
            seen.add(len(seen))
            return v.sum()
        state = lambda: seen
    """,
    "set, unbound add": """
        seen = set()
        def f(v):
            set.add(seen, len(seen))
            return v.sum()
        state = lambda: seen
    """,
    "deque": """
        from collections import deque
        last = deque(maxlen=3)
        def f(v):
            last.append(1)
            return v.sum() + len(last)
        state = lambda: list(last)
    """,
    "deque, unbound": """
        from collections import deque
        last = deque()
        def f(v):
            deque.append(last, 1)
            return v.sum()
        state = lambda: list(last)
    """,
    "iterator": """
        steps = iter(range(100000))
        def f(v): return v.sum() + next(steps)
        state = lambda: next(steps)
    """,
    "itertools.count": """
        import itertools
        steps = itertools.count()
        def f(v): return v.sum() + next(steps)
        state = lambda: next(steps)
    """,
    "iterator in a loop": """
        steps = iter(range(100000))
        def f(v):
            for k in steps:
                return v.sum() + k
        state = lambda: next(steps)
    """,
    "iterator, zip": """
        steps = iter(range(100000))
        def f(v): return sum(k * x for k, x in zip(steps, v))
        state = lambda: next(steps)
    """,
    "map object": """
        steps = map(float, range(100000))
        def f(v): return v.sum() + next(steps)
        state = lambda: next(steps)
    """,
    "generator": """
        steps = (k for k in range(100000))
        def f(v): return v.sum() + next(steps)
        state = lambda: next(steps)
    """,
    "default argument": """
        def f(v, seen=[]):
            seen.append(1)
            return v.sum() + len(seen)
        state = lambda: f.__defaults__
    """,
    "keyword default": """
        def f(v, *, seen={}):
            seen["n"] = seen.get("n", 0) + 1
            return v.sum() + seen["n"]
        state = lambda: f.__kwdefaults__
    """,
    "partial": """
        import functools
        def g(log, v):
            log.append(1)
            return v.sum()
        log = []
        f = functools.partial(g, log)
        state = lambda: log
    """,
    "partial in f": """
        import functools
        def g(log, v):
            log.append(1)
            return v.sum()
        log = []
        h = functools.partial(g, log)
        def f(v): return h(v) + 1
        state = lambda: log
    """,
    "decorator": """
        import functools
        def counted(g):
            @functools.wraps(g)
            def wrapper(*args):
                wrapper.calls += 1
                return g(*args)
            wrapper.calls = 0
            return wrapper
        @counted
        def f(v): return v.sum()
        state = lambda: f.calls
    """,
    "decorated helper": """
        import functools
        log = []
        def logged(g):
            @functools.wraps(g)
            def wrapper(*args):
                log.append(g.__name__)
                return g(*args)
            return wrapper
        @logged
        def h(x): return x * 2
        def f(v): return h(v.sum())
        state = lambda: log
    """,
    "lru_cache": """
        import functools
        calls = []
        @functools.lru_cache
        def h(k):
            calls.append(k)
            return k * 2
        def f(v): return v.sum() + h(3)
        state = lambda: (calls, h.cache_info())
    """,
    "lru_cache of what depends on the slice": """
        import functools
        @functools.lru_cache(maxsize=None)
        def h(k): return k * 2
        def f(v): return h(int(v[0]))
        state = lambda: h.cache_info().misses > 0
    """,
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
    "print": """
        def f(v):
            print("a slice", len(v))
            return v.sum()
        state = lambda: None
    """,
    "print in a helper": """
        def say(*what): print(*what)
        def f(v):
            say("max", v.max())
            return v.sum()
        state = lambda: None
    """,
    "sys.stdout": """
        import sys
        def f(v):
            sys.stdout.write("x")
            return v.sum()
        state = lambda: None
    """,
    "random": """
        import random
        def f(v): return v.sum() + random.random()
        state = lambda: random.random()
    """,
    "random, imported inside": """
        def f(v):
            import random
            return v.sum() + random.gauss(0, 1)
        import random
        state = lambda: random.random()
    """,
    "random, from": """
        from random import random
        def f(v): return v.sum() + random()
        state = lambda: random()
    """,
    "np.random": """
        def f(v): return v.sum() + np.random.rand()
        state = lambda: np.random.rand()
    """,
    "np.random, function": """
        normal = np.random.normal
        def f(v): return v.sum() + normal()
        state = lambda: normal()
    """,
    "Generator": """
        rng = np.random.default_rng(0)
        def f(v): return v + rng.normal(size=v.shape)
        state = lambda: rng.normal()
    """,
    "Generator, method": """
        draw = np.random.default_rng(0).normal
        def f(v): return v.sum() + draw()
        state = lambda: draw()
    """,
    "Generator as an attribute": """
        class F:
            def __init__(self): self.rng = np.random.default_rng(0)
            def __call__(self, v): return self.rng.choice(v)
        f = F()
        state = lambda: f.rng.random()
    """,
    "Generator, permutation": """
        rng = np.random.default_rng(0)
        def f(v): return rng.permutation(v)
        state = lambda: rng.random()
    """,
    "bootstrap": """
        rng = np.random.default_rng(0)
        def f(v): return np.std([v[rng.integers(0, len(v), len(v))].mean() for _ in range(3)])
        state = lambda: rng.random()
    """,
    "shuffle": """
        def f(v):
            w = v.copy()
            np.random.shuffle(w)
            return w[0]
        state = lambda: np.random.rand()
    """,
    "new Generator": """
        def f(v):
            return v.sum() + np.random.default_rng(1).random()
        state = lambda: None
    """,
    "seed": """
        def f(v):
            np.random.seed(5)
            return v.sum()
        state = lambda: np.random.rand()
    """,
    "warning": """
        import warnings
        def f(v):
            warnings.warn("low")
            return v.sum()
        state = lambda: None
    """,
    "file": """
        import os, tempfile
        path = os.path.join(tempfile.mkdtemp(), "log")
        def f(v):
            with open(path, "a") as out:
                out.write("x")
            return v.sum()
        state = lambda: os.path.getsize(path)
    """,
    "environment": """
        import os
        def f(v):
            os.environ["XPAPPLY_TEST"] = str(int(os.environ.get("XPAPPLY_TEST", "0")) + 1)
            return v.sum()
        state = lambda: os.environ.pop("XPAPPLY_TEST")
    """,
    "globals()": """
        n = 0
        def f(v):
            globals()["n"] += 1
            return v.sum()
        state = lambda: n
    """,
    "exec": """
        n = 0
        def f(v):
            exec("global n; n += 1", globals())
            return v.sum()
        state = lambda: n
    """,
    "eval": """
        log = []
        def f(v):
            eval("log.append(1)")
            return v.sum()
        state = lambda: log
    """,
    "module attribute": """
        import types
        settings = types.SimpleNamespace(n=0)
        def f(v):
            settings.n += 1
            return v.sum()
        state = lambda: settings.n
    """,
    "context manager": """
        log = []
        class Timer:
            def __enter__(self): log.append("in")
            def __exit__(self, *e): log.append("out")
        def f(v):
            with Timer():
                return v.sum()
        state = lambda: log
    """,
    "overloaded operator": """
        log = []
        class Scale:
            def __rmul__(self, x):
                log.append(1)
                return x.sum()
        s = Scale()
        s.__array_ufunc__ = None
        Scale.__array_ufunc__ = None
        def f(v): return v * s
        state = lambda: log
    """,
    "callback of sorted": """
        log = []
        def key(x):
            log.append(1)
            return -x
        def f(v): return sorted(v, key=key)[0]
        state = lambda: log
    """,
    "callback of np.vectorize": """
        log = []
        def one(x):
            log.append(1)
            return x + 1
        g = np.vectorize(one)
        def f(v): return g(v)
        state = lambda: log
    """,
    "callback of np.apply_along_axis": """
        log = []
        def one(x):
            log.append(1)
            return x.sum()
        def f(v): return np.apply_along_axis(one, 0, v)
        state = lambda: log
    """,
    "callback of functools.reduce": """
        import functools
        log = []
        def add(a, b):
            log.append(1)
            return a + b
        def f(v): return functools.reduce(add, v)
        state = lambda: log
    """,
    "class made inside": """
        log = []
        def f(v):
            class A:
                def __init__(self): log.append(1)
            A()
            return v.sum()
        state = lambda: log
    """,
    "class made outside": """
        log = []
        class A:
            def __init__(self, x):
                log.append(1)
                self.x = x
        def f(v): return A(v.sum()).x
        state = lambda: log
    """,
    "method of a helper object": """
        class Log:
            def __init__(self): self.lines = []
            def write(self, x): self.lines.append(x)
        log = Log()
        def f(v):
            log.write(len(v))
            return v.sum()
        state = lambda: log.lines
    """,
    "except hides it": """
        log = []
        def f(v):
            try:
                log.append(1)
            except Exception:
                pass
            return v.sum()
        state = lambda: log
    """,
    "bare except hides it": """
        n = [0]
        def f(v):
            try:
                n[0] += 1
            except:
                return 0.0
            return v.sum()
        state = lambda: n
    """,
    "finally": """
        log = []
        def f(v):
            try:
                return v.sum()
            finally:
                log.append(1)
        state = lambda: log
    """,
    "suppress hides it": """
        import contextlib
        log = []
        def f(v):
            with contextlib.suppress(Exception):
                log.append(1)
            return v.sum()
        state = lambda: log
    """,
    "only on some path": """
        log = []
        def f(v):
            if v[0] > 1.5:
                log.append(1)
            return v.sum()
        state = lambda: log
    """,
    "the slice is kept": """
        kept = []
        def f(v):
            kept.append(v.copy())
            return v.sum()
        state = lambda: kept
    """,
    "time": """
        import time
        def f(v):
            t = time.perf_counter()
            return v.sum() if time.perf_counter() >= t else v.max()
        state = lambda: None
    """,
    "del of a list": """
        todo = list(range(5000))
        def f(v):
            del todo[0]
            return v.sum() + todo[0]
        state = lambda: todo
    """,
    "bytearray": """
        data = bytearray(4)
        def f(v):
            data[0] = (data[0] + 1) % 200
            return v.sum()
        state = lambda: data
    """,
    "array.array": """
        import array
        data = array.array("d", [0.0])
        def f(v):
            data[0] += 1
            return v.sum()
        state = lambda: data
    """,
    "unpacking into a list": """
        last = [0, 0]
        def f(v):
            last[0], last[1] = last[1] + 1, last[0]
            return v.sum()
        state = lambda: last
    """,
    "for into a list": """
        last = [0]
        def f(v):
            for last[0] in range(3):
                pass
            return v.sum()
        state = lambda: last
    """,
    "copy.copy of a holder": """
        import copy
        holder = {"log": []}
        def f(v):
            copy.copy(holder)["log"].append(1)
            return v.sum()
        state = lambda: holder
    """,
    "dict.get of a list": """
        holder = {"log": []}
        def f(v):
            holder.get("log").append(1)
            return v.sum()
        state = lambda: holder
    """,
    "list(...) of lists": """
        holder = [[]]
        def f(v):
            list(holder)[0].append(1)
            return v.sum()
        state = lambda: holder
    """,
    "operator.iadd": """
        import operator
        log = []
        def f(v):
            operator.iadd(log, [1])
            return v.sum()
        state = lambda: log
    """,
    "operator.methodcaller": """
        import operator
        log = []
        add = operator.methodcaller("append", 1)
        def f(v):
            add(log)
            return v.sum()
        state = lambda: log
    """,
    "heapq.heapreplace": """
        import heapq
        heap = [1, 2, 3]
        def f(v):
            heapq.heapreplace(heap, heap[0] + 5)
            return v.sum() + heap[0]
        state = lambda: heap
    """,
    "list.extend, unbound": """
        log = []
        def f(v):
            list.extend(log, [1])
            return v.sum()
        state = lambda: log
    """,
    "type(x).append": """
        log = []
        def f(v):
            type(log).append(log, 1)
            return v.sum()
        state = lambda: log
    """,
    "object.__setattr__ of a frozen dataclass": """
        import dataclasses
        @dataclasses.dataclass(frozen=True)
        class F:
            n: int = 0
            def __call__(self, v):
                object.__setattr__(self, "n", self.n + 1)
                return v.sum() * self.n
        f = F()
        state = lambda: f.n
    """,
    "super().__setattr__": """
        class F:
            n = 0
            def __setattr__(self, name, x): super().__setattr__(name, x)
            def step(self): self.n += 1
            def __call__(self, v):
                self.step()
                return v.sum() * self.n
        f = F()
        state = lambda: f.n
    """,
    "cached_property": """
        import functools
        class F:
            made = []
            @functools.cached_property
            def table(self):
                self.made.append(1)
                return np.ones(4)
            def __call__(self, v): return (v * self.table).sum()
        f = F()
        state = lambda: (f.made, "table" in vars(f))
    """,
    "set.update, unbound": """
        seen = set()
        def f(v):
            set.update(seen, [len(seen)])
            return v.sum()
        state = lambda: seen
    """,
    "dict.pop, unbound": """
        todo = dict.fromkeys(range(5000))
        def f(v):
            dict.popitem(todo)
            return v.sum() + len(todo)
        state = lambda: todo
    """,
    "set |=": """
        seen = [set()]
        def f(v):
            s = seen[0]
            s |= {len(s)}
            return v.sum()
        state = lambda: seen
    """,
    "list +=": """
        logs = [[]]
        def f(v):
            log = logs[0]
            log += [1]
            return v.sum()
        state = lambda: logs
    """,
    "list *=": """
        logs = [[1]]
        def f(v):
            log = logs[0]
            log *= 1
            log[0] += 1
            return v.sum()
        state = lambda: logs
    """,
    "operator.methodcaller, keeping": """
        import operator
        table = np.zeros(4)
        add = operator.methodcaller("__iadd__", 1.0)
        def f(v):
            add(table)
            return v.sum()
        state = lambda: table
    """,
}


def run(source, apply):
    """The result, the slices afterwards, the state, and what was printed."""
    np.random.seed(1)
    random.seed(1)
    space = {"np": np, "__name__": "effects"}
    exec(compile(textwrap.dedent(source), "effects.py", "exec"), space)
    arr = array()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = apply(space["f"], 1, arr)
    return result, arr, space["state"](), said.getvalue(), [str(w.message) for w in caught]


@pytest.mark.parametrize("name", EFFECTS)
def test_side_effects_are_those_of_the_loop(name):
    want = run(EFFECTS[name], np.apply_along_axis)
    got = run(EFFECTS[name], xpapply.apply_along_axis)
    np.testing.assert_equal(got, want)


def test_each_slice_is_seen_once_and_in_order():
    seen = []

    def f(v):
        seen.append(v[0])
        return v.sum()

    arr = array()
    xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(seen, arr[:, 0])


def test_an_effect_in_another_thread_of_thought():
    """A later call of a function whose first plan was pure, with another helper."""
    log = []
    helpers = {"h": lambda x: x * 2}

    def f(v):
        return helpers["h"](v.sum())

    arr = array()
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), 2 * arr.sum(1))

    def noisy(x):
        log.append(1)
        return x * 3

    helpers["h"] = noisy
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), 3 * arr.sum(1))
    assert len(log) == SLICES


# --- exceptions -----------------------------------------------------------------------


class Odd(Exception):
    """With more than a message."""

    def __init__(self, value, *, code):
        super().__init__(f"odd {value}", code)
        self.code = code


def _raise_middle(v):
    if v[0] == 77:
        raise Odd(7, code=3)
    return v.sum()


def _raise_with_value(v):
    if v[0] == 77:
        raise ValueError("value is", float(v[0]))
    return v.sum()


def _raise_formatted(v):
    if v[0] > 70:
        raise RuntimeError(f"slice starts with {v[0]:.2f}")
    return v.sum()


def _raise_from(v):
    try:
        if v[0] == 77:
            raise KeyError("inner")
    except KeyError as error:
        raise LookupError("outer") from error
    return v.sum()


def _helper(x):
    if x == 77:
        raise ZeroDivisionError("mine")
    return x


def _raise_in_helper(v):
    return _helper(v[0]) + v[1]


def _assertion(v):
    assert v[0] != 77, "not this one"
    return v.max()


def _key(v):
    return {0: 1.0, 1: 2.0}[int(v[0] == 77) * 5]


def _index(v):
    return v[int(v[0] == 77) * 10]


def _divide(v):
    return 1.0 / float(v[0] - 77)


def _to_int(v):
    return int(v[0] / (v[0] - 77))


def _stop(v):
    if v[0] == 77:
        return next(iter(()))
    return v.sum()


def _numpy_error(v):
    return np.linalg.inv(np.array([[v[0] - 77, 0.0], [0.0, 1.0]])).ravel()


def _empty(v):
    return v[v < 70].max() if v[0] == 77 else v[v > 1e9].max()


def _shape(v):
    return v[:2] if v[0] == 77 else v


def _exit(v):
    if v[0] == 77:
        raise SystemExit(3)
    return v.sum()


def _interrupt(v):
    if v[0] == 77:
        raise KeyboardInterrupt
    return v.sum()


def _unbound(v):
    if v[0] != 77:
        x = 1.0
    return x


def _attribute(v):
    return (v[0] if v[0] != 77 else "text").real


def _argument(v):
    return math_like(v[0], 1) if v[0] == 77 else v.sum()


def math_like(x):
    return x


def _strict(v):
    with np.errstate(divide="raise"):
        return 1 / (v - 77)


def _swallowed(v):
    try:
        return int(1 / float(v[0] - 77))
    except ZeroDivisionError:
        return -1


def _swallowed_and_raised(v):
    try:
        x = 1 / float(v[0] - 77)
    except ZeroDivisionError as error:
        raise Odd(str(error), code=1) from None
    return x


@pytest.mark.parametrize(
    "f",
    [
        *(_raise_middle, _raise_with_value, _raise_formatted, _raise_from, _raise_in_helper),
        *(_assertion, _key, _index, _divide, _to_int, _stop, _numpy_error, _empty, _shape, _exit),
        *(_interrupt, _unbound, _attribute, _argument, _strict, _swallowed, _swallowed_and_raised),
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("at", [0, SLICES // 2, SLICES - 1])
def test_exceptions_pass_unchanged(f, at):
    arr = array()
    arr[at, 0] = 77
    raised = []
    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        try:
            raised.append(apply(f, 1, arr))
        except BaseException as error:
            raised.append(error)
    want, got = raised
    if not isinstance(want, BaseException):
        np.testing.assert_array_equal(got, want)
        return
    assert type(got) is type(want)
    assert str(got) == str(want)
    assert got.args == want.args
    assert getattr(got, "code", None) == getattr(want, "code", None)
    assert type(got.__cause__) is type(want.__cause__)


# --- bounds ---------------------------------------------------------------------------


def _endless(v):
    return _endless(v + 1)


def _deep(v, n=400):
    return v.sum() if n == 0 else _deep(v + 1, n - 1)


def _long(v):
    total = 0.0
    for _ in range(30_000):
        total = total + v[0]
    return total


def _ever_new(v):
    """Each slice takes its own path."""
    total, x = 0, int(abs(v[0]) * 1e6)
    while x:
        total += x % 2
        x //= 2
    return total


def _squares(v):
    x = v
    for _ in range(25):
        x = np.concatenate([x, x])
    return x.sum()


@pytest.mark.parametrize("f", [_long, _ever_new, _deep], ids=lambda f: f.__name__)
def test_big_traces_end(f):
    arr = array(40)
    started = time.perf_counter()
    xpapply.explain(f, 1, arr)
    assert time.perf_counter() - started < 12
    np.testing.assert_array_equal(
        xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr)
    )


def test_a_long_loop_is_refused():
    why = "; ".join(xpapply.explain(_long, 1, array(40)).reasons)
    assert "operations" in why


def test_endless_recursion():
    started = time.perf_counter()
    with pytest.raises(RecursionError):
        xpapply.apply_along_axis(_endless, 1, array(40))
    assert time.perf_counter() - started < 12


# --- changes between calls ------------------------------------------------------------


SCALE = 2.0
TABLE = np.array([1.0, 2.0, 3.0, 4.0])
NAMES = {"k": 2.0}
LIST = [1.0, 2.0]
NESTED = {"a": [1.0, {"b": 2.0}]}


class Model:
    offset = 0.5

    def __init__(self):
        self.weights = np.ones(4)
        self.scale = 2.0
        self.inner = {"deep": [1.0]}

    def __call__(self, v):
        return (v * self.weights).sum() * self.scale + self.offset + self.inner["deep"][0]


def helper(x):
    return x + 1


def other_helper(x):
    return x + 100


def closure():
    cell = 2.0

    def f(v):
        return v.sum() * cell

    def change():
        nonlocal cell
        cell = 3.0

    return f, change


def globally(change):
    def f(v):
        return (v * TABLE).sum() * SCALE + NAMES["k"] + LIST[0] + NESTED["a"][1]["b"] + helper(v[0])

    return f, change


def _set_global(monkeypatch, name, value):
    return lambda: monkeypatch.setitem(globals(), name, value)


def changes(monkeypatch):
    yield "closure", *closure()
    yield "global", *globally(_set_global(monkeypatch, "SCALE", 5.0))
    yield "global array replaced", *globally(_set_global(monkeypatch, "TABLE", np.ones(4)))
    yield "global array written", *globally(lambda: TABLE.__setitem__(2, 77.0))
    yield "dict", *globally(lambda: NAMES.update(k=9.0))
    yield "list", *globally(lambda: LIST.__setitem__(0, -4.0))
    yield "nested", *globally(lambda: NESTED["a"][1].update(b=-8.0))
    yield "helper", *globally(_set_global(monkeypatch, "helper", other_helper))
    yield (
        "helper's code",
        *globally(lambda: monkeypatch.setattr(helper, "__code__", other_helper.__code__)),
    )
    for name, change in {
        "attribute": lambda m: setattr(m, "scale", 7.0),
        "attribute deleted and of the class": lambda m: setattr(Model, "offset", 4.0),
        "array of an attribute": lambda m: m.weights.__setitem__(0, 5.0),
        "array in place": lambda m: np.multiply(m.weights, 3, out=m.weights),
        "attribute replaced": lambda m: setattr(m, "weights", np.zeros(4)),
        "dict of an attribute": lambda m: m.inner["deep"].__setitem__(0, 6.0),
        "shadowing attribute": lambda m: setattr(m, "offset", 8.0),
        "class": lambda m: setattr(m, "__class__", type("Other", (Model,), {"offset": 3.0})),
    }.items():
        model = Model()
        yield name, model, lambda m=model, change=change: change(m)

    def f(v, k=[2.0], *, table={"a": 1.0}):  # noqa: B006
        return v.sum() * k[0] + table["a"]

    yield "default list", f, lambda: f.__defaults__[0].__setitem__(0, 5.0)
    yield "keyword default", f, lambda: f.__kwdefaults__["table"].update(a=5.0)
    yield "defaults", f, lambda: setattr(f, "__defaults__", ([9.0],))
    yield "keyword default replaced", f, lambda: f.__kwdefaults__.update(table={"a": -3.0})

    def g(v):
        return v.max()

    yield "code", g, lambda: setattr(g, "__code__", (lambda v: v.min()).__code__)
    weights = np.ones(4)
    matrix = np.arange(8.0).reshape(2, 4)
    row = matrix[1]

    def h(v):
        return v @ weights + (v * row).sum()

    yield "array of a closure", h, lambda: weights.__setitem__(3, 4.0)
    yield "array behind a view", h, lambda: matrix.__setitem__((1, 2), 40.0)
    keep = {1.0, 2.0}

    def members(v):
        return sum(1.0 for x in (1.0, 2.0, 3.0) if x in keep) + v[0]

    yield "set", members, lambda: keep.add(3.0)
    options = {"k": 2.0}
    part = functools.partial(lambda v, k: v.sum() * k, **options)
    yield "partial", part, lambda: part.keywords.update(k=4.0)

    settings = types.SimpleNamespace(level=1.0)

    def with_settings(v):
        return v.sum() + settings.level

    yield "namespace", with_settings, lambda: setattr(settings, "level", 9.0)
    yield "module", *patched(monkeypatch)


def patched(monkeypatch):
    module = types.ModuleType("a_module_of_ours")
    module.k = 2.0

    def f(v):
        return v.sum() * module.k

    return f, lambda: monkeypatch.setattr(module, "k", 11.0)


CHANGES = [name for name, *_ in changes(None)]


@pytest.mark.parametrize("name", CHANGES)
def test_changes_between_calls_are_noticed(name, monkeypatch):
    for holder in (NAMES, LIST, NESTED, TABLE):
        monkeypatch.setitem(
            globals(), next(k for k, x in globals().items() if x is holder), copy.deepcopy(holder)
        )
    monkeypatch.setattr(Model, "offset", 0.5)
    f, change = next((f, c) for n, f, c in changes(monkeypatch) if n == name)
    arr = array(300)
    want = np.apply_along_axis(f, 1, arr)
    for _ in range(2):
        np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, arr), want, rtol=1e-12)
    change()
    changed = np.apply_along_axis(f, 1, arr)
    assert not np.allclose(changed, want)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, arr), changed, rtol=1e-12)


def test_arguments_that_change():
    def f(v, w, k=1.0):
        return (v * w).sum() * k

    arr, w = array(300), np.ones(4)
    for change in (lambda: None, lambda: w.__setitem__(1, 5.0), lambda: w.fill(2.0)):
        change()
        for k in (1.0, 2.0, 2, True, np.float32(2)):
            np.testing.assert_array_equal(
                xpapply.apply_along_axis(f, 1, arr, w, k=k), np.apply_along_axis(f, 1, arr, w, k=k)
            )


# --- reasons --------------------------------------------------------------------------


def _prints(v):
    print(v)
    return v.sum()


def _opens(v):
    with open("nowhere") as file:
        return file.read()


def _draws(v):
    w = v * 2
    return w + np.random.rand()


def _appends(v, log=[]):  # noqa: B006
    log.append(1)
    return v.sum()


def _sets_global(v):
    global SCALE
    SCALE = 2.0
    return v.sum()


def _sets_attribute(v):
    helper.calls = 1
    return v.sum()


def _writes_slice(v):
    w = v
    w[0] = 1
    return w


def _formats(v):
    w = v.max()
    return float(f"{w:.3f}")


def _hashes(v):
    return hash(v[0])


def _looks_up(v):
    return {1.0: 2.0}.get(v[0], 3.0)


def _writes_table(v):
    TABLE[0] = 1
    return v.sum()


def _no_rule(v):
    return np.poly(v)


def _views(v):
    return v.view(np.int64)


def _unknown(v):
    return random.SystemRandom().random() + v[0]


def _in_helper(v):
    return v.max() + _hashes(v)


@pytest.mark.parametrize(
    ("f", "words", "line"),
    [
        (_prints, "print", 1),
        (_opens, "open", 1),
        (_draws, "numpy.random.rand", 2),
        (_appends, "list", 1),
        (_sets_global, "SCALE", 2),
        (_sets_attribute, "calls", 1),
        (_writes_slice, "writes", 2),
        (_formats, "format", 2),
        (_hashes, "hash", 1),
        (_looks_up, "hash", 1),
        (_writes_table, "writes", 1),
        (_no_rule, "numpy.poly", 1),
        (_views, "view", 1),
        (_unknown, "random", 1),
    ],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_reasons_name_the_operation_and_the_line(f, words, line):
    plan = xpapply.explain(f, 1, array())
    assert not plan.vectorized
    why = "; ".join(plan.reasons)
    assert words in why
    assert f"test_tracer.py:{f.__code__.co_firstlineno + line}" in why


@pytest.mark.parametrize(
    ("f", "kind"),
    [
        (lambda v: (x for x in v), "generator"),
        (lambda v: map(abs, v), "map"),
        (lambda v: lambda: 1, "function"),
        (lambda v: None, "NoneType"),
    ],
)
def test_results_that_are_no_numbers(f, kind):
    assert xpapply.explain(f, 1, array(40)).reasons == (f"it returns {kind}",)


def test_reasons_name_the_line_in_the_helper():
    why = "; ".join(xpapply.explain(_in_helper, 1, array()).reasons)
    assert f"test_tracer.py:{_hashes.__code__.co_firstlineno + 1}" in why
