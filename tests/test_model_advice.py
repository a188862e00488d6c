"""What a call says of a model that cannot run as it was given: the line to write."""

import re
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest

import xpapply

ARR = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
CALLS = [
    xpapply.apply_along_axis,
    xpapply.explain,
    lambda f, axis, arr: xpapply.lift(f, (4,)),
]


@pytest.fixture
def sklearn():
    return pytest.importorskip("sklearn")


def notes(error):
    return getattr(error, "__notes__", [])


# --- models that are not functions -----------------------------------------------------


class Session:
    """As `onnxruntime.InferenceSession`."""

    def get_inputs(self):
        raise AssertionError("only looked at")

    run = get_inputs


class Scaler:
    """As an estimator that has no `predict`."""

    def fit(self, x):
        raise AssertionError("only looked at")

    transform = fit


WEIGHTS = {"0.weight": np.ones((3, 4)), "0.bias": np.ones(3)}
LOAD = "load it into its module: net.load_state_dict(...); net.eval(), and pass net"


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("f", "says"),
    [
        (Scaler(), "class Scaler: write lambda v: model.transform(v.reshape(1, -1))[0]"),
        (
            Session(),
            "write lambda v: session.run(None, {session.get_inputs()[0].name: v[None]})[0][0]",
        ),
        (WEIGHTS, f"a dict of 2: {LOAD}"),
        (OrderedDict(WEIGHTS), f"OrderedDict of 2: {LOAD}"),
        ({"epoch": 3, "model_state_dict": WEIGHTS}, "net.load_state_dict(f['model_state_dict'])"),
    ],
)
def test_models_that_are_no_functions(call, f, says):
    with pytest.raises(TypeError, match=f"f is not a function: found .*{re.escape(says)}"):
        call(f, 1, ARR)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("f", [{}, {"a": 1}, {"a": np.ones(2), "b": 1}, {0: np.ones(2)}])
def test_dicts_that_are_no_weights(call, f):
    with pytest.raises(TypeError, match=r"found a dict of \d$"):
        call(f, 1, ARR)


@pytest.mark.parametrize("call", CALLS)
def test_estimators_of_unknown_packages_are_no_functions(call):
    class Model:
        def fit(self, x):
            return self

        transform = score_samples = fit

    line = "write lambda v: model.transform(v.reshape(1, -1))[0]"
    with pytest.raises(TypeError, match=re.escape(line)):
        call(Model(), 1, ARR)


@pytest.mark.parametrize("call", CALLS)
def test_state_dicts_are_no_functions(torch, call):
    with pytest.raises(TypeError, match=re.escape(LOAD)):
        call(torch.nn.Linear(4, 3).state_dict(), 1, ARR)


# --- slices that a model does not take ------------------------------------------------


def test_nets_that_are_called_on_numpy_slices(torch):
    F = torch.nn.functional

    class Unsqueezes(torch.nn.Module):
        def forward(self, x):
            return x.unsqueeze(0)

    nets = [torch.nn.Linear(4, 3), torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())]
    nets += [torch.nn.Conv1d(1, 1, 2), torch.nn.LSTM(4, 2), torch.nn.Softmax(0), Unsqueezes()]
    for net in nets:
        net.eval()
        for f in (lambda v, n=net: n(v), lambda v, n=net: n.forward(v) * 2):
            forward_alone = type(net) is Unsqueezes
            if forward_alone and f.__defaults__ and "forward" in f.__code__.co_names:
                continue  # no line of torch is on the way
            with pytest.raises((TypeError, AttributeError)) as caught:
                xpapply.apply_along_axis(f, 1, ARR)
            assert notes(caught.value) == [
                "raised at the slice arr[0, :]",
                "torch takes tensors, the slice is an array: "
                "pass the net itself as f, or net(torch.from_numpy(v))",
            ]
    for f in (lambda v: torch.relu(v), lambda v: F.softmax(v, 0)):
        with pytest.raises((TypeError, AttributeError)) as caught:
            xpapply.apply_along_axis(f, 1, ARR)
        assert notes(caught.value)[1].endswith("array: pass torch.from_numpy(v)")
    with pytest.raises(TypeError) as caught:
        xpapply.apply_along_axis(lambda v: np.sin(v, wrong=torch), 1, ARR)
    assert notes(caught.value) == ["raised at the slice arr[0, :]"]


