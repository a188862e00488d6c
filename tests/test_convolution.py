"""conv, max_pool and avg_pool: every layout on every library, against torch and SciPy."""

import numpy as np
import pytest
import scipy.signal
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from conftest import OWN, library, parameters, present
from xpapply.errors import InputError

torch = pytest.importorskip("torch")
F = torch.nn.functional


@pytest.fixture(params=parameters(OWN, without=["jax"]), scope="session")
def place(request):
    """Every array library but JAX, which compiles every operation for every shape."""
    return present(request.param)


@st.composite
def problems(draw):
    """Images in some layout and order of memory, and their axes as torch has them."""
    n = draw(st.integers(1, 3))
    places = [draw(st.integers(6, 8)) for _ in range(n)]
    digits = "012"[:n]
    usual = [f"bc{digits}", f"b{digits}c", f"c{digits}b", f"c{digits}", f"{digits}c"]
    layout = "".join(draw(st.sampled_from(usual) | st.permutations(f"bc{digits}")))
    channels = draw(st.sampled_from([2, 4]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    first = rng.standard_normal((3, channels, *places))
    first = first if "b" in layout else first[0]
    letters = ("bc" if "b" in layout else "c") + digits
    x = first.transpose([letters.index(k) for k in layout])
    if draw(st.booleans()):
        x = np.ascontiguousarray(x)

    def back(y):
        return y.transpose([layout.index(k) for k in letters])

    return n, layout, first, x, back, rng


def close(got, want):
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@given(problem=problems(), data=st.data())
def test_conv_as_torch(place, problem, data):
    n, layout, first, x, back, rng = problem
    groups = data.draw(st.sampled_from([1, 2]))
    channels = x.shape[layout.index("c")]
    taps = [data.draw(st.integers(1, 3)) for _ in range(n)]
    w = rng.standard_normal((4, channels // groups, *taps))
    bias = rng.standard_normal(4) if data.draw(st.booleans()) else None
    stride = data.draw(st.integers(1, 3) | st.tuples(*[st.integers(1, 2)] * n))
    padding = data.draw(st.integers(0, 2) | st.tuples(*[st.integers(0, 2)] * n))
    dilation, flip = data.draw(st.integers(1, 2)), data.draw(st.booleans())
    turned = np.flip(w, tuple(range(2, n + 2))).copy() if flip else w
    want = getattr(F, f"conv{n}d")(
        *(torch.from_numpy(np.ascontiguousarray(a)) for a in (first, turned)),
        None if bias is None else torch.from_numpy(bias),
        stride,
        padding,
        dilation,
        groups,
    ).numpy()
    with place():
        arr, filters = place.array(x), place.array(w)
        offsets = None if bias is None else place.array(bias)
        got = xpapply.conv(arr, filters, offsets, stride, padding, dilation, groups, layout, flip)
        assert type(got) is type(arr)
    close(back(place.numpy(got)), want)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("taps", [(3, 4), (1, 2), (4, 3), (5, 1)])
def test_conv_as_scipy(place, mode, taps):
    """True convolution of images of one channel, with filters that are no squares."""
    rng = np.random.default_rng(1)
    images, w = rng.standard_normal((5, 9, 8)), rng.standard_normal(taps)
    want = [scipy.signal.convolve(image, w, mode) for image in images]
    with place():
        x = place.array(images[..., None].copy())
        got = xpapply.conv(x, w[None, None], padding=mode, layout="b01c", flip=True)
    close(place.numpy(got)[..., 0], np.stack(want))


@given(data=st.data())
@pytest.mark.parametrize("layout", ["bc01", "b01c", "c01b"])
def test_conv_as_scipy_of_any_dtype(place, layout, data):
    """Sums over channels of `convolve2d`, of images that lie as they like, or of none."""
    dtype = data.draw(st.sampled_from(["f4", "f8", "i4", "u1", "i8"]))
    weights = data.draw(st.sampled_from(["f4", "f8"]))
    flip, count = data.draw(st.booleans()), data.draw(st.integers(0, 4))
    taps = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    step = data.draw(st.sampled_from([1, 2]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    images = (10 * rng.standard_normal((count, 2, 7, 6))).round().astype("i1").astype(dtype)
    w = rng.standard_normal((3, 2, *taps)).astype(weights)
    combine = scipy.signal.convolve2d if flip else scipy.signal.correlate2d
    shape = (count, 3, 8 - taps[0], 7 - taps[1])
    want, size = np.zeros(shape), np.zeros(shape)
    for b, n, c in np.ndindex(count, 3, 2):
        image, filter_ = images[b, c].astype("f8"), w[n, c].astype("f8")
        want[b, n] += combine(image, filter_, "valid")
        size[b, n] += combine(np.abs(image), np.abs(filter_), "valid")
    order = ["bc01".index(k) for k in layout]
    with place():
        arr = place.array(np.repeat(images.transpose(order), step, -1))[..., ::step]
        got = place.numpy(xpapply.conv(arr, place.array(w), layout=layout, flip=flip))
    assert got.shape == tuple(shape[a] for a in order)
    assert got.dtype.kind == "f"
    off = np.abs(got.transpose(np.argsort(order)) - want)
    on_gpu = place.name in ("cupy", "cuda") and got.dtype == np.float32
    eps = 2.0**-11 if on_gpu else np.finfo(got.dtype).eps  # cuDNN may round products to TF32
    assert (off <= 40 * eps * size).all()


@pytest.mark.parametrize("layout", ["bc01", "b01c", "c01b", "1cb0"])
def test_no_images(place, layout):
    order = ["bc01".index(k) for k in layout]
    with place():
        x = place.array(np.zeros((0, 3, 8, 9), "f").transpose(order))
        w = place.array(np.ones((4, 3, 3, 2), "f"))
        results = [
            (xpapply.conv(x, w, layout=layout), (0, 4, 6, 8)),
            (xpapply.max_pool(x, 2, layout=layout), (0, 3, 4, 4)),
            (xpapply.avg_pool(x, 2, layout=layout), (0, 3, 4, 4)),
        ]
        for got, shape in results:
            assert type(got) is type(x)
            assert got.dtype == x.dtype
            assert tuple(got.shape) == tuple(shape[a] for a in order)


@given(problem=problems(), data=st.data())
def test_pools_as_torch(place, problem, data):
    n, layout, first, x, back, _ = problem
    size = data.draw(st.integers(1, 3) | st.tuples(*[st.integers(1, 3)] * n))
    stride = data.draw(st.none() | st.integers(1, 3))
    padding = data.draw(st.integers(0, min(np.atleast_1d(size)) // 2))
    ceil, count = data.draw(st.booleans()), data.draw(st.booleans())
    whole = torch.from_numpy(np.ascontiguousarray(first))
    want = getattr(F, f"max_pool{n}d")(whole, size, stride, padding, 1, ceil).numpy()
    with place():
        arr = place.array(x)
        close(
            back(place.numpy(xpapply.max_pool(arr, size, stride, padding, 1, ceil, layout))), want
        )
        got = xpapply.avg_pool(arr, size, stride, padding, ceil, count, layout)
    want = getattr(F, f"avg_pool{n}d")(whole, size, stride, padding, ceil, count).numpy()
    close(back(place.numpy(got)), want)


@pytest.mark.parametrize("layout", ["bc01", "b01c", "c01b"])
def test_derivatives(layout):
    """On tensors autograd records all of it."""
    order = ["bc01".index(k) for k in layout]
    x = torch.randn(2, 2, 5, 5, dtype=torch.float64).permute(order).requires_grad_()
    w = torch.randn(3, 2, 2, 3, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, dtype=torch.float64, requires_grad=True)

    def f(x, w, b):
        y = xpapply.conv(x, w, b, padding="same", layout=layout, flip=True)
        return xpapply.max_pool(y, 2, 1, layout=layout) + xpapply.avg_pool(y, 2, 1, layout=layout)

    assert torch.autograd.gradcheck(f, (x, w, b))


@pytest.mark.parametrize("layout", ["bc01", "b01c", "c01b"])
def test_images_of_bytes_and_of_few_bits(layout):
    order = ["bc01".index(k) for k in layout]
    rng = np.random.default_rng(2)
    x = rng.integers(0, 255, (50, 3, 9, 9), np.uint8)
    w = rng.standard_normal((4, 3, 3, 3))
    want = F.conv2d(torch.from_numpy(x).double(), torch.from_numpy(w)).numpy().transpose(order)
    given_ = np.ascontiguousarray(x.transpose(order))
    for dtype, kind in (("f2", "f2"), ("f4", "f4"), ("i4", "f8")):
        filters = w.astype(dtype) if dtype != "i4" else np.ones(w.shape, dtype)
        got = xpapply.conv(given_, filters, layout=layout)
        assert got.dtype == kind
        if dtype != "i4":
            close_ = 5e-3 if dtype == "f2" else 1e-6
            np.testing.assert_allclose(got, want, atol=close_ * np.abs(want).max())


def test_memory_is_bounded():
    import tracemalloc

    x, w = np.zeros((4000, 28, 28, 1), "f"), np.ones((8, 1, 3, 3), "f")
    xpapply.conv(x[:10], w, layout="b01c")
    tracemalloc.start()
    found = xpapply.conv(x, w, layout="b01c")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < found.nbytes + 3e7  # all windows at once would be 100 MB


X, W = np.zeros((2, 3, 8, 8)), np.zeros((4, 3, 3, 3))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda xp: xpapply.conv(xp(X), xp(W[:, :2])), r"takes 2 channels .* found 3"),
        (lambda xp: xpapply.conv(xp(X), xp(W), layout="b01c"), r"found 8 in shape .*'b01c'"),
        (lambda xp: xpapply.conv(xp(X), xp(W), layout="bc0"), r"layout 'bc0' of an array of shape"),
        (lambda xp: xpapply.conv(xp(X), xp(W), layout="bcxy"), r"give each axis once"),
        (lambda xp: xpapply.conv(xp(X), xp(W[0])), r"takes filters \(N, C, 2 lengths\)"),
        (lambda xp: xpapply.conv(xp(X[:, :, :2]), xp(W)), r"windows of 3 places, .* has 2"),
        (lambda xp: xpapply.conv(xp(X), xp(W), padding="all"), r'"valid", "same", "full"'),
        (lambda xp: xpapply.conv(xp(X), xp(W), stride=2, padding="same"), r"it needs 1"),
        (lambda xp: xpapply.conv([1.0], xp(W)), r"takes an array, found list"),
        (lambda xp: xpapply.max_pool(xp(X), 9), r"max_pool"),
    ],
)
@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_bad_input(name, call, says):
    with pytest.raises(InputError, match=says):
        call(library(name).asarray)
