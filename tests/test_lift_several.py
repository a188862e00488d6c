"""lift and compile of functions of several arrays."""

import pickle

import numpy as np
import pytest

import xpapply
from conftest import Library, library
from xpapply.limits import LIMITS

V = xpapply.vectorize
CASES = {
    "weighted": (lambda a, w: (a * w).sum() / w.sum(), "(n),(n)->()", ((4,), (4,))),
    "distance": (lambda a, b: np.sqrt(((a - b) ** 2).sum()), "(n),(n)->()", ((4,), (4,))),
    "scaled": (lambda a, k: np.tanh(a) * k, "(n),()->(n)", ((4,), ())),
    "matvec": (lambda m, v: m @ v + 1, "(m,n),(n)->(m)", ((2, 4), (4,))),
    "two": (lambda a, b: (a.max() - b.min(), a + b), "(n),(n)->(),(n)", ((4,), (4,))),
    "one": (lambda a: a / a.sum(), "(n)->(n)", ((4,),)),
    "constant": (lambda a, b: np.array([1.0, 2.0, 0.5, 3.0]) * a + b, "(n),(n)->(n)", ((4,), (4,))),
}
LIBRARIES = [
    "numpy",
    "torch",
    "array_api_strict",
    "jax",
    pytest.param("cupy", marks=pytest.mark.gpu),
]


def given(name, loops=((5, 3), (3,)), dtypes=("float64", "float64")):
    made = np.random.default_rng(0)
    shapes = CASES[name][2]
    return [made.uniform(0.5, 2, (*loops[k], *s)).astype(dtypes[k]) for k, s in enumerate(shapes)]


def same(got, want, rtol=1e-12):
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for x, y in zip(got, want, strict=True):
        assert (tuple(x.shape), str(x.dtype)) == (y.shape, str(y.dtype))
        np.testing.assert_allclose(x, y, rtol=rtol)


@pytest.mark.parametrize("name", CASES)
def test_graphs(name):
    f, signature, shapes = CASES[name]
    graph = xpapply.lift(V(f, signature=signature), shapes, "float64")
    assert [graph.nodes[i].aval.shape for i in graph.inputs] == [*shapes]
    assert len(graph.outs) == signature.rpartition("->")[2].count("(")
    if name != "two":
        assert xpapply.lift(f, shapes, "float64") == graph
    assert str(graph).count("= input") == len(shapes)


@pytest.mark.parametrize("dtypes", [("float64", "float64"), ("float64", "float32")])
@pytest.mark.parametrize("name", CASES)
def test_plans(name, dtypes, monkeypatch):
    f, signature, shapes = CASES[name]
    f = V(f, signature=signature)
    arrays = given(name, dtypes=dtypes)
    with xpapply.options(engine="loop"):
        want = f(*arrays)
    p = xpapply.compile(f, shapes, dtypes[: len(shapes)])
    with xpapply.options(engine="loop"):  # which decides nothing here
        same(p(*arrays), want)
    same(pickle.loads(pickle.dumps(p))(*arrays), want)
    monkeypatch.setattr(LIMITS, "compiled_block", 1)
    q = xpapply.compile(f, shapes, dtypes[: len(shapes)])
    same(q(*arrays), want)
    same(q(*(x[..., ::-1] for x in arrays)), f(*(x[..., ::-1] for x in arrays)))


# JAX has no 64 bits unless it is told to
@pytest.mark.no_such_case(lambda lib, name: (lib, name) == ("jax", "constant"))
@pytest.mark.parametrize("lib", LIBRARIES)
@pytest.mark.parametrize("name", CASES)
def test_libraries(name, lib):
    library(lib)
    f, signature, shapes = CASES[name]
    f, place = V(f, signature=signature), Library(lib, "")
    arrays = given(name, dtypes=("float32", "float32"))
    p = xpapply.compile(f, shapes, "float32")
    found = p(*map(place.array, arrays))
    parts = found if isinstance(found, tuple) else (found,)
    assert all(type(x) is type(place.array(arrays[0])) for x in parts)
    host = tuple(map(place.numpy, parts))
    same(host if isinstance(found, tuple) else host[0], f(*arrays), rtol=1e-5)


def test_loop_dims():
    p = xpapply.compile(CASES["weighted"][0], ((4,), (4,)), "float64")
    a, w = given("weighted")
    f = V(CASES["weighted"][0], signature="(n),(n)->()")
    for x, y in ((a[0, 0], w[0]), (a[:1], w), (a[:, :1], w[:1]), (a.tolist(), w.tolist())):
        same(p(x, y), f(x, y))
    assert p(np.zeros((0, 4)), w[0]).shape == (0,)
    same(p(a.astype("f4"), w), f(a.astype("f4").astype(float), w))


