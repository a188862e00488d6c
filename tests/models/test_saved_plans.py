"""Plans in files: the same results, by NumPy alone."""

import os
import subprocess
import sys

import numpy as np
import pytest

import xpapply
from xpapply import InputError, UnsupportedError, load_model


def net(dtype=np.float32):
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(s).astype(dtype) for s in ((5, 4), (3, 5))]
    return xpapply.MLP(weights, [np.ones(5, dtype), None], "gelu", "softmax")


@pytest.fixture
def again(tmp_path):
    def through(plan):
        plan.save(tmp_path / "plan.xpapply")
        return load_model(tmp_path / "plan.xpapply")

    return through


FUNCTIONS = {
    "a standard deviation": lambda v: v.std(),
    "several ops": lambda v: np.where(v > 0, np.exp(-v), v * 2).sum() / (1 + np.abs(v).max()),
    "argmax": lambda v: np.argmax(v),
    "indices": lambda v: v[::-1][1] + v[-1],
    "clip": lambda v: np.clip(v, -0.5, np.inf),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_networks(again, dtype):
    arr = (np.random.default_rng(1).random((6, 7, 4)) * 9).astype(dtype)
    plan = xpapply.compile(net(), (4,), dtype)
    found = again(plan)
    assert type(found) is xpapply.Plan
    assert found.graph == plan.graph
    np.testing.assert_array_equal(found(arr), plan(arr))
    np.testing.assert_array_equal(xpapply.apply_along_axis(found, -1, arr), plan(arr))
    moved = np.moveaxis(arr, -1, 0)
    np.testing.assert_array_equal(xpapply.apply_along_axis(found, 0, moved), plan(moved, 0))
    assert found.name == "MLP"


@pytest.mark.parametrize("what", FUNCTIONS)
def test_functions(again, what):
    f = FUNCTIONS[what]
    plan = xpapply.compile(f, (8,), "float64")
    arr = np.random.default_rng(1).standard_normal((9, 8))
    np.testing.assert_array_equal(again(plan)(arr), plan(arr))
    np.testing.assert_allclose(again(plan)(arr), np.apply_along_axis(f, -1, arr), rtol=1e-12)


def test_several_arrays(again):
    f = xpapply.vectorize(lambda a, w: ((a * w).sum(), a - w), signature="(n),(n)->(),(n)")
    plan = xpapply.compile(f, ((3,), (3,)), "float64")
    a, w = np.arange(12.0).reshape(4, 3), np.array([1.0, 5.0, 2.0])
    found = again(plan)
    assert found.signature == plan.signature
    for x, y in zip(found(a, w), plan(a, w), strict=True):
        np.testing.assert_array_equal(x, y)


def test_images(again):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    conv = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU("tanh"), nn.MaxPool2d(2)
    )
    conv = conv.append(nn.Flatten()).append(nn.Linear(64, 3)).eval()
    arr = np.random.default_rng(0).random((5, 1, 8, 8), np.float32)
    plan = xpapply.compile(conv, (1, 8, 8))
    found = again(plan)
    want = conv(torch.from_numpy(arr)).detach().numpy()
    np.testing.assert_allclose(found(arr, (1, 2, 3)), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        xpapply.apply_along_axis(found, (1, 2, 3), arr), want, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(found(torch.from_numpy(arr)).numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_networks_of_16_bits(again, dtype):
    torch = pytest.importorskip("torch")
    own = torch.nn.Linear(4, 3).to(getattr(torch, dtype)).eval()
    arr = np.random.default_rng(0).random((5, 4), np.float32)
    plan = xpapply.compile(own, (4,))
    np.testing.assert_array_equal(again(plan)(arr), plan(arr))
    tensors = torch.from_numpy(arr)
    assert torch.equal(again(plan)(tensors), plan(tensors))


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, -0.0, 1e-320])
def test_numbers_that_json_does_not_have(again, number):
    plan = xpapply.compile(lambda v: np.where(v > 1, number, v), (3,), "float64")
    arr = np.array([[0.0, 2.0, 1.0]])
    np.testing.assert_array_equal(again(plan)(arr), plan(arr))
    assert np.signbit(again(plan)(arr)).tolist() == np.signbit(plan(arr)).tolist()


