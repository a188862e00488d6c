"""What the forward of a torch module reaches outside itself is noticed when it changes."""

import functools
import gc
import types
import weakref

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply.frontends import find
from xpapply.functions import reach
from xpapply.functions.guards import Guards
from xpapply.limits import LIMITS

torch = library("torch")
nn, F = torch.nn, torch.nn.functional

ARRAY = np.random.default_rng(0).standard_normal((40, 4)).astype("f")

SCALE = 2.0
TABLE = [1.0, {"k": [3.0]}]
FLAGS = types.SimpleNamespace(on=True)
TENSOR = torch.ones(4)
VECTOR = np.ones(4, np.float32)


def helper(x, k=2.0):
    return x * k


def other_helper(x, k=2.0):
    return x - k


def outer_helper(x):
    return helper(x) + SCALE


def defaults():
    def with_defaults(x, s=Settings(), f=outer_helper, *, named=Settings(), k=2.0):  # noqa: B008
        return f(x) * s.own + named.own * k

    return with_defaults


@functools.lru_cache
def cached(k):
    return k * 2.0


class Settings:
    level = 2.0

    def __init__(self):
        self.own = 3.0

    def scaled(self, x):
        return x * self.own

    @property
    def twice(self):
        return self.level * 2


KEPT = []
SETTINGS = Settings()
INNER = nn.Linear(4, 4).eval()


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings = Settings()

    def forward(self, x):
        return self.settings.scaled(x) * SCALE


def fresh():
    """The globals as they were, so that each test may write to them."""
    return {
        "SCALE": 2.0,
        "TABLE": [1.0, {"k": [3.0]}],
        "FLAGS": types.SimpleNamespace(on=True),
        "TENSOR": torch.ones(4),
        "VECTOR": np.ones(4, np.float32),
        "SETTINGS": Settings(),
        "HELD": ({"s": Settings()}, outer_helper, Settings),
        "OUTER": nn.Sequential(nn.Tanh(), Inner()).eval(),
        "with_defaults": defaults(),
    }


HELD, OUTER, with_defaults = (fresh()[name] for name in ("HELD", "OUTER", "with_defaults"))


class Net(nn.Module):
    """Calls a function, which a test chooses, with what it reaches."""

    k = 2.0

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)


def net(forward, **members):
    """A network whose class has `forward` and other members of its own."""
    torch.manual_seed(0)
    cls = type("Made", (Net,), {"forward": forward, **members})
    return cls().eval()


def closed_over():
    table, k = [2.0], 3.0

    def forward(self, x):
        return self.linear(x) * table[0] * k

    def rebind():
        nonlocal k
        k = 7.0

    return forward, table, rebind


def default_argument():
    def forward(self, x, k=[2.0]):  # noqa: B006
        return self.linear(x) * k[0]

    return forward


def with_local_import(self, x):
    import math

    return self.linear(x) * math.pi


def set_global(name, value):
    return lambda n, patch: patch.setitem(globals(), name, value)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) * SCALE

    return wrapper


