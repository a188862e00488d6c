"""What a function depends on is noticed when it changes, and is not kept alive by being watched."""

import builtins
import functools
import gc
import math
import random
import statistics
import tracemalloc
import weakref

import numpy as np
import pytest
from calls_of import calls_of

import xpapply
from conftest import Library, library
from xpapply import cache, guards

ARRAY = np.random.default_rng(0).uniform(0.5, 2.0, (1200, 4))


def follows(f, change, arr=ARRAY, *args):
    """The result follows the change of what `f` depends on."""
    before = np.apply_along_axis(f, -1, arr, *args)
    for _ in range(3):
        with xpapply.options(fallback="raise"):  # else there is nothing to notice
            got = xpapply.apply_along_axis(f, -1, arr, *args)
        np.testing.assert_allclose(got, before, rtol=1e-9)
    change()
    want = np.apply_along_axis(f, -1, arr, *args)
    assert want.shape != before.shape or not np.array_equal(want, before, equal_nan=True)
    for _ in range(2):
        with xpapply.options(fallback="silent"):
            got = xpapply.apply_along_axis(f, -1, arr, *args)
        np.testing.assert_allclose(got, want, rtol=1e-9)


# --- objects ------------------------------------------------------------------------------------


class Base:
    k = 2.0

    def __call__(self, v):
        return v.sum() * self.k

    def __len__(self):
        return 1


class Other:
    k = 5.0

    def __call__(self, v):
        return v.max() * self.k

    def __len__(self):
        return 0


def of_class(change):
    """An instance of a class that inherits all it has, and a change of that class."""

    def make():
        cls = type("Derived", (type("Middle", (Base,), {}),), {})
        return cls(), lambda: change(cls)

    return make


