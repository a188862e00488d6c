"""Files that run code: refused with the reason, and read where they are trusted."""

import pickle

import numpy as np
import pytest

import xpapply
from xpapply import InputError, UnsupportedError, apply_along_axis, load_model

torch = pytest.importorskip("torch")
nn = torch.nn


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))


def largest(v):
    return v.max()


@pytest.fixture
def arr():
    return np.random.default_rng(0).random((6, 4), np.float32)


def check(path, net, arr, why):
    with pytest.raises(UnsupportedError, match=why) as error:
        load_model(path)
    assert path.name in str(error.value)
    assert "trust=True" in str(error.value)
    assert ".save(path)" in str(error.value)
    found = load_model(path, trust=True)
    want = net(torch.from_numpy(arr)).detach().numpy()
    np.testing.assert_allclose(apply_along_axis(found, -1, arr), want, rtol=1e-5, atol=1e-6)


def test_a_whole_module(tmp_path, arr):
    net = Whole().eval()
    torch.save(net, tmp_path / "whole.pt")
    check(tmp_path / "whole.pt", net, arr, "holds more than weights: .*Whole")


def test_a_module_in_training_is_set_to_eval(tmp_path, arr):
    net = nn.Sequential(nn.Linear(4, 2), nn.Dropout())
    torch.save(net, tmp_path / "whole.pt")
    found = load_model(tmp_path / "whole.pt", trust=True)
    assert not found.training
    apply_along_axis(found, -1, arr)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript(tmp_path, arr):
    net = Whole().eval()
    torch.jit.trace(net, torch.zeros(1, 4)).save(tmp_path / "net.pt")
    check(tmp_path / "net.pt", net, arr, "file of TorchScript was not opened")


def test_a_program_of_export(tmp_path, arr):
    net = Whole().eval()
    program = torch.export.export(net, (torch.zeros(4),))
    torch.export.save(program, tmp_path / "net.pt2")
    check(tmp_path / "net.pt2", net, arr, "program of torch.export was not opened")


def test_a_pickle(tmp_path):
    path = tmp_path / "f.pkl"
    path.write_bytes(pickle.dumps(largest))
    with pytest.raises(UnsupportedError, match="a pickle is a program"):
        load_model(path)
    assert load_model(path, trust=True) is largest


def test_joblib_and_estimators(tmp_path):
    joblib = pytest.importorskip("joblib")
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x = rng.random((50, 4))
    est = linear.Ridge().fit(x, x @ rng.random(4))
    for compress in (0, 3, ("gzip", 3), ("bz2", 3), ("lzma", 3), ("xz", 3)):
        path = tmp_path / "ridge.joblib"
        joblib.dump(est, path, compress=compress)
        with pytest.raises(UnsupportedError, match="was not opened"):
            load_model(path)
        found = load_model(path, trust=True)
        np.testing.assert_allclose(apply_along_axis(found, -1, x), est.predict(x))


def test_functions_by_value(tmp_path):
    cloudpickle = pytest.importorskip("cloudpickle")
    path = tmp_path / "f.pkl"
    path.write_bytes(cloudpickle.dumps(lambda v: v.max() - v.min()))
    arr = np.arange(12.0).reshape(3, 4)
    found = load_model(path, trust=True)
    np.testing.assert_array_equal(apply_along_axis(found, -1, arr), [3, 3, 3])


def test_what_is_no_function(tmp_path):
    (tmp_path / "x.pkl").write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(InputError, match="an object of class list, which is neither a function"):
        load_model(tmp_path / "x.pkl", trust=True)


def test_the_old_format_of_torch(tmp_path, arr):
    net = Whole().eval()
    torch.save(net.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(UnsupportedError, match=r"format before torch 1.6"):
        load_model(tmp_path / "old.pt")
    found = load_model(tmp_path / "old.pt", module=Whole, trust=True)
    want = net(torch.from_numpy(arr)).detach().numpy()
    np.testing.assert_allclose(apply_along_axis(found, -1, arr), want, rtol=1e-5, atol=1e-6)


def test_trust_changes_nothing_for_weights(tmp_path, arr):
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).eval()
    torch.save(net.state_dict(), tmp_path / "net.pt")
    found = load_model(tmp_path / "net.pt", activation="relu", trust=True)
    assert type(found).__name__ == "Model"
    xpapply.compile(net, (4,)).save(tmp_path / "plan")
    assert type(load_model(tmp_path / "plan", trust=True)) is xpapply.Plan
