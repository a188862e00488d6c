"""Functions with loops over elements of CuPy's arrays: one launch gives what CuPy's loop gives."""

import importlib
import warnings

import device_functions
import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import for_gpus

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(0)
DTYPES = "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 bool".split()


def numbers(*shape, dtype="float64", special=True):
    """Numbers of a dtype, some of which are special."""
    x = RNG.standard_normal(shape) * 2
    kind = np.dtype(dtype).kind
    if kind == "f" and special:
        x[RNG.random(shape) < 0.01] = np.nan
        x[RNG.random(shape) < 0.02] = -0.0
        x[RNG.random(shape) < 0.005] = np.inf
        x[RNG.random(shape) < 0.02] = 1e-41
    elif kind != "f":
        x = np.abs(x * 10) if kind == "u" else x * 10
    return x.astype(dtype)


def check(cupy, f, x, axis=-1, *args, compiled=True):
    """Compare with CuPy's own loop: each bit, but for NaN's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xpapply.FallbackWarning)
        got = xpapply.apply_along_axis(f, axis, x, *args)
        said = str(xpapply.explain(f, axis, x, *args))
    assert (" on the GPU, one launch" in said) is compiled, said
    want = cupy.apply_along_axis(f, axis, x, *args)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    a, b = got.get(), want.get()
    assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (f.__name__, a, b)
    if a.dtype.kind == "f":
        real = ~np.isnan(b)
        assert np.array_equal(np.signbit(a)[real], np.signbit(b)[real]), f.__name__


@pytest.mark.parametrize("f", device_functions.FLOATS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats(cupy, f, dtype):
    check(cupy, f, cupy.asarray(numbers(23, 9, dtype=dtype)))


def test_more_memory_is_asked_for_at_once(cupy, monkeypatch):
    """Its arrays become registers: it is compiled once, not once more when a slice has told."""
    texts, ptx = [], for_gpus.ptx
    monkeypatch.setattr(for_gpus, "ptx", lambda text, a: texts.append(text) or ptx(text, a))
    x = cupy.asarray(numbers(5000, 12, special=False))

    def power(v):
        return cupy.abs(cupy.fft.rfft(v)) ** 2

    got = xpapply.apply_along_axis(power, 1, x)
    assert len(texts) == 1
    assert cupy.allclose(got, cupy.abs(cupy.fft.rfft(x, axis=1)) ** 2)


MASKED = [
    lambda v: v[v > 0].sum(),
    lambda v: v[v > -0.5].mean(),
    lambda v: v[abs(v - v.mean()) < 1.5 * v.std() + 1].mean(),
    lambda v: (v[v > 0] * v[v > 0]).sum() + v[v > -99].max(),
]


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("length", [1, 2, 5, 12, 17, 31, 32])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("f", MASKED, ids=range(len(MASKED)))
def test_what_masks_leave(cupy, f, dtype, length, axis):
    """As many as there happen to be, in the order of CuPy's sums of so many."""
    x = numbers(3000, length, dtype=dtype, special=False)
    x[0] = 1.0
    x = cupy.asarray(x if axis else x.T.copy())
    got = xpapply.apply_along_axis(f, axis, x)
    assert "on the GPU, one launch" in str(xpapply.explain(f, axis, x))
    some = x[:60] if axis else cupy.ascontiguousarray(x[:, :60])
    want = cupy.apply_along_axis(f, axis, some)
    assert got.dtype == want.dtype
    assert np.array_equal(got[:60].get(), want.get(), equal_nan=True)


@pytest.mark.parametrize("length", [12, 100])
def test_windows_of_slices(cupy, length):
    """Loops over long slices are not written out, so what is known of short ones is not used."""

    def windows(v):
        found = 0.0
        for k in range(0, len(v) - 5, 3):
            w = v[k : k + 5]
            found = found + w.sum() + w[w > 0].sum() * 2
        return found

    check(cupy, windows, cupy.asarray(numbers(20, length, special=False)))


