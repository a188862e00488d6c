"""What `explain` says before a call is what runs: every idiom, every size, every library."""

import numpy as np
import pytest

import xpapply
from benchmarks.idioms import IDIOMS
from conftest import library
from xpapply import loop
from xpapply.planning import python_functions

SIZES = (1, python_functions._FEW, python_functions._FEW + 1)
FUNCTIONS = {
    "mean": lambda v: v.mean(),
    "mask": lambda v: v[v > 0.5].sum(),
    "branch": lambda v: v.sum() if v[0] > 0.5 else v.max(),
    "number": lambda v: float(v[0]) + 1,
    "unknown": lambda v: np.float64(sum(hash(str(x)) % 2 for x in v)),
}


@pytest.fixture
def ran(monkeypatch):
    """The names of the ways that have run; at most one of each call is right."""
    seen = []
    apply = loop.apply
    monkeypatch.setattr(loop, "apply", lambda *args: (seen.append("loop"), apply(*args))[1])
    return seen


def said_and_ran(ran, f, axis, arr, args=(), kwargs=None):
    """Whether `explain` says that no loop runs, and whether none did."""
    kwargs = kwargs or {}
    with xpapply.options(fallback="silent"):
        said = xpapply.explain(f, axis, arr, *args, **kwargs).vectorized
        ran.clear()
        xpapply.apply_along_axis(f, axis, arr, *args, **kwargs)
    return said, not ran


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["slow f", "quick f"])
@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda i: i.name)
def test_idioms(idiom, seconds, ran, monkeypatch):
    """Around the number of slices from which blocks pay, at the first call and at the next."""
    for name in idiom.needs:
        library(name)
    monkeypatch.setattr(python_functions, "_PLANNING", seconds)
    for size in SIZES:
        f, axis, arr, args, kwargs = idiom.make(np.random.default_rng(0), size)
        for _ in range(2):
            said, did = said_and_ran(ran, f, axis, arr, args, kwargs)
            assert said == did, f"{np.size(arr) // np.shape(arr)[axis]} slices"


@pytest.mark.parametrize(
    ("lib", "name"),
    [("numpy", name) for name in FUNCTIONS]
    + [("torch", name) for name in FUNCTIONS]
    + [("dask", name) for name in FUNCTIONS]
    + [("jax", "mean"), ("jax", "unknown")]
    + [pytest.param("cupy", name, marks=pytest.mark.gpu) for name in FUNCTIONS],
)
def test_libraries(lib, name, ran):
    made = library(lib)
    f = FUNCTIONS[name]
    new = {"torch": "from_numpy", "dask": "from_array"}.get(lib, "asarray")
    if lib in ("dask", "jax"):
        made = __import__(f"{lib}.{'array' if lib == 'dask' else 'numpy'}", fromlist=["array"])
    for size in SIZES:
        arr = getattr(made, new)(np.random.default_rng(0).random((size, 5)))
        for _ in range(2):
            said, did = said_and_ran(ran, f, -1, arr)
            assert said == did, f"{size} slices"