CASES = {
    "global": (lambda s, x: s.linear(x) * SCALE, set_global("SCALE", 5.0)),
    "element of a global list": (
        lambda s, x: s.linear(x) * TABLE[0],
        lambda n, p: TABLE.__setitem__(0, 6.0),
    ),
    "deep in a global list": (
        lambda s, x: s.linear(x) * TABLE[1]["k"][0],
        lambda n, p: TABLE[1]["k"].__setitem__(0, 6.0),
    ),
    "global object": (
        lambda s, x: s.linear(x) if FLAGS.on else x,
        lambda n, p: setattr(FLAGS, "on", False),
    ),
    "global tensor": (lambda s, x: s.linear(x) * TENSOR, lambda n, p: TENSOR.mul_(3)),
    "global tensor's data": (lambda s, x: s.linear(x) * TENSOR, lambda n, p: TENSOR.data.mul_(3)),
    "global array": (
        lambda s, x: s.linear(x) * torch.from_numpy(VECTOR),
        lambda n, p: VECTOR.fill(4.0),
    ),
    "global module": (lambda s, x: INNER(x), lambda n, p: INNER.weight.data.mul_(2)),
    "helper": (lambda s, x: helper(s.linear(x)), set_global("helper", other_helper)),
    "helper's code": (
        lambda s, x: helper(s.linear(x)),
        lambda n, p: p.setattr(helper, "__code__", other_helper.__code__),
    ),
    "helper's default": (
        lambda s, x: helper(s.linear(x)),
        lambda n, p: p.setattr(helper, "__defaults__", (9.0,)),
    ),
    "helper of a helper": (
        lambda s, x: outer_helper(s.linear(x)),
        set_global("helper", other_helper),
    ),
    "global of a helper": (lambda s, x: outer_helper(s.linear(x)), set_global("SCALE", 8.0)),
    "cached helper": (
        lambda s, x: s.linear(x) * cached(2.0),
        set_global("cached", lambda k: k * 3.0),
    ),
    "decorated forward": (decorated(lambda s, x: s.linear(x)), set_global("SCALE", 8.0)),
    "decorated by torch": (
        torch.no_grad()(lambda s, x: s.linear(x) * SCALE),
        set_global("SCALE", 8.0),
    ),
    "inner function": (
        lambda s, x: (lambda y: y * SCALE)(s.linear(x)),
        set_global("SCALE", 8.0),
    ),
    "class attribute": (
        lambda s, x: s.linear(x) * s.k,
        lambda n, p: setattr(type(n), "k", 4.0),
    ),
    "attribute of a base": (lambda s, x: s.linear(x) * s.k, lambda n, p: p.setattr(Net, "k", 4.0)),
    "bases": (
        lambda s, x: s.linear(x) * s.k,
        lambda n, p: setattr(type(n), "__bases__", (type("B", (Net,), {"k": 11.0}),)),
    ),
    "own attribute": (lambda s, x: s.linear(x) * s.k, lambda n, p: setattr(n, "k", 4.0)),
    "forward": (
        lambda s, x: s.linear(x),
        lambda n, p: setattr(type(n), "forward", lambda s, x: x * 2),
    ),
    "forward of the object": (
        lambda s, x: s.linear(x),
        lambda n, p: setattr(n, "forward", lambda x: x * 2),
    ),
    "forward's code": (
        lambda s, x: s.linear(x),
        lambda n, p: setattr(type(n).forward, "__code__", (lambda s, x: x * 2).__code__),
    ),
    "forward of torch's class": (
        lambda s, x: s.linear(x),
        lambda n, p: p.setattr(nn.Linear, "forward", lambda s, x: x * 2),
    ),
    "a part of another class": (
        lambda s, x: s.linear(x),
        lambda n, p: setattr(n, "linear", nn.Tanh()),
    ),
    "a part, which others still hold": (
        lambda s, x: s.linear(x),
        lambda n, p: KEPT.append((n.linear, setattr(n, "linear", nn.Linear(4, 4)))),
    ),
    "a part is gone": (
        lambda s, x: s.linear(x),
        lambda n, p: KEPT.append((n.linear, setattr(n, "linear", nn.Identity()))),
    ),
    "torch.nn.functional": (
        lambda s, x: F.relu(s.linear(x)),
        lambda n, p: p.setattr(F, "relu", lambda x: x * 2),
    ),
    "torch.nn.functional in torch's class": (
        lambda s, x: s.linear(x),
        lambda n, p: p.setattr(F, "linear", lambda x, w, b: x * 2),
    ),
    "torch": (
        lambda s, x: torch.tanh(s.linear(x)),
        lambda n, p: p.setattr(torch, "tanh", lambda x: x * 2),
    ),
    "math": (
        with_local_import,
        lambda n, p: p.setattr("math.pi", 7.0),
    ),
    "builtin": (
        lambda s, x: s.linear(x) * max(SCALE, 1.0),
        set_global("max", lambda *a: 9.0),
    ),
    "method of a global object": (
        lambda s, x: SETTINGS.scaled(s.linear(x)),
        lambda n, p: setattr(SETTINGS, "own", 5.0),
    ),
    "class of a global object": (
        lambda s, x: SETTINGS.scaled(s.linear(x)),
        lambda n, p: p.setattr(Settings, "scaled", lambda s, x: x - 1),
    ),
    "dict of a global object": (
        lambda s, x: SETTINGS.scaled(s.linear(x)),
        lambda n, p: setattr(SETTINGS, "__dict__", {"own": 11.0}),
    ),
    "property of a global object": (
        lambda s, x: s.linear(x) * SETTINGS.twice,
        lambda n, p: p.setattr(Settings, "level", 5.0),
    ),
    "by getattr": (
        lambda s, x: s.linear(x) * getattr(SETTINGS, "own"),  # noqa: B009
        lambda n, p: setattr(SETTINGS, "own", 5.0),
    ),
    "object in a container": (
        lambda s, x: s.linear(x) * HELD[0]["s"].own,
        lambda n, p: setattr(HELD[0]["s"], "own", 5.0),
    ),
    "function in a container": (
        lambda s, x: HELD[1](s.linear(x)),
        set_global("SCALE", 8.0),
    ),
    "class in a container": (
        lambda s, x: s.linear(x) * HELD[2].level,
        lambda n, p: p.setattr(Settings, "level", 5.0),
    ),
    "object as a default": (
        lambda s, x: with_defaults(s.linear(x)),
        lambda n, p: setattr(with_defaults.__defaults__[0], "own", 5.0),
    ),
    "function as a default": (
        lambda s, x: with_defaults(s.linear(x)),
        set_global("SCALE", 8.0),
    ),
    "object as a default by name": (
        lambda s, x: with_defaults(s.linear(x)),
        lambda n, p: setattr(with_defaults.__kwdefaults__["named"], "own", 5.0),
    ),
    "default by name": (
        lambda s, x: with_defaults(s.linear(x)),
        lambda n, p: with_defaults.__kwdefaults__.update(k=9.0),
    ),
    "module in a global module": (
        lambda s, x: OUTER(x),
        set_global("SCALE", 8.0),
    ),
    "attribute of a module in a global module": (
        lambda s, x: OUTER(x),
        lambda n, p: setattr(OUTER[1].settings, "own", 5.0),
    ),
}


