"""Python functions by every public call, on every library: what its own loop gives, at once."""

import warnings

import numpy as np
import pytest
from calls_of import calls_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import xpapply
from xpapply import get_array_module
from xpapply.limits import LIMITS

EXAMPLES = max(5, settings().max_examples // 8)
SHAPES = [(24, 5), (6, 5, 4), (2, 13, 5)]
"""Few, as JAX compiles for every shape."""


@pytest.fixture(autouse=True)
def _always_plan(monkeypatch):
    monkeypatch.setattr(LIMITS, "few_slices", 0)
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)


ELEMENTWISE = [
    "xp.exp(-{0})",
    "xp.sqrt(xp.abs({0}))",
    "xp.tanh({0})",
    "xp.where({0} > 0, {0}, 0.1 * {0})",
    "({0} - xp.mean({0}))",
    "{0} / (xp.sum(xp.abs({0})) + 1)",
    "{0} * {k}",
    "({0} + k)",
    "-{0}",
    "xp.minimum({0}, {0} * 0 + 1)",
]
RESULTS = [
    "{0}",
    "xp.sum({0})",
    "xp.max({0})",
    "xp.mean({0} * {0})",
    "({0})[0] * ({0})[1]",
    "({0})[1:] - ({0})[:-1]",
    "xp.std({0})",
]


@st.composite
def functions(draw):
    """The source of a function of a slice `v` and a number `k`, which any library can run."""
    text = "v"
    for body in draw(st.lists(st.sampled_from(ELEMENTWISE), min_size=1, max_size=3)):
        text = "(" + body.format(text, k=draw(st.sampled_from(["2", "0.5", "k", "-1.5"]))) + ")"
    return draw(st.sampled_from(RESULTS)).format(text)


def made(source):
    """The function, with globals of its own."""
    space = {"get_array_module": get_array_module}
    exec(f"def f(v, k=1.5):\n    xp = get_array_module(v)\n    return {source}", space)
    return space["f"]


@st.composite
def calls(draw):
    """A function, an axis and an array."""
    shape = draw(st.sampled_from(SHAPES))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    seed = draw(st.integers(0, 2**16))
    arr = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return draw(functions()), axis, arr


def same(host_place, got, want):
    assert type(got) is type(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(host_place.numpy(got), host_place.numpy(want), rtol=1e-4, atol=1e-5)


def the_loop(f, axis, x, *args, **kwargs):
    with xpapply.options(engine="loop"):
        return xpapply.apply_along_axis(f, axis, x, *args, **kwargs)


@settings(max_examples=EXAMPLES)
@given(call=calls(), k=st.sampled_from([0.25, 2.0, 3]))
def test_every_public_call(host_place, call, k):
    source, axis, arr = call
    f, x = made(source), host_place.array(arr)
    want = the_loop(f, axis, x)
    plan = xpapply.explain(f, axis, x)
    if not plan.vectorized:  # what is left of numbers that cancel is compared with nothing
        assume(not 0 < abs(host_place.numpy(want)).max() < 1e-4)
    assert plan.vectorized, (source, plan)
    with calls_of(f) as counted:
        same(host_place, xpapply.apply_along_axis(f, axis, x), want)
        same(host_place, xpapply.apply_along_axis(func1d=f, axis=axis, arr=x), want)
        same(host_place, plan(x, axis), want)
    assert counted.number < plan.slices, source
    assert plan.out_shape == tuple(want.shape)
    assert plan.out_dtype == str(want.dtype).rpartition(".")[2]
    with_k = the_loop(f, axis, x, k=k)
    same(host_place, xpapply.apply_along_axis(f, axis, x, k=k), with_k)
    same(host_place, xpapply.apply_along_axis(f, axis, x, k), with_k)
    same(host_place, xpapply.explain(f, axis, x, k)(x, axis), with_k)


@settings(max_examples=EXAMPLES)
@given(call=calls())
def test_compiled(host_place, call):
    """`lift` and `compile` of what has a graph; for the others an error that says why."""
    source, axis, arr = call
    f, x = made(source), host_place.array(arr)
    try:
        graph = xpapply.lift(f, (arr.shape[axis],), "float32")
    except xpapply.UnsupportedError:
        with pytest.raises(xpapply.UnsupportedError):
            xpapply.compile(f, (arr.shape[axis],), "float32")
        return
    want = the_loop(f, axis, x)
    got = xpapply.compile(f, (arr.shape[axis],), "float32")(x, axis)
    assert graph.result.shape == want.shape[axis % arr.ndim :][: len(graph.result.shape)]
    np.testing.assert_allclose(host_place.numpy(got), host_place.numpy(want), rtol=1e-4, atol=1e-5)


# --- changes between calls ------------------------------------------------------------

SCALE = 2.0


def total(v):
    """The sum in any library."""
    return get_array_module(v).sum(v)


def largest(v):
    """The maximum in any library."""
    return get_array_module(v).max(v)


class Model:
    """Attributes, a method, and one of a class."""

    offset = 1.0

    def __init__(self, weights):
        self.scale, self.weights = 3.0, weights

    def __call__(self, v):
        return total(v * self.weights) * self.scale + self.offset


def of_global(host_place):
    return (lambda v: total(v) * SCALE), lambda: globals().__setitem__("SCALE", 7.0)


def of_closure(host_place):
    k = 2.0

    def f(v):
        return total(v) * k

    def change():
        nonlocal k
        k = -5.0

    return f, change


def of_list(host_place):
    ks = [2.0, 3.0]
    return (lambda v: total(v) * ks[0] + ks[1]), lambda: ks.__setitem__(1, 8.0)


def of_dict(host_place):
    ks = {"a": {"b": 2.0}}
    return (lambda v: largest(v) * ks["a"]["b"]), lambda: ks["a"].update(b=9.0)


def of_default(host_place):
    def f(v, k=2.0):
        return total(v) * k

    return f, lambda: setattr(f, "__defaults__", (4.0,))


def of_code(host_place):
    def f(v):
        return total(v)

    def g(v):
        return largest(v)

    return f, lambda: setattr(f, "__code__", g.__code__)


def of_helper(host_place):
    helper = total

    def f(v):
        return helper(v) * 2.0

    def change():
        nonlocal helper
        helper = largest

    return f, change


def of_attribute(host_place):
    model = Model(2.0)
    return model, lambda: setattr(model, "scale", -1.0)


def of_a_class(host_place):
    return Model(2.0), lambda: setattr(Model, "offset", 10.0)


def of_an_array(host_place):
    weights = host_place.array(np.arange(5, dtype=np.float32))
    if host_place.name == "jax":
        pytest.skip("arrays of JAX do not change")
    return (lambda v: total(v * weights)), lambda: weights.__setitem__(3, 50.0)


def of_a_replaced_array(host_place):
    model = Model(host_place.array(np.arange(5, dtype=np.float32)))
    new = host_place.array(np.ones(5, np.float32))
    return model, lambda: setattr(model, "weights", new)


CHANGES = [
    *(of_global, of_closure, of_list, of_dict, of_default, of_code, of_helper, of_attribute),
    *(of_a_class, of_an_array, of_a_replaced_array),
]


@pytest.mark.parametrize("make", CHANGES, ids=lambda f: f.__name__)
def test_changes_between_calls(host_place, make, monkeypatch):
    """Noticed by the next call, which needs no loop either."""
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    monkeypatch.setattr(Model, "offset", 1.0)
    x = host_place.array(np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32))
    f, change = make(host_place)
    before = the_loop(f, 1, x)
    for _ in range(3):
        same(host_place, xpapply.apply_along_axis(f, 1, x), before)
    alone = host_place.name == "jax" and make is of_a_replaced_array  # which no tracer knows
    assert xpapply.explain(f, 1, x).vectorized != alone
    change()
    after = the_loop(f, 1, x)
    assert not np.allclose(host_place.numpy(after), host_place.numpy(before))
    for _ in range(2):
        same(host_place, xpapply.apply_along_axis(f, 1, x), after)
    with calls_of(f) as counted:
        same(host_place, xpapply.apply_along_axis(f, 1, x), after)
    assert (counted.number < 40) != alone
    same(host_place, xpapply.explain(f, 1, x)(x, 1), after)


