"""Python functions on every library: what the loop gives, without the loop."""

import gc
import pickle
import subprocess
import sys
import tracemalloc
import warnings
import weakref

import numpy as np
import pytest
from calls_of import assert_at_once, calls_of
from in_threads import in_threads

import xpapply
from conftest import Library, library
from xpapply.limits import LIMITS
from xpapply.planning.python import python_functions

RNG = np.random.default_rng(5)
ARR = RNG.standard_normal((40, 7, 3))
WEIGHTS = RNG.standard_normal((4, 7))


@pytest.fixture(autouse=True)
def _always_plan(monkeypatch):
    monkeypatch.setattr(LIMITS, "few_slices", 0)
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)


def softmax(v):
    xp = xpapply.get_array_module(v)
    e = xp.exp(v - xp.max(v))
    return e / xp.sum(e)


def logsumexp(v):
    xp = xpapply.get_array_module(v)
    top = xp.max(v)
    return xp.log(xp.sum(xp.exp(v - top))) + top


def clipped(v):
    xp = xpapply.get_array_module(v)
    return xp.minimum(xp.maximum(v, xp.zeros_like(v)), xp.ones_like(v))


def signed(v):
    if v[0] > 0:
        return v * 2
    return -v


def nearest(v):
    return v[v.argmax() - 1] + v.sum()


def positive(v):
    return v[v > 0].sum()


GENERAL = {f.__name__: f for f in (softmax, logsumexp)} | {
    "difference": lambda v: v[1:] - v[:-1],
    "reversed": lambda v: v[::-1] * 2.0,
    "scalar": lambda v: v[2] * v[3],
}
"""Functions of what every library has."""
METHODS = {
    "minmax": lambda v: (v - v.min()) / (v.max() - v.min()),
    "signed": signed,
    "positive": positive,
}
"""Functions of methods and decisions."""


def compare(place, f, axis=1, arr=ARR):
    x = place.array(arr)
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, axis, x)
    with calls_of(f) as calls:
        got = xpapply.apply_along_axis(f, axis, x)
    plan = xpapply.explain(f, axis, x)
    assert plan.vectorized == (calls.number < plan.slices), calls.number
    assert type(got) is type(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(place.numpy(got), place.numpy(want), rtol=2e-5, atol=1e-6)
    again = xpapply.apply_along_axis(f, axis, x)
    np.testing.assert_array_equal(place.numpy(again), place.numpy(got))
    return plan


@pytest.mark.no_such_case(  # torch has no negative steps; JAX computes in 32 bits
    lambda place, name, dtype: (
        (place.name in ("torch", "cuda") and name == "reversed")
        or (place.name == "jax" and dtype == "float64")
    )
)
@pytest.mark.every_case
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", GENERAL)
def test_every_library(place, name, axis, dtype):
    arr = ARR.swapaxes(1, axis).astype(dtype)
    plan = compare(place, GENERAL[name], axis, arr)
    assert plan.vectorized, plan


# no decisions there, or no methods
@pytest.mark.no_such_case(lambda place: place.name == "array_api_strict")
@pytest.mark.every_case
@pytest.mark.parametrize("name", METHODS)
def test_methods_and_decisions(place, name):
    arr = ARR.astype(np.float32) if place.name == "jax" else ARR
    plan = compare(place, METHODS[name], 1, arr)
    assert plan.vectorized, plan


def test_a_decision_needs_the_loop_there():
    place = Library("array_api_strict", "")
    library(place.name)
    arr = ARR[:5].astype(np.float32)
    with xpapply.options(fallback="silent"):
        plan = compare(place, signed, 1, arr)
    assert not plan.vectorized
    assert "decides by the data (test_functions.py:" in plan.reasons[0]


def test_torch_functions(torch):
    x = torch.from_numpy(ARR)
    fs = {
        "sort": lambda v: torch.sort(v).values[:3],
        "fft": lambda v: torch.fft.rfft(v).abs(),
        "unbiased": lambda v: v.std(),
        "several": lambda v: [v[0], v.mean()],
        "where": lambda v: torch.where(v > 0, v, v * 0.1),
    }
    for f in fs.values():
        assert compare(Library("torch", ""), f).vectorized
    with torch.enable_grad():
        y = x.clone().requires_grad_()
        plan = xpapply.explain(fs["where"], 1, y)
        assert "autograd" in plan.reasons[0]


def test_networks_inside(torch):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    plain = xpapply.MLP([WEIGHTS[:3]])

    def predict(v):
        with torch.no_grad():
            return net(torch.from_numpy(v).float().unsqueeze(0)).squeeze(0).numpy()

    for f in (
        predict,
        lambda v: net(torch.as_tensor(v, dtype=torch.float32)).detach().numpy(),
        lambda v: net(torch.tensor(v).float()).argmax().item(),
        lambda v: plain(v).sum(),
    ):
        want = np.apply_along_axis(f, 1, ARR)
        with calls_of(f) as calls:
            got = xpapply.apply_along_axis(f, 1, ARR)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        assert calls.number < ARR.size // 7
        assert xpapply.explain(f, 1, ARR).vectorized
    before = xpapply.apply_along_axis(predict, 1, ARR)
    with torch.no_grad():
        net[0].weight.zero_()
    after = xpapply.apply_along_axis(predict, 1, ARR)
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(after, np.apply_along_axis(predict, 1, ARR), rtol=1e-5)


def test_dropout_inside_is_an_error_with_its_reason(torch):
    net = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Dropout())
    f = lambda v: net(torch.from_numpy(v).float()).detach().numpy()  # noqa: E731
    plan = xpapply.explain(f, 1, ARR)
    assert not plan.vectorized
    assert ".eval()" in plan.reasons[0]


