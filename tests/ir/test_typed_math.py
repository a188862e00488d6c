"""Functions of math: with the bits of the C library, which is not called where slices go side by
side."""

import math

import numpy as np
import pytest
from loop_functions import for_others, machine_code, typed_function

from xpapply.backends.cpu import externals
from xpapply.backends.cpu import typed as backend
from xpapply.backends.cpu.typed import LANES, ONE
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.typed import kernel, kernel_of_lanes
from xpapply.ir.typed.function import WARNED
from xpapply.runtime import c_library

RNG = np.random.default_rng(5)
COUNT = 20_000


def exponential(v):
    return math.exp(v[0])


def logarithm(v):
    return math.log(v[0])


def sine(v):
    return math.sin(v[0])


def cosine(v):
    return math.cos(v[0])


def wave(v):
    """Of numbers of NumPy's, so that what the processor notes counts; some lanes wait."""
    x = v[0]
    y = x * 2.0
    if x > 0.5:
        y = y * math.sin(x) + math.exp(-x)
    return y


def errors(v):
    return math.erf(v[0])


def raised(v):
    return math.pow(v[0], 1.7)


def raised_to(v):
    return math.pow(abs(v[0]), v[0] - 0.3)


def turned(v):
    """Both are written once."""
    return math.sin(v[0]) - 3.0 * math.cos(v[0])


CALLED = {exponential: "exp", logarithm: "log", sine: "sin", cosine: "cos", errors: "erf"}
CALLED[raised] = "pow"
needs_compiler = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def beside(x, most=3):
    """Floats next to some."""
    return (x.view(np.int64) + RNG.integers(-most, most + 1, x.shape)).view(float)


def numbers():
    """Of all sizes, usual ones, beside those where something changes, and what is not finite."""
    many = RNG.integers(-(2**63), 2**63 - 1, COUNT).view(float)
    sizes = RNG.standard_normal(COUNT) * np.exp2(RNG.integers(-80, 20, COUNT))
    usual = RNG.uniform(-10, 10, 2 * COUNT)
    near_one = 1 + RNG.standard_normal(COUNT) * np.exp2(RNG.integers(-50, -1, COUNT))
    k = np.arange(-3000.0, 3000.0)
    turns = beside(np.concatenate([k * (math.pi / 2), k * (math.pi / 128), k * math.pi]))
    parts = beside(np.concatenate([k * (math.log(2) / 256), (3010 + k) / 128]))
    # cos: glibc's pi is too short for the last place
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, float.fromhex("0x1.921fb54442d19p+0")]
    ends += [5e-324, -5e-324, 2.3e-308, 1e300, 709.7, 709.8, -745.2, -708.5, 511.9, 512.0, 32768.0]
    # where other steps begin, and what is left of pi / 2 is between two multiples of 1 / 128
    steps = [2.0**-26, 2.0**-27, 0.126, 0.85546875, 2.426265, 105414350.0, 0.84375, 1.25, 1 / 0.35]
    steps += [6.0, 2.0**-28, 0.9375, 1.0647, 2.0**-54, 512.0, 2.0**-1022]
    steps = np.concatenate([steps, math.pi / 2 - (k[2700:3300] + 0.5) / 128])
    steps = beside(np.concatenate([np.repeat(steps, 40), -np.repeat(steps, 40)]), 9)
    return np.concatenate([many, sizes, usual, near_one, turns, parts, ends, steps])[:, None]


def run(f, near, monkeypatch, arr, form=LANES):
    monkeypatch.setattr(c_library, "is_near", lambda: near)
    made, _ = typed_function(f, np.ones(1))
    out = np.full(len(arr), 77.0)
    return out, backend.Compiled(made).run([arr], [out], 1, form=form)


@pytest.fixture(params=[True, False], ids=["steps", "calls"])
def steps(request, monkeypatch):
    """Whether the library's steps are taken, where it takes them, or it is called."""
    if not request.param:
        monkeypatch.setattr(c_library, "takes", lambda name: False)
    return request.param


@needs_compiler
@pytest.mark.parametrize("f", [*CALLED, raised_to, turned, wave], ids=lambda f: f.__name__)
def test_results_are_those_of_the_library(f, steps, monkeypatch):
    arr = numbers()
    want, marks = run(f, False, monkeypatch, arr, ONE)
    for form in (ONE, LANES):
        found, again = run(f, True, monkeypatch, arr, form)
        np.testing.assert_array_equal(again, marks)
        good = marks == 0
        assert good.mean() > 0.4
        np.testing.assert_array_equal(found[good].view(np.int64), want[good].view(np.int64))
    for k in np.flatnonzero(marks == 0)[::97]:
        assert want[k] == f(arr[k]) or math.isnan(want[k])


