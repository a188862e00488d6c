"""Each NumPy function that is run for all slices at once, against its calls on single slices."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.fft  # NumPy loads these late, and `resolve` looks at what is loaded
import numpy.polynomial
import pytest

import xpapply
from xpapply.batching import Batched, NoRule, resolve
from xpapply.batching.numpy import ROWS
from xpapply.batching.numpy.histograms import bincount_rows
from xpapply.batching.rules import batch_size, mapped

BY_NAME = {row.name.removeprefix("numpy."): row for row in ROWS}
BIT, NEAR = "bit", "near"


def nasty(dtype: Any, shape: tuple[int, ...], seed: int, plain: bool = False) -> np.ndarray:
    """Values with ties and, unless `plain`, with nan, inf and negative zeros; a row of each."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -4
        return rng.integers(low, 9, shape).astype(dtype)
    x = rng.normal(size=shape) * 3
    ties = rng.random(shape)
    x = np.where(ties < 0.3, np.round(x), x)
    if dtype.kind == "c":
        x = x + 1j * rng.normal(size=shape)
    if not plain:
        x = np.where(ties > 0.93, np.nan, x)
        x = np.where((ties > 0.88) & (ties < 0.93), np.inf, x)
        x = np.where((ties > 0.85) & (ties < 0.88), -np.inf, x)
        x = np.where((ties > 0.75) & (ties < 0.85), -0.0, x)
        if shape[0] > 2:
            x[0] = np.where(np.isfinite(x[0]), x[0], 1)  # one slice without
            x[1] = 2.0  # level
        if shape[0] > 3:
            x[3] = np.nan
    return x.astype(dtype)


def outcome(function: Any) -> tuple[Any, type[BaseException] | None, set[type]]:
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
        warnings.simplefilter("always")
        try:
            found, raised = function(), None
        except NoRule:
            raise
        except Exception as e:
            found, raised = None, type(e)
    return found, raised, {w.category for w in caught}


def compare(found: Any, wanted: list[Any], exact: bool, where: str) -> None:
    first = wanted[0]
    if isinstance(first, (tuple, list)) and not isinstance(found, Batched):
        assert type(found) is type(first), where
        if isinstance(first, tuple) and not any(isinstance(x, Batched) for x in found):
            assert all(found == w for w in wanted), where
            return
        assert len(found) == len(first), where
        for f, *w in zip(found, *wanted, strict=True):
            compare(f, w, exact, where)
        return
    arrays = [np.asarray(w) for w in wanted]
    got = found.array if isinstance(found, Batched) else np.stack([np.asarray(found)] * len(arrays))
    assert {a.shape for a in arrays} == {got.shape[1:]}, where
    assert {a.dtype for a in arrays} == {got.dtype}, f"{where} {got.dtype}"
    want = np.stack(arrays)
    if exact or want.dtype.kind in "biuOSU":
        np.testing.assert_array_equal(got, want, where)
        if want.dtype.kind == "f":
            number = ~np.isnan(want)
            signs = np.signbit(got) == np.signbit(want)
            assert signs[number].all(), f"{where}: the sign of a zero"
    else:
        rtol = 200 * np.finfo(want.dtype).eps
        finite = want[np.isfinite(want)]
        scale = float(np.abs(finite).max(initial=0))
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * scale, err_msg=where)


def check(name: str, args: tuple, kwargs: dict, exact: bool, hint: str = "") -> bool:
    """Run one call both ways; False if the rule does not cover it."""
    row = BY_NAME[name]
    call = resolve(row.name)
    if call is None:
        pytest.skip("a newer NumPy has it")
    n = batch_size((args, kwargs))
    where = f"{name}{hint} {args} {kwargs}"

    def single(b: int) -> Any:
        one = [mapped(lambda x: x.array[b], t) for t in (args, kwargs)]
        return call(*one[0], **one[1])

    before = mapped(lambda x: Batched(x.array.copy()), (args, kwargs))
    wanted, raised, warned = outcome(lambda: [single(b) for b in range(n)])
    try:
        found, raised_too, warned_too = outcome(lambda: row.rule(np, call, args, kwargs))
    except NoRule:
        return False
    for x, y in zip(_leaves((args, kwargs)), _leaves(before), strict=True):
        np.testing.assert_array_equal(x.array, y.array, "an operand was changed")
    if raised is not None or raised_too is not None:
        assert raised_too is not None, f"{where}: {raised} was not raised"
        assert raised is not None, f"{where}: raised {raised_too}"
        return True
    compare(found, wanted, exact, where)
    if exact:
        assert warned_too == warned, where
    return True


def _leaves(tree: Any) -> list[Batched]:
    found: list[Batched] = []
    mapped(lambda x: found.append(x), tree)
    return found


