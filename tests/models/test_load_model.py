"""Weights from files give what the module of torch gives."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply import InputError, UnsupportedError, apply_along_axis, load_model

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
nn = torch.nn

ACTIVATIONS = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "leaky_relu": nn.LeakyReLU,
    "softplus": nn.Softplus,
}


def trained(net):
    """A network in evaluation mode whose norms have seen something."""
    torch.manual_seed(1)
    for m in net.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2)
        if hasattr(m, "weight") and m.weight is not None and m.weight.ndim == 1:
            nn.init.normal_(m.weight, 1, 0.3)
            nn.init.normal_(m.bias, 0, 0.3) if getattr(m, "bias", None) is not None else None
    return net.eval()


def mlp(*between, sizes=(7, 9, 5, 3)):
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), *(make(b) for make in between)]
    return trained(nn.Sequential(*layers[: len(layers) - len(between)]))


def saved(net, path, suffix, **metadata):
    """The weights of a network in a file."""
    file = path / f"net.{suffix}"
    state = net if isinstance(net, dict) else net.state_dict()
    if suffix == "safetensors":
        from safetensors.torch import save_file

        save_file({k: v.contiguous() for k, v in state.items()}, file, metadata or None)
    else:
        torch.save(state, file)
    return file


def same(model, net, arr, axis=-1, tolerance=1e-6):
    """The model gives what the module gives, on arrays and tensors."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    moved = np.moveaxis(arr, axes, tuple(range(-len(axes), 0)))
    dtype = next(net.parameters()).dtype
    batch = torch.from_numpy(np.ascontiguousarray(moved)).to(dtype)
    with torch.no_grad():
        flat = batch.reshape(-1, *batch.shape[arr.ndim - len(axes) :])
        want = net(flat).float().numpy()
        want = want.reshape(*batch.shape[: arr.ndim - len(axes)], *want.shape[1:])
    found = apply_along_axis(model, axis, arr)
    np.testing.assert_allclose(
        np.asarray(found, np.float32), want, rtol=tolerance, atol=tolerance * 10
    )
    tensors = apply_along_axis(model, axis, torch.from_numpy(arr))
    assert isinstance(tensors, torch.Tensor)
    np.testing.assert_allclose(
        tensors.detach().float().numpy(), want, rtol=tolerance, atol=tolerance * 10
    )
    return found


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    return lambda *shape: rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear_layers(tmp_path, numbers, suffix, activation):
    net = mlp(lambda n: ACTIVATIONS[activation]())
    model = load_model(saved(net, tmp_path, suffix), activation=activation)
    assert same(model, net, numbers(4, 6, 7)).dtype == np.float32
    assert activation in repr(model)
    assert "7-9" in repr(model)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize(
    "between",
    [
        (nn.BatchNorm1d, lambda n: nn.ReLU()),
        (lambda n: nn.ReLU(), nn.BatchNorm1d),
        (nn.LayerNorm, lambda n: nn.ReLU(), lambda n: nn.Dropout()),
        (lambda n: nn.ReLU(), lambda n: nn.Dropout()),
        (lambda n: nn.BatchNorm1d(n, affine=False), lambda n: nn.ReLU()),
    ],
    ids=["batch norm", "batch norm behind", "layer norm", "dropout", "without affine"],
)
def test_norms_stand_where_the_numbers_of_the_keys_say(tmp_path, numbers, suffix, between):
    net = mlp(*between)
    model = load_model(saved(net, tmp_path, suffix), activation="relu")
    same(model, net, numbers(10, 7), tolerance=1e-5)