def test_the_first_slice_of_each_array_fixes_the_dtype():
    def f(v):
        return v.sum() if v[0] > 0 else 0

    a = np.abs(RNG.standard_normal((30, 4)))
    b = a.copy()
    b[0, 0] = -1
    for arr in (a, b, a, b):
        assert_at_once(f, 1, arr)


@pytest.mark.parametrize("rare", [1, 5, 300])
def test_what_a_rare_slice_changes_is_seen_by_the_others(rare):
    arr = np.abs(RNG.standard_normal((3000, 4)))
    arr[7 : 7 + rare, 0] = -1

    def make():
        state = [0.0]

        def f(v):
            if v[0] < 0:
                state[0] += 1
            return v.sum() + state[0]

        return f

    want = np.apply_along_axis(make(), 1, arr)
    with xpapply.options(fallback="silent"):
        np.testing.assert_array_equal(xpapply.apply_along_axis(make(), 1, arr), want)


def test_slices_that_raise_are_left_to_f():
    arr = RNG.integers(0, 9, (500, 5))

    def f(v):
        try:
            return np.array([10 // int(v[0])] * 2)
        except ZeroDivisionError:
            return np.zeros(2, int)

    assert_at_once(f, 1, arr)
    assert xpapply.explain(f, 1, arr).vectorized


def test_a_path_that_is_found_late_sees_what_was_there_before_a_write():
    def f(v):
        out = v.copy()
        out[0] = 1
        before = out[1]
        out[1] = 50
        if v[3] > 1.5:
            return before * 2
        return out.sum()

    usual = RNG.standard_normal((60, 5)).clip(-1, 1)
    other = RNG.standard_normal((60, 5))
    other[7:20, 3] = 3
    for arr in (usual, other, other):
        assert_at_once(f, 1, arr)


def test_a_selection_is_that_of_when_it_was_made():
    def f(v):
        mask = np.zeros(len(v), bool)
        mask[0] = True
        some = v[mask]
        mask[1] = True
        return len(some) * 10 + mask.sum() if v[2] > 0 else mask.sum()

    for arr in (-np.abs(ARR[..., 0]), ARR[..., 0]):
        assert_at_once(f, 1, arr)


def test_the_dtype_of_what_an_exception_gives():
    def f(v):
        try:
            return np.linalg.inv(v.reshape(2, 2))[0, 0]
        except np.linalg.LinAlgError:
            return -1

    regular = RNG.standard_normal((40, 4))
    singular = regular.copy()
    singular[0] = 1
    for arr in (regular, singular, regular):
        assert_at_once(f, 1, arr)
    pytest.importorskip("llvmlite")
    with xpapply.options(engine="cpu"):
        for arr in (regular, singular, regular):
            got, want = xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-9)


def test_too_many_paths_end_in_the_loop():
    arr = RNG.standard_normal((3000, 12))

    def f(v):
        total = 0.0
        for x in v:
            if x > 0:
                total += x
        return total

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LIMITS, "paths", 20)
        patch.setattr(LIMITS, "paths", 20)
        with pytest.warns(xpapply.FallbackWarning, match="too many ways"):
            got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, arr))


