"""Special methods of what stands for a slice: each answers as NumPy's array does, or raises."""

import bisect
import cmath
import collections
import copy
import decimal
import fractions
import functools
import hashlib
import heapq
import itertools
import json
import math
import numbers
import operator
import re
import statistics
import struct
import warnings
import zlib

import numpy as np
import pytest
from calls_of import assert_at_once
from many_slices import array

import xpapply
from xpapply.errors import TraceError
from xpapply.frontends.python.sandbox import operations
from xpapply.frontends.python.sandbox.sandbox import Sandbox
from xpapply.frontends.python.trace.recorder import Recorder
from xpapply.frontends.python.trace.tracer import Tracer
from xpapply.frontends.python.trace.tree import Branch
from xpapply.functions.guards import Guards

pytestmark = pytest.mark.usefixtures("plan_always")


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
    recorder.stage = Sandbox(recorder, Guards(), None)
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
