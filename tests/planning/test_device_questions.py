"""How often a device is asked for numbers: each answer waits for all work before it."""

from unittest import mock

import numpy as np
import pytest
import standin_cupy
from calls_of import outcome

import xpapply
from xpapply.limits import LIMITS

READS = ("__bool__", "__int__", "__float__", "__index__", "get", "item")
RNG = np.random.default_rng(0)
WHOLE = RNG.integers(0, 5, (900, 24))
ALIKE = WHOLE.copy()
ALIKE[:, 3] = 4
REAL = RNG.standard_normal((900, 24))


@pytest.fixture
def cp():
    with standin_cupy.installed() as module:
        yield module


@pytest.fixture
def reads(monkeypatch):
    """The ways in which numbers were brought from the device."""
    found = []

    def noted(name, function):
        def call(self, *args):
            found.append(name)
            return function(self, *args)

        return call

    def item(self):
        found.append("item")
        return self._array.item()

    for name in READS[:-1]:
        monkeypatch.setattr(
            standin_cupy.ndarray, name, noted(name, getattr(standin_cupy.ndarray, name))
        )
    monkeypatch.setattr(standin_cupy.ndarray, "item", item, raising=False)
    return found


def same(got, want):
    if isinstance(want, Exception):
        assert (type(got), got.args) == (type(want), want.args)
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got.get(), want.get(), rtol=1e-12)


