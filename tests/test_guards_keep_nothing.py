"""What tells functions apart, and that nothing is kept alive by being watched."""

import functools
import gc
import importlib
import tracemalloc
import weakref

import numpy as np
import pytest
from guard_cases import ARRAY, LOUD, QUIET, Base, follows

import xpapply
from xpapply.functions import cache
from xpapply.limits import LIMITS

# --- what tells functions apart -----------------------------------------------------------------

VALUES = [0.0, -0.0, 0, False, 1, 1.0, True, np.float64(1), np.float32(1), np.int8(1), 1 + 0j]

VALUES += [-0j, 0j, complex(0.0, -0.0), QUIET[0].item(), LOUD[0].item(), -QUIET[0].item()]

VALUES += [QUIET[0], LOUD[0], np.float64(0.0), np.float64(-0.0)]


def bits(x):
    return x.dtype, x.tobytes()


def closure(k):
    return lambda v: v * k


def default(k):
    return lambda v, k=k: v * k


def in_a_tuple(k):
    pair = (1.0, k)
    return lambda v: v * pair[1]


def in_a_list(k):
    pair = [1.0, [k]]
    return lambda v: v * pair[1][0]


def in_a_dict(k):
    table = {"k": (k,)}
    return lambda v: v * table["k"][0]


def keyword_default(k):
    def f(v, *, k=k):
        return v * k

    return f


KINDS = [closure, default, keyword_default, in_a_tuple, in_a_list, in_a_dict]


@pytest.mark.parametrize("make", KINDS)
def test_equal_numbers_that_are_not_the_same(make):
    """0.0 and -0.0, 1 and True, NaN and NaN: functions with the same code, one after the other."""
    for k in [*VALUES, *VALUES[::-1]]:
        f = make(k)
        want = np.apply_along_axis(f, -1, ARRAY)
        for _ in range(2):
            got = xpapply.apply_along_axis(f, -1, ARRAY)
            assert bits(got) == bits(want), (k, type(k))


@pytest.mark.parametrize("wrap", [lambda k: k, lambda k: (1.0, k), lambda k: [[k]]])
def test_equal_arguments_that_are_not_the_same(wrap):
    def f(v, k):
        while isinstance(k, (tuple, list)):
            k = k[-1]
        return v * k

    for k in [*VALUES, *VALUES[::-1]]:
        want = np.apply_along_axis(f, -1, ARRAY, wrap(k))
        for _ in range(2):
            assert bits(xpapply.apply_along_axis(f, -1, ARRAY, wrap(k))) == bits(want), k


def test_names_of_keywords():
    def f(v, **given):
        return v.sum() * given.get("a", 1.0) - given.get("b", 0.0)

    for given in ({"a": 2.0}, {"b": 2.0}, {"a": 2.0, "b": 3.0}, {"b": 2.0, "a": 3.0}, {}):
        want = np.apply_along_axis(f, -1, ARRAY, **given)
        np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, ARRAY, **given), want)


def test_a_closure_made_anew_is_traced_once(monkeypatch):
    """A lambda in a loop, also over a list, a default, or with an array as an argument."""
    made = []
    traced = importlib.import_module("xpapply.planning.python.traced")
    trace = traced.traced
    monkeypatch.setattr(traced, "traced", lambda *a: made.append(a) or trace(*a))
    w = np.arange(4.0)
    for make in (
        lambda: (lambda v: (v * w).sum(),),
        lambda: ((lambda k: lambda v: v.sum() * k[0])([2.0]),),
        lambda: ((lambda k: lambda v, k=k: v.sum() * k)(2.0),),
        lambda: ((lambda v, a: (v * a).sum()), np.arange(4.0)),
        lambda: ((lambda v, a: (v * a[0]).sum()), [np.arange(4.0)]),
    ):
        made.clear()
        for _ in range(4):
            f, *args = make()
            xpapply.apply_along_axis(f, -1, ARRAY, *args)
            del f, args
        assert len(made) == 1, make


# --- nothing is kept alive ----------------------------------------------------------------------


class Freed:
    """Something that a test can see being freed."""


HEAD = """
import math
import numpy as np
class Marked: pass
marked = Marked()
"""