# An example is the source of a call, and what is compared: bits, or what is near. In it, v, w and
# u are slices of one axis (w has other values, u five of them), s a number, m a square matrix and
# r one of 4 rows; i is places in v, k constants of the length of v, c three constants.
EXAMPLES = """
BIT FLOATS
mean(v) mean(v,axis=0) mean(v,keepdims=True) mean(m) mean(m,axis=1) mean(m,axis=0)
mean(r,axis=(0,1)) std(v) std(v,ddof=1) var(v) var(m,axis=-1) std(m,0) std(v,mean=K1,keepdims=True)
nanmean(v) nanstd(v) nanvar(v) nanmax(v) nanmin(v) nansum(v) nanprod(v) nanmean(m,axis=1)
nancumsum(v) nancumprod(v) nanargmax(v) nanargmin(v) nanmedian(v) nanmedian(m) nanmedian(m,axis=1)
nanpercentile(v,30) nanpercentile(v,[5,50,100]) nanquantile(v,0.3,method="lower") nanquantile(v,Q)
nan_to_num(v) nan_to_num(v,nan=3) nan_to_num(v,nan=s) nan_to_num(s) isneginf(v) isposinf(v) sinc(v)
i0(v) fix(v) unwrap(v) unwrap(v,period=3) angle(v) angle(v,deg=True) percentile(v,30)
percentile(v,[5,50,100]) percentile(m,[5,50],axis=0) percentile(v,50,keepdims=True)
quantile(v,0.4,method="nearest") quantile(v,Q,method="hazard") quantile(v,Q,method="hazen")
quantile(v,0.25,method="inverted_cdf") quantile(m,[0.1,0.2],axis=1,keepdims=True) quantile(m,Q)
quantile(v,0.5,weights=k*k,method="inverted_cdf") quantile(v,Q,method="closest_observation")
polynomial.polynomial.polyval(k,u) polynomial.chebyshev.chebval(C5,u)
polynomial.legendre.legval(2,u) polynomial.hermite.hermval(v,c)
polynomial.hermite_e.hermeval(s,c) polynomial.laguerre.lagval(C5,v)
polynomial.chebyshev.chebval(v,u) polynomial.polynomial.polyval(m,c)
polynomial.polynomial.polyder(v) polynomial.polynomial.polyder(v,2,0.5)
polynomial.chebyshev.chebder(v) polynomial.legendre.legder(v,2) polynomial.hermite.hermder(u,1,2.0)
polynomial.laguerre.lagder(v) polynomial.hermite_e.hermeder(v,9) polynomial.polynomial.polyint(v)
polynomial.laguerre.lagint(v) polynomial.polynomial.polyint(v,2,[1,2],0.5,3.0)
polynomial.chebyshev.chebint(v,1,[0.5]) polynomial.legendre.legint(v,2)
polynomial.hermite.hermint(v,lbnd=1) polynomial.hermite_e.hermeint(u) polyval(v,s)
polyval(v,w) polyval(c,v) polyval(v,k)
polyval(u,2) polyval(u,2.5) polyval(u,c)
ediff1d(v,to_end=s) ediff1d(v,to_begin=9.5) gradient(v) gradient(v,2.0) gradient(v,k) gradient(m)
lib.stride_tricks.sliding_window_view(v,3) lib.stride_tricks.sliding_window_view(v,2,axis=-1)
lib.stride_tricks.sliding_window_view(m,(2,1)) lib.stride_tricks.sliding_window_view(m,1,axis=0)
gradient(m,axis=0) gradient(m,2.0,3.0) gradient(v,edge_order=2) gradient(r,axis=1) trapezoid(v)
trapezoid(v,k) trapezoid(v,dx=3) trapezoid(v,w) trapezoid(k,w) trapezoid(m,axis=0) average(v)
average(v,weights=k*k+1) average(v,weights=w) average(k,weights=v) average(m)
average(v,weights=K2,returned=True) average(v,returned=True) average(m,axis=1) interp(s,k,v)
interp(c,k,v) interp(s,c,C5[:3]) interp(v,c,C5[:3]) interp(c,S,w) interp(s,S,w) interp(v,S,w)
interp(s,S,k) interp(c,S,w,left=s,right=1) interp(c,S,w,left=-1) interp(v,c,c,period=3)
interp(c,k,v,left=s,right=0.5) interp(c,k,v,right=s) interp(s,v,w) interp(c,k,v,period=4.5)
interp(C5,c,u[:3]) interp(v,[1,1,2],u[:3]) interp(C5,[0,0,1,1,2],u) interp(s,S,w,period=5) real(v)
imag(v) isclose(v,w) isclose(v,1.0) isclose(v,v,equal_nan=True) isclose(m,u[0])
BIT ALL
sum(v) sum(m) sum(m,axis=0) sum(v,dtype=float) sum(v,keepdims=True) sum(m,axis=(0,1)) sum(r,1)
sum(v,where=k>1) sum(v,where=w>1) sum(v,initial=3) sum(s) sum(m,where=M>0) sum(m,keepdims=True)
prod(v) max(v) amax(v) min(v) amin(v) ptp(v) all(v) any(v) max(v,initial=3) max(m,axis=1)
max(v,where=w>1,initial=0) max(v,1) median(v) median(m) median(m,axis=0) argmax(v) argmin(v)
argmax(m) argmax(m,axis=0) sort(v) sort(m) sort(m,axis=0) sort(m,axis=None) sort(v,kind="stable")
argsort(v) argsort(v,kind="stable") cumsum(v) cumsum(m) cumprod(v) cumsum(m,axis=1)
cumulative_sum(v) cumulative_prod(v) cumulative_sum(v,include_initial=True) cumulative_sum(m)
count_nonzero(v) count_nonzero(m,axis=1) diff(v) diff(v,n=2) diff(v,prepend=0)
diff(v,prepend=s,append=v[:2]) diff(m,axis=0) diff(v,append=c) diff(k,prepend=s) diff(v,n=0)
diff(m,axis=0,prepend=s) ediff1d(v) ediff1d(v,to_begin=v[:2]) partition(v,0) partition(v,-1)
argpartition(v,0) lexsort((v,w)) lexsort((k,v)) lexsort(m) lexsort([v]) where(v>1,v,0)
where(w>1,v,w) where(v>1,s,m) where(k>1,v,k) where(s>0,k,2.5) where(v) where(v>s,v,1) clip(v,0,2)
clip(v,None,2) clip(v,min=1) clip(v,w,None) clip(m,v[0],M) clip(s,0,1) around(v,1) round(v)
round(s,1) iscomplex(v) isreal(v) real(m) imag(s) select([v>2,v<0],[v,w],7) select([w>2,k>0],[v,0])
select([v>2],[v],default=s) select([s>1],[v],2.5) choose(i%3,[v,w,k]) choose(v>1,[v,0])
choose(i%3,c) choose(i,[v,w]) choose(i,[v,w],mode="clip") piecewise(v,[v>1,v<0],[1,2])
piecewise(v,[v>1,v<0],[1,2,7]) piecewise(v,[v>1],[np.abs]) piecewise(v,[k>1],[3.7]) isin(v,[1,2])
isin(v,k) isin(v,w) isin(k,v) isin(m,v) isin(v,[1,2.5],invert=True) isin(v,c,assume_unique=True)
isin(s,v) digitize(v,c) digitize(v,c[::-1]) digitize(v,c,right=True) digitize(s,c) digitize(k,S)
digitize(v,C5) zeros_like(v) ones_like(v,dtype=int) zeros_like(s) full_like(v,3) full_like(v,s)
full_like(k,s) full_like(v,s,dtype=float) zeros_like(v,shape=(2,)) copy(v) asfortranarray(m)
ascontiguousarray(v) ascontiguousarray(s) full_like(m,v[0]) full_like(m,v) array_equal(v,w)
array_equal(v,v) array_equal(v,k) array_equal(v,u) array_equal(v,v,equal_nan=True) allclose(v,w)
allclose(v,v,equal_nan=True) allclose(v,1.0,atol=100) array_equiv(v,w) array_equiv(m,m[0])
array_equiv(v,s) array_equiv(v,C5) array_equiv(k,v) trace(m) trace(m,1) trace(r)
trace(m,offset=-1,dtype=float) trace(m,40) flip(v) flip(m) flip(m,axis=0) flip(m,(0,1)) fliplr(m)
flipud(m) flipud(v) rot90(m) rot90(m,2) rot90(r,3) ravel(m) ravel(m,order="F") ravel(s)
reshape(v,(-1,1)) reshape(r,(2,-1)) reshape(m,-1) reshape(r,(-1,),order="F") squeeze(v[None])
expand_dims(v,0) expand_dims(v,(0,-1)) moveaxis(m,0,1) swapaxes(r,0,1) transpose(m)
transpose(r,(1,0)) permute_dims(r,(1,0)) matrix_transpose(r) rollaxis(r,1) roll(v,2) roll(v,-1)
roll(m,(1,2),axis=(0,1)) roll(m,3) roll(v,i[0]) roll(k,i[0]) roll(v,-i[0],axis=0) roll(m,i[0])
roll(v,i[0],1) repeat(v,2) repeat(v,2,axis=0) repeat(m,2,axis=1) repeat(v,c.astype(int)) repeat(v,i)
repeat(s,3) resize(v,7) resize(v,(3,2)) resize(v,0) diagonal(m) diagonal(m,1) diag(m) diag(v)
diag(v,-1) diagflat(v) triu(m) tril(m,-1) triu(r,1) tril(v) compress([True,False,True],u)
compress([True,False],r,axis=0) compress(v>1,v) split(u[:4],2) split(v,[1]) split(v,[0,2,9])
array_split(v,3) hsplit(m,1) vsplit(r,2) split(v,3) dsplit(r[None],1) concatenate([v,w])
concatenate((v,[0,1])) concatenate([v,c]) concatenate([m,r]) concat([v,v]) concatenate([m,m],axis=1)
concatenate([v,w],dtype=complex) concatenate(m) concatenate([c,[0.5],v]) concatenate([v])
concatenate([v,m]) concatenate([m,M],axis=None) stack([v,w]) stack([v,k],axis=-1) stack([s,0,s])
block([v,w]) block([[m,m],[m,M]]) block([v,s,1.5]) hstack([v,s]) hstack([m,m]) vstack([v,w,k])
column_stack([v,m]) column_stack([v,w]) dstack([v,w]) hstack([s,s]) concatenate([m[0],v,w[:1]])
stack(m,axis=1) vstack([m,r]) atleast_1d(s) atleast_1d(v) atleast_2d(v) atleast_3d(v)
atleast_1d(s,v) broadcast_arrays(v,s) broadcast_arrays(m,v,1) broadcast_arrays(k,s) meshgrid(v,w)
meshgrid(v,c) meshgrid(v,w,indexing="ij") meshgrid(v,c,sparse=True) append(v,0) append(v,w)
append(v,[1.5,2]) append(m,m,axis=0) append(m,1) append(k,s) append(v,s) insert(v,0,5)
insert(v,[0,1],s) insert(v,1,w[:1]) insert(v,0,2.5) insert(m,1,v,axis=0) insert(k,0,s)
insert(v,50,0) delete(v,0) delete(v,[0,-1]) delete(m,0,axis=1) delete(v,slice(None,None,2))
delete(v,i) delete(v,99) tile(v,2) tile(v,(2,3)) tile(s,3) broadcast_to(v,(3,)+v.shape)
broadcast_to(s,(2,2)) broadcast_to(v[:1],(4,)) pad(v,2) pad(v,(1,0)) pad(v,1,constant_values=7)
pad(m,((1,0),(0,2)),constant_values=((1,2),(3,4))) pad(v,3,"edge") pad(v,1,"reflect")
pad(v,2,"symmetric") pad(v,5,"wrap") pad(m,1,mode="edge") pad(v,2,mode="linear_ramp")
pad(v,1,"reflect",reflect_type="odd") pad(v,2,"maximum") pad(m,2,"minimum") pad(v,2,"mean")
pad(v,(0,2),"median",stat_length=2) pad(v,2,constant_values=s)
pad(v,1,"reflect",reflect_type="even") pad(v,0,constant_values=2) pad(m,(1,2),"mean")
pad(v,{0:(1,2)}) take(v,0) take(v,[0,-1]) take(m,[0],axis=1) take(v,i) take(k,i) take(M,i,axis=1)
take(v,i[0]) take(v,i+3) take(v,i+3,mode="wrap") take(v,99,mode="clip") take(m,i)
take(m,i[0],axis=0) take(v,-i-1) take(m,0) take(C5,i) take_along_axis(v,i,0) take_along_axis(v,i,-1)
take_along_axis(k,i,0) take_along_axis(m,i[:,None],axis=1) take_along_axis(m,i,axis=None)
take_along_axis(v,i+4,0) take_along_axis(v,I,0) searchsorted(c,v) searchsorted(c,v,"right")
searchsorted(S,s) searchsorted(S,c,side="right") searchsorted(S,w) searchsorted(v,s)
searchsorted(S,c) searchsorted(v,w) searchsorted(S,v,sorter=i) searchsorted(S,3)
searchsorted(S,C5[:,None]) searchsorted(S,1.5,"right") ravel_multi_index(i[:2],(9,9))
ravel_multi_index((i,i),(9,9),mode="wrap")
unravel_index(i,(3,3)) bincount(i) shape(v) shape(m) size(v)
size(m,0) ndim(s) ndim(m) iscomplexobj(v) isrealobj(v) empty_like(v[:0]) packbits(v>1)
packbits(m>1,axis=0) packbits(v>1,bitorder="little") unpackbits(i.astype("u1"))
unpackbits(i.astype("u1"),count=3) packbits(v) vander(v) vander(v,3) vander(v,3,increasing=True)
vander(v,0) outer(v,w) outer(v,c) outer(k,v) outer(m,s) polyder(u) polyder(u,2) polyder(u,0)
polyadd(v,u) polysub(u,v) polyadd(v,c) polysub(c,u) polyder(u,9) cross(u[:3],c) cross(u[:3],w[:3])
cross(r.T[:,:3],u[:3]) kron(v,u) kron(v,c) kron(m,v) kron(M,m) histogram(v,c) histogram(v,[0,1,1])
histogram(v,[-1,0,0,1,2.5]) histogram(v,5,(0,4)) histogram(v,5) histogram(v) histogram(v,c[::-1])
histogram(v,bins=5,range=(1,1)) histogram(v,5,(0,4),density=True) histogram(v,c,density=True)
histogram(v,4,weights=k) histogram(v,3,weights=w) histogram(v,C5,weights=w) histogram(v,"auto")
histogram(m,4,(0,1)) histogram(v,0) histogram(v,3,(2,1)) histogram(k,4,weights=v) histogram(v,[2])
histogram(v,4,(0.1,0.7)) histogram(v,4,(0,3),weights=i) histogram(v,3,density=True)
histogram(v[:0],3) histogram(v,3,(u[0],u[1])) histogram(v,4,(s,9.5)) histogram(v,4,(s*0-3.0,9.0))
histogram(v,S,weights=w) searchsorted(c[::-1],v) searchsorted([1,np.nan],v) digitize(v,[0,np.nan])
compress([True,False],v) repeat(v,i[0]) percentile(v,s) average(m,weights=M) trapezoid(m,M,axis=0)
polyval(M,v) polyval([1],v) nan_to_num(v,copy=False) nan_to_num(v,False) histogram_bin_edges(v,4)
histogram_bin_edges(v,c) histogram_bin_edges(v,4,(0,1)) histogram_bin_edges(v,"fd") array(v)
array([v,w]) array([s,0,s]) array(v,dtype=float) array([[s,1.5],[2,s]],dtype=float)
array([s,v[0]],dtype=int) array(v,"c16") array(v,ndmin=3) array(v,copy=False) asarray(v)
asarray([s,s]) asanyarray(m) asarray(v,int) asarray([s,s],float) astype(v,"f4") astype(v,int)
unstack(r) unstack(v) linalg.matrix_transpose(r) result_type(v,np.float32) result_type(v,2)
isscalar(v) isscalar(s) promote_types(v,np.float32)
percentile(v,[0,37.5,100],method="inverted_cdf") quantile(v,0.3,method="inverted_cdf")
nanquantile(v,0.7,method="inverted_cdf") percentile(v,[0,37.5,100],method="averaged_inverted_cdf")
quantile(v,0.3,method="averaged_inverted_cdf") nanquantile(v,0.7,method="averaged_inverted_cdf")
percentile(v,[0,37.5,100],method="closest_observation") quantile(v,0.3,method="closest_observation")
nanquantile(v,0.7,method="closest_observation")
percentile(v,[0,37.5,100],method="interpolated_inverted_cdf")
quantile(v,0.3,method="interpolated_inverted_cdf")
nanquantile(v,0.7,method="interpolated_inverted_cdf") percentile(v,[0,37.5,100],method="hazen")
quantile(v,0.3,method="hazen") nanquantile(v,0.7,method="hazen")
percentile(v,[0,37.5,100],method="weibull") quantile(v,0.3,method="weibull")
nanquantile(v,0.7,method="weibull") percentile(v,[0,37.5,100],method="linear")
quantile(v,0.3,method="linear") nanquantile(v,0.7,method="linear")
percentile(v,[0,37.5,100],method="median_unbiased") quantile(v,0.3,method="median_unbiased")
nanquantile(v,0.7,method="median_unbiased") percentile(v,[0,37.5,100],method="normal_unbiased")
quantile(v,0.3,method="normal_unbiased") nanquantile(v,0.7,method="normal_unbiased")
percentile(v,[0,37.5,100],method="lower") quantile(v,0.3,method="lower")
nanquantile(v,0.7,method="lower") percentile(v,[0,37.5,100],method="higher")
quantile(v,0.3,method="higher") nanquantile(v,0.7,method="higher")
percentile(v,[0,37.5,100],method="midpoint") quantile(v,0.3,method="midpoint")
nanquantile(v,0.7,method="midpoint") percentile(v,[0,37.5,100],method="nearest")
quantile(v,0.3,method="nearest") nanquantile(v,0.7,method="nearest") nanmean(v) nanmax(v)
nanmedian(v) nanpercentile(v,30) nansum(v) nanstd(v) nan_to_num(v) nanargmax(v) nanprod(v) sinc(v)
i0(v) fix(v) angle(v) isclose(v,w) histogram(v,4,(-1,300))
histogram(v,4,range=(np.float64(-0.5),np.float32(3))) gradient(v) trapezoid(v) average(v) unwrap(v)
polyval(c,v) interp(c,k,v) interp(v,c,c) histogram(v,10,(0,1)) histogram(v,7,(-4,8))
histogram(v,8,(0,8)) histogram(v,np.arange(9)) histogram(v,np.arange(9).astype("u1"))
histogram(v,[0,np.inf]) sum(m,axis=(1,0)) average(m,axis=0) nanmedian(m,axis=-1)
median(m,axis=(0,1)) percentile(m,[5,95],axis=1) std(m,axis=0) unwrap(m,axis=0) fft.fft(s)
isin(v,[]) isin(v,[True]) take(v,[]) concatenate([v[:0],w]) pad(v[:0],2)
split(v,[]) digitize(v,[1]) interp(v,[1],[2]) interp(s,[1],v[:1])
BIT PLAIN
linalg.vector_norm(v) linalg.vector_norm(m) linalg.vector_norm(m,axis=0,ord=1) linalg.matrix_norm(m)
linalg.matrix_norm(r,ord=1,keepdims=True) percentile(v,s*0+50) nanmedian(v,keepdims=True)
nanpercentile(v,50,keepdims=True) histogram(v*1e-3,7) histogram(v*1e-300*1e-15,4)
percentile(v,30,method="midpoint") linalg.norm(v,1) linalg.norm(v,np.inf) linalg.norm(v,-np.inf)
linalg.norm(v,0) linalg.norm(v) linalg.norm(v,keepdims=True) linalg.norm(m) linalg.norm(v,2)
linalg.norm(m,keepdims=True) linalg.norm(v,axis=0) linalg.norm(m,axis=1) linalg.norm(m,1)
linalg.norm(m,"fro") linalg.norm(m,np.inf,axis=(0,1)) linalg.norm(v,2,axis=-1) linalg.norm(s)
linalg.norm(r,axis=1,ord=1) linalg.norm(m,"fro",axis=(0,1)) linalg.det(m) linalg.inv(P)
linalg.slogdet(m) linalg.matrix_power(m,3) linalg.matrix_power(P,-1) linalg.eigvalsh(P)
linalg.eigh(P) linalg.cholesky(P) linalg.cholesky(m) linalg.svd(r) linalg.svd(m,compute_uv=False)
linalg.svd(r,full_matrices=False) linalg.svdvals(r) linalg.qr(m) linalg.qr(r,"complete")
linalg.qr(r,mode="r") linalg.pinv(r) linalg.matrix_rank(m) linalg.matrix_rank(v) linalg.cond(m)
linalg.cond(P,1) linalg.solve(P,m) linalg.solve(P,P[0]) linalg.solve(P,np.ones(P.shape[0]))
linalg.lstsq(m,m) linalg.eig(P) linalg.eigvals(P) linalg.eigvals(m) linalg.eig(m)
linalg.multi_dot([m,m,m]) linalg.matrix_rank(P,hermitian=True) roots(v) roots(u)
linalg.matrix_rank(m*0) linalg.inv(m*0) fft.fft(v) fft.fft(v,8) fft.ifft(v)
fft.rfft(v) fft.irfft(v) fft.hfft(v) fft.ihfft(v) fft.fft(m,axis=0) fft.fft(v,norm="ortho")
fft.rfft(v,4) fft.fft2(m) fft.ifft2(m) fft.rfft2(m) fft.irfft2(m) fft.fftn(m) fft.fftn(v)
fft.ifftn(m,axes=(0,)) fft.rfftn(r) fft.irfftn(r) fft.fftn(m,s=(2,2),axes=(0,1)) fft.fftshift(v)
fft.fftshift(m) fft.ifftshift(v) fft.fftshift(m,axes=0) fft.ifftshift(m)
NEAR ALL
polyint(u) polyint(u,k=2) polyint(u,2) polyint(v) convolve(v,c) convolve(v,w) convolve(v,c,"same")
convolve(v,c,mode="valid") convolve(c,v,"same") convolve(v,[1]) convolve(k,v,"same")
convolve(v,u,"same") convolve(u,v,"valid") convolve(v,[1,0.5],"same") convolve(v,s)
convolve(v,np.ones(4),"same") convolve(m,c) convolve(C5,v,"same") correlate(v,c)
correlate(v,c,"same") correlate(v,c,"full") correlate(c,v,"full") correlate(c,v,"same")
correlate(v,w,"full") correlate(v,[]) correlate(u,v,"same") correlate(v,u,"same")
correlate(v,np.ones(4),"same") correlate(np.ones(4),v,"same") correlate(C5,v,"same")
correlate(v,C5*(1+2j),"full")
NEAR PLAIN
dot(k,m) dot(m,k) dot(v,v) inner(k,m) outer(v,m) tensordot(m,v,1) tensordot(v,M,1) vdot(m,M)
einsum("ij,kj->ik",m,m) einsum("i,j",k,v) einsum("ii",m) einsum("ij->ji",m) linalg.norm(v,3)
dot(v,w) dot(v,k) dot(k,v) dot(M,v) dot(v,M) dot(m,v) dot(v,m) dot(m,m) dot(s,v) dot(v,2) dot(m,M)
dot(M,m) dot(r,v[:1]) dot(r.T,r) dot(v,C5) dot(m,m[None]) inner(v,w) inner(v,k) inner(m,v)
vecdot(v,w) vecdot(v,k) vecdot(M,v) vecdot(v,m) vecdot(m,m)
inner(M,v) inner(m,m) inner(s,v) vdot(v,w) vdot(m,m) vdot(v,k) tensordot(m,m) tensordot(m,m,1)
tensordot(M,v,1) tensordot(m,M,axes=([0],[1])) tensordot(r,r,axes=(1,1)) tensordot(v,w,0)
tensordot(m,m,axes=([0,1],[1,0])) einsum("i,i->",v,w) einsum("i,i",v,k) einsum("ij,j->i",M,v)
einsum("ij,jk",m,m) einsum("ii->i",m) einsum("...i,i",m,v) einsum("i,j->ij",v,c) einsum("i->",v)
einsum("ij,ij->j",m,M,optimize=True) cov(v) cov(v,w) cov(m) cov(m,v) cov(r,rowvar=False)
cov(v,bias=True) cov(v,ddof=0) cov(v,aweights=k*k+1) cov(m,M) cov(v,k) cov(v,w,rowvar=False)
cov(m,m,rowvar=False) corrcoef(v) corrcoef(v,w) corrcoef(m) corrcoef(v,k) corrcoef(r)
corrcoef(r,rowvar=False) polyfit(k,v,1) polyfit(k,v,2,w=k*k+1) polyfit(v,w,1) polyfit(k,v,0)
polynomial.polynomial.polyfit(k,v,1) polynomial.chebyshev.chebfit(C5,u,2)
polynomial.legendre.legfit(k,v,1,w=k*k+1) polynomial.hermite.hermfit(C5,u,[0,2])
polynomial.hermite_e.hermefit(k,v,1) polynomial.laguerre.lagfit(C5,u,1)
polynomial.polynomial.polyfit(k,v,1,full=True)[0] polynomial.chebyshev.chebfit(v,w,1)
polyfit(k,v,1,full=True) linalg.lstsq(M,v) polyfit(C5,u,2) polyfit(C5,u,3) polyfit(C5,u,1)
linalg.solve(M,v) linalg.solve(M,m) linalg.solve(P,v)
NEAR FLOATS
linalg.det(m) linalg.inv(m) linalg.slogdet(m) linalg.svd(m) linalg.svdvals(m) linalg.cond(m)
linalg.cond(m,1) linalg.eigvals(m) linalg.qr(m) linalg.pinv(m) linalg.solve(m,v) linalg.solve(M,v)
linalg.matrix_rank(m) linalg.norm(m,2) linalg.norm(m,"nuc") linalg.cholesky(m) linalg.eigh(m)
linalg.matrix_power(m,2) polyfit(k,v,1) polyfit(k,v,0) kron(m,v) outer(v,w) cross(u[:3],w[:3])
tensordot(m,m) einsum("ij,j->i",M,v) corrcoef(m) cov(v) fft.fft(v) fft.rfft(v) polyfit(C5,u,1)
dot(v,w) dot(v,k) dot(M,v) dot(v,M) dot(m,v) inner(v,w) vdot(v,k) einsum("i,i",v,k) corrcoef(v,w)
cov(v,w) linalg.norm(v) linalg.norm(v,1) linalg.norm(v,np.inf)
"""


