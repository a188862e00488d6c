"""Functions of CuPy's arrays: what their numbers are, by a stand-in for CuPy and as PTX."""

import itertools
import shutil
import subprocess
import sys
import types

import device_functions
import numpy as np
import pytest
from on_standin import made, of_standin

from xpapply.backends.cpu import for_gpus, host
from xpapply.codegen.llvm import typed as text_of
from xpapply.codegen.llvm.typed import device, device_kernel
from xpapply.errors import TraceError
from xpapply.frontends.python.source.calls import of_device
from xpapply.ir.typed.evaluate import evaluate

RNG = np.random.default_rng(1)
DTYPES = "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32".split()
CASES = [
    *itertools.product(device_functions.FLOATS, DTYPES[:2]),
    *itertools.product(device_functions.OF_FINITE, DTYPES[:2]),
    *itertools.product(device_functions.INTEGERS, DTYPES[2:]),
]
NEEDS_LLVM = pytest.mark.skipif(host.why_not() is not None, reason=str(host.why_not()))


def numbers(count, dtype):
    x = RNG.standard_normal((count, 8)) * (2 if dtype.startswith("f") else 9)
    return (np.abs(x) if dtype.startswith("u") else x).astype(dtype)


@pytest.mark.no_such_case(  # NumPy divides floats to whole numbers in another way than CuPy
    lambda f, dtype: f is device_functions.wholes and dtype.startswith("f")
)
@pytest.mark.parametrize(("f", "dtype"), CASES, ids=lambda x: getattr(x, "__name__", x))
def test_as_arrays_without_axes_compute(f, dtype):
    x = numbers(30, dtype)
    results = [of_standin(f, x[0])]
    function = made(f, dtype, results)
    assert device.why_not(function) is None
    done = 0
    for v in x:
        out = np.empty_like(results[0])
        if not evaluate(function, [v], [out]):
            want = of_standin(f, v)
            assert np.array_equal(out, want.astype(out.dtype), equal_nan=out.dtype.kind == "f")
            done += 1
    assert done > 10


def test_small_floats_are_zero_but_for_python():
    """CuPy's kernels flush them; the host, which has them as floats, does not."""

    def sums(v):
        n = 0
        for x in v:
            if x > 0:
                n += 1
            if x:
                n += 10
            if float(x) > 0:
                n += 100
        return n

    v = np.array([1e-41, 0.0, 1e-30], np.float32)
    out = np.empty((), np.int64)
    assert evaluate(made(sums, "float32", [out]), [v], [out]) == 0
    assert out == 221
    out = np.empty((), np.float32)
    assert evaluate(made(device_functions.added, "float32", [out]), [v[:1]], [out]) == 0
    assert out == 0


def test_in_place_changes_what_other_names_hold():
    """Such a number is none that one name alone has, so it is not compiled."""

    def of_element(v):
        s = v[0]
        for x in v:
            s += x
        return s

    def of_two_names(v):
        s = v[0] * 1
        for x in v:
            before = s
            s += x
        return before

    def of_argument(v):
        s = v[0] * 1
        for x in v:
            s = further(s, x)
        return s

    def further(s, x):
        s += x
        return s

    def in_tuple(v):
        s = v[0] * 1
        pair = s, s
        for x in v:
            s += x
        return pair[0] + s

    for f in (of_element, of_two_names, of_argument, in_tuple):
        with pytest.raises(TraceError, match="something else may hold"):
            made(f, "float64", [np.zeros(())])


def test_what_is_not_compiled():
    def indexed(v):
        return v[v[0]]

    def ranged(v):
        n = 0
        for _ in range(v[0]):
            n += 1
        return n

    def writes(v):
        v[0] = 1
        return v[0]

    def sums(v):
        return np.kron(v, v)

    def of_numpy(v):
        return v[0] * np.float32(2)

    def power(v):
        return v[0] ** 3

    reasons = ["int(...)", "int(...)", "it writes", "kron", "numpy.float32", "** of"]
    for f, why in zip((indexed, ranged, writes, sums, of_numpy, power), reasons, strict=True):
        with pytest.raises(TraceError) as error:
            made(f, "int64", [np.zeros((), np.int64)])
        assert why in str(error.value)


