"""vectorize objects in other processes, which may lack torch and the module of the function."""

import copy
import functools
import importlib
import inspect
import os
import pickle
import re
import sys
import threading
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from elsewhere import results
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.functions import pickles
from xpapply.planning import portable

# torch says once a process that slices of vectorize are read-only: by order, here or elsewhere
pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")

torch = pytest.importorskip("torch")
cloudpickle = pytest.importorskip("cloudpickle")
nn = torch.nn
V = xpapply.vectorize
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal(8)


def x(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


X = x(20, 8)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return torch.softmax(self.second(torch.nn.functional.gelu(self.first(x))), -1)


class OfTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 3), nn.Linear(4, 3)

    def forward(self, x, y):
        return self.a(x) + self.b(y)


class ToTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 3)

    def forward(self, x, scale=1.0):
        return scale * self.a(x), x.sum(-1)


def image():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).eval()


def weighted(v, w):
    return (v * w * TABLE).sum()


def scaled(v, factor):
    return v * factor + 1


def weighted_max(v):
    return (v * TABLE).max()


def branches(v):
    return v[v > 0].mean() if v.max() > 1 else v.min()


def of(f, *arrays, **kwargs):
    """Its results here, and a pickle of it afterwards."""
    with xpapply.options(fallback="silent"):
        want = f(*arrays, **kwargs)
    return want, pickle.dumps(f), arrays, kwargs


