"""Functions of CuPy's slices that compute on the host, ``x.get()``: one launch does all of it."""

import contextlib
import shutil
import subprocess
import warnings
from unittest import mock

import numpy as np
import pytest
import standin_cupy
from device_on_host import OnHost
from on_standin import Evaluated, evaluated_on_standin, made

import xpapply
from xpapply.backends.cpu import for_gpus, host
from xpapply.codegen.llvm.typed import device, device_kernel
from xpapply.errors import TraceError
from xpapply.functions import advice
from xpapply.limits import LIMITS

optimize = pytest.importorskip("scipy.optimize")
integrate = pytest.importorskip("scipy.integrate")
pytestmark = pytest.mark.skipif(host.why_not() is not None, reason=str(host.why_not()))

TIMES = np.linspace(0.0, 3.0, 16)
OFFSETS = np.array([0.5, -1.5])


def decay(t, a, b):
    return a * np.exp(-b * t)


def decays(count, seed=0):
    rng = np.random.default_rng(seed)
    a, b = 1 + rng.random((count, 1)), 0.5 + rng.random((count, 1))
    return decay(TIMES, a, b) + 0.01 * rng.standard_normal((count, 16))


def device_of(cupy):
    """The functions, which name the library that is in force."""

    def fit(v):
        return cupy.asarray(optimize.curve_fit(decay, TIMES, v.get(), p0=(1.0, 1.0))[0])

    def rate(v):
        return optimize.curve_fit(decay, TIMES, cupy.asnumpy(v), p0=(1.0, 1.0))[0][1]

    def fit_or_gap(v):
        try:
            found, _ = optimize.curve_fit(decay, TIMES, v.get(), p0=(1.0, 1.0))
        except (RuntimeError, ValueError):
            return cupy.asarray(np.full(2, np.nan))
        return cupy.asarray(found)

    def within(v):
        data = v.get()
        found = optimize.least_squares(lambda p: p[0] * np.exp(-p[1] * TIMES) - data, [1.0, 1.0])
        return cupy.array([found.x[0], found.x[1], found.cost])

    def least(v):
        data = v.get()

        def misfit(p):
            return np.sum((p[0] * np.exp(-p[1] * TIMES) - data) ** 2)

        return cupy.asarray(optimize.minimize(misfit, [1.0, 1.0], method="Nelder-Mead").x)

    def state(v):
        k = v.get()
        found = integrate.solve_ivp(lambda t, y: [-k[0] * y[0]], (0.0, 1.0), [1.0])
        return found.y[0, -1]

    def area(v):
        return integrate.quad(lambda s: np.exp(-s * s * float(v[0])), 0.0, 1.0)[0]

    def runs(v):
        n, most = 0, 0
        for x in v.get():
            n = n + 1 if x > 0.5 else 0
            most = max(most, n)
        return most

    def cleaned(v):
        w = v.get()
        w[w < 0.2] = 0.0
        w[0] += 1.0
        return cupy.asarray(w)

    def scaled(v):
        w = v.get()
        return cupy.asarray((w - w.mean()) / (w.max() - w.min()) + OFFSETS[0])

    def ordered(v):
        return cupy.asarray(np.sort(v.get())[:3])

    def middle(v):
        return float(np.median(v.get()))

    def of_parts(v):
        return v[1].item() + v[2:5].get().sum() + v.shape[0]

    def listed(v):
        kept = [x for x in v.get() if x > 0.3]
        return len(kept)

    def at_once(v):
        w = v.get()
        return cupy.asarray(np.array([w[0], w[-1], w @ w]))

    return dict(locals())


NAMES = (
    "fit rate fit_or_gap within least state area runs cleaned scaled ordered middle of_parts "
    "listed at_once"
).split()


@contextlib.contextmanager
def off_by_a_bit():
    """Exponentials of the device that have other last bits, more than there are."""
    real = Evaluated.run

    def run(self, arrays, outs, batch, seconds, originals, short=True):
        marks = real(self, arrays, outs, batch, seconds, originals)
        for out in outs:
            out._array[...] = out._array + 1
        return marks

    with mock.patch.object(Evaluated, "run", run):
        yield


def values(result):
    return np.asarray(standin_cupy.unwrap(result))


