"""Methods of models that take samples in rows, given bare: tried with a batch of one slice."""

import functools
import gc
import warnings
import weakref

import numpy as np
import pytest

import xpapply

RNG = np.random.default_rng(0)
ARR = RNG.normal(size=(40, 4, 30))
FEW = ARR[:10, :, :20]
ROWS = np.moveaxis(ARR, 1, -1).reshape(-1, 4)
LABELS = np.digitize(ROWS[:, 0], [-0.5, 0.5])
SAYS = "called with batches of one slice: it wants 2-D data"


class Model:
    """As a network of Keras: `predict` of a batch, with an error of its own for a slice."""

    def __init__(self, says="expected min_ndim=2, found ndim=1"):
        self.weights = RNG.normal(size=(4, 3))
        self.says, self.scale, self.takes_slices = says, 1.0, False

    def predict(self, x, verbose="auto"):
        x = np.asarray(x)
        if x.ndim != 2 and not self.takes_slices:
            raise ValueError(self.says)
        return np.tanh(x @ self.weights) * self.scale

    __call__ = predict_on_batch = transform = predict

    def predict_classes(self, x):
        return self.predict(x).argmax(1)

    def fit_transform(self, x):
        raise AssertionError if np.ndim(x) == 2 else ValueError(self.says)

    classify = fit_transform


def one_row(f, *args, **kwargs):
    return lambda v: f(v[None], *args, **kwargs)[0]


def check(f, arr=ARR, axis=1, exact=False, **kwargs):
    """All ways to run `f` give what it gives for a batch of one, slice by slice."""
    want = np.apply_along_axis(one_row(f, **kwargs), axis, arr)
    for options in ({}, {"engine": "loop"}, {"fallback": "raise"}):
        with xpapply.options(**options):
            got = xpapply.apply_along_axis(f, axis, arr, **kwargs)
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        if exact:
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)
    return want


# --- estimators -----------------------------------------------------------------------------


def logistic():
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(ROWS, LABELS)


def scaler():
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit(ROWS)


def mixture():
    from sklearn.mixture import GaussianMixture

    return GaussianMixture(2, random_state=0).fit(ROWS)


def forest():
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(3, random_state=0).fit(ROWS, ROWS[:, 1])


def network():
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((5,), max_iter=400, tol=1e-2, random_state=0).fit(ROWS, LABELS)


def pipeline():
    from sklearn.pipeline import make_pipeline

    return make_pipeline(scaler(), logistic()).fit(ROWS, LABELS)


ESTIMATORS = [
    (logistic, "predict", ()),
    (logistic, "predict_proba", (3,)),
    (logistic, "predict_log_proba", (3,)),
    (logistic, "decision_function", (3,)),
    (scaler, "transform", (4,)),
    (scaler, "inverse_transform", (4,)),
    (mixture, "score_samples", ()),
    (forest, "predict", ()),
    (network, "predict_proba", (3,)),
    (pipeline, "predict_proba", (3,)),
]


@pytest.fixture
def sklearn():
    return pytest.importorskip("sklearn")


@pytest.mark.parametrize(("make", "name", "shape"), ESTIMATORS)
def test_methods_of_estimators(sklearn, make, name, shape):
    method = getattr(make(), name)
    want = check(method, FEW)
    assert want.shape == (10, *shape, 20)
    p = xpapply.explain(method, 1, FEW)
    assert p.vectorized
    assert p.out_shape == want.shape
    assert p.out_dtype == want.dtype.name
    with xpapply.options(engine="sklearn.batch"):
        p = xpapply.explain(method, 1, FEW)
        np.testing.assert_allclose(p(FEW, 1), want, rtol=1e-10, atol=1e-13)
    assert p.kernels[0].endswith("of blocks of up to 16,384 slices")


def test_estimators_are_called_for_blocks(sklearn, monkeypatch):
    method = logistic().decision_function
    sizes = []
    real = type(method.__self__).decision_function

    @functools.wraps(real)
    def counting(self, x):
        sizes.append(np.shape(x)[0])
        return real(self, x)

    monkeypatch.setattr(type(method.__self__), "decision_function", counting)
    with xpapply.options(engine="sklearn.batch"):
        p = xpapply.explain(method.__self__.decision_function, 1, ARR)
        p(ARR, 1)
    assert max(sizes) > 500
    assert len(sizes) < 20


