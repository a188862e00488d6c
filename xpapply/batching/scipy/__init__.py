"""Rules of SciPy, and the rules of integrals, linear algebra, distances and special functions.

Most functions take an axis (`axis.py`); those of statistics, and of signals and images,
have files of their own. What has no other form runs slice by slice, within one call of the batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Batched, BatchingRule, instances
from ..numpy.moves import moves
from ..rules import bound, elementwise, leaves, shifted, table
from .axis import (
    Rule,
    ambiguous,
    axis_call,
    by_rows,
    checked,
    extreme,
    fft_n,
    flat,
    split,
    with_nan,
)
from .distances import (
    braycurtis,
    canberra,
    cdist,
    correlation,
    cosine,
    distance,
    mahalanobis,
    minkowski,
    nrm2,
    sqeuclidean,
)
from .filters import (
    center_of_mass,
    convolve,
    convolve2d,
    derivative,
    fft_convolve,
    filter_n,
    hit_or_miss,
    istft,
    label,
    medfilt,
    of_axes,
    recursive,
    spline_filter,
)
from .shares import ks_1samp, ks_2samp, kstest, percentileofscore, scoreatpercentile
from .stats import (
    apart,
    boxcox,
    chi2_contingency,
    flat_or_extreme,
    linregress,
    lmoment,
    mode,
    spearmanr,
    statistic,
    tied_if,
    ties_of_differences,
    trimmed,
)
from .trends import kendalltau, theilslopes

# ----------------------------------------------- integrals, linalg, distances, special


def simpson(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Along the axis; of an even number of float32 values, a slice's result is in float64."""
    given = leaves((args, kwargs))
    if any(x.dtype.char not in "dD" and x.dtype.kind in "fc" for x in given):
        return by_rows(xp, call, args, kwargs)
    return axis_call("y x")(xp, call, args, kwargs)