@pytest.mark.parametrize("name", NAMES)
def test_as_in_the_loop_and_in_one_launch(name):
    x = decays(5)
    with evaluated_on_standin() as cupy:
        f, y = device_of(cupy)[name], standin_cupy.ndarray(x)
        with xpapply.options(engine="loop"):
            want = values(xpapply.apply_along_axis(f, 1, y))
        got = xpapply.apply_along_axis(f, 1, y)
        assert type(got) is standin_cupy.ndarray
        assert values(got).dtype == want.dtype
        close = 1e-9 * np.max(np.abs(want))
        np.testing.assert_allclose(values(got), want, rtol=1e-9, atol=close)
        assert "one launch" in str(xpapply.explain(f, 1, y))


def test_the_first_axis_and_arrays_of_several():
    x = decays(6).reshape(2, 3, 16)
    with evaluated_on_standin() as cupy:
        f = device_of(cupy)["scaled"]
        for axis, a in ((2, x), (0, np.moveaxis(x, 2, 0)), (1, np.moveaxis(x, 2, 1).copy())):
            y = standin_cupy.ndarray(a)
            with xpapply.options(engine="loop"):
                want = values(xpapply.apply_along_axis(f, axis, y))
            np.testing.assert_array_equal(values(xpapply.apply_along_axis(f, axis, y)), want)


def test_what_a_copy_is_compared_with_is_read_anew():
    """An array of NumPy's that a function reads may have changed."""
    offset = np.zeros(3)
    x = np.arange(12.0).reshape(4, 3)
    with evaluated_on_standin() as cupy:

        def moved(v):
            return cupy.asarray(v.get() + offset)

        y = standin_cupy.ndarray(x)
        np.testing.assert_array_equal(values(xpapply.apply_along_axis(moved, 1, y)), x)
        offset[1] = 2.0
        np.testing.assert_array_equal(values(xpapply.apply_along_axis(moved, 1, y)), x + offset)


def logs(cupy):
    return lambda v: cupy.asarray(np.log(v.get()))


@pytest.mark.parametrize("worth", [0.0, None])
def test_warnings_are_those_of_the_host(worth):
    """Where NumPy would warn the function itself says so; the host's code has done the others."""
    x = np.array([[1.0, 2.0], [3.0, 0.0], [np.nan, 1.0], [4.0, np.inf], [5.0, 6.0]])
    limits = {} if worth is None else {"typed_worth": worth}
    with (
        evaluated_on_standin() as cupy,
        LIMITS.set(**limits),
        warnings.catch_warnings(record=True) as said,
        np.errstate(divide="warn"),
    ):
        warnings.simplefilter("always")
        got = values(xpapply.apply_along_axis(logs(cupy), 1, standin_cupy.ndarray(x)))
    assert [str(w.message) for w in said if w.category is RuntimeWarning] == [
        "divide by zero encountered in log"
    ]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.log(x))


def test_an_exception_is_that_of_the_first_slice_that_raises():
    x = decays(4)
    x[2, 3] = np.nan
    with evaluated_on_standin() as cupy:
        f = device_of(cupy)["fit"]
        with pytest.raises(ValueError, match="infs or NaNs") as caught:
            xpapply.apply_along_axis(f, 1, standin_cupy.ndarray(x))
    assert "arr[2, :]" in "".join(caught.value.__notes__)


def test_gaps_are_left_to_code_of_the_host(monkeypatch):
    """A volume may have many gaps: the function itself runs for none of them."""
    x = decays(40)
    x[5:35] = np.nan
    calls = []
    with evaluated_on_standin() as cupy, LIMITS.set(typed_worth=0.0):
        inner = device_of(cupy)["fit_or_gap"]
        xpapply.apply_along_axis(inner, 1, standin_cupy.ndarray(x))
        want = values(xpapply.apply_along_axis(inner, 1, standin_cupy.ndarray(x)))
        real = standin_cupy.ndarray.get

        def get(self):
            calls.append(self._array.shape)
            return real(self)

        monkeypatch.setattr(standin_cupy.ndarray, "get", get)
        got = values(xpapply.apply_along_axis(inner, 1, standin_cupy.ndarray(x)))
    assert np.isnan(got[5:35]).all()
    np.testing.assert_array_equal(got, want)
    assert (16,) not in calls


def later(v):
    """What a formula is of is not written over before it is read."""
    w, n, x = v.get(), 0.0, v.get() * 1
    for i in range(4):
        b = x * 2.5
        x = w * i
        n += x[0] + x[1]
        n += b.sum()
    return n


