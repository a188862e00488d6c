"""What xpapply remembers does not keep anything alive, and does not grow with the array."""

import gc
import math
import re
import sys
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest

import xpapply
from xpapply import frontends
from xpapply.functions import cache as cache_module
from xpapply.functions.cache import cache_of


@pytest.mark.parametrize("engine", ["cpu", "torch", "torch.batch"])
def test_models_are_freed(torch, engine):
    """Plans hang on the function weakly."""
    if engine == "cpu":
        pytest.importorskip("llvmlite")
    nn = torch.nn
    net = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    if engine == "torch.batch":
        net.append(nn.Sequential(nn.Unflatten(-1, (1, 4)), nn.Conv1d(1, 2, 3), nn.Flatten(-2)))
    arr = np.ones((5, 8), np.float32)
    with xpapply.options(engine=engine):
        assert xpapply.explain(net, 1, arr).engine == engine
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


# --- one way to forget everything ---------------------------------------------------------


NET = xpapply.MLP([np.linspace(-1, 1, 32).reshape(4, 8)])


def deviation(v):
    return np.sort(v) - v.mean()


def used():
    """Something of every kind that is remembered."""
    x = np.random.default_rng(0).standard_normal((2000, 8))
    center = xpapply.elementwise(lambda a, b: a - b)
    with xpapply.options(block_bytes=1 << 12):
        return [
            xpapply.apply_along_axis(NET, 1, x),
            xpapply.apply_along_axis(deviation, 1, x),
            xpapply.special.softmax(x, 1),
            center(x, 1.0),
        ]


def test_a_cleared_cache_is_empty(torch):
    first = used()
    assert any(r.cache_info().currsize for r in cache_module._results)
    assert any(cache_module._dicts.values())
    assert cache_module._by_code
    assert cache_module._by_object
    cache_module.clear()
    assert not any(r.cache_info().currsize for r in cache_module._results)
    assert not any(cache_module._dicts.values())
    assert not cache_module._by_code
    assert not cache_module._by_object
    for y, again in zip(first, used(), strict=True):  # until it is compiled by another engine
        np.testing.assert_allclose(y, again, rtol=1e-14)


FACTS = {
    "arrays": "names of types and dtypes",
    "runtime.generators": "functions of NumPy's that draw",
    "runtime.registry": "where modules are",
    "runtime.ziggurats": "how they draw",
    "runtime.c_library": "which C library this process has, its steps and numbers",
    "labelled": "which libraries types are of",
    "storage": "which types are arrays in files",
    "functions.identity": "versions of packages",
    "functions.purity": "whose files are the user's",
    "backends.choice": "backends and their names",
    "backends.__init__": "whether llvmlite is installed",
    "backends.torch": "whether CuPy is installed",
    "backends.cpu.host": "this machine",
    "backends.cupy.compiler": "devices",
    "batching": "functions of libraries",
    "codegen.llvm.trigonometry": "digits of pi",
    "codegen.llvm.typed": "tables of sines and exponentials",
    "codegen.llvm.powers": "a table of logarithms",
    "codegen.llvm.unrolled.kernel": "instructions of ops",
    "ir.slices.accumulators": "accumulators, which are compared by identity",
    "slice_functions.formulas": "functions of slices, whose own dicts are cleared",
    "loop.arguments": "so many arguments",
    "library.of_order": "how this NumPy searches",
    "library.of_math": "how this Python adds squares",
    "library.of_random": "how NumPy's legacy methods draw, and how it seeds",
    "library.of_sets": "how this Python orders sets",
    "library.solvers.of_products": "in which order this NumPy's BLAS adds",
    "library.solvers.odes.implicit": "in which order SciPy's solves complex equations",
    "special": "dtypes",
    "testing": "functions of libraries",
    "patching.along_axis": "how long NumPy's own loop takes",
    "planning.python.unplanned": "what is on disk",
    "planning.adapters": "which classes of arrays are in memory, without labels",
    "backends.cpu.crew": "where helpers begin",
    "backends.cpu.externals": "where functions of libraries are",
    "frontends.python": "attributes, and NumPy's exponents",
    "frontends.torch": "the table of ops, and devices",
}
"""What `functools.cache` and `lru_cache` may keep: it stays true."""


def test_what_is_compiled_is_kept_in_one_way():
    package = Path(xpapply.__file__).parent
    for path in package.rglob("*.py"):
        name = ".".join(path.relative_to(package).with_suffix("").parts)
        if name == "functions.cache" or name.startswith(tuple(FACTS)):
            continue
        assert not re.search(r"lru_cache\(|functools\.cache\b", path.read_text()), name