@pytest.mark.parametrize("package", ["lightgbm.sklearn", "xgboost.sklearn", "catboost.core"])
def test_models_made_after_estimators(package, monkeypatch):
    """Their code is compiled, or more than can be traced; their methods take each row by itself."""

    class Boosted:
        def __init__(self):
            self.sizes, self.factor = [], 1.0

        def predict(self, x):
            global _last
            if np.ndim(x) != 2:
                raise ValueError("Input numpy.ndarray or list must be 2 dimensional")
            self.sizes.append(len(x))
            _last = hash(str(x))  # what cannot be traced
            return np.asarray(x)[:, 0] * self.factor

    monkeypatch.setattr(Boosted, "__module__", package)
    model = Boosted()
    for method in (model.predict, lambda v: model.predict(v.reshape(1, -1))[0]):
        p = xpapply.explain(method, 1, ARR)
        assert "estimator" in p.kernels[0]
        np.testing.assert_array_equal(p(ARR, 1), ARR[:, 0])
        model.sizes.clear()
        p(ARR, 1)
        assert max(model.sizes) > 1000
    model.factor = 2.0
    with xpapply.options(fallback="raise"):
        got = xpapply.apply_along_axis(model.predict, 1, ARR)
    np.testing.assert_array_equal(got, 2 * ARR[:, 0])


def test_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, min_child_samples=2)
    model.fit(ROWS, ROWS[:, 0])
    for method in (model.predict, model.booster_.predict):
        check(method, FEW)
        assert xpapply.explain(method, 1, FEW).engine == "numpy"


def test_explaining_first_changes_nothing(sklearn):
    """A reason that is remembered was once taken for the loop's, with a warning."""
    for method in (Model().predict, logistic().predict):
        xpapply.explain(method, 1, ARR)
        check(method)


def test_estimators_that_are_fitted_again(sklearn):
    model = logistic()
    before = check(model.predict_proba, FEW)
    model.fit(ROWS, LABELS[::-1])
    assert not np.allclose(check(model.predict_proba, FEW), before)


def test_methods_with_further_arguments(sklearn):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.tree import DecisionTreeClassifier

    rows = ROWS.astype(np.float32)
    tree = DecisionTreeClassifier(max_depth=3).fit(rows, LABELS)
    process = GaussianProcessRegressor(optimizer=None).fit(rows[:9], rows[:9, 0])
    near = KNeighborsRegressor(3).fit(rows, rows[:, 1])
    arr = np.ascontiguousarray(FEW, np.float32)
    for f, further in (
        (tree.predict, {"check_input": True}),
        (functools.partial(tree.predict, check_input=True), {}),
        (tree.apply, {}),
        (process.predict, {"return_std": True}),
        (lambda v: tree.predict_proba(X=v[None], check_input=True)[0], {}),
        (lambda v: process.predict(v[None], return_std=True)[1][0], {}),
        (lambda v: np.hstack(process.predict(v[None], True)), {}),
        (lambda v: near.kneighbors(v[None], 2)[1][0], {}),
        (lambda v: near.kneighbors(v[None])[0][0] + near.kneighbors()[0][0], {}),
    ):
        with xpapply.options(engine="loop"):
            want = xpapply.apply_along_axis(f, 1, arr, **further)
        p = xpapply.explain(f, 1, arr, **further)
        assert p.vectorized, p.reasons
        with xpapply.options(fallback="raise"):
            got = xpapply.apply_along_axis(f, 1, arr, **further)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_arguments_of_methods_that_depend_on_the_slice(sklearn):
    model = logistic()
    for f, says in (
        (lambda v: model.predict(v[None], v)[0], "arguments of model.predict that depend on"),
        (lambda v: model.predict(v[None], wrong=1)[0], "unexpected keyword argument 'wrong'"),
    ):
        p = xpapply.explain(f, 1, FEW)
        assert p.engine == "loop"
        assert says in p.reasons[0]
        assert "Estimator" not in p.reasons[0]


def test_tensors_dask_arrays_lists_and_masked_arrays(sklearn, torch):
    method = logistic().predict_proba
    want = check(method, FEW)
    tensors = torch.from_numpy(FEW)
    got = xpapply.apply_along_axis(method, 1, tensors)
    assert type(got) is torch.Tensor
    assert xpapply.explain(method, 1, tensors).vectorized
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)
    np.testing.assert_allclose(xpapply.apply_along_axis(method, 0, FEW[0].tolist()), want[0])
    masked = xpapply.apply_along_axis(method, 1, np.ma.masked_array(FEW[:3]))
    np.testing.assert_allclose(masked, want[:3])
    da = pytest.importorskip("dask.array")
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(method, 1, da.from_array(FEW[:2, :, :3]))
    np.testing.assert_allclose(np.asarray(got), want[:2, :, :3])