def norm(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Norms of vectors along the axis."""
    given = bound(call, args, kwargs)
    a = given.get("a")
    if not isinstance(a, Batched) or a.ndim != 1 or len(list(leaves(given))) > 1:
        return by_rows(xp, call, args, kwargs)
    if xp is np and a.dtype == np.float16:  # squares are rounded in another way along an axis
        return by_rows(xp, call, args, kwargs)
    if set(given) == {"a"} and xp is np and a.dtype.char in "fdFDilq":
        return split(xp, call, args, kwargs, nrm2, [a.array], extreme)
    axis = given.get("axis")
    given["axis"] = -1 if axis is None else shifted(axis, 1)

    def run(a: Any) -> Any:
        return call(**given | {"a": a})

    return split(xp, call, args, kwargs, run, [a.array], extreme)


def lstsq(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """A matrix that is the same for all slices, with one right-hand side per slice."""
    given = bound(call, args, kwargs)
    checked((), given)
    a, b = given.pop("a"), given.pop("b")
    if any(leaves([a, given])) or b.ndim != 1 or xp is not np or b.shape[0] == 0:
        return by_rows(xp, call, args, kwargs)

    def run(b: Any) -> Any:
        x, residues, rank, s = call(a, b.T, **given)
        if residues is not None and np.shape(residues) != b.shape[:1]:
            residues = np.repeat(np.asarray(residues)[None], b.shape[0], axis=0)
        return x.T, residues, rank, s

    return split(xp, call, args, kwargs, run, [b.array], extreme, plain=(2, 3))


def elementwise_inexact(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
    """Elementwise unless exact=True, which returns Python's integers."""
    if bound(call, args, kwargs).get("exact"):
        return by_rows(xp, call, args, kwargs)
    return elementwise(xp, call, args, kwargs)


def columns(data: str) -> Rule:
    """A system that is the same for all slices, with their right-hand sides as columns."""

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = bound(call, args, kwargs)
        checked((), given)
        x = given.pop(data)
        if not isinstance(x, Batched) or x.ndim != 1 or x.shape[0] == 0 or any(leaves(given)):
            return by_rows(xp, call, args, kwargs)
        return Batched(xp.ascontiguousarray(call(**given | {data: x.array.T}).T))

    return rule


def structured(data: str) -> Rule:
    """Matrices that have each value in several places."""
    move = moves(data)

    def rule(xp: Any, call: Any, args: tuple, kwargs: dict) -> Any:
        given = list(leaves((args, kwargs)))
        if any(x.ndim != 1 or x.dtype.kind == "c" for x in given):  # some of them conjugated
            return by_rows(xp, call, args, kwargs)
        return move(xp, call, args, kwargs)

    return rule


# ---------------------------------------------------------------------------- rows


def _rows_of(package: str, rule: Rule, names: str, kind: str = "axis") -> list[BatchingRule]:
    return table(package, kind, rule, names, exact=False)


def _each(package: str, names: str) -> list[BatchingRule]:
    return table(package, "rows", by_rows, names, exact=True)


_STATS, _SIGNAL, _FFT = "scipy.stats", "scipy.signal", "scipy.fft"
_NDIMAGE, _INTEGRATE, _LINALG = "scipy.ndimage", "scipy.integrate", "scipy.linalg"
_DISTANCE, _SPECIAL = "scipy.spatial.distance", "scipy.special"

ROWS: list[BatchingRule] = [
    # descriptive statistics
    *_rows_of(_STATS, statistic("a", 0), "zscore gzscore skew kurtosis sem "
              "trim_mean tmin tmax variation moment describe gstd"),
    *_rows_of(_STATS, trimmed(0), "tvar tstd tsem"),
    *_rows_of(_STATS, trimmed(None), "tmean"),
    *_rows_of(_STATS, mode, "mode"),
    *_rows_of(_STATS, statistic("a", None, odd=with_nan), "rankdata"),
    *_rows_of(_STATS, statistic("a weights", 0), "hmean gmean pmean"),
    *_rows_of(_STATS, statistic("scores compare", 0), "zmap"),
    *_rows_of(_STATS, statistic("pk qk", 0), "entropy"),
    *_rows_of(_STATS, statistic("values", 0), "differential_entropy"),
    *_rows_of(_STATS, lmoment, "lmoment", "own"),
    *_rows_of(_STATS, statistic("ps", 0), "false_discovery_control"),
    *_rows_of(_STATS, statistic("pvalues weights", 0), "combine_pvalues"),
    *_rows_of(_STATS, statistic("x", None), "iqr"),
    *_rows_of(_STATS, statistic("x", 0), "median_abs_deviation"),
    *_rows_of(_STATS, statistic("samples", None), "circmean circvar circstd"),
    *_rows_of(_STATS, statistic("data", None), "kstat kstatvar"),
    *_rows_of(_STATS, axis_call("a", 0), "trimboth trim1"),
    *_rows_of(_STATS, percentileofscore, "percentileofscore", "own"),
    *_rows_of(_STATS, scoreatpercentile, "scoreatpercentile", "own"),
    *_rows_of(_STATS, boxcox, "boxcox", "own"),
    *_each(_STATS, "cumfreq relfreq expectile yeojohnson"),
    # tests: of few values they warn, and differently along an axis
    *_rows_of(_STATS, statistic("a", 0, least=10), "normaltest skewtest kurtosistest"),
    *_rows_of(_STATS, statistic("x", None, least=10), "jarque_bera"),
    *_rows_of(_STATS, statistic("a", 0, least=4), "ttest_1samp"),
    *_rows_of(_STATS, statistic("a b", 0, least=4), "ttest_ind ttest_rel"),
    *_rows_of(_STATS, statistic("*samples", 0, least=4), "f_oneway"),
    *_rows_of(_STATS, statistic("x y", 0, least=4), "pearsonr"),
    *_rows_of(_STATS, linregress, "linregress", "own"),
    *_rows_of(_STATS, spearmanr, "spearmanr", "own"),
    *_rows_of(_STATS, chi2_contingency, "chi2_contingency", "own"),
    *_rows_of(_STATS, statistic("x", None, least=4), "shapiro"),
    *_rows_of(_STATS, statistic("x y", 0, least=4, together=ties_of_differences), "wilcoxon"),
    # with ties all p-values of few are asymptotic
    *_rows_of(_STATS, statistic("x y", 0, least=4,
              together=tied_if(lambda m, n: min(m, n) <= 8)), "mannwhitneyu"),
    *_rows_of(_STATS, statistic("x y", 0, least=4, together=apart), "brunnermunzel"),
    *_rows_of(_STATS, statistic("x y", 0, least=4,
              together=tied_if(lambda m, n: max(m, n) < 55)), "ansari"),
    *_rows_of(_STATS, statistic("x y", 0, least=4), "ranksums mood pointbiserialr"),
    *_rows_of(_STATS, kendalltau, "kendalltau", "own"),
    *_rows_of(_STATS, theilslopes, "theilslopes", "own"),
    *_rows_of(_STATS, statistic("*samples", 0, least=4), "kruskal levene fligner "
              "friedmanchisquare"),
    *_rows_of(_STATS, statistic("*samples", 0, least=4, odd=flat_or_extreme), "bartlett"),
    *_rows_of(_STATS, statistic("f_obs f_exp", 0, least=4), "chisquare power_divergence"),
    *_rows_of(_STATS, ks_1samp, "ks_1samp", "own"),
    *_rows_of(_STATS, ks_2samp, "ks_2samp", "own"),
    *_rows_of(_STATS, kstest, "kstest", "own"),
    *_each(_STATS, "anderson siegelslopes weightedtau energy_distance wasserstein_distance"),
    # special functions that are no ufuncs
    *_rows_of(_SPECIAL, axis_call("a b", None), "logsumexp"),
    *_rows_of(_SPECIAL, axis_call("x", None), "softmax log_softmax"),
    *_rows_of(_SPECIAL, elementwise_inexact, "comb perm factorial factorial2 "
              "polygamma zeta", "elementwise"),
    # signals
    *_rows_of(_SIGNAL, axis_call("x", odd=extreme), "savgol_filter"),  # LAPACK fits the ends
    *_rows_of(_SIGNAL, axis_call("x"), "filtfilt sosfiltfilt hilbert decimate upfirdn czt "
              "zoom_fft"),
    *_rows_of(_SIGNAL, axis_call("x", 0, plain=(1,)), "resample resample_poly"),
    *_rows_of(_SIGNAL, axis_call("data", odd=extreme), "detrend"),
    *_rows_of(_SIGNAL, recursive("b a", sections=False), "lfilter"),
    *_rows_of(_SIGNAL, recursive("sos", sections=True), "sosfilt"),
    *_rows_of(_SIGNAL, istft, "istft"),
    *_rows_of(_SIGNAL, medfilt, "medfilt medfilt2d", "own"),
    *_rows_of(_SIGNAL, convolve2d, "convolve2d correlate2d", "own"),
    *_rows_of(_SIGNAL, convolve, "convolve correlate", "own"),
    *_rows_of(_SIGNAL, fft_convolve, "fftconvolve oaconvolve"),
    *_rows_of(_SIGNAL, axis_call("x", plain=(0,), callbacks="detrend"), "periodogram welch"),
    *_rows_of(_SIGNAL, axis_call("x y", plain=(0,), callbacks="detrend"), "csd coherence"),
    *_rows_of(_SIGNAL, axis_call("x", plain=(0, 1), callbacks="detrend"), "spectrogram stft"),
    *_each(_SIGNAL, "wiener deconvolve lfilter_zi sosfilt_zi lombscargle order_filter "
           "envelope peak_prominences peak_widths"),
    # transforms
    *_rows_of("scipy.fftpack", axis_call("x"), "fft ifft rfft irfft dct idct dst idst"),
    *_rows_of("scipy.fftpack", fft_n, "fft2 ifft2 fftn ifftn"),
    *_rows_of(_FFT, axis_call("x"), "fft ifft rfft irfft hfft ihfft dct idct dst idst"),
    *_rows_of(_FFT, fft_n, "fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn irfftn hfftn "
              "ihfftn dctn idctn dstn idstn fftshift ifftshift"),
    *_each(_FFT, "fht ifht"),
    # images
    *_rows_of(_NDIMAGE, axis_call("input"), "gaussian_filter1d uniform_filter1d minimum_filter1d "
              "maximum_filter1d correlate1d convolve1d spline_filter1d"),
    *_rows_of(_NDIMAGE, filter_n(), "gaussian_filter convolve correlate minimum_filter "
              "maximum_filter grey_erosion grey_dilation grey_opening grey_closing white_tophat "
              "black_tophat morphological_gradient morphological_laplace", "own"),
    *_rows_of(_NDIMAGE, filter_n("size"), "uniform_filter", "own"),
    *_rows_of(_NDIMAGE, filter_n(odd=ambiguous, footprints=False), "median_filter rank_filter "
              "percentile_filter", "own"),
    *_rows_of(_NDIMAGE, filter_n("structure"), "binary_erosion binary_dilation binary_opening "
              "binary_closing binary_propagation binary_fill_holes", "own"),
    *_rows_of(_NDIMAGE, hit_or_miss, "binary_hit_or_miss", "own"),
    *_rows_of(_NDIMAGE, derivative([1, 2, 1]), "sobel", "own"),
    *_rows_of(_NDIMAGE, derivative([1, 1, 1]), "prewitt", "own"),
    *_rows_of(_NDIMAGE, of_axes, "laplace gaussian_laplace", "own"),
    *_each(_NDIMAGE, "gaussian_gradient_magnitude zoom shift map_coordinates affine_transform "
           "distance_transform_edt distance_transform_cdt "
           "distance_transform_bf sum sum_labels mean median variance "
           "standard_deviation minimum maximum minimum_position maximum_position extrema "
           "histogram fourier_gaussian fourier_uniform fourier_shift"),
    *_rows_of(_NDIMAGE, spline_filter, "spline_filter"),
    *_rows_of(_NDIMAGE, label, "label", "own"),
    *_rows_of(_NDIMAGE, center_of_mass, "center_of_mass", "own"),
    # integrals
    *_rows_of(_INTEGRATE, axis_call("y x"), "trapezoid cumulative_trapezoid "
              "cumulative_simpson"),
    *_rows_of(_INTEGRATE, axis_call("y"), "romb"),
    *_rows_of(_INTEGRATE, simpson, "simpson"),
    # matrices
    *_rows_of(_LINALG, norm, "norm", "own"),
    *_rows_of(_LINALG, lstsq, "lstsq", "own"),
    *_rows_of(_LINALG, columns("b"), "solve_triangular lu_solve cho_solve", "own"),
    *_rows_of(_LINALG, structured("c r"), "toeplitz hankel", "moves"),
    *_rows_of(_LINALG, structured("c"), "circulant", "moves"),
    *_each(_LINALG, "det inv solve eig eigvals eigh eigvalsh svd svdvals pinv pinvh expm logm "
           "sqrtm qr cholesky solve_toeplitz matmul_toeplitz solve_banded solveh_banded "
           "solve_circulant lu lu_factor polar schur"),
    # distances
    *_rows_of(_DISTANCE, minkowski, "euclidean minkowski", "own"),
    *_rows_of(_DISTANCE, distance(sqeuclidean, extreme), "sqeuclidean", "own"),
    *_rows_of(_DISTANCE, distance(lambda u, v: abs(u - v).sum(-1)), "cityblock", "own"),
    *_rows_of(_DISTANCE, distance(lambda u, v: abs(u - v).max(-1)), "chebyshev", "own"),
    *_rows_of(_DISTANCE, distance(lambda u, v: (u != v).mean(-1)), "hamming", "own"),
    *_rows_of(_DISTANCE, distance(cosine, flat, "f"), "cosine", "own"),
    *_rows_of(_DISTANCE, distance(correlation, flat), "correlation", "own"),
    *_rows_of(_DISTANCE, distance(braycurtis), "braycurtis", "own"),
    *_rows_of(_DISTANCE, distance(canberra), "canberra", "own"),
    *_rows_of(_DISTANCE, statistic("p q", 0), "jensenshannon"),
    *_rows_of(_DISTANCE, mahalanobis, "mahalanobis", "own"),
    *_rows_of(_DISTANCE, cdist, "cdist", "own"),
    *_each(_DISTANCE, "jaccard dice yule rogerstanimoto russellrao sokalsneath seuclidean pdist "
           "squareform"),
    *instances.ROWS,
]  # fmt: skip
