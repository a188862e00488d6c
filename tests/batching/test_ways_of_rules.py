"""How each example of a rule runs: for all slices at once, slice by slice, or not at all.

The tests of values cannot tell: a call for each slice has the right ones.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import test_numpy_rules

from xpapply.batching import NoRule, one_by_one, resolve
from xpapply.batching.numpy import ROWS

SINGLY = """
quantile(v,0.5,weights=k*k,method="inverted_cdf") average(m) interp(s,v,w) interp(c,k,v,period=4.5)
interp(s,S,w,period=5) sum(m,where=M>0) sum(m,keepdims=True) digitize(k,S)
zeros_like(v,shape=(2,)) roll(m,i[0]) pad(v,2,mode="linear_ramp")
pad(v,1,"reflect",reflect_type="odd") pad(v,{0:(1,2)}) take(v,i+3,mode="wrap")
take(m,i[0],axis=0) take_along_axis(m,i,axis=None) searchsorted(v,s) searchsorted(v,w)
searchsorted(S,v,sorter=i) histogram(v,[2]) histogram(v[:0],3) histogram(v,S,weights=w)
searchsorted(c[::-1],v) searchsorted([1,np.nan],v) digitize(v,[0,np.nan]) average(m,weights=M)
trapezoid(m,M,axis=0) polyval(M,v) array([s,v[0]],dtype=int) interp(s,[1],v[:1])
percentile(v,s*0+50) nanmedian(v,keepdims=True) nanpercentile(v,50,keepdims=True) linalg.norm(s)
linalg.matrix_rank(v) linalg.lstsq(m,m) linalg.multi_dot([m,m,m]) roots(v) polyint(u,2)
einsum("...i,i",m,v) cov(v,aweights=k*k+1) polynomial.chebyshev.chebval(v,u)
polynomial.chebyshev.chebfit(v,w,1)
"""
"""Slice by slice."""

NO_RULE = """
max(v,1) cumulative_sum(m) where(v) piecewise(v,[v>1],[np.abs]) isin(v,c,assume_unique=True)
repeat(v,i) compress(v>1,v) delete(v,i) pad(v,2,constant_values=s) bincount(i) histogram(v,"auto")
repeat(v,i[0]) nan_to_num(v,copy=False) nan_to_num(v,False) histogram_bin_edges(v,"fd")
array(v,copy=False) roots(u)
"""
"""By the tracer, or in the loop."""

WORDS = {True: "slice by slice", False: "for all slices at once", None: "by no rule"}


def way(rule: Any, call: Any, args: tuple, kwargs: dict) -> bool | None:
    """Whether it runs slice by slice; None: there is no rule."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return one_by_one(rule(np, call, args, kwargs))
        except NoRule:
            return None


@pytest.mark.parametrize("source", list(dict.fromkeys(c[0] for c in test_numpy_rules.CASES)))
def test_numpy(source: str) -> None:
    rows = {row.name.removeprefix("numpy."): row for row in ROWS}
    for n, m in ((5, 8), (4, 3), (5, 4)):
        try:
            with np.errstate(all="ignore"):
                name, args, kwargs = test_numpy_rules.arguments(
                    source, np.dtype("f8"), n, m, 0, True
                )
        except (IndexError, ValueError, TypeError):
            continue
        call = resolve(rows[name].name)
        if call is None:
            pytest.skip("a newer NumPy has it")
        try:
            found = way(rows[name].rule, call, args, kwargs)
        except Exception:  # as the call on a slice does, says test_numpy_rules
            return
        expected = None if source in NO_RULE.split() else source in SINGLY.split()
        assert found is expected, f"{WORDS[found]} instead of {WORDS[expected]}"
        return


SCIPY_SINGLY = """
signal.lfilter(X,list,array) signal.convolve(array,X,'same') signal.correlate(array,X,'same')
signal.convolve(X,Y) signal.correlate(X,Y) ndimage.median_filter(X,footprint=list)
ndimage.median_filter(X,3,axes=0) linalg.norm(tuple) spatial.distance.euclidean(X,Y,w=array)
spatial.distance.sqeuclidean(X,Y,w=array) spatial.distance.cityblock(X,Y,w=array)
spatial.distance.chebyshev(X,Y,w=array) spatial.distance.hamming(X,Y,w=array)
spatial.distance.cosine(X,Y,w=array) spatial.distance.correlation(X,Y,w=array)
spatial.distance.braycurtis(X,Y,w=array) spatial.distance.canberra(X,Y,w=array)
spatial.distance.minkowski(X,Y,w=array) signal.medfilt2d(tuple,7)
signal.convolve2d(tuple,3x3d,boundary='symm') signal.correlate2d(tuple,3x3d,boundary='symm')
stats.chi2_contingency(X) signal.convolve2d(3x3d,tuple) signal.convolve2d(tuple,5x2d)
signal.correlate2d(tuple,5x2d)
"""
"""Examples of rows that are not called slice by slice in general."""


def label(name: str, args: tuple, kw: dict) -> str:
    def short(x: Any) -> str:
        if isinstance(x, np.ndarray) and x.ndim > 1:
            return "x".join(map(str, x.shape)) + x.dtype.char
        if isinstance(x, (np.ndarray, list, tuple)):
            return "array" if isinstance(x, np.ndarray) else type(x).__name__
        return x if x in ("X", "Y") else repr(x)

    given = [*map(short, args), *(f"{k}={short(x)}" for k, x in kw.items())]
    return f"{name.removeprefix('scipy.')}({','.join(given)})"


def test_scipy() -> None:
    pytest.importorskip("scipy")
    import test_scipy_rules as known

    wrong = []
    listed = set(SCIPY_SINGLY.split())
    for name, args, kw, kinds, lengths in known.EXAMPLES:
        row = known.ROW[name]
        call = known.function(name)
        if call is None:
            continue
        kind = kinds[0]
        x, y = (known.slices(kind, 4, lengths[0], seed) for seed in (1, 2))
        batch, more = known.filled_in(args, kw, x, y, known.Batched)
        try:
            found = way(row.rule, call, tuple(batch), more)
        except Exception:
            continue
        example = label(name, args, kw)
        if found is not (row.kind == "rows" or example in listed):
            wrong.append(f"{example}: {WORDS[found]}")
    assert not wrong, "\n".join(wrong)