def _examples() -> list[tuple[str, str, str]]:
    found, mode = [], ("", "")
    for line in EXAMPLES.strip().splitlines():
        words = line.split()
        if words[0] in ("BIT", "NEAR"):
            mode = (words[0], words[1])
            continue
        found += [(w, *mode) for w in words]
    return found


CASES = _examples()


def _named(source: str) -> str:
    return re.match(r"[\w.]+", source)[0]


def test_each_row_has_an_example() -> None:
    assert set(BY_NAME) == {_named(source) for source, *_ in CASES}


def test_rows_are_of_functions_that_exist() -> None:
    missing = {r.name for r in ROWS if resolve(r.name) is None}
    newer = ("cumulative_sum", "cumulative_prod", "unstack", "astype")  # than NumPy 2.0
    assert missing <= {f"numpy.{name}" for name in newer}


class Slices:
    """Stands for a value of each slice in the source of an example; `of` does the same to each."""

    def __init__(self, array: Any) -> None:
        self.rows = Batched(np.ascontiguousarray(array))

    def of(self, function: Any) -> Slices:
        return Slices(np.stack([np.asarray(function(x)) for x in self.rows.array]))

    def __getitem__(self, key: Any) -> Slices:
        return self.of(lambda x: x[key])

    def __getattr__(self, name: str) -> Any:
        if name == "T":
            return self.of(lambda x: x.T)
        if name == "shape":
            return self.rows.shape
        if name == "astype":
            return lambda dtype: self.of(lambda x: x.astype(dtype))
        raise AttributeError(name)


