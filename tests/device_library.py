"""Functions of CuPy's library of slices of 12 numbers, for tests of what compiles them.

Each is made with a module and its arrays, so that it runs on the host too.
"""

import numpy as np

TIMES = np.arange(12) / 4.0
WEIGHTS = np.hanning(14)[1:-1]


def arrays(f, *given):
    """A function of a module, a slice, and arrays of that module."""

    def build(xp, dtype):
        made = tuple(xp.asarray(np.asarray(x).astype(dtype)) for x in given)
        return lambda v: f(xp, v, *made)

    return build


def in_place(xp, v):
    a = v * 2
    a += 1
    a *= v
    a[1:] -= a[:-1]
    return a


def filled(xp, v):
    out = xp.zeros(4)
    out[:] = v[:4]
    out[1] = 7.0
    return out


def symmetric(xp, v):
    m = v[:9].reshape(3, 3)
    return m + m.T


def of_eigenvalues(xp, v):
    return xp.linalg.eigvalsh(symmetric(xp, v))


def gram(xp, v):
    m = v.reshape(4, 3)
    return m.T @ m


def elements(xp, v):
    m = v.reshape(3, 4)
    s = m[0, 0] * 1
    for i in range(3):
        for j in range(4):
            if m[i, j] > 0:
                s = s + m[i, j]
    return s


def trend_of_known(xp, v, t):
    slope, first = xp.polyfit(t, v, 1)
    return slope * 2 + first


def power(xp, v):
    return xp.abs(xp.fft.rfft(v)) ** 2


def parts_of_spectrum(xp, v):
    s = xp.fft.rfft(v[:7])
    return s.real - 2 * s.imag


OF_BOTH = {
    "prod": arrays(lambda xp, v: v.prod()),
    "cumsum": arrays(lambda xp, v: v.cumsum()),
    "cumprod": arrays(lambda xp, v: xp.cumprod(v)),
    "dot": arrays(lambda xp, v, w: xp.dot(v, w), WEIGHTS),
    "matmul": arrays(lambda xp, v, w: v @ w, WEIGHTS),
    "convolve": arrays(lambda xp, v, k: xp.convolve(v, k, "same"), [1.0, 2.0, 1.0]),
    "convolve_full": arrays(lambda xp, v, k: xp.convolve(k, v), [1.0, 2.0]),
    "convolve_valid": arrays(lambda xp, v, k: xp.convolve(v, k, mode="valid"), [1.0, 2.0, 4.0, 1]),
    "correlate": arrays(lambda xp, v, k: xp.correlate(v, k), [1.0, 2.0, 4.0]),
    "argsort": arrays(lambda xp, v: xp.argsort(v, kind="stable")),
    "flip": arrays(lambda xp, v: xp.flip(v) + v),
    "concatenate": arrays(lambda xp, v: xp.concatenate([v[:2], v[-2:]])),
    "searchsorted": arrays(lambda xp, v, a: xp.searchsorted(a, v), [-1.0, 0.0, 0.0, 2.0]),
    "searchsorted_right": arrays(
        lambda xp, v, a: xp.searchsorted(a, v, side="right"), [-1.0, 0.0, 0.0, 2.0]
    ),
    "digitize": arrays(lambda xp, v, a: xp.digitize(v, a), [-1.0, 0.0, 2.0]),
    "in_place": arrays(in_place),
    "rows": arrays(lambda xp, v: v.reshape(3, 4)[1] * 2),
    "matrix": arrays(lambda xp, v: v.reshape(3, 4) * 2 + v[0]),
    "elements": arrays(elements),
}
"""Of floats and of integers."""
OF_FLOATS = {
    "norm": arrays(lambda xp, v: xp.linalg.norm(v)),
    "norm_1": arrays(lambda xp, v: xp.linalg.norm(v, 1)),
    "norm_inf": arrays(lambda xp, v: xp.linalg.norm(v, np.inf)),
    "gradient": arrays(lambda xp, v: xp.gradient(v)),
    "gradient_of_step": arrays(lambda xp, v: xp.gradient(v, 0.25)),
    "clip": arrays(lambda xp, v: xp.clip(v, -1, 0.75)),
    "clip_method": arrays(lambda xp, v: v.clip(-0.5, 1.5).sum()),
    "power": arrays(lambda xp, v: (v * v).mean() ** 1.5),
    "nansum": arrays(lambda xp, v: xp.nansum(v)),
    "symmetric": arrays(symmetric),
    "gram": arrays(gram),
    "times_vector": arrays(lambda xp, v, w: v.reshape(3, 4) @ w[:4], WEIGHTS),
    "vector_times": arrays(lambda xp, v, w: w[:3] @ v.reshape(3, 4), WEIGHTS),
    "det": arrays(lambda xp, v: xp.linalg.det(v[:9].reshape(3, 3))),
    "solve": arrays(lambda xp, v: xp.linalg.solve(v[:9].reshape(3, 3), v[9:])),
    "inv": arrays(lambda xp, v: xp.linalg.inv(v[:9].reshape(3, 3))),
    "inv_2": arrays(lambda xp, v: xp.linalg.inv(v[:4].reshape(2, 2))[0, 1]),
    "eigvalsh": arrays(of_eigenvalues),
    "power_of_spectrum": arrays(power),
    "rfft_parts": arrays(parts_of_spectrum),
    "searchsorted_of_sums": arrays(
        lambda xp, v, a: xp.searchsorted(xp.cumsum(xp.abs(v)), a), [0.0, 2.0, 5.0]
    ),
}
"""Of floats of both sizes."""
OF_DOUBLES = {
    "percentile": arrays(lambda xp, v: xp.percentile(v, 90)),
    "percentiles": arrays(lambda xp, v: xp.percentile(v, [25, 50, 75])),
    "quantile": arrays(lambda xp, v: xp.quantile(v, 0.3)),
    "interquartile": arrays(lambda xp, v: xp.percentile(v, 75) - xp.percentile(v, 25)),
    "interp": arrays(lambda xp, v, t: xp.interp(t[:5] + 0.1, t, v), TIMES),
    "interp_beyond": arrays(lambda xp, v, t: xp.interp(v * 1.0, t[2:5] - 1.0, t[:3]), TIMES),
    "histogram_of_many": arrays(lambda xp, v: xp.histogram(v, 20, (-3.0, 3.0))[0]),
    "histogram": arrays(lambda xp, v: xp.histogram(v, 4, (-3.0, 3.0))[0]),
    "histogram_of_edges": arrays(
        lambda xp, v, e: xp.histogram(v, e)[0], [-2.0, -1.0, 0.0, 0.5, 2.0]
    ),
    "polyfit": arrays(lambda xp, v, t: xp.polyfit(t, v, 1), TIMES),
    "parabola": arrays(lambda xp, v, t: xp.polyfit(t, v, 2)[0], TIMES),
    "trend": arrays(trend_of_known, TIMES),
    "cov": arrays(lambda xp, v, t: xp.cov(t, v)[0, 1], TIMES),
    "corrcoef": arrays(lambda xp, v, t: xp.corrcoef(t, v)[0, 1], TIMES),
    "filled": arrays(filled),
}
"""Of float64 alone."""
CASES = [
    *((n, d) for n in OF_BOTH for d in ("float32", "float64", "int32", "int64")),
    *((n, d) for n in OF_FLOATS for d in ("float32", "float64")),
    *((n, "float64") for n in OF_DOUBLES),
]
BUILDERS = OF_BOTH | OF_FLOATS | OF_DOUBLES


def tolerance(dtype):
    """Of results, relative to the largest one."""
    return 2e-4 if dtype == "float32" else 1e-9