# --- errstate and warnings -----------------------------------------------------------------

BAD = np.random.default_rng(1).standard_normal((60, 5))
BAD[20, 1], BAD[30, 2], BAD[40, 3] = -np.inf, 0.0, 1e300
TROUBLED = {
    "divide": lambda v: 1 / v,
    "invalid": lambda v: np.sqrt(v),
    "log": lambda v: np.log(np.abs(v)),
    "overflow": lambda v: v * v,
    "both": lambda v: (v - v) / (v - v),
    "of numbers": lambda v: v[0] / (v[2] * v[1]),
    "ignored inside": lambda v: _inside(v, "ignore"),
    "warned inside": lambda v: _inside(v, "warn"),
    "raised inside": lambda v: _inside(v, "raise"),
    "in and outside": lambda v: _inside(v, "warn") + np.sqrt(v),
}


def _inside(v, how):
    with np.errstate(divide=how, over=how):
        return 1 / v


def observed(apply, f, how):
    """The result or the exception, the warnings, and what the handler was told."""
    told = []
    with warnings.catch_warnings(record=True) as caught, np.errstate(**how):
        warnings.simplefilter("always")
        with np.errstate(call=lambda kind, flag: told.append(kind)):
            try:
                result = apply(f, 1, BAD)
            except FloatingPointError as error:
                result = str(error)
    return result, {(w.category, str(w.message)) for w in caught}, set(told)


@pytest.mark.parametrize("name", TROUBLED)
@pytest.mark.parametrize("kind", ["all", "divide", "over", "invalid", "under"])
@pytest.mark.parametrize("what", ["ignore", "warn", "raise", "call"])
def test_error_states(name, kind, what):
    f = TROUBLED[name]
    want = observed(np.apply_along_axis, f, {kind: what})
    for _ in range(2):
        got = observed(xpapply.apply_along_axis, f, {kind: what})
        np.testing.assert_array_equal(got[0], want[0])
        assert got[1:] == want[1:]


def test_a_filter_that_raises():
    for f in (TROUBLED["divide"], TROUBLED["invalid"]):
        raised = []
        for apply in (np.apply_along_axis, xpapply.apply_along_axis):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(RuntimeWarning) as caught:
                    apply(f, 1, BAD)
            raised.append(str(caught.value))
        assert raised[0] == raised[1]
