"""Kernels of slices on a GPU: functions, dtypes, streams, 2**31 elements."""

import numpy as np
import pytest
from in_threads import in_threads
from slice_kernel_cases import ONE_FUNCTION
from slice_ways import (
    Way,
    extent,
    forced,
)

import xpapply
from xpapply import special

CALLS = {
    "logsumexp": (special.formulas.calls["logsumexp"], lambda x: special.logsumexp(x, axis=1)),
    "softmax": (special.formulas.calls["softmax"], lambda x: special.softmax(x, axis=1)),
    "log_softmax": (
        special.formulas.calls["log_softmax"],
        lambda x: special.log_softmax(x, axis=1),
    ),
    "mean_var": (special.formulas.calls["mean_var"], lambda x: special.mean_var(x, axis=1)),
    "standardize": (
        special.formulas.calls["standardize"],
        lambda x: special.standardize(x, axis=1, correction=1, eps=1e-3),
    ),
    "norm": (
        special.formulas.norm_call(special.formulas.norm, "2", 1),
        lambda x: special.norm(x, axis=1),
    ),
    "normalize": (
        special.formulas.norm_call(special.formulas.normalize, "1", 1),
        lambda x: special.normalize(x, 1, axis=1),
    ),
    "argmax_and_max": (
        special.formulas.argmax_and_max,
        lambda x: special.argmax_and_max(x, axis=1),
    ),
    "extent": (extent._call, lambda x: extent(x, axis=1)),
}
"""Calls along axis 1, and what remembers how they run."""

