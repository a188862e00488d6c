"""dask's own tests of apply_along_axis and apply_gufunc, run against ours."""

import re

import numpy as np
import pytest

import xpapply

da = pytest.importorskip("dask.array")
of_gufunc = pytest.importorskip("dask.array.tests.test_gufunc")
of_routines = pytest.importorskip("dask.array.tests.test_routines")

pytestmark = pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")


def apply_gufunc(
    func,
    signature,
    *args,
    output_dtypes=None,
    output_sizes=None,
    vectorize=None,
    allow_rechunk=False,
    meta=None,
    **kwargs,
):
    """`dask.array.apply_gufunc` in words of ours: `func` gets one slice of each array."""
    inputs, outputs = re.sub(r"\s", "", signature).split("->")
    for name, size in (output_sizes or {}).items():
        outputs = re.sub(rf"\b{name}\b", str(size), outputs)
    if meta is not None:
        output_dtypes = [m.dtype for m in meta]
    if output_dtypes is not None and not isinstance(output_dtypes, (tuple, list)):
        output_dtypes = [output_dtypes]
    how = ("axis", "axes", "keepdims")
    own = {k: v for k, v in kwargs.items() if k not in how}
    how = {k: v for k, v in kwargs.items() if k in how and v is not None}

    def f(*slices):
        return func(*slices, **own)

    ours = xpapply.vectorize(f, output_dtypes, signature=f"{inputs}->{outputs}")
    if output_sizes and "axis" in how:  # another dim, for ours
        how = {"axes": [(how["axis"],)] * 2}
    try:
        with xpapply.options(rechunk="silent" if allow_rechunk else "raise"):
            return ours(*args, **how)
    except TypeError as error:  # as NumPy's gufuncs have it
        raise ValueError(str(error)) from None


def gufunc(func, *, signature, **how):
    return lambda *args: apply_gufunc(func, signature, *args, **how)


def as_gufunc(signature, **how):
    return lambda func: gufunc(func, signature=signature, **how)


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    """Put our functions where dask's tests find theirs."""
    monkeypatch.setattr(da, "apply_along_axis", xpapply.apply_along_axis)
    for place in (da, of_gufunc):
        for own in (apply_gufunc, gufunc, as_gufunc):
            monkeypatch.setattr(place, own.__name__, own)


test_apply_along_axis = of_routines.test_apply_along_axis

OTHERS = {
    "without arguments": "scalar_output two_scalar_output two_mixed_outputs vector_output",
    "f gets slices, not blocks": (
        "elemwise_02 elemwise_loop broadcasting_loopdims output_dtypes test_as_gufunc_with_meta"
    ),
    "arrays are cut alike instead": "elemwise_01b check_inhomogeneous_chunksize",
    "chunks that are merged may grow up to the size that dask gives them": "chunksizes_adjustment",
    "other words for this error": "check_same_dimsizes infer_dtype",
    "of other functions": "_parse_gufunc _validate_normalize via_numba",
    "blocks of other libraries are refused": "preserve_meta_type",
}
"""Tests that are of what ours does in another way, by that."""


def _is_other(name):
    return any(
        name.endswith(part) or (part[0] == "_" and part in name) or f"{part}_0" in name
        for parts in OTHERS.values()
        for part in parts.split()
    )


NAMES = [n for n in dir(of_gufunc) if n.startswith("test_") and not _is_other(n)]
globals().update({name: getattr(of_gufunc, name) for name in NAMES})


def test_dask_has_these_tests():
    assert len(NAMES) >= 25
    assert {"test_apply_gufunc_axis_03", "test_apply_gufunc_axes_02", "test_gufunc"} <= {*NAMES}


def test_they_can_fail(monkeypatch):
    """A wrong function is noticed, so these tests do run ours."""
    wrong = lambda *_, **__: da.zeros((10, 3))  # noqa: E731
    monkeypatch.setattr(of_gufunc, "apply_gufunc", wrong)
    with pytest.raises(AssertionError):
        of_gufunc.test_apply_gufunc_axis_02()
    monkeypatch.setattr(da, "apply_along_axis", wrong)
    with pytest.raises(AssertionError):
        test_apply_along_axis("sum", np.sum, False, (10, 15, 20), 0)


def test_what_is_refused_is_refused_by_ours_as_well():
    a, b = da.ones(3, chunks=2), da.ones(4, chunks=2)
    with pytest.raises(ValueError, match="do not broadcast together"):
        apply_gufunc(lambda x, y: x + y, "(),()->()", a, b)
