"""What `explain` says before a call is what runs: every idiom, every size, every library."""

import numpy as np
import pytest

import xpapply
from benchmarks.idioms import IDIOMS
from conftest import library
from xpapply.frontends.python.run import in_blocks
from xpapply.limits import LIMITS
from xpapply.loop import reference

SIZES = (1, LIMITS.few_slices, LIMITS.few_slices + 1)
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
    apply = reference.apply
    monkeypatch.setattr(reference, "apply", lambda *args: (seen.append("loop"), apply(*args))[1])
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
    monkeypatch.setattr(LIMITS, "plan_worth", seconds)
    for size in SIZES:
        f, axis, arr, args, kwargs = idiom.make(np.random.default_rng(0), size)
        for _ in range(2):
            said, did = said_and_ran(ran, f, axis, arr, args, kwargs)
            assert said == did, f"{np.size(arr) // np.shape(arr)[axis]} slices"


@pytest.mark.parametrize("slices", [50, 100])
def test_too_many_paths(slices, ran, monkeypatch):
    """What explain tried in vain the next call does not try again, though paths are known now."""
    growing = in_blocks.InBlocks._growing
    # one further path takes as long as may be
    monkeypatch.setattr(
        in_blocks.InBlocks, "_growing", lambda self, f, *_: growing(self, f, 0.0, None)
    )
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    f = lambda v: v.sum() if v[0] > 0.9 else v.max() if v[0] > 0.8 else v.min()  # noqa: E731
    arr = np.random.default_rng(0).random((50, 5)) / 2
    arr[:2, 0] = 0.95, 0.85
    with xpapply.options(fallback="silent"):
        assert "too many ways" in xpapply.explain(f, -1, arr).reasons[0]
        ran.clear()
        xpapply.apply_along_axis(f, -1, np.resize(arr, (slices, 5)))
        assert bool(ran) == (slices == 50), "more slices are tried"
    assert said_and_ran(ran, f, -1, arr) == (True, True)


def test_slices_that_are_tried_may_tell_that_the_loop_is_quicker(ran, monkeypatch):
    def tried(self, rows, f, most):
        self.seconds = 0.0

    monkeypatch.setattr(in_blocks.InBlocks, "gives_up", tried)
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    monkeypatch.setattr(LIMITS, "blocks_run", 1e-6)
    arr = np.random.default_rng(0).random((50, 5))
    assert said_and_ran(ran, lambda v: v.sum() if v[0] > 0.5 else v.max(), -1, arr) == (
        False,
        False,
    )


@pytest.mark.parametrize(
    ("lib", "name"),
    [("numpy", name) for name in FUNCTIONS]
    + [("torch", name) for name in FUNCTIONS]
    + [("jax", "mean"), ("jax", "unknown")]
    + [pytest.param("cupy", name, marks=pytest.mark.gpu) for name in FUNCTIONS],
)
def test_libraries(lib, name, ran):
    made = library(lib)
    f = FUNCTIONS[name]
    new = {"torch": "from_numpy"}.get(lib, "asarray")
    if lib == "jax":
        made = made.numpy
    for size in SIZES:
        arr = getattr(made, new)(np.random.default_rng(0).random((size, 5)))
        for _ in range(2):
            said, did = said_and_ran(ran, f, -1, arr)
            assert said == did, f"{size} slices"
