"""Slices unlike those that a plan is checked on: the wrong answer would be silent.

A plan is compared with real calls on the first slice and a few more. Here these are all alike, and
others are not: of another sign, size or order, with NaN, infinities or the largest integers.
"""

import math
import os
import random
import warnings

import numpy as np
import pytest
from calls_of import calls_of
from thresholds import always_plan

import xpapply

SLICES = 40
CHECKED = sorted({0, SLICES // 3, SLICES // 2, 2 * SLICES // 3, SLICES - 1})
DTYPES = ("f8", "i8", "u1", "f4", "i4", "?", "i2")
PER_EXPRESSION = 28 if os.environ.get("XPAPPLY_PROFILE") == "deep" else 1

EXPRESSIONS = """
len([0] * int(v[0]))
len([0] * v[0])
sum([3] * int(v[0]))
len((1, 2) * int(v[0] > 0))
[v[1]] * int(v[0] > 1)
len("ab" * int(v[0]))
len(int(v[0]) * [1, 2])
np.array([1, 2]) * int(v[0])
[1, 2] + v[0]
[1, 2] + v[:2]
(1, 2) * v[:2]
[1, 2] == v[0]
[int(v[0])] == [1]
[v[0]] == [v[1]]
(v[0], v[1]) == (1, 2)
(v[0], v[1]) < (1, 2)
[v[0], 5] < [v[1], 6]
max((v[0], 1), (v[1], 2))[0]
max([v[0], v[1]], [v[1], v[0]])[0]
sorted([(v[0], 1), (v[1], 2)])[0][1]
sorted([v[1], v[0], v[2]])[1]
sorted(v, reverse=True)[0]
min(v, key=lambda x: abs(x - 2))
max(range(len(v)), key=lambda i: v[i])
max(range(len(v)), key=v.__getitem__)
int(v[0]) in [1, 2]
v[0] in [1, 2]
v[0] in v[1:]
1 in v
v.tolist().index(v.max())
v.tolist().count(1)
list(v).index(v[2])
[1, 2, 3].index(v[0]) if v[0] in (1, 2, 3) else -1
[10, 20, 30][int(v[0])] if abs(v[0]) < 3 else 0
(10, 20, 30)[v[0] > 1]
[10, 20][bool(v[0] > 1)]
[10, 20][v[0] > 1]
{True: 1, False: 2}[bool(v[0] > 1)]
{0: 5, 1: 6}.get(int(v[0]), -1)
v[0] and v[1]
v[0] or v[1]
not v[0]
v[0] is None
v[0] > 1 > v[1]
0 < v[0] < 2
1 if v[0] else 2
int(v[0]) // 2
int(v[0]) % 3
int(v[0]) ** 2
2 ** int(v[0] % 4)
2.0 ** v[0]
int(v[0]) / (int(v[1]) or 1)
divmod(int(v[0]), 3)[1]
divmod(v[0], 3)[0]
v[0] // 2
v[0] % 3
-v[0] % 3
v[0] // -2
int(v[0]) << 2
int(v[0]) & 3
int(v[0]) ^ 5
~int(v[0])
abs(int(v[0]))
round(v[0])
round(v[0] / 3, 2)
round(float(v[0]) / 3, 2)
round(float(v[0]) * 12345, -2)
round(v[0] * 1.5)
int(round(float(v[0]) * 2.5))
int(v[0] * 0.7)
int(-1.5 * v[0])
math.floor(v[0] / 2)
math.ceil(v[0] / 2)
math.trunc(v[0] / 2)
float(v[0]).is_integer()
math.isclose(v[0], v[1])
math.copysign(1, v[0])
math.fmod(v[0], 3)
math.hypot(v[0], v[1])
math.atan2(v[0], v[1])
math.log(abs(v[0]) + 1)
math.gcd(int(v[0]), 6)
math.factorial(int(abs(v[0])) % 5)
math.comb(5, int(abs(v[0])) % 5)
math.prod(v[:3])
math.isnan(v[0])
sum(v > 1)
sum(x > 1 for x in v)
any(v > 3)
all(x < 5 for x in v)
[x for x in v if x > 1][0] if any(v > 1) else 0
len([x for x in v if x > 1])
next((x for x in v if x > 1), -1)
next((i for i, x in enumerate(v) if x > 1), -1)
sum(x * y for x, y in zip(v, v[1:]))
sum(v[i] * i for i in range(len(v)))
[a for a, b in zip(v, v[1:]) if a < b][:1] or [0]
list(map(lambda x: x * 2, v))
list(filter(lambda x: x > 1, v))[0] if (v > 1).any() else 0
list(reversed(v))[0]
np.where(v > 1, v, 0).sum()
v[v > 1].sum()
v[v > 1].size
v[v > 1][0] if (v > 1).any() else -1
v[np.argmax(v)]
v[::2].sum() - v[1::2].sum()
v[int(v[0]) % 3]
v[: int(abs(v[0])) % 4].sum()
v[-int(abs(v[0]) % 3):].sum()
v[v.argmin():].sum()
np.sort(v)[int(v[0] > 1)]
np.unique(v).size
np.diff(v).max()
np.cumsum(v)[-1]
np.clip(v, 0, 2).sum()
np.argmax(v > 1)
np.searchsorted(np.sort(v), 2)
np.count_nonzero(v == v[0])
np.flatnonzero(v > 1)[0] if (v > 1).any() else -1
np.median(v[v > 0]) if (v > 0).any() else 0.0
np.round(v / 3, 1).sum()
np.mean(v[1:-1])
np.ptp(v)
np.prod(v[:3])
np.isin(v, [1, 2]).sum()
np.roll(v, int(v[0]))[0]
np.repeat(v, 2)[3]
np.tile(v, 2).sum()
np.insert(v, 1, 5).sum()
np.delete(v, int(v[0]) % 3).sum()
np.append(v, 1).sum()
np.full(3, v[0]).sum()
np.zeros(int(abs(v[0])) % 3 + 1).size
np.arange(int(abs(v[0])) % 4 + 1).sum()
np.linspace(v[0], v[1], 3)[1]
np.eye(2)[int(v[0] > 1)]
np.array([v[0], v[1]]).max()
np.array([[v[0], 1], [2, v[1]]]).sum(0)
np.stack([v, v])[0, 0]
np.maximum(v[0], v[1])
np.where(v[0] > 1, v[1], v[2])
np.select([v > 2, v > 0], [v, -v], 0).sum()
np.piecewise(v.astype(float), [v < 1, v >= 1], [lambda x: -x, lambda x: x * 2]).sum()
np.interp(1.5, np.arange(len(v)), v)
np.polyval([1, 2], v[0])
np.dot(v, v[::-1])
np.linalg.norm(v)
np.histogram(v, bins=[0, 1, 2, 3])[0]
np.bincount(np.abs(v).astype(int) % 5, minlength=5)
np.digitize(v, [0, 1, 2]).sum()
np.percentile(v, 50)
np.floor_divide(v[0], 2)
np.mod(v[0], 3)
np.sign(v).sum()
np.float32(v[0]) * 2
np.int8(int(v[0]) % 100) + 1
v.astype(np.uint8)[0] if 0 <= v[0] < 200 else 0
v.astype(bool).sum()
v.max() == v[0]
v.argmax() == 0
(v == v.max()).sum()
v.item(0)
v[0].item() * 2
v.tolist()[0] + 1
v.tolist()[:2]
type(v[0]).__name__ == "float64"
isinstance(v[0], float)
isinstance(v[0].item(), int)
v.dtype.kind == "f"
str(v[0] > 1) == "True"
f"{int(v[0])}" == "1"
hash(int(v[0]) % 7) * 0
bool(v[0]) + bool(v[1])
True + (v[0] > 1)
(v[0] > 1) + (v[1] > 1)
(v[0] > 1) - 1
-(v > 1).astype(int)
~(v > 1)
(v > 1) * 2
(v[0] > 1) * 2.5
(v[0] > 1) and 7
[5, 6][int(v[0] > 1):]
(lambda a, b=v[0]: a + b)(v[1])
(lambda *a: sum(a))(*v)
(lambda a, *b: a - sum(b))(*v)
dict(a=v[0], b=v[1])["b"]
{k: x for k, x in zip("abc", v)}["c"]
sum({"a": v[0], "b": v[1]}.values())
len({int(v[0]) % 3, int(v[1]) % 3})
len({1: v[0]})
[*v, 1][-2]
(*v[:2], 9)
v[..., 0] + v[None, 0]
v[[0, -1]].sum()
v[np.array([True] + [False] * (len(v) - 1))]
v[(v > 0) & (v < 3)].sum()
v[np.where(v > 1)].sum()
v.reshape(2, -1).sum(1)
v.copy().sort() is None
np.sum(v, where=v > 1)
np.max(v, initial=2)
np.nansum(v)
np.average(v, weights=np.arange(1, len(v) + 1))
np.add.reduce(v)
np.maximum.accumulate(v)[-1]
np.subtract.outer(v, v).max()
np.gradient(v.astype(float))[0]
np.cross(v[:3], v[3:])[0] if len(v) == 6 else 0
np.convolve(v, [1, 1], "valid")[0]
np.fft.rfft(v).real[1]
np.trim_zeros(v).size
np.ediff1d(v)[0]
np.argwhere(v > 1).size
np.extract(v > 1, v).sum()
np.take(v, [0, int(v[0]) % 2])
np.choose(int(v[0] > 1), [v[0], v[1]])
np.array_equal(v, v[::-1])
np.allclose(v, v[0])
np.nonzero(v)[0].size
np.partition(v, 2)[2]
np.lexsort((v, -v))[0]
np.broadcast_to(v[0], 3)
np.triu(np.outer(v, v)).sum()
np.rint(v / 2)[0]
np.nan_to_num(v / (v[0] or 1))[1]
np.heaviside(v, 0.5).sum()
np.ldexp(1.0, int(v[0]) % 5)
np.power(2, np.abs(v).astype(int) % 10).sum()
np.left_shift(1, np.abs(v).astype(int) % 10).sum()
np.invert(v > 1)
np.logical_and.reduce(v > 0)
np.bitwise_xor.reduce(v.astype(int))
"""
"""What people write of a slice `v` of six numbers."""

REPEATS = """
len([0] * int(v[0]))
len([0] * v[0])
sum([3] * int(v[0]))
len((1, 2) * int(v[0] > 0))
[v[1]] * int(v[0] > 1)
len(int(v[0]) * [1, 2])
len("ab" * int(v[0]))
sum(2 * (v[1], v[2]))
len(v.size * [v[0]])
"""


LARGE = """
v[0].item() * 2
v[0].item() + 1
v[0].item() - v[1].item()
v[0].item() * v[1].item()
-v[0].item() > 0
abs(v[0].item()) > 5
abs(v[0].item()) // 3
v[0].item() // -1
v[0].item() // -1 > 0
v[0].item() % 7
v[0].item() ** 2 > 0
v[0].item() << 1
v[0].item() << 1 > 0
v[0].item() << (v[1].item() & 7) > 0
v[0].item() >> 2
~v[0].item()
v[0].item() & 255
v[0].item() / 3
v[0].item() / (v[1].item() or 1)
v[0].item() > v[1].item() / 2
v[0].item() == float(v[0])
v[0].item() > float(v[1])
float(v[0].item())
v[0].item() + 0.5
sum(v.tolist())
sum(v.tolist()) > 0
max(v.tolist()) + 1 > 0
math.prod(v.tolist())
sum(x * x for x in v.tolist())
sum(x * x for x in v.tolist()) > 0
abs(min(v.tolist()))
divmod(v[0].item(), -1)[0]
int(v[0]) - int(v[1]) > 0
-int(v[0]) > 0
int(v[0]) // -1 > 0
abs(int(v[0])) > 0
sum(int(x) for x in v) > 0
v[0] * 2 > 0
-v[0] > 0
abs(v[0]) > 0
v[0] // -1
int(v.sum()) > 0
int(v.sum()) + 1
float(v[0]) == v[0]
v[0] > 2.0**62
v[0] > 2**62
v[0].item() > 2**62
v[0] == 2**63 - 1
v[0].item() == 2**63 - 1
v[0].item() in (2**63 - 1, 0)
v[0] * 1.0
round(v[0].item(), -1)
math.sqrt(abs(v[0].item()))
math.log2(abs(v[0].item()) + 1)
math.gcd(v[0].item(), 12)
math.isqrt(abs(v[0].item()))
v[0].item().bit_length()
int(v[0]).bit_length()
math.floor(v[0].item() / 2)
int(v[0].item() / 2)
int(float(v[0]))
np.int64(v[0].item())
np.float64(v[0].item())
np.int32(v[0].item() & 1000)
np.uint64(v[0].item() & 1000) + np.uint64(1)
np.array([v[0].item(), 2])
np.array([v[0].item() * 1.5, 2])
True + v[0].item()
(v[0].item() > 0) * v[1].item()
"""
"""Python's integers have no end, and are compared with floats in all digits."""


@pytest.fixture(autouse=True)
def _always_plan(monkeypatch):
    always_plan(monkeypatch)


def array(r, dtype, kind):
    """`kind`: 0 and 1 small integers, 2 and 3 special values, in some slices or in all others."""
    rng = np.random.default_rng(r.randrange(2**32))
    checked = [[1, 2, 3, 1, 0, 2], [2, 1, 4, 3, 5, 0], [1, 2, 3, 1, 0, 2], [1] * 6][kind]
    arr = np.tile(np.array(checked), (SLICES, 1)).astype(dtype)
    others = rng.integers(0 if dtype in ("u1", "?") else -6, 7, arr.shape)
    if dtype[0] == "f" and kind >= 2:
        large = 1e300 if dtype == "f8" else 1e30
        special = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, np.nan, np.inf, -np.inf, large, -1.0, 3.0]
        others = rng.choice(special, arr.shape)
    elif dtype != "?" and kind == 2:
        info = np.iinfo(dtype)
        special = np.array([info.min, info.max, 0, 1, 2, info.max // 2], dtype)
        others = rng.choice(special, arr.shape)
    unlike = [k for k in range(SLICES) if k not in CHECKED]
    unlike = rng.choice(unlike, r.choice([1, 5, len(unlike)]), replace=False)
    arr[unlike] = others[unlike].astype(dtype)
    return arr


def outcome(apply, source, arr):
    """The result or what was raised, and how often the function was called."""
    f = eval(f"lambda v: {source}", {"np": np, "math": math})
    with warnings.catch_warnings(), xpapply.options(fallback="silent"), calls_of(f) as calls:
        warnings.simplefilter("ignore")
        try:
            return apply(f, 1, arr.copy()), calls.number
        except Exception as error:
            return error, calls.number


def check(source, arr):
    """Compare with the loop; returns the number of calls."""
    want, _ = outcome(np.apply_along_axis, source, arr)
    got, calls = outcome(xpapply.apply_along_axis, source, arr)
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert (type(got), str(got)) == (type(want), str(want))
        return calls
    assert type(got) is type(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    rtol = 1e-4 if "f4" in (arr.dtype.str[1:], want.dtype.str[1:]) else 1e-12
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol, 0)
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got.real[zero]), np.signbit(want.real[zero]))
    else:
        np.testing.assert_array_equal(got, want)
    return calls


KINDS = [(dtype, kind) for dtype in DTYPES for kind in range(4)]
HUGE = {"] *", ") *", "* [", '" *', "roll", "arange", "* v"}
"""In what integers of all sizes would take all memory."""


def kinds(source):
    return [k for k in KINDS if k[1] != 2 or not any(x in source for x in HUGE)]


@pytest.mark.parametrize("source", EXPRESSIONS.strip().splitlines())
def test_unlike_slices(source):
    r = random.Random(source)
    for dtype, kind in r.sample(kinds(source), min(PER_EXPRESSION, len(kinds(source)))):
        check(source, array(r, dtype, kind))


@pytest.mark.parametrize("source", REPEATS.strip().splitlines())
def test_a_list_times_a_number_is_repeated(source):
    """As often as the number of each slice says; it was multiplied, as an array would be."""
    r = random.Random(source)
    for dtype, kind in kinds(source):
        check(source, array(r, dtype, kind))


@pytest.mark.parametrize("source", LARGE.strip().splitlines())
def test_the_largest_integers(source):
    r = random.Random(source)
    for dtype in ("i8", "u8"):
        check(source, array(r, dtype, 2))


@pytest.mark.parametrize("source", ["sum([3] * int(v[0]))", "len((1, 2) * int(v[0] > 0))"])
def test_repeating_needs_no_loop(source):
    assert check(source, array(random.Random(0), "i8", 1)) < SLICES