# --- other models -----------------------------------------------------------------------------

TEXTS = [
    "Expected 2D array, got 1D array instead:\narray=[1.].",
    "Please reshape the input data into 2-dimensional matrix.",
    "Input numpy.ndarray or list must be 2 dimensional",
    'Input 0 of layer "dense" is incompatible with the layer: expected min_ndim=2, found ndim=1',
    'layer "sequential": expected shape=(None, 4), found shape=(None,)',
    "Invalid rank for input: x Got: 1 Expected: 2 Please fix either the inputs/outputs",
    "X must be two-dimensional",
    "a 2-D array is expected",
    "expected x.ndim == 2",
]


@pytest.mark.parametrize("text", TEXTS)
def test_errors_that_ask_for_batches(text):
    model = Model(text)
    want = check(model.predict)
    np.testing.assert_allclose(want, np.tanh(np.einsum("abc,bk->akc", ARR, model.weights)))


def test_methods_and_objects():
    model = Model()
    for f in (model.predict_on_batch, model.transform, model.predict_classes, model):
        check(f)
        assert xpapply.explain(f, 1, ARR).kernels[-1] == SAYS
        check(f, ARR[:2, :, :3])
    check(functools.partial(model.predict, verbose=0))
    several = Batched(lambda x: (x.sum(1), x.max(1)))
    got = xpapply.apply_along_axis(several.predict, 1, ARR)
    np.testing.assert_allclose(got, np.stack([ARR.sum(1), ARR.max(1)], 1))
    assert xpapply.explain(several.predict, 1, ARR).engine == "numpy"
    check(model.predict, verbose=0)


def test_a_slice_that_is_taken_is_not_put_in_a_batch():
    model = Model()
    for takes, shape in ((True, (40, 3, 30)), (False, (40, 3, 30)), (True, (40, 3, 30))):
        model.takes_slices = takes
        assert check(model.predict, exact=False).shape == shape
        assert (SAYS in xpapply.explain(model.predict, 1, ARR).kernels) != takes
    model.says = "x is wrong"
    model.takes_slices = False
    with pytest.raises(ValueError, match="x is wrong"):
        xpapply.apply_along_axis(model.predict, 1, ARR)


def test_attributes_that_change():
    model = Model()
    before = check(model.predict)
    model.scale = 2.0
    np.testing.assert_allclose(check(model.predict), 2 * before)
    model.weights[:] = 0.0
    assert not check(model.predict).any()


def test_models_are_not_kept_alive():
    model = Model()
    check(model.predict)
    xpapply.explain(model.predict, 1, ARR)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_models_that_are_called_slice_by_slice_get_batches_of_one():
    class Counts(Model):
        calls = 0

        def predict(self, x):
            self.calls += 1
            return super().predict(x)

    model = Counts()
    with pytest.warns(xpapply.FallbackWarning, match=r"Counts\.predict .*attribute calls"):
        got = xpapply.apply_along_axis(model.predict, 1, ARR)
    assert 1200 <= model.calls < 1210
    np.testing.assert_allclose(got, check(Model.predict.__get__(model)))


# --- what is not tried --------------------------------------------------------------------------


def raises_as_now(f, arr=ARR, match="min_ndim=2", error=ValueError):
    for options in ({}, {"engine": "loop"}):
        with xpapply.options(**options), pytest.raises(error, match=match) as caught:
            xpapply.apply_along_axis(f, 1, arr)
        assert "raised at the slice arr[0, :, 0]" in caught.value.__notes__
    assert SAYS not in "; ".join(xpapply.explain(f, 1, arr).kernels)
    return caught.value


def test_functions_are_not_tried():
    model = Model()

    def predict(v):
        return model.predict(v)

    class Memorized:
        """As joblib's."""

        def __init__(self, f):
            functools.update_wrapper(self, f)

        def __call__(self, v):
            return self.__wrapped__(v)

    for f in (predict, lambda v: model.predict(v), functools.partial(predict), Memorized(predict)):
        raises_as_now(f)


