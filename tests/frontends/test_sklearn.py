"""Estimators of scikit-learn as functions of a slice: every one, as its own method says."""

import functools
import gc
import warnings
import weakref

import numpy as np
import pytest

import xpapply

pytest.importorskip("sklearn")
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF, PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    LabelEncoder,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import all_estimators

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 4))
NUMBERS = ROWS[:, 0] * 2 + ROWS[:, 1]
LABELS = np.digitize(ROWS[:, 0], [-0.5, 0.5])
WORDS = np.array(["a", "bbb", "cc"])[LABELS]
ARR = RNG.normal(size=(3, 4, 5))
METHODS = (
    "predict predict_proba predict_log_proba decision_function transform score_samples "
    "inverse_transform"
).split()

_LINEAR = {"estimator": LogisticRegression()}
_SEVERAL = [("a", LogisticRegression()), ("b", DecisionTreeClassifier(max_depth=2))]
_NUMBERS = [("a", Ridge()), ("b", DecisionTreeRegressor(max_depth=2))]
_SCALERS = [("a", StandardScaler()), ("b", PCA(2))]
GIVEN = {
    "ClassifierChain": _LINEAR,
    "ColumnTransformer": {"transformers": [("a", StandardScaler(), [0, 2])]},
    "FeatureUnion": {"transformer_list": _SCALERS},
    "FixedThresholdClassifier": _LINEAR,
    "GridSearchCV": {"estimator": Ridge(), "param_grid": {"alpha": [0.1, 1.0]}},
    "HalvingGridSearchCV": {"estimator": Ridge(), "param_grid": {"alpha": [0.1, 1.0]}},
    "HalvingRandomSearchCV": {
        "estimator": Ridge(),
        "param_distributions": {"alpha": [0.1, 1.0]},
    },
    "MultiOutputClassifier": _LINEAR,
    "MultiOutputRegressor": {"estimator": Ridge()},
    "OneVsOneClassifier": _LINEAR,
    "OneVsRestClassifier": _LINEAR,
    "OutputCodeClassifier": {**_LINEAR, "random_state": 0},
    "Pipeline": {"steps": [("a", StandardScaler()), ("b", LogisticRegression())]},
    "RFE": _LINEAR,
    "RFECV": _LINEAR,
    "RandomizedSearchCV": {
        "estimator": Ridge(),
        "param_distributions": {"alpha": [0.1, 1.0]},
        "n_iter": 2,
    },
    "RegressorChain": {"estimator": Ridge()},
    "SelectFromModel": _LINEAR,
    "SelfTrainingClassifier": _LINEAR,
    "SequentialFeatureSelector": _LINEAR,
    "SparseCoder": {"dictionary": RNG.normal(size=(3, 4))},
    "StackingClassifier": {"estimators": _SEVERAL},
    "StackingRegressor": {"estimators": _NUMBERS},
    "TunedThresholdClassifierCV": _LINEAR,
    "VotingClassifier": {"estimators": _SEVERAL},
    "VotingRegressor": {"estimators": _NUMBERS},
    "DummyClassifier": {"strategy": "prior"},
    "LocalOutlierFactor": {"novelty": True, "n_neighbors": 5},
    "RadiusNeighborsClassifier": {"radius": 9.0},
    "RadiusNeighborsRegressor": {"radius": 9.0},
    "SkewedChi2Sampler": {"skewedness": 9.0},
    "KernelPCA": {"fit_inverse_transform": True, "n_components": 2},
    "QuantileTransformer": {"n_quantiles": 10},
    "OrthogonalMatchingPursuitCV": {},
    "SimpleImputer": {"add_indicator": True},
}
"""What estimators are made with that are made with something, or give nothing otherwise."""

_FEW = {"n_estimators": 3, "max_iter": 20, "random_state": 0, "n_components": 2, "cv": 2}
SPARSE = "KBinsDiscretizer KNeighborsTransformer OneHotEncoder RadiusNeighborsTransformer"
IN_THE_LOOP = {
    *SPARSE.split(),
    *("RandomTreesEmbedding", "TfidfTransformer", "NMF", "MiniBatchNMF"),
    *("BernoulliRBM", "SparsePCA", "MiniBatchSparsePCA"),
}
"""Those that have a method that has to run slice by slice."""

OTHERS = {
    *("CountVectorizer", "DictVectorizer", "FeatureHasher", "HashingVectorizer"),
    *("TfidfVectorizer", "LabelBinarizer", "LabelEncoder", "MultiLabelBinarizer"),
    *("PatchExtractor", "IsotonicRegression", "KernelCenterer", "FrozenEstimator"),
}
"""Of texts, dicts, labels, images and kernel matrices; and of one that is fitted already."""

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CLASSES = {
        name: cls
        for name, cls in all_estimators()
        if name not in OTHERS and any(hasattr(cls, m) for m in METHODS)
    }


