"""What a function depends on may change between two calls."""

import copy
import functools
import types
import warnings

import numpy as np
import pytest
from many_slices import array

import xpapply

pytestmark = pytest.mark.usefixtures("plan_always")


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
    whole = functools.partial(lambda v, k: v.sum() * k, k=2.0)

    def with_partial(v):
        return whole(v) + 1.0

    yield "partial within", with_partial, lambda: whole.keywords.update(k=4.0)
    again = functools.partial(lambda k, v: v.sum() * k, 2.0)
    yield "state of a partial", again, lambda: again.__setstate__((again.func, (3.0,), {}, None))

    class Level:
        k = 1.0

        def of(self, x):
            return x * self.k

    level, other = Level(), Level()

    def of_class(v):
        return v.sum() * level.k + 1.0

    def by_method(v):
        return other.of(v.sum()) + 1.0

    yield "own attribute", of_class, lambda: setattr(level, "k", 3.0)
    yield "own method", by_method, lambda: setattr(other, "of", lambda x: x - 7.0)

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
    check_change(name, monkeypatch)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.usefixtures("by_source")
def test_changes_are_noticed_by_what_is_compiled(name, monkeypatch):
    check_change(name, monkeypatch)


def check_change(name, monkeypatch):
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


@pytest.mark.parametrize("read", [len, np.sum, np.ndim])
@pytest.mark.usefixtures("by_source")
def test_an_array_gets_another_form_in_place(read):
    """What is compiled reads its elements anew, by a dtype and axes that were known."""
    table = np.arange(8)
    held = types.SimpleNamespace(table=table)

    def f(v):
        s = 0.0
        for a in v:
            if a > 0:
                s += a * read(table) + read(held.table)
        return s

    arr = array(300)
    forms = ("dtype", "f8"), ("dtype", "i4"), ("shape", (4, 4)), ("shape", (16,)), ("dtype", "i8")
    for name, value in (("shape", (8,)), *forms):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what NumPy will no longer have
            setattr(table, name, value)
        want = np.apply_along_axis(f, 1, arr)
        for _ in range(2):
            np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), want)


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
