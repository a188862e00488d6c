"""Patched calls give what the originals give: functions, axes, dtypes, orders, classes."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from outcomes import outcome

from xpapply.loop import originals

pytestmark = pytest.mark.usefixtures("always", "patched")

CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
DTYPES = ("float64", "float32", "float16", "int64", "int8", "uint8", "bool", "complex128", ">f4")
FUNCTIONS = {
    "sum": np.sum,
    "median": np.median,
    "sorted": sorted,
    "len": len,
    "standard": lambda v: (v - v.mean()) / (1 + abs(v).max()),
    "mask": lambda v: v[v > v.mean()].sum(),
    "branch": lambda v: v.max() if v[0] else v.min(),
    "matrix": lambda v: np.outer(v, v),
    "pair": lambda v: (v[0], v[-1]),
    "list": lambda v: [v.sum(), 1],
    "text": lambda v: str(v[0]),
    "none": lambda v: None,
    "first": lambda v: v[0],
    "hash": lambda v: hash(complex(v[0])) % 7,
    "itself": lambda v: v,
    "truth": lambda v: bool((v == v[0]).all()),
    "with nan": lambda v: np.nan if v[0] else 1.0,
    "unique": lambda v: len(np.unique(v)),
    "nanmedian": lambda v: np.nanmedian(v),
    "cumsum": np.cumsum,
}


def arrays(dtype, shape):
    """Numbers that all of the dtypes have, more or less."""
    kind = np.dtype(dtype).kind
    return hnp.arrays("int8", shape).map(lambda x: (x / 4 if kind in "fc" else x).astype(dtype))


@st.composite
def inputs(draw):
    """An array in some order, perhaps of a subclass, and an axis."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5))
    x = draw(arrays(draw(st.sampled_from(DTYPES)), shape))
    how = draw(st.sampled_from(["as it is", "F", "reversed", "every other", "transposed"]))
    if how == "F":
        x = np.asfortranarray(x)
    elif how == "reversed":
        x = x[::-1]
    elif how == "every other":
        x = np.repeat(x, 2, -1)[..., ::2]
    elif how == "transposed":
        x = x.T
    kind = draw(st.sampled_from(["array"] * 4 + ["list", "masked", "matrix", "subclass", "memmap"]))
    if kind == "list":
        x = x.tolist()
    elif kind == "masked":
        x = np.ma.array(x, mask=draw(hnp.arrays(bool, x.shape)))
    elif kind == "matrix" and x.ndim == 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy likes it no more
            x = np.asmatrix(x)
    elif kind == "subclass":
        x = x.view(Sub)
    elif kind == "memmap":
        x = np.ascontiguousarray(x).view(np.memmap)
    ndim = np.ndim(x)
    axis = draw(st.integers(-ndim, ndim - 1))
    return x, draw(st.sampled_from([axis, np.int64(axis)]))


class Sub(np.ndarray):
    pass


def check(ours, own):
    (got, warned), (want, should) = ours, own
    assert type(got) is type(want)
    assert warned == should
    if isinstance(want, tuple):
        if want and isinstance(want[0], type):
            assert got == want
        else:
            for a, b in zip(got, want, strict=True):
                check((a, warned), (b, should))
        return
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if isinstance(want, np.ma.MaskedArray):
        np.testing.assert_array_equal(np.ma.getmaskarray(got), np.ma.getmaskarray(want))
        got, want = got.filled(0), want.filled(0)
    if want.dtype.kind in "fc":
        eps = np.finfo(want.dtype).eps
        np.testing.assert_allclose(got, want, rtol=64 * eps, atol=64 * eps * 100)
    else:
        np.testing.assert_array_equal(got, want)


@given(inputs(), st.sampled_from(sorted(FUNCTIONS)))
@settings(max_examples=min(300, 8 * settings().max_examples), suppress_health_check=CHECKS)
def test_apply_along_axis(given, name):
    (x, axis), f = given, FUNCTIONS[name]
    want = outcome(lambda: originals.apply_along_axis(f, axis, x))
    check(outcome(lambda: np.apply_along_axis(f, axis, x)), want)


