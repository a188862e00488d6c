"""Plans in another process, which has neither the model's library nor the function's module."""

import pickle

import numpy as np
import pytest
from elsewhere import results

import xpapply

torch = pytest.importorskip("torch")
cloudpickle = pytest.importorskip("cloudpickle")
nn = torch.nn
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal(8)


def weighted(v):
    return (v * TABLE).sum() / (1 + np.abs(v).max())


def distance(a, b):
    return np.sqrt(((a - b) ** 2).sum())


def two(a, b):
    return a.max() - b.min(), np.tanh(a) + b


def image(*shape):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).eval()


class Own(nn.Module):
    """A class of the module that the other process lacks."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return torch.softmax(self.second(torch.nn.functional.gelu(self.first(x))), -1)


def x(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def of_one_channel():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 2)).eval()


def around_a_network(v):
    scaled = torch.from_numpy((v - v.mean()) / v.std()).float()
    return np.exp(NET(scaled[None])[0].detach().numpy()) * TABLE[:4]


def around_an_mlp(v):
    return MLP(np.abs(v)).max()


V = xpapply.vectorize
NET = Own().eval()
MLP = xpapply.MLP([RNG.standard_normal((5, 8)), RNG.standard_normal((2, 5))])
X, P = x(20, 8), x(7, 2, 8, 8)
SPECTRA = nn.Sequential(nn.Unflatten(-1, (1, 8)), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(-2))
ALONG = {
    "MLP": (MLP, (8,), X, -1),
    "layers": (nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).eval(), (8,), X, -1),
    "float64": (nn.Linear(8, 3).double(), (8,), X.astype("f8"), -1),
    "first axis": (nn.Linear(8, 3), (8,), X.T, 0),
    "own class": (Own().eval(), (8,), X, -1),
    "Conv1d": (SPECTRA.eval(), (8,), X, -1),
    "images": (image(), (2, 8, 8), P, (1, 2, 3)),
    "images first": (image(), (2, 8, 8), np.moveaxis(P, 0, -1), (0, 1, 2)),
    "images of one channel": (of_one_channel(), (6, 6), x(7, 6, 6), (1, 2)),
    "Python": (weighted, (8,), X.astype("f8"), -1),
    "lambda": (lambda v: v[-3:] * 2, (8,), X.astype("f8"), -1),
    "around a network": (around_a_network, (8,), X, -1),
    "around an MLP": (around_an_mlp, (8,), X.astype("f8"), -1),
    "patches": (lambda p: p.max() - p.mean(), (3, 4), x(6, 3, 4, dtype="f8"), (1, 2)),
    "patches, axes swapped": (lambda p: p[0] - p.mean(), (4, 3), x(6, 3, 4, dtype="f8"), (2, 1)),
}
"""Function, shape of a slice, array, axis."""
SEVERAL = {
    "vectors": (V(distance, signature="(n),(n)->()"), ((4,), (4,)), (x(3, 1, 4), x(5, 4))),
    "two results": (V(two, signature="(n),(n)->(),(n)"), ((4,), (4,)), (x(5, 4), x(4))),
    "matrix": (
        V(lambda m, v: m @ v, signature="(m,n),(n)->(m)"),
        ((2, 4), (4,)),
        (x(3, 2, 4), x(4)),
    ),
    "network": (V(Own().eval(), signature="(n)->(k)"), ((8,),), (X,)),
    "network of images": (V(image(), signature="(c,h,w)->(k)"), ((2, 8, 8),), (P,)),
    "image of one channel": (V(of_one_channel(), signature="(h,w)->(k)"), ((6, 6),), (x(7, 6, 6),)),
}
PICKLES = {"pickle": pickle.dumps, "cloudpickle": cloudpickle.dumps}


@pytest.fixture(scope="module")
def elsewhere():
    jobs = {}
    for by, dumps in PICKLES.items():
        for name, (f, shape, arr, axis) in ALONG.items():
            sent = dumps(xpapply.compile(f, shape, arr.dtype))
            jobs[by, name] = sent, (arr, axis), {}
            last = axis in (-1, tuple(range(1, arr.ndim)))
            if last:
                jobs[by, name, "by default"] = sent, (arr,), {}
        for name, (f, shapes, arrays) in SEVERAL.items():
            jobs[by, name] = dumps(xpapply.compile(f, shapes, arrays[0].dtype)), arrays, {}
        for name in ("own class", "images"):  # what has a graph
            f, _, arr, axis = ALONG[name]
            jobs[by, "explain", name] = dumps(xpapply.explain(f, axis, arr)), (arr, axis), {}
        wrong = dumps(xpapply.compile(image(), (2, 8, 8)))
        jobs[by, "wrong"] = wrong, (x(7, 2, 8, 9), (1, 2, 3)), {}
        jobs[by, "wrong axis"] = wrong, (P, -1), {}
    return results(jobs, ["torch", __name__])


def close(found, want):
    assert not isinstance(found, str), found
    found, want = (y if isinstance(y, tuple) else (y,) for y in (found, want))
    for a, b in zip(found, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("by", PICKLES)
@pytest.mark.parametrize("name", ALONG)
def test_of_one_array(by, name, elsewhere):
    f, _, arr, axis = ALONG[name]
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, axis, arr)
    close(elsewhere[by, name], want)
    if (by, name, "by default") in elsewhere:
        close(elsewhere[by, name, "by default"], want)
    if (by, "explain", name) in elsewhere:
        close(elsewhere[by, "explain", name], want)


@pytest.mark.parametrize("by", PICKLES)
@pytest.mark.parametrize("name", SEVERAL)
def test_of_several_arrays(by, name, elsewhere):
    f, _, arrays = SEVERAL[name]
    with xpapply.options(engine="loop"):
        close(elsewhere[by, name], f(*arrays))


@pytest.mark.parametrize("by", PICKLES)
def test_wrong_slices(by, elsewhere):
    said = elsewhere[by, "wrong"]
    assert said.startswith(
        "InputError: this plan is for slices float32[2,8,8], those along the axes"
    )
    assert "float32[2,8,9]" in said
    assert elsewhere[by, "wrong axis"] == (
        "InputError: this plan is for slices float32[2,8,8]: found axis=-1"
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda v: torch.from_numpy(v)[:4].numpy(),
        lambda v: NET(torch.tensor(v, dtype=torch.float32)).detach().numpy().argmax(),
        lambda v: NET(torch.as_tensor(v, device="cpu").float())[-1].item(),
        lambda v: NET(torch.asarray(v).float()[..., :]).numpy(force=True)[::2],
    ],
    ids=["no network", "dtype", "number", "index"],
)
def test_tensors_inside_functions(f):
    arr = X.astype("f8")
    with xpapply.options(fallback="silent"):
        want = xpapply.apply_along_axis(f, -1, arr)
    close(xpapply.compile(f, (8,), "float64")(arr), want)


def test_tensors_that_are_no_part_of_a_graph():
    for f, why in (
        (lambda v: NET(torch.from_numpy(v)).softmax(-1).numpy(), "torch softmax is not an op"),
        (
            lambda v: NET(torch.from_numpy(v).int().float()).detach().numpy(),
            "torch int is not an op",
        ),
        (lambda v: NET(torch.from_numpy(v)[[0, 1] * 4]).detach().numpy(), "more than integers"),
        (lambda v: NET(torch.tensor(v, requires_grad=True)).detach().numpy(), "more than a dtype"),
    ):
        with pytest.raises(xpapply.UnsupportedError, match=why):
            xpapply.compile(f, (8,), "float32")


def test_slices_without_axes():
    plan = xpapply.compile(lambda v: np.sqrt(v) * 2, (), "float64")
    arr = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(plan(arr), np.sqrt(arr) * 2)


def test_axes_that_are_none():
    plan = xpapply.compile(lambda p: p.max(), (3, 3), "float64")
    with pytest.raises(np.exceptions.AxisError):
        plan(np.zeros((3, 3)), (1, 2))
    with pytest.raises(ValueError, match=r"axis=\(1, -1\) names an axis twice"):
        plan(np.zeros((3, 3)), (1, -1))
    assert plan(np.eye(3)).shape == ()


@pytest.mark.parametrize("lib", ["torch", "jax", "array_api_strict"])
def test_several_axes_of_other_libraries(lib):
    from conftest import Library, library

    library(lib)
    place = Library(lib, "")
    net, shape, arr, axis = ALONG["images"]
    found = xpapply.compile(net, shape)(place.array(arr), axis)
    assert type(found) is type(place.array(arr))
    with torch.no_grad():
        want = net(torch.from_numpy(arr)).numpy()
    np.testing.assert_allclose(place.numpy(found), want, rtol=1e-4, atol=1e-5)


def test_what_explain_of_vectorize_returns_is_called_again():
    f = V(lambda a: np.median(a[a > 0]), signature="(n)->()")
    a = np.abs(x(30, 5))
    plan = cloudpickle.loads(cloudpickle.dumps(f.explain(a)))
    np.testing.assert_array_equal(plan(a), f(a))


def test_plans_without_a_graph_say_what_to_do():
    with pytest.raises(TypeError, match=r"median has no graph.*xpapply.compile\(f, shape, dtype\)"):
        pickle.dumps(xpapply.explain(np.median, -1, X))
