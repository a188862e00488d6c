"""CuPy's library of short slices, compiled: by the definition of typed functions, on the host."""

import device_library
import numpy as np
import pytest
import standin_cupy
from on_standin import made

from xpapply.backends.cpu import for_gpus, host
from xpapply.codegen.llvm import typed as text_of
from xpapply.codegen.llvm.typed import device, device_kernel
from xpapply.errors import TraceError
from xpapply.ir.typed.evaluate import evaluate

RNG = np.random.default_rng(4)


def numbers(count, dtype):
    x = RNG.standard_normal((count, 12)) * (1 if dtype[0] == "f" else 4)
    return x.astype(dtype)


@pytest.fixture(scope="module")
def cupy():
    with standin_cupy.installed() as found:
        yield found


def typed(cupy, build, dtype, want):
    """The typed function of one that reads arrays of the stand-in's, with these on the host."""
    found = made(build(cupy, dtype), dtype, [want])
    assert device.why_not(found) is None
    found.constants[:] = [c._array for c in found.constants]
    return found


@pytest.mark.parametrize(("name", "dtype"), device_library.CASES)
def test_results_are_numpys(cupy, name, dtype):
    build = device_library.BUILDERS[name]
    f = build(np, dtype)
    x = numbers(9, dtype)
    function = typed(cupy, build, dtype, np.asarray(f(x[0])))
    done = 0
    for v in x:
        want = np.asarray(f(v.copy()))
        out = np.empty_like(want)
        if evaluate(function, [v], [out]):
            continue
        done += 1
        far = np.abs(out.astype(float) - want.astype(float)).max()
        assert far <= device_library.tolerance(dtype) * max(np.abs(want).max(), 1e-30), (out, want)
    assert done == 9


OF_LENGTH = [
    lambda xp, v: v.sum(),
    lambda xp, v: v[::2].sum(),
    lambda xp, v: (v[1:] * v[:-1]).sum(),
    lambda xp, v: v.std() / xp.abs(v.mean()),
    lambda xp, v: v[v > 0].mean(),
    lambda xp, v: xp.concatenate([v, v, v]).sum(),  # of more numbers than slices have
    lambda xp, v: (xp.sort(v) - xp.median(v)).sum(),
    lambda xp, v: (v if v[0] > 0 else v[:5] * 2.0).sum(),
    lambda xp, v: xp.histogram(v, 4, (-3.0, 3.0))[0].sum() + v.sum(),
]


@pytest.mark.parametrize("f", OF_LENGTH)
def test_slices_of_a_known_length(cupy, f):
    """What is written for any length is left out; the bits are the same."""

    def of_slice(v):
        return f(cupy, v)

    results = [np.zeros(())]
    known, any_ = (made(of_slice, "float64", results, length=n) for n in (12, 0))
    assert len(known.blocks) <= len(any_.blocks)
    for v in numbers(9, "float64"):
        outs = [np.zeros(()) for _ in range(2)]
        marks = [evaluate(m, [v], [out]) for m, out in zip((known, any_), outs, strict=True)]
        assert marks == [0, 0]
        assert outs[0] == outs[1]
    assert evaluate(known, [np.ones(11)], [np.zeros(())])  # which is none of them


@pytest.mark.skipif(host.why_not() is not None, reason=str(host.why_not()))
@pytest.mark.parametrize("name", ["interp", "eigvalsh", "polyfit", "histogram", "argsort"])
def test_kernels_compile(cupy, name):
    """A constant's address is an argument of the kernel, its length is known to it."""
    build = device_library.BUILDERS[name]
    v = numbers(1, "float64")[0]
    want = np.asarray(build(np, "float64")(v))
    found = typed(cupy, build, "float64", want)
    frame = text_of.fields(found)
    known = dict.fromkeys(range(frame.count), 0)
    for dims, strides in [*frame.inputs, *frame.results]:
        known |= dict.fromkeys(dims, 12) | dict.fromkeys(strides, 8)
    for base, (dims, strides) in frame.constants:
        known |= dict.fromkeys(dims, 12) | dict.fromkeys(strides, 8)
        del known[base]
    text = device_kernel.kernel(found, known, 1, 4096)
    assert text.count("i64 %w") >= len(found.constants)
    assert b".entry" in for_gpus.ptx(text, for_gpus.architecture(90))


