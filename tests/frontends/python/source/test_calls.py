"""Calls of library functions, compiled, against the libraries."""

import contextlib

import numpy as np
import pytest
from fuzz import loops

from xpapply.errors import TraceError

HEAD = "import functools\nimport math\nimport numpy as np\n"
HEAD += "EDGES = np.array([-2.0, -0.5, 0.0, 1.0, 1.0, 3.0])\n"
HEAD += "TENTHS = np.array([0.1, 0.2, 1.0], np.float32)\n"
HEAD += "MIXED = np.array([0.5, -3.0, 2.0, 2.0, -1.0, 4.0, 0.0, 1.0, -0.5, 3.0, -2.0])\n"
RNG = np.random.default_rng(0)


def slices(dtype, n, count=12):
    """Ordinary slices, some with special values or equal ones."""
    x = RNG.standard_normal((count, n)) * 3
    if np.dtype(dtype).kind == "f":
        for k, s in enumerate((np.nan, np.inf, -np.inf, -0.0, 0.0, 1e300, 1.0)):
            x[k + 1, RNG.integers(n)] = s
        x[8] = np.round(x[8])
        x[9, 0] = x[9, -1] = np.nan
        x[10] = np.sort(x[10])
    with np.errstate(all="ignore"):
        x = np.abs(x * 3) if np.dtype(dtype).kind == "u" else x
        return x.astype(dtype)