pytestmark = pytest.mark.usefixtures("quiet")


def made(cls):
    """An estimator of a class, fitted to what it takes; and slices that it takes."""
    if cls.__name__ in GIVEN:
        one = cls(
            **{k: clone(v) if k == "estimator" else v for k, v in GIVEN[cls.__name__].items()}
        )
    else:
        one = cls()
        known = one.get_params(deep=False)
        one.set_params(**{k: v for k, v in _FEW.items() if k in known and k != "n_components"})
        if known.get("n_components", 9) not in (None, 1, 9):
            one.set_params(n_components=2)
    positive = np.abs(ROWS) + 0.1
    whole = RNG.integers(0, 3, ROWS.shape)
    error = None
    for rows, wanted in (
        (ROWS, NUMBERS),
        (ROWS, LABELS),
        (positive, positive[:, 0]),
        (whole, LABELS),
        (ROWS, LABELS > 0),
        (ROWS, np.stack([LABELS, LABELS], 1)),
        (ROWS, np.stack([NUMBERS, NUMBERS], 1)),
    ):
        try:
            fitted = clone(one).fit(rows, wanted)
        except Exception as found:
            error = found
            continue
        return fitted, rows
    raise AssertionError(f"{cls.__name__}: {error}")


def slices_of(rows, count=12):
    """An array whose slices along axis 1 are samples."""
    return np.ascontiguousarray(np.moveaxis(rows[:count].reshape(3, 4, -1), -1, 1))


def less_mean(x):
    return x - x.mean()


def of_one(f):
    return lambda v: f(v.reshape(1, -1))[0]


def same(got, want):
    assert (type(got), got.shape, got.dtype) == (type(want), want.shape, want.dtype)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-7)
    elif want.dtype == object:
        assert str(got) == str(want)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CLASSES)
def test_every_estimator(name, plan_always):
    """Bare methods, and the same inside functions, are what the plain loop gives."""
    fitted, rows = made(CLASSES[name])
    ran = 0
    for method in METHODS:
        f = getattr(fitted, method, None)
        if f is None:
            continue
        given = rows
        if method == "inverse_transform":
            given = np.asarray(fitted.transform(rows))
            if given.ndim != 2:  # sparse
                continue
        arr = slices_of(given)
        try:
            want = np.apply_along_axis(of_one(f), 1, arr)
        except ValueError as error:  # results of several shapes, or none for some sample
            if "broadcast" not in str(error) and "0 feature" not in str(error):
                raise
            continue
        bare = want
        if isinstance(f(given[:1]), list):  # of several outputs: all of them
            bare = np.apply_along_axis(lambda v, f=f: np.stack(f(v[None]))[:, 0], 1, arr)
        same(xpapply.apply_along_axis(f, 1, arr), bare)
        with xpapply.options(engine="loop"):
            same(xpapply.apply_along_axis(f, 1, arr), bare)
        p = xpapply.explain(f, 1, arr)
        assert p.vectorized or name in IN_THE_LOOP or "Transformer" in name, p.reasons
        inside = eval(f"lambda v: est.{method}(v.reshape(1, -1))[0]", {"est": fitted})
        same(xpapply.apply_along_axis(inside, 1, arr), want)
        inside = eval(f"lambda v: est.{method}(v[None])[0]", {"est": fitted})
        same(xpapply.apply_along_axis(inside, 1, arr), want)
        ran += 1
    if any(hasattr(fitted, m) for m in METHODS if m != "inverse_transform"):
        assert ran or name in {"ClassifierChain", *IN_THE_LOOP}


@pytest.mark.parametrize(
    "labels",
    [LABELS, LABELS.astype(np.int8), LABELS * 1.0, LABELS > 0, WORDS, WORDS.astype(object)],
    ids=["int", "int8", "float", "bool", "str", "object"],
)
@pytest.mark.parametrize(
    "make",
    [LogisticRegression, KNeighborsClassifier, DecisionTreeClassifier],
    ids=lambda cls: cls.__name__,
)
def test_labels_are_those_of_the_classes(make, labels, plan_always):
    """NumPy's loop would cut texts to the length of the first one: 'bbb' to 'a'."""
    fitted = make().fit(ROWS, labels)
    arr = slices_of(ROWS)
    want = fitted.predict(ROWS[:12]).reshape(3, 4)
    for options in ({}, {"engine": "loop"}, {"fallback": "raise"}):
        with xpapply.options(**options):
            same(xpapply.apply_along_axis(fitted.predict, 1, arr), want)
            same(xpapply.apply_along_axis(fitted, 1, arr), want)
    p = xpapply.explain(fitted, 1, arr)
    assert (p.vectorized, p.out_dtype) == (True, want.dtype.name)

    def f(v):
        return fitted.predict(v[None])[0]

    same(xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(f, 1, arr))