@pytest.mark.parametrize("place", ["numpy", "torch", "array_api_strict", "jax"])
def test_arrays_of_any_library(tmp_path, numbers, place):
    from conftest import Library, present

    lib = present(Library(place, ""))
    net = mlp(lambda n: nn.Tanh())
    model = load_model(saved(net, tmp_path, "pt"), activation="tanh")
    x = numbers(5, 7, 3)
    found = apply_along_axis(model, 1, lib.array(x))
    assert type(found) is type(lib.array(x))
    np.testing.assert_allclose(
        lib.numpy(found), apply_along_axis(model, 1, x), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_weights_of_other_dtypes(tmp_path, numbers, suffix, dtype):
    net = mlp(lambda n: nn.ReLU()).to(getattr(torch, dtype))
    model = load_model(saved(net, tmp_path, suffix), activation="relu")
    arr = numbers(10, 7)
    wide = mlp(lambda n: nn.ReLU())
    wide.load_state_dict({k: v.float() for k, v in net.state_dict().items()})
    found = apply_along_axis(model, -1, arr)
    want = wide(torch.from_numpy(arr)).detach().numpy()
    np.testing.assert_allclose(found, want, rtol=1e-2 if "16" in dtype else 1e-6, atol=1e-2)
    # NumPy has no bfloat16: what is rounded to it is float32
    assert found.dtype == ("float32" if dtype == "bfloat16" else dtype)
    assert dtype in repr(model)
    assert str(apply_along_axis(model, -1, torch.from_numpy(arr)).dtype) == f"torch.{dtype}"


def test_any_dtype_of_slices(tmp_path):
    net = mlp(lambda n: nn.ReLU())
    model = load_model(saved(net, tmp_path, "pt"), activation="relu")
    bytes_ = np.arange(70, dtype=np.uint8).reshape(10, 7)
    want = net(torch.from_numpy(bytes_.astype("f"))).detach().numpy()
    np.testing.assert_allclose(apply_along_axis(model, -1, bytes_), want, rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="real numbers"):
        apply_along_axis(model, -1, bytes_.astype(complex))


def test_one_slice(tmp_path, numbers):
    net = mlp(lambda n: nn.ReLU())
    model = load_model(saved(net, tmp_path, "pt"), activation="relu")
    v = numbers(7)
    want = net(torch.from_numpy(v)).detach().numpy()
    np.testing.assert_allclose(model(v), want, rtol=1e-5, atol=1e-6)
    with xpapply.options(engine="loop"):
        np.testing.assert_allclose(apply_along_axis(model, 0, v), want, rtol=1e-5, atol=1e-6)


def test_pickles_and_copies(tmp_path, numbers):
    import copy
    import pickle

    net = mlp(lambda n: nn.ReLU())
    model = load_model(saved(net, tmp_path, "pt"), activation="relu")
    arr = numbers(4, 7)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert repr(other) == repr(model)
        np.testing.assert_array_equal(
            apply_along_axis(other, -1, arr), apply_along_axis(model, -1, arr)
        )
    with pytest.raises(ValueError, match="read-only"):
        model.layers[0].weights["weight"][0] = 0


@st.composite
def networks(draw):
    """A Sequential of Linear layers with norms, and the activation between them."""
    activation = draw(st.sampled_from(sorted(ACTIVATIONS)))
    norm = draw(st.sampled_from([None, nn.BatchNorm1d, nn.LayerNorm]))
    first = draw(st.booleans())
    sizes = draw(st.lists(st.integers(1, 9), min_size=2, max_size=6))
    layers = []
    for k, (a, b) in enumerate(itertools.pairwise(sizes)):
        layers.append(nn.Linear(a, b, bias=draw(st.booleans())))
        if k + 2 < len(sizes):
            more = [ACTIVATIONS[activation]()]
            if norm is not None:
                more.insert(0 if first else 1, norm(b))
            if norm is None or first:  # else it would be on both sides of the norm
                more += [nn.Dropout()] * draw(st.integers(0, 2))
            layers += more
    torch.manual_seed(draw(st.integers(0, 99)))
    return trained(nn.Sequential(*layers)), activation


@given(
    networks(),
    st.sampled_from(["pt", "safetensors"]),
    st.sampled_from(["", "module.", "body."]),
    st.integers(0, 2),
)
def test_random_networks(tmp_path_factory, drawn, suffix, prefix, axis):
    """What is found by keys and shapes is the network, whatever its layers."""
    net, activation = drawn
    state = {f"{prefix}{k}": v for k, v in net.state_dict().items()}
    file = saved(state, tmp_path_factory.mktemp("net"), suffix)
    model = load_model(file, activation=activation)
    x = np.random.default_rng(0).standard_normal((3, 4, net[0].in_features)).astype("f")
    want = net(torch.from_numpy(x).reshape(12, -1)).detach().numpy().reshape(3, 4, -1)
    arr = np.moveaxis(x, -1, axis)
    found = np.moveaxis(apply_along_axis(model, axis, arr), axis, -1)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
    plan = xpapply.compile(model, (x.shape[-1],))
    plan.save(file.with_suffix(".xpapply"))
    again = load_model(file.with_suffix(".xpapply"))
    np.testing.assert_array_equal(again(x), plan(x))


# --- checkpoints --------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["module.", "model.", "model.module.", "_orig_mod."])
def test_prefixes_of_wrappers(tmp_path, numbers, prefix):
    net = mlp(lambda n: nn.ReLU())
    state = {f"{prefix}{k}": v for k, v in net.state_dict().items()}
    for suffix in ("pt", "safetensors"):
        file = saved(state, tmp_path, suffix)
        same(load_model(file, activation="relu"), net, numbers(5, 7))
        own = load_model(file, module=lambda: mlp(lambda n: nn.ReLU()))
        same(own, net, numbers(5, 7))


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model", "generator"])
def test_checkpoints(tmp_path, numbers, key):
    net = mlp(lambda n: nn.ReLU())
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(2, 7)).sum().backward()
    optimizer.step()
    whole = {"epoch": 3, key: net.state_dict(), "optimizer": optimizer.state_dict(), "loss": 0.5}
    torch.save(whole, tmp_path / "check.pt")
    same(load_model(tmp_path / "check.pt", activation="relu"), net, numbers(5, 7))