EXPRESSIONS = """
v[slice(1, 4)].sum() + v[slice(3)][0]
v[slice(None, None, -1)][0]
np.r_[0.5, v, 2].sum()
np.r_[False, v > 0, False][1]
np.diff(np.r_[0, v > 0, 0])[0]
np.r_[v, v[0]]
np.deg2rad(v)
np.rad2deg(v[0]) + np.radians(v[-1]) - np.degrees(float(v[0]))
np.deg2rad(len(v))
np.argsort(v, kind="stable")
np.asarray(v, dtype=float).sum() + np.asarray(v, float)[0]
np.array(v, dtype=np.float64)
np.asarray(np.asarray(v > 0, dtype=int), dtype="f8") / 3
np.array(np.abs(v), "f4") / 3
np.argsort(v)
v.argsort()[::-1]
np.quantile(v, 0.3)
np.quantile(v, 1.0)
np.percentile(v, 90)
np.percentile(v, [25, 50, 75])
np.percentile(v, (5, 95.5))
np.quantile(v, np.array([0.1, 0.9]))
len(np.tile(v, int(abs(v[0]) < 2) * 3 - 1))
np.median(v)
np.clip(v, -1, 1)
np.clip(v, -0.5, None)
np.clip(v[0], 0.0, 1.0)
np.clip(float(v[0]), 0, 1)
v.clip(min=0)
np.clip(v, v[0], v[-1])
np.round(v, 2)
v.round()
np.round(v[0], 1)
np.round(float(v[0]), 3)
np.around(v, -1)
np.unique(v)
len(np.unique(v))
np.unique(v, return_counts=True)[1].max()
np.bincount(np.abs(v).astype(int) % 5)
np.bincount(np.abs(v).astype(int) % 5, minlength=7)
np.bincount(np.arange(len(v)) % 3, weights=v)
np.histogram(v, 5, (-2, 2))[0]
np.histogram(v, bins=4)[0]
np.histogram(v, bins=4)[1]
np.histogram(v, bins=EDGES)[0]
np.histogram(v, 3, range=(0, 1))[1]
np.digitize(v, EDGES)
np.digitize(v[0], EDGES, right=True)
np.searchsorted(EDGES, v)
np.searchsorted(EDGES, v[0], side="right")
np.searchsorted(np.sort(v), 0.1, side="right") + np.searchsorted(TENTHS, 0.1, "right")
np.digitize(0.1, TENTHS) + np.digitize(1, TENTHS) + np.digitize(True, TENTHS, right=True)
np.searchsorted(v, v[::-1]) + np.searchsorted(v, v, "right")
np.interp(v, MIXED, MIXED[::-1])
np.interp(np.flatnonzero(v < 0), np.flatnonzero(v >= 0), v[v >= 0])
np.interp([0.5, 1.5], np.arange(len(v)), v) + np.interp(3, np.arange(len(v)), np.arange(len(v)))
len(np.arange(v[0], v[-1], math.inf)) + len(np.arange(0.0, float(v[0]) * 1e-320, 1e10))
np.interp(v[0], MIXED, MIXED[::-1]) + np.interp(v[-1], MIXED[:3], MIXED[3:6])
np.convolve(v, [0.25, 0.5, 0.25])
np.convolve(v, np.ones(3) / 3, mode="same")
np.convolve(v, np.ones(3) / 3, mode="valid")
np.convolve(np.array([1.0, -1.0]), v, "valid")
np.correlate(v, v, "full")
np.correlate(v, v[:2])
np.dot(v, v)
np.dot(v, v[::-1])
np.dot(v[::2], v[::2])
v @ v[::-1]
v.dot(v)
np.vdot(v, v)
np.inner(v[:1], v[:1])
np.cumsum(v)
np.cumprod(v)
v.cumprod()
np.maximum.accumulate(v)
np.minimum.accumulate(v)[-1]
np.add.accumulate(v)
np.nansum(v)
np.nanmean(v)
np.nanstd(v)
np.nanvar(v, ddof=1)
np.nanmax(v)
np.nanmin(v)
np.nanmedian(v)
np.ptp(v)
np.roll(v, 1)
np.roll(v, -2)
np.flip(v)
np.concatenate((v, v[:1]))
np.concatenate([v[1:], np.zeros(2)])
np.append(v, 1.0)
np.append(v, v)
np.hstack((v, v))
np.vstack((v, v[::-1]))
np.column_stack([v, v])
np.linspace(0, 1, 7)
np.linspace(float(v[0]), 2.5, 5)
np.linspace(0, 3, 4, endpoint=False)
np.arange(0, 1, 0.1)
np.arange(5, -3, -2)
np.arange(2, 9)
np.tile(v, 2)
np.repeat(v, 3)
v.repeat(2)
np.trapezoid(v)
np.trapezoid(v, dx=0.5)
np.trapezoid(v, np.arange(len(v)) * 0.5)
np.gradient(v)
np.gradient(v, 0.5)
np.outer(v, v)
np.polyval([1.0, -2.0, 0.5], v)
np.polyval([1.0, -2.0, 0.5], v[0])
np.isclose(v, v[::-1])
np.isclose(v, 1.0)
np.isclose(v[0], v[-1])
np.allclose(v, v)
np.allclose(v, 1.0, atol=10)
np.where(v > 0)[0]
np.where(v > 0, v, 0)
np.where(v > 0, 1, 0)
np.where(v > 0, 1.5, v)
np.where(v > 0, v, -v)
np.nonzero(v > 0)[0]
v.mean()
v.var()
v.std(ddof=1)
np.std(v, axis=0)
v.sum(axis=-1)
(v > 0).mean()
(v > 0).sum()
np.mean([v[0], v[-1]])
np.max([float(v[0]), 2.0])
v.astype(int)
v.astype(np.float32)
v.astype(float)
sum(v.tolist())
np.delete(v, 0)
np.insert(v, 1, 0)
np.sort(v)
np.diff(v)
np.interp(v, EDGES[2:4], EDGES[:2])
np.clip(v, 0, 1)
0.0 if float(v[0]) < 0.0 else float(v[0])
np.clip(v[0], 0.0, v[-1])
v @ v
v[1:] @ v[:-1]
v[::2] @ v[::-2]
len(v.strides)
np.hypot(v[0], v[-1])
v.nonzero()[0]
v.ravel()
np.any(v > 1, axis=0)
np.prod(v)
round(float(v[0]), 2)
round(v[0], 1)
round(float(v[0]) / 8, 3)
round(int(len(v)) , 1)
len(v) ** (len(v) % 5)
np.count_nonzero(v)
np.count_nonzero(v > 0) * np.float32(0.1)
math.fsum(v)
math.fsum([1e16, 1.0, float(v[0]), -1e16])
math.prod(v)
math.prod([2, 3, len(v)])
math.factorial(len(v))
math.comb(len(v) + 5, 3)
math.perm(len(v), 2)
math.isqrt(len(v) * 1000)
math.lcm(len(v), 6)
functools.reduce(lambda a, b: a * 0.5 + b, v, 0.0)
functools.reduce(max, v)
np.vstack((v, v, v[::-1])).sum(axis=0)
np.vstack((v, v, v[::-1])).sum(axis=1)
np.vstack((v, v, v[::-1])).sum()
np.mean(np.column_stack((v, v[::-1])), axis=0)
np.mean(np.column_stack((v, v[::-1])), axis=1)
np.column_stack((v, v[::-1])).mean()
np.column_stack((v, v[::-1])).max(axis=0)
np.column_stack((v, v[::-1])).min(axis=1)
np.column_stack((v, v[::-1])).argmax(axis=0)
np.argmin(np.vstack((v, v[::-1], v)), axis=0)
np.argmax(np.column_stack((v, v[::-1])), 1) + np.vstack((v, v)).argmin()
np.max(np.outer(v, v))
np.column_stack((v,)).sum(axis=0)
np.power(v[0], -1)
np.power(0.1, 2)
np.power(abs(v[0]), 0.5)
np.int64(len(v)) ** 1.5
1.5 ** np.int32(len(v))
np.bool_(v[0] > 0) ** 0.3
""".strip().splitlines()