def test_types_of_results_are_cupys():
    """Its loops are chosen as NumPy's are: by CuPy's own table, without a device."""
    cupy = pytest.importorskip("cupy")
    if not hasattr(getattr(cupy.add, "_ops", None), "_guess_routine_from_in_types"):
        pytest.skip("CuPy's tables are elsewhere")
    operators = {
        "+": "add",
        "-": "subtract",
        "*": "multiply",
        "/": "true_divide",
        "//": "floor_divide",
        "%": "remainder",
        "&": "bitwise_and",
        "|": "bitwise_or",
        "^": "bitwise_xor",
        "<<": "left_shift",
        ">>": "right_shift",
    }
    kinds = [*DTYPES, "uint64", "bool"]
    python = {"int64": int, "float64": float}
    for (op, name), a, b, weak in itertools.product(operators.items(), kinds, kinds, (0, 1)):
        if weak and b not in python:
            continue
        x = of_device.Num(a, "device", of_device.Literal(1, a))
        y = of_device.Num(b, "python" if weak else "device", of_device.Literal(1, b))
        try:
            loop, out, _ = of_device.numbers._types(op, *map(of_device._plain, (x, y)))
        except TraceError:
            continue
        types = np.dtype(a), np.dtype(b)
        ranks = [{"b": 0, "f": 2}.get(t.kind, 1) for t in types]
        is_weak = weak and ranks[0] >= ranks[1]
        weaks = (False, python[b]) if is_weak else (False, False)
        found = getattr(cupy, name)._ops._guess_routine_from_in_types(types, weaks)
        if found is None or found.routine is None:
            continue
        assert [np.dtype(t).name for t in found.out_types] == [out], (op, a, b, weak)
        if op != "/":
            assert {np.dtype(t).name for t in found.in_types} == {loop}, (op, a, b, weak)


@NEEDS_LLVM
@pytest.mark.parametrize("architecture", [75, 80, 86, 89, 90, 100, 120])
def test_ptx(architecture, tmp_path):
    """Of a sample for each architecture; assembled where the assembler is at hand."""
    assembler = shutil.which("ptxas")
    for f, dtype in CASES[architecture % 7 :: 7]:
        results = [of_standin(f, numbers(1, dtype)[0])]
        function = made(f, dtype, results)
        frame = text_of.fields(function)
        values = {frame.inputs[0][0][0]: 8} if f is device_functions.added else {}
        text = device_kernel.kernel(function, values, 1 + architecture % 3)
        code = for_gpus._compiled(text, architecture)
        assert f".target sm_{architecture}" in code
        assert "fma.rn.f32" not in code or f is device_functions.wholes
        assert ("call.uni" in code) is (f is device_functions.activated)
        if assembler is not None:
            path = tmp_path / "kernel.ptx"
            path.write_text(code)
            how = [
                assembler,
                "-c",
                f"-arch=sm_{architecture}",
                str(path),
                "-o",
                str(tmp_path / "k"),
            ]
            subprocess.run(how, check=True, capture_output=True)


SUMS = {
    "standardised",
    "mean",
    "mean_of_some",
    "spread_of_steps",
    "deviations",
    "square_sum",
    "total",
}
"""Functions that add floats, in another order than the stand-in."""
OF_ARRAYS = [
    *itertools.product(device_functions.WHOLE, DTYPES[:2]),
    *itertools.product(device_functions.WHOLE_INTEGERS, ["int32", "uint8", "int64"]),
]


@pytest.mark.parametrize(("f", "dtype"), OF_ARRAYS, ids=lambda x: getattr(x, "__name__", x))
def test_whole_arrays(f, dtype):
    x = numbers(12, dtype)
    results = [of_standin(f, x[0])]
    function = made(f, dtype, results)
    assert device.why_not(function) is None
    for v in x:
        out = np.empty_like(results[0])
        assert evaluate(function, [v], [out]) == 0
        want = of_standin(f, v)
        if f.__name__ in SUMS | {"either_end", "logsumexp"}:
            assert np.allclose(out, want, rtol=64 * np.finfo(dtype).eps if dtype[0] == "f" else 0)
        else:
            assert np.array_equal(out, want.astype(out.dtype))


def pairs(a):
    """The order of CUB's sums of up to 32 numbers."""
    span = 1
    a = list(a)
    while span < 32:
        a = [x + a[i + span] if i + span < len(a) else x for i, x in enumerate(a)]
        span *= 2
    return a[0]