SPECIAL = {
    "__call__ overridden": lambda c: setattr(c, "__call__", lambda self, v: v.min()),
    "__call__ overridden below": lambda c: setattr(
        c.__bases__[0], "__call__", lambda self, v: v.min()
    ),
    "__call__ that is no function": lambda c: setattr(c, "__call__", staticmethod(np.ptp)),
    "attribute overridden": lambda c: setattr(c, "k", 7.0),
    "attribute becomes a property": lambda c: setattr(c, "k", property(lambda self: 9.0)),
    "bases": lambda c: setattr(c, "__bases__", (Other,)),
    "bases of a base": lambda c: setattr(c.__bases__[0], "__bases__", (Other,)),
    "__getattribute__": lambda c: setattr(
        c,
        "__getattribute__",
        lambda self, name: 3.0 if name == "k" else object.__getattribute__(self, name),
    ),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_methods_that_are_overridden_later(name):
    follows(*of_class(SPECIAL[name])())


TRUTHS = {
    "__bool__ added": lambda c: setattr(c, "__bool__", lambda self: False),
    "__bool__ added below": lambda c: setattr(c.__bases__[0], "__bool__", lambda self: False),
    "__len__ overridden": lambda c: setattr(c, "__len__", lambda self: 0),
    "bases": lambda c: setattr(c, "__bases__", (Other,)),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_the_truth_of_an_object(name):
    x, change = of_class(TRUTHS[name])()
    follows(lambda v: v.sum() if x else v.max(), change)


def test_a_truth_that_nothing_gave():
    class Plain:
        pass

    x = Plain()
    follows(
        lambda v: v.sum() if x else v.max(),
        lambda: setattr(Plain, "__len__", lambda self: 0),
    )


@pytest.mark.parametrize("special", ["__eq__", "__add__", "__getitem__", "__contains__"])
def test_operators_of_an_object(special):
    class Plain:
        def __add__(self, other):
            return other + 1.0

        def __getitem__(self, key):
            return 3.0

        def __contains__(self, key):
            return True

    class Derived(Plain):
        pass

    x = Derived()
    functions = {
        "__eq__": (lambda v: v.sum() if x == 1 else v.max(), lambda self, other: True),
        "__add__": (lambda v: x + v.sum(), lambda self, other: other - 1.0),
        "__getitem__": (lambda v: x[0] * v.sum(), lambda self, key: 4.0),
        "__contains__": (lambda v: v.sum() if 1 in x else v.max(), lambda self, key: False),
    }
    f, other = functions[special]
    follows(f, lambda: setattr(Derived, special, other))


def itself(v):
    return v.sum() * getattr(itself, "k", 1.0)


def helper(v):
    return v.sum()


def of_a_helper(v):
    return helper(v) * getattr(helper, "k", 1.0)


@pytest.mark.parametrize("before", [{}, {"other": 1.0}, {"k": 2.0}])
@pytest.mark.parametrize(("f", "owner"), [(itself, itself), (of_a_helper, helper)])
def test_attributes_of_functions(f, owner, before, monkeypatch):
    """Also those that come later."""
    for name, value in before.items():
        monkeypatch.setattr(owner, name, value, raising=False)
    follows(f, lambda: monkeypatch.setattr(owner, "k", 3.0, raising=False))


@pytest.mark.parametrize("member", [{}, {"k": property(lambda self: 0.5)}])
def test_bases_that_have_it_otherwise(member):
    derived = type("Derived", (type("Middle", (type("First", (), member),), {}),), {})
    x = derived()
    follows(
        lambda v: v.sum() * getattr(x, "k", 1.0), lambda: setattr(derived, "__bases__", (Other,))
    )


SAME_CONTENT = {"list": ([1, 2], (1, 2)), "set": ({1}, frozenset({1})), "tuple": ((1,), [1])}


@pytest.mark.parametrize("name", SAME_CONTENT)
def test_the_class_of_a_container(name):
    was, now = SAME_CONTENT[name]
    kind = type(was)
    x = Base()
    x.items = was

    def f(v):
        return v.sum() if isinstance(x.items, kind) else v.max()

    follows(f, lambda: setattr(x, "items", now))


def test_the_dict_of_an_object_replaced():
    x = Base()
    x.k, x.other = 3.0, [1.0]
    follows(x, lambda: setattr(x, "__dict__", {"k": 4.0}))
    settings = Other()
    settings.a, settings.deep = 1.0, {"b": [2.0]}

    def f(v):
        return v.sum() * settings.a + settings.deep["b"][0]

    follows(f, lambda: setattr(settings, "__dict__", {"a": 2.0, "deep": {"b": [5.0]}}))


@pytest.mark.parametrize("called", [True, False])
def test_the_class_of_an_object_replaced(called):
    x = Base()
    follows(x if called else lambda v: v.sum() * x.k, lambda: setattr(x, "__class__", Other))


SAME = {
    "a number": lambda x: setattr(x, "k", float("2.5")),
    "a NumPy number": lambda x: setattr(x, "scale", np.float64("1.5")),
    "a list of numbers": lambda x: setattr(x, "items", [float("0.5"), [float("1.5")]]),
    "an array": lambda x: x.array.__setitem__(0, float("0.5")),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_equal_needs_no_new_trace(name):
    x = Base()
    x.k, x.scale, x.items, x.array = 2.5, np.float64(1.5), [0.5, [1.5]], np.full(3, 0.5)

    def f(v):
        return v.sum() * x.k * x.scale + x.items[0] + x.items[1][0] + x.array[0]

    for change in (lambda x: None, SAME[name], SAME[name]):
        change(x)
        with calls_of(f) as calls, xpapply.options(fallback="raise"):
            xpapply.apply_along_axis(f, -1, ARRAY)
        assert (calls.number > 0) == (change is not SAME[name])
    x.k = 3.5
    with calls_of(f) as calls:
        xpapply.apply_along_axis(f, -1, ARRAY)
    assert calls.number > 0


def grow(p):
    p[3] = 2.0


def write(p):
    p.coeffs[0] = 9.0


@pytest.mark.parametrize("change", [grow, write])
def test_poly1d_in_place(change):
    p = np.poly1d([1.0, 2.0])
    follows(lambda v: p(v).sum(), lambda: change(p))


# --- functions of libraries ---------------------------------------------------------------------


def larger(real):
    """In the place of a function that all of Python uses: other numbers for NumPy's alone."""

    def other(*args, **kwargs):
        result = real(*args, **kwargs)
        return result + 1.0 if isinstance(result, (np.floating, np.ndarray)) else result

    return other


REPLACED = {
    "numpy": (np, "interp", lambda v: np.interp(0.7, v, v), lambda *a: -1.0),
    "a ufunc": (np, "exp", lambda v: np.exp(v).sum(), lambda v: v * 2),
    "a submodule": (np.linalg, "norm", lambda v: np.linalg.norm(v), lambda v: v.min()),
    "math": (math, "sqrt", lambda v: math.sqrt(v[0]), lambda x: x * 3),
    "a builtin": (builtins, "max", lambda v: max(v[0], v[1]), larger(max)),
    "a harmless builtin": (builtins, "abs", lambda v: abs(v).sum(), larger(abs)),
    "the standard library": (
        statistics,
        "fmean",
        lambda v: statistics.fmean([v[0], v[1]]),
        lambda x: x[0],
    ),
    "a constant": (math, "pi", lambda v: v.sum() * math.pi, 3.0),
}


@pytest.mark.parametrize("name", REPLACED)
def test_functions_of_libraries_that_are_replaced(name, monkeypatch):
    module, attribute, f, other = REPLACED[name]
    with monkeypatch.context() as patch:
        follows(f, lambda: patch.setattr(module, attribute, other))
    want = np.apply_along_axis(f, -1, ARRAY)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, ARRAY), want, rtol=1e-12)


def test_a_builtin_that_a_global_hides(monkeypatch):
    def f(v):
        return max(v[0], v[1])

    follows(f, lambda: monkeypatch.setitem(globals(), "max", lambda a, b: a - b))


def test_the_function_is_called_that_f_holds(monkeypatch):
    """``from numpy import interp`` is not what stands in NumPy later."""
    interp, sqrt = np.interp, math.sqrt

    def f(v):
        return interp(0.7, v, v) + sqrt(v[0])

    want = np.apply_along_axis(f, -1, ARRAY)
    xpapply.apply_along_axis(f, -1, ARRAY)
    monkeypatch.setattr(np, "interp", lambda *a: -1.0)
    monkeypatch.setattr(math, "sqrt", lambda x: -1.0)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, ARRAY), want, rtol=1e-12)


