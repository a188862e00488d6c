"""Models that skl2onnx writes: as onnxruntime and scikit-learn compute them."""

import numpy as np
import pytest
from onnx_models import by_runtime

import xpapply
from xpapply.models.onnx import load

skl2onnx = pytest.importorskip("skl2onnx")
from sklearn import decomposition, ensemble, linear_model, neural_network, pipeline, svm  # noqa: E402
from sklearn import preprocessing as pre  # noqa: E402

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4)).astype(np.float32)
Y = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.1
TOL = {"rtol": 1e-5, "atol": 1e-6}
LABELS = (np.digitize(Y, [-1.0, 1.0]) * 3 + 2).astype(np.int64)  # 2, 5, 8


def written(estimator, path, **options):
    kind = skl2onnx.common.data_types.FloatTensorType([None, 4])
    made = skl2onnx.to_onnx(
        estimator,
        initial_types=[("x", kind)],
        options={id(estimator): options} if options else None,
    )
    path.write_bytes(made.SerializeToString())
    return path


GRAPHS = {
    "linear": linear_model.LinearRegression(),
    "ridge": linear_model.Ridge(),
    "two targets": linear_model.LinearRegression(),
    "mlp": neural_network.MLPRegressor(hidden_layer_sizes=(8, 8), max_iter=20, random_state=0),
    "scaled": pipeline.make_pipeline(pre.StandardScaler(), linear_model.Lasso(0.01)),
    "scaler": pre.StandardScaler(),
    "min and max": pre.MinMaxScaler(),
    "normalizer": pre.Normalizer(),
    "pca": decomposition.PCA(2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", GRAPHS)
def test_regressors_and_transformers(tmp_path, name):
    y = np.stack([Y, Y**2], 1) if name == "two targets" else Y
    path = written(GRAPHS[name].fit(X, y), tmp_path / "model.onnx")
    f = load(path)
    plan = xpapply.explain(f, 1, X)
    assert plan.graph is not None, plan.reasons
    got = xpapply.apply_along_axis(f, 1, X)
    want = by_runtime(path, X)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    direct = getattr(GRAPHS[name], "predict", None) or GRAPHS[name].transform
    np.testing.assert_allclose(got.ravel(), np.ravel(direct(X)), rtol=1e-3, atol=1e-4)


CLASSIFIERS = {
    "logistic": linear_model.LogisticRegression(),
    "scaled": pipeline.make_pipeline(pre.StandardScaler(), linear_model.LogisticRegression()),
    "mlp": neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=20, random_state=0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(tmp_path, name, classes, zipmap):
    labels = LABELS if classes == 3 else (LABELS > 3) * 4
    estimator = CLASSIFIERS[name].fit(X, labels)
    options = {} if zipmap else {"zipmap": False}
    path = written(estimator, tmp_path / "model.onnx", **options)
    with pytest.raises(xpapply.InputError, match=r"2 outputs: .*Say which one: output="):
        load(path)
    second = "output_probability" if zipmap else "probabilities"
    f = load(path, output=second)
    assert xpapply.explain(f, 1, X).graph is not None
    got = xpapply.apply_along_axis(f, 1, X)
    np.testing.assert_allclose(got, estimator.predict_proba(X), rtol=1e-3, atol=1e-4)
    f = load(path, output="output_label" if zipmap else "label")
    plan = xpapply.explain(f, 1, X)
    assert plan.graph is not None, plan.reasons
    got = xpapply.apply_along_axis(f, 1, X)
    assert got.dtype == np.int64
    want = by_runtime(path, X, "output_label" if zipmap else "label")
    np.testing.assert_array_equal(got, want)


def test_labels_that_are_texts(tmp_path):
    estimator = linear_model.LogisticRegression().fit(X, np.array(["a", "b", "c"])[LABELS // 3])
    path = written(estimator, tmp_path / "model.onnx", zipmap=False)
    with pytest.raises(xpapply.InputError, match=r"'label'.*is no array of numbers.*probabilities"):
        load(path, output="label")
    f = load(path, output="probabilities")
    np.testing.assert_allclose(
        xpapply.apply_along_axis(f, 1, X), estimator.predict_proba(X), rtol=1e-3, atol=1e-4
    )


TREES = {
    "forest": ensemble.RandomForestRegressor(5, random_state=0),
    "boosting": ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0),
    "svm": svm.SVR(),
}


@pytest.mark.parametrize("name", TREES)
def test_what_has_no_graph_runs_through_onnxruntime(tmp_path, name):
    path = written(TREES[name].fit(X, Y), tmp_path / "model.onnx")
    f = load(path)
    plan = xpapply.explain(f, 0, X.T)
    assert plan.engine == "onnx.batch"
    assert plan.vectorized
    assert any("no graph" in reason and "node" in reason for reason in plan.reasons)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 0, X.T), by_runtime(path, X).T, **TOL)
    np.testing.assert_allclose(f(X[3]), by_runtime(path, X[3:4])[0], **TOL)
    big = np.tile(X, (300, 1)).reshape(50, 720, 4)
    got = xpapply.apply_along_axis(f, 2, big)
    np.testing.assert_allclose(got, by_runtime(path, big.reshape(-1, 4)).reshape(50, 720, 1), **TOL)
    import torch

    got = xpapply.apply_along_axis(f, 1, torch.from_numpy(X))
    np.testing.assert_allclose(got.numpy(), by_runtime(path, X), **TOL)