FUNCTIONS = {
    "bincount": (lambda cp, v: cp.bincount(v, minlength=5), WHOLE, 1),
    "bincount, as long as it is": (lambda cp, v: cp.bincount(v), ALIKE, 2),
    "branch": (lambda cp, v: v.sum() if v[0] > 0 else v.max(), REAL, 1),
    "one side": (lambda cp, v: v.sum() if v[0] > -100 else v.max(), REAL, 1),
    "no branch": (lambda cp, v: cp.sort(v) - v.mean(), REAL, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_question_for_each_decision(cp, reads, name):
    f, x, questions = FUNCTIONS[name]
    there = cp.asarray(x)
    g = lambda v: f(cp, v)  # noqa: E731
    want = cp.apply_along_axis(g, 1, there)
    same(xpapply.apply_along_axis(g, 1, there), want)
    assert xpapply.explain(g, 1, there).vectorized
    del reads[:]
    got = xpapply.apply_along_axis(g, 1, there)
    assert len(reads) == questions, reads
    same(got, want)


def test_many_answers_stay_on_the_device(cp, reads, monkeypatch):
    """Where copying them takes longer than asking whether they are all the same."""
    monkeypatch.setattr(LIMITS, "few_answers", 100)
    f = lambda v: cp.bincount(v)  # noqa: E731
    for x in (ALIKE, WHOLE):
        there = cp.asarray(x)
        want = outcome(lambda: cp.apply_along_axis(f, 1, there))  # noqa: B023
        del reads[:]
        same(outcome(lambda: xpapply.apply_along_axis(f, 1, there)), want)  # noqa: B023
        assert reads


# --- the first slice, whose result says what all others are -----------------------------------


def raises(cp, v):
    if v[0] < -2:
        raise ValueError(f"{float(v[0])}")
    return v.sum()


def catches(cp, v):
    try:
        return raises(cp, v)
    except ValueError:
        return v[0]


KINDS = {
    "dtype": lambda cp, v: v.sum() if v[0] > 0 else (v * 10).astype(int).max(),
    "shape": lambda cp, v: v.sum() if v[0] > 0 else v[:3],
    "both": lambda cp, v: v[:1] if v[0] > 0 else (v[:3] > 0),
    "raises": raises,
    "catches": catches,
    "alike": lambda cp, v: v.sum() if v[0] > 0 else v.max(),
}
STARTS = {
    "known": lambda x: x,
    "other": lambda x: np.concatenate([x[x[:, 0] < 0][:1], x]),
    "off": lambda x: np.concatenate([x[:1] - 10, x]),
    "off later": lambda x: np.concatenate([x, x[:1] - 10]),
}


def arrays(start):
    """Arrays whose slices go one way, then one whose first slice may go another."""
    one_way = REAL[REAL[:, 0] > 0]
    other = STARTS[start](REAL)
    return one_way, one_way, other, other, REAL, one_way


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", STARTS)
def test_the_first_slice_on_a_path_that_is_not_known(cp, kind, start):
    f = lambda v: KINDS[kind](cp, v)  # noqa: E731
    for x in map(cp.asarray, arrays(start)):
        want = outcome(lambda: cp.apply_along_axis(f, 1, x))  # noqa: B023
        with xpapply.options(fallback="silent"):
            same(outcome(lambda: xpapply.apply_along_axis(f, 1, x)), want)  # noqa: B023


@pytest.mark.parametrize("kind", ["raises", "catches", "alike", "dtype", "count"])
@pytest.mark.parametrize("start", STARTS)
def test_the_first_slice_of_tensors(torch, kind, start):
    kinds = KINDS | {
        "dtype": lambda _, v: v.sum() if v[0] > 0 else (v > 0).any(),
        "count": lambda _, v: v[: 1 + int((v[:2] > 0).sum() > 5)],
    }
    f = lambda v: kinds[kind](None, v)  # noqa: E731
    for x in map(torch.from_numpy, arrays(start)):
        with xpapply.options(engine="loop"):
            want = outcome(lambda: xpapply.apply_along_axis(f, 1, x))  # noqa: B023
        with xpapply.options(fallback="silent"):
            got = outcome(lambda: xpapply.apply_along_axis(f, 1, x))  # noqa: B023
        if isinstance(want, Exception):
            same(got, want)
        else:
            torch.testing.assert_close(got, want)


COUNTS = {
    "weights": lambda cp, v: cp.bincount((v * 4).astype(int) % 5, v, 5),
    "of one number": lambda cp, v: cp.bincount(cp.arange(24) % 3, v),
    "as many as there are": lambda cp, v: cp.bincount(cp.argsort(v) % 7),
    "more bins": lambda cp, v: cp.bincount((v > 0).astype(cp.uint8), minlength=9)[:4],
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts(cp, name):
    f = lambda v: COUNTS[name](cp, v)  # noqa: E731
    x = cp.asarray(abs(REAL))
    want = cp.apply_along_axis(f, 1, x)
    with mock.patch("xpapply.loop.reference.apply", side_effect=AssertionError("the loop ran")):
        same(xpapply.apply_along_axis(f, 1, x), want)


FORMULAS = {
    "a formula": lambda v: v - v.mean(),
    "a branch": lambda v: v.sum() if v[0] > 0 else v.max(),
    "only the loop": lambda v: v.sum() if v[int(abs(v[0]))] > 0 else v.max(),
}
ELSEWHERE = {
    **{name: lambda x, f=f: xpapply.apply_along_axis(f, -1, x) for name, f in FORMULAS.items()},
    "several axes": lambda x: xpapply.apply_along_axis(lambda p: p.max() - p.mean(), (0, 1), x),
    "another argument": lambda x: xpapply.apply_along_axis(lambda v, w: (v * w).sum(), -1, x, x[0]),
    "vectorize": lambda x: xpapply.vectorize(lambda a, b: (a - b).max(), signature="(n),(n)->()")(
        x, x[0]
    ),
    "vectorize of numbers": lambda x: xpapply.vectorize(lambda a, b: a * b + 1.0)(x, 2.0),
    "an explained plan": lambda x: xpapply.explain(lambda v: v - v.max(), -1, x)(x),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_functions_run_where_their_array_is(cp, name):
    """CuPy's functions find no arrays of a device that is not the current one."""
    run = ELSEWHERE[name]
    x = REAL.reshape(30, 30, 24) if name == "several axes" else REAL
    want = run(cp.asarray(x))
    with cp.cuda.Device(1):
        there = cp.asarray(x)
    for _ in range(3):
        got = run(there)
        assert got.device.id == 1
        np.testing.assert_array_equal(got.get(), want.get())
    assert cp.cuda.runtime.getDevice() == 0


def test_blocks_run_where_they_are(cp):
    """In a thread of dask, where no device was chosen."""
    from xpapply.planning.chunked.block_results import Smaller
    from xpapply.planning.chunked.on_block import OnBlock

    f = lambda v: v - v.mean()  # noqa: E731
    with cp.cuda.Device(1):
        there = cp.asarray(REAL)
    how = ((24,), np.dtype("f8")), None, {}
    run = OnBlock(Smaller(f), 1, ((), {}), *how)
    assert run(None, there[:0]).device.id == 1
    got = run(None, there)
    assert got.device.id == 1
    np.testing.assert_allclose(got.get(), REAL - REAL.mean(-1, keepdims=True))


def test_patched_functions_run_where_their_array_is(cp):
    from xpapply.patching import along_axis

    with cp.cuda.Device(1):
        there = cp.asarray(REAL)
    given = (FORMULAS["a branch"], -1, there)
    for _ in range(3):
        got = along_axis.along_cupy(cp.apply_along_axis, given, {})
        assert got.device.id == 1
        np.testing.assert_allclose(got.get(), np.apply_along_axis(given[0], -1, REAL))