DECIDE = {
    "later": later,
    "above the mean": lambda v: (v.get() > v.get().mean()).sum(),
    "chosen": lambda v: len(v.get()[v.get() >= v.get().mean()]),
    "whole": lambda v: float(np.floor(v.get() / (v.get().sum() / len(v))).sum()),
    "spread": lambda v: 0.0 if v.get().std() == 0.0 else (v.get()[0] - v.get().mean()) / v.get().std(),  # noqa: E501
    "sign": lambda v: 1 if v.get().sum() > 0 else 0,
    "ratio": lambda v: int(v.get().sum() / v.get()[0]),
    "root": lambda v: np.sqrt(v.get()[0] - v.get().mean()),
    "quotient": lambda v: v.get()[0] / (v.get()[0] - v.get().mean()),
    "product": lambda v: 1 if v.get() @ v.get() > v.get()[0] * v.get()[0] * len(v) else 0,
    "logarithm": lambda v: float(np.floor(np.log10(np.abs(v.get()))).sum()),
    "larger": lambda v: np.copysign(1.0, np.maximum(v.get(), -v.get())[0]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("name", DECIDE)
def test_what_last_bits_decide(name, dtype):
    """A thread gives what the loop gives, or marks the slice; or none of them is a thread's."""
    f, rng = DECIDE[name], np.random.default_rng(1)
    rows = [np.full(100, 0.26978671), np.full(100, 1.1), np.zeros(100), np.full(100, 1e-3) * 7]
    half = rng.normal(size=50) * 20
    rows += [rng.permutation(np.r_[half, -half]) for _ in range(3)]
    x = np.stack([*rows, rng.normal(size=100) * 20]).astype(dtype)
    with standin_cupy.installed():
        want, warns = [], []
        for v in x:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                try:
                    want.append(values(f(standin_cupy.ndarray(v.copy()))))
                except (ValueError, OverflowError):
                    want.append(None)
            warns.append(bool(said) or want[-1] is None)
        like = next(y for y in want if y is not None)
        function = made(f, dtype, [like])
    if function.tells or device.why_not(function):
        return
    out = np.zeros((len(x), *like.shape), like.dtype)
    marks = OnHost(function).run([x], [out])
    for k in np.flatnonzero(marks == 0):
        assert not warns[k]
        np.testing.assert_array_equal(out[k], want[k])


def test_underflow_is_said_by_numpy():
    x = np.full((6, 3), 1e-200)
    with evaluated_on_standin() as cupy, np.errstate(under="warn"):
        y = cupy.asarray(x)
        for _ in range(3):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                xpapply.apply_along_axis(lambda v: cupy.asarray(v.get() * 1e-150), 1, y)
            assert len(said) == 6


def test_a_first_slice_that_warns_does_so_once():
    x = np.ones((4, 3))
    x[0, 0] = -1.0
    with evaluated_on_standin() as cupy, np.errstate(invalid="warn"):
        y = cupy.asarray(x)
        for _ in range(3):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                xpapply.apply_along_axis(lambda v: cupy.asarray(np.log(v.get())), 1, y)
            assert [w.category for w in said] == [RuntimeWarning]


def test_what_rounding_changes_runs_in_code_of_the_host():
    """How many steps a search takes may depend on last bits: those are NumPy's."""
    times = np.linspace(0.1, 1.0, 12)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 1)) * np.exp(-times) + 0.3 * rng.normal(size=(30, 12))

    def steps(v):
        data = v.get()

        def misfit(p):
            return np.sum(np.abs(p[0] * np.exp(-p[1] * times) - data))

        found = optimize.minimize(misfit, [1.0, 1.0], method="Nelder-Mead")
        return found.nfev

    with evaluated_on_standin() as cupy, LIMITS.set(typed_worth=0.0):
        y = cupy.asarray(x)
        first = values(xpapply.apply_along_axis(steps, 1, y))
        with off_by_a_bit():
            again = values(xpapply.apply_along_axis(steps, 1, y))
            for _ in range(2):

                def other(v):
                    return steps(v)

                found = values(xpapply.apply_along_axis(other, 1, y))
                np.testing.assert_array_equal(found, first)
            assert "compiled on the host" in str(xpapply.explain(other, 1, y))
    np.testing.assert_array_equal(first, [steps(standin_cupy.ndarray(v)) for v in x])
    assert again.shape == first.shape


def test_where_last_bits_tell_in_most_slices_the_host_takes_all():
    """A search that ends by its last bits: a launch would leave nearly all slices."""
    x = 1 + np.random.default_rng(0).random((30, 4))

    def root(v):
        data = v.get()
        y, target = 1.0, np.exp(data[0])
        for _ in range(100):
            if abs(y * y - target) <= 4e-16 * target:
                break
            y = 0.5 * (y + target / y)
        return y

    with evaluated_on_standin() as cupy, LIMITS.set(typed_worth=0.0):
        y = cupy.asarray(x)
        for _ in range(2):
            got = values(xpapply.apply_along_axis(root, 1, y))
            np.testing.assert_array_equal(got, [root(standin_cupy.ndarray(v)) for v in x])
        said = str(xpapply.explain(root, 1, y))
    assert "compiled on the host" in said
    assert "by the function itself" not in said


