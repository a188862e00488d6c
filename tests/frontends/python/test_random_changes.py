"""Random changes of whatever a function or a module depends on, each followed by a call.

A namespace is written as source code, with dependencies of several kinds that `f` computes with.
Then statements are run in it that change one of them, at random; after each the result, or
the exception, has to be that of the plain loop. ``XPAPPLY_PROFILE=deep`` draws many more.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from conftest import library

HEAD = """
import functools, types
import numpy as np
"""

NUMBERS = (0.0, -0.0, 0.5, 1.0, 2.0, -3.0, 7.0)

DEPENDENCIES = {
    # kind: (how it is made, what f computes with it, what changes it); {n}: its name, {k}: a number
    "number": ("{n} = {k}", "{n}", ["{n} = {k}", "{n} = int({k})", "{n} = np.float64({k})"]),
    "list": (
        "{n} = [{k}, [{k}, 1.0]]",
        "({n}[0] + {n}[1][0] + len({n}))",
        [
            "{n}[0] = {k}",
            "{n}[1][0] = {k}",
            "{n}[1] = [{k}]",
            "{n} = [{k}, [{k}]]",
            "{n}.append({k})",
            "{n}.insert(0, {k}); {n}[1] = [{k}]",
            "{n}.extend([{k}])",
        ],
    ),
    "dict": (
        "{n} = {{'a': {k}, 'b': {{'c': ({k}, [{k}])}}}}",
        "({n}['a'] + {n}['b']['c'][1][0] + {n}.get('d', 0.5))",
        [
            "{n}['a'] = {k}",
            "{n}['b']['c'][1][0] = {k}",
            "{n}['b'] = {{'c': (0.0, [{k}])}}",
            "{n}['d'] = {k}",
            "{n}.update(a={k}, d={k})",
        ],
    ),
    "set": (
        "{n} = {{1.0, 2.0}}",
        "(5.0 if {k} in {n} else 3.0)",
        ["{n} ^= {{{k}}}", "{n}.add({k})"],
    ),
    "array": (
        "{n} = np.array([{k}, 1.0, 2.0])\n{n}_view = {n}[1:]",
        "(float({n}[0]) + float({n}_view[0]))",
        [
            "{n}[0] = {k}",
            "{n}[1] = {k}",
            "{n} *= 2",
            "{n}.fill({k})",
            "{n} = np.array([{k}, 3.0])",
            "{n}_view[0] = {k}",
        ],
    ),
    "helper": (
        "def {n}(x, a={k}, *, b={k}): return x * {k} + a + b",
        "{n}(1.5)",
        [
            "def {n}(x): return x - {k}",
            "{n}.__code__ = (lambda x, a=1, *, b=2: x - {k} + a - b).__code__",
            "{n}.__defaults__ = ({k},)",
            "{n}.__kwdefaults__ = dict(b={k})",
            "{n}.__kwdefaults__ and {n}.__kwdefaults__.update(b={k})",
        ],
    ),
    "helper of a helper": (
        "{n}_k = {k}\ndef {n}_inner(x): return x * {n}_k\ndef {n}(x): return {n}_inner(x) + 1.0",
        "{n}(1.5)",
        ["{n}_k = {k}", "def {n}_inner(x): return x - {k}", "{n} = {n}_inner"],
    ),
    "attribute of a function": (
        "def {n}(x): return x * {n}.k\n{n}.k = {k}",
        "{n}(1.5)",
        ["{n}.k = {k}", "{n}.__dict__.update(k={k})"],
    ),
    "closure": (
        "def {n}_make():\n    a, b = {k}, [{k}]\n    def {n}(x): return x * a + b[0]\n"
        "    def change(x):\n        nonlocal a\n        a = x\n    return {n}, change, b\n"
        "{n}, {n}_set, {n}_list = {n}_make()",
        "{n}(1.5)",
        [
            "{n}_set({k})",
            "{n}_list[0] = {k}",
            "{n}.__closure__[0].cell_contents = {k}",
            "{n}, {n}_set, {n}_list = {n}_make(); {n}_set({k})",
        ],
    ),
    "object": (
        "class {n}_Base:\n    k = {k}\n    def method(self, x): return x * self.k + self.own\n"
        "    @property\n    def twice(self): return 2 * self.own\n"
        "class {n}_Class({n}_Base):\n    pass\n"
        "class {n}_Other({n}_Base):\n    k = {k}\n"
        "{n} = {n}_Class()\n{n}.own = {k}",
        "({n}.method(1.5) + {n}.k + {n}.twice)",
        [
            "{n}.own = {k}",
            "{n}.k = {k}",
            "vars({n}).pop('k', None)",
            "{n}_Base.k = {k}",
            "{n}_Class.k = {k}",
            "{n}_Class.__bases__ = ({n}_Other,)",
            "{n}.__class__ = {n}_Other",
            "{n}.__dict__ = dict(own={k})",
            "{n}_Base.method = lambda self, x: x - self.own",
            "{n}_Class.method = lambda self, x: x + {k}",
            "{n}_Class.twice = property(lambda self: {k})",
            "{n} = {n}_Other(); {n}.own = {k}",
        ],
    ),
    "truth of an object": (
        "class {n}_Class: pass\n{n} = {n}_Class()",
        "(3.0 if {n} else 5.0)",
        [
            "{n}_Class.__bool__ = lambda self: False",
            "{n}_Class.__len__ = lambda self: 0",
            "{n}_Class.__len__ = lambda self: 2",
        ],
    ),
    "partial": (
        "def {n}_f(x, a, b): return x * a + b\n{n}_list = [{k}]\n"
        "{n} = functools.partial({n}_f, a={k}, b={k})",
        "{n}(1.5)",
        ["{n}.keywords.update(a={k})", "{n} = functools.partial({n}_f, a={k}, b=2.0)"],
    ),
    "module": (
        "{n} = types.ModuleType('{n}')\n{n}.k = {k}\n{n}.f = lambda x: x * {k}",
        "({n}.f(1.5) + {n}.k)",
        ["{n}.k = {k}", "{n}.f = lambda x: x - {k}"],
    ),
}

PLAIN = {
    "function": "def f(v): return v.sum() * ({e})",
    "helper": "def g(x): return x * ({e})\ndef f(v): return g(v.sum())",
    "made anew": "def make(): return lambda v: v.sum() * ({e})",
    "object": "class F:\n    def __call__(self, v): return v.sum() * ({e})\nf = F()",
    "method": "class F:\n    def run(self, v): return v.sum() * ({e})\nx = F()\nf = x.run",
}

NETWORKS = {
    "module": "f = net",
    "method": "f = net.forward",
    "part": "f = torch.nn.Sequential(net, torch.nn.Identity()).eval()",
    "in a function": "def f(v): return net(torch.from_numpy(v)).detach().numpy()",
}

NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
    def forward(self, x):
        return torch.tanh(self.linear(x)) * ({e})
net = Net().double().eval()
"""

