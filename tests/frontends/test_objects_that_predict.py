"""Objects with a method `predict`, which is what they stand for where a function is wanted."""

import functools
import gc
import pickle
import re
import weakref

import numpy as np
import pytest

import xpapply

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(200, 5))
TARGET = ROWS[:, 0] * 2 + ROWS[:, 1]
LABELS = np.digitize(ROWS[:, 0], [-0.5, 0.5])
WORDS = np.array(["a", "bbb", "cc"])[LABELS]
FEW, MANY = RNG.normal(size=(4, 5, 5)), RNG.normal(size=(2, 5, 300))


pytestmark = pytest.mark.usefixtures("quiet")


def loop(m, axis, a):
    return np.apply_along_axis(lambda v: m.predict(v.reshape(1, -1))[0], axis, a)


def same(got, want):
    assert (type(got), got.shape, got.dtype) == (type(want), want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def boosted(name, target=TARGET):
    lightgbm = pytest.importorskip("lightgbm")
    return getattr(lightgbm, name)(n_estimators=3, verbose=-1, num_threads=1).fit(ROWS, target)


def regressor():
    return boosted("LGBMRegressor")


def classifier():
    return boosted("LGBMClassifier", LABELS)


def booster():
    return boosted("LGBMRegressor").booster_


def pipeline():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), boosted("LGBMRegressor")).fit(ROWS, TARGET)


def searched():
    from sklearn.model_selection import GridSearchCV

    grid = {"num_leaves": [3, 7]}
    return GridSearchCV(boosted("LGBMRegressor"), grid, cv=2).fit(ROWS, TARGET)


def bagged():
    from sklearn.ensemble import BaggingRegressor

    return BaggingRegressor(boosted("LGBMRegressor"), 2, random_state=0).fit(ROWS, TARGET)


def xgboosted():
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBRegressor(n_estimators=3).fit(ROWS, TARGET)


def catboosted():
    catboost = pytest.importorskip("catboost")
    return catboost.CatBoostRegressor(iterations=3, verbose=False).fit(ROWS, TARGET)


class Own:
    """An estimator of one's own."""

    def __init__(self):
        self.weights = np.linspace(-1, 1, 15).reshape(5, 3)

    def predict(self, x):
        return np.tanh(x @ self.weights)


class OneNumber(Own):
    def predict(self, x):
        return np.tanh(x @ self.weights).sum(1)


class AList(Own):
    def predict(self, x):
        return [float(row.sum()) for row in x]


MAKE = [regressor, classifier, booster, pipeline, searched, bagged, xgboosted, catboosted]
MAKE += [Own, OneNumber]


@pytest.mark.parametrize("make", MAKE)
def test_objects_stand_for_predict(make):
    m = make()
    few = MANY[..., :40]
    wanted = loop(m, 1, MANY)
    for a in (FEW, MANY, few.astype(np.float32), np.asfortranarray(few)):
        want = wanted if a is MANY else loop(m, 1, a)
        same(xpapply.apply_along_axis(m, 1, a), want)
        same(xpapply.apply_along_axis(f=m, axis=1, arr=a), want)
        same(xpapply.apply_along_axis(m, 1, a), want)  # again
        with xpapply.options(engine="loop"):
            same(xpapply.apply_along_axis(m, 1, a[..., :9]), want[..., :9])
    plan, want = xpapply.explain(m, 1, MANY), wanted
    assert plan.vectorized, plan.reasons
    assert (plan.out_shape, plan.out_dtype) == (want.shape, want.dtype.name)
    same(plan(MANY, 1), want)


def test_whole_rows_go_to_predict_in_batches(monkeypatch):
    m, sizes = regressor(), []
    real = type(m).predict

    @functools.wraps(real)
    def counting(self, X, **kwargs):
        sizes.append(len(X))
        return real(self, X, **kwargs)

    monkeypatch.setattr(type(m), "predict", counting)
    plan = xpapply.explain(m, 1, MANY)
    sizes.clear()
    plan(MANY, 1)
    assert max(sizes) > 500
    assert len(sizes) < 20


@pytest.mark.parametrize("make", [regressor, Own, OneNumber])
def test_several_axes(make):
    m = make()
    a = RNG.normal(size=(40, 5, 50, 1))
    rows = a.transpose(0, 2, 1, 3).reshape(-1, 5)
    want = np.asarray(m.predict(rows))
    want = want.reshape(40, 50, *want.shape[1:])
    got = xpapply.apply_along_axis(m, (1, 3), a)
    if want.ndim > 2:
        want = np.moveaxis(want, -1, 1)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [regressor, Own, OneNumber, AList])
def test_vectorize(make):
    m = make()
    rows = np.ascontiguousarray(np.moveaxis(MANY, 1, -1))
    want = loop(m, -1, rows)
    f = xpapply.vectorize(m, signature="(n)->(k)" if want.ndim > 2 else "(n)->()")
    with xpapply.options(fallback="silent"):
        same(f(rows), want)
        same(f(rows[:2, :2]), want[:2, :2])


