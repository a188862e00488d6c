"""What a fetched slice is given to in many places is one function of a GPU's kernel."""

import math
import re

import numpy as np
import pytest
import standin_cupy
from device_on_host import OnHost
from on_standin import made, of_standin

import xpapply
from xpapply.codegen.llvm.typed import device_kernel
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.function import WARNED
from xpapply.ir.typed.margins import WHY
from xpapply.ir.typed.verify import verify
from xpapply.ir.typed.written_out import written_out
from xpapply.limits import LIMITS

optimize = pytest.importorskip("scipy.optimize")

X = np.random.default_rng(5).uniform(0.5, 2.0, (6, 12))


@pytest.fixture
def short_ones(monkeypatch):
    """Short functions that are run in few places stay functions."""
    monkeypatch.setattr(LIMITS, "typed_shared", 5)
    monkeypatch.setattr(LIMITS, "device_written", 5)


def _length(x, first):
    total = 0.0
    for i in range(first, len(x)):
        if x[i] > 1.5:
            total += x[i] * x[i]
        else:
            total -= math.exp(x[i])
    return total


def of_rows(v):
    v = v.get()
    return np.float64(_length(v, 0) + 2 * _length(v[::2], 0) + _length(v[1:], 0))


def _share(x, first):
    total = 0.0
    for i in range(first, len(x)):
        total += x[i]
    return 1.0 / float(total)  # which raises where it is zero


def of_shares(v):
    v = v.get()
    return np.float64(_share(v, 0) + 2 * _share(v[::2], 0) + _share(v[1:], 0))


def _ratio(x, first):
    total = x[first] * 0.0
    for i in range(first, len(x)):
        total += x[i]
    return x[first] / total  # of which NumPy warns


def of_ratios(v):
    v = v.get()
    return _ratio(v, 0) + 2 * _ratio(v[::2], 0) + _ratio(v[1:], 0)


def _halved(x):
    rounds = 0
    while abs(x) > 0.01:
        x /= 2.0
        rounds += 1
    return rounds


def of_halves(v):
    v = v.get()
    a, b, c = float(v[0]), float(v[1]), float(v[2])
    return np.int64(_halved(a) + _halved(b) * 100 + _halved(c) * 10_000)


def _grown(x, top):
    y = math.exp(x)
    while y < top:
        y *= 1.5
    return y


def of_decisions(v):
    v = v.get()
    a, b, c, top = float(v[0]), float(v[1]), float(v[2]), 20.0 + float(v[3])
    return np.float64(_grown(a, top) + _grown(b, 2.0 * top) + _grown(c, top))


def _turned(x, by):
    for i in range(len(x)):
        x[i] = x[i] * by
        by = -by
    return float(x[0])


def of_writes(v):
    v = v.get()
    a = v.copy()
    x, y, z = float(v[0]), float(v[1]), float(v[2])
    # what is to be added to is in memory before it changes
    b = (a * 2.0) + _turned(a, x)
    return b[3] + _turned(a[1:], y) - _turned(a[::2], z)


def typed(f, x=X):
    with standin_cupy.installed():
        found = made(f, "float64", [np.asarray(of_standin(f, x[0]))])
        verify(found)
        return found, np.stack([of_standin(f, v) for v in x])


def run(f, x=X):
    function, want = typed(f, x)
    out = np.zeros_like(want)
    return function, OnHost(function).run([x], [out]), out, want


@pytest.mark.parametrize("f", [of_rows, of_shares, of_ratios, of_halves, of_decisions, of_writes])
def test_they_do_what_they_do_where_they_stand(f, short_ones):
    function, marks, out, want = run(f)
    assert function.functions
    assert not marks.any()
    np.testing.assert_array_equal(out, want)
    one = np.zeros_like(want[3])
    assert evaluate(function, [X[3]], [one]) == 0
    np.testing.assert_array_equal(one, want[3])
    flat = written_out(function, whole=True)
    assert not flat.functions
    outs = np.zeros_like(want)
    assert not OnHost(flat).run([X], [outs]).any()
    np.testing.assert_array_equal(outs, want)


def test_an_exception_marks_the_slice(short_ones):
    x = X.copy()
    x[2] = 0.0
    function, want = typed(of_shares, X)
    out = np.zeros(len(x))
    marks = OnHost(function).run([x], [out])
    assert (marks != 0).tolist() == [False, False, True, False, False, False]
    assert marks[2] <= len(function.marks)
    np.testing.assert_array_equal(out[3:], want[3:])


def test_what_numpy_warns_of_is_told(short_ones):
    x = X.copy()
    x[4] = 0.0
    _, marks, out, want = run(of_ratios, x)
    assert marks.tolist() == [0, 0, 0, 0, WARNED, 0]
    np.testing.assert_array_equal(out[:4], want[:4])


def test_rounds_of_all_calls_are_counted(short_ones, monkeypatch):
    """None runs on for long, and all of them together do not either."""
    monkeypatch.setattr("xpapply.codegen.llvm.typed.device.ROUNDS", 20)
    x = X.copy()
    x[0, :3] = 1.0  # 7 rounds each, and the last question
    x[1, :3] = 1e-3
    function, _ = typed(of_halves, X)
    marks = OnHost(function).run([x], [np.zeros(len(x), int)])
    assert marks[0] != 0
    assert "rounds" in function.marks[marks[0] - 1].why
    assert marks[1] == 0