for _op in ("add", "mul", "mod", "gt", "lt", "sub", "neg"):

    def _apply(self: Slices, *other: Any, name: str = f"__{_op}__") -> Slices:
        rest = [x.rows.array for x in other if isinstance(x, Slices)]
        if rest:
            a = self.rows.array
            return Slices(getattr(a, name)(rest[0].reshape(len(a), *[1] * (a.ndim - 1))))
        return self.of(lambda x: getattr(np.asarray(x), name)(*other))

    setattr(Slices, f"__{_op}__", _apply)


@functools.cache
def _compiled(source: str) -> tuple[frozenset[str], Any]:
    """The names in an example, and what hands over its arguments."""
    text = f"given.append(((lambda *a, **k: (a, k)){source[len(_named(source)) :]}))"
    return frozenset(re.findall(r"\w+", text)), compile(text, "<example>", "exec")


def arguments(source: str, dtype: Any, n: int, m: int, seed: int, plain: bool) -> Any:
    """The arguments of an example, with `Batched`."""
    dtype = np.dtype(dtype)
    names, code = _compiled(source)

    def drawn(shape: tuple[int, ...], more: int) -> np.ndarray:
        return nasty(dtype, shape, seed + more, plain)

    def positive() -> np.ndarray:
        x = drawn((n, m, m), 2)
        return x @ x.swapaxes(1, 2) + np.eye(m, dtype=dtype) if plain else x

    def ordered() -> np.ndarray:
        x = drawn((n, m), 1)
        return np.sort(np.nan_to_num(x, nan=1, posinf=4, neginf=-4) if dtype.kind != "b" else x, 1)

    values: dict[str, Callable[[], Any]] = {
        "v": lambda: Slices(drawn((n, m), 0)),
        "w": lambda: Slices(drawn((n, m), 1)),
        "u": lambda: Slices(drawn((n, 5), 3)),
        "s": lambda: Slices(drawn((n, 3), 4)[:, 0]),
        "m": lambda: Slices(drawn((n, m, m), 2)),
        "r": lambda: Slices(drawn((n, 4, m), 5)),
        "P": lambda: Slices(positive()),
        "S": lambda: Slices(ordered()),
        "i": lambda: Slices(np.random.default_rng(seed).integers(0, m, (n, m))),
        "k": lambda: np.arange(m) * 0.5 - 1,
        "K1": lambda: np.full(1, 0.5, dtype),
        "K2": lambda: np.arange(m) + 1.0,
        "I": lambda: np.arange(m)[::-1],
        "M": lambda: np.arange(m * m).reshape(m, m) % 7 + np.eye(m),
        "c": lambda: np.array([-1.0, 0.5, 2.0]),
        "C5": lambda: np.array([0.0, 1.0, 2.0, 2.5, 4.0]),
        "Q": lambda: np.array([0.0, 0.25, 0.9]),
    }
    given: list[Any] = []
    name = _named(source)
    made = {name: make() for name, make in values.items() if name in names}
    exec(code, {**made, "np": np, "given": given})

    def unwrapped(x: Any) -> Any:
        if isinstance(x, Slices):
            return x.rows
        if isinstance(x, (list, tuple)):
            return type(x)(map(unwrapped, x))
        if isinstance(x, dict):
            return {k: unwrapped(y) for k, y in x.items()}
        return x

    return name, *unwrapped(given[0])