# --- estimators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["fit", "a part is fitted", "written in place"])
def test_estimators(change):
    pytest.importorskip("sklearn")
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(1)
    model = make_pipeline(StandardScaler(), Ridge()).fit(rng.random((9, 4)), rng.random(9))
    changes = {
        "fit": lambda: model.fit(rng.random((9, 4)), rng.random(9)),
        "a part is fitted": lambda: model[1].fit(rng.random((9, 4)), rng.random(9)),
        "written in place": lambda: model[1].coef_.fill(3.0),
    }
    follows(lambda v: model.predict(v[None])[0], changes[change], ARRAY[:100])


# --- arrays of other libraries ------------------------------------------------------------------


def scaled(v):
    return (v * SETTINGS["k"][0]).sum() + SETTINGS["b"]


SETTINGS = {"k": [2.0], "b": 1.0}


@pytest.mark.parametrize("name", ["torch", "jax", pytest.param("cupy", marks=pytest.mark.gpu)])
def test_changes_on_other_arrays(name, monkeypatch):
    xp = Library(name, "")
    library(name)
    monkeypatch.setitem(globals(), "SETTINGS", {"k": [2.0], "b": 1.0})
    small = ARRAY[:6].astype("f")
    arr = xp.array(small)
    xpapply.explain(scaled, -1, arr)
    changes = [
        lambda: None,
        lambda: SETTINGS["k"].__setitem__(0, 5.0),
        lambda: SETTINGS.update(b=7.0),
        lambda: monkeypatch.setitem(globals(), "SETTINGS", {"k": [3.0], "b": 4.0}),
    ]
    for change in changes:
        change()
        want = np.apply_along_axis(scaled, -1, small)
        for _ in range(3):
            plan = xpapply.explain(scaled, -1, arr)
            assert plan.vectorized, plan.reasons
            for got in (xpapply.apply_along_axis(scaled, -1, arr), plan(arr)):
                np.testing.assert_allclose(xp.numpy(got), want, rtol=1e-5)


