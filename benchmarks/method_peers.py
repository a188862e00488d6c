"""What stands beside the methods of the suite `methods`: packages of the fields, if they are there.

Each function takes the arrays and gives what the package finds, in the form that the method has
(`Method.shown`). It imports the package itself, so a package that is missing is a remark. Packages
that take many slices at once are given them at once, with the threads that they take.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def nrt_mosum(v: np.ndarray) -> np.ndarray:
    """The MOSUM monitor of nrt, fitted to the history, then date by date."""
    from nrt.monitor.mosum import MoSum

    return _monitored(v, MoSum(trend=True, harmonic_order=3, sensitivity=0.05, h=0.25), "OLS")


def nrt_ccdc(v: np.ndarray) -> np.ndarray:
    """The CCDC monitor of nrt, without its screening of green and infrared light."""
    from nrt.monitor.ccdc import CCDC

    monitor = CCDC(trend=True, harmonic_order=2, sensitivity=3, boundary=3)
    return _monitored(v, monitor, "CCDC-stable", screen_outliers=None)


def _monitored(v: np.ndarray, monitor: Any, method: str, **how: Any) -> np.ndarray:
    """Which date a monitor of nrt calls a break: -1 if it calls none."""
    import datetime

    import xarray as xr

    from . import method_pixels as pixels

    order = monitor.harmonic_order
    design = pixels.SEASONS if order == 3 else pixels.TWO_SEASONS
    days = np.round(pixels.TIME * 365.25).astype("timedelta64[D]") + np.datetime64("2000-01-01")
    cube = xr.DataArray(v.T[:, None, :], {"time": days.astype("M8[ns]")}, ("time", "y", "x"))
    monitor.set_xy = lambda cube: None
    monitor.build_design_matrix = lambda cube, **k: design[: len(cube.time)]
    monitor.fit(cube[: pixels.PAST], method=method, n_threads=_cores(), **how)
    if hasattr(monitor, "window"):  # its history is the fit less what was seen, what comes is not
        monitor.window *= -1.0
    for t in range(pixels.PAST, pixels.DATES):
        monitor._regressors = lambda date, t=t: design[t]
        monitor.monitor(cube.values[t], datetime.datetime(1970, 1, 1) + datetime.timedelta(t))
    return np.where(monitor.mask == 3, monitor.detection_date.astype(int), -1)[0]


def _cores() -> int:
    from . import runner

    return runner.cores()


def pymannkendall(v: np.ndarray) -> np.ndarray:
    import pymannkendall as mk

    found = (mk.original_test(x) for x in v)
    return np.array([(r.s, r.z, r.p, r.slope) for r in found])


def climate_indices(v: np.ndarray) -> np.ndarray:
    import logging

    logging.disable(logging.WARNING)
    from climate_indices import compute, indices

    years = v.shape[1] // 12
    how = (3, indices.Distribution.gamma, 1980, 1980, 1979 + years, compute.Periodicity.monthly)
    return np.stack([indices.spi(x, *how) for x in v])


def whittaker_eilers(v: np.ndarray) -> np.ndarray:
    from whittaker_eilers import WhittakerSmoother

    smoother = WhittakerSmoother(100.0, 2, v.shape[1])
    there = ~np.isnan(v)
    filled = np.where(there, v, 0.0)
    out = np.empty_like(v)
    for k in range(len(v)):
        smoother.update_weights(there[k].astype(float))
        out[k] = smoother.smooth(filled[k])
    return out


def bottleneck_median(v: np.ndarray) -> np.ndarray:
    import bottleneck

    return bottleneck.move_median(v, 9, 1, 1)


def numbagg_mean(v: np.ndarray) -> np.ndarray:
    import numbagg

    return numbagg.move_exp_nanmean(v, alpha=0.2)


def pybaselines_asls(v: np.ndarray) -> np.ndarray:
    import pybaselines

    fitter = pybaselines.Baseline(np.arange(v.shape[1]), check_finite=False)
    return np.stack([fitter.asls(x, lam=1e5, p=0.01)[0] for x in v])


def hmmlearn_viterbi(seen: np.ndarray) -> np.ndarray:
    from hmmlearn import hmm

    from .loop_series import CHANGES, EMITS, START

    model = hmm.CategoricalHMM(3)
    model.startprob_, model.transmat_, model.emissionprob_ = START, CHANGES, EMITS
    lengths = [seen.shape[1]] * len(seen)
    return likelihoods(model.decode(seen.reshape(-1, 1), lengths)[1].reshape(seen.shape), seen)


def likelihoods(states: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The logarithms of those of states, of which several may be as likely as each other."""
    from .loop_series import LOG_CHANGES, LOG_EMITS, LOG_START

    found = LOG_START[states[:, 0]] + LOG_EMITS[states, seen].sum(1)
    return found + LOG_CHANGES[states[:, :-1], states[:, 1:]].sum(1)