DTYPES = {
    "ALL": ("f8", "f4", "i8", "u1", "?"),
    "FLOATS": ("f8", "f4"),
    "PLAIN": ("f8", "f4", "i8"),
}
SIZES = ((1, 4), (5, 1), (4, 3), (5, 8), (3, 17))


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_parity(case: tuple[str, str, str], pairs: Any) -> None:
    source, exact, which = case
    for seed in range(2):
        for dtype, (n, m) in pairs(DTYPES[which], SIZES, 2 * seed):
            plain = which == "PLAIN"
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    name, args, kwargs = arguments(source, np.dtype(dtype), n, m, seed, plain)
            except (IndexError, ValueError, TypeError):
                continue  # the example is not for such slices
            check(name, args, kwargs, exact == "BIT", f" {dtype} {n}x{m}")


@pytest.mark.parametrize("case", CASES[::2], ids=[c[0] for c in CASES[::2]])
def test_parity_of_strided_batches(case: tuple[str, str, str]) -> None:
    """Rows need not be C-contiguous, and may be one value for all."""
    source, _, which = case
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name, args, kwargs = arguments(source, np.dtype("f8"), 4, 8, 5, which == "PLAIN")
    except (IndexError, ValueError, TypeError):
        return

    def turned(x: Batched) -> Batched:
        return Batched(np.asfortranarray(x.array))

    def same(x: Batched) -> Batched:
        return Batched(np.broadcast_to(x.array[:1], x.array.shape))

    check(name, mapped(turned, args), mapped(turned, kwargs), False, " strided")
    check(name, mapped(same, args), mapped(same, kwargs), False, " repeated")