def turned(v):
    own, z = v.get(), 1.0 + 0.0j
    for x in own:
        z = z * (0.5 + 1j * x) if x > 1.0 else z + x
    return abs(z)


@pytest.mark.parametrize("f", [turned, lambda v: abs(complex(v.get()[0], v.get()[1])) + v.get()[2]])
def test_what_no_device_runs_is_compiled_for_a_copy(f):
    """Code of the host takes all slices, and explain says why."""
    x = decays(40)
    with evaluated_on_standin() as cupy, LIMITS.set(typed_worth=0.0):
        y = cupy.asarray(x)
        for _ in range(2):
            got = values(xpapply.apply_along_axis(f, 1, y))
            np.testing.assert_array_equal(got, [f(standin_cupy.ndarray(v)) for v in x])
        said = str(xpapply.explain(f, 1, y))
    assert "compiled on the host, for a copy of the array: it needs 'complex'" in said


def test_an_array_of_the_device_where_the_host_is_wanted():
    """CuPy raises; what is to be written instead is said."""
    with standin_cupy.installed(), pytest.raises(TypeError, match="Implicit") as caught:
        optimize.curve_fit(decay, TIMES, standin_cupy.ndarray(decays(1)[0]))
    advice.note(caught.value)
    assert "pass v.get(), and return cupy.asarray(...)" in caught.value.__notes__[0]


REFUSED = [
    (lambda v: v.get().sum() + v.sum(), "whose copy on the host is used too"),
    (lambda v: v.get(0).sum(), "get with arguments"),
    (lambda v: np.linalg.svd(v.get().reshape(2, 8))[1][0], "svd"),
]


@pytest.mark.parametrize(("f", "why"), REFUSED)
def test_what_is_refused_says_why(f, why):
    with standin_cupy.installed(), pytest.raises(TraceError, match=why):
        made(f, "float64", [np.zeros(())])


@pytest.mark.parametrize("name", NAMES)
def test_a_thread_gives_what_the_function_gives(name):
    """What is written for a GPU, compiled for this processor."""
    x = decays(8, seed=3)
    x[3] = 0.0
    x[5, 2] = np.nan
    with standin_cupy.installed() as cupy:
        f = device_of(cupy)[name]
        want, fails = [], []
        for v in x:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    want.append(values(f(standin_cupy.ndarray(v.copy()))))
                fails.append(False)
            except Exception:
                want.append(np.zeros_like(want[0]))
                fails.append(True)
        function = made(f, "float64", [want[0]])
    outs = [np.zeros((8, *want[0].shape), want[0].dtype)]
    marks = OnHost(function).run([x], outs)
    assert not marks[[0, 1, 2, 4, 6, 7]].any()
    for k in range(8):
        assert marks[k] or not fails[k]
        if not marks[k]:
            np.testing.assert_allclose(outs[0][k], want[k], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 127, 128, 129, 136, 255, 1000, 1025, 20_001])
def test_sums_of_any_length(length, dtype):
    """In NumPy's order, by halves."""
    x = np.random.default_rng(length).normal(size=(5, length)).astype(dtype)
    x[0] = -0.0
    with standin_cupy.installed():
        function = made(lambda v: v.get().sum(), dtype, [x[0].sum()])
    out = np.zeros(len(x), dtype)
    assert not OnHost(function).run([x], [out]).any()
    np.testing.assert_array_equal(out, [v.sum() for v in x])
    assert np.signbit(out[0]) == np.signbit(x[0].sum())


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not here")
@pytest.mark.parametrize(("name", "architecture"), [("fit", 90), ("least", 75), ("cleaned", 120)])
def test_ptxas_takes_a_kernel(name, architecture, tmp_path):
    x = decays(1)
    with standin_cupy.installed() as cupy:
        f = device_of(cupy)[name]
        result = values(f(standin_cupy.ndarray(x[0])))
        function = made(f, "float64", [result])
    text = device_kernel.kernel(function, {}, 1, 4096)
    (tmp_path / "kernel.ptx").write_bytes(for_gpus.ptx(text, architecture).rstrip(b"\0"))
    how = ["ptxas", "-O0", "-c", f"-arch=sm_{architecture}", "kernel.ptx", "-o", "kernel"]
    subprocess.run(how, check=True, capture_output=True, cwd=tmp_path)