@given(inputs(), st.sampled_from(sorted(FUNCTIONS)))
@settings(max_examples=40, suppress_health_check=CHECKS)
def test_masked_apply_along_axis(given, name):
    (x, axis), f = given, FUNCTIONS[name]
    want = outcome(lambda: originals.masked_apply_along_axis()(f, axis, x))
    check(outcome(lambda: np.ma.apply_along_axis(f, axis, x)), want)


NUMBERS = {
    "larger": lambda a, b: a - b if a > b else a + b,
    "product": lambda a, b: a * b,
    "divided": lambda a, b: a / b if b else a,
    "pair": lambda a, b: (a, b),
    "text": lambda a, b: f"{a}",
    "kind": lambda a, b: type(a).__name__,
    "raises": lambda a, b: [1, 2][int(abs(a))],
    "whole": lambda a, b: int(abs(a)) // 2,
    "root": lambda a, b: abs(a) ** 0.5,
    "first": lambda a, b: a,
    "truth": lambda a, b: a == b,
}


@given(inputs(), inputs(), st.sampled_from(sorted(NUMBERS)), st.sampled_from([None, "d", "F", "O"]))
@settings(max_examples=100, suppress_health_check=CHECKS)
def test_vectorize_of_numbers(first, second, name, otypes):
    x, y = first[0], second[0]
    if name == "pair" and otypes:
        otypes *= 2
    for operands in ((x, x), (x, 3), (2.5, x), (x, y), (x, True), (np.float32(2), x)):
        made = np.vectorize(NUMBERS[name], otypes=otypes)
        again = np.vectorize(NUMBERS[name], otypes=otypes)
        want = outcome(lambda: originals.call_vectorize(made, *operands))  # noqa: B023
        check(outcome(lambda: again(*operands)), want)  # noqa: B023


SLICES = {
    "dot": (lambda v, w: (v * w).sum(), "(n),(n)->()"),
    "both": (lambda v, w: (v.max(), w), "(n),(m)->(),(m)"),
    "outer": (lambda v, w: v[:, None] + w, "(n),(m)->(n,m)"),
    "one number": (lambda v, w: v + w, "(n),()->(n)"),
    "wrong": (lambda v, w: v, "(n),(m)->()"),
    "mask": (lambda v, w: v[v > v.mean()].sum() + w[0], "(n),(m)->()"),
    "sizes": (lambda v, w: v[:2], "(3),(m)->(k)"),
}


@given(inputs(), inputs(), st.sampled_from(sorted(SLICES)), st.sampled_from([None, "d"]))
@settings(max_examples=100, suppress_health_check=CHECKS)
def test_vectorize_of_slices(first, second, name, otypes):
    f, signature = SLICES[name]
    x, y = first[0], second[0]
    if otypes and name == "both":
        otypes = "dd"
    for operands in ((x, x), (x, y), (x, 3)):
        made = np.vectorize(f, otypes=otypes, signature=signature)
        want = outcome(lambda: originals.call_vectorize(made, *operands))  # noqa: B023
        check(outcome(lambda: made(*operands)), want)  # noqa: B023


def test_some_of_it_runs_at_once(patched):
    x = np.random.default_rng(0).random((5, 4, 3))
    for name, f in FUNCTIONS.items():
        if name not in ("none", "text"):
            np.apply_along_axis(f, 1, x)
    for f in NUMBERS.values():
        np.vectorize(f)(x, 2.0)
    for f, signature in list(SLICES.values())[:4]:
        np.vectorize(f, signature=signature)(x, x[..., 0] if "()->(n)" in signature else x)
    rows = patched.report.rows
    ran = [row for row in rows if "loop" not in row.engines]
    assert len(ran) >= 20