LONG = """
mean(v) std(v) sum(v) sum(v,dtype="f8") median(v) sort(v) argsort(v) percentile(v,[3,50]) cumsum(v)
nanmean(v) nanstd(v) histogram(v,16) histogram(v,16,(-1,1)) convolve(v,c) mean(v,dtype="f8")
average(v,weights=w) trapezoid(v) prod(v) nansum(v) var(v,dtype="f8") linalg.norm(v) dot(v,w)
interp(s,k,v) fft.rfft(v) unwrap(v) count_nonzero(v) nanmedian(v) quantile(v,0.3)
"""


@pytest.mark.no_such_case(  # float16 is summed in other ways there
    lambda source, dtype: dtype == "f2" and re.match("linalg|fft|dot|conv|unwrap", source)
)
@pytest.mark.every_case
@pytest.mark.parametrize("source", LONG.split())
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4"])
def test_long_slices(source: str, dtype: str) -> None:
    """Sums of more values than buffers and pairwise blocks hold are bit for bit the same."""
    plain = not source.startswith("nan")
    for n, m in ((60, 301), (3, 9001)):
        if m > 1000 and "kv" in source:
            continue
        name, args, kwargs = _long(source, dtype, n, m, plain)
        exact = not source.startswith(("convolve", "dot"))
        check(name, args, kwargs, exact, f" {dtype} {n}x{m}")


