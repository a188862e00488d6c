"""The elementwise ops of the table in LLVM's text, run beside NumPy's."""

import itertools

import host_llvm
import numpy as np
import pytest

from xpapply.codegen.llvm import operations
from xpapply.codegen.llvm.target import TARGETS
from xpapply.ir.ops import OPS, Kind

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float32", "float64", "float16"]
COMPARISONS = [row.name for row in OPS.values() if row.compares]
LANES = {"SSE2": 4, "AVX2": 8, "AVX-512": 16, "NEON": 4}
TARGET = pytest.mark.parametrize("target", host_llvm.HOST)


def numbers(dtype):
    rng = np.random.default_rng(3)
    if dtype == "bool":
        return np.array([False, True])
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        edges = [info.min, info.min + 1, 0, 1, 2, 3, info.max - 1, info.max]
        return np.array([*edges, *rng.integers(info.min, info.max, 12, kind, endpoint=True)], kind)
    info = np.finfo(kind)
    edges = [0.0, 0.5, 1.0, 1.5, 2.5, 7.75, info.tiny, info.smallest_subnormal, info.max, np.inf]
    large = [2.0 ** (info.nmant + k) + 0.5 for k in (-1, 0, 1)]
    found = np.array([*edges, *large, *rng.normal(size=9) * 30, np.nan], kind)
    return np.concatenate([found, -found])


def check(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind == "f":
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


def written(calls, dtypes, target, lanes=None):
    """A function of arrays that gives the result of each of `calls`: op, dtype of the result."""

    def body(writer, *given):
        for op, result in calls:
            attrs = [("dtype", result)] if op == "cast" else []
            yield operations.apply(writer, op, given, dtypes[-1], attrs)

    lanes = LANES[target.name] if lanes is None else lanes
    return host_llvm.elementwise(body, dtypes, [result for _, result in calls], target, lanes)


def compare(ops, arrays, target, lanes=None):
    """Ops of the table beside NumPy's functions, on arrays of any dtypes."""
    dtypes = [x.dtype.name for x in arrays]
    with np.errstate(all="ignore"):
        wanted = [getattr(np, OPS[op].api or op)(*arrays) for op in ops]
    calls = [(op, want.dtype.name) for op, want in zip(ops, wanted, strict=True)]
    for got, want in zip(written(calls, dtypes, target, lanes)(*arrays), wanted, strict=True):
        check(got, want)


@TARGET
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_of_one(dtype, target):
    rest = ["sqrt", "isfinite", "signbit"]
    if dtype not in FLOATS:
        assert all(operations.why_not(op, dtype, target) for op in rest)
        rest = []
    compare("negative abs floor ceil".split() + rest, [numbers(dtype)], target)


@TARGET
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_of_two(dtype, target):
    x, y = (a.ravel() for a in np.meshgrid(numbers(dtype), numbers(dtype)))
    ops = "add subtract multiply maximum minimum divide".split()
    if dtype not in FLOATS:
        assert operations.why_not(ops.pop(), dtype, target)
    compare(ops + COMPARISONS, [x, y], target)


@TARGET
def test_of_booleans(target):
    x, y = (a.ravel() for a in np.meshgrid([False, True] * 8, [False, True] * 8))
    compare("logical_and logical_or equal not_equal".split(), [x, y], target, 16)
    compare(["logical_not"], [x], target, 16)


@TARGET
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_where(dtype, target):
    x = numbers(dtype)
    compare(["where"], [np.arange(len(x)) % 3 == 0, x, x[::-1].copy()], target)


@TARGET
@pytest.mark.parametrize("was", [*FLOATS, *INTEGERS, "bool"])
def test_casts(was, target):
    x = numbers(was)
    dtypes = [*FLOATS, *INTEGERS, "bool"]
    found = written([("cast", d) for d in dtypes], [was], target)(x)
    for got, dtype in zip(found, dtypes, strict=True):
        with np.errstate(all="ignore"):
            want = x.astype(dtype)
        if was in FLOATS and dtype in INTEGERS:
            # beyond the range the C compiler of NumPy decides
            info, wide = np.iinfo(dtype), x.astype("longdouble")
            inside = (wide > int(info.min) - 1) & (wide < int(info.max) + 1)
            got, want = got[inside], want[inside]
        check(got, want)


@TARGET
def test_every_float16(target):
    x = np.arange(1 << 16, dtype="uint16").view("float16")
    check(written([("cast", "float32")], ["float16"], target)(x)[0], x.astype("f"))


@TARGET
@pytest.mark.parametrize("was", ["float32", "float64"])
def test_rounding_to_float16(was, target):
    half = np.arange(1 << 15, dtype="uint16").view("float16").astype(was)
    half = half[np.isfinite(half)]
    between = (half[1:] + half[:-1]) / 2
    x = np.concatenate([between, *(np.nextafter(between, np.array(to, was)) for to in (0, 9e9))])
    x = np.concatenate([x, -x, numbers(was)])
    with np.errstate(all="ignore"):
        want = x.astype("float16")
    check(written([("cast", "float16")], [was], target)(x)[0], want)


@TARGET
def test_bfloat16(torch, target):
    def floats(bits):
        return torch.from_numpy(bits.view("int16")).view(torch.bfloat16).float().numpy()

    x = np.random.default_rng(0).integers(0, 1 << 32, 4096, "uint32").view("f")
    x = np.concatenate([x, numbers("float32")])
    want = torch.from_numpy(x).bfloat16()
    check(floats(written([("cast", "bfloat16")], ["float32"], target)(x)[0]), want.float().numpy())
    bits = want.view(torch.int16).numpy().view("uint16")
    got = written([("add", "bfloat16")], ["bfloat16"] * 2, target)(bits, bits[::-1])[0]
    check(floats(got), (want + want.flip(0)).float().numpy())


def test_reasons():
    target = TARGETS["AVX2"]
    assert "complex64" in operations.why_not("add", "complex64", target)
    assert operations.why_not("cast", "uint8", target) is None
    assert "no form" in operations.why_not("sum", "float32", target)


def test_joins():
    """What reductions are made of is there for every dtype that they take."""
    joins = {row.join for row in OPS.values() if row.join}
    for op, dtype in itertools.product(joins, [*FLOATS, *INTEGERS]):
        assert operations.why_not(op, dtype, TARGETS["AVX2"]) is None


def test_numbers():
    """Of numbers instead of vectors."""
    x = numbers("float32")
    compare(["floor", "sqrt", "isfinite"], [x], TARGETS["SSE2"], 1)
    compare(["maximum", "less", "add"], [x, x[::-1].copy()], TARGETS["SSE2"], 1)


def test_every_elementwise_op_has_a_form():
    assert [r.name for r in OPS.values() if r.kind is Kind.ELEMENTWISE and not r.llvm] == ["cast"]
    assert operations.own_composites() >= {"relu", "gelu"}