@pytest.mark.parametrize("f", device_functions.OF_FINITE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_finite_floats(cupy, f, dtype):
    check(cupy, f, cupy.asarray(numbers(13, 7, dtype=dtype, special=False)))


@pytest.mark.parametrize("f", device_functions.INTEGERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", DTYPES[2:-1])
def test_integers(cupy, f, dtype):
    check(cupy, f, cupy.asarray(numbers(13, 7, dtype=dtype)))


def test_truth_values(cupy):
    for f in (device_functions.longest_run, device_functions.added, device_functions.first_above):
        check(cupy, f, cupy.asarray(numbers(11, 6, dtype="bool")))


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_axes_and_strides(cupy, axis):
    x = cupy.asarray(numbers(6, 8, 10))
    for y in (x, x[::2, ::-1], x.transpose(2, 0, 1), cupy.asfortranarray(x), x[:, 1:, 3]):
        if axis < y.ndim:
            check(cupy, device_functions.recurrence, y, axis)
            check(cupy, device_functions.smoothed, y, axis)


def test_a_long_slice(cupy):
    check(cupy, device_functions.recurrence, cupy.asarray(numbers(3, 300)))


def test_the_first_slice_has_the_kernel_of_all(cupy, monkeypatch):
    """What the driver takes seconds for, of long functions, is compiled once."""
    texts, ptx = [], for_gpus.ptx

    def counted(text, architecture):
        texts.append(text)
        return ptx(text, architecture)

    def decayed(v):
        s = 0.0
        for i in range(len(v)):
            s = s * 0.75 + v[i] if v[i] > 0.25 else s * 0.5
        return s

    monkeypatch.setattr(for_gpus, "ptx", counted)
    x = cupy.asarray(numbers(40, 9, special=False))
    check(cupy, decayed, x)
    assert len(set(texts)) == 1


@pytest.mark.parametrize("length", [12, 129, 1000, 9000])
def test_a_long_slice_that_is_fetched(cupy, length):
    """Its sums are by halves, of as many levels as that takes."""
    x = cupy.asarray(numbers(300, length, special=False))

    def spread(v):
        own = v.get()
        s = 0.0
        for k in range(3):
            s += own[k * 4 :].var()
        return cupy.asarray(s + own.sum())

    got = xpapply.apply_along_axis(spread, 1, x)
    said = str(xpapply.explain(spread, 1, x))
    if length > 4000:
        assert "compiled on the host, for a copy of the array: its arrays need more" in said
    else:
        assert " on the GPU, one launch" in said
    assert same_bits(cupy, got, cupy.apply_along_axis(spread, 1, x))


def test_machine_code_of_ptx_is_kept(cupy, tmp_path, monkeypatch):
    """The driver takes seconds for a long kernel: the next process reads a file."""
    compiler = importlib.import_module("xpapply.backends.cupy.compiler")
    ptx = b".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry typed() { ret; }\n\0"
    calls, link = [], compiler._linked

    def counted(*given):
        calls.append(given)
        return link(*given)

    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiler, "_linked", counted)
    for _ in range(2):
        compiler.of_ptx(ptx, "", "typed", 0)
    assert len(calls) == 1
    (path,) = tmp_path.glob("*.cubin")
    path.write_bytes(b"damaged")
    compiler.of_ptx(ptx, "", "typed", 0)
    assert len(calls) == 2


@pytest.mark.parametrize("length", [40, 300, 1500, 5000])
def test_arrays_of_its_own_of_any_length(cupy, length):
    """The last one is more than a thread has: the function runs as it did."""
    x = cupy.asarray(numbers(3, length, special=False))
    f = device_functions.accumulated
    got = xpapply.apply_along_axis(f, 1, x)
    assert same_bits(cupy, got, cupy.apply_along_axis(f, 1, x))
    is_compiled = "on the GPU, one launch" in str(xpapply.explain(f, 1, x))
    assert is_compiled is (length < 5000)


def test_an_argument(cupy):
    check(cupy, device_functions.horner, cupy.asarray(numbers(5, 7)), -1, 0.75)


def test_marked_slices_are_run_by_the_function(cupy):
    """They raise there, or divide by zero: the others were written by the launch."""
    x = cupy.asarray(numbers(40, 5, special=False))
    x[:, 0] = cupy.minimum(x[:, 0], 2.0)
    x[3] = 0.0
    check(cupy, device_functions.collatz, x)
    y = cupy.clip(x, -3, 3)
    check(cupy, device_functions.raises, y)
    y[7, 2] = 5.0
    with pytest.raises(ValueError, match="too large"):
        xpapply.apply_along_axis(device_functions.raises, 1, y)
    z = cupy.full((40, 5), 3.0)
    check(cupy, device_functions.rarely_by_zero, z)
    z[8] = -9.0
    with pytest.raises(ZeroDivisionError):
        xpapply.apply_along_axis(device_functions.rarely_by_zero, 1, z)


def test_dtypes_of_results_are_the_first_slices(cupy):
    x = cupy.asarray(numbers(20, 4, special=False))

    def either(v):
        for y in v:
            if y > 1.5:
                return y
        return 0

    for first in (-1.0, 2.0):
        x[0] = first
        check(cupy, either, x)


def test_what_is_not_compiled_runs_as_before(cupy):
    x = cupy.asarray(numbers(4, 5, special=False))

    def two_names(v):
        s = v[0] * 1
        for y in v[1:]:
            before = s
            s += y
        return before

    assert cupy.array_equal(
        xpapply.apply_along_axis(two_names, 1, x), cupy.apply_along_axis(two_names, 1, x)
    )


UFUNCS = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh "
    "arccosh arctanh cbrt sign sqrt square absolute floor ceil trunc rint negative"
).split()


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_have_the_bits_of_cupys(cupy, name, dtype):
    ufunc = getattr(cupy, name)

    def last(v):
        found = v[0]
        for x in v:
            found = ufunc(x)
        return found

    x = numbers(300_000, 2, dtype=dtype) * 10.0 ** RNG.integers(-3, 3, (300_000, 1))
    x = cupy.asarray(x.astype(dtype))
    got = xpapply.apply_along_axis(last, 1, x)
    assert "on the GPU, one launch" in str(xpapply.explain(last, 1, x))
    assert same_bits(cupy, got, ufunc(x[:, 1]))


