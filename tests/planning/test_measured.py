"""Networks with convolutions: what runs them faster is measured on some of the slices."""

import numpy as np
import pytest

import xpapply
from xpapply import cache
from xpapply.planning import measured

torch = pytest.importorskip("torch")
nn = torch.nn

SLICES = 600
"""Enough for a sample of 64."""


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    """And nothing is known of networks of this structure."""
    from xpapply.backends import numpy

    cache.clear()
    monkeypatch.setattr(numpy, "_SAMPLE", 64)
    monkeypatch.setattr(numpy, "_SAMPLE_BLOCKS", 0)
    yield
    cache.clear()


@pytest.fixture
def net():
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 2)]
    return nn.Sequential(*layers).eval().requires_grad_(False)


@pytest.fixture
def times(monkeypatch):
    """Seconds that a sample takes in each way, and the shapes of samples."""
    found = {"numpy": 1e-3, "torch": 2e-3, "asked": []}

    def seconds(calls, x, axis):
        want = calls[1](x, axis)
        np.testing.assert_allclose(calls[0](x, axis), want, rtol=1e-4, atol=1e-5)
        found["asked"].append((x.shape, axis))
        return [found["numpy"], found["torch"]]

    monkeypatch.setattr(measured, "_seconds", seconds)
    return found


def images(n=SLICES, dtype="f"):
    return np.random.default_rng(0).standard_normal((n, 1, 8, 8)).astype(dtype)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_faster_runs_and_it_is_said(net, times, order):
    x = np.asarray(images(), order=order)
    want = net(torch.from_numpy(np.ascontiguousarray(x))).numpy()
    p = xpapply.explain(net, (1, 2, 3), x)
    assert p.engine == "numpy"
    said = "31.2 us per slice, numpy 15.6, measured on 64 slices; options(engine='torch.batch')"
    assert said in p.reasons[-1]
    assert p.reasons[-1].startswith("torch.batch (the module itself")
    assert p.expected == pytest.approx(SLICES * 1e-3 / 64)
    assert "9.38 ms expected" in str(p)
    got = xpapply.apply_along_axis(net, (1, 2, 3), x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert len(times["asked"]) == 1


def test_the_other_one_is_faster(net, times):
    times["numpy"] = 1.9e-3  # by less than times are off
    p = xpapply.explain(net, (1, 2, 3), images())
    assert p.engine == "torch.batch"
    assert "29.7 us per slice, torch.batch 31.2, measured on 64 slices" in p.reasons[-1]
    assert p.expected == pytest.approx(SLICES * 2e-3 / 64)


def test_once_for_a_structure(net, times):
    """Weights that change and arrays of other shapes are nothing new."""
    xpapply.apply_along_axis(net, (1, 2, 3), images())
    with torch.no_grad():
        net[0].weight += 1
    xpapply.apply_along_axis(net, (1, 2, 3), images(2 * SLICES))
    assert len(times["asked"]) == 1
    with xpapply.options(threads=1):
        xpapply.apply_along_axis(net, (1, 2, 3), images())
    assert len(times["asked"]) == 2


def test_few_slices_are_not_measured(net, times):
    p = xpapply.explain(net, (1, 2, 3), images(100))
    assert p.engine == "torch.batch"
    assert "there are too few slices to measure which are faster" in p.reasons[-1]
    assert not times["asked"]


def test_what_is_asked_for_is_not_measured(net, times):
    for engine in ("numpy", "torch.batch"):
        with xpapply.options(engine=engine):
            assert xpapply.explain(net, (1, 2, 3), images()).engine == engine
    assert not times["asked"]


def test_tensors_are_torchs(net, times):
    p = xpapply.explain(net, (1, 2, 3), torch.from_numpy(images()))
    assert p.engine == "torch.batch"
    assert "only the definition, one array operation per node, can run it" in p.reasons[-1]
    assert not times["asked"]


def test_times_are_taken_by_turns():
    asked = []
    found = measured._seconds(
        [lambda x, a: asked.append("a"), lambda x, a: asked.append("b")], 0, 0
    )
    assert asked == ["a", "b"] * 3
    assert all(0 < s < 1 for s in found)