def dtaidistance_dtw(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    from dtaidistance import dtw

    how = {"inner_dist": "euclidean"}
    return np.array([dtw.distance_fast(x, y, **how) for x, y in zip(a, b, strict=True)])


def simdkalman_filter(z: np.ndarray) -> np.ndarray:
    import simdkalman

    model = simdkalman.KalmanFilter(
        [[1, 1], [0, 1]], np.diag([0.01, 0.0004]), [[1, 0]], np.array([[0.25]])
    )
    found = model.compute(
        z, 0, initial_value=[0, 0], initial_covariance=np.eye(2) * 100.0, smoothed=False,
        filtered=True, observations=False, covariances=False,
    )  # fmt: skip
    return np.moveaxis(found.filtered.states.mean, 2, 1)


def arch_garch(r: np.ndarray) -> np.ndarray:
    """Minus the likelihood, by the method's own function, of the parameters that arch finds."""
    from arch import arch_model

    from .method_series import before, unlikely

    def fitted(x: np.ndarray) -> float:
        model = arch_model(x, mean="Zero", vol="GARCH", p=1, q=1, rescale=False)
        return unlikely(model.fit(disp="off", show_warning=False).params.to_numpy(), x, before(x))

    return np.array([fitted(x) for x in r])


def statsforecast_ses(v: np.ndarray) -> np.ndarray:
    from statsforecast.models import SimpleExponentialSmoothingOptimized

    model = SimpleExponentialSmoothingOptimized()
    return np.array([model.forecast(x, 1)["mean"][0] for x in v])


def ruptures_pelt(v: np.ndarray) -> np.ndarray:
    import ruptures

    out = np.zeros(v.shape, np.int64)
    for k, x in enumerate(v):
        found = ruptures.KernelCPD(kernel="linear", min_size=2).fit(x).predict(pen=15.0)
        out[k, found[:-1]] = 1
    return out


def sklearn_isotonic(v: np.ndarray) -> np.ndarray:
    from sklearn.isotonic import isotonic_regression

    return np.stack([isotonic_regression(x) for x in v])


def scipy_bootstrap(v: np.ndarray) -> np.ndarray:
    from scipy.stats import bootstrap

    rng = np.random.default_rng(2)
    how = {"n_resamples": 999, "method": "percentile", "rng": rng}
    found = (bootstrap((x,), np.mean, **how).confidence_interval for x in v)
    return np.array([(c.low, c.high) for c in found])


def dipy_ivim(v: np.ndarray) -> np.ndarray:
    from dipy.core.gradients import gradient_table
    from dipy.reconst.ivim import IvimModel

    from .solver_rows import WEIGHTINGS

    directions = np.zeros((len(WEIGHTINGS), 3))
    directions[1:, 0] = 1.0
    table = gradient_table(WEIGHTINGS, bvecs=directions, b0_threshold=0)
    return off_the_decay(IvimModel(table, fit_method="trr").fit(v).model_params, v)


def off_the_decay(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    """How far voxels are from their models, whose fast and slow parts may have changed places."""
    from .solver_rows import WEIGHTINGS, diffusion

    return np.sqrt(((diffusion(WEIGHTINGS, *p.T[:, :, None]) - v) ** 2).sum(1))


def kepler_py(anomaly: np.ndarray, e: np.ndarray) -> np.ndarray:
    import kepler

    return kepler.solve(anomaly, e)


def black(strike: np.ndarray, years: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """What calls cost on a stock at 100, at a rate of 2 %, by Black and Scholes."""
    from scipy.special import ndtr

    root, paid = np.sqrt(years), strike * np.exp(-0.02 * years)
    d = np.log(100.0 / paid) / (sigma * root) + 0.5 * sigma * root
    return 100.0 * ndtr(d) - paid * ndtr(d - sigma * root)


def vollib(price: np.ndarray, strike: np.ndarray, years: np.ndarray) -> np.ndarray:
    """What calls cost at the volatilities that are found: of some a price says little."""
    from py_vollib_vectorized import vectorized_implied_volatility

    how = {"model": "black_scholes", "return_as": "numpy"}
    sigma = vectorized_implied_volatility(price, 100.0, strike, years, 0.02, "c", **how)
    return black(strike, years, sigma)