def test_words():
    p = xpapply.compile(V(CASES["two"][0], signature="(n),(n)->(),(n)"), ((4,), (4,)), "float64")
    assert (p.engine, p.library, p.out_shape) == ("compiled", "any", None)
    assert p.out_dtype == ("float64", "float64")
    assert "slices float64[4], float64[4] of any arrays: (n),(n)->(),(n)" in str(p)
    assert p.to_dict()["result"] == "float64[], float64[4]"


def test_bad_input():
    weighted = V(CASES["weighted"][0], signature="(n),(n)->()")
    p = xpapply.compile(weighted, ((4,), (4,)), "float64")
    a, w = given("weighted")
    with pytest.raises(xpapply.InputError, match=r"slices float64\[4\] of argument 1: found"):
        p(a, w[..., :3])
    with pytest.raises(TypeError, match="for 2 arrays: found 1"):
        p(a)
    with pytest.raises(ValueError, match=r"do not broadcast together: argument 0: \(5, 3\)"):
        p(a, np.ones((2, 4)))
    with pytest.raises(ValueError, match="inconsistent size for core dimension 'n'"):
        xpapply.lift(weighted, ((4,), (3,)))
    with pytest.raises(TypeError, match="expected 2, got 1"):
        xpapply.lift(weighted, ((4,),))
    with pytest.raises(xpapply.InputError, match="more dims"):
        xpapply.lift(weighted, ((2, 4), (4,)))
    with pytest.raises(xpapply.InputError, match="2 shapes of slices, 1 dtypes"):
        xpapply.lift(weighted, ((4,), (4,)), ("float32",))
    with pytest.raises(xpapply.InputError, match="have more dims than"):
        xpapply.lift(V(abs), ((4,),))
    with pytest.raises(xpapply.UnsupportedError, match="decides by the data"):
        xpapply.compile(lambda a, b: a if a[0] > 0 else b, ((4,), (4,)))
    with pytest.raises(xpapply.UnsupportedError, match="it has not 2 results"):
        xpapply.compile(V(lambda a: (a, a, a), signature="(n)->(n),(n)"), ((4,),))
    net = xpapply.MLP([np.ones((2, 4))])
    with pytest.raises(xpapply.UnsupportedError, match="slices of one array"):
        xpapply.lift(net, ((4,), (4,)))


def test_results_that_the_signature_does_not_promise():
    with pytest.raises(ValueError, match=r"\(n\)->\(\)"):
        xpapply.compile(V(lambda a: a * 2, signature="(n)->()"), ((4,),))
    with pytest.raises(ValueError, match=r"result 0 has the shape \(2, 4\), in \(n\)->\(n\)"):
        xpapply.compile(V(lambda a: (a, a), signature="(n)->(n)"), ((4,),))
    with pytest.raises(ValueError, match="inconsistent size for core dimension 'n'"):
        xpapply.compile(V(lambda a: a[1:] * 2, signature="(n)->(n)"), ((4,),))


def test_networks(torch):
    nn = torch.nn

    class OfTwo(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 3), nn.Linear(2, 3)

        def forward(self, x, y):
            return self.a(x), self.b(y).tanh()

    f = V(OfTwo().double(), signature="(n),(m)->(k),(k)")
    a, b = given("distance")[0], np.ones((3, 2))
    same(xpapply.compile(f, ((4,), (2,)), "float64")(a, b), f(a, b), rtol=1e-9)
    with pytest.raises(xpapply.InputError, match="takes 4 features, its input has 3"):
        xpapply.lift(V(OfTwo().double(), signature="(n),(m)->(k),(k)"), ((3,), (2,)))
    with pytest.raises(ValueError, match=r"result 0 has the shape \(2, 3\), in \(n\),\(m\)"):
        xpapply.lift(V(OfTwo().double(), signature="(n),(m)->(k)"), ((4,), (2,)))
    one = V(nn.Linear(4, 3).double(), signature="(n)->(k)")
    same(xpapply.compile(one, ((4,),), "float64")(a), one(a), rtol=1e-9)


def test_slices_of_length_zero():
    f = V(lambda a, b: a * b.sum(), signature="(n),(m)->(n)")
    p = xpapply.compile(f, ((0,), (2,)), "float64")
    assert p(np.ones((3, 0)), np.ones(2)).shape == (3, 0)