def test_checkpoints_with_several(tmp_path, numbers):
    net, average = mlp(lambda n: nn.ReLU()), mlp(lambda n: nn.ReLU())
    with torch.no_grad():
        average[0].weight += 1
    whole = {"model": net.state_dict(), "ema": average.state_dict()}
    torch.save(whole, tmp_path / "check.pt")
    with pytest.raises(InputError, match="'model', 'ema': say which, as key="):
        load_model(tmp_path / "check.pt", activation="relu")
    same(load_model(tmp_path / "check.pt", activation="relu", key="ema"), average, numbers(5, 7))
    with pytest.raises(InputError, match="no weights under key='other'"):
        load_model(tmp_path / "check.pt", activation="relu", key="other")


# --- modules ------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.skip, self.fc = nn.Linear(7, 7), nn.Linear(7, 2)

    def forward(self, x):
        return self.fc(x + torch.relu(self.skip(x)))


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_a_class_or_an_instance(tmp_path, numbers, suffix):
    net = trained(Residual())
    file = saved(net, tmp_path, suffix)
    with pytest.raises(InputError, match="what is done with skip is not clear"):
        load_model(file, activation="relu")
    for module in (Residual, Residual()):
        same(load_model(file, module=module), net, numbers(5, 7))
    with pytest.raises(InputError, match="do not fit module="):
        load_model(file, module=nn.Linear(7, 7))
    with pytest.raises(InputError, match="module= makes a dict"):
        load_model(file, module=dict)
    with pytest.raises(InputError, match="give one of them"):
        load_model(file, module=Residual, activation="relu")


# --- convolutions -------------------------------------------------------------------------------


def images():
    return trained(
        nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, stride=2),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3, groups=2, padding="same", dilation=2),
            nn.PReLU(6),
            nn.GroupNorm(3, 6),
            nn.AvgPool2d(2, 1),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(24, 5),
            nn.Softmax(-1),
        )
    )


LAYERS = [
    {"layer": "0", "padding": 1, "stride": 2},
    "1",
    "relu",
    {"type": "max_pool", "size": 2},
    {"layer": "4", "groups": 2, "padding": "same", "dilation": 2},
    {"layer": "5", "type": "prelu"},
    {"layer": "6", "type": "group_norm", "groups": 3},
    {"type": "avg_pool", "size": 2, "stride": 1},
    {"type": "adaptive_avg_pool", "size": [2, 2]},
    "flatten",
    "10",
    "softmax",
]


# torch's files have no metadata
@pytest.mark.no_such_case(lambda suffix, way: (suffix, way) == ("pt", "metadata"))
@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize("way", ["layers", "json", "metadata"])
def test_images(tmp_path, numbers, suffix, way):
    net = images()
    metadata = {"layers": json.dumps(LAYERS)} if way == "metadata" else {}
    file = saved(net, tmp_path, suffix, **metadata)
    if way == "json":
        file.with_suffix(".json").write_text(json.dumps({"layers": LAYERS}))
    model = load_model(file, layers=LAYERS) if way == "layers" else load_model(file)
    same(model, net, numbers(6, 2, 12, 12), (1, 2, 3), 1e-5)
    same(model, net, numbers(2, 12, 12, 6).transpose(3, 0, 1, 2), (1, 2, 3), 1e-5)
    plan = xpapply.compile(model, (2, 12, 12))
    arr = numbers(3, 2, 12, 12)
    found = apply_along_axis(model, (1, 2, 3), arr)
    np.testing.assert_allclose(plan(arr), found, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model(arr[0]), found[0], rtol=1e-5, atol=1e-6)
    assert xpapply.explain(model, (1, 2, 3), arr).vectorized


