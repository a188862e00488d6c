"""Attributes that a function sets in every call: the loop is not needed, and leaves the same."""

import copy
import json
import types

import numpy as np
import pytest

import xpapply

RNG = np.random.default_rng(0)
A = RNG.random((120, 6))


class FeedForward:
    """As people write it by hand."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.weights = [rng.normal(size=(6, 5)), rng.normal(size=(5, 3))]

    def __call__(self, v):
        self.activations = [v]
        for w in self.weights:
            self.z = self.activations[-1] @ w
            self.activations.append(np.tanh(self.z))
        return self.activations[-1]


class Layer:
    def __init__(self, seed):
        self.w = np.random.default_rng(seed).normal(size=(6, 6))

    def forward(self, x):
        self.x = x
        self.out = np.maximum(x @ self.w, 0)
        return self.out


class Layered:
    def __init__(self):
        self.layers = [Layer(0), Layer(1)]
        self.calls = "before"

    def predict(self, v):
        self.total = 0.0
        for layer in self.layers:
            v = layer.forward(v)
            self.total += v.sum()
        self.label = int(v.argmax())
        return self.total


class Branches:
    def __call__(self, v):
        self.top = v.max()
        if self.top > 0.9:
            self.kind = "bright"
            return self.top
        self.kind = "dark"
        return v.mean()


class OnlySome:
    kind = ""

    def __call__(self, v):
        if v.max() > 0.9:
            self.kind = v.max()
        return v.mean()


class Running:
    def __init__(self):
        self.mean = 0.0

    def __call__(self, v):
        self.mean = 0.9 * self.mean + 0.1 * v.mean()
        return self.mean


class Asks(Running):
    def __call__(self, v):
        if not hasattr(self, "first"):
            self.first = v[0]
        return v.sum() - self.first


class Appends(Running):
    def __init__(self):
        self.log = []

    def __call__(self, v):
        self.last = v.max()
        self.log.append(self.last)
        return self.last


class Property:
    def __init__(self):
        self.seen = []

    @property
    def last(self):
        return self.seen[-1]

    @last.setter
    def last(self, x):
        self.seen.append(x)

    def __call__(self, v):
        self.last = v.max()
        return v.sum()


class Guarded:
    def __setattr__(self, name, value):
        vars(self).setdefault("log", []).append(name)
        object.__setattr__(self, name, value)

    def __call__(self, v):
        self.last = v.max()
        return v.sum()


class Catches:
    def __call__(self, v):
        self.last = v[0]
        try:
            self.inverse = np.linalg.inv(np.outer(v, v) * (v[0] > 0.5))
        except np.linalg.LinAlgError:
            return 0.0
        return v.sum()


def method(owner, name="__call__"):
    return owner if name == "__call__" else getattr(owner, name)


FAST = {
    "feed-forward": (FeedForward, "__call__"),
    "layers": (Layered, "predict"),
    "branches": (Branches, "__call__"),
}
SLOW = {
    "some": OnlySome,
    "running": Running,
    "asks": Asks,
    "appends": Appends,
    "property": Property,
    "guarded": Guarded,
    "catches": Catches,
}


def state(x):
    """Everything that an object holds."""
    if isinstance(x, np.ndarray):
        return x.tolist(), x.dtype.name
    if isinstance(x, (list, tuple)):
        return [state(y) for y in x]
    return {k: state(y) for k, y in vars(x).items()} if hasattr(x, "__dict__") else x


@pytest.mark.parametrize("name", FAST)
def test_the_last_slices_values_are_left(name):
    cls, call = FAST[name]
    ours, theirs = cls(), cls()
    before = state(ours)
    plan = xpapply.explain(method(ours, call), -1, A)
    assert plan.vectorized, str(plan)
    assert state(ours) == before  # explain changes nothing
    want = np.apply_along_axis(method(theirs, call), -1, A)
    for _ in range(2):
        got = xpapply.apply_along_axis(method(ours, call), -1, A)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        assert state(ours) == state(theirs)
        assert xpapply.explain(method(ours, call), -1, A).vectorized  # not given up
    other = A[::-1].copy()
    xpapply.apply_along_axis(method(ours, call), -1, other)
    np.apply_along_axis(method(theirs, call), -1, other)
    assert state(ours) == state(theirs)


def test_what_is_left_is_a_view_of_the_last_slice():
    net = FeedForward()
    xpapply.apply_along_axis(net, -1, A)
    assert np.shares_memory(net.activations[0], A[-1])
    assert xpapply.explain(net, -1, A).vectorized


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("size", [40, 3000])
def test_what_depends_on_the_slice_before_stays_in_the_loop(name, size):
    data = np.tile(A, (size // len(A) + 1, 1))[:size]
    ours, theirs = SLOW[name](), SLOW[name]()
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(ours, -1, data)
    np.testing.assert_array_equal(got, np.apply_along_axis(theirs, -1, data))
    assert state(ours) == state(theirs)
    assert not xpapply.explain(SLOW[name](), -1, data).vectorized or name == "some"


def test_a_reason_says_which_attribute():
    plan = xpapply.explain(Running(), -1, A)
    assert "mean" in plan.reasons[0]
    line = Running.__call__.__code__.co_firstlineno + 1
    assert f"test_scratch_attributes.py:{line}" in plan.reasons[0]


def helper(v):
    return v.sum()


def test_attributes_of_functions_and_modules():
    def of_function(v):
        g = helper
        g.calls = 1
        return helper(v)

    def of_module(v):
        m = json
        m.xpapply_test = 1
        return v.sum()

    def own_object(v):
        o = types.SimpleNamespace()
        o.total = v.sum()
        return o.total

    for f in (of_function, of_module):
        plan = xpapply.explain(f, -1, A)
        assert not plan.vectorized
        assert "it sets" in plan.reasons[0]
        assert f"{f.__code__.co_firstlineno + 2}" in plan.reasons[0]
    assert not hasattr(helper, "calls")
    assert not hasattr(json, "xpapply_test")
    assert xpapply.explain(own_object, -1, A).vectorized


def test_an_exception_leaves_what_the_loop_leaves():
    class Raises:
        def __call__(self, v):
            self.last = v[0]
            if v[0] > 0.99:
                raise ValueError("bright")
            self.done = v[1]
            return v.sum()

    data = np.tile(A, (20, 1)) * 0.9
    data[700, 0] = 1.0
    ours, theirs = Raises(), Raises()
    for x, apply in ((ours, xpapply.apply_along_axis), (theirs, np.apply_along_axis)):
        with pytest.raises(ValueError, match="bright"), xpapply.options(fallback="silent"):
            apply(x, -1, data)
    assert state(ours) == state(theirs)


def test_a_property_that_comes_later_is_noticed():
    class Net:
        def __call__(self, v):
            self.hidden = v * 2
            return self.hidden.sum()

    net = Net()
    data = np.tile(A, (20, 1))
    xpapply.apply_along_axis(net, -1, data)
    del net.hidden
    Net.hidden = property(lambda self: np.ones(2), lambda self, x: None)
    with xpapply.options(fallback="silent"):
        assert (xpapply.apply_along_axis(net, -1, data) == 2).all()


def test_lift_refuses():
    with pytest.raises(xpapply.UnsupportedError, match="sets attributes"):
        xpapply.lift(copy.deepcopy(FeedForward()), (6,), "float64")