def test_memory_that_arrays_may_need(cupy):
    """As much as if each were as long as a slice: of sums nothing."""
    sums, spectrum = (
        made(f, "float64", [np.zeros(n)], length=12)
        for f, n in ((lambda v: v.sum(), ()), (lambda v: abs(cupy.fft.rfft(v)), 7))
    )
    for function, least, most in ((sums, 0, 0), (spectrum, 7 * 96, 2000)):
        known = dict.fromkeys(text_of.fields(function).lengths, 12)
        assert least <= device_kernel.asked(function, known) <= most


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda xp, v: xp.percentile(v, float(v[0])), "one of the source"),
        (lambda xp, v: xp.histogram(v, 3, (float(v[0]), 2.0))[0], "one of the source"),
        (lambda xp, v: xp.linalg.norm(v, 3), "the norm 3"),
        (lambda xp, v: xp.convolve(v, v, "half"), "another mode"),
        (lambda xp, v: xp.clip(v, float(v[0]), 2), "one of the source"),
        (lambda xp, v: xp.clip(v, 1.0, 0.0), "limits that fall"),
        (lambda xp, v: xp.clip(float(v[0]), 0.0, 1.0), "of Python's"),
        (lambda xp, v: v.reshape(3, 4) @ v.reshape(3, 4)[0] @ v, "product"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_is_refused(cupy, f, why):
    if why == "product":
        f, why = (lambda xp, v: v @ 2), "a product of"
    with pytest.raises(TraceError, match=why):
        made(lambda v: f(cupy, v), "float64", [np.zeros(())])


def test_nan_in_a_histogram_is_left_to_cupy(cupy):
    """It counts it or not, by what it is computed with."""
    v = numbers(1, "float64")[0]
    v[3] = np.nan

    def f(v):
        return cupy.histogram(v, 2, (0.0, 3.0))[0]

    assert evaluate(made(f, "float64", [np.zeros(2, np.int64)]), [v], [np.zeros(2, np.int64)])


def test_what_raises_is_left_to_the_function(cupy):
    """Matrices without an inverse, tables that do not rise, NaN in them, lengths that differ."""
    v = np.ones(12)
    for f in (
        lambda xp, v: xp.linalg.solve(v[:9].reshape(3, 3), v[9:]),
        lambda xp, v: xp.linalg.inv(v[:9].reshape(3, 3)),
        lambda xp, v: xp.interp(v[:2], v - xp.cumsum(v), v),
        lambda xp, v: v[:3] @ v,
        lambda xp, v: xp.polyfit(v, v, 1),
    ):
        found = made(lambda v, f=f: f(cupy, v), "float64", [np.zeros(())])
        assert evaluate(found, [v], [np.zeros(())])


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda xp, s: s, "complex numbers of CuPy's as a result"),
        (lambda xp, s: xp.abs(s * 2), "complex numbers of CuPy's * a number"),
        (lambda xp, s: xp.abs(s[1:]), "an element of complex numbers"),
        (lambda xp, s: (s.conj() * s).real, "conj of complex numbers"),
        (lambda xp, s: len(s), "the length of complex numbers"),
    ],
    ids=["itself", "product", "part", "conj", "len"],
)
def test_what_else_a_spectrum_is_for(cupy, f, why):
    """It is two arrays: their sizes, and each of them, is what is compiled."""
    with pytest.raises(TraceError) as found:
        made(lambda v: f(cupy, cupy.fft.rfft(v)), "float64", [np.zeros(7)])
    assert why in str(found.value)
