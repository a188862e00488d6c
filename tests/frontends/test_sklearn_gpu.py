"""Estimators of scikit-learn on CuPy arrays, beside their own methods on the host."""

import re
import warnings

import numpy as np
import pytest

import xpapply

pytest.importorskip("sklearn")
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning"),  # of its own
]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
Y = X[:, 0] * 2 + X[:, 1] * X[:, 2]
THREE = np.digitize(Y, [-0.7, 0.7]) * 3 - 1
BOTH = np.stack([THREE, THREE[::-1]], 1)
_NETWORK = {"hidden_layer_sizes": (16, 16), "max_iter": 20, "random_state": 0}
_FOREST = {"n_estimators": 20, "max_depth": 8, "random_state": 0}
CASES = {
    "linear": (LinearRegression(), Y),
    "logistic": (LogisticRegression(), THREE),
    "network": (MLPRegressor(**_NETWORK), Y),
    "classes of a network": (MLPClassifier(**_NETWORK), THREE),
    "scaled network": (make_pipeline(StandardScaler(), MLPRegressor(**_NETWORK)), Y),
    "svc": (SVC(), THREE),
    "k-means": (KMeans(4, n_init=1, random_state=0), None),
    "pca": (PCA(3), None),
    "mixture": (GaussianMixture(3, random_state=0), None),
    "tree": (DecisionTreeClassifier(max_depth=5, random_state=0), THREE),
    "forest": (RandomForestClassifier(**_FOREST), THREE),
    "forest of two outputs": (RandomForestClassifier(**_FOREST), BOTH),
    "forest regression": (RandomForestRegressor(**_FOREST), Y),
    "scaled forest": (make_pipeline(StandardScaler(), RandomForestClassifier(**_FOREST)), THREE),
    "boosting": (GradientBoostingClassifier(n_estimators=20, random_state=0), THREE),
    "histograms": (HistGradientBoostingRegressor(max_iter=20), Y),
    "isolation": (IsolationForest(n_estimators=20, random_state=0), None),
}
OF_TREES = "tree forest boosting histograms isolation".split()
NO_FORMULA = {("pca", "score_samples")}
METHODS = "predict predict_proba decision_function transform score_samples".split()


@pytest.fixture(scope="module")
def fitted():
    known = {}

    def find(name):
        if name not in known:
            one, wanted = CASES[name]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                known[name] = one.fit(X) if wanted is None else one.fit(X, wanted)
        return known[name]

    return find


def of_rows(f, arr, axis):
    rows = np.moveaxis(arr, axis, -1)
    y = f(rows.reshape(-1, rows.shape[-1]))
    y = np.stack(y, 1) if isinstance(y, list) else y
    y = y.reshape(*rows.shape[:-1], *y.shape[1:])
    core = range(rows.ndim - 1, y.ndim)
    return np.moveaxis(y, core, range(axis, axis + len(core)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("name", CASES)
def test_they_are_what_the_methods_give_on_the_host(cupy, fitted, name, dtype):
    one = fitted(name)
    for method in METHODS:
        f = getattr(one, method, None)
        if f is None:
            continue
        host = (RNG.normal(size=(37, 6, 41)) * (3 if dtype == "int32" else 1)).astype(dtype)
        try:
            want = of_rows(f, host, 1)
        except (ValueError, TypeError):  # of float32, where it was fitted to float64
            continue
        arr = cupy.asarray(host)
        plan = xpapply.explain(f, 1, arr)
        # a mixture rounds what it computes of integers, and of float32: the method itself runs
        if not (name == "mixture" and dtype != "float64") and (name, method) not in NO_FORMULA:
            assert plan.engine == "cupy", plan.reasons
        for _ in range(2):
            got = xpapply.apply_along_axis(f, 1, arr)
            assert isinstance(got, cupy.ndarray)
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            if want.dtype.kind == "f":
                close = 1e-3 if dtype == "float32" else 1e-9
                np.testing.assert_allclose(got.get(), want, close, close)
            else:
                np.testing.assert_array_equal(got.get(), want)


@pytest.mark.parametrize("name", [k for k in CASES if k.split()[0] in OF_TREES])
def test_sums_of_trees_are_equal_to_the_last_bit(cupy, fitted, name):
    """Slices at thresholds, along every axis, in every order; tails that fill no block."""
    one = fitted(name)
    if name == "isolation":
        return  # an exponential follows
    known = [t.tree_.threshold[t.tree_.feature >= 0] for t in _trees(one)]
    known = np.concatenate(known) if known else np.zeros(1)
    for count in (1, 127, 129, 5000):
        host = RNG.normal(size=(count, 6))
        host = np.where(RNG.random(host.shape) < 0.5, RNG.choice(known, host.shape), host)
        f = one.predict if not hasattr(one, "decision_function") else one.decision_function
        want = f(host)
        for x, axis in ((cupy.asarray(host), 1), (cupy.asarray(host.T.copy()), 0)):
            got = xpapply.apply_along_axis(f, axis, x).get()
            got = np.moveaxis(got, axis, -1) if got.ndim > 1 else got
            np.testing.assert_array_equal(got, want)
        strided = cupy.asarray(np.repeat(host, 2, 1))[::-1, ::2]
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, strided).get(), want[::-1])


