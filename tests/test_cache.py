"""What xpapply remembers does not keep anything alive, and does not grow with the array."""

import gc
import math
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import xpapply
from xpapply import cache as cache_module
from xpapply import frontends
from xpapply.cache import cache_of


@pytest.mark.parametrize("kind", ["fused", "batch"])
def test_models_are_freed(torch, kind):
    """Plans hang on the function weakly."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    if kind == "batch":
        net.append(nn.Sequential(nn.Unflatten(-1, (1, 4)), nn.Conv1d(1, 2, 3), nn.Flatten(-2)))
    arr = np.ones((5, 8), np.float32)
    assert xpapply.explain(net, 1, arr).engine == ("torch" if kind == "fused" else "torch.batch")
    xpapply.apply_along_axis(net, 1, arr)
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("threads", [1, 2])
def test_extra_memory_is_a_fixed_block(threads):
    """Output plus blocks, whatever the number of slices."""
    rng = np.random.default_rng(0)
    net = xpapply.MLP([rng.standard_normal((32, 16), np.float32), np.ones((1, 32), np.float32)])
    extra = []
    for slices in (200_000, 800_000):
        arr = np.ones((slices, 16), np.float32)
        with xpapply.options(engine="numpy", threads=threads):
            xpapply.apply_along_axis(net, 1, arr[:1000])
            tracemalloc.start()
            out = xpapply.apply_along_axis(net, 1, arr)
            extra.append(tracemalloc.get_traced_memory()[1] - out.nbytes)
            tracemalloc.stop()
    assert max(extra) < 12 << 20  # the hidden layer alone would take 102 MB
    if threads == 1:  # of two, a busy machine may have run one after the other the first time
        assert extra[1] < extra[0] * 1.5


@pytest.mark.parametrize("f", [np.linalg.norm, np.argmax, np.median, np.exp, math.fsum, len])
def test_functions_of_libraries_are_remembered(f):
    """They live for ever, though not all of them can be referenced weakly."""
    known, _ = cache_of(f)
    assert cache_of(f)[0] is known


def test_what_outlives_the_module_ends_silently(monkeypatch):
    """When Python ends, the globals of modules are gone before some objects are."""

    class Double:
        def __call__(self, v):
            return v * 2

    f = Double()
    cache_of(f)
    frontends.find(f)
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    for module, name in (
        (cache_module, "_by_object"),
        (cache_module, "_forget"),
        (frontends, "_known"),
    ):
        monkeypatch.setattr(module, name, None)
    del f, Double
    gc.collect()
    assert not said
