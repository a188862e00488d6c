"""Peaks, extrema and clipped values inside a function: another number of them in every slice."""

import numpy as np
import pytest
import scipy.signal as sg
import scipy.stats as st
from calls_of import check

import xpapply

RNG = np.random.default_rng(0)
SMOOTH = RNG.random((200, 24))
TIES = RNG.integers(0, 4, (200, 24)).astype(float)  # plateaus and equal peaks
HOLES = np.where(RNG.random(SMOOTH.shape) < 0.05, np.nan, SMOOTH)

CONDITIONS = [
    {},
    {"height": 0.5},
    {"height": (0.2, 0.8)},
    {"height": (None, 0.8)},
    {"threshold": 0.1},
    {"distance": 3},
    {"distance": 30.5, "height": 0.1},
    {"prominence": 0.3},
    {"prominence": (0.1, 0.9), "wlen": 7},
    {"width": 1.5},
    {"width": 1, "rel_height": 0.7, "prominence": 0.1},
    {"plateau_size": (1, 3)},
    {"height": 0.2, "threshold": 0.05, "distance": 2, "prominence": 0.1},
    {"height": np.linspace(0, 1, 24)},
]


@pytest.mark.parametrize("data", [SMOOTH, TIES, HOLES], ids=["smooth", "ties", "holes"])
@pytest.mark.parametrize("named", CONDITIONS, ids=lambda c: "-".join(c) or "none")
def test_every_property_of_peaks(data, named):
    def f(v):
        peaks, properties = sg.find_peaks(v, **named)
        if len(peaks) == 0:
            return np.full(4, -1.0)
        sums = [p.sum() for p in properties.values()]
        return np.array([len(peaks), peaks.sum(), v[peaks].max(), sum(sums)])

    check(f, data)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: len(sg.find_peaks(v)[0]),
        lambda v: sg.find_peaks(v, height=v.mean())[0].size,
        lambda v: sg.find_peaks(v, prominence=(v.std(), None))[1]["prominences"].sum(),
        lambda v: sg.find_peaks(-v)[0].mean() if len(sg.find_peaks(-v)[0]) else 0.0,
        lambda v: np.diff(sg.find_peaks(v)[0]).mean() if sg.find_peaks(v)[0].size > 1 else 0.0,
        lambda v: v[sg.find_peaks(v)[0]].sum(),
        lambda v: (np.arange(24.0) * 2)[sg.find_peaks(v)[0]].sum(),
        lambda v: sg.find_peaks(v, height=0)[1]["peak_heights"].sum(),
        lambda v: sg.find_peaks(v)[0][0] if len(sg.find_peaks(v)[0]) else -1,
        lambda v: len(sg.argrelextrema(v, np.greater)[0]),
        lambda v: len(sg.argrelextrema(v, np.less_equal, order=2)[0]),
        lambda v: v[sg.argrelmax(v, order=3, mode="wrap")].sum(),
        lambda v: sg.argrelmin(v)[0].sum(),
    ],
)
@pytest.mark.parametrize("data", [SMOOTH, TIES], ids=["smooth", "ties"])
def test_what_is_done_with_them(f, data):
    check(f, data)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: st.sigmaclip(v, 1.5, 1.5)[0].mean(),
        lambda v: st.sigmaclip(v, 2, 1)[1:],
        lambda v: st.sigmaclip(v, high=1.2).clipped.std(),
        lambda v: len(st.sigmaclip(v, 1.1, 1.1).clipped),
        lambda v: st.sigmaclip(v, 1.3, 1.3).upper - v.max(),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_clipped_values(f, dtype):
    check(f, (SMOOTH * 90).astype(dtype))
    check(f, (TIES * 9).astype(dtype))


def test_peaks_are_found_for_a_block_at_once(monkeypatch):
    calls = []
    real = sg._peak_finding._local_maxima_1d
    monkeypatch.setattr(sg._peak_finding, "_local_maxima_1d", lambda x: calls.append(1) or real(x))
    data = np.tile(SMOOTH, (20, 1))
    got = xpapply.apply_along_axis(lambda v: len(sg.find_peaks(v, height=0.5)[0]), -1, data)
    assert got.shape == (4000,)
    assert len(calls) < 100


def test_errors_are_those_of_the_loop():
    with pytest.raises(ValueError, match="distance"):
        xpapply.apply_along_axis(lambda v: sg.find_peaks(v, distance=0)[0].size, -1, SMOOTH)