def test_estimators_stand_for_a_method():
    scaler, ridge = StandardScaler().fit(ROWS), Ridge().fit(ROWS, NUMBERS)
    for one, method in (
        (ridge, ridge.predict),
        (scaler, scaler.transform),
        (make_pipeline(scaler, ridge).fit(ROWS, NUMBERS), None),
        (KMeans(2, n_init=1).fit(ROWS), None),
    ):
        want = np.apply_along_axis(of_one(method or one.predict), 1, ARR)
        same(xpapply.apply_along_axis(one, 1, ARR), want)
        same(xpapply.apply_along_axis(f=one, axis=1, arr=ARR), want)
        same(xpapply.apply_along_axis(one, 1, ARR), want)  # again
        assert xpapply.explain(one, 1, ARR).vectorized
        core = "(n)->(k)" if want.ndim > 2 else "(n)->()"
        got = xpapply.vectorize(one, signature=core)(np.moveaxis(ARR, 1, -1))
        np.testing.assert_allclose(np.moveaxis(want, 1, -1) if want.ndim > 2 else want, got)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool", ">f8"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_dtypes_axes_and_orders(dtype, axis):
    tree = DecisionTreeRegressor(max_depth=3).fit(ROWS, NUMBERS)
    arr = (np.moveaxis(ARR, 1, axis) * 3).astype(dtype)
    for x in (arr, np.asfortranarray(arr), arr[::-1], np.moveaxis(arr, axis, 0)[:, ::2]):
        at = axis if x.shape == arr.shape else 0
        for f in (tree.predict, StandardScaler().fit(ROWS).transform):
            same(xpapply.apply_along_axis(f, at, x), np.apply_along_axis(of_one(f), at, x))


def test_slices_with_several_axes_are_flattened():
    fitted = Ridge().fit(ROWS, NUMBERS)
    arr = RNG.normal(size=(5, 2, 6, 2))
    want = fitted.predict(arr.transpose(0, 2, 1, 3).reshape(-1, 4)).reshape(5, 6)
    np.testing.assert_allclose(xpapply.apply_along_axis(fitted.predict, (1, 3), arr), want)
    np.testing.assert_allclose(xpapply.apply_along_axis(fitted, (1, 3), arr), want)


def test_texts_as_features():
    words = np.array([["x", "y"], ["y", "z"], ["x", "z"]])
    for encoder in (OrdinalEncoder(), OneHotEncoder(sparse_output=False)):
        f = encoder.fit(words).transform
        same(xpapply.apply_along_axis(f, -1, words), np.apply_along_axis(of_one(f), -1, words))


def test_estimators_of_labels_and_functions_take_slices_as_they_are():
    """They do not want samples in rows."""
    words = WORDS.reshape(8, 5)
    encoder = LabelEncoder().fit(WORDS)
    same(
        xpapply.apply_along_axis(encoder.transform, -1, words),
        encoder.transform(WORDS).reshape(8, 5),
    )
    centred = FunctionTransformer(lambda x: x - x.mean()).fit(ROWS)
    same(
        xpapply.apply_along_axis(centred.transform, -1, ROWS),
        np.apply_along_axis(centred.transform, -1, ROWS),
    )


def test_estimators_of_ones_own_are_python():
    class Mine(BaseEstimator):
        def fit(self, x):
            return self

        def predict(self, x):
            return x.max(-1)

    f = Mine().predict
    same(xpapply.apply_along_axis(f, 1, ARR), ARR.max(1))
    assert xpapply.explain(f, 1, np.tile(ARR, (40, 1, 40))).engine != "sklearn.batch"