@needs_compiler
@pytest.mark.parametrize("f", CALLED, ids=lambda f: f.__name__)
def test_the_library_is_not_called(f, monkeypatch):
    """In its place stands a function with other results."""
    if not c_library.takes(CALLED[f]):
        pytest.skip("not this C library")
    arr = RNG.uniform(0.1, 5.9, (COUNT, 1))
    want, _ = run(f, True, monkeypatch, arr)
    address = externals.address
    name = CALLED[f]
    wrong = {("libm", name): ("libm", "lgamma")}
    monkeypatch.setattr(externals, "address", lambda *n: address(*wrong.get(n[:2], n[:2]), *n[2:]))
    found, _ = run(f, True, monkeypatch, arr)
    assert (found == want).all()
    found, _ = run(f, True, monkeypatch, arr, ONE)
    assert not (found == want).any()


def remainder(v):
    return math.fmod(v[0], v[1]), v[0].item() % 6.5, v[0] % v[1]


@needs_compiler
def test_remainders_are_those_of_the_library(monkeypatch):
    x, y = numbers(), RNG.permutation(numbers())
    times = RNG.integers(-99, 99, y.shape)
    with np.errstate(all="ignore"):
        many = [np.hstack([x, y]), np.hstack([y * times, y]), np.hstack([beside(y * times), y])]
        many.append(np.hstack([RNG.uniform(-30, 30, x.shape), np.full(x.shape, 2 * math.pi)]))
    arr = np.concatenate(many)
    made, _ = typed_function(remainder, np.ones(2))
    for form in (ONE, LANES):
        out = np.zeros((len(arr), 3))
        marks = backend.Compiled(made).run([arr], [out], 1, form=form)
        assert (marks == 0).mean() > 0.5
        for k in np.flatnonzero(marks == 0)[::29]:
            want = np.array(remainder(arr[k]))
            np.testing.assert_array_equal(out[k], want)
            assert (np.signbit(out[k]) == np.signbit(want))[want == want].all()


@needs_compiler
def test_few_remainders_ask_the_library(monkeypatch):
    if not c_library.is_near():
        pytest.skip("not this C library")
    arr = RNG.uniform(-30.0, 30.0, (COUNT, 2))
    want = np.fmod(arr[:, 0], arr[:, 1])
    address = externals.address
    wrong = {("libm", "fmod"): ("libm", "atan2")}
    monkeypatch.setattr(externals, "address", lambda *n: address(*wrong.get(n[:2], n[:2]), *n[2:]))
    made, _ = typed_function(lambda v: math.fmod(v[0], v[1]), np.ones(2))
    out = np.zeros(COUNT)
    backend.Compiled(made).run([arr], [out], 1, form=LANES)
    assert (out == want).mean() > 0.99


@needs_compiler
def test_nothing_is_noted(monkeypatch):
    """Where all that a processor notes is a warning, results beyond floats alone give one."""
    with np.errstate(all="warn"):
        arr = np.concatenate([RNG.uniform(-700.0, 700.0, (COUNT, 1)), np.zeros((16, 1))])
        _, marks = run(wave, True, monkeypatch, arr)
        assert (marks == WARNED).sum() == 0


@for_others
def test_texts_of_math_compile_for_other_cpus(name, monkeypatch):
    if not c_library.of_logarithm("pow"):
        pytest.skip("not this C library")
    monkeypatch.setattr(c_library, "takes", lambda name: True)
    for f in CALLED:
        made, _ = typed_function(f, np.ones(1))
        text = kernel_of_lanes(made, TARGETS[name], 8, True, near_libm=True)
        assert "@llvm.fma" in text
        machine_code(text, name)
        assert "@llvm.fma" not in kernel(made, TARGETS[name], near_libm=True)


def test_another_library_is_called_for_each_number():
    made, _ = typed_function(sine, np.ones(1))
    assert "@llvm.fma" not in kernel_of_lanes(made, TARGETS["SSE2"], 8, True, near_libm=True)
    assert "@llvm.fma" not in kernel_of_lanes(made, TARGETS["AVX2"], 8, True)