def same_bits(cupy, got, want):
    """Whether arrays of floats are the same, but for the bits of NaN."""
    bits = f"int{8 * got.itemsize}"
    same = (got.view(bits) == want.view(bits)) | (cupy.isnan(got) & cupy.isnan(want))
    return got.dtype == want.dtype and bool(same.all())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_two_have_the_bits_of_cupys(cupy, dtype):
    x = cupy.asarray(numbers(300_000, 2, dtype=dtype))
    for name in ("power", "hypot", "arctan2", "copysign", "floor_divide", "remainder"):
        ufunc = getattr(cupy, name)

        def last(v, ufunc=ufunc):
            found = v[0]
            for y in v[1:]:
                found = ufunc(v[0], y)
            return found

        got = xpapply.apply_along_axis(last, 1, x)
        assert "on the GPU, one launch" in str(xpapply.explain(last, 1, x))
        assert same_bits(cupy, got, ufunc(x[:, 0], x[:, 1])), name


def test_on_a_stream(cupy):
    x = cupy.asarray(numbers(1000, 12))
    want = xpapply.apply_along_axis(device_functions.recurrence, 1, x)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        got = xpapply.apply_along_axis(device_functions.recurrence, 1, x)
        stream.synchronize()
    assert cupy.array_equal(got, want, equal_nan=True)


def test_many_slices(cupy):
    """As the same function of NumPy's arrays on the CPU."""
    x = RNG.standard_normal((300_000, 12))
    for f in (device_functions.longest_run, device_functions.recurrence, device_functions.states):
        got = xpapply.apply_along_axis(f, 1, cupy.asarray(x)).get()
        assert np.array_equal(got, xpapply.apply_along_axis(f, 1, x)), f.__name__


def many(cupy, *, dtype="float64", special=False, length=12, count=3000):
    return cupy.asarray(numbers(count, length, dtype=dtype, special=special))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("f", device_functions.WHOLE, ids=lambda f: f.__name__)
def test_whole_arrays(cupy, f, dtype, axis):
    """Sums along both axes are CuPy's, which adds in another order where elements lie apart."""
    x = many(cupy, dtype=dtype)[:, : 9 + axis]
    x = cupy.ascontiguousarray(x if axis else x.T)
    got = xpapply.apply_along_axis(f, axis, x)
    said = str(xpapply.explain(f, axis, x))
    assert "on the GPU, one launch" in said, said
    some = x[:40] if axis else cupy.ascontiguousarray(x[:, :40])
    want = cupy.apply_along_axis(f, axis, some)
    along = -1 if not axis and got.ndim > 1 else 0  # of the slices
    mine = cupy.moveaxis(got, along, 0)[:40]
    want = cupy.moveaxis(want, along, 0)
    assert got.dtype == want.dtype
    assert np.array_equal(mine.get(), want.get(), equal_nan=want.dtype.kind == "f")


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
@pytest.mark.parametrize("f", device_functions.WHOLE_INTEGERS, ids=lambda f: f.__name__)
def test_whole_arrays_of_integers(cupy, f, dtype):
    x = many(cupy, dtype=dtype)
    got = xpapply.apply_along_axis(f, 1, x)
    assert "one compiled function on the GPU" in str(xpapply.explain(f, 1, x))
    want = cupy.apply_along_axis(f, 1, x[:40])
    assert got.dtype == want.dtype
    assert (got[:40] == want).all()


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 16, 17, 31, 32])
def test_sums_of_any_length(cupy, length):
    x = many(cupy, length=length)
    for f in (device_functions.total, device_functions.standardised, device_functions.spread):
        if f is device_functions.standardised and length == 1:
            continue
        for y, axis in ((x, 1), (cupy.ascontiguousarray(x.T), 0)):
            got = xpapply.apply_along_axis(f, axis, y)
            some = y[:30] if axis else y[:, :30]
            want = cupy.apply_along_axis(f, axis, cupy.ascontiguousarray(some))
            mine = got[:30] if axis or got.ndim == 1 else got[:, :30]
            assert np.array_equal(mine.get(), want.get())


def test_nan_and_infinities_in_whole_arrays(cupy):
    x = many(cupy, special=True)
    for f in (
        *(device_functions.total, device_functions.spread, device_functions.in_order),
        *(device_functions.places, device_functions.middle, device_functions.rectified),
        *(device_functions.by_where, device_functions.counted, device_functions.logsumexp),
    ):
        got = xpapply.apply_along_axis(f, 1, x)
        want = cupy.apply_along_axis(f, 1, x[:300])
        assert np.array_equal(got[:300].get(), want.get(), equal_nan=got.dtype.kind == "f"), f


def test_few_or_long_slices_run_as_before(cupy):
    for x in (many(cupy, count=100), many(cupy, length=200)):
        said = str(xpapply.explain(device_functions.standardised, 1, x))
        assert "on the GPU, one launch" not in said