def noticed(f, change, arr=ARRAY, **options):
    """Results follow the loop after the change."""

    def loop():
        with xpapply.options(engine="loop"):
            return np.asarray(xpapply.apply_along_axis(f, -1, arr))

    before = loop()
    for _ in range(3):
        got = np.asarray(xpapply.apply_along_axis(f, -1, arr))
        np.testing.assert_allclose(got, before, rtol=1e-4, atol=1e-4)
    change()
    want = loop()
    assert not np.allclose(want, before)
    for _ in range(2):
        got = np.asarray(xpapply.apply_along_axis(f, -1, arr))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


WAYS = {
    "alone": lambda n: n,
    "in a container": lambda n: nn.Sequential(n, nn.Identity()).eval(),
    "method": lambda n: n.forward,
    "partial": lambda n: functools.partial(n),
    "in a function": lambda n: lambda v: n(torch.from_numpy(v)).detach().numpy(),
}


@pytest.fixture
def patch(monkeypatch):
    for name, value in fresh().items():
        monkeypatch.setitem(globals(), name, value)
    monkeypatch.setitem(globals(), "INNER", nn.Linear(4, 4).eval())
    with monkeypatch.context() as context:
        yield context


@pytest.mark.filterwarnings("ignore::xpapply.errors.FallbackWarning")
# the method is another one then
@pytest.mark.no_such_case(lambda name, way: way == "method" and name.startswith("forward"))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_what_forward_reaches(name, way, patch):
    forward, change = CASES[name]
    copied = types.FunctionType(
        forward.__code__, globals(), "forward", forward.__defaults__, forward.__closure__
    )
    made = net(forward if name.startswith("decorated") else copied)
    arr = ARRAY.repeat(40, 0) if way == "in a function" else ARRAY
    noticed(WAYS[way](made), lambda: change(made, patch), arr)


@pytest.mark.parametrize("way", ["alone", "in a function"])
def test_a_closure(way):
    for k in range(2):
        forward, table, rebind = closed_over()
        made = net(forward)
        change = (lambda t=table: t.__setitem__(0, 5.0)) if k else rebind
        noticed(WAYS[way](made), change, ARRAY.repeat(40, 0))


def test_a_default_argument():
    forward = default_argument()
    noticed(net(forward), lambda: forward.__defaults__[0].__setitem__(0, 5.0))
    noticed(net(forward), lambda: setattr(forward, "__defaults__", ([9.0],)))