def source(expression):
    return f"{HEAD}def f(v):\n    for _ in range(1):\n        pass\n    return {expression}\n"


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_the_library(expression, pairs):
    compiled = 0
    for dtype, n in pairs(("float64", "float32", "int64", "uint8", "bool"), (1, 2, 7, 40)):
        given = loops.Given(slices(dtype, n), False)
        try:
            assert loops.compared(source(expression), given) is None, (dtype, n)
            compiled += 1
        except (TraceError, loops.Skipped):
            pass
    assert compiled


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_whose_number_it_is(expression):
    program = f"{HEAD}def f(v):\n    x = {expression}\n    return isinstance(x, np.generic)\n"
    for dtype in ("float64", "int64"):
        with contextlib.suppress(TraceError, loops.Skipped):
            assert loops.compared(program, loops.Given(slices(dtype, 7), False)) is None, dtype


REFUSED = {
    "np.quantile(v, [0, 1])": "quantiles at an array .int64",
    "np.quantile(v, [True, False])": "quantiles at an array .bool",
    "np.percentile(v, np.arange(3).astype(np.uint8))": "quantiles at an array .uint8",
    "np.percentile(v, TENTHS)": "quantiles at an array .float32",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_where_numpy_takes_elements_or_other_types(expression):
    x = np.array([[-0.0, 1.0, 2.0], [-1.0, 0.7, 3.0]])
    with pytest.raises(TraceError, match=REFUSED[expression]):
        loops.compared(source(expression), loops.Given(x, False))


WARN = """
np.mean(w)
w.std()
np.var(v, ddof=12)
np.median(w)
np.nanmean(w)
np.nanmean(w[:1] + NAN)
np.nanvar(v, ddof=12)
np.nanstd(w)
np.nanmedian(w)
np.nanmax(v * NAN)
np.nanmin(v * NAN)
np.column_stack((w, w)).mean()
np.mean(np.column_stack((w, w)), axis=0)[1]
np.mean(np.vstack((w, w)), axis=1)[1]
""".strip().splitlines()
"""What NumPy warns of by itself, where warnings of floats are ignored too; `w` may be empty."""


@pytest.mark.skipif(loops.MAY_SKIP is not None, reason=str(loops.MAY_SKIP))
@pytest.mark.parametrize("expression", WARN)
def test_warnings_that_are_not_ignored(expression):
    program = f"""{HEAD}NAN = np.nan
def f(v):
    w = v if v[0] > 0 else v[:0]
    with np.errstate(all="ignore"):
        return {expression} if v[1] > 0 else 1.0
"""
    given = loops.Given(np.abs(slices("float64", 9)[:1]) * np.ones((10, 1)), False)
    given.slices[3:, 0] = given.slices[:2, 1] = -1
    assert loops.compared(program, given) is None
