"""The examples run as a reader runs them, and show what they claim."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


def test_the_demo(tmp_path):
    pytest.importorskip("click")
    pytest.importorskip("nibabel")
    image = pytest.importorskip("PIL.Image")
    picture = tmp_path / "new folder" / "denoised.png"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "xpapply", "demo", "--small", "-o", picture],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr
    with image.open(picture) as png:
        pixels = np.asarray(png.convert("L"))
    assert pixels.shape[1] > 1000
    assert pixels.std() > 30

    db = {
        name: float(x) for name, x in re.findall(r"^(\S.*?) {2,}.* ([\d.]+) dB$", ran.stdout, re.M)
    }
    noisy, gaussian, linear, network = db.values()
    assert noisy + 4 < gaussian < linear + 0.1
    assert network > max(gaussian, linear) + 0.8

    differences = [float(x) for x in re.findall(r"max diff (\S+)", ran.stdout)]
    assert max(differences) < 2e-3  # of values up to 1162, in float32


def test_trained_network_is_plain_and_small():
    stored = ROOT / "xpapply" / "cli" / "denoiser.npz"
    assert stored.stat().st_size < 100_000
    with np.load(stored, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype == np.float32 for name in arrays)


def test_apply_networks(tmp_path):
    """What the page of networks says of its two: accuracies, equal answers, pictures."""
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    command = [sys.executable, ROOT / "examples" / "apply_networks.py"]
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        pass
    else:
        command += ["--out", tmp_path]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    said = [float(x) for x in re.findall(r"accuracy ([\d.]+)%", ran.stdout)]
    page = (ROOT / "docs" / "networks.md").read_text()
    claimed = [float(x) for x in re.findall(r"([\d.]+) % of", page)]
    np.testing.assert_allclose(said, claimed, atol=0.3)  # libraries round differently
    assert max(float(x) for x in re.findall(r"max diff (\S+)", ran.stdout)) < 1e-2
    if len(command) > 2:
        assert {p.name for p in tmp_path.iterdir()} == {"digits.png", "spectra.png"}


@pytest.mark.parametrize("name", ["digits.pt", "spectra.pt"])
def test_stored_weights_are_small(name):
    stored = ROOT / "examples" / name
    assert stored.stat().st_size < 30_000
    torch = pytest.importorskip("torch")
    weights = torch.load(stored, weights_only=True)
    assert all(w.dtype == torch.float32 for w in weights.values())
