"""How modules take slices: images without their channel, integers; and errors that name a layer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from conftest import library

torch = library("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class Tutorial(nn.Module):
    """Takes batches of images of one channel, and nothing else."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.relu(self.conv2(x))
        return self.fc(x.view(x.size(0), -1))


def sequence(*layers):
    torch.manual_seed(0)
    return nn.Sequential(*layers).eval()


IMAGES = {
    "batches only": lambda: Tutorial().eval(),
    "flattened": lambda: sequence(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(108, 2)),
    "channels out": lambda: sequence(nn.Conv2d(1, 3, 3), nn.ReLU()),
    "one channel out": lambda: sequence(nn.Conv2d(1, 1, 3, padding="same")),
    "upwards": lambda: sequence(nn.ConvTranspose2d(1, 2, 2, stride=2)),
    "exported": lambda: torch.export.export(Tutorial().eval(), (torch.zeros(1, 1, 8, 8),)).module(),
    "script": lambda: torch.jit.script(Tutorial().eval()),
    "traced": lambda: torch.jit.trace(Tutorial().eval(), torch.zeros(1, 1, 8, 8)),
}


@pytest.fixture(scope="module")
def images():
    return {name: make() for name, make in IMAGES.items()}


@pytest.mark.parametrize("name", IMAGES)
@given(order=st.permutations([0, 1, 2]), n=st.integers(1, 20), dtype=st.sampled_from("fdB"))
def test_images_of_one_channel(images, name, order, n, dtype):
    """A net for images of one channel gets what it takes, wherever the axes are, in every way."""
    net = images[name]
    x = (10 * np.random.default_rng(n).random((n, 8, 8))).astype(dtype)
    arr = x.transpose(order)
    axes = (order.index(1), order.index(2))
    with torch.no_grad():
        want = np.stack([net(torch.from_numpy(v.astype("f"))[None, None])[0] for v in x])
        if order.index(0) > axes[0]:  # results stand where the first of the axes was
            want = np.moveaxis(want, 0, -1)
        for given_arr in (arr, torch.from_numpy(arr.copy())):
            got = np.asarray(xpapply.apply_along_axis(net, axes, given_arr))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        with xpapply.options(engine="loop"):
            got = xpapply.apply_along_axis(net, axes, arr)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1])
def test_spectra_of_one_channel(axis):
    """The same along one axis."""
    net = sequence(nn.Conv1d(1, 4, 5), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(52, 3))
    x = np.random.default_rng(0).standard_normal((20, 30)).astype("f")
    arr = x if axis else np.ascontiguousarray(x.T)
    with torch.no_grad():
        want = net(torch.from_numpy(x)[:, None]).numpy()
        for given_arr in (arr, torch.from_numpy(arr)):
            plan = xpapply.explain(net, axis, given_arr)
            assert plan.vectorized
            got = np.asarray(xpapply.apply_along_axis(net, axis, given_arr))
            np.testing.assert_allclose(got if axis else got.T, want, rtol=1e-4, atol=1e-5)
        with xpapply.options(engine="loop"):
            got = xpapply.apply_along_axis(net, axis, arr)
        np.testing.assert_allclose(got if axis else got.T, want, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_images_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    net = Tutorial().eval().cuda()
    x = np.random.default_rng(0).standard_normal((300, 8, 8)).astype("f")
    with torch.no_grad():
        want = net(torch.from_numpy(x).cuda()[:, None]).cpu().numpy()
        for arr in (cupy.asarray(x), torch.from_numpy(x).cuda()):
            got = xpapply.apply_along_axis(net, (1, 2), arr)
            assert type(got) is type(arr)
            got = got.get() if hasattr(got, "get") else got.cpu().numpy()
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.g = nn.Embedding(10, 4), nn.GRU(4, 5, batch_first=True)

    def forward(self, x):
        return self.g(self.e(x))[0][..., -1, :]


INTEGERS = {
    "embedding": lambda: sequence(nn.Embedding(10, 4), nn.Flatten(-2), nn.Linear(24, 3)),
    "text": lambda: Text().eval(),
    "bags": lambda: sequence(nn.EmbeddingBag(10, 4), nn.Linear(4, 2)),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "uint16"])
def test_integers_that_are_looked_up(name, dtype):
    """Other models compute in the dtype of their weights; those of words get integers."""
    net = INTEGERS[name]()
    arr = np.random.default_rng(0).integers(0, 10, (40, 6)).astype(dtype)
    with torch.no_grad():
        want = net(torch.from_numpy(arr.astype("int64"))).numpy()
        assert xpapply.explain(net, 1, arr).vectorized
        got = xpapply.apply_along_axis(net, 1, arr)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        with xpapply.options(engine="loop"):
            got = xpapply.apply_along_axis(net, 1, arr)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        if dtype != "uint16":
            got = xpapply.apply_along_axis(net, 1, torch.from_numpy(arr))
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps, self.out = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x):
        return self.out(self.steps(x)[0][..., -1, :])


def test_what_does_not_fit_names_its_layer():
    """Whoever finds it: the graph's rules, or torch."""
    cnn = sequence(nn.Conv2d(2, 3, 3), nn.Sequential(nn.ReLU(), nn.Flatten(-3)), nn.Linear(108, 2))
    cases = [
        (cnn, (5, 3, 8, 8), "layer '0', Conv2d(2, 3"),
        (cnn, (5, 2, 9, 9), "takes 108 features, its input has 147"),
        (Words().eval(), (5, 7, 3), "layer 'steps', GRU(4, 5, batch_first=True), which got (7, 3)"),
    ]
    for net, shape, says in cases:
        arr = np.zeros(shape, "f")
        with pytest.raises((RuntimeError, ValueError)) as caught:
            xpapply.apply_along_axis(net, tuple(range(1, arr.ndim)), arr)
        text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
        assert says in text, text
