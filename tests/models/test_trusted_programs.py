"""TorchScript and programs of torch.export: damaged ones, and slices that they do not take."""

import io
import pickle
import random
import warnings
import zipfile

import numpy as np
import pytest

import xpapply
from xpapply import InputError, apply_along_axis, load_model

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))


def exported(net, shape, path, **how):
    with open(path, "wb") as file:
        torch.export.save(torch.export.export(net, (torch.zeros(shape),), **how), file)
    return path


def written(kind, folder):
    torch.manual_seed(0)
    net = Net().eval()
    path = folder / f"net.{kind}"
    if kind == "pt2":
        exported(net, (4,), path)
    elif kind == "whole":
        torch.save(net, path)
    elif kind == "traced":
        torch.jit.trace(net, torch.zeros(1, 4)).save(path)
    else:
        torch.jit.script(net).save(path)
    return path, net


class Pipe(io.BytesIO):
    def seek(self, *_):
        raise OSError("a pipe")

    tell = seek


KINDS = ["traced", "scripted", "pt2", "whole"]
ARR = np.random.default_rng(0).random((6, 4), np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bit_of_the_weights(tmp_path, kind):
    path, _ = written(kind, tmp_path)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        weights = next(i for i in archive.infolist() if i.filename.endswith(("/0", "weight_0")))
        at = data.index(archive.read(weights))
    data[at + 3] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(
        InputError, match=rf"net.*record '{weights.filename}' is damaged: its check"
    ):
        load_model(path, trust=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bit_anywhere(tmp_path, kind):
    path, net = written(kind, tmp_path)
    data = path.read_bytes()
    rng = random.Random(0)
    want = net(torch.from_numpy(ARR)).detach().numpy()
    loaded, errors = 0, []
    for _ in range(150):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:
            found = load_model(path, trust=True)
        except (InputError, xpapply.UnsupportedError) as error:
            errors.append(str(error))
            continue
        loaded += 1  # in what fills the gaps between records
        np.testing.assert_allclose(apply_along_axis(found, -1, ARR), want, rtol=1e-5, atol=1e-6)
    assert loaded < 150
    assert all(e.startswith(path.name) for e in errors)


@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_that_says_that_records_are_empty(tmp_path, kind):
    """Their checksum fits then, and torch would take what is not there for weights."""
    path, _ = written(kind, tmp_path)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith(("/0", "weight_0")))
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode()))
    data[entry + 16 : entry + 28] = bytes(12)
    path.write_bytes(data)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    with pytest.raises(InputError, match=rf"the directory says of record '{name}' what is not so"):
        load_model(path, trust=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeks", [True, False])
def test_files_that_were_zipped_again(tmp_path, kind, seeks):
    """By Python, which has sizes before the records, or behind them where it cannot seek."""
    path, net = written(kind, tmp_path)
    out = io.BytesIO() if seeks else Pipe()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(out, "w") as other:
        for info in archive.infolist():
            other.writestr(info.filename, archive.read(info))
    path.write_bytes(out.getvalue())
    want = net(torch.from_numpy(ARR)).detach().numpy()
    found = load_model(path, trust=True)
    np.testing.assert_allclose(apply_along_axis(found, -1, ARR), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_what_torch_cannot_read(tmp_path, kind):
    """Records with checksums that fit, and something else in them."""
    path, _ = written(kind, tmp_path)
    for end in ("data.pkl", "model.json", ".py"):
        out = io.BytesIO()
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(out, "w") as other:
            for info in archive.infolist():
                text = archive.read(info)
                other.writestr(info.filename, text[:-20] if info.filename.endswith(end) else text)
        if out.getvalue() != path.read_bytes():
            (tmp_path / "odd").write_bytes(out.getvalue())
        with zipfile.ZipFile(path) as archive:
            if not any(n.endswith(end) for n in archive.namelist()):
                continue
        with pytest.raises((InputError, xpapply.UnsupportedError), match=r"odd: .*(torch|pickle)"):
            load_model(tmp_path / "odd", trust=True)


def test_pickles_that_cannot_be_read(tmp_path):
    path = tmp_path / "f.pkl"
    path.write_bytes(pickle.dumps(np.linalg.norm)[:-4])
    with pytest.raises(InputError, match=r"f.pkl: the pickle cannot be read: .*or it is damaged"):
        load_model(path, trust=True)
    path.write_bytes(pickle.dumps(np.linalg.norm).replace(b"norm", b"nurm"))
    with pytest.raises(InputError, match=r"nurm.*have to be there under the names") as error:
        load_model(path, trust=True)
    assert isinstance(error.value.__cause__, AttributeError)


def test_the_name_of_a_file_does_not_matter(tmp_path, caplog, capfd):
    path, net = written("pt2", tmp_path)
    caplog.clear()
    found = load_model(path.rename(tmp_path / "net.model"), trust=True)
    want = net(torch.from_numpy(ARR)).detach().numpy()
    np.testing.assert_allclose(apply_along_axis(found, -1, ARR), want, rtol=1e-5, atol=1e-6)
    assert [r for r in caplog.records if r.levelname != "DEBUG"] == []
    assert "Unable to load" not in capfd.readouterr().err
    assert "apply    ExportedProgram to" in str(xpapply.explain(found, -1, ARR))


@pytest.mark.parametrize("one", [False, True])
def test_batches_of_a_fixed_size(tmp_path, one):
    found = load_model(exported(Net().eval(), (8, 4), tmp_path / "net.pt2"), trust=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            InputError,
            match=r"net.pt2: its input 'x' \(\[8,4\]\) is a batch of 8: export it with an open",
        ):
            found(torch.zeros(4)) if one else apply_along_axis(found, -1, ARR)


def test_slices_that_a_program_takes(tmp_path):
    net = Net().eval()
    two = np.random.default_rng(0).random((3, 8, 4), np.float32)
    want = net(torch.from_numpy(two)).detach().numpy()
    batch = torch.export.Dim("batch", min=1, max=64)
    for name, shape, how, axes in (
        ("slice", (4,), {}, -1),
        ("one", (1, 4), {}, -1),
        ("open", (8, 4), {"dynamic_shapes": ({0: batch},)}, -1),
        ("image", (8, 4), {}, (1, 2)),
    ):
        found = load_model(exported(net, shape, tmp_path / name, **how), trust=True)
        np.testing.assert_allclose(
            apply_along_axis(found, axes, two), want, rtol=1e-5, atol=1e-6, err_msg=name
        )
    with pytest.raises(InputError, match=r"image: its input 'x' .* slices of shape \(5, 4\)"):
        apply_along_axis(found, (1, 2), two[:, :5])
    named = load_model(tmp_path / "slice", trust=True)
    with pytest.raises(InputError, match=r"does not take slices of shape \(8,\). Is `axis` right"):
        apply_along_axis(named, 1, two)


def test_programs_stay_what_they_are(tmp_path):
    """Gradients, and copies."""
    found = load_model(exported(Net().eval(), (4,), tmp_path / "net.pt2"), trust=True)
    x = torch.from_numpy(ARR).requires_grad_()
    apply_along_axis(found, -1, x).sum().backward()
    assert x.grad is not None
    assert found.state_dict().keys() == {"fc.weight", "fc.bias"}