@pytest.mark.parametrize("fitted", [True, False])
def test_sklearn_raises_its_own_errors(fitted):
    ridge = LogisticRegression()
    if fitted:
        ridge.fit(ROWS, LABELS)
    error, says = (ValueError, "X has 3 features") if fitted else (NotFittedError, "not fitted")
    for f in (ridge.predict, ridge, ridge.predict_proba, lambda v: ridge.predict(v[None])[0]):
        for options in ({}, {"engine": "loop"}):
            with xpapply.options(**options), pytest.raises(error, match=says) as caught:
                xpapply.apply_along_axis(f, 1, ARR[:, :3])
            assert "raised at the slice arr[0, :, 0]" in caught.value.__notes__


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_estimators_refuse(bad):
    arr = ARR.copy()
    arr[1, 2, 3] = bad
    forest = RandomForestClassifier(2, random_state=0).fit(ROWS, LABELS)
    for one in (Ridge().fit(ROWS, NUMBERS), forest, StandardScaler().fit(ROWS)):
        f = one if isinstance(one, Ridge) else one.predict if one is forest else one.transform
        if one is forest and np.isnan(bad):
            same(xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(of_one(f), 1, arr))
            continue
        if isinstance(one, StandardScaler) and np.isnan(bad):  # which it lets through
            same(xpapply.apply_along_axis(f, 1, arr), np.apply_along_axis(of_one(f), 1, arr))
            continue
        for options in ({}, {"engine": "loop"}):
            with xpapply.options(**options), pytest.raises(ValueError, match=r"NaN|inf") as caught:
                xpapply.apply_along_axis(f, 1, arr)
            assert "raised at the slice arr[1, :, 3]" in caught.value.__notes__


def test_what_a_sample_gives_may_depend_on_others_beside_it():
    draws = DummyClassifier(strategy="uniform", random_state=0).fit(ROWS, LABELS)
    positive = np.abs(ROWS)
    together = NMF(2, init="random", random_state=0, max_iter=50).fit(positive)
    arr = slices_of(positive)
    for f, says in (
        (draws.predict, "draws random numbers"),
        (together.transform, "solves for all samples together"),
        (
            make_pipeline(FunctionTransformer(less_mean), Ridge()).fit(ROWS, NUMBERS).predict,
            "may mix samples",
        ),
        (StandardScaler(copy=False).fit(ROWS.copy()).transform, "writes to its input"),
    ):
        p = xpapply.explain(f, 1, arr)
        assert p.engine == "loop"
        assert says in "; ".join(p.reasons)
        with xpapply.options(fallback="silent"):
            got = xpapply.apply_along_axis(f, 1, arr.copy())
        same(got, np.apply_along_axis(of_one(f), 1, arr.copy()))


def test_estimators_that_are_fitted_again():
    one = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=3))

    def inside(v):
        return one.predict(v[None])[0]

    for wanted in (NUMBERS, -NUMBERS, NUMBERS**2):
        one.fit(ROWS, wanted)
        for f in (one, one.predict, inside):
            same(xpapply.apply_along_axis(f, 1, ARR), np.apply_along_axis(inside, 1, ARR))
    linear = LinearRegression().fit(ROWS, NUMBERS)
    for write in (lambda: linear.coef_.__imul__(2), lambda: setattr(linear, "intercept_", 5.0)):
        write()
        same(
            xpapply.apply_along_axis(linear, 1, ARR),
            np.apply_along_axis(of_one(linear.predict), 1, ARR),
        )


def test_estimators_are_not_kept_alive():
    one = KNeighborsClassifier(2).fit(ROWS, LABELS)
    partial = functools.partial(one.kneighbors, n_neighbors=1)
    for f in (one, one.predict, partial):
        xpapply.apply_along_axis(f, 1, ARR)
    p = xpapply.explain(one.predict, 1, ARR)
    assert p(ARR, 1).shape == (3, 5)
    gone = weakref.ref(one)
    del one, partial, f, p
    gc.collect()
    assert gone() is None


def test_dask_arrays_and_tensors():
    one = DecisionTreeClassifier(max_depth=2).fit(ROWS, WORDS)
    da, torch = pytest.importorskip("dask.array"), pytest.importorskip("torch")
    want = np.apply_along_axis(lambda v: np.asarray(one.predict(v[None]))[0, ...], 1, ARR)
    same(np.asarray(xpapply.apply_along_axis(one, 1, da.from_array(ARR, chunks=2))), want)
    with pytest.raises(xpapply.InputError, match="labels of dtype <U3 for Tensor"):
        xpapply.apply_along_axis(one, 1, torch.from_numpy(ARR))
    got = xpapply.apply_along_axis(one.predict_proba, 1, torch.from_numpy(ARR))
    assert type(got) is torch.Tensor
    same(got.numpy(), np.apply_along_axis(of_one(one.predict_proba), 1, ARR))
    near = KNeighborsClassifier(2).fit(ROWS, LABELS)
    p = xpapply.explain(near.predict_proba, 1, torch.from_numpy(ARR))
    assert p.kernels[0].endswith("on a copy on the host")