def test_plans_of_explain(again):
    arr = np.random.default_rng(1).random((6, 4), np.float32)
    plan = xpapply.explain(net(), -1, arr)
    np.testing.assert_allclose(again(plan)(arr), plan(arr, -1), rtol=1e-6)


def test_slices_of_another_kind_are_refused(again):
    found = again(xpapply.compile(net(), (4,), "float32"))
    with pytest.raises(InputError, match=r"for slices float32\[4\]: found float64\[4\].*astype"):
        xpapply.apply_along_axis(found, -1, np.zeros((3, 4)))
    with pytest.raises(InputError, match=r"found float32\[5\]"):
        xpapply.apply_along_axis(found, -1, np.zeros((3, 5), np.float32))


def test_plans_without_a_graph_say_what_to_do(tmp_path):
    plan = xpapply.explain(lambda v: hash(v.max()), -1, np.zeros((1000, 8)))
    with pytest.raises(UnsupportedError, match=r"has no graph to save.*xpapply.compile"):
        plan.save(tmp_path / "plan")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "plan.xpapply"
    plan = xpapply.compile(net(), (4,))
    plan.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            xpapply.compile(net(np.float64), (4,)).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    plan.save(str(path))
    assert path.read_bytes() == before


def test_what_is_given_beside_a_plan_is_refused(tmp_path):
    xpapply.compile(net(), (4,)).save(tmp_path / "plan")
    with pytest.raises(InputError, match=r"a saved plan, which says itself what it computes: le"):
        load_model(tmp_path / "plan", activation="relu")


def test_files_of_a_later_version(tmp_path):
    path = tmp_path / "plan"
    xpapply.compile(net(), (4,)).save(path)
    data = bytearray(path.read_bytes())
    data[8] = 2
    path.write_bytes(data)
    with pytest.raises(InputError, match="it has version 2, this xpapply reads version 1"):
        load_model(path)


def test_every_bit_of_a_file_matters(tmp_path):
    path = tmp_path / "plan"
    plan = xpapply.compile(xpapply.MLP([np.ones((2, 3), "f")]), (3,))
    plan.save(path)
    data = path.read_bytes()
    header = 24 + int.from_bytes(data[16:24], "little")
    start = header + -header % 64
    matters = [*range(header), *range(start, start + 24)]
    for at in matters:
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        path.write_bytes(changed)
        with pytest.raises(InputError):
            load_model(path)


def test_where_there_is_no_torch(tmp_path):
    """A fresh process, in which torch cannot be imported."""
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    nn = torch.nn
    own = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).eval()
    image = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)).eval()
    xpapply.compile(own, (4,)).save(tmp_path / "own.xpapply")
    xpapply.compile(image, (1, 6, 6)).save(tmp_path / "image.xpapply")
    safetensors.save_file(own.state_dict(), tmp_path / "own.safetensors")
    torch.save(own.state_dict(), tmp_path / "own.pt")
    arr = np.random.default_rng(0).random((7, 4), np.float32)
    images = np.random.default_rng(0).random((3, 1, 6, 6), np.float32)
    np.save(tmp_path / "arr.npy", arr)
    np.save(tmp_path / "images.npy", images)
    code = f"""
import sys
sys.modules["torch"] = None
import numpy as np, xpapply
from pathlib import Path
here = Path({str(tmp_path)!r})
arr, images = np.load(here / "arr.npy"), np.load(here / "images.npy")
plan = xpapply.load_model(here / "own.xpapply")
net = xpapply.load_model(here / "own.safetensors", activation="relu")
image = xpapply.load_model(here / "image.xpapply")
np.save(here / "a.npy", xpapply.apply_along_axis(plan, -1, arr))
np.save(here / "b.npy", xpapply.apply_along_axis(net, -1, arr))
np.save(here / "c.npy", image(images))
try:
    xpapply.load_model(here / "own.pt", activation="relu")
except xpapply.UnsupportedError as error:
    assert "save_file" in str(error) and "compile" in str(error), error
else:
    raise SystemExit("it loaded")
assert sys.modules["torch"] is None
"""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    want = own(torch.from_numpy(arr)).detach().numpy()
    for name in "ab":
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), want, rtol=1e-5, atol=1e-6)
    want = image(torch.from_numpy(images)).detach().numpy()
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), want, rtol=1e-5, atol=1e-6)
