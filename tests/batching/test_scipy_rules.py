"""Every rule of SciPy's functions against the calls on single slices."""

from __future__ import annotations

import contextlib
import importlib
import warnings

import numpy as np
import pytest

from xpapply.batching import Batched, NoRule

pytest.importorskip("scipy")

from xpapply.batching import scipy as known
from xpapply.batching.scipy import axis

PACKAGES = [
    "stats",
    "special",
    "signal",
    "fft",
    "ndimage",
    "integrate",
    "linalg",
    "spatial.distance",
    "fftpack",
]  # imported, so that rows are found
MODULES = {p: importlib.import_module(f"scipy.{p}") for p in PACKAGES}
ROW = {row.name: row for row in known.ROWS}

X = "X"  # in the arguments of an example: the slice
SHARES = "shares"  # numbers between 0 and 1 that are made of it
Y = "Y"  # another slice, of the same length


def data(kind, n, m, seed=0):
    """Slices: ordinary ones, and with what functions treat apart."""
    r = np.random.default_rng([seed, n, m])
    if kind == "int":
        return r.integers(-9, 9, (n, m))
    if kind == "bool":
        return r.random((n, m)) < 0.6
    if kind == "complex":
        return r.normal(size=(n, m)) + 1j * r.normal(size=(n, m))
    x = r.normal(size=(n, m)).astype(kind if kind in ("f2", "f4") else "f8")
    if kind == "positive":
        return np.exp(x)
    if kind == "ties":
        return np.round(x)
    if kind == "odd" and n >= 4:
        x[0, : m // 2] = 0.5
        x[1] = 3.25
        x[2, m // 3] = np.nan
        x[3, m // 2] = np.inf
    if kind == "constant":
        x[::2] = 0
    if kind == "apart":
        x[::2] += 100.0 * (seed + 1)
    if kind == "nan":
        x[-1, -1] = np.nan
    if kind == "strided":
        return np.asfortranarray(x)
    if kind == "zero":
        x[:-1] = 0
        x[0, 0] = 1
    if kind == "huge":
        x[0] *= 1e200
        x[-1] *= 1e-200
    return x


def examples():
    """Package, names, arguments, and what else an example needs."""
    r = np.random.default_rng(0)
    b, a = MODULES["signal"].butter(3, 0.3)
    sos = MODULES["signal"].butter(4, 0.3, output="sos")
    grid = np.cumsum(r.random(40) + 0.1)
    other = r.normal(size=40)
    fir = np.array([0.25, 0.5, -0.25])
    odd = ("f8", "f4", "int", "odd", "constant", "ties", "nan", "zero", "strided")
    fine = ("f8", "f4", "int")

    def e(package, names, *args, kinds=fine, m=(40, 17, 13), **kw):
        return [(f"scipy.{package}.{name}", args, kw, kinds, m) for name in names.split()]

    s = "stats"
    yield from e(s, "zscore skew kurtosis sem tvar tstd tmin tmax tsem variation moment tmean "
                 "rankdata iqr median_abs_deviation mode kstat kstatvar circmean circvar circstd",
                 X, kinds=odd, m=(40, 9, 3, 1))  # fmt: skip
    yield from e(s, "describe", X, kinds=odd, m=(40, 9, 2))
    yield from e(s, "zscore skew kurtosis sem variation iqr median_abs_deviation gstd", X,
                 nan_policy="omit", kinds=("odd", "nan"))  # fmt: skip
    yield from e(s, "skew kurtosis", X, bias=False, kinds=odd)
    yield from e(s, "gzscore gstd hmean gmean", X, kinds=("positive", "constant", "nan"), m=(40, 3))
    yield from e(s, "pmean", X, 2.5, kinds=("positive",))
    yield from e(s, "gmean hmean", X, weights=abs(other), kinds=("positive",), m=(40,))
    yield from e(s, "trim_mean", X, 0.1, kinds=odd)
    yield from e(s, "zmap", X, X, kinds=odd)
    yield from e(s, "zmap", X, other, kinds=odd, m=(40,))
    yield from e(s, "entropy", X, kinds=("positive", "constant", "nan"), m=(40, 3, 1))
    yield from e(s, "entropy", X, abs(other), base=2, kinds=("positive",), m=(40,))
    yield from e(s, "differential_entropy", X, kinds=odd)
    yield from e(s, "moment", X, 3, kinds=odd)
    yield from e(s, "lmoment", X, kinds=odd, m=(40, 9, 4))
    yield from e(s, "lmoment", X, [1, 3], standardize=False, kinds=fine)
    yield from e(s, "false_discovery_control combine_pvalues", SHARES, kinds=(*fine, "ties"))
    yield from e(s, "false_discovery_control", SHARES, method="by")
    yield from e(s, "combine_pvalues", SHARES, method="stouffer", weights=abs(other), m=(40,))
    for method in ("min", "max", "dense", "ordinal"):
        yield from e(s, "rankdata", X, method, kinds=("f8", "ties", "int"), m=(40, 3))
    yield from e(s, "mode", X, kinds=("int", "ties", "nan"))
    yield from e(s, "percentileofscore", X, 0.25, kinds=fine)
    yield from e(s, "scoreatpercentile", X, 30, kinds=odd)
    yield from e(s, "cumfreq relfreq", X, 5)
    yield from e(s, "boxcox", X, 0.3, kinds=("positive",))
    yield from e(s, "yeojohnson", X, kinds=("f8",), m=(13,))
    yield from e(s, "trimboth trim1", X, 0.1)
    yield from e(s, "expectile", X, 0.3, kinds=("f8",))
    yield from e(s, "normaltest skewtest kurtosistest jarque_bera shapiro", X, kinds=odd,
                 m=(40, 20, 8, 3))  # fmt: skip
    yield from e(s, "ttest_1samp", X, 0.1, kinds=odd, m=(40, 5, 1))
    yield from e(s, "ttest_1samp", X, 0.1, alternative="less", kinds=odd)
    yield from e(s, "ttest_ind ttest_rel f_oneway pearsonr linregress spearmanr", X, Y, kinds=odd,
                 m=(40, 5, 3, 2))  # fmt: skip
    yield from e(s, "ttest_ind ttest_rel f_oneway pearsonr linregress spearmanr", grid, X,
                 kinds=(*odd, "huge"), m=(40,))  # fmt: skip
    yield from e(s, "pearsonr linregress spearmanr", X, other, kinds=odd, m=(40,))
    yield from e(s, "linregress spearmanr", X, Y, alternative="greater")
    yield from e(s, "ttest_ind", X, Y, equal_var=False, kinds=odd)
    yield from e(s, "f_oneway", X, other, Y, m=(40,))
    yield from e(s, "spearmanr", X, Y, nan_policy="omit", kinds=("f8", "nan"))
    ranked = (*odd, "huge", "apart", "bool")
    yield from e(s, "wilcoxon", X, kinds=odd, m=(60, 14, 9, 3))
    for how in ({"zero_method": "pratt"}, {"method": "asymptotic"}, {"alternative": "less"}):
        # of ties SciPy counts all signs, 2**m for each slice: 13 took 70 s
        yield from e(s, "wilcoxon", X, Y, **how, kinds=odd, m=(8,))
    yield from e(s, "mannwhitneyu kruskal kendalltau theilslopes ranksums brunnermunzel levene "
                 "bartlett fligner ansari mood pointbiserialr",
                 X, Y, kinds=ranked, m=(60, 13, 7, 3, 1))  # fmt: skip
    yield from e(s, "mannwhitneyu ansari mood ranksums kendalltau", X, Y, alternative="less",
                 kinds=odd, m=(13, 7))  # fmt: skip
    yield from e(s, "mannwhitneyu", X, Y, method="exact", kinds=("f8", "ties"), m=(13, 7))
    yield from e(s, "brunnermunzel", X, Y, distribution="normal", kinds=ranked, m=(13,))
    yield from e(s, "levene fligner", X, Y, other[:13], center="mean", kinds=ranked, m=(13,))
    yield from e(s, "kruskal mannwhitneyu wilcoxon", X, Y, nan_policy="omit",
                 kinds=("f8", "nan", "odd"), m=(9,))  # fmt: skip
    yield from e(s, "ks_2samp siegelslopes weightedtau energy_distance wasserstein_distance",
                 X, Y, kinds=("f8", "ties"), m=(13,))  # fmt: skip
    yield from e(s, "friedmanchisquare", X, Y, other[:13], kinds=ranked, m=(13,))
    yield from e(s, "chisquare power_divergence", X, kinds=("positive", "constant"))
    yield from e(s, "chi2_contingency", X, kinds=("positive",))  # see test_tables_of_counts
    yield from e(s, "kstest ks_1samp", X, MODULES["stats"].norm.cdf, kinds=("f8",))
    yield from e(s, "anderson", X, kinds=("f8",), m=(40,), method="interpolate")

    for options in ({"keepdims": True}, {"axis": None}, {"axis": 0}):
        yield from e(s, "skew iqr mode sem tmean", X, **options)

    s = "special"
    yield from e(s, "logsumexp softmax log_softmax", X, kinds=(*odd, "huge"), m=(40, 3, 1))
    yield from e(s, "logsumexp", X, b=other, kinds=odd, m=(40,))
    yield from e(s, "logsumexp", X, b=other, return_sign=True, m=(40,))
    yield from e(s, "logsumexp softmax", X, axis=0)
    yield from e(s, "comb perm", X, 2)
    yield from e(s, "comb", 12, X)
    yield from e(s, "factorial", X, kinds=("int", "f8"))
    yield from e(s, "factorial2", X, kinds=("int",))
    yield from e(s, "polygamma", 2, X, kinds=(*odd, "positive"))
    yield from e(s, "polygamma", X, 1.5, kinds=("int", "positive"))
    yield from e(s, "zeta", X, kinds=(*odd, "positive"))
    yield from e(s, "zeta", X, 1.5, kinds=("f8", "f4", "positive"))

    s = "signal"
    signals = ("f8", "f4", "int", "nan", "odd", "zero", "strided")
    yield from e(s, "savgol_filter", X, 7, 2, kinds=(*signals, "huge"))
    yield from e(s, "savgol_filter", X, 5, 3, deriv=1, mode="nearest", kinds=signals)
    yield from e(s, "filtfilt lfilter", b, a, X, kinds=(*signals, "complex"))
    yield from e(s, "filtfilt", b, a, X, method="gust", kinds=fine)
    yield from e(s, "lfilter", fir, 1.0, X, kinds=signals)
    yield from e(s, "lfilter", b, a, X, zi=np.ones(3), kinds=signals)
    yield from e(s, "lfilter", fir, [1.0], X, zi=np.ones(2), kinds=signals)
    yield from e(s, "lfilter", X, [1.0], other, kinds=("f8",))
    yield from e(s, "sosfilt sosfiltfilt", sos, X, kinds=signals)
    yield from e(s, "sosfilt", sos, X, zi=np.ones((2, 2)), kinds=signals)
    yield from e(s, "detrend", X, kinds=signals)
    yield from e(s, "detrend", X, type="constant", kinds=signals)
    yield from e(s, "detrend", X, bp=[5], kinds=("f8",))
    yield from e(s, "hilbert", X, kinds=("f8", "f4", "nan"))
    yield from e(s, "hilbert", X, 64, kinds=("f8",))
    yield from e(s, "decimate", X, 2, kinds=signals, m=(40, 33))
    yield from e(s, "decimate", X, 2, ftype="fir", kinds=("f8",), m=(40, 33))
    yield from e(s, "resample", X, 25, kinds=("f8", "f4", "nan", "complex"))
    yield from e(s, "resample", X, 25, t=grid, kinds=("f8",), m=(40,))
    yield from e(s, "resample_poly", X, 3, 2, kinds=signals)
    yield from e(s, "resample_poly", X, 3, 2, padtype="line", kinds=("f8",))
    yield from e(s, "medfilt", X, kinds=(*signals, "ties"), m=(40, 9, 3))
    yield from e(s, "medfilt", X, 5, kinds=(*signals, "ties"), m=(40, 5))
    image = ("rows", (4, 10))
    yield from e(s, "medfilt2d", image, kinds=("f8", "f4", "nan", "ties", "zero"), m=(40,))
    yield from e(s, "medfilt2d", image, (1, 5), kinds=("f8", "int"), m=(40,))
    yield from e(s, "medfilt2d", image, 7, kinds=("f8",), m=(40,))
    for mode in ("full", "same", "valid"):
        for kernel in (np.outer(fir, fir), np.outer(fir, fir)[:2], fir[None]):
            yield from e(s, "convolve2d correlate2d", image, kernel, mode,
                         kinds=(*signals, "complex"), m=(40,))  # fmt: skip
            # not float32: SciPy casts memory that nothing was written to, which may warn
            yield from e(s, "convolve correlate", image, kernel, mode,
                         kinds=("f8", "int", "nan", "odd", "strided", "complex"),
                         m=(40,))  # fmt: skip
    yield from e(s, "convolve correlate", image, np.ones((3, 3), int), kinds=("int",), m=(40,))
    yield from e(s, "convolve2d correlate2d", image, np.ones((2, 3)) * 1j, kinds=("f8",), m=(40,))
    yield from e(s, "convolve2d correlate2d", image, np.outer(fir, fir), boundary="symm",
                 kinds=("f8",), m=(40,))  # fmt: skip
    yield from e(s, "convolve2d", np.outer(fir, fir), image, kinds=("f8",), m=(40,))
    yield from e(s, "convolve2d correlate2d", image, np.ones((5, 2)), kinds=("f8",), m=(40,))
    yield from e(s, "convolve correlate", X, fir, kinds=(*signals, "complex"), m=(40, 3, 2))
    yield from e(s, "convolve correlate fftconvolve", X, fir, "same", kinds=("f8", "int"))
    yield from e(s, "convolve correlate fftconvolve", X, fir, "valid", kinds=("f8", "int"))
    yield from e(s, "convolve correlate fftconvolve", fir, X, "same", kinds=("f8",), m=(40, 3))
    yield from e(s, "convolve correlate fftconvolve oaconvolve", X, Y, kinds=("f8", "int"))
    yield from e(s, "convolve", X, r.integers(-4, 9, 700), kinds=("int", "f8"), m=(900,))
    yield from e(s, "fftconvolve oaconvolve", X, other, kinds=("f8", "f4", "nan"))
    yield from e(s, "periodogram", X, kinds=signals, m=(40, 17))
    yield from e(s, "welch spectrogram", X, nperseg=16, kinds=signals, m=(40, 17))
    yield from e(s, "welch", X, 10.0, nperseg=8, average="median", kinds=("f8",))
    yield from e(s, "welch", X, nperseg=16, return_onesided=False, kinds=("complex",))
    yield from e(s, "welch spectrogram stft", X, kinds=("f8",), m=(300,))
    yield from e(s, "csd coherence", X, Y, nperseg=16, kinds=("f8", "f4", "int"))
    yield from e(s, "csd coherence", X, X, nperseg=8, kinds=("f8",))
    yield from e(s, "csd coherence", X, other, nperseg=8, kinds=("f8",), m=(40,))
    yield from e(s, "stft", X, nperseg=16, kinds=signals, m=(40, 17))
    yield from e(s, "upfirdn", fir, X, 2, kinds=signals)
    yield from e(s, "czt", X, kinds=signals)
    yield from e(s, "zoom_fft", X, [0.1, 0.4], kinds=signals)
    yield from e(s, "wiener", X, 5, kinds=("f8",))
    yield from e(s, "deconvolve", X, fir, kinds=("f8",))
    yield from e(s, "order_filter", X, np.ones(3), 1, kinds=("f8",))
    yield from e(s, "envelope", X, kinds=("f8",))
    yield from e(s, "peak_prominences", X, np.array([3, 9, 20]), kinds=("f8",))
    yield from e(s, "peak_widths", X, np.array([3, 9]), 0.3, kinds=("f8",))
    yield from e(s, "lombscargle", grid, X, np.linspace(0.5, 2, 5), kinds=("f8",), m=(40,))
    yield from e(s, "lfilter_zi", fir, X, kinds=("f8",), m=(4,))
    yield from e(s, "istft", ("rows", (9, 5)), nperseg=16, kinds=("complex",), m=(45,))
    yield from e(s, "sosfilt_zi", ("rows", (1, 6)), kinds=("sos",), m=(6,))

    s = "fft"
    real = ("f8", "f4", "int", "nan", "odd")
    yield from e(s, "fft ifft hfft irfft", X, kinds=(*real, "complex"), m=(40, 17, 2))
    yield from e(s, "rfft ihfft dct idct dst idst", X, kinds=real, m=(40, 17, 2))
    yield from e(s, "fft rfft dct", X, n=20, norm="ortho", kinds=real)
    yield from e(s, "fftn ifftn rfftn irfftn hfftn ihfftn dctn idctn dstn idstn fftshift ifftshift",
                 X, kinds=real)  # fmt: skip
    yield from e(s, "fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn dctn fftshift", ("rows", (4, 5)),
                 kinds=real, m=(20,))  # fmt: skip
    yield from e(s, "fftn", ("rows", (2, 4, 5)), s=(4, 4), axes=(0, 2), kinds=real, m=(40,))
    yield from e(s, "fht ifht", X, 0.1, 0.5, kinds=("f8",))

    s = "fftpack"
    yield from e(s, "fft ifft rfft irfft dct idct dst idst", X, kinds=real, m=(40, 17, 2))
    yield from e(s, "fft2 ifft2 fftn ifftn", ("rows", (4, 5)), kinds=real, m=(20,))
    yield from e(s, "fftn", ("rows", (2, 4, 5)), shape=(4, 4), axes=(0, 2), kinds=real, m=(40,))

    s = "ndimage"
    images = ("f8", "f4", "int", "odd", "ties", "strided")
    plane = ("rows", (4, 10))
    yield from e(s, "gaussian_filter1d gaussian_filter gaussian_laplace "
                 "gaussian_gradient_magnitude", X, 1.5, kinds=images, m=(40, 3, 1))  # fmt: skip
    yield from e(s, "gaussian_filter1d gaussian_filter", X, 2.0, order=1, mode="wrap", kinds=images)
    yield from e(s, "gaussian_filter gaussian_laplace gaussian_gradient_magnitude", plane,
                 (1.0, 2.0), kinds=("f8", "nan"), m=(40,))  # fmt: skip
    yield from e(s, "uniform_filter1d minimum_filter1d maximum_filter1d uniform_filter "
                 "median_filter minimum_filter maximum_filter grey_erosion grey_dilation "
                 "grey_opening grey_closing white_tophat black_tophat morphological_gradient "
                 "morphological_laplace",
                 X, 4, kinds=images, m=(40, 4, 3))  # fmt: skip
    yield from e(s, "uniform_filter median_filter minimum_filter grey_opening", X, size=3,
                 mode="constant", cval=1.0, origin=1, kinds=images)  # fmt: skip
    yield from e(s, "uniform_filter median_filter maximum_filter grey_dilation black_tophat", plane,
                 (2, 3), kinds=("f8", "nan"), m=(40,))  # fmt: skip
    yield from e(s, "median_filter maximum_filter", X, footprint=[1, 0, 1, 1], kinds=("f8",))
    yield from e(s, "median_filter", X, 3, axes=0, kinds=("f8",))
    yield from e(s, "grey_erosion grey_dilation", X, structure=[0.1, 0.0, 0.3], kinds=images)
    yield from e(s, "percentile_filter rank_filter", X, 2, size=5, kinds=images)
    yield from e(s, "correlate1d convolve1d correlate convolve", X, fir, kinds=images)
    yield from e(s, "correlate convolve", plane, np.outer(fir, fir), origin=(0, 1), mode="wrap",
                 kinds=("f8", "nan"), m=(40,))  # fmt: skip
    yield from e(s, "sobel prewitt laplace spline_filter1d", X, kinds=images, m=(40, 3, 2))
    yield from e(s, "sobel prewitt laplace", plane, kinds=("f8", "nan", "int"), m=(40,))
    yield from e(s, "sobel", plane, 0, kinds=("f8",), m=(40,))
    binary = ("binary_erosion binary_dilation binary_opening binary_closing binary_propagation "
              "binary_fill_holes")  # fmt: skip
    yield from e(s, binary, X, kinds=("bool",))
    yield from e(s, binary, plane, kinds=("bool",), m=(40,))
    yield from e(
        s, "binary_erosion binary_dilation", X, [1, 1, 0, 1], iterations=2, kinds=("bool",)
    )
    yield from e(
        s, "binary_dilation", X, iterations=-1, mask=other > -0.5, kinds=("bool",), m=(40,)
    )
    yield from e(s, "binary_dilation", X, iterations=2, border_value=1, origin=1, kinds=("bool",))
    hit = "binary_hit_or_miss"
    yield from e(s, hit, plane, kinds=("bool",), m=(40,))
    yield from e(s, hit, X, [0, 1, 1], [1, 0, 0], origin1=1, origin2=None, kinds=("bool", "nan"))
    yield from e(s, hit, plane, np.eye(3), origin2=(0, -1), kinds=("bool", "int"), m=(40,))
    yield from e(s, "binary_hit_or_miss label distance_transform_edt distance_transform_cdt "
                 "distance_transform_bf", X, kinds=("bool",))  # fmt: skip
    yield from e(s, "zoom shift", X, 1.5, kinds=("f8",))
    yield from e(s, "map_coordinates", X, [[0.5, 1.5]], kinds=("f8",))
    yield from e(s, "affine_transform", X, [1.5], kinds=("f8",))
    yield from e(s, "spline_filter", X, kinds=("f8",))
    yield from e(s, "center_of_mass sum sum_labels mean median variance standard_deviation minimum "
                 "maximum minimum_position maximum_position extrema", X, kinds=("f8",))  # fmt: skip
    yield from e(s, "sum_labels mean", X, np.arange(40) // 10, [0, 2], kinds=("f8",), m=(40,))
    yield from e(s, "histogram", X, -1, 1, 4, kinds=("f8",))
    yield from e(s, "fourier_gaussian fourier_uniform fourier_shift", X, 2.0, kinds=("complex",))

    s = "integrate"
    yield from e(s, "trapezoid simpson cumulative_trapezoid cumulative_simpson", X,
                 kinds=("f8", "f4", "int", "odd"), m=(40, 17, 3))  # fmt: skip
    yield from e(s, "trapezoid simpson cumulative_trapezoid", X, x=grid, kinds=("f8",), m=(40,))
    yield from e(s, "cumulative_simpson", X, x=grid, kinds=("f8",), m=(40,))
    yield from e(s, "trapezoid simpson cumulative_trapezoid", other, x=X, kinds=("f8",), m=(40,))
    yield from e(s, "trapezoid simpson", X, x=Y, kinds=("f8",))
    yield from e(s, "romb", X, kinds=("f8", "f4"), m=(33, 17))

    s = "linalg"
    square = ("rows", (3, 3))
    yield from e(s, "norm", X, kinds=(*odd, "huge"), m=(40, 1))
    yield from e(s, "norm", X, 1, kinds=fine)
    yield from e(s, "norm det inv eig eigvals eigh eigvalsh svd svdvals pinv expm logm sqrtm qr lu "
                 "lu_factor polar schur", square, kinds=("spd", "f4spd"), m=(9,))  # fmt: skip
    yield from e(s, "cholesky pinvh", square, kinds=("spd",), m=(9,))
    matrix = r.normal(size=(40, 3))
    yield from e(s, "lstsq", matrix, X, kinds=(*odd, "huge"), m=(40,))
    yield from e(s, "lstsq", matrix[:3], X, kinds=("f8",), m=(3,))
    system = matrix[:3] + 4 * np.eye(3)
    yield from e(s, "solve", system, X, kinds=fine, m=(3,))
    yield from e(s, "solve", square, system[0], kinds=("spd",), m=(9,))
    yield from e(s, "solve_triangular", system, X, kinds=fine, m=(3,))
    yield from e(s, "solve_toeplitz matmul_toeplitz solve_circulant", [4.0, 1.0, 0.5], X, m=(3,))
    yield from e(s, "cho_solve", (np.linalg.cholesky(system @ system.T), True), X, m=(3,))
    yield from e(s, "lu_solve", MODULES["linalg"].lu_factor(system), X, m=(3,))
    yield from e(s, "solve_banded", (0, 0), np.ones((1, 3)), X, m=(3,))
    yield from e(s, "solveh_banded", np.ones((1, 3)), X, m=(3,))
    yield from e(s, "toeplitz circulant hankel", X, m=(5,))

    s = "spatial.distance"
    names = ("euclidean sqeuclidean cityblock chebyshev hamming cosine correlation braycurtis "
             "canberra minkowski")  # fmt: skip
    yield from e(s, names, X, Y, kinds=(*odd, "huge"), m=(40, 3, 1))
    yield from e(s, names, other, X, kinds=(*odd, "huge"), m=(40,))
    yield from e(s, names, X, Y, w=abs(other), kinds=("f8",), m=(40,))
    yield from e(s, "minkowski", X, Y, 3, kinds=odd)
    yield from e(s, "jensenshannon", X, Y, kinds=("positive", "constant"), m=(40, 3))
    yield from e(
        s, "jaccard dice yule rogerstanimoto russellrao sokalsneath", X, Y, kinds=("bool",)
    )
    yield from e(s, "mahalanobis", X, Y, np.eye(13), kinds=("f8",), m=(13,))
    yield from e(s, "seuclidean", X, Y, np.ones(13), kinds=("f8",), m=(13,))
    yield from e(s, "pdist", plane, kinds=("f8",), m=(40,))
    yield from e(s, "cdist", plane, matrix[:10].T, kinds=("f8",), m=(40,))
    yield from e(s, "squareform", X, kinds=("f8",), m=(6,))


EXAMPLES = list(examples())


def slices(kind, n, m, seed):
    if kind.endswith("spd"):
        x = np.random.default_rng([seed, n]).normal(size=(n, 3, 3))
        x = x @ x.swapaxes(1, 2) + np.eye(3)
        return x.reshape(n, 9).astype("f4" if kind == "f4spd" else "f8")
    if kind == "sos":
        return data("f8", n, 6, seed) * [0.1, 0.1, 0.1, 0, 0.1, 0.1] + [0, 0, 0, 1, 0, 0]
    return data(kind, n, m, seed)


def attributes(found, expected):
    """The names of what a result has beside its fields, but for what a rule has left out."""
    found_too = []
    for k in getattr(expected, "__dict__", {}):
        with contextlib.suppress(NoRule):
            if not k.startswith("_"):
                getattr(found, k)
                found_too.append(k)
    return found_too


def compare(found, expected, b, rtol=32):
    """The value of slice `b` in what a rule returned, and what the call returned."""
    if isinstance(expected, (tuple, list)):
        assert isinstance(found, (tuple, list))
        assert len(found) == len(expected)
        assert getattr(found, "_fields", None) == getattr(expected, "_fields", None)
        for f, x in zip(found, expected, strict=True):
            compare(f, x, b, rtol)
        for k in attributes(found, expected):
            compare(getattr(found, k), getattr(expected, k), b, rtol)
        return
    got = found.array[b] if isinstance(found, Batched) else found
    if expected is None or isinstance(expected, str):
        assert got == expected
        return
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if got.dtype.kind in "fc":
        finite = abs(expected[np.isfinite(expected)])
        eps = np.finfo(got.dtype).eps
        atol = rtol * eps * finite.max(initial=0)
        np.testing.assert_allclose(got, expected, rtol=rtol * eps, atol=atol)
    else:
        np.testing.assert_array_equal(got, expected)


def run(function):
    """A result or exception, and the categories of warnings."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
        warnings.simplefilter("always")
        try:
            found = function()
        except Exception as exception:
            found = exception
    return found, {w.category for w in caught}


LOOSE = {"scipy.stats.linregress": 8, "scipy.stats.lmoment": 8}
"""Functions whose results differ by more than a few ulp, by a multiple of the usual tolerance."""


def function(name):
    """The function of a row; None: this SciPy does not have it."""
    package, _, attribute = name.removeprefix("scipy.").rpartition(".")
    return getattr(MODULES[package], attribute, None)


def filled_in(args, kw, x, y, of):
    """The arguments of an example for the slices `x` and `y`."""

    def one(v):
        if isinstance(v, str) and v in (X, Y):
            return of(x if v == X else y)
        if isinstance(v, tuple) and v and isinstance(v[0], str) and v[0] == "rows":
            return of(x.reshape(len(x), *v[1]))
        if isinstance(v, str) and v == SHARES:
            return of(1 / (1 + x.astype(np.result_type(x, np.float32)) ** 2))
        return v

    return [one(v) for v in args], {k: one(v) for k, v in kw.items()}


def check(name, args, kw, kind, n, m):
    row, call = ROW[name], function(name)
    if call is None:
        pytest.skip("not in this SciPy")
    x, y = (slices(kind, n, m, seed) for seed in (1, 2))

    def filled(of):
        return filled_in(args, kw, x, y, of)

    batch, more = filled(Batched)
    twice = sum(isinstance(v, str) and v == X for v in args[:2]) == 2
    if twice:
        batch[1] = Batched(batch[0].array)
    kept = x.copy()
    found, warned = run(lambda: row.rule(np, call, tuple(batch), more))
    np.testing.assert_array_equal(x, kept)
    singles = []
    for b in range(n):
        one, more = filled(lambda v, b=b: v[b])
        if twice:
            one[1] = one[0]
        singles.append(run(lambda one=one, more=more: call(*one, **more)))
    raised = [s for s, _ in singles if isinstance(s, Exception)]
    if raised:
        assert isinstance(found, Exception)
        assert isinstance(found, (NoRule, *map(type, raised)))
        return
    if isinstance(found, NoRule):
        shapes = {str([np.shape(v) for v in axis.taken_apart(s)[0].values()]) for s, _ in singles}
        dtypes = {
            str([np.asarray(v).dtype for v in axis.taken_apart(s)[0].values()]) for s, _ in singles
        }
        assert len(shapes) > 1 or len(dtypes) > 1, found
        return
    if isinstance(found, Exception):
        raise found
    (first, _), whole = singles[0], [s for s, _ in singles]
    for k in {*getattr(first, "__dict__", {})} - {*attributes(found, first)}:
        if not k.startswith("_"):  # that of one slice is of another dtype, or it cannot be told
            kinds = {np.asarray(getattr(s, k)).dtype for s in whole}
            assert len(kinds) > 1 or k in LEFT_OUT.get(name, ()), k
    for b, (expected, _) in enumerate(singles):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compare(found, expected, b, 32 * LOOSE.get(name, 1))
    assert warned == set().union(*(w for _, w in singles))


LEFT_OUT = {"scipy.stats.ks_2samp": ("statistic_location", "statistic_sign")}
"""Attributes that rules do not have: rounding chooses them."""
IDS = [f"{name.removeprefix('scipy.')}-{i}" for i, (name, *_) in enumerate(EXAMPLES)]


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_rule_is_the_call_on_each_slice(example, pairs):
    name, args, kw, kinds, lengths = example
    for kind, m in pairs(kinds, lengths):
        for n in (4, 1) if m == lengths[0] else (3,) if kind != "odd" else (4,):
            try:
                check(name, args, kw, kind, n, m)
            except AssertionError as error:
                raise AssertionError(f"{kind} {n} x {m}: {error}") from error


@pytest.mark.parametrize("order", [(), (2,), (1,)], ids=repr)
def test_norms_of_half_precision(order):
    """A product of a vector with itself is rounded in another way than sums along an axis."""
    check("scipy.linalg.norm", (X, *order), {}, "f2", 9, 40)


def test_every_row_has_an_example():
    present = {
        row.name
        for row in known.ROWS
        if row.kind != "made"  # which `test_interpolator_rules` has
        and hasattr(MODULES[row.name.removeprefix("scipy.").rpartition(".")[0]],
                   row.name.rpartition(".")[2])
    }  # fmt: skip
    assert present == {name for name, *_ in EXAMPLES} & present
    assert len(ROW) == len(known.ROWS)