def test_extra_memory_does_not_grow_with_the_slices():
    f = lambda v: (v - v.mean()) / v.std()  # noqa: E731
    arr = np.ones((200_000, 16)) + np.arange(16)
    with xpapply.options(threads=1):
        xpapply.apply_along_axis(f, 1, arr[:100])
        tracemalloc.start()
        xpapply.apply_along_axis(f, 1, arr)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < arr.nbytes + (16 << 20)


def test_functions_and_what_they_close_over_are_forgotten():
    class Big:
        pass

    def run():
        big = Big()
        big.array = np.ones(7)
        f = lambda v: v * big.array  # noqa: E731
        xpapply.apply_along_axis(f, 1, ARR)
        return weakref.ref(f)

    gone = run()
    gc.collect()
    assert gone() is None


def test_a_lambda_that_is_made_again_is_planned_once():
    table = np.arange(7.0)
    seen = []

    def run():
        f = lambda v: v * table  # noqa: E731
        xpapply.apply_along_axis(f, 1, ARR)
        seen.append(next(iter(python_functions.cache_of(f)[0].traced.values())))

    run()
    run()
    assert seen[0] is seen[1]


def test_threads_leave_the_warning_filters_alone():
    before = list(warnings.filters)

    def work(k):
        for j in range(5):
            f = eval(f"lambda v: v * {k} + {j}")
            xpapply.apply_along_axis(f, 1, ARR)

    in_threads(work, range(4))
    assert list(warnings.filters) == before


FORK = """
import os, numpy as np, xpapply
arr = np.ones((200_000, 16))
f = lambda v: (v - v.mean()) / (v.std() + 1)
with xpapply.options(threads=2):
    xpapply.apply_along_axis(f, 1, arr)
    pid = os.fork()
    xpapply.apply_along_axis(f, 1, arr)
    if pid:
        print(os.waitpid(pid, 0)[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_threads_after_a_fork():
    ran = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.strip() == "0"


def test_tensors_that_change_are_noticed(torch):
    weights = torch.ones(7, dtype=torch.float64)
    f = lambda v: (torch.from_numpy(v) * weights).numpy()  # noqa: E731
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, ARR), ARR)
    weights.data.fill_(3)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, ARR), ARR * 3)
    weights.numpy()[:] = 2
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, ARR), ARR * 2)


def test_plans_of_functions_can_be_sent():
    plan = xpapply.compile(softmax, (7,), "float64")
    plan = pickle.loads(pickle.dumps(plan))
    np.testing.assert_allclose(plan(ARR, 1), np.apply_along_axis(softmax, 1, ARR), rtol=1e-12)


def test_explain_in_five_lines():
    f = lambda v: (v - v.mean()) / v.std()  # noqa: E731
    text = str(xpapply.explain(f, 1, ARR))
    assert len(text.splitlines()) <= 5
    assert "floor" in text
    with xpapply.options(engine="numpy"):
        assert "numpy.mean" in str(xpapply.explain(f, 1, ARR))


@pytest.mark.gpu
def test_constants_on_the_device(cupy):
    weights, mean = cupy.asarray(WEIGHTS), cupy.asarray(ARR.mean((0, 2)))
    there = cupy.asarray(ARR)

    def project(v):
        return weights @ (v - mean)

    def nearest_row(v):
        return cupy.abs(weights - v).sum(axis=1).argmin()

    def looked_up(v):
        return mean[v.argmax()]

    for f in (project, nearest_row, looked_up, weights.dot):
        want = cupy.apply_along_axis(f, 1, there)
        got = xpapply.apply_along_axis(f, 1, there)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got.get(), want.get(), rtol=1e-10)
        assert xpapply.explain(f, 1, there).vectorized, f
    weights *= 2
    got = xpapply.apply_along_axis(project, 1, there)
    np.testing.assert_allclose(got.get(), cupy.apply_along_axis(project, 1, there).get(), 1e-10)