def test_nets_that_are_called_on_slices_of_cupy(torch):
    class ndarray:  # torch's error has the name alone
        pass

    net = torch.nn.Linear(4, 3)
    with pytest.raises(TypeError) as caught:
        xpapply.apply_along_axis(lambda v: net(ndarray()), 1, ARR)
    assert notes(caught.value)[1].endswith("net(torch.as_tensor(v, device='cuda'))")


def test_estimators_inside_f_that_get_a_slice(sklearn):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(ARR, ARR[:, 0] > 0)
    for name in ("predict", "predict_proba", "decision_function"):
        f = eval(f"lambda v: model.{name}(v)", {"model": model})
        with pytest.raises(ValueError, match="got 1D array") as caught:
            xpapply.apply_along_axis(f, 1, ARR)
        line = f"a slice is one sample: write model.{name}(v.reshape(1, -1))[0]"
        assert notes(caught.value)[1:] == [line]


# --- networks that return more than one tensor ----------------------------------------


@dataclass
class Out:
    logits: object


class Holds:
    def __init__(self, x):
        self.a, self.b = x


def heads(torch, returns, sizes=(3, 2), batches_only=False):
    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList(torch.nn.Linear(4, n) for n in sizes)

        def forward(self, x):
            if batches_only and x.ndim != 2:
                raise ValueError("a batch")
            return returns([p(x) for p in self.parts])

    class First(torch.nn.Module):
        def __init__(self, net, take):
            super().__init__()
            self.net, self.take = net, take

        def forward(self, x):
            return self.take(self.net(x))

    torch.manual_seed(0)
    net = Heads().eval()
    return net, First