def _trees(one):
    return [t for t in np.ravel(getattr(one, "estimators_", [one])) if hasattr(t, "tree_")]


@pytest.mark.parametrize("name", ["tree", "forest", "histograms", "isolation"])
def test_missing_values(cupy, fitted, name):
    one = fitted(name)
    host = RNG.normal(size=(300, 6))
    host[RNG.random(host.shape) < 0.1] = np.nan
    got = xpapply.apply_along_axis(one, -1, cupy.asarray(host)).get()
    np.testing.assert_allclose(got, one.predict(host), rtol=1e-12)


@pytest.mark.parametrize("bad", [np.inf, 1e300, np.nan])
@pytest.mark.parametrize("name", ["forest", "boosting", "scaled forest", "logistic", "network"])
def test_numbers_that_are_refused(cupy, fitted, name, bad):
    one = fitted(name)
    host = RNG.normal(size=(20, 6))
    host[7, 2] = bad
    try:
        want = one.predict(host)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            xpapply.apply_along_axis(one, -1, cupy.asarray(host))
    else:
        got = xpapply.apply_along_axis(one, -1, cupy.asarray(host)).get()
        np.testing.assert_allclose(got, want, rtol=1e-9)


def test_a_forest_in_blocks(cupy, fitted):
    one = fitted("forest")
    host = RNG.normal(size=(5000, 6)).astype("f")
    with xpapply.options(block_bytes=1 << 14):
        got = xpapply.apply_along_axis(one.predict_proba, -1, cupy.asarray(host))
    np.testing.assert_array_equal(got.get(), one.predict_proba(host))


def test_compiled_plans(cupy, fitted):
    plan = xpapply.compile(fitted("forest").predict, (6,), "float32")
    host = RNG.normal(size=(500, 6)).astype("f")
    got = plan(cupy.asarray(host), -1)
    assert isinstance(got, cupy.ndarray)
    np.testing.assert_array_equal(got.get(), fitted("forest").predict(host))


def test_tensors_on_the_device(torch, cupy, fitted):
    one = fitted("forest")
    host = RNG.normal(size=(500, 6)).astype("f")
    x = torch.from_numpy(host).cuda()
    plan = xpapply.explain(one.predict_proba, -1, x)
    assert plan.engine == "cupy", plan.reasons
    got = xpapply.apply_along_axis(one.predict_proba, -1, x)
    assert got.is_cuda
    np.testing.assert_array_equal(got.cpu().numpy(), one.predict_proba(host))
