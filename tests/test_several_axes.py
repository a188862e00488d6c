"""axis= may be a tuple: slices with several dims, by their definition as a loop."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.limits import LIMITS

pytestmark = pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")


def by_definition(f, axes, arr):
    """One call per slice; results stand where the first of the axes was."""
    axes = [a % arr.ndim for a in axes]
    rest = [a for a in range(arr.ndim) if a not in axes]
    moved = arr.transpose(*rest, *axes)
    batch = moved.shape[: len(rest)]
    found = [np.asanyarray(f(moved[i])) for i in np.ndindex(*batch)]
    y = np.stack(found).astype(found[0].dtype).reshape((*batch, *found[0].shape))
    at, n = sum(a < axes[0] for a in rest), len(rest)
    return y.transpose((*range(at), *range(n, y.ndim), *range(at, n)))


def above_mean(p):
    return p[p > p.mean()].sum()


def corner_or_range(p):
    return p[0, 0] if p.mean() > 0 else p.max() - p.min()


FUNCTIONS = {
    "range": lambda p: p.max() - p.mean(),
    "median": np.median,
    "fft2": np.fft.fft2,
    "rows": lambda p: p.sum(0),
    "product": lambda p: p.T @ p,
    "mask": above_mean,
    "branch": corner_or_range,
    "flipped": lambda p: p[::-1, 1:],
    "list": lambda p: [p.min(), p.max()],
    "svd": lambda p: np.linalg.svd(p, compute_uv=False),
}


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (2, 0), (-1, -2), (1, 3), (3, 0)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_defined(name, axes):
    f = FUNCTIONS[name]
    x = np.random.default_rng(0).normal(size=(6, 5, 7, 4))
    for arr in (x, np.asfortranarray(x), x[::-1, :, ::2]):
        want = by_definition(f, axes, arr)
        for _ in range(2):
            got = xpapply.apply_along_axis(f, axes, arr)
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@given(st.data())
def test_random_axes(data):
    ndim = data.draw(st.integers(2, 4))
    shape = data.draw(st.lists(st.integers(1, 5), min_size=ndim, max_size=ndim))
    axes = tuple(data.draw(st.permutations(range(ndim)))[: data.draw(st.integers(2, ndim))])
    axes = tuple(a - ndim * data.draw(st.booleans()) for a in axes)
    x = np.random.default_rng(1).normal(size=shape)

    def f(p):
        return p * 2 - p.max()

    np.testing.assert_array_equal(xpapply.apply_along_axis(f, axes, x), by_definition(f, axes, x))


@pytest.mark.parametrize("name", ["sobel", "gaussian_filter", "median_filter", "laplace"])
def test_filters_of_patches(name):
    ndimage = pytest.importorskip("scipy.ndimage")
    more = {"gaussian_filter": (1.0,), "median_filter": (3,)}.get(name, ())
    x = np.random.default_rng(2).normal(size=(30, 6, 7))
    f = getattr(ndimage, name)
    got = xpapply.apply_along_axis(f, (1, 2), x, *more)
    np.testing.assert_allclose(got, by_definition(lambda p: f(p, *more), (1, 2), x), rtol=1e-12)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_libraries(library):
    xp = pytest.importorskip(library)
    x = np.random.default_rng(3).normal(size=(8, 5, 4))
    f = (lambda p: p.sum(0) * p.max()) if library == "torch" else (lambda p: xp.sum(p, axis=0))
    got = xpapply.apply_along_axis(f, (1, 2), xp.asarray(x))
    assert type(got) is type(xp.asarray(x))
    want = by_definition(lambda p: p.sum(0) * (p.max() if library == "torch" else 1), (1, 2), x)
    np.testing.assert_allclose(np.asarray(got), want)


def _residual(torch):
    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, v):
            return (v + torch.relu(self.inner(v))).mean(-2)

        def encode(self, v):
            return self.inner(v).flatten(-2)

    return Residual()


def networks(torch):
    """Networks of slices with several axes, and the shapes of these."""
    nn = torch.nn
    torch.manual_seed(0)
    residual = _residual(torch)
    return {
        "flatten": (nn.Sequential(nn.Flatten(), nn.Linear(32, 9), nn.ReLU()), (4, 8)),
        "flatten the slice": (nn.Sequential(nn.Flatten(0), nn.Linear(32, 3)), (4, 8)),
        "last axis": (nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), (4, 8)),
        "residual": (residual, (4, 8)),
        "method": (residual.encode, (4, 8)),
        "norm": (nn.Sequential(nn.LayerNorm((4, 8)), nn.Flatten(0), nn.Linear(32, 4)), (4, 8)),
        "convolution": (nn.Sequential(nn.Conv1d(4, 2, 3), nn.BatchNorm1d(2)), (4, 8)),
        "image": (nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(0)), (1, 4, 8)),
        "image, batched": (
            nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 5)),
            (1, 4, 8),
        ),
    }


NETWORKS = (
    *("flatten", "flatten the slice", "last axis", "residual", "method", "norm"),
    *("convolution", "image", "image, batched"),
)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_run_at_once(name):
    torch = pytest.importorskip("torch")
    net, shape = networks(torch)[name]
    getattr(net, "__self__", net).eval()
    rng = np.random.default_rng(4)
    together = tuple(range(1, 1 + len(shape)))
    cases = [(together, (5, *shape, 6)), (tuple(-n for n in range(len(shape), 0, -1)), (7, *shape))]
    if len(shape) == 2:
        cases += [((2, 0), (8, 3, 4)), ((0, 3), (4, 3, 2, 8)), ((0, 1), (4, 8))]
    for axes, of in cases:
        x = rng.normal(size=of).astype(np.float32)
        with xpapply.options(engine="loop"):
            want = xpapply.apply_along_axis(net, axes, x)
        p = xpapply.explain(net, axes, x)
        assert p.vectorized, p
        assert (p.out_shape, p.out_dtype) == (want.shape, "float32")
        tensor = torch.from_numpy(x).to(torch.float64)
        for _ in range(2):
            got = xpapply.apply_along_axis(net, axes, x)
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(p(x, axes), want, rtol=1e-5, atol=1e-5)
        with torch.no_grad():
            of_tensor = xpapply.apply_along_axis(net, axes, tensor)
        np.testing.assert_allclose(of_tensor.numpy(), want, rtol=1e-5, atol=1e-5)


def test_networks_change():
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Linear(12, 1)).eval()
    x = np.ones((50, 3, 4), np.float32)
    before = xpapply.apply_along_axis(net, (1, 2), x)
    with torch.no_grad():
        net[1].bias += 1
    np.testing.assert_allclose(xpapply.apply_along_axis(net, (1, 2), x), before + 1, atol=1e-5)
    # the same elements in slices of another shape
    rows = torch.nn.Linear(4, 1).eval()
    got = xpapply.apply_along_axis(rows, (1, 2), x)
    assert got.shape == (50, 3, 1)
    with pytest.raises(xpapply.InputError, match="4 features, its input has 3"):
        xpapply.apply_along_axis(rows, (2, 1), x)


def test_networks_that_are_looped_over():
    torch = pytest.importorskip("torch")
    net = functools.partial(torch.nn.Linear(4, 2).eval())
    x = np.random.default_rng(4).normal(size=(5, 3, 4)).astype(np.float32)
    got = xpapply.apply_along_axis(net, (1, 2), x)
    with torch.no_grad():
        want = net(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    p = xpapply.explain(net, (1, 2), x)
    assert not p.vectorized
    assert "partial" in p.reasons[0]


def test_networks_in_training():
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(4, 2)
    x = torch.ones((5, 3, 4), requires_grad=True)
    found = xpapply.apply_along_axis(net, (1, 2), x)
    assert found.shape == (5, 3, 2)
    found.sum().backward()
    np.testing.assert_allclose(x.grad[0, 0], net.weight.detach().sum(0), rtol=1e-5)


@pytest.mark.parametrize("axes", [(1, 2), (3, 1), (0, 2), (0, 1, 2, 3)])
def test_elementwise_and_reductions(axes):
    x = np.random.default_rng(5).normal(size=(6, 5, 4, 3))
    functions = [
        (xpapply.elementwise(lambda a: 2 * a + 1), lambda p: 2 * p + 1),
        (xpapply.elementwise(lambda a: (2 * a, a + 1)), lambda p: (2 * p, p + 1)),
        (xpapply.reduction(lambda a: a * a, lambda a, b: a + b, None), lambda p: (p * p).sum()),
    ]
    for f, plain in functions:
        for arr in (x, x.T):
            want = by_definition(plain, axes, arr)
            assert xpapply.explain(f, axes, arr).vectorized
            got = xpapply.apply_along_axis(f, axes, arr)
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_masks_are_kept():
    x = np.ma.masked_less(np.random.default_rng(5).normal(size=(6, 5, 4)), 0.5)
    got = xpapply.apply_along_axis(xpapply.elementwise(lambda a: 2 * a), (0, 1), x)
    np.testing.assert_array_equal(got.mask, x.mask)
    np.testing.assert_array_equal(got.compressed(), 2 * x.compressed())


def test_explain():
    x = np.zeros((400, 3, 5, 4))
    p = xpapply.explain(FUNCTIONS["rows"], (1, 2), x)
    assert (p.engine, p.out_shape, p.slices) == ("numpy", (400, 5, 4), 1600)
    assert "axes (1, 2)" in str(p)
    np.testing.assert_array_equal(p(x, (1, 2)), np.zeros((400, 5, 4)))
    assert xpapply.explain(set, (1, 2), x).engine == "loop"


def test_one_axis_in_a_tuple():
    x = np.random.default_rng(5).normal(size=(20, 6))
    np.testing.assert_array_equal(xpapply.apply_along_axis(np.sum, (1,), x), x.sum(1))


def test_notes_and_errors():
    x = np.arange(60.0).reshape(5, 3, 4)

    def f(p):
        if p[0, 0] == 24:
            raise KeyError("gone")
        return p.sum()

    with pytest.raises(KeyError) as info:
        xpapply.apply_along_axis(f, (1, 2), x)
    assert "arr[2, :, :]" in info.value.__notes__[0]
    with pytest.raises(ValueError, match="twice"):
        xpapply.apply_along_axis(np.sum, (1, -2), x)
    with pytest.raises(ValueError, match="names no axis"):
        xpapply.apply_along_axis(np.sum, (), x)
    with pytest.raises(np.exceptions.AxisError):
        xpapply.apply_along_axis(np.sum, (1, 3), x)
    with pytest.raises(ValueError, match="iteration dimensions are 0"):
        xpapply.apply_along_axis(np.sum, (1, 2), np.zeros((0, 3, 4)))
    with xpapply.options(engine="cpu"), pytest.raises(xpapply.UnsupportedError):
        xpapply.apply_along_axis(np.linalg.svd, (1, 2), np.zeros((50, 3, 4)))


def test_networks_of_patches_are_found_again(monkeypatch):
    """A repeated call with such an array asks for nothing but whether the network has changed."""
    from xpapply.planning import flat_slices

    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Flatten(-2), torch.nn.Linear(12, 3)).eval()
    arr = np.random.default_rng(0).standard_normal((5, 3, 6, 4)).astype("f")
    want = {axes: xpapply.apply_along_axis(net, axes, arr) for axes in [(1, 3), (3, 1), (-1, 1)]}
    np.testing.assert_array_equal(want[-1, 1], want[3, 1])
    monkeypatch.setattr(flat_slices, "FlatSlices", None)
    for axes, result in want.items():
        np.testing.assert_array_equal(xpapply.apply_along_axis(net, axes, arr), result)
    monkeypatch.undo()
    with torch.no_grad():
        net[1].bias.add_(1)
    np.testing.assert_allclose(
        xpapply.apply_along_axis(net, (1, 3), arr), want[1, 3] + 1, rtol=1e-5
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda p: p.ravel("K")[1],
        lambda p: (p * 2).ravel("K")[1],
        lambda p: np.ravel(p, "K")[1],
        lambda p: np.ravel(p, order="A")[1],
        lambda p: np.array(p, order="K").ravel("K")[1],
        lambda p: p.flatten("A")[1],
        lambda p: p.ravel("F")[1],
        lambda p: p.reshape(-1, order="F")[1],
    ],
)
@pytest.mark.usefixtures("plan_always")
def test_the_order_in_memory(f):
    """It may be another one at the next call."""
    x = np.random.default_rng(0).normal(size=(200, 5, 8))
    for arr in (x, np.asfortranarray(x), x):
        want = [f(p) for p in arr]
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, (1, 2), arr), want)


@pytest.mark.parametrize("later", [0.0, [0.0], [[1.0], [2.0]], np.zeros((1, 2, 1))])
def test_results_fit_the_place_of_the_first(later):
    """As NumPy's loop assigns them, by the loop and at once."""
    x = np.random.default_rng(2).normal(size=(40, 2, 3))
    x[0, 0, 0] = 5

    def f(p):
        return p * 2 if p[0, 0] > 0.5 else later

    want = np.empty_like(x)
    for i in range(len(x)):
        want[i] = f(x[i])
    for engine in ("", "loop"):
        with xpapply.options(engine=engine):
            np.testing.assert_array_equal(xpapply.apply_along_axis(f, (1, 2), x), want)
    later = [1.0, 2.0]
    for engine in ("", "loop"):
        with xpapply.options(engine=engine), pytest.raises(ValueError, match=r"\(2,\) into shape"):
            xpapply.apply_along_axis(f, (1, 2), x)


def test_loops_of_what_no_trace_runs():
    """The loop of several axes took no other function than its own, so such a call failed."""
    rng = np.random.default_rng(0)

    def noisy(m):
        return m.sum() + rng.normal()

    arr = rng.normal(size=(300, 5, 6))
    state = rng.bit_generator.state
    want = [noisy(m) for m in arr] + [noisy(m) for m in arr]
    rng.bit_generator.state = state
    with LIMITS.set(first_loops=60.0):
        got = [x for _ in range(2) for x in xpapply.apply_along_axis(noisy, (1, 2), arr)]
    assert got == want