@pytest.mark.parametrize("batches_only", [False, True])
@pytest.mark.parametrize("returns", [tuple, list])
def test_networks_of_several_outputs(torch, returns, batches_only):
    net, first = heads(torch, returns, batches_only=batches_only)
    net.requires_grad_(False)
    says = "forward returns 2 outputs: (3,) and (2,); f must return one array: "
    says += "pass a module whose forward returns net(x)[0]"
    for arr in (ARR, torch.from_numpy(ARR)):
        with (
            xpapply.options(fallback="silent"),
            pytest.raises(ValueError, match=re.escape(says)),
        ):
            xpapply.apply_along_axis(net, 1, arr)
        with xpapply.options(fallback="silent"), pytest.raises(ValueError, match="vectorize") as e:
            xpapply.apply_along_axis(net, 1, arr)
        signature = str(e.value).partition('signature="')[2].partition('"')[0]
        assert signature == "(n)->(a),(b)"
        with xpapply.options(fallback="silent"):
            every = xpapply.vectorize(net, signature=signature)(arr)
        assert [tuple(x.shape) for x in every] == [(60, 3), (60, 2)]
        picked = first(net, lambda x: x[0])
        got = xpapply.apply_along_axis(picked, 1, arr)
        assert xpapply.explain(picked, 1, arr).vectorized
        np.testing.assert_allclose(got, net(torch.from_numpy(ARR))[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("returns", [tuple, list])
def test_outputs_of_one_shape_are_stacked(torch, returns):
    net, _ = heads(torch, returns, (3, 3))
    net.requires_grad_(False)
    want = np.stack([x.numpy() for x in net(torch.from_numpy(ARR))], 1)
    for arr in (ARR, torch.from_numpy(ARR)):
        got = xpapply.apply_along_axis(net, 1, arr)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        with xpapply.options(engine="loop"):
            np.testing.assert_allclose(
                xpapply.apply_along_axis(net, 1, arr), want, rtol=1e-5, atol=1e-6
            )


OBJECTS = {
    "dict": (lambda x: {"a": x[0], "b": x[1]}, "dict of 'a': (3,), 'b': (2,)", "net(x)['a']"),
    "dataclass": (lambda x: Out(x[0]), "Out of .logits: (3,)", "net(x).logits"),
    "object": (lambda x: Holds(x), "Holds of .a: (3,), .b: (2,)", "net(x).a"),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_networks_that_return_objects(torch, kind):
    returns, what, take = OBJECTS[kind]
    line = re.escape(f"forward returns {what}; f must return one array: ") + ".*"
    line += re.escape(f"forward returns {take}")
    net, _ = heads(torch, returns)
    for arr in (ARR, torch.from_numpy(ARR)):  # no array of objects, in which tensors were lost
        with pytest.raises(ValueError, match=line), xpapply.options(fallback="silent"):
            xpapply.apply_along_axis(net, 1, arr)
    only, _ = heads(torch, returns, batches_only=True)
    for arr in (ARR, torch.from_numpy(ARR)):
        with xpapply.options(fallback="silent"), pytest.raises(ValueError, match=re.escape(take)):
            xpapply.apply_along_axis(only, 1, arr)


def test_networks_that_return_objects_inside_f(torch):
    net, _ = heads(torch, OBJECTS["object"][0])
    net.requires_grad_(False)
    p = xpapply.explain(lambda v: net(torch.from_numpy(v)).a.numpy(), 1, ARR)
    assert p.engine == "loop"
    says = "net returns Holds of .a: (3,), .b: (2,); a module whose forward returns net(x).a runs"
    assert says in p.reasons[0]


# --- networks that run slice by slice -------------------------------------------------


def test_recurrent_networks_that_take_no_batch(torch):
    class Recurrent(torch.nn.Module):
        def __init__(self, batched):
            super().__init__()
            self.lstm, self.last = torch.nn.LSTM(1, 5, batch_first=True), torch.nn.Linear(5, 1)
            self.batched = batched

        def forward(self, x):
            if self.batched:
                return self.last(self.lstm(x[..., None])[0][..., -1, :])
            return self.last(self.lstm(x.reshape(-1, 1))[0][-1])

    net = Recurrent(False).eval().requires_grad_(False)
    way_out = r"lstm.*no batching rule for lstm.*takes a batch of slices, \(B, M\)"
    for f in (net, lambda v: net(torch.from_numpy(v)).numpy()):
        p = xpapply.explain(f, 1, ARR)
        assert p.engine == "loop"
        assert re.search(way_out, "; ".join(p.reasons))
        assert "file us an issue" not in str(p)
        assert "generate a fallback" not in str(p)
    mended = Recurrent(True).eval().requires_grad_(False)
    mended.load_state_dict(net.state_dict())
    assert xpapply.explain(mended, 1, ARR).engine == "torch.batch"
    with pytest.warns(xpapply.FallbackWarning, match=way_out):
        want = xpapply.apply_along_axis(net, 1, ARR)
    got = xpapply.apply_along_axis(mended, 1, ARR)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


# --- compiled functions ---------------------------------------------------------------


def test_functions_that_a_compiler_has_made():
    pytest.importorskip("numba")

    class Dispatcher:
        """As numba's: a function that is no Python function."""

        def __init__(self, f):
            self.py_func, self.__name__ = f, f.__name__

        def __call__(self, *args):
            return self.py_func(*args)

    Dispatcher.__module__ = "numba.core.registry"

    def double(v):
        return v.sum() * 2

    check_compiled(Dispatcher(double), "double.py_func")


def test_numba():
    numba = pytest.importorskip("numba")

    @numba.njit
    def double(v):
        return v.sum() * 2

    check_compiled(double, "double.py_func")

    @numba.vectorize
    def twice(x):
        return x * 2

    @numba.guvectorize(["(float32[:],float32[:])"], "(n)->(n)")
    def copied(x, out):
        for i in range(len(x)):
            out[i] = x[i]

    for f in (twice, copied):
        check_compiled(f, "numba functions are called slice by slice")


def check_compiled(f, says):
    def inside(v):
        return f(v) + 1

    p = xpapply.explain(inside, 1, ARR)
    assert p.engine == "loop"
    assert "numba functions are called slice by slice" in p.reasons[0]
    assert says in p.reasons[0]
    p = xpapply.explain(f, 1, ARR)  # of few slices a compiled loop takes longer
    assert p.engine == "numba" or "compil" in " ".join(p.reasons)
    for g in (f, inside):
        want = np.apply_along_axis(g, 1, ARR)
        np.testing.assert_array_equal(xpapply.apply_along_axis(g, 1, ARR), want)
    if hasattr(f, "py_func"):
        assert xpapply.explain(f.py_func, 1, np.tile(ARR, (500, 1))).vectorized
