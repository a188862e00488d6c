"""Every rule and operator on slices that it does not expect: what NumPy's loop makes of them.

One slice of nine, the first, a middle or the last one, has NaN, infinities, zeros of both signs,
denormals, the largest integers ... in one of 19 dtypes. Values, dtypes, exceptions with their
texts, and warnings have to be those of the loop. What is drawn is seeded by the name of the
example, so that every run is the same; ``XPAPPLY_PROFILE=deep`` draws many more.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any

import numpy as np
import offending
import pytest
import test_numpy_rules

DEEP = os.environ.get("XPAPPLY_PROFILE") == "deep"
TRIES = int(os.environ.get("XPAPPLY_TRIES", "40" if DEEP else "1"))

VALUES = {
    "w": "v[::-1]",
    "u": "v[:5]",
    "s": "v[2]",
    "m": "v[:9].reshape(3, 3)",
    "r": "v[:12].reshape(4, 3)",
    "P": "v[:9].reshape(3, 3) @ v[:9].reshape(3, 3).T",
    "i": "np.abs(v.real).astype(np.int64) % 3",
    "S": "np.sort(v)",
}
"""What the examples of `test_numpy_rules` call the parts of a slice `v`."""

CONSTANTS: dict[str, Any] = {
    "np": np,
    "math": math,
    "k": np.arange(16) * 0.5 - 1,
    "K1": np.full(1, 0.5),
    "K2": np.arange(16) + 1.0,
    "I": np.arange(16)[::-1],
    "M": np.arange(9).reshape(3, 3) % 7 + np.eye(3),
    "A": np.random.default_rng(0).normal(size=(16, 3)),
    "c": np.array([-1.0, 0.5, 2.0]),
    "C5": np.array([0.0, 1.0, 2.0, 2.5, 4.0]),
    "Q": np.array([0.0, 0.25, 0.9]),
    "ki": np.array([1, 2, 1]),
    "kf": np.array([1.0, 0.5, 0.25]),
}

OPERATORS = """
np.sort(v) ; np.argsort(v) ; np.partition(v, 3) ; np.argpartition(v, 3)[3] ; np.median(v)
np.unique(v)[0] ; np.percentile(v, [10, 50]) ; np.max(v) ; np.min(v) ; np.argmax(v)
np.fmax(v, w) ; np.maximum(v, w) ; np.ptp(v) ; np.nanmax(v) ; np.nanmedian(v) ; np.clip(v, 0, 1)
np.clip(v, -0.0, None) ; max(v) ; min(v) ; sorted(v)[3] ; np.maximum.reduce(v)
np.sort(v)[::-1] ; np.sign(v) ; np.round(v) ; np.abs(v) ; np.nan_to_num(v) ; np.trunc(v) ; -v
v * -1 ; np.copysign(1, v) ; np.cumsum(v) ; np.sum(v) ; np.prod(v) ; np.mean(v) ; v[v > 0].sum()
np.sort(v[v > 0]) ; np.median(v[v >= 0]) ; np.unique(v, return_counts=True)[1]
np.lexsort((v, w)) ; np.searchsorted(S, v) ; np.diff(v) ; np.interp(.5, k, v) ; np.gradient(v)
v + v ; v - w ; v * w ; v / w ; v // w ; v % w ; v ** 2 ; v ** -1 ; v ** .5 ; v ** w ; v @ w
v == w ; v < w ; v & w ; v ^ w ; v << 1 ; v >> 1 ; ~v ; divmod(v, w)[1] ; v[0] + v[1]
v[0] - v[1] ; v[0] * v[1] ; v[0] / v[1] ; v[0] // v[1] ; v[0] % v[1] ; v[0] ** v[1] ; -v[0]
abs(v[0]) ; v[0] < v[1] ; v[0] == v[1] ; v[0] & v[1] ; v[0] << v[1] ; ~v[0] ; v[0] + 1
1 - v[0] ; v[0] * 2.5 ; v[0] ** 2 ; v[0] ** -1 ; v[0] ** .5 ; v[0] + v ; v - v[0] ; v / v[0]
divmod(v[0], v[1])[0] ; np.exp(v) ; np.log(v) ; np.sqrt(v) ; np.sin(v) ; np.arctan2(v, w)
np.hypot(v, w) ; np.log1p(v) ; np.expm1(v) ; np.floor(v) ; np.rint(v) ; np.isnan(v)
np.square(v) ; np.reciprocal(v) ; np.cbrt(v) ; np.logaddexp(v, w) ; np.power(v, w)
np.float_power(v, 2) ; np.fmod(v, w) ; np.gcd(v, w) ; np.spacing(v) ; np.nextafter(v, w)
np.ldexp(v, 2) ; np.heaviside(v, 0.5) ; np.modf(v)[0] ; np.frexp(v)[0] ; np.add.reduce(v)
np.multiply.accumulate(v) ; np.subtract.outer(v, v) ; np.conj(v) ; np.logical_and(v, w)
np.arccosh(v) ; np.tan(v) ; np.exp(v[0]) ; np.log(v[0]) ; np.sqrt(v[0]) ; np.exp(v).sum()
math.sqrt(v[0]) ; math.log(v[0]) ; math.exp(v[0]) ; math.sin(v[0]) ; math.floor(v[0])
math.ceil(v[0]) ; math.isnan(v[0]) ; math.hypot(v[0], v[1]) ; math.atan2(v[0], v[1])
math.fmod(v[0], v[1]) ; math.tanh(v[0]) ; math.log10(v[0]) ; math.trunc(v[0]) ; int(v[0])
float(v[0]) ; round(v[0]) ; bool(v[0]) ; round(v[0], 1) ; int(v[0]) + 1 ; float(v[0]) ** 2
float(v[0]) / float(v[1]) ; int(v[0]) // int(v[1]) ; int(v[0]) % 3 ; int(v[0]) * int(v[1])
np.zeros(3) + int(v[0]) ; sum(v) ; max(v) ; min(v) ; sorted(v) ; all(v) ; any(v)
max(v[0], v[1]) ; sum(x * x for x in v) ; [x + 1 for x in v] ; v.astype(int) ; v.astype("u1")
v.astype("f4") ; v.astype(bool) ; v.astype("f2") ; v.sum(dtype="f4") ; v.sum(dtype=int)
v.mean(dtype="f4") ; v.cumsum(dtype="i2") ; np.array([v[0], v[1]]) ; np.array([v[0], 2.5])
np.array([v[0], 1], dtype="i2") ; np.full(3, v[0]) ; np.where(v > 1, v, 0)
np.where(v > 1, v, -0.0) ; v.dot(w) ; v.tolist() ; v.item(0) ; v.clip(0, 2) ; v.round(1)
v.std(ddof=1) ; v.var() ; v.argsort() ; v.real ; v.imag ; v.conj() ; np.inner(v, w)
np.dot(v, w) ; np.outer(v, v) ; np.vdot(v, w) ; np.linalg.norm(v) ; np.linalg.norm(m)
np.linalg.norm(m, 2) ; np.linalg.svd(m)[1] ; np.linalg.pinv(m) ; np.linalg.inv(m)
np.linalg.det(m) ; np.linalg.eigvalsh(P) ; np.linalg.eigvals(m) ; np.linalg.solve(m, v[:3])
np.linalg.lstsq(A, v)[0] ; np.linalg.lstsq(r, v[:4])[0] ; np.linalg.matrix_rank(m)
np.linalg.cond(m) ; np.linalg.qr(m)[1] ; np.linalg.cholesky(P) ; np.linalg.slogdet(m)[1]
np.linalg.matrix_power(m, 3) ; np.polyfit(k, v, 1) ; np.polyfit(k, v, 2, cov=True)[1]
np.polyfit(v, k, 1) ; np.polyfit(k, v, 1, full=True)[1] ; np.roots(v[:4]) ; np.bincount(i)
np.bincount(v) ; np.bincount(v, minlength=20) ; np.histogram(v, 4)[0]
np.histogram(v, 4, (0, 5))[0] ; np.histogram(v, 5)[1] ; np.digitize(v, c) ; np.cov(v, w)
np.corrcoef(v, w) ; np.convolve(v, c) ; np.correlate(v, c) ; np.cross(v[:3], w[:3])
np.kron(v[:3], c) ; np.average(v, weights=k * k+1) ; np.average(v, weights=v) ; np.trapezoid(v)
np.interp(k, k, v) ; np.quantile(v, .3) ; np.nanmean(v) ; np.nanstd(v) ; np.isclose(v, w)
np.allclose(v, w) ; np.packbits(v > 0) ; np.unwrap(v) ; np.fft.fft(v) ; np.fft.rfft(v)
np.vander(v, 3) ; np.polyval(v[:3], 2.0) ; np.select([v > 1], [v]) ; np.take(v, i)
np.repeat(v, 2) ; np.tile(v, 2) ; np.pad(v, 1) ; np.isin(v, [1, 2]) ; np.count_nonzero(v)
np.argmax(v) ; np.nanargmax(v) ; np.ediff1d(v) ; np.around(v, 1) ; np.real_if_close(v)
np.i0(v) ; np.sinc(v) ; np.flatnonzero(v) ; np.trim_zeros(v) ; np.array_equal(v, w)
np.linalg.multi_dot([m, m, m]) ; np.einsum("i,i", v, w) ; np.tensordot(m, m) ; np.trace(m)
np.linalg.eigh(P)[0] ; np.linalg.eig(m)[0]
"""

SCIPY = """
st.tmean(v, (-5, 5)) ; st.tvar(v, (-5, 5)) ; st.tstd(v, (-5, 5)) ; st.tsem(v, (-5, 5))
st.tmin(v, -3) ; st.tmax(v, 3) ; st.tmin(v, 50) ; st.tmax(v, -50)
st.tstd(v, (-5, 5), (False, False)) ; st.tmean(v, (None, 2)) ; st.trim_mean(v, .2)
st.mode(v).mode ; st.mode(v).count ; st.mode(v, nan_policy="omit").mode
sg.convolve(v, ki, "same") ; sg.correlate(v, ki, "same") ; sg.convolve(v, ki)
sg.correlate(v, ki, "valid") ; sg.convolve(v, ki, "same", "fft")
sg.convolve(v,ki,"same","direct") ; sg.convolve(v, kf, "same") ; sg.correlate(v, kf, "same")
sg.fftconvolve(v, ki, "same") ; sg.oaconvolve(v, kf) ; nd.median_filter(v, 3)
nd.rank_filter(v, 1, size=3) ; nd.percentile_filter(v, 30, size=5) ; sg.medfilt(v, 3)
sg.medfilt(v, 5) ; nd.minimum_filter(v, 3) ; nd.maximum_filter(v, 3)
nd.median_filter(v, 3, mode="constant") ; nd.minimum_filter1d(v, 3) ; nd.maximum_filter1d(v, 3)
nd.grey_opening(v, 3) ; nd.white_tophat(v, 3) ; sg.order_filter(v, np.ones(3), 1)
sg.medfilt2d(v.reshape(4,4), 3) ; nd.median_filter(v.reshape(4,4), 3) ; nd.grey_erosion(v, 3)
st.iqr(v) ; st.rankdata(v) ; st.median_abs_deviation(v) ; st.zscore(v) ; st.skew(v)
st.kurtosis(v) ; st.sem(v) ; st.gmean(v) ; st.hmean(v) ; st.pmean(v, 2) ; st.variation(v)
st.entropy(v) ; st.moment(v, 2) ; st.describe(v)[2] ; st.scoreatpercentile(v, 30)
st.trimboth(v, .1) ; st.gstd(v) ; st.circmean(v) ; st.ttest_1samp(v, 0)[1]
st.pearsonr(v, w)[0] ; st.spearmanr(v, w)[0] ; st.linregress(k, v)[0] ; st.kendalltau(v, k)[0]
st.differential_entropy(v) ; st.percentileofscore(v, .5) ; st.kstat(v) ; st.jarque_bera(v)[0]
st.normaltest(v)[0] ; st.zmap(v, w) ; sg.savgol_filter(v, 5, 2) ; sg.detrend(v) ; sg.hilbert(v)
sg.resample(v, 9) ; sg.decimate(v, 2) ; sg.lfilter([1, .5], [1], v)
sg.lfilter([1., .5], [1, .3], v) ; sg.filtfilt([1, .5], [1, .3], v) ; sg.welch(v, nperseg=8)[1]
sg.periodogram(v)[1] ; sg.wiener(v, 3) ; sg.resample_poly(v, 3, 2) ; sg.upfirdn([1, 2], v)
sg.czt(v) ; sp.logsumexp(v) ; sp.softmax(v) ; sp.log_softmax(v) ; sp.comb(v, 2)
sp.factorial(v) ; sp.expit(v) ; sp.gamma(v) ; sp.erf(v) ; sp.xlogy(v, v) ; sp.entr(v)
sp.logit(v) ; it.simpson(v) ; it.trapezoid(v) ; it.cumulative_trapezoid(v) ; sl.norm(v)
sl.norm(v, 1) ; sl.svd(m)[1] ; sl.inv(m) ; sl.det(m) ; sl.eigvals(m) ; sl.eigh(P)[0]
sl.pinv(m) ; sl.expm(m) ; sl.lstsq(A, v)[0] ; sl.solve(m, v[:3]) ; sl.solve_triangular(m, v[:3])
sl.toeplitz(v[:4]) ; sl.cholesky(P) ; sl.lu(m)[2] ; sl.qr(m)[1] ; sd.euclidean(v, w)
sd.cosine(v, w) ; sd.correlation(v, w) ; sd.cityblock(v, w) ; sd.chebyshev(v, w)
sd.canberra(v, w) ; sd.braycurtis(v, w) ; sd.hamming(v, w) ; sd.minkowski(v, w, 3)
sd.sqeuclidean(v, w) ; sd.jensenshannon(v, w) ; sd.jaccard(v > 0, w > 0)
nd.gaussian_filter1d(v, 1.5) ; nd.gaussian_filter(v, 1) ; nd.uniform_filter1d(v, 3)
nd.sobel(v) ; nd.prewitt(v) ; nd.laplace(v) ; nd.correlate1d(v, [1, 2])
nd.convolve(v, [1, 2, 1]) ; nd.uniform_filter(v, 3) ; nd.zoom(v, 2) ; nd.shift(v, .5)
nd.binary_erosion(v > 0) ; nd.label(v > 0)[0] ; nd.center_of_mass(v)[0] ; nd.spline_filter1d(v)
nd.morphological_gradient(v, 3) ; ff.fft(v) ; ff.rfft(v) ; ff.dct(v) ; ff.dst(v)
ff.fftshift(v) ; ff.irfft(v) ; ff.ifft(v) ; ff.dctn(v) ; ff.hfft(v)
"""

SCIPY_NAMES = {
    "st": "stats",
    "sg": "signal",
    "nd": "ndimage",
    "sp": "special",
    "it": "integrate",
    "sl": "linalg",
    "ff": "fft",
    "sd": "spatial.distance",
}

SELECTS = re.compile(
    r"np\.(sort|argsort|part|median|max|min|amax|amin|arg|ptp|clip|where|unique|fm|maximum|minimum|"
    r"take|roll|flip|tile|repeat|pad|concat|stack|diag|tri|bincount|digitize|searchsorted|isin|"
    r"count|abs|sign|round|around|trunc|floor|rint|copysign|lexsort|percentile\(v,\[|real|imag)"
)
"""Functions that compute nothing: their results are the same bit for bit."""

OTHER_WARNINGS = re.compile(r"wiener|gstd|percentileofscore|np\.polyfit|np\.roots")
"""What warns in several places, or of what the slices have together."""


def sources() -> list[str]:
    found = [f"np.{source}" for source, *_ in dict.fromkeys(test_numpy_rules.CASES)]
    for text in (OPERATORS, SCIPY):
        found += [x.strip() for line in text.strip().splitlines() for x in line.split(" ; ")]
    return list(dict.fromkeys(found))


SOURCES = sources()


def function(source: str) -> Any:
    """A function of a slice `v`, of a source that may name its parts."""
    used = [n for n in VALUES if re.search(rf"\b{n}\b", source)]
    lines = [f"    {n} = {VALUES[n]}" for n in used]
    given = dict(CONSTANTS)
    for short, name in SCIPY_NAMES.items():
        if re.search(rf"\b{short}\.", source):
            given[short] = pytest.importorskip(f"scipy.{name}")
    code = "\n".join(["def f(v):", *lines, f"    return {source}"])
    exec(compile(code, f"<{source}>", "exec"), given)

    def one_result(v: Any) -> Any:
        found = given["f"](v)
        if isinstance(found, (tuple, list)) and not source.startswith("["):
            found = [x for x in found if x is not None]
            found = found[-1 if len(found) % 2 else 0]
        return found

    return one_result


def check(source: str, dtype: str, offence: str, place: str, rng: Any) -> None:
    arr = offending.array(dtype, offence, place, rng)
    exact = bool(SELECTS.match(source)) and "axis=None" not in source
    why = offending.compare(
        function(source), arr, exact, warnings=not OTHER_WARNINGS.search(source)
    )
    assert not why, f"{source} of {dtype}, {offence} {place}: {why}"


def drawn(source: str, k: int) -> tuple[str, str, str, Any]:
    rng = np.random.default_rng([k, *map(ord, source)])
    dtype = str(rng.choice(offending.DTYPES))
    return dtype, str(rng.choice(offending.kinds(dtype))), str(rng.choice(offending.PLACES)), rng


@pytest.mark.parametrize("part", range(20))
def test_one_offending_slice(part: int) -> None:
    """Each source once, in parts, or all of them often."""
    wrong = []
    for source in SOURCES[part::20]:
        for k in range(TRIES):
            try:
                check(source, *drawn(source, k))
            except AssertionError as error:
                wrong.append(str(error).splitlines()[0])
                break
    assert not wrong, "\n".join(wrong)


FOUND = [
    ("st.tvar(v, (-5, 5))", "f8", "far away"),
    ("st.tstd(v, (-5, 5))", "f8", "far away"),
    ("st.tsem(v, (-5, 5))", "f8", "far away"),
    ("st.tmean(v, (-5, 5))", "f8", "far away"),
    ("st.tstd(v, (-5, 5), (False, False))", "i8", "largest"),
    ('sg.convolve(v, ki, "same")', "f8", "nan"),
    ('sg.correlate(v, ki, "same")', "f4", "inf"),
    ('sg.convolve(v, kf, "same")', "F", "inf"),
    ("nd.median_filter(v, 3)", "f8", "signed zeros"),
    ("nd.rank_filter(v, 1, size=3)", "f8", "signed zeros"),
    ("nd.rank_filter(v, 1, size=3)", "u8", "largest"),
    ("nd.percentile_filter(v, 30, size=5)", "f4", "signed zeros"),
    ("sg.medfilt(v, 3)", "f8", "-0.0"),
    ("st.mode(v).mode", "f8", "signed zeros"),
    ("max(v)", "D", "nan"),
    ("min(v)", "F", "nan"),
    ("v[0] < v[1]", "D", "nan"),
    ("v ** -1", "D", "inf"),
    ("v ** 2.0", "D", "largest"),
    ("v * -1", "G", "ordinary"),
    ("np.dot(v, w)", "F", "inf and -inf"),
    ("v @ w", "F", "inf and -inf"),
    ('np.einsum("i,i", v, w)', "D", "inf"),
    ("np.polyval(v, s)", "i1", "largest"),
    ("np.tensordot(v, w, 0)", "G", "largest"),
]


@pytest.mark.parametrize("place", offending.PLACES)
@pytest.mark.parametrize(("source", "dtype", "offence"), FOUND)
def test_what_was_found(source: str, dtype: str, offence: str, place: str) -> None:
    for seed in range(4):
        check(source, dtype, offence, place, np.random.default_rng(seed))