def test_a_property():
    table = [2.0]
    made = net(lambda s, x: s.linear(x) * s.scale, scale=property(lambda s: table[0]))
    noticed(made, lambda: table.__setitem__(0, 5.0))
    noticed(made, lambda: setattr(type(made), "scale", property(lambda s: 9.0)))


@pytest.mark.parametrize(
    "hook",
    [
        lambda n: torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 2),
        lambda n: torch.nn.modules.module.register_module_forward_pre_hook(
            lambda m, i: (i[0] * 2,)
        ),
        lambda n: n.register_forward_hook(lambda m, i, o: o * 2),
        lambda n: n.register_forward_pre_hook(lambda m, i: (i[0] * 2,)),
        lambda n: n.linear.register_forward_hook(lambda m, i, o: o * 2),
    ],
)
@pytest.mark.filterwarnings("ignore::xpapply.errors.FallbackWarning")
@pytest.mark.parametrize("way", ["alone", "in a function"])
def test_hooks_that_come_after_the_first_call(hook, way):
    made, handles = net(lambda s, x: torch.tanh(s.linear(x))), []
    arr = ARRAY.repeat(40, 0) if way == "in a function" else ARRAY
    try:
        noticed(WAYS[way](made), lambda: handles.append(hook(made)), arr)
    finally:
        for handle in handles:
            handle.remove()
    noticed(made, lambda: made.linear.weight.data.mul_(2))  # and when it is gone


# --- large weights --------------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [False, True])
def test_large_weights_changed_behind_torch(transposed):
    """Above 1 MiB: what changes everywhere is seen at once."""
    made = nn.Linear(600, 500).eval()
    if transposed:
        made.weight = nn.Parameter(torch.randn(600, 500).t())
    assert made.weight.nbytes > 1 << 20
    arr = np.random.default_rng(0).standard_normal((5, 600)).astype("f")
    noticed(made, lambda: made.weight.data.mul_(2), arr)
    noticed(made, lambda: np.negative(view := made.weight.detach().numpy(), out=view), arr)


@pytest.mark.parametrize("size", [4, 600])
def test_what_has_not_changed_is_not_lifted_again(size, monkeypatch):
    frontend = find(nn.Linear(1, 1))
    lifted, lift = [], frontend.lift
    monkeypatch.setattr(frontend, "lift", lambda *args: lifted.append(1) or lift(*args))
    made = nn.Sequential(nn.Linear(size, 500), nn.Unflatten(1, (20, 25)), nn.Flatten()).eval()
    arr = np.random.default_rng(0).standard_normal((5, size)).astype("f")
    for _ in range(200):  # each block of large weights has its turn
        xpapply.apply_along_axis(made, -1, arr)
    assert len(lifted) == 1


class Steps(nn.Module):
    """No graph: torch itself runs it."""

    def __init__(self, normed):
        super().__init__()
        self.layer, self.gru = normed(nn.Linear(6, 5)), nn.GRU(1, 4, batch_first=True)

    def forward(self, x):
        return self.gru(self.layer(x)[..., None])[0][..., -1, :]


OLD_HOOKS = [nn.utils.weight_norm, nn.utils.spectral_norm]


@pytest.mark.filterwarnings("ignore:.*is deprecated")
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("normed", OLD_HOOKS)
def test_weights_that_hooks_compute_anew(normed, graph, monkeypatch):
    """They are no change; their parts are, and so is the hook."""
    torch.manual_seed(0)
    frontend = find(nn.Linear(1, 1))
    lifted, lift = [], frontend.lift
    monkeypatch.setattr(frontend, "lift", lambda *args: lifted.append(1) or lift(*args))
    made = (nn.Sequential(normed(nn.Linear(6, 5)), nn.Tanh()) if graph else Steps(normed)).eval()
    layer = made[0] if graph else made.layer
    arr = np.random.default_rng(0).standard_normal((50, 6)).astype("f")
    for _ in range(5):
        xpapply.apply_along_axis(made, -1, arr)
    assert len(lifted) == 1
    for name in [k for k, _ in layer.named_parameters()]:
        now = getattr(layer, name)
        other = nn.Parameter(torch.linspace(-1, 2, now.numel()).reshape(now.shape))
        noticed(made, lambda name=name: getattr(layer, name).data.add_(1), arr)
        noticed(made, lambda name=name, other=other: setattr(layer, name, other), arr)
    old = nn.utils.weight_norm is normed
    (nn.utils.remove_weight_norm if old else nn.utils.remove_spectral_norm)(layer)
    noticed(made, lambda: layer.weight.data.mul_(-2), arr)


