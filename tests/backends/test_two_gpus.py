"""Arrays on a GPU that is not the current one: results lie there, and the current one stays."""

import threading

import numpy as np
import pytest

import xpapply
from xpapply import apply_along_axis, special

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 12))
X[1234] *= 40  # decides otherwise


@pytest.fixture
def other(cupy):
    """A function that puts arrays on the second GPU, while the first is current."""
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one CUDA device")

    def put(x):
        with cupy.cuda.Device(1):
            return cupy.asarray(x)

    with cupy.cuda.Device(0):
        yield put
        assert cupy.cuda.runtime.getDevice() == 0
        cupy.cuda.Device(1).synchronize()


def same(got, want, **how):
    for x, y in zip(*(z if isinstance(z, tuple) else (z,) for z in (got, want)), strict=True):
        assert x.device.id == 1
        np.testing.assert_allclose(x.get(), y, **{"rtol": 1e-6, "atol": 1e-9, **how})


def branch(v):
    if v.max() > 10:
        return v.sum() * 2
    return v.mean()


def caught(v):
    try:
        return v[int(abs(float(v[0]))) :][0]
    except IndexError:
        return v[-1] * 0


def by_element(v):
    total = v[0] * 0
    for x in v:
        total = total * 0.5 + x
    return total


FUNCTIONS = {
    "a formula": lambda v: (v - v.mean()) / v.std(),
    "a reduction": lambda v: (v * v).sum(),
    "sorted": lambda v: v[v.argsort()][:3],
    "a branch": branch,
    "by element": by_element,
    "an exception": caught,
    "cumulated": lambda v: v.cumsum()[::2],
    "NumPy's function": np.median,
    "a product": lambda v: v.reshape(3, 4) @ v.reshape(4, 3),
    "rarely all": lambda v: v[v > 0].sum(),
}


@pytest.mark.parametrize("engine", ["", "loop"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_slices(other, name, engine):
    f = FUNCTIONS[name]
    x = X if engine == "" else X[1230:1240]
    want = np.apply_along_axis(f, -1, x)
    with xpapply.options(engine=engine, fallback="silent"):
        for _ in range(3):
            same(apply_along_axis(f, -1, other(x)), want)
            same(apply_along_axis(f, 0, other(np.ascontiguousarray(x.T))), np.moveaxis(want, 0, -1))


def test_of_both_devices_in_turns(cupy, other):
    f = FUNCTIONS["a formula"]
    want = np.apply_along_axis(f, -1, X)
    here = cupy.asarray(X)
    for _ in range(3):
        found = apply_along_axis(f, -1, here)
        assert found.device.id == 0
        np.testing.assert_allclose(found.get(), want, rtol=1e-6, atol=1e-9)
        same(apply_along_axis(f, -1, other(X)), want)


def test_more_arguments(other):
    w = RNG.normal(size=12)
    f = lambda v, w, p: ((v - w) ** p).sum()  # noqa: E731
    want = np.apply_along_axis(f, -1, X, w, 2)
    same(apply_along_axis(f, -1, other(X), other(w), 2), want)
    same(apply_along_axis(f, -1, other(X), w=other(w), p=2), want)


def test_slices_along_several_axes(other):
    x = X.reshape(30, 100, 3, 4)
    f = lambda p: p.max() - p.mean()  # noqa: E731
    want = np.apply_along_axis(f, -1, X).reshape(30, 100)
    same(apply_along_axis(f, (2, 3), other(x)), want)


def test_explained_plans_run_there(other):
    arr = other(X)
    for name in ("a formula", "a branch", "sorted"):
        f = FUNCTIONS[name]
        plan = xpapply.explain(f, -1, arr)
        assert plan.device.endswith("1>") or plan.device.endswith("1")
        same(plan(arr), np.apply_along_axis(f, -1, X))


def test_compiled(other):
    f = FUNCTIONS["a formula"]
    plan = xpapply.compile(f, (12,), "float64")
    same(plan(other(X)), np.apply_along_axis(f, -1, X))


def test_vectorize(cupy, other):
    x, y = X[:, 0], X[:, 1]
    numbers = xpapply.vectorize(lambda a, b: a + b * 2 if a > b else a - 1)
    slices = xpapply.vectorize(lambda a, b: (a * b).sum(), signature="(n),(n)->()")
    pair = xpapply.vectorize(lambda a: (a.min(), a.max()), signature="(n)->(),()")
    for _ in range(3):
        same(numbers(other(x), other(y)), np.where(x > y, x + y * 2, x - 1))
        same(numbers(other(x), 1.0), np.where(x > 1, x + 2, x - 1))
        same(slices(other(X), other(X[0])), X @ X[0])
        same(pair(other(X)), (X.min(-1), X.max(-1)))
    assert "1" in slices.explain(other(X), other(X[0])).device


def test_patched(cupy, other):
    f = FUNCTIONS["a formula"]
    with xpapply.patch():
        same(cupy.apply_along_axis(f, -1, other(X)), np.apply_along_axis(f, -1, X))


def test_special_and_own_functions(other):
    x = X / 40
    same(special.logsumexp(other(x), axis=-1), np.log(np.exp(x).sum(-1)))
    same(special.softmax(other(x), axis=0), np.exp(x) / np.exp(x).sum(0))
    same(special.mean_var(other(X), axis=-1), (X.mean(-1), X.var(-1)))
    both = xpapply.elementwise(lambda x, y: (x - y) * x)
    same(both(other(X), other(X[0])), (X - X[0]) * X)
    norm = xpapply.reduction(lambda x: x * x, lambda a, b: a + b, identity=0)
    same(norm(other(X), axis=-1), (X * X).sum(-1))


def test_networks(cupy, other, torch):
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 5)).double().eval()
    net = net.float()
    x = X.astype("f4")
    with torch.no_grad():
        want = net(torch.from_numpy(x)).numpy()
    close = {"rtol": 1e-4, "atol": 1e-4}
    for _ in range(3):
        same(apply_along_axis(net, -1, other(x)), want, **close)
    there = net.to("cuda:1")
    f = lambda v: there(v - v.mean()).max()  # noqa: E731
    tensor = torch.from_numpy(x).to("cuda:1")
    with torch.no_grad():
        for _ in range(3):
            found = apply_along_axis(f, -1, tensor)
            assert found.device == tensor.device
        want = there(tensor - tensor.mean(-1, keepdim=True)).amax(-1)
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-4)


