"""Formulas of estimators of scikit-learn as graphs: scores, probabilities, transforms, labels."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import (
    BayesianRidge,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Perceptron,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 4))
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
TWO = np.array(["no", "yes"])[(X[:, 1] > 0).astype(int)]
Y = X[:, 0] * 2 + X[:, 1]
BOTH = np.stack([Y, X[:, 2]], 1)
FEW = {"max_iter": 20, "random_state": 0}

CASES = {
    "linear": (LinearRegression(), Y),
    "two outputs": (Ridge(), BOTH),
    "lasso": (Lasso(0.01), Y),
    "bayesian": (BayesianRidge(), Y),
    "sgd": (SGDRegressor(random_state=0), Y),
    "huber": (HuberRegressor(), Y),
    "poisson": (PoissonRegressor(), np.abs(Y)),
    "gamma": (GammaRegressor(), np.abs(Y) + 0.1),
    "logistic": (LogisticRegression(), THREE),
    "logistic of two": (LogisticRegression(), TWO),
    "ridge classes": (RidgeClassifier(), THREE),
    "ridge of two": (RidgeClassifier(), TWO),
    "sgd classes": (SGDClassifier(loss="log_loss", random_state=0), THREE),
    "perceptron": (Perceptron(), THREE),
    "linear svc": (LinearSVC(), THREE),
    "linear svr": (LinearSVR(), Y),
    "standard": (StandardScaler(), None),
    "standard without mean": (StandardScaler(with_mean=False), None),
    "min max": (MinMaxScaler((-1, 2), clip=True), None),
    "max abs": (MaxAbsScaler(), None),
    "robust": (RobustScaler(), None),
    "l1": (Normalizer("l1"), None),
    "l2": (Normalizer(), None),
    "max": (Normalizer("max"), None),
    "cubes": (PolynomialFeatures(3), None),
    "interactions": (PolynomialFeatures((2, 3), interaction_only=True, include_bias=False), None),
    "pca": (PCA(2), None),
    "whitened": (PCA(2, whiten=True), None),
    "incremental": (IncrementalPCA(2), None),
    "svd": (TruncatedSVD(2), None),
    "ica": (FastICA(2, random_state=0), None),
    "lda": (LinearDiscriminantAnalysis(), THREE),
    "lda of two": (LinearDiscriminantAnalysis(solver="eigen"), TWO),
    "network": (MLPRegressor(hidden_layer_sizes=(8,), **FEW), Y),
    "network of two": (MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", **FEW), BOTH),
    "classes of a network": (
        MLPClassifier((8, 8), activation="logistic", learning_rate_init=0.1, **FEW),
        THREE,
    ),
    "two classes of a network": (MLPClassifier((8,), activation="identity", **FEW), TWO),
    "k-means": (KMeans(3, n_init=1, random_state=0), None),
    "batches of k-means": (MiniBatchKMeans(3, n_init=1, random_state=0), None),
    **{
        f"mixture, {form}": (GaussianMixture(3, covariance_type=form, random_state=0), None)
        for form in ("full", "tied", "diag", "spherical")
    },
    "gaussian bayes": (GaussianNB(), THREE),
    "bernoulli bayes": (BernoulliNB(), TWO),
    "multinomial bayes": (MultinomialNB(), THREE),
    "complement bayes": (ComplementNB(), THREE),
    **{f"svc, {k}": (SVC(kernel=k), THREE) for k in ("linear", "rbf", "poly", "sigmoid")},
    "svc of two": (SVC(), TWO),
    "pairs": (SVC(decision_function_shape="ovo"), np.digitize(X[:, 0], [-0.6, 0, 0.6])),
    "nu svc": (NuSVC(nu=0.2), THREE),
    "svr": (SVR(), Y),
    "nu svr": (NuSVR(kernel="poly"), Y),
    "one class": (OneClassSVM(), None),
    "pipeline": (make_pipeline(StandardScaler(), PCA(3), MLPClassifier((8,), **FEW)), THREE),
    "features": (make_pipeline(PolynomialFeatures(2), "passthrough", Ridge()), Y),
    "roots": (make_pipeline(FunctionTransformer(np.abs), FunctionTransformer(np.sqrt), Ridge()), Y),
    "union": (make_union(StandardScaler(), PCA(2)), None),
    "target": (TransformedTargetRegressor(Ridge(), transformer=StandardScaler()), Y),
    "log of target": (
        TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1),
        np.abs(Y),
    ),
    "search": (GridSearchCV(SVC(), {"C": [0.5, 1.0]}, cv=2), THREE),
}
METHODS = (
    "predict predict_proba predict_log_proba decision_function transform score_samples "
    "inverse_transform"
).split()
IN_BATCHES = {("ica", "inverse_transform"), ("pca", "score_samples"), ("whitened", "score_samples")}
"""What has no formula here."""


pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture(scope="module")
def fitted():
    """Each of them fitted, once."""
    known = {}

    def find(name):
        if name not in known:
            one, wanted = CASES[name]
            rows = np.abs(X) if name.startswith(("multinomial", "complement")) else X
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                known[name] = one.fit(rows) if wanted is None else one.fit(rows, wanted)
        return known[name]

    return find


def methods(one):
    return [name for name in METHODS if hasattr(one, name)]


def width(one, name):
    return one.transform(X[:1]).shape[1] if name == "inverse_transform" else 4


def of_rows(f, axis, arr):
    """What the method gives for all slices as rows."""
    rows = np.moveaxis(arr, axis, -1)
    y = f(rows.reshape(-1, rows.shape[-1]))
    y = y.reshape(*rows.shape[:-1], *y.shape[1:])
    core = range(rows.ndim - 1, y.ndim)
    return np.moveaxis(y, core, range(axis, axis + len(core)))


def same(got, want, rtol=1e-9, atol=1e-7):
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    else:  # what is near is asked of the method itself: all are equal
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", CASES)
def test_graphs_are_what_the_methods_give(fitted, name):
    one = fitted(name)
    for method in methods(one):
        f = getattr(one, method)
        arr = RNG.normal(size=(6, width(one, method), 7)) * 2
        p = xpapply.explain(f, 1, arr)
        assert (p.engine == "sklearn.batch") == ((name, method) in IN_BATCHES), p.reasons
        want = of_rows(f, 1, arr)
        same(xpapply.apply_along_axis(f, 1, arr), want)
        same(xpapply.apply_along_axis(f, 1, arr), want)
        same(p(arr, 1), want)
        assert (p.out_shape, p.out_dtype) == (want.shape, want.dtype.name)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("name", CASES)
def test_dtypes_are_those_of_scikit_learn(fitted, name, dtype):
    one = fitted(name)
    for method in methods(one):
        f = getattr(one, method)
        arr = (RNG.normal(size=(6, width(one, method), 7)) * 3).astype(dtype)
        try:
            want = of_rows(f, 1, arr)
        except (ValueError, TypeError) as error:  # of float32 where the centres are float64
            with pytest.raises(type(error)):
                xpapply.apply_along_axis(f, 1, arr)
            continue
        half = want.dtype == np.float16
        rtol = 1e-2 if half else 1e-4 if dtype == "float32" else 1e-6
        same(xpapply.apply_along_axis(f, 1, arr), want, rtol, 1e-2 if half else 1e-4)


@pytest.mark.parametrize("name", ["pipeline", "svc of two", "standard", "mixture, full"])
@given(data=st.data())
def test_shapes_axes_and_memory_orders(fitted, name, data):
    one = fitted(name)
    batch = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(batch)))
    shape = (*batch[:axis], 4, *batch[axis:])
    order = data.draw(st.permutations(range(len(shape))))
    dtype = data.draw(st.sampled_from(["float64", "float32", "int32"]))
    arr = (RNG.normal(size=[shape[a] for a in order]) * 3).astype(dtype)
    arr = arr.transpose(np.argsort(order))
    arr = arr[tuple(slice(None, None, data.draw(st.sampled_from([1, -1]))) for _ in shape)]
    for method in methods(one):
        f = getattr(one, method)
        want = of_rows(f, axis, arr)
        same(xpapply.apply_along_axis(f, axis, arr), want, 1e-4, 1e-4)


@pytest.mark.parametrize(
    "labels",
    [
        [3, 7, 9],
        [0.0, 1.0, 5.0],
        ["a", "bbb", "cc"],
        np.array(["a", "bb", "c"], object),
        [True, False],
    ],
    ids=["ints", "floats", "texts", "objects", "booleans"],
)
@pytest.mark.parametrize("make", [LogisticRegression, GaussianNB, SVC, LinearDiscriminantAnalysis])
def test_labels(make, labels):
    wanted = np.asarray(labels)[np.minimum(THREE, len(labels) - 1)]
    one = make().fit(X, wanted)
    arr = RNG.normal(size=(5, 4, 20))
    p = xpapply.explain(one, 1, arr)
    assert p.engine != "sklearn.batch", p.reasons
    same(xpapply.apply_along_axis(one, 1, arr), of_rows(one.predict, 1, arr))
    if wanted.dtype.kind in "biuf":
        plan = pickle.loads(pickle.dumps(xpapply.compile(one, (4,), "float64")))
        same(plan(arr, 1), of_rows(one.predict, 1, arr))
        same(pickle.loads(pickle.dumps(p))(arr, 1), of_rows(one.predict, 1, arr))
    else:
        with pytest.raises(xpapply.UnsupportedError, match="labels of dtype"):
            xpapply.compile(one, (4,), "float64")


@pytest.mark.parametrize("name", ["logistic", "ridge of two", "classes of a network", "k-means"])
def test_ties_are_decided_by_the_method_itself(fitted, name, monkeypatch):
    """Samples in the middle between two classes: a graph alone might say either."""
    one = fitted(name)
    rows = RNG.normal(size=(2, 400, 4)) * 4
    differ = one.predict(rows[0]) != one.predict(rows[1])
    low, high = rows[:, differ][:, :40]
    assert len(low) > 5
    first = one.predict(low)
    for _ in range(60):  # bisect between samples of two classes
        half = (low + high) / 2
        goes = (one.predict(half) == first)[:, None]
        low, high = np.where(goes, half, low), np.where(goes, high, half)
    asked = []
    cls = type(one)
    real = cls.predict

    def counting(self, x):
        asked.append(len(x))
        return real(self, x)

    counting.__qualname__, counting.__name__ = real.__qualname__, "predict"
    arr = np.stack([low, high, X[: len(low)]])
    want = of_rows(one.predict, 2, arr)
    monkeypatch.setattr(cls, "predict", counting)
    f = one.predict
    assert xpapply.explain(f, -1, arr).engine != "sklearn.batch"
    asked.clear()
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, -1, arr), want)
    assert sum(asked) >= 2 * len(low) - 1
    assert sum(asked) < 2 * len(low) + len(low) // 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "name",
    "logistic,network,svr,pipeline,k-means,standard,ridge of two,gaussian bayes,bernoulli bayes,"
    "svc of two,lda,one class,classes of a network,two classes of a network".split(","),
)
def test_numbers_that_are_refused(fitted, name, bad):
    one = fitted(name)
    arr = RNG.normal(size=(6, 4, 7))
    assert xpapply.explain(one, 1, arr).engine != "sklearn.batch"
    xpapply.apply_along_axis(one, 1, arr)
    arr[3, 1, 4] = bad
    if name == "standard" and np.isnan(bad):  # which it lets through
        same(xpapply.apply_along_axis(one, 1, arr), of_rows(one.transform, 1, arr))
        return
    with pytest.raises(ValueError, match=r"NaN|inf") as caught:
        xpapply.apply_along_axis(one, 1, arr)
    assert "raised at the slice arr[3, :, 4]" in caught.value.__notes__


def test_large_numbers_are_no_infinities():
    one = StandardScaler().fit(X)
    arr = np.full((3, 4), 3e38, np.float32)
    same(xpapply.apply_along_axis(one, 1, arr), one.transform(arr), 1e-5)


def test_fitted_again_and_written_to(fitted):
    one = make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(5,), **FEW))
    arr = RNG.normal(size=(20, 4))
    changes = [
        lambda: one.fit(X, Y),
        lambda: one.fit(X, -Y),
        lambda: one[-1].coefs_[0].__imul__(1.5),
        lambda: one[-1].intercepts_.__setitem__(0, np.ones(5)),
        lambda: one[0].mean_.__iadd__(1.0),
        lambda: one[-1].partial_fit(one[0].transform(X), Y),
        lambda: one.steps.__setitem__(1, ("ridge", Ridge().fit(X, Y))),
    ]
    for change in changes:
        change()
        same(xpapply.apply_along_axis(one, -1, arr), one.predict(arr))
        assert xpapply.explain(one, -1, arr).engine != "sklearn.batch"
    target = TransformedTargetRegressor(Ridge(), transformer=StandardScaler()).fit(X, Y)
    search = GridSearchCV(Ridge(), {"alpha": [0.5, 1.0]}, cv=2).fit(X, Y)
    for one, inner in ((target, target.regressor_), (search, search.best_estimator_)):
        same(xpapply.apply_along_axis(one, -1, arr), one.predict(arr))
        inner.coef_ *= 2
        same(xpapply.apply_along_axis(one, -1, arr), one.predict(arr))


@pytest.mark.parametrize("name", [k for k in CASES if k not in ("ica", "search")])
def test_weights_are_no_part_of_the_structure(name):
    """So that the kernels of one estimator run another one like it."""
    one, wanted = CASES[name]
    graphs = []
    for scale in (1.0, 1.5):
        rows = np.abs(X) * scale if name.startswith(("multinomial", "complement")) else X * scale
        other = clone(one).fit(rows, None if wanted is None else wanted)
        method = next(m for m in METHODS if hasattr(other, m))
        f = getattr(other, method)
        if "sv" in name or "pairs" in name or "one class" in name:  # as many support vectors
            continue
        if wanted is None or np.asarray(wanted).dtype.kind != "U":
            graphs.append(xpapply.lift(f, (4,), "float64"))
    assert all(g == graphs[0] for g in graphs)


def test_another_method_than_that_of_scikit_learn_has_no_formula():
    class Mine(StandardScaler):
        def transform(self, x):
            return super().transform(x) * 2

    one = make_pipeline(Mine(), Ridge()).fit(X, Y)
    arr = RNG.normal(size=(20, 4))
    p = xpapply.explain(one, -1, arr)
    assert p.engine == "loop"
    assert "Mine is not of scikit-learn" in p.reasons[0]
    with xpapply.options(fallback="silent"):
        same(xpapply.apply_along_axis(one, -1, arr), one.predict(arr))


def test_a_formula_that_is_not_that_of_this_version(monkeypatch):
    one = LinearRegression().fit(X, Y)
    real = LinearRegression.predict

    def changed(self, x):
        return real(self, x) + 1

    changed.__qualname__, changed.__name__ = real.__qualname__, "predict"
    monkeypatch.setattr(LinearRegression, "predict", changed)
    arr = RNG.normal(size=(20, 4))
    p = xpapply.explain(one, -1, arr)
    assert p.engine == "sklearn.batch"
    assert "this version of scikit-learn" in p.reasons[0]
    same(xpapply.apply_along_axis(one, -1, arr), one.predict(arr))


@pytest.mark.parametrize("name", ["pipeline", "logistic of two", "standard", "svc, rbf", "k-means"])
def test_on_other_libraries(fitted, name, xp):
    one = fitted(name)
    arr = xp.array(RNG.normal(size=(6, 4, 7)))
    host = xpapply.arrays.on_host(arr)
    close = 1e-3 if host.dtype == np.float32 else 1e-6
    for method in methods(one):
        f = getattr(one, method)
        try:
            want = of_rows(f, 1, host)
        except ValueError:  # of float32 where the centres are float64
            continue
        if want.dtype.kind == "U" and not isinstance(arr, np.ndarray):
            with pytest.raises(xpapply.InputError, match="labels of dtype"):
                xpapply.apply_along_axis(f, 1, arr)
            continue
        got = xpapply.apply_along_axis(f, 1, arr)
        assert type(got) is type(arr)
        got = xpapply.arrays.on_host(got)
        same(got.astype(want.dtype), want, close, close)


@pytest.mark.parametrize(
    "inside",
    [
        lambda model: lambda v: model.predict(v[None])[0],
        lambda model: lambda v: model.predict(v.reshape(1, -1)).sum() + v[0],
        lambda model: lambda v: model.predict(np.stack([v, v * 2, -v])),
        lambda model: lambda v: v[model.predict(v[None])[0]],
        lambda model: lambda v: v.max() if model.predict(v[None])[0] == 2 else v.mean(),
        lambda model: lambda v: model.predict((v - v.mean())[None])[0] * 2,
        lambda model: lambda v: model.decision_function(v[None])[0].max(),
    ],
    ids=["one", "a sum", "several samples", "a place", "a branch", "centred", "scores"],
)
@pytest.mark.parametrize("name", ["logistic", "svc, rbf", "search"])
def test_inside_functions(fitted, name, inside, plan_always):
    f = inside(fitted(name))
    arr = RNG.normal(size=(30, 4, 20))
    p = xpapply.explain(f, 1, arr)
    assert any("formula" in kernel for kernel in p.kernels), (p.kernels, p.reasons)
    with xpapply.options(fallback="raise"):
        same(xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr))
    arr[3, 1, 4] = np.nan
    with pytest.raises(ValueError, match="NaN") as caught:
        xpapply.apply_along_axis(f, 1, arr)
    assert "raised at the slice arr[3, :, 4]" in caught.value.__notes__


def test_inside_functions_of_estimators_that_are_fitted_again(plan_always):
    model = make_pipeline(StandardScaler(), Ridge())
    arr = RNG.normal(size=(30, 4, 20))

    def f(v):
        return model.predict(v[None])[0]

    for wanted in (Y, -Y):
        model.fit(X, wanted)
        same(xpapply.apply_along_axis(f, 1, arr), of_rows(model.predict, 1, arr))
    model[-1].coef_ *= 3
    same(xpapply.apply_along_axis(f, 1, arr), of_rows(model.predict, 1, arr))