def close(found, want):
    assert not isinstance(found, str), found
    found, want = (y if isinstance(y, tuple) else (y,) for y in (found, want))
    for a, b in zip(found, want, strict=True):
        assert (type(a), a.shape, a.dtype) == (type(b), b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def cases():
    net = V(Own().eval(), signature="(n)->(k)")
    yield "module", of(net, X)
    yield "several loop dims", of(net, x(3, 4, 8))
    yield "one slice", of(net, x(8))
    yield "axis", of(net, x(8, 5), axes=[(0,), (0,)])
    yield "where", of(net, X, where=np.arange(20) % 3 == 0)
    yield "dtype", of(net, X, dtype="float64")
    yield "out", of(net, X, out=np.empty((20, 4), "float64"))
    yield "other dtype", (net(X.astype("f8")), pickle.dumps(net), (X.astype("f8"),), {})
    yield "otypes", of(V(Own().eval(), signature="(n)->(k)", otypes=["float64"]), X)
    yield "on_error", of(V(Own().eval(), signature="(n)->(k)", on_error="fill"), X)
    fresh = V(Own().eval(), signature="(n)->(k)")
    sent_before = pickle.dumps(fresh)
    yield "never called", (fresh(X), sent_before, (X,), {})
    fixed = V(image(), signature="(2,8,8)->(k)")
    images = x(5, 2, 8, 8)
    sent_before = pickle.dumps(fixed)
    yield "never called, sizes in the signature", (fixed(images), sent_before, (images,), {})
    yield "images", of(V(image(), signature="(c,h,w)->(k)"), images)
    matrices = nn.Sequential(nn.Flatten(-2), nn.Linear(6, 2))
    yield "matrices", of(V(matrices, signature="(a,b)->(k)"), x(4, 2, 3))
    yield "two arrays", of(V(OfTwo().eval(), signature="(n),(m)->(k)"), X, x(20, 4))
    yield "two results", of(V(ToTwo().eval(), signature="(n)->(k),()"), X)
    excluded = V(ToTwo().eval(), signature="(n)->(k),()", excluded={"scale"})
    yield "excluded", of(excluded, X, scale=2.0)
    yield "function", of(V(lambda a: np.tanh(a).sum(), signature="(n)->()"), X)
    yield "function of its module", of(V(weighted, signature="(n),(n)->()"), X.astype("f8"), TABLE)
    yield "branches", of(V(branches, signature="(n)->()"), x(50, 8, dtype="f8"))
    yield "numbers", of(V(lambda a, b: a - b if a > b else 0.0), x(9, dtype="f8"), 0.5)
    yield "partial", of(V(functools.partial(scaled, factor=3.0), signature="(n)->(n)"), X)
    yield "MLP", of(V(xpapply.MLP([np.ones((2, 8))]), signature="(n)->(k)"), X)

    def about_torch(v, w, *, _needs=torch.nn.functional.relu):
        return np.sqrt(((v - w) ** 2).sum())

    yield "two arrays, a graph", of(V(about_torch, signature="(n),(n)->()"), x(3, 1, 8), x(5, 8))

    inner = Own().eval()
    around = V(lambda v: inner(torch.from_numpy(v)).detach().numpy().max(), signature="(n)->()")
    yield "around a network", of(around, X)

    def times(v, factor, *, _needs=torch.nn.functional.relu):
        return v * factor

    more = V(times, signature="(n)->(n)", excluded={1})
    more(X, 1)
    yield "a constant", of(more, X, 2.5)


NAMES = (
    "module",
    "several loop dims",
    "one slice",
    "axis",
    "where",
    "dtype",
    "out",
    "other dtype",
    "otypes",
    "on_error",
    "never called",
    "never called, sizes in the signature",
    "images",
    "matrices",
    "two arrays",
    "two results",
    "excluded",
    "function",
    "function of its module",
    "branches",
    "numbers",
    "partial",
    "MLP",
    "two arrays, a graph",
    "around a network",
    "a constant",
)
LINEAR = V(nn.Linear(8, 2), signature="(n)->(k)")


@pytest.fixture(scope="module")
def here():
    found = dict(cases())
    assert tuple(found) == NAMES
    return found


@pytest.fixture(scope="module")
def elsewhere(here):
    jobs = {name: (given, arrays, kwargs) for name, (_, given, arrays, kwargs) in here.items()}
    LINEAR(X)
    jobs["in a function"] = cloudpickle.dumps(lambda v: LINEAR(v) * 2), (X,), {}
    jobs["explained"] = cloudpickle.dumps(lambda v: str(V.explain(LINEAR, v))), (X,), {}
    jobs["plan"] = pickle.dumps(LINEAR.explain(X)), (X,), {}
    jobs["sent on"] = cloudpickle.dumps(lambda v: pickle.loads(pickle.dumps(LINEAR))(v)), (X,), {}
    jobs["other length"] = pickle.dumps(LINEAR), (x(4, 9),), {}
    jobs["masked"] = pickle.dumps(LINEAR), (np.ma.masked_greater(X, 1),), {}
    jobs["empty"] = pickle.dumps(LINEAR), (X[:0],), {}
    jobs["none"] = pickle.dumps(V(nn.GRU(4, 3), signature="(t,n)->(t,k)")), (x(2, 5, 4),), {}
    other = here["a constant"][1]
    jobs["other constant"] = other, (X, 3.5), {}
    jobs["constant of another class"] = other, (X, True), {}
    jobs["first constant"] = other, (X, 1), {}
    return results(jobs, ["torch", __name__])


@pytest.mark.parametrize("name", NAMES)
def test_elsewhere(name, here, elsewhere):
    close(elsewhere[name], here[name][0])


def test_pickled_again_and_within(elsewhere):
    for name in ("in a function", "sent on", "plan"):
        close(elsewhere[name], LINEAR(X) * (2 if name == "in a function" else 1))


def test_explained(elsewhere):
    said = elsewhere["explained"]
    assert "apply    Linear to slices float32[8] of a numpy array (20, 8): (n)->(k)" in said
    assert "engine   compiled: the graph that came with it" in said
    assert "result   float32[2], 20 slices, out (20, 2)" in said
    assert "refused  the function itself: there is no module 'torch' here" in said


def test_what_has_no_graph(elsewhere):
    said = elsewhere["other length"]
    assert said.startswith("UnsupportedError: Linear came from another process, and cannot be made")
    assert "there is no module 'torch' here. It has no graph for slices float32[9]" in said
    assert "only for float32[8]; float64[8]. Install here what is missing." in said
    assert "call it once with such slices before it is pickled" in said
    assert "xpapply.compile(f, shape, dtype)" in said
    assert "no graph for slices float32[5,4]. Install" in elsewhere["none"]
    assert "no graph for such a call" in elsewhere["masked"]
    assert elsewhere["empty"].startswith("ValueError: cannot call `vectorize` on size 0 inputs")


def test_constants_are_those_of_the_graph(elsewhere):
    close(elsewhere["first constant"], X * 1)
    for name in ("other constant", "constant of another class"):
        assert "no graph for slices float32[8] with argument 1=" in elsewhere[name]


# --- in this process ----------------------------------------------------------------------------


def test_weights_are_those_when_it_is_pickled():
    net = nn.Linear(8, 2)
    f = V(net, signature="(n)->(k)")
    f(X)
    with torch.no_grad():
        net.weight.zero_()
    found = results({"f": (pickle.dumps(f), (X,), {})}, ["torch"])["f"]
    close(found, f(X))
    with torch.no_grad():
        net.bias.zero_()
    assert not np.any(results({"f": (pickle.dumps(f), (X,), {})}, ["torch"])["f"])


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_where_nothing_is_missing_it_is_the_function_itself(dumps):
    for f in (weighted, functools.partial(scaled, factor=2.0)):
        again = pickle.loads(dumps(V(f, signature="(n),(n)->()", otypes="d")))
        assert getattr(again.pyfunc, "func", again.pyfunc) is getattr(f, "func", f)
        assert (again.otypes, again.signature) == ("d", "(n),(n)->()")
    net = Own().eval()
    f = V(net, signature="(n)->(k)")
    again = pickle.loads(dumps(f))
    assert type(again.pyfunc) is Own
    np.testing.assert_array_equal(again(X), f(X))


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_copies(way):
    lock = threading.Lock()  # nothing is pickled

    def f(v):
        return v.sum() + (lock is None)

    made = V(f, signature="(n)->()")
    again = way(made)
    assert again.pyfunc is f
    np.testing.assert_array_equal(again(X), made(X))
    net = V(nn.Linear(8, 2), signature="(n)->(k)")
    assert (way(net).pyfunc is net.pyfunc) == (way is copy.copy)
    np.testing.assert_array_equal(way(net)(X), net(X))


def test_decorators_go_as_they_are():
    make = pickle.loads(pickle.dumps(V(signature="(n)->()")))
    assert make(np.max)(X).shape == (20,)


def test_functions_that_call_themselves():
    @V
    def factorial(n):
        return n * int(factorial(n - 1)) if n > 1 else 1

    again = pickle.loads(cloudpickle.dumps(factorial))
    np.testing.assert_array_equal(again(np.arange(6)), [1, 1, 2, 6, 24, 120])
    assert inspect.getclosurevars(again.pyfunc).nonlocals["factorial"] is again


def test_pickles_are_small():
    plain = V(branches, signature="(n)->()")
    for n in range(5, 30):
        plain(x(4, n, dtype="f8"))
    assert len(pickle.dumps(plain)) < 5_000
    net = nn.Linear(500, 500)
    f = V(net, signature="(n)->(k)")
    for dtype in ("f4", "f8", "i4"):
        f(np.ones((2, 500), dtype))
    assert len(pickle.dumps(f)) < 2.1 * 500 * 501 * 4 + 10_000  # the module, and one copy


def test_the_last_kinds_are_kept():
    f = V(lambda v: v * 2, signature="(n)->(n)")
    for n in range(1, 20):
        f(np.ones((2, n)))
    assert [k.slices[0].shape for k in f._kinds.values()] == [(n,) for n in range(12, 20)]


def test_what_cannot_be_pickled_is_named(tmp_path):
    lock = threading.Lock()

    def locked(v):
        with lock:
            return v.sum()

    with pytest.raises(TypeError, match=r"locked cannot be pickled.*lock, of class _thread.lock"):
        pickle.dumps(V(locked, signature="(n)->()"))
    with (
        open(tmp_path / "log", "w") as file,
        pytest.raises(TypeError, match=r"argument 0, of class _io.Text"),
    ):
        pickle.dumps(V(functools.partial(scaled, file)))

    class Model:
        def __init__(self):
            self.lock = lock

        def __call__(self, v):
            return v

    with pytest.raises(TypeError, match=r"self.lock, of class _thread.lock"):
        pickle.dumps(V(Model()))
    assert V(locked, signature="(n)->()")(X).shape == (20,)


def test_without_cloudpickle(monkeypatch):
    monkeypatch.setattr(pickles, "cloudpickle", lambda: None)
    again = pickle.loads(pickle.dumps(V(weighted, signature="(n),(n)->()")))
    assert again.pyfunc is weighted
    with pytest.raises(TypeError, match=r"<lambda> cannot be pickled.*pip install cloudpickle"):
        pickle.dumps(V(lambda a: a))


def test_modules_that_are_missing_go_by_value(tmp_path, monkeypatch):
    (tmp_path / "users_own.py").write_text(
        "import users_helpers\n"
        "def f(v):\n    return users_helpers.half(v).max() if v[0] > 0 else v.min()\n"
    )
    (tmp_path / "users_helpers.py").write_text("def half(v):\n    return v / 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("users_own")
    f = V(own.f, signature="(n)->()")
    given = pickle.dumps(f)
    assert pickle.loads(given).pyfunc is own.f
    assert not cloudpickle.list_registry_pickle_by_value()
    X8 = X.astype("f8")
    found = results({"f": (given, (X8,), {})}, ["users_own"])["f"]
    for name in ("users_own", "users_helpers"):
        monkeypatch.delitem(sys.modules, name)
    with xpapply.options(engine="loop"):
        close(found, f(X8))


def test_functions_of_the_main_script_that_went_by_name(monkeypatch):
    """As where there is no cloudpickle, or where the function holds what only stays here."""
    monkeypatch.setattr(sys.modules["__main__"], "by_name", branches, raising=False)
    monkeypatch.setattr(branches, "__module__", "__main__")
    monkeypatch.setattr(branches, "__qualname__", "by_name")
    monkeypatch.setattr(pickles, "cloudpickle", lambda: None)
    given = pickle.dumps(V(branches, signature="(n)->()"))
    assert pickle.loads(given).pyfunc is branches
    said = results({"f": (given, (X,), {})}, [])["f"]
    assert "Can't get attribute 'by_name'" in said
    assert "it went by name, not by value" in said


def test_code_keeps_its_file():
    """cloudpickle calls it <dynamic-code> since 3.1.3: reasons could not say where a line is."""

    def outer():
        return lambda v: v.max()

    again = pickle.loads(pickles.dumps(cloudpickle, outer))
    assert again().__code__ == outer().__code__
    assert {f.__code__.co_filename for f in (again, again())} == {__file__}


def test_copies_of_cloudpickle_read_each_other(tmp_path, monkeypatch):
    """Ray and Spark have their own, and their processes need no other."""
    inner = tmp_path / "pyspark" / "cloudpickle"
    inner.mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").touch()
    for name in ("__init__.py", "cloudpickle.py"):
        text = (Path(cloudpickle.__file__).parent / name).read_text()
        (inner / name).write_text(text.replace("from cloudpickle", "from pyspark.cloudpickle"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    f = V(lambda v: v[v > 0].sum(), signature="(n)->()")
    X8 = X.astype("f8")
    jobs = {"f": (pickle.dumps(f), (X8,), {})}
    close(results(jobs, ["cloudpickle"])["f"], f(X8))
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"].partition(os.pathsep)[2])
    assert "there is no module 'cloudpickle' here" in results(jobs, ["cloudpickle"])["f"]


def test_tensors_have_a_meaning_of_their_own(monkeypatch):
    """`std` of a tensor is another than NumPy's."""

    def spread(v, *, _needs=torch.nn.functional.relu):
        return (v - v.mean()).std()

    f = V(spread, signature="(n)->()")
    f(X)
    monkeypatch.setattr(portable._Unpickler, "find_class", _nothing)
    for made in (f, LINEAR):
        again = pickle.loads(pickle.dumps(made))
        assert isinstance(again.pyfunc, portable.PortableFunction)
        np.testing.assert_allclose(again(X), made(X), rtol=1e-4, atol=1e-5)
        if made is f:
            with pytest.raises(xpapply.UnsupportedError, match="What it does to tensors"):
                again(torch.from_numpy(X))
        else:
            tensor = torch.from_numpy(X).requires_grad_()
            with pytest.raises(xpapply.UnsupportedError, match="Autograd would record"):
                again(tensor)
            with torch.no_grad():
                found = again(tensor)
            assert isinstance(found, torch.Tensor)
            np.testing.assert_allclose(found.numpy(), made(X), rtol=1e-4, atol=1e-5)


def _nothing(self, module, name):
    raise ModuleNotFoundError(name=module)


def test_tasks_of_dask_have_graphs_of_their_chunks():
    da = pytest.importorskip("dask.array")
    net = V(image(), signature="(c,h,w)->(k)")  # which is never called here
    images = x(6, 2, 8, 8)
    lazy = net(da.from_array(images, chunks=(2, 2, 8, 8)))
    jobs = {"y": (cloudpickle.dumps(lazy.compute), (), {"scheduler": "synchronous"})}
    close(results(jobs, ["torch"])["y"], net(images))


@pytest.mark.parametrize("f", [branches, weighted_max, np.tanh], ids=["branches", "graph", "ufunc"])
def test_pickles_are_the_same_each_time(f):
    v = V(f, signature="(n)->(n)" if f is np.tanh else "(n)->()")
    v(X)
    assert pickle.dumps(v) == pickle.dumps(v)


def test_sent_on_from_where_it_cannot_be_made(monkeypatch):
    """A function that stands for itself in the pickle of another one."""
    inner = V(lambda v: np.tanh(v), signature="(n)->(n)")
    inner(X)
    with patch.object(portable._Unpickler, "find_class", _nothing):
        inner = pickle.loads(pickle.dumps(inner))
    assert isinstance(inner.pyfunc, portable.PortableFunction)

    @V
    def outer(k):
        return outer(k - 1) + 1 if k > 0 else float(inner(np.zeros(8, np.float32)).sum())

    again = pickle.loads(pickle.dumps(outer))
    np.testing.assert_array_equal(again(np.arange(4)), [0.0, 1.0, 2.0, 3.0])


# --- graphs beside the function -----------------------------------------------------------------

FUNCTIONS = {
    "vectors": (lambda a, b: np.tanh(a - b).sum() / (1 + abs(b).max()), "(n),(n)->()", 2),
    "scaled": (lambda a, k: np.sqrt(abs(a)) * k, "(n),()->(n)", 2),
    "matrix": (lambda m, v: m @ v + v[:1], "(m,n),(n)->(m)", 2),
    "two results": (lambda a: (a.max() - a.min(), a[::-1] * 2), "(n)->(),(n)", 1),
    "fixed": (lambda a, b: a[0] * b[1] - a[1] * b[0], "(2),(2)->()", 2),
    "missing": (lambda a, b: a @ b, "(m?,n),(n)->(m?)", 2),
    "network": (Own().eval().double(), "(n)->(k)", 1),
    "network of two": (OfTwo().eval().double(), "(n),(m)->(k)", 2),
}
SIZES = {"n": 8, "m": 4}
LOOPS = [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 4)), ((0,), ()), ((5,), ())]


@given(st.data())
def test_parity(data):
    """What the graphs give is what the function gives, with every keyword."""
    name = data.draw(st.sampled_from(sorted(FUNCTIONS)))
    f, signature, count = FUNCTIONS[name]
    cores = [
        tuple(2 if d == "2" else SIZES[d.rstrip("?")] for d in core.split(",") if d)
        for core in re.findall(r"\(([^()]*)\)", signature.partition("->")[0])
    ]
    if name == "missing" and data.draw(st.booleans()):
        cores[0] = cores[0][1:]
    otypes = data.draw(st.sampled_from([None, "f" * (1 + (name == "two results"))]))
    v = V(f, signature=signature, otypes=otypes)
    loops = data.draw(st.sampled_from(LOOPS))[:count]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    dtype = data.draw(st.sampled_from(["f8", "f8", ">f8", "f4"]))
    made = [
        rng.standard_normal(lo + core).astype(dtype) for lo, core in zip(loops, cores, strict=True)
    ]
    if data.draw(st.booleans()):
        made = [np.asfortranarray(x) for x in made]
    if data.draw(st.booleans()):
        made = [x[..., ::-1] if x.ndim else x for x in made]
    if data.draw(st.booleans()):
        for x in made:
            x.flags.writeable = False
    kwargs = {}
    loop = np.broadcast_shapes(*loops)
    if data.draw(st.booleans()) and 0 not in loop:
        kwargs["where"] = np.asarray(rng.random(loop) > 0.3)
        kwargs["where"].flat[0] = True
    if data.draw(st.booleans()):
        kwargs["dtype"] = "float64"
    with xpapply.options(fallback="silent"):
        want = _outcome(v, made, kwargs)
        sent_ = pickle.dumps(v)
        with patch.object(portable._Unpickler, "find_class", _nothing):
            again = pickle.loads(sent_)
        assert isinstance(again.pyfunc, portable.PortableFunction)
        found = _outcome(again, made, kwargs)
        assert type(found) is type(want), (found, want)
        if isinstance(want, Exception):
            assert str(found) == str(want)
            return
        close(found, want)
        try:
            p = again.explain(*made, **kwargs)
        except ValueError:
            assert 0 in loop
            return
        shown = found if isinstance(found, tuple) else (found,)
        if p.engine == "compiled":
            assert p.out_shapes == tuple(y.shape for y in shown)


def _outcome(f, args, kwargs):
    try:
        return f(*args, **kwargs)
    except ValueError as error:
        return error