def _long(source: str, dtype: str, n: int, m: int, plain: bool) -> Any:
    with np.errstate(all="ignore"):
        name, args, kwargs = arguments(source, np.dtype(dtype), n, 3, 7, plain)
    rng = np.random.default_rng(3)
    scale = 1 if np.dtype(dtype).kind == "f" else 1000

    def longer(x: Batched) -> Batched:
        if x.shape != (3,):
            return x
        array = (rng.normal(size=(n, m)) * scale).astype(dtype)
        return Batched(
            array if plain else np.where(rng.random((n, m)) < 0.1, x.array[:, :1], array)
        )

    args = tuple(
        np.linspace(-1, 1, m) if np.shape(x) == (3,) and name == "interp" else x for x in args
    )
    return name, mapped(longer, args), mapped(longer, kwargs)


TAPS = [1, 2, 15, 17, 30, 40, 90]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16"])
@pytest.mark.parametrize("plain", [True, False])
def test_kernels_of_any_length(mode: str, dtype: str, plain: bool) -> None:
    """As sums over taps, as a product with a matrix, or row by row."""
    for name in ("convolve", "correlate"):
        for taps in TAPS:
            v = Batched(nasty(dtype, (5, 40), taps, plain))
            kernels = nasty(dtype, (5, taps), taps + 1, True)
            for w in (Batched(kernels), kernels[0], kernels[0].real):
                check(name, (v, w, mode), {}, False)
                check(name, (w, v, mode), {}, False)


