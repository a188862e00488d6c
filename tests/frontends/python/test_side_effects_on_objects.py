"""Functions that write into objects, lists, dicts and iterators do so as in the loop."""

import numpy as np
import pytest
from many_slices import SLICES, array
from side_effects import run

import xpapply

pytestmark = pytest.mark.usefixtures("plan_always")


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
}


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