def test_tensors(other, torch):
    tensor = torch.from_numpy(X).to("cuda:1")
    functions = {
        "a formula": lambda v: (v - v.mean()) / v.std(correction=0),
        "a branch": branch,
        "sorted": lambda v: torch.sort(v).values[:3],
        "by element": by_element,
    }
    wants = {"sorted": np.sort(X, -1)[:, :3]}
    for name, f in functions.items():
        for _ in range(3):
            found = apply_along_axis(f, -1, tensor)
            assert found.device == tensor.device
        want = wants.get(name)
        want = np.apply_along_axis(FUNCTIONS[name], -1, X) if want is None else want
        np.testing.assert_allclose(found.cpu(), want, rtol=1e-6, atol=1e-9)
    assert torch.cuda.current_device() == 0


def test_files_through_the_second_device(cupy, other, tmp_path):
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", "f8", X.shape)
    x[...] = X
    out = np.lib.format.open_memmap(tmp_path / "y.npy", "w+", "f8", (3000,))
    with xpapply.options(device="cuda:1", memory=100_000):
        apply_along_axis(branch, -1, x, out=out)
    np.testing.assert_allclose(out, np.apply_along_axis(branch, -1, X), rtol=1e-6)


def test_labels_and_chunks(other):
    xarray = pytest.importorskip("xarray")
    da = pytest.importorskip("dask.array")
    f = FUNCTIONS["a formula"]
    want = np.apply_along_axis(f, -1, X)
    labelled = xarray.DataArray(other(X), dims=("place", "time"))
    same(apply_along_axis(f, "time", labelled).data, want)
    chunks = da.from_array(other(X), chunks=(1000, 12), asarray=False)
    found = apply_along_axis(f, -1, chunks).compute()  # dask brings them to the current device
    np.testing.assert_allclose(found.get(), want, rtol=1e-6, atol=1e-9)


def test_new_threads(cupy, other):
    f = FUNCTIONS["by element"]
    want = np.apply_along_axis(f, -1, X)
    made, numbers = xpapply.vectorize(lambda a: a * 2 if a > 0 else 1.0), X[0].copy()
    for put in (cupy.asarray, other):  # arrays of the current device, and of the other one
        x = put(X)
        for _ in range(3):
            same_there(apply_along_axis(f, -1, x), want, x)
            made(put(numbers))
        found = []

        def run(x=x, put=put, found=found):
            found.append(apply_along_axis(f, -1, x))
            found.append(made(put(numbers)))

        for _ in range(2):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        assert len(found) == 4
        for y, z in zip(found[::2], found[1::2], strict=True):
            same_there(y, want, x)
            np.testing.assert_array_equal(z.get(), np.where(numbers > 0, numbers * 2, 1.0))


def same_there(found, want, x):
    assert found.device == x.device
    np.testing.assert_allclose(found.get(), want, rtol=1e-6, atol=1e-9)