ON_GPU = [
    *(Way(lanes, 128 // lanes, in_registers=True, vector=4) for lanes in (1, 4, 32)),
    *(Way(lanes, max(1, 128 // lanes), vectors=3, vector=2) for lanes in (1, 2, 16, 32, 64, 1024)),
    *(Way(lanes, 1, in_registers=True) for lanes in (128, 256, 512)),
    *(Way(lanes, 16, across=True, in_registers=True) for lanes in (8, 32)),
    *(Way(lanes, 128 // lanes, across=True, vectors=4) for lanes in (1, 4, 32)),
    *(Way(lanes, 2, split=True, blocks=b, vectors=2) for lanes in (32, 128) for b in (2, 7)),
    *(Way(8, 16, split=True, blocks=b, across=True) for b in (2, 7)),
]


def results(y):
    """One or several results as NumPy arrays."""
    return [x.get() if hasattr(x, "get") else x.cpu().numpy() for x in _all(y)]


def _all(y):
    return y if isinstance(y, tuple) else (y,)


def exactly(f, x):
    """What the definition gives, in float64 where that is what numbers are rounded from."""
    with xpapply.options(engine="array_api"), np.errstate(all="ignore"):
        return [np.asarray(y) for y in _all(f(x.astype("d") if x.dtype.kind == "f" else x))]


def near(got, want, eps):
    for y, w in zip(got, want, strict=True):
        scale = np.abs(w[np.isfinite(w)].astype("d")).max(initial=1)
        np.testing.assert_allclose(
            y.astype("d"), w.astype("d"), rtol=64 * eps, atol=64 * eps * scale
        )


def poisoned(cupy):
    """Memory that holds NaN is what the pool hands out next."""
    full = [cupy.full(n, np.nan, "d") for n in (64, 1 << 10, 1 << 13, 1 << 17) for _ in range(3)]
    del full


def slices_like(dtype, shape, seed=0):
    """Numbers; slices with NaN, with infinities, of equal numbers."""
    x = np.random.default_rng(seed).standard_normal(shape) * 5
    if np.dtype(dtype).kind != "f":
        return np.round(x).astype(dtype)
    x = x.astype(dtype)
    x[0, 3], x[1, 5], x[2, 7:9], x[3], x[4] = np.nan, np.inf, np.nan, -np.inf, 1
    return x


@pytest.mark.gpu
@pytest.mark.parametrize("way", ON_GPU, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_special_functions_on_a_gpu(cupy, name, way):
    """Every way to share slices gives what float64 gives, into memory that held NaN."""
    call, f = CALLS[name]
    x = slices_like("float32", (37, 8 * way.lanes + 5 if way.in_registers else 1203))
    for order in ("C", "F") if name == "softmax" else ("F" if way.across else "C"):
        array = cupy.asarray(x, order=order)
        poisoned(cupy)
        call._known.clear()
        try:
            with forced(way):
                near(results(f(array)), exactly(f, x), 1.2e-7)
        finally:
            call._known.clear()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_dtypes_on_a_gpu(cupy, name, dtype):
    f = CALLS[name][1]
    x = slices_like(dtype, (37, 203), seed=1)
    if name == "extent" and dtype == "float16":
        x = np.round(x)  # differences that float16 has
    want = exactly(f, x)
    near(results(f(cupy.asarray(x))), want, 1e-3 if dtype == "float16" else 1.2e-7)


@pytest.mark.gpu
@pytest.mark.parametrize("way", ON_GPU[::3], ids=str)
@pytest.mark.parametrize("name", ["softmax", "mean_var", "argmax_and_max"])
def test_special_functions_of_tensors(cupy, torch, name, way):
    call, f = CALLS[name]
    x = slices_like("float32", (37, 8 * way.lanes + 5 if way.in_registers else 1203))
    tensor = torch.from_numpy(x).cuda()
    call._known.clear()
    try:
        with forced(way):
            y = f(tensor)
            assert all(t.is_cuda for t in _all(y))
            near(results(y), exactly(f, x), 1.2e-7)
    finally:
        call._known.clear()


@pytest.mark.gpu
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4])
def test_arrays_that_start_anywhere(cupy, offset):
    """Vectors are moved where addresses allow that; what is known of a layout fits all of them."""
    x = slices_like("float32", (33, 256))
    memory = cupy.zeros(x.size + 8, "f")
    array = memory[offset : offset + x.size].reshape(x.shape)
    array[...] = cupy.asarray(x)
    out = cupy.full(x.size + 8, 7, "f")
    target = out[3 - offset % 4 :][: x.size].reshape(x.shape)
    for name in ("softmax", "logsumexp", "normalize"):
        f = CALLS[name][1]
        near(results(f(array)), exactly(f, x), 1.2e-7)
    soft = xpapply.elementwise(lambda v: v * 2 + 1)
    soft(array, out=target)
    np.testing.assert_array_equal(target.get(), x * 2 + 1)
    assert (out.get() == 7).sum() >= 8


@pytest.mark.gpu
def test_streams_and_threads_on_a_gpu(cupy):
    """Threads with a stream each share kernels and what is known, and nothing else."""
    x = slices_like("float32", (64, 5000))
    long = np.random.default_rng(2).standard_normal((2, 1 << 20)).astype("f")
    failures = []

    def work(seed):
        try:
            mine, mine_long = x + np.float32(seed), long * np.float32(seed + 1)
            wants = [exactly(f, mine) for _, f in CALLS.values()]
            want_long = exactly(CALLS["logsumexp"][1], mine_long)
            with cupy.cuda.Stream(non_blocking=True) as stream:
                array, many = cupy.asarray(mine), cupy.asarray(mine_long)
                for _ in range(5):
                    got = [f(array) for _, f in CALLS.values()]
                    got_long = CALLS["logsumexp"][1](many)
                stream.synchronize()
                for y, want in zip(got, wants, strict=True):
                    near(results(y), want, 1e-6)
                near(results(got_long), want_long, 1e-6)
        except BaseException as error:
            failures.append(error)

    in_threads(work, range(4))
    assert not failures


@pytest.mark.gpu
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", [n for n in ONE_FUNCTION if n != "weighted"])  # NumPy's weights
def test_python_functions_in_one_kernel(cupy, name, axis):
    """`apply_along_axis` on CuPy runs a lifted function of whole slices as the loop would."""
    f = ONE_FUNCTION[name]
    x = np.random.default_rng(3).standard_normal((40, 50, 60))
    array = cupy.asarray(x)
    plan = xpapply.explain(f, axis, array)
    assert plan.engine == "cupy"
    if name == "standardized":  # a sum alone has a kernel of its own
        assert any("one generated kernel" in k for k in plan.kernels)
    poisoned(cupy)
    got = xpapply.apply_along_axis(f, axis, array)
    np.testing.assert_allclose(got.get(), np.apply_along_axis(f, axis, x), rtol=1e-10, atol=1e-10)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, (1 << 31) + 5), (3, (1 << 30) + 1)])
def test_more_than_2_to_the_31_elements(cupy, shape):
    """Places that 32 bits do not hold."""
    x = cupy.zeros(shape, "u1")
    x[-1, -2], x[0, 1] = 9, 7
    where, top = special.argmax_and_max(x, axis=1)
    best = np.zeros(shape[0], int)
    best[0], best[-1] = 1, shape[1] - 2
    np.testing.assert_array_equal(where.get(), best)
    assert top.get().tolist() == [9] if shape[0] == 1 else [7, 0, 9]
    norm = special.norm(x, 1, axis=1).get()
    assert norm.tolist() == ([16.0] if shape[0] == 1 else [7.0, 0.0, 9.0])