NAMESPACES = {
    "function": """
K, L, D = 2.0, [1.0, 2.0], {"a": [1.0]}
def h(x): return x + K
def f(v): return h((v * K).sum()) * L[0] + D["a"][0] + abs(v[0])
""",
    "recursion": "def f(v, n=3): return v.sum() if n == 0 else f(v, n - 1) + 1",
    "object": """
class Model:
    def __init__(self): self.k, self.me = 2.0, [self]
    def __call__(self, v): return v.sum() * self.k
f = Model()
""",
    "method": """
class Model:
    def __init__(self): self.k = 2.0
    def method(self, v): return v.sum() * self.k
model = Model()
f = model.method
""",
    "lambda in a function": """
def run(v):
    import xpapply
    k = [marked]
    return xpapply.apply_along_axis(lambda v: v.sum() * len(k), -1, v)
""",
    "class as an argument": """
class Settings: k = 2.0
def f(v, settings=Settings): return v.sum() * settings.k
args = (Settings,)
""",
    "partial": """
import functools
def g(v, k): return v.sum() * k
f = functools.partial(g, k=2.0)
""",
    "refused": """
def f(v): return hash(v[0]) + 0.0
""",
}


def call(arr, namespace):
    if "run" in namespace:
        return namespace["run"](arr)
    return xpapply.apply_along_axis(namespace["f"], -1, arr, *namespace.get("args", ()))


@pytest.mark.filterwarnings("ignore::xpapply.errors.FallbackWarning")
@pytest.mark.parametrize("name", NAMESPACES)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_namespaces_of_exec_are_freed(name, library, request):
    arr = ARRAY
    if library == "torch":
        arr = request.getfixturevalue("torch").from_numpy(ARRAY)
    namespace = {"__name__": "generated"}
    exec(HEAD + NAMESPACES[name], namespace)
    gone = weakref.ref(namespace["marked"])
    for _ in range(3):
        call(arr, namespace)
    del namespace
    gc.collect()
    assert gone() is None


CONTENTS = {
    "object": lambda x: x,
    "list": lambda x: [x],
    "dict": lambda x: {"x": (x,)},
    "function": lambda x: lambda: x,
}


@pytest.mark.parametrize("name", CONTENTS)
def test_contents_of_closures_are_freed(name):
    def make(content):
        return lambda v: v.sum() + (content is None)

    x = Freed()
    gone = weakref.ref(x)
    f = make(CONTENTS[name](x))
    for _ in range(2):
        xpapply.apply_along_axis(f, -1, ARRAY)
    del f, x
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("copied", [1 << 26, 16])
def test_arrays_of_closures_are_freed(copied, monkeypatch):
    """Those that are compared by a copy, and those that are too large for that."""

    monkeypatch.setattr(LIMITS, "copied", copied)

    def make(w):
        return lambda v: (v * w[:4]).sum()

    w = np.arange(2000.0)
    gone = weakref.ref(w)
    f = make(w)
    follows(f, functools.partial(w.fill, 3.0))
    assert cache.cache_of(f)[0].traced
    del f, w
    gc.collect()
    assert gone() is None


def test_large_arrays_are_not_copied(monkeypatch):

    monkeypatch.setattr(LIMITS, "copied", 1 << 20)
    for size in (1 << 20, (1 << 20) + 8):
        w = np.arange(size / 8)
        f = eval("lambda v: v.sum() * w[7]", {"w": w})
        xpapply.apply_along_axis(f, -1, ARRAY)
        tracemalloc.start()
        try:
            follows(f, functools.partial(w.fill, 3.0))
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (kept > 1 << 20) == (size <= 1 << 20)


def test_a_plan_that_was_asked_for_keeps_its_function(torch):
    plan = xpapply.explain(lambda v: v.sum() * 2, -1, torch.from_numpy(ARRAY))
    gc.collect()
    want = np.apply_along_axis(lambda v: v.sum() * 2, -1, ARRAY)
    np.testing.assert_allclose(plan(torch.from_numpy(ARRAY)).numpy(), want)


@pytest.mark.parametrize("kind", ["traced", "plans", "lifted"])
def test_what_is_remembered_is_limited(kind, torch):
    """Arrays of ever new shapes do not fill the memory."""

    def f(v):
        return v.sum() * 2.0

    net = torch.nn.Sequential(torch.nn.Tanh())
    owner = net if kind == "lifted" else f
    known = cache.cache_of(owner)[0]
    most = 0
    for n in range(1, 2 * LIMITS.remembered):
        arr = ARRAY[:20, :1].repeat(n, 1)
        with xpapply.options(engine="" if kind == "lifted" else "torch"):
            xpapply.apply_along_axis(owner, -1, torch.from_numpy(arr))
        most = max(most, len(getattr(known, kind)))
    assert 2 < most <= LIMITS.remembered


def test_functions_that_are_gone_are_forgotten():
    def use():
        f = Base()
        xpapply.apply_along_axis(f, -1, ARRAY)
        exec("def g(v): return v.sum()", namespace := {})
        xpapply.apply_along_axis(namespace["g"], -1, ARRAY)

    def known():
        gc.collect()
        return len(cache._by_object), len(cache._by_code)

    use()
    before = known()
    for _ in range(20):
        use()
    assert known() == before
