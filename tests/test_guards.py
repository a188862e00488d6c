"""What a function depends on is noticed when it changes."""

import builtins
import linecache
import math
import random
import statistics
import sys
import types

import numpy as np
import pytest
from calls_of import calls_of
from guard_cases import ARRAY, Base, follows

import xpapply
from conftest import Library, library
from xpapply.backends.cpu.typed import why_not
from xpapply.functions import identity, snapshots

# --- objects ------------------------------------------------------------------------------------


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
    "__call__ that is not a function": lambda c: setattr(c, "__call__", staticmethod(np.ptp)),
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


LOOPED = """
import numpy as np

def f(v):
    s = 0.0
    for a in v:
        s = max(s * 0.5, abs(a)) if a < 2 else s * kept
    return s
"""
AT_ONCE = "import numpy as np\n\ndef f(v):\n    return np.median(v) + max(v[0], abs(v[1])) * kept\n"


@pytest.mark.parametrize("source", [LOOPED, AT_ONCE])
@pytest.mark.parametrize(
    ("how", "own"),
    [("at once", False), ("at once", True), ("by source", False), ("by source", True)]
    + [("cpu", False)] * (why_not() is None),
)
def test_builtins_that_are_others_later(source, how, own, monkeypatch, request):
    """Those of Python, which someone may add to, and those that a program has for itself."""
    if how == "by source":
        request.getfixturevalue("by_source")
    space = {**vars(builtins), "kept": 2.0} if own else vars(builtins)
    monkeypatch.setitem(space, "kept", 2.0)
    file = f"<builtins of {hash(source)}>"
    monkeypatch.setitem(linecache.cache, file, (len(source), None, source.splitlines(True), file))
    names = {"__builtins__": space, "__name__": "a_program"}
    exec(compile(source, file, "exec"), names)
    f = names["f"]
    for name, value in (("kept", 3.0), ("kept", -1), ("abs", lambda x: x * 3.0), ("kept", 0.5)):
        want = np.apply_along_axis(f, -1, ARRAY)
        for _ in range(2):
            with xpapply.options(fallback="silent", **({"engine": "cpu"} if how == "cpu" else {})):
                got = xpapply.apply_along_axis(f, -1, ARRAY)
            np.testing.assert_allclose(got, want, rtol=1e-12)
        monkeypatch.setitem(space, name, value)


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


def test_a_module_whose_name_is_no_text_is_no_librarys():
    class Odd(types.ModuleType):
        def __getattribute__(self, name):
            return 3.0

    assert not snapshots.lives_on(Odd("numpy"))


NOTEBOOK = """
class C: pass
class Truth:
    def __init__(self, n): self.n = n
    def __call__(self): return self.n
c = C()
class Net(torch.nn.Module):
    def forward(self, x):
        return x * (3.0 if c else 5.0)
net, f = Net().eval(), lambda v: v.sum() * (3.0 if c else 5.0)
"""
"""Cells of a notebook: their module has no file, or there is none of its name."""


@pytest.mark.parametrize("module", ["__main__", "made_up", ""])
@pytest.mark.parametrize("name", ["net", "f"])
@pytest.mark.parametrize("kind", ["function", "object"])
def test_classes_of_a_notebook_that_get_another_method(name, kind, module, torch, monkeypatch):
    space = {"__name__": module, "torch": torch} if module else {"torch": torch}
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    exec(compile(NOTEBOOK, "", "exec"), space)
    f, c = space[name], space["C"]
    for n in (0, 2, 0):
        c.__len__ = (lambda self, n=n: n) if kind == "function" else space["Truth"](n)
        for _ in range(2):
            with xpapply.options(engine="loop"):
                want = xpapply.apply_along_axis(f, -1, ARRAY)
            with xpapply.options(fallback="silent"):
                got = xpapply.apply_along_axis(f, -1, ARRAY)
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_functions_of_a_notebook_have_names_by_what_they_compute(monkeypatch):
    """Not by the names of their classes: blocks of dask are known by them."""
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))

    def named(k):
        space = {"__name__": "__main__"}
        exec(f"class C:\n    def k(self): return {k}\nc = C()\nf = lambda v: v * c.k()", space)
        return identity.of(space["f"])

    assert named(2.0) == named(2.0) != named(3.0)


# --- objects that are gone ----------------------------------------------------------------------


class Mark:
    """Of which a function asks only whether it is there."""


def marked(v):
    return v.sum() if MARK is None else v.max()


def marked_in_a_loop(v):
    found = 0.0
    for x in v:
        found = found + x if MARK is None else max(found, x)
    return found


def marked_in_a_list(v):
    return v.sum() if MARKS[0] is None else v.max()


def marked_attribute(v):
    return v.sum() if HOLDER.mark is None else v.max()


MARK, MARKS, HOLDER = Mark(), [Mark()], types.SimpleNamespace(mark=Mark())


@pytest.mark.parametrize("f", [marked, marked_in_a_loop, marked_in_a_list, marked_attribute])
def test_none_in_the_place_of_what_is_gone(f, monkeypatch):
    """A reference to an object that is gone gives None."""
    x = np.random.default_rng(0).random((3000, 5))
    monkeypatch.setitem(globals(), "MARK", None)  # which is put back
    for kind in (Mark, type(None), Mark, type(None)):
        # nothing else holds it
        globals()["MARK"] = MARKS[0] = HOLDER.mark = kind()
        want = np.apply_along_axis(f, 1, x)
        with xpapply.options(fallback="silent"):
            for _ in range(2):
                np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), want)