def test_last_bits_that_decide_in_one_mark_the_slice(short_ones):
    """Of what it is given, or of a function of a library that it calls itself."""
    function, _ = typed(of_decisions)
    assert any(m.why == WHY for m in function.marks)
    assert not any(m.why == WHY for m in function.of_host.marks)
    x = X.copy()
    x[1, 0], x[1, 3] = math.log(24.0), 4.0
    marks = OnHost(function).run([x], [np.zeros(len(x))])
    assert function.marks[marks[1] - 1].why == WHY
    assert not marks[[0, 2, 3, 4, 5]].any()
    own = sum(len(b.instructions) for b in function.of_host.functions[0].blocks)
    assert own < sum(len(b.instructions) for b in function.functions[0].blocks)


def _weighed(y, top):
    total = 0.0
    while total < y:
        total += top
    return total


def of_given(v):
    v = v.get()
    a, b, top = math.exp(v[0]), math.exp(v[1]), float(v[3])
    return np.float64(_weighed(a, top) + _weighed(b, top) + _weighed(float(v[2]), top))


def of_results(v):
    v = v.get()
    a, b, c, by = float(v[0]), float(v[1]), float(v[2]), float(v[3])
    return np.int64(_sharpened(a, by) + _sharpened(b, by) + _sharpened(c, by) > 11.0)


def _sharpened(x, by):
    y = math.exp(x) * by
    y += by * x
    y += by * y
    return y - x


@pytest.mark.parametrize("f", [of_given, of_results])
def test_margins_know_what_goes_in_and_out(f, short_ones):
    function, _ = typed(f)
    assert function.functions
    assert any(m.why == WHY for m in function.marks)


def decay(t, a, b):
    return a * np.exp(-b * t)


def fit(v):
    return optimize.curve_fit(decay, np.linspace(0.01, 0.16, 16), v.get(), p0=(100.0, 20.0))[0]


def test_a_fit_has_one_text_of_the_lengths_that_are_seldom_scaled():
    """The assembler takes eight times as long for a text twice as long."""
    x = decay(np.linspace(0.01, 0.16, 16), 90.0, np.linspace(10.0, 30.0, 3)[:, None])
    with standin_cupy.installed():
        function = made(fit, "float64", [fit(standin_cupy.ndarray(x[0]))])
    assert [f.name for f in function.functions] == ["_scaled_norm"]
    assert function.size < 6000
    text = device_kernel.kernel(function, {}, 1, 4096)
    assert len(re.findall(r"^define internal .*@f0\(", text, re.M)) == 1
    assert "llvm.loop.unroll.disable" in text
    assert "llvm.loop.unroll.full" not in text


class _Fetched:
    """A slice of the host's, for what fetches one."""

    def __init__(self, v):
        self._own = v

    def get(self):
        return self._own.copy()


def on_gpu(cupy, f, x):
    """What a GPU gives, and the function on the host."""

    def fetched(v):
        return cupy.asarray(f(v))

    # however long compiling takes
    with xpapply.options(fallback="silent"), LIMITS.set(typed_worth=0.0):
        got = xpapply.apply_along_axis(fetched, 1, cupy.asarray(x))
        assert "one launch" in str(xpapply.explain(fetched, 1, cupy.asarray(x)))
    return got.get(), np.stack([f(_Fetched(v)) for v in x])


@pytest.mark.gpu
@pytest.mark.parametrize("f", [of_rows, of_shares, of_ratios, of_halves, of_decisions, of_writes])
def test_on_a_gpu(cupy, f, short_ones):
    x = np.random.default_rng(6).uniform(0.5, 2.0, (3000, 12))
    x[::100] = 1.0
    np.testing.assert_allclose(*on_gpu(cupy, f, x), rtol=1e-13)


def peak(t, height, centre):
    return height * np.exp(-(((t - centre) / 0.1) ** 2))


def peaks(count):
    """Peaks whose ends are so small that squares of them are scaled before they are summed."""
    rng = np.random.default_rng(7)
    x = peak(np.linspace(0.0, 1.0, 16), 3.0, rng.uniform(0.4, 0.6, (count, 1)))
    return x * rng.normal(1.0, 0.01, x.shape)


def fit_of_a_peak(v):
    return optimize.curve_fit(peak, np.linspace(0.0, 1.0, 16), v.get(), p0=(2.0, 0.5))[0]


def test_lengths_that_are_scaled_have_the_bits_of_the_host():
    x = peaks(40)
    with standin_cupy.installed():
        function = made(fit_of_a_peak, "float64", [fit_of_a_peak(_Fetched(x[0]))])
    assert [f.name for f in function.functions] == ["_scaled_norm"]
    out = np.zeros((40, 2))
    assert not OnHost(function).run([x], [out]).any()
    want = np.stack([fit_of_a_peak(_Fetched(v)) for v in x])
    np.testing.assert_allclose(out, want, rtol=1e-7)


def test_a_slice_that_a_helper_fetches():
    """What comes before it is then NumPy's, too."""
    with standin_cupy.installed() as cupy:

        def fetched(v):
            return cupy.asarray(fit_of_a_peak(v))

        function = made(fetched, "float64", [standin_cupy.ndarray(np.zeros(2))])
    assert function.fetches


@pytest.mark.gpu
def test_a_fit_on_a_gpu(cupy):
    got, want = on_gpu(cupy, fit_of_a_peak, peaks(1000))
    np.testing.assert_allclose(got, want, rtol=1e-7)