@pytest.mark.parametrize("weights", [None, "rows", "constant"])
@pytest.mark.parametrize("dtype", ["i8", "u1", "?"])
def test_bincount_rows(weights: Any, dtype: str) -> None:
    x = nasty(dtype, (5, 9), 1) % 2 if dtype == "?" else abs(nasty(dtype, (5, 9), 1))
    w = {None: None, "rows": Batched(nasty("f4", (5, 9), 2)), "constant": np.arange(9.0)}[weights]
    found = bincount_rows(np, Batched(x), w, 12)
    each = [w.array[b] if isinstance(w, Batched) else w for b in range(5)]
    wanted = [np.bincount(x[b], each[b], minlength=12) for b in range(5)]
    compare(found, wanted, True, "bincount_rows")


def test_bincount_rows_refuses() -> None:
    for x, w, length, error in (
        ([[1, -1]], None, 3, ValueError),
        ([[1, 3]], None, 3, ValueError),
        ([[1.0, 2.0]], None, 3, TypeError),
        ([[1, 2]], [1.0], 3, ValueError),
        ([[1, 2]], [1j, 1], 3, TypeError),
    ):
        with pytest.raises(error):
            bincount_rows(np, Batched(np.array(x)), w, length)
    empty = bincount_rows(np, Batched(np.zeros((2, 0), int)), None, 3)
    compare(empty, [np.bincount([], minlength=3)] * 2, True, "empty")


@pytest.mark.parametrize(
    "source",
    [
        *("where(v)", "bincount(i)", "repeat(v,i)", "compress(v>1,v)", "delete(v,i)", "roots(v*0)"),
        *(
            'histogram(v,"auto")',
            "histogram(v,i[0])",
            "pad(v,i[0])",
            "vander(v,i[0])",
            "resize(v,i[0])",
        ),
        *("fft.fft(v,i[0])", "nan_to_num(v,copy=False)", "median(v,overwrite_input=True)"),
        *("isin(v,c,assume_unique=True)", "clip(v,0,1,v)", "sum(v,out=v)", "diff(v,i[0])"),
    ],
)
def test_no_rule_where_the_data_decide_on_the_shape_or_are_written_to(source: str) -> None:
    name, args, kwargs = arguments(source, np.dtype("f8"), 3, 4, 0, True)
    with pytest.raises(NoRule):
        BY_NAME[name].rule(np, resolve(BY_NAME[name].name), args, kwargs)


@pytest.mark.parametrize("more", [{}, {"left": -1.0, "right": np.nan}])
def test_many_places_among_those_of_each_slice(more):
    """One grid for all profiles, whose heights are their own: also equal ones, beyond the ends."""
    r = np.random.default_rng(4)
    heights = np.sort(np.round(r.random((40, 12)), 1), axis=1)
    heights[3, -1], heights[4, 0] = np.inf, -np.inf
    values = r.normal(size=(40, 12))
    values[5, 4] = np.nan
    for grid in (np.linspace(-0.1, 1.1, 25), r.permutation(np.round(r.random(30), 1))):
        for places in (grid, np.where(np.arange(grid.size) == 7, np.nan, grid)):

            def f(x, y, places=places):
                return np.interp(places, x, y, **more)

            at_once = xpapply.vectorize(f, signature="(n),(n)->(m)")
            want = np.stack([f(*s) for s in zip(heights, values, strict=True)])
            assert at_once.explain(heights, values).vectorized
            np.testing.assert_array_equal(at_once(heights, values), want)