def halves(a):
    """The order of CuPy's own sums."""
    width = 1
    while width < len(a):
        width *= 2
    a = [*a, *np.zeros(width - len(a), a.dtype)]
    while width > 1:
        width //= 2
        a = [a[i] + a[i + width] for i in range(width)]
    return a[0]


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 12, 17, 31, 32])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_have_the_order_of_cupys_kernels(dtype, length):
    out = np.empty((), dtype)
    function = made(device_functions.total, dtype, [out])
    for _ in range(20):
        v = (RNG.standard_normal(length) * 10.0 ** RNG.integers(-3, 3, length)).astype(dtype)
        assert evaluate(function, [v], [out]) == 0
        assert out == pairs(v)
        apart = np.repeat(v, 2)[::2]
        assert evaluate(function, [apart], [out]) == 0
        assert out == (halves(v) if length > 1 else v[0])


def test_which_nan_is_found():
    """CuPy's extremes keep the left one, in the order in which its kernels compare."""

    def largest(v):
        return v.argmax()

    out = np.empty((), np.int64)
    function = made(largest, "float64", [out])
    nan = np.nan
    for values, packed, apart in (
        ([0, nan, nan, 1], 1, 2),
        ([nan, 5, nan, 1], 0, 0),
        ([0, 7, 1, nan], 3, 3),
        ([0, 7, 1, 2, nan, nan], 4, 4),
        ([0, nan, 3, nan, 1, 2], 1, 1),
        ([3, 9, 9, 1], 1, 1),
    ):
        v = np.array(values)
        for x, want in ((v, packed), (np.repeat(v, 2)[::2], apart)):
            assert evaluate(function, [x], [out]) == 0
            assert out == want, values


def test_numbers_of_pythons_beside_cupys_keep_their_type():
    def chosen(v):
        return np.maximum(v[0], 0) * v[1] + np.minimum(v[1], 0.5)

    out = np.empty((), np.float32)
    function = made(chosen, "float32", [out])
    for _ in range(30):
        v = RNG.standard_normal(3).astype(np.float32)
        assert evaluate(function, [v], [out]) == 0
        assert out == of_standin(chosen, v)


def test_what_is_no_number_of_the_type():
    def negative(v):
        return np.where(v > 5, v, -1).sum()

    def large(v):
        return np.where(v > 5, v, int(v.max()) * 100).sum()

    out = np.empty((), np.uint64)
    assert evaluate(made(negative, "uint8", [out]), [np.array([1, 9], np.uint8)], [out]) > 0
    function = made(large, "uint8", [out])
    assert evaluate(function, [np.array([1, 2, 9], np.uint8)], [out]) > 0
    assert evaluate(function, [np.array([1, 2, 0], np.uint8)], [out]) == 0
    assert out == 600


def test_smallest_floats_are_none():
    def questions(v):
        return v.any() * 1 + v.all() * 2 + np.count_nonzero(v) * 4

    out = np.empty((), np.int64)
    function = made(questions, "float32", [out])
    assert evaluate(function, [np.array([1e-41, 0], np.float32)], [out]) == 0
    assert out == 0


def test_whole_arrays_that_are_refused():
    def filled(v):
        v.fill(2.0)
        return v[0]

    def filled_part(v):
        v[1:].fill(2.0)
        return v[0]

    def of_order(v):
        return np.diff(v, 0)

    def kept(v):
        return v.sum(keepdims=True)

    def typed(v):
        return v.sum(dtype="float32")

    for f in (filled, filled_part, of_order, kept, typed):
        with pytest.raises(TraceError):
            made(f, "float64", [np.empty(())])


def test_sums_are_made_as_the_user_of_cupy_has_chosen(monkeypatch):
    out = np.empty(())
    v = RNG.standard_normal(12)
    for chosen in ([], [1], [2, 1]):
        stand_in = types.SimpleNamespace(get_routine_accelerators=lambda chosen=chosen: chosen)
        monkeypatch.setitem(sys.modules, "cupy._core._accelerator", stand_in)
        if 2 in chosen:
            with pytest.raises(TraceError, match="another library than CUB"):
                made(device_functions.total, "float64", [out])
            continue
        assert evaluate(made(device_functions.total, "float64", [out]), [v], [out]) == 0
        assert out == (pairs(v) if chosen else halves(v))