@pytest.mark.parametrize("n", [1, 2, 3])
def test_images_without_their_one_channel(tmp_path, numbers, n):
    conv, pool = getattr(nn, f"Conv{n}d"), getattr(nn, f"MaxPool{n}d")
    net = trained(nn.Sequential(conv(1, 3, 2), nn.ReLU(), pool(2), nn.Flatten(), nn.Linear(3, 2)))
    net[4] = nn.Linear(3 * 2**n, 2)
    layers = ["0", "relu", {"type": "max_pool", "size": 2}, "flatten", "4"]
    model = load_model(saved(net, tmp_path, "pt"), layers=layers)
    arr = numbers(4, *(5,) * n)
    want = net(torch.from_numpy(arr)[:, None]).detach().numpy()
    axes = tuple(range(1, n + 1)) if n > 1 else 1
    found = apply_along_axis(model, axes, arr)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_maps_of_features(tmp_path, numbers):
    """The result of a slice has several axes, too."""
    net = trained(nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU()))
    model = load_model(saved(net, tmp_path, "pt"), layers=["0", "relu"])
    arr = numbers(4, 2, 6, 5)
    want = net(torch.from_numpy(arr)).detach().numpy()
    found = apply_along_axis(model, (1, 2, 3), arr)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    with xpapply.options(engine="loop", fallback="silent"):
        slow = apply_along_axis(model, (1, 2, 3), arr)
    np.testing.assert_allclose(slow, want, rtol=1e-5, atol=1e-5)


def test_conv_needs_to_be_told_what_it_does(tmp_path):
    file = saved(images(), tmp_path, "safetensors")
    with pytest.raises(InputError, match="stride, padding and pools are not in the file") as error:
        load_model(file, activation="relu")
    assert "0.weight (4, 2, 3, 3)" in str(error.value)
    assert "net.json" in str(error.value)
    assert "module=" in str(error.value)


# --- what is not a model --------------------------------------------------------------------------


def test_other_files(tmp_path):
    for name, data, match in (
        ("a.pt", b"", "a.pt: the file is empty"),
        (
            "a.txt",
            b"hello",
            r"a.txt: not a file of a model that can be read: it begins with b'hello'",
        ),
        ("a.keras", b"PK\x05\x06" + bytes(18), "not a file of a model"),
        ("a.h5", b"\x89HDF\r\n\x1a\n" + bytes(99), "an HDF5 file, as Keras"),
        ("a.npy", b"\x93NUMPY\x01\x00" + bytes(99), "an array of NumPy"),
        ("a.safetensors", b"hello, hello, hello", "the header should have"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=match):
            load_model(tmp_path / name)
    with pytest.raises(
        InputError, match=rf"{tmp_path} is a folder: .* inside, such as a.keras|a.pt"
    ):
        load_model(tmp_path)
    (tmp_path / "file").mkdir()  # a word of the message
    with pytest.raises(InputError, match=rf"^{tmp_path}/file is a folder: give the file"):
        load_model(tmp_path / "file")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path / "file")
        with pytest.raises(InputError, match=r"^\. is a folder"):
            load_model(".")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nothing.pt")
    np.savez(tmp_path / "a.npz", a=np.ones(3))
    with pytest.raises(InputError, match="a zip file that torch did not write"):
        load_model(tmp_path / "a.npz")


def test_the_content_tells_not_the_name(tmp_path, numbers):
    net = mlp(lambda n: nn.ReLU())
    file = saved(net, tmp_path, "safetensors").rename(tmp_path / "net.pt")
    same(load_model(file, activation="relu"), net, numbers(5, 7))


def test_quantised_weights_are_refused(tmp_path):
    state = {"0.weight": torch.ones(3, 7, dtype=torch.int8), "0.bias": torch.ones(3)}
    with pytest.raises(InputError, match="weights of dtype int8"):
        load_model(saved(state, tmp_path, "safetensors"))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    import sys

    file = saved(mlp(lambda n: nn.ReLU()), tmp_path, "safetensors")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(UnsupportedError, match="pip install safetensors"):
        load_model(file, activation="relu")