def test_methods_that_may_change_the_model_are_not_tried(sklearn):
    raises_as_now(Model().fit_transform)
    raises_as_now(Model().classify)
    model = scaler()
    for f in (model.fit_transform, model.fit, model.partial_fit):
        raises_as_now(f, match="2D")
    assert not hasattr(model, "mean_")  # fit forgets first, and learned nothing from a batch


class Batched:
    """Functions of a whole batch, which have no result for a sample."""

    def __init__(self, result):
        self.result = result

    def predict(self, x):
        if np.ndim(x) != 2:
            raise ValueError("expected min_ndim=2")
        return self.result(x)


@pytest.mark.parametrize(
    "result",
    [
        lambda x: x - x.mean(0),
        lambda x: np.linalg.svd(x, compute_uv=False),
        lambda x: x.sum(),
        lambda x: x.T,
        lambda x: (x, x.T),
        lambda x: (),
        lambda x: {"labels": x},
        lambda x: None,
        lambda x: x[:0],
    ],
)
def test_results_that_are_no_rows(result):
    raises_as_now(Batched(result).predict)


def test_a_batch_that_raises_is_told_of():
    def wrong(x):
        raise TypeError("3 features are expected\nnot 4")

    error = raises_as_now(Batched(wrong).predict)
    assert "a batch of one slice raises TypeError: 3 features are expected" in error.__notes__


def test_a_later_slice_that_raises():
    class Sometimes(Model):
        def predict(self, x):
            if x[0] > 1e3:
                raise ValueError("expected min_ndim=2")
            return x * 2

    arr = ARR.copy()
    arr[7, 0, 3] = 1e4
    for options in ({}, {"engine": "loop"}):
        with xpapply.options(**options), pytest.raises(ValueError, match="min_ndim") as caught:
            xpapply.apply_along_axis(Sometimes().predict, 1, arr)
        assert "raised at the slice arr[7, :, 3]" in caught.value.__notes__


def test_slices_that_the_model_refuses(sklearn):
    method = logistic().predict
    arr = FEW.copy()
    arr[-1, 0, -1] = np.nan
    for options in ({}, {"engine": "loop"}):
        with (
            xpapply.options(fallback="silent", **options),
            pytest.raises(ValueError, match="contains NaN") as caught,
        ):
            xpapply.apply_along_axis(method, 1, arr)
        assert "raised at the slice arr[9, :, 19]" in caught.value.__notes__


def test_nothing_is_said_where_all_goes_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(Model().predict)


# --- vectorize --------------------------------------------------------------------------------


@pytest.mark.parametrize(("made", "method", "core"), ESTIMATORS)
def test_methods_under_vectorize(sklearn, made, method, core):
    f = getattr(made(), method)
    rows = np.moveaxis(ARR, 1, -1)
    want = np.apply_along_axis(one_row(f), -1, rows)
    vectorized = xpapply.vectorize(f, signature="(n)->(k)" if core else "(n)->()")
    some = np.arange(30) % 3 == 0
    for options in ({}, {"engine": "loop"}, {"fallback": "raise"}):
        with xpapply.options(**options):
            np.testing.assert_allclose(vectorized(rows), want, rtol=1e-10, atol=1e-13)
            got = vectorized(rows, where=some, fill=0)
            np.testing.assert_allclose(got[:, some], want[:, some], rtol=1e-10, atol=1e-13)
    assert vectorized(ARR, axes=[1, -1] if core else [1, ()]).shape == want.shape
    np.testing.assert_allclose(vectorized(rows[0, 0]), want[0, 0], rtol=1e-12)


@pytest.mark.parametrize("how", ["fill", "warn"])
def test_on_error_is_for_slices_not_for_their_dims(how):
    model = Model()
    vectorized = xpapply.vectorize(model.predict, signature="(n)->(k)", on_error=how)
    np.testing.assert_allclose(vectorized(ROWS), np.tanh(ROWS @ model.weights), rtol=1e-10)


def test_explain_of_vectorize_says_so():
    p = xpapply.vectorize(Model().predict, signature="(n)->(k)").explain(ROWS)
    assert p.vectorized
    assert p.kernels[-1] == SAYS
    np.testing.assert_allclose(p(ROWS).shape, (len(ROWS), 3))


def test_of_several_arrays_no_batches_are_made():
    with pytest.raises(ValueError, match="min_ndim"):
        xpapply.vectorize(Model().predict, signature="(n),()->(k)")(ROWS[:10], 0)
