"""Functions that print, draw at random or change a module do so as in the loop, hidden or not."""

import asyncio
import gc
import warnings

import numpy as np
import pytest
from side_effects import run

import xpapply

pytestmark = pytest.mark.usefixtures("plan_always")


EFFECTS = {
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


@pytest.mark.parametrize("name", EFFECTS)
def test_side_effects_are_those_of_the_loop(name):
    want = run(EFFECTS[name], np.apply_along_axis)
    got = run(EFFECTS[name], xpapply.apply_along_axis)
    np.testing.assert_equal(got, want)


def test_other_threads_may_draw_meanwhile(monkeypatch):
    """As those of distributed do, where a function is looked at on a worker."""
    import random

    from xpapply.frontends.python.sandbox import tracing

    x = np.arange(3600.0).reshape(900, 4) ** 1.5
    drew, left = tracing._drew, [1]

    def meanwhile(states):
        if left:
            left.pop()
            random.random()
        return drew(states)

    monkeypatch.setattr(tracing, "_drew", meanwhile)
    plan = xpapply.explain(lambda v: (v - v.mean()) / v.std(), -1, x)
    assert plan.vectorized, plan.reasons
    assert not left
    own = random.Random(0)
    for draws in (random.random, np.random.rand, own.random):
        plan = xpapply.explain(lambda v, draw=draws: v * draw(), -1, x)
        assert not plan.vectorized


def test_no_coroutine_is_made_and_left():
    """Python warns of one that is never awaited, whenever it is collected."""

    def f(v):
        async def total():
            return v.sum()

        return asyncio.run(total())

    arr = np.random.default_rng(0).random((20, 3))
    with warnings.catch_warnings(record=True) as said, xpapply.options(fallback="silent"):
        warnings.simplefilter("always")
        plan = xpapply.explain(f, -1, arr)
        got = xpapply.apply_along_axis(f, -1, arr)
        gc.collect()
    np.testing.assert_array_equal(got, np.apply_along_axis(f, -1, arr))
    assert not said
    assert "it defines the coroutine total" in str(plan)
