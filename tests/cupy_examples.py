"""What CuPy and cupyx.scipy offer for one slice: every public function, and how one calls it.

`CALLS` has the arguments by family; "" means that the function is given bare, as ``f`` itself. In
the others `v` is the slice, of 24 positive numbers; what else they name is in `constants`. Whatever
is public must stand in `CALLS` or, with the reason, in `EXCLUDED`: a test asks.
"""

import importlib
import types
import warnings

import numpy as np

M = 24
"""Numbers in a slice."""

MODULES = (
    "cupy",
    "cupy.linalg",
    "cupy.fft",
    "cupyx",
    "cupyx.scipy.fft",
    "cupyx.scipy.fftpack",
    "cupyx.scipy.interpolate",
    "cupyx.scipy.linalg",
    "cupyx.scipy.ndimage",
    "cupyx.scipy.signal",
    "cupyx.scipy.spatial.distance",
    "cupyx.scipy.special",
    "cupyx.scipy.stats",
)


def constants(cp):
    """What the calls name besides `v`: constants on the device."""
    rng = np.random.default_rng(7)
    factor = importlib.import_module("cupyx.scipy.linalg").lu_factor
    six = cp.asarray(rng.normal(size=(6, 6)) + 6 * np.eye(6))
    return {
        "cp": cp,
        "w": cp.asarray(rng.gamma(2.0, size=M)),  # other numbers, as many
        "t": cp.asarray(np.arange(float(M))),  # places
        "k": cp.asarray([0.25, 0.5, 0.125]),  # a kernel
        "c3": cp.asarray([1.0, 2.0, 0.5]),
        "bins": cp.asarray([0.0, 1.0, 2.0, 4.0, 8.0]),
        "mask": cp.asarray(np.arange(M) % 3 > 0),
        "order": cp.asarray(rng.permutation(M)),
        "few": cp.asarray([3, 1, 7]),
        "labels": cp.asarray(np.arange(M) // 6 + 1),
        "ba": (cp.asarray([0.2, 0.3]), cp.asarray([1.0, -0.4])),
        "sos": cp.asarray([[0.2, 0.3, 0.1, 1.0, -0.4, 0.1], [0.1, 0.2, 0.1, 1.0, -0.2, 0.05]]),
        "six": six,
        "lu": factor(six),
        "lower": cp.asarray(np.tril(rng.normal(size=(6, 6))) + 6 * np.eye(6)),
        "poles": cp.asarray([0.5, 0.25]),
    }


INT = "(v * 4).astype(int)"
BYTES = "(v * 4).astype('uint8')"
MATRIX = "v.reshape(4, 6)"
SQUARE = "v[:16].reshape(4, 4)"
POSITIVE = "v[:16].reshape(4, 4) @ v[:16].reshape(4, 4).T + 4 * cp.eye(4)"
SMALL = "v / (1 + v)"
"""Numbers between 0 and 1."""

CALLS = {
    "cupy": {
        "": """abs absolute acos acosh all amax amin angle any arccos arccosh arcsin arcsinh arctan
            arctanh argmax argmin argsort argwhere around array asanyarray asarray
            asarray_chkfinite ascontiguousarray asfortranarray asin asinh atan atanh atleast_1d
            atleast_2d atleast_3d average cbrt ceil conj conjugate copy corrcoef cos cosh
            count_nonzero cov cumprod cumsum cumulative_prod cumulative_sum deg2rad degrees diag
            diagflat diff ediff1d exp exp2 expm1 fabs fix flatnonzero flip floor gradient i0 imag
            iscomplex isfinite isinf isnan isneginf isposinf isreal log log10 log1p log2
            logical_not max mean median min nan_to_num nanargmax nanargmin nancumprod nancumsum
            nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar ndim negative nonzero
            ones_like positive prod ptp rad2deg radians ravel real real_if_close reciprocal rint
             round shape sign signbit sin sinc sinh size sort sort_complex sqrt square squeeze
            std sum tan tanh transpose trapezoid trim_zeros trunc unique unique_values unwrap
            vander var zeros_like permute_dims poly iscomplexobj isrealobj
            vstack  hstack  dstack""",
        "[0](v)": """frexp modf unique_all unique_counts unique_inverse broadcast_arrays meshgrid
            ix_""",
        "(v, w)": """add append arctan2 atan2 copysign convolve correlate  divide dot equal
            float_power floor_divide fmax fmin fmod greater greater_equal heaviside hypot inner
             isclose kron less less_equal logaddexp logaddexp2 logical_and logical_or
            logical_xor matmul maximum minimum mod multiply nextafter not_equal outer polyadd
            polymul polysub pow power remainder subtract true_divide vdot allclose array_equal
            array_equiv in1d isin intersect1d setdiff1d setxor1d union1d""",
        "[0](v, w)": "divmod",
        f"({INT}, 3)": "bitwise_and bitwise_or bitwise_xor gcd lcm left_shift right_shift "
        "bitwise_left_shift bitwise_right_shift",
        f"({INT})": "bitwise_count bitwise_invert bitwise_not invert ",
        f"({BYTES})": "packbits unpackbits",
        f"({MATRIX})": "fliplr flipud rot90 tril triu trace diagonal matrix_transpose",
        f"({MATRIX}, 1)": "rollaxis take",
        f"({MATRIX}, 0, 1)": "moveaxis swapaxes",
        "((v, w))": "concat concatenate stack column_stack ",
        "(v, 2)": " ldexp partition argpartition repeat roll tile ",
        "[0](v, 2)": "array_split split hsplit",
        f"[0]({MATRIX}, 2)": "vsplit",
        "[0](v.reshape(2, 3, 4), 2)": "dsplit",
        "(v, 0)": "delete expand_dims",
        "(v, 30)": "percentile",
        "(v, 0.3)": "quantile",
        "(v, (4, 6))": "reshape resize",
        "(v, (5, 24))": "broadcast_to",
        "(v, float)": "astype",
        "(v, 2.5)": "full_like",
        "(v, 1, 3)": "clip",
        "(v, 2, mode='edge')": "pad",
        "(v, order, 0)": "take_along_axis",
        "(t + 0.5, t, v)": "interp",
        "(t, v, 2)": "polyfit",
        "(c3, v)": "polyval",
        "(t, v[:3] * 5)": "searchsorted",
        "(v, bins)": "digitize",
        "[0](v, bins)": "histogram",
        "[0](v, w, 4)": "histogram2d",
        "[0](cp.stack([v, w], 1), 4)": "histogramdd",
        "(v > 2, v, 0.0)": "where",
        "(mask, v)": "compress extract",
        "([v > 2, v > 1], [v, -v], 0.5)": "select",
        "((v > 2).astype(int), cp.stack([v, -v]))": "choose",
        "(cp.stack([v, w]))": "lexsort",
        "(v[:2])": "roots",
        f"({INT}, minlength=64)": "bincount",
        "(v, [v > 2, v <= 2], [1.0, 2.0])": "piecewise",
        "(v[:3], w[:3])": "cross",
        "('i,i->', v, w)": "einsum",
        "(v, w, 1)": "tensordot",
        f"(({INT} % 4, {INT} % 6), (4, 6))": "ravel_multi_index",
        f"[0]({INT} % 24, (4, 6))": "unravel_index",
        "(v, requirements='C')": "require",
    },
    "cupy.linalg": {
        f"({POSITIVE})": "cholesky det inv eigvalsh ",
        f"[0]({POSITIVE})": "slogdet eigh",
        f"({SQUARE})": "eigvals  pinv matrix_rank",
        f"({SQUARE}, 2)": "matrix_power",
        f"[1]({MATRIX})": "svd qr",
        f"({MATRIX})": "matrix_transpose",
        "": "norm ",
        f"({SQUARE}, )": "cond",
        "(v, w)": "matmul",
        "(v[:3], w[:3])": "cross",
        "(six, v[:6])": "solve",
        "[0](six, v[:6])": "lstsq",
        "[0](v[:16].reshape(4, 4))": "eig",
        "(six.reshape(2, 3, 6), v[:6].reshape(2, 3))": "tensorsolve",
        "((six + v[0]).reshape(2, 3, 6), 2)": "tensorinv",
    },
    "cupy.fft": {
        "": "fft fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftn",
        f"({MATRIX})": "fft2 ifft2 irfft2 rfft2",
    },
    "cupyx": {"": "rsqrt"},
    "cupyx.scipy.fft": {
        "": """dct dctn dst dstn fft fftn fftshift hfft hfftn idct idctn idst idstn ifft ifftn
            ifftshift ihfft ihfftn irfft irfftn rfft rfftn""",
        f"({MATRIX})": "fft2 ifft2 irfft2 rfft2 hfft2 ihfft2",
        "(v, 0.1, 0.5)": "fht ifht",
    },
    "cupyx.scipy.fftpack": {
        "": "fft fftn ifft ifftn irfft rfft",
        f"({MATRIX})": "fft2 ifft2",
    },
    "cupyx.scipy.interpolate": {
        "(t, v, t + 0.25)": "  pchip_interpolate",
        "(t[:5], v[:5], t[:5] + 0.25)": "barycentric_interpolate krogh_interpolate",
        "(t, v)(t[:-1] + 0.25)": """Akima1DInterpolator CubicSpline PchipInterpolator pchip interp1d
            InterpolatedUnivariateSpline UnivariateSpline make_interp_spline""",
        "(t[:5], v[:5])(t[:5] + 0.25)": "BarycentricInterpolator KroghInterpolator",
        "(t, v, w)(t[:-1] + 0.25)": "CubicHermiteSpline",
        "(t, v, t[6:18:6])(t[:-1] + 0.25)": "LSQUnivariateSpline",
        "(t, v, cp.concatenate([t[:1].repeat(4), t[6:18:6], t[-1:].repeat(4)]))(t[:-1] + 0.25)":
            "make_lsq_spline",
        "(cp.arange(M + 4.0), v, 3)(t[4:-2] + 0.25)": "BSpline",
        "(v.reshape(4, 6), cp.arange(7.0))(t[:6] + 0.25)": "PPoly BPoly",
        "((t,), v)(t[:-1, None] + 0.25)": "RegularGridInterpolator",
        "((t,), v, t[:-1, None] + 0.25)": "interpn",
        "(t[:, None], v)(t[:-1, None] + 0.25)": "RBFInterpolator",
        "(cp.stack([t, t * t % 7], 1), v)(cp.stack([t[:5] + 1, t[:5] + 2], 1))":
            "LinearNDInterpolator CloughTocher2DInterpolator NearestNDInterpolator",
        "(v.reshape(1, 4, 6)[0][:, :, None].transpose(0, 1, 2), (cp.arange(7.0),))"
        "(t[:6, None] + 0.25)": "NdPPoly",
        "((cp.arange(M + 4.0),), v, 3)(t[4:-2, None] + 0.25)": "NdBSpline",
    },
    "cupyx.scipy.linalg": {
        "": "toeplitz circulant hankel fiedler companion   ",
        "(v, w[:-1])": "leslie",
        "(v, 3)": "convolution_matrix",
        "(v[:4].reshape(2, 2), v[4:8].reshape(2, 2))": "block_diag",
        f"({MATRIX}, {MATRIX})": "khatri_rao",
        "(v[:3])": "fiedler_companion",
        f"({SQUARE} / 20)": "expm",
        "(lower, v[:6], lower=True)": "solve_triangular",
        f"[1]({SQUARE} + 9 * cp.eye(4))": "lu",
        f"[0]({SQUARE} + 9 * cp.eye(4))": "lu_factor",
        "(lu, v[:6])": "lu_solve",
        f"({MATRIX} > 2)": "bandwidth",
    },
    "cupyx.scipy.ndimage": {
        "": """laplace prewitt sobel sum_labels sum mean median maximum minimum variance
            standard_deviation center_of_mass maximum_position minimum_position spline_filter
            spline_filter1d""",
        "[1](v)": "extrema",
        "(v > 2)": """binary_closing binary_dilation binary_erosion binary_fill_holes
            binary_hit_or_miss binary_opening binary_propagation""",
        f"({MATRIX} > 2)": "distance_transform_edt",
        "[0](v > 2)": "label",
        "(v, 3)": """uniform_filter uniform_filter1d maximum_filter maximum_filter1d minimum_filter
            minimum_filter1d median_filter grey_closing grey_dilation grey_erosion grey_opening
            black_tophat white_tophat morphological_gradient morphological_laplace""",
        "(v, 1.0)": """gaussian_filter gaussian_filter1d gaussian_gradient_magnitude
            gaussian_laplace""",
        "(v, 30, 3)": "percentile_filter",
        "(v, 1, 3)": "rank_filter",
        "(v, k)": "convolve convolve1d correlate correlate1d",
        "(v, 1.5)": "shift zoom ",
        f"({MATRIX}, 30.0)": "rotate",
        "(v, 0.0, 8.0, 4)": "histogram",
        "(v, (t[None, :-1] + 0.25))": "map_coordinates",
        "(v, cp.asarray([0.5]))": "affine_transform",
        "(v + 0j, 2.0)": "fourier_ellipsoid fourier_gaussian fourier_shift fourier_uniform",
    },
    "cupyx.scipy.signal": {
        "": """detrend hilbert wiener medfilt  cspline1d qspline1d""",
        "[1](v)": "periodogram",
        "[1](v, nperseg=8)": "welch",
        "[2](v, nperseg=8)": "spectrogram stft",
        "[1](v, w, nperseg=8)": "csd coherence",
        "[1](v.reshape(4, 6) + 0j, nperseg=6)": "istft",
        "(v, k)": "convolve correlate fftconvolve oaconvolve",
        f"({MATRIX}, k[None])": "convolve2d correlate2d",
        "(v.reshape(4, 6), k, k)": "sepfir2d",
        "[0](v, k)": "deconvolve",
        f"({MATRIX})": "medfilt2d hilbert2",
        "(cp.tile(v, 64).reshape(32, 48), 0.0, 0.5)": "cspline2d qspline2d",
        "(cp.tile(v, 64).reshape(32, 48))": "spline_filter",
        "(v, cp.ones(3), 1)": "order_filter",
        "(*ba, v)": "lfilter filtfilt",
        "(sos, v)": "sosfilt sosfiltfilt",
        "(v, 12)": "resample",
        "(v, 2, 3)": "resample_poly",
        "(cp.concatenate([v, v]), 2)": "decimate",
        "(k, v)": "upfirdn",
        "(v, 5, 2)": "savgol_filter",
        "(v, t[:-1])": "cspline1d_eval qspline1d_eval",
        "(v, m=12)": "czt ",
        "(v, [0.1, 0.3], m=12)": "zoom_fft",
        # these kernels take slices for contiguous
        "(cp.sin(7 * v), cp.greater)[0].sum()": "argrelextrema",
        "(cp.sin(7 * v))[0].sum()": "argrelmax argrelmin find_peaks",
        "[0](v, few)": "peak_prominences peak_widths",
        "(t, v, cp.asarray([0.5, 1.0]))": "lombscargle",
        "[0](v, 2.0)": "vectorstrength",
        "(v, 0.5, 0.25, 1e-3)": "symiirorder1 symiirorder2",
    },
    "cupyx.scipy.spatial.distance": {
        "(v, w)": """ chebyshev cityblock correlation cosine euclidean hamming
            jensenshannon   sqeuclidean """,
        "(v[None], w[None])": "distance_matrix cdist",
        f"({MATRIX})": "pdist",
        "(v, w, 3.0)": "minkowski",
        "(v > 2, w > 2)": "russellrao",
        "(v, w) ": "canberra hellinger kl_divergence",
    },
    "cupyx.scipy.special": {
        "": """cbrt cosdg cosm1 cotdg digamma ellipk ellipkm1 entr erf erfc erfcx exp1 exp10 exp2
            expi expit expm1 exprel gamma gammaln gammasgn i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e
            lambertw log1p log_expit log_ndtr log_softmax loggamma logsumexp ndtr psi rgamma round
            sinc sindg softmax tandg y0 y1 zetac""",
        f"({SMALL})": "erfcinv erfinv logit ndtri",
        "[0](v)": "shichi sici",
        "[0](v, 0.5)": "ellipj",
        "(v, 0.5)": """boxcox boxcox1p inv_boxcox inv_boxcox1p chdtr chdtrc gammainc gammaincc beta
            betaln binom poch  xlog1py xlogy kl_div rel_entr huber pseudo_huber
              """,
        f"({SMALL}, 0.5)": " ellipeinc ellipkinc",
        f"(2.0, {SMALL})": "chdtri gammaincinv gammainccinv",
        "(v + 1.5, 2.0)": "zeta",
        "(2, v)": "expn yn spherical_yn pdtr pdtrc",
        f"(2, {SMALL})": "pdtri",
        "(v[0] + 2.0, 2)": "multigammaln",
        "(cp.asarray(2), v)": "polygamma",
        f"(2.0, 3.0, {SMALL})": "betainc betaincinv",
        "(2.0, 3.0, v)": "fdtr fdtrc gdtr gdtrc",
        f"(2.0, 3.0, {SMALL}) ": "fdtri",
        f"(2, 5, {SMALL})": "bdtr bdtrc bdtri nbdtr nbdtrc nbdtri",
        f"(1, 2.0, {SMALL})": "lpmv",
        "(v, 0.5, 0.25)": "radian",
        "(1, 2, v, 0.5)": "sph_harm_y",
        "(1.0, 2.0, v)": "wright_bessel",
    },
    "cupyx.scipy.stats": {
        "": "entropy zscore",
        "(v, 0.1)": "trim_mean",
        "(v, w)": "zmap",
        "(0.5, v)": "boxcox_llf",
    },
}  # fmt: skip

EXCLUDED = {
    "creation without a slice": """
        arange bartlett blackman hamming@cupy hanning kaiser diag_indices diag_indices_from empty
        eye full identity indices linspace logspace mask_indices ones tri tril_indices
        tril_indices_from triu_indices triu_indices_from zeros frombuffer fromiter fromfunction
        fromstring from_dlpack fromDlpack fftfreq rfftfreq next_fast_len get_fft_plan empty_like
        generate_binary_structure iterate_structure dft hadamard helmert hilbert@linalg
        invhilbert pascal invpascal
        empty_like_pinned empty_pinned zeros_like_pinned zeros_pinned""",
    "input and output, text": """
        load loadtxt save savetxt savez savez_compressed fromfile genfromtxt array2string
        array_repr array_str base_repr binary_repr disp format_float_positional
        format_float_scientific get_printoptions printoptions set_printoptions
        set_string_function show_config safe_eval typename who get_runtime_info""",
    "about dtypes and classes, not about numbers": """
        can_cast common_type find_common_type isdtype isscalar issctype issubclass_ issubdtype
        issubsctype iterable make_aligned_dtype min_scalar_type mintypecode obj2sctype
        promote_types result_type sctype2char isfortran broadcast_shapes
        check_soft_dependencies""",
    "memory and devices": """
        asnumpy byte_bounds get_array_module get_array_wrap get_default_memory_pool
        get_default_pinned_memory_pool is_available may_share_memory shares_memory clear_memo
        memoize allow_synchronize errstate geterr seterr""",
    "writes into its argument": """
        copyto fill_diagonal place put put_along_axis putmask scatter_add scatter_max
        scatter_min""",
    "takes a function, which it calls itself": """
        apply_along_axis apply_over_axes fuse generic_filter generic_filter1d
        generic_gradient_magnitude generic_laplace labeled_comprehension""",
    "makes lists or dicts of Python": "find_objects value_indices",
    "deprecated: only warns, or is gone": """
        alltrue asfarray cumproduct msort product round_ sometrue trapz row_stack kron@linalg
        btdtr btdtri sph_harm""",
    "takes a spline or other object, not a slice": """
        splantider splder BadCoefficients""",
    "design of filters, and systems: takes parameters, poles or coefficients": """
        StateSpace TransferFunction ZerosPolesGain abcd_normalize band_stop_obj bilinear
        bilinear_zpk bode buttap butter buttord cheb1ap cheb1ord cheb2ap cheb2ord cheby1 cheby2
        check_COLA check_NOLA choose_conv_method chirp cont2discrete correlation_lags dbode
        dfreqresp dimpulse dlsim dlti dstep ellip ellipap ellipord findfreqs firls firwin
        firwin2 freqresp freqs freqs_zpk freqz freqz_sos freqz_zpk gammatone gauss_spline
        gausspulse get_window group_delay iircomb iirdesign iirfilter iirnotch iirpeak impulse
        invres invresz kaiser_atten kaiser_beta kaiserord lfilter_zi lfiltic lp2bp lp2bp_zpk
        lp2bs lp2bs_zpk lp2hp lp2hp_zpk lp2lp lp2lp_zpk lsim lti max_len_seq minimum_phase
        morlet morlet2 normalize place_poles qmf residue residuez ricker savgol_coeffs
        sawtooth sos2tf sos2zpk sosfilt_zi sosfreqz square@signal ss2tf ss2zpk step sweep_poly
        tf2sos tf2ss tf2zpk unique_roots unit_impulse zpk2sos zpk2ss zpk2tf cwt CZT ZoomFFT
        czt_points""",
}


def public(name):
    """Names of a module's functions (of interpolate also its classes, which are called)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what CuPy says of its own while it is imported
        module = importlib.import_module(name)
    kinds = (types.ModuleType,) if name.endswith("interpolate") else (types.ModuleType, type)
    return {
        n
        for n in dir(module)
        if not n.startswith("_") and callable(getattr(module, n))
        and not isinstance(getattr(module, n), kinds)
    }  # fmt: skip


def excluded(module):
    """The names of a module that have a reason to be left out."""
    found = set()
    for names in EXCLUDED.values():
        for name in names.split():
            own, _, where = name.partition("@")
            if not where or module.endswith(where):
                found.add(own)
    return found


def examples():
    """Module, name and call of everything in `CALLS`."""
    for module, families in CALLS.items():
        for call, names in families.items():
            for name in names.split():
                yield module, name, call


def function(module, name, call, env):
    """The `f` of an example."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of these modules are experimental, and say so once
        home = importlib.import_module(module)
    if not call:
        return getattr(home, name)
    part = ""
    if call.startswith("["):
        part, _, call = call.partition("]")
        part += "]"
    return eval(f"lambda v: home.{name}{call.rstrip()}{part}", env | {"home": home, "M": M})