# --- trials -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["function", "module", "module in a function"])
def test_random_states_are_as_before_a_trial(kind, torch):
    """What is drawn while `f` is tried out is drawn again by the loop."""
    draws = {
        "python": lambda: random.random(),
        "numpy": lambda: float(np.random.random()),
        "torch": lambda: float(torch.rand(())),
    }

    class Noisy(torch.nn.Module):
        def forward(self, x):
            return x * (1.0 + draws["python"]() + draws["numpy"]() + draws["torch"]())

    net = Noisy().eval()
    functions = {
        "function": lambda v: v * (random.random() + np.random.random()),
        "module": net,
        "module in a function": lambda v: net(torch.from_numpy(v)).numpy(),
    }
    f, arr = functions[kind], ARRAY[:50]

    def seeded(run):
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        run()
        return [draw() for draw in draws.values()]

    untouched = seeded(lambda: None)
    assert seeded(lambda: xpapply.explain(f, -1, arr)) == untouched or kind != "module"

    def refused():
        with pytest.raises(xpapply.UnsupportedError):
            xpapply.lift(f, (4,), "float64")

    assert seeded(refused) == untouched


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "bfloat16", "bool"])
def test_dtypes_of_torch(dtype, torch):
    """`lift` and `compile` take torch's dtypes as well as names and NumPy's."""
    net = torch.nn.Linear(4, 2).eval()
    graph = xpapply.lift(net, (4,), getattr(torch, dtype))
    assert graph.input.dtype == dtype
    assert graph == xpapply.lift(net, (4,), dtype)
    plan = xpapply.compile(net, (4,), getattr(torch, dtype))
    assert plan.slice.dtype == dtype
    x = torch.ones(3, 4, dtype=getattr(torch, dtype))
    np.testing.assert_allclose(plan(x).numpy(), net(x.float()).detach().numpy(), rtol=1e-5)


# --- what tells functions apart -----------------------------------------------------------------


QUIET = np.array([np.nan])
LOUD = QUIET.copy()
LOUD.view(np.uint64)[0] += 5  # another payload
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
    trace = xpapply.planning.python_functions._traced
    monkeypatch.setattr(
        xpapply.planning.python_functions, "_traced", lambda *a: made.append(a) or trace(*a)
    )
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
    from xpapply.frontends.python import sandbox

    monkeypatch.setattr(sandbox, "COPIED", copied)
    monkeypatch.setattr(guards, "COPIED", copied)

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
    from xpapply.frontends.python import sandbox

    monkeypatch.setattr(sandbox, "COPIED", 1 << 20)
    monkeypatch.setattr(guards, "COPIED", 1 << 20)
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
    for n in range(1, 2 * cache._REMEMBERED):
        arr = ARRAY[:20, :1].repeat(n, 1)
        with xpapply.options(engine="" if kind == "lifted" else "torch"):
            xpapply.apply_along_axis(owner, -1, torch.from_numpy(arr))
        most = max(most, len(getattr(known, kind)))
    assert 2 < most <= cache._REMEMBERED


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