ARRAY = np.random.default_rng(0).uniform(0.5, 2.0, (1000, 3))


def outcome(f, arr, **options):
    """What a call gives; or raises, which is to be the same as well."""
    try:
        with xpapply.options(**options):
            return xpapply.apply_along_axis(f, -1, arr)
    except Exception as error:
        return error


def follows(r, ways, head, arr):
    """Make a namespace, change it some times, and compare after each change."""

    def filled(text):
        while "{k}" in text:
            text = text.replace("{k}", repr(r.choice(NUMBERS)), 1)
        return text.replace("{{", "{").replace("}}", "}")

    kinds = r.sample(list(DEPENDENCIES), r.randint(1, 3))
    made = [(f"d{i}", DEPENDENCIES[kind]) for i, kind in enumerate(kinds)]
    expression = " + ".join(filled(d[1].replace("{n}", n)) for n, d in made)
    source = [HEAD, *(filled(d[0].replace("{n}", n)) for n, d in made)]
    source += [
        head.replace("{e}", expression),
        ways[r.choice(list(ways))].replace("{e}", expression),
    ]
    changes = [c.replace("{n}", n) for n, d in made for c in d[2]]
    namespace = {"__name__": "generated"}
    exec("\n".join(source), namespace)
    done = []
    for _ in range(r.randint(2, 5)):
        f = namespace["make"]() if "make" in namespace else namespace["f"]
        want = outcome(f, arr, engine="loop")
        for _ in range(2):
            got = outcome(f, arr, fallback="silent")
            told = "\n".join([*source, "# changes:", *done])
            if isinstance(want, Exception) or isinstance(got, Exception):
                # e.g. a function whose new code asks for an argument that has no default
                assert (type(got), str(got)) == (type(want), str(want)), told
                continue
            np.testing.assert_allclose(
                np.asarray(got), np.asarray(want), rtol=1e-9, atol=1e-9, err_msg=told
            )
        done.append(filled(r.choice(changes)))
        exec(done[-1], namespace)


@given(st.randoms(use_true_random=False))
def test_functions(r):
    follows(r, PLAIN, "", ARRAY)


@given(st.randoms(use_true_random=False))
def test_functions_of_tensors(r):
    follows(r, PLAIN, "", library("torch").from_numpy(ARRAY[:40]))


@given(st.randoms(use_true_random=False))
def test_networks(r):
    library("torch")
    follows(r, NETWORKS, NET, ARRAY[:200])


@pytest.mark.parametrize("kind", DEPENDENCIES)
def test_a_trace_is_what_changes(kind):
    """Each kind of dependency is computed with all slices at once: there is something to notice."""
    setup, expression, _ = DEPENDENCIES[kind]
    namespace = {"__name__": "generated"}
    made = "\n".join([setup, f"def f(v): return v.sum() * ({expression})"])
    made = made.replace("{n}", "d").replace("{k}", "2.0").replace("{{", "{").replace("}}", "}")
    exec(HEAD + made, namespace)
    assert xpapply.explain(namespace["f"], -1, ARRAY).vectorized


def test_what_the_loop_raises_is_raised():
    """Changes after which no call of `f` is possible, and one that undoes them."""
    namespace = {"__name__": "generated"}
    exec("def g(x, a=2.0, *, b=3.0): return x * a + b\ndef f(v): return g(v.sum())", namespace)
    f = namespace["f"]
    raised = []
    for change in (
        "",
        "g.__defaults__ = None",
        "g.__defaults__, g.__kwdefaults__ = (4.0,), None",
        "g.__kwdefaults__ = dict(b=5.0)",
    ):
        exec(change, namespace)
        want, got = outcome(f, ARRAY, engine="loop"), outcome(f, ARRAY, fallback="silent")
        raised.append(isinstance(want, TypeError))
        if raised[-1]:
            assert (type(got), str(got)) == (type(want), str(want))
        else:
            np.testing.assert_allclose(got, want)
    assert raised == [False, True, True, False]
