"""Estimators of scikit-learn: a million slices beside their own method on the same rows."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import xpapply

from . import runner
from .sklearn_report import OURS, OWN, OWN_IN_THREADS

ROWS, FEATURES = 1_000_000, 16
FITTED = 20_000
QUICK, SHARE = 20_000, 10
"""Rows of a quick run; the own method on a GPU's host gets one of so many rows."""
REPEATS = 5
_RNG = np.random.default_rng(0)

Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """An estimator, fitted when it is wanted, and what is wanted of it.

    Attributes
    ----------
    name : str
        With the method.
    make : callable
        The estimator, not fitted.
    method : str
        The one that is measured.
    wanted : dict of str to float
        By device: how many times as fast as the own method it should be.
    share : int
        One of so many rows is computed.
    """

    name: str
    make: Callable[[], Any]
    method: str = "predict"
    wanted: tuple[tuple[str, float], ...] = ()
    share: int = 1

    def measure(self, device: str, count: int, on: Any) -> dict[str, Any]:
        """Seconds of each way, checked against the own method."""
        rows, labels, numbers = _fitted_to()
        one = self.make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one.fit(rows, numbers if "Regressor" in self.name else labels)
        f = getattr(one, self.method)
        x = _RNG.normal(size=(count // self.share, FEATURES))
        part = x if device == "cpu" else x[: max(1, len(x) // SHARE)]
        calls: dict[str, Call] = {OWN: partial(f, part)}
        several = one.get_params().get("n_jobs", 1) is None and hasattr(one, "estimators_")
        if several and device == "cpu":
            calls[OWN_IN_THREADS] = partial(_in_threads, one, self.method, part)
        given = on.xp.asarray(x)

        def ours() -> Any:
            found = xpapply.apply_along_axis(f, -1, given)
            on.synchronize()
            return found

        calls[OURS] = ours
        plan = xpapply.explain(f, -1, given)
        got, want = ours(), f(part)
        got = np.asarray(got.get() if hasattr(got, "get") else got)[: len(part)]
        seconds = best(calls)
        if len(part) < len(x):
            seconds[OWN] *= len(x) / len(part)
        return {
            "seconds": seconds,
            "rows": len(x),
            "engine": f"{plan.engine}: {plan.kernels[0]}",
            "wanted": dict(self.wanted).get(device),
            "wrong": not np.allclose(got, want, rtol=1e-6, atol=1e-8),
        }


def _fitted_to() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(FITTED, FEATURES))
    numbers = rows[:, 0] * 2 + rows[:, 1] * rows[:, 2] + 0.3 * rng.normal(size=FITTED)
    return rows, np.digitize(numbers, [-1.0, 1.0]), numbers


def _in_threads(one: Any, method: str, rows: np.ndarray) -> Any:
    before = one.n_jobs
    one.n_jobs = os.cpu_count()
    try:
        return getattr(one, method)(rows)
    finally:
        one.n_jobs = before


def best(calls: dict[str, Call]) -> dict[str, float]:
    """The least of some turns: what else the machine does at a time slows all."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(REPEATS):
        for name, call in calls.items():
            if turn and sum(found[name]) > 10.0:  # long enough to be exact
                continue
            begin = time.perf_counter()
            call()
            found[name].append(time.perf_counter() - begin)
    return {name: min(t) for name, t in found.items()}


def start(run: runner.Run) -> dict[str, Any]:
    """What the file of results begins with."""
    rows = run.args.slices or (QUICK if run.quick else ROWS)
    return {"settings": {"rows": rows, "features": FEATURES}, "cases": {}}


def measure(run: runner.Run) -> None:
    """All cases, each in a part of its own."""
    rows, device = run.data["settings"]["rows"], run.args.device
    for case in run.chosen(CASES):
        run.part(f"cases/{case.name}", partial(case.measure, device, rows, run.on), line)


def line(found: dict[str, Any]) -> str:
    """What a run says of a case."""
    wrong = " WRONG" if found["wrong"] else ""
    return ", ".join(f"{n} {1e3 * t:.1f} ms" for n, t in found["seconds"].items()) + wrong


def _of(path: str, **parameters: Any) -> Callable[[], Any]:
    """What makes an estimator: scikit-learn is imported when it is wanted."""

    def make() -> Any:
        import importlib

        room, _, name = path.rpartition(".")
        return getattr(importlib.import_module(f"sklearn.{room}"), name)(**parameters)

    return make


def _scaled(make: Callable[[], Any]) -> Callable[[], Any]:
    def pipeline() -> Any:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), make())

    return pipeline


_FOREST = {"n_estimators": 100, "max_depth": 12, "random_state": 0}
_NETWORK = {"hidden_layer_sizes": (64, 64), "max_iter": 5, "random_state": 0}
_WANTED = (("cpu", 5.0), ("gpu", 50.0))

CASES = [
    Case(
        "RandomForestClassifier(100, max_depth=12).predict_proba",
        _of("ensemble.RandomForestClassifier", **_FOREST),
        "predict_proba",
        _WANTED,
    ),
    Case(
        "RandomForestRegressor(100, max_depth=12).predict",
        _of("ensemble.RandomForestRegressor", **_FOREST),
    ),
    Case(
        "GradientBoostingClassifier(100).predict",
        _of("ensemble.GradientBoostingClassifier", n_estimators=100, random_state=0),
    ),
    Case(
        "HistGradientBoostingRegressor(100).predict",
        _of("ensemble.HistGradientBoostingRegressor", max_iter=100, random_state=0),
    ),
    Case(
        "Pipeline(StandardScaler, MLPRegressor(64, 64)).predict",
        _scaled(_of("neural_network.MLPRegressor", **_NETWORK)),
        wanted=(("cpu", 5.0),),
    ),
    Case(
        "KMeans(8).predict",
        _of("cluster.KMeans", n_clusters=8, n_init=1, random_state=0),
        wanted=(("cpu", 3.0),),
    ),
    Case(
        "GaussianMixture(8).predict",
        _of("mixture.GaussianMixture", n_components=8, random_state=0, max_iter=10),
        wanted=(("cpu", 3.0),),
    ),
    Case(
        "LogisticRegression.predict_proba", _of("linear_model.LogisticRegression"), "predict_proba"
    ),
    Case("PCA(4).transform", _of("decomposition.PCA", n_components=4), "transform"),
    Case("SVC(rbf).predict", _of("svm.SVC"), share=1000),
]