def test_results_in_lists():
    m = AList()
    with xpapply.options(fallback="silent"):
        for a in (FEW, MANY):
            same(xpapply.apply_along_axis(m, 1, a), loop(m, 1, a))


def test_isotonic_regression():
    """Its samples are numbers, or rows of one."""
    pytest.importorskip("sklearn")
    from sklearn.isotonic import IsotonicRegression
    from sklearn.pipeline import make_pipeline

    m = IsotonicRegression(out_of_bounds="clip").fit(ROWS[:, 0], ROWS[:, 1])
    for one in (m, make_pipeline(m).fit(ROWS[:, :1], ROWS[:, 1])):
        for a in (FEW[:, :1], MANY[:, :1]):
            want = loop(one, 1, a)
            same(xpapply.apply_along_axis(one, 1, a), want)
        assert xpapply.explain(one, 1, MANY[:, :1]).vectorized
        with pytest.raises(ValueError, match="1d array or 2d array with 1 feature"):
            xpapply.apply_along_axis(one, 1, MANY)
    np.testing.assert_allclose(xpapply.vectorize(m)(ROWS[:, 0]), m.predict(ROWS[:, 0]))
    # the method itself takes the slice as its samples
    same(
        xpapply.apply_along_axis(m.predict, 1, FEW),
        np.apply_along_axis(m.predict, 1, FEW),
    )


def test_labels_that_are_texts_keep_the_dtype_of_the_classes():
    """As those of scikit-learn's own: NumPy's loop would cut them to the length of the first."""
    m = boosted("LGBMClassifier", WORDS)
    for a in (FEW, MANY):
        want = m.predict(np.moveaxis(a, 1, -1).reshape(-1, 5)).reshape(a.shape[0], a.shape[2])
        for options in ({}, {"engine": "loop"}):
            with xpapply.options(**options):
                got = xpapply.apply_along_axis(m, 1, a)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    assert xpapply.explain(m, 1, MANY).vectorized


def test_what_is_not_fitted_says_so_itself():
    lightgbm = pytest.importorskip("lightgbm")
    from sklearn.exceptions import NotFittedError

    for options in ({}, {"engine": "loop"}):
        with xpapply.options(**options), pytest.raises(NotFittedError) as caught:
            xpapply.apply_along_axis(lightgbm.LGBMRegressor(), 1, MANY)
        assert "raised at the slice arr[0, :, 0]" in caught.value.__notes__


def test_the_wrong_number_of_features():
    with pytest.raises(Exception, match="X has 3 features") as caught:
        xpapply.apply_along_axis(regressor(), 1, MANY[:, :3])
    assert "raised at the slice arr[0, :, 0]" in caught.value.__notes__


def test_fitted_again_and_changed():
    m = regressor()
    before = xpapply.apply_along_axis(m, 1, MANY)
    m.fit(ROWS, -TARGET)
    same(xpapply.apply_along_axis(m, 1, MANY), loop(m, 1, MANY))
    assert not np.allclose(before, loop(m, 1, MANY))
    own = Own()
    xpapply.apply_along_axis(own, 1, MANY)
    own.weights[0] = 9.0
    same(xpapply.apply_along_axis(own, 1, MANY), loop(own, 1, MANY))


def test_rows_that_depend_on_each_other_are_not_brought_together():
    class Centred(Own):
        def predict(self, x):
            return (x - x.mean(0)).sum(1)

    m = Centred()
    same(xpapply.apply_along_axis(m, 1, MANY), loop(m, 1, MANY))


def test_they_are_not_kept_alive():
    m = Own()
    xpapply.apply_along_axis(m, 1, MANY)
    xpapply.explain(m, 1, MANY)
    gone = weakref.ref(m)
    del m
    gc.collect()
    assert gone() is None


def test_plans_that_are_pickled():
    plan = xpapply.compile(OneNumber(), (5,), "float64")
    got = pickle.loads(pickle.dumps(plan))(MANY, 1)
    np.testing.assert_allclose(got, loop(OneNumber(), 1, MANY), rtol=1e-9, atol=1e-12)


def test_objects_that_are_called_are_called():
    class Both(Own):
        def __call__(self, v):
            return v.max()

    same(xpapply.apply_along_axis(Both(), 1, MANY), MANY.max(1))


@pytest.mark.parametrize("call", [xpapply.apply_along_axis, xpapply.explain])
def test_what_has_no_predict_is_no_function(call):
    class Scaler:
        def fit(self, x):
            raise AssertionError("only looked at")

        transform = fit

    class Named:
        predict = "not a method"

    for f, line in (
        (Scaler(), "write lambda v: model.transform(v.reshape(1, -1))[0]"),
        (Named(), "an object of class"),
        (object(), "an object of class object"),
    ):
        with pytest.raises(TypeError, match="f is not a function: found .*" + re.escape(line)):
            call(f, 1, FEW)