def test_one_number_of_large_weights():
    """Its block has its turn."""
    made = nn.Linear(600, 500).eval()
    arr = np.random.default_rng(0).standard_normal((3, 600)).astype("f")
    before = xpapply.apply_along_axis(made, -1, arr)
    made.weight.data[301, 77] += 100.0
    blocks = made.weight.nbytes // 8192 + 2
    changed = [
        not np.allclose(xpapply.apply_along_axis(made, -1, arr), before) for _ in range(blocks)
    ]
    assert changed[-1]


# --- nothing is kept alive ------------------------------------------------------------------------

HEAD = """
import torch
K = 2.0
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.k = torch.nn.Linear(4, 4), 2.0
    def forward(self, x):
        return torch.tanh(self.linear(x)) * K
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.me = Block(), [self]
    def forward(self, x):
        return self.block(x)
marked = Net().eval()
"""

USES = {
    "alone": "f = marked",
    "method": "f = marked.forward",
    "in a function": "def f(v): return marked(torch.from_numpy(v)).detach().numpy()",
    "hook": "f = marked\nmarked.register_forward_hook(lambda m, i, o: o * marked.me[0].block.k)",
}


@pytest.mark.filterwarnings("ignore::xpapply.errors.FallbackWarning")
@pytest.mark.parametrize("use", USES)
def test_networks_of_exec_are_freed(use):
    namespace = {"__name__": "generated"}
    exec(HEAD + USES[use], namespace)
    gone = weakref.ref(namespace["marked"])
    for _ in range(3):
        xpapply.apply_along_axis(namespace["f"], -1, ARRAY.repeat(40, 0))
    del namespace
    gc.collect()
    assert gone() is None


def test_more_objects_than_are_followed(monkeypatch):
    """What is not looked at may have changed: nothing is remembered then."""
    monkeypatch.setattr(LIMITS, "reached", 3)
    parts = [types.SimpleNamespace(inner=types.SimpleNamespace(k=float(k))) for k in range(1, 9)]

    class Net(nn.Module):
        def forward(self, x):
            for part in parts:
                x = x * part.inner.k
            return x

    net = Net().eval()
    for k in (1.0, 2.0, 3.0):
        parts[-1].inner.k = k
        want = ARRAY * np.prod([part.inner.k for part in parts])
        np.testing.assert_allclose(xpapply.apply_along_axis(net, -1, ARRAY), want, rtol=1e-5)


def test_our_wrappers_are_not_looked_at_but_what_they_hold_is(monkeypatch):
    """A repeated call waits for every place that is looked at, and nobody sets ours."""
    from xpapply.frontends.torch.lift.flattened import _of_flat
    from xpapply.planning.flat_slices import reshaped

    guards = Guards()
    reach.reach(guards, [_of_flat((2, 3), "forward", False)], lambda x: None)
    assert not guards._all
    held = reshaped(lambda v: v * SCALE, (2, 3), "float32").call
    reach.reach(guards, [held], lambda x: None)
    assert guards()
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert not guards()


class Holds:
    def __init__(self, f):
        self.f = f

    def __call__(self, v):
        return self.f(v)


silent = xpapply.options(fallback="silent")


@pytest.mark.parametrize(
    "wrapped",
    [
        silent,
        lambda f: silent(silent(f)),
        lambda f: silent(torch.no_grad()(f)),
        lambda f: torch.no_grad()(silent(f)),
        lambda f: silent(functools.partial(f)),
        lambda f: silent(functools.partial(silent(f))),
        lambda f: silent(Holds(f)),
        lambda f: silent(Holds(f).__call__),
    ],
)
def test_decorators_around_each_other_hide_nothing(wrapped, monkeypatch):
    f = wrapped(lambda v: v * SCALE)
    guards = Guards()
    reach.reach(guards, [f], lambda x: None)
    assert guards(f)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert not guards(f)
